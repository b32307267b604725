"""How noise limits what results reveal about people (``docs/guarantee.md``).

- ``loss``: what a loss means for an attacker's guess;
- ``scales``: how far an exchange of two rows moves a result, from one's own table;
- ``gaussian``: exact draws from the system's random source;
- ``charges`` and ``ledger``: what several runs reveal to one partner together.
"""

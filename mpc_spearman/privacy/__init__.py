"""How noise limits what results reveal about people (``docs/guarantee.md``).

- ``loss``: what a loss allows anyone to know, and how much noise one takes;
- ``scales``: how far an exchange of two rows moves a result, from one's own table;
- ``gaussian``: exact draws from the system's random source;
- ``charges`` and ``ledger``: what several runs with one partner give away together.
"""

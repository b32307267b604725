"""How noise limits what results reveal about people (``docs/guarantee.md``).

- ``loss``: what a loss means for an attacker's guess;
- ``scales``: the ranges and the diameter of an owner's vectors, and the noise that follows from them;
- ``statements``: what an owner states about its columns, and how its vectors are kept within that;
- ``gaussian``: exact draws from the system's random source;
- ``choice`` and ``advice``: a noisy choice of the strongest features; how much noise a plan will have;
- ``charges`` and ``ledger``: what several runs reveal to one partner together.
"""

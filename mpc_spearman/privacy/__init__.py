"""What a data owner asks of its own columns before it sends anything. Pure functions of its own ranks.

- ``precision``: the grid on which results are published;
- ``budget``: how many bits about a column they may tell; ``leverage``: how far columns single out rows;
- ``groups``: that no few rows stand apart in a column, or in several (``combinations``);
- ``examine``: all of it at once, on one's own table; ``findings``: how a broken rule is said, or refused;
- ``gaussian``, ``scales`` and ``loss``: noise, how much of it hides whose row is whose, what a loss is;
- ``charges`` and ``ledger``: what several runs give away together.
"""

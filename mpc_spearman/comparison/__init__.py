"""What protocols, schemes and levels cost: real runs of several plans at several sizes, side by side.

`variants` names what a plan measures, `sweep` makes tables and runs, `table` holds the figures tidily and
puts them on another network, `plots` draws them. `prediction` makes such a table of a large run from a few
small ones.
"""

from mpc_spearman.comparison.sweep import compare
from mpc_spearman.comparison.table import (
    LAN,
    RUN,
    TIDY,
    WAN,
    Link,
    break_even,
    machine,
    on_network,
    per_run,
)

__all__ = ["LAN", "RUN", "TIDY", "WAN", "Link", "break_even", "compare", "machine", "on_network", "per_run"]

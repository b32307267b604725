"""Work out what runs of up to 10^9 rows and 1,000 columns would cost, without one.

    python benchmarks/on_paper.py [--write]

From one calibration of this machine, for parties on hosts of their own with 8 cores, 1 Gbit/s and 20 ms
apart; `--write` puts the table into docs/costs.md.
"""

from __future__ import annotations

import sys

import measuring
from rich.filesize import decimal

from mpc_spearman.comparison import Link, on_network, per_run
from mpc_spearman.comparison.calibration import Machine
from mpc_spearman.comparison.prediction import Host, estimate
from mpc_spearman.comparison.variants import Size, alternatives
from mpc_spearman.config import load_plan
from mpc_spearman.errors import BoundError
from mpc_spearman.units import human_seconds

PLAN = {"parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}}
ROWS = (10_000, 1_000_000, 100_000_000, 1_000_000_000)
WIDTHS = (10, 100, 1_000)
HOST, LINK = Host(8, shared=False), Link(1e9, 0.02)


def main() -> None:
    """Work out every size and print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    machine = Machine()
    rows = []
    for variant in alternatives(load_plan(PLAN)):
        for n in ROWS:
            cells = []
            for columns in WIDTHS:
                print(f"{variant}, {n} rows, {columns} columns", file=sys.stderr)
                try:
                    table = on_network(estimate(variant, Size(n, columns, columns), machine, HOST), LINK)
                except BoundError:
                    cells.append("–")
                    continue
                (run,) = per_run(table).to_dict("records")
                figures = (
                    human_seconds(run["modelled"]),
                    *(decimal(int(run[key])) for key in ("bytes", "memory")),
                )
                cells.append(", ".join(figures))
            rows.append([variant.scheme, f"`{variant.level}`", f"{n:,}", *cells])
    heads = ["scheme", "level", "rows", *(f"{columns:,} × {columns:,}" for columns in WIDTHS)]
    text = f"{measuring.table(heads, rows)}\nFrom a calibration of {measuring.environment()}\n"
    measuring.show(text, __file__, write=options.write)


if __name__ == "__main__":
    main()

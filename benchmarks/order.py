"""Measure what opening only the order of m_B features costs, beyond the product; print docs/costs.md's table.

    python benchmarks/order.py [--write]

Each line is one run with three processes on this machine, over made-up tables of 1,000 rows: the phase
`reveal` of the party that takes longest, what the three send each other in it, and how many
messages follow one another. `--write` puts the table into docs/costs.md.
"""

from __future__ import annotations

import sys

import measuring
import numpy as np
import pandas as pd
from rich.filesize import decimal

from mpc_spearman import run_local
from mpc_spearman.config import AGREE_TO_ALL
from mpc_spearman.units import human_seconds

ROWS, SOURCE_COLUMNS, TARGET_COLUMNS = 1000, 10, (10, 30, 100, 300)
PLAN = {
    "reveal": "ranking",
    "parties": {
        "coordinator": {"name": "C"},
        "target": {"name": "B", "policy": dict(AGREE_TO_ALL)},
        "sources": [{"name": "A", "policy": dict(AGREE_TO_ALL)}],
    },
}


def main() -> None:
    """Run all sizes and print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    rows = []
    for columns in TARGET_COLUMNS:
        print(f"{columns} columns", file=sys.stderr)
        rows.append([columns, *cost(columns, None), *cost(columns, 3)])
    heads = ["m_B", "seconds", "sent in all", "rounds", "`top: 3`: seconds", "sent in all", "rounds"]
    text = measuring.table(heads, rows)
    measuring.show(f"{text}\n{measuring.environment('torch')}\n", __file__, write=options.write)


def cost(columns: int, top: int | None) -> list[str]:
    """Run once; return seconds, bytes and rounds of the phase `reveal`."""
    rng = np.random.default_rng(columns)
    ids = [f"{row:04d}" for row in range(ROWS)]
    tables = {
        party: pd.DataFrame({"id": ids} | {f"{party}{i}": rng.normal(size=ROWS) for i in range(m)})
        for party, m in (("A", SOURCE_COLUMNS), ("B", columns))
    }
    found = run_local(PLAN, tables, top=top).cost
    spent = found[found["phase"] == "reveal"]
    seconds = (spent["seconds"] + spent["wait_seconds"]).max()
    return [human_seconds(seconds), decimal(int(spent["bytes_sent"].sum())), str(spent["rounds"].max())]


if __name__ == "__main__":
    main()

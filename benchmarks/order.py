"""Measure what opening only the order of m_B features costs, beyond the product; print docs/costs.md's table.

    python benchmarks/order.py [--write]

Each line is one run with three processes on this machine, over made-up tables of 1,000 rows: the phase
`reveal` of the party that takes longest, what the three send each other in it, and how many
messages follow one another. `--write` puts the table into docs/costs.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rich.filesize import decimal

from mpc_spearman import run_local
from mpc_spearman.config import AGREE_TO_ALL, RULES_OFF
from mpc_spearman.results.units import human_seconds

PAGE = Path(__file__).parents[1] / "docs" / "costs.md"
BEGIN, END = "<!-- made by: python benchmarks/order.py --write -->\n", "<!-- end of what is made -->\n"
ROWS, SOURCE_COLUMNS, TARGET_COLUMNS = 1000, 10, (10, 30, 100, 300)
PLAN = {
    "reveal": "ranking",
    "privacy": dict(RULES_OFF),
    "parties": {
        "coordinator": {"name": "C"},
        "target": {"name": "B", "policy": dict(AGREE_TO_ALL)},
        "sources": [{"name": "A", "policy": dict(AGREE_TO_ALL)}],
    },
}


def main() -> None:
    """Run all sizes and print, or write, the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/costs.md")
    options = parser.parse_args()
    lines = [
        "| m_B | seconds | sent in all | rounds | `top: 3`: seconds | sent in all | rounds |",
        "|---" * 7 + "|",
    ]
    for columns in TARGET_COLUMNS:
        print(f"{columns} columns", file=sys.stderr)
        lines.append(f"| {columns} | " + " | ".join([*cost(columns, None), *cost(columns, 3)]) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END, 1)[1], encoding="utf-8")


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

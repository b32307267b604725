"""Measure what each protocol, scheme and level costs; print docs/costs.md's tables.

    python benchmarks/levels.py [--write]

In the first table, of the demo's tables, every cell is one run with three processes on this machine: seconds
after start-up, and bytes on the wire. The second is of made-up tables with many rows under MPC, on which
levels take turns. `--write` puts both into docs/costs.md.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import large
import measuring
from rich.filesize import decimal

from mpc_spearman import run_local
from mpc_spearman.results.costs import Totals, totals
from mpc_spearman.units import human_seconds

LEVELS = ("differences", "coefficients", "strengths", "ranking", "explained", "canonical")
AGREED = "policy={max_reveal: [differences, explained, canonical]}"
#: And what each level gives the target by default.
CONSENT = [f"parties.target.{AGREED}", f"parties.sources.A.{AGREED}", "results.target=null"]
#: Rows, columns of each side, and how often they are run.
SIZES = ((200_000, 50, 5), (10_000_000, 4, 1))
SCHEMES = {
    "MPC": ["protocol=mpc"],
    "HE, BFV": ["protocol=he", "he.scheme=bfv"],
    "HE, Paillier, short randomness": ["protocol=he", "he.randomness=short"],
}


def main() -> None:
    """Run everything and print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    rows = []
    for name, settings in SCHEMES.items():
        cells = [
            cost("mpc.yaml", [*settings, f"reveal={level}", *CONSENT])
            if (level, settings[0]) != ("ranking", "protocol=he")
            else "–"
            for level in LEVELS
        ]
        rows.append([name, *cells])
    rows.append(
        ["HE, the paper literally, first 300 rows", cost("paper_he.yaml", []), *("–" for _ in LEVELS[1:])]
    )
    text = measuring.table(["", *(f"`{level}`" for level in LEVELS)], rows)
    heads = ("rows", "columns of each side", "level", "seconds", "of `coefficients`'", "sent in all")
    load = os.getloadavg()[0]
    many = measuring.table((*heads, "memory, data party"), [row for size in SIZES for row in beside(*size)])
    line = measuring.environment("torch", load=load)
    measuring.show(f"{text}\n{many}\nMedians; {line}\n", __file__, write=options.write)


def cost(plan: str, settings: list[str]) -> str:
    """Run a plan; say how long it took after start-up and what crossed the wire."""
    print(plan, *settings, file=sys.stderr)
    spent = totals(run_local(measuring.ROOT / "configs" / plan, overrides=settings))
    return f"{human_seconds(spent.seconds)}, {decimal(spent.wire)}"


def beside(n: int, columns: int, repeats: int) -> list[list[object]]:
    """Run the levels that whiten, and `coefficients`, in turn on the same tables of many rows."""
    spent: dict[str, list[Totals]] = {}
    with TemporaryDirectory() as folder:
        paths = {party: large.write(Path(folder), party, n, columns) for party in "AB"}

        def run(level: str) -> float:
            settings = [f"reveal={level}", *CONSENT]
            plan = measuring.ROOT / "configs" / "mpc.yaml"
            spent.setdefault(level, []).append(totals(run_local(plan, paths, overrides=settings)))
            return spent[level][-1].seconds

        ways = {level: partial(run, level) for level in ("coefficients", "explained", "canonical")}
        took = measuring.in_turn(ways, repeats, note=f"{n:,} rows:")
    rows: list[list[object]] = []
    for level, seconds in took.items():
        memory = [max(dict(one.memory)[party] for party in "AB") for one in spent[level]]
        ratio = f"{seconds / took['coefficients']:.2f}"
        cells = (human_seconds(seconds), ratio, decimal(spent[level][0].wire), decimal(int(median(memory))))
        rows.append([f"{n:,}", columns, f"`{level}`", *cells])
    return rows


if __name__ == "__main__":
    main()

"""Measure what each protocol, scheme and level costs.

    python benchmarks/levels.py [--write]

In the first table, of the demo's tables, every cell is one run with three processes on this machine: seconds
after start-up, and bytes on the wire. The second is of made-up tables with many rows under MPC, on which
levels take turns. `--write` puts both into docs/costs.md.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import large
import measuring
from rich.filesize import decimal

from mpc_spearman import Result, run_local
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

LEVELS = ("differences", "coefficients", "strengths", "ranking", "explained", "canonical")
AGREED = "policy={max_reveal: [differences, explained, canonical]}"
#: Owners agree, and each level gives the target what it does by default.
CONSENT = [f"parties.target.{AGREED}", f"parties.sources.A.{AGREED}", "results.target=null"]
#: Rows, columns of each side, and how often they are run.
SIZES = ((200_000, 50, 5), (10_000_000, 4, 1))
SCHEMES = {
    "MPC": ["protocol=mpc"],
    "HE, BFV": ["protocol=he", "he.scheme=bfv"],
    "HE, Paillier, short randomness": ["protocol=he", "he.randomness=short"],
}


def text() -> str:
    """Return both tables."""
    lines = []
    for name, settings in SCHEMES.items():
        impossible = "ranking" if "protocol=he" in settings else ""
        cells = [
            "–" if level == impossible else cost("mpc.yaml", *settings, f"reveal={level}", *CONSENT)
            for level in LEVELS
        ]
        lines.append([name, *cells])
    lines.append(
        ["HE, the paper literally, first 300 rows", cost("paper_he.yaml"), *("–" for _ in LEVELS[1:])]
    )
    first = measuring.table(["", *(f"`{level}`" for level in LEVELS)], lines)
    heads = ("rows", "columns of each side", "level", "seconds", "of `coefficients`'", "sent in all")
    many_rows = [line for size in SIZES for line in in_turn(*size)]
    second = measuring.table((*heads, "memory, data party"), many_rows)
    return f"{first}\n{second}\nMedians; {measuring.environment('torch')}\n"


def cost(plan: str, *settings: str) -> str:
    """Run a plan; return how long it took after start-up and what crossed the wire."""
    print(plan, *settings, file=sys.stderr)
    spent = totals(run_local(measuring.ROOT / "configs" / plan, overrides=settings))
    return f"{human_seconds(spent.seconds)}, {decimal(spent.wire)}"


def in_turn(n: int, columns: int, repeats: int) -> list[list[object]]:
    """Run the levels that whiten, and `coefficients`, in turn on the same tables of many rows."""
    with TemporaryDirectory() as folder:
        paths = {party: large.write(Path(folder), party, n, columns) for party in "AB"}

        def run(level: str) -> Result:
            plan = measuring.ROOT / "configs" / "mpc.yaml"
            return run_local(plan, paths, overrides=[f"reveal={level}", *CONSENT])

        ways = {level: partial(run, level) for level in ("coefficients", "explained", "canonical")}
        runs = measuring.in_turn(ways, repeats, note=f"{n:,} rows:")
    lines: list[list[object]] = []
    for level, results in runs.items():
        seconds = measuring.median_seconds(results)
        ratio = f"{seconds / measuring.median_seconds(runs['coefficients']):.2f}"
        cells = (
            human_seconds(seconds),
            ratio,
            decimal(totals(results[0]).wire),
            measuring.median_memory(results),
        )
        lines.append([f"{n:,}", columns, f"`{level}`", *cells])
    return lines


if __name__ == "__main__":
    measuring.publish(text)

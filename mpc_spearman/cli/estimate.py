"""Print about how long a run would take, and what each party would send, receive and hold in memory.

Runs the plan a few times on this machine, with small made-up tables, and extrapolates to the requested rows.
This takes some seconds. Your tables are not read, and nothing is sent to anyone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.filesize import decimal

from mpc_spearman.cli.arguments import add_quiet, add_settings, features, print_table, whole
from mpc_spearman.comparison import Link, on_network, per_run
from mpc_spearman.comparison.prediction import estimate
from mpc_spearman.comparison.table import after_handshake
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.config import Query, load_plan
from mpc_spearman.errors import PlanError
from mpc_spearman.launch import progress
from mpc_spearman.privacy.advice import advice
from mpc_spearman.units import human_seconds, printable


def add(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "configs/mpc.yaml", "reveal=strengths")
    parser.add_argument("--rows", type=whole(3), metavar="N", help="common rows (default: the plan's)")
    parser.add_argument(
        "--features",
        type=features,
        required=True,
        metavar="AxB",
        help="columns of each source and of the target, such as 50x50",
    )
    parser.add_argument(
        "--bandwidth", type=float, metavar="MBIT/S", help="add the time on such a network (needs --rtt)"
    )
    parser.add_argument("--rtt", type=float, metavar="MS", help="its round-trip time")
    add_quiet(parser)


def run(parsed: argparse.Namespace) -> int:
    plan = load_plan(parsed.plan, parsed.settings)
    rows = parsed.rows if parsed.rows is not None else plan.rows
    if rows is None:
        raise PlanError("--rows: give the number of common rows; the plan has no `rows`")
    if (parsed.bandwidth is None) != (parsed.rtt is None):
        raise PlanError("--bandwidth and --rtt: give both, or neither")
    link = None if parsed.rtt is None else Link(parsed.bandwidth * 1e6, parsed.rtt / 1000)
    size = Size(rows, *parsed.features)
    (variant,), table = variants([plan]), plan.parties.target.table
    suffix = ".csv" if isinstance(table, Path) and table.suffix.lower() == ".csv" else ".parquet"
    with progress.shown(plan.names, quiet=parsed.quiet) as display:
        estimated = estimate(variant, size, suffix=suffix, watch=display.watch, note=display.note)
    where = f"on this machine and {link}" if link else "on this machine"
    print(f"{variant.scheme}, {plan.reveal}: {size}, {where}, after start-up:")
    _show(estimated.table, link)
    print(_accuracy(variant, size, estimated.rows), end=" ")
    kind = "CSV" if suffix == ".csv" else "Parquet"
    queried = any(isinstance(owner.table, Query) for owner in (plan.parties.target, *plan.parties.sources))
    databases = "; the time that databases take to answer queries comes on top" if queried else ""
    print(f"Tables are read from {kind} files, and fit into memory{databases}.")
    print(*advice(plan, parsed.features), sep="\n")
    return 0


def _show(table: pd.DataFrame, link: Link | None) -> None:
    """Print a line for each party, the time of all in the first."""
    (total,) = per_run(table if link is None else on_network(table, link)).to_dict("records")
    time = human_seconds(float(total["seconds" if link is None else "modelled"]))
    lines: list[tuple[str, ...]] = []
    for name, rows in after_handshake(table).groupby("party", sort=False):
        sums = rows[["seconds", "bytes", "received"]].sum()
        sizes = sums["bytes"], sums["received"], rows["memory"].max()
        seconds = human_seconds(float(sums["seconds"]))
        cells = (printable(str(name)), seconds, *(decimal(int(size)) for size in sizes))
        lines.append(("" if lines else time, *cells))
    print_table(("time", "party"), ("at work", "sent", "received", "memory"), lines)


def _accuracy(variant: Variant, size: Size, rows: Sequence[int]) -> str:
    if rows[-1] == size.n:
        return "Measured: the last run had all rows."
    tried = ", ".join(f"{count:,}" for count in rows)
    margin = "a factor of 2" if variant.plan.protocol == "he" else "25 %"
    return f"From runs of {tried} rows. Most figures are within {margin} of a real run's on a quiet machine."

"""``mpc-spearman estimate``: what a run of a plan would cost, before anyone runs it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpc_spearman.cli.arguments import add_settings, features
from mpc_spearman.errors import MpcSpearmanError, PlanError

if TYPE_CHECKING:
    from mpc_spearman.comparison import Link
    from mpc_spearman.comparison.variants import Size
    from mpc_spearman.config import Plan


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "estimate",
        help="say what a run of a plan would cost, before anyone runs it",
        description="Print what each party of a plan would send and receive, to the byte, and about how long "
        "it would take and how much memory, from a few seconds of trying what a run is made of on this "
        "machine. No table is read and nothing is sent.",
        epilog="Exit codes: 0 printed, 2 the plan or a number is wrong, 3 something is not installed, 7 a "
        "run of so many rows or columns would be refused.",
    )
    add_settings(parser, "configs/mpc.yaml", "reveal=strengths")
    parser.add_argument("--rows", type=int, metavar="N", help="rows in common (default: the plan's `rows`)")
    parser.add_argument(
        "--features",
        type=features,
        required=True,
        metavar="AxB",
        help="columns of each source and of the target, such as 50x50",
    )
    parser.add_argument(
        "--bandwidth", type=float, metavar="MBIT/S", help="between hosts of their own (with --rtt)"
    )
    parser.add_argument("--rtt", type=float, metavar="MS", help="the round-trip time between them")
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="processors of each host, or of the one for all (default: this one's)",
    )
    parser.add_argument("--all", action="store_true", help="every protocol and level, not the plan's alone")
    parser.add_argument("--json", action="store_true", help="print JSON, times in seconds and sizes in bytes")
    parser.set_defaults(run=run, prints=True)


def run(parsed: argparse.Namespace) -> int:
    """Print it."""
    from mpc_spearman.comparison.network_model import Link
    from mpc_spearman.comparison.variants import Size
    from mpc_spearman.config import load_plan

    if (parsed.bandwidth is None) != (parsed.rtt is None):
        raise PlanError("--bandwidth and --rtt: give both, or neither")
    if parsed.cores is not None and parsed.cores < 1:
        raise PlanError(f"--cores: {parsed.cores} is not a number of processors")
    plan = load_plan(parsed.plan, parsed.settings)
    rows = parsed.rows if parsed.rows is not None else plan.rows
    if rows is None or rows < 3 or min(parsed.features) < 1:
        raise PlanError("--rows, --features: at least 3 rows in common, and 1 column on each side")
    link = None if parsed.rtt is None else Link(parsed.bandwidth * 1e6, parsed.rtt / 1000)
    size = Size(rows, *parsed.features)
    found = list(_estimates(plan, size, link, parsed.cores, everything=parsed.all))
    if parsed.json:
        print(json.dumps({"rows": size.n, "columns": [size.m_A, size.m_B], "runs": found}, indent=1))
    else:
        _show(found, size, link)
    return 0


def _estimates(
    plan: Plan, size: Size, link: Link | None, cores: int | None, *, everything: bool
) -> Iterator[dict[str, Any]]:
    """Yield run after run: seconds, bytes and memory in all and of each party, or why it is refused."""
    from dataclasses import replace

    from mpc_spearman.comparison.calibration import Machine
    from mpc_spearman.comparison.network_model import on_network
    from mpc_spearman.comparison.prediction import Host, estimate
    from mpc_spearman.comparison.table import per_run
    from mpc_spearman.comparison.variants import alternatives, variants

    host = Host.this()
    host = replace(host, cores=cores or host.cores, shared=link is None)
    machine = Machine(_suffix(plan))
    for variant in alternatives(plan) if everything else variants([plan]):
        about = {"protocol": variant.protocol, "scheme": variant.scheme, "reveal": variant.level}
        try:
            table = estimate(variant, size, machine, host)
        except MpcSpearmanError as error:
            if not everything:
                raise
            yield {**about, "refused": str(error)}
            continue
        table = table if link is None else on_network(table, link)
        (total,) = per_run(table).to_dict("records")
        parties = []
        for name, rows in table.groupby("party", sort=False):
            figures = rows[["seconds", "bytes", "received"]].sum()
            parties.append(
                {
                    "party": str(name),
                    "seconds": float(figures["seconds"]),
                    "sent": int(figures["bytes"]),
                    "received": int(figures["received"]),
                    "memory": int(rows["memory"].max()),
                }
            )
        seconds = float(total["seconds" if link is None else "modelled"])
        yield {**about, "seconds": seconds, "rounds": int(total["rounds"]), "parties": parties}


def _suffix(plan: Plan) -> str:
    """Return the kind of file that the target's table is, Parquet where that is not said."""
    table = plan.parties.target.table
    return ".csv" if isinstance(table, Path) and table.suffix.lower() == ".csv" else ".parquet"


def _show(found: list[dict[str, Any]], size: Size, link: Link | None) -> None:
    from rich.console import Console
    from rich.filesize import decimal
    from rich.table import Table

    from mpc_spearman.units import human_seconds, printable

    console = Console()
    where = "on this machine" if link is None else f"on hosts of their own, {link}"
    table = Table("scheme", "level", box=None, pad_edge=False, padding=(0, 1))
    for title in ("time", "party", "at work", "sent", "received", "memory"):
        table.add_column(title, justify="left" if title == "party" else "right")
    for one in found:
        first = [one["scheme"], one["reveal"], human_seconds(one["seconds"])] if "parties" in one else []
        for party in one.get("parties", ()):
            table.add_row(
                *(first or [""] * 3),
                printable(party["party"]),
                human_seconds(party["seconds"]),
                *(decimal(party[figure]) for figure in ("sent", "received", "memory")),
            )
            first = []
    if not console.is_terminal:
        console.width = max(console.width, 120)  # a pipe has no edge to wrap at
    console.print(f"{size}, {where}, after start-up:", highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    for one in found:
        if "refused" in one:
            text = f"{one['scheme']}, {one['reveal']}: refused: {one['refused']}"
            console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

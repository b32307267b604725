"""``mpc-spearman check``: whether a data owner's table passes a plan, found out alone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mpc_spearman.cli.arguments import add_party, add_settings, own_party, path
from mpc_spearman.errors import DisclosureError, PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from mpc_spearman.config.sections import Privacy
    from mpc_spearman.privacy.examine import Examination


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "check",
        help="see whether an owner's table passes a plan, before anyone is asked",
        description="Apply an owner's own policy and disclosure rules to its own table. Nothing is sent. For "
        "each column: its kind, how many rows lie outside its largest group of equal values, how many bits "
        "its ranks hold, and how many of them each receiver of results would be told.",
        epilog="Exit codes: 0 nothing found, 2 the plan is wrong, 4 the table cannot be used, 5 "
        "or 6 the rules or the owner's policy would refuse.",
    )
    add_settings(parser, "configs/mpc.yaml", "results.target=coefficients")
    add_party(parser, "the data party")
    parser.add_argument("--table", type=path, metavar="FILE", help="its table, in place of the plan's")
    parser.add_argument(
        "--other",
        type=int,
        default=1,
        metavar="M",
        help="features of the other side: the target's, or each source's (default: 1)",
    )
    parser.set_defaults(run=run, prints=True)


def run(parsed: argparse.Namespace) -> int:
    """Show what was found; return the exit code of what would be refused."""
    from rich.console import Console

    from mpc_spearman.config import DataParty, load_plan
    from mpc_spearman.protocols.dry_run import dry_run
    from mpc_spearman.units import printable

    if parsed.other < 1:
        raise PlanError(f"--other: {parsed.other} is not a number of features")
    parsed.party = own_party(parsed)
    if parsed.party is None:
        raise PlanError("check: say whose table it is: --party, or --local")
    tables = {} if parsed.table is None else {parsed.party: parsed.table}
    plan = load_plan(parsed.plan, parsed.settings, tables, local=parsed.local, party=parsed.party)
    if not isinstance(plan.party(parsed.party), DataParty):
        raise PlanError(f"--party: {parsed.party} is the coordinator and has no table")
    found = dry_run(plan, parsed.party, parsed.other)
    seen, console = found.examination, Console()
    sentences = [*(str(error) for error in found.refusals), *(one.sentence for one in seen.findings)]
    console.print(_columns(seen, plan.privacy.budget))
    for line in _meanings(seen, plan.privacy):
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
    console.print()
    rows = (
        f"{seen.n:,} rows, {seen.distinct_defined} distinct columns that are not constant, leverage "
        f"{found.leverage:.2f} (what these columns can tell of the variance of one row's rank)"
    )
    unknown = (
        "Which rows are common to all only a run finds out, and all rules are about these. Over fewer rows "
        "groups are smaller and columns hold less, so that more may be refused than here"
    )
    if plan.alignment == "intersect":
        rows += f".\n{unknown}"
    families = (f"one-hot: {', '.join(family)}" for family in seen.families)
    for line in (rows, *families, *found.cautions, *sentences):
        console.print(printable(line, keep="\n"), highlight=False, markup=False, soft_wrap=True)
    if seen.exclude_line:
        console.print(printable(seen.exclude_line), highlight=False, markup=False, soft_wrap=True)
    if not sentences:
        console.print("nothing that this table alone decides would be refused")
        return 0
    return found.refusals[0].exit_code if found.refusals else DisclosureError.exit_code


def _meanings(seen: Examination, rules: Privacy) -> Iterator[str]:
    """Say what the columns of the table mean."""
    yield "values: how many different ones."
    yield (
        f"outside: rows outside the largest group of equal values; min_group asks for {rules.min_group} or "
        "more, or none."
    )
    yield "bits held: how many bits the ranks take to write down, which is what there is to tell."
    yield f"{rules.budget:g} of them: the most of these that one receiver may be told (privacy.budget)."
    for one in seen.columns[0].told if seen.columns else ():
        receiver = one.published.receiver
        yield f"to {receiver}: how many of them the results that {receiver} is given tell at most."


def _columns(seen: Examination, budget: float) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from mpc_spearman.units import printable

    told = [f"to {one.published.receiver}" for one in (seen.columns[0].told if seen.columns else ())]
    heads = ("column", "kind", "values", "outside", "bits held", f"{budget:g} of them", *told)
    table = Table(*(escape(head) for head in heads), box=None, pad_edge=False)
    for column in seen.columns:
        figures = (column.held, budget * column.held, *(one.bits for one in column.told))
        cells = (printable(column.feature), column.kind, f"{column.groups:,}", f"{column.outside:,}")
        table.add_row(*(escape(cell) for cell in (*cells, *(f"{figure:,.1f}" for figure in figures))))
    return table

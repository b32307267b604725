"""``mpc-spearman explain``: who will learn what in a run of a plan, before anyone runs it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mpc_spearman.cli.arguments import add_settings
from mpc_spearman.errors import PlanError, PolicyError

if TYPE_CHECKING:
    from mpc_spearman.config import Plan


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "explain",
        help="say who will learn what in a run of a plan, and whether an owner's policy agrees",
        description="Print what each party of a plan will learn, from whom and how precisely, from the table "
        "that the wire format is made from. No table is read and nothing is sent.",
        epilog="Exit codes: 0 printed, and the owner's policy agrees where --party names one; 2 the plan is "
        "wrong; 6 the policy does not agree.",
    )
    add_settings(parser, "configs/ranking.yaml", "reveal=strengths")
    parser.add_argument(
        "--diff",
        metavar="PLAN2",
        help="print only what differs from this other plan (settings are not for it)",
    )
    parser.add_argument("--party", metavar="NAME", help="ask this data party's policy, as the plan has it")
    parser.add_argument("--rows", type=int, metavar="N", help="say how precise numbers over N rows will be")
    parser.add_argument(
        "--columns",
        type=int,
        default=1,
        metavar="K",
        help="of so many distinct source columns that are not constant (default: 1)",
    )
    parser.set_defaults(run=run, prints=True)


def run(parsed: argparse.Namespace) -> int:
    """Print it; return 0, or the exit code of a policy that does not agree."""
    from mpc_spearman.config import DataParty, check_policy, check_policy_network, load_plan
    from mpc_spearman.units import printable

    plan = load_plan(parsed.plan, parsed.settings)
    if parsed.party is not None and not isinstance(plan.party(parsed.party), DataParty):
        raise PlanError(f"--party: {parsed.party} is the coordinator and has no policy")
    n, k = parsed.rows or plan.rows, parsed.columns
    if k < 1 or (n is not None and n < 3):
        raise PlanError(f"--rows {n}, --columns {k}: there are at least 3 rows and 1 column")
    mine = list(facts(plan, n, k))
    if parsed.diff is None:
        for who, lines in groupby(mine, lambda fact: fact[0]):
            print(printable(f"{who} learns"))
            for _, line in lines:
                print(printable(f"  {line}"))
    else:
        theirs = list(facts(load_plan(parsed.diff), n, k))
        for name, one, other in ((parsed.plan, mine, theirs), (parsed.diff, theirs, mine)):
            only = [fact for fact in one if fact not in other]
            print(printable(f"in {name} alone:" if only else f"in {name} alone: nothing"))
            for who, line in only:
                print(printable(f"  {who} learns {line}"))
    if parsed.party is None:
        return 0
    refusals = []
    for check in (check_policy, check_policy_network):
        try:
            check(plan, parsed.party)
        except PolicyError as error:
            refusals.append(str(error))
    print(printable("\n".join(refusals) or f"the policy of party {parsed.party} agrees", keep="\n"))
    return PolicyError.exit_code if refusals else 0


def facts(plan: Plan, n: int | None, k: int) -> Iterator[tuple[str, str]]:
    """Yield who learns what, party by party: results first, then the rest in the order of the protocol.

    Parameters
    ----------
    plan : Plan
    n : int, optional
        Rows; without it the precision is said as a rule.
    k : int
        Distinct source columns that are not constant.
    """
    from mpc_spearman.levels import level_of
    from mpc_spearman.levels.view import learnt
    from mpc_spearman.parties import Role, Roster
    from mpc_spearman.wire.disclosure import grant, place

    shared, level = plan.shared(), level_of(plan)
    roles = {party.name: party.role for party in Roster.of(plan, plan.names[0]).parties}
    for party, rows in groupby(learnt(shared), lambda row: row["party"]):
        who = f"{party}, the {roles[party].value},"
        for row in sorted(rows, key=lambda row: place(row["what"], row["phase"])):
            yield who, f"{row['what']} ({row['phase']}, from {row['from']})"
        if roles[party] is Role.COORDINATOR and party == plan.informed:
            yield who, f"results so precisely: {level.opened_precisely(n, k)}"
        elif (given := grant(shared, roles[party])) != "nothing":
            yield who, f"results so precisely: {level.published_precisely(given, n, k)}"

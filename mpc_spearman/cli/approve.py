"""Show what one party's runs of a plan reveal, and sign them.

The approval covers the shared plan, the party's own table, columns and policy, a last day and a number of
runs. If its policy has approved_by, `join` runs nothing else. This prevents mistakes; anyone who can edit the
local file can remove the rule.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime, timezone

from mpc_spearman.cli.arguments import add_party, add_settings, day, party_plan, path, whole
from mpc_spearman.cli.owner_page import beginning, columns, purpose
from mpc_spearman.cli.owner_protection import membership
from mpc_spearman.config import Plan
from mpc_spearman.config.approval import approve
from mpc_spearman.errors import PlanError
from mpc_spearman.identity import Identity
from mpc_spearman.units import printable


def add(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "cluster.yaml", "rows=5000")
    add_party(parser, "the data party")
    parser.add_argument(
        "--key", required=True, type=path, metavar="FILE", help="the approver's key, as `key` makes it"
    )
    parser.add_argument(
        "--until", required=True, type=day, metavar="DATE", help="the last day (UTC), such as 2030-12-31"
    )
    parser.add_argument("--runs", type=whole(1), default=1, metavar="N", help="how many runs (default: 1)")


def run(parsed: argparse.Namespace) -> int:
    today = datetime.now(timezone.utc).date()
    if parsed.until < today:
        raise PlanError(f"--until: {parsed.until} is in the past; today is {today} (UTC)")
    plan, party = party_plan(parsed, joins=True)
    officer = Identity.read(parsed.key, "--key", made_by="key FILE")
    print(printable("\n".join(_approved(plan, party)), keep="\n"))
    file = approve(plan, party, officer, parsed.until, parsed.runs)
    times = "once" if parsed.runs == 1 else f"{parsed.runs} times"
    print(f"{file}: party {party} may run this plan {times}, until {parsed.until}")
    return 0


def _approved(plan: Plan, party: str) -> Iterator[str]:
    """Yield what the officer approves: purpose, level, columns and who receives what."""
    yield from membership(plan, plan.roster(party))
    yield from map(str, purpose(plan))
    yield f"Level (reveal): {plan.reveal}"
    yield f"Columns: {columns(plan.owner(party))}"
    yield from beginning(plan, party)

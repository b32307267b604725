"""Print what each party of a plan will learn, from whom and how precisely.

The wire format uses the same list. No data is read and nothing is sent.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

from mpc_spearman.cli.arguments import add_party, add_settings, party_plan
from mpc_spearman.cli.owner_page import digest, page, parts, purpose
from mpc_spearman.cli.owner_protection import PROVED, agreement, exact_copy
from mpc_spearman.config import Plan, load_plan
from mpc_spearman.files import write_output
from mpc_spearman.levels import level_of
from mpc_spearman.levels.view import learnt
from mpc_spearman.parties import Role
from mpc_spearman.privacy.advice import advice, on_inputs
from mpc_spearman.privacy.loss import in_words
from mpc_spearman.units import printable
from mpc_spearman.wire.kinds import place


def add(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "configs/ranking.yaml", "reveal=strengths")
    add_party(parser, "print what this data party gives away, and if its policy agrees; for C, everything")
    parser.add_argument(
        "--html",
        action="store_true",
        help="write that as a page to print and sign, PLAN-NAME.html, in the current folder",
    )


def run(parsed: argparse.Namespace) -> int:
    """Print it; return 0, or the exit code of the first refusal, by the policy or the ledger."""
    if not (parsed.party or parsed.local or parsed.html):
        _print_everything(load_plan(parsed.plan, parsed.settings))
        return 0
    plan, party = party_plan(parsed)
    if party == plan.names[0] and not parsed.html:  # the coordinator gives nothing away
        _print_everything(plan)
        return 0
    refusals, sentences = agreement(plan, party)
    if parsed.html:
        file = Path(f"{Path(parsed.plan).stem}-{party}.html")
        write_output(file, page(plan, party).encode("utf-8"))
        print(file)
        print(printable("\n".join(sentences), keep="\n"))
    else:
        print(printable(f"{digest(plan)}, for party {party}"))
        for part in parts(plan, party):
            print(part.title)
            rows = (
                f"{first}: {'; '.join(second.splitlines())}{f' ({last[0]})' if last else ''}"
                for first, second, *last in part.rows
            )
            for sentence in (*part.lines, *map(str, part.texts), *rows):
                print(printable(f"  {sentence}", keep="\n"))
    return refusals[0].exit_code if refusals else 0


def _print_everything(plan: Plan) -> None:
    needed = (sentence[0].upper() + sentence[1:] for sentence in advice(plan))
    print(
        printable("\n".join((digest(plan), *map(str, purpose(plan)), _guarantee(plan), *needed)), keep="\n")
    )
    level = level_of(plan)
    roles = {party.name: party.role for party in plan.roster(plan.names[0]).parties}
    for party, rows in groupby(learnt(plan), lambda row: row["party"]):
        print(printable(f"{party}, the {roles[party].value}, learns"))
        for row in sorted(rows, key=lambda row: place(row["what"], row["phase"])):  # results first
            print(printable(f"  {row['what']} ({row['phase']}, from {row['from']})"))
        if roles[party] is Role.COORDINATOR and party == plan.informed:
            print(f"  precision of results: {level.opened_precision()}")
        elif (grant := plan.terms.granted[roles[party]]) != "nothing":
            print(f"  precision of results: {level.published_precision(grant)}")


def _guarantee(plan: Plan) -> str:
    """Return a sentence on what bounds how much results reveal about people."""
    if plan.results.precision == "exact":
        return "Guarantee: none, results.precision: exact has no noise; single rows can be computed"
    sentence = f"Guarantee: {in_words(plan.privacy.loss, plan.privacy.unit, exact_copy(plan))}"
    if names := on_inputs(plan):
        for_c = "" if level_of(plan).owners_add else f", {plan.names[0]}'s own copy included"
        sentence += f". For rows of {', '.join(names)} it holds if the others lie or collude{for_c}"
    if plan.proofs:
        sentence += f". {PROVED}"
    return sentence

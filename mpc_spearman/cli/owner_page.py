"""What one data owner reveals in a run of a plan, in plain words: on a terminal, and as a page to sign.

It follows the view table (:mod:`mpc_spearman.levels.view`), which the wire format uses too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from mpc_spearman.cli import owner_protection as protection
from mpc_spearman.config.wording import spoken
from mpc_spearman.errors import PlanError
from mpc_spearman.levels import level_of
from mpc_spearman.levels.view import learnt, statements
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.version import __version__
from mpc_spearman.wire.kinds import place

if TYPE_CHECKING:
    from mpc_spearman.config import DataParty, Plan

# Phases in which the coordinator passes on what it learnt about a table.
_PASSED_ON_BY_C = ("publish", "evaluate", "intersect")
# How the owner's page says what the table of who learns what says of "it", the sender.
_IN_FIRST_PERSON = {"its": "our", "it offers": "we offer", "it signs": "we sign"}
# How the table begins a fact about what its receiver cannot read.
_NOTHING = "nothing: "
# Phases in which nothing is sent that is about a table.
_TECHNICAL = ("connect", "keys", "account", "keep-alive")


@dataclass(frozen=True)
class Written:
    """A text from the plan or local file; None becomes a blank line."""

    label: str
    key: str
    text: str | None

    def __str__(self) -> str:
        return f"{self.label}: {self.text or f'not stated (key: {self.key})'}"


@dataclass(frozen=True)
class Part:
    """A part of the page: a title, and below it sentences, texts of the parties, or a table.

    A cell of the table has a line for each of several things.
    """

    title: str
    lines: tuple[str, ...] = ()
    texts: tuple[Written, ...] = ()
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def parts(plan: Plan, party: str) -> list[Part]:
    """Return what data party `party` reveals, in the order in which its owner should read it."""
    roster, rows = plan.roster(party), learnt(plan)
    technical = [
        row["what"] for row in rows if row["phase"] in _TECHNICAL and party in row["from"].split(", ")
    ]
    leaving, limits = tuple(leaves(plan, roster)), tuple(protection.limits(plan, party))
    heads = ("What", "How exactly")
    return [
        Part("Who learns which people are ours", tuple(protection.membership(plan, roster))),
        Part("What the run is for", texts=tuple(_texts(plan, party))),
        Part("Organisations that take part, and contacts", texts=tuple(_organisations(plan))),
        Part("Recipients: what others learn from our table", heads=("Who learns it", *heads), rows=leaving),
        Part("What we receive", heads=("From", *heads), rows=tuple(_received(plan, roster))),
        Part("What we state about our columns, without noise", tuple(_states(plan, roster))),
        Part("What stays with us", tuple(protection.stays(plan, roster))),
        Part("What protects the results", tuple(protection.protects(plan, roster))),
        Part("What is not protected", tuple(protection.remains(plan, roster))),
        Part("Encryption", tuple(protection.encryption(plan, roster))),
        Part("Our policy and ledger", tuple(protection.agreement(plan, party)[1])),
        Part("The limits of our policy", heads=("Key", "Value", "Meaning"), rows=limits),
        Part("Words", rows=protection.WORDS),
        Part("Technical data", (f"Others also receive: {'; '.join(dict.fromkeys(technical))}.",)),
    ]


def page(plan: Plan, party: str) -> str:
    """Return the page to sign, as HTML; `PlanError` if the plan does not say what for and how long."""
    from mpc_spearman.results.report import template

    if missing := [key for key in ("purpose", "retention") if not (getattr(plan, key) or "").strip()]:
        keys = " and ".join(f"`{key}: ...`" for key in missing)
        raise PlanError(
            f"the page to sign needs the plan's {' and '.join(missing)}: write {keys} into the shared plan, "
            "the same at all parties"
        )
    return template("owner.html").render(
        party=party,
        parties=plan.roster(party).parties,
        digest=digest(plan),
        digits=spoken(plan.digest()),
        date=f"{datetime.now(timezone.utc):%Y-%m-%d}",
        parts=parts(plan, party),
        version=__version__,
    )


def digest(plan: Plan) -> str:
    """Return a plan's name by its digest, and whether it is a draft."""
    unknown = [name for name, identity in plan.identities.items() if identity is None]
    draft = f" (draft: no identity yet of {', '.join(unknown)}; the digest will change)" if unknown else ""
    return f"plan {spoken(plan.digest())}{draft}"


def beginning(plan: Plan, party: str) -> list[str]:
    """Return three lines on the run that a party is about to join."""
    roster, level = plan.roster(party), level_of(plan)
    informed = plan.informed
    learns = [
        _plain(row["what"])
        for row in learnt(plan)
        if row["party"] == informed
        and row["phase"] not in ("publish", *_TECHNICAL)
        and not place(row["what"], row["phase"])
    ]
    grants = (
        f"to {peer.name} {level.published_precision(grant)}"
        for peer in roster.parties
        if (grant := plan.terms.granted[peer.role]) != "nothing"
    )
    return [
        f"{party} takes part in {digest(plan)}",
        f"{informed} will learn {'; '.join(dict.fromkeys(learns))}",
        "passed on: " + ("; ".join(grants) or "nothing"),
    ]


def leaves(plan: Plan, roster: Roster) -> Iterator[tuple[str, str, str]]:
    """Yield sentences on what leaves our table: who learns what, how exactly, and what nobody can read."""
    unreadable = []
    for party in roster.peers:
        by_precision: dict[str, list[str]] = {}
        for row in _about_tables(plan, party.name):
            fact, we_send = row["what"], roster.me.name in row["from"].split(", ")
            if not (we_send or row["phase"] in _PASSED_ON_BY_C):
                continue
            if fact.startswith(_NOTHING):
                unreadable.append((str(party), in_first_person(fact.removeprefix(_NOTHING)), "not readable"))
            else:
                sentence = in_first_person(fact) if we_send else _plain(fact)
                by_precision.setdefault(_precision(plan, row, party, passed_on=True), []).append(sentence)
        for precision, facts in by_precision.items():
            yield str(party), "\n".join(dict.fromkeys(facts)), precision
    yield from unreadable


def _received(plan: Plan, roster: Roster) -> Iterator[tuple[str, str, str]]:
    """Yield from whom we receive what, and how exactly."""
    by_sender: dict[tuple[str, str], list[str]] = {}
    for row in _about_tables(plan, roster.me.name):
        fact, precision = row["what"], _precision(plan, row, roster.me)
        if fact.startswith(_NOTHING):
            fact, precision = fact.removeprefix(_NOTHING), "not readable"
        from_c = row["from"] == roster.coordinator.name
        by_sender.setdefault((row["from"], precision), []).append(
            (in_first_person if from_c else _plain)(fact)
        )
    for (sender, precision), facts in by_sender.items():
        yield sender, "\n".join(dict.fromkeys(facts)), precision


def _about_tables(plan: Plan, receiver: str) -> list[dict[str, str]]:
    """Return what a party learns about the others' tables, results first."""
    rows = [row for row in learnt(plan) if row["party"] == receiver and row["phase"] not in _TECHNICAL]
    return sorted(rows, key=lambda row: place(row["what"], row["phase"]))


def _precision(plan: Plan, row: Mapping[str, str], receiver: Party, *, passed_on: bool = False) -> str:
    """Return how exactly a party learns a fact."""
    level = level_of(plan)
    if row["phase"] == "publish":
        precision = level.published_precision(plan.terms.granted[receiver.role])
        return f"{precision}; passed on by {row['from']}" if passed_on else precision
    if row["phase"] == "protect":
        return "technical figures, from which the noise is computed"
    if place(row["what"], row["phase"]) == 0 and receiver.name == plan.informed:
        return level.opened_precision()
    return "exactly, unless stated otherwise"


def _states(plan: Plan, roster: Roster) -> Iterator[str]:
    of_all, of_run = statements(plan, roster.me.name)
    if plan.results.precision == "exact":
        of_all, of_run = [], [*of_all, *of_run]
    if of_all:
        yield f"Of all rows of our table, whichever the run uses: {'; '.join(map(in_first_person, of_all))}."
    if of_run:
        yield f"Of the rows of the run: {'; '.join(map(in_first_person, of_run))}."


def in_first_person(fact: str) -> str:
    """Write a fact of the table of who learns what, which is about its sender, as this sender would."""
    words = "|".join(_IN_FIRST_PERSON)
    return re.sub(rf"\b({words})\b", lambda match: _IN_FIRST_PERSON[match[0]], _plain(fact))


def _plain(fact: str) -> str:
    """Return a fact without the words on how its receiver learns it."""
    return fact.removeprefix("by combining all shares: ").removeprefix("decrypted: ")


def purpose(plan: Plan) -> list[Written]:
    """Return what a run is for, and how long its results are kept."""
    return [
        Written("Purpose", "purpose", plan.purpose),
        Written("How long results are kept", "retention", plan.retention),
    ]


def _texts(plan: Plan, party: str) -> Iterator[Written]:
    owner = plan.owner(party)
    yield from purpose(plan)
    yield Written("How long we keep our ledger and kept ranks", "page.retention", owner.page.retention)
    yield Written("Whose data", "page.people", owner.page.people)
    yield Written("Which columns", "features", columns(owner))
    yield Written("Legal basis", "page.legal_basis", owner.page.legal_basis)
    yield Written("Who is responsible for what", "responsibility", plan.responsibility)
    yield Written("Transfers to other countries", "transfers", plan.transfers)


def columns(owner: DataParty) -> str:
    """Return a sentence on the columns of an owner's table that a run uses."""
    table = owner.table or "the table"
    adjusted = f", adjusted for {', '.join(owner.adjust)}, which the plan names" if owner.adjust else ""
    if owner.features is not None:
        sentence = f"{', '.join(owner.features)} of {table}{adjusted}; no other column is used"
    else:
        excluded = f" and {', '.join(owner.exclude)}, whose names are not sent" if owner.exclude else ""
        sentence = f"all of {table} but the id{excluded}{adjusted}"
    flags = [name for name in owner.encode if name in owner.nominal - {*owner.exclude, *owner.adjust}]
    if flags:
        sentence += (
            f". Every category of {', '.join(flags)} is a column of its own: who learns names of columns "
            f"learns those of categories. Categories of fewer than {owner.policy.min_rows} people are one "
            "together, named other"
        )
    return sentence


def _organisations(plan: Plan) -> Iterator[Written]:
    tasks = {
        Role.COORDINATOR: "has no table; combines what the others send, and passes on results",
        Role.TARGET: "has a table; its columns are ranked",
        Role.SOURCE: "has a table, with which the target's is compared",
    }
    for member in plan.roster(plan.names[0]).parties:
        organisation = plan.party(member.name).organisation
        yield Written(f"{member.name} ({tasks[member.role]})", "organisation", organisation)

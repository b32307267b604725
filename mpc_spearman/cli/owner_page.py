"""What one data owner reveals in a run of a plan, in plain words: on a terminal, and as a page to sign.

It follows the view table (:mod:`mpc_spearman.levels.view`), which the wire format uses too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpc_spearman.config import check_policy
from mpc_spearman.config.wording import spoken
from mpc_spearman.errors import MpcSpearmanError, PolicyError
from mpc_spearman.levels import level_of
from mpc_spearman.levels.view import learnt, statements
from mpc_spearman.parties import Role, Roster
from mpc_spearman.privacy.advice import advice
from mpc_spearman.privacy.loss import guess, in_words, separation
from mpc_spearman.protocols.charge import ledger_state
from mpc_spearman.version import __version__
from mpc_spearman.wire.kinds import place

if TYPE_CHECKING:
    from mpc_spearman.config import Plan

# Phases in which the coordinator sends on what it learnt about a table.
_BY_WAY_OF_C = ("publish", "evaluate", "intersect")
# The table of who learns what calls the sender "it".
_OURS = {"its": "our", "it offers": "we offer", "it signs": "we sign"}
# Phases in which nothing is sent that is about a table.
_TECHNICAL = ("connect", "keys", "account", "keep-alive")


@dataclass(frozen=True)
class Part:
    """A part of the page: a title, and below it sentences, or rows of who gets what, and how exactly."""

    title: str
    lines: tuple[str, ...] = ()
    rows: tuple[tuple[str, str, str], ...] = ()


#: What proofs add to the guarantee.
PROVED = (
    "This holds also if another party lies about its table: all parties prove that their vectors hold "
    "possible ranks"
)


def parts(plan: Plan, party: str) -> list[Part]:
    """Say what data party `party` reveals, in the order in which its owner should read it."""
    roster = plan.roster(party)
    return [
        Part("What the run is for", tuple(purpose(plan))),
        Part("What others learn from our table", rows=tuple(leaves(plan, roster))),
        Part("What we state about our columns, without noise", tuple(_states(plan, roster))),
        Part("What stays with us", tuple(_stays(plan, roster))),
        Part("What protects the results", tuple(_protects(plan, roster))),
        Part("What is not protected", tuple(_remains(plan, roster))),
        Part("Our policy", tuple(_policy(plan, party))),
        Part("Technical data", tuple(_technical(plan, roster))),
    ]


def page(plan: Plan, party: str) -> str:
    """Return the page to sign, as HTML."""
    from mpc_spearman.results.report import template

    return template("owner.html").render(
        party=party,
        parties=[str(one) for one in plan.roster(party).parties],
        digest=digest(plan),
        parts=parts(plan, party),
        version=__version__,
    )


def digest(plan: Plan) -> str:
    """Name a plan by its digest, and say whether it is a draft."""
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
        f"to {one.name} {level.published_precisely(given)}"
        for one in roster.parties
        if (given := plan.terms.granted[one.role]) != "nothing"
    )
    return [
        f"{party} takes part in {digest(plan)}",
        f"{informed} will learn {'; '.join(dict.fromkeys(learns))}",
        "passed on: " + ("; ".join(grants) or "nothing"),
    ]


def leaves(plan: Plan, roster: Roster) -> Iterator[tuple[str, str, str]]:
    """Yield who learns what about our table, and how exactly; last, what nobody can read."""
    me, level, hidden = roster.me, level_of(plan), []
    rows = [row for row in learnt(plan) if row["phase"] not in _TECHNICAL]
    rows.sort(key=lambda row: place(row["what"], row["phase"]))
    for party in roster.peers:
        found: dict[str, list[str]] = {}
        for row in rows:
            what, ours = row["what"], me.name in row["from"].split(", ")
            if row["party"] != party.name or not (ours or row["phase"] in _BY_WAY_OF_C):
                continue
            if what.startswith("nothing: "):
                hidden.append((str(party), our(what.partition(": ")[2]), "not readable"))
            elif row["phase"] == "publish":
                exact = level.published_precisely(plan.terms.granted[party.role])
                found.setdefault(f"{exact}; passed on by {row['from']}", []).append(what)
            else:
                result = place(what, row["phase"]) == 0
                exact = "exactly, unless stated otherwise"
                if row["phase"] == "protect":
                    exact = "technical figures, from which the noise is computed"
                if result and party.name == plan.informed:
                    exact = level.opened_precisely()
                found.setdefault(exact, []).append(our(what) if ours else _plain(what))
        for exact, whats in found.items():
            yield str(party), "; ".join(dict.fromkeys(whats)), exact
    yield from hidden


def _states(plan: Plan, roster: Roster) -> Iterator[str]:
    whole, used = statements(plan, roster.me.name)
    if plan.results.precision == "exact":
        whole, used = [], [*whole, *used]
    if whole:
        yield f"Of all rows of our table, whichever the run uses: {'; '.join(map(our, whole))}."
    if used:
        yield f"Of the rows of the run: {'; '.join(map(our, used))}."


def our(what: str) -> str:
    """Say what the table says of a sender in its own words."""
    return re.sub(rf"\b({'|'.join(_OURS)})\b", lambda found: _OURS[found[0]], _plain(what))


def _plain(what: str) -> str:
    return what.removeprefix("by combining all shares: ").removeprefix("decrypted: ")


def purpose(plan: Plan) -> Iterator[str]:
    """Say what a run is for, and how long its results are kept."""
    yield f"Purpose: {plan.purpose or 'not stated in the plan (key: purpose)'}"
    yield f"How long results are kept: {plan.retention or 'not stated in the plan (key: retention)'}"


def _stays(plan: Plan, roster: Roster) -> Iterator[str]:
    own, hub = plan.owner(roster.me.name), roster.coordinator.name
    mpc = plan.protocol == "mpc"
    yield "No cell and no id of our table is sent in readable form. Only we turn our columns into ranks."
    yield f"Ranks are sent {'under random masks, used once' if mpc else f'encrypted under a key of {hub}'}."
    if roster.me.role in level_of(plan).whitening_roles:
        yield "Before that a random rotation mixes our columns. Only we know it, and it is new in every run."
    if plan.reveal == "differences":
        yield f"But from the differences that it opens {hub} can compute nearly all of our ranks."
    if plan.alignment == "intersect":
        yield "Ids are sent as pseudonyms, new in every run, under a key that their receiver does not have."
    else:
        yield "Instead of ids we send one digest of the whole list. It shows whether two lists are equal."
    if own.features is not None:
        yield f"Only these columns are used: {', '.join(own.features)}."
    elif own.exclude:
        yield f"These columns are not used, and their names are not sent: {', '.join(own.exclude)}."


def _protects(plan: Plan, roster: Roster) -> Iterator[str]:
    if plan.results.precision == "exact":
        yield "Nothing: results are exact, and single rows can be computed from them."
        return
    who, having = "every owner adds", "one party's results of this run"
    if not level_of(plan).owners_add:
        who = f"{roster.coordinator.name} adds"
    if plan.owner(roster.me.name).noise == "inputs":
        times, having = math.sqrt(24) / separation(plan.privacy.loss), "all that the others have of this run"
        yield (
            "Noise: we add random noise to our ranks before we send them, in proportion to the influence of "
            "one row. So what we promise below holds whatever the others state or send, and if they collude."
        )
        yield (
            f"The price: noise of {times:.1f} times chance variation in the coefficient of one column "
            "without ties, and more with several columns or rare values, however many rows there are."
        )
    else:
        yield f"Noise: {who} random noise to every number, in proportion to the influence of one row."
    words = in_words(plan.privacy.loss, plan.privacy.unit, exact_copy(plan, roster.me.name), having)
    yield f"{words[0].upper()}{words[1:]}."
    if plan.proofs:
        yield f"{PROVED}."
    yield from (f"{line[0].upper()}{line[1:]}." for line in advice(plan))


def exact_copy(plan: Plan, party: str | None = None) -> str:
    """Name the coordinator if its own results are exact and only those that it passes on have noise.

    For one party, if they are exact for its rows.
    """
    owners = [plan.owner(party)] if party else [plan.parties.target, *plan.parties.sources]
    noisy = plan.results.precision != "exact"
    hidden = level_of(plan).owners_add or all(owner.noise == "inputs" for owner in owners)
    return plan.names[0] if noisy and not hidden else ""


def _remains(plan: Plan, roster: Roster) -> Iterator[str]:
    hub, me = roster.coordinator.name, roster.me
    on_inputs = plan.owner(me.name).noise == "inputs"
    if not level_of(plan).owners_add and not on_inputs:
        yield f"{hub} has exact results, from which rows can be computed. Only an agreement prevents that."
    others = [party.name for party in roster.peers if party.role is not Role.COORDINATOR]
    both = f"{hub} and {' or '.join(others)} together"
    if on_inputs:
        yield f"{both} can read our ranks with our noise on them, and no more: the guarantee counts on it."
    elif me.role is Role.SOURCE or plan.protocol == "mpc":
        mixed = "mixtures of our ranks" if me.role in level_of(plan).whitening_roles else "our ranks"
        yield f"{both} can read {mixed}. Nothing in this run prevents that technically."
    else:
        yield f"{both} know more about our columns than each of them alone."
    if plan.alignment == "intersect":
        theirs = "which of its own people are also in our table, even if the run stops later"
        yield f"{', '.join(others)} will know {theirs}."
    else:
        yield "All parties know that the same people are in all tables."
    most, but = plan.owner(me.name).policy.lifetime, f", except {hub}," if exact_copy(plan, me.name) else ""
    yield (
        "What several runs reveal adds up; exact results have no limit. Our ledger refuses a run that would "
        f"take one party beyond {most:g} in all (policy.lifetime). At that limit a party{but} guesses right "
        f"at most {guess(most):.0%} of the time."
    )
    yield "The run does not hide who is in our table, or how common a value is in it or in a group."
    if not (on_inputs or plan.proofs):
        yield "A dishonest party that uses made-up columns can learn more about our table than an honest one."
    yield "No third party has audited this program."


def _policy(plan: Plan, party: str) -> Iterator[str]:
    policy = plan.owner(party).policy
    keys = policy.model_dump(mode="json", include=policy.model_fields_set - {"approval"})
    said = (f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in keys.items())
    yield "; ".join(said) or "no keys set: the defaults apply"
    yield from agreement(plan, party)[1]


def agreement(plan: Plan, party: str) -> tuple[list[MpcSpearmanError], list[str]]:
    """Return why an owner's policy and ledger refuse the plan, if they do, and sentences on both."""
    said, refused = ledger_state(plan, party)
    refusals = [] if refused is None else [refused]
    try:
        check_policy(plan, party)
        agrees = [f"the policy of party {party} agrees"]
    except PolicyError as error:
        refusals.insert(0, error)
        agrees = []
    return refusals, [*agrees, said, *map(str, refusals)]


def _technical(plan: Plan, roster: Roster) -> Iterator[str]:
    rows = [row for row in learnt(plan) if row["phase"] in _TECHNICAL]
    ours = dict.fromkeys(row["what"] for row in rows if roster.me.name in row["from"].split(", "))
    yield f"Others also receive: {'; '.join(ours)}."

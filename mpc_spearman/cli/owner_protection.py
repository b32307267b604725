"""What protects a data owner's table in a run, what does not, and whether its policy and ledger agree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpc_spearman.config import check_policy
from mpc_spearman.config.fields import meaning
from mpc_spearman.errors import MpcSpearmanError, PolicyError
from mpc_spearman.levels import level_of
from mpc_spearman.parties import Role, Roster
from mpc_spearman.privacy.advice import advice
from mpc_spearman.privacy.loss import guess, in_words, separation
from mpc_spearman.protocols.charge import ledger_state

if TYPE_CHECKING:
    from mpc_spearman.config import Plan

#: What proofs add to the guarantee.
PROVED = (
    "This holds also if another party lies about its table: all parties prove that their vectors hold "
    "possible ranks"
)
#: Words of the page that not everybody knows.
WORDS = (
    (
        "Rank",
        "the place of a value in its sorted column. Ranks of a column with two values are the data itself: "
        "whoever reads them knows who has which value.",
    ),
    ("Feature", "a column whose correlations are computed."),
    ("Vector", "a column of scaled ranks, or a sum or mixture of such columns."),
    ("Range", "the largest number of a vector less its smallest."),
    ("Strength", "the mean of a target column's correlations with the columns of the sources."),
    ("Mask", "random numbers that are added and cancel out in the result; alone they are meaningless."),
    ("Digest", "a short number that is computed from a text. Two texts with the same digest are equal."),
)
# Keys of a policy that matter only under some settings of a plan, and those that are no limits.
_INTERSECT, _HE, _FILES = (
    {"max_ids", "max_unmatched"},
    {"min_key_bits"},
    {"ledger", "approval", "approved_by"},
)


def stays(plan: Plan, roster: Roster) -> Iterator[str]:
    """Yield sentences on what nobody else can read of our table."""
    hub, mpc = roster.coordinator.name, plan.protocol == "mpc"
    yield "No cell and no id of our table is sent in readable form. Only we turn our columns into ranks."
    if mpc:
        yield "Ranks are sent under random masks, used once."
    elif roster.me.role is Role.TARGET:
        yield "We combine our ranks with the others' encrypted ranks. Only that is sent, encrypted."
    else:
        yield f"Ranks are sent encrypted under a key of {hub}."
    if roster.me.role in level_of(plan).whitening_roles:
        yield "Before that a random rotation mixes our columns. Only we know it, and it is new in every run."
    if plan.reveal == "differences":
        yield f"But from the differences that it opens {hub} can compute nearly all of our ranks."
    if plan.alignment == "intersect":
        yield "Ids are sent as pseudonyms, new in every run, under a key that their receiver does not have."
    else:
        yield "Instead of ids we send one digest of the whole list. It shows whether two lists are equal."


def encryption(plan: Plan, roster: Roster) -> Iterator[str]:
    """Yield sentences on how messages are encrypted, and which files are not."""
    yield (
        "In transit: all connections use TLS 1.3. Both ends prove who they are by the keys that the plan "
        f"lists. What {roster.coordinator.name}'s host forwards between two others it cannot read."
    )
    if plan.protocol == "he":
        scheme = "BFV" if plan.he.scheme == "bfv" else f"Paillier with {plan.he.key_bits} bits"
        yield f"In the computation: {scheme}, under a key of this run."
    yield (
        "On our host: results, ledger and kept ranks are files that are not encrypted, and that only the "
        "account that runs the program can read. Encryption of the disk is up to us."
    )


def protects(plan: Plan, roster: Roster) -> Iterator[str]:
    """Yield sentences on how noise protects people, and how far."""
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
    loss = plan.privacy.loss
    words = in_words(loss, plan.privacy.unit, exact_copy(plan, roster.me.name), having)
    yield f"{words[0].upper()}{words[1:]}."
    if plan.privacy.unit == "row":
        yield (
            "A household is less protected: a guess about two people at once is right at most "
            f"{guess(4 * loss):.0%} of the time."
        )
    else:
        yield "A trait that shows in several columns, and a household, are less protected than one value."
    if plan.proofs:
        yield f"{PROVED}."
    yield from (f"{line[0].upper()}{line[1:]}." for line in advice(plan))


def exact_copy(plan: Plan, party: str | None = None) -> str:
    """Return the coordinator's name if its own results are exact: for one party's rows, or else for any."""
    owners = [plan.owner(party)] if party else [plan.parties.target, *plan.parties.sources]
    noisy = plan.results.precision != "exact"
    hidden = level_of(plan).owners_add or all(owner.noise == "inputs" for owner in owners)
    return plan.names[0] if noisy and not hidden else ""


def remains(plan: Plan, roster: Roster) -> Iterator[str]:
    """Yield sentences on what nothing in the run protects."""
    hub, me = roster.coordinator.name, roster.me
    on_inputs = plan.owner(me.name).noise == "inputs"
    if not level_of(plan).owners_add and not on_inputs:
        yield f"{hub} has exact results, from which rows can be computed. Only an agreement prevents that."
    pair = f"{hub} and {' or '.join(other_owners(roster))} together"
    if on_inputs:
        yield f"{pair} can read our ranks with our noise on them, and no more: the guarantee counts on it."
    elif me.role is Role.SOURCE or plan.protocol == "mpc":
        mixed = "mixtures of our ranks" if me.role in level_of(plan).whitening_roles else "our ranks"
        yield f"{pair} can read {mixed}. Nothing in this run prevents that technically."
    else:
        yield f"{pair} know more about our columns than each of them alone."
    most, but = plan.owner(me.name).policy.lifetime, f", except {hub}," if exact_copy(plan, me.name) else ""
    yield (
        "What several runs reveal adds up; exact results have no limit. Our ledger refuses a run that would "
        f"take one party beyond {most:g} in all (policy.lifetime). At that limit a party{but} guesses right "
        f"at most {guess(most):.0%} of the time."
    )
    yield "The run does not hide who is in our table, or how common a value is in it."
    yield (
        "Small groups: a receiver who knows a group of people can count within it, such as how many patients "
        "of one practice have a diagnosis, sometimes to about one person."
    )
    if not (on_inputs or plan.proofs):
        yield "A dishonest party that uses made-up columns can learn more about our table than an honest one."
    yield "No third party has audited this program."


def membership(plan: Plan, roster: Roster) -> Iterator[str]:
    """Yield a sentence on who learns which people are in our table."""
    owners = other_owners(roster)
    if plan.alignment == "intersect":
        learn = "learns" if len(owners) == 1 else "each learn"
        which = "our table" if len(owners) == 1 else "all other tables, ours included"
        yield (
            f"{', '.join(owners)} {learn} which of its own people are also in {which}, even if the run stops "
            f"later. {roster.coordinator.name} learns only how many."
        )
    else:
        know = "knows" if len(owners) == 1 else "know"
        yield f"{', '.join(owners)} already {know} it: all tables have the same people, as the run confirms."


def other_owners(roster: Roster) -> list[str]:
    """Return the names of the data parties but this one."""
    return [party.name for party in roster.peers if party.role is not Role.COORDINATOR]


def limits(plan: Plan, party: str) -> list[tuple[str, str, str]]:
    """Return the rules of an owner's policy as they apply to a plan: key, value and meaning."""
    policy, rows = plan.owner(party).policy, []
    left_out = _FILES | (set() if plan.alignment == "intersect" else _INTERSECT)
    left_out |= set() if plan.protocol == "he" else _HE
    for key, value in policy.model_dump(mode="json", exclude=left_out).items():
        shown = ", ".join(map(str, value)) or "none" if isinstance(value, (list, dict)) else str(value)
        if isinstance(value, float):
            shown = f"{value:g}"
        rows.append(
            (
                key,
                {"True": "yes", "False": "no"}.get(shown, shown),
                plain(meaning(type(policy).model_fields[key])),
            )
        )
    return rows


def plain(text: str) -> str:
    """Return a key's meaning with quotes for marks of code, and without references to pages."""
    sentences = text.replace("`", '"').split(". ")
    return ". ".join(sentence.partition(": docs/")[0] for sentence in sentences).rstrip(".") + "."


def agreement(plan: Plan, party: str) -> tuple[list[MpcSpearmanError], list[str]]:
    """Return why an owner's policy and ledger refuse the plan, if they do, and sentences on both."""
    ledger_use, refused = ledger_state(plan, party)
    refusals = [] if refused is None else [refused]
    try:
        check_policy(plan, party)
        agrees = [f"the policy of party {party} agrees"]
    except PolicyError as error:
        refusals.insert(0, error)
        agrees = []
    return refusals, [*agrees, ledger_use, *map(str, refusals)]

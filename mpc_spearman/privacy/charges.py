"""How much an owner's runs revealed to each partner: one sum per partner, over all levels and plans.

Noise is fresh in every run, so losses add up (:mod:`mpc_spearman.privacy.loss`), whatever rows and columns
the runs used. A partner is recognised by its name or key in an earlier run; whoever has a name of one and the
key of another is both. A run without noise (``results.precision: exact``) has no bound: it is listed, but not
in the sum. So is the coordinator's own exact copy at ``coefficients`` and ``differences``.

A run has a line when it starts (`Started`), before anything about the table is sent, and one that charges it
(`Charge`), before anything that is computed from columns is sent. If it fails, a line says how (`Ended`), and
perhaps takes the charge back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mpc_spearman.config.fields import Section
from mpc_spearman.data.refusals import show
from mpc_spearman.version import __version__

#: What others learn of a run before it is charged: how many rows and columns the owner has, or also which of
#: their own rows it has.
SIZES, COMMON_ROWS = "sizes", "common rows"


class Told(Section):
    """What one partner gets from a run.

    `what` is a grant or the level, ``nothing`` for a partner that gets no results, ``statements`` for one
    that gets only those about vectors with noise on inputs, and of a run that has only started ``sizes`` or
    ``common rows``. `loss` is ρ, None for exact numbers, which have no bound. What a noisy number cannot
    reach, and the coordinator's own exact copy, is not `counted`, only listed. Losses of different units
    (``privacy.unit``) are not added up. `identity` is the partner's public key in the plan, or empty.
    """

    what: str
    loss: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    counted: bool = True
    unit: Literal["row", "value"] = "row"
    identity: str = ""


class ChargedRun(Section):
    """What an owner's run reveals to each partner.

    `id` is the run's, and `plan` the shared plan's digest, both hexadecimal; `name` is that of the plan's
    file, `purpose` the plan's. `rows` and `columns` are the owner's in this run: when it starts those of its
    table, when it is charged those that are used. `limit` is ``policy.lifetime``. Ledgers of earlier versions
    have no `id`, `name`, `purpose` and `limit`.
    """

    party: str
    plan: str
    version: str = __version__
    rows: int
    columns: int
    told: dict[str, Told]
    id: str = ""
    name: str = ""
    purpose: str = ""
    limit: float | None = None


class Started(Section):
    """A run that has started, when, and under which approval: what others learn before it is charged."""

    time: str
    started: ChargedRun
    approval: str = ""

    @property
    def tells_members(self) -> bool:
        """Whether others learn which of their rows the owner's table has."""
        return any(told.what == COMMON_ROWS for told in self.started.told.values())


class Charge(Section):
    """A run that was allowed, when, and by which approval. It counts though it may have failed since."""

    time: str
    run: ChargedRun
    approval: str = ""


class Ended(Section):
    """How a run ended that failed: an error's class, whose it was, and the phase.

    `rows` are the rows that all have, if the parties have found them. `taken_back` says that the run's charge
    does not count: nothing had left that depends on the rows of the run, but their number.
    """

    time: str
    ended: str
    error: str
    party: str
    phase: str
    rows: int | None = None
    taken_back: bool = False


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("is empty, or does not print on one line")
    return text


class Forgotten(Section):
    """Earlier results no longer count for a partner, for a reason that the owner gives."""

    time: str
    partner: str
    reason: Annotated[str, AfterValidator(_printable)]


Entry = Started | Charge | Ended | Forgotten


@dataclass
class Balance:
    """Sums of ρ by unit over one partner's counted runs, under all its names and keys.

    `exact` of these runs have no bound.
    """

    names: set[str] = field(default_factory=set)
    identities: set[str] = field(default_factory=set)
    runs: int = 0
    row: float = 0.0
    value: float = 0.0
    exact: int = 0
    since: str = ""

    def add(self, other: Balance) -> None:
        """Add the same partner's balance under another name."""
        self.names |= other.names
        self.identities |= other.identities
        self.since = min(filter(None, (self.since, other.since)), default="")
        for part in ("runs", "row", "value", "exact"):
            setattr(self, part, getattr(self, part) + getattr(other, part))

    def is_of(self, name: str, told: Told) -> bool:
        """Tell whether a run's partner is this one."""
        return name in self.names or (bool(told.identity) and told.identity in self.identities)


def taken_back(entries: Iterable[Entry]) -> set[str]:
    """Return the ids of runs whose charges do not count."""
    return {entry.ended for entry in entries if isinstance(entry, Ended) and entry.taken_back}


def balances(entries: Sequence[Entry]) -> list[Balance]:
    """Add up the losses of each partner, in order of first appearance."""
    known, without = list[Balance](), taken_back(entries)
    for entry in entries:
        if isinstance(entry, Charge) and entry.run.id not in without:
            known = _added(known, entry.run.told, entry.time)
        elif isinstance(entry, Forgotten):
            known = [
                Balance(one.names, one.identities) if entry.partner in one.names else one for one in known
            ]
    return known


def _added(known: list[Balance], told: Mapping[str, Told], time: str) -> list[Balance]:
    """Return balances with one run more; those that turn out to be of one partner become one."""
    for name, one in told.items():
        if one.counted:
            total = Balance({name}, {one.identity} - {""}, 1, since=time, exact=int(one.loss is None))
            setattr(total, one.unit, one.loss or 0.0)
            same = [balance for balance in known if balance.is_of(name, one)]
            for balance in same:
                total.add(balance)
            place = known.index(same[0]) if same else len(known)
            known = [balance for balance in known if balance not in same]
            known.insert(place, total)
    return known


def over_lifetime(told: Mapping[str, Told], entries: Sequence[Entry], lifetime: float) -> Iterator[str]:
    """Say for which partners a run would exceed ``policy.lifetime``; nothing if it may be charged."""
    for after in _added(balances(entries), told, ""):
        run = {name: one for name, one in told.items() if one.counted and after.is_of(name, one)}
        for unit, total in (("row", after.row), ("value", after.value)):
            losses = [one.loss or 0.0 for one in run.values() if one.unit == unit]
            if not sum(losses) or total <= lifetime * (1 + 1e-9):
                continue
            before, runs = max(0.0, total - sum(losses)), after.runs - len(run)
            earlier = f"{before:g} in {runs} runs since {after.since}" if runs else "nothing yet"
            left = (lifetime - before) / len(losses)
            less = f"agree on privacy.loss {left:g} or less, " if left > 0.01 else ""
            yield (
                f"{_one_partner(after.names)} was told {earlier}, this run would add {sum(losses):g}, and "
                f"policy.lifetime allows {lifetime:g} in all. To go on, {less}grant it nothing (results, "
                "opened_to), or raise policy.lifetime."
            )


def _one_partner(names: Collection[str]) -> str:
    *others, last = map(show, sorted(names))
    return f"{', '.join(others)} and {last} (one partner, by name or key)" if others else last


def new_partners(told: Mapping[str, Told], entries: Sequence[Entry]) -> Iterator[str]:
    """Say which partners are new to a ledger that has entries, whose key has changed, and who became one."""
    known = balances(entries)
    for name, one in told.items():
        if not (known and one.counted):
            continue
        same = [balance for balance in known if balance.is_of(name, one)]
        named = set[str]().union(*(balance.identities for balance in same if name in balance.names))
        if not same:
            yield f"{show(name)} is new in the ledger: its sum begins with this run"
        elif one.identity and named and one.identity not in named:
            yield f"{show(name)} has another key than in the ledger; its sum continues"
        if len(same) > 1:
            names = set[str]().union(*(balance.names for balance in same))
            yield f"{_one_partner(names)}: their sums are added up"

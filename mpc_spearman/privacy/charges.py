"""How much an owner's runs revealed to each partner: one sum per partner, over all levels and plans.

Noise is fresh in every run, so losses add up (:mod:`mpc_spearman.privacy.loss`), whatever rows and columns
the runs used. A partner is recognised by its name or its key in an earlier run. If it has the name of one
earlier partner and the key of another, both are this partner. A run without noise (``results.precision:
exact``) has no bound: it is listed, but not in the sum. So is the coordinator's own exact copy at
``coefficients`` and ``differences``.

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

#: What others learn in a run before it is charged: how many rows and columns the owner has, or also which of
#: their rows the owner has too.
SIZES, COMMON_ROWS = "sizes", "common rows"


class PartnerLoss(Section):
    """What one partner gets from a run, and its privacy loss.

    `what` is a grant or the level; ``nothing`` for a partner without results; ``statements`` for one that
    gets only those about vectors with noise on inputs; ``sizes`` or ``common rows`` if the run has only
    started. `loss` is ρ, None for exact numbers, which have no bound. A partner without noisy numbers, and
    the coordinator's own exact copy, are not `counted`, only listed. Losses of different units
    (``privacy.unit``) are not added up. `identity` is the partner's public key in the plan, or empty.
    """

    what: str
    loss: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    counted: bool = True
    unit: Literal["row", "value"] = "row"
    identity: str = ""


class ChargedRun(Section):
    """What an owner's run reveals to each partner.

    `told` has what each partner gets. `id` is the run's, and `plan` the shared plan's digest, both
    hexadecimal; `name` is the name of the plan's file, `purpose` the plan's purpose. `rows` and `columns` are
    the owner's: of its table when the run starts, and used by the run when it is charged. `limit`
    is ``policy.lifetime``. Ledgers of earlier versions have no `id`, `name`, `purpose` and `limit`.
    """

    party: str
    plan: str
    version: str = __version__
    rows: int
    columns: int
    told: dict[str, PartnerLoss]
    id: str = ""
    name: str = ""
    purpose: str = ""
    limit: float | None = None


class Started(Section):
    """A run that has started: when, under which approval, and what others learn before it is charged."""

    time: str
    started: ChargedRun
    approval: str = ""

    @property
    def reveals_members(self) -> bool:
        """Whether others learn which of their rows the owner's table has."""
        return any(loss.what == COMMON_ROWS for loss in self.started.told.values())


class Charge(Section):
    """A run that was allowed: when, and by which approval. It counts, unless an `Ended` takes it back."""

    time: str
    run: ChargedRun
    approval: str = ""


class Ended(Section):
    """How a run failed: the class of the error, the party that had it, and the phase.

    `rows` is the number of common rows, if the parties have computed it. With `taken_back` the run's charge
    does not count, because nothing was sent that depends on the rows of the run, except their number.
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
    """One partner's counted runs, under all its names and keys, and their sums of ρ by unit.

    `exact` is how many of these runs have no bound.
    """

    names: set[str] = field(default_factory=set)
    identities: set[str] = field(default_factory=set)
    runs: int = 0
    row: float = 0.0
    value: float = 0.0
    exact: int = 0
    since: str = ""

    def add(self, balance: Balance) -> None:
        """Add the same partner's balance under another name."""
        self.names |= balance.names
        self.identities |= balance.identities
        self.since = min(filter(None, (self.since, balance.since)), default="")
        for part in ("runs", "row", "value", "exact"):
            setattr(self, part, getattr(self, part) + getattr(balance, part))

    def is_of(self, name: str, loss: PartnerLoss) -> bool:
        """Return whether a run's partner is this one."""
        return name in self.names or (bool(loss.identity) and loss.identity in self.identities)


def taken_back(entries: Iterable[Entry]) -> set[str]:
    """Return the ids of runs whose charges were taken back."""
    return {entry.ended for entry in entries if isinstance(entry, Ended) and entry.taken_back}


def balances(entries: Sequence[Entry]) -> list[Balance]:
    """Return the balance of each partner, in order of first appearance."""
    partners, uncounted = list[Balance](), taken_back(entries)
    for entry in entries:
        if isinstance(entry, Charge) and entry.run.id not in uncounted:
            partners = _with_run(partners, entry.run.told, entry.time)
        elif isinstance(entry, Forgotten):
            for place, balance in enumerate(partners):
                if entry.partner in balance.names:
                    partners[place] = Balance(balance.names, balance.identities)
    return partners


def _with_run(partners: list[Balance], losses: Mapping[str, PartnerLoss], time: str) -> list[Balance]:
    """Return the balances after one more run; balances that turn out to be one partner's are merged."""
    for name, loss in losses.items():
        if loss.counted:
            total = Balance({name}, {loss.identity} - {""}, 1, since=time, exact=int(loss.loss is None))
            setattr(total, loss.unit, loss.loss or 0.0)
            earlier = [balance for balance in partners if balance.is_of(name, loss)]
            for balance in earlier:
                total.add(balance)
            place = partners.index(earlier[0]) if earlier else len(partners)
            partners = [balance for balance in partners if balance not in earlier]
            partners.insert(place, total)
    return partners


def over_lifetime(
    losses: Mapping[str, PartnerLoss], entries: Sequence[Entry], lifetime: float
) -> Iterator[str]:
    """Yield a sentence for each partner with which a run would exceed ``policy.lifetime``."""
    for after in _with_run(balances(entries), losses, ""):
        run = {name: loss for name, loss in losses.items() if loss.counted and after.is_of(name, loss)}
        for unit, total in (("row", after.row), ("value", after.value)):
            added = [loss.loss or 0.0 for loss in run.values() if loss.unit == unit]
            if not sum(added) or total <= lifetime * (1 + 1e-9):
                continue
            before, runs = max(0.0, total - sum(added)), after.runs - len(run)
            used = f"{before:g} in {runs} runs since {after.since}" if runs else "nothing yet"
            remaining = (lifetime - before) / len(added)
            less = f"agree on privacy.loss {remaining:g} or less, " if remaining > 0.01 else ""
            yield (
                f"{_one_partner(after.names)} has used {used}, this run would add {sum(added):g}, and "
                f"policy.lifetime allows {lifetime:g} in all. To go on, {less}grant it nothing (results, "
                "opened_to), or raise policy.lifetime."
            )


def _one_partner(names: Collection[str]) -> str:
    *first, last = map(show, sorted(names))
    return f"{', '.join(first)} and {last} (one partner, by name or key)" if first else last


def new_partners(losses: Mapping[str, PartnerLoss], entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a sentence for each new partner, each changed key, and each two names of one partner.

    Nothing for a ledger that has no charges yet.
    """
    partners = balances(entries)
    for name, loss in losses.items():
        if not (partners and loss.counted):
            continue
        earlier = [balance for balance in partners if balance.is_of(name, loss)]
        identities = set[str]().union(*(balance.identities for balance in earlier if name in balance.names))
        if not earlier:
            yield f"{show(name)} is new in the ledger: its sum begins with this run"
        elif loss.identity and identities and loss.identity not in identities:
            yield f"{show(name)} has another key than in the ledger; its sum continues"
        if len(earlier) > 1:
            names = set[str]().union(*(balance.names for balance in earlier))
            yield f"{_one_partner(names)}: their sums are added up"

"""How much an owner's runs revealed to each partner: one sum per partner, over all levels and plans.

Noise is fresh in every run, so losses add up (:mod:`mpc_spearman.privacy.loss`), whatever rows and columns
the runs used. A partner is recognised by its name or key in an earlier run. A run without noise
(``results.precision: exact``) has no bound: it is listed, but not in the sum. So is the coordinator's own
exact copy at ``coefficients`` and ``differences``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mpc_spearman.config.fields import Section
from mpc_spearman.data.refusals import show
from mpc_spearman.version import __version__


class Told(Section):
    """What one partner gets from a run: `what` is a grant, or the level for the coordinator.

    `loss` is ρ, None for exact numbers, which have no bound. The coordinator's own exact copy is not
    `counted`, only listed. Losses of different units (``privacy.unit``) are not added up. `identity` is the
    partner's public key in the plan, or empty.
    """

    what: str
    loss: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    counted: bool = True
    unit: Literal["row", "value"] = "row"
    identity: str = ""


class ChargedRun(Section):
    """What an owner's run reveals to each partner; the shared plan's digest is hexadecimal.

    `rows` and `columns` are the owner's in this run.
    """

    party: str
    plan: str
    version: str = __version__
    rows: int
    columns: int
    told: dict[str, Told]


class Charge(Section):
    """A run that was allowed, when, and by which approval. It counts though it may have failed since."""

    time: str
    run: ChargedRun
    approval: str = ""


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("is empty, or does not print on one line")
    return text


class Forgotten(Section):
    """Earlier results no longer count for a partner, for a reason that the owner gives."""

    time: str
    partner: str
    reason: Annotated[str, AfterValidator(_printable)]


Entry = Charge | Forgotten


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


def balances(entries: Iterable[Entry]) -> list[Balance]:
    """Add up the losses of each partner, in order of first appearance."""
    found: list[Balance] = []
    for entry in entries:
        if isinstance(entry, Charge):
            for name, told in entry.run.told.items():
                if not told.counted:
                    continue
                one = Balance({name}, {told.identity} - {""}, 1, since=entry.time)
                one.exact = int(told.loss is None)
                setattr(one, told.unit, told.loss or 0.0)
                same = [balance for balance in found if balance.is_of(name, told)]
                first = same[0] if same else Balance()
                for other in (*same[1:], one):
                    first.add(other)
                found = [balance for balance in found if balance not in same[1:]] + ([] if same else [first])
        elif isinstance(entry, Forgotten):
            found = [
                Balance(one.names, one.identities) if entry.partner in one.names else one for one in found
            ]
    return found


def over_lifetime(told: Mapping[str, Told], entries: Sequence[Entry], lifetime: float) -> Iterator[str]:
    """Say for which partners a run would exceed ``policy.lifetime``; nothing if it may be charged."""
    known = balances(entries)
    for name, one in told.items():
        had = next((balance for balance in known if balance.is_of(name, one)), Balance())
        before = had.row if one.unit == "row" else had.value
        if one.loss and before + one.loss > lifetime * (1 + 1e-9):
            earlier = f"{before:g} in {had.runs} runs since {had.since}" if had.runs else "nothing yet"
            left = max(0.0, lifetime - before)
            less = f"agree on privacy.loss {left:g} or less, " if left > 0.01 else ""
            yield (
                f"{show(name)} was told {earlier}, this run would add {one.loss:g}, and policy.lifetime "
                f"allows {lifetime:g} in all. To go on, {less}grant it nothing (results, "
                "opened_to), or raise policy.lifetime."
            )


def new_partners(told: Mapping[str, Told], entries: Sequence[Entry]) -> Iterator[str]:
    """Say which partners are new to a ledger that has entries, and whose key has changed."""
    known = balances(entries)
    for name, one in told.items():
        if not (known and one.counted):
            continue
        named = set[str]().union(*(balance.identities for balance in known if name in balance.names))
        if not any(balance.is_of(name, one) for balance in known):
            yield f"{show(name)} is new in the ledger: its sum begins with this run"
        elif one.identity and named and one.identity not in named:
            yield f"{show(name)} has another key than in the ledger; its sum continues"

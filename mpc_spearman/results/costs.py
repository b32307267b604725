"""What a run cost, in a few numbers, as the page and the terminal show it."""

from __future__ import annotations

from dataclasses import dataclass

from mpc_spearman.results.outcome import Outcome
from mpc_spearman.units import printable
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.meter import FORWARDED

# The cost row that runs beside all phases, and how rows begin that count forwarded bytes of a pair.
_KEEP_ALIVES, _FORWARDED = Kind.KEEPALIVE.phase, f"{FORWARDED} "


@dataclass(frozen=True)
class Totals:
    """A run's cost in a few numbers; if not `complete`, those of the copy's own party alone.

    `seconds` is the whole time of the party that took longest, `busiest` the time of the one that computed
    longest. `wire` is what all parties sent (for one party, what it sent and received), without keep-alives.
    `forwarded` are pairs of parties that were not connected directly, and the bytes between them, which
    `wire` counts once. `rounds` are hops in the longest chain of dependent messages, and `memory` is the peak
    of each party.
    """

    complete: bool
    seconds: float
    busiest: float
    wire: int
    forwarded: tuple[tuple[str, int], ...]
    messages: int
    rounds: int
    memory: tuple[tuple[str, int], ...]


def totals(result: Outcome) -> Totals:
    """Sum up a result's cost table."""
    cost = result.cost
    complete = {*result.plan.names} <= set(cost["party"])
    is_forwarded = cost["phase"].str.startswith(_FORWARDED)
    of_party, forwarded = cost[~is_forwarded], cost[is_forwarded]
    phases = of_party[of_party["phase"] != _KEEP_ALIVES]
    sums = phases.groupby("party", sort=False)[["seconds", "wait_seconds", "rounds"]].sum()
    memory = of_party.groupby("party", sort=False)["peak_memory_bytes"].max()
    pairs = forwarded["phase"].str.removeprefix(_FORWARDED)
    return Totals(
        complete=complete,
        seconds=float((sums["seconds"] + sums["wait_seconds"]).max()),
        busiest=float(sums["seconds"].max()),
        wire=int(phases["bytes_sent"].sum() + (0 if complete else phases["bytes_received"].sum())),
        forwarded=tuple(zip(map(printable, pairs), forwarded["bytes_sent"].tolist(), strict=True)),
        messages=int(phases["messages"].sum()),
        rounds=int(sums["rounds"].max()),
        memory=tuple(zip(map(printable, memory.index), memory.tolist(), strict=True)),
    )

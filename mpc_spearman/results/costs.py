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
    passed_on, keep_alives = cost["phase"].str.startswith(_FORWARDED), cost["phase"] == _KEEP_ALIVES
    moved = cost["bytes_sent"] + (0 if complete else cost["bytes_received"])
    phases = cost[~keep_alives & ~passed_on]
    by_party = phases.groupby("party", sort=False)
    memory = cost[~passed_on].groupby("party", sort=False)["peak_memory_bytes"].max()
    return Totals(
        complete=complete,
        seconds=float((by_party["seconds"].sum() + by_party["wait_seconds"].sum()).max()),
        busiest=float(by_party["seconds"].sum().max()),
        wire=int(moved[phases.index].sum()),
        forwarded=tuple(
            (printable(str(phase).removeprefix(_FORWARDED)), int(size))
            for phase, size in cost.loc[passed_on, ["phase", "bytes_sent"]].itertuples(index=False)
        ),
        messages=int(phases["messages"].sum()),
        rounds=int(by_party["rounds"].sum().max()),
        memory=tuple((printable(str(party)), int(peak)) for party, peak in memory.items()),
    )

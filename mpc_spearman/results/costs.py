"""What a run cost, in a few numbers and phase by phase, as the page and the terminal show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.filesize import decimal

from mpc_spearman.results.summary import Line, Table
from mpc_spearman.units import human_seconds, printable

if TYPE_CHECKING:
    from mpc_spearman.results.result import Result

#: The cost row that is no phase: it runs beside them all. And how those begin that say what the coordinator's
#: host has forwarded, a pair of parties each.
BESIDE, FORWARDED = "keep-alive", "forwarded "


@dataclass(frozen=True)
class Totals:
    """A run's cost in a few numbers; if not `complete`, those of the copy's own party alone.

    `seconds` is from start to end, of the party that took longest, and `busiest` is of computing, of the one
    that computed longest. `wire` is what all parties sent, for a single party what it sent and received,
    without keep-alives (`beside`). `forwarded` are pairs of parties that were not connected directly, and the
    bytes between them, which `wire` has once. `rounds` are hops in the longest chain of dependent messages,
    and `memory` is the peak of each party.
    """

    complete: bool
    seconds: float
    busiest: float
    wire: int
    beside: int
    forwarded: tuple[tuple[str, int], ...]
    messages: int
    rounds: int
    memory: tuple[tuple[str, int], ...]


def totals(result: Result) -> Totals:
    """Sum up a result's cost table."""
    cost, parties = result.cost, result.plan["parties"]
    names = {party["name"] for party in (parties["coordinator"], parties["target"], *parties["sources"])}
    complete = names <= set(cost["party"])
    passed_on, beside = cost["phase"].str.startswith(FORWARDED), cost["phase"] == BESIDE
    moved = cost["bytes_sent"] + (0 if complete else cost["bytes_received"])
    phases = cost[~beside & ~passed_on]
    by_party = phases.groupby("party", sort=False)
    memory = cost[~passed_on].groupby("party", sort=False)["peak_memory_bytes"].max()
    return Totals(
        complete=complete,
        seconds=float((by_party["seconds"].sum() + by_party["wait_seconds"].sum()).max()),
        busiest=float(by_party["seconds"].sum().max()),
        wire=int(moved[phases.index].sum()),
        beside=int(moved[beside].sum()),
        forwarded=tuple(
            (printable(str(phase).removeprefix(FORWARDED)), int(size))
            for phase, size in cost.loc[passed_on, ["phase", "bytes_sent"]].itertuples(index=False)
        ),
        messages=int(phases["messages"].sum()),
        rounds=int(by_party["rounds"].sum().max()),
        memory=tuple((printable(str(party)), int(peak)) for party, peak in memory.items()),
    )


def by_party(result: Result) -> dict[str, Table]:
    """List each party's phases in which anything happened, their sum, and what runs beside them."""
    head = ("phase", "computing", "waiting", "sent", "received", "messages", "rounds", "peak memory")
    tables = {}
    for party, rows in result.cost.groupby("party", sort=False):
        aside = rows["phase"].str.startswith((BESIDE, FORWARDED))
        whole = rows[~aside].drop(columns="party").sum()
        whole["phase"], whole["peak_memory_bytes"] = "all phases", rows["peak_memory_bytes"].max()
        phases, others = (
            part.drop(columns="party").to_numpy().tolist() for part in (rows[~aside], rows[aside])
        )
        lines = [_line(*row) for row in (*phases, whole.tolist(), *others) if any(row[1:])]
        tables[printable(str(party))] = Table(head, lines, len(lines))
    return tables


def _line(
    phase: str, seconds: float, wait: float, sent: int, received: int, messages: int, rounds: int, memory: int
) -> Line:
    times = (human_seconds(seconds), human_seconds(wait))
    counts = (decimal(int(sent)), decimal(int(received)), f"{int(messages):,}", f"{int(rounds):,}")
    return Line((printable(phase), *times, *counts, decimal(int(memory)) if memory else "–"))

"""What a run cost, in a few numbers and phase by phase, as the page and the terminal show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from mpc_spearman.units import human_seconds, printable

if TYPE_CHECKING:
    import pandas as pd

    from mpc_spearman.results.result import Result

#: The cost row that is no phase: it runs beside them all. And how those begin that say what the coordinator's
#: host has forwarded, a pair of parties each.
BESIDE, FORWARDED = "keep-alive", "forwarded "


@dataclass(frozen=True)
class Totals:
    """A run's cost in a few numbers; if not `complete`, those of the copy's own party alone.

    Attributes
    ----------
    seconds, busiest : float
        From start to end, of the party that took longest; and of computing, of the one that computed longest.
    wire : int
        Bytes sent by all parties; for a single party, sent and received. Without keep-alives (`beside`).
    forwarded : tuple of (str, int)
        Pairs of parties that were not connected directly, and the bytes that the coordinator's host has
        forwarded, which `wire` has once, as what the two sent.
    messages, rounds : int
        Frames sent, and hops in the longest chain of dependent messages.
    memory : tuple of (str, int)
        Peak resident bytes by party.
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
    cost, passed_on = _apart(result.cost)
    beside = cost["phase"] == BESIDE
    complete = _parties(result.plan) <= set(cost["party"])
    moved = cost["bytes_sent"] + (0 if complete else cost["bytes_received"])
    by_party = cost[~beside].groupby("party", sort=False)
    memory = cost.groupby("party", sort=False)["peak_memory_bytes"].max()
    return Totals(
        complete=complete,
        seconds=float((by_party["seconds"].sum() + by_party["wait_seconds"].sum()).max() if len(cost) else 0),
        busiest=float(by_party["seconds"].sum().max() if len(cost) else 0),
        wire=int(moved[~beside].sum()),
        beside=int(moved[beside].sum()),
        forwarded=tuple(
            (printable(str(row["phase"]).removeprefix(FORWARDED)), int(row["bytes_sent"]))
            for row in passed_on.to_dict("records")
        ),
        messages=int(cost.loc[~beside, "messages"].sum()),
        rounds=int(by_party["rounds"].sum().max() if len(cost) else 0),
        memory=tuple((printable(str(party)), int(peak)) for party, peak in memory.items()),
    )


def _apart(cost: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of what parties did themselves, and those of what was forwarded."""
    forwarded = cost["phase"].str.startswith(FORWARDED)
    return cost[~forwarded], cost[forwarded]


def _parties(plan: Mapping[str, Any]) -> set[str]:
    parties = plan["parties"]
    return {
        parties["coordinator"]["name"],
        parties["target"]["name"],
        *(p["name"] for p in parties["sources"]),
    }


def by_party(result: Result) -> list[dict[str, Any]]:
    """Rows per party in the order of the phases, without phases in which nothing happened."""
    cost, passed_on = _apart(result.cost)
    numbers = list(cost.columns[2:])
    longest = float((cost["seconds"] + cost["wait_seconds"]).max()) if len(cost) else 0.0
    tables = []
    for party, rows in cost.groupby("party", sort=False):
        phases = rows[rows["phase"] != BESIDE]
        sums = {name: phases[name].sum() for name in numbers}
        sums["peak_memory_bytes"] = phases["peak_memory_bytes"].max()
        lines = [
            _cost_line(row, longest) for row in phases.to_dict("records") if any(row[k] for k in numbers)
        ]
        lines.append({**_cost_line({"phase": "all phases", **sums}, 0.0), "total": True})
        for row in rows[rows["phase"] == BESIDE].to_dict("records"):
            lines.append(_cost_line({**row, "phase": "keep-alives, beside them"}, 0.0))
        for row in passed_on[passed_on["party"] == party].to_dict("records"):
            lines.append(_cost_line({**row, "phase": printable(str(row["phase"]))}, 0.0))
        tables.append({"party": printable(str(party)), "lines": lines})
    return tables


def _cost_line(row: Mapping[Any, Any], longest: float) -> dict[str, Any]:
    compute, wait, memory = row["seconds"], row["wait_seconds"], int(row["peak_memory_bytes"])
    share = 100 / longest if longest else 0.0
    return {
        "phase": row["phase"],
        "compute": human_seconds(compute),
        "wait": human_seconds(wait),
        "bars": (round(compute * share, 2), round(wait * share, 2)) if longest else None,
        "sent": decimal(int(row["bytes_sent"])),
        "received": decimal(int(row["bytes_received"])),
        "messages": f"{int(row['messages']):,}",
        "rounds": f"{int(row['rounds']):,}",
        "memory": decimal(memory) if memory else "–",
        "total": False,
    }

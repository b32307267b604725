"""The figures of a comparison: one row per run, party and phase; on another network; and what a run comes to.

On a network seconds = measured + transfer + latency, as docs/costs.md says under "Compare plans". Each party
has a link of its own, full duplex, and phases follow one another. Left out are also that parties send while
they compute, and that on machines of their own they do not share processors as they did here.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mpc_spearman.comparison.variants import Size, Variant
from mpc_spearman.errors import PlanError

#: Columns that say which run it is.
RUN = ["protocol", "scheme", "level", "estimator", "n", "m_A", "m_B", "repeat"]
# The figures, each with its column in a run's ``cost.csv``.
_COST_COLUMNS = {
    "seconds": "seconds",
    "wait": "wait_seconds",
    "bytes": "bytes_sent",
    "received": "bytes_received",
    "messages": "messages",
    "rounds": "rounds",
    "memory": "peak_memory_bytes",
}
#: Columns with figures.
FIGURES = list(_COST_COLUMNS)
#: Columns of the tidy table.
TIDY = [*RUN, "phase", "party", *FIGURES]
# Phases that no total counts: meeting and agreeing on keys, and signs of life.
_NOT_COUNTED = ("connect", "keep-alive")


@dataclass(frozen=True)
class Link:
    """Each party's connection: bits a second in each direction, and seconds to the other side and back."""

    bandwidth: float
    rtt: float

    def __post_init__(self) -> None:
        if not (0 < self.bandwidth < float("inf") and 0 <= self.rtt < float("inf")):
            bounds = "a bandwidth above 0 and an rtt of 0 or more, both finite"
            raise PlanError(f"a network has {bounds}, not {self.bandwidth!r} and {self.rtt!r}")

    def __str__(self) -> str:
        return f"{self.bandwidth / 1e6:g} Mbit/s, {self.rtt * 1000:g} ms"


#: In one building.
LAN = Link(bandwidth=1e9, rtt=0.001)
#: Between cities.
WAN = Link(bandwidth=1e8, rtt=0.040)


def tidy(variant: Variant, size: Size, repeat: int, cost: pd.DataFrame) -> pd.DataFrame:
    """Turn a run's cost table into rows of the tidy table."""
    plan = variant.plan
    run_columns: list[Any] = [plan.protocol, variant.scheme, plan.reveal, plan.estimator, *size, repeat]
    figures = cost.rename(columns={column: figure for figure, column in _COST_COLUMNS.items()})
    return figures.assign(**dict(zip(RUN, run_columns, strict=True)))[TIDY]


def after_handshake(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that totals are made of: without ``connect`` and ``keep-alive``."""
    return table[~table["phase"].isin(_NOT_COUNTED)]


def per_run(table: pd.DataFrame) -> pd.DataFrame:
    """Sum a tidy table up, with or without a network: one row per run.

    Beside the columns `RUN`, all without the handshake (phase ``connect``) and keep-alives: ``seconds`` from
    start to end, of the party that took longest, waiting included; ``bytes`` and ``messages`` that all
    parties sent; ``rounds``, hops in the longest chain of messages; ``memory``, the largest peak of a party.
    With a network also ``transfer`` (in every phase that of the party with the most to send or receive),
    ``latency`` (of the longest chain) and ``modelled``, the sum of seconds, transfer and latency.
    """
    rows = after_handshake(table).assign(elapsed=lambda part: part["seconds"] + part["wait"])
    party, run = rows.groupby([*RUN, "party"], sort=False), rows.groupby(RUN, sort=False)

    def longest(column: str) -> pd.Series[float]:
        return party[column].sum().groupby(RUN, sort=False).max()

    figures = {
        "seconds": longest("elapsed"),
        "bytes": run["bytes"].sum(),
        "messages": run["messages"].sum(),
        "rounds": longest("rounds"),
        "memory": run["memory"].max(),
    }
    if "transfer" in table:
        busiest = rows.groupby([*RUN, "phase"], sort=False)["transfer"].max()
        figures["transfer"] = busiest.groupby(RUN, sort=False).sum()
        figures["latency"] = longest("latency")
        figures["modelled"] = figures["seconds"] + figures["transfer"] + figures["latency"]
    return pd.DataFrame(figures).reset_index()


def on_network(table: pd.DataFrame, link: Link) -> pd.DataFrame:
    """Put measured runs, the tidy table of `compare`, on a network.

    The result has two more columns, seconds that the network adds to this party in this phase: ``transfer``
    and ``latency``; 0 in what the model leaves out. `per_run` sums them up.
    """
    counted = table.index.isin(after_handshake(table).index)
    most = table[["bytes", "received"]].max(axis=1).where(counted, 0)
    rounds = table["rounds"].where(counted, 0)
    return table.assign(transfer=most * 8 / link.bandwidth, latency=rounds * link.rtt / 2)


def break_even(first: pd.Series, second: pd.Series) -> float | None:
    """Return the factor by which a link's bandwidth has to change for two runs to take equally long.

    The runs are rows of ``per_run(on_network(table, link))``. None where one is faster at any bandwidth.
    """
    ahead = (first["seconds"] + first["latency"]) - (second["seconds"] + second["latency"])
    behind = second["transfer"] - first["transfer"]
    # seconds + transfer / factor + latency is equal on both sides where factor = behind / ahead.
    return float(behind / ahead) if ahead * behind > 0 else None


def machine() -> dict[str, str | int]:
    """Return this machine's processor and number of cores, since figures of two machines do not compare."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return {"processor": model[1] if model else platform.machine(), "cores": len(os.sched_getaffinity(0))}

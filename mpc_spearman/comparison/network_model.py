"""A model of how long measured runs would take on another network.

seconds = measured + transfer + latency, as docs/costs.md says under "Compare plans". Each party has a link of
its own, full duplex, and phases follow one another. Left out are also that parties send while they compute,
and that on machines of their own they do not share processors as they did here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mpc_spearman.comparison.table import after_handshake
from mpc_spearman.errors import PlanError


@dataclass(frozen=True)
class Link:
    """Each party's connection: bits a second in each direction, and seconds to the other side and back."""

    bandwidth: float
    rtt: float

    def __post_init__(self) -> None:
        if not (0 < self.bandwidth < float("inf") and 0 <= self.rtt < float("inf")):
            raise PlanError(
                f"bandwidth: {self.bandwidth!r} above 0 and rtt: {self.rtt!r} from 0 make a network"
            )

    def __str__(self) -> str:
        return f"{self.bandwidth / 1e6:g} Mbit/s, {self.rtt * 1000:g} ms"


#: In one building.
LAN = Link(bandwidth=1e9, rtt=0.001)
#: Between cities.
WAN = Link(bandwidth=1e8, rtt=0.040)


def on_network(table: pd.DataFrame, link: Link) -> pd.DataFrame:
    """Put measured runs, the tidy table of `compare`, on a network.

    The result has two more columns, seconds that the network adds to this party in this phase: ``transfer``
    and ``latency``; 0 in what the model leaves out. `per_run` sums them up.
    """
    counted = table.index.isin(after_handshake(table).index)
    most = table[["bytes", "received"]].max(axis=1).where(counted, 0)
    rounds = table["rounds"].where(counted, 0)
    return table.assign(transfer=most * 8 / link.bandwidth, latency=rounds * link.rtt / 2)


def break_even(one: pd.Series, other: pd.Series) -> float | None:
    """Return the factor by which a link's bandwidth has to change for two runs to take equally long.

    `one` and `other` are rows of ``per_run(on_network(table, link))``. None where one of the two is faster at
    any bandwidth.
    """
    ahead = (one["seconds"] + one["latency"]) - (other["seconds"] + other["latency"])
    behind = other["transfer"] - one["transfer"]
    # seconds + transfer / factor + latency is equal on both sides where factor = behind / ahead.
    return float(behind / ahead) if ahead * behind > 0 else None

"""The figures of a comparison: one row per run, party and phase, and what one run comes to."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

import pandas as pd

from mpc_spearman.comparison.variants import Size, Variant

#: Columns that say which run it is.
RUN = ["protocol", "scheme", "level", "estimator", "n", "m_A", "m_B", "repeat"]
# The figures, and what each is called in a run's ``cost.csv``.
_CALLED = {
    "seconds": "seconds",
    "wait": "wait_seconds",
    "bytes": "bytes_sent",
    "received": "bytes_received",
    "messages": "messages",
    "rounds": "rounds",
    "memory": "peak_memory_bytes",
}
#: Columns with figures.
FIGURES = list(_CALLED)
#: Columns of the tidy table.
TIDY = [*RUN, "phase", "party", *FIGURES]
#: What no total counts: meeting and agreeing keys, and signs of life beside the computation.
_APART = ("connect", "keep-alive")


def tidy(variant: Variant, size: Size, repeat: int, cost: pd.DataFrame) -> pd.DataFrame:
    """Turn a run's cost table into rows of the tidy table."""
    about: list[Any] = [variant.protocol, variant.scheme, variant.level, variant.estimator, *size, repeat]
    figures = cost.rename(columns={theirs: ours for ours, theirs in _CALLED.items()})
    return figures.assign(**dict(zip(RUN, about, strict=True)))[TIDY]


def after_handshake(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that totals are made of: without ``connect`` and ``keep-alive``."""
    return table[~table["phase"].isin(_APART)]


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


def machine() -> dict[str, str | int]:
    """Say what this machine computes with: figures of two machines do not go into one table."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return {"processor": model[1] if model else platform.machine(), "cores": len(os.sched_getaffinity(0))}

"""A run between hosts that are 40 ms apart, with 100 Mbit/s each: the result, the seconds and the bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import run_local
from mpc_spearman.comparison import data
from mpc_spearman.comparison.network_model import WAN, on_network
from mpc_spearman.comparison.table import after_handshake, per_run, tidy
from mpc_spearman.comparison.variants import Size, variants
from mpc_spearman.config import load_plan
from mpc_spearman.results.costs import FORWARDED
from mpc_spearman.results.result import Result
from support.hosts import Job, hosts
from support.plans import mapping

SIZE = Size(n=250_000, m_A=30, m_B=30)
PLAN = mapping(results={"sources": "coefficients"})
#: Of a packet without payload: Ethernet 14 bytes, IPv4 20, TCP 20 and its time stamp 12.
HEADERS = 66


@pytest.mark.long
def test_seconds_and_bytes_over_a_wide_area_network(tmp_path: Path) -> None:
    """Work, bytes / bandwidth and rounds × RTT / 2 explain the seconds; the meter has the interface's bytes.

    Work is what the busiest party did in this same run, waiting left out: how fast this machine is, and what
    else it has to do, then is no part of the comparison. It may be done while bytes travel, or not. Transfer
    and latency are those of `compare`'s model, or the time in which C's link forwards, if that is longer.
    """
    tables = data.tables(load_plan(PLAN), SIZE)
    local = run_local(PLAN, tables)
    with hosts("C", "B", "A", rate=WAN.bandwidth, delay=WAN.rtt / 2) as network:
        before = {name: network.counters(name) for name in "CBA"}
        with Job(network, tmp_path / "job", PLAN, tables) as job:
            job.join()
            job.check(local)
        carried = {name: network.counters(name) - before[name] for name in "CBA"}

    cost = costs(job.result("C"))
    forwarded = cost["phase"].str.startswith(FORWARDED)
    network_adds = per_run(on_network(cost[~forwarded], WAN)).loc[0]
    work = after_handshake(cost).groupby("party")["seconds"].sum().max()
    by_way_of_c = cost.loc[forwarded & (cost["party"] == "C"), "bytes"].sum() * 8 / WAN.bandwidth
    on_the_way = max(network_adds["transfer"], by_way_of_c) + network_adds["latency"]
    assert on_the_way >= 5
    assert 0.9 * on_the_way <= network_adds["seconds"] <= 1.25 * (work + on_the_way)

    metered = cost.groupby("party")[["bytes", "received"]].sum()
    for name, wire in carried.items():
        # The meter counts messages. Every packet has headers, and half as many acknowledge the others'.
        packets = np.array([wire.packets_sent, wire.packets_received])
        payload = np.array([wire.sent, wire.received]) - HEADERS * packets
        # C's has what it forwards between the others. Some packets TCP sends again.
        np.testing.assert_allclose(metered.loc[name, "received"], payload[1], rtol=0.05)
        np.testing.assert_allclose(metered.loc[name, "bytes"], payload[0], rtol=0.1)


def costs(result: Result) -> pd.DataFrame:
    return tidy(variants([PLAN])[0], SIZE, 1, result.cost)

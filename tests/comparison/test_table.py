"""A run on another network, by arithmetic."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.comparison import LAN, WAN, Link, break_even, on_network, per_run
from mpc_spearman.errors import PlanError
from support.sweeps import made_table


def test_a_run_is_summed_up_without_the_handshake() -> None:
    (run,) = per_run(made_table()).to_dict("records")
    assert run["seconds"] == 1.75
    assert (run["bytes"], run["messages"], run["rounds"], run["memory"]) == (3500, 3, 3, 30)
    assert "modelled" not in run


def test_the_network_adds_transfer_and_latency() -> None:
    link = Link(bandwidth=8000, rtt=0.1)  # 1000 bytes a second
    table = on_network(made_table(), link)
    (run,) = per_run(table).to_dict("records")
    assert run["transfer"] == pytest.approx(
        2.0 + 3.0
    )  # A sends 2000 while sharing, C receives 3000 at the end
    assert run["latency"] == pytest.approx(3 * 0.05)
    assert run["modelled"] == pytest.approx(1.75 + 5.0 + 0.15)
    apart = table[table["phase"].isin(["connect", "keep-alive"])]
    assert (apart[["transfer", "latency"]] == 0).all(axis=None)


def test_presets_match_their_names() -> None:
    assert (str(LAN), str(WAN)) == ("1000 Mbit/s, 1 ms", "100 Mbit/s, 40 ms")


@pytest.mark.parametrize(
    ("bandwidth", "rtt"), [(0, 1), (-1, 1), (float("nan"), 1), (1, -1), (1, float("inf"))]
)
def test_a_link_that_cannot_be_is_refused(bandwidth: float, rtt: float) -> None:
    with pytest.raises(PlanError, match="bandwidth"):
        Link(bandwidth, rtt)


positive = st.floats(1e-3, 1e3)


@given(st.tuples(positive, positive, positive), st.tuples(positive, positive, positive))
def test_at_the_break_even_bandwidth_both_take_equally_long(
    first_run: tuple[float, ...], second_run: tuple[float, ...]
) -> None:
    first, second = (
        pd.Series(run, index=["seconds", "latency", "transfer"]) for run in (first_run, second_run)
    )
    factor = break_even(first, second)

    def modelled(run: pd.Series, times: float) -> float:
        return float(run["seconds"] + run["latency"] + run["transfer"] / times)

    if factor is not None:
        assert modelled(first, factor) == pytest.approx(modelled(second, factor), rel=1e-6)
    else:  # one is faster at the lowest bandwidth and at the highest
        ahead = [modelled(first, times) - modelled(second, times) for times in (1e-9, 1e9)]
        assert ahead[0] * ahead[1] >= 0 or min(map(abs, ahead)) < 1e-5

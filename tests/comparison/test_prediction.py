"""Estimates, of a machine whose speed is known. How close they come to runs is a benchmark."""

from __future__ import annotations

from typing import Any

import pytest

from mpc_spearman.comparison import WAN, calibration, on_network, per_run
from mpc_spearman.comparison.calibration import Machine
from mpc_spearman.comparison.prediction import Host, estimate
from mpc_spearman.comparison.table import TIDY
from mpc_spearman.comparison.variants import Size, Variant, alternatives, variants
from mpc_spearman.errors import BoundError
from mpc_spearman.run import BLOCK_BYTES
from support.plans import plan

ALONE, ONE_CORE, MANY_CORES = Host(1, shared=False), Host(1, shared=True), Host(8, shared=False)


def in_no_time(patch: pytest.MonkeyPatch) -> None:
    """Let a real machine try everything on next to nothing."""
    for name, value in {"_ROWS": 512, "_CELLS": 1 << 14, "_RANKED": (256, 1024), "_TRIAL": 0.0}.items():
        patch.setattr(calibration, name, value)


class Clockwork(Machine):
    """A machine that takes a microsecond for a row or cell of everything, and holds nothing."""

    cell_bytes = 8
    base: Any = dict.fromkeys(("mpc", "he"), 0)
    digest = mask = order_of_ids = comparison = 1e-6
    touch = 0.0
    reading = intersection = (1e-6, 1e-6)

    def __init__(self) -> None:
        one: Any = lambda *columns: 1e-6  # noqa: E731
        self.products = self.squares = self.encoding = self.opening = one
        self.wire: Any = lambda width: (1e-6, 1e-6)
        self.rules: Any = lambda columns: (0.0, 1e-6)

    def ranking(self, n: int) -> float:
        return 1e-6

    def shuffling(self, n: int) -> tuple[float, float]:
        return 1e-6, 1e-6


def variant(*sources: str, **settings: Any) -> Variant:
    (found,) = variants([plan(*sources, **settings)])
    return found


def seconds(n: int, host: Host, a: int = 3, b: int = 4, **settings: Any) -> float:
    (run,) = per_run(estimate(variant(**settings), Size(n, a, b), Clockwork(), host)).to_dict("records")
    return float(run["seconds"])


def test_the_table_is_one_of_a_comparison_and_goes_onto_a_network() -> None:
    table = estimate(variant(), Size(1000, 3, 4), Clockwork(), ALONE)
    assert list(table.columns) == TIDY
    (run,) = per_run(on_network(table, WAN)).to_dict("records")
    assert run["modelled"] == pytest.approx(run["seconds"] + run["transfer"] + run["latency"])
    assert run["rounds"] == 6
    assert run["latency"] == pytest.approx(6 * 0.02)


@pytest.mark.parametrize("reveal", ["differences", "coefficients", "strengths", "ranking"])
def test_every_party_is_done_at_the_same_time(reveal: str) -> None:
    table = estimate(variant("A1", "A2", reveal=reveal), Size(1000, 3, 4), Clockwork(), ALONE)
    after = table[table["phase"] != "connect"]
    ends = (after["seconds"] + after["wait"]).groupby(after["party"]).sum()
    assert ends.tolist() == pytest.approx([ends.iloc[0]] * 4)
    assert (table["wait"] >= 0).all()


@pytest.mark.parametrize("reveal", ["differences", "coefficients", "strengths"])
def test_time_grows_with_the_rows_and_memory_with_the_cells(reveal: str) -> None:
    one, two, three = (seconds(n, ALONE, reveal=reveal) for n in (1_000_000, 2_000_000, 3_000_000))
    assert three - two == pytest.approx(two - one, rel=1e-3)
    assert three > two > one
    peaks = [
        estimate(variant(reveal=reveal), Size(n, 3, 4), Clockwork(), ALONE).groupby("party")["memory"].max()
        for n in (1_000_000, 2_000_000)
    ]
    assert 1.5 < peaks[1]["B"] / peaks[0]["B"] < 2.1
    assert peaks[1]["B"] > 2_000_000 * 4 * 4


def test_parties_that_share_one_core_take_as_long_as_all_of_their_work() -> None:
    table = estimate(variant(), Size(10_000, 3, 4), Clockwork(), ALONE)
    assert seconds(10_000, ONE_CORE) == pytest.approx(table["seconds"].sum())
    assert seconds(10_000, ALONE) < seconds(10_000, ONE_CORE)


def test_more_cores_make_ranking_faster_and_nothing_slower() -> None:
    one, eight = (
        estimate(variant(), Size(10_000, 8, 8), Clockwork(), host).set_index(["party", "phase"])["seconds"]
        for host in (ALONE, MANY_CORES)
    )
    assert eight["B", "rank"] == pytest.approx(one["B", "rank"] / 8)
    assert eight["B", "multiply"] == one["B", "multiply"]


def test_a_size_that_a_run_refuses_is_refused() -> None:
    with pytest.raises(BoundError, match="coefficients are more than one result can carry"):
        estimate(variant(), Size(10_000, 2000, 2000), Clockwork(), ALONE)


def test_finding_common_rows_takes_time_and_traffic_of_its_own() -> None:
    table = estimate(variant(alignment="intersect"), Size(10_000, 3, 4), Clockwork(), ALONE)
    found = table[table["phase"] == "intersect"].set_index("party")
    assert (found["seconds"] > 0).all()
    assert found.loc["A", "bytes"] > 16 * 10_000 > found.loc["C", "bytes"]


def test_alternatives_are_every_protocol_and_level_there_is() -> None:
    found = alternatives(plan("A1", "A2", reveal="ranking", top=1))
    assert len({str(one) for one in found}) == len(found) == 13
    assert {one.level for one in found if one.protocol == "he"} == {
        "differences",
        "coefficients",
        "strengths",
    }
    assert {len(one.plan.parties.sources) for one in found} == {2}


def test_a_row_wider_than_a_block_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    in_no_time(monkeypatch)
    machine, columns = Machine(), 140_000
    assert 8 * columns > BLOCK_BYTES
    assert min(machine.products(1, columns, True), machine.squares(1, columns)) > 0
    assert machine.opening(1, columns) > 0


def test_differences_cost_an_order_a_cell_and_a_basis() -> None:
    table = estimate(variant(reveal="differences"), Size(10_000, 3, 4), Clockwork(), ALONE)
    work = table.set_index(["party", "phase"])["seconds"]
    assert work["A", "share"] == pytest.approx(10_000 * (1 + 3 * 2) * 1e-6)
    assert work["A", "reveal"] == pytest.approx(10_000 * (1 + 6) * 1e-6)
    assert work["C", "reveal"] == pytest.approx(10_000 * (7 + 1 + 2 * 6) * 1e-6)


def test_a_real_machine_gives_numbers_for_each_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    in_no_time(monkeypatch)
    machine = Machine()
    bfv = pytest.importorskip("tenseal") and {"protocol": "he", "he": {"scheme": "bfv"}}
    paillier = {"protocol": "he", "he": {"key_bits": 256, "insecure": True}}
    for settings in (
        {},
        {"reveal": "differences"},
        {"reveal": "strengths"},
        {"reveal": "ranking"},
        bfv,
        paillier,
    ):
        table = estimate(variant(**settings), Size(5000, 3, 4), machine, Host.this())
        at_work = table[table["phase"].isin(["load", "rank", "multiply", "evaluate"])]
        assert at_work.groupby("party")["seconds"].sum()[["A", "B"]].gt(0).all()
        assert (table["memory"] > 1e8).all()
        assert 0 < per_run(table)["seconds"].iloc[0] < 60

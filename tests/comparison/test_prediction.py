"""Estimates from small runs. How close they come to large ones is a benchmark."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from mpc_spearman.comparison import WAN, on_network, per_run, prediction
from mpc_spearman.comparison.prediction import Estimate, estimate
from mpc_spearman.comparison.table import FIGURES, TIDY
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.errors import BoundError
from support.harness import fork_server
from support.plans import LIGHT, plan
from support.sweeps import FakeRuns

SIZE = Size(3_000, 3, 4)
SMALL = {"protocol": "he", "he": {"key_bits": 256, "insecure": True}}


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "_CELLS", (2_000, 16_000))


def variant(**settings: Any) -> Variant:
    (estimated,) = variants([plan(**settings)])
    return estimated


def test_figures_are_extended_along_a_line(fake_runs: FakeRuns) -> None:
    estimated = estimate(variant(), SIZE)
    assert list(estimated.rows) == fake_runs.rows
    assert estimated.rows[0] == 2_000 // 7
    assert len(estimated.rows) > 1
    assert estimated.rows[-1] * 7 <= 16_000
    assert list(estimated.table.columns) == TIDY
    expected = fake_runs.cost(SIZE.n)
    pd.testing.assert_series_equal(
        estimated.table["seconds"], expected["seconds"], check_index=False, check_names=False
    )
    assert estimated.table["bytes"].tolist() == expected["bytes_sent"].tolist()
    assert estimated.table["memory"].tolist() == expected["peak_memory_bytes"].tolist()


def test_costs_that_do_not_depend_on_rows_are_not_extrapolated(fake_runs: FakeRuns) -> None:
    estimated = estimate(variant(**SMALL), SIZE).table
    keys = estimated[estimated["phase"].isin(["connect", "keys"])]
    last = fake_runs.cost(fake_runs.rows[-1], "he")
    assert keys["seconds"].sum() == pytest.approx(
        last[last["phase"].isin(["connect", "keys"])]["seconds"].sum()
    )
    assert fake_runs.rows[0] < 10  # a row of Paillier's can take a second


def test_a_size_that_is_small_enough_is_measured(fake_runs: FakeRuns) -> None:
    estimated = estimate(variant(), Size(400, 3, 4))
    assert estimated.rows == (2_000 // 7, 400)
    assert estimated.table["bytes"].tolist() == fake_runs.cost(400)["bytes_sent"].tolist()


def test_one_long_run_is_extended_in_proportion(fake_runs: FakeRuns) -> None:
    fake_runs.a_row = 1.0
    estimated = estimate(variant(**SMALL), Size(400, 3, 4))
    assert estimated.rows == (4,)
    seconds = estimated.table.groupby("phase")["seconds"].sum()
    tried = fake_runs.cost(4, "he").groupby("phase")["seconds"].sum()
    assert seconds["encrypt"] == pytest.approx(100 * tried["encrypt"])
    assert estimated.table["memory"].max() == fake_runs.cost(4, "he")["peak_memory_bytes"].max()


def test_a_size_that_a_run_refuses_is_refused_before_there_is_one(fake_runs: FakeRuns) -> None:
    with pytest.raises(BoundError):
        estimate(variant(), Size(10_000, 2000, 2000))
    assert fake_runs.rows == []


@pytest.mark.parametrize(
    ("settings", "suffix"),
    [
        ({}, ".parquet"),
        ({"reveal": "differences"}, ".csv"),
        ({"reveal": "ranking", "alignment": "intersect", "opened_to": "target"}, ".parquet"),
        (LIGHT, ".parquet"),
    ],
    ids=str,
)
def test_small_runs_predict_what_a_larger_one_sends(
    settings: dict[str, Any], suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, size = variant(**settings), Size(1500, 3, 4)

    def of_rows(first: int, most: int) -> Estimate:
        monkeypatch.setattr(prediction, "_CELLS", (first * 7, most * 7))
        return estimate(chosen, size, suffix=suffix, server=fork_server())

    estimated, whole = of_rows(300, 600), of_rows(size.n, size.n)
    assert estimated.rows[-1] <= 600
    assert whole.rows[-1] == size.n
    (predicted,), (measured,) = (
        per_run(on_network(table, WAN)).to_dict("records") for table in (estimated.table, whole.table)
    )
    assert predicted["bytes"] == pytest.approx(
        measured["bytes"], rel=0.3
    )  # a ring element may take a byte more
    assert predicted["rounds"] == measured["rounds"]
    assert set(estimated.table["party"]) == set("CBA")
    # Libraries are most of so small a run's memory, which varies by tens of MB; a line makes more of that.
    assert predicted["memory"] > measured["memory"] / 2
    assert (estimated.table[FIGURES] >= 0).all(axis=None)

"""``mpc-spearman estimate``: what it prints and what it refuses."""

from __future__ import annotations

import pytest

from mpc_spearman.cli.main import main
from support.harness import ROOT
from support.sweeps import FakeRuns

MPC = str(ROOT / "configs" / "mpc.yaml")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["estimate", MPC, *arguments]) == 0
    return capsys.readouterr().out


def test_estimate_prints_a_line_for_each_party_and_its_accuracy(
    fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_runs.a_row = 1e-3  # so that there is one run
    lines = printed(capsys, "--rows", "2000000", "--features", "30x20").splitlines()
    first, heads, *parties, last, needed = lines
    assert "30 × 20 columns about" in needed
    assert "2,000,000 rows, 30 × 20 columns" in first
    assert heads.split() == ["time", "party", "at", "work", "sent", "received", "memory"]
    assert [party in line for party, line in zip("CBA", parties, strict=True)] == [True] * 3
    assert "40,000" in last
    assert "25 %" in last
    assert last.endswith("Tables are read from CSV files, and fit into memory.")
    query = "parties.target.table={query: SELECT 1 AS id, order_by: id}"
    assert "queries comes on top" in printed(capsys, query, "--rows", "500", "--features", "3x3")
    assert "Measured" in printed(capsys, "rows=500", "--features", "3x3")  # rows of the plan


def test_a_network_adds_time_and_nothing_else(
    fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    size, network = ("--rows", "2000", "--features", "3x2"), ("--bandwidth", "100", "--rtt", "40")
    without, with_network = (printed(capsys, *size, *more) for more in ((), network))
    assert "100 Mbit/s, 40 ms" in with_network
    (first, *rest_of_first), (second, *rest_of_second) = (
        [line.split() for line in text.splitlines()[2:5]] for text in (without, with_network)
    )
    assert rest_of_first == rest_of_second
    assert first[first.index("C") :] == second[second.index("C") :]
    assert first != second


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--features", "3x3"], 2, "--rows"),
        (["--rows", "100", "--features", "3x3", "--rtt", "4"], 2, "--bandwidth"),
        (["--rows", "100", "--features", "3x3", "--bandwidth", "-1", "--rtt", "4"], 2, "bandwidth"),
        (["--rows", "100000", "--features", "3000x3000"], 7, "coefficients"),
    ],
)
def test_impossible_sizes_and_networks_are_refused(
    fake_runs: FakeRuns, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", MPC, *arguments]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out
    assert fake_runs.rows == []

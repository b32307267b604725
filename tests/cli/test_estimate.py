"""``mpc-spearman estimate``: what it prints and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from comparison.test_prediction import in_no_time
from mpc_spearman.cli.main import main

ROOT = Path(__file__).parents[2]
MPC = str(ROOT / "configs" / "mpc.yaml")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    in_no_time(monkeypatch)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["estimate", *arguments]) == 0
    return capsys.readouterr().out


def test_it_prints_a_line_for_each_party(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, MPC, "--rows", "20000", "--features", "30x20")
    assert text.startswith("20,000 rows, 30 × 20 columns, on this machine")
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["MPC", "B", "A"]
    for word in ("coefficients", "at work", "sent", "received", "memory"):
        assert word in text


def test_json_has_the_same_in_bytes_and_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(
        printed(capsys, MPC, "reveal=strengths", "--rows", "20000", "--features", "30x20", "--json")
    )
    assert (found["rows"], found["columns"]) == (20000, [30, 20])
    (run,) = found["runs"]
    assert (run["protocol"], run["reveal"], run["scheme"]) == ("mpc", "strengths", "MPC")
    assert [party["party"] for party in run["parties"]] == ["C", "B", "A"]
    assert sum(party["sent"] for party in run["parties"]) == sum(
        party["received"] for party in run["parties"]
    )
    assert run["seconds"] > 0


def test_a_network_adds_to_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    size = (MPC, "--rows", "200000", "--features", "30x20", "--json")
    here = json.loads(printed(capsys, *size))["runs"][0]
    there = json.loads(printed(capsys, *size, "--bandwidth", "100", "--rtt", "40", "--cores", "2"))["runs"][0]
    assert there["parties"][1]["sent"] == here["parties"][1]["sent"]
    assert there["seconds"] > here["parties"][1]["sent"] * 8 / 1e8


def test_rows_of_the_plan_are_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, MPC, "rows=500", "--features", "3x3").startswith("500 rows")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--features", "3x3"], 2, "--rows"),
        (["--rows", "2", "--features", "3x3"], 2, "at least 3 rows"),
        (["--rows", "100", "--features", "0x3"], 2, "1 column on each side"),
        (["--rows", "100", "--features", "3x3", "--rtt", "4"], 2, "--bandwidth and --rtt: give both"),
        (["--rows", "100", "--features", "3x3", "--bandwidth", "-1", "--rtt", "4"], 2, "bandwidth"),
        (["--rows", "100", "--features", "3x3", "--cores", "0"], 2, "--cores: 0"),
        (["--rows", "100000", "--features", "3000x3000"], 7, "more than one result can carry"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", MPC, *arguments]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out


@pytest.mark.parametrize("text", ["3", "3x", "axb", "3X3"])
def test_features_are_two_numbers(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["estimate", MPC, "--rows", "100", "--features", text])
    assert "is not AxB" in capsys.readouterr().err

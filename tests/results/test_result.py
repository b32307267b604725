"""`Result` and its run directory: what comes back, what is withheld, what is refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mpc_spearman.cli.main import main
from mpc_spearman.errors import NotRevealed, OutputError
from mpc_spearman.results import saved
from mpc_spearman.results.result import Result
from mpc_spearman.version import __version__
from support.made_results import change, costs, granted, matrix_of, parts, seal, shared_plan, small
from support.plans import files
from support.processes import full_disk

PARTS = ("coefficients", "columns", "pvalues", "intervals", "qvalues", "strengths", "counts", "ranking")
FILES = {"matrix.csv", "pairs.csv", "pairs.parquet", "columns.csv", "ranking.csv"}


def assert_same(first: Result, second: Result) -> None:
    """Every float has its own text, and so has -0.0."""
    assert saved.files(first) == saved.files(second)


# --- round trip ----------------------------------------------------------------------------------------


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12)
parties = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)
cells = st.one_of(
    st.floats(-1, 1), st.just(math.nan), st.sampled_from([5e-324, -0.0, 0.1 + 0.2, math.nextafter(1, 0)])
)


@settings(max_examples=25)
@given(data=st.data())
def test_every_float_and_name_comes_back(data: st.DataObject, tmp_path: Path, no_pages: None) -> None:
    features = data.draw(st.lists(names, min_size=1, max_size=4, unique=True))
    rows = data.draw(st.lists(st.tuples(parties, names), min_size=1, max_size=4, unique=True))
    flat = data.draw(st.lists(cells, min_size=len(rows) * len(features), max_size=len(rows) * len(features)))
    matrix = matrix_of(np.array(flat).reshape(len(rows), len(features)), features, rows)
    plan = shared_plan(*dict.fromkeys(party for party, _ in rows))
    result = small(plan=plan, cost=costs("C"), **parts(matrix, plan))
    loaded = Result.load(result.save(tmp_path / "run"))
    assert loaded.coefficients.to_numpy().tobytes() == result.coefficients.to_numpy().tobytes()
    assert_same(result, loaded)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (small(), FILES),
        (granted("strengths"), {"ranking.csv"}),
        (granted("nothing"), set()),
    ],
)
def test_only_what_was_revealed_is_written(result: Result, expected: set[str], tmp_path: Path) -> None:
    folder = result.save(tmp_path / "deep" / "run")
    assert set(files(folder)) == expected | {"result.json", "cost.csv", "report.html"}
    assert_same(result, Result.load(folder))


def test_an_order_without_strengths_comes_back_without_them(tmp_path: Path) -> None:
    folder = granted("ranking").save(tmp_path / "run")
    assert (folder / "ranking.csv").read_text() == "position,feature\n1,x\n2,y\n3,z\n"
    assert list(Result.load(folder).ranking.columns) == ["position", "feature"]


def test_the_files_are_in_the_promised_form(tmp_path: Path) -> None:
    folder = small().save(tmp_path / "run")
    assert (
        folder / "matrix.csv"
    ).read_text() == "party,feature,x,y,z\nA,p,0.1,-0.25,\nA,q,0.3333333333333333,0.5,\n"
    assert (folder / "ranking.csv").read_text().splitlines() == [
        "position,feature,strength",
        "1,x,0.21666666666666667",
        "2,y,0.125",
        "3,z,",
    ]
    assert (folder / "cost.csv").read_text().splitlines()[:2] == [
        "party,phase,seconds,wait_seconds,bytes_sent,bytes_received,messages,rounds,peak_memory_bytes",
        "C,rank,0.1,0.3333333333333333,10,20,2,1,1000",
    ]
    summary = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert [summary[key] for key in ("schema_version", "n", "protocol", "reveal", "estimator", "order")] == [
        *(4, 50, "mpc", "coefficients", "tie_corrected", "descending")
    ]
    assert summary["warnings"] == ["z is constant"]


def test_many_pairs_are_in_csv_files_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saved, "CSV_PAIRS", 5)
    folder, for_people = small().save(tmp_path / "run"), {"pairs.csv", "matrix.csv"}
    assert FILES - {*files(folder)} == for_people
    assert_same(Result.load(folder), small())
    shown = pd.read_parquet(folder / "pairs.parquet")
    pd.testing.assert_frame_equal(shown, small().pairs(), check_exact=True)
    (folder / "status.json").write_text("{}")
    assert main(["csv", str(folder)]) == 0
    assert (
        capsys.readouterr().out
        == f"{folder}: pairs.csv and matrix.csv of {small().coefficients.size} pairs\n"
    )
    of_strengths = granted("strengths").save(tmp_path / "strengths")
    assert main(["csv", str(of_strengths)]) == NotRevealed.exit_code
    assert "The coefficients are not in this result" in capsys.readouterr().err
    assert {*files(folder)} >= {*FILES, "status.json"}
    assert_same(Result.load(folder), small())
    pd.testing.assert_frame_equal(pd.read_csv(folder / "pairs.csv"), small().pairs(), check_exact=True)


# --- what is withheld ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reveal", "grant", "role", "part", "names_it"),
    [
        ("strengths", "strengths", "coordinator", "coefficients", "revealed no more than 'strengths'"),
        ("strengths", "ranking", "target", "pvalues", "revealed no more than 'strengths'"),
        ("coefficients", "ranking", "target", "strengths", "'ranking' on to the target (results.target)"),
        ("differences", "nothing", "source", "ranking", "'nothing' on to the sources (results.sources)"),
        ("coefficients", "coefficients", "target", "counts", "not in this copy"),
        ("coefficients", "coefficients", "target", "estimators", "the coordinator's alone"),
    ],
)
def test_a_withheld_part_names_the_setting_responsible(
    reveal: str, grant: str, role: Any, part: Any, names_it: str
) -> None:
    plan = shared_plan(reveal=reveal, results={"target": grant, "sources": grant})
    party, arguments = {"coordinator": "C", "target": "B", "source": "A"}[role], {"plan": plan, "role": role}
    result = granted(grant if role != "coordinator" else reveal, party=party, counts=None, **arguments)
    with pytest.raises(NotRevealed) as caught:
        getattr(result, part)
    assert names_it in str(caught.value)
    assert str(caught.value) == result.withheld(part)
    assert not hasattr(result, part)


def test_a_result_cannot_be_changed_from_outside() -> None:
    result = small()
    for part in (*PARTS, "cost"):
        taken = getattr(result, part)
        taken.iloc[0] = taken.iloc[1]
    assert_same(result, small())
    with pytest.raises(AttributeError):
        result.n = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        result.plan.results.target = "nothing"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": small().columns[::-1]}, "columns' ties are of other columns"),
        ({"columns": small().columns.replace("none", "few")}, "does not say how a column is tied"),
        ({"noise": small().coefficients[["y", "x", "z"]]}, "noise are of other columns"),
        ({"coefficients": None}, "the coefficients are missing"),
        ({"counts": small().counts.iloc[:2]}, "counts"),
        ({"cost": costs("C").drop(columns="rounds")}, "the costs have the columns party, phase"),
        ({"party": "A"}, "A is not the coordinator of its plan"),
    ],
)
def test_contradicting_parts_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**changes)


# --- whole or not at all -------------------------------------------------------------------------------


def test_earlier_empty_and_linked_run_directories_are_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for result in (small(), granted("strengths")):
        result.save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert_same(result, Result.load(tmp_path / "real"))
    assert "matrix.csv" not in files(tmp_path / "real")
    assert files(tmp_path) == ["link", "real"]


@pytest.mark.parametrize("foreign", ["thesis.tex", "matrix.csv", "result.json"])
def test_somebody_elses_directory_is_left_alone(foreign: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / foreign).write_text("{}")
    with pytest.raises(OutputError, match="is not replaced"):
        small().save(tmp_path / "run")
    assert files(tmp_path) == ["run"]
    assert files(tmp_path / "run") == [foreign]
    folder = small().save(tmp_path / "other")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"notes\.txt"):
        small().save(folder)
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("earlier", [False, True])
def test_a_failed_save_keeps_the_earlier_files(earlier: bool, tmp_path: Path) -> None:
    if earlier:
        small(n=49).save(tmp_path / "run")
    with pytest.raises(OutputError, match="File too large"), full_disk():
        small().save(tmp_path / "run")
    assert files(tmp_path) == (["run"] if earlier else [])
    if earlier:
        assert Result.load(tmp_path / "run").n == 49


def test_the_folder_of_a_run_names_those_of_its_parties(tmp_path: Path) -> None:
    for party in "BA":
        small().save(tmp_path / party)
    with pytest.raises(OutputError, match="name one party's folder: A, B"):
        Result.load(tmp_path)


# --- damaged directories -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*FILES, "cost.csv", "report.html", "result.json"}))
def test_a_file_that_has_changed_is_refused_and_named(name: str, tmp_path: Path) -> None:
    folder = small().save(tmp_path / "run")
    text = (folder / name).read_bytes()
    for changed in (text[:-3], text + b"\n", text[:40] + b"%" + text[41:]):
        (folder / name).write_bytes(changed)
        if name == "result.json" and changed == text + b"\n":
            continue  # white space means nothing there
        with pytest.raises(OutputError, match=rf"run/{name} is damaged"):
            Result.load(folder)
    (folder / name).unlink()
    with pytest.raises(OutputError, match=rf"run/{name} (cannot be read|does not exist)"):
        Result.load(folder)
    (folder / name).write_bytes(text)
    (folder / "status.json").write_text("{}")  # how a run ended is no part of its result
    assert_same(Result.load(folder), small())
    (folder / "ranges.csv").write_text("party,feature,range,weakened\n")
    with pytest.raises(OutputError, match=r"run/ranges\.csv does not belong"):
        Result.load(folder)


def test_how_many_rows_each_party_offered_is_kept_and_shown(tmp_path: Path) -> None:
    result = small(offered={"A": 1234, "B": 70})
    folder = result.save(tmp_path / "run")
    assert Result.load(folder).offered == {"A": 1234, "B": 70}
    assert "50, common to all parties (of A 1,234, B 70)" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("result.json", '"schema_version": 4', '"schema_version": 3', "schema version 3"),
        ("result.json", '"schema_version": 4', '"schema_version": 5', "schema version 5"),
        ("result.json", "{", "", "damaged"),
        ("result.json", "{", "[" * 100_000, "damaged: maximum recursion"),
        ("result.json", '"holds"', '"helds"', "holds"),
        ("result.json", '"n": 50', '"n": "fifty"', "invalid literal"),
        ("result.json", '"role": "coordinator"', '"role": "source"', "C is not the source of its plan"),
        (
            "result.json",
            '"feature": [\n        "p"',
            '"feature": [\n        "w"',
            "other columns than the rest",
        ),
        ("result.json", '"A",\n      "p"', '"D",\n      "p"', "not each pair of its columns once"),
        (
            "result.json",
            '"position": [\n        1',
            '"position": [\n        1.5',
            "have a float in the column pos",
        ),
        ("result.json", '"position"', '"place"', "the ranking have the columns position"),
        ("result.json", "1000,", "1000.5,", "have a float in the column peak"),
    ],
)
def test_contradictory_parts_are_refused_even_with_right_digests(
    name: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    folder = small().save(tmp_path / "run")
    change(folder / name, old, new)
    if (name, old) != ("result.json", "{"):
        seal(folder)
    with pytest.raises(OutputError, match=message) as caught:
        Result.load(folder)
    assert "run" in str(caught.value)


def test_a_made_up_table_of_pairs_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = small().save(tmp_path / "run")
    pairs = pd.read_parquet(folder / "pairs.parquet")
    for changed, message in (
        (pairs.loc[[0] * 100_000], "100,000 rows"),
        (pairs[:-1], "has 5 rows"),
        (pairs.loc[[0] * len(pairs)], "not each pair of its columns once"),
        (pairs.assign(rho=[[0.5] * 1000] * len(pairs)), "a column rho of list"),
        (pairs.assign(more="long"), "a column more of"),
    ):
        changed.to_parquet(folder / "pairs.parquet", index=False)
        seal(folder)
        with pytest.raises(OutputError, match=message):
            Result.load(folder)


def test_a_result_of_a_version_with_other_plan_keys_names_that_version(tmp_path: Path) -> None:
    folder = small().save(tmp_path / "run")
    for old, new, message in (
        (
            '"reveal": "coefficients",\n    "est',
            '"depth": 1,\n    "reveal": "coefficients",\n    "est',
            "is damaged",
        ),
        (
            f'"package_version": "{__version__}"',
            '"package_version": "0.9.0"',
            "of version 0.9.0, whose plans",
        ),
        ('"depth": 1,\n', "", ""),  # as this version writes it
        ('"proofs": false,\n', "", "of version 0.9.0, whose plans"),
    ):
        change(folder / "result.json", old, new)
        seal(folder)
        if not message:
            assert_same(Result.load(folder), small())
            continue
        with pytest.raises(OutputError, match=message):
            Result.load(folder)


@pytest.mark.parametrize("grant", ["nothing", "ranking", "strengths"])
def test_a_copy_with_more_than_its_plan_grants_is_refused(grant: str) -> None:
    plan = shared_plan(results={"target": grant})
    with pytest.raises(ValueError, match=r"the plan in it does not give \w+ to this party"):
        small(plan=plan, role="target", party="B")


def test_reading_a_result_needs_no_heavy_import() -> None:
    code = "import sys, mpc_spearman.results.report; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "crypten", "jinja2", "rich.console", "scipy", "matplotlib"}
    assert not heavy & set(done.stdout.split())

"""Rows of an earlier run: the file of their ids, runs over them again, and a source that joins later."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mpc_spearman.config import Plan, load_plan
from mpc_spearman.data.aligned import take_aligned, write_aligned
from mpc_spearman.errors import MergeError, OutputError, PlanError, TableError
from mpc_spearman.results.merge import merge
from mpc_spearman.statistics.reference import reference
from support.in_memory import Ended, run_in_memory
from support.plans import mapping
from support.processes import full_disk
from support.tables import read


def table(ids: list[str], side: str, columns: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(ids)
    values = {f"{side}{i}": rng.normal(size=len(ids)) for i in range(columns)}
    return pd.DataFrame({"id": shuffled, **values})


#: What ids can hold that a file of lines or of commas would not keep.
ODD = ["p,1", 'p"2', "p\n3", " p4 ", "NA", "7", "007", "pé", "-", "p\r\n5", "'"]
A = table([*ODD, *(f"p{i}" for i in range(100))], "a", 3, 1)
B = table([*ODD, *(f"p{i}" for i in range(50, 150))], "b", 2, 2)
COMMON = {*ODD, *(f"p{i}" for i in range(50, 100))}


def planned(own: Mapping[str, Mapping[str, Any]], *sources: str, **settings: Any) -> Plan:
    """A plan with local keys by party."""
    content = mapping(*(sources or ("A",)), **settings)
    parties = content["parties"]
    for party in (parties["target"], *parties["sources"]):
        party |= own.get(party["name"], {})
    return load_plan(content)


def run(own: Mapping[str, Mapping[str, Any]], tables: Mapping[str, pd.DataFrame], **settings: Any) -> Ended:
    return run_in_memory(planned(own, *(name for name in tables if name != "B"), **settings), tables)


def write_both(tmp_path: Path, **more: Any) -> dict[str, Path]:
    files = {party: tmp_path / f"{party}.csv" for party in "AB"}
    own = {party: {"write_aligned": str(file), **more.get(party, {})} for party, file in files.items()}
    ended = run(own, {"A": A, "B": B}, alignment="intersect")
    assert ended.result("C").n == len(COMMON)
    ended.result("B").save(tmp_path / "first")
    return files


def test_each_owner_gets_the_same_ids_in_order_in_a_private_file(tmp_path: Path) -> None:
    files = write_both(tmp_path)
    assert files["A"].read_bytes() == files["B"].read_bytes()
    assert {stat.S_IMODE(file.stat().st_mode) for file in files.values()} == {0o600}
    again = take_aligned(read(A), files["A"])
    assert set(again.ids.to_pylist()) == COMMON
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A.csv", "B.csv", "first"]


def test_a_run_over_these_rows_with_other_columns_equals_plaintext(tmp_path: Path) -> None:
    files = write_both(tmp_path)
    own = {party: {"aligned": str(file)} for party, file in files.items()}
    own["A"]["features"] = ["a2", "a0"]
    turned = {"A": A.iloc[::-1], "B": B}
    ended = run(own, turned, alignment="ids")
    both = A[["id", "a2", "a0"]].merge(B, on="id")
    truth = reference({"A": both[["a2", "a0"]]}, both[["b0", "b1"]])
    np.testing.assert_allclose(ended.result("C").coefficients, truth.coefficients, rtol=0, atol=1e-14)
    assert ended.result("C").offered == {}


def test_rows_of_an_earlier_run_can_be_all_that_is_matched(tmp_path: Path) -> None:
    files = write_both(tmp_path)
    later = table([*COMMON, *(f"x{i}" for i in range(30))], "d", 2, 3)
    ended = run({"B": {"aligned": str(files["B"])}}, {"D": later, "B": B}, alignment="intersect")
    assert ended.result("C").offered == {"B": len(COMMON), "D": len(COMMON) + 30}
    assert ended.result("C").n == len(COMMON)


@pytest.mark.parametrize("whole", [True, False])
def test_a_source_that_joins_later_is_merged_where_it_has_all_rows(tmp_path: Path, whole: bool) -> None:
    key = {"B": {"alignment_key": str(tmp_path / "key")}}
    files = write_both(tmp_path, **key)
    rows = sorted(COMMON)[0 if whole else 1 :]
    later = table([*rows, *(f"x{i}" for i in range(30))], "d", 2, 3)
    own = {"B": {**key["B"], "aligned": str(files["B"])}}
    run(own, {"D": later, "B": B}, alignment="intersect").result("B").save(tmp_path / "second")
    folders = [tmp_path / "first", tmp_path / "second"]
    if not whole:
        with pytest.raises(MergeError, match="the number of rows differs"):
            merge(folders, tmp_path / "both")
        return
    merged = merge(folders, tmp_path / "both")
    together = A.merge(later, on="id").merge(B, on="id")
    sources = {"A": together[["a0", "a1", "a2"]], "D": together[["d0", "d1"]]}
    truth = reference(sources, together[["b0", "b1"]])
    np.testing.assert_allclose(merged.coefficients, truth.coefficients, rtol=0, atol=1e-14)


# ---- what is refused


def test_a_run_that_fails_leaves_no_file(tmp_path: Path) -> None:
    own = {party: {"write_aligned": str(tmp_path / f"{party}.csv")} for party in "AB"}
    ended = run(own, {"A": A, "B": B.assign(b0="no number")}, alignment="intersect")
    assert not ended.results
    assert not list(tmp_path.iterdir())


def test_an_unwritable_folder_is_an_error_before_the_meeting(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none" / "file.csv"):
        ended = run({"A": {"write_aligned": str(place)}}, {"A": A, "B": B}, alignment="intersect")
        assert isinstance(ended.errors["A"], OutputError)
        assert str(place) in str(ended.errors["A"])


def test_a_full_disk_at_the_end_costs_nobody_its_result(tmp_path: Path) -> None:
    own = {"A": {"write_aligned": str(tmp_path / "a.csv")}}
    with full_disk():
        ended = run(own, {"A": A, "B": B}, alignment="intersect")
    assert ended.result("A").warnings[-1].endswith("a.csv cannot be written: File too large")
    assert ended.result("B").n == ended.result("C").n == len(COMMON)


def test_rows_by_ids_take_a_file_of_every_data_party() -> None:
    ended = run({}, {"A": A, "B": A.rename(columns=str.upper).rename(columns={"ID": "id"})}, alignment="ids")
    assert {type(ended.errors[party]) for party in "AB"} == {PlanError}
    assert "`aligned` below its name or in its local file" in str(ended.errors["A"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\nSECRET0\nSECRET1\nSECRET9\n", "1 of its 3 ids are of incomplete rows, duplicate, or not in"),
        ("id\nSECRET0\nSECRET1\nSECRET0\n", "it has duplicate ids"),
        ("name\nSECRET0\n", "it is not a CSV file with one column, 'id'"),
        ("id,x\nSECRET0,1\n", "it is not a CSV file with one column, 'id'"),
        ("id\nSECRET0,SECRET1\n", "1 row with too many or too few fields"),
        ("", "the file is empty"),
        (None, "it cannot be read (No such file or directory)"),
    ],
)
def test_files_of_ids_that_cannot_be_used(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "ids.csv"
    if text is not None:
        file.write_text(text)
    own = read(pd.DataFrame({"id": [f"SECRET{i}" for i in range(5)], "x": range(5)}))
    with pytest.raises(TableError) as caught:
        take_aligned(own, file)
    assert str(caught.value).startswith(f"B: aligned: {file}: {message}")
    assert "SECRET" not in str(caught.value)


def test_a_file_of_ids_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "ids.csv"
    write_aligned(file, pa.array(["a", "b", "c"], pa.large_string()))
    write_aligned(file, pa.array(["d"], pa.large_string()))
    assert file.read_text() == '"id"\n"d"\n'


@pytest.mark.parametrize(
    ("alignment", "key"),
    [("same", "aligned"), ("same", "write_aligned"), ("same", "write_unaligned"), ("ids", "write_aligned")],
)
def test_keys_that_an_alignment_has_no_use_for_are_refused(alignment: str, key: str) -> None:
    with pytest.raises(PlanError, match=rf"parties\.target\.{key}: is for alignment: intersect"):
        planned({"B": {key: "file.csv"}}, alignment=alignment)

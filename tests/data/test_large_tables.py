"""Tables of any size: columns in buckets, values in files, and the same ranks as in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import rankdata

from mpc_spearman import arrays
from mpc_spearman.arrays import Memory
from mpc_spearman.data import csv_text, ids, ranking, typed_files
from mpc_spearman.data.ranking import rank_columns
from support.processes import control_group
from support.tables import columns, read, refusal

#: A program that reads and ranks a file.
READ = """
from pathlib import Path
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.tables import read_table
table = read_table("B", Path("{path}"), TableKeys(memory="{memory}"))
matrix = table.ranks().matrix
print(table.n, matrix[0, -1], matrix[-1, -1])
"""
N = 5000


def long_columns() -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    return [
        draw.normal(size=N),
        np.sort(draw.normal(size=N)),
        draw.integers(0, 5, N),
        draw.integers(-(2**63), 2**63 - 1, N),
        draw.integers(2**63, 2**64 - 1, N, dtype=np.uint64),
        np.where(draw.random(N) < 0.9, 0.0, draw.normal(size=N)),
        draw.random(N) < 0.01,
        np.full(N, -0.0),
        np.repeat([2**63 - 1, 5], N // 2),
    ]


@pytest.mark.parametrize("gaps", [0, 0.3, 1])
def test_ranks_in_buckets_are_scipys_with_ties_and_gaps(gaps: float, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = np.random.default_rng(2).random(N) < gaps
    masked = [np.ma.masked_array(column, missing) if gaps else column for column in long_columns()]
    at_once = rank_columns(masked)
    monkeypatch.setattr(ranking, "BUCKET", 100)
    monkeypatch.setattr(ranking, "_BLOCK", 37)
    in_buckets = rank_columns(masked)
    for i, column in enumerate(long_columns()):
        expected = np.zeros(N)
        expected[~missing] = 2 * rankdata(column[~missing]) - ((~missing).sum() + 1)
        assert in_buckets.matrix[i].tolist() == at_once.matrix[i].tolist() == expected.tolist()
        groups, expected_groups = in_buckets.groups[i], at_once.groups[i]
        assert (groups.how_many, groups.gaps) == (expected_groups.how_many, expected_groups.gaps)
        assert groups.skewness == pytest.approx(expected_groups.skewness, rel=1e-9, abs=1e-9)


@pytest.fixture
def nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every array in a file, every column in many blocks, and ids found by their hashes."""
    monkeypatch.setattr(arrays, "_SMALL", 0)
    monkeypatch.setattr(arrays.Memory, "take", lambda self, size: False)
    monkeypatch.setattr(typed_files, "_BLOCK", 64)
    monkeypatch.setattr(typed_files, "_AT_ONCE", 0)
    monkeypatch.setattr(csv_text, "BLOCK", 1 << 12)
    monkeypatch.setattr(ids, "_AT_ONCE", 50)
    monkeypatch.setattr(ids, "_PART", 100)


FRAME = pd.DataFrame(
    {
        "id": [f"{'é' * (i % 5)}{i:07}" for i in np.random.default_rng(4).permutation(900)],
        "real": np.random.default_rng(5).normal(size=900).round(3),
        "whole": np.random.default_rng(6).integers(-9, 9, 900),
        "day": pd.date_range("1999-12-31", periods=900).astype(str),
        "grade": np.random.default_rng(7).choice(["low", "mid", "high"], 900),
        "share": [f"{i % 97}.5 %" for i in range(900)],
        "gaps": ["NA" if i % 9 == 0 else str(i % 50) for i in range(900)],
    }
)
KEYS: dict[str, Any] = {
    "encode": {"grade": ["low", "mid", "high"]},
    "convert": {"share": "percent"},
    "missing": "drop_rows",
}


@pytest.mark.parametrize("end", ["csv", "parquet", "arrow"])
def test_a_table_in_files_is_read_as_one_in_memory(end: str, tmp_path: Path, request: Any) -> None:
    file, frame = tmp_path / f"t.{end}", FRAME.astype({"grade": "category"})
    {"csv": frame.to_csv, "parquet": frame.to_parquet, "arrow": frame.to_feather}[end](
        file, **({} if end == "arrow" else {"index": False})
    )
    usual = read(file, **KEYS)
    rows = np.random.default_rng(8).permutation(usual.n)[:123]
    request.getfixturevalue("nothing_fits")
    table = read(file, **KEYS)
    assert (table.ids.to_pylist(), table.cautions) == (usual.ids.to_pylist(), usual.cautions)
    for column, expected in zip(columns(table), columns(usual), strict=True):
        assert column.tolist() == expected.tolist()
    assert isinstance(table.ranks().matrix, np.memmap)
    assert np.array_equal(table.ranks().matrix, usual.ranks().matrix)
    assert table.take(rows).ids.to_pylist() == usual.take(rows).ids.to_pylist()
    assert np.array_equal(table.take(rows).ranks().matrix, usual.take(rows).ranks().matrix)


def test_duplicate_ids_are_found_among_many(nothing_fits: None) -> None:
    numbers = np.random.default_rng(1).integers(0, 700, 1000)
    texts = pa.array([f"{'x' * (number % 20)}{number}" for number in numbers], pa.large_string())
    all_copies, later = ids.repeated(texts, Memory())
    _, first, places, counts = np.unique(numbers, return_index=True, return_inverse=True, return_counts=True)
    assert np.array_equal(all_copies, counts[places] > 1)
    assert np.array_equal(later, first[places] != np.arange(numbers.size))
    assert (
        ids.join(["a", "b"], [texts, texts], Memory())[7].as_py() == 2 * f"{len(texts[7].as_py())}:{texts[7]}"
    )


# ---- partitions


def test_folders_named_key_value_give_a_column(tmp_path: Path) -> None:
    for year, grade, start in ((2023, "low", 0), (2024, "a b", 3), (2025, None, 6)):
        name = "__HIVE_DEFAULT_PARTITION__" if grade is None else grade.replace(" ", "%20")
        for end in ("csv", "parquet"):
            folder = tmp_path / end / f"year={year}" / f"grade={name}"
            folder.mkdir(parents=True)
            part = pd.DataFrame({"id": range(start, start + 3), "x": range(start, start + 3)})
            part.to_csv(folder / "p.csv", index=False) if end == "csv" else part.to_parquet(
                folder / "p.parquet"
            )
    for end in ("csv", "parquet"):
        table = read(tmp_path / end, encode={"grade": ["low", "a b"]}, missing="drop_rows")
        assert table.features == ("x", "year", "grade")
        assert [column.tolist() for column in columns(table)] == [
            [*range(6)],
            [2023] * 3 + [2024] * 3,
            [0] * 3 + [1] * 3,
        ]
        assert read(tmp_path / end, exclude=["grade"], rows=4).column(1).tolist() == [2023] * 3 + [2024]
    (tmp_path / "csv" / "year=2025" / "late.csv").write_text("id,x\n9,9\n")
    assert refusal(tmp_path / "csv") == "its files are not all in folders of the same partitions"


# ---- Spark's timestamps


def test_far_dates_in_sparks_timestamps_stay_far(tmp_path: Path) -> None:
    days = pd.to_datetime(["9999-12-31", "2024-01-01", "0001-01-01", "2300-01-01"])
    table = pa.table({"id": list("abcd"), "x": pa.array(days.astype("datetime64[us]"))})
    pq.write_table(table, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    assert rankdata(read(tmp_path / "t.parquet").column(0)).tolist() == [4, 2, 1, 3]
    listed = read(tmp_path / "t.parquet", missing_values=["9999-12-31"], missing="drop_rows")
    assert listed.ids.to_pylist() == ["b", "c", "d"]


# ---- memory


@pytest.mark.long
def test_a_table_larger_than_the_memory_allowed_is_ranked(tmp_path: Path) -> None:
    n, m, draw, file = 12_000_000, 8, np.random.default_rng(1), tmp_path / "t.parquet"
    schema = pa.schema([("id", "int64"), *[(f"c{i}", "float64") for i in range(m)]])
    with pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as out:
        for start in range(0, n, 1_000_000):
            values = [np.arange(start, start + 1_000_000), *(draw.normal(size=1_000_000) for _ in range(m))]
            out.write_table(pa.table(values, schema=schema))
    assert file.stat().st_size > 800 << 20
    program = READ.format(path=file, memory="100MB")
    with control_group(memory=700 << 20) as group:
        code = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n{program}"
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    rows, first, last = map(int, process.stdout.split())
    assert rows == n
    for place, x in ((0, first), (m - 1, last)):
        column = pq.read_table(file, columns=[f"c{place}"])[0].to_numpy()
        assert x == 2 * (column < column[-1]).sum() + 2 - (n + 1)

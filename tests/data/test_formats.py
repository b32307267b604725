"""Formats: by file name, CSV dialects of other programs, folders of part files, tables that change."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from mpc_spearman.data import csv_text
from mpc_spearman.errors import TableError
from support.tables import GOOD, columns, frame, read, refusal

TABLE = pa.table({"id": ["a", "b", "c"], "x": [1, 2, 3], "y": [0.5, 0.25, -1000.0]})


def check(source: Any, **settings: Any) -> None:
    table = read(source, **settings)
    assert (table.ids.to_pylist(), table.features) == (["a", "b", "c"], ("x", "y"))
    assert [column.tolist() for column in columns(table)] == [[1, 2, 3], [0.5, 0.25, -1000.0]]


WRITERS = {
    "t.csv": lambda path: path.write_text(GOOD),
    "t.CSV": lambda path: path.write_text(GOOD),
    "t.csv.gz": lambda path: path.write_bytes(gzip.compress(GOOD.encode())),
    "t.tsv": lambda path: path.write_text(GOOD.replace(",", "\t")),
    "t.tsv.gz": lambda path: path.write_bytes(gzip.compress(GOOD.replace(",", "\t").encode())),
    "t.parquet": lambda path: pq.write_table(TABLE, path),
    "t.parq": lambda path: pq.write_table(TABLE, path, row_group_size=2),
    "t.pq": lambda path: pq.write_table(TABLE, path, use_dictionary=True, compression="zstd"),
    "t.feather": lambda path: pa.feather.write_feather(TABLE, path),
    "t.arrow": lambda path: pa.feather.write_feather(TABLE, path, compression="uncompressed", chunksize=2),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_read_by_its_name(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    check(tmp_path / name)
    assert read(tmp_path / name, rows=3, features=["y"]).column(0).tolist() == [0.5, 0.25, -1000.0]


@pytest.mark.parametrize("name", ["t.csv.gz", "t.feather"])
@pytest.mark.parametrize("cut", [0, 3, 40])
def test_a_truncated_file_is_refused(name: str, cut: int, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:cut])
    kind = "a complete gzip file" if name.endswith(".gz") else "a readable Arrow file"
    text = refusal(tmp_path / name)
    assert text.startswith(f"it is not {kind}") or (cut == 0 and "empty" in text)


# ---- CSV as others write it


@pytest.mark.parametrize(
    ("content", "dialect"),
    [
        (GOOD.replace(",", ";").replace(".", ","), {"delimiter": ";", "decimal": ","}),
        (GOOD.replace(",", "|"), {"delimiter": "|"}),
        (GOOD.replace("0.25", '"0,25"').replace("0.5", '"0,5"'), {"decimal": ","}),
        (GOOD, {"encoding": "cp1252"}),
        (GOOD, {"encoding": "UTF8"}),
    ],
)
def test_dialects(csv: Any, content: str, dialect: dict[str, str]) -> None:
    check(csv(content), csv=dialect)


@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "cp437", "shift-jis"]
)
def test_encodings(csv: Any, encoding: str, blocks: Any) -> None:
    text = "日本" if encoding == "shift-jis" else "é"
    content = f'id,"x{text}"\n"{text}""1",1\n{text},2\nc,3\n'.encode(encoding)
    for block in (csv_text.BLOCK, 64):
        blocks(block)
        table = read(csv(content), csv={"encoding": encoding})
        assert (table.ids.to_pylist(), table.features) == ([f'{text}"1', text, "c"], (f"x{text}",))


SET = "set csv.encoding to its encoding"
LATIN = "id,x,y\na,1,1\nb,2,2\nSECRET\xe9,3,3\n".encode("latin-1")


@pytest.mark.parametrize(
    ("content", "encoding", "error"),
    [
        (LATIN, "utf-8", f"it is not UTF-8 text, in line 4 of the file: {SET}, such as cp1252"),
        (LATIN.replace(b"3,3", b"3"), "utf-8", "it is not UTF-8 text, in line 4 of the file"),
        (LATIN, "ascii", "it is not ASCII text, in line 4 of the file"),
        (GOOD.encode("utf-16"), "utf-8", f"in line 1 of the file: {SET}"),
        (GOOD.encode("utf-16-le"), "utf-16", SET),
        (GOOD.encode("utf-16-be"), "utf-8", f"it has NUL characters: {SET}"),
        (GOOD.encode("utf-8") + b"\x81", "cp1252", "it is not CP1252 text, in line 5 of the file"),
        (GOOD.encode("gb18030") + b"\xff", "gb18030", "it is not GB18030 text, in line 5 of the file"),
        (b"id,x\na,\\ud800\n", "raw_unicode_escape", "it is not RAW_UNICODE_ESCAPE text"),
    ],
)
def test_another_encoding_is_refused(csv: Any, content: bytes, encoding: str, error: str) -> None:
    assert error in refusal(csv(content), csv={"encoding": encoding})


@pytest.mark.parametrize("pad", range(4))
def test_a_block_may_end_inside_a_character(csv: Any, pad: int, blocks: Any) -> None:
    blocks(64)
    lines = "".join(f"r{row},{'病歴と' if row else 'x' * pad},{row}\n" for row in range(40))
    assert read(csv("id,note,v\n" + lines), exclude=["note"]).column(0).tolist() == list(range(40))


def test_rows_in_many_blocks(csv: Any, blocks: Any) -> None:
    blocks(64)
    lines = "".join(f'"r,""{row}",{row},{row / 2}\n' for row in range(200))
    table = read(csv("id,x,y\n" + lines))
    assert table.ids.to_pylist() == [f'r,"{row}' for row in range(200)]
    assert table.column(0).tolist() == list(range(200))
    assert read(csv("id,x,y\n" + lines), rows=150).n == 150
    bad = lines + "SECRET,1\n" + lines.replace("r,", "s,") + "b,1,2,3\n"
    assert refusal(csv("id,x,y\n" + bad)) == (
        "2 rows with too many or too few fields, the first in data row 201: 2 where the header has 3"
    )
    assert refusal(csv("id,x,y\n" + lines + "z,SECRET,1\n")).startswith(
        "column 'x': 1 non-numeric value, the first in data row 201"
    )
    assert "it has a row of more than" in refusal(csv("id,x,y\n" + lines + f"{'z' * 300},1,1\n"))


# ---- folders


def test_part_files_are_one_table(tmp_path: Path) -> None:
    for name, part in (("part-1", TABLE.slice(0, 1)), ("part-0", TABLE.slice(1)), ("_metadata", TABLE)):
        for end in ("parquet", "csv", "arrow"):
            (tmp_path / end).mkdir(exist_ok=True)
        (tmp_path / "csv" / ".crc").write_text("")
        (tmp_path / "csv" / "_SUCCESS").write_text("")
        pq.write_table(part, tmp_path / "parquet" / f"{name}.snappy.parquet")
        pa.feather.write_feather(part, tmp_path / "arrow" / f"{name}.arrow")
        pa_csv.write_csv(part, tmp_path / "csv" / f"{name}.csv")
    for end in ("parquet", "csv", "arrow"):
        table = read(tmp_path / end)
        assert table.ids.to_pylist() == ["b", "c", "a"]
        assert [column.tolist() for column in columns(table)] == [[2, 3, 1], [0.25, -1000.0, 0.5]]


def test_a_folder_of_csv_is_typed_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,x\na,1\nb,9007199254740993\n")
    (tmp_path / "2.csv").write_text("id,x\nc,0.5\nd,+2\n")
    assert read(tmp_path).column(0).tolist() == [1.0, 9007199254740992.0, 0.5, 2.0]
    assert read(tmp_path, rows=3).column(0).tolist() == [1.0, 9007199254740992.0, 0.5]
    (tmp_path / "2.csv").write_text("id,x\nc,SECRET\n")
    assert refusal(tmp_path).startswith("column 'x': 1 non-numeric value, the first in data row 3; if such")


def test_folders_that_do_not_hold_one_table_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "it is a folder without part files"
    (tmp_path / "README.md").write_text(GOOD)
    assert refusal(tmp_path).startswith("README.md ends in '.md'")
    (tmp_path / "README.md").unlink()
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pq.write_table(TABLE.select(["id", "y", "x"]), tmp_path / "b.parquet")
    assert refusal(tmp_path) == "a.parquet and b.parquet do not have the same columns in the same order"
    part = TABLE.set_column(0, "id", pa.array(["d", "e", "f"]))
    pq.write_table(part.set_column(1, "x", pa.array([1.5, 2, 3])), tmp_path / "b.parquet")
    assert "column 'x': its type in b.parquet differs from the other files" in refusal(tmp_path)
    pq.write_table(part.set_column(1, "x", pa.nulls(3)), tmp_path / "b.parquet")
    assert refusal(tmp_path).startswith("column 'x': 3 missing values, the first in data row 4")
    (tmp_path / "c").mkdir()
    assert refusal(tmp_path) == (
        "it has folders in it that are not named key=value; put all part files into one folder"
    )


# ---- in memory, and what changes


def test_ids_in_the_index_of_a_frame() -> None:
    data = frame([1, 2, 3])
    assert refusal(data.set_index("id")).endswith(
        "if the ids are the DataFrame's index, pass what its reset_index() returns"
    )
    assert read(data.set_index("id").reset_index()).n == 3
    assert "reset_index" not in refusal(data, id="ident")


def test_a_file_that_changes_while_it_is_used_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    many = pd.DataFrame({"id": [f"SECRET{i}" for i in range(5000)], "x": [i * 0.37 for i in range(5000)]})
    many.to_parquet(path)
    table = read(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 20000)
    with pytest.raises(TableError, match="column 'x' changed while the table was used"):
        table.column(0)

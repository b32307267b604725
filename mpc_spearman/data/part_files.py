"""The files that a table consists of: one, or the part files of a folder and of its partitions.

A partition is a folder named ``key=value``, as Hive, Spark and pyarrow write them: its files have a column
`key` besides, with this value in every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from mpc_spearman.data.refusals import Unusable

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".parq", ".pq")
ARROW = (".arrow", ".feather")
#: What Hive names a partition of rows without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# What a file is by its first bytes, what to do about it, and the endings of names for which this is right.
_BEGINNINGS: tuple[tuple[bytes, str, tuple[str, ...]], ...] = (
    (b"\x1f\x8b", "a gzip file: end its name in .csv.gz", CSV[2:]),
    (b"PAR1\x15", "a Parquet file: end its name in .parquet", PARQUET),
    (b"ARROW1\0\0", "an Arrow file: end its name in .arrow", ARROW),
    (b"PK\x03\x04", "an Excel workbook or another zip archive: save its table as CSV", ()),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save its table as CSV", ()),
    (b"(\xb5/\xfd", "a zstd file: decompress it", ()),
    (b"BZh91AY", "a bzip2 file: decompress it", ()),
    (b"\xfd7zXZ", "an xz file: decompress it", ()),
    (b"SQLite format 3\0", "an SQLite database: see docs/tables.md#databases", ()),
)


@dataclass(frozen=True)
class PartFile:
    """A file of a table, and the values of its partitions; "" for none."""

    path: Path
    partition: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> str:
        """The ending of its name, which gives its format."""
        name = self.path.name.lower()
        return next((end for end in CSV + PARQUET + ARROW if name.endswith(end)), "")


def part_files(table: Path) -> list[PartFile]:
    """List the files of a table, by their names; `Unusable` if one cannot be read."""
    files = _files_in(table, {}) if table.is_dir() else [PartFile(table)]
    if not files:
        raise Unusable("it is a folder without part files")
    for file in files:
        _check(file)
        if [*file.partition] != [*files[0].partition]:
            raise Unusable("its files are not all in folders of the same partitions")
    return files


def _files_in(folder: Path, partition: Mapping[str, str]) -> list[PartFile]:
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))
    files = list[PartFile]()
    for entry in entries:
        key, mark, value = entry.name.partition("=")
        if entry.is_dir() and not mark:
            raise Unusable(
                "it has folders in it that are not named key=value; put all part files into one folder"
            )
        if not entry.is_dir():
            files.append(PartFile(entry, partition))
            continue
        value = "" if value == _NO_VALUE else unquote(value)
        files += _files_in(entry, {**partition, unquote(key): value})
    return files


def _check(file: PartFile) -> None:
    path = file.path
    if path.exists() and not path.is_file():  # a pipe could block for ever
        raise Unusable("it is not a regular file")
    with path.open("rb") as opened:
        start = opened.read(16)
    for begins, kind, ends_right in _BEGINNINGS:
        if start.startswith(begins) and file.end not in ends_right:
            raise Unusable(f"{path.name} is {kind}")
    if not file.end:
        ends = ", ".join(CSV + PARQUET + ARROW)
        raise Unusable(f"{path.name} ends in {path.suffix!r}; the name of a table ends in one of {ends}")


def check_alike(files: Sequence[PartFile], names: Sequence[Sequence[object]]) -> None:
    """Refuse part files whose columns differ."""
    for file, columns in zip(files, names, strict=True):
        if list(columns) != list(names[0]):
            first = files[0].path.name
            raise Unusable(f"{first} and {file.path.name} do not have the same columns in the same order")

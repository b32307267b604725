"""The same values in other spellings, types and files: each gives the same order, or a clear error."""

from __future__ import annotations

import gzip
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import rankdata

from support.tables import read, refusal


def ranked(source: Any, **keys: Any) -> list[float | None]:
    """The average ranks of `x` among the cells that are there."""
    column = read(source, missing="middle", **keys).column(0)
    missing = np.ma.getmaskarray(column)
    ranks = iter(rankdata(np.ma.getdata(column)[~missing]))
    return [None if gap else float(next(ranks)) for gap in missing]


DAY_FIRST, MONEY, SHARE = ({"convert": {"x": how}} for how in ("day_first", "currency", "percent"))
SPACED, COMMA = {"csv": {"thousands": " "}}, {"decimal": ","}
OLD, FAR = ({"missing_values": [day]} for day in ("1900-01-01", "9999-12-31"))


@pytest.mark.parametrize(
    ("cells", "keys", "expected"),
    [
        # a listed day, with a time
        (["1900-01-01 00:00:00", "2020-05-01 10:00:00", "2019-05-01 00:00:00"], OLD, [None, 2, 1]),
        (["1900-01-01 00:00+01:00", "2020-05-01 10:00+01:00", "2019-05-01 00:00+02:00"], OLD, [None, 2, 1]),
        (["01/01/1900 0:00", "1/5/2020 10:00", "1.5.2019 9:00"], {**OLD, **DAY_FIRST}, [None, 2, 1]),
        (["1900-01-01", "2020-05-01", "2019-05-01"], {"missing_values": ["1900-01-01 00:00"]}, [None, 2, 1]),
        (["9999-12-31 23:59:59.000", "2020-05-01 10:00:00", "2019-05-01 00:00:00"], FAR, [3, 2, 1]),
        # nanoseconds beside a far day
        (["9999-12-31 00:00:00.000000000", "2020-05-01 10:00:00.000000002", "2020-05-01 10:00:00.000000001"],
         FAR, [None, 2, 1]),
        # hours of one digit
        (["1/6/2020 9:05", "1/6/2020 10:05", "2/5/2020 23:05"], DAY_FIRST, [2, 3, 1]),
        (["1.6.2020 9:05:03", "1.6.2020 9:05:02", "31.12.2019 0:00"], DAY_FIRST, [3, 2, 1]),
        (["6-1-2020 9:05", "6-1-2020 10:05", "5-2-2020 23:05"], {"convert": {"x": "month_first"}}, [2, 3, 1]),
        # spaces that look alike
        (["1\u202f234", "999", "1\u00a0235"], SPACED, [2, 1, 3]),
        (["7\u00a0", "\u00a08", "\u20077"], {}, [1.5, 3, 1.5]),
        (["5\u00a0%", "6 %", "4%"], SHARE, [2, 3, 1]),
        (["421,67\u00a0€", "9,50\u202f€", "-3 €"], {**MONEY, "csv": {"delimiter": ";", **COMMA}}, [3, 2, 1]),
        # signs of amounts
        (["-$5.50", "$4", "$-6"], MONEY, [2, 3, 1]),
        (["-EUR 5", "EUR +4", "EUR 0.5"], MONEY, [1, 3, 2]),
        # listed numbers, converted
        (["-9 %", "5 %", "4 %"], {**SHARE, "missing_values": ["-9"]}, [None, 2, 1]),
        (["-$9.00", "$5", "$4"], {**MONEY, "missing_values": ["-9"]}, [None, 2, 1]),
    ],
)  # fmt: skip
def test_spellings_of_the_same_values_give_the_same_ranks(
    cells: list[str], keys: dict[str, Any], expected: list[float | None], csv: Any
) -> None:
    frame = pd.DataFrame({"id": list("abc"), "x": cells})
    assert ranked(frame, **keys) == expected
    separator = keys.get("csv", {}).get("delimiter", ",")
    assert ranked(csv(frame.to_csv(index=False, sep=separator)), **keys) == expected


DAYS = pd.to_datetime(["1900-01-01", "2020-05-01", "2019-05-01"]).to_series()
WIDE = [Decimal("-9.00"), Decimal("1E30"), Decimal("5.25")]


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        *((pa.array(DAYS.astype(f"datetime64[{unit}]")), OLD) for unit in ("s", "ms", "us", "ns")),
        *((pa.array(DAYS).cast(pa.timestamp("us", zone)), OLD) for zone in ("UTC", "+00:00")),
        (pa.array(DAYS.dt.tz_localize("Europe/Berlin")), OLD),
        (pa.array(DAYS).cast(pa.date32()), {"missing_values": ["1900-01-01 00:00:00", "9999-12-31"]}),
        (pa.array(DAYS).cast(pa.date64()), OLD),
        (pa.array(DAYS.astype("datetime64[ns]")), {"missing_values": ["9999-12-31", "1900-01-01"]}),
        *((pa.array([Decimal("-9.00"), Decimal("7.25"), Decimal("5.5")], kind), {"missing_values": ["-9"]})
          for kind in (pa.decimal128(10, 2), pa.decimal128(38, 2), pa.decimal256(60, 2))),
        (pa.array(WIDE, pa.decimal128(38, 2)), {"missing_values": ["-9.0"]}),
        (pa.array([-9, 7, 5], pa.int8()), {"missing_values": ["-9.00"]}),
        (pa.array([-9.0, 7, 5], pa.float32()), {"missing_values": ["-9"]}),
    ],
)  # fmt: skip
def test_a_listed_value_is_missing_in_every_type(
    column: pa.Array, keys: dict[str, Any], tmp_path: Path
) -> None:
    table = pa.table({"id": list("abc"), "x": column})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        assert ranked(source, **keys) == [None, 2, 1]


QUOTED = "it is not a well-formed CSV file: text after a closing quote, in line 1 of the file"
TEXT = b"id,x\na,1\nb,2\nc,3\n"


def excel() -> bytes:
    return b"PK\x03\x04" + bytes(30)


def parquet() -> bytes:
    pq.write_table(pa.table({"id": list("abc"), "x": [1, 2, 3]}), out := io.BytesIO())
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("t.csv", gzip.compress(TEXT), "t.csv is a gzip file: end its name in .csv.gz"),
        ("t.tsv", excel(), "t.tsv is an Excel workbook or another zip archive"),
        ("t.xlsx", excel(), "t.xlsx is an Excel workbook or another zip archive: save its table as CSV"),
        ("t.csv", parquet(), "t.csv is a Parquet file: end its name in .parquet"),
        ("t.parquet", gzip.compress(TEXT), "t.parquet is a gzip file"),
        ("t.arrow", parquet(), "t.arrow is a Parquet file"),
        ("t.csv.gz", TEXT, "it is not a complete gzip file"),
        ("t.csv", b"id,x\n1,a,1\n2,b,2\n3,c,3\n", "3 rows with too many or too few fields"),
        ("t.csv", b"id,x\na\nb,2\nc,3\n", "1 row with too many or too few fields, the first in data row 1"),
        ("t.csv", b'"id" "x"\n"1" "a" 1\n', f"{QUOTED}; if ' ' separates cells, set csv.delimiter to that"),
        ("t.csv", b'"id";"x"\n"a";1\n', f"{QUOTED}; if ';' separates cells, set csv.delimiter to that"),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else value,  # which has the time in it
)  # fmt: skip
def test_a_file_of_another_format_than_its_name_is_refused(
    name: str, content: bytes, error: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    assert refusal(tmp_path / name).startswith(error)


def test_the_error_about_a_file_of_rs_write_table_says_so(csv: Any) -> None:
    rows = "".join(f'"{i}" "p{i}" {i}\n' for i in range(1, 5))
    text = refusal(csv(f'"id" "x"\n{rows}'), csv={"delimiter": " "})
    assert text.endswith("if R's write.table made the file, make it with row.names = FALSE")

"""Columns whose categories have no order: each category becomes a flag, and rare ones share one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import Query
from mpc_spearman.data.tables import Table
from support import tables
from support.databases import made

COUNTS = {"north": 40, "south": 30, "east": 20, "north-east": 7, "islands": 3}
N = sum(COUNTS.values())
RNG = np.random.default_rng(8)
REGION = RNG.permutation(np.repeat([*COUNTS], [*COUNTS.values()]))
FRAME = pd.DataFrame({"id": [f"r{i:03}" for i in range(N)], "region": REGION, "y": RNG.normal(size=N)})


FLAGS: dict[str, Any] = {"encode": {"region": "flags"}}


def read(source: Any = FRAME, **settings: Any) -> Table:
    return tables.read(source, **FLAGS | settings)


def refusal(source: Any = FRAME, **settings: Any) -> str:
    return tables.refusal(source, **FLAGS | settings)


def flags(table: Table) -> dict[str, list[Any]]:
    return {
        name: np.ma.filled(table.column(place).astype(float), np.nan).tolist()
        for place, name in enumerate(table.features)
        if table.nominal_columns[place]
    }


def expected(frame: pd.DataFrame = FRAME) -> dict[str, list[float]]:
    return {
        f"region={name}": (frame["region"] == name).astype(float).tolist()
        for name in sorted(frame["region"].unique())
    }


@pytest.mark.parametrize("end", ["csv", "parquet", "categorical", "frame"])
def test_each_category_becomes_a_flag(end: str, tmp_path: Path) -> None:
    source: Any = FRAME
    if end == "categorical":  # whose order does not matter
        source = FRAME.assign(region=pd.Categorical(REGION, [*COUNTS], ordered=True))
    elif end != "frame":
        source = tmp_path / f"t.{end}"
        spaced = FRAME.assign(region=FRAME["region"] + " ")
        (spaced.to_csv if end == "csv" else spaced.to_parquet)(source, index=False)
    table = read(source)
    assert flags(table) == expected()
    assert {*table.nominal_columns} == {"region", ""}
    assert table.features[-1] == "y"
    assert table.cautions == ()


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_a_database_gives_the_same_flags_and_ranks(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = made(engine, FRAME, tmp_path, "", monkeypatch)
    assert isinstance(query, Query)
    table, file = read(query, fewest=10), read(fewest=10)
    some = RNG.permutation(N)[:50]
    for one, other in ((table, file), (table.take(some), file.take(some))):
        assert one.features == other.features
        assert np.array_equal(one.ranks().matrix, other.ranks().matrix)
        assert one.ranks().groups == other.ranks().groups


@pytest.mark.parametrize(
    ("values", "flag", "ones"),
    [
        (["F", "M", "F", "F"], "region=M", [0, 1, 0, 0]),
        (["yes", "no", "no", "yes"], "region=yes", [1, 0, 0, 1]),
        ([2, 1, 2, 1], "region=2", [1, 0, 1, 0]),
        ([2.0, 10.0, 2.0, 2.0], "region=10", [0, 1, 0, 0]),
        (["other", "men", "men", "other"], "region=men", [0, 1, 1, 0]),
        ([True, False, False, False], "region=true", [1, 0, 0, 0]),
    ],
)
def test_two_values_make_one_flag(values: list[Any], flag: str, ones: list[int]) -> None:
    table = read(pd.DataFrame({"id": list("abcd"), "region": values}))
    assert flags(table) == {flag: ones}


def test_numbers_have_the_same_names_in_text_as_in_a_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": list("abcdef"), "region": [1.0, 2.0, 10.0, np.nan, 2.0, 10.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv"):
        assert [*flags(read(source, missing="middle"))] == ["region=1", "region=2", "region=10"]


@pytest.mark.parametrize(
    ("fewest", "together"),
    [
        (3, []),
        (7, ["islands", "north-east"]),
        (10, ["islands", "north-east"]),
        (11, ["islands", "north-east", "east"]),
        (31, ["islands", "north-east", "east", "south"]),
    ],
)
def test_rare_categories_are_together_until_they_are_enough(fewest: int, together: list[str]) -> None:
    table = read(fewest=fewest)
    others = np.isin(REGION, together).astype(float).tolist()
    alone = {name: ones for name, ones in expected().items() if name.split("=")[1] not in together}
    if fewest == 31:  # two are left, and make one flag
        assert flags(table) == alone == {"region=north": alone["region=north"]}
    else:
        assert flags(table) == alone | ({"region=other": others} if together else {})
    assert all(sum(ones) >= fewest for ones in flags(table).values())
    assert len(table.cautions) == bool(together)
    if together:
        assert table.cautions[0].startswith(
            f"column 'region': {len(together)} of its 5 categories are one together"
        )


def test_a_category_called_other_joins_the_rare_categories() -> None:
    frame = FRAME.assign(region=FRAME["region"].replace("east", "other"))
    assert flags(read(frame, fewest=10))["region=other"] == (
        np.isin(REGION, ["east", "north-east", "islands"]).astype(float).tolist()
    )


def test_flags_follow_the_whole_table_whatever_rows_are_used() -> None:
    table = read(fewest=10)
    some = table.take(np.flatnonzero(REGION == "north"))
    assert some.features == table.features
    assert some.ranks().constant == (True, True, True, True, False)


def test_missing_categories_follow_the_rule_for_missing_cells() -> None:
    gaps = np.arange(N) % 7 == 0
    frame = FRAME.assign(region=FRAME["region"].mask(gaps))
    assert refusal(frame).startswith("column 'region': 15 missing values")
    dropped = read(frame, missing="drop_rows")
    assert dropped.ids.to_pylist() == FRAME["id"][~gaps].tolist()
    assert flags(dropped) == expected(FRAME[~gaps])
    middle = read(frame, missing="middle", missing_flags=True).ranks()
    assert not middle.matrix[:5, gaps].any()
    assert middle.matrix[:5, ~gaps].all()
    assert middle.matrix[-1][gaps].min() > middle.matrix[-1][~gaps].max()  # the flag of what is missing
    north = (REGION == "north")[~gaps]
    assert middle.matrix[2][~gaps].tolist() == np.where(north, (~north).sum(), -north.sum()).tolist()


def test_rare_categories_are_counted_in_complete_rows() -> None:
    frame = FRAME.assign(y=FRAME["y"].mask(FRAME["region"] == "north-east"))
    table = read(frame, fewest=3, missing="drop_rows")
    assert "region=north-east" not in table.features
    assert "region=islands" in table.features


def test_features_and_exclude_name_the_column() -> None:
    assert read(features=["region"]).features == tuple(expected())
    others = {"encode": {}, "exclude": ["region"]}
    assert read(**others).features == ("y",)
    assert "exclude: there is no column 'region=north'" in refusal(exclude=["region=north"])


def test_names_and_free_text_are_refused_without_quoting_a_cell() -> None:
    frame = pd.DataFrame({"id": range(4000), "region": [f"SECRET{i}" for i in range(4000)], "y": range(4000)})
    text = refusal(frame)
    assert text.startswith("column 'region': text with more than 1,000 different values")
    few = refusal(frame[:500], fewest=30)
    assert few.startswith("column 'region': fewer than two of its categories have 30 rows")
    assert "SECRET" not in text + few


def test_a_flag_whose_name_a_column_has_is_refused() -> None:
    frame = FRAME.assign(**{"region=north": FRAME["y"]})
    assert "two columns would have the name 'region=north'; exclude or rename one" in refusal(frame)
    frame = pd.DataFrame({"id": FRAME["id"], "a": ["b=c", "d", "e", *["f"] * (N - 3)], "a=b": "c"})
    frame.loc[:1, "a=b"] = "d", "e"
    text = refusal(frame, encode={"a": "flags", "a=b": "flags"})
    assert "two columns would have the name 'a=b=c'" in text


def test_a_column_of_one_category_is_refused() -> None:
    frame = FRAME.assign(region="north")
    assert "fewer than two of its categories" in refusal(frame)

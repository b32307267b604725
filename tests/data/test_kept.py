"""Ranks that an owner keeps: used again only for the same table, and never if damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.config.parties import TargetParty
from mpc_spearman.data.kept import KeptRanks
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import OutputError, PlanError
from support.databases import command, into_sqlite
from support.in_memory import run_in_memory
from support.plans import mapping

N = 60


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    rng = np.random.default_rng(26)
    frame = pd.DataFrame({"id": [f"p{i}" for i in range(N)], "flag": rng.integers(0, 2, N)})
    frame["x"], frame["y"] = rng.normal(size=(2, N))
    frame.loc[3, "y"] = np.nan
    path = tmp_path / "clinic.csv"
    frame.to_csv(path, index=False)
    return path


class Owner:
    """An owner of a table, who keeps its ranks, and counts how often it ranks."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder, self.ranked, self.said = path, path.parent / "kept", 0, list[str]()

    def ranks(
        self,
        take: Callable[[Table], Table] = lambda table: table,
        meanwhile: Callable[[], None] = lambda: None,
        limit: int | None = None,
        **keys: Any,
    ) -> tuple[Ranks, Table]:
        owner_keys = TargetParty(**{"name": "B", "table": self.path, "missing": "drop_rows", **keys})
        kept = KeptRanks(self.folder, owner_keys, limit)
        assert owner_keys.table is not None
        table = take(read_table(owner_keys.name, owner_keys.table, owner_keys, rows=limit))

        def rank(table: Table, matrix: np.ndarray) -> Ranks:
            self.ranked += 1
            meanwhile()
            return table.ranks(matrix=matrix)

        return kept.ranks(table, rank, self.said.append), table


def right(ranks: Ranks, table: Table) -> bool:
    again = table.ranks()
    pairs = zip(ranks.groups, again.groups, strict=True)
    equal = all((kept.how_many, kept.gaps) == (new.how_many, new.gaps) for kept, new in pairs)
    assert np.allclose(ranks.skewness, again.skewness, rtol=1e-12)  # an engine's rows come in any order
    return equal and np.array_equal(ranks.matrix, again.matrix)


def test_a_table_is_ranked_once_whatever_order_a_run_gives_its_rows(clinic: Path) -> None:
    owner, rng = Owner(clinic), np.random.default_rng(1)
    for order in (np.arange(N - 1), rng.permutation(N - 1), rng.permutation(N - 1)):
        assert right(*owner.ranks(lambda table, order=order: table.take(order)))
    assert owner.ranked == 1
    modes = {file.stat().st_mode & 0o777 for file in (owner.folder, *owner.folder.iterdir())}
    assert modes == {0o700, 0o600}
    assert len(list(owner.folder.iterdir())) == 2


@pytest.mark.parametrize(
    "keys",
    [
        {"missing": "middle"},
        {"exclude": ["flag"]},
        {"encode": {"flag": "flags"}},
        {"missing_values": ["1"]},
        {"limit": N - 1},
        {"take": lambda table: table.take(np.arange(30))},
        {"name": "D"},
        "file",
        "version",
    ],
    ids=["missing", "columns", "categories", "codes", "limit", "rows", "party", "file", "version"],
)
def test_any_change_that_ranks_depend_on_makes_them_again(
    keys: dict[str, Any] | str, clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(clinic)
    owner.ranks()
    if keys == "file":
        os.utime(clinic, ns=(1, 1))
    elif keys == "version":
        monkeypatch.setattr("mpc_spearman.data.kept.__version__", "0.0")
    assert right(*owner.ranks(**keys if isinstance(keys, dict) else {}))
    assert owner.ranked == 2
    assert len(list(owner.folder.glob("*.ranks"))) == 2


def test_kept_ranks_serve_a_run_that_may_take_other_memory(clinic: Path) -> None:
    owner, rows = Owner(clinic), np.random.default_rng(2).permutation(N - 1)
    for memory in ("300MB", "400MB"):
        ranks, table = owner.ranks(lambda table: table.take(rows), memory=memory)
        assert right(ranks, table)
    assert owner.ranked == 1
    os.utime(clinic, ns=(1, 1))
    owner.ranks()
    assert owner.ranked == 2


def test_ranks_of_a_database_follow_its_present_columns(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    frame, owner = pd.read_csv(clinic), Owner(clinic)
    asked = {"query": "SELECT * FROM t", "connection": "env:CLINIC"}
    for ranked, columns in enumerate(({}, {"x": "y", "y": "x"}), start=1):
        file = clinic.with_name("t.db")
        file.unlink(missing_ok=True)
        monkeypatch.setenv("CLINIC", into_sqlite(file, "t", frame.rename(columns=columns)))
        ranks, table = owner.ranks(table=asked, missing="middle", exclude=["flag"])
        assert right(ranks, table)
        assert owner.ranked == ranked


@pytest.mark.parametrize(
    "change",
    [
        ("?host=", "?options=-csearch_path%3Dother&host="),
        ({"PGOPTIONS": "-csearch_path=other"},),
        ("ALTER ROLE owner SET search_path TO other", "ALTER ROLE owner RESET search_path"),
        ("hunter", "hunter"),
    ],
    ids=["the address", "libpq's environment", "the role's settings", "nothing"],
)
def test_ranks_of_a_query_are_kept_for_the_same_session_alone(
    change: Any, clinic: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(
        server,
        *("DROP SCHEMA IF EXISTS other CASCADE", "CREATE SCHEMA other", "DROP TABLE IF EXISTS public.kept"),
        *(
            f"CREATE TABLE {schema}.kept AS SELECT g AS id, {sign}g AS x FROM generate_series(1, 9) g"
            for schema, sign in (("public", ""), ("other", "-"))
        ),
    )
    owner, asked = Owner(clinic), {"query": "SELECT * FROM kept", "connection": "env:CLINIC"}
    monkeypatch.setenv("CLINIC", server)

    def first() -> int:
        ranks, _ = owner.ranks(table=asked)
        return int(ranks.matrix[0, 0])

    assert first() == -8
    if isinstance(change[0], dict):
        monkeypatch.setenv(*next(iter(change[0].items())))
    elif change[0].startswith("ALTER"):
        command(server, change[0])
    else:
        monkeypatch.setenv("CLINIC", server.replace(*change))
    try:
        assert (first(), owner.ranked) == ((-8, 1) if change[0] == "hunter" else (8, 2))
    finally:
        if str(change[0]).startswith("ALTER"):
            command(server, change[1])


def test_ranks_of_a_database_file_are_kept_until_it_changes(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, asked = Owner(clinic), {"query": "SELECT * FROM t", "connection": "env:CLINIC"}
    monkeypatch.setenv("CLINIC", into_sqlite(clinic.with_name("t.db"), "t", pd.read_csv(clinic)))
    for ranked in (1, 1, 2):
        if ranked == 2:
            os.utime(clinic.with_name("t.db"), ns=(1, 1))
        owner.ranks(table=asked)
        assert owner.ranked == ranked


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4])


def turned(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    file.write_bytes(data)


def of_another_step(file: Path) -> None:
    header = json.loads(file.with_suffix(".json").read_text())
    header["groups"][0][1] += 1
    file.with_suffix(".json").write_text(json.dumps(header))


def of_another_day(file: Path) -> None:
    header = json.loads(file.with_suffix(".json").read_text())
    file.with_suffix(".json").write_text(json.dumps({**header, "kept": "2020-01-01 00:00 UTC"}))


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        turned,
        of_another_step,
        of_another_day,
        lambda file: file.write_bytes(b""),
        lambda file: file.with_suffix(".json").write_text("[]"),
        lambda file: file.with_suffix(".json").write_bytes(b"\xff{"),
    ],
    ids=["cut", "a bit turned", "other groups", "another day", "empty", "no mapping", "no JSON"],
)
def test_damaged_ranks_are_reported_and_made_again(damage: Callable[[Path], object], clinic: Path) -> None:
    owner = Owner(clinic)
    owner.ranks()
    (file,) = owner.folder.glob("*.ranks")
    damage(file)
    assert right(*owner.ranks())
    assert (owner.ranked, [str(file) in text for text in owner.said]) == (2, [True])
    assert right(*owner.ranks())
    assert owner.ranked == 2


def test_ranks_of_a_table_that_changes_are_neither_kept_nor_reused(clinic: Path) -> None:
    owner = Owner(clinic)

    def changed(table: Table) -> Table:
        os.utime(clinic, ns=(1, 1))
        return table

    assert right(*owner.ranks(meanwhile=lambda: os.utime(clinic, ns=(2, 2))))
    assert not list(owner.folder.iterdir())
    owner.ranks()
    assert right(*owner.ranks(changed))
    assert owner.ranked == 3


def test_a_run_that_is_killed_leaves_no_file_for_the_next(clinic: Path) -> None:
    owner = Owner(clinic)
    (owner.folder / f".unfinished-{16 * '0'}").mkdir(mode=0o700, parents=True)
    owner.folder.chmod(0o700)

    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        owner.ranks(meanwhile=fail)
    assert not list(owner.folder.iterdir())


def test_kept_ranks_are_read_where_nothing_can_be_written(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(clinic)
    owner.ranks()

    def refuse(*_: Any) -> None:
        raise OutputError("cannot write")

    monkeypatch.setattr("mpc_spearman.data.kept.private_folder", refuse)  # root may write to any folder
    assert right(*owner.ranks())
    assert owner.ranked == 1


@pytest.mark.parametrize("error", [PlanError, OutputError])
def test_an_unusable_folder_for_ranks_is_refused(error: type[Exception], clinic: Path) -> None:
    owner = Owner(clinic)
    if error is PlanError:
        owner.folder.mkdir(mode=0o755)
    else:
        owner.folder.write_text("")
    with pytest.raises(error, match="kept"):
        owner.ranks()


def test_runs_over_common_rows_use_them_and_give_the_same(clinic: Path) -> None:
    other = pd.read_csv(clinic).sample(frac=0.8, random_state=1)
    other.to_csv(clinic.with_name("other.csv"), index=False)
    content = mapping(alignment="intersect")
    for party, name in (
        (content["parties"]["sources"][0], "other.csv"),
        (content["parties"]["target"], "clinic.csv"),
    ):
        party |= {"table": str(clinic.with_name(name)), "missing": "drop_rows"}
    sentences = list[str]()
    first, again = (
        run_in_memory(
            load_plan(content), {}, keep_ranks=clinic.parent / "kept", say=sentences.append
        ).result()
        for _ in range(2)
    )
    pd.testing.assert_frame_equal(first.coefficients, again.coefficients, check_exact=True)
    assert len([text for text in sentences if "not ranked again" in text]) == 2

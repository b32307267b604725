"""``run_local``: its arguments, where it writes, and that it checks both before anything runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import rankdata

from mpc_spearman import Result, load_plan, run_local
from mpc_spearman.config import DataParty
from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import (
    MpcSpearmanError,
    OutputError,
    PlanError,
    PolicyError,
    RoleCrashed,
    TableError,
)
from mpc_spearman.launch.local import arrow
from mpc_spearman.launch.supervisor import Outcome
from support import harness
from support.made_results import costs, empty
from support.plans import mapping

IDS = ["a", "b", "c", "d"]
PLAN = {"parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}}


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": IDS, **columns})


TABLES = {"A": table(a=[1, 2, 3, 4]), "B": table(b=[1, 3, 2, 4])}


Launched = Callable[[Callable[..., Any]], None]


STRANGE = [[1, 2], {"id": IDS}, pl.LazyFrame({"id": IDS}), np.eye(3)]


class Ran(Exception):
    """Raised in place of starting any process."""


@pytest.fixture
def nothing_runs(launched: Launched) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Ran

    launched(refuse)


# ---- tables in memory

KEYS = DataParty(name="A")


def through_the_pipe(handed: Any, keys: DataParty = KEYS) -> Table:
    """Read a table as the party's process does."""
    return read_table("A", pa.ipc.open_stream(arrow("A", handed, keys)).read_all(), keys)


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**53, 2**53 + 1, 2**53 + 2, -(2**63)]),
        np.array([2**64 - 1, 2**64 - 2, 0, 1], dtype=np.uint64),
        np.array([1000.000041, 1000.000059, -0.0, 0.0]),
        np.array([1, 2, 3, 4], dtype=np.float32),
        np.array([True, False, True, True]),
        pd.array([2**53, 2**53 + 1, 2**53 + 2, 0], dtype="Int64"),
        pd.array([1, 2, 3, 4], dtype="int64[pyarrow]"),
    ],
    ids=lambda values: str(values.dtype),
)
@pytest.mark.parametrize(
    "handed",
    [pd.DataFrame, pa.table, pa.RecordBatch.from_pandas, pl.from_pandas],
    ids=["pandas", "arrow", "batch", "polars"],
)
def test_numbers_reach_a_party_exactly(values: Any, handed: Callable[[pd.DataFrame], Any]) -> None:
    direct, received = read_table("A", table(x=values), KEYS), through_the_pipe(handed(table(x=values)))
    assert received.ids.to_pylist() == direct.ids.to_pylist() == IDS
    assert received.column(0).dtype == direct.column(0).dtype
    assert received.column(0).tolist() == direct.column(0).tolist() == list(values)


def test_ordered_polars_types_rank_as_their_pandas_or_arrow_equals() -> None:
    day, second = date(2024, 2, 28), datetime(2024, 2, 28, 23, 59, 59, 1)
    polars = pl.DataFrame(
        {
            "id": IDS,
            "decimal": pl.Series(["12345678901234567890.25", "-1", "0", "7.5"]).str.to_decimal(scale=2),
            "enum": pl.Series(["mid", "low", "high", "low"], dtype=pl.Enum(["low", "mid", "high"])),
            "category": pl.Series(["mid", "low", "high", "low"], dtype=pl.Categorical),
            "text": ["mid", "low", "high", "low"],
            "day": [day + timedelta(step) for step in (3, 1, 2, 0)],
            "second": [second - timedelta(seconds=step) for step in (3, 1, 2, 0)],
            "took": [timedelta(seconds=step) for step in (3, 1, 2, 0)],
            "small": pl.Series([3, 1, 2, 0], dtype=pl.UInt8),
        }
    )
    encode = dict.fromkeys(("category", "text"), ("low", "mid", "high"))
    read = through_the_pipe(polars, KEYS.model_copy(update={"encode": encode}))
    places = {name: rankdata(read.column(i)).tolist() for i, name in enumerate(read.features)}
    assert list(places) == polars.columns[1:]
    assert places["decimal"] == [4, 1, 2, 3]
    assert places["enum"] == places["category"] == places["text"] == [3, 1.5, 4, 1.5]
    assert places["day"] == places["took"] == places["small"] == [4, 2, 3, 1]
    assert places["second"] == [1, 3, 2, 4]


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pd.DataFrame([["a", 1, 2]] * 4, columns=["id", "x", "x"]), "1 column with the name of an earlier"),
        (pd.DataFrame({"id": IDS, 7: [1, 2, 3, 4]}), "the label of column 2 is not text"),
        (table(x=[1, "b", 2.5, None]), r"column 'x': Python objects of several kinds"),
        (table(x=pd.Series([2**70, 1, 2, 3], dtype=object)), "column 'x': Python objects"),
        (table(x=[1j, 2, 3, 4]), "column 'x': complex128, which Arrow does not have: cast it to float64"),
        (table(x=pd.array([2**53 + 1, None, 3, 4], dtype="Int64")), "column 'x': 1 missing value"),
        (pd.DataFrame([["a", 1]] * 4, columns=pd.Index(["id", "\ud800"], dtype=object)), "not valid Unicode"),
        (pd.DataFrame(), "there is no column 'id'"),
        (table(x=[1, 2, 3, 4]).set_index("id"), r"id: there is no column 'id'; .*reset_index\(\)"),
        (pl.DataFrame({"x": [1, 2, 3]}), "there is no column 'id'"),
        (
            pl.DataFrame({"id": IDS, "x": pl.Series([1, 2, 3, 4], dtype=pl.Int128)}),
            "column 'x': Int128, which Arrow does not have",
        ),
        (pl.DataFrame({"id": IDS, "x": [[1], [2], [3], [4]]}), "column 'x': large_list, not numbers"),
        (pl.Series("x", [1, 2, 3]), r"Arrow cannot take it \("),
        (pl.DataFrame({"id": IDS, "x": [1, None, 3, 4]}), "column 'x': 1 missing value"),
    ],
)
def test_a_table_that_cannot_be_ranked(frame: Any, problem: str) -> None:
    with pytest.raises(TableError, match=f"^A: the table: .*{problem}"):
        through_the_pipe(frame)


@pytest.mark.parametrize(
    "keys", [{"exclude": ["remark"]}, {"features": ["a"]}], ids=["excluded", "not among the features"]
)
@pytest.mark.parametrize("handed", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_a_column_that_is_not_used_may_hold_anything_and_stays_here(
    keys: dict[str, Any], handed: Callable[[pd.DataFrame], Any], launched: Launched
) -> None:
    streams: dict[str, bytes] = {}

    def look(assignments: Any, *_: Any, **__: Any) -> Any:
        streams.update({assignment.party: assignment.table for assignment in assignments})
        raise Ran

    launched(look)
    plan = {"parties": {**PLAN["parties"], "sources": [{"name": "A", **keys}]}}
    remark = ["nobody's business", 7, None, ()] if handed is pd.DataFrame else ["nobody's business"] * 4
    with pytest.raises(Ran):
        run_local(plan, TABLES | {"A": handed(table(a=[1, 2, 3, 4], remark=remark))})
    assert b"nobody's business" not in streams["A"]
    received = pa.ipc.open_stream(streams["A"]).read_all()
    assert read_table("A", received, DataParty(name="A", **keys)).features == ("a",)


# ---- what is refused before anything runs


@pytest.mark.usefixtures("nothing_runs")
class TestBeforeAnythingRuns:
    def test_a_valid_run_starts(self) -> None:
        with pytest.raises(Ran):
            run_local(PLAN, TABLES)

    @pytest.mark.parametrize(
        ("tables", "settings", "error", "says"),
        [
            ({"A": TABLES["A"]}, {}, PlanError, "party B has no table: give `table` in the plan, --table"),
            *((TABLES | {"A": strange}, {}, PlanError, "neither a path nor a table") for strange in STRANGE),
            (TABLES | {"D": TABLES["A"]}, {}, PlanError, "'D'"),
            (TABLES, {"estimater": "paper"}, PlanError, r"estimater.*estimator"),
            (TABLES, {"reveal": "differences"}, PolicyError, r"party B does not allow.*policy\.max_reveal"),
        ],
    )
    def test_impossible_runs_are_refused(self, tables: Any, settings: Any, error: Any, says: str) -> None:
        for plan in (PLAN, load_plan(PLAN)):
            with pytest.raises(error, match=says):
                run_local(plan, tables, **settings)

    def test_tables_in_place_of_a_plan(self) -> None:
        frame = pd.DataFrame({"id": ["a"]})
        for arguments in ((frame, frame), (frame,), (mapping(), frame)):
            with pytest.raises(PlanError, match=r"call run_local\(plan, \{'A': a, 'B': b\}\)"):
                run_local(*arguments)

    @pytest.mark.parametrize("party", ["A", "B", "C"])
    def test_a_directory_with_somebodys_files(self, tmp_path: Path, party: str) -> None:
        (tmp_path / "out" / party).mkdir(parents=True)
        (tmp_path / "out" / party / "thesis.tex").write_text("years of work")
        with pytest.raises(OutputError, match=r"'thesis\.tex', which no run wrote"):
            run_local(PLAN, TABLES, out=tmp_path / "out")
        assert (tmp_path / "out" / party / "thesis.tex").read_text() == "years of work"
        assert os.listdir(tmp_path) == ["out"]
        assert os.listdir(tmp_path / "out") == [party]

    def test_a_file_in_place_of_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("mine")
        for out, text in ((tmp_path / "out", "is not a dir"), (tmp_path / "out" / "deep", "cannot write to")):
            with pytest.raises(OutputError, match=text):
                run_local(PLAN, TABLES, out=out)
        assert (tmp_path / "out").read_text() == "mine"
        assert os.listdir(tmp_path) == ["out"]

    def test_files_made_for_the_run_are_removed(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        with pytest.raises(Ran):
            run_local(PLAN, TABLES, out=tmp_path / "kept" / "deep" / "deeper" / "out")
        assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


# ---- all or none


def write_runs(orders: Any, *_: Any, **__: Any) -> dict[str, Outcome]:
    """Stand in for the roles: each leaves a run directory."""
    for order in orders:
        role: Any = order.plan.roster(order.party).me.role.value
        empty(order.plan, order.party, role, 4, costs(order.party)).save(order.out)
    return {order.party: Outcome(order.party, "returned", None, "account", 0, 1.0) for order in orders}


@pytest.fixture
def roles_write(launched: Launched) -> None:
    launched(write_runs)


@pytest.mark.usefixtures("roles_write")
@pytest.mark.parametrize(("b", "a"), [("B", "A"), ("site.1", "site.2")], ids=["plain", "no suffixes"])
def test_every_partys_directory_is_kept_and_an_earlier_one_replaced(tmp_path: Path, b: str, a: str) -> None:
    plan = {"parties": {"coordinator": {"name": "C"}, "target": {"name": b}, "sources": [{"name": a}]}}
    for _ in range(2):
        assert run_local(plan, {a: TABLES["A"], b: TABLES["B"]}, out=tmp_path / "new" / "out").party == "C"
        assert os.listdir(tmp_path / "new") == ["out"]
        assert sorted(os.listdir(tmp_path / "new" / "out")) == sorted([a, b, "C"])
        for party in (a, b, "C"):
            assert Result.load(tmp_path / "new" / "out" / party).party == party
        (tmp_path / "new" / "out" / a / "cost.csv").write_text("earlier")


@pytest.mark.usefixtures("roles_write")
def test_if_one_directory_cannot_be_placed_all_stay_as_they_were(tmp_path: Path, launched: Launched) -> None:
    run_local(PLAN, TABLES, out=tmp_path / "out")
    for party in "ABC":
        (tmp_path / "out" / party / "cost.csv").write_text("earlier")

    def write_and_spoil(orders: Any, *arguments: Any, **more: Any) -> Any:
        outcomes = write_runs(orders)
        # The last one to be placed is gone.
        shutil.rmtree(Path(orders[-1].out))
        return outcomes

    launched(write_and_spoil)
    with pytest.raises(OutputError, match="cannot write the results to"):
        run_local(PLAN, TABLES, out=tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]
    for party in "ABC":
        assert (tmp_path / "out" / party / "cost.csv").read_text() == "earlier"


def test_the_first_cause_is_raised_and_nothing_kept(tmp_path: Path, launched: Launched) -> None:
    def fail(orders: Any, *_: Any, **__: Any) -> dict[str, Outcome]:
        outcomes = write_runs(orders)
        error = RoleCrashed("the process of party A ended")
        return outcomes | {"A": Outcome("A", "died", error, "rank", -9, 1.0)}

    launched(fail)
    with pytest.raises(RoleCrashed, match="the process of party A ended") as raised:
        run_local(PLAN, TABLES, out=tmp_path / "out")
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert isinstance(raised.value, MpcSpearmanError)
    assert os.listdir(tmp_path) == []


def test_all_tables_problems_come_together(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,no\n2,number\n")
    tables = {"A": tmp_path / "a.csv", "B": tmp_path / "none.csv"}
    with pytest.raises(TableError) as refused:
        run_local(PLAN, tables, server=harness.fork_server())
    lines = str(refused.value).splitlines()
    assert sorted(line[:2] for line in lines) == ["A:", "B:"]


def test_no_other_user_can_look_at_files_of_a_run_under_way(tmp_path: Path, launched: Launched) -> None:
    modes: list[int] = []

    def look(orders: Any, *_: Any, **__: Any) -> Any:
        modes.append(Path(orders[0].out).parent.stat().st_mode & 0o777)
        raise Ran

    launched(look)
    for out in (None, tmp_path / "out"):
        with pytest.raises(Ran):
            run_local(PLAN, TABLES, out=out)
    assert modes == [0o700, 0o700]


# ---- from a script

SCRIPT = """
import sys, threading
import numpy as np
import pandas as pd
from mpc_spearman import run_local
from mpc_spearman.errors import TableError

values = np.random.default_rng(5).normal(size=(5, 60))
ids = [f"p{i}" for i in range(60)]
a = pd.DataFrame({"id": ids, "a": values[0], "b": values[1]})
b = pd.DataFrame({"id": ids, "x": values[2], "y": values[3], "z": values[4]})
policy = {"min_key_bits": 512}
parties = {"coordinator": {"name": "C"}, "target": {"name": "B", "policy": policy}}
parties["sources"] = [{"name": "A", "policy": policy}]
he = {"key_bits": 512, "insecure": True}
plan = {"parties": parties, "protocol": "he", "he": he}  # which does not import PyTorch

first = run_local(plan, {"A": a, "B": b}, out="out")
try:
    run_local(plan, {"A": a.assign(a=[None] * 60), "B": b}, out="out")
except TableError as error:
    assert error.__cause__ is None and error.__context__ is None
    print("refused:", error)

expected = pd.concat([a, b.drop(columns="id")], axis=1).drop(columns="id").corr("spearman")
np.testing.assert_allclose(first.coefficients.to_numpy(), expected.iloc[:2, 2:].to_numpy(), rtol=1e-14)
assert threading.active_count() == 1, threading.enumerate()
assert "torch" not in sys.modules
print("it agrees")
"""


def test_a_script_without_a_guard_runs_and_survives_an_error(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(harness.ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    refused, agree = done.stdout.splitlines()
    assert refused.startswith("refused: A: ")
    assert "column 'a'" in refused
    assert "60" in refused
    assert agree == "it agrees"
    # The results of the first run are untouched by the failure of the second.
    assert sorted(os.listdir(tmp_path)) == ["out", "script.py"]
    assert Result.load(tmp_path / "out" / "C").n == 60

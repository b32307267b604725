"""A missing library is named, with the command that installs it, before anything else happens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpc_spearman import load_plan, run_local
from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.tables import read_table
from mpc_spearman.errors import PlanError, SetupError
from support.plans import mapping, plan_with
from support.references import normal_tables

BFV = plan_with({"protocol": "he", "he": {"scheme": "bfv"}})


@pytest.mark.parametrize(
    ("module", "use", "error", "said"),
    [
        (
            "crypten",
            lambda out: run_local(mapping(), normal_tables(), out=out),
            SetupError,
            "--no-deps crypten==",
        ),
        (
            *("duckdb", lambda out: read_table("B", Query(query="SELECT 1 AS x"), TableKeys())),
            *(SetupError, r"pip install 'duckdb>=[\d.]+' 'adbc[^ ]*'$"),
        ),
        ("tenseal", lambda out: load_plan(BFV), PlanError, r"he\.scheme: 'bfv' needs TenSEAL.*paillier"),
    ],
)
def test_a_missing_library_is_named_with_the_install_command(
    module: str,
    use: Callable[[Path], object],
    error: type[Exception],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE", "sqlite:x.db")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(error, match=said):
        use(tmp_path / "out")
    assert not (tmp_path / "out").exists()

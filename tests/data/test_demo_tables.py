"""The demo's tables, and the shared ones."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata, spearmanr

from support.references import DATA, SHARED
from support.tables import columns, read

# ---- the demo's tables ----------------------------------------------------------------------------------


def test_demo_tables_and_what_they_show():
    a = read(DATA / "insurer.csv")
    b = read(DATA / "clinic.csv")
    assert a.ids.equals(b.ids)
    assert (a.n, a.ids[0].as_py(), a.ids[-1].as_py()) == (20_190, "p00001", "p20190")
    assert a.features == ("lncoins", "idp", "lpi", "fmde")
    assert b.features == ("mdvis", "physlm", "disea", "hlthg", "hlthf", "hlthp")
    n = a.n
    true = (
        spearmanr(np.column_stack(columns(a)), np.column_stack(columns(b)))
        .statistic[: a.m, a.m :]
        .mean(axis=0)
    )
    twice_a, twice_b = ([(2 * rankdata(c)).astype(np.int64) for c in columns(t)] for t in (a, b))
    paper = [
        np.mean([1 - 6 * int(((x - y) ** 2).sum()) / (4 * n * (n * n - 1)) for x in twice_a]) for y in twice_b
    ]
    by_truth = [b.features[i] for i in np.argsort(-true)]
    by_paper = [b.features[i] for i in np.argsort(-np.array(paper))]
    assert by_truth == ["disea", "hlthg", "hlthf", "hlthp", "physlm", "mdvis"]
    assert by_paper == ["hlthp", "hlthf", "physlm", "hlthg", "disea", "mdvis"]
    assert true[5] == pytest.approx(-0.023467130030038294, abs=1e-12)
    assert paper[5] == pytest.approx(0.5594056384229827, abs=1e-12)
    assert true[2] == pytest.approx(0.016582513047726927, abs=1e-12)
    said = (DATA / "README.md").read_text()
    for strength, highlighted in zip(true, by_truth[0] == np.array(b.features), strict=True):
        if highlighted:
            assert f"**{strength:.6f}**" in said
    assert f"**{paper[5]:.6f}**" in said


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_demo_tables", DATA / "make_demo_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_tables_can_be_rebuilt(tmp_path):
    pytest.importorskip("statsmodels", reason="statsmodels, which ships the data, is not installed")
    module = maker()
    module.write(tmp_path)
    for name in ("insurer.csv", "clinic.csv", "insurer_raw.csv", "clinic_raw.csv"):
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


def test_raw_tables_are_made_from_the_others():
    module = maker()
    prepared = (pd.read_csv(DATA / name) for name in ("insurer.csv", "clinic.csv"))
    for name, table in module.raw_tables(*prepared).items():
        assert table.to_csv(index=False, lineterminator="\n") == (DATA / name).read_text(), name


@pytest.mark.parametrize("name", ["breast", "student", "motor"])
def test_shared_tables(name):
    if not SHARED.is_dir():
        pytest.skip("the shared tables are not on this machine")
    id = "idx" if name == "motor" else "id"
    for side in ("guest", "host"):
        path = SHARED / f"{name}_hetero_{side}.csv"
        expected = pd.read_csv(path, dtype={id: str})
        table = read(path, id=id)
        assert table.ids.to_pylist() == expected[id].tolist()
        for feature, column in zip(table.features, columns(table), strict=True):
            assert column.tolist() == expected[feature].tolist()

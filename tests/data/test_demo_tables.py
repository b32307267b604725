"""The demo's tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata, spearmanr

from support.pages import script
from support.references import DATA
from support.tables import columns, read


def test_demo_tables_and_what_they_show():
    a = read(DATA / "insurer.csv")
    b = read(DATA / "clinic.csv")
    assert a.ids.equals(b.ids)
    assert (a.n, a.ids[0].as_py(), a.ids[-1].as_py()) == (4_406, "p0001", "p4406")
    assert a.features == ("visits", "outpatient", "emergency", "stays")
    assert b.features == ("conditions", "limited", "health", "age", "female", "school")
    n = a.n
    matrix = spearmanr(np.column_stack(columns(a)), np.column_stack(columns(b))).statistic[: a.m, a.m :]
    strongest = np.unravel_index(np.abs(matrix).argmax(), matrix.shape)
    assert (a.features[strongest[0]], b.features[strongest[1]]) == ("visits", "conditions")
    assert f"ρ = {matrix[strongest]:.2f}" in (DATA / "README.md").read_text()
    true = matrix.mean(axis=0)
    twice_a, twice_b = ([(2 * rankdata(c)).astype(np.int64) for c in columns(t)] for t in (a, b))
    paper = [
        np.mean([1 - 6 * int(((x - y) ** 2).sum()) / (4 * n * (n * n - 1)) for x in twice_a]) for y in twice_b
    ]
    by_truth = [b.features[i] for i in np.argsort(-true)]
    by_paper = [b.features[i] for i in np.argsort(-np.array(paper))]
    assert by_truth == ["conditions", "limited", "age", "female", "school", "health"]
    assert by_paper == ["limited", "conditions", "health", "female", "age", "school"]
    assert (true[2] < -0.1, paper[2] > 0.3) == (True, True)  # eq. 2 turns the sign of health's


def test_raw_tables_are_made_from_the_others():
    module = script("data/make_demo_tables.py")
    prepared = (pd.read_csv(DATA / name) for name in ("insurer.csv", "clinic.csv"))
    for name, table in module.raw_tables(*prepared).items():
        assert table.to_csv(index=False, lineterminator="\n") == (DATA / name).read_text(), name

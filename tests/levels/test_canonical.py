"""``canonical``: NumPy's singular values, enough noise, and a test of the stated size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from levels.test_explained import A, B, D, ranks_of
from mpc_spearman.config import load_plan
from mpc_spearman.errors import NotRevealed
from mpc_spearman.levels import level_of, whitening
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.loss import separation
from mpc_spearman.results.result import Result
from support.in_memory import run_in_memory
from support.plans import plan

EXACT: dict[str, Any] = {"reveal": "canonical"}
NOISY: dict[str, Any] = {"reveal": "canonical", "results": {"precision": "statistical"}}


def canonical(source: pd.DataFrame, target: pd.DataFrame) -> np.ndarray:
    """The canonical correlations of pooled ranks on the kept directions, by NumPy."""
    x, y = (np.linalg.qr((whitening.directions(r) @ r.matrix).T)[0] for r in map(ranks_of, (source, target)))
    return np.linalg.svd(x.T @ y, compute_uv=False)


@pytest.mark.parametrize("settings", [{}, {"protocol": "he", "he": {"scheme": "bfv"}}])
def test_exact_results_are_the_canonical_correlations_of_pooled_ranks(settings: dict[str, Any]) -> None:
    if settings:
        pytest.importorskip("tenseal")
    outcome = run_in_memory(plan("A", "D", **EXACT, **settings), {"A": A, "D": D, "B": B})
    of_target = outcome.result("B").canonical
    assert list(of_target.index.unique(0)) == ["A", "D"]
    for name, frame in (("A", A), ("D", D)):
        truth = canonical(frame, B)
        shown = of_target.loc[name]
        np.testing.assert_allclose(shown["singular"].dropna(), truth, atol=1e-6)
        assert shown["trace"].iloc[0] == pytest.approx(np.square(truth).sum(), abs=1e-5)
        of_source = outcome.result(name).canonical
        pd.testing.assert_frame_equal(of_source, of_target.loc[[name]])
    with pytest.raises(NotRevealed):
        _ = outcome.result("C").ranking


def test_a_saved_copy_loads_and_says_whether_there_is_anything(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    noise = {"A": A, "B": B.assign(**{name: random.normal(size=len(B)) for name in "xyzf"})}
    for tables, words in (
        ({"A": A, "B": B}, "have something in common"),
        (noise, "cannot be told to have anything in common"),
    ):
        result = run_in_memory(plan(**EXACT), tables).result("A")
        result.save(tmp_path / "out")
        loaded = Result.load(tmp_path / "out")
        pd.testing.assert_frame_equal(loaded.canonical, result.canonical)
        assert words in (tmp_path / "out" / "report.html").read_text()
        assert "ranking.csv" not in [path.name for path in (tmp_path / "out").iterdir()]


def test_both_sides_are_granted_it_unless_the_plan_says_otherwise() -> None:
    parties = plan(**EXACT).model_dump(mode="json")["parties"]
    by_default = load_plan({"reveal": "canonical", "parties": parties}).results
    assert (by_default.target, by_default.sources) == ("canonical", "canonical")
    results = load_plan(
        {"reveal": "canonical", "parties": parties, "results": {"sources": "nothing"}}
    ).results
    assert (results.target, results.sources) == ("canonical", "nothing")


def test_opened_values_have_room_for_the_largest_possible_scales() -> None:
    level = level_of(plan(**NOISY))
    shapes = Shapes(400, {Party("A", Role.SOURCE, 2): 30}, 50)
    encoding = level.encoding(shapes)
    assert encoding is not None
    assert encoding.noise_bound > 20 * 2 / separation(2) * whitening.largest(30, 400) * encoding.unit
    assert encoding.result_bound < 2**62

"""What is published: numbers on their grid or made from such, at the receivers and in their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.errors import PolicyError
from mpc_spearman.privacy.precision import coefficient_grid, strength_grid
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.reference import reference
from support.in_memory import run_in_memory
from support.plans import mapping

N = 300


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(11)
    common, ids = rng.normal(size=N), [f"{row:03d}" for row in range(N)]
    source = {name: common + rng.normal(size=N) for name in ("a", "b", "c")}
    target = {
        name: common * weight + rng.normal(size=N) for name, weight in (("x", 1), ("y", 0.3), ("z", -1))
    }
    return {
        "A": pd.DataFrame({"id": ids} | source),
        "B": pd.DataFrame({"id": ids} | target | {"x2": target["x"]}),
    }


TABLES = tables()
FRAMES = {party: table.drop(columns="id") for party, table in TABLES.items()}
EXACT = reference({"A": FRAMES["A"]}, FRAMES["B"])
COEFFICIENTS, STRENGTHS = coefficient_grid(N), strength_grid(N, 3)


def run(results: dict[str, str], **settings: Any) -> dict[str, Result]:
    ended = run_in_memory(load_plan(mapping(cautious=True, results=results, **settings)), TABLES)
    assert not ended.errors, ended.errors
    return dict(ended.results)


def test_the_matrix_is_on_its_grid_and_all_else_follows_from_it() -> None:
    given = run({"target": "coefficients"})
    target, coordinator = given["B"], given["C"]
    assert COEFFICIENTS.holds(target.coefficients.to_numpy()).all()
    assert (target.coefficients - EXACT.coefficients).abs().to_numpy().max() <= COEFFICIENTS.step / 2
    assert target.precision == {"coefficients": COEFFICIENTS.step}
    means = target.coefficients.mean()
    np.testing.assert_allclose(target.strengths, means, rtol=1e-15)
    ranking = target.ranking.set_index("feature")
    assert ranking["strength"].equals(target.strengths.loc[ranking.index].rename("strength"))
    assert ranking.loc["x", "position"] == ranking.loc["x2", "position"] == 1  # equals share a position
    # the coordinator's own numbers are exact, but for the ranking, which is the target's
    np.testing.assert_allclose(coordinator.coefficients, EXACT.coefficients, rtol=0, atol=1e-12)
    assert coordinator.ranking.equals(target.ranking)


def test_strengths_by_themselves_are_on_theirs_at_both_levels() -> None:
    for level in ("coefficients", "strengths"):
        given = run({"target": "strengths", "sources": "strengths"}, reveal=level)
        for party in "AB":
            assert STRENGTHS.holds(given[party].strengths.to_numpy()).all()
            assert given[party].precision == {"strengths": STRENGTHS.step}
            assert (given[party].strengths - EXACT.strengths).abs().max() <= STRENGTHS.step * 0.6
            assert given[party].ranking.equals(given["C"].ranking)
        assert not STRENGTHS.holds(given["C"].strengths.to_numpy()).all()


def test_no_exact_number_is_in_a_receivers_folder(tmp_path: Path) -> None:
    given = run({"target": "coefficients", "sources": "strengths"})
    exact = {repr(float(x)) for x in EXACT.coefficients.to_numpy().ravel()} | {
        repr(float(x)) for x in EXACT.strengths
    }
    for party in "AB":
        folder = given[party].save(tmp_path / party)
        text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()))
        assert not [number for number in exact if number[:9] in text]
        assert (
            json.loads((folder / "result.json").read_text(encoding="utf-8"))["precision"]
            == given[party].precision
        )
    assert exact & set(
        "".join((given["C"].save(tmp_path / "C") / "matrix.csv").read_text().split()).split(",")
    )


def test_exact_numbers_take_every_owners_consent() -> None:
    its = mapping(cautious=True, results={"target": "coefficients", "precision": "exact"})
    refused = run_in_memory(load_plan(its), TABLES)
    assert isinstance(refused.errors["A"], PolicyError)
    for party in (its["parties"]["target"], *its["parties"]["sources"]):
        party["policy"] = {"exact": True, "budget": 5.0}
    its["privacy"] = {"budget": 5.0}
    agreed = run_in_memory(load_plan(its), TABLES)
    assert not agreed.errors
    np.testing.assert_allclose(agreed.results["B"].coefficients, EXACT.coefficients, rtol=0, atol=1e-12)
    assert agreed.results["B"].precision == {}


@pytest.mark.parametrize("grant", ["ranking", "nothing"])
def test_an_order_or_nothing_has_no_precision(grant: str) -> None:
    given = run({"target": grant})
    assert given["B"].precision == {}
    assert given["C"].precision == {"strengths": STRENGTHS.step}

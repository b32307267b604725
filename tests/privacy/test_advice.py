"""How many rows a plan needs, against the noise of made-up tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mpc_spearman.attacks.guess import mean_scales, scales
from mpc_spearman.attacks.simulated import encoded
from mpc_spearman.config import Plan, load_plan
from mpc_spearman.privacy.advice import advice, noise_ratio, rows_needed
from mpc_spearman.privacy.scales import deviations

PARTIES: dict[str, Any] = {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}
EXACT = {"results": {"precision": "exact"}}


def plan(**settings: Any) -> Plan:
    return load_plan({"parties": PARTIES, **settings})


@pytest.mark.parametrize(("rows", "source", "target"), [(300, 5, 5), (2000, 20, 8), (2000, 30, 30)])
def test_expected_noise_is_about_that_of_independent_columns(rows: int, source: int, target: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = (encoded(rng.normal(size=(m, rows))) for m in (source, target))
    error = 1 / math.sqrt(rows - 1)
    pairs = np.median(deviations(scales(x), scales(y), 2.0)) / error
    means = np.median(deviations(mean_scales(x), scales(y), 2.0)) / (error / math.sqrt(source))
    granted = plan(reveal="coefficients", results={"target": "coefficients"})
    assert noise_ratio(granted, rows, source, target) == pytest.approx(pairs, rel=0.25)
    assert noise_ratio(plan(reveal="strengths"), rows, source, target) == pytest.approx(means, rel=0.35)


@pytest.mark.parametrize(
    "settings",
    [
        {"reveal": "coefficients", "results": {"target": "coefficients"}},
        {"reveal": "coefficients", "results": {"target": "coefficients"}, "privacy": {"unit": "value"}},
        {"reveal": "strengths"},
        {"reveal": "ranking"},
        {"reveal": "explained"},
        {"reveal": "canonical"},
    ],
)
def test_from_so_many_rows_on_noise_is_no_larger_than_chance(settings: dict[str, Any]) -> None:
    quiet = plan(**settings)
    needed = rows_needed(quiet, 20, 20)
    assert noise_ratio(quiet, needed, 20, 20) <= 1 < noise_ratio(quiet, int(needed * 0.9), 20, 20)
    assert rows_needed(quiet, 5, 5) < needed < rows_needed(quiet, 50, 50)
    louder = plan(**{**settings, "privacy": {**settings.get("privacy", {}), "loss": 8}})
    assert rows_needed(louder, 20, 20) < needed
    assert int(str(needed).rstrip("0")) < 100


def test_advice_names_numbers_where_there_is_noise() -> None:
    (sentence,) = advice(plan(reveal="coefficients", results={"target": "coefficients"}), (20, 20))
    assert "20 × 20 columns about 2,600;" in sentence
    assert advice(plan(reveal="strengths"))[0].count("columns about") == 3
    assert advice(plan(reveal="strengths", **EXACT)) == []


def test_advice_says_where_the_strongest_alone_have_more_noise_than_all() -> None:
    strongest = plan(reveal="coefficients", results={"target": "coefficients", "strongest": 12})
    _, sentence = advice(strongest)
    assert "5 × 5 columns 1.4, 20 × 20 columns 0.62" in sentence
    assert "leave it out or choose fewer" in sentence
    _, sentence = advice(strongest, (3, 4))
    assert sentence.endswith("3 × 4 columns 1 (there are no more, so all)")

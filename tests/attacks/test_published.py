"""Attacks on rows: they succeed on exact results; on published copies no guess is better than the bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.attacks import rows
from mpc_spearman.attacks.guess import (
    Exchange,
    coefficients_of,
    mean_scales,
    scales,
    strengths_of,
    together,
    worst_rows,
)
from mpc_spearman.attacks.simulated import Floats, Ints, coefficients, encoded, flag, untied
from mpc_spearman.data.adjusted import adjusted
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.privacy.gaussian import discrete_gaussian
from mpc_spearman.privacy.loss import guess, separation
from mpc_spearman.privacy.scales import deviations

LOSS, COPIES = 2.0, 1000
Tables = tuple[Ints, Ints]


def _one_hot(n: int, groups: int, rng: np.random.Generator) -> Ints:
    return encoded(rng.permutation(np.arange(n) % groups) == np.arange(groups)[:, None])


def _nested(n: int, sizes: range) -> Ints:
    return encoded(np.arange(n) < np.array(sizes)[:, None])


def _trait(n: int, columns: int, rng: np.random.Generator) -> Ints:
    trait = rng.normal(size=n)
    return encoded(trait + 0.1 * rng.normal(size=(columns, n)))


def _questions(n: int, people: int, questions: int, rng: np.random.Generator) -> Ints:
    asked_rows = rng.choice(n, people, replace=False)
    return encoded(np.array([flag(n, people // 2, rng, asked_rows) for _ in range(questions)]))


def _residuals(m: int, n: int, rng: np.random.Generator) -> Ints:
    """Flags that are mostly their age, adjusted for it; rounded so that their products fit."""
    age = rng.normal(size=n)
    flags = [age + rng.normal(size=n) > limit for limit in np.linspace(-1, 2, m)]
    return adjusted(rank_columns([*flags, age]), 1).matrix.astype(np.int64) >> 10


#: What A holds, and what B asks about it with.
SCENES: dict[str, Callable[[np.random.Generator], Tables]] = {
    "near-copies": lambda rng: (_trait(200, 5, rng), _trait(200, 5, np.random.default_rng(1))),
    "one-hot families": lambda rng: (_one_hot(200, 4, rng), _one_hot(200, 10, rng)),
    "pools": lambda rng: (encoded(flag(400, 80, rng)[None]), _questions(400, 60, 20, rng)),
    "groups of 20": lambda rng: (encoded(flag(400, 200, rng)[None]), _one_hot(400, 20, rng)),
    "nested flags": lambda rng: (untied(2, 200, rng), _nested(200, range(4, 14))),
    "one trait behind 50 columns": lambda rng: (_trait(200, 5, rng), _trait(200, 50, rng)),
    "wide tables": lambda rng: (untied(40, 40, rng), untied(39, 40, rng)),
    "flags adjusted for age": lambda rng: (_residuals(4, 200, rng), _residuals(10, 200, rng)),
    "one row against all others": lambda rng: (encoded(np.eye(100)[:3]), encoded(np.eye(100)[:3])),
}
OF = {"coefficients": coefficients_of, "strengths": strengths_of}


def _tables_of(scene: str) -> Tables:
    return SCENES[scene](np.random.default_rng(7))


def _right(exchange: Exchange, attack: Callable[[Floats], np.ndarray], copies: int = COPIES) -> int:
    """How many guesses of an attack on published copies are right, at even odds."""
    which = np.random.default_rng(11).integers(0, 2, copies).astype(bool)
    return int((attack(exchange.published(which)) == which).sum())


def _no_more_often_than(right: int, copies: int, bound: float) -> bool:
    return bool(stats.binom.sf(right - 1, copies, bound) > 1e-9)


@pytest.mark.parametrize("grant", OF)
@pytest.mark.parametrize("scene", SCENES)
def test_exchanged_rows_are_guessed_no_more_often_than_the_bound(scene: str, grant: str) -> None:
    x, y = _tables_of(scene)
    exchange = OF[grant](x, y, worst_rows(x, y), LOSS)
    exact = Exchange(exchange.numbers, exchange.noise * 1e-9)
    assert exchange.separation <= separation(LOSS)
    assert _no_more_often_than(_right(exchange, exchange.guesses), COPIES, guess(LOSS))
    if exchange.separation:
        assert _right(exact, exact.guesses, 50) == 50


def test_the_best_attack_nearly_reaches_the_bound() -> None:
    x, y = _tables_of("one row against all others")
    exchange = coefficients_of(x, y, worst_rows(x, y), LOSS)
    assert exchange.separation > 0.4 * separation(LOSS)
    chance = stats.norm.cdf(exchange.separation / 2)
    assert stats.binomtest(_right(exchange, exchange.guesses), COPIES, chance).pvalue > 1e-9


@pytest.mark.parametrize("top", [None, 3], ids=["the order", "the strongest three"])
def test_an_order_tells_no_more_than_the_strengths_that_it_is_of(top: int | None) -> None:
    x, y = _tables_of("groups of 20")
    exchange = strengths_of(x, y, worst_rows(x, y), LOSS)
    exact = Exchange(exchange.numbers, exchange.noise * 1e-3)

    def attack(copies: Floats) -> np.ndarray:
        return exchange.guesses_from_order(copies, top)

    assert _no_more_often_than(_right(exchange, attack), COPIES, guess(LOSS))
    assert _right(exact, lambda copies: exact.guesses_from_order(copies), 200) > 175


def test_runs_add_up_as_the_ledger_says_also_where_they_differ() -> None:
    x, y = _tables_of("one row against all others")
    pair = worst_rows(x, y)
    fewer = coefficients_of(x, y[:2], pair, LOSS)
    runs = [coefficients_of(x, y, pair, LOSS), fewer, strengths_of(x, y, pair, LOSS)]
    for some in (runs[:1] * 2, runs):
        all_runs = together(some)
        assert all_runs.separation <= separation(LOSS * len(some))
        assert _no_more_often_than(_right(all_runs, all_runs.guesses), COPIES, guess(LOSS * len(some)))


# ---- attacks that solve for rows


def _published(x: Ints, y: Ints) -> tuple[Floats, Floats, Floats]:
    """Exact means over x's columns of their coefficients with y, a published copy, and its noise."""
    exact, noise = coefficients(x, y).mean(axis=0), deviations(mean_scales(x), scales(y), LOSS)[0]
    return exact, exact + discrete_gaussian(np.ceil(noise * 2**40).astype(np.int64)) / 2**40, noise


def _marks(n: int, *sets: range) -> np.ndarray:
    return np.array([np.isin(np.arange(n), list(marked)) for marked in sets])


#: An attacker's columns, and rows that they single out together.
ISOLATED = {
    "nested": (_marks(1000, range(4), range(3)), [3]),
    "family": (_marks(178, range(59), range(59, 118), range(118, 177)), [177]),
    "total": (_marks(1000, range(20), range(20, 40), range(39)), [39]),
    "solve": (np.random.default_rng(2).random((39, 40)), list(range(40))),
}


@pytest.mark.parametrize(("columns", "singled_out"), ISOLATED.values(), ids=ISOLATED)
def test_isolated_rows_are_read_from_exact_but_not_published_numbers(
    columns: np.ndarray, singled_out: list[int]
) -> None:
    y, exact_errors, published_errors = encoded(columns), [], []
    for seed in range(50):
        x = untied(1, y.shape[1], np.random.default_rng(seed))
        exact, published, noise = _published(x, y)
        truth = (x[0] / np.sqrt((x[0] ** 2).mean()))[singled_out]
        exact_errors.append(rows.estimate(exact, y)[singled_out] - truth)
        published_errors.append(rows.estimate(published, y, noise)[singled_out] - truth)
    assert np.sqrt(np.square(exact_errors).mean()) < 0.01
    assert np.sqrt(np.square(published_errors).mean()) > 0.6  # one that knows nothing is off by 1


def test_a_rare_flag_is_solved_from_exact_coefficients_alone() -> None:
    rng, ones = np.random.default_rng(1), 12
    marks, y = flag(300, ones, rng), untied(120, 300, rng)
    exact, published, noise = _published(encoded(marks[None]), y)
    assert marks[rows.rare_flag(exact, y, ones)].all()
    assert marks[rows.rare_flag(published, y, ones, float(noise.max()))].mean() < 0.4


@pytest.mark.parametrize("ones", [(100,), (100, 150)], ids=["coefficients", "means of two flags"])
def test_flags_of_asked_people_are_read_from_exact_numbers_only(ones: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    flags = np.array([flag(1000, count, rng) for count in ones])
    y = _questions(1000, 40, 40, rng)
    truth = flags[:, rows.where_columns_lie(y)]
    exact, published, noise = _published(encoded(flags), y)
    assert np.array_equal(rows.pooled_flags(exact, y, ones), truth)
    guessed = rows.pooled_flags(published, y, ones, float(noise.max()))
    assert guessed is None or (guessed == truth)[truth == 1].mean() < 0.7

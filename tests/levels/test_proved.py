"""Noise that needs nothing an owner states, for proved vectors."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.config import load_plan
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.errors import BoundError, PolicyError
from mpc_spearman.levels import proved
from mpc_spearman.levels.shapes import Description, Descriptions
from mpc_spearman.privacy.statements import stated_length
from mpc_spearman.wire.integers import width_of
from support.in_memory import run_in_memory
from support.plans import mapping, plan
from support.references import table

PLAN = plan(reveal="coefficients", proofs=True, cautious=True)


def legal(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    """Vectors that pass a proof: of any elements from −(n − 1) to n − 1, often the ends of that."""
    return np.where(
        rng.random((m, n)) < 0.5, rng.integers(1 - n, n, (m, n)), (n - 1) * rng.choice([-1, 1], (m, n))
    )


@pytest.mark.parametrize("unit", ["row", "value"])
def test_no_exchange_of_rows_moves_results_by_more_than_mu(unit):
    """All pairs of rows of small tables, against any legal vectors of the other side, also the worst."""
    rng, loss, mu = np.random.default_rng(1), 2.0, 2.0
    privacy = {"unit": unit, "loss": loss}
    run_plan = plan(
        reveal="coefficients", proofs=True, cautious=True, privacy=privacy, results={"target": "coefficients"}
    )
    most = 0.0
    for n, m_a, m_b in product((3, 4, 7), (1, 2), (1, 3)):
        sigma = proved.deviation(run_plan, n, m_a, m_b)
        for _ in range(20):
            x, y = legal(rng, m_a, n), legal(rng, m_b, n)
            for i, j in combinations(range(n), 2):
                change = np.outer(x[:, i] - x[:, j], y[:, j] - y[:, i])
                if unit == "value":  # one of A's columns, and all of the receiver's, B's
                    change = change[:1]
                most = max(most, float(np.square(change / sigma).sum()))
    assert 0.5 * mu**2 < most <= mu**2


def descriptions(x: np.ndarray, y: np.ndarray) -> Descriptions:
    def of(vectors: np.ndarray) -> Description:
        ranks = rank_columns(list(vectors))
        lengths = tuple(stated_length(term, ranks.n) for term in ranks.tie_terms)
        return Description(ties=ranks.tie_terms, lengths=lengths)

    return Descriptions((of(x),), of(y))


def test_the_worst_lie_that_proofs_allow_guesses_no_better_than_claimed():
    """B's columns are all ±(n − 1) at two rows, and 0 elsewhere; it states that their scales are small."""
    n, m_b, runs = 30, 40, 400
    x = np.arange(n)[None] * 2 - (n - 1)
    y = np.zeros((m_b, n), dtype=np.int64)
    y[:, 0], y[:, -1] = n - 1, 1 - n
    liar = Descriptions(descriptions(x, x).sources, Description(ties=(0,) * m_b, lengths=(1.0,) * m_b))
    exchanged = x.copy()
    exchanged[:, [0, -1]] = x[:, [-1, 0]]
    norm = n * (n * n - 1) / 3
    means = [float((table @ y.T).sum() / norm) for table in (x, exchanged)]
    right = 0
    for run in range(runs):
        rho, _ = proved.coefficients(PLAN, (x, exchanged)[run % 2] @ y.T, liar, n)
        guess = abs(rho.sum() - means[0]) > abs(rho.sum() - means[1])
        right += guess == run % 2
    bound = stats.norm.cdf(1.0)
    assert stats.binomtest(right, runs, bound, alternative="greater").pvalue > 1e-6
    assert right > 0.7 * runs  # the attack is a good one: without noise it is always right


def test_a_shifted_term_shows_no_bit_of_an_exact_product():
    """A party adds e = 2^(w−1) − s0 to its term: lifted first, the sign of the result would be [S ≥ s0]."""
    n, runs, column = 30, 2000, np.arange(30)[None]
    run_plan = plan(reveal="coefficients", proofs=True, cautious=True, privacy={"loss": 0.001})
    half, described = (
        1 << (8 * width_of(proved.result_bound(run_plan, n, 1, 1)) - 1),
        descriptions(column, column),
    )

    def negative(product: int) -> float:
        shifted = np.array([[product + half - 1001]])  # s0 is 1001
        draws = [proved.coefficients(run_plan, shifted, described, n)[0][0, 0] for _ in range(runs)]
        return float(np.mean(np.array(draws) < 0))

    assert abs(negative(1000) - negative(1001)) < 6 * math.sqrt(0.5 / runs)


def test_noise_is_as_stated_and_never_below_sigma():
    rng = np.random.default_rng(5)
    n = 60
    x = np.stack([rng.permutation(n), np.arange(n) < 6, np.zeros(n)])
    y = np.stack([rng.permutation(n), np.arange(n) % 3])
    ranks = [rank_columns(list(side)).matrix.astype(np.int64) for side in (x, y)]
    described, opened = descriptions(x, y), ranks[0] @ ranks[1].T
    draws, noise = zip(*(proved.coefficients(PLAN, opened, described, n) for _ in range(3000)), strict=True)
    s = noise[0]
    assert np.isnan(draws[0][2]).all()
    assert (s[2] == 0).all()
    np.testing.assert_allclose(np.std(draws, axis=0)[:2], s[:2], rtol=0.08)
    exact = stats.spearmanr(x[0], y[0]).statistic
    assert abs(np.mean(draws, axis=0)[0, 0] - exact) < 6 * s[0, 0] / math.sqrt(3000)


def test_the_noise_that_receivers_are_told_depends_on_whole_tables_alone():
    """Other rows of the run, other tie terms: the same s."""
    n, s = 50, []
    for ones in (5, 20):
        ties = descriptions(np.arange(n)[None] < ones, np.arange(n)[None] < ones).target.ties
        column = Description(ties=ties, lengths=(0.25,))
        opened = np.zeros((1, 1), dtype=np.int64)
        s.append(proved.coefficients(PLAN, opened, Descriptions((column,), column), n)[1])
    assert s[0] == s[1]


@pytest.mark.parametrize("estimator", ["tie_corrected", "paper"])
def test_a_run_with_proofs_gives_coefficients_with_the_noise_it_states(estimator):
    rng = np.random.default_rng(9)
    common = rng.normal(size=1500)
    tables = {
        "A": table(x=common + rng.normal(size=1500), flag=(common > 1).astype(int)),
        "B": table(y=common + rng.normal(size=1500), steps=np.round(2 * common)),
    }
    settings = {
        "cautious": True,
        "estimator": estimator,
        "results": {"target": "coefficients", "sources": "strengths"},
    }
    outcome = run_in_memory(plan(reveal="coefficients", proofs=True, **settings), tables)
    exact, noisy, noise = (
        outcome.result("C").coefficients,
        outcome.result("B").coefficients,
        outcome.result("B").noise,
    )
    assert (abs(exact - noisy) < 7 * noise).to_numpy().all()
    assert (noise < 0.1).to_numpy().all()
    assert outcome.result("A").strengths.notna().all()


# ---- refusals


def test_rows_whose_products_leave_no_room_for_noise_are_refused():
    with pytest.raises(BoundError, match="proofs: products of 2,500,000 rows"):
        proved.result_bound(PLAN, 2_500_000, 50, 50)


def test_a_policy_can_demand_proofs():
    from mpc_spearman.config import check_policy

    content = mapping(cautious=True)
    content["parties"]["target"]["policy"] = {"proofs": True}
    with pytest.raises(PolicyError, match="nobody proves its vectors"):
        check_policy(load_plan(content), "B")
    check_policy(load_plan({**content, "proofs": True}), "B")

from __future__ import annotations

import numpy as np
import pytest

from mpc_spearman.attacks import rows
from mpc_spearman.attacks.simulated import flag
from mpc_spearman.data.ranks import Ranks, rank_columns
from mpc_spearman.errors import DisclosureError
from mpc_spearman.privacy.budget import Published, check_budget
from mpc_spearman.privacy.leverage import highest_leverage, rounded_up
from mpc_spearman.privacy.precision import coefficient_grid

RNG = np.random.default_rng(7)


def untied(n: int, columns: int) -> Ranks:
    return rank_columns(list(RNG.random((columns, n))))


def asked(n: int, questions: int, among: int) -> Ranks:
    """Answers of a few, of whom half say yes."""
    return rank_columns([flag(n, among // 2, RNG, np.arange(among)) for _ in range(questions)])


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "table", [untied(178, 8), asked(1000, 38, 120), untied(99, 33), asked(40_000, 5, 60)]
)
def test_it_is_the_best_linear_estimate_that_the_attack_makes(table: Ranks, exact: bool) -> None:
    grid = None if exact else coefficient_grid(table.n)
    expected = rows.leverage(table.matrix, 0.0 if grid is None else grid.step).max()
    assert highest_leverage(table, grid) == pytest.approx(min(1.0, expected), rel=1e-6)


def test_repeated_and_constant_columns_add_nothing() -> None:
    x = RNG.random(500)
    once = highest_leverage(rank_columns([x]), coefficient_grid(500))
    again = highest_leverage(rank_columns([x, -x, x, np.zeros(500)]), coefficient_grid(500))
    assert again == pytest.approx(once, rel=0.01)
    assert highest_leverage(rank_columns([np.zeros(500)]), None) == 0.0


def test_a_row_of_its_own_has_all_of_it_and_a_flag_its_share() -> None:
    one, ten = (rank_columns([np.arange(1000) < ones]) for ones in (1, 10))
    assert highest_leverage(one, None) == pytest.approx(1.0, abs=1e-6)
    assert highest_leverage(ten, None) == pytest.approx(0.1, abs=0.002)


def told(high: float, equations: int = 38) -> list[Published]:
    return [Published("B", "coefficients", equations, coefficient_grid(1000), leverage=high)]


def test_columns_on_few_rows_weigh_as_much_as_they_tell_about_these() -> None:
    flags = rank_columns([np.arange(1000) % 10 == 0])  # H = 464 bits
    check_budget(flags, ["sick"], "A", 0.5, told(0.07))
    with pytest.raises(
        DisclosureError,
        match=r"A: the ranks of 'sick' hold .* the 38 coefficients that B will have tell up to .* in all as "
        r"they lie on few rows \(leverage 0\.40\), more than",
    ):
        check_budget(flags, ["sick"], "A", 0.5, told(0.4))


def test_a_row_that_a_receiver_singles_out_is_refused_whatever_the_column_holds() -> None:
    ages = untied(1000, 1)
    check_budget(ages, ["age"], "A", 0.5, told(0.49))
    with pytest.raises(
        DisclosureError, match=r"A: the columns of B together single out a row: .* up to 80% of"
    ):
        check_budget(ages, ["age"], "A", 0.5, told(0.8))
    check_budget(ages, ["age"], "A", 1e6, told(0.8))


@pytest.mark.parametrize(("n", "columns"), [(178, 8), (178, 5), (20_190, 6), (1000, 150), (99, 16)])
def test_untied_tables_pass_beside_untied_ones(n: int, columns: int) -> None:
    high = highest_leverage(untied(n, columns), coefficient_grid(n))
    published = [Published("B", "coefficients", columns, coefficient_grid(n), leverage=high)]
    check_budget(untied(n, 3), ["a", "b", "c"], "A", 0.5, published)


def test_what_is_told_of_it_is_no_class_size() -> None:
    """To the last digit the leverage of a flag would be that."""
    n = 1000
    exact = [
        highest_leverage(rank_columns([np.arange(n) < ones]), coefficient_grid(n)) for ones in range(80, 90)
    ]
    assert len(set(exact)) == 10
    assert len({rounded_up(high, n, 1) for high in exact}) <= 2
    assert rounded_up(0.0, 100, 0) == 0.0
    assert rounded_up(1.0, 100, 3) == 1.0


@pytest.mark.parametrize("high", [0.004, 0.01, 0.3, 0.99])
def test_it_is_rounded_up_by_a_fifth_at_most(high: float) -> None:
    told_as = rounded_up(high, 1000, 3)
    assert max(high, 0.003) <= told_as * (1 + 1e-6)
    assert told_as <= min(1.0, max(high, 0.003) * 2**0.25 * (1 + 1e-6))

"""What Paillier is built of: slots in one integer, products of powers, and threads."""

from __future__ import annotations

import threading

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.engines.he.paillier.keys import _spread
from mpc_spearman.engines.he.paillier.multiexp import Digits, power_product
from mpc_spearman.engines.he.paillier.packing import Slots
from mpc_spearman.errors import BoundError

MODULUS = mpz(2**512 - 569)  # of 512 bits; slots do not care that it is a prime


# --- packing


def test_a_slot_that_does_not_fit_is_refused():
    with pytest.raises(BoundError, match="64 bits"):
        Slots.fit(2**63 - 1, 2**63 - 1, 64, packed=False)
    assert Slots.fit(2**63 - 1, 1, 65, packed=True) == Slots(2**63 - 1, 64, 1)


@st.composite
def packed(draw) -> tuple[Slots, np.ndarray, mpz]:
    """A layout, slots often at their bounds, and a modulus it fits."""
    bound = draw(st.integers(1, 2**63 - 1) | st.sampled_from([1, 2**31 - 1, 2**31, 2**62, 2**63 - 1]))
    bits = draw(st.integers(65, 700))
    layout = Slots.fit(bound, 1, bits, packed=draw(st.booleans()))
    value = st.sampled_from([-bound, bound, 0, -1, 1]) | st.integers(-bound, bound)
    values = draw(st.lists(value, min_size=1, max_size=layout.count))
    n = draw(st.integers(2 ** (bits - 1), 2**bits - 1))
    return layout, np.array(values), mpz(n | 1)


@given(packed())
def test_slots_come_back_from_their_residue(case):
    layout, values, n = case
    assert layout.width <= 64
    np.testing.assert_array_equal(layout.decode(layout.encode(values) % n, n, len(values)), values)


@given(packed(), st.data())
def test_slots_add_like_integers_whatever_happens_on_the_way(case, data):
    layout, values, n = case
    factors = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5))
    other = data.draw(st.lists(st.integers(-1, 1), min_size=len(values), max_size=len(values)))
    m = layout.encode(values)
    for factor in factors:
        m = (m + factor * layout.encode(np.array(other))) % n
    m = (m - sum(factors) * layout.encode(np.array(other))) % n
    np.testing.assert_array_equal(layout.decode(m, n, len(values)), values)


@given(st.integers(0, 2**512))
def test_residues_that_hold_no_slots_are_not_read(m):
    n = MODULUS
    layout = Slots.fit(198, 1, 512, packed=True)
    values = layout.decode(m % n, n, 3)
    assert values is None or layout.encode(values) % n == m % n
    assert layout.decode(layout.encode(np.array([1, 2, 3, 4])) % n, n, 3) is None
    assert layout.decode(layout.encode(np.array([1, 2, 3, -4])) % n, n, 3) is None


# --- multi-exponentiation


@given(
    st.lists(st.tuples(st.integers(1, 5928), st.integers(-(2**62), 2**62)), min_size=1, max_size=40),
    st.integers(2, 14),
)
def test_power_product_is_the_product_of_powers(terms, width):
    terms = [(base, y) for base, y in terms if base % 7 and base % 11] or [(2, 3)]
    digits = Digits(width, next(k for k in range(1, 99) if _largest(width, k) >= 2**62))
    y = np.array([y for _, y in terms])
    above, below = power_product([mpz(base) for base, _ in terms], y, digits, mpz(5929))
    expected = 1
    for base, exponent in terms:
        expected = expected * pow(base, exponent, 5929) % 5929
    assert above * pow(below, -1, 5929) % 5929 == expected


def _largest(width: int, count: int) -> int:
    return sum(((1 << (width - 1)) - 1) << (width * j) for j in range(count))


@given(st.integers(1, 2**62), st.integers(1, 5000), st.data())
def test_digits_hold_their_bound_and_sum_to_the_exponent(bound, terms, data):
    digits = Digits.best(bound, terms)
    assert _largest(digits.width, digits.count) >= bound > _largest(digits.width, digits.count - 1)
    y = np.array([*data.draw(st.lists(st.integers(-bound, bound))), bound, -bound])
    rows = digits.of(y)
    half = 1 << (digits.width - 1)
    assert rows.min() >= -half
    assert rows.max() < half
    weights = [1 << (digits.width * k) for k in range(digits.count)]
    np.testing.assert_array_equal((rows.astype(object).T * weights).sum(axis=1), y)


# --- threads


def test_results_keep_their_order_and_threads_let_go_of_the_lock():
    caller = gmpy2.get_context().allow_release_gil

    def work(item: int) -> tuple[int, bool, int]:
        return item, gmpy2.get_context().allow_release_gil, threading.get_ident()

    results = _spread(work, range(50), 4)
    assert [item for item, _, _ in results] == list(range(50))
    assert all(released for _, released, _ in results)
    assert threading.get_ident() not in {thread for _, _, thread in results}
    assert gmpy2.get_context().allow_release_gil == caller
    assert {thread for _, _, thread in _spread(work, range(50), 1)} == {threading.get_ident()}

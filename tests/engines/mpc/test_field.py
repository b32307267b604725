"""Arithmetic modulo 2^61 − 1 against Python's integers."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.engines.mpc import field
from mpc_spearman.engines.mpc.field import PRIME
from mpc_spearman.wire.keys import Stream

EDGES = [0, 1, 2, (1 << 30) - 1, 1 << 30, (1 << 31) - 1, 1 << 31, 1 << 60, PRIME - 2, PRIME - 1]
elements = st.one_of(st.sampled_from(EDGES), st.integers(0, PRIME - 1))
vectors = st.integers(1, 40).flatmap(
    lambda k: st.tuples(*(st.lists(elements, min_size=k, max_size=k) for _ in range(2)))
)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(vectors, elements)
def test_arithmetic_equals_python_integers(pair, r):
    a, b = pair
    x, y, half = array(a), array(b), (len(a) + 1) // 2
    a_high, b_high = ([*side[half:], 0][:half] for side in (a, b))
    rises = [((u - t) * (w - v)) for t, u, v, w in zip(a[:half], a_high, b[:half], b_high, strict=True)]
    assert field.plus(x, y).tolist() == [(s + t) % PRIME for s, t in zip(a, b, strict=True)]
    assert field.minus(x, y).tolist() == [(s - t) % PRIME for s, t in zip(a, b, strict=True)]
    assert field.times(x, y).tolist() == [s * t % PRIME for s, t in zip(a, b, strict=True)]
    assert field.times(x, r).tolist() == [s * r % PRIME for s in a]
    assert field.total(x) == sum(a) % PRIME
    assert field.dot(x, y) == sum(s * t for s, t in zip(a, b, strict=True)) % PRIME
    of_low = sum(s * t for s, t in zip(a[:half], b[:half], strict=True))
    assert field.ends_of_round(x, y) == (of_low % PRIME, sum(rises) % PRIME)
    folded = [(s + r * (t - s)) % PRIME for s, t in zip(a[:half], a_high, strict=True)]
    assert field.fold(x.copy(), r).tolist() == folded


def test_blocks_of_long_vectors_join():
    x, y = (field.drawn(Stream(secrets.token_bytes(32)), 10_001) for _ in range(2))
    assert field.dot(x, y) == sum(int(s) * int(t) for s, t in zip(x, y, strict=True)) % PRIME
    assert field.times(field.inverses(x[x > 0]), x[x > 0]).tolist() == [1] * int((x > 0).sum())
    assert field.valid(x)


@pytest.mark.parametrize("beyond", [-1, PRIME, 2**63 - 1, -(2**63)])
def test_integers_outside_the_field_are_noticed(beyond):
    assert not field.valid(array([0, beyond]))
    assert field.valid(array([0, PRIME - 1]))
    assert field.valid(array([]))


def test_signed_integers_become_elements():
    assert field.element(array([-1, 0, 5, 1 - PRIME])).tolist() == [PRIME - 1, 0, 5, 1]


def test_a_draw_of_the_prime_is_drawn_again():
    draws = [array([PRIME, 5, -1]), array([PRIME, 7]), array([9])]

    class Fixed:
        def ring(self, shape):
            (k,) = shape
            words = draws.pop(0)
            assert len(words) == k
            return words

    assert field.drawn(Fixed(), 3).tolist() == [9, 5, 7]  # −1 has all 61 low bits set, as p has

"""Words in fewer bytes: against Python's own integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.wire.integers import bytes_to_ring, bytes_to_words, nearest, width_of, words_to_bytes

widths = st.integers(1, 8)
int64 = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


@given(int64, widths)
def test_the_lowest_bytes_of_each_word_are_written_in_order(words: list[int], width: int) -> None:
    raw = words_to_bytes(np.array(words, dtype=np.int64), width)
    assert raw == b"".join((word % 2**64).to_bytes(8, "little")[:width] for word in words)
    assert bytes_to_words(raw, width).tolist() == [word % 2 ** (8 * width) for word in words]


@given(int64, widths)
def test_a_residue_is_read_as_the_integer_nearest_to_0(words: list[int], width: int) -> None:
    ring, half = 2 ** (8 * width), 2 ** (8 * width - 1)
    expected = [(word + half) % ring - half for word in words]
    given_words = np.array(words, dtype=np.int64)
    assert bytes_to_ring(words_to_bytes(given_words, width), width).tolist() == expected
    assert nearest(given_words, width).tolist() == expected


@given(st.integers(0, 2**63 - 1))
def test_the_width_of_a_bound_is_the_least_for_both_signs(bound: int) -> None:
    width = width_of(bound)
    assert bound < 2 ** (8 * width - 1)
    assert width == 1 or bound >= 2 ** (8 * width - 9)
    extremes = np.array([bound, -bound])
    assert bytes_to_ring(words_to_bytes(extremes, width), width).tolist() == extremes.tolist()


@pytest.mark.parametrize("width", range(1, 9))
def test_rows_of_a_matrix_that_is_not_contiguous_are_written_in_order(width: int) -> None:
    matrix = np.arange(-60, 60).reshape(12, 10)[::2, 1::3]
    assert words_to_bytes(matrix, width) == words_to_bytes(matrix.copy(), width)
    assert bytes_to_ring(words_to_bytes(matrix, width), width).tolist() == matrix.ravel().tolist()

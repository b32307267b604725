"""Products modulo 2^64 against Python integers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mpc_spearman.data.ranks import MAX_ROWS, total
from mpc_spearman.engines import ring
from support.harness import ROOT

LOW, HIGH = -(2**63), 2**63 - 1
#: Ends of the ring, and around the ends of the limbs into which elements are split.
EXTREMES = sorted(
    {LOW, LOW + 1, HIGH, HIGH - 1, 0, 1, -1}
    | {sign * (2**bit + step) for bit in (21, 22, 43, 44, 62) for step in (-1, 0, 1) for sign in (1, -1)}
)
elements = st.one_of(st.sampled_from(EXTREMES), st.integers(LOW, HIGH))


@pytest.fixture(scope="module", params=[True, False], ids=["integers", "limbs"])
def matmul(request):
    """Return the product in either way, whatever this machine's processor is."""
    importlib.import_module("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring, "_vectorised", lambda: request.param)
        yield ring.matmul


def exact(x: np.ndarray, y: np.ndarray) -> list[list[int]]:
    """X · Yᵀ in Python integers, brought to −2^63 … 2^63 − 1."""
    rows, columns = x.tolist(), y.tolist()
    return [
        [(sum(a * b for a, b in zip(p, q, strict=True)) - LOW) % 2**64 + LOW for q in columns] for p in rows
    ]


@st.composite
def factors(draw, entries=elements):
    a, b, n = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 9))
    x = draw(hnp.arrays(np.int64, (a, n), elements=entries))
    return x, draw(hnp.arrays(np.int64, (b, n), elements=elements))


@given(factors())
def test_any_elements(matmul, xy):
    assert matmul(*xy).tolist() == exact(*xy)


@given(st.data(), st.sampled_from([0, 1, 5, 1000, 2**20, 2**21, 2**22 - 1, 2**22, 2**40, 2**42 - 1, 2**42]))
def test_small_times_any(matmul, data, bound):
    x, y = data.draw(factors(st.integers(-bound, bound) | st.sampled_from([-bound, bound])))
    assert matmul(x, y, bound).tolist() == exact(x, y)


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("rows", [1, 2047, 2048, 2049, 5000])
def test_equal_extremes_add_up_over_every_block(matmul, value, rows):
    x, y = np.full((1, rows), value), np.array([[factor] * rows for factor in EXTREMES])
    expected = [(rows * value * factor - LOW) % 2**64 + LOW for factor in EXTREMES]
    assert matmul(x, y)[0].tolist() == expected
    if abs(value) < 2**22:
        assert matmul(x, y, max(1, abs(value)))[0].tolist() == expected


def test_a_product_as_under_he_brings_no_pytorch_into_the_process():
    """It would be there twice as long as all else, and in the memory that is measured."""
    code = (
        "import sys, numpy as np; from mpc_spearman.engines.ring import matmul; x = np.array([[3, -5]]);"
        "assert matmul(x, x, 5).tolist() == [[34]]; sys.exit('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_ranks_of_32_bits_at_the_ends_of_their_type(matmul):
    x = np.array([[2**31 - 1, -(2**31), -(2**31) + 1, 2**31 - 1]], dtype=np.int32)
    y = np.array([[HIGH, LOW, LOW + 1, HIGH - 1], [1, -1, 2**44, -(2**22)]])
    assert matmul(x, y).tolist() == matmul(x, y, 2**31).tolist() == exact(x, y)


def test_a_bound_below_the_values_is_an_error():
    x = np.array([[3, -5]])
    assert ring._in_limbs(x, x, 5).tolist() == [[34]]
    for wrong in (x, -x):
        with pytest.raises(ValueError, match="beyond the stated bound 4"):
            ring._in_limbs(wrong, x, 4)


# ---- sorted columns at the largest number of rows: the largest partial sums there are ----


def test_sorted_columns_of_the_largest_size(matmul):
    x, n = np.arange(1 - MAX_ROWS, MAX_ROWS, 2, dtype=np.int64)[None, :], MAX_ROWS
    assert 2**62 < total(n) < 2**63
    assert matmul(x, x, n - 1).tolist() == [[total(n)]]
    assert matmul(x, x[:, ::-1], n - 1).tolist() == [[-total(n)]]
    # masked so that all limbs are large and of one sign: partial sums do not cancel
    limbs = np.where(x < 0, -1, 1) * (2**21 - 1)
    y = limbs + (limbs << 22) + (limbs >> 3 << 44)
    # y is one element in the lower half and its near negative in the upper: sums of x are known
    upper, lower = int(y[0, -1]), int(y[0, 0])
    assert set(np.unique(y).tolist()) == {upper, lower}
    product = int(x[x > 0].sum()) * (upper - lower)
    assert matmul(x, y, n - 1).tolist() == [[(product - LOW) % 2**64 + LOW]]

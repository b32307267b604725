"""Fast exact matrix products modulo 2^64: in integers if the processor has AVX-512, else in limbs.

With AVX-512, PyTorch multiplies int64 matrices in vectors (FBGEMM's ``cblas_gemm_i64_i64acc``), wrap-around
and all. Without, it takes them one by one, and float64 BLAS is many times as fast, exact as long as no
partial sum exceeds 2^53. So there ring elements are split into three balanced limbs of 22 bits,

    a = a0 + a1·2^22 + a2·2^44 (mod 2^64),   |a0|, |a1| ≤ 2^21,  |a2| ≤ 2^20 + 1,

the limbs are multiplied as float64, and the products that weigh less than 2^64 are added up in int64,
where wrap-around is the arithmetic wanted.
"""

from __future__ import annotations

import sys

import numpy as np

from mpc_spearman.arrays import blocks

_LIMB = 22
_HALF = 1 << (_LIMB - 1)
_MASK = (1 << _LIMB) - 1
_EXACT = 1 << 53
_ROWS = 2048


def matmul(x: np.ndarray, y: np.ndarray, bound: int = 1 << 63) -> np.ndarray:
    """Multiply x · yᵀ modulo 2^64: int32 or int64 (a, rows) and int64 (b, rows) give int64 (a, b).

    `bound` is the largest absolute value in `x`, where that is known to be small, such as n − 1 for centred
    doubled ranks. A product of limbs is right only if it holds, so there it is checked.
    """
    return _in_integers(x, y) if _vectorised() else _in_limbs(x, y, bound)


def _in_limbs(x: np.ndarray, y: np.ndarray, bound: int = 1 << 63) -> np.ndarray:
    """Multiply as float64.

    Where `bound` is below 2^22 x is one limb, where it is below 2^42 two. With |x| ≤ X per limb of x, every
    partial sum is at most rows·X·2^21 in size, so products are taken in blocks of rows ≤ 2^53 / (X·2^21),
    and of 2048 at most, since longer ones do not fit caches.
    """
    count = 3 if bound >> 42 else 2 if bound >> _LIMB else 1
    if count < 3 and max(int(x.max(initial=0)), -int(x.min(initial=0))) > bound:
        raise ValueError(f"an entry of x is beyond the stated bound {bound}")
    per_limb = max(1, bound) if count == 1 else _HALF
    a, b = len(x), len(y)
    total = np.zeros((a, b), dtype=np.int64)
    for rows in blocks(x.shape[1], min(_ROWS, _EXACT // (per_limb * _HALF))):
        x_limbs, y_limbs = _limbs(x[:, rows], count), _limbs(y[:, rows], 3)
        for i in range(count):
            # one product with all limbs of y that weigh less than 2^64 together with this limb of x
            products = (x_limbs[i * a : (i + 1) * a] @ y_limbs[: (3 - i) * b].T).astype(np.int64)
            for j in range(3 - i):
                total += products[:, j * b : (j + 1) * b] << (_LIMB * (i + j))
    return total


def _vectorised() -> bool:
    """Return whether PyTorch is there, as under MPC, and multiplies int64 matrices in vectors here."""
    torch = sys.modules.get("torch")  # roles under HE do without it
    return (
        torch is not None
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and "fbgemm" in torch.backends.quantized.supported_engines
    )


def _in_integers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    import torch

    x_tensor, y_tensor = (torch.from_numpy(np.require(factor, np.int64, ("C", "W"))) for factor in (x, y))
    return (x_tensor @ y_tensor.T).numpy()


def _limbs(values: np.ndarray, count: int) -> np.ndarray:
    """Split integers (m, rows) into balanced limbs, float64 (count·m, rows), all of the lowest first."""
    m, rows = values.shape
    limbs = np.empty((count, m, rows))
    upper = values.astype(np.int64)
    for limb in limbs[:-1]:
        low = ((upper + _HALF) & _MASK) - _HALF
        limb[:] = low
        # upper - low may wrap at the ends of the ring; what is lost weighs 2^64 or more
        upper -= low
        upper >>= _LIMB
    limbs[-1] = upper
    return limbs.reshape(count * m, rows)

"""A BFV ciphertext in memory, and the checks of ciphertexts and integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.engines.he.scheme import Ciphertext
from mpc_spearman.errors import BoundError


class BfvCiphertext(Ciphertext):
    """A fresh ciphertext, or the difference of two.

    Integers to be encrypted in slots stay a plaintext until they leave: as they are, to the target; with the
    fresh Enc(0) that goes to the coordinator in any case, where they then cost no encryption of their own.

    `plain` is what is still to be encrypted, where there is no ciphertext `seal` yet, `minus` what is still
    to be subtracted, once there is fresh randomness to subtract it from. `index` is that of the plaintext
    modulus, and `own` says that it is a fresh encryption of this process's own.
    """

    __slots__ = ("index", "minus", "own", "plain", "seal")

    def __init__(
        self,
        seal: Any,
        index: int = 0,
        *,
        plain: Any = None,
        minus: BfvCiphertext | None = None,
        own: bool = False,
    ) -> None:
        self.seal, self.plain, self.minus, self.index, self.own = seal, plain, minus, index, own


def check(values: NDArray[np.int64], bound: int, what: str) -> None:
    """Refuse integers beyond a bound, without showing any of them."""
    if values.dtype != np.int64:
        raise TypeError("int64 expected")
    if int(values.max()) > bound or int(values.min()) < -bound:
        raise BoundError(f"{what} is beyond the agreed bound")


def own_ciphertext(ciphertext: Ciphertext) -> BfvCiphertext:
    """Return a ciphertext if it is this scheme's."""
    if not isinstance(ciphertext, BfvCiphertext):
        raise TypeError("a ciphertext of another scheme")
    return ciphertext

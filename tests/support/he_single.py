"""One ciphertext at a time, of schemes that take sequences of them."""

from __future__ import annotations

import numpy as np

from mpc_spearman.engines.he.scheme import Ciphertext, PublicKey, SecretKey


def encrypt(key: PublicKey, values: np.ndarray) -> Ciphertext:
    return key.encrypt([values])[0]


def subtract(key: PublicKey, a: Ciphertext, b: Ciphertext) -> Ciphertext:
    return key.subtract([a], [b])[0]


def export(key: PublicKey, a: Ciphertext, *, rerandomise: bool = True) -> bytes:
    return key.export([a], rerandomise=rerandomise)[0]


def load(key: PublicKey, raw: bytes) -> Ciphertext:
    return key.load([raw])[0]


def decrypt(key: SecretKey, raw: bytes, count: int) -> np.ndarray:
    return key.decrypt([raw], [count])[0]

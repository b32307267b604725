"""SEAL under one plaintext modulus, with access to the coefficients, which SEAL itself does not give.

SEAL reads and writes its objects as compressed files only. Here they go through anonymous memory
(``memfd_create``: no name in any file system, gone when closed), never through a disk, and the wire never
sees SEAL's format: a ciphertext travels as its bare coefficients, each in as many bytes as its prime
has, so its length is fixed. SEAL only loads streams that this module writes around coefficients it has
checked: uncompressed, without a seed, of the size and level that are due. A peer chooses nothing in such a
stream but coefficients below their prime.

Where SEAL's randomness comes from: every key pair and every encryption makes a generator of its own
(Blake2xb) and seeds it with 64 bytes from ``/dev/urandom``, through ``std::random_device("/dev/urandom")``
in SEAL's ``randomgen.cpp``; nothing is kept between two encryptions, so a forked process does not
repeat its parent's randomness. (Read in the source, and seen in a trace of system calls.)
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from tenseal import sealapi as sealapi

from mpc_spearman.engines.he.bfv.parameters import Parameters
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.wire.integers import bytes_to_words, words_to_bytes
from mpc_spearman.wire.keys import Stream

#: Coefficients of a ciphertext's two polynomials, one row per prime: uint64 (2, primes, N).
Coefficients = NDArray[np.uint64]

# SEAL's stream: magic number, header's size, version, compression, reserved, the stream's size.
_HEADER = struct.Struct("<HBBBBHQ")
# A ciphertext: level, in transformed form?, polynomials, N, primes, scale, correction factor; then an array.
_CIPHERTEXT = struct.Struct("<4Q?QQQdQ")
# A plaintext: level (zero unless transformed), coefficients, scale; then an array.
_PLAINTEXT = struct.Struct("<32sQd")
_COUNT = struct.Struct("<Q")
_STORED = 0

_LIMB = 48  # bits of a long integer that are reduced at a time


class Ring:
    """SEAL's context for one plaintext modulus, `plain`, and its operations.

    `first` and `kept` are SEAL's names of two levels: of ciphertexts that source and target work with, and of
    those for the coordinator. A ciphertext's bytes begin with the `index` of its plaintext modulus.
    """

    def __init__(self, parameters: Parameters, index: int) -> None:
        plain, self.index = parameters.plain[index], index
        self._moduli = moduli = (*parameters.data, parameters.special)  # of each level the first ones
        chosen = sealapi.EncryptionParameters(sealapi.SCHEME_TYPE.BFV)
        chosen.set_poly_modulus_degree(parameters.layout.degree)
        chosen.set_coeff_modulus([sealapi.Modulus(prime) for prime in moduli])
        chosen.set_plain_modulus(sealapi.Modulus(plain))
        self.context = sealapi.SEALContext(chosen, True, sealapi.SEC_LEVEL_TYPE.TC128)
        self.plain, self.degree = plain, parameters.layout.degree
        self.evaluator = sealapi.Evaluator(self.context)
        self.first = self.context.first_parms_id()
        level = self.context.first_context_data()
        for _ in parameters.dropped:
            level = level.next_context_data()
        self.kept = level.parms_id()

    def generate(self) -> tuple[Any, Coefficients]:
        """Make a key pair; return its decryptor and the public key's coefficients. SEAL keeps the secret."""
        generator, public = sealapi.KeyGenerator(self.context), sealapi.PublicKey()
        generator.create_public_key(public)
        return sealapi.Decryptor(self.context, generator.secret_key()), self.read(public.data())

    def encryptor(self, public: Coefficients) -> Any:
        """Return SEAL's encryptor under a public key."""
        key = sealapi.PublicKey()
        head = self._ciphertext_head(public, self.context.key_parms_id(), transformed=True)
        self._load(key, head, public)
        return sealapi.Encryptor(self.context, key)

    def read(self, ciphertext: Any) -> Coefficients:
        """Return the coefficients of a ciphertext, or of its transformed form."""
        shape = (2, ciphertext.coeff_modulus_size(), self.degree)
        before = _CIPHERTEXT.size + _HEADER.size + _COUNT.size
        with open(os.memfd_create("seal"), "rb") as file:
            ciphertext.save(f"/proc/self/fd/{file.fileno()}")
            stream = memoryview(file.read())
        body = pyarrow.decompress(stream[_HEADER.size :], before + 8 * prod(shape), "zstd")
        return np.frombuffer(body, dtype="<u8", offset=before).reshape(shape)

    def write(self, coefficients: Coefficients, level: Sequence[int]) -> Any:
        """Return the ciphertext with these coefficients, which are below their primes."""
        ciphertext = sealapi.Ciphertext()
        self._load(ciphertext, self._ciphertext_head(coefficients, level, transformed=False), coefficients)
        return ciphertext

    def to_bytes(self, ciphertext: Any) -> bytes:
        """Return a ciphertext as it travels."""
        return bytes([self.index]) + pack(self.read(ciphertext), self._moduli)

    def from_bytes(self, raw: bytes, level: Sequence[int]) -> Any:
        """Return a ciphertext from the wire; `ProtocolViolation` if it is invalid or hides nothing."""
        if raw[0] != self.index:
            raise ProtocolViolation("a BFV ciphertext is under another plaintext modulus")
        coefficients = unpack(raw[1:], self._moduli, self.degree)
        if not coefficients[1].any():
            raise ProtocolViolation("a BFV ciphertext that hides nothing")
        return self.write(coefficients, level)

    def plaintext(self, values: NDArray[np.int64], start: int = 0) -> Any:
        """Return the polynomial with these coefficients, mod t, from z^start on, and 0 elsewhere."""
        reduced = np.zeros(self.degree, dtype="<u8")
        reduced[start : start + len(values)] = np.mod(values, self.plain)
        plaintext = sealapi.Plaintext()
        self._load(plaintext, _PLAINTEXT.pack(bytes(32), self.degree, 1.0), reduced)
        return plaintext

    def _ciphertext_head(self, data: Coefficients, level: Sequence[int], *, transformed: bool) -> bytes:
        return _CIPHERTEXT.pack(*level, transformed, 2, self.degree, data.shape[1], 1.0, 1)

    def _load(self, target: Any, head: bytes, values: NDArray[np.uint64]) -> None:
        """Have SEAL load an object from its stream: a head, and an array, which is an inner stream."""
        array = _header(_COUNT.size + values.nbytes) + _COUNT.pack(values.size)
        with open(os.memfd_create("seal"), "wb") as file:
            file.write(_header(len(head) + len(array) + values.nbytes) + head + array)
            file.write(np.ascontiguousarray(values, dtype="<u8").data)
            file.flush()
            target.load(self.context, f"/proc/self/fd/{file.fileno()}")


def pack(coefficients: Coefficients, moduli: Sequence[int]) -> bytes:
    """Return coefficients modulo the first of these primes as bytes for the wire, prime by prime.

    They are little-endian, each as long as its prime.
    """
    primes = moduli[: coefficients.shape[1]]
    return b"".join(words_to_bytes(coefficients[:, i], _width(prime)) for i, prime in enumerate(primes))


def unpack(raw: bytes, moduli: Sequence[int], degree: int) -> Coefficients:
    """Return the coefficients that :func:`pack` wrote; `ProtocolViolation` if one is not below its prime."""
    residues, start = [], 0
    for prime in moduli:
        if start == len(raw):
            break
        end = start + 2 * degree * _width(prime)
        residues.append(bytes_to_words(raw[start:end], _width(prime)).reshape(2, degree))
        start = end
        if (residues[-1] >= prime).any():
            raise ProtocolViolation("a BFV coefficient is not below its modulus")
    return np.stack(residues, axis=1)


def packed_bytes(primes: Sequence[int], degree: int) -> int:
    """Return the length of the bytes that :func:`pack` returns."""
    return 2 * degree * sum(map(_width, primes))


def uniform(stream: Stream, count: int, bound: int) -> NDArray[np.int64]:
    """Draw independent integers uniform on [0, bound), bound < 2^63, by rejection."""
    integers = np.empty(0, dtype=np.uint64)
    while len(integers) < count:
        # at least half of them are below the bound
        candidates = stream.ring((2 * count,)).view(np.uint64) >> (64 - (bound - 1).bit_length())
        integers = np.concatenate([integers, candidates[candidates < bound]])
    return integers[:count].astype(np.int64)


def flood(stream: Stream, degree: int, bits: int, primes: Sequence[int]) -> Coefficients:
    """Draw a flooding polynomial: N independent integers uniform on [-2^bits, 2^bits), modulo each prime."""
    count = -(-(bits + 1) // _LIMB)
    limbs = stream.ring((count, degree)).view(np.uint64) >> (64 - _LIMB)
    limbs[0] >>= count * _LIMB - (bits + 1)
    reduced = np.zeros((len(primes), degree), dtype=np.uint64)
    for value, prime in zip(reduced, primes, strict=True):
        for limb in limbs:
            value[:] = _shifted(value, limb, prime)
        value += prime - pow(2, bits, prime)
        np.subtract(value, prime, out=value, where=value >= prime)
    return reduced


def _shifted(value: NDArray[np.uint64], limb: NDArray[np.uint64], prime: int) -> NDArray[np.uint64]:
    """Return (value 2^48 + limb) mod prime, for value < prime < 2^60 and limb < 2^48.

    The quotient is below 2^48, so float64 has it to within 2^-3 and its floor is off by at most one; what
    remains, within [-prime, 2 prime + 2^48], is computed modulo 2^64.
    """
    quotient = (value.astype(np.float64) * (2.0**_LIMB / prime)).astype(np.uint64)
    modulus = np.uint64(prime)
    return ((value << np.uint64(_LIMB)) + limb - quotient * modulus + modulus) % modulus


def _width(prime: int) -> int:
    return (prime.bit_length() + 7) // 8


def _header(body: int) -> bytes:
    header = sealapi.Serialization.SEALHeader()
    version = (header.version_major, header.version_minor)
    return _HEADER.pack(header.magic, header.header_size, *version, _STORED, 0, _HEADER.size + body)

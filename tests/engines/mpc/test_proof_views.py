"""What each party receives of proofs: read from the wire's bytes, and from keys derived again."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import islice

import numpy as np
import pytest

from mpc_spearman.arrays import blocks
from support.recording import FEATURES, SMALL_BLOCKS, TABLES, N, Recorded, encoded
from support.transcript import Keystream
from support.uniform import signs_of_pattern

pytestmark = pytest.mark.xdist_group("recordings")

PRIME = 2**61 - 1
X = {"A": encoded(TABLES["A"]), "B": encoded(TABLES["B"])}
of_each_owner = pytest.mark.parametrize(("owner", "verifier"), ["AB", "BA"])


@cache
def proved() -> Recorded:
    return Recorded(TABLES, reveal="coefficients", proofs=True, block_bytes=SMALL_BLOCKS)


def words(receiver: str, sender: str, kind: str) -> list[np.ndarray]:
    return [np.frombuffer(raw, "<i8") for raw in proved().transcript.payloads(receiver, sender, kind)]


def second_shares(stream: Keystream, count: int) -> list[int]:
    """Return the coordinator's shares: 61 bits of each word. That one is p has a chance of 2^-61."""
    return [int(word) & PRIME for word in stream.ring(count)]


@of_each_owner
def test_the_first_verifier_receives_uniform_elements(owner, verifier):
    received = np.concatenate(words(verifier, owner, "PROOF_SHARES"))
    assert len(received) > 2 * X[owner].size
    assert received.min() >= 0
    assert received.max() < PRIME
    assert signs_of_pattern(received, 7) == []
    assert signs_of_pattern(received >> 5, 7) == []


@of_each_owner
def test_the_shares_add_up_to_what_the_owner_proves(owner, verifier):
    """Elements, multiplicities, mask, inverses and bits, from both verifiers' shares."""
    values, n = X[owner], N
    m = len(values)
    messages = words(verifier, owner, "PROOF_SHARES")
    stream = proved().transcript.stream((owner, "C"), "proof")
    first = np.concatenate(messages).tolist()
    sums = ((a + b) % PRIME for a, b in zip(first, second_shares(stream, len(first)), strict=True))
    elements = [*islice(sums, m * n)]
    step = SMALL_BLOCKS // (8 * max(map(len, FEATURES.values())))
    in_order = np.concatenate([values[:, rows].ravel() for rows in blocks(n, step)])
    assert elements == [int(value) % PRIME for value in in_order]
    counts = np.bincount(values.ravel() + n - 1, minlength=2 * n - 1)
    assert [*islice(sums, 2 * n - 1)] == counts.tolist()
    alpha, beta, gamma = islice(sums, 3)
    assert gamma == alpha * beta % PRIME
    tau = int(words(owner, verifier, "PROOF_COINS")[0][0])
    assert all(h * (tau - x) % PRIME == 1 for h, x in zip(islice(sums, m * n), elements, strict=True))
    assert {*islice(sums, 48 * m)} <= {0, 1}
    assert len([*sums]) == 2 * (m * n + 48 * m).bit_length()  # of all rounds


@of_each_owner
def test_coins_come_from_a_key_that_the_owner_does_not_have(owner, verifier):
    sent = np.concatenate(words(owner, verifier, "PROOF_COINS"))
    stream = proved().transcript.stream((verifier, "C"), "coins")
    drawn = stream.ring(len(sent))
    seeds = slice(1, 9)  # after τ two seeds of 4 words, then one coin for each round
    assert sent[seeds].tolist() == drawn[seeds].tolist()
    assert np.delete(sent, seeds).tolist() == (np.delete(drawn, seeds) & PRIME).tolist()


@of_each_owner
def test_the_coordinator_receives_a_hash_and_four_numbers(owner, verifier):
    transcript = proved().transcript
    (digest,) = transcript.payloads("C", owner, "PROOF_HASH")
    coins = b"".join(transcript.payloads(owner, verifier, "PROOF_COINS"))
    assert digest == hashlib.sha256(coins).digest()
    (last,) = words("C", verifier, "PROOF_END")
    assert len(last) == 4
    assert 0 <= last.min() <= last.max() < PRIME

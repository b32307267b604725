"""Keys and streams against their standards, implemented again with other primitives."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role
from mpc_spearman.wire.keys import PairKey, Purpose, Stream, list_hash
from support import transcript
from support.transcript import Keystream, hkdf, subkey

A = Party("A", Role.SOURCE, 2)
B = Party("B", Role.TARGET, 1)
A_PRIVATE, B_PRIVATE = bytes(range(32)), bytes(range(100, 132))
RUN, PLAN = b"r" * 16, hashlib.sha256(b"plan").digest()


def private(raw: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(raw)


def public(raw: bytes) -> bytes:
    return private(raw).public_key().public_bytes_raw()


#: What the two agree on, and the ends of their key.
SECRET = private(A_PRIVATE).exchange(X25519PublicKey.from_public_bytes(public(B_PRIVATE)))
ENDS = [(2, "A", public(A_PRIVATE)), (1, "B", public(B_PRIVATE))]


def pair(me=A, peer=B, my_key=A_PRIVATE, peers_key=B_PRIVATE, run=RUN, plan=PLAN) -> PairKey:
    return PairKey(private(my_key), public(peers_key), me, peer, run, plan)


# ---- the reimplementation itself, against published vectors ----


def test_the_reimplemented_hkdf_agrees_with_the_rfc():
    # RFC 5869, appendix A.3, without its info: the first 32 bytes of the output
    expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert hkdf(b"\x0b" * 22, b"").hex() == expected


# ---- pairwise keys ----


@pytest.mark.parametrize("purpose", list(Purpose))
def test_subkeys_are_hkdf_of_x25519_bound_to_run_plan_and_parties(purpose):
    expected = subkey(SECRET, purpose.value, "A1", run=RUN, plan=PLAN, ends=ENDS)
    assert pair().subkey(purpose, "A1") == expected
    assert pair(B, A, B_PRIVATE, A_PRIVATE).subkey(purpose, "A1") == expected


def test_every_difference_gives_another_key():
    another_key = bytes(range(50, 82))
    pairs = {
        "as it is": pair(),
        "run": pair(run=b"s" * 16),
        "plan": pair(plan=hashlib.sha256(b"another").digest()),
        "my name": pair(me=Party("A2", Role.SOURCE, 2)),
        "peer's name": pair(peer=Party("B2", Role.TARGET, 1)),
        "my rank": pair(me=Party("A", Role.SOURCE, 3)),
        "peer's rank": pair(peer=Party("B", Role.TARGET, 0)),
        "my key": pair(my_key=another_key),
        "peer's key": pair(peers_key=another_key),
        # names that a plain concatenation would confuse
        "names cut elsewhere": pair(Party("AB", Role.SOURCE, 2), Party("", Role.TARGET, 1)),
        "names exchanged": pair(Party("B", Role.SOURCE, 2), Party("A", Role.TARGET, 1)),
    }
    subkeys = [
        key.subkey(purpose, session)
        for key in pairs.values()
        for purpose in Purpose
        for session in ("A", "B", "")
    ]
    assert {len(key) for key in subkeys} == {32}
    assert len({*subkeys}) == len(subkeys) == len(pairs) * len(Purpose) * 3


@given(st.lists(st.binary(max_size=5), max_size=4), st.lists(st.binary(max_size=5), max_size=4))
def test_different_lists_have_different_hashes(first, second):
    assert (list_hash(*first) == list_hash(*second)) == (first == second)
    assert list_hash(*first) == transcript.joined(*first)


def test_a_subkey_is_issued_once():
    key = pair()
    first = key.subkey(Purpose.MASK, "A")
    assert key.subkey(Purpose.MASK, "A2") != first
    assert key.subkey(Purpose.ZERO, "A") != first
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"mask key of session 'A' is already in use"):
            key.subkey(Purpose.MASK, "A")


def test_a_confirmation_depends_on_its_direction_and_both_hellos():
    hellos, changed_hellos = (b"of A", b"of B"), (b"of A", b"of b")
    sent = pair().confirmation(A, B, hellos)
    key = subkey(SECRET, "confirm", "A", run=RUN, plan=PLAN, ends=ENDS)
    assert sent == hmac.digest(key, transcript.joined(b"2", b"1", *hellos), "sha256")
    assert sent == pair(B, A, B_PRIVATE, A_PRIVATE).confirmation(A, B, hellos)
    assert len({sent, pair().confirmation(B, A, hellos), pair().confirmation(A, B, changed_hellos)}) == 3


def test_no_text_form_shows_a_key():
    key = pair()
    keys = [SECRET, A_PRIVATE, *(key.subkey(purpose, "A") for purpose in Purpose)]
    stream = Stream(keys[-1])
    for shown in (f"{x!r} {x}" for x in (key, stream, vars(key).get("_issued"))):
        for secret in keys:
            assert secret.hex() not in shown
            assert repr(secret)[2:-1] not in shown
            assert str(list(secret))[1:-1] not in shown


SMALL_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    *range(2**255 - 20, 2**255 - 17),
]


@pytest.mark.parametrize("u", SMALL_ORDER)
def test_a_public_key_of_small_order_is_refused(u):
    point = u.to_bytes(32, "little")  # with it all the world knows the secret
    with pytest.raises(ProtocolViolation, match=r"B \(target\) sent a public key that is invalid"):
        PairKey(private(A_PRIVATE), point, A, B, RUN, PLAN)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_public_key_of_wrong_length_is_refused(size):
    with pytest.raises(ProtocolViolation, match="is invalid for X25519"):
        PairKey(private(A_PRIVATE), bytes([9] * size), A, B, RUN, PLAN)


# ---- streams ----

KEY = hashlib.sha256(b"a key").digest()
shapes = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=6)


@given(shapes)
def test_a_stream_is_aes_in_counter_mode_in_parts_of_any_size(parts):
    stream, reference = Stream(KEY), Keystream(KEY)
    for shape in parts:
        drawn = stream.ring(shape)
        assert (drawn.dtype, drawn.shape) == (np.int64, shape)
        assert drawn.tolist() == reference.ring(*shape).tolist()


@pytest.mark.parametrize("count", [8191, 8192, 8193, 20_000])
def test_a_stream_longer_than_its_internal_buffer(count):
    assert np.array_equal(Stream(KEY).ring((count,)), Keystream(KEY).ring(count))


@given(st.integers(0, 60))
def test_a_permutation_sorts_the_streams_keys(n):
    drawn = Stream(KEY).permutation(n)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == Keystream(KEY).permutation(n).tolist()
    assert sorted(drawn.tolist()) == list(range(n))


class Drawn(Stream):
    """A stream that returns the given values."""

    def __init__(self, *draws: list[int]) -> None:
        super().__init__(KEY)
        self._draws = iter(draws)

    def ring(self, shape):
        return np.array(next(self._draws))


def test_equal_keys_are_drawn_again():
    assert Drawn([5, 1, 5], [2, 2, 2], [7, -9, 3]).permutation(3).tolist() == [1, 2, 0]


def test_uniform_numbers_are_the_upper_53_bits():
    expected = [(value % 2**64 >> 11) / 2**53 for value in Keystream(KEY).ring(1000).tolist()]
    drawn = Stream(KEY).uniform(1000)
    assert drawn.tolist() == expected
    assert 0 <= drawn.min() < 0.01 < 0.99 < drawn.max() < 1

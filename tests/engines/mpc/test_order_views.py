"""Who receives what if only the order is opened: every byte of recorded runs, and statistics on it.

The coordinator's view must be noise but for the opened bits: as received, and after stripping every stream
that it can derive from the keys it holds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency

from mpc_spearman.engines.mpc.crypten_import import beaver, binary, replicated
from support.recording import Recorded
from support.transcript import CONFIRM, HELLO, Keystream, parse
from support.uniform import fair, signs_of_pattern
from support.views import COST, DIGEST, FAREWELL, RECORD, SHAPE

N, M_A, M_D, M_B = 40, 3, 2, 66
PAIRS = M_B * (M_B - 1) // 2  # 2,145: enough for statistics
PACKED = -(-PAIRS // 8)
#: Words of each message of a comparison: both operands of a carry-save step, then of the adder's seven ANDs.
CARRY, FIRST, TREE = [PAIRS] * 2, [PAIRS] * 2, [2 * PAIRS] * 12
ANDS = [*CARRY, *FIRST, *TREE]
COUNTS = "COLUMNS defined:int64"


def _tables(seed: int) -> dict[str, pd.DataFrame]:
    """Two tables of a seed have other values than those of the next, and the same order."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=N)
    ids = [f"row-{i:04d}" for i in range(N)]
    source = {f"source_{p}": base + rng.normal(size=N) / 9 for p in range(M_A)}
    second = {f"other_{p}": base + rng.normal(size=N) / 9 for p in range(M_D)}
    mixed = [base * np.cos(angle) + rng.normal(size=N) * np.sin(angle) for angle in rng.uniform(0, 3, M_B)]
    target = {f"target_{q}": values for q, values in enumerate(mixed)}
    mu = {
        name: np.mean([pd.Series(values).corr(pd.Series(x), "spearman") for x in source.values()])
        for name, values in target.items()
    }
    ordered = sorted(target, key=lambda name: -mu[name])
    target = {f"target_{q}": target[name] for q, name in enumerate(ordered)}
    return {
        name: pd.DataFrame({"id": ids} | columns)
        for name, columns in (("A", source), ("D", second), ("B", target))
    }


def only(tables: dict[str, pd.DataFrame], sources: str = "A") -> dict[str, pd.DataFrame]:
    return {name: tables[name] for name in (*sources, "B")}


@cache
def recorded(
    seed: int = 1, sources: str = "A", opened_to: str = "coordinator", top: int | None = None
) -> Recorded:
    return Recorded(only(_tables(seed), sources), reveal="ranking", opened_to=opened_to, top=top)


def listed(receiver: str, sender: str, run: Recorded) -> list[str]:
    """All messages from one party to another at ``ranking``, one source, in order."""
    to_target = run.plan.opened_to == "target"
    words, order = ANDS, [f"ORDER bits:bytes*{PACKED}"]
    if run.plan.top is not None:
        order = [f"ORDER bits:bytes*{-(-M_B // 8)}"]
        # B2A goes once around the circle, between two comparisons
        words = [*ANDS, PAIRS, *(M_B if size == PAIRS else 2 * M_B for size in ANDS)]
    copied = [f"REPLICA share:int64*{size}" for size in words]
    everyone = [HELLO, CONFIRM, *([SHAPE] if sender != "C" else [])]
    positions = [f"RESULT nonce:bytes*32 positions:int64*{M_B}"]
    between_parties = {
        ("C", "A"): [COUNTS, *copied, *([] if to_target else order), COST],
        ("C", "B"): [*([] if to_target else [f"DESCRIPTION names:texts*{M_B}", *order]), COST],
        ("B", "C"): [*copied, *(order if to_target else positions)],
        ("B", "A"): [DIGEST, COUNTS, f"MASKED block:int64*1*{N}", *(order if to_target else [])],
        ("A", "B"): [DIGEST, f"MASKED block:int64*{M_B}*{N}", *copied],
        ("A", "C"): [],
    }
    record = [RECORD] if sender == "C" else []
    return [*everyone, *between_parties[receiver, sender], *record, FAREWELL]


def contents(run: Recorded, receiver: str, sender: str) -> list[tuple[str, dict[str, Any]]]:
    messages, lines = run.transcript.received(receiver, sender), listed(receiver, sender, run)
    assert [message.kind for message in messages] == [line.split()[0] for line in lines]
    return [
        (message.kind, parse(line.split()[1:], message.payload, {}))
        for message, line in zip(messages, lines, strict=True)
    ]


def copies(run: Recorded, receiver: str, sender: str) -> list[np.ndarray]:
    payloads = run.transcript.payloads(receiver, sender, "REPLICA")
    return [np.frombuffer(payload, "<i8") for payload in payloads]


def bits(run: Recorded, receiver: str, sender: str, count: int = PAIRS) -> np.ndarray:
    (payload,) = run.transcript.payloads(receiver, sender, "ORDER")
    return np.unpackbits(np.frombuffer(payload, np.uint8), count=count)


views = pytest.mark.parametrize("opened_to", ["coordinator", "target"])


@views
@pytest.mark.parametrize("top", [None, 5])
def test_nothing_arrives_that_is_not_listed(opened_to, top):
    run = recorded(opened_to=opened_to, top=top)
    for receiver, sender in ("CA", "CB", "BC", "BA", "AB", "AC"):
        contents(run, receiver, sender)
        assert run.transcript.raw(receiver, sender, at=sender) == run.transcript.raw(
            receiver, sender, at=receiver
        )


def test_the_coordinator_does_not_learn_how_many_columns_are_constant():
    tables = _tables(1)
    tables = {"A": tables["A"], "B": tables["B"].assign(target_64=1.0, target_65=2.0)}
    run = Recorded(tables, reveal="ranking")
    assert [message.kind for message in run.transcript.received("C", "B")].count("COLUMNS") == 0
    for receiver, sender in ("CA", "CB"):  # nor by any message's size
        sizes = [
            [len(message.payload) for message in either.transcript.received(receiver, sender)]
            for either in (run, recorded())
        ]
        assert sizes[0] == sizes[1]
    ranking = run.results["C"].ranking
    assert ranking["feature"].tolist() == recorded().results["C"].ranking["feature"].tolist()
    assert not any("target_6" in warning for warning in run.results["C"].warnings)


def test_names_reach_the_coordinator_only_where_it_learns_the_order():
    for opened_to, named in (("coordinator", True), ("target", False)):
        run = recorded(opened_to=opened_to)
        received = b"".join(message.payload for message in run.transcript.messages if message.receiver == "C")
        written = b"".join(path.read_bytes() for path in (run.out / "C").iterdir())
        for text in (received, written):
            assert (b"target_7" in text) is named
            assert b"source_" not in text
    ranking = recorded(opened_to="target").results["B"].ranking["feature"].tolist()
    assert ranking == recorded().results["C"].ranking["feature"].tolist()


# ---- what travels is noise ----

# The prefix adder sends public parts of words: at level i the upper half of a block of 2^(i+1) bits is made
# to depend on the topmost bit of the lower half, which is copied 2^i times. All other bits are zero.
LEVELS = range(6)
TOP = [sum(1 << (b + 2**i - 1) for b in range(0, 64, 2 ** (i + 1))) for i in LEVELS]
UPPER = [sum(((1 << 2**i) - 1) << (b + 2**i) for b in range(0, 64, 2 ** (i + 1))) for i in LEVELS]


def as_sent(message: int, words: np.ndarray) -> np.ndarray:
    """Return what a message of the comparison carries of a share, or of a stream in it; uint64."""
    if message < 4:
        return words << np.uint64(1) if message == 3 else words
    level, second = divmod(message - 4, 2)
    if not second:
        return words & np.uint64(UPPER[level])
    return (words & np.uint64(TOP[level])) * np.uint64((1 << (2**level + 1)) - 2)


def free_bits(message: int, words: np.ndarray) -> np.ndarray:
    """Return the bits that are neither zero nor copies of others by construction; uint8 (words, bits)."""
    level, second = divmod(message - 4, 2)
    free = 2**64 - 2 if message == 3 else 2**64 - 1
    if message >= 4:
        free = TOP[level] << 1 if second else UPPER[level]
        words = words if second else words[:PAIRS]  # the same operand for both outputs
    positions = np.array([b for b in range(64) if free >> b & 1], dtype=np.uint64)
    return ((words[:, None] >> positions) & np.uint64(1)).astype(np.uint8)


def sent(run: Recorded, receiver: str, sender: str) -> list[np.ndarray]:
    return [words.view(np.uint64) for words in copies(run, receiver, sender)[: len(ANDS)]]


def signs(messages: list[np.ndarray]) -> list[str]:
    """Return the signs that the free bits of all messages are not fair."""
    of_messages = [free_bits(number, words) for number, words in enumerate(messages)]
    unfair = [
        f"message {number}, bit {b}"
        for number, bits in enumerate(of_messages)
        for b, count in enumerate(bits.sum(axis=0, dtype=int))
        if not fair(int(count), len(bits))
    ]
    pooled = np.packbits(np.concatenate([bits.ravel() for bits in of_messages]))
    return unfair + signs_of_pattern(pooled[: len(pooled) // 8 * 8].view(np.int64))


def draws(run: Recorded, pair: str) -> list[np.ndarray]:
    """Return all that two parties draw from their stream of a comparison, a row for each draw of a word."""
    stream: Keystream = run.transcript.stream(pair, "compare")
    inputs_and_ands = [1, 1, 1, 1, 1, *[2] * len(LEVELS)]
    return [row for rows in inputs_and_ands for row in stream.ring(rows, PAIRS).view(np.uint64)]


circle = pytest.mark.parametrize(("receiver", "sender", "third"), ["BCA", "ABC", "CAB"])


@circle
def test_fixed_parts_of_a_message_are_zeros_or_copies(receiver, sender, third):
    for message, words in enumerate(sent(recorded(), receiver, sender)):
        assert np.array_equal(as_sent(message, np.full_like(words, 2**64 - 1)) & words, words)
        if message >= 4 and message % 2 == 0:
            assert np.array_equal(words[:PAIRS], words[PAIRS:])


@circle
def test_what_each_party_receives_of_the_comparison_is_uniform(receiver, sender, third):
    assert signs(sent(recorded(), receiver, sender)) == []


def stripped_signs(run: Recorded, receiver: str, sender: str, third: str) -> list[str]:
    """Return what tells messages from noise without a stream that the receiver can derive, or two."""
    first, second = (draws(run, "".join(sorted(receiver + peer))) for peer in (sender, third))
    unfair = []
    for number, stream in enumerate([*first, *second, *(a ^ b for a, b in zip(first, second, strict=True))]):
        for message, words in enumerate(sent(run, receiver, sender)):
            bits = free_bits(message, words ^ as_sent(message, np.resize(stream, len(words))))
            if not fair(int(bits.sum(dtype=int)), bits.size):
                unfair.append(f"message {message} without stream {number}")
    return unfair


@circle
def test_messages_stay_uniform_without_every_stream_the_receiver_can_derive(receiver, sender, third):
    assert stripped_signs(recorded(), receiver, sender, third) == []


def compared_by(multiply: Any) -> Recorded:
    """Record a run with another AND, whose result is still right."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beaver, "AND", multiply)
        run = Recorded(only(_tables(1)), reveal="ranking")
    assert run.results["C"].ranking["feature"].tolist() == [f"target_{q}" for q in range(M_B)]
    return run


def test_shares_of_zero_from_the_coordinators_keys_alone_do_not_pass():
    """Such shares cancel, and look like noise to all but the coordinator."""

    def lopsided(x: Any, y: Any) -> Any:
        z = replicated.AND(x, y)
        drawn = [binary.generate_kbit_random_tensor(z.size(), generator=name) for name in ("prev", "next")]
        for stream in {0: drawn, 1: drawn[:1], 2: drawn[1:]}[z.rank]:
            z.share = z.share ^ stream
        return z

    run = compared_by(lopsided)
    assert signs(sent(run, "C", "A")) == []
    assert stripped_signs(run, "C", "A", "B") != []


def test_a_comparison_without_fresh_shares_of_zero_does_not_pass():
    unfair = signs(sent(compared_by(replicated.AND), "C", "A"))
    assert [sign for sign in unfair if sign.startswith("message")]


def test_the_opened_shares_are_uniform_but_for_the_order():
    """Either share is fair, also with any stream of the coordinator's taken off; both together give bits."""
    for seed in (1, 2):
        run = recorded(seed)
        shares = [bits(run, "C", sender) for sender in "AB"]
        strip = [draws(run, pair) for pair in ("AC", "BC")]
        for share in shares:
            for stream in (*strip[0], *strip[1], np.zeros(PAIRS, np.uint64)):
                assert fair(int((share ^ (stream >> np.uint64(63)).astype(np.uint8)).sum(dtype=int)), PAIRS)


def test_data_sets_of_one_order_look_the_same_to_the_coordinator():
    """The same messages, of the same sizes, whose bytes have one distribution (two-sample chi-square)."""
    runs = recorded(1), recorded(2)
    order = [run.results["C"].ranking["feature"].tolist() for run in runs]
    assert order[0] == order[1] == [f"target_{q}" for q in range(M_B)]
    for sender in "AB":
        messages = [run.transcript.received("C", sender) for run in runs]
        kinds = [[(message.kind, len(message.payload)) for message in of_run] for of_run in messages]
        assert kinds[0] == kinds[1]
        assert "MASKED" not in dict(kinds[0])
        for kind in ("REPLICA", "ORDER"):
            payloads = [b"".join(run.transcript.payloads("C", sender, kind)) for run in runs]
            counts = np.array([np.bincount(np.frombuffer(raw, np.uint8) >> 4) for raw in payloads])
            assert not counts.size or chi2_contingency(counts).pvalue > 1e-9


@circle
def test_two_runs_on_the_same_data_share_no_message(receiver, sender, third):
    runs = recorded(1), Recorded(only(_tables(1)), reveal="ranking")
    assert signs([a ^ b for a, b in zip(*(sent(run, receiver, sender) for run in runs), strict=True)]) == []


def test_turning_bits_into_integers_shows_the_source_nothing():
    run = recorded(top=5)
    masked = copies(run, "A", "B")[len(ANDS)]  # u - w, of bits u
    assert signs_of_pattern(masked) == []
    mask = run.transcript.stream("BC", "convert").ring(PAIRS)
    assert set((masked + mask).tolist()) == {0, 1}
    assert run.transcript.subkey("BC", "convert") not in run.transcript.keys("A").values()


# ---- several sources ----


def test_a_source_that_does_not_compare_gives_the_coordinator_noise():
    run = recorded(sources="AD")
    (payload,) = run.transcript.payloads("C", "D", "PADDED")
    share = np.frombuffer(payload, "<i8")
    assert len(share) == M_B
    zero = run.transcript.stream("CD", "zero", "D").ring(M_B)
    pad = run.transcript.stream("BD", "zero", "D").ring(M_B)
    for values in (share, share + zero):  # as received, and without the stream that the coordinator has
        assert fair(int(np.unpackbits(values.view(np.uint8)).sum()), 64 * M_B)
        assert (np.abs(values.astype(np.float64)) > 2**60).mean() > 0.5
    assert not np.array_equal(pad, zero)
    assert run.transcript.subkey("BD", "zero", "D") not in run.transcript.keys("C").values()
    kinds = [message.kind for message in run.transcript.received("C", "D")]
    assert kinds == ["HELLO", "CONFIRM", "SHAPE", "COLUMNS", "PADDED", "COST", "FAREWELL"]
    kinds = [message.kind for message in run.transcript.received("D", "C")]
    assert kinds == ["HELLO", "CONFIRM", "RECORD", "FAREWELL"]


def test_no_stream_is_used_twice():
    run = recorded(sources="AD", top=5)
    for party in ("C", "B", "A", "D"):
        keys = run.transcript.keys(party)
        assert len(set(keys.values())) == len(keys)
    purposes = {purpose for _, purpose, session in run.transcript.keys("C") if session == "A"}
    assert {"mask", "zero", "compare", "convert"} <= purposes
    assert not {purpose for _, purpose, session in run.transcript.keys("D")} & {"compare", "convert"}

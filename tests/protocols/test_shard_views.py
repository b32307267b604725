"""Who received what in runs in shards: every byte of recorded runs, meeting by meeting.

As test_views.py and test_masks.py do it for one process a party; here is what further workers add.
"""

from __future__ import annotations

import hmac
import json
import struct
from functools import cache
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from support.plans import LIGHT
from support.recording import M_A, M_B, SMALL_BLOCKS, TABLES, Frozen, N, Recorded, encoded
from support.transcript import CONFIRM, HELLO, Transcript, frames, parse
from support.uniform import signs_of_pattern
from support.views import FAREWELL

pytestmark = pytest.mark.xdist_group("recordings in shards")

RNG = np.random.default_rng(5)
FEW = {party: table.head(61) for party, table in TABLES.items()}
#: 1,200 products, enough for statistics.
WIDE = {
    party: pd.DataFrame({"id": range(41)} | {f"{party}{i}": RNG.normal(size=41) for i in range(columns)})
    for party, columns in {"A": 30, "B": 40}.items()
}
RUNS: dict[str, tuple[dict[str, pd.DataFrame], dict[str, Any]]] = {
    "differences": (TABLES, {"shards": 2, "reveal": "differences"}),
    "coefficients": (TABLES, {"shards": 2}),  # in processes, with no clock and no generator
    "wide": (WIDE, {"shards": 2}),
    "strengths": (TABLES, {"shards": 3, "reveal": "strengths"}),
    "explained": (TABLES, {"shards": 2, "reveal": "explained"}),
    "ranking": (TABLES, {"shards": 2, "reveal": "ranking"}),
    "coefficients, he": (FEW, {"shards": 2, **LIGHT}),
    "differences, he": (FEW, {"shards": 2, "reveal": "differences", **LIGHT}),
    "intersect": (TABLES, {"shards": 3, "alignment": "intersect"}),
}
#: What other workers than the first send those of other parties, beside hello and farewell, by both their
#: roles; with how many columns. The unit of ciphertexts is their length.
MASKS = {
    ("A", "B"): ("MASKED block:ring*columns*rows", M_A),
    ("B", "A"): ("MASKED block:ring*columns*rows", M_B),
}
ONE_VECTOR = {**MASKS, ("A", "B"): (MASKS["A", "B"][0], 1)}
OFFERED = ("OFFER ids:int64 min_rows:int64 max_ids:int64 max_unmatched:float64", 0)
BETWEEN: dict[str, dict[tuple[str, str], tuple[str, int]]] = {
    "differences": {(one, "C"): ("SHARE share:ring*columns*rows", M_A + M_B - 1) for one in "AB"},
    "coefficients": MASKS,
    "wide": {("A", "B"): (MASKS["A", "B"][0], 30), ("B", "A"): (MASKS["A", "B"][0], 40)},
    "strengths": ONE_VECTOR,
    "explained": MASKS,
    "ranking": ONE_VECTOR,
    "coefficients, he": {("A", "B"): ("CIPHERTEXT key:bytes*32 batch:bytes*rest", 0)},
    "differences, he": {
        ("C", "A"): ("PUBLIC_KEY key:bytes*rest", 0),
        ("C", "B"): ("PUBLIC_KEY key:bytes*rest", 0),
        ("A", "B"): ("CIPHERTEXT key:bytes*32 batch:bytes*rest", 0),
        ("B", "C"): ("EVALUATED key:bytes*32 batch:bytes*rest", 0),
    },
}


@cache
def recorded(name: str, repeat: int = 0) -> Recorded:
    tables, settings = RUNS[name]
    made = Frozen if name == "coefficients" else Recorded
    return made(tables, block_bytes=SMALL_BLOCKS, **settings)


def rows(run: Recorded, shard: int, columns: int, n: int = 0) -> list[int]:
    """Rows of each block of one shard."""
    n = len(range(shard, n or len(run.tables["A"]), run.plan.shards))
    step = SMALL_BLOCKS // (8 * columns)
    return [min(step, n - start) for start in range(0, n, step)]


def others(run: Recorded) -> list[tuple[int, Transcript]]:
    """The meetings of other workers than the first."""
    return list(enumerate(run.transcripts))[1:]


def between_parties(run: Recorded) -> bytes:
    """All that ever went from a party to another."""
    pairs = list(permutations(range(3), 2))
    return b"".join(
        meeting.raw(meeting.parties[one], meeting.parties[other], at=meeting.parties[other])
        for meeting in run.transcripts
        for one, other in pairs
    )


def given(run: Recorded, worker: str) -> list[tuple[dict[str, Any], bytes]]:
    """What a worker gave its party's first one, part by part."""
    parts = []
    for kind, _, payload in frames((run.directory / "record" / worker / "team" / "to-0.bin").read_bytes()):
        if kind == "PART":
            (text,) = struct.unpack_from("!I", payload)
            parts.append((json.loads(payload[4 : 4 + text]), payload[8 + text :]))
    return parts


# ---- what arrives ----


@pytest.mark.parametrize("name", BETWEEN)
def test_other_workers_receive_blocks_and_nothing_else(name: str) -> None:
    run = recorded(name)
    for shard, meeting in others(run):
        for sender, receiver in permutations("CBA", 2):
            found = meeting.received(f"{receiver}/{shard}", f"{sender}/{shard}")
            lines = [(HELLO, {}), (CONFIRM, {})]
            line, columns = BETWEEN[name].get((sender, receiver), ("", 0))
            if columns:
                widest = columns if "SHARE" in line else max(one for _, one in BETWEEN[name].values())
                blocks = rows(run, shard, widest)
                width = len(found[2].payload) // (columns * blocks[0])
                assert width <= 8
                lines += [(line, {"columns": columns, "rows": block, "ring": width}) for block in blocks]
            elif line:
                fixed = 32 if "batch" in line else 0
                lines += [(line, {"rest": len(one.payload) - fixed}) for one in found[2:-1]]
            lines += [(FAREWELL, {})]
            assert [one.kind for one in found] == [line.split()[0] for line, _ in lines], (sender, receiver)
            said = [
                parse(line.split()[1:], one.payload, sizes)
                for (line, sizes), one in zip(lines, found, strict=True)
            ]
            assert said[-1] == {"signature": bytes(64)}  # what is signed is a party's, by its first worker


@pytest.mark.parametrize("name", BETWEEN)
def test_first_workers_receive_the_same_as_without_other_workers(name: str) -> None:
    tables, settings = RUNS[name]
    run, alone = recorded(name), Recorded(tables, block_bytes=SMALL_BLOCKS, **{**settings, "shards": 1})
    sized = ("MASKED", "SHARE", "CIPHERTEXT", "EVALUATED", "COST")

    def messages(of: Recorded, receiver: str, sender: str) -> list[tuple[str, int]]:
        found = of.transcript.received(receiver, sender)
        kinds = [(one.kind, 0 if one.kind in sized else len(one.payload)) for one in found]
        return [one for at, one in enumerate(kinds) if not at or kinds[at - 1] != one]

    for receiver, sender in permutations("CBA", 2):
        assert messages(run, receiver, sender) == messages(alone, receiver, sender)
    if "differences" not in name:
        for kind in ("SHARE", "EVALUATED"):  # as many sums as of one process, and as long
            assert len(b"".join(run.transcript.payloads("C", "B", kind))) == len(
                b"".join(alone.transcript.payloads("C", "B", kind))
            )


# ---- what it says ----


def vectors(run: Recorded) -> dict[str, np.ndarray]:
    """What source and target share, (vectors, rows)."""
    return {party: encoded(run.tables[party]) for party in "AB"}


def mask(run: Recorded, shard: int, party: str) -> np.ndarray:
    """A party's mask of a shard's rows, from the keys of that shard's meeting alone."""
    meeting, columns = run.transcripts[shard], {p: len(v) for p, v in vectors(run).items()}
    _, _, source = meeting.parties
    owner = meeting.parties["CBA".index(party)]
    stream = meeting.stream((owner, meeting.parties[0]), "mask", source)
    widest = sum(columns.values()) - 1 if run.plan.reveal == "differences" else max(columns.values())
    return np.hstack([stream.ring(columns[party], block) for block in rows(run, shard, widest)])


def zero(run: Recorded, shard: int, pair: str, *shape: int) -> np.ndarray:
    """The stream of zeros of a pair of roles in one shard's meeting."""
    meeting = run.transcripts[shard]
    ends = [meeting.parties["CBA".index(party)] for party in pair]
    return meeting.stream(ends, "zero", meeting.parties[2]).ring(*shape)


def terms(run: Recorded, shard: int) -> dict[str, np.ndarray]:
    """What each party's worker computes of a shard (int64 wraps: modulo 2^64)."""
    x, y = (values[:, shard :: run.plan.shards] for values in vectors(run).values())
    r, u = (mask(run, shard, party) for party in "AB")
    return {"A": x @ (y - u).T, "B": (x - r) @ u.T, "C": r @ u.T}


def low(run: Recorded, values: np.ndarray) -> bytes:
    """Ring elements as they travel."""
    return np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(-1, 8)[:, : run.width].tobytes()


@pytest.mark.parametrize("name", ["coefficients", "wide"])
def test_every_shard_is_dealt_in_turn_and_masked_under_keys_of_its_own_meeting(name: str) -> None:
    run = recorded(name)
    for shard, meeting in enumerate(run.transcripts):
        _, target, source = meeting.parties
        for sender, receiver in ((source, target), (target, source)):
            own = vectors(run)[sender[0]]
            blocks = rows(run, shard, max(map(len, vectors(run).values())))
            payloads = meeting.payloads(receiver, sender, "MASKED")
            sizes = [{"m": len(own), "rows": block, "ring": run.width} for block in blocks]
            got = np.hstack(
                [parse(["b:ring*m*rows"], *one)["b"] for one in zip(payloads, sizes, strict=True)]
            )
            mine = own[:, shard :: run.plan.shards]
            assert np.array_equal(run.reduced(mine - got), run.reduced(mask(run, shard, sender[0])))
            if name != "wide":
                assert signs_of_pattern(got, run.width) == []


def test_two_meetings_share_no_key_and_two_streams_no_value() -> None:
    run = recorded("coefficients")
    keys = [
        {key for party in meeting.parties for key in meeting.keys(party).values()}
        for meeting in run.transcripts
    ]
    assert all(keys)
    assert not any(one & other for one, other in combinations(keys, 2))
    streams = [mask(run, shard, party) for shard in range(2) for party in "AB"]
    streams += [zero(run, shard, pair, 500) for shard in range(2) for pair in ("AB", "AC", "BC")]
    values = [set(stream.ravel().tolist()) for stream in streams]
    assert not any(one & other for one, other in combinations(values, 2))


def test_the_coordinator_receives_the_sum_of_all_shards_under_one_zero() -> None:
    run = recorded("wide")
    parts = [terms(run, shard) for shard in range(2)]
    totals = {party: sum(part[party] for part in parts) for party in "ABC"}
    ab, ac, bc = (zero(run, 0, pair, 30, 40) for pair in ("AB", "AC", "BC"))
    a, b = (run.shares(party).reshape(30, 40) for party in "AB")
    assert np.array_equal(a, run.reduced(totals["A"] + ab - ac))
    assert np.array_equal(b, run.reduced(totals["B"] + bc - ab))
    product = vectors(run)["A"] @ vectors(run)["B"].T
    assert np.array_equal(run.reduced(a + b + totals["C"] + ac - bc), product)


def test_a_coordinator_with_all_masks_and_both_tables_cannot_even_check_a_shards_term() -> None:
    """For each product it has two equations, a = ΣA_s + z and b = ΣB_s − z (mod 2^64), and no key to z.

    Their sum says Σ(A_s + B_s), and nothing else can be said without z: what is left of a is noise for the
    true terms, for those of one shard, and for those of rows dealt otherwise.
    """
    run = recorded("wide")
    (x, y), parts = vectors(run).values(), [terms(run, shard) for shard in range(2)]
    ac, bc, ab = (zero(run, 0, pair, 30, 40) for pair in ("AC", "BC", "AB"))
    a, b = (run.shares(party).reshape(30, 40) for party in "AB")
    left_a, left_b = a + ac, b - bc
    swapped = [*range(1, 40), 0, 40]
    other = x[:, swapped][:, ::2] @ (y[:, swapped][:, ::2] - mask(run, 0, "B")).T
    for guess in (0 * a, parts[0]["A"], parts[1]["A"], parts[0]["A"] + parts[1]["A"], other):
        assert signs_of_pattern(run.reduced(left_a - guess), run.width) == []
    for guess in (parts[0]["B"], parts[0]["B"] + parts[1]["B"], parts[0]["B"] - parts[0]["C"]):
        assert signs_of_pattern(run.reduced(left_b - guess), run.width) == []
    assert not run.reduced(left_a - parts[0]["A"] - parts[1]["A"] - ab).any()  # as z would show
    # the product of one shard, from which a term of another's would follow, is not in the sum either
    shard = x[:, ::2] @ y[:, ::2].T
    assert (run.reduced(a + b + ac - bc + sum(part["C"] for part in parts)) != shard).mean() > 0.9


@pytest.mark.parametrize("name", ["coefficients", "wide"])
def test_no_term_of_a_shard_goes_from_party_to_party(name: str) -> None:
    run = recorded(name)
    wire = between_parties(run)
    for shard in range(run.plan.shards):
        for party, term in terms(run, shard).items():
            assert not [row for row in term if row.any() and (row.tobytes() in wire or low(run, row) in wire)]
            if shard:  # it goes to its own party's first worker
                _, raw = given(run, f"{party}/{shard}")[0]
                found = np.frombuffer(raw, "<i8").reshape(term.shape)
                assert np.array_equal(run.reduced(found), run.reduced(term))


def test_no_worker_of_the_coordinator_holds_a_byte_of_the_others_key() -> None:
    run = recorded("coefficients")
    seen = b"".join(path.read_bytes() for path in (run.directory / "record" / "C").rglob("*.bin"))
    held = [key for meeting in run.transcripts for key in meeting.keys(meeting.parties[0]).values()]
    for meeting in run.transcripts:
        _, target, source = meeting.parties
        keys = [key for (peer, _, _), key in meeting.keys(source).items() if peer == target]
        assert len(keys) >= 3
        pieces = {key[at : at + 8] for key in keys for at in range(25)}
        assert not [piece for piece in pieces if piece in seen or any(piece in key for key in held)]


def test_partial_ciphertexts_stay_with_the_target() -> None:
    run = recorded("coefficients, he")
    wire = between_parties(run)
    what, sums = given(run, "B/1")[0]
    assert what["type"] == "|u1"
    of_key = run.transcripts[1].payloads("B/1", "A/1", "CIPHERTEXT")[0][:32]
    pieces = [sums[at : at + 32] for at in range(0, len(sums) - 31, 32) if len({*sums[at : at + 32]}) > 9]
    pieces = [piece for piece in pieces if piece != of_key]
    assert len(pieces) > 3
    assert not [piece for piece in pieces if piece in wire]


# ---- differences: no shard says where in the table a row is ----


def opened(run: Recorded, shard: int) -> list[int]:
    """Which rows of the table C's worker for a shard sees, in its order."""
    meeting = run.transcripts[shard]
    shares = [np.hstack(meeting.tensors(party, "opening")) for party in meeting.parties]
    x, y = vectors(run).values()
    place = {tuple(row): at for at, row in enumerate(np.vstack([x - y[0], y[1:] - y[0]]).T.tolist())}
    assert len(place) == N
    return [place[tuple(row)] for row in sum(shares).T.tolist()]


def test_the_rows_a_worker_of_the_coordinator_opens_are_a_random_half() -> None:
    runs = [[opened(recorded("differences", repeat), shard) for shard in range(2)] for repeat in range(2)]
    members = []
    for halves in runs:
        assert sorted(halves[0] + halves[1]) == list(range(N))
        assert [len(half) for half in halves] == [N // 2 + 1, N // 2]
        members.append(np.isin(np.arange(N), halves[1]))
        for half in halves:  # nor do places within a half follow the table's order
            assert abs(np.corrcoef(half, np.arange(len(half)))[0, 1]) < 7 / len(half) ** 0.5
    row = np.arange(N)
    for ones in members:
        # dealt before they are shuffled, odd rows would all be in one half
        for group in (
            row % 2 == 1,
            row < N // 2,
            row % 4 < 2,
            members[0] if ones is not members[0] else row < 9,
        ):
            share, size = ones[group].mean(), group.sum()
            assert abs(share - ones.mean()) < 7 * 0.5 / size**0.5
    assert (members[0] != members[1]).any()


# ---- common rows ----


def test_each_worker_of_the_coordinator_sees_one_range_of_pseudonyms() -> None:
    run = recorded("intersect")
    (key,) = run.transcript.payloads("A", "B", "MATCHING_KEY")
    subkey = hmac.digest(key, b"mpc_spearman/1 pseudonyms", "sha256")
    ids = [name.encode() for name in TABLES["A"]["id"]]
    all_of_them = sorted(
        hmac.digest(subkey, len(name).to_bytes(8, "big") + name, "sha256")[:16] for name in ids
    )
    for party in "AB":
        found = []
        for shard, meeting in enumerate(run.transcripts):
            hub, me = (one for one in meeting.parties if one[0] in ("C", party))
            raw = b"".join(meeting.payloads(hub, me, "PSEUDONYMS"))
            here = [raw[at : at + 16] for at in range(0, len(raw), 16)]
            assert {int.from_bytes(one[:4], "big") * 3 // 2**32 for one in here} == {shard}
            (offer,) = meeting.payloads(hub, me, "OFFER")
            said = parse(OFFERED[0].split()[1:], offer, {})
            assert said["ids"] == [len(here)]
            (bits,) = meeting.payloads(me, hub, "COMMON")
            assert np.unpackbits(np.frombuffer(bits, np.uint8)).sum() == len(here)
            found += here
            if shard:
                kinds = {
                    one.kind
                    for other in meeting.parties
                    if other != me
                    for one in meeting.received(me, other)
                }
                assert kinds == {"HELLO", "CONFIRM", "COMMON", "MASKED", "FAREWELL"}
        assert found == all_of_them
    assert key not in b"".join(path.read_bytes() for path in (run.directory / "record" / "C").rglob("*.bin"))

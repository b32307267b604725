"""Who received what where common rows are found: every byte of recorded runs.

Pseudonyms and bitmaps are made again from what the target sent the sources, by an implementation of its own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import cache
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.protocols import intersect
from support.recording import Recorded
from support.transcript import Message, parse
from support.uniform import signs_of_pattern

PARTIES = ("C", "B", "A", "D")
SOURCES = ("A", "D")
#: Ids of one message: so few that every list takes several.
BLOCK = 300
OFFER = "ids:int64 min_rows:int64 max_ids:int64 max_unmatched:float64"
BETWEEN = ("MATCHING_KEY", "OFFER", "PSEUDONYMS", "COMMON")


def _table(side: str, low: int, high: int, columns: int) -> pd.DataFrame:
    rng = np.random.default_rng(low + high)
    values = {f"{side}{i}": rng.normal(size=high - low) for i in range(columns)}
    return pd.DataFrame({"id": rng.permutation([f"person-{i:04d}" for i in range(low, high)]), **values})


TABLES = {"A": _table("a", 0, 1000, 2), "D": _table("d", 200, 1300, 3), "B": _table("b", 150, 950, 2)}
IDS = {party: table["id"].tolist() for party, table in TABLES.items()}
COMMON = set.intersection(*(set(ids) for ids in IDS.values()))


def _other_ids(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()[: 5 + int(text[-1])] + text[-4:]


@cache
def recorded(repeat: int, renamed: bool = False) -> Recorded:
    """Record a run; with another `repeat` the same once more."""
    name: Callable[[str], str] = _other_ids if renamed else str
    tables = {party: table.assign(id=table["id"].map(name)) for party, table in TABLES.items()}
    before, intersect.BLOCK_IDS = intersect.BLOCK_IDS, BLOCK
    try:
        return Recorded(tables, alignment="intersect")
    finally:
        intersect.BLOCK_IDS = before


def messages(run: Recorded, receiver: str, sender: str) -> list[Message]:
    """What was sent of kinds that only such runs have."""
    return [one for one in run.transcript.received(receiver, sender) if one.kind in BETWEEN]


def blocks(party: str) -> list[int]:
    n = len(IDS[party])
    return [min(BLOCK, n - start) for start in range(0, n, BLOCK)]


def pseudonyms(run: Recorded, party: str) -> list[bytes]:
    payload = b"".join(run.transcript.payloads("C", party, "PSEUDONYMS"))
    return [payload[start : start + 16] for start in range(0, len(payload), 16)]


def expected(run: Recorded, party: str) -> dict[bytes, str]:
    """A party's ids by their pseudonyms."""
    (key,) = run.transcript.payloads("A", "B", "MATCHING_KEY")
    subkey = hmac.new(key, b"mpc_spearman/1 pseudonyms", "sha256").digest()

    def one(text: str) -> bytes:
        return hmac.new(subkey, len(text).to_bytes(8, "big") + text.encode(), "sha256").digest()[:16]

    return {one(text): text for text in IDS[party]}


def test_only_these_messages_pass_between_hello_and_sizes() -> None:
    run = recorded(0)
    assert [kind for kind, _ in _kinds(run, "A", "B")] == ["MATCHING_KEY"]
    lists: dict[tuple[str, str], list[tuple[str, dict[str, int]]]] = {}
    for source in SOURCES:
        lists[source, "B"] = [("key:bytes*32", {})]
    for party in TABLES:
        offered = [("ids:bytes*ids*16", {"ids": size, "16": 16}) for size in blocks(party)]
        lists["C", party] = [(OFFER, {}), *offered]
        lists[party, "C"] = [("common:bytes*packed", {"packed": -(-len(IDS[party]) // 8)})]
    for receiver, sender in permutations(PARTIES, 2):
        received = run.transcript.received(receiver, sender)
        kinds = [one.kind for one in received]
        listed_messages = messages(run, receiver, sender)
        assert kinds[:2] == ["HELLO", "CONFIRM"]
        assert kinds[2 : 2 + len(listed_messages)] == [one.kind for one in listed_messages]
        assert not set(kinds[2 + len(listed_messages) :]) & set(BETWEEN)
        for message, (layout, sizes) in zip(listed_messages, lists.get((receiver, sender), []), strict=True):
            parse(layout.split(), message.payload, sizes)


def _kinds(run: Recorded, receiver: str, sender: str) -> list[tuple[str, bytes]]:
    return [(one.kind, one.payload) for one in messages(run, receiver, sender)]


def test_other_messages_equal_those_of_a_run_over_the_joined_rows() -> None:
    run = recorded(0)
    joined = {party: table[table["id"].isin(COMMON)].sort_values("id") for party, table in TABLES.items()}
    same = Recorded(joined)

    def sizes(of: Recorded, receiver: str, sender: str) -> list[tuple[str, int]]:
        return [
            (one.kind, len(one.payload))
            for one in of.transcript.received(receiver, sender)
            if one.kind not in (*BETWEEN, "HELLO", "CONFIRM")
        ]

    for receiver, sender in permutations(PARTIES, 2):
        assert sizes(run, receiver, sender) == sizes(same, receiver, sender)


def test_the_coordinator_gets_sorted_pseudonyms_and_answers_by_the_list() -> None:
    run = recorded(0)
    for party in TABLES:
        names = expected(run, party)
        assert pseudonyms(run, party) == sorted(names)
        (bitmap,) = run.transcript.payloads(party, "C", "COMMON")
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8))
        marked = [names[pseudonym] in COMMON for pseudonym in sorted(names)]
        assert bits.tolist() == [*marked, *[False] * (-len(marked) % 8)]


def test_owners_state_their_lists_sizes_and_policies_truthfully() -> None:
    run = recorded(0)
    for party, table in TABLES.items():
        offer = parse(OFFER.split(), run.transcript.payloads("C", party, "OFFER")[0], {})
        numbers = [len(table), 3, 10_000_000, 1.0]
        assert [value[0] for value in offer.values()] == numbers


def test_the_key_is_new_in_each_run_and_never_reaches_the_coordinator() -> None:
    keys = set()
    for repeat in (0, 1):
        transcript = recorded(repeat).transcript
        (key,), (again,) = (transcript.payloads(source, "B", "MATCHING_KEY") for source in SOURCES)
        assert key == again
        keys.add(key)
        for message in transcript.messages:
            if "C" in (message.sender, message.receiver):
                assert key not in message.payload
    assert len(keys) == 2


@pytest.mark.parametrize("party", TABLES)
def test_pseudonyms_of_two_runs_differ_in_values_and_order(party: str) -> None:
    one, other = (pseudonyms(recorded(repeat), party) for repeat in (0, 1))
    assert len(one) == len(other)
    assert not set(one) & set(other)
    names = [
        list(map(expected(recorded(repeat), party).get, pseudonyms(recorded(repeat), party)))
        for repeat in (0, 1)
    ]
    # the places of the same ids: as independent orders' are
    place = pd.Series(range(len(names[1])), index=names[1])
    correlation = np.corrcoef(np.arange(len(names[0])), place.loc[names[0]])[0, 1]
    assert abs(correlation) < 7 / len(one) ** 0.5


def test_pseudonyms_are_uniform_bits() -> None:
    run = recorded(0)
    values = {value for party in TABLES for value in pseudonyms(run, party)}  # once those that are common
    joined = b"".join(sorted(values, key=lambda value: value[::-1]))
    assert not signs_of_pattern(np.frombuffer(joined, "<i8")[1::2])


def test_nothing_at_the_coordinator_depends_on_ids_but_which_are_equal() -> None:
    """With other names for the same people it receives the same, but for what is random in each run."""
    first_run, second_run = recorded(0), recorded(0, renamed=True)
    fresh = {"HELLO", "CONFIRM", "PSEUDONYMS", "SHARE", "COST", "FAREWELL"}
    for party in TABLES:
        first, second = first_run.transcript.received("C", party), second_run.transcript.received("C", party)
        for message, renamed in zip(first, second, strict=True):
            assert (message.kind, len(message.payload)) == (renamed.kind, len(renamed.payload))
            assert message.kind in fresh or message.payload == renamed.payload
    for some in (("A", "B"), ("A", "D"), ("B", "D"), ("A", "B", "D")):
        sets = ([set(pseudonyms(run, party)) for party in some] for run in (first_run, second_run))
        assert len({len(set.intersection(*its)) for its in sets}) == 1
    assert first_run.results["C"].coefficients.equals(second_run.results["C"].coefficients)


def test_no_party_receives_or_writes_any_part_of_an_id() -> None:
    run = recorded(0)
    for party in PARTIES:
        received = b"".join(one.payload for one in run.transcript.messages if one.receiver == party)
        written = b"".join(path.read_bytes() for path in (run.out / party).iterdir())
        assert b"person-" not in received + written

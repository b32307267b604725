"""What earlier runs have against a new one: nearly the same rows, or a column's bits used up."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.privacy.charges import (
    BUCKETS,
    Charge,
    ChargedRun,
    Column,
    Fingerprint,
    Forgotten,
    Peer,
    fingerprint,
    objections,
    standing,
)
from support.tables import id_array

KEY = bytes(range(32))
IDS = [f"p{i}" for i in range(300)]


def ranks(*columns: ArrayLike) -> np.ndarray:
    return rank_columns([np.array(column) for column in columns]).matrix


def print_of(ids: Sequence[str] = IDS, *columns: ArrayLike, key: bytes = KEY) -> Fingerprint:
    return fingerprint(key, id_array(ids), ranks(*(columns or [range(len(ids))])))


def make_run(
    own: Fingerprint | None = None,
    names: Sequence[str] = ("x",),
    plan: str = "a1" * 32,
    *,
    bits: float = 20.0,
    entropy: float = 100.0,
    partners: Sequence[str] = ("B",),
    inputs: str = "b0",
) -> ChargedRun:
    return ChargedRun(
        party="A",
        plan=plan,
        own=own or print_of(),
        peers={name: Peer(grant="strengths", columns=4, inputs=inputs) for name in partners},
        columns=tuple(
            Column(name=name, entropy=entropy, bits=dict.fromkeys(partners, bits)) for name in names
        ),
    )


def charged(*runs: ChargedRun) -> list[Charge | Forgotten]:
    return [Charge(time=f"2026-01-{day:02}T00:00:00Z", run=run) for day, run in enumerate(runs, 1)]


def against(run: ChargedRun, entries: Sequence[Charge | Forgotten], min_group: int = 10) -> list[str]:
    return list(objections(run, entries, min_group=min_group, budget=0.5))


# ---- fingerprints


def test_the_sketch_is_what_it_says() -> None:
    own = print_of(["p1", "pé", "7"], [3, 1, 2])
    expected = [0] * BUCKETS
    for text in ("p1", "pé", "7"):
        digest = hashlib.blake2b(text.encode(), key=KEY, person=b"id", digest_size=16).digest()
        expected[int.from_bytes(digest[8:], "little") % BUCKETS] ^= int.from_bytes(digest[:8], "little")
    assert base64.b64decode(own.sketch) == b"".join(value.to_bytes(8, "little") for value in expected)
    assert own.buckets().tolist() == expected
    assert own.n == 3


_SETS = st.sets(st.text(st.characters(codec="utf-8"), max_size=4), min_size=1, max_size=30)


@given(one=_SETS, other=_SETS)
@example(one={"a"}, other={"a", "b"})
def test_sketches_differ_in_at_most_as_many_buckets_as_there_are_other_ids(
    one: set[str], other: set[str]
) -> None:
    first, second = print_of(sorted(one)), print_of(sorted(other))
    differ = int(np.count_nonzero(first.buckets() != second.buckets()))
    assert differ <= len(one ^ other)
    assert (differ > 0) == (one != other)


@given(order=st.permutations(range(6)), columns=st.permutations(range(3)))
def test_rows_are_known_in_any_order_and_columns_too_though_in_another_they_are_other_inputs(
    order: list[int], columns: list[int]
) -> None:
    values = np.array([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8], [1, 2, 3, 4, 5, 6]])
    first = print_of(IDS[:6], *values)
    again = print_of([IDS[i] for i in order], *values[columns][:, order])
    assert (again.inputs == first.inputs) == (columns == sorted(columns))
    assert again.sketch == first.sketch
    assert again.ranks == tuple(first.ranks[i] for i in columns)


def test_rows_that_are_ordered_under_their_ids_are_other_inputs() -> None:
    first, other = print_of(IDS[:3], [1, 2, 3]), print_of(IDS[:3], [2, 1, 3])
    assert first.sketch == other.sketch
    assert first.inputs != other.inputs
    assert first.ranks != other.ranks


def test_a_column_is_known_reversed_or_transformed_but_a_run_with_it_reversed_is_another() -> None:
    column = np.array([0.5, 2.0, 2.0, 8.0])
    first = print_of(IDS[:4], column)
    assert print_of(IDS[:4], np.log(column)) == first
    assert print_of(IDS[:4], -column).ranks == first.ranks
    assert print_of(IDS[:4], -column).inputs != first.inputs  # a + b and a - b are two sums


def test_without_the_key_nothing_can_be_compared() -> None:
    first, other = print_of(), print_of(key=b"k" * 32)
    assert first.inputs != other.inputs
    assert not set(first.ranks) & set(other.ranks)
    filled = first.buckets() != 0
    assert not (first.buckets()[filled] == other.buckets()[filled]).any()


# ---- nearly the same rows


@pytest.mark.parametrize("rows", [1, 9])
def test_a_run_over_a_few_rows_more_or_less_is_refused(rows: int) -> None:
    full, fewer = make_run(), make_run(print_of(IDS[rows:]))
    for earlier, later in ((full, fewer), (fewer, full)):
        (text,) = against(later, charged(earlier))
        assert "the run of 2026-01-01T00:00:00Z (plan a1a1a1a1)" in text
        assert f"in {rows} of 4096 buckets, and privacy.min_group asks for none or 10" in text
        assert "Its result is with B" in text


def test_rows_swapped_for_as_many_others_are_a_few_rows_as_well() -> None:
    swapped = [*IDS[4:], "n0", "n1", "n2", "n3"]
    assert "in 8 of 4096 buckets" in against(make_run(print_of(swapped)), charged(make_run()))[0]


@pytest.mark.parametrize("rows", [10, 150])
def test_a_run_over_min_group_rows_less_or_many_less_is_allowed(rows: int) -> None:
    assert against(make_run(print_of(IDS[rows:])), charged(make_run())) == []


def test_rows_are_compared_with_every_earlier_run_whoever_its_partner_was() -> None:
    entries = charged(make_run(), make_run(print_of(IDS[100:]), partners=("D", "C")))
    (text,) = against(make_run(print_of(IDS[101:])), entries)
    assert "the run of 2026-01-02T00:00:00Z" in text
    assert "Its result is with C, D" in text


def test_min_group_1_turns_the_comparison_of_rows_off() -> None:
    assert against(make_run(print_of(IDS[1:])), charged(make_run()), min_group=1) == []


def test_a_changed_cell_is_not_seen() -> None:
    before, after = list(range(300)), [*range(299), -1]
    assert against(make_run(print_of(IDS, after)), charged(make_run(print_of(IDS, before)))) == []


# ---- a column's bits


def test_the_identical_run_is_always_allowed_again() -> None:
    full = make_run(bits=50)
    entries = charged(full, make_run(plan="d4" * 32, partners=("D",)), full)
    assert against(full, entries) == []
    assert against(full, charged(make_run(print_of(IDS[1:])), full)) == []  # allowed then, so now


@pytest.mark.parametrize(
    "other",
    [
        make_run(plan="a2" * 32, bits=40),
        make_run(inputs="b1", bits=40),
        make_run(names=("renamed",), bits=40),
        make_run(print_of(IDS, np.arange(300)[::-1]), names=("reversed",), bits=40),
        make_run(print_of(IDS, np.arange(300) % 7), bits=40),
        make_run(bits=40).model_copy(update={"version": "another"}),
    ],
    ids=["another plan", "a peer's other columns", "renamed", "reversed", "changed", "another version"],
)
def test_any_other_run_of_a_column_uses_its_budget(other: ChargedRun) -> None:
    (text,) = against(other, charged(make_run(bits=20)))
    assert text.startswith(
        f"column {other.columns[0].name!r}: B would get 40.0 of its 100.0 bits (40.0%), and has 20.0% of "
        "them from earlier runs, the last the run of 2026-01-01T00:00:00Z (plan a1a1a1a1); privacy.budget "
        "allows 50.0% in all. Leave the column out, have fewer columns on the other side, or publish less"
    )


def test_what_fits_the_budget_exactly_is_allowed() -> None:
    entries = charged(make_run(bits=25))
    assert against(make_run(plan="a2" * 32, bits=25), entries) == []
    assert len(against(make_run(plan="a2" * 32, bits=25.01), entries)) == 1


def test_another_column_has_its_own_budget() -> None:
    other = make_run(print_of(IDS, np.arange(300) % 7), names=("y",), bits=40)
    assert against(other, charged(make_run(bits=40))) == []


def test_each_run_uses_the_part_of_the_bits_that_the_column_held_then() -> None:
    trial = make_run(print_of(IDS[:20]), bits=20, entropy=60)  # a third of a short column
    assert against(make_run(bits=160, entropy=1000), charged(trial)) == []
    assert "has 33.3% of them" in against(make_run(bits=170, entropy=1000), charged(trial))[0]


def test_partners_are_counted_apart() -> None:
    entries = charged(make_run(bits=40, partners=("B",)), make_run(bits=40, partners=("D",), plan="a2" * 32))
    assert against(make_run(bits=40, partners=("E",), plan="a3" * 32), entries) == []
    both = against(make_run(bits=40, partners=("B", "D", "E"), plan="a3" * 32), entries)
    assert [text.split(":")[1].split()[0] for text in both] == ["B", "D"]


def test_equal_columns_under_two_names_are_counted_once_a_run() -> None:
    twice = make_run(print_of(IDS, range(300), range(300)), names=("x", "again"), bits=20)
    assert against(make_run(bits=30), charged(twice)) == []
    assert "has 20.0%" in against(make_run(bits=31), charged(twice))[0]


def test_constant_columns_hold_nothing_and_are_not_taken_for_each_other() -> None:
    constants = print_of(IDS, [1] * 300, [2] * 300)
    run = make_run(constants, names=("x", "y"), entropy=0, bits=5)
    assert against(run, charged(make_run(bits=50))) == []
    assert against(make_run(bits=50), charged(run)) == []


def test_a_peer_that_is_granted_nothing_holds_nothing() -> None:
    run = make_run()
    nothing = run.model_copy(
        update={"peers": {"B": Peer(grant="nothing", columns=4, inputs="b0")}, "columns": ()}
    )
    assert standing(charged(nothing)) == []
    assert [holders for _, holders in standing(charged(nothing, run))] == [{"B"}]


def test_what_a_partner_got_counts_until_it_is_forgotten() -> None:
    entries = charged(make_run(bits=40, partners=("B", "C")))
    forget = [Forgotten(time="2026-02-01T00:00:00Z", partner=name, reason="deleted") for name in "BC"]
    later = make_run(print_of(IDS[1:]), bits=40, partners=("B", "C"), plan="a2" * 32)
    assert len(against(later, entries)) == 3  # the rows, B's bits, C's bits
    rows, bits = against(later, [*entries, forget[0]])
    assert "Its result is with C" in rows
    assert "C would get" in bits
    assert against(later, [*entries, *forget]) == []
    assert len(against(later, [*entries, *forget, *entries])) == 3  # they got it anew


_EVENTS = st.lists(
    st.tuples(st.sampled_from(["run", "run", "run", "forget"]), st.sampled_from("BD"), st.integers(0, 3)),
    max_size=12,
)


@given(events=_EVENTS)
def test_no_partner_ever_has_more_than_the_budget_from_different_runs(
    events: list[tuple[str, str, int]],
) -> None:
    own = print_of(IDS[:5])
    entries: list[Charge | Forgotten] = []
    has: dict[str, set[int]] = {"B": set(), "D": set()}
    for what, partner, number in events:
        if what == "forget":
            entries.append(Forgotten(time="now", partner=partner, reason="deleted"))
            has[partner].clear()
            continue
        run = make_run(own, plan=f"{number:064}", bits=20, partners=(partner,))
        allowed = number in has[partner] or len(has[partner]) < 2  # 20 and 20 of 50, not 20 more
        assert (against(run, entries) == []) == allowed
        if allowed:
            entries.append(Charge(time="now", run=run))
            has[partner].add(number)

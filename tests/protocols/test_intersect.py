"""Runs over common rows: their results, what is refused, and what a deviating coordinator can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.errors import AlignmentError, ProtocolViolation
from mpc_spearman.protocols import intersect
from mpc_spearman.run import Run
from mpc_spearman.statistics.reference import reference
from support.faults import on_values
from support.in_memory import Ended, run_in_memory
from support.plans import SMALL, mapping, plan
from support.references import tolerance

LEVELS = ("differences", "coefficients", "strengths", "ranking")


def table(ids: Any, side: str, columns: int, seed: int) -> pd.DataFrame:
    """Columns that depend on the id, so that rows that are paired wrongly show."""
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(list(ids))
    common = np.array([int(text[1:]) for text in shuffled]) % 97
    values = {f"{side}{i}": np.round(common + 30 * rng.normal(size=len(shuffled)), i) for i in range(columns)}
    return pd.DataFrame({"id": shuffled, **values})


def ids(low: int, high: int) -> list[str]:
    return [f"p{i}" for i in range(low, high)]


A = table(ids(0, 170), "a", 3, 1)
B = table(ids(60, 260), "b", 4, 2)
D = table([*ids(0, 100), *ids(120, 300)], "d", 2, 3)


def joined(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The complete rows that all have, in one order, as pandas finds them."""
    complete = {party: frame.dropna() for party, frame in tables.items()}
    both = reduce(lambda left, right: left.merge(right, on="id"), complete.values())
    return {party: both[frame.columns.drop("id")] for party, frame in complete.items()}


def check(ended: Ended, tables: Mapping[str, pd.DataFrame], level: str) -> None:
    """All that C has is what plaintext gives on the joined rows."""
    rows, result = joined(tables), ended.result("C")
    sources = {party: frame for party, frame in rows.items() if party != "B"}
    truth = reference(sources, rows["B"])
    assert {ended.result(party).n for party in ended.results} == {len(rows["B"])}
    if level in ("differences", "coefficients"):
        np.testing.assert_allclose(result.coefficients, truth.coefficients, rtol=0, atol=1e-14)
    close = tolerance(level, list(sources.values()), "tie_corrected")
    if level != "ranking":
        np.testing.assert_allclose(result.strengths, truth.strengths, rtol=0, atol=close)
    else:
        assert result.ranking["feature"].tolist() == truth.ranking["feature"].tolist()


@pytest.mark.parametrize("others", [("A",), ("A", "D")], ids=["one source", "two sources"])
@pytest.mark.parametrize(
    ("protocol", "level"),
    [*(("mpc", level) for level in LEVELS), *(("he", level) for level in LEVELS if level != "ranking")],
)
def test_the_result_is_that_of_the_joined_rows(protocol: str, level: str, others: tuple[str, ...]) -> None:
    tables = {party: {"A": A, "D": D}[party] for party in others} | {"B": B}
    chosen = plan(*others, alignment="intersect", protocol=protocol, reveal=level, he=SMALL)
    check(run_in_memory(chosen, tables), tables, level)


def test_the_coordinator_gets_all_counts_and_others_their_own() -> None:
    tables = {"A": A, "D": D, "B": B}
    ended = run_in_memory(plan("A", "D", alignment="intersect"), tables)
    sizes = {party: len(frame) for party, frame in tables.items()}
    assert ended.result("C").offered == sizes
    for party in tables:
        assert ended.result(party).offered == {party: sizes[party]}
    equal = {"A": A.head(60), "B": B.head(60).assign(id=A["id"])}
    assert run_in_memory(plan(), equal).result("C").offered == {}


@pytest.mark.parametrize("n", [3, 100])
def test_three_or_more_common_rows_give_a_result(n: int) -> None:
    tables = {"A": table(ids(0, 100), "a", 2, 4), "B": table(ids(100 - n, 200 - n), "b", 2, 5)}
    check(run_in_memory(plan(alignment="intersect"), tables), tables, "coefficients")


@pytest.mark.parametrize(("n", "have"), [(0, "no ids"), (1, "1 id"), (2, "2 ids")])
def test_fewer_than_three_rows_in_common_are_refused_in_words(n: int, have: str) -> None:
    tables = {"A": table(ids(0, 50), "a", 2, 4), "B": table(ids(50 - n, 100 - n), "b", 2, 5)}
    ended = run_in_memory(plan(alignment="intersect"), tables)
    assert ended.classes() == dict.fromkeys("CBA", "AlignmentError")
    assert f"the data parties have {have} in common, and a run needs at least 3" in str(ended.errors["C"])
    for party in "AB":
        assert "too few are in common" in str(ended.errors[party])


def test_why_ids_may_not_match_is_said_to_their_owner_alone() -> None:
    """Where too few are common, where all must be the same, and where some are common: of the others."""

    def run_and_listen(alignment: str, **tables: pd.DataFrame) -> tuple[Ended, dict[str, list[str]]]:
        heard: dict[str, list[str]] = {party: [] for party in "CBA"}

        def listening(role: Any, run: Run, frame: Any) -> Any:
            return role(replace(run, say=heard[run.roster.me.name].append), frame)

        return run_in_memory(plan(alignment=alignment), tables, dict.fromkeys("CBA", listening)), heard

    spaced = B.assign(id=B["id"] + " ")
    ended, heard = run_and_listen("intersect", A=A, B=spaced)
    assert ended.classes() == dict.fromkeys("CBA", "AlignmentError")
    why = "Of the 200 ids here, 200 have spaces around them (normalise: [strip])"
    assert heard == {"C": [], "B": [why], "A": []}
    assert not run_in_memory(plan(alignment="intersect", normalise=["strip"]), {"A": A, "B": spaced}).errors

    ended, heard = run_and_listen("same", A=A, B=B.head(170).assign(id=A["id"].str.upper()))
    assert ended.classes()["B"] == "AlignmentError"
    assert heard["B"] == ["Of the 170 ids here, 170 have upper-case letters (normalise: [casefold])"]
    assert heard["A"] == heard["C"] == []

    ended, heard = run_and_listen("intersect", A=A, B=B.assign(id=B["id"].where(B.index > 20, " " + B["id"])))
    n = ended.result("C").n
    assert heard["A"] == [f"{n} of 170 rows are common to all data parties"]
    (text,) = heard["B"]
    assert text.startswith(
        f"{n} of 200 rows are common to all data parties. Not common: of the {200 - n} ids"
    )
    assert "21 have spaces around them" in text
    assert ended.result("B").warnings.count(text) == 1  # also for who runs it quietly
    assert text not in ended.result("A").warnings + ended.result("C").warnings


# ---- rules


@pytest.mark.parametrize(
    ("owner", "policy", "text"),
    [
        ("A", {"max_ids": 199}, "B (target) offers 200 ids to match, and the policy of A (source) has"),
        ("B", {"max_ids": 169}, "A (source) offers 170 ids to match, and the policy of B (target) has"),
        ("A", {"max_unmatched": 0.44}, "110 of the 200 ids of B (target) are common"),
        ("B", {"max_unmatched": 0.35}, "110 of the 170 ids of A (source) are common"),
        ("A", {"min_rows": 111}, "have 110 ids in common, and the policy of A (source) has min_rows: 111"),
    ],
)
def test_an_owners_rule_is_applied_before_anyone_is_answered(owner: str, policy: Any, text: str) -> None:
    answered = []

    def noted(values: Mapping[str, Any]) -> Mapping[str, Any]:
        answered.append(values)
        return values

    def run(rule: Mapping[str, Any]) -> Ended:
        content = mapping(alignment="intersect")
        place = content["parties"]["target"] if owner == "B" else content["parties"]["sources"][0]
        place["policy"] |= rule
        hook = partial(on_values, kind="COMMON", change=noted)
        return run_in_memory(load_plan(content), {"A": A, "B": B}, {"C": hook})

    ended = run(policy)
    assert ended.classes() == {"C": "DisclosureError", "A": "PeerFailed", "B": "PeerFailed"}
    ((rule, value),) = policy.items()
    assert text in str(ended.errors["C"])
    assert f"has {rule}" in str(ended.errors["C"])
    assert not answered
    just = {
        rule: round(value + 0.01, 2) if rule == "max_unmatched" else value + (1 if rule == "max_ids" else -1)
    }
    assert not run(just).errors
    assert answered


# ---- a coordinator that answers otherwise


def marks(change: Any, party: int | None = None) -> Any:
    """A hook for C that changes its bitmaps: each, or that of the so-many-th party it answers."""

    number = iter(range(9))

    def changed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        if party is not None and next(number) != party:
            return values
        bits = np.unpackbits(np.frombuffer(values["common"], np.uint8))
        return {"common": np.packbits(change(bits)).tobytes()}

    return partial(on_values, kind="COMMON", change=changed)


def added(bits: np.ndarray) -> np.ndarray:
    bits = bits.copy()
    bits[np.flatnonzero(bits == 0)[0]] = 1
    return bits


def dropped(bits: np.ndarray) -> np.ndarray:
    bits = bits.copy()
    bits[np.flatnonzero(bits)[-1]] = 0
    return bits


def moved(bits: np.ndarray) -> np.ndarray:
    return dropped(added(bits))


def turned(bits: np.ndarray) -> np.ndarray:
    return bits[::-1].copy()


@pytest.mark.parametrize(
    ("change", "party"), [*product([added, dropped, moved, turned], range(3)), (moved, None)]
)
def test_marks_that_are_not_the_common_rows_are_found_out(change: Any, party: int | None) -> None:
    """At one party, or as many other rows at each."""
    tables = {"A": A.head(168), "D": D, "B": B}  # whole bytes: nothing is beyond a list
    ended = run_in_memory(plan("A", "D", alignment="intersect"), tables, {"C": marks(change, party)})
    assert not ended.results
    assert {type(ended.errors[owner]) for owner in "ABD"} == {AlignmentError}


def test_a_mark_beyond_the_end_of_a_list_is_a_violation() -> None:
    def beyond(bits: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(bits)) == len(bits) - 1, 1, bits)

    ended = run_in_memory(plan(alignment="intersect"), {"A": A, "B": B}, {"C": marks(beyond)})
    assert isinstance(ended.errors["A"], ProtocolViolation)  # 170 ids leave six bits
    assert not ended.results


def test_common_rows_left_out_at_all_parties_are_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/privacy.md says: the coordinator can choose so over how many rows a run is, not over whose."""
    common = intersect.common

    def fewer(sets: Any) -> Any:
        keep = [np.flatnonzero(marked)[5:] for marked in common(sets)]
        return [
            np.isin(np.arange(len(pseudonyms)), marked) for pseudonyms, marked in zip(sets, keep, strict=True)
        ]

    monkeypatch.setattr(intersect, "common", fewer)
    ended = run_in_memory(plan(alignment="intersect"), {"A": A, "B": B})
    assert {ended.result(party).n for party in "CBA"} == {105}


# ---- a data party that does not send a set


@pytest.mark.parametrize(
    "change", [lambda ids: ids[:16] + ids[:-16], lambda ids: ids[16:32] + ids[:16] + ids[32:]]
)
def test_lists_that_repeat_or_are_out_of_order_are_refused(change: Any) -> None:
    hook = partial(on_values, kind="PSEUDONYMS", change=lambda values: {"ids": change(values["ids"])})
    ended = run_in_memory(plan(alignment="intersect"), {"A": A, "B": B}, {"A": hook})
    assert isinstance(ended.errors["C"], ProtocolViolation)
    assert "A (source) sent pseudonyms that are not strictly ascending" in str(ended.errors["C"])
    assert not ended.results


@pytest.mark.parametrize(
    "changes", [{"ids": 0}, {"ids": -1}, {"ids": 10**9}, {"min_rows": -1}, {"max_unmatched": np.nan}]
)
def test_offers_that_cannot_be_are_refused(changes: Any) -> None:
    def changed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**values, **{name: np.array([value]) for name, value in changes.items()}}

    hook = partial(on_values, kind="OFFER", change=changed)
    ended = run_in_memory(plan(alignment="intersect"), {"A": A, "B": B}, {"B": hook})
    assert isinstance(ended.errors["C"], ProtocolViolation)
    assert not ended.results

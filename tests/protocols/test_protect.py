"""What owners say of their columns, what of it is believed, and what a policy makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.data.ranks import Ranks, rank_columns
from mpc_spearman.errors import PolicyError, ProtocolViolation
from mpc_spearman.levels.level import Numbers
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Roster
from mpc_spearman.protocols.describe import receive_description
from mpc_spearman.protocols.protect import count_columns
from mpc_spearman.protocols.publish import publish
from mpc_spearman.run import Run
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.meter import Meter
from support.plans import plan

STRENGTHS: dict[str, Any] = {"reveal": "strengths"}


class Peers:
    """Links whose peers say what they are told to say; what is sent is kept."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said, self.sent = said, []

    def receive(self, peer: Party, kind: Kind, **_: Any) -> Mapping[str, Any]:
        return self.said

    def send(self, peer: Party, kind: Kind, values: Mapping[str, Any], **_: Any) -> None:
        self.sent.append((peer.name, kind, dict(values)))


def run_of(
    me: str, said: Mapping[str, Any], *sources: str, overrides: tuple[str, ...] = (), **settings: Any
) -> Any:
    chosen = load_plan(plan(*sources, **settings).model_dump(mode="json"), overrides)
    run = Run(chosen, Roster.of(chosen, me), pytest.fail, Meter(), lambda *_: None, print)
    run.links = Peers(said)
    return run


def shapes_of(run: Any, *features: int) -> Shapes:
    return Shapes(9, dict(zip(run.roster.sources, features, strict=True)), 2)


#: Two columns that vary and one that does not.
RANKS = rank_columns([np.arange(9), np.arange(9) % 3, np.zeros(9)])


def count(run: Any, shapes: Shapes, ranks: Ranks | None = None) -> Shapes:
    table: Any = None if ranks is None else SimpleNamespace(ids=[str(i) for i in range(ranks.n)])
    return count_columns(run, shapes, table, ranks)[0]


def told(defined: int, distinct: int, lasting: int | None = None) -> dict[str, Any]:
    counts = {"defined": defined, "distinct": distinct, "lasting": distinct if lasting is None else lasting}
    return {name: np.array([value]) for name, value in counts.items()} | {"inputs": bytes(32)}


@pytest.mark.parametrize("lasting", [-1, 3])
def test_no_more_columns_can_last_in_a_mean_than_are_distinct(lasting):
    run = run_of("C", told(3, 2, lasting), "A1", "A2", **STRENGTHS)
    with pytest.raises(ProtocolViolation, match=rf"2 of them distinct and {lasting} of these left in a mean"):
        count(run, Shapes(9, dict.fromkeys(run.roster.sources, 3), 3))


@pytest.mark.parametrize("leverage", [-0.1, 1.5, np.nan])
def test_a_leverage_that_cannot_be_is_refused(leverage):
    run = run_of("B", told(3, 3) | {"leverage": np.array([leverage])}, "A1", reveal="coefficients")
    with pytest.raises(ProtocolViolation, match="says that a leverage of its columns is"):
        count(run, Shapes(9, {run.roster.sources[0]: 3}, 3), RANKS)


@pytest.mark.parametrize(
    ("defined", "distinct", "believed"),
    [
        (3, 3, True),
        (3, 1, True),
        (1, 1, True),
        (0, 0, True),
        (4, 1, False),
        (2, 3, False),
        (2, 0, False),
        (0, 1, False),
        (-1, -1, False),
        (2, -1, False),
    ],
)
def test_counts_that_cannot_be_are_refused_by_every_party(defined, distinct, believed):
    for me, ranks in (("C", None), ("A1", RANKS), ("B", RANKS)):
        run = run_of(me, told(defined, distinct), "A1", "A2", **STRENGTHS)
        shapes = Shapes(9, dict.fromkeys(run.roster.sources, 3), 3)
        if believed:
            assert count(run, shapes, ranks).defined[run.roster.sources[1]] == defined
        else:
            with pytest.raises(
                ProtocolViolation,
                match=rf"says that {defined} of its 3 features .* {distinct} of them distinct",
            ):
                count(run, shapes, ranks)


def test_everyone_is_told_by_the_owners_and_the_coordinator_only_hears():
    ranks = rank_columns([np.arange(9), np.arange(9)[::-1], np.arange(9) % 3, np.zeros(9)])
    for level in ("strengths", "coefficients", "differences"):
        run = run_of("A1", told(2, 1), "A1", "A2", reveal=level)
        shapes = count(run, Shapes(9, dict(zip(run.roster.sources, (4, 2), strict=True)), 5), ranks)
        sent = {name: values for name, kind, values in run.links.sent if kind is Kind.COLUMNS}
        assert list(sent) == ["C", "B", "A2"]
        assert all((values["defined"], values["distinct"]) == ([3], [2]) for values in sent.values())
        # By what its input is known again is for the data parties, and drawn anew where there is no ledger.
        assert "inputs" not in sent["C"]
        assert all(values["lasting"] == [1] for values in sent.values())
        # Leverage is for whom it concerns: the target, where a source has coefficients with its columns.
        concerned = run.plan.results.sources == "coefficients"
        assert [name for name, values in sent.items() if "leverage" in values] == ["B"] * concerned
        assert sent["B"]["inputs"] == sent["A2"]["inputs"]
        again = run_of("A1", told(2, 1), "A1", "A2", reveal=level)
        count(again, Shapes(9, dict(zip(run.roster.sources, (4, 2), strict=True)), 5), ranks)
        assert again.links.sent[1][2]["inputs"] != sent["B"]["inputs"]
        assert (shapes.defined_sources, shapes.distinct_sources, shapes.constant_targets) == (5, 2, 3)
        coordinator = run_of("C", told(2, 1), "A1", "A2", reveal=level)
        heard = count(coordinator, shapes_of(coordinator, 4, 2))
        assert coordinator.links.sent == []
        assert (heard.defined_sources, heard.distinct_sources, heard.constant_targets) == (4, 2, 0)


@pytest.mark.parametrize("me", ["A1", "B"])
def test_a_single_distinct_column_is_for_the_owners_policy(me):
    """Several columns that are equal or reversed are one: their mean is its coefficient, or a part of it."""
    for level in ("strengths", "coefficients"):
        party = "target" if me == "B" else "sources.A1"
        policy = (f"parties.{party}.policy={{max_reveal: {level}, min_columns: 2}}",)
        run = run_of(me, told(3, 1) if me == "B" else told(0, 0), "A1", overrides=policy, **STRENGTHS)
        shapes = Shapes(9, {run.roster.sources[0]: 3}, 3)
        one = rank_columns([np.arange(9), -np.arange(9), np.arange(9)])
        if level == "strengths":
            with pytest.raises(PolicyError, match=f"party {me} does not allow this plan"):
                count(run, shapes, one)
        else:
            assert count(run, shapes, one).distinct_sources == 1


#: Skewness of a column of which 3 of 9 rows have the upper of two values.
FLAG = (9 - 2 * 3) / math.sqrt(3 * 6)


@pytest.mark.parametrize("term", [-2, 241, 242, 3])
def test_a_tie_term_that_so_many_rows_cannot_have_is_refused_when_it_arrives(term):
    said = {"names": ["a", "b"], "ties": np.array([term, 0])}  # N = 240
    run = run_of("C", said, "A1", reveal="coefficients")
    (source,) = run.roster.sources
    shapes = replace(shapes_of(run, 2), defined={source: 2}, distinct={source: 2})
    with pytest.raises(ProtocolViolation, match=r"A1 \(source\) sent a tie term that 9 rows cannot have"):
        receive_description(run, source, shapes)


@pytest.mark.parametrize(
    ("untied", "flag", "length"),
    [
        *((g, FLAG, 0.5) for g in (math.nan, 3.1, -math.inf)),
        *((0.0, g, 0.5) for g in (math.nan, 0.5, 3.1, math.inf)),
        *((0.0, FLAG, length) for length in (-0.1, 1.1, math.nan)),
    ],
)
def test_a_skewness_or_a_length_that_so_many_rows_cannot_have_is_refused(untied, flag, length):
    """Nine rows: a column without ties, and one of two values, of which three rows have the upper."""
    said = {
        "names": ["a", "b"],
        "ties": np.array([0, 78]),  # 240 - 9 * 3 * 6
        "two_values": np.array([False, True]),
        "skewness": np.array([untied, flag]),
        "length": np.array([length]),
    }
    run = run_of("C", said, "A1", reveal="coefficients")
    (source,) = run.roster.sources
    shapes = replace(shapes_of(run, 2), defined={source: 2}, distinct={source: 2})
    with pytest.raises(ProtocolViolation, match="a skewness or a length that 9 rows cannot have"):
        receive_description(run, source, shapes)
    run.links.said |= {"skewness": np.array([0.0, FLAG]), "length": np.array([0.5])}
    assert receive_description(run, source, shapes).skewness == (0.0, FLAG)


@pytest.mark.parametrize("level", ["coefficients", "strengths"])
@pytest.mark.parametrize("defined", [0, 1, 2])
def test_constant_columns_must_be_as_many_as_their_owner_said(level, defined):
    run = run_of("C", {}, "A1", reveal=level)
    flags = {"ties": np.array([240, 0]), "two_values": np.array([False, False]), "skewness": np.zeros(2)}
    if level == "strengths":
        flags = {"constant": np.array([True, False])}
    run.links.said = {"names": ["a", "b"], **flags}
    shapes = replace(shapes_of(run, 2), defined={run.roster.target: defined})
    if defined == 1:
        assert receive_description(run, run.roster.target, shapes).constant == (True, False)
    else:
        with pytest.raises(ProtocolViolation, match=rf"B \(target\) said that {defined} of its features"):
            receive_description(run, run.roster.target, shapes)


def test_each_source_has_its_rows_of_the_matrix():
    run = run_of("C", {}, "A1", "A2", "A3", results={"sources": "coefficients"})
    shapes = shapes_of(run, 3, 1, 2)
    shapes = replace(shapes, lasting=shapes.features)
    matrix = np.arange(12.0).reshape(6, 2) / 12
    numbers: Numbers = {
        "coefficients": matrix,
        "strengths": matrix.mean(axis=0),
        "counts": np.array([6, 6]),
        "errors": np.array([0.1, 0.1]),
        "positions": np.array([2, 1]),
        "source_ties": np.arange(6),
        "target_ties": np.arange(2),
        "source_skewness": np.zeros(6),
        "target_skewness": np.zeros(2),
    }
    publish(run, numbers, list("abcdef"), list("pq"), shapes)
    sent = {name: values for name, _, values in run.links.sent}
    parts = [sent[name]["coefficients"] for name in ("A1", "A2", "A3")]
    assert [len(part) for part in parts] == [3, 1, 2]
    np.testing.assert_array_equal(np.vstack(parts), matrix)
    np.testing.assert_array_equal(sent["B"]["coefficients"], matrix)
    np.testing.assert_array_equal(sent["B"]["source_ties"], np.arange(6))
    assert all(sent[name]["strengths"].tolist() == numbers["strengths"].tolist() for name in sent)
    assert shapes.m_sources == 6

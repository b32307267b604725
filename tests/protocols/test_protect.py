"""What owners state about their columns, which statements are refused, and how policies apply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.levels import level_of
from mpc_spearman.levels.level import Numbers
from mpc_spearman.levels.shapes import Description, Descriptions, Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.scales import NOTHING, Scales
from mpc_spearman.protocols.describe import receive_description
from mpc_spearman.protocols.protect import state, too_few_rows
from mpc_spearman.protocols.publish import publish
from mpc_spearman.run import Run
from mpc_spearman.wire.kinds import Kind
from support.plans import plan


class Peers:
    """Links whose peers say what they are told to say; what is sent is kept."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.said, self.sent = values, []

    def receive(self, peer: Party, kind: Kind, **_: Any) -> Mapping[str, Any]:
        return self.said

    def send(self, peer: Party, kind: Kind, values: Mapping[str, Any], **_: Any) -> None:
        self.sent.append((peer.name, kind, dict(values)))


def run_of(
    me: str, values: Mapping[str, Any], *sources: str, overrides: tuple[str, ...] = (), **settings: Any
) -> Any:
    chosen = load_plan(plan(*sources, **settings).model_dump(mode="json"), overrides)
    run: Any = Run(chosen, chosen.roster(me), None, say=print)  # type: ignore[arg-type]
    run.links = Peers(values)
    return run


def shapes_of(run: Any, *features: int) -> Shapes:
    return Shapes(9, dict(zip(run.roster.sources, features, strict=True)), 2)


#: Two columns that vary and one that does not.
RANKS = rank_columns([np.arange(9), np.arange(9) % 3, np.zeros(9)])


def stated(run: Any, shapes: Shapes, ranks: Ranks | None = None) -> Shapes:
    if ranks is None:
        return state(run, shapes)
    level, role = level_of(run.plan), run.roster.me.role
    statements = level.statements(ranks, role, np.ones(ranks.m))
    factors = level.factors(ranks, role, shapes, statements, np.ones(ranks.m))
    own = level.contribution(ranks, role, shapes, statements, factors)
    return state(run, shapes, statements, own)


def statement(defined: int, ranges: Sequence[int] = (), diameter: int = 0, **more: int) -> dict[str, Any]:
    numbers = {
        "defined": [defined],
        "ranges": ranges,
        "diameter": [diameter],
        **{k: [v] for k, v in more.items()},
    }
    return {name: np.array(values) for name, values in numbers.items()}


@pytest.mark.parametrize(("defined", "believed"), [(3, True), (0, True), (4, False), (-1, False)])
@pytest.mark.parametrize("me", ["C", "A1", "B"])
def test_counts_that_cannot_be_are_refused_by_every_party(me, defined, believed):
    run = run_of(me, {"defined": np.array([defined])}, "A1", "A2", reveal="strengths")
    shapes, ranks = Shapes(9, dict.fromkeys(run.roster.sources, 3), 3), None if me == "C" else RANKS
    if believed:
        assert stated(run, shapes, ranks).defined[run.roster.sources[1]] == defined
    else:
        with pytest.raises(ProtocolViolation, match=rf"says that {defined} of its 3 features"):
            stated(run, shapes, ranks)


def test_owners_state_scales_and_the_coordinator_only_receives_them():
    noisy = {"results": {"precision": "statistical"}}
    for level, receivers in (("strengths", ["C", "B", "A2"]), ("coefficients", ["C"])):
        run = run_of(
            "A1", statement(2, [0, 0] if level == "coefficients" else [0]), "A1", "A2", reveal=level, **noisy
        )
        shapes = stated(run, Shapes(9, dict(zip(run.roster.sources, (3, 2), strict=True)), 2), RANKS)
        sent = {name: values for name, kind, values in run.links.sent if kind is Kind.COLUMNS}
        assert list(sent) == ["C", "B", "A2"]
        assert [name for name, values in sent.items() if "ranges" in values] == receivers
        assert all(values["defined"] == [2] for values in sent.values())
        assert ("mean_range" in sent["C"]) == (level == "coefficients")
        # two vectors at `coefficients`, of which the constant one has no range; their sum at `strengths`
        assert len(sent["C"]["ranges"]) == (3 if level == "coefficients" else 1)
        assert shapes.defined_sources == 4
        exact = run_of("A1", statement(2), "A1", "A2", reveal=level)
        stated(exact, Shapes(9, dict(zip(exact.roster.sources, (3, 2), strict=True)), 2), RANKS)
        assert [list(values) for _, _, values in exact.links.sent] == [["defined"]] * 3


@pytest.mark.parametrize(
    ("ranges", "diameter", "text"),
    [
        ([-12, 0], 0, "range of 0.127 units, where 0.577 is"),
        ([0, -4], 0, "range of"),
        ([0, 0], -9, r"diameter of 2\^\(-9/4\), where 0.354 to 2 are"),
        ([0, 0], 9, "diameter of"),
    ],
)
def test_scales_that_no_columns_have_are_refused_when_they_arrive(ranges, diameter, text):
    noisy = {"results": {"precision": "statistical"}}
    run = run_of("C", statement(2, ranges, diameter, mean_range=0), "A1", reveal="coefficients", **noisy)
    with pytest.raises(ProtocolViolation, match=rf"states a {text}"):
        stated(run, Shapes(9, {run.roster.sources[0]: 2}, 2))


def test_at_ranking_a_constant_column_states_the_range_of_one_without_ties():
    run = run_of("B", statement(2, [0]), "A1", reveal="ranking", results={"precision": "statistical"})
    stated(run, Shapes(9, {run.roster.sources[0]: 2}, 3), RANKS)
    ranges = next(values["ranges"] for name, _, values in run.links.sent if name == "A1").tolist()
    assert ranges[2] == ranges[0]
    assert NOTHING not in ranges


def test_too_few_rows_are_said_before_anything_is_sent():
    rng = np.random.default_rng(1)
    for n, many in ((100, True), (100_000, False)):
        chosen = plan(cautious=True, results={"target": "coefficients"})
        ranks = rank_columns(list(rng.random((10, n))))
        stated = level_of(chosen).statements(ranks, Role.SOURCE, np.ones(10))
        sentences = too_few_rows(chosen, stated, Role.SOURCE, Shapes(n, {}, 10))
        assert (sentences != []) == many
        assert all(
            "sampling error. Grant strengths, use fewer columns, or agree" in text for text in sentences
        )


def described(values: Mapping[str, Any], **settings: Any) -> Any:
    """What the coordinator makes of how a source describes its two columns of nine rows."""
    run = run_of("C", values, "A1", **settings)
    return receive_description(run, run.roster.sources[0], shapes_of(run, 2))


#: Skewness of a column of which 3 of 9 rows have the upper of two values.
FLAG = (9 - 2 * 3) / math.sqrt(3 * 6)


@pytest.mark.parametrize("term", [-2, 241, 242, 3])
def test_a_tie_term_impossible_for_the_rows_is_refused(term):
    description = {"names": ["a", "b"], "ties": np.array([term, 0])}  # N = 240
    with pytest.raises(
        ProtocolViolation, match=r"A1 \(source\) sent a field 'ties' that no columns of 9 rows"
    ):
        described(description, reveal="coefficients")


@pytest.mark.parametrize(
    ("untied", "flag", "length"),
    [
        *((g, FLAG, 0.5) for g in (math.nan, 3.1, -math.inf)),
        *((0.0, g, 0.5) for g in (math.nan, 0.5, 3.1, math.inf)),
        *((0.0, FLAG, length) for length in (-0.1, 1.1, math.nan)),
    ],
)
def test_a_skewness_or_length_impossible_for_the_rows_is_refused(untied, flag, length):
    """Nine rows: a column without ties, and one of two values, of which three rows have the upper."""
    values = {
        "names": ["a", "b"],
        "ties": np.array([0, 78]),  # 240 - 9 * 3 * 6
        "two_values": np.array([False, True]),
        "skewness": np.array([untied, flag]),
        "length": np.array([length]),
    }
    with pytest.raises(ProtocolViolation, match=r"field '(skewness|length)'"):
        described(values, reveal="coefficients")
    values |= {"skewness": np.array([0.0, FLAG]), "length": np.array([0.5])}
    assert described(values, reveal="coefficients").skewness == (0.0, FLAG)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lengths", 1e-320),
        ("lengths", math.nan),
        ("stated_skewness", 1e308),
        ("stated_skewness", math.nan),
    ],
)
def test_statements_that_no_table_gives_are_refused_when_they_arrive(name, value):
    values = {"names": ["a"], "ties": np.array([0]), "two_values": np.array([False]), "skewness": np.zeros(1)}
    values |= {
        "stated_ties": np.zeros(1, dtype=np.int64),
        "stated_skewness": np.zeros(1),
        "gaps": np.zeros(1),
    }
    values |= {"lengths": np.ones(1), "factors": np.ones(1), "sum_factor": np.ones(1), "length": np.ones(1)}
    more = {"reveal": "coefficients", "proofs": True, "cautious": True}
    assert described(values, **more).lengths == (1.0,)
    with pytest.raises(ProtocolViolation, match=f"field {name!r}"):
        described(values | {name: np.array([value])}, **more)


@pytest.mark.parametrize("precision", ["exact", "statistical"])
def test_each_source_gets_its_rows_of_one_draw(precision):
    run = run_of("C", {}, "A1", "A2", "A3", results={"sources": "coefficients", "precision": precision})
    shapes = shapes_of(run, 3, 1, 2)
    scales = {party: Scales(np.ones(count)) for party, count in shapes.features.items()}
    shapes = replace(shapes, scales=scales | {run.roster.target: Scales(np.ones(2))})
    matrix = np.arange(12.0).reshape(6, 2) / 12
    numbers: Numbers = {
        "coefficients": matrix,
        "ratios": matrix,
        "strengths": matrix.mean(axis=0),
        "counts": np.array([6, 6]),
        "errors": np.array([0.1, 0.1]),
        "positions": np.array([2, 1]),
        "source_ties": np.arange(6),
        "target_ties": np.arange(2),
        "source_gaps": np.zeros(6),
        "target_gaps": np.zeros(2),
        "source_skewness": np.zeros(6),
        "target_skewness": np.zeros(2),
    }
    described = [
        Description(
            names=tuple(names),
            ties=(0,) * len(names),
            stated_ties=tuple(range(first, first + len(names))),
            stated_skewness=(0.0,) * len(names),
            factors=(1.0,) * len(names),
        )
        for names, first in (("abc", 0), ("d", 3), ("ef", 4), ("pq", 0))
    ]
    publish(run, numbers, replace(shapes, descriptions=Descriptions(tuple(described[:3]), described[3])))
    sent = {name: values for name, _, values in run.links.sent}
    for part in ("coefficients", "noise") if precision == "statistical" else ("coefficients",):
        parts = [sent[name][part] for name in ("A1", "A2", "A3")]
        assert [len(rows) for rows in parts] == [3, 1, 2]
        np.testing.assert_array_equal(np.vstack(parts), sent["B"][part])
    assert (sent["B"]["coefficients"] == matrix).all() == (precision == "exact")
    np.testing.assert_array_equal(sent["B"]["source_ties"], np.arange(6))
    assert len({tuple(sent[name]["strengths"]) for name in sent}) == 1
    assert shapes.m_sources == 6

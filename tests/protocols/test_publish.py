"""The steps in which sizes and counts are told: what several sources' numbers must be to be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.errors import PolicyError, ProtocolViolation
from mpc_spearman.parties import Party, Roster
from mpc_spearman.protocols.conclude import Conclusion, Description
from mpc_spearman.protocols.publish import receive_description, receive_total, tell_total
from mpc_spearman.protocols.steps import Run, Shapes
from mpc_spearman.wire.disclosure import Kind
from mpc_spearman.wire.meter import Meter
from support.plans import plan

STRENGTHS: dict[str, Any] = {"reveal": "strengths", "estimator": "tie_corrected"}


class Peers:
    """Links whose peers say what they are told to say; what is sent is kept."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said, self.sent = said, []

    def receive(self, peer: Party, kind: Kind, **_: Any) -> Mapping[str, Any]:
        return self.said

    def send(self, peer: Party, kind: Kind, values: Mapping[str, Any], **_: Any) -> None:
        self.sent.append((peer.name, kind, {name: value.tolist() for name, value in values.items()}))


def run_of(
    me: str, said: Mapping[str, Any], *sources: str, overrides: tuple[str, ...] = (), **settings: Any
) -> Any:
    chosen = load_plan(plan(*sources, **settings).model_dump(mode="json"), overrides)
    return Run(chosen, Roster.of(chosen, me), Peers(said), Meter(), lambda *_: None, print)


def shapes_of(run: Any, *features: int) -> Shapes:
    return Shapes(9, dict(zip(run.roster.sources, features, strict=True)), 2)


#: Two columns that vary and one that does not.
RANKS = rank_columns([np.arange(9), np.arange(9) % 3, np.zeros(9)])


@pytest.mark.parametrize(
    ("total", "believed"), [(1, False), (2, True), (4, True), (6, True), (7, False), (-1, False)]
)
def test_a_total_lies_between_a_sources_own_and_all_that_others_may_have(total, believed):
    run = run_of("A2", {"total": np.array([total])}, "A1", "A2", "A3", **STRENGTHS)
    shapes = shapes_of(run, 3, 3, 1)
    if believed:
        assert receive_total(run, RANKS, shapes) == total
    else:
        with pytest.raises(
            ProtocolViolation, match=rf"C \(coordinator\) says that {total} features .*A2 .* has 2 .* 4"
        ):
            receive_total(run, RANKS, shapes)


@pytest.mark.parametrize("settings", [STRENGTHS | {"estimator": "paper"}, STRENGTHS])
def test_nothing_is_told_where_it_is_known_or_not_needed(settings):
    sources = ("A1", "A2") if settings["estimator"] == "paper" else ("A1",)
    source, coordinator = (run_of(me, {}, *sources, **settings) for me in ("A1", "C"))
    assert receive_total(source, RANKS, shapes_of(source, *[3] * len(sources))) == 2
    tell_total(coordinator, [Description(defined=2)] * len(sources))
    assert coordinator.links.sent == []


def test_every_source_is_told_the_total():
    run = run_of("C", {}, "A1", "A2", **STRENGTHS)
    tell_total(run, [Description(defined=2), Description(defined=5)])
    assert run.links.sent == [(name, Kind.TOTAL, {"total": [7]}) for name in ("A1", "A2")]


def test_a_total_of_one_is_for_the_owners_policy():
    one = rank_columns([np.arange(9)])
    for level in ("strengths", "coefficients"):
        policy = (f"parties.sources.A1.policy.max_reveal={level}",)
        run = run_of("A1", {"total": np.array([1])}, "A1", "A2", overrides=policy, **STRENGTHS)
        if level == "strengths":
            with pytest.raises(PolicyError, match="party A1 does not allow this plan"):
                receive_total(run, one, shapes_of(run, 1, 1))
        else:
            assert receive_total(run, one, shapes_of(run, 1, 1)) == 1


@pytest.mark.parametrize("defined", [-1, 4])
def test_more_features_that_are_not_constant_than_there_are(defined):
    run = run_of("C", {"defined": np.array([defined])}, "A1", "A2", **STRENGTHS)
    with pytest.raises(ProtocolViolation, match=rf"A2 \(source\) says that {defined} of its 3 features"):
        receive_description(run, run.roster.sources[1], shapes_of(run, 5, 3))


def test_each_source_has_its_rows_of_the_matrix():
    run = run_of("C", {}, "A1", "A2", "A3")
    shapes = shapes_of(run, 3, 1, 2)
    matrix = np.arange(12.0).reshape(6, 2)
    answer = Conclusion(coefficients=matrix, pvalues=-matrix, strengths=matrix.mean(axis=0))
    parts = [answer.restricted(shapes.rows(source)) for source in run.roster.sources]
    assert [len(part.coefficients) for part in parts] == [3, 1, 2]
    np.testing.assert_array_equal(np.vstack([part.coefficients for part in parts]), matrix)
    np.testing.assert_array_equal(np.vstack([part.pvalues for part in parts]), -matrix)
    assert all(part.strengths is answer.strengths for part in parts)
    assert shapes.m_sources == 6
    only = Conclusion(strengths=matrix[0])
    assert only.restricted(slice(0, 1)) is only

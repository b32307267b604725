"""The step that protects results: owners state the scales from which the noise is computed.

The level computes the scales and draws the noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mpc_spearman.config import Plan, check_policy_columns
from mpc_spearman.engines.computation import Contribution
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.scales import Scales, Stated
from mpc_spearman.privacy.statements import Statements
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind

#: The message fields of ranges, and the fields of `Shapes` with the scales that they stand for.
_SCALES = {
    "ranges": "scales",
    "mean_range": "of_sums",
    "multiplied_ranges": "multiplied",
    "multiplied_mean_range": "multiplied_sums",
}
#: The message fields of ranges that a diameter goes with, and its field.
_DIAMETERS = {"ranges": "diameter", "multiplied_ranges": "multiplied_diameter"}


@step("protect")
def state(
    run: Run, shapes: Shapes, stated: Statements | None = None, contribution: Contribution | None = None
) -> Shapes:
    """Exchange the owners' statements about their columns; return the shapes with them.

    The noise is computed from these statements. The coordinator, which has no columns, only receives.
    `ProtocolViolation` if an owner states something impossible, `PolicyError` if strengths would be over too
    few columns for this owner's policy.
    """
    me, terms, level = run.roster.me, run.plan.terms, level_of(run.plan)
    statements = dict[Party, dict[str, Any]]()
    if stated is not None and contribution is not None:
        statements[me] = _own_statements(run, shapes, stated, contribution)
        for peer in run.roster.peers:
            fields = VIEW.fields(terms, Kind.COLUMNS, me.role, peer.role)
            if fields is not None:
                values = {field.name: statements[me][field.name] for field in fields}
                run.links.send(peer, Kind.COLUMNS, values, sizes=shapes.sizes(me))
    for owner in (run.roster.target, *run.roster.sources):
        if owner != me and VIEW.fields(terms, Kind.COLUMNS, owner.role, me.role):
            statements[owner] = run.links.receive(owner, Kind.COLUMNS, sizes=shapes.sizes(owner))
    defined = {
        owner: int(values["defined"][0]) for owner, values in statements.items() if "defined" in values
    }
    for owner, count in defined.items():
        features = shapes.features.get(owner, shapes.m_target)
        if not 0 <= count <= features:
            raise ProtocolViolation(f"{owner} says that {count} of its {features} features are not constant")
    shapes = replace(shapes, defined=defined)
    scales_of = {owner: _scales(run, owner, values, shapes) for owner, values in statements.items()}
    fields_of_shapes: dict[str, Any] = {
        field: {owner: scales[name] for owner, scales in scales_of.items() if name in scales}
        for name, field in _SCALES.items()
    }
    kurtosis = {owner: values["kurtosis"] for owner, values in statements.items() if "kurtosis" in values}
    shapes = replace(shapes, kurtosis=kurtosis, **fields_of_shapes)
    check_policy_columns(run.plan, me.name, level.behind(shapes), level.counts)
    level.admit(shapes)
    return shapes


def _own_statements(
    run: Run, shapes: Shapes, stated: Statements, contribution: Contribution
) -> dict[str, Any]:
    """Return this party's statements by field of the message."""
    me, level = run.roster.me, level_of(run.plan)
    statements = {"defined": np.array([stated.defined])}
    if not level.noisy:
        return statements | level.weights(contribution, me.role, shapes)
    scales = {**level.sent_scales(stated, me.role), **level.multiplied_scales(contribution, me, shapes)}
    for name, its_scales in scales.items():
        statements[name] = np.array(its_scales.ranges)
        if name in _DIAMETERS:
            statements[_DIAMETERS[name]] = np.array([its_scales.diameter])
    return statements


def _scales(run: Run, owner: Party, statements: dict[str, Any], shapes: Shapes) -> dict[str, Scales]:
    """Return the scales that an owner states; refuse impossibly small ones: the noise would be too small."""
    scales_of = dict[str, Scales]()
    for name in _SCALES:
        if name in statements:
            diameter = statements.get(_DIAMETERS.get(name, ""))
            stated = Stated(tuple(statements[name].tolist()), 0 if diameter is None else int(diameter[0]))
            exact = name == "ranges" and diameter is not None
            of_length_1 = exact and run.plan.estimator == "tie_corrected"
            features, defined = shapes.features.get(owner, shapes.m_target), shapes.defined.get(owner, 0)
            grid = level_of(run.plan).grid(owner.role, name, shapes.n, features, defined)
            problem = grid.problem(stated, of_length_1=of_length_1)
            if problem:
                raise ProtocolViolation(f"{owner} states {problem}")
            scales_of[name] = grid.scales(stated)
    return scales_of


@step("protect")
def advise(run: Run, stated: Statements, shapes: Shapes) -> None:
    """Warn if there are too few rows for the noise that follows from all owners' scales."""
    for sentence in too_few_rows(run.plan, stated, run.roster.me.role, shapes):
        run.say(sentence)


def too_few_rows(plan: Plan, stated: Statements, role: Role, shapes: Shapes) -> list[str]:
    """Return a warning if there are too few rows for the noise in numbers about this party's columns."""
    level = level_of(plan)
    why = level.foreseen(stated, role, shapes).too_few if level.noisy else ""
    return [f"too few rows for these columns: {why}"] if why else []

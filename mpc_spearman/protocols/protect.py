"""The step in which owners state the scales from which the noise is computed.

The level computes the scales and draws the noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

#: Message fields of ranges: the field of their diameter, if they have one, and their scales' in `Shapes`.
_RANGES = {
    "ranges": ("diameter", "scales"),
    "mean_range": (None, "of_sums"),
    "multiplied_ranges": ("multiplied_diameter", "multiplied"),
    "multiplied_mean_range": (None, "multiplied_sums"),
}


@step("protect")
def check_columns(run: Run, shapes: Shapes, stated: Statements) -> None:
    """Refuse a run that this owner's columns or its policy do not allow, before it is charged.

    The other owners state later how many of their columns are constant; here none of them is. Raises
    `PolicyError` and `BoundError`.
    """
    me, level = run.roster.me, level_of(run.plan)
    level.check_columns_of(me, stated.defined, shapes)
    at_most = {**shapes.features, run.roster.target: shapes.m_target, me: stated.defined}
    check_policy_columns(
        run.plan, me.name, level.averaged_columns(replace(shapes, defined=at_most)), level.counts
    )


@step("protect")
def state(
    run: Run, shapes: Shapes, stated: Statements | None = None, contribution: Contribution | None = None
) -> Shapes:
    """Exchange the owners' statements about their columns; return the shapes with them.

    The noise is computed from these statements. The coordinator, which has no columns, only receives. A data
    party is warned if there are too few rows for this noise. `ProtocolViolation` if an owner states something
    impossible, `PolicyError` if strengths would be over too few columns for this owner's policy.
    """
    me, terms, level = run.roster.me, run.plan.terms, level_of(run.plan)
    statements = dict[Party, Mapping[str, Any]]()
    if stated is not None and contribution is not None:
        statements[me] = _fields(run, shapes, stated, contribution)
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
        features = shapes.features_of(owner)
        if not 0 <= count <= features:
            raise ProtocolViolation(f"{owner} says that {count} of its {features} features are not constant")
    shapes = replace(shapes, defined=defined)
    kurtosis = {owner: values["kurtosis"] for owner, values in statements.items() if "kurtosis" in values}
    scales: dict[str, Any] = {
        of_shapes: {
            owner: _scales(run, owner, name, values, shapes)
            for owner, values in statements.items()
            if name in values
        }
        for name, (_, of_shapes) in _RANGES.items()
    }
    shapes = replace(shapes, kurtosis=kurtosis, **scales)
    check_policy_columns(run.plan, me.name, level.averaged_columns(shapes), level.counts)
    level.check_statements(shapes)
    for warning in [] if stated is None else too_few_rows(run.plan, stated, me.role, shapes):
        run.say(warning)
    return shapes


def _fields(
    run: Run, shapes: Shapes, stated: Statements, contribution: Contribution
) -> Mapping[str, NDArray[Any]]:
    """Return this party's statements, by the names of the message's fields."""
    me, level = run.roster.me, level_of(run.plan)
    fields: dict[str, NDArray[Any]] = {"defined": np.array([stated.defined])}
    if not level.noisy:
        return fields | level.statements_for_tests(contribution, me.role, shapes)
    scales = {**level.stated_scales(stated, me.role), **level.multiplied_scales(contribution, me, shapes)}
    for name, stated_scales in scales.items():
        fields[name] = np.array(stated_scales.ranges)
        if diameter := _RANGES[name][0]:
            fields[diameter] = np.array([stated_scales.diameter])
    return fields


def _scales(run: Run, owner: Party, name: str, statements: Mapping[str, Any], shapes: Shapes) -> Scales:
    """Return the scales that an owner states in field `name`.

    `ProtocolViolation` if they are impossibly small: the noise would be too small.
    """
    diameter = statements.get(_RANGES[name][0] or "")
    stated = Stated(tuple(statements[name].tolist()), 0 if diameter is None else int(diameter[0]))
    of_length_1 = name == "ranges" and diameter is not None and run.plan.estimator == "tie_corrected"
    features, defined = shapes.features_of(owner), shapes.defined.get(owner, 0)
    grid = level_of(run.plan).grid(owner.role, name, shapes.n, features, defined)
    if problem := grid.problem(stated, of_length_1=of_length_1):
        raise ProtocolViolation(f"{owner} states {problem}")
    return grid.scales(stated)


def too_few_rows(plan: Plan, stated: Statements, role: Role, shapes: Shapes) -> list[str]:
    """Return a warning if there are too few rows for the noise in numbers about this party's columns."""
    level = level_of(plan)
    why = level.expected_noise(stated, role, shapes).too_few if level.noisy else ""
    return [f"too few rows for these columns: {why}"] if why else []

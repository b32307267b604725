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
    """Exchange what owners state of all their columns, and from which the noise is computed.

    It comes from owners, never from the coordinator. A party without columns only receives. Returns the
    shapes with all of that. `ProtocolViolation` if an owner states something impossible, `PolicyError` if
    strengths would be over too few columns for this owner's policy.
    """
    me, terms, level = run.roster.me, run.plan.terms, level_of(run.plan)
    heard = dict[Party, dict[str, Any]]()
    if stated is not None and contribution is not None:
        heard[me] = {"defined": np.array([stated.defined])}
        if level.noisy:
            sent = {**level.sent_scales(stated, me.role), **level.multiplied_scales(contribution, me, shapes)}
            for name, scales in sent.items():
                heard[me][name] = np.array(scales.ranges)
                if name in _DIAMETERS:
                    heard[me][_DIAMETERS[name]] = np.array([scales.diameter])
        else:
            heard[me] |= level.weights(contribution, me.role, shapes)
        for peer in run.roster.peers:
            fields = VIEW.fields(terms, Kind.COLUMNS, me.role, peer.role)
            if fields is not None:
                said = {field.name: heard[me][field.name] for field in fields}
                run.links.send(peer, Kind.COLUMNS, said, sizes=shapes.sizes(me))
    for owner in (run.roster.target, *run.roster.sources):
        if owner != me and VIEW.fields(terms, Kind.COLUMNS, owner.role, me.role):
            heard[owner] = run.links.receive(owner, Kind.COLUMNS, sizes=shapes.sizes(owner))
    defined = {owner: int(said["defined"][0]) for owner, said in heard.items() if "defined" in said}
    for owner, count in defined.items():
        features = shapes.features.get(owner, shapes.m_target)
        if not 0 <= count <= features:
            raise ProtocolViolation(f"{owner} says that {count} of its {features} features are not constant")
    shapes = replace(shapes, defined=defined)
    scales_of = {owner: _scales(run, owner, said, shapes) for owner, said in heard.items()}
    fields_of_shapes: dict[str, Any] = {
        field: {owner: scales[name] for owner, scales in scales_of.items() if name in scales}
        for name, field in _SCALES.items()
    }
    kurtosis = {owner: said["kurtosis"] for owner, said in heard.items() if "kurtosis" in said}
    shapes = replace(shapes, kurtosis=kurtosis, **fields_of_shapes)
    check_policy_columns(run.plan, me.name, level.behind(shapes), level.counts)
    level.admit(shapes)
    return shapes


def _scales(run: Run, owner: Party, heard: dict[str, Any], shapes: Shapes) -> dict[str, Scales]:
    """Check what an owner states: an impossibly small scale would make too little noise."""
    scales_of = dict[str, Scales]()
    for name in _SCALES:
        if name in heard:
            diameter = heard.get(_DIAMETERS.get(name, ""))
            stated = Stated(tuple(heard[name].tolist()), 0 if diameter is None else int(diameter[0]))
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
    """Warn if there are too few rows for the noise, as all owners' scales have it."""
    for sentence in too_few_rows(run.plan, stated, run.roster.me.role, shapes):
        run.say(sentence)


def too_few_rows(plan: Plan, stated: Statements, role: Role, shapes: Shapes) -> list[str]:
    """Return a warning if there are too few rows for the noise about one's own columns."""
    level = level_of(plan)
    why = level.foreseen(stated, role, shapes).too_few if level.noisy else ""
    return [f"too few rows for these columns: {why}"] if why else []

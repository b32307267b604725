"""The steps of the private computation: an engine computes what the plan's level asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import show
from mpc_spearman.data.tables import Table
from mpc_spearman.engines.computation import Contribution, Opening
from mpc_spearman.engines.engine import engine_for
from mpc_spearman.findings.tables import Numbers
from mpc_spearman.levels import level_of
from mpc_spearman.levels.descriptions import Descriptions
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.columns import Floats

#: A share of a column from which on its owner hears that it is weakened or left out.
_NOTICED = 0.01
_NAMED = 10


@step("rank")
def encode(
    run: Run, table: Table, ranks: Ranks, stated: Statements, shapes: Shapes
) -> tuple[Contribution, Factors]:
    """Make the vectors that a data party contributes, and keep them within what it states.

    Returns them, and by what they were multiplied for that, which only their owner is told.
    """
    level, role = level_of(run.plan), run.roster.me.role
    factors = level.factors(ranks, role, shapes, stated)
    left_out = level.left_out(ranks, role, stated)
    for said in (weaker(table.features, factors), without(table.features, left_out)):
        if said:
            run.say(said)
            run.notes.cautions.append(said)
    vectors, me = level.contribution(ranks, role, shapes, stated, factors), run.roster.me
    vectors = level.hide_inputs(vectors, factors, stated, me, shapes)
    return vectors, Factors(np.ones(ranks.m)) if level.adds_to_inputs(me) else factors


def weaker(features: Sequence[str], factors: Factors) -> str:
    """Say to an owner which of its columns are weakened, and by how much; empty if none is."""
    said = _by_column("{name} by {share:.0%}", features, 1 - factors.columns)
    if not said and 1 - factors.sum > _NOTICED:
        said = f"means over all columns by {1 - factors.sum:.0%}"
    if not said:
        return ""
    return (
        "in the rows of this run these columns vary more, for their length, than was stated of the whole "
        f"table. So their coefficients are weaker: {said}. Only this party knows. To "
        "prevent it, state larger ranges (policy.range), which means more noise"
    )


def without(features: Sequence[str], left_out: Floats) -> str:
    """Say to an owner which share of which columns a computation leaves out; empty if of none."""
    said = _by_column("{share:.0%} of {name}", features, left_out)
    if not said:
        return ""
    return (
        f"left out: {said}. These parts nearly repeat other columns, or differ in few rows, so noise that "
        "hides these rows would hide everything else. Only this party knows"
    )


def _by_column(form: str, features: Sequence[str], shares: Floats) -> str:
    """List the columns whose shares count, each in a form with its name and share."""
    noticed = [(show(name), share) for name, share in zip(features, shares.tolist(), strict=True)]
    noticed = [(name, share) for name, share in noticed if share > _NOTICED]
    more = f" and {len(noticed) - _NAMED} more" if len(noticed) > _NAMED else ""
    return ", ".join(form.format(name=name, share=share) for name, share in noticed[:_NAMED]) + more


@step("protect")
def hide(run: Run, contribution: Contribution, shapes: Shapes) -> Contribution:
    """Draw this owner's noise, if owners add it before anything is opened."""
    return replace(contribution, added=level_of(run.plan).own_noise(shapes, run.roster.me))


def contribute(run: Run, contribution: Contribution, shapes: Shapes) -> NDArray[Any] | None:
    """Do a data party's part; return what is opened to it, if anything."""
    computation = level_of(run.plan).computation(shapes)
    return engine_for(run.plan.protocol).contribute(run, computation, contribution)


def prepare(run: Run, shapes: Shapes) -> Opening:
    """Do what the coordinator can do while the others rank; return a function that opens the rest."""
    return engine_for(run.plan.protocol).prepare(run, level_of(run.plan).computation(shapes))


@step("publish")
def conclude(
    run: Run, opened: NDArray[Any] | None, descriptions: Descriptions, shapes: Shapes
) -> tuple[Numbers, list[str]]:
    """Compute the level's numbers from the opened integers, and their warnings.

    Nothing if they are opened to another party.
    """
    if opened is None:
        return {}, []
    level = level_of(run.plan)
    numbers = level.conclude(opened, descriptions, shapes)
    return numbers, level.warnings(numbers, descriptions, shapes)

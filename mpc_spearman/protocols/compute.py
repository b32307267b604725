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
from mpc_spearman.protocols.load import value_factors
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.columns import Floats

#: Its owner is warned of a column of which more than this share is missing from results.
_NOTICED = 0.01
_NAMED = 10


@step("rank")
def encode(
    run: Run, table: Table, ranks: Ranks, stated: Statements, shapes: Shapes
) -> tuple[Contribution, Factors]:
    """Return the vectors that a data party contributes, and the factors that keep them within its statements.

    The factors are for the owner alone.
    """
    level, role = level_of(run.plan), run.roster.me.role
    factors = level.factors(ranks, role, shapes, stated, value_factors(run.plan, table))
    left_out = level.left_out(ranks, role, stated)
    for warning in (weakened(table.features, factors), partly_left_out(table.features, left_out)):
        if warning:
            run.say(warning)
            run.notes.cautions.append(warning)
    vectors, me = level.contribution(ranks, role, shapes, stated, factors), run.roster.me
    vectors = level.hide_inputs(vectors, factors, stated, me, shapes)
    return vectors, Factors(np.ones(ranks.m)) if level.adds_to_inputs(me) else factors


def weakened(features: Sequence[str], factors: Factors) -> str:
    """Return a warning about the columns that the factors weaken, and by how much; empty if none."""
    columns = _list_shares("{name} by {share:.0%}", features, 1 - factors.columns)
    if not columns and 1 - factors.sum > _NOTICED:
        columns = f"means over all columns by {1 - factors.sum:.0%}"
    if not columns:
        return ""
    return (
        "in the rows of this run these columns vary more, for their length, than was stated of the whole "
        f"table. So their coefficients are weaker: {columns}. Only this party knows. To "
        "prevent it, state larger ranges (policy.range), which means more noise"
    )


def partly_left_out(features: Sequence[str], left_out: Floats) -> str:
    """Return a warning about the columns of which a share is left out; empty if none."""
    columns = _list_shares("{share:.0%} of {name}", features, left_out)
    if not columns:
        return ""
    return (
        f"left out: {columns}. These parts nearly repeat other columns, or differ in few rows, so noise that "
        "hides these rows would hide everything else. Only this party knows"
    )


def _list_shares(form: str, features: Sequence[str], shares: Floats) -> str:
    """Return a list of the columns with noticeable shares, each written as `form`."""
    pairs = zip(features, shares.tolist(), strict=True)
    noticed = [form.format(name=show(name), share=share) for name, share in pairs if share > _NOTICED]
    more = f" and {len(noticed) - _NAMED} more" if len(noticed) > _NAMED else ""
    return ", ".join(noticed[:_NAMED]) + more


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
    """Return the level's numbers, from the opened integers, and their warnings.

    Both are empty if the integers are opened to another party.
    """
    if opened is None:
        return {}, []
    level = level_of(run.plan)
    numbers = level.conclude(opened, descriptions, shapes)
    return numbers, level.warnings(numbers, descriptions, shapes)

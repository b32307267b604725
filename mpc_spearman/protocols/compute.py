"""The steps of the private computation: an engine computes what the plan's level asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import show
from mpc_spearman.data.tables import Table
from mpc_spearman.engines.computation import Contribution, Opening
from mpc_spearman.engines.engine import engine_for
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels import level_of
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
    """Return a data party's vectors, and the factors that keep these within what it states.

    The factors are for the owner alone.
    """
    level, me = level_of(run.plan), run.roster.me
    factors = level.factors(ranks, me.role, shapes, stated, value_factors(run.plan, table))
    for warning in _cautions(table.features, factors, level.left_out(ranks, me.role, stated)):
        run.say(warning)
        run.notes.cautions.append(warning)
    contribution = level.contribution(ranks, me.role, shapes, stated, factors)
    contribution = level.add_input_noise(contribution, factors, stated, me, shapes)
    return contribution, Factors(np.ones(ranks.m)) if level.adds_to_inputs(me) else factors


def _cautions(features: Sequence[str], factors: Factors, left_out: Floats) -> Iterator[str]:
    """Yield warnings about columns that factors weaken, and about columns that are partly left out."""
    weaker = _list_shares("{name} by {share:.0%}", features, 1 - factors.columns)
    if not weaker and 1 - factors.sum > _NOTICED:
        weaker = f"means over all columns by {1 - factors.sum:.0%}"
    if weaker:
        yield (
            "in the rows of this run these columns vary more, for their length, than was stated of the whole "
            f"table. So their coefficients are weaker: {weaker}. Only this party knows. To "
            "prevent it, state larger ranges (policy.range), which means more noise"
        )
    if partly := _list_shares("{share:.0%} of {name}", features, left_out):
        yield (
            f"left out: {partly}. These parts nearly repeat other columns, or differ in few rows, so noise "
            "that hides these rows would hide everything else. Only this party knows"
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
    return replace(contribution, added=level_of(run.plan).draw_noise(shapes, run.roster.me))


def contribute(run: Run, contribution: Contribution, shapes: Shapes) -> NDArray[Any] | None:
    """Do a data party's part; return what is opened to it, if anything."""
    computation = level_of(run.plan).computation(shapes)
    return engine_for(run.plan.protocol).contribute(run, computation, contribution)


def prepare(run: Run, shapes: Shapes) -> Opening:
    """Do what the coordinator can do while the others rank; return a function that opens the rest."""
    return engine_for(run.plan.protocol).prepare(run, level_of(run.plan).computation(shapes))


@step("publish")
def conclude(run: Run, opened: NDArray[Any] | None, shapes: Shapes) -> tuple[Numbers, list[str]]:
    """Return the level's numbers, from the opened integers, and their warnings.

    Both are empty if the integers are opened to another party.
    """
    if opened is None:
        return {}, []
    level = level_of(run.plan)
    numbers = level.conclude(opened, shapes)
    return numbers, level.warnings(numbers, shapes)

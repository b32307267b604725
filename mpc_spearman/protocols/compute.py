"""The steps of the private computation: an engine computes what the plan's level asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.engines.computation import Contribution
from mpc_spearman.engines.engine import Opening, engine_for
from mpc_spearman.findings.tables import Numbers
from mpc_spearman.levels import level_of
from mpc_spearman.levels.level import Descriptions
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.run import Run, step


@step("rank")
def encode(run: Run, ranks: Ranks, shapes: Shapes) -> Contribution:
    """Make the vectors that a data party contributes; its scales describe them."""
    return level_of(run.plan).contribution(ranks, run.roster.me.role, shapes)


@step("protect")
def hide(run: Run, own: Contribution, shapes: Shapes) -> Contribution:
    """Draw this owner's noise, if owners add it before anything is opened."""
    return replace(own, added=level_of(run.plan).own_noise(shapes, run.roster.me))


def contribute(run: Run, own: Contribution, shapes: Shapes) -> NDArray[Any] | None:
    """Do a data party's part; return what is opened to it, if anything."""
    computation = level_of(run.plan).computation(shapes)
    return engine_for(run.plan.protocol).contribute(run, computation, own)


def prepare(run: Run, shapes: Shapes) -> Opening:
    """Do what the coordinator can do while the others rank; return a function that opens the rest."""
    return engine_for(run.plan.protocol).prepare(run, level_of(run.plan).computation(shapes))


@step("publish")
def conclude(
    run: Run, opened: NDArray[Any] | None, told: Descriptions, shapes: Shapes
) -> tuple[Numbers, list[str]]:
    """Compute the level's numbers from the opened integers, and their warnings.

    Nothing if they are opened to another party.
    """
    if opened is None:
        return {}, []
    level = level_of(run.plan)
    numbers = level.conclude(opened, told, shapes)
    return numbers, level.warnings(numbers, told, shapes)

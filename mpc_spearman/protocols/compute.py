"""The steps of the private computation: an engine computes what the plan's level asks for."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.engines.engine import Opening, engine_for
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.levels import level_of
from mpc_spearman.levels.level import Descriptions, Numbers
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
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
    if run.team.shards > 1:
        own = _deal(run, computation, own)
    return engine_for(run.plan.protocol).contribute(run, computation, own)


def prepare(run: Run, shapes: Shapes) -> Opening:
    """Do what the coordinator can do while the others rank; return a function that opens the rest."""
    computation = level_of(run.plan).computation(shapes)
    if run.team.shards > 1:
        _share_out(run, computation)
    return engine_for(run.plan.protocol).prepare(run, computation)


def _share_out(run: Run, computation: Computation, dtype: str = "<i4", in_file: bool = False) -> None:
    """Tell the other workers of this party what is computed, and of what vectors."""
    task = {"computation": computation.plain(), "sizes": run.links.dimensions}
    run.team.tell({**task, "type": dtype, "in_file": in_file})


@step("rank")
def _deal(run: Run, computation: Computation, own: Contribution) -> Contribution:
    """Give the other workers of this party what is computed, and their rows; return one's own part."""
    vectors = own.vectors
    _share_out(run, computation, vectors.dtype.str, isinstance(vectors, np.memmap))
    if computation.operation != "differences":  # whose rows are dealt in an order that the engine draws
        vectors = run.team.deal(vectors, run.block_bytes)
    return replace(own, vectors=vectors)


def compute_part(run: Run) -> None:
    """Compute on this worker's rows what the party's first worker asks for, and give it the part."""
    with run.meter.phase("rank"):
        computation, own = _dealt(run)
    engine = engine_for(run.plan.protocol)
    if own is None:
        engine.prepare(run, computation)()
    else:
        engine.contribute(run, computation, own)


def _dealt(run: Run) -> tuple[Computation, Contribution | None]:
    """Receive what is computed, and the rows that are dealt by now; the coordinator has none."""
    task, _ = run.team.hear()
    try:
        sizes, dtype, in_file = task["sizes"], task["type"], bool(task["in_file"])
        computation = Computation.read(task["computation"], run.roster)
        if min(map(index, sizes.values()), default=0) < 0 or dtype not in ("<i4", "<i8"):
            raise ValueError
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ProtocolViolation("this party's first worker gave a task that this one cannot parse") from None
    run.links.dimensions |= sizes
    me = run.roster.me
    if me.role is Role.COORDINATOR:
        return computation, None
    m = computation.source_vectors.get(me, computation.target_vectors)
    if computation.operation == "differences":
        return computation, Contribution(np.empty((m, 0), dtype))
    return computation, Contribution(run.team.dealt(m, computation.rows, dtype, in_file=in_file))


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

"""The steps that pass something on in the clear: what the columns are like, to C, and the results, from C.

What each party may learn at which level is in the view table (:mod:`mpc_spearman.wire.disclosure`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpc_spearman.config import check_policy_columns
from mpc_spearman.data.ranks import Ranks, distinct_defined, total
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role
from mpc_spearman.protocols.conclude import Conclusion, Description
from mpc_spearman.protocols.steps import Run, Shapes, step
from mpc_spearman.wire import disclosure
from mpc_spearman.wire.disclosure import Kind


@step("describe")
def tell_columns(run: Run, shapes: Shapes, ranks: Ranks | None = None) -> Shapes:
    """Exchange how many features are not constant, and how many of these are distinct, among all parties.

    What is computed and checked with them follows from what their owners say, never from a number that the
    coordinator chose. Without `ranks`, a party only hears.

    Returns
    -------
    Shapes
        With ``defined`` and ``distinct``.

    Raises
    ------
    ProtocolViolation
        An owner says what cannot be.
    PolicyError
        The strengths would be over a single column, and this owner's policy forbids that.
    """
    counts: dict[Party, tuple[int, int]] = {}
    if ranks is not None:
        counts[run.roster.me] = (ranks.defined, distinct_defined(ranks))
        message = dict(zip(("defined", "distinct"), map(_one, counts[run.roster.me]), strict=True))
        for peer in run.roster.peers:
            run.links.send(peer, Kind.COLUMNS, message)
    for owner in (run.roster.target, *run.roster.sources):
        if owner != run.roster.me:
            values = run.links.receive(owner, Kind.COLUMNS)
            counts[owner] = (int(values["defined"][0]), int(values["distinct"][0]))
        defined, distinct = counts[owner]
        features = shapes.features.get(owner, shapes.m_target)
        if not (1 <= distinct <= defined <= features or distinct == defined == 0):
            raise ProtocolViolation(
                f"{owner} says that {defined} of its {features} features are not constant, {distinct} of "
                "them distinct"
            )
    told = replace(
        shapes,
        defined={owner: defined for owner, (defined, _) in counts.items()},
        distinct={owner: distinct for owner, (_, distinct) in counts.items()},
    )
    check_policy_columns(run.plan, run.roster.me.name, told.distinct_sources)
    return told


@step("describe")
def describe(run: Run, table: Table, ranks: Ranks) -> None:
    """Tell the coordinator what the level lets it know of the columns."""
    coordinator = run.roster.coordinator
    everything: dict[str, Callable[[], Any]] = {
        "names": lambda: table.features,
        "ties": lambda: np.array(ranks.tie_terms, dtype=np.int64),
        "constant": lambda: np.array(ranks.constant, dtype=np.uint8),
    }
    fields = disclosure.fields(run.plan.shared(), Kind.DESCRIPTION, run.roster.me.role, coordinator.role)
    if fields is not None:
        values = {field.name: everything[field.name]() for field in fields}
        run.links.send(coordinator, Kind.DESCRIPTION, values, sizes={"m_source": ranks.m})


@step("describe")
def receive_description(run: Run, owner: Party, shapes: Shapes) -> Description:
    """Receive what a data party tells of its columns at this level.

    Raises
    ------
    ProtocolViolation
        A tie term is not one that so many rows can have, or the constant columns are not as many as the
        owner said.
    """
    if disclosure.fields(run.plan.shared(), Kind.DESCRIPTION, owner.role, run.roster.me.role) is None:
        return Description()
    features = shapes.features.get(owner, shapes.m_target)
    values = run.links.receive(owner, Kind.DESCRIPTION, sizes={"m_source": features})
    ties = tuple(values["ties"].tolist()) if "ties" in values else ()
    if any(not 0 <= term <= total(shapes.n) or term % 2 for term in ties):
        raise ProtocolViolation(f"{owner} sent a tie term that {shapes.n} rows cannot have")
    constant = (
        tuple(values["constant"].tolist()) if not ties else tuple(term == total(shapes.n) for term in ties)
    )
    if len(constant) - sum(constant) != shapes.defined[owner]:
        raise ProtocolViolation(
            f"{owner} said that {shapes.defined[owner]} of its features are not constant, and now that "
            f"{len(constant) - sum(constant)} are not"
        )
    return Description(names=tuple(values["names"]), ties=ties, constant=constant)


@step("publish")
def publish(
    run: Run, answer: Conclusion, source_names: Sequence[str], target_names: Sequence[str], shapes: Shapes
) -> None:
    """Pass on to each data party what ``results`` grants it, and nothing else (paper, step 4).

    The target gets the rows of all sources; a source its own, with strengths and ranking over all.
    """
    names = {"source_names": source_names, "target_names": target_names}
    for peer in run.roster.peers:
        fields = disclosure.fields(run.plan.shared(), Kind.RESULT, run.roster.me.role, peer.role)
        if fields is None:
            continue
        theirs, sizes = answer, {}
        if peer.role is Role.SOURCE:
            theirs, sizes = answer.restricted(shapes.rows(peer)), shapes.of(peer).sizes()
        wanted = {field.name for field in fields}
        values = theirs.granted(fields) | {key: value for key, value in names.items() if key in wanted}
        run.links.send(peer, Kind.RESULT, values, sizes=sizes)


@step("publish")
def receive_result(run: Run, shapes: Shapes) -> Mapping[str, Any]:
    """Receive what the coordinator passes on, if anything."""
    coordinator, me = run.roster.coordinator, run.roster.me
    if disclosure.fields(run.plan.shared(), Kind.RESULT, coordinator.role, me.role) is None:
        return {}
    sizes = shapes.of(me).sizes() if me.role is Role.SOURCE else {}
    return run.links.receive(coordinator, Kind.RESULT, sizes=sizes)


def _one(number: int) -> np.ndarray:
    return np.array([number], dtype=np.int64)

"""The steps that pass something on in the clear: what the columns are like, to C, and the results, from C.

What each party may learn at which level is in the view table (:mod:`mpc_spearman.wire.disclosure`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mpc_spearman.config import check_policy_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role
from mpc_spearman.protocols.conclude import Conclusion, Description
from mpc_spearman.protocols.steps import Run, Shapes, step
from mpc_spearman.wire import disclosure
from mpc_spearman.wire.disclosure import Kind


@step("describe")
def describe(run: Run, table: Table, ranks: Ranks) -> None:
    """Tell the coordinator what the level lets it know of the columns."""
    coordinator = run.roster.coordinator
    everything: dict[str, Any] = {
        "names": table.features,
        "ties": np.array(ranks.tie_terms, dtype=np.int64),
        "constant": np.array(ranks.constant, dtype=np.uint8),
        "defined": np.array([ranks.defined]),
    }
    fields = disclosure.fields(run.plan.shared(), Kind.DESCRIPTION, run.roster.me.role, coordinator.role)
    if fields is not None:
        values = {field.name: everything[field.name] for field in fields}
        run.links.send(coordinator, Kind.DESCRIPTION, values, sizes={"m_source": ranks.m})


@step("describe")
def receive_description(run: Run, owner: Party, shapes: Shapes) -> Description:
    """Receive what a data party says of its columns at this level."""
    features = shapes.features.get(owner, shapes.m_target)
    if disclosure.fields(run.plan.shared(), Kind.DESCRIPTION, owner.role, run.roster.me.role) is None:
        return Description(defined=features)
    values = run.links.receive(owner, Kind.DESCRIPTION, sizes={"m_source": features})
    defined = int(values["defined"][0]) if "defined" in values else features
    if not 0 <= defined <= features:
        raise ProtocolViolation(f"{owner} says that {defined} of its {features} features are not constant")
    return Description(
        names=tuple(values.get("names", ())),
        ties=tuple(values["ties"].tolist()) if "ties" in values else (),
        constant=tuple(values["constant"].tolist()) if "constant" in values else (),
        defined=defined,
    )


@step("describe")
def tell_total(run: Run, of_sources: Sequence[Description]) -> None:
    """Tell each of several sources k of all of them, where the scale of what they share depends on it."""
    if not _total_is_told(run):
        return
    total = np.array([sum(one.defined for one in of_sources)])
    for source in run.roster.sources:
        run.links.send(source, Kind.TOTAL, {"total": total})


@step("describe")
def receive_total(run: Run, ranks: Ranks, shapes: Shapes) -> int:
    """Learn k of all sources from the coordinator; a single source has it already.

    Raises
    ------
    PolicyError
        All sources together have one column that is not constant, and this owner's policy forbids that.
    """
    if not _total_is_told(run):
        return ranks.defined
    coordinator = run.roster.coordinator
    total = int(run.links.receive(coordinator, Kind.TOTAL)["total"][0])
    others = shapes.m_sources - ranks.m
    if not ranks.defined <= total <= ranks.defined + others:
        raise ProtocolViolation(
            f"{coordinator} says that {total} features of all sources are not constant; "
            f"{run.roster.me} has {ranks.defined} such features, the other sources {others} at most"
        )
    check_policy_columns(run.plan, run.roster.me.name, total)
    return total


def _total_is_told(run: Run) -> bool:
    return disclosure.fields(run.plan.shared(), Kind.TOTAL, Role.COORDINATOR, Role.SOURCE) is not None


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

"""The step in which the coordinator passes on what ``results`` grants, as precisely as it says.

What each grant holds is in the view table (:mod:`mpc_spearman.wire.disclosure`), how precise it is in
:mod:`mpc_spearman.levels.precision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpc_spearman.levels.precision import Precision
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.protocols.conclude import Conclusion
from mpc_spearman.run import Run, step
from mpc_spearman.wire import disclosure
from mpc_spearman.wire.kinds import Kind


@step("publish")
def publish(
    run: Run, conclusion: Conclusion, source_names: Sequence[str], target_names: Sequence[str], shapes: Shapes
) -> None:
    """Pass on to each data party what ``results`` grants it, and nothing else (paper, step 4).

    The target gets the rows of all sources; a source its own, with strengths and ranking over all.
    """
    names = {"source_names": source_names, "target_names": target_names}
    precision = Precision.of(run.plan, shapes.n, shapes.distinct_sources)
    for peer in run.roster.peers:
        shared = run.plan.shared()
        fields = disclosure.fields(shared, Kind.RESULT, run.roster.me.role, peer.role)
        if fields is None:
            continue
        grant = disclosure.grant(shared, peer.role)
        theirs, sizes = precision.published(conclusion, run.plan, shapes.n, grant), {}
        if peer.role is Role.SOURCE:
            theirs, sizes = theirs.restricted(shapes.rows(peer)), shapes.of(peer).sizes()
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

"""The step in which the coordinator passes on what ``results`` grants, at the granted precision.

What each grant holds is in the view table (:mod:`mpc_spearman.levels.view`); the plan's level computes the
published numbers from the coordinator's (`mpc_spearman.levels.level.Level.published`).
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_bytes
from typing import Any, cast

from mpc_spearman.engines.computation import Contribution
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels import LEVELS, level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Role
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import encode


@step("publish")
def publish(run: Run, numbers: Numbers, shapes: Shapes) -> None:
    """Send each data party the results that ``results`` grants it, and nothing else (paper, step 4).

    The target gets the rows of all sources, a source its own rows, and results over all sources as they are.
    """
    terms, level, descriptions = run.plan.terms, level_of(run.plan), shapes.descriptions
    nonces: dict[str, bytes] = {}
    copies = dict[str, Numbers]()  # receivers of the same copy get the same noise
    for peer in run.roster.peers:
        fields = VIEW.fields(terms, Kind.RESULT, run.roster.me.role, peer.role)
        if fields is None:
            continue
        grant, nonce, source_rows = terms.granted[peer.role], token_bytes(32), None
        per_source = not LEVELS[grant].over_all_sources
        own_columns = per_source and peer.role is Role.SOURCE
        copy = grant if per_source else "over all sources"
        if own_columns and run.plan.results.strongest is not None:  # the strongest of this source's pairs
            copy, source_rows = f"{grant} of {peer.name}", shapes.rows(peer)
        if copy not in copies:
            copies[copy] = level.published(numbers, grant, shapes, source_rows)
        content: dict[str, Any] = {
            **(level.of_source(copies[copy], peer, shapes) if own_columns else copies[copy]),
            # One nonce for each message, so a source's own rows have one that no other party gets.
            "nonce": nonce if per_source else nonces.setdefault(grant, nonce),
            "source_names": descriptions.of_sources("names"),
            "target_names": descriptions.target.names,
            **descriptions.nominal,
        }
        values = {field.name: content[field.name] for field in fields}
        run.notes.granted[peer.name] = run.links.send(peer, Kind.RESULT, values, sizes=shapes.sizes(peer))


@step("publish")
def receive_result(run: Run, contribution: Contribution, shapes: Shapes) -> Mapping[str, Any]:
    """Return the numbers that the coordinator passes on, if any, after subtracting this party's own noise."""
    coordinator, me = run.roster.coordinator, run.roster.me
    fields, sizes = VIEW.fields(run.plan.terms, Kind.RESULT, coordinator.role, me.role), shapes.sizes(me)
    if fields is None:
        return {}
    values = run.links.receive(coordinator, Kind.RESULT, sizes=sizes)
    run.notes.granted[me.name] = encode(fields, {**run.links.dimensions, **sizes}, values)  # as it was sent
    return level_of(run.plan).subtract_noise(cast(Numbers, values), contribution, me, shapes)

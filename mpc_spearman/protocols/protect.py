"""The steps in which each owner makes sure that what will be published does not give its rows away.

An owner looks at its own columns alone (:mod:`mpc_spearman.privacy`) and refuses before any of its data has
left: in ``rank`` what a few rows stand apart in, here what so many published numbers would tell, and at last
what earlier runs and this one would tell together.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mpc_spearman.config import DataParty, Plan, check_policy_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.levels import level_of
from mpc_spearman.levels.precision import Precision
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.privacy.budget import Published, check_budget, held, order_bits, told
from mpc_spearman.privacy.charges import ChargedRun, Column, Fingerprint, Peer
from mpc_spearman.privacy.groups import distinct_defined, lasting_in_a_mean
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.privacy.leverage import highest_leverage, rounded_up
from mpc_spearman.run import Run, step
from mpc_spearman.wire.disclosure import grant
from mpc_spearman.wire.kinds import Kind


class _Counts(NamedTuple):
    """An owner's columns: not constant, distinct among these, and of these not cancelling out in a mean."""

    defined: int
    distinct: int
    lasting: int = 0


@dataclass(frozen=True)
class Stated:
    """What the data parties say of their inputs besides counts.

    Attributes
    ----------
    own : Fingerprint, optional
        What this party's ledger, if it keeps one, makes of its input.
    inputs : dict
        By data party, 32 bytes: equal for equal inputs, random where a party keeps no ledger.
    leverage : dict
        By data party, the highest leverage of a row in its columns, rounded up; 0 where that is not told.
    """

    own: Fingerprint | None
    inputs: dict[Party, bytes]
    leverage: dict[Party, float]


@step("protect")
def count_columns(
    run: Run, shapes: Shapes, table: Table | None = None, ranks: Ranks | None = None
) -> tuple[Shapes, Stated]:
    """Exchange how many features are not constant, and how many of these are distinct, among all parties.

    What is computed and checked with them follows from what their owners say, never from a number that the
    coordinator chose. The data parties also tell each other by what they would know the same input again.
    Without a table a party only hears.

    Returns
    -------
    Shapes
        With ``defined`` and ``distinct``.
    Stated
        For `charge`.

    Raises
    ------
    ProtocolViolation
        An owner says what cannot be.
    PolicyError
        The strengths would be over too few columns for this owner's policy, or its ledger cannot be used.
    """
    me, shared = run.roster.me, run.plan.shared()
    counts, inputs, leverage = dict[Party, _Counts](), dict[Party, bytes](), dict[Party, float]()
    own: Fingerprint | None = None
    if table is not None and ranks is not None:
        ledger = _ledger(run)
        own = None if ledger is None else ledger.fingerprint(table.ids, ranks.matrix)
        counts[me] = _Counts(ranks.defined, distinct_defined(ranks), lasting_in_a_mean(ranks))
        grid = Precision.of(run.plan, shapes.n, 1).coefficients
        high = highest_leverage(ranks, grid)
        values = {
            **{name: np.array([count]) for name, count in counts[me]._asdict().items()},
            "leverage": np.array([rounded_up(high, shapes.n, counts[me].distinct)]),
            "inputs": bytes.fromhex(own.inputs) if own else secrets.token_bytes(32),
        }
        for peer in run.roster.peers:
            fields = VIEW.fields(shared, Kind.COLUMNS, me.role, peer.role)
            if fields is not None:
                run.links.send(peer, Kind.COLUMNS, {field.name: values[field.name] for field in fields})
    for owner in (run.roster.target, *run.roster.sources):
        if owner != me and VIEW.fields(shared, Kind.COLUMNS, owner.role, me.role):
            heard = run.links.receive(owner, Kind.COLUMNS)
            inputs[owner] = heard.get("inputs", b"")
            leverage[owner] = float(heard["leverage"][0]) if "leverage" in heard else 0.0
            if not 0 <= leverage[owner] <= 1:
                raise ProtocolViolation(f"{owner} says that a leverage of its columns is {leverage[owner]:g}")
            if "defined" in heard:
                told = {name: int(heard[name][0]) for name in _Counts._fields if name in heard}
                counts[owner] = _Counts(**told)
        if owner not in counts:
            continue
        defined, distinct, lasting = counts[owner]
        features = shapes.features.get(owner, shapes.m_target)
        if (
            not (1 <= distinct <= defined <= features or distinct == defined == 0)
            or not 0 <= lasting <= distinct
        ):
            raise ProtocolViolation(
                f"{owner} says that {defined} of its {features} features are not constant, {distinct} of "
                f"them distinct and {lasting} of these left in a mean"
            )
    shapes = replace(
        shapes,
        defined={owner: its.defined for owner, its in counts.items()},
        distinct={owner: its.distinct for owner, its in counts.items()},
        lasting={owner: its.lasting for owner, its in counts.items()},
    )
    check_policy_columns(run.plan, me.name, shapes.distinct_sources)
    level_of(run.plan).computation(shapes)  # what it computes may not fit
    return shapes, Stated(own, inputs, leverage)


@step("protect")
def protect(run: Run, table: Table, ranks: Ranks, shapes: Shapes, stated: Stated) -> None:
    """Refuse to have so much told about own columns, or about one row in them (``privacy.budget``).

    Raises
    ------
    DisclosureError
        Naming every such column, with the figures and the ways out.
    """
    budget = run.plan.privacy.budget
    published = published_to_others(run.plan, run.roster, shapes, stated.leverage)
    check_budget(ranks, table.features, table.party, budget, published)


@step("protect")
def charge(run: Run, table: Table, ranks: Ranks, shapes: Shapes, stated: Stated) -> None:
    """Write the run into the owner's ledger, or refuse it for what earlier runs gave (``policy.ledger``).

    The last thing before an owner's first share or ciphertext leaves.

    Raises
    ------
    PolicyError
        Naming the earlier run, or the column and how much of it is used up.
    """
    ledger, plan, me = _ledger(run), run.plan, run.roster.me
    if ledger is None or stated.own is None:
        return
    published = published_to_others(plan, run.roster, shapes, stated.leverage)
    entry = ChargedRun(
        party=me.name,
        plan=plan.digest().hex(),
        own=stated.own,
        peers={
            peer.name: Peer(
                grant=_opened(plan) if peer.role is Role.COORDINATOR else _grant(plan, peer),
                columns=shapes.features.get(peer, shapes.m_target if peer.role is Role.TARGET else 0),
                inputs=stated.inputs.get(peer, b"").hex(),
            )
            for peer in run.roster.peers
        },
        columns=tuple(
            Column(
                name=name,
                entropy=held(groups),
                bits={one.published.receiver: one.bits for one in told(groups, published)},
            )
            for name, groups in zip(table.features, ranks.groups, strict=True)
        ),
    )
    privacy = plan.privacy
    ledger.charge(entry, min_group=privacy.min_group, budget=privacy.budget, approval=run.approval)


def published_to_others(
    plan: Plan, roster: Roster, shapes: Shapes, leverage: Mapping[Party, float] = MappingProxyType({})
) -> list[Published]:
    """Return what each other data party will have about every one of this party's columns.

    A source's columns meet the target's; the target's meet those of each source by itself. `leverage` is what
    the others state of their columns. It counts where numbers come with each of the receiver's columns, not
    where the target's columns meet one mean over a source's.
    """
    me, precision = roster.me, Precision.of(plan, shapes.n, shapes.distinct_sources)
    found = []
    for receiver in roster.sources if me.role is Role.TARGET else (roster.target,):
        given, high = _grant(plan, receiver), leverage.get(receiver, 0.0)
        if given == "coefficients":
            theirs, grid = shapes.distinct[receiver], precision.coefficients
            found.append(Published(receiver.name, "coefficients", theirs, grid, leverage=high))
        elif given == "strengths" and me.role is Role.TARGET:
            # All of a strength is about the target's column, a k-th part of it about a source's.
            found.append(Published(receiver.name, "strengths", 1, precision.strengths))
        elif given == "strengths":
            theirs, k = shapes.distinct[receiver], max(1, shapes.distinct_sources)
            found.append(Published(receiver.name, "strengths", theirs, precision.strengths, k, leverage=high))
        elif given == "ranking":
            bits = order_bits(shapes.m_target, plan.top)
            found.append(Published(receiver.name, "ranking", 1, order_bits=bits))
    return found


def _opened(plan: Plan) -> str:
    """Return what the coordinator gets to see."""
    return plan.reveal if plan.opened_to == "coordinator" else "nothing"


def _grant(plan: Plan, receiver: Party) -> str:
    return grant(plan.shared(), receiver.role)


def _ledger(run: Run) -> Ledger | None:
    me = run.plan.party(run.roster.me.name)
    return Ledger(me.policy.ledger) if isinstance(me, DataParty) and me.policy.ledger else None

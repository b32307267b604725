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

import numpy as np

from mpc_spearman.config import DataParty, Plan, check_policy_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.privacy.budget import Published, check_budget, groups_of, order_bits, told
from mpc_spearman.privacy.charges import ChargedRun, Column, Fingerprint, Peer
from mpc_spearman.privacy.groups import distinct_defined
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.privacy.leverage import highest_leverage
from mpc_spearman.protocols.precision import Precision
from mpc_spearman.protocols.shapes import Shapes
from mpc_spearman.protocols.steps import Run, step
from mpc_spearman.wire import disclosure
from mpc_spearman.wire.kinds import Kind


@dataclass(frozen=True)
class Inputs:
    """What an owner's ledger, if it keeps one, makes of its input to this run.

    Attributes
    ----------
    own : Fingerprint, optional
    stated : dict
        By data party, 32 bytes: equal for equal inputs, random where a party keeps no ledger.
    leverage : dict
        By data party, the highest leverage of a row in its columns.
    """

    own: Fingerprint | None
    stated: dict[Party, bytes]
    leverage: dict[Party, float]


@step("protect")
def count_columns(
    run: Run, shapes: Shapes, table: Table | None = None, ranks: Ranks | None = None
) -> tuple[Shapes, Inputs]:
    """Exchange how many features are not constant, and how many of these are distinct, among all parties.

    What is computed and checked with them follows from what their owners say, never from a number that the
    coordinator chose. The data parties also tell each other by what they would know the same input again.
    Without a table a party only hears.

    Returns
    -------
    Shapes
        With ``defined`` and ``distinct``.
    Inputs
        For `charge`.

    Raises
    ------
    ProtocolViolation
        An owner says what cannot be.
    PolicyError
        The strengths would be over too few columns for this owner's policy, or its ledger cannot be used.
    """
    me, counts = run.roster.me, dict[Party, tuple[int, int]]()
    stated, leverage = dict[Party, bytes](), dict[Party, float]()
    own: Fingerprint | None = None
    if table is not None and ranks is not None:
        ledger = _ledger(run)
        own = None if ledger is None else ledger.fingerprint(table.ids, ranks.matrix)
        counts[me] = (ranks.defined, distinct_defined(ranks))
        values = {
            "defined": np.array([counts[me][0]]),
            "distinct": np.array([counts[me][1]]),
            "leverage": np.array([highest_leverage(ranks, Precision.of(run.plan, shapes.n, 1).coefficients)]),
            "inputs": bytes.fromhex(own.inputs) if own else secrets.token_bytes(32),
        }
        for peer in run.roster.peers:
            fields = disclosure.fields(run.plan.shared(), Kind.COLUMNS, me.role, peer.role)
            if fields is not None:
                run.links.send(peer, Kind.COLUMNS, {field.name: values[field.name] for field in fields})
    for owner in (run.roster.target, *run.roster.sources):
        if owner != me and disclosure.fields(run.plan.shared(), Kind.COLUMNS, owner.role, me.role):
            heard = run.links.receive(owner, Kind.COLUMNS)
            stated[owner] = heard.get("inputs", b"")
            leverage[owner] = float(heard["leverage"][0]) if "leverage" in heard else 0.0
            if not 0 <= leverage[owner] <= 1:
                raise ProtocolViolation(f"{owner} says that a leverage of its columns is {leverage[owner]:g}")
            if "defined" in heard:
                counts[owner] = (int(heard["defined"][0]), int(heard["distinct"][0]))
        if owner not in counts:
            continue
        defined, distinct = counts[owner]
        features = shapes.features.get(owner, shapes.m_target)
        if not (1 <= distinct <= defined <= features or distinct == defined == 0):
            raise ProtocolViolation(
                f"{owner} says that {defined} of its {features} features are not constant, {distinct} of "
                "them distinct"
            )
    shapes = replace(
        shapes,
        defined={owner: defined for owner, (defined, _) in counts.items()},
        distinct={owner: distinct for owner, (_, distinct) in counts.items()},
    )
    check_policy_columns(run.plan, me.name, shapes.distinct_sources)
    return shapes, Inputs(own, stated, leverage)


@step("protect")
def protect(run: Run, table: Table, ranks: Ranks, shapes: Shapes, inputs: Inputs) -> None:
    """Refuse to have so much told about own columns, or about one row in them (``privacy.budget``).

    Raises
    ------
    DisclosureError
        Naming every such column, with the figures and the ways out.
    """
    budget = run.plan.privacy.budget
    published = published_to_others(run.plan, run.roster, shapes, inputs.leverage)
    check_budget(ranks, table.features, table.party, budget, published)


@step("protect")
def charge(run: Run, table: Table, ranks: Ranks, shapes: Shapes, inputs: Inputs) -> None:
    """Write the run into the owner's ledger, or refuse it for what earlier runs gave (``policy.ledger``).

    The last thing before an owner's first share or ciphertext leaves.

    Raises
    ------
    PolicyError
        Naming the earlier run, or the column and how much of it is used up.
    """
    ledger, plan, me = _ledger(run), run.plan, run.roster.me
    if ledger is None or inputs.own is None:
        return
    published = published_to_others(plan, run.roster, shapes, inputs.leverage)
    entry = ChargedRun(
        party=me.name,
        plan=plan.digest().hex(),
        own=inputs.own,
        peers={
            peer.name: Peer(
                grant=_opened(plan) if peer.role is Role.COORDINATOR else _grant(plan, peer),
                columns=shapes.features.get(peer, shapes.m_target if peer.role is Role.TARGET else 0),
                inputs=inputs.stated.get(peer, b"").hex(),
            )
            for peer in run.roster.peers
        },
        columns=tuple(
            Column(
                name=name,
                entropy=groups.held,
                bits={one.published.receiver: one.bits for one in told(groups, published)},
            )
            for name, groups in zip(table.features, groups_of(ranks), strict=True)
        ),
    )
    ledger.charge(entry, min_group=plan.privacy.min_group, budget=plan.privacy.budget)


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
        grant, high = _grant(plan, receiver), leverage.get(receiver, 0.0)
        if grant == "coefficients":
            theirs, grid = shapes.distinct[receiver], precision.coefficients
            found.append(Published(receiver.name, "coefficients", theirs, grid, leverage=high))
        elif grant == "strengths":
            theirs = shapes.distinct[receiver]
            # All of a strength is about the target's column, a k-th part of it about a source's.
            whole = me.role is Role.TARGET
            equations, part = (1, 1) if whole else (theirs, max(1, shapes.distinct_sources))
            high, grid = 0.0 if whole else high, precision.strengths
            found.append(Published(receiver.name, "strengths", equations, grid, part, leverage=high))
        elif grant == "ranking":
            bits = order_bits(shapes.m_target, plan.top)
            found.append(Published(receiver.name, "ranking", 1, order_bits=bits))
    return found


def _opened(plan: Plan) -> str:
    """Return what the coordinator gets to see."""
    return plan.reveal if plan.opened_to == "coordinator" else "nothing"


def _grant(plan: Plan, receiver: Party) -> str:
    return disclosure.grant(plan.shared(), receiver.role)


def _ledger(run: Run) -> Ledger | None:
    me = run.plan.party(run.roster.me.name)
    return Ledger(me.policy.ledger) if isinstance(me, DataParty) and me.policy.ledger else None

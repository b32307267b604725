"""Who learns what: the view table, asked for a plan.

:mod:`mpc_spearman.wire.view` lists every field that a role can ever receive, at which level, and what it
tells that role. It is the one place that says so: the codec refuses any message or field that is not in it,
the report and docs/privacy.md print it, and the tests hold every recorded byte against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind, Row
from mpc_spearman.wire.view import VIEW


def row(kind: Kind, sender: Role, receiver: Role) -> Row | None:
    """Find the row of a message between two roles; None where the table has no such message."""
    for candidate in VIEW:
        if candidate.kind is kind and sender in candidate.senders and receiver in candidate.receivers:
            return candidate
    return None


def phase(kind: Kind) -> str:
    """Phase to which a message's bytes are charged, at both ends."""
    return next(candidate.phase for candidate in VIEW if candidate.kind is kind)


def grant(plan: Mapping[str, Any], receiver: Role) -> str:
    """Look up what ``results`` passes on to a role."""
    if receiver is Role.COORDINATOR:
        return "nothing"
    return str(plan["results"]["target" if receiver is Role.TARGET else "sources"])


def fields(plan: Mapping[str, Any], kind: Kind, sender: Role, receiver: Role) -> tuple[Field, ...] | None:
    """Fields of a message under a shared plan, in wire order.

    Returns
    -------
    tuple of Field, or None
        None where the plan does not allow this message at all: the table has no such row, or no
        field of the row is sent at this level and these grants.
    """
    found = row(kind, sender, receiver)
    if found is None:
        return None
    sent = found.sent(plan, grant(plan, receiver), grant(plan, sender))
    return None if found.fields and not sent else sent


def place(what: str, phase: str) -> int:
    """Say where in a list of what is learnt something comes: results first, what only failures tell last."""
    if phase == "keep-alive":
        return 2
    return 0 if phase in ("reveal", "evaluate", "publish") and not what.startswith("nothing") else 1


def learnt(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """Who learns what in a run of this plan, one row per party and fact.

    Parameters
    ----------
    plan : mapping
        The shared part of a plan (``Plan.shared()``).

    Returns
    -------
    list of dict
        With keys ``role``, ``party``, ``what``, ``from``, ``phase``; the coordinator first, then the target,
        then the sources.
    """
    parties = plan["parties"]
    names = {
        Role.COORDINATOR: [parties["coordinator"]["name"]],
        Role.TARGET: [parties["target"]["name"]],
        Role.SOURCE: [source["name"] for source in parties["sources"]],
    }
    return [
        {
            "role": receiver.value,
            "party": party,
            "what": field.tells,
            "from": ", ".join(senders),
            "phase": found.phase,
        }
        for receiver in (Role.COORDINATOR, Role.TARGET, Role.SOURCE)
        for party in names[receiver]
        for found in VIEW
        if receiver in found.receivers
        and (senders := [name for role in found.senders for name in names[role] if name != party])
        for field in found.sent(plan, grant(plan, receiver), grant(plan, found.senders[0]))
        if field.tells
    ]

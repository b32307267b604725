"""Who learns what: look-ups in the table of messages and their fields.

The table (:data:`mpc_spearman.levels.view.VIEW`) lists every field that a role can ever receive, at which
level, and what it tells that role. The codec refuses what is not in it, the report and
docs/who_learns_what.md print it, and tests compare every recorded byte with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind, Row


@dataclass(frozen=True)
class ViewTable:
    """Rows, at most one for each kind, sender and receiver."""

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, parts: Iterable[Row]) -> ViewTable:
        """Put rows in the order of kinds, and of who sends; those of the same message are made one."""
        found: dict[tuple[Kind, tuple[Role, ...], tuple[Role, ...]], Row] = {}
        for part in parts:
            at = (part.kind, part.senders, part.receivers)
            found[at] = found[at].joined(part) if at in found else part
        kinds, senders = list(Kind), list(Role)

        def place(row: Row) -> tuple[int, int]:
            return kinds.index(row.kind), senders.index(row.senders[0])

        return cls(tuple(sorted(found.values(), key=place)))

    def fields(
        self, plan: Mapping[str, Any], kind: Kind, sender: Role, receiver: Role
    ) -> tuple[Field, ...] | None:
        """Fields of a message under a shared plan, in wire order.

        None where the plan does not allow this message at all: the table has no such row, or no field of the
        row is sent at this level and these grants.
        """
        for row in self.rows:
            if row.kind is kind and sender in row.senders and receiver in row.receivers:
                sent = row.sent(plan, grant(plan, receiver))
                return None if row.fields and not sent else sent
        return None

    def learnt(self, plan: Mapping[str, Any]) -> list[dict[str, str]]:
        """Who learns what in a run of this shared plan, one row per party and fact; the coordinator first."""
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
                "phase": row.kind.phase,
            }
            for receiver in (Role.COORDINATOR, Role.TARGET, Role.SOURCE)
            for party in names[receiver]
            for row in self.rows
            if receiver in row.receivers
            and (senders := [name for role in row.senders for name in names[role] if name != party])
            for field in row.sent(plan, grant(plan, receiver))
            if field.tells
        ]


def grant(plan: Mapping[str, Any], receiver: Role) -> str:
    """Look up what ``results`` passes on to a role."""
    if receiver is Role.COORDINATOR:
        return "nothing"
    return str(plan["results"]["target" if receiver is Role.TARGET else "sources"])


def place(what: str, phase: str) -> int:
    """Say where in a list of what is learnt something comes: results first, what only failures tell last."""
    if phase == "keep-alive":
        return 2
    return 0 if phase in ("reveal", "evaluate", "publish") and not what.startswith("nothing") else 1

"""The kinds of messages, and the rows and fields of the table of who learns what.

A :class:`Row` is one kind of message between two roles; a :class:`Field` is one value in it, which is sent
only at the levels and grants it names. The table itself, :data:`mpc_spearman.levels.view.VIEW`, lists every
field that a role can receive, and what the role learns from it. The codec refuses all other messages, the
report and docs/who_learns_what.md print the table, and tests compare every recorded byte with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Literal

from mpc_spearman.config import Terms
from mpc_spearman.parties import Role

FieldType = Literal["text", "texts", "blob", "bytes", "int64", "int128", "ring", "float64", "flags"]


@unique
class Kind(IntEnum):
    """The kinds of frames, by their numbers on the wire, in the order of the phases they are charged to."""

    phase: str

    def __new__(cls, number: int, phase: str = "") -> Kind:
        """Make a kind of its number and its phase."""
        kind = int.__new__(cls, number)
        kind._value_, kind.phase = number, phase
        return kind

    KEEPALIVE = 0, "keep-alive"
    ABORT = 1, "keep-alive"
    #: No frame has it: the meeting's messages are on a connection of its own.
    MEETING = 29, "connect"
    HELLO = 2, "connect"
    CONFIRM = 22, "connect"
    MATCHING_KEY = 18, "intersect"
    OFFER = 19, "intersect"
    PSEUDONYMS = 20, "intersect"
    COMMON = 21, "intersect"
    SHAPE = 3, "agree"
    ALIGNMENT = 4, "align"
    COLUMNS = 14, "protect"
    DESCRIPTION = 5, "describe"
    MASKED = 6, "share"
    PROOF_SHARES = 25, "prove"
    PROOF_COINS = 26, "prove"
    PROOF_HASH = 27, "prove"
    PROOF_END = 28, "prove"
    SHARE = 7, "reveal"
    PADDED = 15, "reveal"
    REPLICA = 16, "reveal"
    ORDER = 17, "reveal"
    PUBLIC_KEY = 11, "keys"
    CIPHERTEXT = 12, "encrypt"
    NOISE = 24, "encrypt"
    EVALUATED = 13, "evaluate"
    RESULT = 8, "publish"
    COST = 9, "account"
    RECORD = 23, "account"
    FAREWELL = 10, "account"


@dataclass(frozen=True)
class Field:
    """One value of a message.

    Attributes
    ----------
    name, type, shape
        ``bytes`` has a fixed length; arrays and ``texts`` have one entry per cell of `shape`. ``ring`` are
        integers modulo a power of 2^8, in ``ring_bytes`` bytes each.
    tells : str
        What the receiver learns from it, in the words the report uses; empty for bookkeeping.
    levels, grants, protocols, opened_to, top, precision, inputs, proofs, adjusted
        The plans in which it is sent; None means any. Grants are the receiver's; `inputs` is a role, of which
        some party adds noise to its inputs. `adjusted` says whether a party of some roles adjusts its
        features.
    """

    name: str
    type: FieldType
    shape: tuple[int | str, ...] = ()
    tells: str = ""
    levels: tuple[str, ...] | None = None
    grants: tuple[str, ...] | None = None
    protocols: tuple[str, ...] | None = None
    opened_to: tuple[str, ...] | None = None
    top: bool | None = None
    precision: tuple[str, ...] | None = None
    inputs: Role | None = None
    proofs: bool | None = None
    adjusted: tuple[bool, tuple[Role, ...]] | None = None

    def sent(self, terms: Terms, receiver: Role) -> bool:
        """Return whether this field is part of its message under the terms of a plan."""
        return (
            (self.levels is None or terms.reveal in self.levels)
            and (self.grants is None or terms.granted[receiver] in self.grants)
            and (self.protocols is None or terms.protocol in self.protocols)
            and (self.opened_to is None or terms.opened_to in self.opened_to)
            and (self.top is None or self.top == terms.top)
            and (self.precision is None or terms.precision in self.precision)
            and (self.inputs is None or self.inputs in terms.on_inputs)
            and (self.proofs is None or self.proofs == terms.proofs)
            and (self.adjusted is None or self.adjusted[0] == bool(terms.adjusting & {*self.adjusted[1]}))
        )


@dataclass(frozen=True)
class Row:
    """One kind of message from some roles to some roles; `alignment` is None for any."""

    kind: Kind
    senders: tuple[Role, ...]
    receivers: tuple[Role, ...]
    fields: tuple[Field, ...]
    alignment: tuple[str, ...] | None = None

    def sent(self, terms: Terms, receiver: Role) -> tuple[Field, ...]:
        """Return the fields that are sent under the terms of a plan, in wire order."""
        if self.alignment is not None and terms.alignment not in self.alignment:
            return ()
        return tuple(field for field in self.fields if field.sent(terms, receiver))

    def at_level(self, level: str) -> Row:
        """Return the row with fields that are sent at this level only."""
        return replace(self, fields=tuple(replace(field, levels=(level,)) for field in self.fields))

    def to_grants(self, grants: tuple[str, ...]) -> Row:
        """Return the row with fields that are sent only to receivers with one of these grants."""
        return replace(self, fields=tuple(replace(field, grants=grants) for field in self.fields))

    def merged(self, row: Row) -> Row:
        """Return a row with the fields of both rows of one message; equal fields have the levels of both."""
        fields = list(self.fields)
        for field in row.fields:
            for i, earlier in enumerate(fields):
                if field.levels and earlier.levels and replace(earlier, levels=field.levels) == field:
                    fields[i] = replace(field, levels=(*earlier.levels, *field.levels))
                    break
            else:
                fields.append(field)
        return replace(self, fields=tuple(fields))


@dataclass(frozen=True)
class ViewTable:
    """All rows, at most one for each kind, sender and receiver; messages of the `meeting` are no frames."""

    meeting: tuple[Row, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, meeting: tuple[Row, ...], parts: Iterable[Row]) -> ViewTable:
        """Return a table of rows, sorted by kind and sender, in which rows of the same message are merged."""
        merged: dict[tuple[Kind, tuple[Role, ...], tuple[Role, ...]], Row] = {}
        for part in parts:
            message = (part.kind, part.senders, part.receivers)
            merged[message] = merged[message].merged(part) if message in merged else part
        kinds, senders = list(Kind), list(Role)

        def place(row: Row) -> tuple[int, int]:
            return kinds.index(row.kind), senders.index(row.senders[0])

        return cls(meeting, tuple(sorted(merged.values(), key=place)))

    def fields(self, terms: Terms, kind: Kind, sender: Role, receiver: Role) -> tuple[Field, ...] | None:
        """Return the fields of a message under the terms of a plan, in wire order.

        None if the plan does not allow this message at all: the table has no such row, or no field of the row
        is sent at this level and these grants.
        """
        for row in self.rows:
            if row.kind is kind and sender in row.senders and receiver in row.receivers:
                sent = row.sent(terms, receiver)
                return None if row.fields and not sent else sent
        return None

    def learnt(self, terms: Terms) -> list[dict[str, str]]:
        """Return who learns what in a run of a plan, one row per party and fact; the coordinator first."""
        return [
            {
                "role": receiver.value,
                "party": party,
                "what": field.tells,
                "from": ", ".join(senders),
                "phase": row.kind.phase,
            }
            for receiver in (Role.COORDINATOR, Role.TARGET, Role.SOURCE)
            for party in terms.parties[receiver]
            for row in (*self.meeting, *self.rows)
            if receiver in row.receivers
            and (senders := [name for role in row.senders for name in terms.parties[role] if name != party])
            for field in row.sent(terms, receiver)
            if field.tells
        ]


def place(fact: str, phase: str) -> int:
    """Return a fact's sort key: 0 for results, 1 for other facts, 2 for facts that only failures show."""
    if phase == "keep-alive":
        return 2
    return 0 if phase in ("reveal", "evaluate", "publish") and not fact.startswith("nothing") else 1

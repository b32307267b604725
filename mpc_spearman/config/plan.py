"""The plan of a run: what it computes, who takes part, and what each party keeps to itself.

A plan is a YAML file (or a mapping in Python). Everything in it is **shared**, the same for all
parties and compared when they meet, except what stands beside a party's ``name``, ``identity`` and
``organisation``: its ``key``, its ``table`` and how it is read, ``policy``, ``page`` and ``listen`` (and the
target's ``alignment_key``) are **local**, never sent and not in the digest. For a rehearsal on one machine a
single file may hold both.
Between organisations local keys come from their owner's local file or command line alone, since somebody else
writes the shared plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from mpc_spearman.config.contradictions import contradictions
from mpc_spearman.config.keys import PlanKeys
from mpc_spearman.config.parties import (
    SHARED_BESIDE_NAME,
    AnyOne,
    DataParty,
    Query,
)
from mpc_spearman.config.terms import Terms, by_role, granted, on_inputs
from mpc_spearman.config.wording import canonical, dotted, nearest, shown
from mpc_spearman.errors import PlanError
from mpc_spearman.parties import Roster


class Plan(PlanKeys):
    """A checked plan; frozen. Made by `load_plan`."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Plan:
        if found := list(contradictions(self)):
            lines = "\n".join(f"{dotted(location)}: {text}" for location, text in found)
            raise PydanticCustomError("contradictions", "{lines}", {"lines": lines, "found": found})
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Party names by rank: the coordinator is 0, the target 1, the sources follow."""
        return tuple(party.name for party in self.parties.everyone)

    @property
    def identities(self) -> dict[str, str | None]:
        """Each party's identity by its name; None where the plan has none: a draft, or a rehearsal."""
        return {party.name: party.identity for party in self.parties.everyone}

    @property
    def informed(self) -> str:
        """Name of the party that the result is opened to."""
        return self.names[0 if self.opened_to == "coordinator" else 1]

    @property
    def terms(self) -> Terms:
        """What of the plan decides who learns what."""
        results, owners = self.results, (self.parties.target, *self.parties.sources)
        return Terms(
            protocol=self.protocol,
            reveal=self.reveal,
            alignment=self.alignment,
            opened_to=self.opened_to,
            precision=results.precision,
            top=self.top is not None,
            proofs=self.proofs,
            parties=by_role(self.names),
            granted=granted(str(results.target), str(results.sources)),
            on_inputs=on_inputs(*(owner.noise for owner in owners)),
        )

    def roster(self, me: str) -> Roster:
        """Return all parties of the run, as party `me` sees them; `PlanError` if no party has that name."""
        return Roster.of(self.names, self.party(me).name)

    def party(self, name: str) -> AnyOne:
        """Look a party up by its name; `PlanError` if no party has it."""
        for party in self.parties.everyone:
            if party.name == name:
                return party
        hint = nearest(name, self.names) or f"; parties: {', '.join(self.names)}"
        raise PlanError(f"the plan has no party {shown(name)}{hint}")

    def owner(self, name: str) -> DataParty:
        """Look a party with a table up by its name; `PlanError` if it is the coordinator, or none."""
        party = self.party(name)
        if isinstance(party, DataParty):
            return party
        raise PlanError(f"{name} is the coordinator, which has no table and no policy")

    def shared(self) -> dict[str, Any]:
        """Return the part that all parties must agree on, ready for JSON: no local field at all."""
        local = {section: set(keys) for section, keys in LOCAL.items()}
        content = self.model_dump(mode="json", exclude={"parties": True, **local})
        # Only these, so that a field added to a data party stays local by default.
        beside = set(SHARED_BESIDE_NAME)
        known: dict[str, Any] = {"coordinator": beside, "target": beside, "sources": {"__all__": beside}}
        content["parties"] = self.parties.model_dump(mode="json", include=known, exclude_defaults=True)
        return content

    def canonical_json(self) -> str:
        """Return `shared` as the one JSON text for it: ASCII, keys sorted, no spaces."""
        return canonical(self.shared())

    def digest(self) -> bytes:
        """Return the SHA-256 of `canonical_json` (32 bytes)."""
        return hashlib.sha256(self.canonical_json().encode("ascii")).digest()

    def addresses_of_others(self, name: str) -> set[str]:
        """Name the environment variables with addresses of databases that are not party `name`'s."""
        parties = (self.parties.target, *self.parties.sources)
        asked = {party.name: party.table.variable for party in parties if isinstance(party.table, Query)}
        return {*asked.values()} - {asked.get(name), ""}

    def restricted_to(self, name: str) -> Plan:
        """Return the plan as party `name` may hold it: of all local parts, only its own."""
        return self.with_party(
            self.party(name), lambda other: type(other)(**other.model_dump(include=set(SHARED_BESIDE_NAME)))
        )

    def with_party(self, own: AnyOne, others: Callable[[AnyOne], AnyOne] = lambda other: other) -> Plan:
        """Return the plan with a party in the place of the one of its name, and the others changed."""

        def changed(party: AnyOne) -> AnyOne:
            return own if party.name == own.name else others(party)

        parties = self.parties
        update = {
            "coordinator": changed(parties.coordinator),
            "target": changed(parties.target),
            "sources": tuple(map(changed, parties.sources)),
        }
        return self.model_copy(update={"parties": parties.model_copy(update=update)})


#: Of sections that are shared, the keys that are not.
LOCAL = {"network": ("message_timeout", "address", "port", "proxy"), "he": ("workers",)}
#: Local keys that a shared plan may have all the same: where the parties meet is the same for most of them.
MEETING_PLACE = ("address", "port")

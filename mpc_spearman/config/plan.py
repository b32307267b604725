"""The plan of a run: what it computes, who takes part, and what each party keeps to itself.

A plan is a YAML file (or a mapping in Python). Most of its keys are **shared**: they are the same for all
parties, which compare them when they meet. Some keys of a party's entry are **local**, never sent and not in
the digest: its ``key``, its ``table`` and how it is read, ``policy``, ``page`` and ``listen`` (and the
target's
``alignment_key``). For a rehearsal on one machine a single file may hold both. Between organisations local
keys come only from their owner's local file or command line, since somebody else writes the shared plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from mpc_spearman.config.contradictions import contradictions
from mpc_spearman.config.keys import PlanKeys
from mpc_spearman.config.parties import SHARED_PARTY_KEYS, AnyOne, DataParty, Query
from mpc_spearman.config.terms import Terms
from mpc_spearman.config.wording import canonical, dotted, nearest, shown
from mpc_spearman.errors import PlanError
from mpc_spearman.parties import Role, Roster

_ROLES = (Role.COORDINATOR, Role.TARGET, Role.SOURCE)
_CHECKED_BEFORE = {"checked": True}  # the context in which pydantic reads a plan that needs no second check


class Plan(PlanKeys):
    """A checked plan; frozen. Made by `load_plan`."""

    @model_validator(mode="after")
    def _agrees_with_itself(self, info: ValidationInfo) -> Plan:
        if info.context is not _CHECKED_BEFORE and (conflicts := list(contradictions(self))):
            lines = "\n".join(f"{dotted(location)}: {text}" for location, text in conflicts)
            raise PydanticCustomError("contradictions", "{lines}", {"lines": lines, "conflicts": conflicts})
        return self

    @classmethod
    def of_checked(cls, content: Mapping[str, Any]) -> Plan:
        """Return a plan from its JSON, which was checked for contradictions when it was first read.

        This may have been on another machine, or before results were merged. Pydantic's `ValidationError` if
        this version's plans have other keys.
        """
        return cls.model_validate(content, context=_CHECKED_BEFORE)

    def as_written(self) -> dict[str, Any]:
        """Return the keys that were set, as values for JSON, without those that have their defaults."""
        return self.model_dump(mode="json", exclude_unset=True)

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
        """The settings that decide who learns what."""
        results, target, sources = self.results, self.parties.target, self.parties.sources
        owners = ((Role.TARGET, target), *((Role.SOURCE, source) for source in sources))
        return Terms(
            protocol=self.protocol,
            reveal=self.reveal,
            alignment=self.alignment,
            opened_to=self.opened_to,
            precision=results.precision,
            top=self.top is not None,
            proofs=self.proofs,
            parties=dict(zip(_ROLES, (self.names[:1], self.names[1:2], self.names[2:]), strict=True)),
            granted=dict(zip(_ROLES, ("nothing", str(results.target), str(results.sources)), strict=True)),
            on_inputs=frozenset(role for role, owner in owners if owner.noise == "inputs"),
            adjusting=frozenset(role for role, owner in owners if owner.adjust),
        )

    def roster(self, me: str) -> Roster:
        """Return all parties of the run, as party `me` sees them; `PlanError` if no party has that name."""
        return Roster.of(self.names, self.party(me).name)

    def party(self, name: str) -> AnyOne:
        """Return the party of that name; `PlanError` if there is none."""
        for party in self.parties.everyone:
            if party.name == name:
                return party
        hint = nearest(name, self.names) or f"; parties: {', '.join(self.names)}"
        raise PlanError(f"the plan has no party {shown(name)}{hint}")

    def owner(self, name: str) -> DataParty:
        """Return the data party of that name; `PlanError` if it is the coordinator, or there is none."""
        party = self.party(name)
        if isinstance(party, DataParty):
            return party
        raise PlanError(f"{name} is the coordinator, which has no table and no policy")

    def shared(self) -> dict[str, Any]:
        """Return the part that all parties must agree on, as values for JSON; it has no local key."""
        local = {section: set(keys) for section, keys in LOCAL.items()}
        content = self.model_dump(mode="json", exclude={"parties": True, **local})
        # Shared keys are listed, so that a key added to a data party is local by default.
        shared = set(SHARED_PARTY_KEYS)
        include: dict[str, Any] = {"coordinator": shared, "target": shared, "sources": {"__all__": shared}}
        content["parties"] = self.parties.model_dump(mode="json", include=include, exclude_defaults=True)
        return content

    def canonical_json(self) -> str:
        """Return `shared` as canonical JSON: ASCII, keys sorted, no spaces."""
        return canonical(self.shared())

    def digest(self) -> bytes:
        """Return the SHA-256 of `canonical_json` (32 bytes)."""
        return hashlib.sha256(self.canonical_json().encode("ascii")).digest()

    def addresses_of_others(self, name: str) -> set[str]:
        """Return the environment variables that hold addresses of other parties' databases."""
        parties = (self.parties.target, *self.parties.sources)
        variables = {party.name: party.table.variable for party in parties if isinstance(party.table, Query)}
        return {*variables.values()} - {variables.get(name), ""}

    def restricted_to(self, name: str) -> Plan:
        """Return the plan with the local part of party `name` only, without all others."""
        return self.with_party(
            self.party(name), lambda other: type(other)(**other.model_dump(include=set(SHARED_PARTY_KEYS)))
        )

    def with_party(
        self, replacement: AnyOne, others: Callable[[AnyOne], AnyOne] = lambda other: other
    ) -> Plan:
        """Return the plan in which a party replaces the one of its name, and `others` changes the others."""

        def changed(party: AnyOne) -> AnyOne:
            return replacement if party.name == replacement.name else others(party)

        parties = self.parties
        update = {
            "coordinator": changed(parties.coordinator),
            "target": changed(parties.target),
            "sources": tuple(map(changed, parties.sources)),
        }
        return self.model_copy(update={"parties": parties.model_copy(update=update)})


#: Local keys in sections that are otherwise shared.
LOCAL = {"network": ("message_timeout", "address", "port", "proxy"), "he": ("workers",)}
#: Local keys that a shared plan may also have, since most parties meet at the same address.
MEETING_PLACE = ("address", "port")

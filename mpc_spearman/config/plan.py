"""The plan of a run: what it computes, who takes part, and what each party keeps to itself.

A plan is a YAML file (or a mapping in Python). Everything in it is **shared**, the same for all
parties and compared in the handshake, except what stands beside a party's ``name`` and ``identity``: its
``key``, its ``table`` and how it is read, ``policy`` and ``listen`` (and the target's ``alignment_key``) are
**local**, never sent and not in the digest. For a rehearsal on one machine a single file may hold both.
Between organisations local keys come from their owner's local file or command line alone, since somebody else
writes the shared plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from mpc_spearman.config.fields import Count, Number, Section, Text, setting, whole
from mpc_spearman.config.parties import (
    SHARED_BESIDE_NAME,
    AnyOne,
    DataParty,
    Parties,
    Query,
)
from mpc_spearman.config.scale import Reveal, granted_by_default
from mpc_spearman.config.sections import (
    Alignment,
    Estimator,
    HeSettings,
    Network,
    OpenedTo,
    Order,
    Privacy,
    Protocol,
    Results,
    Strength,
)
from mpc_spearman.config.table_keys import Normalise, one_or_more
from mpc_spearman.config.terms import Terms, by_role, granted
from mpc_spearman.config.wording import canonical, nearest, shown
from mpc_spearman.errors import PlanError
from mpc_spearman.parties import Roster


class Plan(Section):
    """A checked plan; frozen. Made by `load_plan`. docs/plan.md lists every key."""

    protocol: Protocol = setting("How the private part is computed.", "mpc")
    reveal: Reveal = setting(
        "What the coordinator opens, weakest privacy first: docs/privacy.md#what-is-opened.", "coefficients"
    )
    estimator: Estimator = setting(
        "Spearman's coefficient, or the paper's formula, which is wrong where values tie: "
        "docs/results.md#two-estimators-and-the-tie-trap.",
        "tie_corrected",
    )
    strength: Strength = setting(
        "How a target feature's coefficients become its strength: their mean, or the mean of their absolute "
        "values. `mean_abs` needs `reveal: coefficients` or `differences`, and at most 3,024,616 rows.",
        "mean",
    )
    order: Order = setting(
        "How the ranking is sorted. Under `mean`, `descending` puts strong negative associations last.",
        "descending",
    )
    top: Count | None = whole(
        "At `reveal: ranking`: open only which features are the `top` strongest, not their order. It must be "
        "below the number of the target's features.",
        low=1,
    )
    opened_to: OpenedTo = setting(
        "At `reveal: ranking`: who learns the order. With `target` the coordinator learns nothing, so it has "
        "nothing to pass on.",
        "coordinator",
    )
    confidence: Number = setting(
        "The level of the coefficients' confidence intervals: docs/statistics.md#confidence-intervals.",
        0.95,
        "a number above 0 and below 1",
        gt=0,
        lt=1,
    )
    purpose: Text | None = setting(
        "What the run is for. Printed on the page to sign: docs/hosts.md#a-page-to-sign.",
        None,
        "a text of at most 1000 characters",
        max_length=1000,
    )
    retention: Text | None = setting(
        "How long results are kept, and what happens to them then. Printed on the page to sign.",
        None,
        "a text of at most 1000 characters",
        max_length=1000,
    )
    rows: Count | None = whole("Use only the first `rows` rows, for trials. Left out: all.", low=3)
    alignment: Alignment = setting(
        "Which rows are used. `same`: all; all tables must list the same ids in the same order. `intersect`: "
        "the rows that all data parties have, found privately (docs/protocol.md#common-rows). `ids`: those "
        "of an earlier run, whose ids every data party has kept (`aligned`).",
        "same",
    )
    normalise: Annotated[tuple[Normalise, ...], BeforeValidator(one_or_more)] = setting(
        "What every data party does to ids, in this order, before they are compared: docs/tables.md#ids.",
        (),
        "a list of steps",
    )
    parties: Parties
    results: Results = Field(default=Results(), validate_default=True)
    privacy: Privacy = Privacy()
    network: Network = Network()
    he: HeSettings = HeSettings()

    @field_validator("results")
    @classmethod
    def _fill_in(cls, results: Results, info: ValidationInfo) -> Results:
        # shared() must hold the real value: two parties that both leave it out must mean the same.
        target, sources = granted_by_default(info.data.get("reveal", "coefficients"))
        filled = {"target": results.target or target, "sources": results.sources or sources}
        return results.model_copy(update=filled)

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
        results = self.results
        return Terms(
            protocol=self.protocol,
            reveal=self.reveal,
            alignment=self.alignment,
            opened_to=self.opened_to,
            precision=results.precision,
            top=self.top is not None,
            parties=by_role(self.names),
            granted=granted(str(results.target), str(results.sources)),
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
        content["parties"] = self.parties.model_dump(mode="json", include=known, exclude_none=True)
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

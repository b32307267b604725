"""The plan of a run: what it computes, who takes part, and what each party keeps to itself.

A plan is a YAML file (or a mapping in Python). Most of its keys are **shared**: they are the same for all
parties, which compare them when they meet. Some keys of a party's entry are **local**, never sent and not in
the digest: its ``key``, its ``table`` and how it is read, ``policy``, ``page`` and ``listen`` (and the
target's ``alignment_key``). For a rehearsal on one machine a single file may hold both. Between
organisations local keys come only from their owner's local file or command line, since somebody else writes
the shared plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from mpc_spearman.config.fields import Count, Flag, Number, OneOrMore, PageText, Section, allowed, whole
from mpc_spearman.config.levels import Reveal, granted_by_default
from mpc_spearman.config.parties import SHARED_PARTY_KEYS, AnyOne, DataParty, Parties, Query
from mpc_spearman.config.sections import (
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
from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.config.wording import canonical, nearest, shown
from mpc_spearman.errors import PlanError
from mpc_spearman.parties import Role, Roster

#: Local keys in sections that are otherwise shared.
LOCAL = {"network": ("message_timeout", "address", "port", "proxy"), "he": ("workers",)}
#: Local keys that a shared plan may also have, since most parties meet at the same address.
MEETING_PLACE = ("address", "port")


@dataclass(frozen=True)
class Terms:
    """The settings of a plan that decide who learns what.

    `parties` are the parties' names by role, `granted` is what ``results`` passes on to each role (the
    coordinator opens the results itself, and is granted nothing), `top` says whether the plan asks for the
    strongest features alone, `proofs` whether owners prove their vectors. Parties of the roles `on_inputs`
    add noise to their inputs, and those of the roles `adjusting` adjust features for covariates.
    """

    protocol: str
    reveal: str
    alignment: str
    opened_to: str
    precision: str
    top: bool
    proofs: bool
    parties: Mapping[Role, tuple[str, ...]]
    granted: Mapping[Role, str]
    on_inputs: frozenset[Role]
    adjusting: frozenset[Role]


class Plan(Section):
    """A plan; frozen. `load_plan` makes it, and checks that its values do not contradict each other.

    `model_validate` makes one of a result's JSON, whose values were checked when the run's plan was read.
    docs/plan.md lists its keys.
    """

    protocol: Protocol = "mpc"
    """How the private part is computed."""
    reveal: Reveal = "coefficients"
    """What the coordinator opens, weakest privacy first: docs/privacy.md#what-is-opened."""
    estimator: Estimator = "tie_corrected"
    """Spearman's coefficient, or the paper's formula, which is wrong where values tie:
    docs/results.md#two-estimators-and-the-tie-trap."""
    strength: Strength = "mean"
    """How a target feature's coefficients become its strength: their mean, or the mean of their absolute
    values, which ranks by size, whatever the signs. `mean_abs` needs `reveal: coefficients` or `differences`,
    and at most 3,024,616 rows."""
    order: Order = "descending"
    """How the ranking is sorted. Under `mean`, `descending` puts strong negative associations last."""
    top: Annotated[Count | None, whole(1)] = None
    """At `reveal: ranking`: open only which features are the `top` strongest, not their order. It must be
    below the number of the target's features."""
    opened_to: OpenedTo = "coordinator"
    """At `reveal: ranking`: who learns the order. With `target` the coordinator learns nothing, so it has
    nothing to pass on."""
    confidence: Annotated[Number, allowed("a number above 0 and below 1", gt=0, lt=1)] = 0.95
    """The level of the coefficients' confidence intervals: docs/statistics.md#confidence-intervals."""
    purpose: PageText = None
    """What the run is for."""
    retention: PageText = None
    """How long results are kept, and what happens to them then."""
    responsibility: PageText = None
    """Who is responsible for what under data protection law: controllers, joint controllers, processors."""
    transfers: PageText = None
    """Whether data or results leave the legal area, such as the European Economic Area, and on what basis."""
    rows: Annotated[Count | None, whole(3)] = None
    """Use only the first `rows` rows, for trials. Left out: all. With noise, owners still read the whole
    table, as what they state comes from it: docs/guarantee.md#other-rows-than-all."""
    alignment: Literal["same", "intersect", "ids"] = "same"
    """Which rows are used. `same`: all; all tables must list the same ids in the same order. `intersect`: the
    rows that all data parties have, found privately (docs/protocol.md#common-rows). `ids`: those of an
    earlier run, whose ids every data party has kept (`aligned`)."""
    normalise: Annotated[tuple[Normalise, ...], OneOrMore, allowed("a list of steps")] = ()
    """What every data party does to ids, in this order, before they are compared: docs/tables.md#ids."""
    proofs: Flag = False
    """At `reveal: coefficients` under MPC: every owner proves that its vectors are possible ranks. So noise
    protects the others' rows also if it lies: docs/guarantee.md#proved-inputs."""
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
        # Filled in, but not set: with another level, `Plan.as_written` leaves them to that level's defaults.
        return Results.model_construct(results.model_fields_set, **{**dict(results), **filled})

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
        results, roster = self.results, Roster.of(self.names, self.names[0])
        owners = [(party.role, self.owner(party.name)) for party in roster.peers]
        return Terms(
            protocol=self.protocol,
            reveal=self.reveal,
            alignment=self.alignment,
            opened_to=self.opened_to,
            precision=results.precision,
            top=self.top is not None,
            proofs=self.proofs,
            parties={
                Role.COORDINATOR: self.names[:1],
                Role.TARGET: self.names[1:2],
                Role.SOURCE: self.names[2:],
            },
            granted={
                Role.COORDINATOR: "nothing",
                Role.TARGET: str(results.target),
                Role.SOURCE: str(results.sources),
            },
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
            self.party(name), lambda party: type(party)(**party.model_dump(include=set(SHARED_PARTY_KEYS)))
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

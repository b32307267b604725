"""The plan of a run: what it computes, who takes part, and what each party keeps to itself.

A plan is a YAML file (or a mapping in Python). Everything in it is **shared**, the same for all
parties and compared in the handshake, except what stands beside a data party's ``name``: its
``table``, ``id``, ``features``, ``exclude`` and ``policy`` are **local**, never sent and not in the
digest. On one machine a single file may hold both.

`load_plan` is the way in. It reports every problem it finds at once, each on a line of its own that
names the file (or the override), the key, the value, and what would be allowed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mpc_spearman.config.draft import Draft
from mpc_spearman.config.wording import Location, canonical, dotted, explain, nearest, shown
from mpc_spearman.errors import PlanError

Protocol = Literal["mpc", "he"]
Reveal = Literal["differences", "coefficients", "strengths", "ranking"]
Estimator = Literal["tie_corrected", "paper"]
Strength = Literal["mean", "mean_abs"]
Order = Literal["descending", "ascending"]
Grant = Literal["nothing", "ranking", "strengths", "coefficients"]

#: Values that have a name but no implementation in this version.
NOT_YET: Mapping[str, tuple[str, ...]] = MappingProxyType({"protocol": ("he",), "reveal": ("ranking",)})

_GRANTS: tuple[Grant, ...] = get_args(Grant)  # from the least to the most
#: What the coordinator can pass on of what each level gives it. Row-wise differences never leave it.
_MOST: Mapping[str, Grant] = MappingProxyType(
    {
        "differences": "coefficients",
        "coefficients": "coefficients",
        "strengths": "strengths",
        "ranking": "ranking",
    }
)


def _party_name(name: str) -> str:
    # Names become folder names, parts of --table NAME=FILE, and lines of an error text.
    if not name.strip() or name != name.strip():
        raise ValueError("is not a name: it is empty, or starts or ends with a space")
    if len(name) > 64:
        raise ValueError(f"is {len(name)} characters long; a name has at most 64")
    if not name.isprintable() or name in (".", "..") or set(name) & set("/\\="):
        raise ValueError("cannot be a folder's name; leave out / \\ = and what cannot be printed")
    return name


def _column(name: str) -> str:
    if not name:
        raise ValueError("is not a column name: it is empty")
    return name


def _path(value: object) -> object:
    if isinstance(value, str) and (not value.strip() or "\0" in value):
        raise ValueError("is not a file path; leave the key out if this party's table is not here")
    return value


_Text = Annotated[str, Strict()]  # 7, true and 2024-01-01 are not text until someone quotes them
_Name = Annotated[_Text, AfterValidator(_party_name)]
_Column = Annotated[_Text, AfterValidator(_column)]
_Count = Annotated[int, Strict()]  # strict: true is not 1, and 3.0 is not 3


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# In the fields below, a description completes the sentence "<value> is not ...".


def _whole(low: int, default: int | None) -> Any:
    # The upper end is beyond any table this package takes, and within what every peer can read.
    return Field(default=default, ge=low, le=10**9, description=f"a whole number from {low} to 1000000000")


class Policy(_Part):
    """What a data owner allows, whatever the shared plan says; local to that owner.

    Attributes
    ----------
    max_reveal : {'ranking', 'strengths', 'coefficients', 'differences'}
        The most the coordinator may learn. ``differences``, nearly all ranks, needs saying so here.
    protocols : tuple of {'mpc', 'he'}
        The protocols the owner agrees to run.
    min_rows, min_group : int, optional
        The fewest rows to take part with; the lowest ``privacy.min_group`` to accept.
    results_to : tuple of {'target', 'sources'}
        The roles, beside the coordinator, that may be passed results.
    """

    max_reveal: Reveal = "coefficients"
    protocols: tuple[Protocol, ...] = Field(default=("mpc", "he"), description="a list of protocols")
    min_rows: _Count | None = _whole(1, default=None)
    min_group: _Count | None = _whole(1, default=None)
    results_to: tuple[Literal["target", "sources"], ...] = Field(
        default=("target", "sources"), description="a list of roles"
    )


class CoordinatorParty(_Part):
    """The party without data, which the protocol reveals its values to."""

    name: _Name


class DataParty(_Part):
    """A party with a table. All but its name is local.

    Attributes
    ----------
    name : str
        Shared with everyone; also the name of its folder of results.
    table : Path, optional
        A CSV or Parquet file, absolute once loaded. None where the table is elsewhere: in another
        organisation, or a DataFrame in this program.
    id : str
        The column that says which sample a row is.
    exclude : tuple of str
        Columns that are not features.
    features : tuple of str, optional
        The columns to correlate; None for all but `id` and `exclude`.
    policy : Policy
        What this owner allows.
    """

    name: _Name
    table: Annotated[Path | None, BeforeValidator(_path)] = Field(default=None, description="a file path")
    id: _Column = "id"
    exclude: tuple[_Column, ...] = Field(default=(), description="a list of column names")
    features: tuple[_Column, ...] | None = Field(
        default=None, min_length=1, description="a list of at least one column name"
    )
    policy: Policy = Policy()

    @field_validator("features")
    @classmethod
    def _are_features(cls, features: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        for name in features or ():
            if features and features.count(name) > 1:
                raise ValueError(f"lists {shown(name)} more than once")
            if name == info.data.get("id"):
                raise ValueError(f"lists {shown(name)}, which is this party's id column; take it out")
            if name in info.data.get("exclude", ()):
                raise ValueError(f"lists {shown(name)}, which exclude lists too; take it out of one of them")
        return features


class Parties(_Part):
    """Who takes part, in which role."""

    coordinator: CoordinatorParty
    target: DataParty
    sources: tuple[DataParty, ...] = Field(min_length=1, description="a list of one source")

    @field_validator("sources")
    @classmethod
    def _one_source(cls, sources: tuple[DataParty, ...]) -> tuple[DataParty, ...]:
        if len(sources) > 1:
            raise ValueError(f"lists {len(sources)} sources: several sources are not available yet; list one")
        return sources


class Results(_Part):
    """What the coordinator passes on, at most what `Plan.reveal` gives it.

    Attributes
    ----------
    target : {'nothing', 'ranking', 'strengths', 'coefficients'}
        For the target. In a plan that was left out, it is filled in: all the coordinator has, short
        of differences. Never None in a `Plan`.
    sources : {'nothing', 'ranking', 'strengths', 'coefficients'}
        For each source.
    """

    target: Grant | None = None
    sources: Grant = "nothing"


class Privacy(_Part):
    """The disclosure rules every party applies; lowering them takes a change all parties see.

    Attributes
    ----------
    min_group : int
        A column is refused where some, but fewer than this many rows lie outside its largest group
        of equal values. 1 turns the rule off.
    min_rows_per_feature : int
        A run is refused with fewer rows than this times the features of all parties. 0 turns it off.
    """

    min_group: _Count = _whole(1, default=3)
    min_rows_per_feature: _Count = _whole(0, default=3)


class Network(_Part):
    """How the parties wait for each other.

    Attributes
    ----------
    timeout : float
        Seconds without a sign of life after which a peer counts as lost. Computing, however long,
        is not silence.
    """

    # The upper end keeps deadlines within what clocks and sockets can count.
    timeout: Annotated[float, Strict()] = Field(
        default=60.0,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="a number of seconds above 0 and at most 1000000",
    )


class Plan(_Part):
    """A checked plan; frozen. Made by `load_plan`.

    Attributes
    ----------
    protocol : {'mpc'}
        How the private part is computed.
    reveal : {'differences', 'coefficients', 'strengths'}
        What the coordinator's protocol values determine, weakest privacy first.
    estimator : {'tie_corrected', 'paper'}
        Spearman's coefficient, or the paper's eq. 2 (wrong where there are ties).
    strength : {'mean', 'mean_abs'}
        A target feature's strength: the mean of its coefficients, or of their absolute values.
    order : {'descending', 'ascending'}
        How the ranking is sorted by strength.
    rows : int, optional
        Use only the first so many rows.
    parties, results, privacy, network
        See the classes of those names.
    """

    protocol: Protocol = "mpc"
    reveal: Reveal = "coefficients"
    estimator: Estimator = "tie_corrected"
    strength: Strength = "mean"
    order: Order = "descending"
    rows: _Count | None = _whole(3, default=None)
    parties: Parties
    results: Results = Field(default=Results(), validate_default=True)
    privacy: Privacy = Privacy()
    network: Network = Network()

    @field_validator("protocol", "reveal")
    @classmethod
    def _available(cls, value: str, info: ValidationInfo) -> str:
        if value in NOT_YET[str(info.field_name)]:
            raise ValueError("is not available yet")
        return value

    @field_validator("results")
    @classmethod
    def _fill_in(cls, results: Results, info: ValidationInfo) -> Results:
        # shared() must hold the real value: two parties that both leave it out must mean the same.
        most = _MOST[info.data.get("reveal", "coefficients")]
        return results if results.target else results.model_copy(update={"target": most})

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Plan:
        problems = [f"plan: {dotted(key)}: {text}" for key, text in _contradictions(self.model_dump())]
        if problems:
            raise PlanError("\n".join(problems))
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Party names by rank: the coordinator is 0, the target 1, the sources follow."""
        parties = self.parties
        return (parties.coordinator.name, parties.target.name, *(source.name for source in parties.sources))

    def party(self, name: str) -> CoordinatorParty | DataParty:
        """Look a party up by its name.

        Raises
        ------
        PlanError
            No party has that name.
        """
        parties = self.parties
        everyone: list[CoordinatorParty | DataParty] = [parties.coordinator, parties.target, *parties.sources]
        for party in everyone:
            if party.name == name:
                return party
        hint = nearest(name, self.names) or f"; parties: {', '.join(self.names)}"
        raise PlanError(f"the plan has no party {shown(name)}{hint}")

    def shared(self) -> dict[str, Any]:
        """Return the part that all parties must agree on, ready for JSON: no local field at all."""
        parties = self.parties
        content = self.model_dump(mode="json", exclude={"parties"})
        # Built from the names alone, so that a field added to a data party stays local by default.
        content["parties"] = {
            "coordinator": {"name": parties.coordinator.name},
            "target": {"name": parties.target.name},
            "sources": [{"name": source.name} for source in parties.sources],
        }
        return content

    def canonical_json(self) -> str:
        """Return `shared` as the one JSON text for it: ASCII, keys sorted, no spaces."""
        return canonical(self.shared())

    def digest(self) -> bytes:
        """Return the SHA-256 of `canonical_json` (32 bytes)."""
        return hashlib.sha256(self.canonical_json().encode("ascii")).digest()

    def restricted_to(self, name: str) -> Plan:
        """Return the plan as party `name` may hold it: of all local parts, only its own.

        Raises
        ------
        PlanError
            No party has that name.
        """
        self.party(name)

        def own(party: DataParty) -> DataParty:
            return party if party.name == name else DataParty(name=party.name)

        sources = tuple(own(source) for source in self.parties.sources)
        kept = self.parties.model_copy(update={"target": own(self.parties.target), "sources": sources})
        return self.model_copy(update={"parties": kept})


def load_plan(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    tables: Mapping[str, Path | None] = MappingProxyType({}),
) -> Plan:
    """Read a plan, change it as asked, and check it.

    Parameters
    ----------
    source : str, Path or mapping
        A YAML file, or the content of one. ``${...}`` is not expanded.
    overrides : sequence of str
        Each ``key=value``: a dotted key such as ``network.timeout`` and a value in YAML. An item of
        a list is named by its position, a source also by its name: ``parties.sources.A.exclude=[x]``.
    tables : mapping
        Party name to table, in place of the plan's; None for a table that is not a file.

    Returns
    -------
    Plan
        With absolute table paths. Relative ones in a file are relative to the file's folder, all
        others to the working directory. That the tables exist is not checked here.

    Raises
    ------
    PlanError
        All that is wrong, one problem per line.
    """
    draft = Draft.read(source)
    draft.place_tables(draft.folder)
    for override in overrides:
        draft.override(override)
    for party, table in tables.items():
        draft.set_table(party, table)
    draft.place_tables(Path.cwd())
    # First what does not go together, from the raw values: the models look at that only once every
    # single value is right, and a user should not have to run twice to see both kinds of problem.
    for location, text in _contradictions(draft.data):
        draft.report(location, text)
    try:
        plan = Plan.model_validate(draft.data)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            # Of a list whose items are all wrong pydantic also says that it is too short.
            if problem["type"] != "too_short" or not problem["input"]:
                draft.report(*explain(problem, Plan, NOT_YET))
    except PlanError:  # the contradictions again
        if not draft.problems:
            raise
    if draft.problems:
        raise PlanError("\n".join(draft.problems))
    return plan


def _contradictions(data: Mapping[Any, Any]) -> Iterator[tuple[Location, str]]:
    """Find values that do not go together; values that are wrong by themselves are passed over."""

    def section(name: str) -> Mapping[Any, Any]:
        found = data.get(name)
        return found if isinstance(found, Mapping) else {}

    reveal = data.get("reveal", "coefficients")
    usable = isinstance(reveal, str) and reveal not in NOT_YET["reveal"]
    most = _MOST.get(reveal) if usable else None
    if most is not None:
        for role in ("target", "sources"):
            grant = section("results").get(role)
            if grant in _GRANTS and _GRANTS.index(grant) > _GRANTS.index(most):
                allowed = ", ".join(_GRANTS[: _GRANTS.index(most) + 1])
                has = f"more than the coordinator has under reveal: {shown(reveal)}"
                yield ("results", role), f"{shown(grant)} is {has}; allowed: {allowed}"
        if data.get("strength") == "mean_abs" and most != "coefficients":
            needs = f"'mean_abs' needs the coefficients, and reveal: {shown(reveal)} does not give them"
            yield ("strength",), f"{needs}; use strength: mean, or reveal: coefficients"

    parties = section("parties")
    sources = parties.get("sources")
    entries: list[tuple[Location, Any]] = [((role,), parties.get(role)) for role in ("coordinator", "target")]
    if isinstance(sources, (list, tuple)):
        entries += [(("sources", position), source) for position, source in enumerate(sources)]
    taken: dict[str, Location] = {}
    for place, party in entries:
        name = party.get("name") if isinstance(party, Mapping) else None
        if isinstance(name, str):
            # Not even by case alone: on some file systems that is one folder.
            first = taken.setdefault(name.casefold(), place)
            if first != place:
                whose = f"{shown(name)} is also the name at parties.{dotted(first)}.name"
                yield ("parties", *place, "name"), f"{whose} (case aside); every party needs its own"

"""The plan's ``parties`` section: who takes part, with each party's local keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from mpc_spearman.config.fields import (
    MAPPING,
    VALUE,
    VALUE_OR_MAPPING,
    ColumnName,
    Columns,
    Count,
    Flag,
    KeyBits,
    Loss,
    Name,
    Number,
    OneOrMore,
    OneOrMoreColumns,
    OptionalFile,
    PageText,
    Section,
    Text,
    allowed,
    whole,
)
from mpc_spearman.config.levels import Reveal, within
from mpc_spearman.config.sections import LOSS, Noise, Protocol, Unit, host_and_port
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.config.wording import Location, shown

# Parts of a query whose semicolons and words are not SQL grammar.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_CONNECTION = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


def _dialled(value: str) -> str:
    if host_and_port(value)[1] == 0:
        raise ValueError("has port 0, which nobody can dial")
    return value


def _bound(value: str) -> str:
    host_and_port(value, any_address=True)
    return value


def _identity(value: str) -> str:
    from mpc_spearman.identity import public_key  # not above: most plans need no cryptography to be read

    public_key(value)
    return value


Address = Annotated[Text, AfterValidator(_dialled)]
Listen = Annotated[Text, AfterValidator(_bound)]
PublicKey = Annotated[Text, AfterValidator(_identity)]


class Policy(Section):
    """What a data owner allows, regardless of the shared plan; local to that owner."""

    max_reveal: Annotated[tuple[Reveal, ...], OneOrMore, allowed("a level, or a list of levels")] = (
        "coefficients",
    )
    """The most that the coordinator may open: one level, or several as in `[coefficients, explained]`.
    `differences`, `explained` and `canonical` have to be named."""
    protocols: Annotated[tuple[Protocol, ...], allowed("a list of protocols")] = ("mpc", "he")
    """The protocols that this owner accepts."""
    results_to: Annotated[tuple[Literal["target", "sources"], ...], allowed("a list of roles")] = (
        "target",
        "sources",
    )
    """The roles that the coordinator may pass results to."""
    exact: Flag = False
    """Accepts `results.precision: exact`: rows can be computed from results without noise."""
    min_rows: Annotated[Count, whole(1)] = 30
    """The fewest rows that this owner takes part with."""
    max_ids: Annotated[Count, whole(1)] = 10_000_000
    """Under `alignment: intersect`: the most ids that another party may submit."""
    max_unmatched: Annotated[Number, allowed("a number from 0 to 1", ge=0, le=1)] = 1.0
    """Under `alignment: intersect`: the largest share of another party's ids that may be without a match:
    docs/privacy.md#membership."""
    loss: Loss = LOSS
    """The largest `privacy.loss` that this owner accepts."""
    lifetime: Loss = 2 * LOSS
    """The most that all runs together may reveal to one partner. The ledger adds it up:
    docs/privacy.md#the-ledger."""
    noise: Noise = "results"
    """`inputs` demands `noise: inputs` beside this owner's name in the plan."""
    unit: Unit = "row"
    """`value` accepts `privacy.unit: value`, which hides less."""
    min_columns: Annotated[Count, whole(1)] = 2
    """The fewest source columns, constant columns not counted, that a strength may average; at `explained`
    and `canonical`, the fewest directions of a source. It applies only if `max_reveal` does not allow
    `coefficients`."""
    range: Annotated[
        dict[ColumnName, Annotated[Number, Field(ge=1, le=100)]],
        allowed("a mapping of columns to numbers from 1 to 100"),
    ] = Field(default={})
    """How many times as large as it is a column's range is stated. Where a run can use other rows than all, a
    column that is rarer in them is then weakened less, and has more noise:
    docs/guarantee.md#other-rows-than-all."""
    proofs: Flag = False
    """Takes part only if everybody proves its vectors (`proofs`), so that no lie about them lessens noise."""
    min_key_bits: KeyBits = 3072
    """The shortest Paillier key (`he.key_bits`) that this owner accepts."""
    ledger: OptionalFile = None
    """This owner's record of how much its runs revealed to each partner: docs/privacy.md#the-ledger.
    `mpc-spearman init` makes it, or `mpc-spearman ledger --begin FILE`. `join` needs one, `local` does
    not."""
    approved_by: Annotated[PublicKey | None, allowed("the approver's public key: ed25519:...")] = None
    """`join` runs only what the owner of this public key has approved: docs/hosts.md#approval."""
    approval: OptionalFile = None
    """The approval that `mpc-spearman approve` writes. Left out, under `approved_by`: `NAME.approval` beside
    the plan."""

    def allows(self, level: str) -> bool:
        """Return whether this policy allows the coordinator to open a level."""
        return any(within(level, most) for most in self.max_reveal)


class AnyParty(Section):
    """What every party has. All but its name, identity and organisation is local."""

    name: Annotated[Name, allowed("a text of at most 64 characters without `/`, `\\` and `=`")]
    """The party's name, also that of its folder of results."""
    identity: Annotated[PublicKey | None, allowed("a line of `mpc-spearman init --party NAME`")] = None
    """The party's public key, `ed25519:` and base64, as `mpc-spearman init --party NAME` prints it:
    docs/hosts.md#keys. `join` needs every party's."""
    organisation: PageText = None
    """The organisation that this party is, and whom to contact there."""
    key: OptionalFile = None
    """This party's private key, as `mpc-spearman init --party NAME` makes it: docs/hosts.md#keys. `join`
    needs it, also at the coordinator."""
    listen: Annotated[Listen | None, allowed("HOST:PORT, such as 10.0.0.7:29501")] = None
    """Where others can dial this party; port 0 means any free port. Data parties without it are connected
    through the coordinator's host: docs/hosts.md#ports-and-firewalls. At the coordinator: where it listens,
    if not at `network.port` of all its addresses."""


class Page(Section):
    """The owner's own texts for the page to sign, about its data; local to that owner."""

    people: PageText = None
    """Whose data the table holds, and how many people these are."""
    legal_basis: PageText = None
    """The legal basis on which this owner takes part."""
    retention: PageText = None
    """How long this owner keeps its ledger, approvals and kept ranks."""


class CoordinatorParty(AnyParty):
    """The party without data, to which the protocol reveals values."""


class Query(Section):
    """The answer of a query to a database."""

    query: Annotated[Text | None, allowed("SQL")] = None
    """One `SELECT`, or `WITH ... SELECT`: docs/tables.md#databases."""
    connection: Annotated[Text | None, allowed("env:NAME")] = None
    """The environment variable that holds the database's address, which may contain a password. Left out:
    DuckDB in the role's own process."""
    order_by: OneOrMoreColumns = ()
    """The columns that rows are sorted by, then by `id`. Needed under `alignment: same`, and for the plan's
    `rows`."""

    @model_validator(mode="after")
    def _is_safe(self) -> Query:
        # Not by a validator of each key: its text would quote a password or a query.
        if self.connection is not None and not _CONNECTION.fullmatch(self.connection):
            where = "put the database's address into an environment variable, and its name here"
            raise ValueError(f"connection is not env:NAME; {where}")
        if not self.query:
            raise ValueError("needs query")
        code = _QUOTED.sub(" ", self.query.strip().removesuffix(";"))
        if not re.match(r"\s*(select|with)\b", code, re.IGNORECASE) or ";" in code:
            raise ValueError("query is not one SELECT statement (or WITH ... SELECT)")
        return self

    @property
    def variable(self) -> str:
        """Name of the environment variable; "" if there is none."""
        return (self.connection or "").removeprefix("env:")

    def __str__(self) -> str:
        return f"the database of {self.connection}" if self.connection else "the query"


class DataParty(TableKeys, AnyParty):
    """A party with a table. All but its name, identity and organisation is local.

    `table` is None where the table is elsewhere: in another organisation, or in this program.
    """

    advertise: Annotated[Address | None, allowed("HOST:PORT, such as 192.0.2.7:29501")] = None
    """Where others dial this party, if not where it listens: in a container, behind address translation."""
    table: Annotated[
        Annotated[OptionalFile, VALUE] | Annotated[Query, MAPPING],
        VALUE_OR_MAPPING,
        allowed("a file path, or query below it"),
    ] = None
    """The party's table: a CSV, Parquet or Arrow file, or a folder of part files (docs/tables.md). A path in
    a file is relative to the file's folder, in a setting to the working directory."""
    policy: Policy = Policy()
    page: Page = Page()
    noise: Noise = "results"
    """Where noise protects this party's rows: in `results`, or on its `inputs`, which holds whatever the
    others do, and needs many more rows: docs/privacy.md#noise-on-inputs."""
    adjust: Columns = ()
    """Columns of this party's table for which its features are adjusted, such as age and sex: what they
    explain of the ranks is taken off. They are no features. Both sides adjust for the same columns, or one
    side does: docs/adjusting.md."""
    aligned: OptionalFile = None
    """Ids of an earlier run, as `write_aligned` leaves them. Under `alignment: ids` these rows are used, in
    this order; under `intersect` no other rows are matched."""
    write_aligned: OptionalFile = None
    """Under `alignment: intersect`: where to write the ids of the rows that all data parties have, as CSV."""
    write_unaligned: OptionalFile = None
    """Under `alignment: intersect`: where to write the owner's other rows, with all columns of its table, as
    CSV or Parquet: docs/tables.md#rows-that-are-not-common."""

    @field_validator("adjust")
    @classmethod
    def _adjusts_for_each_once(cls, adjust: tuple[str, ...]) -> tuple[str, ...]:
        if repeated := [name for name in adjust if adjust.count(name) > 1]:
            raise ValueError(f"lists {shown(repeated[0])} more than once")
        return adjust


class TargetParty(DataParty):
    """The data party whose features are ranked."""

    alignment_key: OptionalFile = None
    """The target's only: the file of a secret, made at first use. It allows results of several runs over the
    same rows to be merged: docs/results.md#add-a-later-source."""


AnyOne = CoordinatorParty | DataParty
#: The keys of a party's entry that all parties must agree on; all others are local.
SHARED_PARTY_KEYS = ("name", "identity", "organisation", "noise", "adjust")
# A target has all keys that other parties have.
LOCAL_PARTY_KEYS = TargetParty.model_fields.keys() - {*SHARED_PARTY_KEYS}


class Parties(Section):
    """Who takes part, in which role."""

    coordinator: CoordinatorParty
    target: TargetParty
    sources: Annotated[tuple[DataParty, ...], allowed("a list of at least one source", min_length=1)]
    """The parties whose features the target's are compared with."""

    @property
    def everyone(self) -> tuple[AnyOne, ...]:
        """The coordinator, the target, the sources."""
        return (self.coordinator, self.target, *self.sources)

    def places(self) -> Iterator[tuple[Location, AnyOne]]:
        """Yield each party with its location in the plan."""
        yield ("parties", "coordinator"), self.coordinator
        yield ("parties", "target"), self.target
        for position, source in enumerate(self.sources):
            yield ("parties", "sources", position), source

"""The plan's ``parties`` section: who takes part, with each party's local keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from mpc_spearman.config.fields import (
    KINDS,
    ColumnName,
    Count,
    Flag,
    Name,
    Number,
    OptionalFile,
    Section,
    Text,
    flag,
    key_bits,
    kind_of,
    optional_file,
    page_text,
    privacy_loss,
    setting,
    whole,
)
from mpc_spearman.config.levels import Reveal, within
from mpc_spearman.config.sections import LOSS, Noise, Protocol, Unit, host_and_port
from mpc_spearman.config.table_keys import TableKeys, one_or_more
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
PublicKey = Annotated[Text, AfterValidator(_identity)]


class Policy(Section):
    """What a data owner allows, regardless of the shared plan; local to that owner."""

    max_reveal: Annotated[tuple[Reveal, ...], BeforeValidator(one_or_more)] = setting(
        "The most that the coordinator may open: one level, or several as in `[coefficients, explained]`. "
        "`differences`, `explained` and `canonical` have to be named.",
        ("coefficients",),
        "a level, or a list of levels",
    )
    protocols: tuple[Protocol, ...] = setting(
        "The protocols that this owner accepts.", ("mpc", "he"), "a list of protocols"
    )
    results_to: tuple[Literal["target", "sources"], ...] = setting(
        "The roles that the coordinator may pass results to.", ("target", "sources"), "a list of roles"
    )
    exact: Flag = flag("Accepts `results.precision: exact`: rows can be computed from results without noise.")
    min_rows: Count = whole("The fewest rows that this owner takes part with.", low=1, default=30)
    max_ids: Count = whole(
        "Under `alignment: intersect`: the most ids that another party may submit.", 1, 10_000_000
    )
    max_unmatched: Number = setting(
        "Under `alignment: intersect`: the largest share of another party's ids that may be without a "
        "match: docs/privacy.md#membership.",
        1.0,
        "a number from 0 to 1",
        ge=0,
        le=1,
    )
    loss: Number = privacy_loss("The largest `privacy.loss` that this owner accepts.", LOSS)
    lifetime: Number = privacy_loss(
        "The most that all runs together may reveal to one partner. The ledger adds it up: "
        "docs/privacy.md#the-ledger.",
        2 * LOSS,
    )
    noise: Noise = setting(
        "`inputs` demands `noise: inputs` beside this owner's name in the plan.",
        "results",
    )
    unit: Unit = setting("`value` accepts `privacy.unit: value`, which hides less.", "row")
    min_columns: Count = whole(
        "The fewest source columns, constant columns not counted, that a strength may average; at "
        "`explained` and `canonical`, the fewest directions of a source. It applies only if `max_reveal` "
        "does not allow `coefficients`.",
        low=1,
        default=2,
    )
    range: dict[ColumnName, Annotated[Number, Field(ge=1, le=100)]] = setting(
        "How many times as large as it is a column's range is stated. Where a run can use other rows than "
        "all, a column that is rarer in them is then weakened less, and has more noise: "
        "docs/guarantee.md#other-rows-than-all.",
        {},
        "a mapping of columns to numbers from 1 to 100",
    )
    proofs: Flag = flag(
        "Takes part only if everybody proves its vectors (`proofs`), so that no lie about them lessens noise."
    )
    min_key_bits: Count = key_bits("The shortest Paillier key (`he.key_bits`) that this owner accepts.")
    ledger: OptionalFile = optional_file(
        "This owner's record of how much its runs revealed to each partner: docs/privacy.md#the-ledger. "
        "`mpc-spearman init` makes it, or `mpc-spearman ledger --begin FILE`. `join` needs one, `local` does "
        "not."
    )
    approved_by: PublicKey | None = setting(
        "`join` runs only what the owner of this public key has approved: docs/hosts.md#approval.",
        None,
        "the approver's public key: ed25519:...",
    )
    approval: OptionalFile = optional_file(
        "The approval that `mpc-spearman approve` writes. Left out, under `approved_by`: `NAME.approval` "
        "beside the plan."
    )

    def allows(self, level: str) -> bool:
        """Return whether this policy allows the coordinator to open a level."""
        return any(within(level, most) for most in self.max_reveal)


class AnyParty(Section):
    """What every party has. All but its name, identity and organisation is local."""

    name: Name = setting(
        "The party's name, also that of its folder of results.",
        allowed="a text of at most 64 characters without `/`, `\\` and `=`",
    )
    identity: PublicKey | None = setting(
        "The party's public key, `ed25519:` and base64, as `mpc-spearman init --party NAME` prints it: "
        "docs/hosts.md#keys. `join` needs every party's.",
        None,
        "a line of `mpc-spearman init --party NAME`",
    )
    organisation: Text | None = page_text("The organisation that this party is, and whom to contact there.")
    key: OptionalFile = optional_file(
        "This party's private key, as `mpc-spearman init --party NAME` makes it: docs/hosts.md#keys. `join` "
        "needs it, also at the coordinator."
    )
    listen: Annotated[Text, AfterValidator(_bound)] | None = setting(
        "Where others can dial this party; port 0 means any free port. Data parties without it are connected "
        "through the coordinator's host: docs/hosts.md#ports-and-firewalls. At the coordinator: where it "
        "listens, if not at `network.port` of all its addresses.",
        None,
        "HOST:PORT, such as 10.0.0.7:29501",
    )


class Page(Section):
    """What the page to sign says of an owner's data, in the owner's words; local to that owner."""

    people: Text | None = page_text("Whose data the table holds, and how many people these are.")
    legal_basis: Text | None = page_text("The legal basis on which this owner takes part.")
    retention: Text | None = page_text("How long this owner keeps its ledger, approvals and kept ranks.")


class CoordinatorParty(AnyParty):
    """The party without data, to which the protocol reveals values."""


class Query(Section):
    """The answer of a query to a database."""

    query: Text | None = setting("One `SELECT`, or `WITH ... SELECT`: docs/tables.md#databases.", None, "SQL")
    connection: Text | None = setting(
        "The environment variable that holds the database's address, which may contain a password. Left out: "
        "DuckDB in the role's own process.",
        None,
        "env:NAME",
    )
    order_by: Annotated[tuple[ColumnName, ...], BeforeValidator(one_or_more)] = setting(
        "The columns that rows are sorted by, then by `id`. Needed under `alignment: same`, and for the "
        "plan's `rows`.",
        (),
        "a column name, or a list of column names",
    )

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

    advertise: Address | None = setting(
        "Where others dial this party, if not where it listens: in a container, behind address translation.",
        None,
        "HOST:PORT, such as 192.0.2.7:29501",
    )
    table: Annotated[
        Annotated[OptionalFile, Tag(KINDS[0])] | Annotated[Query, Tag(KINDS[1])], Discriminator(kind_of)
    ] = setting(
        "The party's table: a CSV, Parquet or Arrow file, or a folder of part files (docs/tables.md). A path "
        "in a file is relative to the file's folder, in a setting to the working directory.",
        None,
        "a file path, or query below it",
    )
    policy: Policy = Policy()
    page: Page = Page()
    noise: Noise = setting(
        "Where noise protects this party's rows: in `results`, or on its `inputs`, which holds whatever the "
        "others do, and needs many more rows: docs/privacy.md#noise-on-inputs.",
        "results",
    )
    adjust: tuple[ColumnName, ...] = setting(
        "Columns of this party's table for which its features are adjusted, such as age and sex: what they "
        "explain of the ranks is taken off. They are no features. Both sides adjust for the same columns, or "
        "one side does: docs/adjusting.md.",
        (),
        "a list of column names",
    )
    aligned: OptionalFile = optional_file(
        "Ids of an earlier run, as `write_aligned` leaves them. Under `alignment: ids` these rows are used, "
        "in this order; under `intersect` no other rows are matched."
    )
    write_aligned: OptionalFile = optional_file(
        "Under `alignment: intersect`: where to write the ids of the rows that all data parties have, as CSV."
    )
    write_unaligned: OptionalFile = optional_file(
        "Under `alignment: intersect`: where to write the owner's other rows, with all columns of its table, "
        "as CSV or Parquet: docs/tables.md#rows-that-are-not-common."
    )

    @field_validator("adjust")
    @classmethod
    def _adjusts_for_each_once(cls, adjust: tuple[str, ...]) -> tuple[str, ...]:
        if repeated := [name for name in adjust if adjust.count(name) > 1]:
            raise ValueError(f"lists {shown(repeated[0])} more than once")
        return adjust


class TargetParty(DataParty):
    """The data party whose features are ranked."""

    alignment_key: OptionalFile = optional_file(
        "The target's only: the file of a secret, made at first use. It allows results of several runs over "
        "the same rows to be merged: docs/results.md#add-a-later-source."
    )


AnyOne = CoordinatorParty | DataParty
#: The keys of a party's entry that all parties must agree on; all others are local.
SHARED_PARTY_KEYS = ("name", "identity", "organisation", "noise", "adjust")
# A target has all keys that other parties have.
LOCAL_PARTY_KEYS = TargetParty.model_fields.keys() - {*SHARED_PARTY_KEYS}


class Parties(Section):
    """Who takes part, in which role."""

    coordinator: CoordinatorParty
    target: TargetParty
    sources: tuple[DataParty, ...] = setting(
        "The parties whose features the target's are compared with.",
        allowed="a list of at least one source",
        min_length=1,
    )

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

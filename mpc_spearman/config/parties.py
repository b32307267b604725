"""The plan's ``parties`` section: who takes part, and what each keeps to itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mpc_spearman.config.fields import (
    Count,
    Flag,
    Loss,
    Name,
    OptionalFile,
    Section,
    Share,
    Text,
    flag,
    key_bits,
    optional_file,
    privacy_loss,
    whole,
)
from mpc_spearman.config.network import host_and_port
from mpc_spearman.config.scale import Reveal
from mpc_spearman.config.sections import LOSS, Protocol, Unit
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.config.wording import TABLE_KINDS

# What may hold a semicolon, or a word, that is no part of SQL's grammar.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_CONNECTION = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


def _advertise(value: str | None) -> str | None:
    if value is not None and host_and_port(value)[1] == 0:
        raise ValueError("has port 0, which nobody can dial")
    return value


def _identity(value: str | None) -> str | None:
    if value is not None:
        from mpc_spearman.identity import public_key  # not above: most plans need no cryptography to be read

        public_key(value)
    return value


class Policy(Section):
    """What a data owner allows, whatever the shared plan says; local to that owner.

    Attributes
    ----------
    max_reveal : {'ranking', 'strengths', 'coefficients', 'differences'}
        The most the coordinator may learn. ``differences``, nearly all ranks, needs saying so here.
    protocols : tuple of {'mpc', 'he'}
        The protocols the owner agrees to run.
    results_to : tuple of {'target', 'sources'}
        The roles, beside the coordinator, that may be passed results.
    exact : bool
        Agree to ``results.precision: exact``, with which published numbers can be solved for rows.
    min_rows : int
        The fewest rows to take part with.
    max_ids : int
        The most ids that another party may have matched with one's own, so that it cannot try all there are.
    max_unmatched : float
        The largest share of another party's ids that may turn out not to be common to all.
    loss : float
        The highest ``privacy.loss`` to accept.
    lifetime : float
        The most that all runs together may tell one partner, which the ledger adds up.
    unit : {'row', 'value'}
        ``value`` agrees to ``privacy.unit: value``, which hides less.
    min_columns : int
        The fewest distinct source columns, of all sources together, that a strength may be a mean over.
        Asked below ``reveal: coefficients`` of an owner whose `max_reveal` is below ``coefficients``.
    min_key_bits : int
        The shortest Paillier key, ``he.key_bits``, to accept.
    ledger : Path, optional
        A file in which the owner's runs are written down, made at first use. Left out, ``join`` takes
        ``NAME.ledger`` beside the plan; ``local`` keeps none.
    approved_by : str, optional
        A public key: ``join`` runs nothing that its owner has not approved (`config.approval`).
    approval : Path, optional
        The file with the approval; left out of a plan, ``NAME.approval`` beside it.
    """

    max_reveal: Reveal = "coefficients"
    protocols: tuple[Protocol, ...] = Field(default=("mpc", "he"), description="a list of protocols")
    results_to: tuple[Literal["target", "sources"], ...] = Field(
        default=("target", "sources"), description="a list of roles"
    )
    exact: Flag = flag(False)
    min_rows: Count = whole(1, default=30)
    max_ids: Count = whole(1, default=10_000_000)
    max_unmatched: Share = Field(default=1.0, ge=0, le=1, description="a number from 0 to 1")
    loss: Loss = privacy_loss(LOSS)
    lifetime: Loss = privacy_loss(2 * LOSS)
    unit: Unit = "row"
    min_columns: Count = whole(1, default=2)
    min_key_bits: Count = key_bits()
    ledger: OptionalFile = optional_file()
    approved_by: Annotated[Text | None, AfterValidator(_identity)] = Field(
        default=None, description="the public key of who approves runs: ed25519:..."
    )
    approval: OptionalFile = optional_file()


class AnyParty(Section):
    """What every party has. All but its name and identity is local.

    Attributes
    ----------
    name : str
        Shared with everyone; also the name of its folder of results.
    identity : str, optional
        Its public key, ``ed25519:`` and base64, by which all others know it: shared. Without it there is no
        run between hosts.
    key : Path, optional
        The file of its private key.
    listen : str, optional
        ``HOST:PORT`` that this party listens on, port 0 for any free one, so that others can dial it.
        Without it, it dials everyone, and what passes between it and another data party without it is
        forwarded by the coordinator's host. At the coordinator it is where all others dial it, if that is
        not `network.port` at all of its addresses.
    advertise : str, optional
        ``HOST:PORT`` that others dial, where it is not what this party listens on: in a container, or behind
        an address translation.
    """

    name: Name
    identity: Annotated[Text | None, AfterValidator(_identity)] = Field(
        default=None, description="a line of `mpc-spearman init --party NAME`"
    )
    key: OptionalFile = optional_file()
    advertise: Annotated[Text | None, AfterValidator(_advertise)] = Field(
        default=None, description="HOST:PORT, such as 192.0.2.7:29501"
    )
    listen: Text | None = Field(default=None, description="HOST:PORT, such as 10.0.0.7:29501")

    @field_validator("listen")
    @classmethod
    def _can_be_dialled(cls, listen: str | None, info: ValidationInfo) -> str | None:
        if listen is not None:
            host_and_port(listen, any_address=info.data.get("advertise") is not None)
        return listen


class CoordinatorParty(AnyParty):
    """The party without data, which the protocol reveals its values to."""


class Query(Section):
    """A table that is the answer of a database.

    Attributes
    ----------
    query : str
        One SELECT, or WITH ... SELECT.
    connection : str
        ``env:NAME``, the environment variable with the database's address where this party's role runs. Not
        the address itself: it may hold a password, and a plan is mailed around.
    """

    query: Text
    connection: Text

    @model_validator(mode="after")
    def _is_safe(self) -> Query:
        # Not by a validator of each key: its text would quote a password, or what a query looks for.
        if not _CONNECTION.fullmatch(self.connection):
            raise ValueError(
                "connection is not env:NAME; put the database's address into an environment variable, and "
                "its name here"
            )
        code = _QUOTED.sub(" ", self.query.strip().removesuffix(";"))
        if not re.match(r"\s*(select|with)\b", code, re.IGNORECASE) or ";" in code:
            raise ValueError("query is not one SELECT statement (or WITH ... SELECT)")
        return self

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return self.connection.removeprefix("env:")


def _table_kind(value: object) -> str:
    return TABLE_KINDS[isinstance(value, (Mapping, Query))]


class DataParty(TableKeys, AnyParty):
    """A party with a table. All but its name and identity is local.

    Attributes
    ----------
    table : Path or Query, optional
        A file or a folder of part files, absolute once loaded, or a query of a database. None where the table
        is elsewhere: in another organisation, or in this program.
    policy : Policy
        What this owner allows.
    aligned : Path, optional
        A file of ids, as `write_aligned` leaves it: only these rows are used, in this order.
    write_aligned : Path, optional
        Where to write the ids of the rows that all data parties have.
    write_unaligned : Path, optional
        Where to write the rows that not all data parties have, with all columns of the table.
    """

    table: Annotated[
        Annotated[OptionalFile, Tag(TABLE_KINDS[0])] | Annotated[Query, Tag(TABLE_KINDS[1])],
        Discriminator(_table_kind),
    ] = Field(default=None, description="a file path, or query and connection below it")
    policy: Policy = Policy()
    aligned: OptionalFile = optional_file()
    write_aligned: OptionalFile = optional_file()
    write_unaligned: OptionalFile = optional_file()


class TargetParty(DataParty):
    """The data party whose features are ranked.

    Attributes
    ----------
    alignment_key : Path, optional
        A file with a secret of the target's own, made at first use. With it the target's result gets a tag
        of the row ids, so that results of several runs over the same rows can be merged.
    """

    alignment_key: OptionalFile = optional_file()


class Parties(Section):
    """Who takes part, in which role."""

    coordinator: CoordinatorParty
    target: TargetParty
    sources: tuple[DataParty, ...] = Field(min_length=1, description="a list of at least one source")

"""The sections of a plan, typed. docs/plan.md lists every key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mpc_spearman.config.levels import Grant, Reveal
from mpc_spearman.config.wording import shown

Protocol = Literal["mpc", "he"]
Estimator = Literal["tie_corrected", "paper"]
Strength = Literal["mean", "mean_abs"]
Order = Literal["descending", "ascending"]
OpenedTo = Literal["coordinator", "target"]
Precision = Literal["statistical", "exact"]


def party_name(name: str) -> str:
    """Return a party's name, or raise ``ValueError`` with what is wrong with it."""
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
        raise ValueError("is not a file path; leave the key out if there is no such file here")
    return value


def _listen(value: str | None) -> str | None:
    if value is not None:
        host_and_port(value)
    return value


def host_and_port(text: str) -> tuple[str, int]:
    """Take ``HOST:PORT`` apart, IPv6 hosts in brackets; `ValueError` says what is wrong with it."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("is not HOST:PORT, such as 10.0.0.7:29501")
    host = host.removeprefix("[").removesuffix("]")
    if host in ("0.0.0.0", "::", "*"):
        raise ValueError("is every address of this machine; name the one that the other parties reach")
    return host, int(port)


_Text = Annotated[str, Strict()]  # 7, true and 2024-01-01 are not text until someone quotes them
_Name = Annotated[_Text, AfterValidator(party_name)]
_Column = Annotated[_Text, AfterValidator(_column)]
Count = Annotated[int, Strict()]  # strict: true is not 1, and 3.0 is not 3


class Section(BaseModel):
    """A part of the plan: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# In the fields below, a description completes the sentence "<value> is not ...".


def whole(low: int, default: int | None) -> Any:
    """Declare a whole number of at least `low`."""
    # The upper end is beyond any table this package takes, and within what every peer can read.
    return Field(default=default, ge=low, le=10**9, description=f"a whole number from {low} to 1000000000")


Flag = Annotated[bool, Strict()]
Share = Annotated[float, Strict()]


def flag(default: bool) -> Any:
    """Declare a yes or no."""
    return Field(default=default, description="true or false")


def share(default: float) -> Any:
    """Declare a share of what a column holds; above 1 it limits nothing."""
    return Field(
        default=default, gt=0, le=1e6, allow_inf_nan=False, description="a number above 0 and at most 1000000"
    )


def key_bits() -> Any:
    """Declare the length of Paillier's modulus."""
    return Field(default=3072, ge=256, le=16384, description="a whole number of bits from 256 to 16384")


#: The shared defaults of ``privacy``, and each owner's floors.
MIN_GROUP, MIN_ROWS_PER_FEATURE, BUDGET = 10, 3, 0.5


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
    min_rows : int, optional
        The fewest rows to take part with.
    min_group, min_rows_per_feature : int
        The lowest values of those keys of ``privacy`` to accept.
    budget : float
        The highest ``privacy.budget`` to accept.
    min_columns : int
        The fewest distinct source columns, of all sources together, that a strength may be a mean over.
        Asked below ``reveal: coefficients`` of an owner whose `max_reveal` is below ``coefficients``.
    min_key_bits : int
        The shortest Paillier key, ``he.key_bits``, to accept.
    tls : {'mutual', 'insecure'}
        ``insecure`` agrees to ``network.tls: insecure``.
    ledger : Path, optional
        A file in which the owner's runs are written down, made at first use: a run is refused for what it
        and earlier ones would tell together.
    """

    max_reveal: Reveal = "coefficients"
    protocols: tuple[Protocol, ...] = Field(default=("mpc", "he"), description="a list of protocols")
    results_to: tuple[Literal["target", "sources"], ...] = Field(
        default=("target", "sources"), description="a list of roles"
    )
    exact: Flag = flag(False)
    min_rows: Count | None = whole(1, default=None)
    min_group: Count = whole(1, default=MIN_GROUP)
    min_rows_per_feature: Count = whole(0, default=MIN_ROWS_PER_FEATURE)
    budget: Share = share(BUDGET)
    min_columns: Count = whole(1, default=2)
    min_key_bits: Count = key_bits()
    tls: Literal["mutual", "insecure"] = "mutual"
    ledger: Annotated[Path | None, BeforeValidator(_path)] = Field(default=None, description="a file path")


class AnyParty(Section):
    """What every party has. All but its name is local.

    Attributes
    ----------
    name : str
        Shared with everyone; also the name of its folder of results.
    listen : str, optional
        ``HOST:PORT`` that this party listens on and the others reach it at, port 0 for any free one. Left
        out, it is the address from which this machine reaches the coordinator, and any free port.
    """

    name: _Name
    listen: Annotated[_Text | None, AfterValidator(_listen)] = Field(
        default=None, description="HOST:PORT, such as 10.0.0.7:29501"
    )


class CoordinatorParty(AnyParty):
    """The party without data, which the protocol reveals its values to."""


class DataParty(AnyParty):
    """A party with a table. All but its name is local.

    Attributes
    ----------
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


class TargetParty(DataParty):
    """The data party whose features are ranked.

    Attributes
    ----------
    alignment_key : Path, optional
        A file with a secret of the target's own, made at first use. With it the target's result gets a tag
        of the row ids, so that results of several runs over the same rows can be merged.
    """

    alignment_key: Annotated[Path | None, BeforeValidator(_path)] = Field(
        default=None, description="a file path"
    )


class Parties(Section):
    """Who takes part, in which role."""

    coordinator: CoordinatorParty
    target: TargetParty
    sources: tuple[DataParty, ...] = Field(min_length=1, description="a list of at least one source")


class Results(Section):
    """What the coordinator passes on, at most what `Plan.reveal` gives it.

    Attributes
    ----------
    target : {'nothing', 'ranking', 'strengths', 'coefficients'}
        For the target. Left out of a plan, it is filled in: ``strengths``, the paper's list, or less where
        the coordinator has less. Never None in a `Plan`.
    sources : {'nothing', 'ranking', 'strengths', 'coefficients'}
        For each source.
    precision : {'statistical', 'exact'}
        What is passed on is rounded to about a tenth of its standard error, or exact: then single rows can
        be solved for, so every data owner's policy must say ``exact: true``.
    """

    target: Grant | None = None
    sources: Grant = "nothing"
    precision: Precision = "statistical"


class Privacy(Section):
    """The disclosure rules every party applies; lowering them takes a change all parties see.

    Attributes
    ----------
    min_group : int
        A column is refused where some, but fewer than this many rows lie outside its largest group
        of equal values; so are columns which together single out so few rows. 1 turns the rule off.
    min_rows_per_feature : int
        A run is refused with fewer rows than this times the features of all parties. 0 turns it off.
    budget : float
        A column is refused where what is published about it to one party carries more than this share of
        the information that its ranks hold; and a run, where it tells more than this share of the variance of
        one row's rank.
    """

    min_group: Count = whole(1, default=MIN_GROUP)
    min_rows_per_feature: Count = whole(0, default=MIN_ROWS_PER_FEATURE)
    budget: Share = share(BUDGET)


class Tls(Section):
    """Where a party's credentials for TLS are; local, but for whether there is TLS at all.

    Attributes
    ----------
    ca, certificate, key : Path, optional
        PEM files: the CA that all parties trust, this party's certificate, and its key. ``{party}`` in a
        path stands for the party's name, so that one plan can serve all hosts.
    insecure : bool
        No TLS, also between hosts. ``tls: insecure`` in a plan is short for it.
    """

    ca: Annotated[Path | None, BeforeValidator(_path)] = Field(default=None, description="a file path")
    certificate: Annotated[Path | None, BeforeValidator(_path)] = Field(
        default=None, description="a file path"
    )
    key: Annotated[Path | None, BeforeValidator(_path)] = Field(default=None, description="a file path")
    insecure: Flag = flag(False)

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"insecure": True} if value == "insecure" else value

    @model_validator(mode="after")
    def _all_or_none(self) -> Tls:
        files = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        missing = [name for name, file in files.items() if file is None]
        if self.insecure and len(missing) < 3:
            raise ValueError("is 'insecure' and has files of TLS: take out one or the other")
        if not self.insecure and missing:
            raise ValueError(f"needs ca, certificate and key; missing: {', '.join(missing)}")
        return self


_Seconds = Annotated[float, Strict()]


def seconds(default: float) -> Any:
    """Declare a number of seconds."""
    # The upper end keeps deadlines within what clocks and sockets can count.
    return Field(
        default=default,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="a number of seconds above 0 and at most 1000000",
    )


class Network(Section):
    """How the parties find each other, wait for each other, and prove who they are.

    Attributes
    ----------
    timeout : float
        Seconds without a sign of life after which a peer counts as lost. Computing, however long,
        is not silence.
    join_timeout : float
        Seconds to wait for a party that has not joined yet.
    address : str, optional
        The coordinator's host, where the parties meet; not compared, since hosts may know it by several
        names. The environment's ``MASTER_ADDR`` comes first.
    port : int
        The port there; not compared. The environment's ``MASTER_PORT`` comes first.
    tls : Tls, optional
        Compared is only whether there is TLS. Needed where the coordinator is not on a loopback address.
    """

    timeout: _Seconds = seconds(60.0)
    join_timeout: _Seconds = seconds(600.0)
    address: _Text | None = Field(default=None, min_length=1, description="a host name or address")
    port: Count = Field(default=29500, ge=1, le=65535, description="a port number from 1 to 65535")
    tls: Tls | None = None

    @property
    def security(self) -> Literal["mutual", "insecure"] | None:
        """What of `tls` all parties must agree on."""
        if self.tls is None:
            return None
        return "insecure" if self.tls.insecure else "mutual"


class HeSettings(Section):
    """How the homomorphic protocol encrypts.

    Attributes
    ----------
    scheme : {'paillier', 'bfv'}
        The paper's additive scheme, or a lattice scheme that is thousands of times as fast.
    key_bits : int
        Paillier's modulus: 3072 (about 128 bits of security) or 2048 (about 112).
    randomness : {'full', 'short'}
        Paillier's randomness: full, or short exponents, which are faster under one more assumption
        (Damgård, Jurik and Nielsen 2010).
    pairs : {'basis', 'all'}
        At ``differences``: the difference vectors that span all others, or each pair's, as the paper has it.
    packing : bool
        At ``differences`` under Paillier: many ranks in one ciphertext, or one, as the paper has it.
    insecure : bool
        Allow keys that can be broken. For tests.
    workers : int, optional
        Threads this party uses; all processors if left out. Not compared with other parties.
    """

    scheme: Literal["paillier", "bfv"] = "paillier"
    key_bits: Count = key_bits()
    randomness: Literal["full", "short"] = "full"
    pairs: Literal["basis", "all"] = "basis"
    packing: Flag = flag(True)
    insecure: Flag = flag(False)
    workers: Count | None = whole(1, default=None)

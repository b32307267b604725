"""Rows of the table of who learns what (:mod:`mpc_spearman.levels.view`) that several levels declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, FieldType, Kind, Row

SOURCE, TARGET, COORDINATOR = (Role.SOURCE,), (Role.TARGET,), (Role.COORDINATOR,)

#: Names of features, in words.
NAMES = "feature names, with the names of categories that are flags (`encode: flags`)"
#: Which features belong to one column without an order.
NOMINAL = "which features are the flags of one column's categories"
#: A source's statement about its columns if C learns strengths.
LENGTH = Field("length", "float64", (1,), "how strongly its columns correlate with each other, as one number")
#: The words for the noise that receivers learn with the numbers.
NOISE = "the standard deviation of the noise in each"
#: Owners' statements about missing cells: errors are larger if the same people lack values at both sides.
MOST_GAPS = Field("most_gaps", "float64", (1,), "the largest share of missing cells of its features")
GAPS = Field("gaps", "float64", ("m_target",), "what share of each feature's cells is missing")
WHICH_CONSTANT = Field("constant", "flags", ("m_target",), "which features are constant")
#: How far tests of adjusted columns count fewer rows, for each column and for all together.
UNEQUAL = "how much the variance of each feature's residuals changes with the covariates, as one number"
_UNEQUAL_TOGETHER = (
    "how much the variance of its residuals of all features together changes with the covariates"
)
FITTED = "how many independent powers of covariates its features are adjusted for"
#: The target's statement about its columns if C learns no tie terms.
CONSTANT_AND_GAPS = Row(Kind.DESCRIPTION, TARGET, COORDINATOR, (WHICH_CONSTANT, GAPS))


def adjusted(owner: Role, columns: str = "", *, together: bool = False) -> tuple[Field, ...]:
    """Declare what a role states for tests if a party of it adjusts its features for covariates."""
    unequal = [Field("unequal", "float64", (columns,), UNEQUAL)] if columns else []
    of_all = [Field("unequal_together", "float64", (1,), _UNEQUAL_TOGETHER)] if together else []
    return tuple(
        replace(field, adjusted=(True, (owner,)))
        for field in (*unequal, *of_all, Field("fitted", "int64", (1,), FITTED))
    )


def scales(
    shapes: Mapping[str, tuple[str | int, ...]], sender: Role, *receivers: Role, **tells: str
) -> list[Row]:
    """Declare a data party's statements about its vectors, from which the noise is computed."""
    tells = {
        "ranges": "a rounded range of each of its vectors, which shows, for a column with two values, about "
        "how many rows have each",
        "mean_range": "a rounded range of the mean of its columns",
        "diameter": "a rounded bound on how much any two of its rows differ",
        **tells,
    }
    fields = tuple(
        Field(name, "int64", shape, tells[name], precision=("statistical",)) for name, shape in shapes.items()
    )
    return [Row(Kind.COLUMNS, (sender,), (receiver,), fields) for receiver in receivers]


def multiplied(shapes: Mapping[str, tuple[str | int, ...]], sender: Role, *receivers: Role) -> list[Row]:
    """Declare a data party's statements about its vectors with noise on inputs."""
    tells = {
        "multiplied_ranges": "a rounded range of each of its vectors with the noise on them, if it adds any",
        "multiplied_diameter": "a rounded bound on how much any two of its rows differ, with that noise",
        "multiplied_mean_range": "a rounded range of the mean of its columns, with that noise",
    }
    fields = tuple(
        Field(name, "int64", shape, tells[name], precision=("statistical",), inputs=sender)
        for name, shape in shapes.items()
    )
    return [Row(Kind.COLUMNS, (sender,), (receiver,), fields) for receiver in receivers]


def opened(opens: str, shape: tuple[str | int, ...]) -> tuple[Row, ...]:
    """Declare the shares or ciphertexts from which the coordinator opens integers of that shape."""
    share = Field("share", "ring", shape, f"by combining all shares: {opens}", protocols=("mpc",))
    batch = Field("batch", "bytes", ("rows", "result_bytes"), f"decrypted: {opens}", protocols=("he",))
    return (
        Row(Kind.SHARE, (*SOURCE, *TARGET), COORDINATOR, (share,)),
        Row(Kind.EVALUATED, TARGET, COORDINATOR, (batch,)),
    )


def split_noise() -> tuple[Row, ...]:
    """Declare the two parts in which a source's noise leaves it under homomorphic encryption."""
    words = "nothing: one of two parts of its noise, each of which is uniformly random by itself"
    part = Field(
        "part", "bytes", ("residues", "residue_bytes"), words, protocols=("he",), precision=("statistical",)
    )
    return (Row(Kind.NOISE, SOURCE, TARGET, (part,)), Row(Kind.NOISE, SOURCE, COORDINATOR, (part,)))


def masked(source: str, source_vectors: str | int, target: str) -> tuple[Row, ...]:
    """Declare the masked blocks that a source and the target send each other."""

    def block(columns: str | int, what: str) -> Field:
        words = f"nothing: {what} under a one-time mask"
        return Field("block", "ring", (columns, "rows"), words, protocols=("mpc",))

    return (
        Row(Kind.MASKED, SOURCE, TARGET, (block(source_vectors, source),)),
        Row(Kind.MASKED, TARGET, SOURCE, (block("m_target", target),)),
    )


def proofs() -> tuple[Row, ...]:
    """Declare the messages of proofs about a source's and the target's shared vectors."""

    def field(name: str, kind: FieldType, shape: tuple[str | int, ...], tells: str) -> Field:
        return Field(name, kind, shape, tells, proofs=True)

    shares = field(
        "shares", "int64", ("words",), "nothing: random shares for a proof that vectors are possible"
    )
    coins = field("coins", "int64", ("words",), "nothing: random coins of a proof")
    digest = field("coins", "bytes", (32,), "nothing: a hash of coins that it has")
    end = field("shares", "int64", (4,), "whether the proofs of others' vectors hold")
    data = (*SOURCE, *TARGET)
    return (
        *(
            Row(kind, sender, receiver, (what,))
            for kind, what in ((Kind.PROOF_SHARES, shares), (Kind.PROOF_COINS, coins))
            for sender, receiver in ((SOURCE, TARGET), (TARGET, SOURCE))
        ),
        Row(Kind.PROOF_HASH, data, COORDINATOR, (digest,)),
        Row(Kind.PROOF_END, data, COORDINATOR, (end,)),
    )

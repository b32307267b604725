"""Rows of the table of who learns what (:mod:`mpc_spearman.levels.view`) that several levels declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, FieldType, Kind, Row

SOURCE, TARGET, COORDINATOR = (Role.SOURCE,), (Role.TARGET,), (Role.COORDINATOR,)
_NOISY, _EXACT = ("statistical",), ("exact",)

#: With which words a fact begins that an owner sends of the rows of a run, not of its whole table.
OF_THE_RUN = "of the rows used, "
#: Names of features, in words.
NAMES = "feature names, with the names of categories that are flags (`encode: flags`)"
#: Which features belong to one column without an order.
NOMINAL = "which features are the flags of one column's categories"
#: The words for the noise that receivers learn with the numbers.
NOISE = "the standard deviation of the noise in each"
WHITENED = "its whitened, randomly rotated columns"

# --- what owners describe to the coordinator

#: A source's statement about its columns if C learns strengths.
LENGTH = Field("length", "float64", (1,), "how strongly its columns correlate with each other, as one number")
#: Owners' statement about missing cells: errors are larger if the same people lack values at both sides.
MOST_GAPS = Field("most_gaps", "float64", (1,), "the largest share of missing cells of its features")
#: The target's statement about its columns if C learns no tie terms.
CONSTANT_AND_GAPS = Row(
    Kind.DESCRIPTION,
    TARGET,
    COORDINATOR,
    (
        Field("constant", "flags", ("m_target",), "which features are constant"),
        Field("gaps", "float64", ("m_target",), "what share of each feature's cells is missing"),
    ),
)


def adjusted(owner: Role, columns: str = "", *, together: bool = False) -> tuple[Field, ...]:
    """Declare what a role states for tests if a party of it adjusts its features for covariates.

    From it follows how many rows tests count: for each of its `columns`, if given, and for all `together`.
    """
    of_each = "how much the variance of each feature's residuals changes with the covariates, as one number"
    of_all = "how much the variance of its residuals of all features together changes with the covariates"
    fitted = "how many independent powers of covariates its features are adjusted for"
    fields = (
        *([Field("unequal", "float64", (columns,), of_each)] if columns else ()),
        *([Field("unequal_together", "float64", (1,), of_all)] if together else ()),
        Field("fitted", "int64", (1,), fitted),
    )
    return tuple(replace(field, adjusted=(True, (owner,))) for field in fields)


def described(owner: Role, columns: str) -> Row:
    """Declare the description of columns that a data party sends C, if C opens products one by one."""
    is_source, shape = owner is Role.SOURCE, (columns,)
    lengths = (
        "a rounded length of each feature's ranks, which shows, if it has two values, about how many rows "
        "have each"
    )
    factors = (
        f"{OF_THE_RUN}by how much its features are scaled down in what is passed on, where they vary more "
        "than was stated"
    )
    ties = (
        "the tie term of each feature, which shows whether it is constant and, if it has two values, the "
        "sizes of the two groups"
    )
    adjusted_ties = "which features are constant; of an owner without covariates also the tie term of each"
    two_values = "which features have two values"
    skewness = (
        "the skewness of each feature's ranks, which shows, if it has two values, which group is larger"
    )

    def of_the_run(name: str, kind: FieldType, words: str, if_adjusted: str) -> list[Field]:
        return [
            Field(name, kind, shape, OF_THE_RUN + tells, adjusted=(adjusts, (owner,)))
            for adjusts, tells in ((False, words), (True, if_adjusted))
        ]

    fields = (
        *([Field("names", "texts", shape, NAMES)] if is_source else ()),
        *of_the_run("ties", "int128", ties, adjusted_ties),
        *of_the_run("two_values", "flags", two_values, f"{two_values}, of an owner without covariates"),
        *of_the_run("skewness", "float64", skewness, "the skewness of each feature's residuals"),
        Field(
            "stated_ties",
            "int64",
            shape,
            "whether each feature has no ties, some, many, two values, or one",
            precision=_NOISY,
        ),
        Field(
            "stated_skewness",
            "float64",
            shape,
            "the rounded skewness of each feature's ranks",
            precision=_NOISY,
        ),
        Field("gaps", "float64", shape, "the share of missing cells of each feature"),
        Field("lengths", "float64", shape, lengths, precision=_NOISY, proofs=True),
        Field("nominal", "texts", shape, NOMINAL),
        Field("factors", "float64", shape, factors, precision=_NOISY),
        *([Field("sum_factor", "float64", (1,), factors, precision=_NOISY)] if is_source else ()),
        *adjusted(owner, columns, together=is_source),
        *([LENGTH] if is_source else ()),
    )
    return Row(Kind.DESCRIPTION, (owner,), COORDINATOR, fields)


# --- what owners state of their vectors, from which the noise is computed


def scales(
    shapes: Mapping[str, tuple[str | int, ...]],
    sender: Role,
    *receivers: Role,
    ranges: str = "a rounded range of each of its vectors, which shows, for a column with two values, about "
    "how many rows have each",
    on_inputs: bool = True,
) -> list[Row]:
    """Declare a data party's statements about its vectors, and about them with noise `on_inputs`."""
    diameter = "a rounded bound on how much any two of its rows differ"
    mean_range = "a rounded range of the mean of its columns"
    words = {"ranges": ranges, "diameter": diameter, "mean_range": mean_range}
    with_noise = {
        "ranges": "a rounded range of each of its vectors with the noise on them, if it adds any",
        "diameter": f"{diameter}, with that noise",
        "mean_range": f"{mean_range}, with that noise",
    }
    fields = [Field(name, "int64", shape, words[name], precision=_NOISY) for name, shape in shapes.items()]
    if on_inputs:
        fields += [
            Field(f"multiplied_{name}", "int64", shape, with_noise[name], precision=_NOISY, inputs=sender)
            for name, shape in shapes.items()
        ]
    return [Row(Kind.COLUMNS, (sender,), (receiver,), tuple(fields)) for receiver in receivers]


def kurtosis(owner: Role, columns: str | int, words: str) -> Row:
    """Declare the statement about a data party's columns that tests without noise need."""
    tells = f"how much single rows weigh in {words} (kurtosis)"
    field = Field("kurtosis", "float64", (columns,), tells, precision=_EXACT)
    return Row(Kind.COLUMNS, (owner,), COORDINATOR, (field,))


def whitened(owner: Role, *receivers: Role) -> tuple[Row, ...]:
    """Declare a data party's statements about its whitened columns."""
    directions = Field("defined", "int64", (1,), "k, how many independent directions its columns have")
    distance = "a rounded number for how far apart its two most different rows are"
    return (
        Row(Kind.DESCRIPTION, (owner,), COORDINATOR, (MOST_GAPS,)),
        *(Row(Kind.COLUMNS, (owner,), (receiver,), (directions,)) for receiver in receivers),
        *scales({"ranges": (1,)}, owner, *receivers, ranges=distance, on_inputs=False),
        kurtosis(owner, 1, "its columns together"),
    )


# --- the private computation


def masked(source: str, source_vectors: str | int, target: str) -> tuple[Row, ...]:
    """Declare the masked blocks that a source and the target send each other."""

    def block(vectors: str | int, words: str) -> tuple[Field]:
        tells = f"nothing: {words} under a one-time mask"
        return (Field("block", "ring", (vectors, "rows"), tells, protocols=("mpc",)),)

    return (
        Row(Kind.MASKED, SOURCE, TARGET, block(source_vectors, source)),
        Row(Kind.MASKED, TARGET, SOURCE, block("m_target", target)),
    )


def proofs() -> tuple[Row, ...]:
    """Declare the messages of proofs about a source's and the target's shared vectors."""

    def field(name: str, kind: FieldType, shape: tuple[str | int, ...], tells: str) -> tuple[Field]:
        return (Field(name, kind, shape, tells, proofs=True),)

    shares = field(
        "shares", "int64", ("words",), "nothing: random shares for a proof that vectors are possible"
    )
    coins = field("coins", "int64", ("words",), "nothing: random coins of a proof")
    digest = field("coins", "bytes", (32,), "nothing: a hash of coins that it has")
    end = field("shares", "int64", (4,), "whether the proofs of others' vectors hold")
    data = (*SOURCE, *TARGET)
    return (
        Row(Kind.PROOF_SHARES, SOURCE, TARGET, shares),
        Row(Kind.PROOF_SHARES, TARGET, SOURCE, shares),
        Row(Kind.PROOF_COINS, SOURCE, TARGET, coins),
        Row(Kind.PROOF_COINS, TARGET, SOURCE, coins),
        Row(Kind.PROOF_HASH, data, COORDINATOR, digest),
        Row(Kind.PROOF_END, data, COORDINATOR, end),
    )


def split_noise() -> tuple[Row, ...]:
    """Declare the two parts in which a source's noise leaves it under homomorphic encryption."""
    words = "nothing: one of two parts of its noise, each of which is uniformly random by itself"
    shape = ("residues", "residue_bytes")
    part = Field("part", "bytes", shape, words, protocols=("he",), precision=_NOISY)
    return (Row(Kind.NOISE, SOURCE, TARGET, (part,)), Row(Kind.NOISE, SOURCE, COORDINATOR, (part,)))


def opened(opens: str, shape: tuple[str | int, ...]) -> tuple[Row, ...]:
    """Declare the shares or ciphertexts from which the coordinator opens integers of that shape."""
    share = Field("share", "ring", shape, f"by combining all shares: {opens}", protocols=("mpc",))
    batch = Field("batch", "bytes", ("rows", "result_bytes"), f"decrypted: {opens}", protocols=("he",))
    return (
        Row(Kind.SHARE, (*SOURCE, *TARGET), COORDINATOR, (share,)),
        Row(Kind.EVALUATED, TARGET, COORDINATOR, (batch,)),
    )


# --- results


def coefficients(rows: str, other: Role, columns: str) -> tuple[Field, ...]:
    """Declare coefficients of so many `rows`, and what tests need of the other side's `columns`."""
    of_other, shape, if_adjusted = "of each feature of the other side", (columns,), (True, (other,))
    ties = "whether each feature of the other side has no ties, some, many, two values, or one"
    skewness = (
        f"the skewness of the ranks {of_other}, rounded to a tenth of it unless precision: exact; it shows, "
        "of two values, the sizes of the two groups to about a fifth"
    )
    unequal = f"how much the variance of the residuals {of_other} changes with the covariates"
    fitted = "how many independent powers of covariates features of the other side are adjusted for"
    fields = (
        Field("ties", "int64", shape, ties),
        Field("skewness", "float64", shape, skewness),
        Field("gaps", "float64", shape, f"the share of missing cells {of_other}"),
        Field("ranges", "float64", shape, f"a rounded range {of_other}", precision=_NOISY),
        Field("nominal", "texts", shape, f"{NOMINAL}, of the other side"),
        Field("unequal", "float64", shape, unequal, adjusted=if_adjusted),
        Field("fitted", "int64", shape, fitted, adjusted=if_adjusted),
    )
    return (
        Field("coefficients", "float64", (rows, "m_target"), "the coefficients, to the plan's precision"),
        Field("noise", "float64", (rows, "m_target"), NOISE, precision=_NOISY),
        *(replace(field, name=f"{other.value}_{field.name}") for field in fields),
    )


def of_each_source(*fields: Field) -> tuple[Row, ...]:
    """Declare the results about each source, in fields whose first axis is sources.

    The target gets all sources' values, a source its own.
    """
    shape, if_adjusted = fields[1].shape, (True, (*SOURCE, *TARGET))  # of the noise: one for each test
    gaps = "for each test the smaller of both sides' largest shares of missing cells"
    fitted = "for each test how many powers of covariates a side is adjusted for, the most of both"
    unequal = "for each test how much the variances of residuals of both sides change with covariates"
    weights = "how much single rows weigh in the columns of both sides, as one number for each test"
    of_all = (
        *fields,
        Field("gaps", "float64", shape, gaps),
        Field("fitted", "int64", shape, fitted, adjusted=if_adjusted),
        Field("unequal", "float64", shape, unequal, adjusted=if_adjusted),
        Field("dispersion", "float64", shape, weights, precision=_EXACT),
    )
    of_one = tuple(replace(field, shape=(1, *field.shape[1:])) for field in of_all)
    return (Row(Kind.RESULT, COORDINATOR, TARGET, of_all), Row(Kind.RESULT, COORDINATOR, SOURCE, of_one))

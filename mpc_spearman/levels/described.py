"""Rows of the table of who learns what at ``coefficients`` and ``differences`` (`levels.view`)."""

from __future__ import annotations

from collections.abc import Iterator

from mpc_spearman.levels import rows
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, FieldType, Kind, Row

# What some of the fields below tell.
_TOLD = {
    "ties": "of the rows used, the tie term of each feature, which shows whether it is constant and, if it "
    "has two values, the sizes of the two groups",
    "skewness": "of the rows used, the skewness of each feature's ranks, which shows, if it has two values, "
    "which group is larger",
    "adjusted ties": "of the rows used, which features are constant; of an owner without covariates also the "
    "tie term of each",
    "adjusted skewness": "of the rows used, the skewness of each feature's residuals",
    "adjusted two values": "of the rows used, which features have two values, of an owner without covariates",
    "stated ties": "whether each feature has no ties, some, many, two values, or one",
    "stated skewness": "the rounded skewness of each feature's ranks",
    "gaps": "the share of missing cells of each feature",
    "two values": "of the rows used, which features have two values",
    "lengths": "a rounded length of each feature's ranks, which shows, if it has two values, about how many "
    "rows have each",
    "other unequal": "how much the variance of the residuals of each feature of the other side changes with "
    "the covariates",
    "other fitted": "how many independent powers of covariates features of the other side are adjusted for",
    "factors": "of the rows used, by how much its features are scaled down in what is passed on, where they "
    "vary more than was stated",
    "other ranges": "a rounded range of each feature of the other side",
    "other gaps": "the share of missing cells of each feature of the other side",
    "other ties": "whether each feature of the other side has no ties, some, many, two values, or one",
    "other skewness": "the skewness of the ranks of each feature of the other side, rounded to a tenth of it "
    "unless precision: exact; it shows, of two values, the sizes of the two groups to about a fifth",
}


def described(owner: Role, columns: str, of_sum: bool = False) -> tuple[Field, ...]:
    """Declare what owners tell C about columns whose products it has."""
    noisy = ("statistical",)
    factor = Field("sum_factor", "float64", (1,), _TOLD["factors"], precision=noisy)
    return (
        *_shown("ties", "int128", columns, owner),
        *_shown("two_values", "flags", columns, owner),
        *_shown("skewness", "float64", columns, owner),
        Field("stated_ties", "int64", (columns,), _TOLD["stated ties"], precision=noisy),
        Field("stated_skewness", "float64", (columns,), _TOLD["stated skewness"], precision=noisy),
        Field("gaps", "float64", (columns,), _TOLD["gaps"]),
        Field("lengths", "float64", (columns,), _TOLD["lengths"], precision=noisy, proofs=True),
        Field("nominal", "texts", (columns,), rows.NOMINAL),
        Field("factors", "float64", (columns,), _TOLD["factors"], precision=noisy),
        *([factor] if of_sum else ()),
        *rows.adjusted(owner, columns, together=of_sum),
    )


def _shown(name: str, kind: FieldType, columns: str, owner: Role) -> Iterator[Field]:
    """Declare a value of each column, which tells less where a role adjusts its features for covariates."""
    what = name.replace("_", " ")
    for adjusts, words in ((False, _TOLD[what]), (True, _TOLD[f"adjusted {what}"])):
        yield Field(name, kind, (columns,), words, adjusted=(adjusts, (owner,)))


def passed_on(of: str, other: Role, columns: str) -> tuple[Field, ...]:
    """Declare coefficients, and what p-values and intervals need besides."""
    if_adjusted = (True, (other,))
    return (
        Field("coefficients", "float64", (of, "m_target"), "the coefficients, to the plan's precision"),
        Field("noise", "float64", (of, "m_target"), rows.NOISE, precision=("statistical",)),
        Field(f"{other.value}_ties", "int64", (columns,), _TOLD["other ties"]),
        Field(f"{other.value}_skewness", "float64", (columns,), _TOLD["other skewness"]),
        Field(f"{other.value}_gaps", "float64", (columns,), _TOLD["other gaps"]),
        Field(
            f"{other.value}_ranges", "float64", (columns,), _TOLD["other ranges"], precision=("statistical",)
        ),
        Field(f"{other.value}_nominal", "texts", (columns,), f"{rows.NOMINAL}, of the other side"),
        Field(f"{other.value}_unequal", "float64", (columns,), _TOLD["other unequal"], adjusted=if_adjusted),
        Field(f"{other.value}_fitted", "int64", (columns,), _TOLD["other fitted"], adjusted=if_adjusted),
    )


_NAMES = Field("names", "texts", ("m_source",), rows.NAMES)
ALL_NAMES = Field("source_names", "texts", ("m_sources",), f"the sources' {rows.NAMES}")
#: Names and tie terms, with which the coordinator labels the matrix and computes coefficients.
DESCRIBED = (
    Row(
        Kind.DESCRIPTION,
        SOURCE,
        COORDINATOR,
        (_NAMES, *described(Role.SOURCE, "m_source", of_sum=True), rows.LENGTH),
    ),
    Row(Kind.DESCRIPTION, TARGET, COORDINATOR, described(Role.TARGET, "m_target")),
)
#: What owners state of their vectors: C computes the noise from it.
SCALED = (
    *rows.scales(
        {"ranges": ("m_source",), "diameter": (1,), "mean_range": (1,)}, Role.SOURCE, Role.COORDINATOR
    ),
    *rows.scales({"ranges": ("m_target",), "diameter": (1,)}, Role.TARGET, Role.COORDINATOR),
    *rows.multiplied(
        {"multiplied_ranges": ("m_source",), "multiplied_diameter": (1,), "multiplied_mean_range": (1,)},
        *(Role.SOURCE, Role.COORDINATOR),
    ),
    *rows.multiplied(
        {"multiplied_ranges": ("m_target",), "multiplied_diameter": (1,)}, Role.TARGET, Role.COORDINATOR
    ),
)

"""Rows of the table of who learns what at ``coefficients`` and ``differences`` (`levels.view`)."""

from __future__ import annotations

from mpc_spearman.levels import rows
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind, Row

# What some of the fields below tell.
_TOLD = {
    "ties": "of the rows used, the tie term of each feature, which shows whether it is constant and, if it "
    "has two values, the sizes of the two groups",
    "skewness": "of the rows used, the skewness of each feature's ranks, which shows, if it has two values, "
    "which group is larger",
    "stated ties": "whether each feature has no ties, some, many, two values, or one",
    "stated skewness": "the rounded skewness of each feature's ranks",
    "gaps": "the share of missing cells of each feature",
    "two values": "of the rows used, which features have two values",
    "lengths": "a rounded length of each feature's ranks, which shows, if it has two values, about how many "
    "rows have each",
    "factors": "of the rows used, by how much its features are scaled down in what is passed on, where they "
    "vary more than was stated",
    "other ranges": "a rounded range of each feature of the other side",
    "other gaps": "the share of missing cells of each feature of the other side",
    "other ties": "whether each feature of the other side has no ties, some, many, two values, or one",
    "other skewness": "the skewness of the ranks of each feature of the other side, rounded to a tenth of it "
    "unless precision: exact; it shows, of two values, the sizes of the two groups to about a fifth",
}


def described(columns: str, of_sum: bool = False) -> tuple[Field, ...]:
    """Declare what owners tell C about columns whose products it has."""
    noisy = ("statistical",)
    factor = Field("sum_factor", "float64", (1,), _TOLD["factors"], precision=noisy)
    return (
        Field("ties", "int128", (columns,), _TOLD["ties"]),
        Field("two_values", "flags", (columns,), _TOLD["two values"]),
        Field("skewness", "float64", (columns,), _TOLD["skewness"]),
        Field("stated_ties", "int64", (columns,), _TOLD["stated ties"], precision=noisy),
        Field("stated_skewness", "float64", (columns,), _TOLD["stated skewness"], precision=noisy),
        Field("gaps", "float64", (columns,), _TOLD["gaps"]),
        Field("lengths", "float64", (columns,), _TOLD["lengths"], precision=noisy, proofs=True),
        Field("nominal", "texts", (columns,), rows.NOMINAL),
        Field("factors", "float64", (columns,), _TOLD["factors"], precision=noisy),
        *([factor] if of_sum else ()),
    )


def passed_on(of: str, other: str, columns: str) -> tuple[Field, ...]:
    """Declare coefficients, and what p-values and intervals need besides."""
    return (
        Field("coefficients", "float64", (of, "m_target"), "the coefficients, to the plan's precision"),
        Field("noise", "float64", (of, "m_target"), rows.NOISE, precision=("statistical",)),
        Field(f"{other}_ties", "int64", (columns,), _TOLD["other ties"]),
        Field(f"{other}_skewness", "float64", (columns,), _TOLD["other skewness"]),
        Field(f"{other}_gaps", "float64", (columns,), _TOLD["other gaps"]),
        Field(f"{other}_ranges", "float64", (columns,), _TOLD["other ranges"], precision=("statistical",)),
        Field(f"{other}_nominal", "texts", (columns,), f"{rows.NOMINAL}, of the other side"),
    )


_NAMES = Field("names", "texts", ("m_source",), rows.NAMES)
ALL_NAMES = Field("source_names", "texts", ("m_sources",), f"the sources' {rows.NAMES}")
#: Names and tie terms, with which the coordinator labels the matrix and computes coefficients.
DESCRIBED = (
    Row(Kind.DESCRIPTION, SOURCE, COORDINATOR, (_NAMES, *described("m_source", of_sum=True), rows.LENGTH)),
    Row(Kind.DESCRIPTION, TARGET, COORDINATOR, described("m_target")),
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

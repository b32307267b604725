"""Rows of the table of who learns what that levels with whitened columns declare."""

from __future__ import annotations

from dataclasses import replace

from mpc_spearman.levels import rows
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind, Row

_KEPT = Field("defined", "int64", (1,), "k, how many independent directions its columns have")
WHITENED = "its whitened, randomly rotated columns"
NOISE = "the standard deviation of the noise in the products"
_GAPS = "for each test the smaller of both sides' largest shares of missing cells"
_FITTED = "for each test how many powers of covariates a side is adjusted for, the most of both"
_UNEQUAL = "for each test how much the variances of residuals of both sides change with covariates"
_IF_ADJUSTED = (True, (*SOURCE, *TARGET))
_DISTANCE = "a rounded number for how far apart its two most different rows are"


def kurtosis_row(owner: Role, columns: str | int, of: str) -> Row:
    """Declare what tests without noise need to know of a data party's columns."""
    words = f"how much single rows weigh in {of} (kurtosis)"
    field = Field("kurtosis", "float64", (columns,), words, precision=("exact",))
    return Row(Kind.COLUMNS, (owner,), COORDINATOR, (field,))


def whitened_rows(owner: Role, *receivers: Role) -> tuple[Row, ...]:
    """Declare an owner's statements about its whitened columns."""
    return (
        Row(Kind.DESCRIPTION, (owner,), COORDINATOR, (rows.MOST_GAPS,)),
        *(Row(Kind.COLUMNS, (owner,), (receiver,), (_KEPT,)) for receiver in receivers),
        *rows.scales({"ranges": (1,)}, owner, *receivers, ranges=_DISTANCE),
        kurtosis_row(owner, 1, "its columns together"),
    )


def result_rows(*fields: Field) -> tuple[Row, ...]:
    """Declare the results about each source, in fields whose first axis is sources.

    The target gets all sources' values, a source its own.
    """
    shape = fields[1].shape  # of the noise: one for each test
    weights = "how much single rows weigh in the columns of both sides, as one number for each test"
    every = (
        *fields,
        Field("gaps", "float64", shape, _GAPS),
        Field("fitted", "int64", shape, _FITTED, adjusted=_IF_ADJUSTED),
        Field("unequal", "float64", shape, _UNEQUAL, adjusted=_IF_ADJUSTED),
        Field("dispersion", "float64", shape, weights, precision=("exact",)),
    )
    of_one = tuple(replace(field, shape=(1, *field.shape[1:])) for field in every)
    return (Row(Kind.RESULT, COORDINATOR, TARGET, every), Row(Kind.RESULT, COORDINATOR, SOURCE, of_one))

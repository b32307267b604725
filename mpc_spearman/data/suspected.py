"""Values of a column that may be codes for missing ones, such as -1, 98 and 99, -999, 1900-01-01.

Only a column's owner can know. What is said here names the values and how many cells have them, for the owner
alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from mpc_spearman.arrays import Array, Mask, blocks
from mpc_spearman.data.notation import shortest

_ENDS = 6  # of the lowest and the highest values are looked at
_RUN = 3  # codes at one end, as in 97, 98, 99
_CODE = re.compile(r"-?(7+|8+|9+|9+[678])(\.0+)?|-[1-6](\.0+)?")
_NEGATIVE = re.compile(r"-([1-9]|7+|8+|9+|9+[678])(\.0+)?")
_FEW, _BLOCK, _SAMPLE = 3, 1 << 18, 1 << 12


def suspected(values: Array, missing: Mask, kind: pa.DataType | None) -> list[tuple[str, int]]:
    """Return the values of a column that may be codes, as a plan would list them, with their counts of cells.

    `kind` is the type of Arrow that whole numbers stand for, if they are no numbers.
    """

    def present() -> Iterator[Array]:
        for part in blocks(len(values), _BLOCK):
            if not missing[part].all():
                yield values[part][~missing[part]]

    n = int(len(values) - missing.sum())
    samples = [np.array([block.min(), block.max(), *block[:: max(1, n // _SAMPLE)]]) for block in present()]
    sample = np.unique(np.concatenate([values[:0], *samples]))
    if not _codes(sample, np.full(len(sample), n), n, kind):
        return []  # of these values alone: with all others none is further away
    counts = Counter[Any]()
    for block in present():
        counts.update(
            dict(zip(*(part.tolist() for part in np.unique(block, return_counts=True)), strict=True))
        )
        for value in sorted(counts)[_ENDS:-_ENDS]:
            del counts[value]
    ends = sorted(counts)
    return _codes(np.array(ends, values.dtype), np.array([counts[value] for value in ends]), n, kind)


def _codes(values: Array, counts: Array, n: int, kind: pa.DataType | None) -> list[tuple[str, int]]:
    """Return which of a column's lowest and highest values, ascending, may be codes; see `suspected`."""
    codes, dates = set[int](), kind is not None and pa.types.is_temporal(kind)

    @cache
    def text(place: int) -> str:  # of few values only: it takes long
        return _as_listed(values[place], kind)

    for order in ([*range(len(values))], [*range(len(values))][::-1]):
        numbers = [float(values[i]) for i in order]
        for k in range(min(_RUN, len(order) - 1), 0, -1):
            run = order[:k]
            apart = abs(numbers[k] - numbers[k - 1]) > abs(numbers[-1] - numbers[k])
            repeated = any(counts[i] > 1 for i in run)
            # of other values there must be more than one for "apart" to mean anything
            often = k == 1 and len(order) > _FEW and (dates or counts[run[0]] >= max(_FEW, n / 200))
            if apart and repeated and (often or all(_CODE.fullmatch(text(i)) for i in run)):
                codes.update(run)
                break
    negative = [i for i, value in enumerate(values) if value < 0]
    few = not dates and len(negative) <= _RUN and len(values) - len(negative) >= _FEW
    if few and all(counts[i] > 1 and _NEGATIVE.fullmatch(text(i)) for i in negative):
        codes.update(negative)
    return [(text(i), int(counts[i])) for i in sorted(codes)]


def _as_listed(value: Any, kind: pa.DataType | None) -> str:
    """Write a value as a plan lists it."""
    if kind is None:
        return f"{value:.15g}"
    if pa.types.is_decimal(kind):
        return f"{Decimal(int(value)).scaleb(-kind.scale):f}"
    number = pa.scalar(int(value), pa.int64())
    number = number.cast(pa.int32()) if kind.bit_width == 32 else number
    text = pa.array([number.cast(kind).cast(pa.string()).as_py()], pa.large_string())
    return str(shortest(text)[0])


def codes_note(codes: Sequence[tuple[str, int]]) -> str:
    """Tell the owner which values may be codes for missing ones; return "" if none may."""
    if not codes:
        return ""
    which = " and ".join(f"{value} ({count:,} cell{'s' * (count > 1)})" for value, count in codes)
    means = "each may be a code" if len(codes) > 1 else "it may be a code"
    return (
        f"{which} at an end of its values: {means} for a missing value; if so, list it under missing_values"
    )

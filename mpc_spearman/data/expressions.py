"""The queries to an engine, as Ibis expressions: row numbers, missing and infinite cells, average ranks.

No window spans more rows than a bucket between two cut points, so an engine of several hosts can divide the
work, and one host needs no memory for a whole column. How many rows lie before a bucket is counted first, by
GROUP BY, and stands in the query as a number.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import ibis

from mpc_spearman.data.notation import DATE, TIME, Notation

_LARGEST = 1.7976931348623157e308
_NAN = ("NaN", "nan")
_INFINITE = ("Infinity", "-Infinity", "infinity", "-infinity", "inf", "-inf")


def gaps(cells: Any, codes: Sequence[Any], dialect: str) -> tuple[Any, Any]:
    """Tell which cells of a column of numbers, dates or times are missing, and which are infinite.

    `codes` are boolean columns: for each value that is listed as missing, which cells have it.
    """
    kind, missing, infinite = cells.type(), cells.isnull(), ibis.literal(False)
    if kind.is_floating():
        if dialect != "sqlite":  # which has no NaN
            missing |= cells.isnan()
        infinite = cells.abs() > _LARGEST
    elif kind.is_decimal() or kind.is_temporal():
        written = cells.cast("string")
        missing |= written.isin(_NAN)
        infinite = written.isin(_INFINITE)
    for code in codes:
        missing |= code
    return missing.fill_null(True), (infinite & ~missing).fill_null(False)


def has(cells: Any, listed: str, number: Decimal | None) -> Any:
    """Tell which cells have a value that is listed as missing; None if the column can have none."""
    kind = cells.type()
    if number is not None and kind.is_integer():
        whole = number == number.to_integral_value() and abs(number) < 2**63
        return cells == int(number) if whole else None
    if number is not None and kind.is_floating():
        return cells == ibis.literal(float(number)).cast(kind)
    if number is not None and kind.is_decimal():
        return cells == ibis.literal(number, f"decimal(38, {max(0, -int(number.as_tuple().exponent))})")
    with suppress(ValueError):
        if kind.is_date():
            return cells == ibis.literal(datetime.date.fromisoformat(listed))
        if kind.is_timestamp() and not kind.timezone:
            return cells == ibis.literal(datetime.datetime.fromisoformat(listed))
    return None


def written(word: Any, notation: Notation, nothing: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Tell how cells of text are written, without space around them; `nothing` stands for a missing value.

    Return the cells, numbers as engines read them, and boolean columns: which cells are `missing`, and which
    of the others are a `number`, a `whole` one, a `date`, a date with `time`; are `marked` with a decimal
    mark; are `grouped`, that is have none, or one that may separate thousands.
    """
    word = word.fill_null("").strip()
    missing, number = word.isin(["", *nothing]), word.re_search(f"^{notation.number}$")
    plain = word.re_replace(notation.mark, "") if notation.thousands else word
    plain = plain if notation.decimal == "." else plain.replace(notation.decimal, ".")
    found = {
        "number": number,
        "whole": number & plain.re_search("^[+-]?[0-9]+$"),
        "date": word.re_search(DATE),
        "time": word.re_search(TIME + "$"),
        "grouped": word.re_search(notation.grouped),
        "marked": number & word.contains(notation.decimal),
    }
    return plain, {"missing": missing, **{kind: ~missing & some for kind, some in found.items()}}


def bucketed(table: Any, key: Any, cuts: Sequence[Any]) -> Any:
    """Add the bucket of each row, `b`: how many cut points are not above its value.

    Equal values are in one bucket, wherever a column is cut; rows without a value are in the last.
    """
    lower = [(key < ibis.literal(cut, key.type()), i) for i, cut in enumerate(cuts)]
    return table.mutate(b=ibis.cases(*lower, else_=len(cuts)) if cuts else ibis.literal(0))


def numbered(table: Any, by: Sequence[str], before: Mapping[int, int]) -> Any:
    """Add a number `r` to each row of a table with buckets, from 0, in the order of some columns.

    `before` says how many rows lie before each bucket.
    """
    within = ibis.window(group_by=_within(table, before), order_by=[table[name] for name in by])
    others = [name for name in table.columns if name != "b"]
    return table.select((_before(table, before) + ibis.row_number().over(within)).name("r"), *others)


def ranks(table: Any, before: Mapping[int, int]) -> Any:
    """Rank a column, `key`, of a table with buckets, in which no cell is missing.

    In the order of the rows, return of each its number `r`, how many rows have a lower value, `below`, and
    how many have none above its own, `upto`. Its average rank is (below + upto + 1)/2.
    """
    window = {"group_by": _within(table, before), "order_by": table.key}
    lower = ibis.rank().over(ibis.window(**window))
    upto = table.count().over(ibis.window(**window, range=(None, 0)))
    first = _before(table, before)
    return table.select("r", below=first + lower, upto=first + upto).order_by("r")


def _within(table: Any, before: Mapping[int, int]) -> list[Any]:
    return [table.b] if len(before) > 1 else []


def _before(table: Any, before: Mapping[int, int]) -> Any:
    if len(before) < 2:
        return ibis.literal(0, "int64")
    return ibis.cases(*[(table.b == b, ibis.literal(n, "int64")) for b, n in before.items()])

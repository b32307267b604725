"""The keys for reading a party's own table; all are local. docs/tables.md explains them."""

from __future__ import annotations

import codecs
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, ValidationInfo, field_validator

from mpc_spearman.config.fields import (
    KINDS,
    MAPPING,
    VALUE,
    VALUE_OR_MAPPING,
    ColumnName,
    Columns,
    Flag,
    OneOrMore,
    OneOrMoreColumns,
    Section,
    Text,
    allowed,
)
from mpc_spearman.config.wording import shown

#: A step by which ids are changed before they are compared.
Normalise = Literal["strip", "casefold", "nfkc", "digits", "unpad"]

#: How the cells of one id become one.
Combination = Literal["sum", "mean", "max", "min", "count"]

#: How cells of text are read as numbers or dates.
Convert = Literal["percent", "currency", "day_first", "month_first"]


def _one_byte(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text in '"\r\n\0':
        raise ValueError('is not one ASCII character, such as ";" or "\\t"')
    return text


def _codec(name: str) -> str:
    try:
        b"".decode(name)  # codecs such as hexadecimal do not decode to text
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        raise ValueError("is not an encoding that Python knows, such as utf-8 or cp1252") from None
    return name


def _value(value: object) -> object:
    """Return a number or a day of YAML as the text that a cell would have."""
    if isinstance(value, (int, float, date)) and not isinstance(value, bool):
        return str(value)
    return value


Character = Annotated[Text, AfterValidator(_one_byte)]
#: A value of a cell: text, a number or a day.
Value = Annotated[Text, BeforeValidator(_value)]


_FLAGS = "flags"
#: An order of categories, or `_FLAGS` if they have none.
Encode = Annotated[
    Annotated[tuple[Text, ...], VALUE] | Annotated[Text, MAPPING],
    Discriminator(lambda value: KINDS[value == _FLAGS]),
]


class Csv(Section):
    """How a CSV file is written."""

    delimiter: Annotated[Character | None, allowed('one character, such as ";"', min_length=1)] = None
    """What separates cells. Left out: a comma, in `.tsv` files a tab."""
    decimal: Literal[".", ","] = "."
    """The decimal mark of numbers in text."""
    thousands: Literal[".", ",", "'", " ", "none"] | None = None
    """The thousands separator of numbers in text; ` ` is a space of any width. Left out: none; a column that
    can be read both ways is refused, unless this is `none`: docs/tables.md#text."""
    encoding: Annotated[Text, AfterValidator(_codec), allowed("an encoding, such as cp1252")] = "utf-8"
    """The file's encoding, as Python names it."""

    @field_validator("thousands")
    @classmethod
    def _not_decimal(cls, mark: str | None, info: ValidationInfo) -> str | None:
        if mark is not None and mark == info.data.get("decimal"):
            raise ValueError(f"is the decimal mark too; set csv.decimal to {'.' if mark == ',' else ','!r}")
        return mark


class TableKeys(Section):
    """How a data party's table is read."""

    id: Annotated[OneOrMoreColumns, Field(min_length=1)] = ("id",)
    """The column of ids, or several columns that together make one id: docs/tables.md#ids."""
    exclude: Columns = ()
    """Columns that are not features."""
    features: Annotated[
        tuple[ColumnName, ...] | None, allowed("a list of at least one column name", min_length=1)
    ] = None
    """The columns to correlate. Left out: all but `id` and `exclude`."""
    encode: Annotated[
        dict[ColumnName, Encode],
        allowed("an order of categories or flags for each column, as in {grade: [low, high], region: flags}"),
    ] = Field(default={})
    """For a column of text, the order of its categories, lowest first; or `flags` for categories without an
    order, each of which becomes a column of 0 and 1: docs/tables.md#categories-without-an-order."""
    convert: Annotated[
        dict[ColumnName, Convert],
        allowed("percent, currency, day_first or month_first for each column, as in {cost: currency}"),
    ] = Field(default={})
    """For a column of text, how to read its cells: docs/tables.md#text."""
    missing: Literal["error", "drop_rows", "middle"] = "error"
    """What becomes of missing values. `drop_rows` leaves out rows in which a feature is missing, `middle`
    puts a missing cell in the middle of its column's ranks, which weakens correlations:
    docs/tables.md#missing-values."""
    missing_flags: Flag = False
    """Under `missing: middle`: beside each column `x` with missing values add a feature `x is missing`, 1
    where it is and 0 elsewhere."""
    missing_values: Annotated[
        Annotated[tuple[Value, ...], VALUE]
        | Annotated[dict[ColumnName, Annotated[tuple[Value, ...], OneOrMore]], MAPPING],
        VALUE_OR_MAPPING,
        allowed("a list of values, or one for each of some columns"),
    ] = ("NA", "N/A", "NaN", "NULL", "None")
    """What stands for a missing value, besides an empty cell; or, as in `{hba1c: [-1, 999]}`, what else does
    in single columns. Case is ignored; numbers and dates match however they are written."""
    duplicates: Annotated[
        Annotated[Literal["error", "drop"], VALUE] | Annotated[dict[ColumnName, Combination], MAPPING],
        VALUE_OR_MAPPING,
        allowed("sum, mean, max, min or count for each of some columns, as in {visits: sum}"),
    ] = "error"
    """What happens to rows with a duplicate id. `drop` leaves out all of them. `{visits: sum, age: max}`
    makes one row of them: `sum`, `mean`, `max`, `min` or `count` for each column that differs among them:
    docs/tables.md#several-rows-for-one-id."""
    csv: Csv = Csv()
    memory: Annotated[
        Text | None, allowed("a size, such as 4GB or 500MB", pattern="^[1-9][0-9]{0,5}(MB|GB)$")
    ] = None
    """The memory that the table, its ids and its ranks may take; what exceeds it is in unnamed files in
    TMPDIR: docs/tables.md#large-tables. Left out: an eighth of what the machine, or the control group,
    has."""

    def combination(self, name: str) -> Combination | None:
        """Return how the cells of one id in a column become one; None if they must be equal."""
        return self.duplicates.get(name) if isinstance(self.duplicates, dict) else None

    @property
    def orders(self) -> dict[str, tuple[str, ...]]:
        """The order of categories of each column that has one."""
        return {name: order for name, order in self.encode.items() if isinstance(order, tuple)}

    @property
    def nominal(self) -> frozenset[str]:
        """The columns whose categories have no order and become flags."""
        return frozenset(self.encode.keys() - self.orders.keys())

    @property
    def memory_bytes(self) -> int | None:
        """`memory` as a number."""
        return None if self.memory is None else int(self.memory[:-2]) * 1000 ** (2 + (self.memory[-2] == "G"))

    @field_validator("id", "features", "convert")
    @classmethod
    def _names_each_column_once(cls, names: Any, info: ValidationInfo) -> Any:
        excluding_keys = {"features": ("id", "exclude"), "convert": ("encode",)}.get(str(info.field_name), ())
        for name in names or ():
            if isinstance(names, tuple) and names.count(name) > 1:
                raise ValueError(f"lists {shown(name)} more than once")
            for key in excluding_keys:
                if name in info.data.get(key, ()):
                    raise ValueError(f"lists {shown(name)}, which {key} lists too; take it out of one")
        return names

    @field_validator("missing_flags")
    @classmethod
    def _has_rows(cls, flags: bool, info: ValidationInfo) -> bool:
        if flags and info.data.get("missing", "middle") != "middle":
            raise ValueError("needs missing: middle, which keeps the rows with missing values")
        return flags

    @field_validator("encode")
    @classmethod
    def _has_an_order(cls, encode: dict[str, tuple[str, ...] | str]) -> dict[str, tuple[str, ...] | str]:
        for column, categories in encode.items():
            if isinstance(categories, tuple) and len({category.strip() for category in categories}) < max(
                2, len(categories)
            ):
                raise ValueError(f"gives {shown(column)} fewer than two categories, or one of them twice")
        return encode

"""Types and bounds of a plan's keys, and the text that says which values are allowed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from unicodedata import normalize

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
)
from pydantic.fields import FieldInfo


def party_name(name: str) -> str:
    """Return a party's name if it is valid; a ``ValueError`` says why it is not."""
    # Names become folder names, parts of --table NAME=FILE, and lines of an error text.
    if not name.strip() or name != name.strip():
        raise ValueError("is not a name: it is empty, or starts or ends with a space")
    if len(name) > 64:
        raise ValueError(f"is {len(name)} characters long; a name has at most 64")
    if not name.isprintable() or name in (".", "..") or set(name) & set("/\\="):
        raise ValueError("cannot be a folder's name; leave out / \\ = and unprintable characters")
    return in_this_locale(name)


def in_this_locale(name: str) -> str:
    """Return the name of a file or folder; ``ValueError`` if this machine's locale cannot write it."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        why = f"this locale's encoding, {sys.getfilesystemencoding().upper()}, cannot write"
        raise ValueError(f"has characters that {why}: set PYTHONUTF8=1") from None
    return name


def _column(name: str) -> str:
    if not name:
        raise ValueError("is not a column name: it is empty")
    return normalize("NFC", name)


def _file(value: object) -> object:
    if isinstance(value, str) and (not value.strip() or "\0" in value):
        raise ValueError("is not a file path; leave the key out if there is no such file here")
    if isinstance(value, str) and "://" in value:
        raise ValueError("is an address, not a file path; a database's goes into an environment variable")
    if isinstance(value, (str, Path)):
        in_this_locale(str(value))
    return value


Text = Annotated[str, Strict()]  # 7, true and 2024-01-01 are not text until someone quotes them
Name = Annotated[Text, AfterValidator(party_name)]
ColumnName = Annotated[Text, AfterValidator(_column)]
Count = Annotated[int, Strict()]  # strict: true is not 1, and 3.0 is not 3
Number = Annotated[float, Strict()]


def allowed(text: str, **bounds: Any) -> Any:
    """Return the annotation for a key's type: `bounds` as of `pydantic.Field`, and `text` for errors.

    `text` completes "<value> is not ..." in an error. A type that lists its values needs none.
    """
    return Field(json_schema_extra={"allowed": text}, **bounds)


def allowed_text(field: FieldInfo) -> str:
    """Return the text for a field that completes the error "<value> is not ..."."""
    extra = field.json_schema_extra
    return str(extra.get("allowed", "")) if isinstance(extra, dict) else ""


def meaning(field: FieldInfo) -> str:
    """Return a key's description on one line: the text below it, where it is declared."""
    more = " Printed on the page to sign: docs/hosts.md#a-page-to-sign."
    return " ".join((field.description or "").split()) + more * (allowed_text(field) == _PAGE_TEXT)


def whole(low: int) -> Any:
    """Return the annotation for a whole number of at least `low`."""
    # The upper bound is larger than any table, and small enough for every peer to read.
    return allowed(f"a whole number from {low} to 1000000000", ge=low, le=10**9)


Flag = Annotated[bool, Strict(), allowed("true or false")]
OptionalFile = Annotated[Path | None, BeforeValidator(_file), allowed("a file path")]
#: Takes a value that is no list as a list of one.
OneOrMore = BeforeValidator(lambda value: value if isinstance(value, (list, tuple)) else (value,))
Columns = Annotated[tuple[ColumnName, ...], allowed("a list of column names")]
OneOrMoreColumns = Annotated[
    tuple[ColumnName, ...], OneOrMore, allowed("a column name, or a list of column names")
]
_PAGE_TEXT = "a text of at most 1000 characters"
#: A text that is printed on the page to sign.
PageText = Annotated[Text | None, allowed(_PAGE_TEXT, max_length=1000)]
#: A privacy loss ρ. Below 0.001 noisy numbers would not fit into the ring; above 100 noise hides nothing.
Loss = Annotated[Number, allowed("a number from 0.001 to 100", ge=0.001, le=100, allow_inf_nan=False)]
#: The length of Paillier's modulus.
KeyBits = Annotated[Count, allowed("a whole number of bits from 256 to 16384", ge=256, le=16384)]
# The upper end keeps deadlines within what clocks and sockets can count.
Seconds = Annotated[
    Number, allowed("a number of seconds above 0 and at most 1000000", gt=0, le=1e6, allow_inf_nan=False)
]

#: Tags of the two kinds of values that a key may take: one that is not a mapping, and a mapping or section.
#: pydantic adds them to the locations of problems, like keys.
KINDS = ("(value)", "(mapping)")
VALUE, MAPPING = map(Tag, KINDS)
VALUE_OR_MAPPING = Discriminator(lambda value: KINDS[isinstance(value, (Mapping, BaseModel))])


class Section(BaseModel):
    """A part of the plan: frozen, and unknown keys are refused.

    The text below a key is its only explanation: docs/plan.md is made of these texts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

"""Which columns of a table are the ids and which the features, from the plan's keys and the table's names."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import normalize

import pyarrow as pa

from mpc_spearman.config.table_keys import Csv, TableKeys
from mpc_spearman.config.wording import nearest
from mpc_spearman.data.notation import Notation
from mpc_spearman.data.refusals import Unusable, count_of, listed, show

MAX_NAME_BYTES = 500  # a feature's name travels in a message of bounded size and labels a report


def choose(
    labels: Sequence[object], keys: TableKeys, hint: str, adjust: Sequence[str] = ()
) -> tuple[list[int], list[int]]:
    """Return the places, among `labels`, of the id columns and of the features and columns to `adjust` for.

    `hint` says what may be the cause if a column does not exist.
    """
    names = _names(labels)
    place = {name: i for i, name in reversed(list(enumerate(names))) if name.strip()}
    # A first line with numbers in it may be a row of data, so errors must not quote it.
    numbers = int(Notation(Csv()).matches(pa.array(names, pa.large_string())).sum())
    twice = [i for i, name in enumerate(names) if place.get(name, i) != i]
    if twice:
        name = names[twice[0]]
        cause = "is the header line missing?" if numbers else show(name)
        first = f"the first is column {twice[0] + 1}, with the name of column {place[name] + 1}: {cause}"
        raise Unusable(f"{count_of(len(twice), 'column')} with the name of an earlier column; {first}")

    def existing(name: str, role: str, among: Sequence[str]) -> str:
        if name in place:
            return name
        problem = f"{role}: there is no column {show(name)}"
        if numbers and role == "id":
            in_header = f"{numbers} of the {len(names)} column names are numbers"
            raise Unusable(f"{problem}; {in_header}: is the header line missing?")
        columns = f"; it has {listed(names)}{'; set id to the column of row ids' if role == 'id' else ''}"
        raise Unusable(problem + (f"; {hint}" if hint else nearest(name, tuple(among)) or columns))

    ids = [existing(name, "id", names) for name in keys.id]
    other_names = [name for name in names if name in place and name not in ids]
    flags = [flag_of(name) for name in other_names] if keys.missing_flags else []
    left_out = {existing(name, "exclude", other_names) for name in keys.exclude if name not in flags}
    covariates = [existing(name, "adjust", other_names) for name in adjust]
    chosen = [name for name in other_names if name not in left_out and name not in covariates]
    if keys.features is not None:
        chosen = [existing(name, "features", other_names) for name in keys.features]
    for key in ("encode", "convert", "missing_values", "duplicates"):
        of_columns = getattr(keys, key)
        for name in of_columns if isinstance(of_columns, dict) else ():
            existing(name, key, other_names)
    if not chosen:
        besides = f" and those to adjust for, {listed(covariates)}" if covariates else ""
        raise Unusable(f"no feature column is left beside the id column {listed(ids)}{besides}")
    chosen += covariates
    for name in chosen:
        check_length(name, f"column {place[name] + 1}")
    return [place[name] for name in ids], [place[name] for name in chosen]


def check_length(name: str, feature: str) -> None:
    """Refuse a feature's name that is too long; `feature` is the feature in words."""
    size = len(name.encode())
    if size > MAX_NAME_BYTES:
        raise Unusable(
            f"the name of {feature}, {show(name)}, is {size} bytes of UTF-8, more than {MAX_NAME_BYTES}"
        )


def without_names(labels: Sequence[object]) -> str:
    """Say which columns have no name, and so are left out; "" if all have one."""
    blank = [i for i, name in enumerate(labels, 1) if not str(name).strip()]
    if not blank:
        return ""
    which = f"column {', '.join(map(str, blank[:10]))}{' ...' if len(blank) > 10 else ''}"
    return f"left out: {which} without a name (row numbers? pandas: index=False; ids? give it a name)"


def flag_of(name: str) -> str:
    """Name the flag column that marks another column's missing values."""
    return f"{name} is missing"


def _names(labels: Sequence[object]) -> list[str]:
    """Return the names of columns as plans write them; refuse labels that are not text."""
    names = list[str]()
    for place, label in enumerate(labels, 1):
        if not isinstance(label, str):
            raise Unusable(f"the label of column {place} is not text: name the columns with strings")
        try:
            label.encode()
        except UnicodeEncodeError:
            raise Unusable(f"the name of column {place} is not valid Unicode") from None
        names.append(normalize("NFC", label))
    return names

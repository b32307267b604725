"""Missing values: which rows they cost, what is ranked in their place, and numbers that may stand for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mpc_spearman.data.refusals import show

_MOST_NAMED = 10


def costs(missing: Mapping[str, npt.NDArray[np.int64]], n: int) -> str:
    """Say how many rows columns with missing values cost, and which to leave out to keep most rows.

    Parameters
    ----------
    missing : mapping of str to ndarray of int64
        For each column the rows in which it has no value, of the rows that count.
    n : int
        How many rows there are.
    """
    gaps = np.zeros(1 + max(int(rows[-1]) for rows in missing.values()), dtype=np.int32)
    for rows in missing.values():
        gaps[rows] += 1
    lost, left = int((gaps > 0).sum()), dict(missing)
    by_share = sorted(missing.items(), key=lambda item: -len(item[1]))
    shares = ", ".join(f"{show(name)} {_percent(len(rows), n)}" for name, rows in by_share[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    said = f"left out: {lost:,} of {n:,} rows ({_percent(lost, n)}) with a missing value, in {shares}{more}"
    out = ""
    for _ in range(min(3, len(missing) - 1)):  # each time the column without which most rows come back
        back = {name: int((gaps[rows] == 1).sum()) for name, rows in left.items()}
        best = max(back, key=lambda name: back[name])
        if 100 * back[best] < n:
            break
        gaps[left.pop(best)] -= 1
        out += f"{', and without' if out else '; without'} {show(best)} {int((gaps > 0).sum()):,}"
    kept = "; missing: middle keeps them" if 5 * lost > n else ""
    return said + (f"{out} would be (exclude)" if out else "") + kept


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def middle(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return numbers in the order of a column whose missing cells hold the median of the others.

    Parameters
    ----------
    values : ndarray of int64, uint64 or float64, shape (n,)
    missing : ndarray of bool, shape (n,)

    Returns
    -------
    ndarray of int64, shape (n,)
        Twice each value's place among the distinct ones. A median between two values is between their places.
    """
    known = values[~missing]
    filled = np.zeros(len(values), dtype=np.int64)
    if len(known):
        places = 2 * np.unique(known, return_inverse=True)[1]
        filled[~missing] = places
        ordered = np.sort(places)
        filled[missing] = (ordered[(len(known) - 1) // 2] + ordered[len(known) // 2]) // 2
    return filled


def looks_like_a_code(values: npt.NDArray[Any]) -> bool:
    """Tell whether the lowest or the highest value looks like a code for a missing one, such as -999.

    It does where its digits are all nines (two or more), it is there more than once, and it is further from
    the next value than that is from the one at the other end.

    Parameters
    ----------
    values : ndarray of int64, uint64 or float64, shape (n,)
    """
    if not len(values):
        return False
    low, high = values.min(), values.max()
    for code, others in ((low, values[values != low]), (high, values[values != high])):
        if set(str(abs(int(code)))) != {"9"} or abs(code) < 99 or code != int(code) or not len(others):
            continue
        if len(values) - len(others) > 1:
            near, far = (others.min(), high) if code == low else (others.max(), low)
            if abs(float(near) - float(code)) > abs(float(far) - float(near)):
                return True
    return False

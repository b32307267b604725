"""Numbers that stand for no value: what is suspicious, and never more than that."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt


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

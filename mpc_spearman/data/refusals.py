"""Phrases about tables: counts, rows and columns. No text made here quotes a cell or an id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc_spearman.arrays import Array


class Unusable(Exception):
    """A part of a table cannot be used. The text names neither party nor file; the caller adds them."""


def at_rows(rows: Array, noun: str, more: str = "") -> str:
    """Say how many rows there are, given as places or a mask, and which is the first; "" if none."""
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows
    return f"{count_of(len(rows), noun)}{more}, the first in data row {rows[0] + 1}" if len(rows) else ""


def count_of(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def show(name: str) -> str:
    """Quote a column's name, cut to 60 characters."""
    return repr(name if len(name) <= 60 else name[:57] + "...")  # repr escapes what does not print


def listed(names: Sequence[str]) -> str:
    """List column names, the first ten of many."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(show, names[:10])) + more

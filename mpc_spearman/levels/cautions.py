"""Warnings for the reader of a result that follow from columns and counts alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, parts
from mpc_spearman.config import Plan
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.statistics import result_warnings

_START = 1024  # rows whose ranks are compared first


def impossible(plan: Plan, counts: NDArray[np.int64], shapes: Shapes) -> list[str]:
    """Say whether strengths are missing, or over fewer coefficients, that the columns do not explain."""
    if plan.estimator == "paper":
        return result_warnings.impossible(counts, shapes.m_sources, 0)
    return result_warnings.impossible(counts, shapes.defined_sources, shapes.constant_targets)


def repeated_columns(party: str, names: Sequence[str], ranks: Ranks) -> list[str]:
    """Say which of a source's own columns are duplicates: nobody else can tell."""
    groups = []
    for members in equal_or_reversed(ranks):
        first = ranks.matrix[members[0]]
        same = [column for column in members if _equal(ranks.matrix[column], first)]
        other = [column for column in members if column not in same]
        groups.append(([names[column] for column in same], [names[column] for column in other]))
    return result_warnings.repeated(party, groups)


def equal_or_reversed(ranks: Ranks) -> list[list[int]]:
    """Put the columns that are not constant together with those that they are equal to, or the reverse of."""
    alike: dict[tuple[int, bytes], list[list[int]]] = {}
    for column, (x, constant) in enumerate(zip(ranks.matrix, ranks.constant, strict=True)):
        if constant:
            continue
        first = next(part[part != 0][0] for _, part in parts(x, BLOCK) if part.any())
        start = x[:_START] if first > 0 else -x[:_START]
        likely = alike.setdefault((ranks.tie_terms[column], start.tobytes()), [])
        for members in likely:
            other = ranks.matrix[members[0]]
            if _equal(x, other) or _equal(x, other, -1):
                members.append(column)
                break
        else:
            likely.append([column])
    return [members for likely in alike.values() for members in likely]


def _equal(x: NDArray[np.int32], other: NDArray[np.int32], sign: int = 1) -> bool:
    both = zip(parts(x, BLOCK), parts(other, BLOCK), strict=True)
    return all(np.array_equal(one, sign * two) for (_, one), (_, two) in both)


def column_cautions(plan: Plan, party: str, names: Sequence[str], ties: Sequence[int], n: int) -> list[str]:
    """Sentences about a party's own columns: ties under ``paper``, constants."""
    flags = [term == total(n) for term in ties]
    untied_or_constant = [0 if constant else term for term, constant in zip(ties, flags, strict=True)]
    return [
        *(result_warnings.ties(party, names, untied_or_constant, n) if plan.estimator == "paper" else ()),
        *result_warnings.constants(party, names, flags, plan.estimator),
    ]

"""Warnings for the reader of a result that follow from columns and counts alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Plan
from mpc_spearman.data.ranks import total
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.statistics import result_warnings


def impossible(plan: Plan, counts: NDArray[np.int64], shapes: Shapes) -> list[str]:
    """Say whether strengths are missing, or over fewer coefficients, that the columns do not explain."""
    if plan.estimator == "paper":
        return result_warnings.impossible(counts, shapes.m_sources, 0)
    return result_warnings.impossible(counts, shapes.defined_sources, shapes.constant_targets)


def column_cautions(plan: Plan, party: str, names: Sequence[str], ties: Sequence[int], n: int) -> list[str]:
    """Sentences about a party's own columns: ties under ``paper``, constants."""
    flags = [term == total(n) for term in ties]
    untied_or_constant = [0 if constant else term for term, constant in zip(ties, flags, strict=True)]
    return [
        *(result_warnings.ties(party, names, untied_or_constant, n) if plan.estimator == "paper" else ()),
        *result_warnings.constants(party, names, flags, plan.estimator),
    ]

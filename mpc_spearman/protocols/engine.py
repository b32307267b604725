"""What a protocol must do for the roles, and what the roles hand to it.

The roles (:mod:`mpc_spearman.protocols.roles`) are the same for all protocols; the private computation is an
engine's: :mod:`mpc_spearman.protocols.mpc.engine` or :mod:`mpc_spearman.protocols.he.engine`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mpc_spearman.config import Plan
from mpc_spearman.keys import Stream
from mpc_spearman.protocols.steps import Run, Shape
from mpc_spearman.ranks import Ranks, strength_vector
from mpc_spearman.roles import Member


@dataclass(frozen=True, repr=False)
class Operand:
    """One data party's side of the inner products X·Yᵀ + offsets.

    Attributes
    ----------
    values : ndarray of int64, shape (m, n)
        The party's ranks, or at ``strengths`` the source's one vector, (1, n).
    bound : int
        Largest absolute value possible in `values`: public, from the sizes alone.
    offset : ndarray of int64, shape (1, m_B) or (1, 1)
        What the party adds to every opened sum.
    """

    values: np.ndarray
    bound: int
    offset: np.ndarray


class Engine(Protocol):
    """The private computation between one source, the target and the coordinator."""

    def give_differences(self, run: Run, source: Member, own: np.ndarray, shape: Shape) -> None:
        """Do a data party's part at ``differences``; `own` are its ranks, int64 (m, n)."""

    def give_products(self, run: Run, source: Member, own: Operand, shape: Shape) -> None:
        """Do a data party's part at ``coefficients`` and ``strengths``."""

    def opening(self, run: Run, source: Member, shape: Shape) -> AbstractContextManager[Callable[[], Any]]:
        """Do the coordinator's part: on entry what needs no data, when called the rest.

        The call returns integers: at ``differences`` Q_pq = Σ (x_p − y_q)², Python int (m_A, m_B); at
        ``coefficients`` S (m_A, m_B); at ``strengths`` one sum per target column, (1, m_B).
        """


def source_vectors(plan: Plan, shape: Shape) -> int:
    """How many vectors the source gives: its columns, or at ``strengths`` one."""
    return 1 if plan.reveal == "strengths" else shape.m_source


def source_operand(plan: Plan, ranks: Ranks) -> Operand:
    """Make the source's operand (DESIGN 1.3).

    At ``strengths`` it is one vector, Σ_p x_p or round(F·Σ_p x_p/‖x_p‖), and under ``paper`` the source adds
    Σ_p T_p/2 itself, so that its tie terms reach nobody.
    """
    n, m = ranks.n, ranks.m
    if plan.reveal != "strengths":
        return Operand(ranks.matrix, n - 1, np.zeros((1, 1), dtype=np.int64))
    # Randomness for rounding only, which nobody else needs: a fresh key does.
    rounding = Stream(os.urandom(32))
    vector = strength_vector(ranks, plan.estimator, defined=ranks.defined, random=rounding.uniform)
    paper = plan.estimator == "paper"
    offset = sum(ranks.tie_terms) // 2 if paper else 0
    return Operand(vector[None, :], m * (n - 1) if paper else 2**63 - 1, np.array([[offset]], dtype=np.int64))


def target_operand(plan: Plan, ranks: Ranks, shape: Shape) -> Operand:
    """Make the target's operand; at ``strengths`` under ``paper`` it adds m_A·T_q/2 to feature q itself."""
    ties = plan.reveal == "strengths" and plan.estimator == "paper"
    offset = [shape.m_source * (term // 2) if ties else 0 for term in ranks.tie_terms]
    return Operand(ranks.matrix, ranks.n - 1, np.array([offset], dtype=np.int64))

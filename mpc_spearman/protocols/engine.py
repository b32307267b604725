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
from mpc_spearman.data.ranks import Ranks, strength_vector
from mpc_spearman.parties import Party
from mpc_spearman.protocols.steps import Run, Shape, Shapes
from mpc_spearman.wire.keys import Stream


@dataclass(frozen=True, repr=False)
class Operand:
    """One data party's side of one source's inner products at ``strengths``: x·Yᵀ + offsets.

    Attributes
    ----------
    values : ndarray of int64, shape (m, n)
        The source's one vector, (1, n), or the target's ranks.
    bound : int
        Largest absolute value possible in `values`: public, from the sizes alone.
    offset : ndarray of int64, shape (1, m_B) or (1, 1)
        What the party adds to every sum.
    """

    values: np.ndarray
    bound: int
    offset: np.ndarray


class Engine(Protocol):
    """The private computation between the sources, the target and the coordinator.

    It is one session per source, of that source, the target and the coordinator, one after the other in
    roster order. A source takes part in its own, the others in all: `mpc_spearman.parties.Roster.sessions`.
    """

    def give_differences(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Do a data party's part at ``differences``; `own` are its ranks, int64 (m, n)."""

    def give_products(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Do a data party's part at ``coefficients``; `own` are its ranks, int64 (m, n)."""

    def give_sums(self, run: Run, own: Callable[[Party], Operand], shapes: Shapes) -> None:
        """Do a data party's part at ``strengths``; `own` makes its operand when a source's session begins."""

    def opening(self, run: Run, shapes: Shapes) -> AbstractContextManager[Callable[[], Any]]:
        """Do the coordinator's part: on entry what needs no data, when called the rest.

        The call returns integers: at ``differences`` Q_pq = Σ (x_p − y_q)², Python int (m_A, m_B), the
        sources' rows in roster order; at ``coefficients`` S (m_A, m_B); at ``strengths`` one sum per target
        column over all sources, (1, m_B).
        """


def source_operand(plan: Plan, ranks: Ranks, defined: int) -> Operand:
    """Make a source's operand at ``strengths`` (DESIGN 1.3), one vector: Σ_p x_p or round(F·Σ_p x_p/‖x_p‖).

    Under ``paper`` the source adds Σ_p T_p/2 itself, so that its tie terms reach nobody. `defined` is k of
    all sources together.
    """
    n, m = ranks.n, ranks.m
    # Randomness for rounding only, which nobody else needs: a fresh key does.
    rounding = Stream(os.urandom(32))
    vector = strength_vector(
        ranks,
        plan.estimator,
        defined=defined,
        random=rounding.uniform,
        sources=len(plan.parties.sources),
    )
    paper = plan.estimator == "paper"
    offset = sum(ranks.tie_terms) // 2 if paper else 0
    return Operand(vector[None, :], m * (n - 1) if paper else 2**63 - 1, np.array([[offset]], dtype=np.int64))


def target_operand(plan: Plan, ranks: Ranks, shape: Shape) -> Operand:
    """Make the target's operand in one source's session; under ``paper`` it adds m_A·T_q/2 to feature q."""
    paper = plan.estimator == "paper"
    offset = [shape.m_source * (term // 2) if paper else 0 for term in ranks.tie_terms]
    return Operand(ranks.matrix, ranks.n - 1, np.array([offset], dtype=np.int64))

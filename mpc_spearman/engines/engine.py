"""What a protocol must do for the roles, and what the roles hand to it.

The roles (:mod:`mpc_spearman.protocols.roles`) are the same for all protocols; the private computation is an
engine's: :mod:`mpc_spearman.engines.mpc.engine` or :mod:`mpc_spearman.engines.he.engine`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mpc_spearman.data.ids import id_order
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.levels.encoding import encoding_of
from mpc_spearman.levels.products import Products
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.run import Run


class Engine(ABC):
    """The private computation between the sources, the target and the coordinator.

    It is one session per source, of that source, the target and the coordinator, one after the other in
    roster order. A source takes part in its own, the others in all: `mpc_spearman.parties.Roster.sessions`.

    Attributes
    ----------
    gives : str
        The phase in which a data party's values are made what they leave as.
    """

    gives: str

    def give(self, run: Run, table: Table, ranks: Ranks, shapes: Shapes) -> np.ndarray | None:
        """Do a data party's part at the plan's level; return what is opened to it, if anything."""
        if run.plan.reveal == "differences":
            self.give_differences(run, ranks.matrix, shapes)
        elif run.plan.reveal == "coefficients":
            with run.meter.phase(self.gives):
                vectors = Products(shapes.n).vectors(table, ranks)
            self.give_products(run, vectors, shapes)
        else:
            me, encoding = run.roster.me, encoding_of(run.plan, shapes)
            encode = encoding.source_vector if me.role is Role.SOURCE else encoding.column_vectors
            with run.meter.phase(self.gives):
                vectors = encode(ranks, me.name, id_order(table.ids))
            if run.plan.reveal == "ranking":
                undefined = encoding.undefined(ranks) if me.role is Role.TARGET else None
                return self.give_order(run, vectors, undefined, shapes)
            self.give_sums(run, vectors, shapes)
        return None

    @abstractmethod
    def give_differences(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Do a data party's part at ``differences``; `own` are its ranks, int32 (m, n)."""

    @abstractmethod
    def give_products(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Do a data party's part at ``coefficients``; `own` are its columns' vectors, int32 (m, n)."""

    @abstractmethod
    def give_sums(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Do a data party's part at ``strengths``; `own` are its encoded vectors, int64 (1 or m_B, rows)."""

    def give_order(
        self, run: Run, own: np.ndarray, undefined: np.ndarray | None, shapes: Shapes
    ) -> np.ndarray | None:
        """Do a data party's part at ``ranking``; `own` as for `give_sums`.

        At the target, `undefined` tells which of its columns have no strength, bool (m_B,). What is returned
        at whom the order is opened to is as from `opening`.
        """
        raise NotImplementedError("only secure multiparty computation compares in private")

    @abstractmethod
    def opening(self, run: Run, shapes: Shapes) -> AbstractContextManager[Callable[[Shapes], Any]]:
        """Do the coordinator's part: on entry what needs no data, when called the rest.

        The call takes the shapes with what all have told of their columns. It returns integers, of any size
        if a party did not follow the protocol, and never raises for what they are: at ``differences``
        Q_pq = Σ (x_p − y_q)², Python int (m_A, m_B), the sources' rows in roster order, negative where there
        is none; at ``coefficients`` what :mod:`mpc_spearman.levels.products` makes S of, (m_A, m_B); at
        ``strengths`` one sum per target column over all sources, (1, m_B); at ``ranking`` bool: "q before r"
        of each pair of target columns q < r, row by row, or under ``top`` one per column, and None where the
        order is not opened to the coordinator.
        """

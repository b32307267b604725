"""The contract of an engine, which does the private computation for roles and levels that know no engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.run import Run

#: The coordinator's rest of a computation; returns what was opened.
Opening = Callable[[], Any]


class Engine(ABC):
    """The private computation between the sources, the target and the coordinator.

    Each source has one session, with the target and the coordinator; sessions follow each other in roster
    order. A source takes part in its own session, the others in all: `mpc_spearman.parties.Roster.sessions`.
    """

    def contribute(self, run: Run, computation: Computation, own: Contribution) -> NDArray[np.bool_] | None:
        """Do a data party's part; return what is opened to it, if anything, in `prepare`'s form."""
        if computation.operation == "differences":
            self.differences(run, computation, own.vectors)
        elif computation.operation == "inner_products":
            self.inner_products(run, computation, own)
        else:
            return self.comparison(run, computation, own)
        return None

    @abstractmethod
    def differences(self, run: Run, computation: Computation, own: np.ndarray) -> None:
        """Do a data party's part where differences are opened; `own` are its vectors."""

    @abstractmethod
    def inner_products(self, run: Run, computation: Computation, own: Contribution) -> None:
        """Do a data party's part where inner products, or their sums, are opened."""

    def comparison(self, run: Run, computation: Computation, own: Contribution) -> NDArray[np.bool_] | None:
        """Do a data party's part where sums of inner products are compared."""
        raise NotImplementedError("only secure multiparty computation compares in private")

    @abstractmethod
    def prepare(self, run: Run, computation: Computation) -> Opening:
        """Do what the coordinator can do before data arrives; return a function that does the rest.

        It returns integers, of any size if a party deviated, and never raises because of their values.
        Of ``differences``: Σ (x_p − y_q)² of each pair, Python int (m_A, m_B), the sources' rows in roster
        order, negative if undefined. Of ``inner_products``: (m_A, m_B), or summed (1, m_B). Of a
        ``comparison`` bool: "q before r" of each pair of target vectors q < r, row by row, or under ``top``
        one per vector, and None if not opened to the coordinator.
        """


def engine_for(protocol: str) -> Engine:
    """Import a protocol's engine: only what it needs has to be installed."""
    if protocol == "he":
        from mpc_spearman.engines.he.engine import He

        return He()
    from mpc_spearman.engines.mpc.engine import Mpc

    return Mpc()

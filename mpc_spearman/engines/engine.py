"""The contract between roles and an engine, which does the private computation.

The roles (:mod:`mpc_spearman.protocols.roles`) and the levels (:mod:`mpc_spearman.levels`) are the same for
both engines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.run import Run

#: The coordinator's rest of a computation; returns what was opened.
Opening = Callable[[], Any]


class Engine(ABC):
    """The private computation between the sources, the target and the coordinator.

    It is one session per source, of that source, the target and the coordinator, one after the other in
    roster order. A source takes part in its own, the others in all: `mpc_spearman.parties.Roster.sessions`.

    Every worker of a party computes on its rows, with those of the same shard. Its part of what is opened
    goes to the party's first worker, which alone does the rest (`mpc_spearman.wire.team`).
    """

    def contribute(self, run: Run, computation: Computation, own: Contribution) -> NDArray[np.bool_] | None:
        """Do a data party's part; return what is opened to it, if anything, as `prepare`'s call does."""
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
        """Do what the coordinator can do before any data comes; return what does the rest.

        That returns integers, of any size if a party did not follow the protocol, and never raises for what
        they are; None at all workers but the first. Of ``differences``: Σ (x_p − y_q)² of each pair, Python
        int (m_A, m_B), the sources' rows in roster order, negative where there is none. Of
        ``inner_products``: (m_A, m_B), or summed (1, m_B). Of a ``comparison`` bool: "q before r" of each
        pair of target vectors q < r, row by row, or under ``top`` one per vector, and None where that is not
        opened to the coordinator.
        """


def stacked(opened: Iterable[np.ndarray | None]) -> np.ndarray | None:
    """Stack what was opened of each source, at the coordinator's first worker; None at the others."""
    rows = [of_source for of_source in opened if of_source is not None]
    return np.vstack(rows) if rows else None


def engine_for(protocol: str) -> Engine:
    """Import a protocol's engine: only what it needs has to be installed."""
    if protocol == "he":
        from mpc_spearman.engines.he.engine import He

        return He()
    from mpc_spearman.engines.mpc.engine import Mpc

    return Mpc()

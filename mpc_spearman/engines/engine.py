"""The contract of an engine, which runs the private computation. Roles and levels know only the contract."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from mpc_spearman.engines.computation import Computation, Contribution, Opening
from mpc_spearman.run import Run


class Engine(Protocol):
    """The private computation between the sources, the target and the coordinator: two functions of a module.

    Each source has one session, with the target and the coordinator; sessions follow each other in roster
    order. A source takes part in its own session, the others in all: `mpc_spearman.parties.Roster.sessions`.
    """

    def contribute(
        self, run: Run, computation: Computation, contribution: Contribution
    ) -> NDArray[Any] | None:
        """Do a data party's part; return what is opened to it, if anything, in `prepare`'s form."""

    def prepare(self, run: Run, computation: Computation) -> Opening:
        """Do what the coordinator can do before data arrives; return a function that does the rest.

        That function returns integers, of any size if a party deviated, and never raises because of values:

        - ``differences``: Σ (x_p − y_q)² of each pair, Python int (m_A, m_B), the sources' rows in roster
          order, negative if undefined;
        - ``inner_products``: (m_A, m_B), or summed (1, m_B);
        - ``comparison``: bool, "q before r" of each pair of target vectors q < r, row by row, or under
          ``top`` one per vector; None if the order is not opened to the coordinator.
        """


def engine_for(protocol: str) -> Engine:
    """Import a protocol's engine: only what it needs has to be installed."""
    if protocol == "he":
        from mpc_spearman.engines.he import engine as he

        return he
    from mpc_spearman.engines.mpc import engine as mpc

    return mpc

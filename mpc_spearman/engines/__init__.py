"""The private computation, by MPC or HE, on the vectors that the data parties contribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpc_spearman.engines.engine import Engine


def engine_for(protocol: str) -> Engine:
    """Import a protocol's engine: only what it needs has to be installed."""
    if protocol == "he":
        from mpc_spearman.engines.he.engine import He

        return He()
    from mpc_spearman.engines.mpc.engine import Mpc

    return Mpc()

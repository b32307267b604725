"""The order in which source and target take their rows where differences are opened."""

from __future__ import annotations

import numpy as np

from mpc_spearman.keys import Purpose, Stream
from mpc_spearman.protocols.steps import Run
from mpc_spearman.roles import Member


def shuffle(run: Run, source: Member, n: int) -> np.ndarray:
    """Draw the row order of one source's session from the key that only source and target hold; int64 (n,).

    The coordinator cannot link the rows it opens to an order, to another run or to another source.
    """
    peer = run.roster.target if run.roster.me == source else source
    return Stream(run.keys[peer].subkey(Purpose.SHUFFLE, source.name)).permutation(n)

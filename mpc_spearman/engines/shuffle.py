"""The order in which source and target take their rows where differences are opened."""

from __future__ import annotations

import numpy as np

from mpc_spearman.parties import Party
from mpc_spearman.run import Run
from mpc_spearman.wire.keys import Purpose, Stream


def shuffle(run: Run, source: Party, n: int) -> np.ndarray:
    """Draw the row order of one source's session from the key that only source and target hold; int64 (n,).

    What is in the rows may still link them: the target's own y_q − y_1 are the same in each of its sessions.
    """
    peer = run.roster.target if run.roster.me == source else source
    return Stream(run.keys[peer].subkey(Purpose.SHUFFLE, source.name)).permutation(n)

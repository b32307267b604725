"""The order in which source and target take their rows where differences are opened."""

from __future__ import annotations

import numpy as np

from mpc_spearman.arrays import reordered
from mpc_spearman.parties import Party
from mpc_spearman.run import Run
from mpc_spearman.wire.keys import Purpose, Stream


def dealt(run: Run, source: Party, own: np.ndarray, all_rows: int, *, shuffled: bool = True) -> np.ndarray:
    """Take the rows of (m, n) in an order drawn from the key that only a session's source and target hold.

    Drawing it takes 32 bytes a row for a moment. What is in the rows may still link them: the target's own
    y_q − y_1 are the same in each of its sessions. Where a party has several workers the first one, which
    alone has rows, deals them in that order: so not even the shard says where in the table a row was.
    """
    if not run.team.leads:
        return run.team.dealt(len(own), all_rows, own.dtype.str)
    if not shuffled:
        return run.team.deal(own, run.block_bytes)
    peer = run.roster.target if run.roster.me == source else source
    stream = Stream(run.keys[peer].subkey(Purpose.SHUFFLE, source.name))
    return run.team.deal(reordered(own, stream.permutation(all_rows)), run.block_bytes)

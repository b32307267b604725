"""Measure the pieces of a run on one core, in processor time, each beside what is usually taken for it.

    python benchmarks/pieces.py [--write]

Ranking, masks, the product of ring elements, and digests of ids, by the code that runs use.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from unittest.mock import patch

import measuring
import numpy as np
import pyarrow as pa
import torch
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from mpc_spearman.data.ids import id_digest
from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.engines import ring
from mpc_spearman.run import rows_of_block
from mpc_spearman.wire.keys import Stream

COLUMNS, ELEMENTS, RANKED = 50, 1 << 17, 200_000
_TRIAL = 0.1  # seconds


def main() -> None:
    """Measure everything and print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = measuring.table(["piece", "for", "ns", "instead", "ns", "times"], pieces())
    line = measuring.environment("numpy", "scipy", "torch", "pyarrow")
    measuring.show(
        f"{found}\nMedians of {measuring.REPEATS}, in turn; {line}\n", __file__, write=options.write
    )


def pieces() -> list[list[str]]:
    """Measure each piece and what could be in its place."""
    column = np.random.default_rng(0).normal(size=RANKED)  # data, not secrets
    twister, stream = torch.Generator().manual_seed(1), Stream(os.urandom(32))
    low, high = -(2**63), 2**63 - 1
    ids = pa.array([f"r{row}" for row in range(ELEMENTS)])
    rows = rows_of_block(COLUMNS)
    ranks = np.resize(np.arange(-rows, rows, 2), (COLUMNS, rows)).astype(np.int32)
    shares = [stream.ring((COLUMNS, rows)) for _ in range(2)]

    def limbs(product: Callable[[], object]) -> Callable[[], object]:
        """Take a product as a processor without vectors of 64-bit integers would."""

        def patched() -> object:
            with patch.object(ring, "vectorised", lambda: False):
                return product()

        return patched

    def small() -> object:
        return ring.matmul(ranks, shares[1], rows)

    def large() -> object:
        return ring.matmul(shares[0], shares[1], None)

    cases: list[tuple[str, str, int, Callable[[], object], str, Callable[[], object] | None]] = [
        (
            "rank",
            "a cell",
            RANKED,
            lambda: rank_columns(column[None]),
            "`scipy.stats.rankdata`",
            lambda: rankdata(column),
        ),
        (
            "mask (AES-256-CTR)",
            "an element",
            ELEMENTS,
            lambda: stream.ring((ELEMENTS,)),
            "`torch.randint` (Mersenne Twister)",
            lambda: torch.randint(low, high, (ELEMENTS,), generator=twister),
        ),
        (
            "product of ranks and shares",
            "a row",
            rows,
            small,
            "in limbs, as without AVX-512",
            limbs(small),
        ),
        ("product of shares", "a row", rows, large, "in limbs, as without AVX-512", limbs(large)),
        ("digest", "an id", ELEMENTS, lambda: id_digest(ids, bytes(32)), "", None),
    ]
    lines = []
    for name, per, count, ours, instead, other in cases:
        ways = {"ours": lambda ours=ours, count=count: nanoseconds(ours, count)}
        if other is not None:
            ways["other"] = lambda other=other, count=count: nanoseconds(other, count)
        found = measuring.in_turn(ways, note=name)
        line = [name, per, f"{found['ours']:.1f}", instead]
        if other is not None:
            line += [f"{found['other']:.1f}", f"{found['other'] / found['ours']:.1f}"]
        lines.append(line + [""] * (6 - len(line)))
    return lines


def nanoseconds(work: Callable[[], object], count: int) -> float:
    """Return the median processor time of one of `count` parts of some work, tried for a while."""
    times: list[float] = []
    while sum(times) < _TRIAL or len(times) < 3:
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times) / count * 1e9


if __name__ == "__main__":
    main()

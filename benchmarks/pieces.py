"""Measure the pieces of a run on one core, and what packing ring elements costs and saves.

    python benchmarks/pieces.py [--write]

Reading a Parquet file, ranking, the owner's rules, masks, the product and the wire are each tried by the code
that runs use (:mod:`mpc_spearman.comparison.calibration`), in processor time, at 50 columns on either side;
each beside what is usually taken for it. Then a masked value sent, from one end to the other, in 8 bytes and
in fewer: what the processors of both ends take for it, and what the link does at 100 Mbit/s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import measuring
import numpy as np
import torch
from scipy.stats import rankdata

from mpc_spearman.comparison.calibration import Machine, seconds
from mpc_spearman.engines import ring

COLUMNS, ROWS, RANKED = 50, 1 << 14, 200_000
_BANDWIDTH = 1e8


def main() -> None:
    """Measure everything and print, or write, both tables."""
    options = measuring.parser(__doc__).parse_args()
    print("This takes about a minute.")
    first = measuring.table(["piece", "for", "ns", "instead", "ns", "times"], pieces())
    heads = ["bytes", "both ends, ns", "at 100 Mbit/s, ns", "rows, at `coefficients`"]
    second, line = (
        measuring.table(heads, widths()),
        measuring.environment("numpy", "scipy", "torch", "pyarrow"),
    )
    text = f"{first}\n{second}\nMedians of {measuring.REPEATS}, in turn; {line}\n"
    measuring.show(text, __file__, write=options.write)


def pieces() -> list[list[str]]:
    """Measure each piece and what could be in its place."""
    rng = np.random.default_rng(0)  # data, not secrets
    column = rng.normal(size=RANKED)
    twister = torch.Generator().manual_seed(1)
    low, high = -(2**63), 2**63 - 1

    def both(
        name: str,
        per: str,
        ours: Callable[[Machine], float],
        instead: str = "",
        other: Callable[[], float] | None = None,
    ) -> list[str]:
        ways = {name: lambda: ours(Machine()) * 1e9}
        if other is not None:
            ways[instead] = lambda: other() * 1e9
        found = measuring.in_turn(ways)
        line = [name, per, f"{found[name]:.1f}"]
        return (
            [*line, instead, f"{found[instead]:.1f}", f"{found[instead] / found[name]:.1f}"]
            if other
            else [*line, "", "", ""]
        )

    return [
        both("read ids", "a row", lambda machine: machine.reading[0]),
        both("read", "a cell", lambda machine: machine.reading[1]),
        both(
            "rank",
            "a cell",
            lambda machine: machine.ranking(RANKED),
            "`scipy.stats.rankdata`",
            lambda: seconds(lambda: rankdata(column)) / RANKED,
        ),
        both("the owner's rules", "a row", lambda machine: machine.rules(COLUMNS)[1]),
        both(
            "mask (AES-256-CTR)",
            "an element",
            lambda machine: machine.mask,
            "`torch.randint` (Mersenne Twister)",
            lambda: seconds(lambda: torch.randint(low, high, (ROWS,), generator=twister)) / ROWS,
        ),
        both(
            "product of ranks and shares",
            "a row",
            lambda machine: machine.products(COLUMNS, COLUMNS, True),
            "in limbs, as without AVX-512",
            lambda: in_limbs(small=True),
        ),
        both(
            "product of shares",
            "a row",
            lambda machine: machine.products(COLUMNS, COLUMNS, False),
            "in limbs, as without AVX-512",
            lambda: in_limbs(small=False),
        ),
        both("digest", "an id", lambda machine: machine.digest),
    ]


def in_limbs(*, small: bool) -> float:
    """Measure the product as a processor without vectors of 64-bit integers would take it."""
    with patch.object(ring, "vectorised", lambda: False):
        return Machine().products(COLUMNS, COLUMNS, small)


def widths() -> list[list[str]]:
    """Measure a ring element on the wire in so many bytes."""

    def measure(width: int) -> float:
        return sum(Machine().wire(width)) * 1e9

    found = measuring.in_turn({str(width): partial(measure, width) for width in (8, 7, 6, 5, 4, 2)})
    rows = {width: int((3 * 2 ** (8 * int(width) - 1)) ** (1 / 3)) for width in found}
    return [
        [
            width,
            f"{both:.1f}",
            f"{8e9 * int(width) / _BANDWIDTH:.0f}",
            f"up to {rows[width]:,}" if int(width) < 8 else "more",
        ]
        for width, both in found.items()
    ]


if __name__ == "__main__":
    main()

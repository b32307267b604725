"""What a run would cost, from a few small runs of the plan itself.

Every small run has the plan's columns and fewer rows than asked for. Through the last two goes a line for
every figure of every party and phase. Each figure is the last run's, plus what its line adds for the rows
that are missing. Where the rows asked for are few enough, the last run has all of them. The table that
results is one of `compare`, so it can be put on a network as measured ones are.

Nothing here knows what a level or an engine does, so a new one is estimated as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pandas as pd

from mpc_spearman.comparison.sweep import measure
from mpc_spearman.comparison.table import FIGURES, per_run
from mpc_spearman.comparison.variants import Size, Variant
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.supervisor import Note, Watch
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes

#: Cells of the first run under MPC, enough to fill buffers, which memory would seem to grow with, and of any.
_CELLS = 2_000_000, 16_000_000
#: Rows of the first run under HE. With Paillier each takes up to a second, or a millisecond if short.
_FIRST_BFV, _FIRST_PAILLIER = 1000, {"full": 4, "short": 500}
#: How many times as many rows the next run has, at most and at least.
_MOST, _LEAST = 16, 2
# Seconds that a run may be expected to take; whatever took half as long is the last one.
_ENOUGH = 12.0
# What takes as long whatever the rows, and may take very different times: primes are found by trying.
_FIXED = ("connect", "keys")


class Estimate(NamedTuple):
    """A table as `compare` returns it, and the rows of each run that was made; the last may have all."""

    table: pd.DataFrame
    rows: tuple[int, ...]


def estimate(
    variant: Variant,
    size: Size,
    *,
    suffix: str = ".parquet",
    watch: Watch = lambda party, phase, done, of: None,
    note: Note = lambda party, text: None,
    server: ForkServer | None = None,
) -> Estimate:
    """Estimate what a plan costs at a size, in some seconds, with tables in files of a kind (`suffix`).

    The other arguments are as for `run_local`; notes of the estimate itself come from "estimate".
    `BoundError` if a run of this plan would refuse the size.
    """
    roster = variant.plan.roster(variant.plan.names[0])
    features = dict.fromkeys(roster.sources, size.m_A)
    everyone = {**features, roster.target: size.m_B}
    level_of(variant.plan).check(Shapes(size.n, features, size.m_B, everyone))
    he, columns = variant.plan.he, size.m_A + size.m_B
    first = max(1, _CELLS[0] // columns)
    if variant.plan.protocol == "he":
        first = _FIRST_BFV if he.scheme == "bfv" else _FIRST_PAILLIER[he.randomness]
    most = min(size.n, max(first, _CELLS[1] // columns))
    rows, tables = [min(most, first)], []
    with ExitStack() as stack:
        server = server or stack.enter_context(ForkServer())
        while True:
            note("estimate", f"run {len(rows)}: {rows[-1]:,} rows")
            smaller = size._replace(n=rows[-1])
            tables.append(measure(variant, smaller, 0, suffix, server=server, watch=watch, note=note))
            growing = tables[-1][~tables[-1]["phase"].isin(_FIXED)]
            took = float(per_run(growing)["seconds"].iloc[0])
            # One run says little: there is a second one unless it would take a minute.
            if rows[-1] == most or took > (_ENOUGH / 2 if len(rows) > 1 else 2 * _ENOUGH):
                break
            step = rows[-1] * min(_MOST, max(_LEAST, int(_ENOUGH / max(took, 0.01))))
            # The last step is no short one: a line through two near points leads anywhere.
            rows.append(most if most < 2 * step else step)
    return Estimate(_line(rows, tables, size.n), tuple(rows))


def _line(rows: Sequence[int], tables: Sequence[pd.DataFrame], n: int) -> pd.DataFrame:
    """Go from the last run to n rows: along the line through the last two, or through no rows and one."""
    last = tables[-1].copy()
    if len(rows) > 1:
        slope = (last[FIGURES] - tables[-2][FIGURES]) / (rows[-1] - rows[-2])
    else:
        slope = last[FIGURES] / rows[-1]
        slope[["rounds", "memory"]] = 0.0
    slope = slope.clip(lower=0.0).mask(last["phase"].isin(_FIXED), 0.0)
    figures = last[FIGURES] + slope * (n - rows[-1])
    whole = [name for name in FIGURES if name not in ("seconds", "wait")]
    figures[whole] = figures[whole].round().astype("int64")
    return last.assign(n=n).assign(**{name: figures[name] for name in FIGURES})

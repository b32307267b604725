"""Run plans at several sizes, and keep every run, so that a sweep that was interrupted goes on."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd

from mpc_spearman.comparison import data
from mpc_spearman.comparison.table import machine, tidy
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.config import Plan
from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import MpcSpearmanError, PlanError
from mpc_spearman.files import write_output
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.local import run_local
from mpc_spearman.launch.supervisor import Note, Watch
from mpc_spearman.results.result import Result
from mpc_spearman.version import __version__


def compare(
    plans: Iterable[str | Path | Mapping[str, Any] | Plan],
    sizes: Iterable[tuple[int, int, int]],
    repeats: int = 1,
    out: str | Path | None = None,
    *,
    watch: Watch = lambda party, phase, done, of: None,
    note: Note = lambda party, text: None,
) -> pd.DataFrame:
    """Measure what plans cost: every plan at every size, with all roles as processes on this machine.

    The tables are made up (seeded, the same for the same size). The plans' own tables, columns, ``rows`` and
    policies are not used.

    Parameters
    ----------
    plans : sequence of path, mapping or Plan
        They must differ in protocol, scheme, level or estimator.
    sizes : sequence of (n, m_A, m_B)
        Rows, columns of each source, columns of the target.
    repeats : int
        Runs of each.
    out : path, optional
        Directory to keep: ``comparison.csv`` and ``runs/<run>/<party>``. A run is not repeated if the
        directory has it with the same settings, of this version and machine.
    watch, note : callable
        Told of progress as by `run_local`; notes of the sweep itself come from "compare".

    Returns
    -------
    DataFrame
        The tidy table: a row per run, party and phase, with columns `TIDY` (seconds at work and waiting,
        bytes sent and received, peak memory in bytes; see docs/costs.md).

    Raises
    ------
    MpcSpearmanError
        That of the first run that failed, named; the runs before it are kept.
    """
    chosen = variants(plans)
    wanted = sorted({Size(*size) for size in sizes}, key=lambda size: (math.prod(size), size))
    for size in wanted:
        if size.n < 3 or min(size) < 1:
            raise PlanError(f"compare: {size}: a size has at least 3 rows and 1 column on each side")
    if not wanted or repeats < 1:
        raise PlanError(f"compare: {len(wanted)} sizes and {repeats} repeats: at least one of each")
    runs = [(size, turn, variant) for size in wanted for turn in range(1, repeats + 1) for variant in chosen]
    found = []
    with ExitStack() as stack:
        folder = Path(out or stack.enter_context(tempfile.TemporaryDirectory(prefix="mpc-spearman-compare-")))
        server = stack.enter_context(ForkServer())
        for number, (size, repeat, variant) in enumerate(runs, start=1):
            place = folder / "runs" / f"{variant.folder(size, repeat)}-{_conditions(variant)}"
            if not all((place / party).is_dir() for party in variant.plan.names):
                name = f"{variant}, {size}"
                note("compare", f"run {number} of {len(runs)}: {name}")
                tables = data.tables(variant.plan, size)
                try:
                    run_local(variant.plan, tables, out=place, watch=watch, note=note, server=server)
                except MpcSpearmanError as error:
                    raise type(error)(f"{name}: {error}", error.about) from error
            found.append(tidy(variant, size, repeat, Result.load(place / variant.plan.names[0]).cost))
        table = pd.concat(found, ignore_index=True)
        if out is not None:
            write_output(folder / "comparison.csv", table.to_csv(index=False).encode(), 0o666)
    return table


def _conditions(variant: Variant) -> str:
    """Digest all that can change a cost, so that no run under other conditions is taken for this one."""
    everything = {"plan": variant.settings, "version": __version__, "machine": machine(), "seed": data.SEED}
    return hashlib.sha256(canonical(everything).encode()).hexdigest()[:8]

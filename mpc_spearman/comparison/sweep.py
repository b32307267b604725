"""Run plans at several sizes, and tabulate the cost of every run."""

from __future__ import annotations

import math
import operator
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from mpc_spearman.comparison.table import tidy
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.config import Plan, PlanSource
from mpc_spearman.errors import MpcSpearmanError, OutputError, PlanError
from mpc_spearman.files import write_output
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.local import run_local
from mpc_spearman.launch.supervisor import Note, Watch
from mpc_spearman.results.result import Result

#: Every sweep's tables are the same for the same size.
SEED = 20_240_611


def compare(
    plans: PlanSource | Iterable[PlanSource],
    sizes: Iterable[tuple[int, int, int]],
    repeats: int = 1,
    out: str | Path | None = None,
    *,
    watch: Watch | None = None,
    note: Note | None = None,
) -> pd.DataFrame:
    """Measure what plans cost: every plan at every size, with all roles as processes on this machine.

    The tables are made up (seeded, the same for the same size). The plans' own tables, columns, ``rows`` and
    policies are not used.

    `plans` must differ in protocol, scheme, level or estimator. `sizes` are (n, m_A, m_B): rows, columns of
    each source, columns of the target. With `out`, the table is written to this CSV file after every run.
    `watch` and `note` are called with progress as by `run_local`; notes of the sweep itself are of the party
    "compare".

    Returns
    -------
    DataFrame
        The tidy table: a row per run, party and phase, with columns `TIDY` (seconds at work and waiting,
        bytes sent and received, peak memory in bytes; see docs/costs.md).

    Raises
    ------
    MpcSpearmanError
        That of the first run that failed, named; `OutputError` if `out` cannot be written.
    """
    chosen = variants(plans)
    watch, note = watch or (lambda *_: None), note or (lambda *_: None)  # notebooks show nothing unasked
    try:
        unique = {Size(*map(operator.index, size)) for size in sizes}
    except TypeError:
        how = "rows, columns of each source, columns of the target; such as [(1000, 5, 5)]"
        raise PlanError(f"compare: sizes is a list with three whole numbers for each size: {how}") from None
    wanted = sorted(unique, key=lambda size: (math.prod(size), size))
    for size in wanted:
        if size.n < 3 or min(size) < 1:
            raise PlanError(f"compare: {size}: a size has at least 3 rows and 1 column on each side")
    if not wanted or repeats < 1:
        raise PlanError(f"compare: {len(wanted)} sizes and {repeats} repeats: at least one of each")
    if out is not None and (Path(out).is_dir() or not Path(out).absolute().parent.is_dir()):
        raise OutputError(f"compare: {out} cannot be written: it is a folder, or in a folder that is missing")
    runs = [(size, turn, variant) for size in wanted for turn in range(1, repeats + 1) for variant in chosen]
    tables: list[pd.DataFrame] = []
    with ForkServer() as server:
        for number, (size, repeat, variant) in enumerate(runs, start=1):
            name = f"{variant}, {size}"
            note("compare", f"run {number} of {len(runs)}: {name}")
            try:
                tables.append(measure(variant, size, repeat, server=server, watch=watch, note=note))
            except MpcSpearmanError as error:
                raise type(error)(f"{name}: {error}", error.about) from error
            if out is not None:
                write_output(Path(out), pd.concat(tables).to_csv(index=False).encode())
    return pd.concat(tables, ignore_index=True)


def measure(
    variant: Variant,
    size: Size,
    repeat: int = 1,
    suffix: str = ".parquet",
    *,
    server: ForkServer,
    watch: Watch = lambda party, phase, done, of: None,
    note: Note = lambda party, text: None,
) -> pd.DataFrame:
    """Run a plan on made-up tables, in files of this kind; return its rows of the tidy table."""
    with tempfile.TemporaryDirectory(prefix="mpc-spearman-compare-") as folder:
        paths = {}
        for party, frame in tables(variant.plan, size).items():
            paths[party] = Path(folder, party + suffix)
            table = pa.Table.from_pandas(frame, preserve_index=False)
            write = pa.csv.write_csv if suffix == ".csv" else pa.parquet.write_table
            write(table, paths[party])
        out = Path(folder, "out")
        run_local(variant.plan, paths, out=out, watch=watch, note=note, server=server)
        # The coordinator's own copy has the costs of all, whoever is given the result.
        return tidy(variant, size, repeat, Result.load(out / variant.plan.names[0]).cost)


def tables(plan: Plan, size: Size) -> dict[str, pd.DataFrame]:
    """Make a table for each data party, the same for the same size and order of parties.

    Normal columns around one common factor, so that there is something to find; every third column is
    rounded, so that it has ties.
    """
    # Not a secret: the same tables every time are what is wanted here.
    rng = np.random.default_rng([SEED, *size])
    ids = pd.Series([f"r{row}" for row in range(size.n)])
    factor = rng.normal(size=size.n)
    sources = [source.name for source in plan.parties.sources]
    columns = {plan.parties.target.name: size.m_B, **dict.fromkeys(sources, size.m_A)}
    by_party = {}
    for party, m in columns.items():
        values = rng.normal(size=(m, size.n)) + np.linspace(-1, 1, m)[:, None] * factor
        values[2::3] = values[2::3].round()
        by_party[party] = pd.DataFrame({"id": ids, **{f"{party}_{j + 1}": values[j] for j in range(m)}})
    return by_party

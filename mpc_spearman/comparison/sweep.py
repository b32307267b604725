"""Run plans at several sizes, keep every run, and go on where an interrupted sweep stopped."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from operator import index
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd

from mpc_spearman.comparison import data
from mpc_spearman.comparison.network_model import Link, on_network
from mpc_spearman.comparison.table import TIDY, machine, tidy
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.config import Plan, differences
from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import MpcSpearmanError, OutputError, PlanError, SetupError
from mpc_spearman.files import write_whole
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.local import run_local
from mpc_spearman.launch.supervisor import Note, Watch
from mpc_spearman.results.result import Result
from mpc_spearman.units import human_seconds
from mpc_spearman.version import __version__

#: What installs the plots' library.
INSTALL_MATPLOTLIB = "pip install matplotlib"
#: Seconds a run may take.
LIMIT = 600.0


def compare(
    plans: Iterable[str | Path | Mapping[str, Any] | Plan],
    sizes: Iterable[tuple[int, int, int]],
    repeats: int = 1,
    network: Link | None = None,
    out: str | Path | None = None,
    *,
    limit: float = LIMIT,
    watch: Watch = lambda party, phase, done, of: None,
    note: Note = lambda party, text: None,
) -> pd.DataFrame:
    """Measure what plans cost: every plan at every size, with all roles as processes on this machine.

    The tables are made up for it (seeded, the same for the same size). A plan's own tables, columns, ``rows``
    and policies are left aside.

    Parameters
    ----------
    plans : sequence of path, mapping or Plan
        They must differ in protocol, scheme, level or estimator.
    sizes : sequence of (n, m_A, m_B)
        Rows, columns of each source, columns of the target.
    repeats : int
        Runs of each.
    network : Link, optional
        A network to put the measured runs on; see :mod:`mpc_spearman.comparison.network_model`.
    out : path, optional
        Directory to keep: ``runs/<run>/<party>``, ``comparison.csv``, ``comparison.html`` and ``plots/``.
        Runs that it holds already are not run again, so a sweep that was interrupted goes on; one with other
        settings, or of another machine or version, is refused.
    limit : float
        Seconds a run may take, start-up included, before it is stopped; looked at whenever a role reports
        progress. What is at least as large is then not started.
    watch, note : callable
        Told of progress as by `run_local`; notes of the sweep itself come from "compare".

    Returns
    -------
    DataFrame
        The tidy table: a row per run, party and phase, with columns `TIDY` (seconds at work and waiting,
        bytes sent and received, peak memory in bytes; see docs/costs.md), and
        with a network ``transfer`` and ``latency``. ``attrs["left_out"]`` has a sentence for each run that
        was stopped or not started.

    Raises
    ------
    MpcSpearmanError
        That of the first run that failed, named; the runs before it are kept.
    """
    chosen = variants(plans)
    wanted = _sizes(sizes)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise PlanError(f"repeats: {repeats!r} is not a whole number from 1")
    if not limit > 0:
        raise PlanError(f"limit: {limit!r} is not a number of seconds above 0")
    if out is not None and find_spec("matplotlib") is None:
        raise SetupError(f"matplotlib, which draws the plots, is not installed. Run: {INSTALL_MATPLOTLIB}")
    with _folder(out) as folder, ForkServer() as server:
        if out is not None:
            _begin(folder, chosen)
        sweep = _Sweep(folder, server, limit, watch, note)
        turns = range(1, repeats + 1)
        table = sweep.run([(size, turn, variant) for size in wanted for turn in turns for variant in chosen])
        if out is not None:
            from mpc_spearman.comparison import page

            write(folder / "comparison.csv", table.to_csv(index=False))
            for name, content in page.files(table, network).items():
                write(folder / name, content)
        return table if network is None else on_network(table, network)


def _sizes(sizes: Iterable[tuple[int, int, int]]) -> list[Size]:
    """Check the sizes and put the smallest first, so that a limit is met as early as can be."""
    checked = []
    for given in sizes:
        try:
            size = Size(*map(index, given))
        except TypeError:
            raise PlanError(f"sizes: {given!r} is not (rows, source columns, target columns)") from None
        if size.n < 3 or size.m_A < 1 or size.m_B < 1:
            raise PlanError(f"sizes: {given!r}: at least 3 rows, and 1 column on each side")
        checked.append(size)
    if not checked:
        raise PlanError("sizes: there is none; give at least one (rows, source columns, target columns)")
    return sorted(set(checked), key=lambda size: (size.n * size.m_A * size.m_B, size))


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="mpc-spearman-compare-") as name:
        yield Path(name)


# --- one run after the other ----------------------------------------------------------------------------


class _OverLimit(Exception):
    """A run has taken as long as it may."""


@dataclass
class _Sweep:
    folder: Path
    server: ForkServer
    limit: float
    watch: Watch
    note: Note
    stopped: dict[str, list[Size]] = field(default_factory=dict)

    def run(self, runs: Sequence[tuple[Size, int, Variant]]) -> pd.DataFrame:
        """Do every run that is not there yet, and read them all."""
        found, left_out = [], []
        for number, (size, repeat, variant) in enumerate(runs, start=1):
            name = f"{variant}, {size}" + (f", repeat {repeat}" if repeat > 1 else "")
            place = self.folder / "runs" / variant.folder(size, repeat)
            if not all((place / party).is_dir() for party in variant.plan.names):
                why_not = self._try(variant, size, place, name, f"run {number} of {len(runs)}")
                if why_not is not None:
                    left_out.append(f"{name}: {why_not}")
                    self.note("compare", left_out[-1])
                    continue
            cost = Result.load(place / variant.plan.names[0]).cost
            found.append(tidy(variant, size, repeat, cost))
        table = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=TIDY)
        table.attrs["left_out"] = left_out
        return table

    def _try(self, variant: Variant, size: Size, place: Path, name: str, which: str) -> str | None:
        """Do a run; return why there is none where it, or one no larger, takes too long."""
        for known in self.stopped.get(str(variant), ()):
            if all(one <= other for one, other in zip(known, size, strict=True)):
                what = "it" if known == size else f"with {known} it"
                return f"not started: {what} took longer than the limit of {human_seconds(self.limit)}"
        self.note("compare", f"{which}: {name}")
        try:
            self._measure(variant, size, place)
        except _OverLimit:
            self.stopped.setdefault(str(variant), []).append(size)
            return f"stopped after {human_seconds(self.limit)}, the limit"
        except MpcSpearmanError as error:
            raise type(error)(f"{name}: {error}", error.about) from error
        return None

    def _measure(self, variant: Variant, size: Size, place: Path) -> None:
        began = monotonic()

        def watch(party: str, phase: str, done: int, of: int) -> None:
            if monotonic() - began > self.limit:
                raise _OverLimit
            self.watch(party, phase, done, of)

        tables = data.tables(variant.plan, size)
        run_local(variant.plan, tables, out=place, watch=watch, note=self.note, server=self.server)


# --- the directory --------------------------------------------------------------------------------------


def _begin(folder: Path, chosen: Sequence[Variant]) -> None:
    """Write down under what all is measured, or check that the directory's runs were under the same."""
    settings: dict[str, Any] = {
        "package_version": __version__,
        "machine": machine(),
        "seed": data.SEED,
        "plans": {str(variant): variant.settings for variant in chosen},
    }
    path = folder / "sweep.json"
    try:
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if before is None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OutputError(f"{folder} is no comparison's directory, and not empty; choose another")
        if problems := list(_conflicts(before, settings)):
            what = "; ".join(problems)
            raise OutputError(f"{folder} holds another comparison: {what}. Choose another directory")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise OutputError(f"{path} is damaged: {error}") from error
    plans = {**(before or settings)["plans"], **settings["plans"]}
    write(path, json.dumps({**settings, "plans": plans}, indent=1, ensure_ascii=False) + "\n")


def _conflicts(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[str]:
    """Find what would put figures of different things into one table."""
    if before is None:
        return
    for key in ("package_version", "machine", "seed"):
        if before[key] != now[key]:
            yield f"{key} was {before[key]!r}, is {now[key]!r}"
    for name, settings in now["plans"].items():
        found = differences(canonical(settings), canonical(before["plans"].get(name, settings)))
        yield from (f"{name}: {line}" for line in found)


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; `OutputError` if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.encode() if isinstance(content, str) else content, 0o666)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error

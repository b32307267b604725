"""All roles on this machine: the Python entry point and what the command line calls."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from mpc_spearman.config import DataParty, Plan, check_policy, load_plan
from mpc_spearman.errors import OutputError, PlanError, RoleCrashed, TableError
from mpc_spearman.installed import check_crypten
from mpc_spearman.launch import supervisor
from mpc_spearman.launch.meeting import MeetingPoint
from mpc_spearman.launch.role_process import Assignment
from mpc_spearman.results import run_directory

if TYPE_CHECKING:
    import pandas as pd

    from mpc_spearman.results.result import Result


def run_local(
    plan: str | Path | Mapping[str, Any] | Plan,
    tables: Mapping[str, pd.DataFrame | str | Path] | None = None,
    *,
    out: str | Path | None = None,
    watch: supervisor.Watch = lambda party, phase, done, of: None,
    note: supervisor.Note = lambda party, text: None,
    hosts: supervisor.Hosts | None = None,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Result:
    """Run every role as a process of its own on this machine.

    The roles exchange what they would exchange between organisations, and each learns only that. This
    process, of course, starts them all: whoever runs it holds all tables. Works in notebooks and in scripts
    without an ``if __name__ == "__main__"`` guard.

    Parameters
    ----------
    plan : path, mapping or Plan
        YAML file, its content, or a plan that is already loaded.
    tables : mapping of str to DataFrame or path, optional
        Party name to its table, in place of the plan's. A DataFrame reaches its party through a pipe.
    out : path, optional
        Directory to keep: each party's run directory is written to ``out/<party>``, all or none.
    watch : callable
        Told of progress: party, phase, steps done, steps in all (0 where unknown).
    note : callable
        Told what a role has to say, such as how long the run will take: party, text.
    hosts : Hosts, optional
        A network within this machine to run the roles on, such as a
        `mpc_spearman.comparison.shaping.ShapedNetwork`.
    overrides : sequence of str
        ``key=value``, as on the command line.
    **settings
        Top-level keys of the plan, such as ``estimator="paper"``.

    Returns
    -------
    Result
        The coordinator's.

    Raises
    ------
    MpcSpearmanError
        The first role's error that explains the failure; see :mod:`mpc_spearman.errors`.
    """
    checked = _plan(plan, tables or {}, overrides, settings)
    frames = {
        party: arrow(party, table, _unused(checked, party, table))
        for party, table in (tables or {}).items()
        if _is_frame(table)
    }
    if checked.protocol == "mpc":
        check_crypten()
    for name in checked.names:
        check_policy(checked, name)
        party = checked.party(name)
        if isinstance(party, DataParty) and party.table is None and name not in frames:
            raise PlanError(
                f"party {name} has no table: give `table` in the plan, --table {name}=FILE, or tables="
            )
    target = None if out is None else Path(out).absolute()
    if target is not None:
        _check_place(target, checked)
    staging = _staging(target)
    missing = [folder for folder in staging.parents if not folder.exists()]
    try:
        _make(staging)
        outcomes = supervisor.launch(
            assignments(checked, staging, hosts), frames, watch=watch, note=note, hosts=hosts
        )
        cause = supervisor.first_cause(outcomes)
        if cause is not None:
            raise cause.error or RoleCrashed(f"party {cause.party} failed")
        from mpc_spearman.results.result import Result

        result = Result.load(staging / checked.names[0])
        if target is not None:
            _commit(staging, target, checked.names)
        return result
    finally:
        try:
            shutil.rmtree(staging, ignore_errors=True)
        except (KeyboardInterrupt, SystemExit):  # a signal while cleaning up must not leave half of it
            shutil.rmtree(staging, ignore_errors=True)
            raise
        for folder in missing:
            with suppress(OSError):  # gone already, or the results are in it
                folder.rmdir()


def assignments(plan: Plan, staging: Path, hosts: supervisor.Hosts | None = None) -> list[Assignment]:
    """Make each role's order: its own part of the plan, and where to meet and to write."""
    coordinator = plan.names[0]

    def point(name: str) -> MeetingPoint:
        if hosts is None:
            return MeetingPoint(file=str(staging / "meeting-point"))
        hosting = name == coordinator
        return MeetingPoint(host=hosts.address(coordinator), port=plan.network.port, hosting=hosting)

    return [
        Assignment(
            plan=plan.restricted_to(name).model_dump(mode="json"),
            party=name,
            meeting_point=asdict(point(name)),
            out=str(staging / name),
            frame=0,
        )
        for name in plan.names
    ]


def _plan(
    plan: str | Path | Mapping[str, Any] | Plan,
    tables: Mapping[str, pd.DataFrame | str | Path],
    overrides: Sequence[str],
    settings: Mapping[str, Any],
) -> Plan:
    if isinstance(plan, Plan):
        plan = plan.model_dump(mode="json")
    if isinstance(overrides, str):
        raise PlanError("overrides is a list of 'key=value', not one text")
    for party, table in tables.items():
        if not (_is_frame(table) or isinstance(table, (str, Path))):
            raise PlanError(
                f"tables: that of party {party} is {type(table).__name__}, not a DataFrame or a path"
            )
    files = {party: None if _is_frame(table) else Path(str(table)) for party, table in tables.items()}
    # JSON is YAML, so a setting from Python reads like an override from the command line.
    given = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    return load_plan(plan, [*overrides, *given], files)


def _is_frame(table: object) -> TypeGuard[pd.DataFrame]:
    return hasattr(table, "columns")


def _unused(plan: Plan, name: str, table: pd.DataFrame) -> set[str]:
    party = plan.party(name)
    assert isinstance(party, DataParty)
    if party.features is None:
        return {*party.exclude} - {party.id}
    return set(table.columns) - {party.id, *party.features}


def arrow(party: str, table: Any, unused: Container[str] = ()) -> bytes:
    """Turn a DataFrame into an Arrow stream for its party's process; of unused columns the name only."""
    import pyarrow as pa

    columns = []
    # Column by column: pyarrow refuses repeated names, and the party's own check says more about them.
    for i, label in enumerate(table.columns):
        if not isinstance(label, str):
            raise TableError(
                f"{party}: the DataFrame: the label of column {i + 1} is {type(label).__name__}, not text; "
                "rename the columns"
            )
        try:
            label.encode()
            values = pa.nulls(len(table)) if label in unused else pa.Array.from_pandas(table.iloc[:, i])
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise TableError(
                f"{party}: the DataFrame: column {label!r} (dtype {table.dtypes.iloc[i]}) is neither all "
                "64-bit numbers nor all text"
            ) from None
        columns.append(values)
    batch = pa.Table.from_arrays(columns, names=list(table.columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_table(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _staging(target: Path | None) -> Path:
    """Choose a place for the run's files; beside the results, so that renaming is all there is to do."""
    if target is None:
        return Path(tempfile.gettempdir(), f"mpc-spearman-{secrets.token_hex(8)}")
    return target.parent / f".{target.name}.{secrets.token_hex(4)}.part"


def _make(staging: Path) -> None:
    try:
        staging.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise OutputError(f"cannot write to {staging.parent}: {error.strerror}") from None


def _check_place(target: Path, plan: Plan) -> None:
    """Refuse, before anything runs, a place the results could not be written to."""
    if target.exists() and not target.is_dir():
        raise OutputError(f"{target} exists and is not a directory")
    others = {entry.name for entry in target.iterdir()} - set(plan.names) if target.exists() else set()
    strange = sorted(name for name in others if not (target / name / "result.json").is_file())
    if strange:
        raise OutputError(
            f"{target} holds {strange[0]!r}, which no run wrote; choose a directory for results alone"
        )
    for name in plan.names:
        run_directory.check_replaceable(target / name)


def _commit(staging: Path, target: Path, names: Sequence[str]) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        run_directory.swap({staging / name: target / name for name in names})
    except OSError as error:
        raise OutputError(f"cannot write the results to {target}: {error.strerror}") from error

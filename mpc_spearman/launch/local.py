"""All roles on this machine: the Python entry point and what the command line calls."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mpc_spearman.config import DataParty, Plan, PlanSource, check_policy, load_plan
from mpc_spearman.config.fields import in_this_locale
from mpc_spearman.errors import OutputError, PlanError, TableError
from mpc_spearman.files import private_folder, temporary_folder
from mpc_spearman.installed import check_crypten
from mpc_spearman.launch import progress, supervisor
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.meeting_point import MeetingPoint, Rehearsal
from mpc_spearman.launch.pipe import Assignment
from mpc_spearman.launch.status import Status
from mpc_spearman.results import run_directory

if TYPE_CHECKING:
    from mpc_spearman.data.sources import ArrowTable
    from mpc_spearman.results.result import Result


def run_local(
    plan: PlanSource,
    tables: Mapping[str, ArrowTable | str | Path] | None = None,
    *,
    out: str | Path | None = None,
    watch: supervisor.Watch | None = None,
    note: supervisor.Note | None = None,
    server: ForkServer | None = None,
    keep_ranks: str | Path | None = None,
    overrides: Sequence[str] = (),
    **settings: Any,
) -> Result:
    """Run every role as a process of its own on this machine.

    The roles exchange what they would exchange between organisations, and each learns only that. But this
    process starts them all, so whoever runs it holds all tables. Works in notebooks and in scripts without an
    ``if __name__ == "__main__"`` guard.

    Parameters
    ----------
    plan : path, mapping or Plan
        YAML file, its content, or a plan that is already loaded.
    tables : mapping of str to table or path, optional
        Party name to its table, in place of the plan's: a DataFrame of pandas or polars, a table of pyarrow,
        or of any library that exports to Arrow. It reaches its party through a pipe.
    out : path, optional
        Directory to keep: each party's run directory is written to ``out/<party>``, all or none.
    watch, note : callable, optional
        Called with progress (party, phase, steps done, steps in all or 0 if unknown), and with what a role
        reports (party, text). Without them a notebook prints both; a script shows none.
    server : ForkServer, optional
        What starts the roles. Keep it for several runs, since starting one takes longer than a small run.
    keep_ranks : path, optional
        A folder in which each party keeps the ranks of its table, if that is a file or a query, for later
        runs: docs/tables.md#keep-ranks-for-later-runs.
    overrides : sequence of str
        Settings as on the command line, ``key=value``.
    **settings
        Top-level keys of the plan, such as ``estimator="paper"``.

    Returns
    -------
    Result
        The coordinator's, or under ``opened_to: target`` the target's.

    Raises
    ------
    MpcSpearmanError
        The first role's error that explains the failure; see :mod:`mpc_spearman.errors`.
    """
    for argument, name in ((plan, "plan"), (tables, "tables")):
        if hasattr(argument, "__arrow_c_stream__"):
            raise PlanError(f"{name}: this is a table; call run_local(plan, {{'A': a, 'B': b}}), by party")
    checked = _plan(plan, tables or {}, overrides, settings)
    streams = {
        party: arrow(party, table, keys)
        for party, table in (tables or {}).items()
        if not isinstance(table, (str, Path)) and isinstance(keys := checked.party(party), DataParty)
    }
    if checked.protocol == "mpc":
        check_crypten()
    for name in checked.names:
        check_policy(checked, name)
        party = checked.party(name)
        if isinstance(party, DataParty) and party.table is None and name not in streams:
            raise PlanError(
                f"party {name} has no table: give `table` in the plan, --table {name}=FILE, or tables="
            )
    try:
        target = None if out is None else Path(os.path.expanduser(in_this_locale(str(out)))).absolute()
    except ValueError as error:
        raise OutputError(f"out: {out} {error}") from None
    with ExitStack() as stack:
        if watch is None or note is None:
            display = stack.enter_context(progress.shown(checked.names, quiet=not progress.in_notebook()))
            watch, note = watch or display.watch, note or display.note
        if target is not None:
            for name in sorted(checked.names):
                stack.enter_context(run_directory.locked(target / name))
                run_directory.check_replaceable(target / name)
                if (target / name / "result.json").exists():  # is marked as earlier if this run fails
                    stack.enter_context(Status(target / name, name, checked.digest().hex()))
        server = server or stack.enter_context(ForkServer())
        server.prepare(checked.protocol)
        # Slow, and meanwhile the server imports more.
        from mpc_spearman.results.result import Result

        place = (temporary_folder(), "mpc-spearman-run-", "")
        if target is not None:  # beside it, so that renaming is all there is to do in the end
            place = (target.parent, f".{target.name}.", ".part")
        staging = stack.enter_context(private_folder(*place))
        ranks = None if keep_ranks is None else Path(os.path.expanduser(keep_ranks)).absolute()
        assigned = assignments(checked, staging, streams, ranks)
        outcomes = supervisor.launch(assigned, server, watch=watch, note=note)
        cause = supervisor.first_cause(outcomes)
        if cause is not None:
            raise supervisor.joint_error(outcomes, cause)
        result = Result.load(staging / checked.informed)
        if target is not None:
            try:
                run_directory.swap({staging / name: target / name for name in checked.names})
            except OSError as error:
                raise OutputError(f"cannot write the results to {target}: {error.strerror}") from error
        return result


def assignments(
    plan: Plan,
    staging: Path,
    tables: Mapping[str, bytes] = MappingProxyType({}),
    keep_ranks: Path | None = None,
) -> list[Assignment]:
    """Return each process's assignment: its party's part of the plan, key and table; where to meet and write.

    `tables` are Arrow streams by party, of tables that are not files.
    """
    return [
        Assignment.of(
            plan,
            name,
            MeetingPoint(rehearsal=rehearsal),
            staging / name,
            roles=len(plan.names),
            keep_ranks=keep_ranks,
            table=tables.get(name, b""),
        )
        for name, rehearsal in Rehearsal.of(plan.names).items()
    ]


def _plan(
    plan: PlanSource,
    tables: Mapping[str, ArrowTable | str | Path],
    overrides: Sequence[str],
    settings: Mapping[str, Any],
) -> Plan:
    for party, table in tables.items():
        if type(table).__name__ in ("Series", "ChunkedArray"):  # which export to Arrow too
            how = "pass a table that has the column of ids as well, such as frame[[ids, column]]"
            raise PlanError(f"tables: {party}: a {type(table).__name__} is a single column; {how}")
        if not (isinstance(table, (str, Path)) or hasattr(table, "__arrow_c_stream__")):
            raise PlanError(
                f"tables: {party}: {type(table).__name__} is neither a path nor a table of pandas, polars "
                "or Arrow"
            )
    files = {
        party: Path(table) if isinstance(table, (str, Path)) else None for party, table in tables.items()
    }
    # JSON is YAML, so a setting from Python reads like one from the command line.
    from_python = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    return load_plan(plan, overrides if isinstance(overrides, str) else [*overrides, *from_python], files)


def arrow(party: str, table: ArrowTable, keys: DataParty) -> bytes:
    """Turn a table in memory into an Arrow stream for its party's process.

    Of unused columns it has the name only, unless rows that are not common are to be written.
    """
    import pyarrow as pa

    from mpc_spearman.data.choice import choose
    from mpc_spearman.data.refusals import Unusable, show
    from mpc_spearman.data.sources import open_source

    columns: dict[int, Any] = {}
    where = f"{party}: the table"
    try:
        source = open_source(table, keys)
        ids, features = choose(source.names, keys, source.hint)
        for place in range(len(source.names)) if keys.write_unaligned else (*ids, *features):
            where = f"{party}: the table: column {show(source.name(place))}"
            columns[place] = source.column(place)
    except Unusable as unusable:
        raise TableError(f"{where}: {unusable}") from None
    rows = len(columns[ids[0]])
    batch = pa.table(
        [columns.get(place, pa.nulls(rows)) for place in range(len(source.names))], names=list(source.names)
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_table(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data

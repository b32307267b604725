"""The process of one role, which a fork server forks: read the assignment, run, write the results."""

from __future__ import annotations

import ctypes
import gc
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from mpc_spearman.errors import MpcSpearmanError
from mpc_spearman.launch.pipe import Assignment, Supervisor

if TYPE_CHECKING:
    import pyarrow as pa

    from mpc_spearman.results.result import Result
    from mpc_spearman.run import Run

#: Modules that are slow to import, in addition to the protocol's; they are imported before a phase is timed.
_SLOW_MODULES = (
    "pyarrow.csv",
    "pyarrow.pandas_compat",
    "scipy.special",
    "mpc_spearman.launch.rendezvous",
    "mpc_spearman.protocols.charge",
    "mpc_spearman.protocols.roles",
)
# From glibc's <malloc.h>. Free memory at the end of a heap goes back to the kernel above the first limit.
# Blocks above the second one have pages of their own, which go back as soon as the block is freed.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MALLOC_LIMITS = {_M_TRIM_THRESHOLD: 1 << 26, _M_MMAP_THRESHOLD: 1 << 25}

#: Called in a role's process before the role runs.
Prepare = Callable[[Assignment, Supervisor], None]


def main(prepare: Prepare = lambda assignment, supervisor: None) -> None:
    """Run the role that the supervisor asks for.

    `prepare` runs first: tests use it to record messages or to cause failures. It can change the assignment's
    dictionaries, and the supervisor's `say`.
    """
    keep_freed_memory()
    supervisor = Supervisor()
    assignment = supervisor.assignment()
    os.environ.clear()
    os.environ.update(assignment.environment)
    os.chdir(assignment.folder)
    try:
        prepare(assignment, supervisor)
        _run(supervisor, assignment)
    except MpcSpearmanError as error:
        supervisor.fail(error)
    except Exception as error:
        supervisor.fail(_unexpected(assignment.party, error))
    supervisor.report_usage()
    supervisor.say(done=True)
    # Everything is written and every party has sent its farewell, so an orderly exit would only take time.
    os._exit(0)


def keep_freed_memory() -> None:
    """Let glibc keep freed memory: getting new pages for a block takes as long as the work on it."""
    with suppress(AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOC_LIMITS.items():
            mallopt(parameter, value)


def load(protocol: str | None = None) -> None:
    """Import the modules that are slow to import, so that the time counts in no phase of a run.

    Without `protocol`, its modules are left out: a role imports them once it has read its table.
    """
    gc.disable()  # collecting garbage among modules would take a quarter of the time
    try:
        from threadpoolctl import threadpool_info

        from mpc_spearman.engines.engine import engine_for
        from mpc_spearman.results import report

        for name in _SLOW_MODULES:
            import_module(name)
        if protocol is not None:
            engine_for(protocol)
            threadpool_info()  # it caches the paths of all libraries, which would take every role 20 ms
        report.page()
        gc.freeze()  # no later collection looks at these modules either
    finally:
        gc.enable()


def _unexpected(party: str, error: Exception) -> MpcSpearmanError:
    """Return an error that names an unexpected one's class and place; its text could quote a cell."""
    lines = "".join(traceback.format_tb(error.__traceback__)[-4:]).rstrip()
    return MpcSpearmanError(
        f"party {party} stopped with an unexpected {type(error).__name__}; please report it with these lines:"
        f"\n{lines}"
    )


def _run(supervisor: Supervisor, assignment: Assignment) -> None:
    supervisor.say(phase="start", party=assignment.party, done=0, of=0)
    load()
    import pyarrow as pa
    from threadpoolctl import threadpool_limits

    from mpc_spearman.launch.rendezvous import Rendezvous
    from mpc_spearman.results.run_directory import ReservedSpace
    from mpc_spearman.run import Run, processors

    # The fork server has loaded the libraries with one thread: allow this role its share.
    threadpool_limits(processors())
    space = ReservedSpace(assignment.out)
    space.reserve()
    plan, roster = assignment.plan, assignment.plan.roster(assignment.party)
    run = Run(
        plan,
        roster,
        Rendezvous(plan, roster, assignment.meeting_point, supervisor),
        reserve=space.reserve,
        progress=supervisor.progress,
        say=supervisor.note,
        approval=assignment.approval,
        keep_ranks=assignment.keep_ranks,
        plan_name=assignment.plan_name,
    )
    supervisor.meter = run.meter
    result = run_role(run, pa.ipc.open_stream(assignment.table).read_all() if assignment.table else None)
    space.release()
    result.save(assignment.out)


def run_role(run: Run, table: pa.Table | None) -> Result:
    """Run one party's role from its key and table to the farewell; return its result, with its costs.

    When this returns, every party has finished. If this party fails, even before the meeting, the others get
    the error's class, and no more. `table` is this party's, if that is not a file.
    """
    from mpc_spearman.parties import Role
    from mpc_spearman.protocols.charge import end
    from mpc_spearman.protocols.roles import run_coordinator, run_data_party

    try:
        if run.roster.me.role is Role.COORDINATOR:
            return run_coordinator(run)
        return run_data_party(run, table)
    except BaseException as error:
        run.stop(error)
        end(run, error)
        raise

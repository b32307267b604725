"""The process of one role, which a fork server forks: from its assignment to its results on the disk."""

from __future__ import annotations

import ctypes
import gc
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from mpc_spearman.errors import MpcSpearmanError
from mpc_spearman.launch.pipe import Assignment, Supervisor

#: Modules of a role beside its protocol's that are slow to import, and that otherwise would be in a phase.
_SLOW = (
    "pyarrow.csv",
    "pyarrow.pandas_compat",
    "scipy.special",
    "mpc_spearman.launch.rendezvous",
    "mpc_spearman.launch.role",
)
# From glibc's <malloc.h>: from how much free memory on the end of a heap goes back to the kernel, and from
# which size on a block has pages of its own, which do so at once.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT = {_M_TRIM_THRESHOLD: 1 << 26, _M_MMAP_THRESHOLD: 1 << 25}

#: Called in a role's process before the role runs.
Prepare = Callable[[Assignment, Supervisor], None]


def main(prepare: Prepare = lambda assignment, supervisor: None) -> None:
    """Run the role that the supervisor asks for.

    `prepare` is what a program that executes this, in place of the package's own, does first: to record, to
    break. It can change the assignment's dictionaries, and the supervisor's `say`.
    """
    keep_freed_memory()
    supervisor = Supervisor()
    assignment, stream = supervisor.assignment()
    os.environ.clear()
    os.environ.update(assignment.environment)
    os.chdir(assignment.folder)
    try:
        prepare(assignment, supervisor)
        _run(supervisor, assignment, stream)
    except MpcSpearmanError as error:
        supervisor.fail(error)
    except Exception as error:
        supervisor.fail(_unexpected(assignment.party, error))
    supervisor.report_usage()
    supervisor.say(done=True)
    # Everything is written and everyone has said farewell: nothing is left that an orderly exit would do.
    os._exit(0)


def keep_freed_memory() -> None:
    """Let glibc keep what is freed: to take pages anew for every block takes as long as the work on it."""
    with suppress(AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _KEPT.items():
            mallopt(parameter, value)


def load(protocol: str | None = None) -> None:
    """Import what roles need and that takes time, so that it is in no phase of a run.

    Without a protocol what that needs is left out: a role imports it once it has read its own table.
    """
    gc.disable()  # to look for garbage in what stays would take a quarter of the time
    try:
        from threadpoolctl import threadpool_info

        from mpc_spearman.engines.engine import engine_for
        from mpc_spearman.results import report

        for name in _SLOW:
            import_module(name)
        if protocol is not None:
            engine_for(protocol)
            threadpool_info()  # it remembers where all libraries are, which would take every role 20 ms
        report.page()
        gc.freeze()  # nor is any looked for there later
    finally:
        gc.enable()


def _unexpected(party: str, error: Exception) -> MpcSpearmanError:
    """Say what and where, for a report, but not the error's own text: it may quote what is in a cell."""
    where = "".join(traceback.format_tb(error.__traceback__)[-4:]).rstrip()
    return MpcSpearmanError(
        f"party {party} stopped with an unexpected {type(error).__name__}; please report it with these lines:"
        f"\n{where}"
    )


def _run(supervisor: Supervisor, assignment: Assignment, stream: bytes) -> None:
    from mpc_spearman.config import Approval, Plan

    plan = Plan.model_validate(assignment.plan)  # the launcher's, which has checked it
    supervisor.say(phase="start", party=assignment.party, done=0, of=0)
    # Only now the slow imports, so that a bad assignment fails fast.
    load()
    import pyarrow as pa
    from threadpoolctl import threadpool_limits

    from mpc_spearman.launch.meeting_point import MeetingPoint, Rehearsal
    from mpc_spearman.launch.rendezvous import Rendezvous
    from mpc_spearman.launch.role import run_role
    from mpc_spearman.results.run_directory import Room
    from mpc_spearman.run import Run, processors

    # A fork server has loaded the libraries such that they start no threads.
    threadpool_limits(processors())
    made, approval = assignment.rehearsal, assignment.approval
    point = MeetingPoint(**assignment.meeting_point)
    rehearsal = None if made is None else Rehearsal(**made)
    room = Room(Path(assignment.out))
    room.reserve()
    roster = plan.roster(assignment.party)
    run = Run(
        plan,
        roster,
        Rendezvous(plan, roster, point, rehearsal, supervisor),
        reserve=room.reserve,
        progress=supervisor.progress,
        say=supervisor.note,
        approval=None if approval is None else Approval(**approval),
        keep_ranks=None if assignment.keep_ranks is None else Path(assignment.keep_ranks),
        plan_name=assignment.plan_name,
    )
    supervisor.meter = run.meter
    frame = pa.ipc.open_stream(stream).read_all() if assignment.frame else None
    supervisor.meter = run.meter
    result = run_role(run, frame)
    room.release()
    result.save(assignment.out)

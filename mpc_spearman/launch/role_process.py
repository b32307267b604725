"""The process of one role.

The supervisor (:mod:`mpc_spearman.launch.supervisor`) starts it, by executing it or through a fork server,
and is at the other end of its standard input, output and error.

Input: one line of JSON (:class:`Assignment`), then, where `frame` is its length, a table as an Arrow stream.
It stays open as a lifeline: when it ends, the supervisor is gone and so is this process. A further line says
where the coordinator listens, or names a party whose process ended, and how, in case this one still waits for
it to join.

Output: lines of JSON, each with one of the keys ``phase``, ``note``, ``address``, ``error``, ``done``. What
anything else prints goes to standard error.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING, Any

from mpc_spearman.errors import ERRORS, MpcSpearmanError, PeerDied

if TYPE_CHECKING:
    from mpc_spearman.config import Plan
    from mpc_spearman.identity import Signer
    from mpc_spearman.launch.rendezvous import MeetingPoint, Rehearsal
    from mpc_spearman.network.addresses import Address
    from mpc_spearman.network.sockets import Sockets
    from mpc_spearman.network.tls import Tls
    from mpc_spearman.parties import Roster
    from mpc_spearman.wire.meter import Meter

#: Modules of a role beside its protocol's that are slow to import, and that otherwise would be in a phase.
_SLOW = (
    "pyarrow.csv",
    "pyarrow.pandas_compat",
    "scipy.special",
    "threadpoolctl",
    "mpc_spearman.launch.rendezvous",
    "mpc_spearman.launch.role",
    "mpc_spearman.network.data_party",
    "mpc_spearman.network.coordinator",
)


# Seconds between reports on how much of a phase is done.
_PAUSE = 0.05
# From glibc's <malloc.h>: from how much free memory on the end of a heap goes back to the kernel, and from
# which size on a block has pages of its own, which do so at once.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT = {_M_TRIM_THRESHOLD: 1 << 26, _M_MMAP_THRESHOLD: 1 << 25}


@dataclass(frozen=True)
class Assignment:
    """What the supervisor asks of a role's process.

    Attributes
    ----------
    plan : dict
        The plan with this party's local part and no other's.
    party : str
    meeting_point : dict
        Fields of a :class:`mpc_spearman.launch.rendezvous.MeetingPoint`.
    out : str
        Run directory to write.
    environment : dict of str to str
        All of the process's environment variables, but for addresses of other parties' databases: a process
        that was forked has another's.
    folder : str
        Its current folder.
    rehearsal : dict, optional
        Fields of a :class:`mpc_spearman.launch.rendezvous.Rehearsal`: keys made for a run whose roles have
        all been started here. No other process can take part.
    frame : int
        Length in bytes of the Arrow stream that follows; 0 if the table is a file, or there is none.
    approval : dict, optional
        Fields of the `Approval` of this run.
    """

    plan: dict[str, Any]
    party: str
    meeting_point: dict[str, Any]
    out: str
    environment: dict[str, str] = field(repr=False)  # addresses of databases may be in it
    folder: str
    rehearsal: dict[str, Any] | None = field(default=None, repr=False)
    frame: int = 0
    approval: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        party: str,
        point: MeetingPoint,
        out: Path,
        *,
        roles: int,
        rehearsal: Rehearsal | None = None,
    ) -> Assignment:
        """Assign a role; as one of `roles` that share this machine's processors, if nothing else is said."""
        share = max(1, len(os.sched_getaffinity(0)) // roles)
        not_its_own = plan.addresses_of_others(party)
        return cls(
            plan=plan.restricted_to(party).model_dump(mode="json"),
            party=party,
            meeting_point=asdict(point),
            out=str(out),
            environment={"OMP_NUM_THREADS": str(share)}
            | {name: value for name, value in os.environ.items() if name not in not_its_own},
            folder=os.getcwd(),
            rehearsal=None if rehearsal is None else asdict(rehearsal),
        )

    def line(self) -> bytes:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Supervisor:
    """The supervisor at the other end of standard input and output."""

    def __init__(self) -> None:
        self._input = sys.stdin.buffer
        # Keep standard output for reports, and send stray prints elsewhere.
        self._reports: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()
        self._joined = False
        self._shown, self._shown_at = "", 0.0
        self._coordinator: Queue[tuple[str, int]] = Queue()

    def assignment(self) -> tuple[Assignment, bytes]:
        """Read the assignment, and the table if it brings one."""
        assignment = Assignment(**json.loads(self._input.readline()))
        return assignment, self._input.read(assignment.frame)

    def say(self, **report: object) -> None:
        """Report one thing."""
        with self._lock:
            print(json.dumps(report), file=self._reports, flush=True)

    def progress(self, phase: str, done: int, of: int) -> None:
        """Report how much of a phase is done: when it begins, when it is done, and now and then between."""
        now = time.monotonic()
        if phase != self._shown or done in (0, of) or now - self._shown_at > _PAUSE:
            self._shown, self._shown_at = phase, now
            self.say(phase=phase, done=done, of=of)

    def fail(self, error: MpcSpearmanError) -> None:
        """Report an error and end the process with its code; what other threads do no longer matters."""
        self.say(error=type(error).__name__, text=str(error), about=error.about, heard=error.heard)
        sys.stderr.flush()
        os._exit(error.exit_code)

    def joined(self) -> None:
        """Note that the links are up: from now on they tell of lost peers."""
        with self._lock:
            self._joined = True

    def tell(self, address: Address) -> None:
        """Have the other roles told where this one, the coordinator, listens."""
        self.say(address=[address.host, address.port])

    def ask(self) -> Address:
        """Wait until the coordinator's role has told where it listens."""
        from mpc_spearman.network.addresses import Address

        return Address(*self._coordinator.get())

    def listen(self) -> None:
        """Watch the lifeline, in a thread of its own."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def _watch(self) -> None:
        for line in self._input:
            news = json.loads(line)
            if "coordinator" in news:
                self._coordinator.put(tuple(news["coordinator"]))
            elif not self._joined:
                self.fail(_ended(news["lost"], news["about"]))
        os._exit(1)


#: Called in a role's process before the role runs.
Prepare = Callable[[Assignment, Supervisor], None]


def unprepared(assignment: Assignment, supervisor: Supervisor) -> None:
    """Leave a role as it is."""


def main(prepare: Prepare = unprepared) -> None:
    """Run the role that the supervisor asks for.

    Parameters
    ----------
    prepare : callable
        What a program that executes this, in place of the package's own, does first: to record, to break.
        It can change the assignment's dictionaries, and the supervisor's `say`.
    """
    keep_freed_memory()
    supervisor = Supervisor()
    assignment, stream = supervisor.assignment()
    os.environ.clear()
    os.environ.update(assignment.environment)
    os.chdir(assignment.folder)
    supervisor.listen()
    try:
        prepare(assignment, supervisor)
        _run(supervisor, assignment, stream)
    except MpcSpearmanError as error:
        supervisor.fail(error)
    except Exception as error:
        supervisor.fail(_unexpected(assignment.party, error))
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
        from mpc_spearman.engines import engine_for
        from mpc_spearman.results import report

        for name in _SLOW:
            import_module(name)
        if protocol is not None:
            engine_for(protocol)
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

    from mpc_spearman.launch import rendezvous
    from mpc_spearman.launch.role import run_role, workers

    point = rendezvous.MeetingPoint(**assignment.meeting_point)
    # A fork server has loaded the libraries such that they start no threads.
    threadpool_limits(workers())

    def say(text: str) -> None:
        supervisor.say(note=text)

    made = None if assignment.rehearsal is None else rendezvous.Rehearsal(**assignment.rehearsal)
    tls: list[Tls] = []

    def join(roster: Roster, meter: Meter, agree: Callable[[Sockets], None]) -> None:
        rendezvous.join(point, plan, roster, tls[0], supervisor, meter, say, agree)
        supervisor.joined()

    def decline(roster: Roster, meter: Meter, error: Exception) -> None:
        if tls:  # otherwise it cannot show who it is
            rendezvous.decline(point, plan, roster, tls[0], supervisor, meter, say, error)

    def ready(roster: Roster) -> Signer:
        signer = rendezvous.own_signer(plan, assignment.party, made)
        tls.append(rendezvous.own_tls(signer, roster))
        return signer

    frame = pa.ipc.open_stream(stream).read_all() if assignment.frame else None
    result = run_role(
        plan,
        assignment.party,
        frame,
        join=join,
        ready=ready,
        decline=decline,
        approval=None if assignment.approval is None else Approval(**assignment.approval),
        progress=supervisor.progress,
        say=say,
    )
    result.save(assignment.out)


def _ended(party: str, about: list[str] | None) -> MpcSpearmanError:
    """Turn the news that a party's process has ended, and what it has reported, into this party's error."""
    from mpc_spearman.wire.aborts import from_notice
    from mpc_spearman.wire.meter import PHASES

    if about is None:
        return PeerDied(f"party {party} ended before all had joined", ("PeerDied", party, "connect"))
    name, whose, phase = about
    phase = phase if phase in PHASES else PHASES[0]
    return from_notice(name, whose, phase, told_by=f"party {party}", parties={whose})


def read_error(report: dict[str, Any]) -> MpcSpearmanError:
    """Rebuild the error a role's process reported."""
    known = ERRORS.get(report["error"], MpcSpearmanError)
    about = report["about"]
    return known(report["text"], None if about is None else tuple(about), heard=report.get("heard", False))

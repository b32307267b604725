"""The process of one role: ``python -m mpc_spearman.launch.role_process``.

The launcher (:mod:`mpc_spearman.launch.supervisor`) starts it with pipes for standard input and output.

Input: one line of JSON (:class:`Assignment`), then, where `frame` is its length, a table as an Arrow stream.
The pipe stays open as a lifeline: when it closes, the launcher is gone and so is this process; a further
line names a party whose process ended, in case this one still waits for it to join.

Output: lines of JSON, each with one of the keys ``phase``, ``note``, ``error``, ``done``. What anything else
prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from dataclasses import asdict, dataclass
from typing import IO, Any

from mpc_spearman.errors import ERRORS, MpcSpearmanError, PeerDied


@dataclass(frozen=True)
class Assignment:
    """What the launcher asks of a role's process.

    Attributes
    ----------
    plan : dict
        The plan with this party's local part and no other's.
    party : str
    meeting_point : dict
        Fields of a :class:`mpc_spearman.launch.meeting.MeetingPoint`.
    out : str
        Run directory to write.
    frame : int
        Length in bytes of the Arrow stream that follows; 0 if the table is a file, or there is none.
    """

    plan: dict[str, Any]
    party: str
    meeting_point: dict[str, Any]
    out: str
    frame: int

    def line(self) -> bytes:
        """Return the order as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


class _Launcher:
    """The launcher at the other end of the pipes."""

    def __init__(self) -> None:
        self._input = sys.stdin.buffer
        # Keep the pipe for reports, and send stray prints elsewhere.
        self._reports: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()
        self._joined = False

    def order(self) -> tuple[Assignment, bytes]:
        """Read the order, and the table if it brings one."""
        order = Assignment(**json.loads(self._input.readline()))
        return order, self._input.read(order.frame)

    def say(self, **report: object) -> None:
        """Report one thing."""
        with self._lock:
            print(json.dumps(report), file=self._reports, flush=True)

    def fail(self, error: MpcSpearmanError) -> None:
        """Report an error and end the process with its code; what other threads do no longer matters."""
        self.say(error=type(error).__name__, text=str(error), about=error.about)
        sys.stderr.flush()
        os._exit(error.exit_code)

    def joined(self) -> None:
        """Note that the links are up: from now on they tell of lost peers."""
        with self._lock:
            self._joined = True

    def listen(self) -> None:
        """Watch the lifeline, in a thread of its own."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def _watch(self) -> None:
        for line in self._input:
            party = json.loads(line)["lost"]
            if not self._joined:
                self.fail(
                    PeerDied(f"party {party} ended before all had joined", ("PeerDied", party, "connect"))
                )
        os._exit(1)


def main() -> None:
    """Run the role the launcher asks for."""
    launcher = _Launcher()
    order, stream = launcher.order()
    launcher.listen()
    try:
        _run(launcher, order, stream)
    except MpcSpearmanError as error:
        launcher.fail(error)
    except Exception as error:
        launcher.fail(_unexpected(order.party, error))
    launcher.say(done=True)
    # Everything is written and everyone has said farewell: nothing is left that an orderly exit would do.
    os._exit(0)


def _unexpected(party: str, error: Exception) -> MpcSpearmanError:
    """Say what and where, for a report, but not the error's own text: it may quote what is in a cell."""
    where = "".join(traceback.format_tb(error.__traceback__)[-4:]).rstrip()
    return MpcSpearmanError(
        f"party {party} stopped with an unexpected {type(error).__name__}; please report it with these lines:"
        f"\n{where}"
    )


def _run(launcher: _Launcher, order: Assignment, stream: bytes) -> None:
    from mpc_spearman.config import load_plan

    plan = load_plan(order.plan)
    launcher.say(phase="start", party=order.party, done=0, of=0)
    # Only now the slow imports, so that a bad order fails fast.
    import pandas as pd

    import mpc_spearman.wire.rendezvous  # noqa: F401  it imports torch, which is not to count as meeting
    from mpc_spearman.launch import meeting
    from mpc_spearman.launch.role import run_role
    from mpc_spearman.parties import Roster
    from mpc_spearman.wire.channel import Transport

    def join(roster: Roster) -> Transport:
        transport = meeting.join(meeting.MeetingPoint(**order.meeting_point), plan, roster, say)
        launcher.joined()
        return transport

    def say(text: str) -> None:
        launcher.say(note=text)

    frame: pd.DataFrame | None = None
    if order.frame:
        import pyarrow as pa

        frame = pa.ipc.open_stream(stream).read_pandas()
    result = run_role(
        plan,
        order.party,
        frame,
        join=join,
        progress=lambda phase, done, of: launcher.say(phase=phase, done=done, of=of),
        say=say,
    )
    result.save(order.out)


def read_error(report: dict[str, Any]) -> MpcSpearmanError:
    """Rebuild the error a role's process reported."""
    known = ERRORS.get(report["error"], MpcSpearmanError)
    about = report["about"]
    return known(report["text"], None if about is None else tuple(about))


if __name__ == "__main__":
    main()

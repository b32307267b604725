"""What the supervisor and a role's process say to each other over that one's standard input and output.

Input: one line of JSON (:class:`Assignment`), then, where `frame` is its length, a table as an Arrow stream.
It stays open as a lifeline: when it ends, the supervisor is gone and so is this process. A further line says
where others of a meeting are to dial, or names a party whose process ended, and how, in case this one still
waits for it to join.

Output: lines of JSON, each with one of the keys ``phase``, ``note``, ``usage``, ``address``, ``error``,
``done``. What anything else prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mpc_spearman.errors import ERRORS, MpcSpearmanError, PeerDied

if TYPE_CHECKING:  # a fork server and the command that starts it import little
    from mpc_spearman.config import Approval, Plan
    from mpc_spearman.launch.meeting_point import MeetingPoint, Rehearsal
    from mpc_spearman.network.addresses import Address
    from mpc_spearman.wire.meter import Meter

# Seconds between reports on what this process uses.
_MEASURED = 2.0
# Seconds between reports on how much of a phase is done.
_PAUSE = 0.05


@dataclass(frozen=True)
class Assignment:
    """What the supervisor asks of a role's process; as dictionaries, since it travels as JSON.

    The `plan` has this party's local part and no other's, the `environment` no address of another party's
    database. `out` is the run directory, and `folder` the process's current one. `rehearsal` has keys if all
    roles have been started here, so that no other process can take part. `frame` is the length in bytes of
    the Arrow stream that follows; 0 if the table is a file, or there is none.
    """

    plan: dict[str, Any]
    party: str
    meeting_point: dict[str, Any]
    out: str
    environment: dict[str, str] = field(repr=False)  # addresses of databases may be in it
    folder: str
    rehearsal: dict[str, Any] | None = field(default=None, repr=False)
    approval: dict[str, Any] | None = None
    keep_ranks: str | None = None
    plan_name: str = ""
    frame: int = 0

    @classmethod
    def of(
        cls,
        plan: Plan,
        party: str,
        point: MeetingPoint,
        out: Path,
        *,
        roles: int = 1,
        rehearsal: Rehearsal | None = None,
        approval: Approval | None = None,
        keep_ranks: Path | None = None,
        plan_name: str = "",
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
            approval=None if approval is None else approval.model_dump(mode="json"),
            keep_ranks=None if keep_ranks is None else str(keep_ranks.absolute()),
            plan_name=plan_name,
        )

    def line(self) -> bytes:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Supervisor:
    """The supervisor at the other end of this process's standard input and output."""

    def __init__(self) -> None:
        self._input = sys.stdin.buffer
        # Keep standard output for reports, and send stray prints elsewhere.
        self._reports: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()
        self._joined = False
        #: Counts what the role sends and receives, once it runs.
        self.meter: Meter | None = None
        self._shown, self._shown_at = "", 0.0
        self._heard = threading.Condition()
        self._address: tuple[str, int] | None = None

    def assignment(self) -> tuple[Assignment, bytes]:
        """Read the assignment, and the table if it brings one; from then on watch the lifeline."""
        assignment = Assignment(**json.loads(self._input.readline()))
        stream = self._input.read(assignment.frame)
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()
        threading.Thread(target=self._measure, name="usage", daemon=True).start()
        return assignment, stream

    def say(self, **report: object) -> None:
        """Report one thing."""
        with self._lock:
            print(json.dumps(report), file=self._reports, flush=True)

    def note(self, text: str) -> None:
        """Report what is worth a sentence."""
        self.say(note=text)

    def progress(self, phase: str, done: int, of: int) -> None:
        """Report how much of a phase is done: when it begins, when it is done, and now and then between."""
        now = time.monotonic()
        if phase != self._shown or done in (0, of) or now - self._shown_at > _PAUSE:
            self._shown, self._shown_at = phase, now
            self.say(phase=phase, done=done, of=of)

    def fail(self, error: MpcSpearmanError) -> None:
        """Report an error and end the process with its code; what other threads do no longer matters."""
        self.report_usage()
        self.say(error=type(error).__name__, text=str(error), about=error.about, heard=error.heard)
        sys.stderr.flush()
        os._exit(error.exit_code)

    def joined(self) -> None:
        """Note that the links are up: from now on they tell of lost peers."""
        with self._lock:
            self._joined = True

    def tell(self, address: Address) -> None:
        """Have the other roles told where the coordinator listens."""
        self.say(address=[address.host, address.port])

    def ask(self) -> Address:
        """Wait until the coordinator has said where it listens."""
        from mpc_spearman.network.addresses import Address

        with self._heard:
            self._heard.wait_for(lambda: self._address is not None)
        assert self._address is not None
        return Address(*self._address)

    def report_usage(self) -> None:
        """Report how much memory this process has, and what it has sent and received."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        sent, received = (0, 0) if self.meter is None else self.meter.total()
        self.say(usage=(pages * os.sysconf("SC_PAGE_SIZE"), sent, received))

    def _measure(self) -> None:
        while True:
            self.report_usage()
            time.sleep(_MEASURED)

    def _watch(self) -> None:
        for line in self._input:
            news = json.loads(line)
            if "address" in news:
                with self._heard:
                    self._address = tuple(news["address"])
                    self._heard.notify_all()
            elif not self._joined:
                self.fail(_ended(news["lost"], news["about"]))
        os._exit(1)


def _ended(party: str, about: list[str] | None) -> MpcSpearmanError:
    """Turn the news that a party's process has ended, and what it has reported, into this party's error."""
    from mpc_spearman.wire.aborts import from_notice
    from mpc_spearman.wire.meter import PHASES

    if about is None:
        return PeerDied(f"party {party} ended before all had joined", ("PeerDied", party, "connect"))
    name, whose, phase = about
    phase = phase if phase in PHASES else PHASES[0]
    return from_notice(name, whose, phase, sender=f"party {party}", parties={whose})


def read_error(report: dict[str, Any]) -> MpcSpearmanError:
    """Rebuild the error a role's process reported."""
    about = report["about"]
    known = ERRORS.get(report["error"], MpcSpearmanError)
    return known(report["text"], None if about is None else tuple(about), heard=report.get("heard", False))

"""The messages between the supervisor and a role's process, over the process's standard input and output.

Input: one line of JSON (:class:`Assignment`), one with the length of the party's table as an Arrow stream (0
if it is a file, or there is none), and the stream. The input stays open: when it ends, the supervisor has
ended, and this process ends too. Each further line either gives the address at which to dial the coordinator,
or names a party whose process ended, and how, in case this one still waits for it to join.

Output: lines of JSON, each with one of the keys ``phase``, ``note``, ``usage``, ``address``, ``error``,
``done``. Other code that prints writes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import BeforeValidator, SkipValidation, TypeAdapter

from mpc_spearman.config import Approval, Plan
from mpc_spearman.errors import ERRORS, MpcSpearmanError, PeerDied
from mpc_spearman.launch.meeting_point import MeetingPoint
from mpc_spearman.network.addresses import Address
from mpc_spearman.wire.aborts import from_notice
from mpc_spearman.wire.meter import PHASES, Meter

# Seconds between reports of memory and bytes.
_USAGE_INTERVAL = 2.0
# Seconds between reports on how much of a phase is done.
_PROGRESS_INTERVAL = 0.05
# A path in any encoding, and the environment, whose values may be in any too: pydantic takes UTF-8 alone.
AnyPath = Annotated[Path, BeforeValidator(lambda path: Path(path))]


@dataclass(frozen=True)
class Assignment:
    """What a role's process gets to run.

    The `plan` has this party's local part and no other's, the `environment` no address of another party's
    database. `out` is the run directory, and `folder` the process's current one. `table` is an Arrow stream.
    """

    plan: Plan
    party: str
    meeting_point: MeetingPoint
    out: AnyPath
    environment: SkipValidation[dict[str, str]] = field(repr=False)  # addresses of databases may be in it
    folder: AnyPath
    approval: Approval | None = None
    keep_ranks: Path | None = None
    plan_name: str = ""
    table: bytes = field(default=b"", repr=False)

    @classmethod
    def of(
        cls, plan: Plan, party: str, meeting_point: MeetingPoint, out: Path, *, roles: int = 1, **more: Any
    ) -> Assignment:
        """Return a role's assignment; unless OMP_NUM_THREADS is set, `roles` roles share the processors."""
        share = max(1, len(os.sched_getaffinity(0)) // roles)
        addresses = plan.addresses_of_others(party)
        environment = {name: value for name, value in os.environ.items() if name not in addresses}
        return cls(
            plan=plan.restricted_to(party),
            party=party,
            meeting_point=meeting_point,
            out=out,
            environment={"OMP_NUM_THREADS": str(share)} | environment,
            folder=Path.cwd(),
            **more,
        )

    def packed(self) -> bytes:
        """Return the assignment as a role's process reads it."""
        content = _ASSIGNMENT.dump_python(self, mode="json", exclude={"table"})
        return b"%b\n%d\n%b" % (json.dumps(content).encode(), len(self.table), self.table)


_ASSIGNMENT = TypeAdapter(Assignment)


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
        self._address_arrived = threading.Condition()
        self._address: Address | None = None

    def assignment(self) -> Assignment:
        """Return the assignment; from now on end when the supervisor ends."""
        assignment = _ASSIGNMENT.validate_python(json.loads(self._input.readline()))
        table = self._input.read(int(self._input.readline()))
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()
        threading.Thread(target=self._measure, name="usage", daemon=True).start()
        return replace(assignment, table=table)

    def say(self, **report: object) -> None:
        """Write one report to the supervisor."""
        with self._lock:
            print(json.dumps(report), file=self._reports, flush=True)

    def note(self, text: str) -> None:
        """Report a sentence for whoever watches the run."""
        self.say(note=text)

    def progress(self, phase: str, done: int, of: int) -> None:
        """Report how much of a phase is done: at its beginning, at its end, and at intervals in between."""
        now = time.monotonic()
        if phase != self._shown or done in (0, of) or now - self._shown_at > _PROGRESS_INTERVAL:
            self._shown, self._shown_at = phase, now
            self.say(phase=phase, done=done, of=of)

    def fail(self, error: MpcSpearmanError) -> None:
        """Report an error and end the process at once, with the error's exit code."""
        self.report_usage()
        self.say(error=type(error).__name__, text=str(error), about=error.about, heard=error.heard)
        sys.stderr.flush()
        os._exit(error.exit_code)

    def joined(self) -> None:
        """Note that the links are connected: from now on the links detect lost peers themselves."""
        with self._lock:
            self._joined = True

    def announce_address(self, address: Address) -> None:
        """Send the address at which the coordinator listens to the other roles, through the supervisor."""
        self.say(address=[address.host, address.port])

    def coordinator_address(self) -> Address:
        """Wait until the coordinator has announced its address; return it."""
        with self._address_arrived:
            self._address_arrived.wait_for(lambda: self._address is not None)
        assert self._address is not None
        return self._address

    def report_usage(self) -> None:
        """Report this process's memory, the bytes that it has sent and received, and for whom it waits."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        meter, memory = self.meter, pages * os.sysconf("SC_PAGE_SIZE")
        self.say(usage=(memory, 0, 0, "") if meter is None else (memory, *meter.total(), meter.waits_for))

    def _measure(self) -> None:
        while True:
            self.report_usage()
            time.sleep(_USAGE_INTERVAL)

    def _watch(self) -> None:
        for line in self._input:
            news = json.loads(line)
            if "address" in news:
                with self._address_arrived:
                    self._address = Address(*news["address"])
                    self._address_arrived.notify_all()
            elif not self._joined:
                self.fail(_lost_party_error(news["lost"], news["about"]))
        os._exit(1)


def _lost_party_error(party: str, notice: list[str] | None) -> MpcSpearmanError:
    """Return this party's error after another's process has ended; `about` is its notice, if any."""
    if notice is None:
        return PeerDied(f"party {party} ended before all had joined", ("PeerDied", party, "connect"))
    name, failed_party, phase = notice
    phase = phase if phase in PHASES else PHASES[0]
    return from_notice(name, failed_party, phase, sender=f"party {party}", parties={failed_party})


def read_error(report: dict[str, Any]) -> MpcSpearmanError:
    """Return the error that a role's process reported."""
    notice = report["about"]
    error_class = ERRORS.get(report["error"], MpcSpearmanError)
    return error_class(
        report["text"], None if notice is None else tuple(notice), heard=report.get("heard", False)
    )

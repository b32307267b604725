"""An owner's ledger as a file: ``policy.ledger``, lines of JSON on each run, written before anything leaves.

The first line has the format's number; every other line an entry (:mod:`mpc_spearman.privacy.charges`) and a
check, SHA-256 over the check before it and the entry. Lines are only ever added, under a lock on the file.
A line that is damaged, cut short or of another format is refused, never skipped. Lines that are missing at
the end, as in an old copy, cannot be detected.

Ledgers of earlier formats are continued. Runs of version 0.2 (format 1) are listed and not counted.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from io import FileIO
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mpc_spearman.config import Approval
from mpc_spearman.config.wording import canonical, nearest, shown
from mpc_spearman.errors import ApprovalError, PlanError, PolicyError
from mpc_spearman.files import check_private, create_once
from mpc_spearman.privacy.charges import (
    Charge,
    ChargedRun,
    Ended,
    Entry,
    Forgotten,
    PartnerLoss,
    Started,
    balances,
    new_partners,
    over_lifetime,
    taken_back,
)

FORMAT = 3
_READ = (1, 2, FORMAT)
_SETTING = "policy.ledger"


class Ledger:
    """One owner's ledger, which several processes may use at once. Only `begin` makes its file.

    Every method raises `PlanError` if the file is missing, cannot be used, or others may read it, and
    `PolicyError` if it is damaged, naming the line, or of another format.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))

    @classmethod
    def begin(cls, path: Path) -> Ledger:
        """Make a ledger without entries, and sync it to the disk.

        `OutputError` if the file exists, which is never replaced, or cannot be made.
        """
        ledger = cls(path)
        create_once(ledger.path, canonical({"ledger": FORMAT}).encode() + b"\n", durable=True)
        return ledger

    def check(
        self, party: str, losses: Mapping[str, PartnerLoss], lifetime: float, approval: Approval | None = None
    ) -> None:
        """Refuse, before the parties meet, a run that `charge` would refuse."""
        entries = self.entries()
        _check_approval(approval, entries)
        self._check_losses(party, losses, entries, lifetime)

    def start(self, run: ChargedRun, approval: Approval | None = None) -> None:
        """Write that a run starts; the line is on the disk when this returns.

        `ApprovalError` if the approval is used up.
        """
        with self._opened("r+b") as file:
            entries, check = self._read(file)
            _check_approval(approval, entries)
            self._add(file, check, Started(time=now(), started=run, approval=_digest(approval)))

    def end(self, entry: Ended) -> None:
        """Write how a run failed."""
        with self._opened("r+b") as file:
            _, check = self._read(file)
            self._add(file, check, entry)

    def charge(self, run: ChargedRun, lifetime: float, approval: Approval | None = None) -> list[str]:
        """Write a run, and its approval if it has one; the line is on the disk when this returns.

        Returns sentences for the owner: on partners that are new, and keys that have changed. Nothing is
        written if a partner's losses would exceed `lifetime` (``policy.lifetime``), `PolicyError`, or if the
        approval is used up, `ApprovalError`.
        """
        with self._opened("r+b") as file:
            entries, check = self._read(file)
            _check_approval(approval, entries, run.id)
            self._check_losses(run.party, run.told, entries, lifetime)
            self._add(file, check, Charge(time=now(), run=run, approval=_digest(approval)))
        return list(new_partners(run.told, entries))

    def _check_losses(
        self, party: str, losses: Mapping[str, PartnerLoss], entries: Sequence[Entry], lifetime: float
    ) -> None:
        refusals = list(over_lifetime(losses, entries, lifetime))
        if refusals:
            who = f"party {party} does not allow this run: "
            command = f"mpc-spearman ledger {self.path} --forget PARTNER REASON"
            hint = f"If a partner no longer keeps results: {command}"
            raise PolicyError("\n".join([*(who + text for text in refusals), hint]))

    def forget(self, partner: str, reason: str) -> None:
        """Stop counting a partner's earlier results. The earlier lines stay, and the reason is recorded.

        `PlanError` if nothing of the partner's counts, or the reason is empty or not one printable line.
        """
        with self._opened("r+b") as file:
            entries, check = self._read(file)
            partners = sorted(name for balance in balances(entries) if balance.runs for name in balance.names)
            if partner not in partners:
                hint = nearest(partner, tuple(partners)) or f"; partners: {', '.join(partners) or 'none'}"
                raise PlanError(f"{self.path}: no counted run revealed anything to {shown(partner)}{hint}")
            try:
                entry = Forgotten(time=now(), partner=partner, reason=reason)
            except ValidationError:
                raise PlanError(
                    "the reason for forgetting a partner is needed, on one printable line"
                ) from None
            self._add(file, check, entry)

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first."""
        with self._opened("rb") as file:
            return self._read(file)[0]

    @contextmanager
    def _opened(self, mode: str) -> Iterator[FileIO]:
        """Open and lock the file."""
        try:
            # Unbuffered: a line that was written in part must not be written again on closing. With
            # O_NONBLOCK a pipe does not block.
            with FileIO(
                self.path, mode, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)
            ) as file:
                permissions = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(permissions):
                    raise PlanError(f"{_SETTING}: {self.path} is not a regular file")
                fcntl.flock(file, fcntl.LOCK_SH if mode == "rb" else fcntl.LOCK_EX)
                self._header(file)  # first, so that a file that is no ledger is refused for that
                check_private(self.path, permissions, _SETTING)
                yield file
        except FileNotFoundError:
            raise PlanError(
                f"{_SETTING}: {self.path} does not exist. If earlier runs had it, restore it, since without "
                f"it their losses are forgotten; otherwise `mpc-spearman ledger --begin {self.path}`"
            ) from None
        except OSError as error:
            raise PlanError(f"{_SETTING}: {self.path} cannot be used: {error.strerror}") from None

    def _header(self, file: FileIO) -> str:
        """Read the first line; return the text that the first entry's check begins with."""
        file.seek(0)
        try:
            content = json.loads(file.readline())
            version, check = content["ledger"], content.get("key", "")
        except (ValueError, TypeError, KeyError, AttributeError):
            why = "this is not the first line of a ledger; `mpc-spearman ledger --begin FILE` makes one"
            raise PolicyError(f"{_SETTING}: {self.path}, line 1: {why}") from None
        if version not in _READ or not isinstance(check, str):
            raise PolicyError(
                f"{_SETTING}: {self.path}, line 1: its format is {shown(version)}; this version reads 1 to "
                f"{FORMAT}"
            )
        return check

    def _read(self, file: FileIO) -> tuple[list[Entry], str]:
        """Read all entries and the last check."""
        check = self._header(file)
        *lines, unfinished = file.read().split(b"\n")
        entries = list[Entry]()
        for number, text in enumerate(lines, 2):
            try:
                line = json.loads(text)
                entry, check = line["entry"], _check(check, line["entry"])
                whole = line == {"check": check, "entry": entry}
                entries.append(_parsed(entry))
            except (ValueError, TypeError, KeyError, AttributeError):  # pydantic's is a ValueError
                whole = False
            if not whole:
                raise PolicyError(
                    f"{_SETTING}: {self.path}, line {number} is damaged, or an earlier line was changed or "
                    "removed. Restore a copy of the ledger"
                )
        if unfinished:
            raise PolicyError(
                f"{_SETTING}: {self.path}, line {len(lines) + 2} is cut short. If a run was killed while "
                "writing it, it had sent nothing that needs the line: delete it. Otherwise restore a copy"
            )
        return entries, check

    def _add(self, file: FileIO, check: str, entry: Entry) -> None:
        content = entry.model_dump(mode="json")
        _append(file, canonical({"check": _check(check, content), "entry": content}))


def _check_approval(approval: Approval | None, entries: Sequence[Entry], run: str = "") -> None:
    """Raise `ApprovalError` if other runs than this one have used an approval up.

    A run uses it if its charge counts, or if others have learnt from it which rows the owner's table has.
    """
    if approval is None:
        return
    uncounted, used_by = taken_back(entries), list[str]()
    for entry in entries:
        if isinstance(entry, Charge) and entry.approval == approval.digest and entry.run.id not in uncounted:
            used_by.append(entry.run.id)
        if isinstance(entry, Started) and entry.approval == approval.digest and entry.reveals_members:
            used_by.append(entry.started.id)
    used = len({*used_by} - {run, ""}) + used_by.count("")  # earlier versions gave runs no id
    if used >= approval.runs:
        raise ApprovalError(
            f"party {approval.party}: the approval of {approval.made:%Y-%m-%d %H:%M} was for {approval.runs} "
            f"run(s), and the ledger has {used}. `mpc-spearman approve` makes another"
        )


def _digest(approval: Approval | None) -> str:
    return approval.digest if approval is not None else ""


def _append(file: FileIO, text: str) -> None:
    """Add a whole line, and sync it to the disk; if that fails, leave the file as it was."""
    line = text.encode() + b"\n"
    size = file.seek(0, os.SEEK_END)
    try:
        if file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())
    except BaseException:
        file.truncate(size)
        raise


def _check(before: str, entry: Mapping[str, Any]) -> str:
    return hashlib.sha256((before + canonical(entry)).encode()).hexdigest()[:16]


def _parsed(entry: Mapping[str, Any]) -> Entry:
    for key, kind in (("reason", Forgotten), ("started", Started), ("ended", Ended)):
        if key in entry:
            return kind.model_validate(entry)
    run = entry["run"]
    if "own" not in run:
        return Charge.model_validate(entry)
    # A run of version 0.2, which had other rules, is listed and not counted.
    losses = {
        name: PartnerLoss(what=peer["grant"], loss=None, counted=False) for name, peer in run["peers"].items()
    }
    rows, columns = run["own"]["n"], len(run["columns"])
    charged = ChargedRun(party="", plan=run["plan"], version="0.2", rows=rows, columns=columns, told=losses)
    return Charge(time=entry["time"], run=charged, approval=entry.get("approval", ""))


def now() -> str:
    """Return the present time as entries have it."""
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"

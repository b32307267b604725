"""An owner's ledger as a file: ``policy.ledger``, a line of JSON for each run, written before a share leaves.

The first line has the format's number and a check of the key; every other line an entry
(:class:`~mpc_spearman.privacy.charges.Charge` or :class:`~mpc_spearman.privacy.charges.Forgotten`) and a
check, SHA-256 over the check before it and the entry. Lines are only ever added, under a lock on the file.
What is damaged, cut short or of another format is refused, never passed over. What is not seen is that whole
lines are gone from the end, as where an old copy was put back.

The key is beside it in ``FILE.key``, and both are their owner's alone. Without the key the ledger shows the
owner's column names, the plans, partners, times and reasons, how many rows there were, in how many buckets
two runs differ and which columns are equal; no guess of an id or a value can be tested. With the key guesses
can be tested one by one: it is not for showing.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from io import FileIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from mpc_spearman.config import Approval
from mpc_spearman.config.fields import Section
from mpc_spearman.config.wording import canonical, nearest, shown
from mpc_spearman.errors import ApprovalError, PlanError, PolicyError
from mpc_spearman.files import check_private, own_key
from mpc_spearman.privacy.charges import (
    Charge,
    ChargedRun,
    Fingerprint,
    Forgotten,
    fingerprint,
    objections,
    standing,
)

FORMAT = 1
_SETTING = "policy.ledger"


class _Line(Section):
    check: str
    entry: Charge | Forgotten


class Ledger:
    """One owner's ledger. Several processes may use one file at once.

    Parameters
    ----------
    path : Path
        Made, with its key, by the first `fingerprint`. Behind a symbolic link, the file it points to.

    Raises
    ------
    PlanError
        From every method: the file or its key cannot be read or written, or others may read them.
    PolicyError
        From every method: the ledger is damaged, naming its line, of another format, or without its key.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.key_path = self.path.with_name(f"{self.path.name}.key")

    def fingerprint(self, ids: pa.LargeStringArray, ranks: NDArray[np.int32]) -> Fingerprint:
        """Make the fingerprint of one's own input (:func:`mpc_spearman.privacy.charges.fingerprint`).

        Parameters
        ----------
        ids : LargeStringArray
            n aligned ids, all different.
        ranks : ndarray of int32, shape (m, n)
            Centred doubled average ranks.
        """
        with self._opened("a+b") as file:
            if os.fstat(file.fileno()).st_size == 0:
                self._begin(file)
            key = self._key(file)
        return fingerprint(key, ids, ranks)

    def charge(
        self, run: ChargedRun, *, min_group: int, budget: float, approval: Approval | None = None
    ) -> None:
        """Check a run against all earlier ones and write it down. It is on the disk when this returns.

        Parameters
        ----------
        run : ChargedRun
            Its ``own`` is this ledger's `fingerprint`.
        min_group, budget
            As in the shared plan's ``privacy``.
        approval : Approval, optional
            One of whose runs this is.

        Raises
        ------
        PolicyError
            Earlier runs and this one would together give too much away; nothing was written.
        ApprovalError
            The approval is used up.
        """
        with self._opened("r+b") as file:
            entries, check = self._read(file)
            if approval is not None:
                check_used(approval, entries)
            found = list(objections(run, entries, min_group=min_group, budget=budget))
            if found:
                who = f"party {run.party} does not allow this run: its {_SETTING}: "
                out = f"mpc-spearman ledger {self.path} --forget PARTNER REASON"
                raise PolicyError(
                    "\n".join(
                        [*(who + text for text in found), f"If a partner no longer keeps results: {out}"]
                    )
                )
            self._add(file, check, Charge(time=_now(), run=run, approval=approval.digest if approval else ""))

    def forget(self, partner: str, reason: str) -> None:
        """No longer count what a partner got so far. The earlier lines stay, and the reason is kept.

        Raises
        ------
        PlanError
            Nothing of the partner's counts, or the reason is empty or not one printable line.
        """
        with self._opened("r+b") as file:
            entries, check = self._read(file)
            partners = tuple(sorted({name for _, holders in standing(entries) for name in holders}))
            if partner not in partners:
                hint = nearest(partner, partners) or f"; partners: {', '.join(partners) or 'none'}"
                raise PlanError(f"{self.path}: nothing that {shown(partner)} got counts{hint}")
            try:
                entry = Forgotten(time=_now(), partner=partner, reason=reason)
            except ValidationError:
                raise PlanError(
                    "the reason for forgetting a partner is needed, on one printable line"
                ) from None
            self._add(file, check, entry)

    def entries(self) -> list[Charge | Forgotten]:
        """Return all that was written down, oldest first."""
        with self._opened("rb") as file:
            return self._read(file)[0]

    @contextmanager
    def _opened(self, mode: str) -> Iterator[FileIO]:
        """Open and lock the file; only ``a+b`` makes it."""
        try:
            # Unbuffered: what is not written whole must not be tried again on closing.
            with FileIO(self.path, mode, opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                about = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(about):
                    raise PlanError(f"{_SETTING}: {self.path} is not a regular file")
                check_private(self.path, about, _SETTING)
                fcntl.flock(file, fcntl.LOCK_SH if mode == "rb" else fcntl.LOCK_EX)
                yield file
        except OSError as error:
            raise PlanError(f"{_SETTING}: {self.path} cannot be used: {error.strerror}") from None

    def _begin(self, file: FileIO) -> None:
        if self.key_path.exists():
            raise PolicyError(
                f"{_SETTING}: {self.path} is empty or was missing, but its key is there. Put the ledger "
                f"back; or, to begin without what it said, take {self.key_path} away"
            )
        key = own_key(self.key_path, _SETTING)
        _append(file, canonical({"ledger": FORMAT, "key": _check_of(key)}))
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # or the names could be lost with the power, and with them what was charged
        finally:
            os.close(folder)

    def _key(self, file: FileIO) -> bytes:
        _, check = self._header(file)
        if not self.key_path.exists():
            raise PolicyError(
                f"{_SETTING}: {self.key_path} is missing, and without it no run can be compared with those "
                f"of {self.path}. Put it back; or, to begin without what the ledger says, name another file"
            )
        key = own_key(self.key_path, _SETTING)
        if _check_of(key) != check:
            raise PolicyError(
                f"{_SETTING}: {self.key_path} is not the key of {self.path}. Put the right one back"
            )
        return key

    def _header(self, file: FileIO) -> tuple[str, str]:
        file.seek(0)
        line = file.readline()
        try:
            content = json.loads(line)
            found, check = content["ledger"], content["key"]
        except (ValueError, TypeError, KeyError):
            raise PolicyError(
                f"{_SETTING}: {self.path}, line 1: it does not begin as a ledger does"
            ) from None
        if found != FORMAT:
            raise PolicyError(
                f"{_SETTING}: {self.path}, line 1: its format is {shown(found)}; this version reads {FORMAT}"
            )
        return line.decode(), check

    def _read(self, file: FileIO) -> tuple[list[Charge | Forgotten], str]:
        """Read all entries and the last check."""
        check, _ = self._header(file)
        *lines, rest = file.read().split(b"\n")
        entries = []
        for number, text in enumerate(lines, 2):
            try:
                line = _Line.model_validate_json(text)
            except ValidationError:
                raise self._damaged(number) from None
            check = _check(check, line.entry)
            if line.check != check:
                raise self._damaged(number)
            entries.append(line.entry)
        if rest:
            raise PolicyError(
                f"{_SETTING}: {self.path}, line {len(lines) + 2} is cut short. If a run was killed while "
                "writing it, it had sent nothing: take the line out. If not, put a whole copy back"
            )
        return entries, check

    def _damaged(self, number: int) -> PolicyError:
        return PolicyError(
            f"{_SETTING}: {self.path}, line {number} is damaged, or one before it was changed or taken out. "
            "Put a whole copy of the ledger back; or, to begin without what it says, name another file"
        )

    def _add(self, file: FileIO, check: str, entry: Charge | Forgotten) -> None:
        content = entry.model_dump(mode="json")
        _append(file, canonical({"check": _check(check, entry), "entry": content}))


def check_used(approval: Approval, entries: Sequence[Charge | Forgotten]) -> None:
    """Refuse an approval that is used up: the runs that have sent something are in the ledger."""
    used = sum(isinstance(entry, Charge) and entry.approval == approval.digest for entry in entries)
    if used >= approval.runs:
        raise ApprovalError(
            f"party {approval.party}: the approval of {approval.made:%Y-%m-%d %H:%M} was for {approval.runs} "
            f"run(s), and the ledger has {used}. `mpc-spearman approve` makes another"
        )


def _append(file: FileIO, text: str) -> None:
    """Add a line, whole and on the disk, or leave the file as it was."""
    line = text.encode() + b"\n"
    size = file.seek(0, os.SEEK_END)
    try:
        if file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())
    except BaseException:
        file.truncate(size)
        raise


def _check(before: str, entry: Charge | Forgotten) -> str:
    content = canonical(entry.model_dump(mode="json"))
    return hashlib.sha256((before + content).encode()).hexdigest()[:16]


def _check_of(key: bytes) -> str:
    return hashlib.blake2b(key=key, person=b"check", digest_size=8).hexdigest()


def _now() -> str:
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"

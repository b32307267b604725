"""Ranks that an owner keeps in a folder of its own, for later runs of the same table (``--keep-ranks``).

Each table has two files, named by a digest of all that its ranks depend on. One is the matrix, as it is in
memory. The other is JSON, with the groups of equal values and a checksum of both. It is written last: without
it nothing counts as kept. Rows are in the table's order, since every run over common rows has an order of its
own. Both files are as secret as the table.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, from_file, mapped, parts, reordered
from mpc_spearman.config import DataParty, Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.ids import id_digest
from mpc_spearman.data.ranking import Place
from mpc_spearman.data.ranks import Groups, Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import OutputError
from mpc_spearman.files import check_private, lock, write_whole
from mpc_spearman.version import __version__

_PART = ".ranks.part"


class KeptRanks:
    """One owner's folder of ranks, for a run of the first `limit` rows of its table.

    Make it before the table is read: it then notices a file that is replaced meanwhile. `OutputError` if the
    folder cannot be made or written to, `PlanError` if others may read it.
    """

    def __init__(self, folder: Path, owner: DataParty, limit: int | None) -> None:
        self._folder, self._owner, self._limit, self._stamp = folder, owner, limit, _stamp(owner.table)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            check_private(folder, folder.stat().st_mode, "--keep-ranks")
            for left in folder.glob(f".*{_PART}"):  # by a run that was killed
                with suppress(BlockingIOError, FileNotFoundError):  # in use, or gone meanwhile
                    locked = lock(left, os.O_RDWR)
                    left.unlink()
                    os.close(locked)
        except OSError as error:
            raise OutputError(f"--keep-ranks: cannot write to {folder}: {error.strerror}") from None

    def ranks(self, table: Table, make: Callable[[Table, Place], Ranks], say: Callable[[str], None]) -> Ranks:
        """Return a table's ranks as they were kept; otherwise have `make` rank it, and keep what it returns.

        `say` is called if kept ranks are used, or are damaged.
        """
        order = None
        if table.rows is not None and (np.diff(table.rows) < 0).any():
            order = np.argsort(table.rows)
            table = table.take(order)
        file = self._folder / f"{self._name(table)}.ranks"
        ranks = self._found(file, table, say)
        if ranks is None:
            ranks = self._made(file, lambda place: make(table, place), say)
        return ranks if order is None else Ranks(reordered(ranks.matrix, np.argsort(order)), ranks.groups)

    def _name(self, table: Table) -> str:
        about = {
            "version": __version__,
            "party": table.party,
            "keys": self._owner.model_dump(
                mode="json", include={"table", *TableKeys.model_fields}, exclude={"memory"}
            ),
            "stamp": self._stamp,
            "session": table.source.session,
            "rows": self._limit,
            "columns": table.columns,
            "ids": id_digest(table.ids, b"").hex(),
        }
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]

    def _found(self, file: Path, table: Table, say: Callable[[str], None]) -> Ranks | None:
        try:
            about = json.loads(file.with_suffix(".json").read_bytes())
            groups = tuple(Groups(tuple(map(tuple, sizes)), *rest) for sizes, *rest in about["groups"])
            count = len(table.columns)
            matrix = from_file(file, "r", (count, table.n), np.int32)
            if len(groups) != count or about["sha256"] != _checksum(matrix, about["groups"], about["kept"]):
                raise ValueError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            say(f"{file} is damaged: the table is ranked again")
            return None
        if self._stamp != _stamp(self._owner.table):
            return None
        say(f"the table is not ranked again: its ranks of {about['kept']} are used")
        return Ranks(matrix, groups)

    def _made(self, file: Path, make: Callable[[Place], Ranks], say: Callable[[str], None]) -> Ranks:
        part = self._folder / f".{secrets.token_hex(8)}{_PART}"
        try:
            opened = lock(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                ranks = make(lambda shape: mapped(os.dup(opened), shape, np.int32))
                if self._stamp != _stamp(self._owner.table):
                    say("the table changed while it was read: its ranks are not kept")
                    return ranks
                os.fsync(opened)
                groups = [(one.how_many, one.skewness, one.gaps) for one in ranks.groups]
                kept = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
                about = {"kept": kept, "groups": groups, "sha256": _checksum(ranks.matrix, groups, kept)}
                part.replace(file)
                write_whole(file.with_suffix(".json"), json.dumps(about).encode(), durable=True)
                return ranks
            finally:
                part.unlink(missing_ok=True)
                os.close(opened)
        except OSError as error:
            raise OutputError(f"--keep-ranks: cannot write to {self._folder}: {error.strerror}") from None


def _stamp(table: Path | Query | None) -> list[object]:
    """Return where a table is and when its files were last written; of a query, what decides its answer.

    Passwords are left out: another one gives the same table.
    """
    if not isinstance(table, Query):
        assert table is not None
        return _of_files(table)
    kind, _, rest = os.environ.get(table.variable, "").partition(":")
    if kind in ("sqlite", "duckdb"):
        return [os.getcwd(), *_of_files(Path(rest))]
    address = urlsplit(f"{kind}:{rest}")
    options = [option for option in parse_qsl(address.query) if "password" not in option[0]]
    user, _, host = address.netloc.rpartition("@")
    libpq = {name: value for name, value in os.environ.items() if name.startswith("PG") or name == "TZ"}
    libpq.pop("PGPASSWORD", None)
    return [user.partition(":")[0], host, address.path, options, sorted(libpq.items()), os.getcwd()]


def _of_files(table: Path) -> list[object]:
    stamps: list[object] = []
    with suppress(OSError):  # whoever reads it says why it cannot be
        for file in sorted(table.rglob("*")) if table.is_dir() else [table]:
            about = file.stat()
            stamps.append((str(file.absolute()), about.st_size, about.st_mtime_ns))
    return stamps


def _checksum(matrix: NDArray[np.int32], groups: object, kept: object) -> str:
    checksum = hashlib.sha256(json.dumps([groups, kept]).encode())
    for row in matrix:
        for _, part in parts(row, BLOCK):
            checksum.update(part.data)
    return checksum.hexdigest()

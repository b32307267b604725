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
from mpc_spearman.data.ranks import Groups, Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import OutputError
from mpc_spearman.files import check_private, private_folder, write_whole
from mpc_spearman.version import __version__


class KeptRanks:
    """One owner's folder of ranks, for a run of the first `limit` rows of its table.

    Make it before the table is read: it then notices a file that is replaced meanwhile. `OutputError` if the
    folder cannot be made, `PlanError` if others may read it.
    """

    def __init__(self, folder: Path, owner: DataParty, limit: int | None) -> None:
        self._folder, self._owner, self._limit, self._stamp = folder, owner, limit, _stamp(owner.table)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            check_private(folder, folder.stat().st_mode, "--keep-ranks")
        except OSError as error:
            raise OutputError(f"--keep-ranks: cannot write to {folder}: {error.strerror}") from None

    def ranks(self, table: Table, rank: Callable[..., Ranks], say: Callable[[str], None]) -> Ranks:
        """Return a table's kept ranks; if there are none, have `rank` compute them, and keep these.

        `rank` gets a table, and the `matrix` to fill (`rank_columns`). `say` is called if kept ranks are
        used, or are damaged. `OutputError` if the folder cannot be written to.
        """
        order = None
        if table.rows is not None and (np.diff(table.rows) < 0).any():
            order = np.argsort(table.rows)
            table = table.take(order)
        file = self._folder / f"{self._digest(table)}.ranks"
        try:
            ranks = self._read(file, table, say)
            if ranks is None:
                with private_folder(self._folder, ".unfinished-") as unfinished:
                    ranks = self._rank(file, unfinished, table, rank, say)
        except OSError as error:
            raise OutputError(f"--keep-ranks: cannot write to {self._folder}: {error.strerror}") from None
        return ranks if order is None else Ranks(reordered(ranks.matrix, np.argsort(order)), ranks.groups)

    def _digest(self, table: Table) -> str:
        """Return a digest, 32 hexadecimal digits, of everything that the ranks depend on."""
        content = {
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
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]

    def _read(self, file: Path, table: Table, say: Callable[[str], None]) -> Ranks | None:
        """Return the ranks in a file, or None if there is no such file or the ranks cannot be used."""
        try:
            header = json.loads(file.with_suffix(".json").read_bytes())
            groups = tuple(Groups(tuple(map(tuple, sizes)), *numbers) for sizes, *numbers in header["groups"])
            count = len(table.columns)
            matrix = from_file(file, "r", (count, table.n), np.int32)
            checksum = _checksum(matrix, header["groups"], header["kept"])
            if len(groups) != count or header["sha256"] != checksum:
                raise ValueError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            say(f"{file} is damaged: the table is ranked again")
            return None
        if self._stamp != _stamp(self._owner.table):
            return None
        say(f"the table is not ranked again: its ranks of {header['kept']} are used")
        return Ranks(matrix, groups)

    def _rank(
        self,
        file: Path,
        unfinished: Path,
        table: Table,
        rank: Callable[..., Ranks],
        say: Callable[[str], None],
    ) -> Ranks:
        """Rank a table into a file in the folder `unfinished`, then move it to `file`."""
        part = unfinished / file.name
        opened = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        ranks = rank(table, matrix=mapped(opened, (len(table.columns), table.n), np.int32))
        if self._stamp != _stamp(self._owner.table):
            say("the table changed while it was read: its ranks are not kept")
            return ranks
        ranks.matrix.flush()  # type: ignore[attr-defined]  # onto the disk
        groups = [(group.how_many, group.skewness, group.gaps) for group in ranks.groups]
        kept_at = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
        header = {"kept": kept_at, "groups": groups, "sha256": _checksum(ranks.matrix, groups, kept_at)}
        part.replace(file)
        write_whole(file.with_suffix(".json"), json.dumps(header).encode(), durable=True)
        return ranks


def _stamp(table: Path | Query | None) -> list[object]:
    """Return a table's place and the times of its files; for a query, its database, user and settings.

    Passwords are left out: another one gives the same table.
    """
    if not isinstance(table, Query):
        assert table is not None
        return _file_stamps(table)
    kind, _, place = os.environ.get(table.variable, "").partition(":")
    if kind in ("sqlite", "duckdb"):
        return [os.getcwd(), *_file_stamps(Path(place))]
    address = urlsplit(f"{kind}:{place}")
    options = [option for option in parse_qsl(address.query) if "password" not in option[0]]
    user, _, host = address.netloc.rpartition("@")
    libpq = {name: value for name, value in os.environ.items() if name.startswith("PG") or name == "TZ"}
    libpq.pop("PGPASSWORD", None)
    return [user.partition(":")[0], host, address.path, options, sorted(libpq.items()), os.getcwd()]


def _file_stamps(table: Path) -> list[object]:
    """Return path, size and time of change of a file, or of all files in a folder."""
    stamps: list[object] = []
    with suppress(OSError):  # whoever reads it says why it cannot be
        for file in sorted(table.rglob("*")) if table.is_dir() else [table]:
            status = file.stat()
            stamps.append((str(file.absolute()), status.st_size, status.st_mtime_ns))
    return stamps


def _checksum(matrix: NDArray[np.int32], groups: object, kept_at: object) -> str:
    checksum = hashlib.sha256(json.dumps([groups, kept_at]).encode())
    for row in matrix:
        for _, part in parts(row, BLOCK):
            checksum.update(part.data)
    return checksum.hexdigest()

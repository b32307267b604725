"""Run directories as files: each is held by one run at a time, and written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from mpc_spearman.errors import OutputError
from mpc_spearman.files import create, lock, sync_folder
from mpc_spearman.findings.forms import CSV_PAIRS
from mpc_spearman.results.outcome import FORMS

SCHEMA_VERSION = 4

_LOCK = ".lock"
STATUS = "status.json"
PAIRS = "pairs.parquet"
# Bytes of a result at most, with names of 50 characters: for each feature, for each coefficient, and as much
# again for one that is in CSV files. The least is reserved before the parties meet: enough for 28,000
# coefficients.
_LEAST, _A_FEATURE, _A_COEFFICIENT, _IN_CSV = 1 << 24, 1_000, 150, 450
#: Every file that a run directory can hold. A directory with anything else is not replaced.
FILES = {form.file for form in FORMS.values() if form.file}
FILES |= {"result.json", "cost.csv", "pairs.csv", PAIRS, "report.html", "record.json", STATUS}


def replace(directory: str | Path, files: Mapping[str, bytes]) -> Path:
    """Make `directory` hold exactly `files`, or leave it as it was; see `Result.save`."""
    target = Path(directory).absolute()
    if target.is_symlink():  # write where it points to, do not turn the link into a directory
        target = target.resolve()
    # A sibling, so that the rename stays within one file system; `tempfile` draws on a seedable generator.
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        check_replaceable(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir(mode=0o700)  # a result is its party's alone, to pass on or not
        for name, content in files.items():
            create(part / name, content)
        swap({part: target})
    except OSError as error:
        raise OutputError(f"cannot write the run directory {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Reserve a run directory for one run, by a lock beside it that ends with the process.

    `OutputError` if another run holds it, or nothing can be written there.
    """
    directory = directory.resolve()  # one lock, however the place is spelt
    missing = [folder for folder in directory.parents if not folder.exists()]
    lock_file = directory.with_name(f".{directory.name}{_LOCK}")
    if lock_file.parent.exists() and not lock_file.parent.is_dir():
        raise OutputError(f"{lock_file.parent} exists and is not a directory")
    try:
        lock_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = lock(lock_file, os.O_RDWR | os.O_CREAT)
    except BlockingIOError:
        how = "wait for its end, or choose another folder"
        raise OutputError(f"another run is writing to {directory}: {how}") from None
    except OSError as error:
        raise OutputError(f"cannot write to {directory.parent}: {error.strerror}") from None
    try:
        yield
    finally:
        lock_file.unlink(missing_ok=True)
        os.close(file)
        for folder in missing:
            with suppress(OSError):  # gone already, or the results are in it
                folder.rmdir()


def check_replaceable(directory: str | Path) -> None:
    """Raise an `OutputError` unless the path is free, an empty directory or an earlier run directory."""
    target = Path(directory)
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError(f"{target} exists and is not a directory")
    names = {entry.name for entry in target.iterdir()}
    if foreign := sorted(names - FILES):
        raise OutputError(f"{target} is not replaced: it holds {foreign[0]!r}, which no run wrote")
    if names - {STATUS}:  # a run that failed leaves that alone
        try:
            read_summary(target)
        except OutputError as error:
            raise OutputError(f"{target} is not replaced: it is not empty and not a run directory") from error


class ReservedSpace:
    """Space on the disk for a run directory, held by a file without a name until it is released.

    A disk that fills up during a run would otherwise lose the result. The file ends with the process.
    """

    def __init__(self, directory: Path) -> None:
        self._folder = directory.parent
        self._file: int | None = None

    def reserve(self, features: int = 0, coefficients: int = 0) -> None:
        """Reserve space for a result about so many features and coefficients, or raise `OutputError`."""
        in_csv = coefficients if coefficients <= CSV_PAIRS else 0
        need = max(_LEAST, features * _A_FEATURE + coefficients * _A_COEFFICIENT + in_csv * _IN_CSV)
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                part = self._folder / f".reserved.{secrets.token_hex(8)}.part"
                self._file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                part.unlink()
            os.posix_fallocate(self._file, 0, need)
        except OSError as error:
            self.release()
            size = f"the results need up to {decimal(need)}"
            raise OutputError(f"cannot write to {self._folder}: {error.strerror}; {size}") from None

    def release(self) -> None:
        """Give the space back, for the result to be written there."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def write_status(directory: Path, text: str, *, first: bool = False) -> None:
    """Write ``status.json`` of a run that has reserved the directory (`locked`).

    The `first` time this makes the directory, and returns only once the disk has the file. `OutputError` if
    it cannot be written.
    """
    # Beside the directory, which a role replaces by another one in the end: nothing may come between.
    part = directory.with_name(f".{directory.name}.status.part")
    try:
        if first:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.unlink(missing_ok=True)  # of a run that was killed
        create(part, text.encode(), durable=first)
        part.replace(directory / STATUS)
        if first:
            sync_folder(directory)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OutputError(f"cannot write {directory / STATUS}: {error.strerror}") from None


def swap(moves: Mapping[Path, Path]) -> None:
    """Rename each part to its target, on one file system: all of them or, by `OSError`, none.

    What stood at a target survives until all are in place.
    """
    undo, asides = list[tuple[Path, Path]](), list[Path]()
    try:
        for part, target in moves.items():
            if target.exists():
                aside = part.with_name(f"{part.name}.{secrets.token_hex(4)}.old")
                asides.append(aside)
                undo.append((aside, target))
                target.rename(aside)
            undo.append((target, part))
            part.rename(target)
    except BaseException:
        for now, before in reversed(undo):
            if now.exists():  # else that step was not taken
                now.rename(before)
        raise
    for aside in asides:
        shutil.rmtree(aside, ignore_errors=True)


def read_bytes(path: Path) -> bytes:
    """Read a file of a run directory; `OutputError` if it cannot be."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error


def read_summary(directory: Path) -> dict[str, Any]:
    """Read ``result.json``; `OutputError` if it is missing, damaged or of another schema version."""
    path = directory / "result.json"
    parties = [] if path.exists() else sorted(file.parent.name for file in directory.glob("*/result.json"))
    if parties:
        raise OutputError(f"{directory} holds a whole run; name one party's folder: {', '.join(parties)}")
    if not path.exists():
        raise OutputError(f"{path} does not exist; name a party's folder of results, such as runs/demo/C")
    try:
        summary = json.loads(read_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise OutputError(f"{path} is damaged: {error}") from error
    version = summary.get("schema_version") if isinstance(summary, dict) else None
    if version != SCHEMA_VERSION:
        raise OutputError(f"{path} has schema version {version!r}; this package reads {SCHEMA_VERSION}")
    return dict(summary)

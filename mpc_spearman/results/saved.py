"""A result as the text of its files, and back.

Floats are written with `repr`, which reads back to the same float64; an undefined value is an empty cell.
``result.json`` has the SHA-256 of every other file, and of what else is in it: a run directory is read whole
or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mpc_spearman.errors import OutputError
from mpc_spearman.results import cells, run_directory
from mpc_spearman.results.dataframes import (
    CANONICAL_TOLD,
    COST_COLUMNS,
    ESTIMATORS,
    MATRIX_ROWS,
    RANKING,
    TIES,
    TOLD,
)
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    from mpc_spearman.results.result import Result

#: Which file each part of a result is in, but for those that are in ``result.json``.
FILES = {
    "coefficients": "matrix.csv",
    "columns": "columns.csv",
    "noise": "noise.csv",
    "pvalues": "pvalues.csv",
    "intervals": "intervals.csv",
    "qvalues": "qvalues.csv",
    "ranking": "ranking.csv",
    "estimators": "estimators.csv",
    "explained": "explained.csv",
    "canonical": "canonical.csv",
}
RECORD = "record.json"
_FROM_PLAN = ("protocol", "reveal", "estimator", "strength", "order")


def texts(result: Result) -> dict[str, str]:
    """Write a result as the text of each of its files."""
    from mpc_spearman.results import report  # only a saved result needs its page and the template engine

    held = result.holds
    about = {
        "schema_version": run_directory.SCHEMA_VERSION,
        "package_version": __version__,
        "party": result.party,
        "role": result.role,
        "n": result.n,
        **{key: result.plan.get(key) for key in _FROM_PLAN},
        "alignment": result.alignment,
        "offered": result.offered,
        "warnings": list(result.warnings),
        "holds": list(held),
        "features": list(result.strengths.index) if "strengths" in held else None,
        "strengths": _without_nan(result.strengths) if "strengths" in held else None,
        "counts": result.counts.tolist() if "counts" in held else None,
        "errors": _without_nan(result.errors) if "errors" in held else None,
        "plan": result.plan,
    }
    files = {"cost.csv": run_directory.csv_text(list(COST_COLUMNS), result.cost.itertuples(index=False))}
    for part in (
        "coefficients",
        "columns",
        "noise",
        "pvalues",
        "intervals",
        "qvalues",
        "explained",
        "canonical",
    ):
        if part in held:
            frame: pd.DataFrame = getattr(result, part)
            cells_of = frame.itertuples(index=False, name=None)
            rows = ([*key, *row] for key, row in zip(frame.index, cells_of, strict=True))
            files[FILES[part]] = run_directory.csv_text([*map(str, frame.index.names), *frame.columns], rows)
    if "ranking" in held:
        lines = result.ranking.reindex(columns=RANKING).itertuples(index=False)
        files["ranking.csv"] = run_directory.csv_text(RANKING, lines)
    if "estimators" in held:
        files["estimators.csv"] = run_directory.csv_text(
            ["feature", *ESTIMATORS], result.estimators.itertuples()
        )
    if result.record is not None:
        files[RECORD] = result.record
    files["report.html"] = report.render(result)
    return {"result.json": sealed(about, files), **files}


def sealed(about: dict[str, Any], files: Mapping[str, str]) -> str:
    """Write ``result.json`` with the digests of the other files and its own."""
    about = {
        **about,
        "files": {name: _digest(text.encode(errors="surrogatepass")) for name, text in files.items()},
    }
    about["digest"] = _own_digest(about)
    text = json.dumps(about, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # JSON escapes the control characters below the space only.
    return cells.CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}" if found[0] != "\n" else "\n", text)


def _own_digest(about: Mapping[str, Any]) -> str:
    """Digest all of ``result.json`` but this digest, in whatever order and spacing it is written."""
    content = {key: value for key, value in about.items() if key != "digest"}
    return _digest(json.dumps(content, sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _check_digests(folder: Path, about: Mapping[str, Any]) -> None:
    if about["digest"] != _own_digest(about):
        raise OutputError(f"{folder / 'result.json'} is damaged: it does not match the digest in it")
    for name, digest in about["files"].items():
        path = folder / name
        if name not in run_directory.FILES or _digest(run_directory.read_bytes(path)) != digest:
            raise OutputError(f"{path} is damaged: it does not match its digest in result.json")
    for path in folder.iterdir():
        if path.name not in (*about["files"], "result.json", "status.json"):
            raise OutputError(f"{path} does not belong to this result")


def _without_nan(numbers: pd.Series[float]) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers.tolist()]


def read(folder: Path) -> dict[str, Any]:
    """Read a run directory as what `Result` is made from.

    Raises
    ------
    OutputError
        If a file is missing, unexpected or damaged; it names the file.
    KeyError, TypeError, ValueError, AttributeError
        If ``result.json`` holds something else than it should.
    """
    about = run_directory.read_about(folder)
    _check_digests(folder, about)
    holds = set(about["holds"])
    for part, name in FILES.items():
        if (name in about["files"]) != (part in holds):
            raise OutputError(f"{folder / 'result.json'} is damaged: it contradicts itself about {name}")
    if any(about[key] != about["plan"].get(key) for key in _FROM_PLAN):
        raise OutputError(f"{folder / 'result.json'} is damaged: it contradicts the plan in it")
    if type(about["n"]) is not int:
        raise OutputError(f"{folder / 'result.json'} is damaged: its number of rows is no whole number")
    if about["alignment"] is not None and not re.fullmatch("[0-9a-f]{64}", str(about["alignment"])):
        raise OutputError(
            f"{folder / 'result.json'} is damaged: its alignment tag is not 64 hexadecimal digits"
        )
    parts: dict[str, Any] = {
        key: about[key] for key in ("plan", "party", "role", "n", "warnings", "alignment", "offered")
    }
    parts["cost"] = _cost(folder / "cost.csv")
    readers = {"coefficients": _matrix, "columns": _columns, "noise": _matrix, "ranking": _ranking}
    for part, reader in {**readers, "estimators": _estimators}.items():
        if part in holds:
            parts[part] = reader(folder / FILES[part])
    for part in ("strengths", "counts", "errors"):
        if part in holds:
            dtype = np.int64 if part == "counts" else np.float64
            parts[part] = pd.Series(about[part], about["features"], dtype=dtype)
    if "ranking" in holds and "strengths" not in holds:
        del parts["ranking"]["strength"]
    if "explained" in holds:
        parts["explained"] = _told(folder / "explained.csv", TOLD, str)
    if "canonical" in holds:
        parts["canonical"] = _told(folder / "canonical.csv", CANONICAL_TOLD, int)
    return parts


def read_record(folder: Path) -> str | None:
    """Read what all parties have signed, of a run directory that `read` has read."""
    file = folder / RECORD
    return run_directory.read_bytes(file).decode() if file.exists() else None


def _matrix(path: Path) -> pd.DataFrame:
    header, rows = run_directory.read_csv(path)
    return pd.DataFrame(
        np.array([list(map(_float, row[2:])) for row in rows]).reshape(len(rows), -1),
        index=_labels(rows),
        columns=list(map(cells.read, header[2:])),
    )


def _columns(path: Path) -> pd.DataFrame:
    _, rows = run_directory.read_csv(path)
    values = [(ties, _float(skewness)) for *_, ties, skewness in rows]
    return pd.DataFrame(values, index=_labels(rows), columns=TIES)


def _told(path: Path, columns: list[str], label: Callable[[str], Any]) -> pd.DataFrame:
    """Read the first columns of a table of a level outside the order; what follows from them is left."""
    _, rows = run_directory.read_csv(path)
    index = pd.MultiIndex.from_tuples([(cells.read(row[0]), label(cells.read(row[1]))) for row in rows])
    numbers = [list(map(_float, row[2 : 2 + len(columns)])) for row in rows]
    return pd.DataFrame(numbers, index=index, columns=columns)


def _labels(rows: list[list[str]]) -> pd.MultiIndex:
    names = [tuple(map(cells.read, row[:2])) for row in rows]
    return pd.MultiIndex.from_tuples(names, names=MATRIX_ROWS)


def _ranking(path: Path) -> pd.DataFrame:
    _, rows = run_directory.read_csv(path)
    values = [(int(position), cells.read(name), _float(mu)) for position, name, mu in rows]
    return pd.DataFrame(values, columns=RANKING)


def _estimators(path: Path) -> pd.DataFrame:
    _, rows = run_directory.read_csv(path)
    names = [cells.read(name) for name, *_ in rows]
    return pd.DataFrame([list(map(_float, row[1:])) for row in rows], names, ESTIMATORS)


def _cost(path: Path) -> pd.DataFrame:
    _, rows = run_directory.read_csv(path)
    read: dict[type, Callable[[str], Any]] = {str: cells.read, float: float, int: int}
    columns = zip(COST_COLUMNS.items(), zip(*rows, strict=True), strict=True)
    return pd.DataFrame({name: [read[kind](cell) for cell in column] for (name, kind), column in columns})


def _float(text: str) -> float:
    return float(text) if text else math.nan

"""A result as the text of its files, and back.

``result.json`` has the SHA-256 of every other file, and of what else is in it: a run directory is read whole
or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from mpc_spearman.config import Plan
from mpc_spearman.errors import NotRevealed, OutputError
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.tables import Form, labelled
from mpc_spearman.levels import findings_of
from mpc_spearman.results import cells, report, run_directory
from mpc_spearman.results.outcome import COST, TABLES, Outcome
from mpc_spearman.version import __version__

RECORD = "record.json"
_FROM_PLAN = ("protocol", "reveal", "estimator", "strength", "order")
_SERIES = [name for name, form in TABLES.items() if form.is_series]
_FLAGS = ("False", "True")  # which bool() would both take for True
_READ: dict[Callable[[Any], Any], Callable[[str], Any]] = {
    float: cells.number,
    int: int,
    bool: lambda text: bool(_FLAGS.index(text)),
}


def texts(result: Outcome) -> dict[str, str]:
    """Write a result as the text of each of its files."""
    held = result.findings.held
    series = {name: held[name].tolist() for name in _SERIES if name in held}
    about = {
        "schema_version": run_directory.SCHEMA_VERSION,
        "package_version": __version__,
        "party": result.party,
        "role": result.role,
        "n": result.n,
        **{key: getattr(result.plan, key) for key in _FROM_PLAN},
        "alignment": result.alignment,
        "offered": result.offered,
        "warnings": list(result.warnings),
        "holds": list(held),
        "features": list(held[next(iter(series))].index) if series else None,
        **dict.fromkeys(_SERIES),
        **{name: [None if math.isnan(one) else one for one in each] for name, each in series.items()},
        "plan": result.plan.shared(),
    }
    files = {"cost.csv": csv_text(COST, result.cost)}
    files |= {TABLES[name].file: csv_text(TABLES[name], held[name]) for name in held if name not in series}
    with suppress(NotRevealed):  # this copy has no numbers of single pairs
        pairs = result.findings.pairs()
        files["pairs.csv"] = cells.csv_text([*pairs.columns], pairs.itertuples(index=False, name=None))
    if result.record is not None:
        files[RECORD] = result.record
    files["report.html"] = report.render(result)
    return {"result.json": sealed(about, files), **files}


def sealed(about: dict[str, Any], files: Mapping[str, str]) -> str:
    """Write ``result.json`` with the digests of the other files and its own."""
    digests = {name: _digest(text.encode(errors="surrogatepass")) for name, text in files.items()}
    about = {**about, "files": digests}
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


def csv_text(form: Form, table: pd.DataFrame) -> str:
    """Write a table as CSV."""
    keys = table.index.to_frame().itertuples(index=False, name=None) if form.index else [()] * len(table)
    rows = table.itertuples(index=False, name=None)
    lines = ([*key, *row] for key, row in zip(keys, rows, strict=True))
    return cells.csv_text([*form.index, *table.columns], lines)


def read_csv(form: Form, text: str) -> pd.DataFrame:
    """Read what `csv_text` wrote; `ValueError` if it is something else."""
    header, rows = cells.read_csv(text)
    k = len(form.index)
    names = list(map(cells.read, header[k:]))
    values: Any
    if form.columns is None:
        values = np.array([[cells.number(cell) for cell in row[k:]] for row in rows])
    else:
        read = [_READ.get(kind, cells.read) for kind in form.columns.values()]
        values = [[of(cell) for of, cell in zip(read, row[k:], strict=True)] for row in rows]
    keys = [tuple(map(cells.read, row[:k])) for row in rows]
    index = labelled(keys if k > 1 else [key for (key,) in keys], form.index) if k else None
    table: pd.DataFrame = form.plain(pd.DataFrame(values, index=index, columns=names))
    return table


def read(folder: Path) -> tuple[Findings, dict[str, Any]]:
    """Read a run directory as the arguments of `Outcome`; errors are those that `Result.load` catches."""
    about = run_directory.read_about(folder)
    files = _as_written(folder, about)
    copy = Copy(_plan(folder, about), about["party"], about["role"], int(about["n"]))
    kind, tables = findings_of(copy.plan, copy.role), dict[str, Any]()
    for name in about["holds"]:
        form = kind.tables.get(name, TABLES[name])
        if form.is_series:
            kinds: Any = form.columns  # one, of floats or integers
            tables[name] = pd.Series(about[name], about["features"], dtype=next(iter(kinds.values())))
        else:
            tables[name] = read_csv(form, files[form.file])
    return kind(copy, tables), {
        **{key: about[key] for key in ("warnings", "alignment", "offered")},
        "cost": read_csv(COST, files["cost.csv"]),
        "record": files.get(RECORD),
    }


def _plan(folder: Path, about: Mapping[str, Any]) -> Plan:
    """Return the plan of a run directory; `OutputError` if this version cannot read it."""
    with suppress(ValidationError):
        plan = Plan.of_checked(about["plan"])
        if plan.shared() == about["plan"]:
            return plan
    writer = about["package_version"]
    why = "is damaged: this is not its version's plan"
    if writer != __version__:
        why = f"is a result of version {writer}, whose plans have other keys: install that version to read it"
    raise OutputError(f"{folder / 'result.json'} {why}")


def _as_written(folder: Path, about: Mapping[str, Any]) -> dict[str, str]:
    """Read all files, which have their digests."""
    if about["digest"] != _own_digest(about):
        raise OutputError(f"{folder / 'result.json'} is damaged: it does not match the digest in it")
    files = {}
    for name, digest in about["files"].items():
        data = run_directory.read_bytes(folder / name) if name in run_directory.FILES else b""
        if _digest(data) != digest:
            raise OutputError(f"{folder / name} is damaged: it does not match its digest in result.json")
        files[name] = data.decode()
    for path in folder.iterdir():
        if path.name not in (*files, "result.json", "status.json"):
            raise OutputError(f"{path} does not belong to this result")
    return files

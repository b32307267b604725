"""A result as the content of its files, and back.

``result.json`` has all tables but matrices, which are in ``pairs.parquet``: these two are read. CSV files and
the page repeat them for people. ``result.json`` also has the SHA-256 of every other file and of its own rest:
a run directory is read whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from mpc_spearman.config import Plan
from mpc_spearman.errors import OutputError
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.forms import CSV_PAIRS, Form, Labels, labelled, matrix_of
from mpc_spearman.levels import findings_of
from mpc_spearman.results import cells, report, run_directory
from mpc_spearman.results.outcome import COST, FORMS, Outcome
from mpc_spearman.results.run_directory import PAIRS
from mpc_spearman.version import __version__

RECORD = "record.json"
#: The columns of the table of pairs that are not numbers.
_NAMES = ["party", "source", "target"]
_FROM_PLAN = ("protocol", "reveal", "estimator", "strength", "order")
#: The types of JSON that stand for a column's; None is an undefined number.
_IN_JSON: dict[Any, set[type]] = {float: {float, int, type(None)}, int: {int}, bool: {bool}}


def files(result: Outcome, *, csv: bool = False) -> dict[str, bytes]:
    """Return a result as the content of its files, by name.

    With `csv`, pairs are in CSV files however many there are. `OutputError` if a name is not valid Unicode.
    """
    findings = result.findings
    pairs = _pairs(findings)
    tables = {name: _columns(FORMS[name], table) for name, table in findings.tables.items() if _in_json(name)}
    summary = {
        "schema_version": run_directory.SCHEMA_VERSION,
        "package_version": __version__,
        "party": result.party,
        "role": result.role,
        "n": result.n,
        **{key: getattr(result.plan, key) for key in _FROM_PLAN},
        "alignment": result.alignment,
        "offered": result.offered,
        "warnings": list(result.warnings),
        "holds": list(findings.tables),
        "plan": result.plan.shared(),
        "rows": list(findings.labels.sources),
        "features": list(findings.labels.target),
        "tables": {**tables, "cost": _columns(COST, result.cost)},
    }
    try:
        content = {name: text.encode() for name, text in _csv_files(findings, pairs, csv=csv)}
        content["cost.csv"] = cells.csv_text(_keyed(COST, result.cost)).encode()
        if pairs is not None:
            content[PAIRS] = _parquet(pairs)
        if result.record is not None:
            content[RECORD] = result.record.encode()
        content["report.html"] = report.render(result).encode()
        return {"result.json": sealed(summary, content), **content}
    except UnicodeError:
        raise OutputError("the result cannot be written: a name in it is not valid Unicode") from None


def unlike_csv_files(findings: Findings, folder: Path) -> list[str]:
    """Return which CSV files in a folder do not show these tables, or are missing."""
    files = _csv_files(findings, _pairs(findings), csv=(folder / "matrix.csv").exists())
    expected = {name: text.encode() for name, text in files}
    return [
        name
        for name, text in expected.items()
        if not (folder / name).exists() or run_directory.read_bytes(folder / name) != text
    ]


def _pairs(findings: Findings) -> pd.DataFrame | None:
    return findings.pairs() if findings.labels.sources else None


def _csv_files(findings: Findings, pairs: pd.DataFrame | None, *, csv: bool) -> Iterator[tuple[str, str]]:
    """Yield the name and text of every CSV file that shows tables."""
    labels = findings.labels
    few = csv or len(labels.sources) * len(labels.target) <= CSV_PAIRS
    for name, table in findings.tables.items():
        if FORMS[name].file and (few or _in_json(name)):
            yield FORMS[name].file, cells.csv_text(_keyed(FORMS[name], table))
    if pairs is not None and (csv or len(pairs) <= CSV_PAIRS):
        yield "pairs.csv", cells.csv_text(pairs)


def _in_json(name: str) -> bool:
    return not FORMS[name].pair


def _keyed(form: Form, table: Any) -> pd.DataFrame:
    """Return a table with what names its rows as its first columns."""
    if form.is_series:
        table = table.to_frame(*form.columns or ())
    keyed: pd.DataFrame = table
    if form.index:  # a target's feature may have the name of such a column
        keyed = table.reset_index(names=[*form.index], allow_duplicates=True)
    return keyed


def _columns(form: Form, table: Any) -> dict[str, list[Any]]:
    """Return a table as JSON has it: a list for each column, null for an undefined number."""
    return {
        str(name): [None if cell != cell else cell for cell in column.tolist()]
        for name, column in _keyed(form, table).items()
    }


def _parquet(pairs: pd.DataFrame) -> bytes:
    """Write the table of all pairs as Parquet: names as dictionaries, null for an undefined number."""
    import pyarrow as pa  # here, as a result without pairs does not need it
    import pyarrow.parquet as pq

    columns = {name: pa.array(pairs[name], from_pandas=True) for name in pairs.columns}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd", use_dictionary=_NAMES)
    return sink.getvalue()


def sealed(summary: dict[str, Any], content: Mapping[str, bytes]) -> bytes:
    """Return ``result.json`` with the digests of the other files and its own."""
    summary = {**summary, "files": {name: _digest(data) for name, data in content.items()}}
    summary["digest"] = _digest_of_json(summary)
    text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # JSON escapes the control characters below the space only.
    text = cells.CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}" if match[0] != "\n" else "\n", text)
    return text.encode()


def _digest_of_json(summary: Mapping[str, Any]) -> str:
    """Digest all of ``result.json`` but this digest, in whatever order and spacing it is written."""
    content = {key: value for key, value in summary.items() if key != "digest"}
    return _digest(json.dumps(content, sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(folder: Path) -> tuple[Findings, dict[str, Any]]:
    """Read a run directory as the arguments of `Outcome`; errors are those that `Result.load` catches."""
    summary = run_directory.read_summary(folder)
    content = _checked_files(folder, summary)
    plan = _plan(folder, summary)
    copy = Copy(plan, summary["party"], summary["role"], int(summary["n"]))
    kind, tables = findings_of(copy.plan, copy.role), summary["tables"]
    labels = Labels([(party, feature) for party, feature in summary["rows"]], summary["features"])
    pairs = _read_parquet(content[PAIRS], copy, labels) if PAIRS in content else None
    held = {}
    for name in summary["holds"]:
        form = kind.forms.get(name, FORMS[name])
        if form.pair and pairs is not None:
            held[name] = matrix_of(form, pairs, labels)
        else:
            held[name] = _table(form, tables[name])
    record = content[RECORD].decode() if RECORD in content else None
    more = {key: summary[key] for key in ("warnings", "alignment", "offered")}
    return kind(copy, held).checked(), {**more, "cost": _table(COST, tables["cost"]), "record": record}


def _table(form: Form, columns: Mapping[str, list[Any]]) -> Any:
    """Read what `_columns` wrote; `ValueError` if it is something else."""
    kinds: Any = {**dict.fromkeys(form.index, str), **(form.columns or {})}
    if list(columns) != list(kinds):
        raise ValueError(f"the {form.words} have the columns {', '.join(kinds)}")
    for name, column in columns.items():
        kind = int if name == "number" else kinds[name]
        if odd := {type(cell) for cell in column} - _IN_JSON.get(kind, {str}):
            raise ValueError(f"the {form.words} have a {odd.pop().__name__} in the column {name}")
    plain = {
        name: [math.nan if cell is None else cell for cell in columns[name]] for name in form.columns or ()
    }
    keys = [columns[name] for name in form.index]
    index = labelled([*zip(*keys, strict=True)] if len(keys) > 1 else keys[0], form.index) if keys else None
    table = pd.DataFrame(plain, index=index)
    return form.plain(table.squeeze(axis=1) if form.is_series else table)


def _plan(folder: Path, summary: Mapping[str, Any]) -> Plan:
    """Return the plan of a run directory; `OutputError` if this version cannot read it."""
    with suppress(ValidationError):
        plan = Plan.model_validate(summary["plan"])
        if plan.shared() == summary["plan"]:
            return plan
    writer = summary["package_version"]
    why = "is damaged: this is not its version's plan"
    if writer != __version__:
        why = f"is a result of version {writer}, whose plans have other keys: install that version to read it"
    raise OutputError(f"{folder / 'result.json'} {why}")


def _read_parquet(data: bytes, copy: Copy, labels: Labels) -> pd.DataFrame:
    """Read the table of pairs; `ValueError` if it has more or fewer than the copy can have.

    A small file can be of very many rows, or of a long name in each: rows are counted before any is read,
    and a name is in memory once, however many rows have it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(io.BytesIO(data), read_dictionary=_NAMES) as file:
        metadata, items = file.metadata, len(labels.sources) * len(labels.target)
        fits = metadata.num_rows == items or metadata.num_rows <= (copy.chosen(items) or -1)
        rows = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        if rows != metadata.num_rows or not fits:
            raise ValueError(f"the table of pairs has {rows:,} rows, and not each pair of its columns once")
        for field in file.schema_arrow:
            is_of_kind = pa.types.is_dictionary if field.name in _NAMES else pa.types.is_float64
            if not is_of_kind(field.type):
                raise ValueError(f"the table of pairs has a column {field.name} of {field.type}")
        table: pd.DataFrame = file.read().to_pandas()
    return table.astype(dict.fromkeys(_NAMES, object))


def _checked_files(folder: Path, summary: Mapping[str, Any]) -> dict[str, bytes]:
    """Read all files but ``result.json``; `OutputError` if one is damaged, missing or unknown."""
    if summary["digest"] != _digest_of_json(summary):
        raise OutputError(f"{folder / 'result.json'} is damaged: it does not match the digest in it")
    content = {}
    for name, digest in summary["files"].items():
        data = run_directory.read_bytes(folder / name) if name in run_directory.FILES else b""
        if _digest(data) != digest:
            raise OutputError(f"{folder / name} is damaged: it does not match its digest in result.json")
        content[name] = data
    for path in folder.iterdir():
        if path.name not in (*content, "result.json", "status.json"):
            raise OutputError(f"{path} does not belong to this result")
    return content

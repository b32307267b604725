"""A result as the text of its files, and back.

``result.json`` has the SHA-256 of every other file, and of what else is in it: a run directory is read whole
or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mpc_spearman.errors import OutputError
from mpc_spearman.results import cells, run_directory
from mpc_spearman.results.parts import COST, PARTS
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    from mpc_spearman.results.result import Result

RECORD = "record.json"
_FROM_PLAN = ("protocol", "reveal", "estimator", "strength", "order")
_SERIES = tuple(name for name, part in PARTS.items() if part.file == "result.json")


def texts(result: Result) -> dict[str, str]:
    """Write a result as the text of each of its files."""
    from mpc_spearman.results import report  # only a saved result needs its page and the template engine

    held = result.holds
    series = {name: getattr(result, name).tolist() for name in _SERIES if name in held}
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
        **dict.fromkeys(_SERIES),
        **{name: [None if math.isnan(one) else one for one in each] for name, each in series.items()},
        "plan": result.plan,
    }
    files = {"cost.csv": COST.text(result.cost)}
    for name in held:
        if name not in _SERIES:
            table = getattr(result, name)
            if name == "ranking":  # which has an empty column for strengths that are not known
                table = table.reindex(columns=PARTS[name].columns)
            files[PARTS[name].file] = PARTS[name].text(table)
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


def read(folder: Path) -> dict[str, Any]:
    """Read a run directory as what `Result` is made from; errors are those that `Result.load` catches."""
    about = run_directory.read_about(folder)
    files = _as_written(folder, about)
    parts: dict[str, Any] = {
        key: about[key] for key in ("plan", "party", "role", "n", "warnings", "alignment", "offered")
    }
    parts |= {"cost": COST.read(files["cost.csv"]), "record": files.get(RECORD)}
    for name in about["holds"]:
        if name in _SERIES:
            dtype = np.int64 if name == "counts" else np.float64
            parts[name] = pd.Series(about[name], about["features"], dtype=dtype)
        else:
            parts[name] = PARTS[name].read(files[PARTS[name].file])
    if "ranking" in parts and "strengths" not in parts:
        del parts["ranking"]["strength"]
    return parts


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

"""What the benchmarks share: ways measured in turn, the environment in a line, and tables put into pages.

A figure is the median of several, and a ratio that of two ways that took turns in one sitting, so that both
had the same machine, whatever else it did. The line says what machine that was, and how busy.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mpc_spearman.comparison.table import machine

ROOT = Path(__file__).parents[1]
COSTS = ROOT / "docs" / "costs.md"
REPEATS = 5
_END = "<!-- end of what is made -->\n"


def parser(doc: str | None, *, writes: bool = True) -> argparse.ArgumentParser:
    """Return a parser for a benchmark's options; with ``--write``, unless it writes nothing."""
    options = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if writes:
        options.add_argument("--write", action="store_true", help="put the table into its page")
    return options


def plan(paths: Mapping[str, Path] | None = None, **settings: Any) -> dict[str, Any]:
    """Return a plan of C, B and A with these settings; `paths` are their tables, by party."""
    entries = {party: {"name": party} for party in "CBA"}
    for party, path in (paths or {}).items():
        entries[party]["table"] = str(path)
    parties = {"coordinator": entries["C"], "target": entries["B"], "sources": [entries["A"]]}
    return {"parties": parties, **settings}


def in_turn(
    ways: Mapping[str, Callable[[], float]], repeats: int = REPEATS, note: str = ""
) -> dict[str, float]:
    """Run all ways one after the other, `repeats` times; return each one's median result, such as seconds.

    `note` says on standard error what is measured.
    """
    results: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(1, repeats + 1):
        for name, way in ways.items():
            print(f"{note} {name}, {turn} of {repeats}", file=sys.stderr)
            results[name].append(way())
    return {name: statistics.median(values) for name, values in results.items()}


def environment(*packages: str, load: float | None = None) -> str:
    """Return a sentence with the day, processor, cores, load (now, unless it is given) and versions."""
    about = machine()
    versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)]
    busy = os.getloadavg()[0] if load is None else load
    where = f"{about['processor']}, {about['cores']} cores with a load of {busy:.1f}"
    return f"{date.today():%Y-%m-%d}, {where}; {', '.join(versions)}."


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def show(text: str, script: str, *, write: bool, page: Path = COSTS) -> None:
    """Print a benchmark's text; with `write`, put it into its page, in place of the script's earlier text.

    `text` ends with a line end, and `script` is the benchmark's ``__file__``. In the page, the line with the
    script's command marks the place.
    """
    print(text)
    if write:
        begin = f"<!-- made by: python benchmarks/{Path(script).name} --write -->\n"
        before, rest = page.read_text(encoding="utf-8").split(begin)
        page.write_text(before + begin + text + _END + rest.split(_END, 1)[1], encoding="utf-8")

"""What the benchmarks share: their command, ways measured in turn, tables, and the environment in a sentence.

A figure is the median of several, and a ratio that of two ways that took turns in one sitting, so that both
had the same machine, whatever else it did. The sentence says what machine that was, and how busy.
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
from typing import Any, TypeVar

import numpy as np
from rich.filesize import decimal

from mpc_spearman import Result
from mpc_spearman.comparison.table import machine
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.results.costs import totals
from mpc_spearman.statistics.columns import Floats

Outcome = TypeVar("Outcome")

ROOT = Path(__file__).parents[1]
REPEATS = 5
_LOAD = os.getloadavg()[0]  # before anything is measured
_END = "<!-- end of what is made -->\n"


def publish(text: Callable[..., str], page: str = "costs.md", **numbers: str) -> None:
    """Run the command of a benchmark: print its text; with ``--write``, put it into a page of docs/.

    `text` measures and returns it, with a line end. The command's line in the page says where it belongs.
    Further options, which are whole numbers, go to `text` by name; `numbers` has the help of each.
    """
    script: Any = sys.modules["__main__"]
    parser = argparse.ArgumentParser(description=script.__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"put the text into docs/{page}")
    for name, meaning in numbers.items():
        parser.add_argument(f"--{name}", type=int, help=meaning)
    options = vars(parser.parse_args())
    write = options.pop("write")
    measured = text(**options)
    print(measured)
    if write:
        path = ROOT / "docs" / page
        begin = f"<!-- made by: python benchmarks/{Path(script.__file__).name} --write -->\n"
        before, after = path.read_text(encoding="utf-8").split(begin)
        path.write_text(before + begin + measured + _END + after.split(_END, 1)[1], encoding="utf-8")


def plan(paths: Mapping[str, Path] | None = None, **settings: Any) -> dict[str, Any]:
    """Return a plan of C, B and A with these settings; `paths` are their tables, by party."""
    entries = {party: {"name": party} for party in "CBA"}
    for party, path in (paths or {}).items():
        entries[party]["table"] = str(path)
    parties = {"coordinator": entries["C"], "target": entries["B"], "sources": [entries["A"]]}
    return {"parties": parties, **settings}


def in_turn(
    ways: Mapping[str, Callable[[], Outcome]], repeats: int = REPEATS, note: str = ""
) -> dict[str, list[Outcome]]:
    """Run all ways one after the other, `repeats` times; return what each of them returned.

    `note` says on standard error what is measured.
    """
    outcomes: dict[str, list[Outcome]] = {name: [] for name in ways}
    for turn in range(1, repeats + 1):
        for name, way in ways.items():
            print(f"{note} {name}, {turn} of {repeats}", file=sys.stderr)
            outcomes[name].append(way())
    return outcomes


def median_seconds(runs: Iterable[Result]) -> float:
    """Return how long runs took after start-up."""
    return statistics.median(totals(run).seconds for run in runs)


def median_memory(runs: Iterable[Result], parties: str = "AB") -> str:
    """Return the peak memory of the party that took most of these."""
    peaks = [dict(totals(run).memory) for run in runs]
    return decimal(int(statistics.median(max(peak[party] for party in parties) for peak in peaks)))


def environment(*packages: str) -> str:
    """Return a sentence with the day, processor, cores, load at the start, and versions."""
    processor, cores = machine().values()
    versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)]
    computer = f"{processor}, {cores} cores with a load of {_LOAD:.1f}"
    return f"{date.today():%Y-%m-%d}, {computer}; {', '.join(versions)}."


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def unit_vectors(ranks: Ranks) -> Floats:
    """Return ranked columns scaled to length 1, (m, n): coefficients are their inner products."""
    return np.asarray(ranks.matrix / np.linalg.norm(ranks.matrix, axis=1, keepdims=True))

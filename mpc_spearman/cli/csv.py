"""Write the pairs of a result as CSV files too.

A folder with more than 100,000 pairs has them in pairs.parquet alone. This adds pairs.csv and matrix.csv,
with all digits.
"""

from __future__ import annotations

import argparse

from mpc_spearman.cli.arguments import path
from mpc_spearman.results import run_directory
from mpc_spearman.results.result import Result


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=path, help="a party's folder of results")


def run(parsed: argparse.Namespace) -> int:
    """Write the folder anew, with these files; how its run ended stays in it. `NotRevealed` without pairs."""
    with run_directory.locked(parsed.folder):
        result = Result.load(parsed.folder)
        pairs = result.coefficients.size
        file = parsed.folder / run_directory.STATUS
        status = file.read_text(encoding="utf-8") if file.exists() else None
        result.save(parsed.folder, csv=True)
        if status is not None:
            run_directory.write_status(parsed.folder, status)
    print(f"{parsed.folder}: pairs.csv and matrix.csv of {pairs:,} pairs")
    return 0

"""Rebuild insurer.csv and clinic.csv, byte for byte, from the copy of the data that statsmodels ships.

::

    pip install statsmodels
    python data/make_demo_tables.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

INSURER = ["lncoins", "idp", "lpi", "fmde"]
CLINIC = ["mdvis", "physlm", "disea", "hlthg", "hlthf", "hlthp"]


def demo_tables() -> dict[str, pd.DataFrame]:
    """Return the two tables by file name; row i of the original has the id ``p`` and i in five digits."""
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data
    data.insert(0, "id", [f"p{row:05d}" for row in range(1, len(data) + 1)])
    return {"insurer.csv": data[["id", *INSURER]], "clinic.csv": data[["id", *CLINIC]]}


def write(folder: Path) -> None:
    """Write both tables; floats as the shortest text that reads back as the same number."""
    for name, table in demo_tables().items():
        table.to_csv(folder / name, index=False, lineterminator="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

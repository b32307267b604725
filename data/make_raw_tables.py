"""Make raw/members.csv and raw/patients.csv: the demo's tables as two organisations would really have them.

::

    python data/make_raw_tables.py [FOLDER]

Of each table other rows are taken, in another order; ids are written differently; cells are missing. The
insurer's is exported with semicolons and decimal commas; the clinic's three flags of health are one column of
text. Rows and gaps are drawn from a fixed seed, so the files are the same again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
ROWS = 6000  # of the 8,000 first people of the demo, each table's own choice


def raw_tables() -> dict[str, pd.DataFrame]:
    """Return the two tables by file name."""
    draw = np.random.Generator(np.random.PCG64(2026))
    insurer = pd.read_csv(HERE / "insurer.csv", nrows=8000)
    clinic = pd.read_csv(HERE / "clinic.csv", nrows=8000)
    levels = [clinic["hlthp"] == 1, clinic["hlthf"] == 1, clinic["hlthg"] == 1]
    clinic["health"] = np.select(levels, ["poor", "fair", "good"], "excellent")
    clinic = clinic.drop(columns=["hlthg", "hlthf", "hlthp"])
    members = insurer.iloc[draw.permutation(len(insurer))[:ROWS]].rename(columns={"id": "member"})
    patients = clinic.iloc[draw.permutation(len(clinic))[:ROWS]].rename(columns={"id": "patient"})
    ids = members["member"].str.upper()
    members["member"] = ids.where(draw.random(ROWS) > 0.1, ids + " ")
    for table, column, share in (
        (members, "fmde", 0.02),
        (patients, "disea", 0.03),
        (patients, "health", 0.01),
    ):
        table[column] = table[column].mask(draw.random(ROWS) < share)
    return {"members.csv": members, "patients.csv": patients}


def write(folder: Path) -> None:
    """Write both tables."""
    made = raw_tables()
    made["members.csv"].to_csv(
        folder / "members.csv", index=False, lineterminator="\n", sep=";", decimal=",", na_rep="NA"
    )
    made["patients.csv"].to_csv(folder / "patients.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "raw")

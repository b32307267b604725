"""Rebuild the demo's tables, byte for byte.

::

    pip install statsmodels
    python data/make_demo_tables.py [FOLDER]

insurer.csv and clinic.csv come from the copy of the data that statsmodels ships; insurer_raw.csv and
clinic_raw.csv from these two, which need not be made again for that.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

INSURER = ["lncoins", "idp", "lpi", "fmde"]
CLINIC = ["mdvis", "physlm", "disea", "hlthg", "hlthf", "hlthp"]


def demo_tables() -> dict[str, pd.DataFrame]:
    """Return the two tables by file name; row i of the original has the id ``p`` and i in five digits."""
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data
    data.insert(0, "id", [f"p{row:05d}" for row in range(1, len(data) + 1)])
    return {"insurer.csv": data[["id", *INSURER]], "clinic.csv": data[["id", *CLINIC]]}


def raw_tables(insurer: pd.DataFrame, clinic: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return by file name what the two have before anyone prepares anything, from `demo_tables`.

    7,000 people are insured and 6,000 are patients, 4,500 both, each in an order of its own. The clinic
    writes ids in capitals, some with a space behind them; the insurer has 4 people twice. Both lack values.
    """
    rng = np.random.default_rng(1974)
    people = rng.permutation(len(insurer))
    mine = insurer.iloc[rng.permutation(people[:7000])].reset_index(drop=True)
    theirs = clinic.iloc[rng.permutation(people[2500:8500])].reset_index(drop=True)
    mine = pd.concat([mine, mine.iloc[rng.choice(7000, 4, replace=False)]], ignore_index=True)
    theirs["id"] = theirs["id"].str.upper() + np.where(rng.random(6000) < 0.02, " ", "")
    for table, column, share in ((mine, "lpi", 0.02), (theirs, "mdvis", 0.03), (theirs, "disea", 0.01)):
        table[column] = table[column].astype(object).mask(rng.random(len(table)) < share, "NA")
    return {"insurer_raw.csv": mine, "clinic_raw.csv": theirs}


def write(folder: Path) -> None:
    """Write all tables; floats as the shortest text that reads back as the same number."""
    tables = demo_tables()
    tables |= raw_tables(tables["insurer.csv"], tables["clinic.csv"])
    for name, table in tables.items():
        table.to_csv(folder / name, index=False, lineterminator="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

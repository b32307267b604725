"""Pairs of raw tables as analysts get them, and the same tables cleaned by hand; made up, from a seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

N = 400


def people(seed: int) -> tuple[np.random.Generator, list[str], pd.Series]:
    """Ids of eight digits, many of which begin with 0, and something that all columns have to do with."""
    rng = np.random.default_rng(seed)
    ids = [f"{value:08d}" for value in rng.choice(30_000_000, N, replace=False)]
    return rng, ids, pd.Series(rng.normal(size=N), ids)


def german(folder: Path) -> tuple[Path, Path]:
    """An export of Excel in Germany: semicolons, decimal commas, cp1252, numbers that lost their zeros."""
    rng, ids, x = people(1)
    noise = lambda: pd.Series(rng.normal(size=N), ids)  # noqa: E731
    comma = lambda values, digits: [f"{value:.{digits}f}".replace(".", ",") for value in values]  # noqa: E731
    day = pd.Timestamp("2021-06-15") + pd.to_timedelta((60 * (x + noise())).astype(int), "D")
    turnover = np.exp(9 + 0.4 * x + noise()).astype(int)
    costs, crp = np.exp(6 + x + noise()), 8 + 4 * x + 2 * noise()
    table = pd.DataFrame(
        {
            "Nr.": range(1, N + 1),
            "Versicherten-Nr.": [value.lstrip("0") for value in ids],
            "Größe": comma(1.72 + 0.08 * x + 0.05 * noise(), 3),
            "BMI": comma(26 + 3 * x + 2 * noise(), 1),
            "CRP": [cell if value >= 5 else "<5" for cell, value in zip(comma(crp, 1), crp, strict=True)],
            "Kosten": [f"{value} EUR" for value in comma(costs, 2)],
            "Umsatz": [f"{value:,}".replace(",", ".") for value in turnover],
            "Raucher": np.where(x + noise() > 0, "ja", "nein"),
            "Aufnahme": day.dt.strftime("%d.%m.%Y"),
        }
    )
    table.loc[::11, "BMI"] = "k.A."
    table.to_csv(folder / "versicherte.csv", sep=";", index=False, encoding="cp1252", lineterminator="\r\n")
    clinic = pd.DataFrame(
        {"patient": ids, "score": x + noise(), "stage": np.digitize(x + noise(), [-1, 0, 1])}
    )
    clinic.sample(350, random_state=1).to_csv(folder / "klinik.csv", index=False)
    return folder / "versicherte.csv", folder / "klinik.csv"


def german_cleaned(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    raw = pd.read_csv(folder / "versicherte.csv", sep=";", encoding="cp1252", dtype=str).drop(columns="Nr.")
    number = lambda cells: pd.to_numeric(cells.str.replace(",", "."), errors="coerce")  # noqa: E731
    cleaned = pd.DataFrame(
        {
            "id": raw["Versicherten-Nr."].str.zfill(8),
            **{name: number(raw[name]) for name in ("Größe", "BMI", "CRP")},  # k.A. and <5: missing
            "Kosten": number(raw["Kosten"].str.removesuffix(" EUR")),
            "Umsatz": raw["Umsatz"].str.replace(".", "").astype(int),
            "Raucher": raw["Raucher"].map({"nein": 0, "ja": 1}),
            "Aufnahme": pd.to_datetime(raw["Aufnahme"], format="%d.%m.%Y").astype("int64"),
        }
    )
    return cleaned, pd.read_csv(folder / "klinik.csv", dtype={"patient": str}).rename(
        columns={"patient": "id"}
    )


def claims(folder: Path) -> tuple[Path, Path]:
    """Claims, several of most people, whose numbers lost their zeros; and a clinic's table, one row each."""
    rng, ids, x = people(2)
    of = np.repeat(ids, rng.poisson(np.exp(0.5 + 0.5 * x)) + 1)
    table = pd.DataFrame(
        {
            "member_no": [int(value) for value in of],
            "claim": [f"C{value:06d}" for value in rng.permutation(len(of))],
            "cost": np.round(np.exp(4 + 0.4 * x[of].to_numpy() + rng.normal(size=len(of))), 1),
            "days": rng.poisson(np.exp(x[of].to_numpy())),
            "age": pd.Series(rng.integers(20, 90, N), ids)[of].to_numpy() + rng.integers(0, 2, len(of)),
            "male": pd.Series(rng.integers(0, 2, N), ids)[of].to_numpy(),
        }
    )
    table.loc[::17, "days"] = np.nan
    table = table.sample(frac=1, random_state=3)
    table.to_csv(folder / "claims.csv", index=False)
    noise = rng.normal(size=(2, N))
    clinic = pd.DataFrame({"id": ids, "pulse": np.round(70 + 5 * x + 9 * noise[0]), "risk": x + noise[1]})
    clinic.sample(360, random_state=2).to_csv(folder / "clinic.csv", index=False)
    return folder / "claims.csv", folder / "clinic.csv"


def claims_cleaned(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = pd.read_csv(folder / "claims.csv")
    cents = table.assign(cost=(10 * table["cost"]).round().astype(int))  # so that equal sums tie
    how = {
        "claim": "count",
        "cost": "sum",
        "days": lambda days: days.sum(min_count=1),
        "age": "max",
        "male": "max",
    }
    people = cents.groupby("member_no").agg(how).reset_index()
    people.insert(0, "id", people.pop("member_no").map("{:08d}".format))
    return people, pd.read_csv(folder / "clinic.csv", dtype={"id": str})


def survey(folder: Path) -> tuple[Path, Path]:
    """Tables as R and pandas write them: row names, codes for missing values, days that stand for none."""
    rng, ids, x = people(3)
    who = [f"P-{value}" for value in ids]
    day = pd.Timestamp("2015-01-01") + pd.to_timedelta(
        (200 * (x.to_numpy() + rng.normal(size=N))).astype(int), "D"
    )
    table = pd.DataFrame(
        {
            "subject": who,
            "pain": np.clip(np.round(6 + x.to_numpy() + rng.normal(size=N)), 4, 9).astype(int),
            "hba1c": np.round(6.5 + x.to_numpy() + rng.normal(size=N), 1),
            "visits": rng.poisson(np.exp(0.5 * x.to_numpy())) + 1,
            "left": day.strftime("%Y-%m-%d"),
        }
    )
    for name, code, every in (("pain", -1, 9), ("hba1c", 999, 13), ("left", "9999-12-31", 7)):
        table.loc[rng.permutation(N)[: N // every], name] = code
    rows = table.assign(subject='"' + table["subject"] + '"', left='"' + table["left"] + '"').astype(str)
    head = '"","subject","pain","hba1c","visits","left"\n'
    lines = "".join(f'"{row}",{",".join(cells)}\n' for row, cells in enumerate(rows.to_numpy(), 1))
    (folder / "survey.csv").write_text(head + lines)
    clinic = pd.DataFrame({"subject": who, "y": x.to_numpy() + rng.normal(size=N), "z": rng.normal(size=N)})
    clinic.sample(370, random_state=4).to_csv(folder / "lab.csv")  # with the index, as pandas does by default
    return folder / "survey.csv", folder / "lab.csv"


def survey_cleaned(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    survey, lab = (pd.read_csv(folder / f"{name}.csv", index_col=0) for name in ("survey", "lab"))
    survey["pain"] = survey["pain"].where(survey["pain"] != -1)
    survey["hba1c"] = survey["hba1c"].where(survey["hba1c"] != 999)
    survey["left"] = survey["left"].where(survey["left"] != "9999-12-31").str.replace("-", "").astype(float)
    return tuple(table.rename(columns={"subject": "id"}) for table in (survey, lab))  # type: ignore[return-value]


PAIRS: dict[str, Callable[[Path], tuple[Path, Path]]] = {"german": german, "claims": claims, "survey": survey}

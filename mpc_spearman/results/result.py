"""One party's copy of a run's result: what it holds, and how it is kept on disk.

A run directory holds ``result.json``, ``cost.csv``, ``report.html`` and, as far as the run revealed them to
this party, ``matrix.csv``, ``pvalues.csv``, ``ranking.csv`` and ``estimators.csv``. Floats are written with
`repr`, which reads back to the same float64; an undefined value is an empty cell.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from mpc_spearman.config import GRANTS, LEVELS, within
from mpc_spearman.errors import NotRevealed, OutputError
from mpc_spearman.results import run_directory
from mpc_spearman.results.tables import (
    COST_COLUMNS,
    ESTIMATORS,
    RANKING,
    plain_cost,
    plain_estimators,
    plain_matrix,
    plain_ranking,
    plain_series,
    read_cost,
    read_estimators,
    read_matrix,
    read_ranking,
)
from mpc_spearman.version import __version__

RoleName = Literal["coordinator", "target", "source"]
Part = Literal["coefficients", "pvalues", "strengths", "counts", "ranking", "estimators"]

#: The level of ``reveal``, and grant of ``results``, that each part takes.
_NEEDS: dict[Part, str] = {
    "coefficients": "coefficients",
    "pvalues": "coefficients",
    "strengths": "strengths",
    "counts": "strengths",
    "ranking": "ranking",
    "estimators": "coefficients",
}
_FILES: dict[Part, str] = {
    "coefficients": "matrix.csv",
    "pvalues": "pvalues.csv",
    "ranking": "ranking.csv",
    "estimators": "estimators.csv",
}
_TAG = re.compile(r"[0-9a-f]{64}")
_FROM_PLAN = ("protocol", "reveal", "estimator", "strength", "order")

_T = TypeVar("_T")


def _without_nan(numbers: pd.Series[float]) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers.tolist()]


class Result:
    """What one party knows when a run has ended.

    Everything is copied in and copied out, so a result does not change once it exists.

    Parameters
    ----------
    plan : mapping
        The plan's shared part, as ``Plan.shared()`` gives it.
    party : str
        Whose copy this is.
    role : {"coordinator", "target", "source"}
        That party's role.
    n : int
        Aligned rows.
    cost : DataFrame
        Columns `COST_COLUMNS`, one row per party and phase.
    warnings : sequence of str
        Sentences a reader of the result must know.
    coefficients, pvalues : DataFrame, optional
        float64, shape (m_A, m_B): rows a MultiIndex (party, feature) over the sources' features, source by
        source, columns the target's features. NaN where undefined. A source's copy has its own rows only.
    strengths : Series, optional
        float64, length m_B, indexed by the target's features in its table's order. Needs `ranking`. At the
        coordinator as it opened them, elsewhere as they were published.
    counts : Series, optional
        int64, same index: over how many coefficients each strength is the mean.
    ranking : DataFrame, optional
        Columns ``position`` (from 1, shared by equal strengths), ``feature`` and, unless only the order is
        known, ``strength``: the published ones, from which the order is made at every party.
    precision : mapping of str to float
        The steps, by ``coefficients`` and ``strengths``, on whose multiples this copy's published numbers
        lie; at the coordinator those of what it passes on. Empty where they are exact.
    estimators : DataFrame, optional
        float64, same index as `strengths`, columns ``tie_corrected`` and ``paper``: the strengths under both.
    alignment : str, optional
        The tag of the row ids that :mod:`mpc_spearman.data.ids` makes: 64 hexadecimal digits.

    Raises
    ------
    ValueError
        If the parts contradict each other.

    Notes
    -----
    A part that was not given raises `NotRevealed` when asked for, with the setting that withheld it.
    """

    def __init__(
        self,
        *,
        plan: Mapping[str, Any],
        party: str,
        role: RoleName,
        n: int,
        cost: pd.DataFrame,
        warnings: Sequence[str] = (),
        coefficients: pd.DataFrame | None = None,
        pvalues: pd.DataFrame | None = None,
        strengths: pd.Series[float] | None = None,
        counts: pd.Series[int] | None = None,
        ranking: pd.DataFrame | None = None,
        estimators: pd.DataFrame | None = None,
        precision: Mapping[str, float] = MappingProxyType({}),
        alignment: str | None = None,
    ) -> None:
        self._plan: dict[str, Any] = json.loads(json.dumps(plan, allow_nan=False))
        self._party, self._role, self._n = party, role, int(n)
        self._warnings = tuple(warnings)
        self._alignment = alignment
        self._precision = {str(part): float(step) for part, step in precision.items()}
        self._cost = plain_cost(cost)
        self._coefficients = None if coefficients is None else plain_matrix(coefficients)
        self._pvalues = None if pvalues is None else plain_matrix(pvalues)
        self._strengths = None if strengths is None else plain_series(strengths, np.float64, "strength")
        self._counts = None if counts is None else plain_series(counts, np.int64, "count")
        self._ranking = None if ranking is None else plain_ranking(ranking)
        self._estimators = None if estimators is None else plain_estimators(estimators)
        self._check()

    def _check(self) -> None:
        matrix, strengths, ranking = self._coefficients, self._strengths, self._ranking
        if self._alignment is not None and not _TAG.fullmatch(self._alignment):
            raise ValueError("the tag of the row ids is not 64 hexadecimal digits")
        if self._pvalues is not None and (
            matrix is None
            or not self._pvalues.index.equals(matrix.index)
            or not self._pvalues.columns.equals(matrix.columns)
        ):
            raise ValueError("the p-values are not those of the coefficients: other rows or columns")
        if matrix is not None and (strengths is None or list(matrix.columns) != list(strengths.index)):
            raise ValueError("coefficients need strengths for the same target features")
        if self._counts is not None and (strengths is None or not self._counts.index.equals(strengths.index)):
            raise ValueError("the counts are not those of the strengths: other features")
        both = self._estimators
        if both is not None and (strengths is None or not both.index.equals(strengths.index)):
            raise ValueError("the strengths under both estimators are not those of the same features")
        if strengths is None:
            if ranking is not None and "strength" in ranking:
                raise ValueError("the ranking has strengths, the result has none")
        elif ranking is None or "strength" not in ranking:
            raise ValueError("strengths need a ranking with strengths")
        elif sorted(ranking["feature"]) != sorted(strengths.index) or not np.allclose(
            strengths.loc[list(ranking["feature"])],
            ranking["strength"],
            rtol=0,
            atol=max(self._precision.values(), default=0.0) if self._role == "coordinator" else 0.0,
            equal_nan=True,
        ):
            raise ValueError("the ranking and the strengths differ")

    def __repr__(self) -> str:
        held = ", ".join(part for part in _NEEDS if self.withheld(part) is None) or "nothing"
        return (
            f"<Result of {self._role} {self._party!r}: n={self._n}, protocol={self._plan.get('protocol')}, "
            f"reveal={self._plan.get('reveal')}, estimator={self._plan.get('estimator')}; holds {held}>"
        )

    @property
    def plan(self) -> dict[str, Any]:
        """The shared part of the plan that was run."""
        copy: dict[str, Any] = json.loads(json.dumps(self._plan))
        return copy

    @property
    def party(self) -> str:
        """Whose copy this is."""
        return self._party

    @property
    def role(self) -> RoleName:
        """That party's role."""
        return self._role

    @property
    def n(self) -> int:
        """Aligned rows."""
        return self._n

    @property
    def precision(self) -> dict[str, float]:
        """Steps on whose multiples published ``coefficients`` and ``strengths`` lie; empty where exact.

        The coordinator's own coefficients, p-values and strengths are not rounded; its ranking is.
        """
        return dict(self._precision)

    @property
    def alignment(self) -> str | None:
        """The target's tag of the row ids and their order, for merging; None without an alignment key."""
        return self._alignment

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before using the numbers."""
        return self._warnings

    @property
    def cost(self) -> pd.DataFrame:
        """Cost per party and phase; columns `COST_COLUMNS`. Data parties see their own only."""
        return self._cost.copy()

    @property
    def coefficients(self) -> pd.DataFrame:
        """The matrix M, float64, shape (m_A, m_B); NaN where undefined. A source has its own rows only."""
        return self._revealed("coefficients", self._coefficients).copy()

    @property
    def pvalues(self) -> pd.DataFrame:
        """Two-sided p-values of M, same shape; NaN where undefined."""
        return self._revealed("pvalues", self._pvalues).copy()

    @property
    def strengths(self) -> pd.Series[float]:
        """Strength mu by target feature, in the target's table order; NaN where nothing is defined."""
        return self._revealed("strengths", self._strengths).copy()

    @property
    def counts(self) -> pd.Series[int]:
        """Over how many coefficients each strength is the mean."""
        return self._revealed("counts", self._counts).copy()

    @property
    def ranking(self) -> pd.DataFrame:
        """The list L: columns position, feature and, where known, strength. Undefined strengths come last."""
        return self._revealed("ranking", self._ranking).copy()

    @property
    def estimators(self) -> pd.DataFrame:
        """Strengths under both estimators, by target feature; the coordinator's alone, who knows all ties."""
        return self._revealed("estimators", self._estimators).copy()

    def _revealed(self, part: Part, value: _T | None) -> _T:
        if value is None:
            raise NotRevealed(self.withheld(part) or "")
        return value

    def withheld(self, part: Part) -> str | None:
        """Say why a part is missing.

        Parameters
        ----------
        part : {"coefficients", "pvalues", "strengths", "counts", "ranking", "estimators"}
            The attribute asked for.

        Returns
        -------
        str or None
            A sentence naming the level or grant that withheld it; None if this result has it.
        """
        if getattr(self, f"_{part}") is not None:
            return None
        name = {"pvalues": "p-values", "estimators": "strengths under both estimators"}.get(part, part)
        verb = "is" if part == "ranking" else "are"
        need, level = _NEEDS[part], str(self._plan.get("reveal"))
        if level in LEVELS and not within(need, level):
            return f"The {name} {verb} not in this result: the run revealed no more than {level!r} (reveal)."
        if self._role != "coordinator":
            if part == "estimators":
                return f"The {name} are the coordinator's alone: they tell of all ties."
            key = "target" if self._role == "target" else "sources"
            grant = str((self._plan.get("results") or {}).get(key))
            if grant in GRANTS and not within(need, grant):
                return (
                    f"The {name} {verb} not in this result: "
                    f"the coordinator passes {grant!r} on to the {key} (results.{key})."
                )
        return f"The {name} {verb} not in this copy of the result."

    def save(self, directory: str | Path) -> Path:
        """Write the run directory, whole or not at all.

        Parameters
        ----------
        directory : str or Path
            Created with its parents. An earlier run directory there is replaced.

        Returns
        -------
        Path
            The directory written.

        Raises
        ------
        OutputError
            If it exists and is neither empty nor a run directory, or cannot be written.
        """
        from mpc_spearman.results import report  # only a saved result needs its page and the template engine

        run_directory.check_replaceable(directory)
        return run_directory.replace(directory, {**self._files(), "report.html": report.render(self)})

    def _files(self) -> dict[str, str]:
        about = {
            "schema_version": run_directory.SCHEMA_VERSION,
            "package_version": __version__,
            "party": self._party,
            "role": self._role,
            "n": self._n,
            **{key: self._plan.get(key) for key in _FROM_PLAN},
            "alignment": self._alignment,
            "warnings": list(self._warnings),
            "holds": [part for part in _NEEDS if self.withheld(part) is None],
            "features": None if self._strengths is None else list(self._strengths.index),
            "strengths": None if self._strengths is None else _without_nan(self._strengths),
            "counts": None if self._counts is None else self._counts.tolist(),
            "precision": self._precision,
            "plan": self._plan,
        }
        files = {
            "result.json": json.dumps(about, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
            "cost.csv": run_directory.csv_text(list(COST_COLUMNS), self._cost.itertuples(index=False)),
        }
        for name, frame in (("matrix.csv", self._coefficients), ("pvalues.csv", self._pvalues)):
            if frame is not None:
                rows = ([*key, *row] for key, row in zip(frame.index, frame.to_numpy().tolist(), strict=True))
                files[name] = run_directory.csv_text(["party", "feature", *frame.columns], rows)
        if self._ranking is not None:
            lines = self._ranking.reindex(columns=RANKING).itertuples(index=False)
            files["ranking.csv"] = run_directory.csv_text(RANKING, lines)
        if self._estimators is not None:
            lines = self._estimators.itertuples()
            files["estimators.csv"] = run_directory.csv_text(["feature", *ESTIMATORS], lines)
        return files

    @classmethod
    def load(cls, directory: str | Path) -> Result:
        """Read a run directory that `save` wrote.

        Parameters
        ----------
        directory : str or Path
            The run directory.

        Returns
        -------
        Result
            Equal, float for float, to the one saved.

        Raises
        ------
        OutputError
            If a file is missing, unexpected or damaged; it names the file.
        """
        folder = Path(directory)
        about = run_directory.read_about(folder)
        try:
            holds = set(about["holds"])
            for part, name in _FILES.items():
                if (folder / name).exists() != (part in holds):
                    problem = "is missing" if part in holds else "does not belong to this result"
                    raise OutputError(f"{folder / name} {problem}")
            if any(about[key] != about["plan"].get(key) for key in _FROM_PLAN):
                raise OutputError(f"{folder / 'result.json'} is damaged: it contradicts the plan in it")
            strengths = counts = ranking = None
            if "ranking" in holds:
                ranking = read_ranking(folder / "ranking.csv", "strengths" in holds)
            if "strengths" in holds:
                strengths = pd.Series(about["strengths"], about["features"], dtype=np.float64)
            if "counts" in holds:
                counts = pd.Series(about["counts"], about["features"])
            return cls(
                plan=about["plan"],
                party=about["party"],
                role=about["role"],
                n=about["n"],
                precision=about["precision"],
                alignment=about.get("alignment"),
                warnings=about["warnings"],
                cost=read_cost(folder / "cost.csv"),
                coefficients=read_matrix(folder / "matrix.csv") if "coefficients" in holds else None,
                pvalues=read_matrix(folder / "pvalues.csv") if "pvalues" in holds else None,
                strengths=strengths,
                counts=counts,
                ranking=ranking,
                estimators=read_estimators(folder / "estimators.csv") if "estimators" in holds else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(f"the run directory {folder} is damaged: {error!r}") from error

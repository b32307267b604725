"""What one party's copy of a run's result holds, and why it lacks the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.config import GRANTS, LEVELS, OUTSIDE, within
from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import NotRevealed
from mpc_spearman.results.dataframes import (
    MATRIX_ROWS,
    concluded,
    interval_matrix,
    known_columns,
    plain_columns,
    plain_cost,
    plain_estimators,
    plain_explained,
    plain_matrix,
    plain_ranking,
    plain_series,
)
from mpc_spearman.statistics.intervals import intervals
from mpc_spearman.statistics.pvalues import pvalues, qvalues

RoleName = Literal["coordinator", "target", "source"]
Part = Literal[
    "coefficients",
    "columns",
    "noise",
    "pvalues",
    "intervals",
    "qvalues",
    "strengths",
    "counts",
    "errors",
    "ranking",
    "estimators",
    "explained",
]

#: The level of ``reveal``, and grant of ``results``, that each part takes.
_NEEDS: dict[Part, str] = {
    "coefficients": "coefficients",
    "columns": "coefficients",
    "noise": "coefficients",
    "pvalues": "coefficients",
    "intervals": "coefficients",
    "qvalues": "coefficients",
    "strengths": "strengths",
    "counts": "strengths",
    "errors": "strengths",
    "ranking": "ranking",
    "estimators": "coefficients",
    "explained": "explained",
}
#: Parts that follow from the coefficients and what goes with them.
_DERIVED: tuple[Part, ...] = ("pvalues", "intervals", "qvalues")
_IN_WORDS = {
    "columns": "columns' ties",
    "errors": "standard errors of the strengths",
    "pvalues": "p-values",
    "intervals": "confidence intervals",
    "qvalues": "q-values",
    "estimators": "strengths under both estimators",
    "explained": "shares that are explained",
}

_T = TypeVar("_T")


def _within(need: str, level: str) -> bool:
    return within(need, level) or (need == "ranking" and level in OUTSIDE)


class Parts:
    """What one party knows when a run has ended: the parts of a `mpc_spearman.Result`.

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
    coefficients : DataFrame, optional
        float64, shape (m_A, m_B): rows a MultiIndex (party, feature) over the sources' features, source by
        source, columns the target's features. NaN where undefined. A source's copy has its own rows only.
    columns : DataFrame, optional
        What is known of the ties of each column that has coefficients: rows (party, feature), columns
        ``ties`` (a word) and ``skewness``. Needed where there are coefficients.
    noise : DataFrame, optional
        Of the form of `coefficients`: the standard deviation of the noise in each; none where left out.
    strengths : Series, optional
        float64, length m_B, indexed by the target's features in its table's order. Needs `ranking`. At the
        coordinator as it opened them, elsewhere as they were published.
    counts : Series, optional
        int64, same index: over how many coefficients each strength is the mean.
    errors : Series, optional
        float64, same index: standard error of each strength where its feature is independent of all sources'.
    ranking : DataFrame, optional
        Columns ``position`` (from 1, shared by equal strengths), ``feature`` and, unless only the order is
        known, ``strength``: the published ones, from which the order is made at every party.
    estimators : DataFrame, optional
        float64, same index as `strengths`, columns ``tie_corrected`` and ``paper``: the strengths under both.
    explained : DataFrame, optional
        Rows (party, feature): a source and a feature of the target; columns ``r2``, ``noise`` and ``k``.
    alignment : str, optional
        The tag of the row ids that :mod:`mpc_spearman.data.ids` makes: 64 hexadecimal digits.
    offered : mapping of str to int
        Under ``alignment: intersect``: of how many rows of a party the `n` are those that all have. A data
        party knows its own number, the coordinator everyone's.

    Notes
    -----
    A part that was not given raises `NotRevealed` when asked for, with the setting that withheld it.
    """

    _record: str | None = None

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
        columns: pd.DataFrame | None = None,
        noise: pd.DataFrame | None = None,
        strengths: pd.Series[float] | None = None,
        counts: pd.Series[int] | None = None,
        errors: pd.Series[float] | None = None,
        ranking: pd.DataFrame | None = None,
        estimators: pd.DataFrame | None = None,
        explained: pd.DataFrame | None = None,
        alignment: str | None = None,
        offered: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._plan: dict[str, Any] = json.loads(json.dumps(plan, allow_nan=False))
        self._party, self._role, self._n = party, role, int(n)
        self._warnings = tuple(warnings)
        self._alignment = alignment
        self._offered = {str(name): int(rows) for name, rows in offered.items()}
        self._cost = plain_cost(cost)
        self._coefficients = None if coefficients is None else plain_matrix(coefficients, MATRIX_ROWS)
        self._columns = None if columns is None else plain_columns(columns)
        self._noise = None if noise is None else plain_matrix(noise, MATRIX_ROWS)
        self._strengths = None if strengths is None else plain_series(strengths, np.float64, "strength")
        self._counts = None if counts is None else plain_series(counts, np.int64, "count")
        self._errors = None if errors is None else plain_series(errors, np.float64, "error")
        self._ranking = None if ranking is None else plain_ranking(ranking)
        self._estimators = None if estimators is None else plain_estimators(estimators)
        self._explained = None if explained is None else plain_explained(explained)
        self._check()

    def _check(self) -> None:
        """Raise what is wrong with the parts together."""

    def __repr__(self) -> str:
        held = ", ".join(self.holds) or "nothing"
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
    def plan_digest(self) -> bytes:
        """The SHA-256 of the shared plan, as all parties have it."""
        return hashlib.sha256(canonical(self._plan).encode()).digest()

    @property
    def record(self) -> str | None:
        """The text of ``record.json``, what all parties have signed; None if there is none."""
        return self._record

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
    def holds(self) -> tuple[Part, ...]:
        """Names of the parts that were revealed to this party."""
        return tuple(part for part in _NEEDS if self.withheld(part) is None)

    @property
    def alignment(self) -> str | None:
        """The target's tag of the row ids, for merging; None without an alignment key."""
        return self._alignment

    @property
    def offered(self) -> dict[str, int]:
        """Of how many rows of each party `n` are common, as far as this one knows; empty if of no more."""
        return dict(self._offered)

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
    def columns(self) -> pd.DataFrame:
        """What is known of the ties of each column of M: rows (party, feature), ``ties`` and ``skewness``."""
        return self._revealed("columns", self._columns).copy()

    @property
    def noise(self) -> pd.DataFrame:
        """Standard deviation of the noise in each coefficient, of the form of M, where there is noise."""
        return self._revealed("noise", self._noise).copy()

    @property
    def pvalues(self) -> pd.DataFrame:
        """Two-sided p-values of M, same shape; NaN where undefined (`mpc_spearman.statistics.pvalues`)."""
        matrix = self._revealed("pvalues", self._coefficients)
        return pd.DataFrame(self._p.copy(), index=matrix.index, columns=matrix.columns)

    @property
    def intervals(self) -> pd.DataFrame:
        """Confidence intervals of M at the plan's ``confidence``: rows (party, feature, bound).

        ``result.intervals.xs("low", level="bound")`` has the form of M. NaN where there is none
        (`mpc_spearman.statistics.intervals`).
        """
        matrix = self._revealed("intervals", self._coefficients)
        ends = intervals(**self._evidence, confidence=self._plan["confidence"])
        return interval_matrix(matrix, *ends)

    @property
    def qvalues(self) -> pd.DataFrame:
        """q-values of M (Benjamini and Hochberg), same shape: over all pairs in this copy with a p-value."""
        matrix = self._revealed("qvalues", self._coefficients)
        return pd.DataFrame(qvalues(self._p), index=matrix.index, columns=matrix.columns)

    @cached_property
    def _evidence(self) -> dict[str, Any]:
        """Gather what p-values and intervals are made from, by the names of their arguments."""
        matrix, columns = self._coefficients, self._columns
        assert matrix is not None
        assert columns is not None
        target = self._plan["parties"]["target"]["name"]
        return {
            "rho": matrix.to_numpy(),
            "n": self._n,
            "source": known_columns(columns.loc[matrix.index]).rows,
            "target": known_columns(columns.loc[[(target, name) for name in matrix.columns]]),
            "estimator": self._plan["estimator"],
            "noise": 0.0 if self._noise is None else self._noise.to_numpy(),
        }

    @cached_property
    def _p(self) -> NDArray[np.float64]:
        return pvalues(**self._evidence)

    @property
    def strengths(self) -> pd.Series[float]:
        """Strength mu by target feature, in the target's table order; NaN where nothing is defined."""
        return self._revealed("strengths", self._strengths).copy()

    @property
    def errors(self) -> pd.Series[float]:
        """Standard error of each strength if its feature is independent of all sources' columns.

        Over several sources at most so much (`mpc_spearman.statistics.reading.strength_error`).
        """
        return self._revealed("errors", self._errors).copy()

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

    @property
    def explained(self) -> pd.DataFrame:
        """What all columns of a source explain together of each target feature's ranks.

        Rows (party, feature), party the source. Columns ``r2`` (share of the variance, less what noise adds),
        ``noise`` (standard deviation of the noise in each of the products R² is the sum of squares of), ``k``
        (how many directions of the columns are used), ``predictive`` (the share expected of new rows, which
        the ranking goes by), ``p`` and ``q`` (of independence). See docs/statistics.md.
        """
        return concluded(self._revealed("explained", self._explained), self._n)

    def _revealed(self, part: Part, value: _T | None) -> _T:
        if value is None:
            raise NotRevealed(self.withheld(part) or "")
        return value

    def withheld(self, part: Part) -> str | None:
        """Say why a part is missing.

        Parameters
        ----------
        part : str
            The attribute asked for, such as ``"coefficients"``.

        Returns
        -------
        str or None
            A sentence naming the level or grant that withheld it; None if this result has it.
        """
        if getattr(self, "_coefficients" if part in _DERIVED else f"_{part}") is not None:
            return None
        name = _IN_WORDS.get(part, part)
        verb = "is" if part == "ranking" else "are"
        why = self._beyond(part)
        if why is None:
            return f"The {name} {verb} not in this copy of the result."
        return f"The {name} {verb} {why}."

    def allowed(self, part: Part) -> bool:
        """Tell whether the plan gives this party a part, whether it is in this copy or not."""
        return self._beyond(part) is None

    def _beyond(self, part: Part) -> str | None:
        """Say what keeps the plan from giving this party a part; None if nothing does."""
        need, level = _NEEDS[part], str(self._plan.get("reveal"))
        if self._plan.get("opened_to") == "target" and self._role != "target":
            return "not in this result: the order was opened to the target alone (opened_to)"
        if level in LEVELS and not _within(need, level):
            return f"not in this result: the run revealed no more than {level!r} (reveal)"
        if self._role == "coordinator":
            return None
        if part == "estimators":
            return "the coordinator's alone: they tell of all ties"
        key = "target" if self._role == "target" else "sources"
        grant = str((self._plan.get("results") or {}).get(key))
        if grant in GRANTS and not _within(need, grant):
            return f"not in this result: the coordinator passes {grant!r} on to the {key} (results.{key})"
        return None

"""What one party's copy of a run's result holds, and why it lacks the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from mpc_spearman.config import GRANTS, LEVELS, within
from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import NotRevealed
from mpc_spearman.results.dataframes import (
    INTERVAL_ROWS,
    MATRIX_ROWS,
    plain_cost,
    plain_estimators,
    plain_matrix,
    plain_ranking,
    plain_series,
)
from mpc_spearman.statistics import inference

RoleName = Literal["coordinator", "target", "source"]
Part = Literal[
    "coefficients", "pvalues", "intervals", "qvalues", "strengths", "counts", "ranking", "estimators"
]

#: The level of ``reveal``, and grant of ``results``, that each part takes.
_NEEDS: dict[Part, str] = {
    "coefficients": "coefficients",
    "pvalues": "coefficients",
    "intervals": "coefficients",
    "qvalues": "coefficients",
    "strengths": "strengths",
    "counts": "strengths",
    "ranking": "ranking",
    "estimators": "coefficients",
}
_IN_WORDS = {
    "pvalues": "p-values",
    "intervals": "confidence intervals",
    "qvalues": "q-values",
    "estimators": "strengths under both estimators",
}

_T = TypeVar("_T")


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
    coefficients, pvalues : DataFrame, optional
        float64, shape (m_A, m_B): rows a MultiIndex (party, feature) over the sources' features, source by
        source, columns the target's features. NaN where undefined. A source's copy has its own rows only.
    intervals : DataFrame, optional
        float64, shape (2 m_A, m_B): rows (party, feature, bound), where bound is ``low`` or ``high``, the
        ends of each coefficient's confidence interval at the plan's ``confidence``; same columns.
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
    offered : mapping of str to int
        Under ``alignment: intersect``: of how many rows of a party the `n` are those that all have. A data
        party knows its own number, the coordinator everyone's.

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
        intervals: pd.DataFrame | None = None,
        strengths: pd.Series[float] | None = None,
        counts: pd.Series[int] | None = None,
        ranking: pd.DataFrame | None = None,
        estimators: pd.DataFrame | None = None,
        precision: Mapping[str, float] = MappingProxyType({}),
        alignment: str | None = None,
        offered: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._plan: dict[str, Any] = json.loads(json.dumps(plan, allow_nan=False))
        self._party, self._role, self._n = party, role, int(n)
        self._warnings = tuple(warnings)
        self._alignment = alignment
        self._offered = {str(name): int(rows) for name, rows in offered.items()}
        self._precision = {str(part): float(step) for part, step in precision.items()}
        self._cost = plain_cost(cost)
        self._coefficients = None if coefficients is None else plain_matrix(coefficients, MATRIX_ROWS)
        self._pvalues = None if pvalues is None else plain_matrix(pvalues, MATRIX_ROWS)
        self._intervals = None if intervals is None else plain_matrix(intervals, INTERVAL_ROWS)
        self._strengths = None if strengths is None else plain_series(strengths, np.float64, "strength")
        self._counts = None if counts is None else plain_series(counts, np.int64, "count")
        self._ranking = None if ranking is None else plain_ranking(ranking)
        self._qvalues: pd.DataFrame | None = None  # derived when first asked for
        self._estimators = None if estimators is None else plain_estimators(estimators)
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
    def pvalues(self) -> pd.DataFrame:
        """Two-sided p-values of M, same shape; NaN where undefined."""
        return self._revealed("pvalues", self._pvalues).copy()

    @property
    def intervals(self) -> pd.DataFrame:
        """Confidence intervals of M at the plan's ``confidence``: rows (party, feature, bound).

        ``result.intervals.xs("low", level="bound")`` has the form of M. NaN where there is none: an undefined
        coefficient, a column with many ties, fewer than four rows.
        """
        return self._revealed("intervals", self._intervals).copy()

    @property
    def qvalues(self) -> pd.DataFrame:
        """q-values of M (Benjamini and Hochberg), same shape: over all pairs in this copy with a p-value."""
        p = self._revealed("qvalues", self._pvalues)
        if self._qvalues is None:
            self._qvalues = pd.DataFrame(inference.qvalues(p.to_numpy()), index=p.index, columns=p.columns)
        return self._qvalues.copy()

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
        part : str
            The attribute asked for, such as ``"coefficients"``.

        Returns
        -------
        str or None
            A sentence naming the level or grant that withheld it; None if this result has it.
        """
        if getattr(self, "_pvalues" if part == "qvalues" else f"_{part}") is not None:
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
        if level in LEVELS and not within(need, level):
            return f"not in this result: the run revealed no more than {level!r} (reveal)"
        if self._role == "coordinator":
            return None
        if part == "estimators":
            return "the coordinator's alone: they tell of all ties"
        key = "target" if self._role == "target" else "sources"
        grant = str((self._plan.get("results") or {}).get(key))
        if grant in GRANTS and not within(need, grant):
            return f"not in this result: the coordinator passes {grant!r} on to the {key} (results.{key})"
        return None

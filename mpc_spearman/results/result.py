"""One party's copy of a run's result, why it lacks the rest, and its run directory.

A run directory holds ``result.json``, ``cost.csv``, ``report.html`` and, as far as the run revealed them to
this party, ``matrix.csv``, ``columns.csv``, ``noise.csv``, ``pvalues.csv``, ``intervals.csv``,
``qvalues.csv``, ``ranking.csv``, ``estimators.csv``, ``explained.csv`` and ``canonical.csv``.
p-values, intervals and q-values follow from the others: they are written for whoever opens the files, and
computed again when a result is loaded.
``record.json`` is what all parties have signed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import NotRevealed, OutputError
from mpc_spearman.results import notebook, run_directory, saved
from mpc_spearman.results.dataframes import (
    PLAIN,
    concluded,
    concluded_canonical,
    interval_matrix,
    known_columns,
    plain_cost,
)
from mpc_spearman.results.parts import DERIVED, IN_WORDS, Part, RoleName, beyond, check
from mpc_spearman.statistics.intervals import intervals
from mpc_spearman.statistics.pvalues import pvalues, qvalues

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result:
    """What one party knows when a run has ended.

    Everything is copied in and copied out, so a result does not change once it exists. A part that was not
    given raises `NotRevealed` when asked for, with the setting that withheld it.

    Parameters
    ----------
    plan : mapping
        The plan's shared part, as ``Plan.shared()`` gives it.
    party : str
        Whose copy this is.
    role : {"coordinator", "target", "source"}
    n : int
        Aligned rows.
    cost : DataFrame
        Columns `COST_COLUMNS`, one row per party and phase.
    warnings : sequence of str
        Sentences a reader of the result must know.
    alignment : str, optional
        The tag of the row ids that :mod:`mpc_spearman.data.ids` makes: 64 hexadecimal digits.
    offered : mapping of str to int
        Under ``alignment: intersect``: how many rows a party has, of which `n` are common to all. A data
        party knows its own number, the coordinator everyone's.
    **parts : DataFrame or Series, optional
        ``coefficients``, ``columns``, ``noise``, ``strengths``, ``counts``, ``errors``, ``ranking`` and
        ``estimators``, as the properties of these names return them; of ``explained`` the first three
        columns, of ``canonical`` four. Coefficients need columns and strengths, strengths a ranking with
        strengths.

    Raises
    ------
    ValueError
        If a part is malformed, is of other features or parties than the rest, or not this party's by the
        plan.
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
        alignment: str | None = None,
        offered: Mapping[str, int] = MappingProxyType({}),
        **parts: pd.DataFrame | pd.Series[Any] | None,
    ) -> None:
        self._plan: dict[str, Any] = json.loads(json.dumps(plan, allow_nan=False))
        self._party, self._role, self._n = party, role, int(n)
        self._warnings = tuple(warnings)
        self._alignment = alignment
        self._offered = {str(name): int(rows) for name, rows in offered.items()}
        self._cost = plain_cost(cost)
        self._parts: dict[str, Any] = {
            name: PLAIN[name](part) for name, part in parts.items() if part is not None
        }
        check(self._plan, party, role, self._parts)

    def __repr__(self) -> str:
        held = ", ".join(self.holds) or "nothing"
        return (
            f"<Result of {self._role} {self._party!r}: n={self._n}, protocol={self._plan.get('protocol')}, "
            f"reveal={self._plan.get('reveal')}, estimator={self._plan.get('estimator')}; holds {held}>"
        )

    def _repr_html_(self) -> str:
        return notebook.html(self)

    @property
    def plan(self) -> dict[str, Any]:
        """The shared part of the plan that was run."""
        copied: dict[str, Any] = json.loads(json.dumps(self._plan))
        return copied

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
        return tuple(part for part in get_args(Part) if self.withheld(part) is None)

    @property
    def alignment(self) -> str | None:
        """The target's tag of the row ids, for merging; None without an alignment key."""
        return self._alignment

    @property
    def offered(self) -> dict[str, int]:
        """How many rows each party has, of which `n` are common, as far as this one knows; empty if not."""
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
        """The matrix M, float64, shape (m_A, m_B): rows (party, feature), the target's features as columns.

        NaN where undefined. A source has its own rows only.
        """
        return self._frame("coefficients")

    @property
    def columns(self) -> pd.DataFrame:
        """What is known of the ties of each column of M: rows (party, feature), ``ties`` and ``skewness``."""
        return self._frame("columns")

    @property
    def noise(self) -> pd.DataFrame:
        """Standard deviation of the noise in each coefficient, of the form of M, where there is noise."""
        return self._frame("noise")

    @property
    def pvalues(self) -> pd.DataFrame:
        """Two-sided p-values of M, same shape; NaN where undefined (`mpc_spearman.statistics.pvalues`)."""
        matrix = self._frame("pvalues")
        return pd.DataFrame(self._p.copy(), index=matrix.index, columns=matrix.columns)

    @property
    def intervals(self) -> pd.DataFrame:
        """Confidence intervals of M at the plan's ``confidence``: rows (party, feature, bound).

        ``result.intervals.xs("low", level="bound")`` has the form of M. NaN where there is none
        (`mpc_spearman.statistics.intervals`).
        """
        matrix = self._frame("intervals")
        ends = intervals(**self._evidence, confidence=self._plan["confidence"])
        return interval_matrix(matrix, *ends)

    @property
    def qvalues(self) -> pd.DataFrame:
        """q-values of M (Benjamini and Hochberg), same shape: over all pairs in this copy with a p-value."""
        matrix = self._frame("qvalues")
        return pd.DataFrame(qvalues(self._p), index=matrix.index, columns=matrix.columns)

    @cached_property
    def _evidence(self) -> dict[str, Any]:
        """Gather what p-values and intervals are made from, by the names of their arguments."""
        matrix, columns, noise = self._parts["coefficients"], self._parts["columns"], self._parts.get("noise")
        m = len(matrix)
        return {
            "rho": matrix.to_numpy(),
            "n": self._n,
            "source": known_columns(columns[:m]).rows,
            "target": known_columns(columns[m:]),
            "estimator": self._plan["estimator"],
            "noise": 0.0 if noise is None else noise.to_numpy(),
        }

    @cached_property
    def _p(self) -> NDArray[np.float64]:
        return pvalues(**self._evidence)

    @property
    def strengths(self) -> pd.Series[float]:
        """Strength mu by target feature, float64, in the target's table order; NaN where nothing is defined.

        At the coordinator as it opened them, elsewhere as they were published.
        """
        return self._series("strengths")

    @property
    def errors(self) -> pd.Series[float]:
        """Standard error of each strength if its feature is independent of all sources' columns.

        Over several sources at most so much (`mpc_spearman.statistics.reading.strength_error`).
        """
        return self._series("errors")

    @property
    def counts(self) -> pd.Series[int]:
        """Over how many coefficients each strength is the mean, int64."""
        return self._series("counts")

    @property
    def ranking(self) -> pd.DataFrame:
        """The list L: columns position, feature and, where known, strength. Undefined strengths come last.

        Positions begin at 1, and equal strengths share theirs.
        """
        return self._frame("ranking")

    @property
    def estimators(self) -> pd.DataFrame:
        """Strengths by target feature, columns ``tie_corrected`` and ``paper``; the coordinator's alone."""
        return self._frame("estimators")

    @property
    def explained(self) -> pd.DataFrame:
        """What all columns of a source explain together of each target feature's ranks.

        Rows (party, feature), party the source. Columns ``r2`` (share of the variance, less what noise adds),
        ``noise`` (standard deviation of the noise in each of the products R² is the sum of squares of), ``k``
        (how many directions of the columns are used), ``predictive`` (the share expected of new rows, which
        the ranking goes by), ``p`` and ``q`` (of independence). See docs/statistics.md.
        """
        return concluded(self._frame("explained"), self._n)

    @property
    def canonical(self) -> pd.DataFrame:
        """Whether a source's columns and the target's have anything in common.

        Rows (party, number), party the source, the largest ``correlation`` first, NaN beyond those there are.
        Columns ``correlation``, ``noise``, ``k_source`` and ``k_target`` (directions), ``chance`` (about the
        largest that chance gives), and, the same for all of a party, Pillai's ``trace``, less what noise
        adds, and the ``p`` of independence.
        """
        return concluded_canonical(self._frame("canonical"), self._n)

    def _frame(self, part: Part) -> pd.DataFrame:
        why = self.withheld(part)
        if why is not None:
            raise NotRevealed(why)
        copied: pd.DataFrame = self._parts["coefficients" if part in DERIVED else part].copy()
        return copied

    def _series(self, part: Part) -> pd.Series[Any]:
        series: Any = self._frame(part)
        return series  # type: ignore[no-any-return]

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
        if ("coefficients" if part in DERIVED else part) in self._parts:
            return None
        name = IN_WORDS.get(part, part)
        verb = "is" if part == "ranking" else "are"
        return (
            f"The {name} {verb} {beyond(part, self._plan, self._role) or 'not in this copy of the result'}."
        )

    def pairs(self) -> pd.DataFrame:
        """Return every pair of columns in a row of its own, the coefficient farthest from 0 first.

        Returns
        -------
        DataFrame
            Columns ``party`` and ``source`` (a source and its feature), ``target``, ``rho``, ``p``, ``q``,
            and ``low`` and ``high``, the ends of the confidence interval; NaN where undefined.

        Raises
        ------
        NotRevealed
            This copy has no coefficients.
        """
        return notebook.pairs(self)

    def plot(self) -> Figure:
        """Draw the ranking and, where this copy has coefficients, a heat map of them.

        Returns
        -------
        matplotlib.figure.Figure
            A notebook shows it; ``figure.savefig("pairs.png")`` keeps it.

        Raises
        ------
        NotRevealed
            This copy has no ranking, as at ``reveal: canonical``.
        SetupError
            matplotlib is not installed.
        """
        return notebook.figure(self)

    def with_warning(self, text: str) -> Result:
        """Return the same result with one more warning."""
        more = copy(self)
        more._warnings = (*self._warnings, text)
        return more

    def with_record(self, record: str | None) -> Result:
        """Return the same result with its record (:mod:`mpc_spearman.results.record`)."""
        more = copy(self)
        more._record = record
        return more

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
        return run_directory.replace(directory, saved.texts(self))

    @classmethod
    def load(cls, directory: str | Path) -> Result:
        """Read a run directory that `save` wrote.

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
        try:
            return cls(**saved.read(folder)).with_record(saved.read_record(folder))
        except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(f"the run directory {folder} is damaged: {error}") from error

"""One party's copy of a run's result, why it lacks the rest, and its run directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pandas as pd

from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import NotRevealed, OutputError
from mpc_spearman.results import notebook, run_directory, saved
from mpc_spearman.results.parts import COST, PARTS, RoleName, beyond, check

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Result:
    """What one party knows when a run has ended.

    Tables are copied in and out, so a result never changes. Reading a part that this party was not given
    raises `NotRevealed`, which names the setting responsible.

    Arguments are the plan's shared part (``Plan.shared()``), the values of `cost` and `offered`, and **parts,
    named like their properties, also those derived from others (:mod:`mpc_spearman.results.derived`).
    `ValueError` if a part is malformed, has other features or parties than the rest, or is not granted to
    this party by the plan.

    Attributes
    ----------
    party : str
        Whose copy this is.
    role : {"coordinator", "target", "source"}
    n : int
        Aligned rows.
    warnings : tuple of str
        What a reader must know before using the numbers.
    alignment : str or None
        The target's tag of the row ids, for merging; None without an alignment key.
    record : str or None
        The text of ``record.json``, which all parties signed (:mod:`mpc_spearman.results.record`).
    """

    party: str
    role: RoleName
    n: int
    warnings: tuple[str, ...]
    alignment: str | None
    record: str | None
    _plan: dict[str, Any]
    _offered: dict[str, int]
    _cost: pd.DataFrame
    _parts: dict[str, Any]

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
        record: str | None = None,
        **parts: pd.DataFrame | pd.Series[Any] | None,
    ) -> None:
        vars(self).update(
            party=party,
            role=role,
            n=int(n),
            warnings=tuple(warnings),
            alignment=alignment,
            record=record,
            _plan=json.loads(json.dumps(plan, allow_nan=False)),
            _offered=dict(offered),
            _cost=COST.plain(cost),
            _parts={name: PARTS[name].plain(part) for name, part in parts.items() if part is not None},
        )
        check(self._plan, party, role, self._parts)

    def __repr__(self) -> str:
        held = ", ".join(self.holds) or "nothing"
        return (
            f"<Result of {self.role} {self.party!r}: n={self.n}, protocol={self._plan.get('protocol')}, "
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
    def holds(self) -> tuple[str, ...]:
        """Names of the parts that this party was given."""
        return tuple(name for name in PARTS if name in self._parts)

    @property
    def offered(self) -> dict[str, int]:
        """Under ``alignment: intersect``: how many rows each party had, of which `n` are common to all.

        A data party knows its own number, the coordinator everyone's.
        """
        return dict(self._offered)

    @property
    def cost(self) -> pd.DataFrame:
        """Cost per party and phase, with the columns of ``cost.csv``. Data parties see their own only."""
        return self._cost.copy()

    @property
    def coefficients(self) -> pd.DataFrame:
        """The matrix M, float64, shape (m_A, m_B): rows (party, feature), the target's features as columns.

        NaN where undefined. A source has its own rows only.
        """
        return self._frame("coefficients")

    @property
    def columns(self) -> pd.DataFrame:
        """Ties of each column of M: rows (party, feature), columns ``ties`` and ``skewness``."""
        return self._frame("columns")

    @property
    def noise(self) -> pd.DataFrame:
        """Standard deviation of the noise in each coefficient, in the form of M, if there is noise."""
        return self._frame("noise")

    @property
    def pvalues(self) -> pd.DataFrame:
        """Two-sided p-values of M, same shape; NaN where undefined (`mpc_spearman.statistics.pvalues`)."""
        return self._frame("pvalues")

    @property
    def intervals(self) -> pd.DataFrame:
        """Confidence intervals of M at the plan's ``confidence``: rows (party, feature, bound).

        ``result.intervals.xs("low", level="bound")`` has the form of M. NaN for no interval
        (`mpc_spearman.statistics.intervals`).
        """
        return self._frame("intervals")

    @property
    def qvalues(self) -> pd.DataFrame:
        """q-values of M (Benjamini and Hochberg), same shape: over all pairs in this copy with a p-value."""
        return self._frame("qvalues")

    @property
    def strengths(self) -> pd.Series[float]:
        """Strength mu by target feature, float64, in the target's table order; NaN where nothing is defined.

        The coordinator has them as opened, others as published.
        """
        return self._series("strengths")

    @property
    def errors(self) -> pd.Series[float]:
        """Standard error of each strength if its feature is independent of all sources' columns.

        With several sources an upper bound (`mpc_spearman.statistics.reading.strength_error`).
        """
        return self._series("errors")

    @property
    def counts(self) -> pd.Series[int]:
        """How many coefficients each strength averages, int64."""
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
        """How much of each target feature's ranks all columns of a source explain together.

        Rows (party, feature), party the source. ``r2`` is corrected for noise; ``noise`` is the standard
        deviation of the noise in each of its ``k`` products. The ranking uses ``predictive``, the share
        expected in new rows. ``p`` and ``q`` test independence. See docs/statistics.md.
        """
        return self._frame("explained")

    @property
    def canonical(self) -> pd.DataFrame:
        """Whether a source's columns and the target's have anything in common.

        Rows (party, number), party the source, the largest ``correlation`` first, NaN if there are no more.
        ``chance`` is about the largest correlation by chance. Pillai's ``trace``, corrected for noise, and
        ``p``, which tests independence, are the same in all rows of a party. See docs/statistics.md.
        """
        return self._frame("canonical")

    def _frame(self, part: str) -> pd.DataFrame:
        if (why := self.withheld(part)) is not None:
            raise NotRevealed(why)
        copied: pd.DataFrame = self._parts[part].copy()
        return copied

    def _series(self, part: str) -> pd.Series[Any]:
        series: Any = self._frame(part)
        return series  # type: ignore[no-any-return]

    def withheld(self, part: str) -> str | None:
        """Return a sentence with the level or grant that withheld a part, such as ``"coefficients"``.

        None if this copy has it.
        """
        if part in self._parts:
            return None
        verb = "is" if part == "ranking" else "are"
        why = beyond(part, self._plan, self.role) or "not in this copy of the result"
        return f"The {PARTS[part].words} {verb} {why}."

    def pairs(self) -> pd.DataFrame:
        """Return one row for each pair of columns, the coefficient farthest from 0 first.

        The columns are ``party`` and ``source`` (a source and its feature), ``target``, ``rho``, ``p``,
        ``q``, and ``low`` and ``high``, the ends of the confidence interval; NaN where undefined.
        `NotRevealed` if this copy has no coefficients.
        """
        return notebook.pairs(self)

    def plot(self) -> Figure:
        """Draw the ranking and, if this copy has coefficients, a heat map of them.

        A notebook shows the figure; ``figure.savefig("pairs.png")`` keeps it. `NotRevealed` if this copy has
        no ranking, as at ``reveal: canonical``; `SetupError` if matplotlib is not installed.
        """
        return notebook.figure(self)

    def with_warning(self, text: str) -> Result:
        """Return the same result with one more warning."""
        return self._with(warnings=(*self.warnings, text))

    def with_record(self, record: str | None) -> Result:
        """Return the same result with its record."""
        return self._with(record=record)

    def _with(self, **attributes: Any) -> Result:
        other = copy(self)
        vars(other).update(attributes)
        return other

    def save(self, directory: str | Path) -> Path:
        """Write the run directory, whole or not at all, and return its absolute path.

        It is created with its parents, and an earlier run directory there is replaced. `OutputError` if it
        exists and is neither empty nor a run directory, or cannot be written.
        """
        return run_directory.replace(directory, saved.texts(self))

    @classmethod
    def load(cls, directory: str | Path) -> Result:
        """Read a run directory that `save` wrote: equal, float for float, to the result saved.

        `OutputError` if a file is missing, unexpected or damaged; it names the file.
        """
        folder = Path(directory)
        try:
            return cls(**saved.read(folder))
        except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(f"the run directory {folder} is damaged: {error}") from error

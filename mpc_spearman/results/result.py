"""One party's copy of a run's result: its tables, how it looks in notebooks, and its run directory."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from mpc_spearman.errors import OutputError
from mpc_spearman.results import notebook, run_directory, saved
from mpc_spearman.results.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(Outcome):
    """What one party knows when a run has ended.

    Every table of its level is an attribute: ``result.coefficients``, ``result.ranking`` and so on; `holds`
    lists those that this party was given, and docs/results.md describes them. Tables are copied in and out,
    so a result never changes. Reading a table that this party was not given raises `NotRevealed`, which names
    the setting responsible.

    Attributes
    ----------
    warnings : tuple of str
        What a reader must know before using the numbers.
    alignment : str or None
        The target's tag of the row ids, for merging; None without an alignment key.
    record : str or None
        The text of ``record.json``, which all parties signed (:mod:`mpc_spearman.results.record`).
    """

    def __repr__(self) -> str:
        held, plan = ", ".join(self.holds) or "nothing", self.plan
        return (
            f"<Result of {self.role} {self.party!r}: n={self.n}, protocol={plan.protocol}, "
            f"reveal={plan.reveal}, estimator={plan.estimator}, "
            f"{self.findings.precision()}; holds {held}>"
        )

    def _repr_html_(self) -> str:
        return notebook.html(self)

    def pairs(self) -> pd.DataFrame:
        """Return one row for each pair of columns, the coefficient farthest from 0 first.

        A copy of the strongest pairs alone (``results.strongest``) has a row for each of these.
        The columns are ``party`` and ``source`` (a source and its feature), ``target``, ``rho``, ``noise``
        (its standard deviation) and ``guess`` where this copy has them, ``p``, ``q``, and ``low`` and
        ``high``, the ends of the confidence interval; NaN where undefined. `NotRevealed` if this copy has no
        coefficients.
        """
        return self.findings.pairs()

    def plot(self) -> Figure:
        """Draw the ranking and, if this copy has coefficients, a heat map of them.

        Where nothing can be told from chance and there is no line to draw, the figure says so in words. A
        notebook shows the figure; ``figure.savefig("pairs.png")`` keeps it. `NotRevealed` if this copy has
        nothing to draw; `SetupError` if matplotlib is not installed.
        """
        return notebook.figure(self)

    def with_warning(self, text: str) -> Result:
        """Return the same result with one more warning."""
        return self._with(warnings=(*self.warnings, text))

    def with_record(self, record: str | None) -> Result:
        """Return the same result with its record."""
        return self._with(record=record)

    def _with(self, **changes: object) -> Result:
        changed = copy(self)
        vars(changed).update(changes)
        return changed

    def save(self, directory: str | Path, *, csv: bool = False) -> Path:
        """Write the run directory, whole or not at all, and return its absolute path.

        It is created with its parents, and an earlier run directory there is replaced. With `csv` it has the
        pairs as CSV files also if there are more than 100,000. `OutputError` if the directory exists and is
        neither empty nor a run directory, or cannot be written.
        """
        return run_directory.replace(directory, saved.files(self, csv=csv))

    @classmethod
    def load(cls, directory: str | Path) -> Result:
        """Read a run directory that `save` wrote: equal, float for float, to the result saved.

        `OutputError` if a file is missing, unexpected or damaged; it names the file.
        """
        folder = Path(directory)
        try:
            findings, more = saved.read(folder)
            return cls(findings, **more)
        except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(f"the run directory {folder} is damaged: {error}") from error

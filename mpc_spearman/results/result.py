"""One party's copy of a run's result: parts that fit each other, and a run directory.

A run directory holds ``result.json``, ``cost.csv``, ``report.html`` and, as far as the run revealed them to
this party, ``matrix.csv``, ``columns.csv``, ``noise.csv``, ``pvalues.csv``, ``intervals.csv``,
``qvalues.csv``, ``ranking.csv`` and ``estimators.csv``. p-values, intervals and q-values follow from the
others: they are written for whoever opens the files, and computed again when a result is loaded.
``record.json`` is what all parties have signed.
"""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from mpc_spearman.errors import OutputError
from mpc_spearman.results import notebook, run_directory, saved
from mpc_spearman.results.consistency import Contradiction, check
from mpc_spearman.results.parts import Parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(Parts):
    """What one party knows when a run has ended, made of the arguments of `Parts`.

    Raises
    ------
    ValueError
        If the parts contradict each other or the plan, as far as that can be found out.
    """

    def _check(self) -> None:
        check(self)

    def _repr_html_(self) -> str:
        return notebook.html(self)

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
            This copy has no ranking.
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
        run_directory.check_replaceable(directory)
        return run_directory.replace(directory, saved.texts(self))

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
            If a file is missing, unexpected or damaged, or does not fit the others; it names the file.
        """
        folder = Path(directory)
        try:
            return cls(**saved.read(folder)).with_record(saved.read_record(folder))
        except Contradiction as error:
            file = folder / saved.FILES.get(error.part, "result.json")
            raise OutputError(f"{file} is damaged: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(f"the run directory {folder} is damaged: {error!r}") from error

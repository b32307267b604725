"""How precisely a run's numbers are published: ``results.precision``.

What the coordinator passes on lies on grids (:mod:`mpc_spearman.privacy.precision`), and everything else that
it passes on is computed from numbers on them: strengths, where coefficients are granted, as means of the
rounded ones; the ranking from the strengths as published. So a receiver learns nothing from a derived number
that it could not derive itself, as it does p-values and intervals (:mod:`mpc_spearman.statistics.pvalues`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mpc_spearman.config import Plan
from mpc_spearman.privacy.precision import Grid, coefficient_grid, strength_grid


@dataclass(frozen=True)
class Precision:
    """The grids of a run; None where numbers are exact.

    Attributes
    ----------
    coefficients, strengths : Grid, optional
        Strengths lie on theirs where coefficients are not granted beside them.
    """

    coefficients: Grid | None
    strengths: Grid | None

    @classmethod
    def of(cls, plan: Plan, n: int, distinct: int) -> Precision:
        """Look up the grids of a run over `n` rows and `distinct` source columns."""
        if plan.results.precision == "exact":
            return cls(None, None)
        return cls(coefficient_grid(n), strength_grid(n, max(1, distinct)))

    def steps(self, grant: str) -> dict[str, float]:
        """Return the distance of neighbours on the grids of what a grant gives, by the name of the part."""
        grid = {"coefficients": self.coefficients, "strengths": self.strengths}.get(grant)
        return {} if grid is None else {grant: grid.step}

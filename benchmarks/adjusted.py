"""Measure how often columns that only age and sex relate have p ≤ 0.05 and 0.01, adjusted and not.

    python benchmarks/adjusted.py [--write]

Every column of A and B depends on age (some on sex too) and on nothing else that they share, so each p-value
at or below 0.05 is confounding or chance. "As if equal" is the share if tests took variances of residuals as
equal. Noise is that of coefficients of 20 x 20 such columns at the default `privacy.loss`. `--write` puts the
table into docs/statistics-checks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import measuring
import numpy as np

from mpc_spearman.config import load_plan
from mpc_spearman.data.adjusted import adjusted
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.levels import level_of
from mpc_spearman.parties import Role
from mpc_spearman.privacy.scales import deviations
from mpc_spearman.statistics.columns import Columns, Floats
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues

COLUMNS, TABLES = 20, {500: 60, 5_000: 30, 50_000: 6}
Draw = Callable[[Floats, Floats, np.random.Generator], Floats]


def _related(age: Floats, sex: Floats, rng: np.random.Generator) -> Floats:
    return 0.7 * age + np.sqrt(0.51) * rng.normal(size=len(age))


#: How a column is drawn, given age and sex.
KINDS: dict[str, Draw] = {
    "normal, r = 0.7": _related,
    "of age and sex": lambda age, sex, rng: 0.5 * age + sex + 0.8 * rng.normal(size=len(age)),
    "flags of 50 %": lambda age, sex, rng: _related(age, sex, rng) > 0,
    "flags of 5 %": lambda age, sex, rng: _related(age, sex, rng) > 1.645,
    "weakly related flags of 5 %": lambda age, sex, rng: 0.3 * age + rng.normal(size=len(age)) > 1.72,
    "U-shaped": lambda age, sex, rng: age**2 + rng.normal(size=len(age)),
    "unequal variances": lambda age, sex, rng: np.exp(0.7 * age + 0.3 * sex) * rng.normal(size=len(age)),
    "unrelated": lambda age, sex, rng: rng.normal(size=len(age)),
}
TESTS = ("not adjusted", "adjusted, as if equal", "adjusted", "one side adjusted", "adjusted, with noise")
PLAN = load_plan(
    measuring.plan(results={"target": "coefficients", "precision": "statistical"}, reveal="coefficients")
)


def text() -> str:
    """Return the table of all kinds and numbers of rows."""
    lines = []
    for kind, n in product(KINDS, TABLES):
        rng = np.random.default_rng([[*KINDS].index(kind), n])
        by_test = zip(*(pvalues_of_tables(kind, n, rng) for _ in range(TABLES[n])), strict=True)
        p = [np.concatenate(parts) for parts in by_test]
        lines.append((kind, f"{n:,}", *(f"{np.mean(q <= 0.05):.1%}, {np.mean(q <= 0.01):.1%}" for q in p)))
    return measuring.table(("columns", "rows", *(f"{test}: 0.05, 0.01" for test in TESTS)), lines)


def pvalues_of_tables(kind: str, n: int, rng: np.random.Generator) -> list[Floats]:
    """Return p-values of all pairs of columns of two tables, by each of the `TESTS`."""
    age, sex = rng.normal(size=n), (rng.random(n) < 0.5).astype(np.float64)
    level = level_of(PLAN)
    raw_units, residual_units, of_raw, of_residuals, scales = [], [], [], [], []
    for role in (Role.SOURCE, Role.TARGET):
        ranks = rank_columns([*(KINDS[kind](age, sex, rng) for _ in range(COLUMNS)), age, sex])
        raw, residuals = ranks.first(COLUMNS), adjusted(ranks, 2)
        stated = level.statements(residuals, role, np.ones(COLUMNS))
        raw_units.append(measuring.unit_vectors(raw))
        residual_units.append(measuring.unit_vectors(residuals))
        of_raw.append(Columns.of(raw))
        of_residuals.append(
            replace(Columns.of(residuals), unequal=stated.columns.unequal, fitted=stated.columns.fitted)
        )
        scales.append(level.grid(role, "ranges", n, COLUMNS, stated.defined).scales(stated.vectors))

    def tested(rho: Floats, source: Columns, target: Columns, noise: Floats | float = 0.0) -> Floats:
        return pvalues(rho, Pairs(n, source.rows, target, noise=noise)).ravel()

    rho = residual_units[0] @ residual_units[1].T
    as_if_equal = [replace(columns, unequal=np.ones(COLUMNS)) for columns in of_residuals]
    noise = deviations(*scales, PLAN.privacy.loss)
    return [
        tested(raw_units[0] @ raw_units[1].T, *of_raw),
        tested(rho, *as_if_equal),
        tested(rho, *of_residuals),
        tested(raw_units[0] @ residual_units[1].T, of_raw[0], of_residuals[1]),
        tested(rho + noise * rng.normal(size=noise.shape), *of_residuals, noise),
    ]


if __name__ == "__main__":
    measuring.publish(text, "statistics-checks.md")

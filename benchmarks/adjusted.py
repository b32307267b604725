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
from pathlib import Path

import measuring
import numpy as np

from mpc_spearman.config import load_plan
from mpc_spearman.data.adjusted import adjusted
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.levels import level_of
from mpc_spearman.parties import Role
from mpc_spearman.privacy.scales import deviations
from mpc_spearman.statistics.columns import Columns, Floats
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues

PAGE = Path(__file__).parents[1] / "docs" / "statistics-checks.md"
COLUMNS, TABLES = 20, {500: 60, 5_000: 30, 50_000: 6}
Draw = Callable[[Floats, Floats, np.random.Generator], Floats]


def _latent(age: Floats, sex: Floats, rng: np.random.Generator) -> Floats:
    return 0.7 * age + np.sqrt(0.51) * rng.normal(size=len(age))


#: How a column is drawn, given age and sex.
KINDS: dict[str, Draw] = {
    "normal, r = 0.7": _latent,
    "of age and sex": lambda age, sex, rng: 0.5 * age + sex + 0.8 * rng.normal(size=len(age)),
    "flags of 50 %": lambda age, sex, rng: _latent(age, sex, rng) > 0,
    "flags of 5 %": lambda age, sex, rng: _latent(age, sex, rng) > 1.645,
    "weakly related flags of 5 %": lambda age, sex, rng: 0.3 * age + rng.normal(size=len(age)) > 1.72,
    "U-shaped": lambda age, sex, rng: age**2 + rng.normal(size=len(age)),
    "unequal variances": lambda age, sex, rng: np.exp(0.7 * age + 0.3 * sex) * rng.normal(size=len(age)),
    "unrelated": lambda age, sex, rng: rng.normal(size=len(age)),
}
_PLAN = load_plan(
    measuring.plan(results={"target": "coefficients", "precision": "statistical"}, reveal="coefficients")
)


def main() -> None:
    """Measure all kinds; print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    tests = ("not adjusted", "adjusted, as if equal", "adjusted", "one side adjusted", "adjusted, with noise")
    heads = ("columns", "rows", *(f"{test}: 0.05, 0.01" for test in tests))
    lines = [measured(kind, n) for kind, n in product(KINDS, TABLES)]
    measuring.show(measuring.table(heads, lines), __file__, write=options.write, page=PAGE)


def measured(kind: str, n: int) -> tuple[str, ...]:
    """Return a line of the table."""
    rng = np.random.default_rng([[*KINDS].index(kind), n])
    tests = [many(kind, n, rng) for _ in range(TABLES[n])]
    shares = [
        tuple(np.nanmean(np.concatenate(p) <= level) for level in (0.05, 0.01))
        for p in zip(*tests, strict=True)
    ]
    return kind, f"{n:,}", *(f"{at_5:.1%}, {at_1:.1%}" for at_5, at_1 in shares)


def many(kind: str, n: int, rng: np.random.Generator) -> list[Floats]:
    """Return p-values of all pairs of columns of two tables, by each test."""
    age, sex = rng.normal(size=n), (rng.random(n) < 0.5).astype(np.float64)
    raw, residuals, known, scales = [], [], [], []
    for role in (Role.SOURCE, Role.TARGET):
        columns = [KINDS[kind](age, sex, rng) for _ in range(COLUMNS)]
        ranks = rank_columns([*columns, age, sex])
        own = adjusted(ranks, 2)
        raw.append(ranks.first(COLUMNS))
        residuals.append(own)
        level = level_of(_PLAN)
        stated = level.statements(own, role, np.ones(COLUMNS))
        fitted = np.full(COLUMNS, stated.fitted)
        known.append(replace(Columns.of(own), unequal=stated.unequal, fitted=fitted))
        scales.append(level.grid(role, "ranges", n, COLUMNS, stated.defined).scales(stated.vectors))
    s = deviations(*scales, _PLAN.privacy.loss)
    rho = coefficients(*residuals)
    equal = [replace(one, unequal=np.ones(COLUMNS)) for one in known]
    of_raw = [Columns.of(ranks) for ranks in raw]
    one_side = coefficients(raw[0], residuals[1])
    return [
        tested(coefficients(*raw), n, *of_raw, 0.0),
        tested(rho, n, *equal, 0.0),
        tested(rho, n, *known, 0.0),
        tested(one_side, n, of_raw[0], known[1], 0.0),
        tested(rho + s * rng.normal(size=s.shape), n, *known, s),
    ]


def coefficients(source: Ranks, target: Ranks) -> Floats:
    """Correlate all columns of two sides."""
    units = [side.matrix / np.sqrt(np.array(side.squares, dtype=float))[:, None] for side in (source, target)]
    return np.asarray(units[0] @ units[1].T)


def tested(rho: Floats, n: int, source: Columns, target: Columns, noise: Floats | float) -> Floats:
    """Return p-values of coefficients."""
    return pvalues(rho, Pairs(n, source.rows, target, noise=noise)).ravel()


if __name__ == "__main__":
    main()

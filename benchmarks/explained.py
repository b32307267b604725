"""Compare criteria for the feature to complete first with what is explained of rows that nobody used.

    python benchmarks/explained.py [--write]

Tables are random: the source's columns follow a few traits, some repeat others, some only matter as a
difference, most are noise; the target's follow one of these each. What can be completed from the source is R²
of ranks on 2,000 other rows of the best linear combination that the used rows give. `--write` puts the table
into docs/statistics.md.
"""

from __future__ import annotations

from pathlib import Path

import measuring
import numpy as np
from scipy.stats import rankdata, spearmanr

from mpc_spearman.config import load_plan
from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.levels import level_of
from mpc_spearman.levels.level import Description
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role, Roster
from mpc_spearman.statistics.explained import predictive

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
TABLES, NEW, M_B = 300, 2000, 8
PARTIES = {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}
PLAN = load_plan({"reveal": "explained", "parties": PARTIES})


def main() -> None:
    """Measure all criteria at two sizes and print, or write, what was found."""
    options = measuring.parser(__doc__).parse_args()
    rows = []
    for n in (500, 5000):
        found: dict[str, list[tuple[float, bool]]] = {}
        for seed in range(TABLES):
            for name, values, truth in criteria(n, np.random.default_rng([n, seed])):
                best = bool(np.argmax(values) == np.argmax(truth))
                found.setdefault(name, []).append((float(spearmanr(values, truth)[0]), best))
        for name, pairs in found.items():
            rank, first = np.mean(pairs, axis=0)
            rows.append((f"{n:,}", name, f"{rank:.2f}", f"{first:.0%}"))
    heads = ("rows", "criterion", "rank correlation with what is explained of new rows", "the best is first")
    measuring.show(measuring.table(heads, rows), __file__, write=options.write, page=PAGE)


def criteria(n: int, rng: np.random.Generator) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Make a table, and say what each criterion makes of it beside the truth."""
    a, b = tables(n + NEW, rng)
    used = [np.stack([rankdata(column[:n]) for column in side]) for side in (a, b)]
    rho = np.corrcoef(*used)[: len(a), len(a) :]
    truth = np.array([completed(a, y, n) for y in b])
    source, target = (rank_columns(list(side[:, :n])) for side in (a, b))
    level, roster = level_of(PLAN), Roster.of(PLAN, "C")
    shapes = Shapes(n, {roster.sources[0]: len(a)}, M_B)
    own = [level.contribution(*of, shapes) for of in ((source, Role.SOURCE), (target, Role.TARGET))]
    owners = (roster.sources[0], roster.target)
    scales = [
        level.scales(*of, shapes)["ranges"]
        for of in ((own[0], source, Role.SOURCE), (own[1], target, Role.TARGET))
    ]
    k = level.counted(own[0], source, Role.SOURCE)
    known = Shapes(
        n,
        shapes.features,
        M_B,
        dict(zip(owners, (k, M_B), strict=True)),
        dict(zip(owners, scales, strict=True)),
    )
    z = own[0].vectors.astype(float) @ own[1].vectors.astype(float).T
    exact = np.square(z[:k] / level.encoding(known).unit).sum(axis=0)  # type: ignore[union-attr]
    noise = sum(level.own_noise(known, owner) for owner in owners)  # type: ignore[misc]
    noisy = level.conclude(
        np.rint(z).astype(np.int64) + noise, [], Description(constant=(False,) * M_B), known
    )
    return [
        ("mean ρ (the paper's)", rho.mean(axis=0), truth),
        ("mean absolute ρ", np.abs(rho).mean(axis=0), truth),
        ("largest absolute ρ", np.abs(rho).max(axis=0), truth),
        ("predictive R², exact", predictive(exact, np.full(M_B, k), n), truth),
        ("predictive R², published", predictive(noisy["explained"][0], np.full(M_B, k), n), truth),
    ]


def tables(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Make a source's columns and the target's."""
    traits = rng.normal(size=(4, n))
    copies = [traits[rng.integers(4)] * rng.choice([-1, 1]) + 0.5 * rng.normal(size=n) for _ in range(5)]
    common, difference = rng.normal(size=n), rng.normal(size=n)
    a = np.array([*copies, 3 * common + difference, 3 * common - difference, *rng.normal(size=(3, n))])
    behind = np.vstack([traits, difference])
    weights = rng.normal(size=(M_B, 5)) * (rng.random((M_B, 5)) < 0.5)
    return a, weights @ behind + rng.uniform(0.5, 3, size=(M_B, 1)) * rng.normal(size=(M_B, n))


def completed(a: np.ndarray, y: np.ndarray, n: int) -> float:
    """R² on new rows of the combination of ranks that the used rows give."""

    def ranks(columns: np.ndarray) -> np.ndarray:
        return np.stack([rankdata(column) / len(column) - 0.5 for column in columns])

    weights = np.linalg.lstsq(ranks(a[:, :n]).T, ranks(y[None, :n])[0], rcond=None)[0]
    new, truth = ranks(a[:, n:]), ranks(y[None, n:])[0]
    return 1 - float(np.square(truth - weights @ new).mean() / truth.var())


if __name__ == "__main__":
    main()

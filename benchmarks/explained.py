"""Measure what `explained` and `canonical` find, and how often they find something where nothing is.

    python benchmarks/explained.py [--write]

The first table compares criteria for the feature to complete first with what is explained of rows that nobody
used. Tables are random: the source's columns follow a few traits, some repeat others, some only matter as a
difference, most are noise; the target's follow one of these each. What can be completed from the source is R²
of ranks on 2,000 other rows of the best linear combination that the used rows give.

The second is of columns that are independent: it counts p-values of R² and of Pillai's trace, without noise
and with the noise that the level adds at the default loss. `--write` puts both into
docs/statistics-checks.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import measuring
import numpy as np
from scipy.stats import rankdata, spearmanr

from mpc_spearman.config import load_plan
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.levels import level_of, whitening
from mpc_spearman.levels.shapes import Description, Descriptions, Shapes
from mpc_spearman.privacy.loss import separation
from mpc_spearman.statistics.explained import Directions, dispersion, pillai_pvalues, predictive, pvalues

PAGE = Path(__file__).parents[1] / "docs" / "statistics-checks.md"
TABLES, NEW, M_B = 300, 2000, 8
PLAN = load_plan(measuring.plan(reveal="explained"))


def main() -> None:
    """Make both tables and print, or write, them."""
    options = measuring.parser(__doc__).parse_args()
    measuring.show(f"{found_first()}\n{sizes()}", __file__, write=options.write, page=PAGE)


def found_first() -> str:
    """Make the table of criteria."""
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
    return measuring.table(heads, rows)


def criteria(n: int, rng: np.random.Generator) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Make a table, and say what each criterion makes of it beside the truth."""
    a, b = tables(n + NEW, rng)
    used = [np.stack([rankdata(column[:n]) for column in side]) for side in (a, b)]
    rho = np.corrcoef(*used)[: len(a), len(a) :]
    truth = np.array([completed(a, y, n) for y in b])
    source, target = (rank_columns(list(side[:, :n])) for side in (a, b))
    exact = np.array([r2(source.matrix, y) for y in target.matrix])
    noisy, k = published(source, target)
    return [
        ("mean ρ (the paper's)", rho.mean(axis=0), truth),
        ("mean absolute ρ", np.abs(rho).mean(axis=0), truth),
        ("largest absolute ρ", np.abs(rho).max(axis=0), truth),
        ("predictive R², exact", predictive(exact, np.full(M_B, len(a)), n), truth),
        ("predictive R², published", predictive(noisy, np.full(M_B, k), n), truth),
    ]


def r2(x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of y that all columns of x explain, by least squares."""
    fitted = x.T @ np.linalg.lstsq(x.T.astype(float), y.astype(float), rcond=None)[0]
    return float(fitted @ fitted / (y.astype(float) @ y))


def published(source: Ranks, target: Ranks) -> tuple[np.ndarray, int]:
    """Return R² of each target column as the level passes it on, and over how many directions."""
    level, roster, vectors, stated = level_of(PLAN), PLAN.roster("C"), [], {}
    owners = {roster.sources[0]: source, roster.target: target}
    shapes = Shapes(source.n, {roster.sources[0]: source.m}, target.m)
    for owner, ranks in owners.items():
        said = stated[owner] = level.statements(ranks, owner.role, np.ones(ranks.m))
        factors = level.factors(ranks, owner.role, shapes, said, np.ones(ranks.m))
        vectors.append(level.contribution(ranks, owner.role, shapes, said, factors).vectors.astype(float))
    scales = {
        owner: level.grid(owner.role, "ranges", source.n, len(said.constant), said.defined).scales(
            level.stated_scales(said, owner.role)["ranges"]
        )
        for owner, said in stated.items()
    }
    defined = {owner: said.defined for owner, said in stated.items()}
    known = replace(shapes, defined=defined, scales=scales)
    noise = sum(level.draw_noise(known, owner) for owner in owners)  # type: ignore[misc]
    opened = np.rint(vectors[0] @ vectors[1].T).astype(np.int64) + noise
    descriptions = Descriptions((Description(),), Description(constant=(False,) * target.m))
    return level.conclude(opened, replace(known, descriptions=descriptions))["explained"][0], defined[
        roster.sources[0]
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


#: Kinds of columns: how many rows in 100 have a flag; None of columns without ties.
KINDS: dict[str, list[float | None]] = {
    "untied": [None],
    "untied and flags of 5 %": [None, 5],
    "flags of 5 %": [5],
}
TARGETS = {"untied": None, "flags of 20 %": 20, "flags of 5 %": 5, "flags of 1 %": 1}
SIZES, DRAWS, ALPHAS = ((100, 4), (500, 20), (2000, 5)), 20_000, (0.05, 0.01)


def sizes() -> str:
    """Make the table of how often independent columns have a p-value of alpha or less, over alpha."""
    rng, rows = np.random.default_rng(20260803), []
    for (n, m), (of_source, kind) in product(SIZES, KINDS.items()):
        source = made(kind, n, m, rng)
        targets = [(name, made([share], n, 1, rng, whiten=False)) for name, share in TARGETS.items()]
        for of_target, target in (*targets, (of_source, made(kind, n, m, rng))):
            cells = [cell for noise in (False, True) for cell in shares(source, target, noise, rng)]
            test = "R²" if len(target) == 1 else "Pillai's trace"
            rows.append((test, f"{n:,}", f"{len(source)} × {len(target)}", of_source, of_target, *cells))
    heads = ("test", "n", "directions", "source's columns", "target's", "at 0.05", "at 0.01")
    return measuring.table((*heads, "with noise, at 0.05", "at 0.01"), rows)


def made(
    kind: list[float | None], n: int, m: int, rng: np.random.Generator, *, whiten: bool = True
) -> np.ndarray:
    """Make whitened columns of a kind, (k, n), or one as it is."""
    shares = [kind[i % len(kind)] for i in range(m)]
    columns = [
        rng.permutation(n).astype(float) if each is None else (rng.permutation(n) < round(each * n / 100))
        for each in shares
    ]
    ranks = rank_columns(columns)
    if not whiten:
        return ranks.matrix / np.linalg.norm(ranks.matrix, axis=1)[:, None]
    return np.asarray(whitening.directions(ranks) @ ranks.matrix)


def shares(source: np.ndarray, target: np.ndarray, noisy: bool, rng: np.random.Generator) -> list[str]:
    """Draw pairings of rows; say how many have a p-value of at most each alpha, over alpha."""
    (k, n), other = source.shape, len(target)
    weight, beside = (np.array(n * np.square(np.square(side).sum(axis=0)).sum()) for side in (source, target))
    ranges = [np.sort(np.sqrt(np.square(side).sum(axis=0)))[-2:].sum() for side in (source, target)]
    if other == 1:
        ranges[1] = np.ptp(target)
    s = math.sqrt(2) * ranges[0] * ranges[1] / separation(PLAN.privacy.loss) if noisy else 0.0
    found: np.ndarray | float = 1.0
    if not noisy and np.isnan(found := dispersion(weight, np.array(k), beside, other, n)):
        return ["none"] * len(ALPHAS)
    z = np.array([source @ target[:, rng.permutation(n)].T for _ in range(DRAWS)])
    trace = np.square(z + s * rng.normal(size=z.shape)).sum(axis=(1, 2)) - k * other * s**2
    products = Directions(n, np.full(DRAWS, k), np.full(DRAWS, s), found, other)
    p = (pvalues if other == 1 else pillai_pvalues)(trace, products)
    return [f"{np.mean(p <= alpha) / alpha:.2f}" for alpha in ALPHAS]


if __name__ == "__main__":
    main()

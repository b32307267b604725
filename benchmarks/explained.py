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
from itertools import product

import measuring
import numpy as np
from scipy.stats import rankdata, spearmanr

from mpc_spearman.attacks.guess import scales
from mpc_spearman.config.sections import LOSS
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.levels import whitening
from mpc_spearman.privacy.scales import Scales, deviations
from mpc_spearman.statistics.columns import Floats
from mpc_spearman.statistics.explained import Directions, dispersion, pillai_pvalues, predictive, pvalues

TABLES, NEW_ROWS, M_B = 300, 2000, 8
#: Kinds of columns: how many rows in 100 have a flag; None of columns without ties.
KINDS: dict[str, list[float | None]] = {
    "untied": [None],
    "untied and flags of 5 %": [None, 5],
    "flags of 5 %": [5],
}
TARGETS = {"untied": None, "flags of 20 %": 20, "flags of 5 %": 5, "flags of 1 %": 1}
SIZES, DRAWS, ALPHAS = ((100, 4), (500, 20), (2000, 5)), 20_000, (0.05, 0.01)


def text() -> str:
    """Return both tables."""
    return f"{criteria_for_features()}\n{sizes_of_tests()}"


def criteria_for_features() -> str:
    """Return the table of criteria for the feature to complete first."""
    lines = []
    for n in (500, 5000):
        outcomes: dict[str, list[tuple[float, bool]]] = {}
        for seed in range(TABLES):
            rng = np.random.default_rng([n, seed])
            a, b = related_tables(n + NEW_ROWS, rng)
            truth = np.array([completed(a, y, n) for y in b])
            for name, values in criteria(a[:, :n], b[:, :n], rng).items():
                best_first = bool(np.argmax(values) == np.argmax(truth))
                outcomes.setdefault(name, []).append((float(spearmanr(values, truth)[0]), best_first))
        for name, pairs in outcomes.items():
            correlation, first = np.mean(pairs, axis=0)
            lines.append((f"{n:,}", name, f"{correlation:.2f}", f"{first:.0%}"))
    heads = ("rows", "criterion", "rank correlation with what is explained of new rows", "the best is first")
    return measuring.table(heads, lines)


def related_tables(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw a source's columns and the target's."""
    traits = rng.normal(size=(4, n))
    copies = [traits[rng.integers(4)] * rng.choice([-1, 1]) + 0.5 * rng.normal(size=n) for _ in range(5)]
    common, difference = rng.normal(size=n), rng.normal(size=n)
    a = np.array([*copies, 3 * common + difference, 3 * common - difference, *rng.normal(size=(3, n))])
    behind = np.vstack([traits, difference])
    weights = rng.normal(size=(M_B, 5)) * (rng.random((M_B, 5)) < 0.5)
    return a, weights @ behind + rng.uniform(0.5, 3, size=(M_B, 1)) * rng.normal(size=(M_B, n))


def completed(a: Floats, y: Floats, n: int) -> float:
    """Return R² on new rows of the combination of ranks that the first n rows give."""

    def ranks(columns: Floats) -> Floats:
        return rankdata(columns, axis=1) / columns.shape[1] - 0.5

    weights = np.linalg.lstsq(ranks(a[:, :n]).T, ranks(y[None, :n])[0], rcond=None)[0]
    new, truth = ranks(a[:, n:]), ranks(y[None, n:])[0]
    return 1 - float(np.square(truth - weights @ new).mean() / truth.var())


def criteria(a: Floats, b: Floats, rng: np.random.Generator) -> dict[str, Floats]:
    """Return what each criterion makes of each of the target's columns."""
    n, source, target = a.shape[1], rank_columns(list(a)), rank_columns(list(b))
    x, y = measuring.unit_vectors(source), measuring.unit_vectors(target)
    rho, basis = x @ y.T, np.linalg.qr(x.T)[0]
    whitened = whitening.directions(source) @ source.matrix
    k, noise = len(whitened), noise_deviations(whitened, scales(target.matrix.astype(np.int64)))
    noisy = np.square(whitened @ y.T + noise * rng.normal(size=(k, M_B))).sum(axis=0)
    return {
        "mean ρ (the paper's)": rho.mean(axis=0),
        "mean absolute ρ": np.abs(rho).mean(axis=0),
        "largest absolute ρ": np.abs(rho).max(axis=0),
        "predictive R², exact": predictive(np.square(y @ basis).sum(axis=1), np.full(M_B, len(x)), n),
        "predictive R², published": predictive(noisy - k * noise**2, np.full(M_B, k), n),
    }


def noise_deviations(whitened: Floats, target: Scales) -> Floats:
    """Return standard deviations of both owners' noise in products of whitened columns and the target's."""
    return math.sqrt(2) * deviations(distance(whitened), target, LOSS)[0]


def distance(whitened: Floats) -> Scales:
    """Return the scale of whitened columns: how far apart two rows can lie at most."""
    return Scales(np.sort(np.linalg.norm(whitened, axis=0))[-2:].sum(keepdims=True))


def sizes_of_tests() -> str:
    """Return the table of how often independent columns have a p-value of alpha or less, over alpha."""
    rng, lines = np.random.default_rng(20260803), []
    for (n, m), (of_source, kind) in product(SIZES, KINDS.items()):
        source = drawn(kind, n, m, rng)
        targets = [(name, drawn([share], n, 1, rng, whiten=False)) for name, share in TARGETS.items()]
        for of_target, target in (*targets, (of_source, drawn(kind, n, m, rng))):
            cells = [cell for noisy in (False, True) for cell in shares(source, target, noisy, rng)]
            test = "R²" if len(target) == 1 else "Pillai's trace"
            lines.append((test, f"{n:,}", f"{len(source)} × {len(target)}", of_source, of_target, *cells))
    heads = ("test", "n", "directions", "source's columns", "target's", "at 0.05", "at 0.01")
    return measuring.table((*heads, "with noise, at 0.05", "at 0.01"), lines)


def drawn(
    kind: list[float | None], n: int, m: int, rng: np.random.Generator, *, whiten: bool = True
) -> Floats:
    """Draw whitened columns of a kind, (k, n), or one as it is."""
    shares = [kind[i % len(kind)] for i in range(m)]
    ranks = rank_columns(
        [
            rng.permutation(n).astype(float) if share is None else rng.permutation(n) < round(share * n / 100)
            for share in shares
        ]
    )
    return whitening.directions(ranks) @ ranks.matrix if whiten else measuring.unit_vectors(ranks)


def shares(source: Floats, target: Floats, noisy: bool, rng: np.random.Generator) -> list[str]:
    """Draw pairings of rows; return how many have a p-value of at most each alpha, over alpha."""
    (k, n), k_target = source.shape, len(target)
    kurtoses = [np.array(n * np.square(np.square(side).sum(axis=0)).sum()) for side in (source, target)]
    variance = 1.0 if noisy else dispersion(kurtoses[0], np.array(k), kurtoses[1], k_target, n)
    if np.isnan(variance):
        return ["none"] * len(ALPHAS)
    of_target = Scales(np.ptp(target, axis=1)) if k_target == 1 else distance(target)
    noise = noise_deviations(source, of_target)[0] if noisy else 0.0
    z = np.array([source @ target[:, rng.permutation(n)].T for _ in range(DRAWS)])
    trace = np.square(z + noise * rng.normal(size=z.shape)).sum(axis=(1, 2)) - k * k_target * noise**2
    directions = Directions(n, np.full(DRAWS, k), np.full(DRAWS, noise), variance, k_target)
    p = (pvalues if k_target == 1 else pillai_pvalues)(trace, directions)
    return [f"{np.mean(p <= alpha) / alpha:.2f}" for alpha in ALPHAS]


if __name__ == "__main__":
    measuring.publish(text, "statistics-checks.md")

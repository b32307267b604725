"""Count how often a result claims that there is something, where both tables are unrelated.

    python benchmarks/headlines.py [--write]

Every table is of independent normal columns; numbers are computed from their ranks, with noise of so many
standard errors, as the target's copy has them. A claim is a headline that does not say that nothing differs
from chance, or a ranking without the sentence that it is mostly chance or noise. `--write` puts the table
into docs/statistics-checks.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from scipy.stats import rankdata

from mpc_spearman.config import Plan, load_plan
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.strengths import Strengths
from mpc_spearman.findings.tables import Labels
from mpc_spearman.levels import findings_of
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.mean_squares import from_noisy

PAGE = Path(__file__).parents[1] / "docs" / "statistics-checks.md"
#: Rows, columns a side, and how many tables; noise in standard errors.
SIZES, NOISE = ((200, 5, 1000), (2000, 20, 200)), (0.0, 2.0)
NOTHING = re.compile(
    "No pair differs|No feature differs|Of no feature is more explained|cannot be told to have anything"
)
#: What is granted, and a setting beside it; `strongest` is of ``results``.
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("coefficients", {}),
    ("coefficients", {"strength": "mean_abs"}),
    ("coefficients", {"strongest": 3}),
    ("strengths", {}),
    ("explained", {}),
    ("canonical", {}),
)


def main() -> None:
    """Count and print, or write, the table."""
    options, rows = measuring.parser(__doc__).parse_args(), []
    for grant, settings in KINDS:
        for n, m, tables in SIZES:
            cells = [counted(grant, settings, n, m, tables, noise) for noise in NOISE]
            name = ", ".join([grant, *(f"{key}: {value}" for key, value in settings.items())])
            rows.append(
                (name, f"{n:,}, {m} × {m}", *(share for both in zip(*cells, strict=True) for share in both))
            )
    noise = [f"with {each:g} s.e. of noise" if each else "exact" for each in NOISE]
    heads = (
        "results",
        "rows, columns",
        *(f"{what}, {each}" for what in ("headline", "ranking") for each in noise),
    )
    measuring.show(measuring.table(heads, rows), __file__, write=options.write, page=PAGE)


def counted(
    grant: str, settings: Mapping[str, Any], n: int, m: int, tables: int, noise: float
) -> tuple[str, str]:
    """Return how often a headline, and how often a ranking, claims something."""
    if "strongest" in settings and not noise:
        return "", ""
    has_ranking = grant != "canonical" and "strongest" not in settings  # with tests
    rng = np.random.default_rng([n, m])
    made = [copy(grant, settings, n, m, noise, rng) for _ in range(tables)]
    headlines = np.mean([NOTHING.search(one.headline()) is None for one in made])
    orders = [claimed_order(one) for one in made]
    return f"{headlines:.1%}", f"{np.mean(orders):.1%}" if has_ranking else ""


def claimed_order(findings: Findings) -> bool:
    """Return whether there is a ranking that is not said to be chance or noise."""
    sections = [findings.ranked()] if isinstance(findings, Strengths) else findings.sections()
    ranked = [one for one in sections if one.table and "position" in one.table.columns]
    return any(not one.lead.startswith("The order is mostly") for one in ranked)


def copy(
    grant: str, settings: Mapping[str, Any], n: int, m: int, ratio: float, rng: np.random.Generator
) -> Findings:
    """Make the target's copy of results about independent columns, with noise of `ratio` standard errors."""
    reveal, above = "coefficients" if settings else grant, dict(settings)
    k = above.pop("strongest", None)
    results = {"target": grant, "precision": "statistical" if ratio else "exact", "strongest": k}
    plan = load_plan(measuring.plan(reveal=reveal, results=results, **above))
    x, y = (_ranks(rng.standard_normal((m, n))) for _ in range(2))
    names = [f"f{j}" for j in range(m)]
    labels = Labels([("A", f"e{j}") for j in range(m)], names)
    numbers = {"coefficients": _coefficients, "strengths": _strengths}.get(grant, _whitened)
    return findings_of(plan, "target").of(
        Copy(plan, "B", "target", n), numbers(x, y, ratio / math.sqrt(n - 1), plan, rng), labels
    )


def _ranks(columns: np.ndarray) -> np.ndarray:
    ranks = rankdata(columns, axis=1) - (columns.shape[1] + 1) / 2
    return np.asarray(ranks / np.linalg.norm(ranks, axis=1, keepdims=True))


def _coefficients(
    x: np.ndarray, y: np.ndarray, s: float, plan: Plan, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    rho, n = x @ y.T, x.shape[1]
    noise = np.full(rho.shape, s)
    if (k := plan.results.strongest) is not None:  # the choice has Gumbel noise of about the same size
        scores = np.abs(rho) + s * rng.gumbel(size=rho.shape)
        rho[scores < np.sort(scores.ravel())[-k]] = math.nan
    rho = rho + s * rng.standard_normal(rho.shape)
    if s:
        mu, counts, ranked = from_noisy(rho, noise, n, plan.strength, plan.estimator)
    else:
        mu, counts = estimators.strengths(rho, plan.strength)
        ranked = mu
    kinds = {"ties": int, "skewness": float, "gaps": float}  # of columns without ties
    sides = {
        f"{side}_{what}": np.zeros(len(rho), dtype=kind)
        for side in ("source", "target")
        for what, kind in kinds.items()
    }
    return {
        "coefficients": rho,
        "strengths": mu,
        "counts": counts,
        "errors": np.full(len(mu), _length(x, plan.strength) / math.sqrt(n - 1)),
        "positions": estimators.positions(ranked, plan.order),
        **sides,
        **({"noise": noise, "strengths_noise": np.full(len(mu), s / math.sqrt(len(x)))} if s else {}),
    }


def _length(x: np.ndarray, strength: str) -> float:
    """Return how much a mean over these columns varies, in standard errors of a coefficient."""
    if strength == "mean":
        return float(np.linalg.norm(x.mean(axis=0)))
    c = np.clip(x @ x.T, -1, 1)
    return float(np.sqrt((2 / np.pi * (np.sqrt(1 - c**2) + c * np.arcsin(c) - 1)).sum())) / len(x)


def _strengths(
    x: np.ndarray, y: np.ndarray, s: float, plan: Plan, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    mu, length = (x @ y.T).mean(axis=0), _length(x, "mean")
    noise = np.full(len(mu), s * length)
    mu = mu + noise * rng.standard_normal(len(mu))
    return {
        "strengths": mu,
        "counts": np.full(len(mu), len(x)),
        "errors": np.full(len(mu), length / math.sqrt(x.shape[1] - 1)),
        "positions": estimators.positions(mu, plan.order),
        **({"strengths_noise": noise} if s else {}),
    }


def _whitened(
    x: np.ndarray, y: np.ndarray, s: float, plan: Plan, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return the numbers of `explained` or `canonical`, from products of whitened columns."""
    m, both = len(x), plan.reveal == "canonical"
    white = np.linalg.qr(x.T)[0].T
    z = white @ (np.linalg.qr(y.T)[0].T if both else y).T
    z = z + s * rng.standard_normal(z.shape)
    kept = np.array([m])
    if both:
        value = np.linalg.svd(z, compute_uv=False)[None]
        return {
            "canonical": value,
            "canonical_noise": np.array([s]),
            "kept": kept,
            "kept_target": kept,
            "gaps": np.zeros(1),
        }
    r2 = np.square(z).sum(axis=0)[None] - m * s * s
    return {"explained": r2, "explained_noise": np.full(r2.shape, s), "kept": kept, "gaps": np.zeros((1, 1))}


if __name__ == "__main__":
    main()

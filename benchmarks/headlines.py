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
from itertools import product
from typing import Any

import measuring
import numpy as np

from mpc_spearman.config import Plan, load_plan
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.forms import Labels
from mpc_spearman.findings.strengths import Strengths
from mpc_spearman.levels import findings_of
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.columns import Floats
from mpc_spearman.statistics.mean_squares import from_noisy

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


def text() -> str:
    """Return the table of all kinds and sizes."""
    lines = []
    for (grant, settings), (n, m, tables) in product(KINDS, SIZES):
        headlines, rankings = [], []
        for noise in NOISE:
            rng = np.random.default_rng([n, m])
            listed = "strongest" in settings
            if listed and not noise:
                headlines.append("")
                rankings.append("")
                continue
            copies = [copy(grant, settings, n, m, noise, rng) for _ in range(tables)]
            claims = [NOTHING.search(findings.headline()) is None for findings in copies]
            orders = [claimed_order(findings) for findings in copies]
            headlines.append(f"{np.mean(claims):.1%}")
            rankings.append(f"{np.mean(orders):.1%}" if grant != "canonical" and not listed else "")
        name = ", ".join([grant, *(f"{key}: {value}" for key, value in settings.items())])
        lines.append((name, f"{n:,}, {m} × {m}", *headlines, *rankings))
    kinds = [f"with {noise:g} s.e. of noise" if noise else "exact" for noise in NOISE]
    claims = [f"{claim}, {kind}" for claim in ("headline", "ranking") for kind in kinds]
    return measuring.table(("results", "rows, columns", *claims), lines)


def claimed_order(findings: Findings) -> bool:
    """Return whether there is a ranking that is not said to be chance or noise."""
    sections = [findings.ranked()] if isinstance(findings, Strengths) else findings.sections()
    rankings = [section for section in sections if section.table and "position" in section.table.columns]
    return any(not ranking.lead.startswith("The order is mostly") for ranking in rankings)


def copy(
    grant: str, settings: Mapping[str, Any], n: int, m: int, ratio: float, rng: np.random.Generator
) -> Findings:
    """Make the target's copy of results about independent columns, with noise of `ratio` standard errors."""
    reveal, above = "coefficients" if settings else grant, dict(settings)
    k = above.pop("strongest", None)
    results = {"target": grant, "precision": "statistical" if ratio else "exact", "strongest": k}
    plan = load_plan(measuring.plan(reveal=reveal, results=results, **above))
    x, y = (units(rng.standard_normal((m, n))) for _ in range(2))
    names = [f"f{j}" for j in range(m)]
    labels = Labels([("A", f"e{j}") for j in range(m)], names)
    numbers = {"coefficients": _coefficients, "strengths": _strengths}.get(grant, _whitened)
    return findings_of(plan, "target").of(
        Copy(plan, "B", "target", n), numbers(x, y, ratio / math.sqrt(n - 1), plan, rng), labels
    )


def units(columns: Floats) -> Floats:
    """Return ranks of columns as vectors of length 1, (m, n)."""
    return measuring.unit_vectors(rank_columns(list(columns)))


def _coefficients(x: Floats, y: Floats, s: float, plan: Plan, rng: np.random.Generator) -> dict[str, Any]:
    rho, n = x @ y.T, x.shape[1]
    noise = np.full(rho.shape, s)
    if (k := plan.results.strongest) is not None:  # the choice has Gumbel noise of about the same size
        scores = np.abs(rho) + s * rng.gumbel(size=rho.shape)
        rho[scores < np.sort(scores.ravel())[-k]] = math.nan
    rho = rho + s * rng.standard_normal(rho.shape)
    strengths, counts = estimators.strengths(rho, plan.strength)
    ranked, noises = strengths, {}
    if s:
        strengths, counts, ranked = from_noisy(rho, noise, n, plan.strength, plan.estimator)
        noises = {"noise": noise, "strengths_noise": np.full(len(y), s / math.sqrt(len(x)))}
    # of columns without ties
    kinds = {"ties": int, "skewness": float, "gaps": float}
    sides = {
        f"{side}_{fact}": np.zeros(len(rho), dtype=kind)
        for side in ("source", "target")
        for fact, kind in kinds.items()
    }
    return {
        "coefficients": rho,
        "strengths": strengths,
        "counts": counts,
        "errors": np.full(len(y), _length(x, plan.strength) / math.sqrt(n - 1)),
        "positions": estimators.positions(ranked, plan.order),
        **sides,
        **noises,
    }


def _length(x: Floats, strength: str) -> float:
    """Return how much a mean over these columns varies, in standard errors of a coefficient."""
    if strength == "mean":
        return float(np.linalg.norm(x.mean(axis=0)))
    c = np.clip(x @ x.T, -1, 1)
    return float(np.sqrt((2 / np.pi * (np.sqrt(1 - c**2) + c * np.arcsin(c) - 1)).sum())) / len(x)


def _strengths(x: Floats, y: Floats, s: float, plan: Plan, rng: np.random.Generator) -> dict[str, Any]:
    length = _length(x, "mean")
    noise = np.full(len(y), s * length)
    strengths = (x @ y.T).mean(axis=0) + noise * rng.standard_normal(len(y))
    return {
        "strengths": strengths,
        "counts": np.full(len(y), len(x)),
        "errors": np.full(len(y), length / math.sqrt(x.shape[1] - 1)),
        "positions": estimators.positions(strengths, plan.order),
        **({"strengths_noise": noise} if s else {}),
    }


def _whitened(x: Floats, y: Floats, s: float, plan: Plan, rng: np.random.Generator) -> dict[str, Any]:
    """Return the numbers of `explained` or `canonical`, from products of whitened columns."""
    m, directions = len(x), np.array([len(x)])
    white_x, white_y = (np.linalg.qr(side.T)[0].T for side in (x, y))
    z = white_x @ (white_y if plan.reveal == "canonical" else y).T
    z = z + s * rng.standard_normal(z.shape)
    if plan.reveal == "canonical":
        values = {"canonical": np.linalg.svd(z, compute_uv=False)[None], "canonical_noise": np.array([s])}
        return {**values, "kept": directions, "kept_target": directions, "gaps": np.zeros(1)}
    r2 = np.square(z).sum(axis=0)[None] - m * s * s
    return {
        "explained": r2,
        "explained_noise": np.full(r2.shape, s),
        "kept": directions,
        "gaps": np.zeros((1, 1)),
    }


if __name__ == "__main__":
    measuring.publish(text, "statistics-checks.md")

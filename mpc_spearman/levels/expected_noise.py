"""The noise to expect in numbers about an owner's columns, before anything is computed together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mpc_spearman.config import Plan
from mpc_spearman.levels import proved
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.privacy.advice import passes_pairs
from mpc_spearman.privacy.choice import noise_factor
from mpc_spearman.privacy.scales import (
    Scales,
    column_grid,
    deviations,
    input_deviations,
    sum_grid,
    untied_range,
)
from mpc_spearman.privacy.statements import Statements
from mpc_spearman.statistics.columns import Floats


@dataclass(frozen=True)
class ExpectedNoise:
    """The noise to expect in numbers about an owner's columns, computed from these columns alone."""

    #: What these numbers are, in words.
    numbers: str
    #: The noise's standard deviation, (m,); 0 for a constant column.
    noise: Floats
    #: How much such a number of unrelated columns varies by chance.
    error: float
    #: A warning if there are too few rows for this noise; else empty.
    too_few: str = ""
    #: Whether the numbers are coefficients or their means, which have standard errors and tests.
    of_coefficients: bool = False

    @classmethod
    def of_means(cls, numbers: str, noise: Floats, error: float, remedy: str) -> ExpectedNoise:
        """Return noise in coefficients, or their means, with a warning if most of it exceeds chance."""
        ratio = float(np.median(noise[noise > 0])) / error if noise.any() else 0.0
        too_few = f"noise will be {ratio:.3g} times the sampling error. {remedy}" if ratio > 1 else ""
        return cls(numbers, noise, error, too_few, of_coefficients=True)

    @property
    def ratio(self) -> Floats:
        """Noise in multiples of chance, (m,)."""
        return self.noise / self.error


def expect_noise(plan: Plan, stated: Statements, role: Role, shapes: Shapes) -> ExpectedNoise:
    """Return the noise to expect in coefficients with an owner's columns, or in means of coefficients.

    It assumes that the other side's columns have no ties, and the largest diameter: their number.
    """
    n, pairs, is_source = shapes.n, passes_pairs(plan), role is Role.SOURCE
    other_columns, lengths = shapes.m_target if is_source else shapes.m_sources, (1.0, 1.0)
    error, remedy = 1 / math.sqrt(n - 1), "Use fewer columns, or more rows"
    if plan.proofs:
        noise = proved.expected_deviations(plan, n, stated.lengths, other_columns)
        return ExpectedNoise.of_means("coefficients", noise, error, remedy)
    scales = column_grid(n, plan.estimator).scales(stated.vectors)
    moving, other_scales = scales.widths > 0, Scales(np.array([untied_range(n)]), other_columns)
    if pairs:
        remedy = "Grant strengths, use fewer columns, or agree on privacy.unit: value"
    elif is_source:
        of_sum = sum_grid(n, len(moving)).scales(stated.sum)
        scales, lengths = Scales(of_sum.widths / max(1, stated.defined)), (max(stated.length, 1 / n), 1.0)
        error *= lengths[0]
    else:  # of a mean of columns that are independent
        width = min(untied_range(n), 2 * math.sqrt(2 * math.log(n) / (n * other_columns)))
        other_scales, lengths = Scales(np.array([width])), (1.0, 1 / math.sqrt(other_columns))
        error *= lengths[1]
    sides = (Role.SOURCE, Role.TARGET) if is_source else (Role.TARGET, Role.SOURCE)
    adding = sides[0] in plan.terms.on_inputs, sides[1] in plan.terms.on_inputs
    of_value = other_columns if plan.privacy.unit == "value" else None
    noise = expected_deviations(scales, other_scales, lengths, adding, plan.privacy.loss, n, of_value)
    items = len(moving) * other_columns if pairs else shapes.m_target
    noise = np.where(moving, noise, 0.0)
    noise *= noise_factor(plan.results.strongest, items, scales.spread * other_scales.spread)
    if any(adding):
        remedy = "Use many more rows, or noise: results"
    numbers = "coefficients" if pairs else "strengths (means of coefficients)"
    return ExpectedNoise.of_means(numbers, noise, error, remedy)


def expected_deviations(
    scales: Scales,
    other_scales: Scales,
    lengths: tuple[float, float],
    on_inputs: tuple[bool, bool],
    loss: float,
    n: int,
    numbers_of_value: int | None,
) -> Floats:
    """Return the noise to expect in products of an owner's vectors with one of the other side, (m,).

    Arguments are of both sides: scales without noise, `lengths` of vectors, and whether owners add noise to
    inputs. `numbers_of_value` is as for `mpc_spearman.privacy.scales.deviations`.
    """
    unit = "row" if numbers_of_value is None else "value"
    sigma, other_sigma = (
        input_deviations(side, loss, unit) if adds else np.zeros(len(side.widths))
        for side, adds in zip((scales, other_scales), on_inputs, strict=True)
    )
    variances, other_variance = np.square(sigma), float(np.square(other_sigma).max())
    squares = variances * lengths[1] ** 2 + other_variance * (lengths[0] ** 2 + n * variances)
    if not all(on_inputs):
        multiplied = _multiplied(scales, sigma, n), _multiplied(other_scales, other_sigma, n)
        squares = squares + np.square(deviations(*multiplied, loss, numbers_of_value).max(axis=1))
    return np.asarray(np.sqrt(squares))


def _multiplied(scales: Scales, sigma: Floats, n: int) -> Scales:
    """Return an estimate of the scales of vectors with noise: of the farthest draws and pairs of n rows."""
    if not sigma.any():
        return scales
    widths = scales.widths + 2 * NormalDist().inv_cdf(1 - 1 / n) * sigma
    apart = 2 * np.square(np.divide(sigma, widths, out=np.zeros(len(sigma)), where=widths > 0)).mean()
    count = max(float((widths > 0).sum()), scales.spread)  # one vector may stand for many: D is their number
    return Scales(widths, min(count, float(apart) * (math.sqrt(count) + 2 * math.sqrt(math.log(n))) ** 2))

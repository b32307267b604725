"""The noise with which C passes on coefficients, or their means, at ``coefficients`` and ``differences``.

C has exact numbers, or those with the noise on inputs. What is passed on without noise is as C has it.
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.data.ranks import total
from mpc_spearman.findings.tables import Numbers
from mpc_spearman.levels import proved
from mpc_spearman.levels.descriptions import Descriptions
from mpc_spearman.levels.level import Level
from mpc_spearman.levels.noise import in_digits, noisy, numbers_of_a_value
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.choice import chosen, noise_factor
from mpc_spearman.privacy.gaussian import REACH
from mpc_spearman.privacy.scales import Scales, add_scales, deviations, stack_scales, untied_range
from mpc_spearman.statistics import estimators, strengths
from mpc_spearman.statistics.columns import Floats, Ints


class CoefficientsNoise(Level):
    """A level whose numbers are coefficients: how noise is added to them, and to strengths."""

    @property
    def passes_on_pairs(self) -> bool:
        return "coefficients" in (self.plan.results.target, self.plan.results.sources)

    def published(
        self,
        numbers: Numbers,
        descriptions: Descriptions,
        grant: str,
        shapes: Shapes,
        own_rows: slice | None = None,
    ) -> Numbers:
        """Add noise to coefficients, whose means are strengths; to strengths if only these are granted.

        Before noise nothing depends on products in steps: no limit, no NaN and no count. What is undefined
        follows from what was stated. Of the strongest alone (`results.strongest`) half the loss is for the
        choice. All else of such a copy comes from the numbers chosen.
        """
        if not self.noisy:
            return numbers
        plan, n, no_noise = self.plan, shapes.n, np.zeros(1)
        if plan.proofs or grant == "coefficients":
            if plan.proofs:
                rho, added = proved.coefficients(plan, numbers["opened"], descriptions, n)
            else:
                rho, added = self._noisy_coefficients(numbers["ratios"], descriptions, shapes, own_rows)
            noise = np.hypot(added, numbers.get("noise", no_noise))
            rho = in_digits(rho, noise, 1 / math.sqrt(n - 1))
            mu, counts, ranked = strengths.from_noisy(rho, noise, n, plan.strength, plan.estimator)
            s = np.sqrt(np.square(added).sum(axis=0)) / np.maximum(counts, 1)
            s = np.hypot(s, numbers.get("strengths_noise", no_noise))
        else:
            rho, noise = numbers["coefficients"], np.zeros(0)
            mu, added, counts = self._noisy_means(numbers["ratios"], descriptions, shapes)
            s = np.hypot(added, numbers.get("strengths_noise", no_noise))
            ranked = mu = in_digits(mu, s, 1 / math.sqrt(n - 1) / math.sqrt(self._averaged(shapes)))
        unit = untied_range(n)
        return {
            **numbers,
            "coefficients": rho,
            "noise": noise,
            "strengths": mu,
            "counts": counts,
            "strengths_noise": s,
            "positions": estimators.positions(ranked, plan.order),
            "source_ties": np.array(descriptions.of_sources("stated_ties")),
            "source_skewness": np.array(descriptions.of_sources("stated_skewness")),
            "source_ranges": stack_scales(shapes.of_sources).widths / unit,
            "target_ties": np.array(descriptions.target.stated_ties),
            "target_skewness": np.array(descriptions.target.stated_skewness),
            "target_ranges": shapes.of_target.widths / unit,
        }

    def _noisy_coefficients(
        self, ratios: Floats, descriptions: Descriptions, shapes: Shapes, own_rows: slice | None
    ) -> tuple[Floats, Floats]:
        """Return coefficients with noise, and the standard deviation of what was added, both (m_A, m_B)."""
        k, loss, n = self.plan.results.strongest, self.plan.privacy.loss, shapes.n
        exact = self._bounded(ratios, np.array(descriptions.of_sources("factors")), descriptions, shapes)
        defined = np.outer(stack_scales(shapes.of_sources).widths > 0, shapes.of_target.widths > 0)
        s, rows = self.deviations(shapes), own_rows if own_rows is not None else slice(None)
        items = defined[rows].size
        if k is not None and k < items:
            loss /= 2  # the other half is for the choice
            sources, target = stack_scales(shapes.of_sources), shapes.of_target
            s = s * noise_factor(k, items, sources.spread * target.spread)
            among = np.zeros_like(defined)
            among[rows] = defined[rows]
            defined = chosen(
                exact, np.outer(sources.widths, target.widths), untied_range(n) ** 2, among, k, loss
            )
        return noisy(np.where(defined, exact, math.nan), s, loss, 1 + float(self._limit(shapes).max()))

    def _noisy_means(
        self, ratios: Floats, descriptions: Descriptions, shapes: Shapes
    ) -> tuple[Floats, Floats, Ints]:
        """Return strengths with noise, what was added, and how many coefficients each averages, (m_B,)."""
        k, loss = self.plan.results.strongest, self.plan.privacy.loss
        averaged, target = self._averaged(shapes), shapes.of_target
        has = (target.widths > 0) & (stack_scales(shapes.of_sources).widths > 0).any()
        means, both = self._means(ratios, descriptions, shapes)
        s = deviations(both, shapes.of_multiplied(shapes.target), loss)[0]
        if k is not None and k < shapes.m_target:
            loss /= 2
            s = s * noise_factor(k, shapes.m_target, both.spread * target.spread)
            unit = untied_range(shapes.n)
            has = chosen(means, both.widths[0] * target.widths, both.widths[0] * unit, has, k, loss)
        most = 1 + float(self._limit(shapes).max())
        mu, s = noisy(np.where(has, means, math.nan) / averaged, s / averaged, loss, most)
        return mu, s, np.where(has, averaged, 0)

    def _averaged(self, shapes: Shapes) -> int:
        """Return how many columns of the sources are not constant, or 1."""
        return max(1, int((stack_scales(shapes.of_sources).widths > 0).sum()))

    def _means(self, ratios: Floats, descriptions: Descriptions, shapes: Shapes) -> tuple[Floats, Scales]:
        """Return the sums of coefficients of each target column, (m_B,), and the scales of what is summed."""
        if self.plan.strength == "mean_abs":
            exact = abs(
                self._bounded(ratios, np.array(descriptions.of_sources("factors")), descriptions, shapes)
            )
            both = add_scales(shapes.of_multiplied(source) for source in self._covered(shapes))
        else:
            of_sums = [source.sum_factor for source in descriptions.sources for _ in source.factors]
            exact = self._bounded(ratios, np.array(of_sums), descriptions, shapes)
            sums = shapes.multiplied_sums or shapes.of_sums
            both = add_scales(sums[source] for source in self._covered(shapes))
        return exact.sum(axis=0), both

    def _covered(self, shapes: Shapes) -> list[Party]:
        """Return the sources whose products need noise: all, unless the target's rows have it on inputs."""
        if not self.adds_to_inputs(shapes.target):
            return list(shapes.features)
        return [source for source in shapes.features if not self.adds_to_inputs(source)]

    def _bounded(
        self, ratios: Floats, source_factors: Floats, descriptions: Descriptions, shapes: Shapes
    ) -> Floats:
        """Return coefficients before noise, (m_A, m_B), times the factors of both sides.

        As a ratio that no columns have grows beyond 1, or the most with noise on inputs, the result falls
        back to 0, instead of being cut or undefined. Nothing that is opened lies beyond twice that. So a
        party that adds to its term cannot make the result depend on the other's columns in steps.
        """
        n, most = shapes.n, 1 + self._limit(shapes)
        exact = np.sign(ratios) * np.clip(np.minimum(abs(ratios), 2 * most - abs(ratios)), 0, None)
        exact *= np.outer(source_factors, descriptions.target.factors)
        if self.plan.estimator == "paper":
            exact = exact * self._norms(descriptions, n) / total(n) + descriptions.tie_shares(n)
        return np.asarray(exact)

    def of_source(self, numbers: Numbers, source: Party, shapes: Shapes) -> Numbers:
        rows = shapes.rows(source)
        noise = numbers["noise"][rows] if "noise" in numbers else np.zeros(0)
        return {**numbers, "coefficients": numbers["coefficients"][rows], "noise": noise}

    def deviations(self, shapes: Shapes) -> Floats:
        """Return the standard deviation of the noise that every coefficient needs, (m_A, m_B)."""
        plan, others = self.plan, None
        if plan.privacy.unit == "value":
            others = numbers_of_a_value(plan, shapes.m_sources, shapes.m_target)
        target, covered = shapes.of_multiplied(shapes.target), self._covered(shapes)
        if not self._any_inputs or not self.adds_to_inputs(shapes.target):
            sources = stack_scales(map(shapes.of_multiplied, shapes.features))
            return deviations(sources, target, plan.privacy.loss, others)
        # An exchange at a source changes its own products alone.
        noise = np.zeros((shapes.m_sources, shapes.m_target))
        for source in covered:
            own_scales = shapes.of_multiplied(source)
            noise[shapes.rows(source)] = deviations(own_scales, target, plan.privacy.loss, others)
        return noise

    def _norms(self, descriptions: Descriptions, n: int) -> Floats:
        sides = (descriptions.of_sources("ties"), descriptions.target.ties)
        source, target = ([math.sqrt(total(n) - term) for term in ties] for ties in sides)
        return np.outer(source, target)

    @property
    def _any_inputs(self) -> bool:
        return self.role_on_inputs(Role.SOURCE) or self.role_on_inputs(Role.TARGET)

    def _limit(self, shapes: Shapes) -> Floats:
        """Return the most by which noise on inputs changes a coefficient, (m_A, m_B), or (1,) without."""
        return REACH * self.input_noise(shapes).of_products if self._any_inputs else np.zeros(1)

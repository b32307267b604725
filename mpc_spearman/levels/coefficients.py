"""``coefficients``: the coordinator opens one integer per pair of columns, and has every coefficient.

Up to ``MAX_ROWS`` rows S = Σ_i x_i y_i fits 64 bits, and is opened exactly. S grows with the cube of the
rows, the coefficient that it is for does not. So of more rows, up to ``ranks.LARGEST``, each owner shares
⌊F·x/‖x‖⌉ for each of its columns, as the target does at ``strengths``, with F nearly 2^31
(:mod:`mpc_spearman.levels.encoding` has the rounding, bounds and proofs, for one source of one column). A
coefficient is off by at most √n/F or so, in practice by 10^-9. From what is opened, the tie terms and n
follows S to within error·√((N - T_x)(N - T_y)). A column that is constant is zeros.

C has exact numbers, or those with the noise on inputs, and adds noise to what it passes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Estimator, Reveal
from mpc_spearman.data.ranks import MAX_DOUBLED, MAX_ROWS, Ranks, total
from mpc_spearman.engines.computation import Bounds, Computation, Contribution
from mpc_spearman.errors import BoundError
from mpc_spearman.findings import coefficients as shown
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels import noise, proved, rows
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.level import Level, column_cautions, impossible
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy import scales
from mpc_spearman.privacy.choice import chosen, noise_factor
from mpc_spearman.privacy.gaussian import REACH
from mpc_spearman.privacy.scales import Grid, Scales, Stated, deviations, stack_scales, untied_range
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.statistics import estimators, mean_squares, result_warnings
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.wire.kinds import Field, Kind, Row
from mpc_spearman.wire.messages import MAX_PAYLOAD

#: What owners describe to C, and state of their vectors: C computes the noise from it.
STATED = (
    rows.described(Role.SOURCE, "m_source"),
    rows.described(Role.TARGET, "m_target"),
    *rows.scales(
        {"ranges": ("m_source",), "diameter": (1,), "mean_range": (1,)}, Role.SOURCE, Role.COORDINATOR
    ),
    *rows.scales({"ranges": ("m_target",), "diameter": (1,)}, Role.TARGET, Role.COORDINATOR),
)
_SOURCE_NAMES = Field("source_names", "texts", ("m_sources",), f"the sources' {rows.NAMES}")
_ESTIMATORS: tuple[Estimator, ...] = ("tie_corrected", "paper")


class Coefficients(Level):
    """C opens S_pq = ⟨x_p, y_q⟩ of every pair, and computes coefficients, strengths and the ranking."""

    name: ClassVar[Reveal] = "coefficients"
    findings: ClassVar[type[Findings]] = shown.Coefficients
    opens = (
        "the exact product of every pair of columns, and so the exact coefficients, but for noise on inputs"
    )
    sent: ClassVar[tuple[Row, ...]] = (
        *STATED,
        *rows.masked("ranks", "m_source", "ranks"),
        *rows.proofs(),
        *rows.opened(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        Row(
            Kind.RESULT,
            COORDINATOR,
            TARGET,
            (*rows.coefficients("m_sources", Role.SOURCE, "m_sources"), _SOURCE_NAMES),
        ),
        Row(Kind.RESULT, COORDINATOR, SOURCE, rows.coefficients("m_source", Role.TARGET, "m_target")),
    )
    precision = ("exact integers; what is passed on carries noise", "exact integers")

    # --- what is refused

    def check_rows(self, n: int) -> None:
        """Refuse more rows than a run can have; for exact coefficients products must fit 64 bits."""
        super().check_rows(n)
        if self.plan.results.precision == "exact" and self.error(n):
            raise BoundError(
                f"results.precision: exact takes at most {MAX_ROWS:,} rows, whose products of ranks fit 64 "
                f"bits; with {n:,} rows errors are up to {self.error(n):.0e}. Use precision: statistical"
            )

    def check(self, shapes: Shapes) -> None:
        super().check(shapes)
        if self.plan.proofs:
            proved.result_bound(self.plan, shapes.n, shapes.m_sources, shapes.m_target)
        if 16 * shapes.m_sources * shapes.m_target > MAX_PAYLOAD // 2:
            raise BoundError(
                f"{shapes.m_sources} × {shapes.m_target} coefficients are more than one result can carry "
                f"({MAX_PAYLOAD // 32}); use fewer features a side, or reveal: strengths"
            )
        if self._some_inputs_noisy and (encoding := self.encoding(shapes)) is not None:
            self.check_inputs(encoding.error, shapes.n)

    # --- what data parties contribute, and what is opened

    @property
    def whole_rows(self) -> int:
        """The most rows with which ranks are multiplied unscaled.

        With noise, twice a product has to fit 64 bits (`_bounded_coefficients`).
        """
        return MAX_DOUBLED if self.noisy else MAX_ROWS

    def encoding(self, shapes: Shapes) -> Encoding | None:
        """Return how columns are scaled; None for ranks as they are, which residuals are not."""
        n, loss = shapes.n, self.plan.privacy.loss
        if not self._some_inputs_noisy:
            as_ranks = n <= self.whole_rows and not self.plan.terms.adjusting
            return None if as_ranks else Encoding.coefficients(n)
        of_sources = [m for source, m in shapes.features.items() if self.adds_to_inputs(source)]
        source = noise.element_noise(max(of_sources), loss) if of_sources else 0.0
        on_target = Role.TARGET in self.plan.terms.on_inputs
        target = noise.element_noise(shapes.m_target, loss) if on_target else 0.0
        result_noise = noise.product_noise(source, target, n)
        return Encoding.coefficients(n, result_noise, source_noise=source, target_noise=target)

    def error(self, n: int) -> float:
        """Return how far coefficients are from exact ones, at most, without noise on inputs."""
        return 0.0 if n <= self.whole_rows else Encoding.coefficients(n).error

    def computation(self, shapes: Shapes) -> Computation:
        n, encoding = shapes.n, self.encoding(shapes)
        bounds = Bounds(n - 1, n - 1, n * (n - 1), total(n) * (2 if self.noisy else 1))
        if self.plan.proofs:
            most = proved.result_bound(self.plan, n, shapes.m_sources, shapes.m_target)
            bounds = replace(bounds, result=most)
        elif encoding is not None:
            most = encoding.result_bound * (2 if self.noisy else 1)
            value = encoding.target_scale + math.ceil(encoding.source_noise * encoding.target_scale)
            bounds = replace(encoding.bounds, value=value, result=most)
        return Computation(
            "inner_products", n, shapes.features, shapes.m_target, bounds, proved=self.plan.proofs
        )

    def contribution(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, factors: Factors
    ) -> Contribution:
        """Return ranks or scaled columns, without factors: C applies these, to its exact coefficients."""
        encoding = self.encoding(shapes)
        return Contribution(ranks.matrix if encoding is None else encoding.column_vectors(ranks))

    # --- what owners state, and the noise that follows

    def stated_scales(self, stated: Statements, role: Role) -> dict[str, Stated]:
        """Return the scales of the columns and, for strengths, of the sum of a source's columns."""
        return {"ranges": stated.vectors, **({"mean_range": stated.sum} if role is Role.SOURCE else {})}

    def multiplied_scales(
        self, contribution: Contribution, owner: Party, shapes: Shapes
    ) -> dict[str, Stated]:
        stated = super().multiplied_scales(contribution, owner, shapes)
        if stated and owner.role is Role.SOURCE:
            vectors, features = contribution.vectors, shapes.features_of(owner)
            width = scales.width_of_sum(vectors, [1 / self._unit(owner.role, shapes)] * features)
            grid = self.grid(owner.role, "multiplied_mean_range", shapes.n, features, 0)
            stated["multiplied_mean_range"] = Stated((grid.step(width) if width else scales.NOTHING,))
        return stated

    def grid(self, role: Role, field: str, n: int, features: int, defined: int) -> Grid:
        of_sum = field.endswith("mean_range")
        exact = scales.sum_grid(n, features) if of_sum else scales.column_grid(n, self.plan.estimator)
        if not field.startswith("multiplied"):
            return exact
        most = noise.element_noise(features, self.plan.privacy.loss)
        return noise.grid_on_inputs(exact, features * most if of_sum else most)

    # --- the coordinator's numbers

    def products(self, opened: NDArray[Any], shapes: Shapes) -> NDArray[Any]:
        """Return S of every pair, (m_A, m_B), from the integers opened of unscaled ranks."""
        return opened

    def ratios(self, opened: NDArray[Any], shapes: Shapes) -> Floats:
        """Return S/√((N - T_x)(N - T_y)) of every pair, (m_A, m_B), from any integers; 0 of constants."""
        encoding = self.encoding(shapes)
        if encoding is not None:
            return opened.astype(np.float64) / encoding.target_scale**2
        norms = self._norms(shapes)
        return np.divide(opened.astype(np.float64), norms, out=np.zeros(norms.shape), where=norms > 0)

    def matrices(self, opened: NDArray[Any], shapes: Shapes) -> dict[Estimator, Floats]:
        """Return coefficients under both estimators, (m_A, m_B).

        They are NaN for constants, and for opened values that no columns give. Rounding of scaled columns
        brings no coefficient beyond its bound.
        """
        n, described = shapes.n, shapes.descriptions
        if self.encoding(shapes) is None:
            products, ties = self.products(opened, shapes), self._ties(shapes)
            return {name: estimators.coefficients(products, *ties, n, name) for name in _ESTIMATORS}
        ratios, norms = self.ratios(opened, shapes), self._norms(shapes)
        most = np.where(norms > 0, 1 + self._input_noise_limit(shapes), 0.0)
        possible = abs(ratios) <= most + np.where(norms > 0, Encoding.coefficients(n).error, 0.0)
        rho = np.where(possible, np.clip(ratios, -most, most), math.nan)
        paper = rho * norms / total(n) + described.tie_shares(n)
        return {"tie_corrected": np.where(norms > 0, rho, math.nan), "paper": paper}

    def conclude(self, opened: NDArray[Any], shapes: Shapes) -> Numbers:
        """Compute coefficients (paper, eq. 2, or tie-corrected) and strengths (definition 2) from S."""
        n, described, errors = shapes.n, shapes.descriptions, self.errors(shapes)
        matrices = self.matrices(opened, shapes)
        of_each = [estimators.strengths(matrices[name], self.plan.strength)[0] for name in _ESTIMATORS]
        rho = matrices[self.plan.estimator]
        mu, counts = estimators.strengths(rho, self.plan.strength)
        sources = zip(described.sources, shapes.features.values(), strict=True)
        columns_of = {
            "source": [vars(source.columns(m, n)) for source, m in sources],
            "target": [vars(described.target.columns(shapes.m_target, n))],
        }
        return {
            **(self._noise_on_inputs_in(errors, shapes) if self._some_inputs_noisy else {}),
            "positions": estimators.positions(mu, self.plan.order),
            "strengths": mu,
            "counts": counts,
            "coefficients": rho,
            "errors": errors,
            **{
                f"{side}_{name}": np.concatenate([columns[name] for columns in owners])
                for side, owners in columns_of.items()
                for name in owners[0]
            },
            "estimators": np.column_stack(of_each),
            "opened": opened,
            "ratios": self.ratios(opened, shapes),
        }

    def warnings(self, numbers: Numbers, shapes: Shapes) -> list[str]:
        plan, n, rho = self.plan, shapes.n, numbers["coefficients"]
        corrected, paper = numbers["estimators"].T
        described, eq2 = shapes.descriptions, plan.estimator == "paper"
        mean, mean_abs = (estimators.strengths(rho, how)[0] for how in ("mean", "mean_abs"))
        names, owners = described.target.names, [*plan.parties.sources, plan.parties.target]
        sides = zip(owners, [*described.sources, described.target], strict=True)
        return [
            *(result_warnings.eq2(names, corrected, paper, plan.order) if eq2 else ()),
            *(
                line
                for owner, side in sides
                for line in column_cautions(plan, owner.name, side.names, side.ties, n)
            ),
            *impossible(plan, numbers["counts"], shapes),
            *(result_warnings.scaled(n, self.whole_rows, error) if (error := self.error(n)) else ()),
            *(result_warnings.cancellations(names, mean, mean_abs) if plan.strength == "mean" else ()),
        ]

    def _norms(self, shapes: Shapes) -> Floats:
        """Return √((N - T_x)(N - T_y)) of every pair, (m_A, m_B)."""
        source, target = ([math.sqrt(total(shapes.n) - term) for term in ties] for ties in self._ties(shapes))
        return np.outer(source, target)

    def _ties(self, shapes: Shapes) -> tuple[Sequence[int], Sequence[int]]:
        """Return the tie terms of all sources' columns and of the target's."""
        return shapes.descriptions.of_sources("ties"), shapes.descriptions.target.ties

    # --- with noise on inputs

    @property
    def _some_inputs_noisy(self) -> bool:
        return bool(self.plan.terms.on_inputs)

    def _input_noise_limit(self, shapes: Shapes) -> Floats:
        """Return a bound on what noise on inputs changes in a coefficient, (m_A, m_B); (1,) without noise."""
        return REACH * self.input_noise(shapes).of_products if self._some_inputs_noisy else np.zeros(1)

    def _noise_on_inputs_in(self, errors: Floats, shapes: Shapes) -> Numbers:
        """Return the noise on inputs in coefficients and strengths.

        `errors` are the standard errors of strengths: they show the length of the sources' mean.
        """
        on_inputs, count = self.input_noise(shapes), max(1, shapes.defined_sources)
        of_mean = self.plan.strength == "mean"
        length = errors * math.sqrt(shapes.n - 1) if of_mean else np.ones(shapes.m_target)
        return {"noise": on_inputs.of_products, "strengths_noise": on_inputs.of_sums(length * count) / count}

    # --- what the coordinator passes on

    def published_precision(self, grant: str) -> str:
        if not self.noisy:
            return "exact, without noise"
        numbers, k = grant, self.plan.results.strongest
        if k is not None:
            items = "pairs" if grant == Coefficients.name else "features"
            numbers = f"the {k} strongest {items} (all, if there are no more), chosen with noise,"
        added = f"the coordinator's noise{self._noise_on_inputs()}"
        return f"{numbers} with {added}, whose standard deviation each receiver gets"

    def published(
        self, numbers: Numbers, grant: str, shapes: Shapes, source_rows: slice | None = None
    ) -> Numbers:
        """Add noise to coefficients, whose means are strengths; to strengths if only these are granted.

        Before noise nothing depends on products in steps: no limit, no NaN and no count. What is undefined
        follows from what was stated. Of the strongest alone (`results.strongest`) half the loss is for the
        choice. All else of such a copy comes from the numbers chosen. What is passed on without noise is as C
        has it.
        """
        if not self.noisy:
            return numbers
        plan, n, no_noise = self.plan, shapes.n, np.zeros(1)
        if plan.proofs or grant == Coefficients.name:
            if plan.proofs:
                rho, added = proved.coefficients(plan, numbers["opened"], shapes.descriptions, n)
            else:
                rho, added = self._noisy_coefficients(numbers["ratios"], shapes, source_rows)
            s = np.hypot(added, numbers.get("noise", no_noise))
            rho = noise.in_digits(rho, s, 1 / math.sqrt(n - 1))
            mu, counts, ranked = mean_squares.from_noisy(rho, s, n, plan.strength, plan.estimator)
            s_of_mean = np.sqrt(np.square(added).sum(axis=0)) / np.maximum(counts, 1)
            s_of_mean = np.hypot(s_of_mean, numbers.get("strengths_noise", no_noise))
        else:
            rho, s = numbers["coefficients"], np.zeros(0)
            mu, added, counts = self._noisy_means(numbers["ratios"], shapes)
            s_of_mean = np.hypot(added, numbers.get("strengths_noise", no_noise))
            error = 1 / math.sqrt(n - 1) / math.sqrt(self._averaged(shapes))
            ranked = mu = noise.in_digits(mu, s_of_mean, error)
        unit, described = untied_range(n), shapes.descriptions
        return {
            **numbers,
            "coefficients": rho,
            "noise": s,
            "strengths": mu,
            "counts": counts,
            "strengths_noise": s_of_mean,
            "positions": estimators.positions(ranked, plan.order),
            "source_ties": np.array(described.of_sources("stated_ties")),
            "source_skewness": np.array(described.of_sources("stated_skewness")),
            "source_ranges": stack_scales(shapes.of_sources).widths / unit,
            "target_ties": np.array(described.target.stated_ties),
            "target_skewness": np.array(described.target.stated_skewness),
            "target_ranges": shapes.of_target.widths / unit,
        }

    def _noisy_coefficients(
        self, ratios: Floats, shapes: Shapes, source_rows: slice | None
    ) -> tuple[Floats, Floats]:
        """Return coefficients with noise, and the standard deviation of the noise, both (m_A, m_B)."""
        k, loss, n = self.plan.results.strongest, self.plan.privacy.loss, shapes.n
        exact = self._bounded_coefficients(ratios, shapes.descriptions.of_sources("factors"), shapes)
        sources, target = stack_scales(shapes.of_sources), shapes.of_target
        defined = np.outer(sources.widths > 0, target.widths > 0)
        s, copied = self.deviations(shapes), slice(None) if source_rows is None else source_rows
        items = defined[copied].size
        if k is not None and k < items:
            loss /= 2  # the other half is for the choice
            s = s * noise_factor(k, items, sources.spread * target.spread)
            candidates = np.zeros_like(defined)
            candidates[copied] = defined[copied]
            most = np.outer(sources.widths, target.widths)
            defined = chosen(exact, most, untied_range(n) ** 2, candidates, k, loss)
        return noise.noisy(
            np.where(defined, exact, math.nan), s, loss, 1 + float(self._input_noise_limit(shapes).max())
        )

    def _noisy_means(self, ratios: Floats, shapes: Shapes) -> tuple[Floats, Floats, Ints]:
        """Return strengths with noise, its deviation, and how many coefficients each averages, (m_B,)."""
        k, loss = self.plan.results.strongest, self.plan.privacy.loss
        averaged, target = self._averaged(shapes), shapes.of_target
        defined = (target.widths > 0) & (stack_scales(shapes.of_sources).widths > 0).any()
        sums, of_sums = self._sums(ratios, shapes)
        s = deviations(of_sums, shapes.of_multiplied(shapes.target), loss)[0]
        if k is not None and k < shapes.m_target:
            loss /= 2
            s = s * noise_factor(k, shapes.m_target, of_sums.spread * target.spread)
            width, unit = of_sums.widths[0], untied_range(shapes.n)
            defined = chosen(sums, width * target.widths, width * unit, defined, k, loss)
        most = 1 + float(self._input_noise_limit(shapes).max())
        mu, s = noise.noisy(np.where(defined, sums, math.nan) / averaged, s / averaged, loss, most)
        return mu, s, np.where(defined, averaged, 0)

    def _averaged(self, shapes: Shapes) -> int:
        """Return how many columns of the sources are not constant, or 1."""
        return max(1, int((stack_scales(shapes.of_sources).widths > 0).sum()))

    def _sums(self, ratios: Floats, shapes: Shapes) -> tuple[Floats, Scales]:
        """Return sums of coefficients, one for each target column, and the scales of the summed vectors."""
        described, covered = shapes.descriptions, self._sources_needing_noise(shapes)
        if self.plan.strength == "mean_abs":
            exact = abs(self._bounded_coefficients(ratios, described.of_sources("factors"), shapes))
            return exact.sum(axis=0), scales.add_scales(shapes.of_multiplied(source) for source in covered)
        of_sums = [source.sum_factor for source in described.sources for _ in source.factors]
        scales_of_sums = shapes.multiplied_sums or shapes.of_sums
        exact = self._bounded_coefficients(ratios, of_sums, shapes)
        return exact.sum(axis=0), scales.add_scales(scales_of_sums[source] for source in covered)

    def _sources_needing_noise(self, shapes: Shapes) -> list[Party]:
        """Return the sources whose products need noise.

        If the target adds noise to its inputs, sources that do so as well need none.
        """
        if not self.adds_to_inputs(shapes.target):
            return list(shapes.features)
        return [source for source in shapes.features if not self.adds_to_inputs(source)]

    def _bounded_coefficients(self, ratios: Floats, source_factors: list[float], shapes: Shapes) -> Floats:
        """Return coefficients before noise, (m_A, m_B), times the factors of both sides.

        As a ratio that no columns have grows beyond 1, or the most with noise on inputs, the result falls
        back to 0, instead of being cut or undefined. Nothing that is opened lies beyond twice that. So a
        party that adds to its term cannot make the result depend on the other's columns in steps.
        """
        n, most, described = shapes.n, 1 + self._input_noise_limit(shapes), shapes.descriptions
        exact = np.sign(ratios) * np.clip(np.minimum(abs(ratios), 2 * most - abs(ratios)), 0, None)
        exact *= np.outer(source_factors, described.target.factors)
        if self.plan.estimator == "paper":
            exact = exact * self._norms(shapes) / total(n) + described.tie_shares(n)
        return np.asarray(exact)

    def deviations(self, shapes: Shapes) -> Floats:
        """Return the standard deviation of the noise that every coefficient needs, (m_A, m_B)."""
        plan, count = self.plan, None
        if plan.privacy.unit == "value":
            count = noise.numbers_of_a_value(plan, shapes.m_sources, shapes.m_target)
        target = shapes.of_multiplied(shapes.target)
        if not self.adds_to_inputs(shapes.target):
            sources = stack_scales(map(shapes.of_multiplied, shapes.features))
            return deviations(sources, target, plan.privacy.loss, count)
        # An exchange at a source changes its own products alone.
        s = np.zeros((shapes.m_sources, shapes.m_target))
        for source in self._sources_needing_noise(shapes):
            widths = shapes.of_multiplied(source)
            s[shapes.rows(source)] = deviations(widths, target, plan.privacy.loss, count)
        return s

    def of_source(self, numbers: Numbers, source: Party, shapes: Shapes) -> Numbers:
        rows_of_source = shapes.rows(source)
        noise_of_source = numbers["noise"][rows_of_source] if "noise" in numbers else np.zeros(0)
        rho = numbers["coefficients"][rows_of_source]
        return {**numbers, "coefficients": rho, "noise": noise_of_source}

"""``coefficients``: the coordinator opens one integer per pair of columns, and has every coefficient.

Up to ``MAX_ROWS`` rows S = Σ_i x_i y_i fits 64 bits, and is opened exactly. S grows with the cube of the
rows, the coefficient that it is for does not. So of more rows, up to ``ranks.LARGEST``, each owner shares
⌊F·x/‖x‖⌉ for each of its columns, as the target does at ``strengths``, with F nearly 2^31
(:mod:`mpc_spearman.levels.encoding` has the rounding, bounds and proofs, for one source of one column). A
coefficient is off by at most √n/F or so, in practice by 10^-9. From what is opened, the tie terms and n
follows S to within error·√((N - T_x)(N - T_y)). A column that is constant is zeros.
"""

from __future__ import annotations

import math
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
from mpc_spearman.findings.tables import Numbers
from mpc_spearman.levels import inputs, proved, rows
from mpc_spearman.levels.coefficients_noise import CoefficientsNoise
from mpc_spearman.levels.described import ALL_NAMES, DESCRIBED, SCALED, passed_on
from mpc_spearman.levels.descriptions import Descriptions
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.level import Foreseen, column_cautions, impossible
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy import scales
from mpc_spearman.privacy.scales import Grid, Stated
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.statistics import columns, estimators, result_warnings
from mpc_spearman.statistics.columns import Floats
from mpc_spearman.wire.kinds import Kind, Row
from mpc_spearman.wire.messages import MAX_PAYLOAD

_ESTIMATORS: tuple[Estimator, ...] = ("tie_corrected", "paper")


class Coefficients(CoefficientsNoise):
    """C opens S_pq = ⟨x_p, y_q⟩ of every pair, and computes coefficients, strengths and the ranking."""

    name: ClassVar[Reveal] = "coefficients"
    findings: ClassVar[type[Findings]] = shown.Coefficients
    opens = (
        "the exact product of every pair of columns, and so the exact coefficients, but for noise on inputs"
    )
    sent: ClassVar[tuple[Row, ...]] = (
        *DESCRIBED,
        *SCALED,
        *rows.masked("ranks", "m_source", "ranks"),
        *rows.proofs(),
        *rows.opened(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        Row(Kind.RESULT, COORDINATOR, TARGET, (*passed_on("m_sources", Role.SOURCE, "m_sources"), ALL_NAMES)),
        Row(Kind.RESULT, COORDINATOR, SOURCE, passed_on("m_source", Role.TARGET, "m_target")),
    )
    precision = ("exact integers; what is passed on carries noise", "exact integers")

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
        if self._any_inputs and (scaled := self.scaled(shapes)) is not None:
            self.check_inputs(scaled.error, shapes.n)

    @property
    def whole_rows(self) -> int:
        """The most rows whose products of ranks are opened as they are.

        With noise, twice a product has to fit 64 bits (`_continuous`).
        """
        return MAX_DOUBLED if self.noisy else MAX_ROWS

    def scaled(self, shapes: Shapes) -> Encoding | None:
        """Return how columns are scaled; None for ranks as they are, which residuals are not."""
        n, loss = shapes.n, self.plan.privacy.loss
        if not self._any_inputs:
            as_ranks = n <= self.whole_rows and not self.plan.terms.adjusting
            return None if as_ranks else Encoding.coefficients(n)
        of_sources = [m for source, m in shapes.features.items() if self.adds_to_inputs(source)]
        source = inputs.element_noise(max(of_sources), loss) if of_sources else 0.0
        target = inputs.element_noise(shapes.m_target, loss) if self.role_on_inputs(Role.TARGET) else 0.0
        result_noise = inputs.product_noise(source, target, n)
        return Encoding.coefficients(n, result_noise, source_noise=source, target_noise=target)

    def error(self, n: int) -> float:
        """Return how far coefficients are from exact ones, at most, without noise on inputs."""
        return 0.0 if n <= self.whole_rows else Encoding.coefficients(n).error

    def unit(self, role: Role, shapes: Shapes) -> int:
        scaled = self.scaled(shapes)
        assert scaled is not None
        return scaled.target_scale

    def computation(self, shapes: Shapes) -> Computation:
        n, scaled = shapes.n, self.scaled(shapes)
        if self.plan.proofs:
            most = proved.result_bound(self.plan, n, shapes.m_sources, shapes.m_target)
            bounds = Bounds(n - 1, n - 1, n * (n - 1), most)
        elif scaled is None:
            bounds = Bounds(n - 1, n - 1, n * (n - 1), total(n) * (2 if self.noisy else 1))
        else:
            most = scaled.result_bound * (2 if self.noisy else 1)
            value = scaled.target_scale + math.ceil(scaled.source_noise * scaled.target_scale)
            bounds = replace(scaled.bounds, value=value, result=most)
        return Computation(
            "inner_products", n, shapes.features, shapes.m_target, bounds, proved=self.plan.proofs
        )

    def contribution(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, factors: Factors
    ) -> Contribution:
        """Return ranks, or scaled columns. C's own copy is exact, so it applies the factors itself."""
        scaled = self.scaled(shapes)
        return Contribution(ranks.matrix if scaled is None else scaled.column_vectors(ranks))

    def resolutions(self, shapes: Shapes) -> tuple[float, float]:
        scaled = self.scaled(shapes)
        return (0.0, 0.0) if scaled is None else (1 / scaled.target_scale, 1 / scaled.target_scale)

    def multiplied_scales(self, contribution: Contribution, me: Party, shapes: Shapes) -> dict[str, Stated]:
        if not self.role_on_inputs(me.role):
            return {}
        vectors, n, features = contribution.vectors, shapes.n, shapes.features_of(me)
        units = [1 / self.unit(me.role, shapes)] * features
        grid, of_sum = (
            self.grid(me.role, f"multiplied_{name}", n, features, 0) for name in ("ranges", "mean_range")
        )
        stated = {"multiplied_ranges": grid.stated(vectors, units)}
        if me.role is Role.SOURCE:
            width = scales.width_of_sum(vectors, units)
            step = of_sum.step(width) if width else scales.NOTHING
            stated["multiplied_mean_range"] = Stated((step,))
        return stated

    def sent_scales(self, stated: Statements, role: Role) -> dict[str, Stated]:
        """Return the columns' scales; of a source also that of their sum, for strengths alone."""
        return {"ranges": stated.vectors, **({"mean_range": stated.sum} if role is Role.SOURCE else {})}

    def grid(self, role: Role, field: str, n: int, features: int, defined: int) -> Grid:
        of_sum = field.endswith("mean_range")
        exact = scales.sum_grid(n, features) if of_sum else scales.column_grid(n, self.plan.estimator)
        if not field.startswith("multiplied"):
            return exact
        most = inputs.element_noise(features, self.plan.privacy.loss)
        return inputs.grid(exact, features * most if of_sum else most)

    def foreseen(self, stated: Statements, role: Role, shapes: Shapes) -> Foreseen:
        if not self.plan.proofs:
            return super().foreseen(stated, role, shapes)
        others = shapes.m_target if role is Role.SOURCE else shapes.m_sources
        noise = proved.foreseen(self.plan, shapes.n, stated.lengths, others)
        error, less = 1 / math.sqrt(shapes.n - 1), "Use fewer columns, or more rows"
        return Foreseen.of("coefficients", noise, error, less, of_coefficients=True)

    def products(self, opened: NDArray[Any], descriptions: Descriptions, shapes: Shapes) -> NDArray[Any]:
        """Return S of every pair, (m_A, m_B), from what was opened of ranks as they are."""
        return opened

    def ratios(self, opened: NDArray[Any], descriptions: Descriptions, shapes: Shapes) -> Floats:
        """Return S/√((N - T_x)(N - T_y)) of every pair, (m_A, m_B), whatever was opened; 0 of constants."""
        scaled = self.scaled(shapes)
        if scaled is not None:
            return opened.astype(np.float64) / scaled.target_scale**2
        norms = self._norms(descriptions, shapes.n)
        return np.divide(opened.astype(np.float64), norms, out=np.zeros(norms.shape), where=norms > 0)

    def matrices(
        self, opened: NDArray[Any], descriptions: Descriptions, shapes: Shapes
    ) -> dict[Estimator, Floats]:
        """Return coefficients under both estimators, (m_A, m_B).

        NaN of constants, and of what no columns give. Rounding of scaled columns carries none beyond the
        most.
        """
        n, sides = shapes.n, (descriptions.of_sources("ties"), descriptions.target.ties)
        if self.scaled(shapes) is None:
            products = self.products(opened, descriptions, shapes)
            return {name: estimators.coefficients(products, *sides, n, name) for name in _ESTIMATORS}
        ratios, norms = self.ratios(opened, descriptions, shapes), self._norms(descriptions, n)
        most = np.where(norms > 0, 1 + self._limit(shapes), 0.0)
        possible = abs(ratios) <= most + np.where(norms > 0, Encoding.coefficients(n).error, 0.0)
        rho = np.where(possible, np.clip(ratios, -most, most), math.nan)
        paper = rho * norms / total(n) + descriptions.tie_shares(n)
        return {"tie_corrected": np.where(norms > 0, rho, math.nan), "paper": paper}

    def conclude(self, opened: NDArray[Any], descriptions: Descriptions, shapes: Shapes) -> Numbers:
        """Compute coefficients (paper, eq. 2, or tie-corrected) and strengths (definition 2) from S."""
        n, ties, target = shapes.n, descriptions.of_sources("ties"), descriptions.target
        ratios, errors = self.ratios(opened, descriptions, shapes), self.errors(descriptions, shapes)
        noise: Numbers = {}
        if self._any_inputs:
            noise = self._noise(errors, shapes)
        matrices = self.matrices(opened, descriptions, shapes)
        of_each = [estimators.strengths(matrices[name], self.plan.strength)[0] for name in _ESTIMATORS]
        rho = matrices[self.plan.estimator]
        mu, counts = estimators.strengths(rho, self.plan.strength)
        sources = zip(descriptions.sources, shapes.features.values(), strict=True)
        of_each_source, of_target = [one.each(m) for one, m in sources], target.each(shapes.m_target)
        return {
            **noise,
            "positions": estimators.positions(mu, self.plan.order),
            "strengths": mu,
            "counts": counts,
            "coefficients": rho,
            "errors": errors,
            "source_ties": columns.ties(ties, descriptions.of_sources("two_values"), n),
            "source_skewness": np.array(descriptions.of_sources("skewness")),
            "source_gaps": np.array(descriptions.of_sources("gaps")),
            "source_unequal": np.concatenate([side.unequal for side in of_each_source]),
            "source_fitted": np.concatenate([side.fitted for side in of_each_source]),
            "target_ties": columns.ties(target.ties, target.two_values, n),
            "target_skewness": np.array(target.skewness),
            "target_gaps": np.array(target.gaps),
            "target_unequal": of_target.unequal,
            "target_fitted": of_target.fitted,
            "estimators": np.column_stack(of_each),
            "opened": opened,
            "ratios": ratios,
        }

    def warnings(self, numbers: Numbers, descriptions: Descriptions, shapes: Shapes) -> list[str]:
        plan, n, rho, both = self.plan, shapes.n, numbers["coefficients"], numbers["estimators"]
        mean, mean_abs = (estimators.strengths(rho, how)[0] for how in ("mean", "mean_abs"))
        owners = [*(source.name for source in plan.parties.sources), plan.parties.target.name]
        names = descriptions.target.names
        sides = zip(owners, [*descriptions.sources, descriptions.target], strict=True)
        return [
            *(
                result_warnings.eq2(names, both[:, 0], both[:, 1], plan.order)
                if plan.estimator == "paper"
                else ()
            ),
            *(line for name, side in sides for line in column_cautions(plan, name, side.names, side.ties, n)),
            *impossible(plan, numbers["counts"], shapes),
            *(result_warnings.scaled(n, self.whole_rows, error) if (error := self.error(n)) else ()),
            *(result_warnings.cancellations(names, mean, mean_abs) if plan.strength == "mean" else ()),
        ]

    # --- with noise on inputs

    def _noise(self, errors: Floats, shapes: Shapes) -> Numbers:
        """Return the noise on inputs in coefficients and strengths.

        `errors` are the standard errors of strengths: they show the length of the sources' mean.
        """
        noise, count = self.input_noise(shapes), max(1, shapes.defined_sources)
        of_mean = self.plan.strength == "mean"
        length = errors * math.sqrt(shapes.n - 1) if of_mean else np.ones(shapes.m_target)
        return {"noise": noise.of_products, "strengths_noise": noise.of_sums(length * count) / count}

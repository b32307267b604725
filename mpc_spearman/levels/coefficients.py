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
from mpc_spearman.levels.described import ALL_NAMES, DESCRIBED, SCALED, passed_on
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.level import Descriptions, Foreseen, Level, column_cautions, impossible
from mpc_spearman.levels.noise import in_digits, noisy
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy import scales
from mpc_spearman.privacy.choice import chosen
from mpc_spearman.privacy.gaussian import REACH
from mpc_spearman.privacy.scales import Grid, Scales, Stated, deviations, joined, summed, untied
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.statistics import columns, estimators, result_warnings, strengths
from mpc_spearman.wire.kinds import Kind, Row
from mpc_spearman.wire.messages import MAX_PAYLOAD


class Coefficients(Level):
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
        Row(Kind.RESULT, COORDINATOR, TARGET, (*passed_on("m_sources", "source", "m_sources"), ALL_NAMES)),
        Row(Kind.RESULT, COORDINATOR, SOURCE, passed_on("m_source", "target", "m_target")),
    )
    precision = ("exact integers; what is passed on carries noise", "exact integers")

    def check_rows(self, n: int) -> None:
        """Refuse more rows than a run can have; for exact coefficients products must fit 64 bits."""
        super().check_rows(n)
        if self.plan.results.precision == "exact" and self.error(n):
            raise BoundError(
                f"results.precision: exact takes at most {MAX_ROWS} rows, whose products of ranks fit 64 "
                f"bits; with {n} rows errors are up to {self.error(n):.0e}. Use precision: statistical"
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
        """Return how columns are scaled; None for ranks as they are."""
        n, loss = shapes.n, self.plan.privacy.loss
        if not self._any_inputs:
            return None if n <= self.whole_rows else Encoding.coefficients(n)
        of_sources = [m for source, m in shapes.features.items() if self.adds_to_inputs(source)]
        source = inputs.reach(max(of_sources), loss) if of_sources else 0.0
        target = inputs.reach(shapes.m_target, loss) if self.role_on_inputs(Role.TARGET) else 0.0
        room = inputs.room(source, target, n)
        return Encoding.coefficients(n, room, source_noise=source, target_noise=target)

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
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, own: Factors
    ) -> Contribution:
        """Return ranks, or scaled columns. C's own copy is exact, so it applies the factors itself."""
        scaled = self.scaled(shapes)
        return Contribution(ranks.matrix if scaled is None else scaled.column_vectors(ranks))

    def resolutions(self, shapes: Shapes) -> tuple[float, float]:
        scaled = self.scaled(shapes)
        return (0.0, 0.0) if scaled is None else (1 / scaled.target_scale, 1 / scaled.target_scale)

    def multiplied_scales(self, own: Contribution, me: Party, shapes: Shapes) -> dict[str, Stated]:
        if not self.role_on_inputs(me.role):
            return {}
        vectors, n, features = own.vectors, shapes.n, shapes.features.get(me, shapes.m_target)
        units = [1 / self.unit(me.role, shapes)] * features
        grid, of_sum = (
            self.grid(me.role, f"multiplied_{name}", n, features, 0) for name in ("ranges", "mean_range")
        )
        found = {"multiplied_ranges": grid.stated(vectors, units)}
        if me.role is Role.SOURCE:
            width = scales.width_of_sum(vectors, units)
            step = of_sum.step(width) if width else scales.NOTHING
            found["multiplied_mean_range"] = Stated((step,))
        return found

    def sent_scales(self, stated: Statements, role: Role) -> dict[str, Stated]:
        """Return the columns' scales; of a source also that of their sum, for strengths alone."""
        return {"ranges": stated.vectors, **({"mean_range": stated.sum} if role is Role.SOURCE else {})}

    def grid(self, role: Role, field: str, n: int, features: int, defined: int) -> Grid:
        of_sum = field.endswith("mean_range")
        exact = scales.sums(n, features) if of_sum else scales.columns(n, self.plan.estimator)
        if not field.startswith("multiplied"):
            return exact
        most = inputs.reach(features, self.plan.privacy.loss)
        return inputs.grid(exact, features * most if of_sum else most)

    def foreseen(self, stated: Statements, role: Role, shapes: Shapes) -> Foreseen:
        if not self.plan.proofs:
            return super().foreseen(stated, role, shapes)
        others = shapes.m_target if role is Role.SOURCE else shapes.m_sources
        noise, error = (
            proved.foreseen(self.plan, shapes.n, stated.lengths, others),
            1 / math.sqrt(shapes.n - 1),
        )
        return Foreseen.of(
            "coefficients", noise, error, "Use fewer columns, or more rows", of_coefficients=True
        )

    def products(self, opened: NDArray[Any], told: Descriptions, shapes: Shapes) -> NDArray[Any]:
        """Return S of every pair, (m_A, m_B), from what was opened.

        Where columns are scaled, what none can give becomes N + 1, which no S reaches: nothing raises for it.
        """
        n, scaled = shapes.n, self.scaled(shapes)
        if scaled is None:
            return opened
        unit, result = scaled.target_scale**2, np.empty(opened.shape, dtype=object)
        ties = told.of_sources("ties")
        for p, row in enumerate(opened.tolist()):
            for q, value in enumerate(map(int, row)):
                root = math.isqrt((total(n) - ties[p]) * (total(n) - told.target.ties[q]))
                possible = value == 0 if root == 0 else abs(value / unit) <= 1 + scaled.error
                nearest = (2 * value * root + unit) // (2 * unit)
                result[p, q] = max(-root, min(root, nearest)) if possible else total(n) + 1
        return result

    def ratios(self, opened: NDArray[Any], told: Descriptions, shapes: Shapes) -> NDArray[np.float64]:
        """Return S/√((N - T_x)(N - T_y)) of every pair, (m_A, m_B), whatever was opened; 0 of constants."""
        scaled = self.scaled(shapes)
        if scaled is not None:
            return opened.astype(np.float64) / scaled.target_scale**2
        norms = self._norms(told, shapes.n)
        return np.divide(opened.astype(np.float64), norms, out=np.zeros(norms.shape), where=norms > 0)

    def _norms(self, told: Descriptions, n: int) -> NDArray[np.float64]:
        source, target = (
            np.array([math.sqrt(total(n) - term) for term in ties])
            for ties in (told.of_sources("ties"), told.target.ties)
        )
        norms: NDArray[np.float64] = np.outer(source, target)
        return norms

    def conclude(self, opened: NDArray[Any], told: Descriptions, shapes: Shapes) -> Numbers:
        """Compute coefficients (paper, eq. 2, or tie-corrected) and strengths (definition 2) from S."""
        n, ties, target = shapes.n, told.of_sources("ties"), told.target
        ratios, errors = self.ratios(opened, told, shapes), self.errors(told, shapes)
        if self._any_inputs:
            matrices, noise = self._with_noise(ratios, told, shapes), self._noise(errors, shapes)
        else:
            products = self.products(opened, told, shapes)
            matrices, noise = (
                {
                    name: estimators.coefficients(products, ties, target.ties, n, name)
                    for name in ("tie_corrected", "paper")
                },
                {},
            )
        of_each = [estimators.strengths(matrix, self.plan.strength)[0] for matrix in matrices.values()]
        rho = matrices[self.plan.estimator]
        mu, counts = estimators.strengths(rho, self.plan.strength)
        return {
            **noise,
            "positions": estimators.positions(mu, self.plan.order),
            "strengths": mu,
            "counts": counts,
            "coefficients": rho,
            "errors": errors,
            "source_ties": columns.ties(ties, told.of_sources("two_values"), n),
            "source_skewness": np.array(told.of_sources("skewness")),
            "source_gaps": np.array(told.of_sources("gaps")),
            "target_ties": columns.ties(target.ties, target.two_values, n),
            "target_skewness": np.array(target.skewness),
            "target_gaps": np.array(target.gaps),
            "estimators": np.column_stack(of_each),
            "opened": opened,
            "ratios": ratios,
        }

    def warnings(self, numbers: Numbers, told: Descriptions, shapes: Shapes) -> list[str]:
        plan, n, rho, both = self.plan, shapes.n, numbers["coefficients"], numbers["estimators"]
        mean, mean_abs = (estimators.strengths(rho, how)[0] for how in ("mean", "mean_abs"))
        owners = [*(source.name for source in plan.parties.sources), plan.parties.target.name]
        names, sides = told.target.names, list(zip(owners, [*told.sources, told.target], strict=True))
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

    def published(
        self, numbers: Numbers, told: Descriptions, grant: str, shapes: Shapes, own: slice | None = None
    ) -> Numbers:
        """Add noise to coefficients, whose means are strengths; to strengths if only these are granted.

        Before noise nothing depends on products in steps: no limit, no NaN and no count. What is undefined
        follows from what was stated. Of the strongest alone (`results.strongest`) half the loss is for the
        choice. All else of such a copy comes from the numbers chosen.
        """
        if not self.noisy:
            return numbers
        plan, noise, k = self.plan, np.zeros(0), self.plan.results.strongest
        loss = plan.privacy.loss / (1 if k is None else 2)
        of_inputs = numbers.get("noise", np.zeros(1)), numbers.get("strengths_noise", np.zeros(1))
        most = 1 + float(self._limit(shapes).max())
        moving = joined(shapes.of_sources).widths > 0, shapes.of_target.widths > 0
        averaged = max(1, int(moving[0].sum()))
        defined, error = np.outer(*moving), 1 / math.sqrt(shapes.n - 1)
        if plan.proofs:
            rho, noise = proved.coefficients(plan, numbers["opened"], told, shapes.n)
            rho = in_digits(rho, noise, error)
            mu, counts, ranked = strengths.from_noisy(rho, noise, shapes.n, plan.strength, plan.estimator)
            s = np.sqrt(np.square(noise).sum(axis=0)) / np.maximum(counts, 1)
        elif grant == "coefficients":
            of_columns = np.array(told.of_sources("factors"))
            exact, s = self._bounded(numbers["ratios"], of_columns, told, shapes), self.deviations(shapes)
            if k is not None:
                s, ranges = self._of_few(joined(shapes.of_sources), shapes, k)
                among = np.zeros_like(defined)
                among[own if own is not None else slice(None)] = True
                defined = chosen(exact, ranges, defined & among, k, loss)
            rho, added = noisy(np.where(defined, exact, math.nan), s, loss, most)
            noise = np.hypot(added, of_inputs[0])
            rho = in_digits(rho, noise, error)
            mu, counts, ranked = strengths.from_noisy(rho, noise, shapes.n, plan.strength, plan.estimator)
            s = np.sqrt(np.square(added).sum(axis=0)) / np.maximum(counts, 1)
            s = np.hypot(s, of_inputs[1])
        else:
            rho = numbers["coefficients"]
            has = moving[1] & moving[0].any()
            means, both = self._means(numbers["ratios"], told, shapes)
            s = deviations(both, shapes.of_multiplied(shapes.target), loss)[0]
            if k is not None:
                few, ranges = self._of_few(both, shapes, k)
                s, has = few[0], chosen(means[None], ranges, has[None], k, loss)[0]
            counts = np.where(has, averaged, 0)
            mu, s = noisy(np.where(has, means, math.nan) / averaged, s / averaged, loss, most)
            s = np.hypot(s, of_inputs[1])
            ranked = mu = in_digits(mu, s, error / math.sqrt(averaged))
        unit = untied(shapes.n)
        return {
            **numbers,
            "coefficients": rho,
            "noise": noise,
            "strengths": mu,
            "counts": counts,
            "strengths_noise": s,
            "positions": estimators.positions(ranked, plan.order),
            "source_ties": np.array(told.of_sources("stated_ties")),
            "source_skewness": np.array(told.of_sources("stated_skewness")),
            "source_ranges": joined(shapes.of_sources).widths / unit,
            "target_ties": np.array(told.target.stated_ties),
            "target_skewness": np.array(told.target.stated_skewness),
            "target_ranges": shapes.of_target.widths / unit,
        }

    def _of_few(
        self, rows: Scales, shapes: Shapes, k: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the noise that each of k chosen numbers needs, for half the loss, and R_p·R_q of each.

        Each changes by at most R_p·R_q if two rows are exchanged, and all together, in these, by at most
        √(D_A·D_B).
        """
        ranges: NDArray[np.float64] = np.outer(rows.widths, shapes.of_target.widths)
        spread = min(k, rows.spread * shapes.of_target.spread)
        return ranges * math.sqrt(spread / self.plan.privacy.loss) * (1 + 2.0**-30), ranges

    def _means(
        self, ratios: NDArray[np.float64], told: Descriptions, shapes: Shapes
    ) -> tuple[NDArray[np.float64], Scales]:
        """Return the sums of coefficients of each target column, (m_B,), and the scales of what is summed."""
        if self.plan.strength == "mean_abs":
            exact = abs(self._bounded(ratios, np.array(told.of_sources("factors")), told, shapes))
            both = summed(shapes.of_multiplied(source) for source in self._covered(shapes))
        else:
            of_sums = [source.sum_factor for source in told.sources for _ in source.factors]
            exact = self._bounded(ratios, np.array(of_sums), told, shapes)
            sums = shapes.multiplied_sums or shapes.of_sums
            both = summed(sums[source] for source in self._covered(shapes))
        return exact.sum(axis=0), both

    def _covered(self, shapes: Shapes) -> list[Party]:
        """Return the sources whose products need noise: all, unless the target's rows have it on inputs."""
        if not self.adds_to_inputs(shapes.target):
            return list(shapes.features)
        return [source for source in shapes.features if not self.adds_to_inputs(source)]

    def _bounded(
        self, ratios: NDArray[np.float64], own: NDArray[np.float64], told: Descriptions, shapes: Shapes
    ) -> NDArray[np.float64]:
        """Return coefficients before noise, times the factors of both sides (`own` are the sources').

        As a ratio that no columns have grows beyond 1, or the most with noise on inputs, the result falls
        back to 0, instead of being cut or undefined. Nothing that is opened lies beyond twice that. So a
        party that adds to its term cannot make the result depend on the other's columns in steps.
        """
        n, full, most = shapes.n, total(shapes.n), 1 + self._limit(shapes)
        exact: NDArray[np.float64] = np.sign(ratios) * np.clip(
            np.minimum(abs(ratios), 2 * most - abs(ratios)), 0, None
        )
        exact *= np.outer(own, told.target.factors)
        if self.plan.estimator == "paper":
            ties = (np.array(terms, dtype=float) for terms in (told.of_sources("ties"), told.target.ties))
            exact = exact * self._norms(told, n) / full + np.add.outer(*ties) / (2 * full)
        return exact

    def of_source(self, numbers: Numbers, source: Party, shapes: Shapes) -> Numbers:
        own = shapes.rows(source)
        noise = numbers["noise"][own] if "noise" in numbers else np.zeros(0)
        return {**numbers, "coefficients": numbers["coefficients"][own], "noise": noise}

    def deviations(self, shapes: Shapes) -> NDArray[np.float64]:
        """Return the standard deviation of the noise that every coefficient needs, (m_A, m_B)."""
        plan, others = self.plan, None
        if plan.privacy.unit == "value":
            receiving = ((plan.results.target, shapes.m_target), (plan.results.sources, shapes.m_sources))
            others = max(columns for grant, columns in receiving if grant != "nothing")
        target, covered = shapes.of_multiplied(shapes.target), self._covered(shapes)
        if not self._any_inputs or not self.adds_to_inputs(shapes.target):
            sources = joined(map(shapes.of_multiplied, shapes.features))
            return deviations(sources, target, plan.privacy.loss, others)
        # An exchange at a source changes its own products alone.
        noise = np.zeros((shapes.m_sources, shapes.m_target))
        for source in covered:
            own = shapes.of_multiplied(source)
            noise[shapes.rows(source)] = deviations(own, target, plan.privacy.loss, others)
        return noise

    # --- with noise on inputs

    @property
    def _any_inputs(self) -> bool:
        return self.role_on_inputs(Role.SOURCE) or self.role_on_inputs(Role.TARGET)

    def _limit(self, shapes: Shapes) -> NDArray[np.float64]:
        """Return the most by which noise on inputs changes a coefficient, (m_A, m_B), or (1,) without."""
        return REACH * self.input_noise(shapes).of_products if self._any_inputs else np.zeros(1)

    def _noise(self, errors: NDArray[np.float64], shapes: Shapes) -> Numbers:
        """Return the noise on inputs in coefficients and strengths.

        `errors` are the standard errors of strengths: they show the length of the sources' mean.
        """
        noise, count = self.input_noise(shapes), max(1, shapes.defined_sources)
        of_mean = self.plan.strength == "mean"
        length = errors * math.sqrt(shapes.n - 1) if of_mean else np.ones(shapes.m_target)
        return {"noise": noise.of_products, "strengths_noise": noise.of_sums(length * count) / count}

    def _with_noise(
        self, ratios: NDArray[np.float64], told: Descriptions, shapes: Shapes
    ) -> dict[Estimator, NDArray[np.float64]]:
        """Return coefficients under both estimators; NaN of constants, and of what no columns give."""
        norms, full = self._norms(told, shapes.n), total(shapes.n)
        possible = (abs(ratios) <= 1 + self._limit(shapes) + self.error(shapes.n)) & (norms > 0)
        rho = np.where(possible, ratios, math.nan)
        ties = (np.array(terms, dtype=float) for terms in (told.of_sources("ties"), told.target.ties))
        return {"tie_corrected": rho, "paper": rho * norms / full + np.add.outer(*ties) / (2 * full)}

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
from mpc_spearman.data.ranks import MAX_ROWS, Ranks, total
from mpc_spearman.engines.computation import Bounds, Computation, Contribution
from mpc_spearman.errors import BoundError
from mpc_spearman.findings import coefficients as shown
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.tables import Numbers
from mpc_spearman.levels import rows
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.level import Descriptions, Level, column_cautions, impossible
from mpc_spearman.levels.noise import in_digits, noisy
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy import scales
from mpc_spearman.privacy.scales import Grid, Stated, deviations, joined, summed
from mpc_spearman.statistics import columns, estimators, result_warnings
from mpc_spearman.wire.kinds import Field, Kind, Row
from mpc_spearman.wire.messages import MAX_PAYLOAD

# What some of the fields below tell.
_TOLD = {
    "ties": "the tie term of each feature, which shows whether it is constant and, if it has two values, the "
    "sizes of the two groups",
    "skewness": "the skewness of each feature's ranks, which shows, if it has two values, which group is "
    "larger",
    "other ties": "whether each feature of the other side has no ties, some, many, two values, or one",
    "other skewness": "the skewness of the ranks of each feature of the other side, rounded to a tenth of it "
    "unless precision: exact; it shows, of two values, the sizes of the two groups to about a fifth",
}


def described(columns: str) -> tuple[Field, ...]:
    """Declare what owners tell C about columns whose products it has."""
    return (
        Field("ties", "int128", (columns,), _TOLD["ties"]),
        Field("two_values", "flags", (columns,), "which features have two values"),
        Field("skewness", "float64", (columns,), _TOLD["skewness"]),
    )


def passed_on(of: str, other: str, columns: str) -> tuple[Field, ...]:
    """Declare coefficients, and what p-values and intervals need besides."""
    return (
        Field("coefficients", "float64", (of, "m_target"), "the coefficients, to the plan's precision"),
        Field("noise", "float64", (of, "m_target"), rows.NOISE, precision=("statistical",)),
        Field(f"{other}_ties", "int64", (columns,), _TOLD["other ties"]),
        Field(f"{other}_skewness", "float64", (columns,), _TOLD["other skewness"]),
    )


_NAMES = Field("names", "texts", ("m_source",), "the feature names")
_ALL_NAMES = Field("source_names", "texts", ("m_sources",), "the sources' feature names")
#: Names and tie terms, with which the coordinator labels the matrix and computes coefficients.
DESCRIBED = (
    Row(Kind.DESCRIPTION, SOURCE, COORDINATOR, (_NAMES, *described("m_source"), rows.LENGTH)),
    Row(Kind.DESCRIPTION, TARGET, COORDINATOR, described("m_target")),
)
#: What owners state of their vectors: C computes the noise from it.
SCALED = (
    *rows.scales(
        {"ranges": ("m_source",), "diameter": (1,), "mean_range": (1,)}, Role.SOURCE, Role.COORDINATOR
    ),
    *rows.scales({"ranges": ("m_target",), "diameter": (1,)}, Role.TARGET, Role.COORDINATOR),
)


class Coefficients(Level):
    """C opens S_pq = ⟨x_p, y_q⟩ of every pair, and computes coefficients, strengths and the ranking."""

    name: ClassVar[Reveal] = "coefficients"
    findings: ClassVar[type[Findings]] = shown.Coefficients
    opens = "the exact product of every pair of columns, and so the exact coefficients"
    sent: ClassVar[tuple[Row, ...]] = (
        *DESCRIBED,
        *SCALED,
        *rows.masked("ranks", "m_source", "ranks"),
        *rows.opened(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        Row(Kind.RESULT, COORDINATOR, TARGET, (*passed_on("m_sources", "source", "m_sources"), _ALL_NAMES)),
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
        if 16 * shapes.m_sources * shapes.m_target > MAX_PAYLOAD // 2:
            raise BoundError(
                f"{shapes.m_sources} × {shapes.m_target} coefficients are more than one result can carry "
                f"({MAX_PAYLOAD // 32}); use fewer features a side, or reveal: strengths"
            )

    def scaled(self, n: int) -> Encoding | None:
        """Return how columns of so many rows are scaled; None for ranks as they are."""
        return None if n <= MAX_ROWS else Encoding.coefficients(n)

    def error(self, n: int) -> float:
        """Return how far the coordinator's coefficients are from exact ones, at most."""
        scaled = self.scaled(n)
        return 0.0 if scaled is None else scaled.error

    def computation(self, shapes: Shapes) -> Computation:
        n, scaled = shapes.n, self.scaled(shapes.n)
        if scaled is None:
            bounds = Bounds(n - 1, n - 1, n * (n - 1), total(n))
        else:
            bounds = replace(scaled.bounds, value=scaled.target_scale)
        return Computation("inner_products", n, shapes.features, shapes.m_target, bounds=bounds)

    def contribution(self, ranks: Ranks, role: Role, shapes: Shapes) -> Contribution:
        scaled = self.scaled(shapes.n)
        return Contribution(ranks.matrix if scaled is None else scaled.column_vectors(ranks))

    def stated(self, own: Contribution, ranks: Ranks, role: Role, shapes: Shapes) -> dict[str, Stated]:
        """Return the vectors' scales; for a source also that of its columns' sum, for strengths alone."""
        lengths = [math.sqrt(total(ranks.n) - term) for term in ranks.tie_terms]
        published = [math.sqrt(total(ranks.n))] * ranks.m if self.plan.estimator == "paper" else lengths
        scaled = self.scaled(ranks.n)
        units = [
            0.0 if not length else 1 / other if scaled is None else length / (scaled.target_scale * other)
            for length, other in zip(lengths, published, strict=True)
        ]
        found = {"ranges": scales.columns(ranks.n, self.plan.estimator).stated(own.vectors, units)}
        if role is Role.SOURCE:
            step = scales.sums(ranks.n, ranks.m).step(scales.width_of_sum(own.vectors, units))
            found["mean_range"] = Stated((step if any(units) else scales.NOTHING,))
        return found

    def grid(self, owner: Party, field: str, shapes: Shapes) -> Grid:
        if field == "mean_range":
            return scales.sums(shapes.n, shapes.features[owner])
        return scales.columns(shapes.n, self.plan.estimator)

    def products(self, opened: NDArray[Any], told: Descriptions, n: int) -> NDArray[Any]:
        """Return S of every pair, (m_A, m_B), from what was opened.

        Where columns are scaled, what none can give becomes N + 1, which no S reaches: nothing raises for it.
        """
        scaled = self.scaled(n)
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

    def conclude(self, opened: NDArray[Any], told: Descriptions, shapes: Shapes) -> Numbers:
        """Compute coefficients (paper, eq. 2, or tie-corrected) and strengths (definition 2) from S."""
        n, ties, target = shapes.n, told.of_sources("ties"), told.target
        products = self.products(opened, told, n)
        matrices: dict[Estimator, NDArray[np.float64]] = {
            name: estimators.coefficients(products, ties, target.ties, n, name)
            for name in ("tie_corrected", "paper")
        }
        of_each = [estimators.strengths(matrix, self.plan.strength)[0] for matrix in matrices.values()]
        rho = matrices[self.plan.estimator]
        mu, counts = estimators.strengths(rho, self.plan.strength)
        return {
            "positions": estimators.positions(mu, self.plan.order),
            "strengths": mu,
            "counts": counts,
            "coefficients": rho,
            "errors": self.errors(told.sources, shapes),
            "source_ties": columns.ties(ties, told.of_sources("two_values"), n),
            "source_skewness": np.array(told.of_sources("skewness")),
            "target_ties": columns.ties(target.ties, target.two_values, n),
            "target_skewness": np.array(target.skewness),
            "estimators": np.column_stack(of_each),
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
            *(result_warnings.scaled(n, error) if (error := self.error(n)) else ()),
            *(result_warnings.cancellations(names, mean, mean_abs) if plan.strength == "mean" else ()),
        ]

    def published(self, numbers: Numbers, grant: str, shapes: Shapes) -> Numbers:
        """Add noise to coefficients, whose means are strengths; to strengths if only these are granted."""
        if not self.noisy:
            return numbers
        plan, loss = self.plan, self.plan.privacy.loss
        rho, mu, noise = numbers["coefficients"], numbers["strengths"], np.zeros(0)
        averaged = max(1, int(numbers["counts"].max(initial=0)))
        error = 1 / math.sqrt(shapes.n - 1)
        if grant == "coefficients":
            rho, noise = noisy(rho, self.deviations(shapes), loss)
            rho = in_digits(rho, noise, error)
            mu, counts = estimators.strengths(rho, plan.strength)
            s = np.sqrt(np.square(noise).sum(axis=0)) / np.maximum(counts, 1)
        else:
            of_sums = (shapes.of_sums[source] for source in shapes.features)
            both = summed(of_sums) if plan.strength == "mean" else joined(shapes.of_sources).absolute
            mu, s = noisy(mu, deviations(both, shapes.of_target, loss)[0] / averaged, loss)
            mu = in_digits(mu, s, error / math.sqrt(averaged))
        return {
            **numbers,
            "coefficients": rho,
            "noise": noise,
            "strengths": mu,
            "strengths_noise": s,
            "positions": estimators.positions(mu, plan.order),
            "source_skewness": columns.rounded(numbers["source_skewness"]),
            "target_skewness": columns.rounded(numbers["target_skewness"]),
        }

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
        return deviations(joined(shapes.of_sources), shapes.of_target, plan.privacy.loss, others)

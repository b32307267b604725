"""``coefficients``: the coordinator opens one integer per pair of columns, and has every coefficient.

The vectors are ranks, or, of very many rows, columns scaled to one length: see
:mod:`mpc_spearman.levels.products`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Estimator, Reveal
from mpc_spearman.data.ranks import MAX_ROWS, Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.engines.computation import Bounds, Computation, Contribution
from mpc_spearman.errors import BoundError
from mpc_spearman.levels.cautions import column_cautions, impossible
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.level import (
    COORDINATOR,
    LENGTH,
    SOURCE,
    TARGET,
    Description,
    Level,
    Numbers,
    masked_rows,
    opened_rows,
)
from mpc_spearman.levels.products import Products
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.statistics import columns, estimators, result_warnings
from mpc_spearman.wire.kinds import Field, Kind, Row
from mpc_spearman.wire.messages import MAX_PAYLOAD


def described(columns: str) -> tuple[Field, ...]:
    """Declare what the coordinator is told of columns that it has products of."""
    return (
        Field(
            "ties",
            "int128",
            (columns,),
            "the tie term of each feature: the class sizes of a binary one, and which are constant",
        ),
        Field("two_values", "flags", (columns,), "which features have two values"),
        Field(
            "skewness",
            "float64",
            (columns,),
            "the skewness of each feature's ranks: of a binary one which class is the larger",
        ),
    )


def passed_on(rows: str, other: str, columns: str) -> tuple[Field, ...]:
    """Declare coefficients, and what p-values and intervals take beside them."""
    return (
        Field(
            "coefficients",
            "float64",
            (rows, "m_target"),
            "the coefficients, to the plan's precision: linear equations in the other side's ranks",
        ),
        Field(
            f"{other}_ties",
            "int64",
            (columns,),
            "of each feature of the other side: whether it has no ties, some, many, two values, or one",
        ),
        Field(
            f"{other}_skewness",
            "float64",
            (columns,),
            "the skewness of the ranks of each feature of the other side, to a tenth of it, or exactly under "
            "precision: exact; so the class sizes of a binary one, to a fifth",
        ),
    )


#: Names and tie terms: what the coordinator labels rows of the matrix with, and makes coefficients from.
DESCRIBED = (
    Row(
        Kind.DESCRIPTION,
        SOURCE,
        COORDINATOR,
        (Field("names", "texts", ("m_source",), "the feature names"), *described("m_source"), LENGTH),
    ),
    Row(Kind.DESCRIPTION, TARGET, COORDINATOR, described("m_target")),
)


class Coefficients(Level):
    """S_pq = ⟨x_p, y_q⟩ of every pair is opened; coefficients, strengths and the ranking follow."""

    name: ClassVar[Reveal] = "coefficients"
    opens = "the exact product of every pair of columns, hence the coefficients; nothing per row"
    sent: ClassVar[tuple[Row, ...]] = (
        *DESCRIBED,
        *masked_rows("ranks", "m_source", "ranks"),
        *opened_rows(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        Row(Kind.RESULT, COORDINATOR, TARGET, passed_on("m_sources", "source", "m_sources")),
        Row(Kind.RESULT, COORDINATOR, SOURCE, passed_on("m_source", "target", "m_target")),
        Row(
            Kind.RESULT,
            COORDINATOR,
            TARGET,
            (Field("source_names", "texts", ("m_sources",), "the sources' feature names"),),
        ),
    )

    def check_rows(self, n: int) -> None:
        """Refuse more rows than a run can have; exact coefficients take products that fit 64 bits."""
        super().check_rows(n)
        if self.plan.results.precision == "exact" and self.error(n):
            raise BoundError(
                f"results.precision: exact goes up to {MAX_ROWS} rows, whose products of ranks fit 64 bits; "
                f"with {n} coefficients are computed to {self.error(n):.0e}. Use precision: statistical"
            )

    def check(self, shapes: Shapes) -> None:
        """Refuse more rows than a run can have, and a matrix that one message does not hold."""
        super().check(shapes)
        if 16 * shapes.m_sources * shapes.m_target > MAX_PAYLOAD // 2:
            raise BoundError(
                f"{shapes.m_sources} × {shapes.m_target} coefficients are more than one result can carry "
                f"({MAX_PAYLOAD // 32}); use fewer features a side, or reveal: strengths"
            )

    def error(self, n: int) -> float:
        """Return how far the coordinator's coefficients are from exact ones, at most."""
        return Products(n).error

    def encoding(self, shapes: Shapes) -> Encoding | None:
        """Return how columns of very many rows are scaled."""
        return Products(shapes.n).encoding

    def computation(self, shapes: Shapes) -> Computation:
        """Ask for inner products of each pair of columns."""
        products = Products(shapes.n)
        value = products.value_bound
        bounds = Bounds(value, value, products.vector_sum, products.result_bound)
        return Computation("inner_products", shapes.n, shapes.features, shapes.m_target, bounds=bounds)

    def contribution(self, table: Table, ranks: Ranks, role: Role, shapes: Shapes) -> Contribution:
        """Return a vector for each column, (m, n)."""
        return Contribution(Products(shapes.n).vectors(table, ranks))

    def products(
        self, opened: NDArray[Any], ties: Sequence[int], target: Description, n: int
    ) -> NDArray[Any]:
        """Return S of every pair, (m_A, m_B), from what was opened; `ties` are all source columns'."""
        return Products(n).decode(opened, ties, target.ties)

    def conclude(
        self, opened: NDArray[Any], sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> Numbers:
        """Compute coefficients (paper, eq. 2, or tie-corrected) and strengths (definition 2) from S."""
        n, ties = shapes.n, [term for source in sources for term in source.ties]
        products = self.products(opened, ties, target, n)
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
            "errors": self.errors(sources, shapes),
            "source_ties": columns.ties(ties, [flag for source in sources for flag in source.two_values], n),
            "source_skewness": np.array([g for source in sources for g in source.skewness]),
            "target_ties": columns.ties(target.ties, target.two_values, n),
            "target_skewness": np.array(target.skewness),
            "estimators": np.column_stack(of_each),
        }

    def warnings(
        self, numbers: Numbers, sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> list[str]:
        """Warn of ties and constants of all columns, of impossible values, and of signs that cancel out."""
        plan, n, rho, both = self.plan, shapes.n, numbers["coefficients"], numbers["estimators"]
        mean, mean_abs = (estimators.strengths(rho, how)[0] for how in ("mean", "mean_abs"))
        owners = [*(source.name for source in plan.parties.sources), plan.parties.target.name]
        sides = list(zip(owners, [*sources, target], strict=True))
        return [
            *(
                result_warnings.eq2(target.names, both[:, 0], both[:, 1], plan.order)
                if plan.estimator == "paper"
                else ()
            ),
            *(line for name, side in sides for line in column_cautions(plan, name, side.names, side.ties, n)),
            *impossible(plan, numbers["counts"], shapes),
            *(result_warnings.scaled(n, error) if (error := self.error(n)) else ()),
            *(result_warnings.cancellations(target.names, mean, mean_abs) if plan.strength == "mean" else ()),
        ]

    def published(self, numbers: Numbers, grant: str, shapes: Shapes) -> Numbers:
        """Round coefficients, of which strengths are then means, or, not granted them, strengths."""
        precision, mu, rho = self.precision(shapes), numbers["strengths"], numbers["coefficients"]
        if grant == "coefficients" and precision.coefficients is not None:
            rho = precision.coefficients.round(rho)
            mu, _ = estimators.strengths(rho, self.plan.strength)
        elif precision.strengths is not None:
            mu = precision.strengths.round(mu)
        published: Numbers = {
            **numbers,
            "coefficients": rho,
            "strengths": mu,
            "positions": estimators.positions(mu, self.plan.order),
        }
        if self.plan.results.precision != "exact":
            published["source_skewness"] = columns.rounded(numbers["source_skewness"])
            published["target_skewness"] = columns.rounded(numbers["target_skewness"])
        return published

    def opened_precisely(self, n: int | None, k: int) -> str:
        """Say that it is exact."""
        return "exact integers"

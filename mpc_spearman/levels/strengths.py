"""``strengths``: the coordinator opens one integer per target column, a sum over all sources' columns.

Each source contributes one vector, the sum of its columns scaled to one length, and the target one for each
of its columns (:mod:`mpc_spearman.levels.encoding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.data.ids import id_order
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.engines.computation import Bounds, Computation, Contribution, Operation
from mpc_spearman.levels.cautions import impossible
from mpc_spearman.levels.encoding import Encoding, encoded_rows
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
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.statistics import estimators, result_warnings
from mpc_spearman.wire.kinds import Field, Kind, Row

#: What source and target send each other where a strength is one product.
MASKED = masked_rows("one rounded sum of scaled ranks", 1, "rounded scaled ranks")
_PASSED_ON = (
    Field("strengths", "float64", ("m_target",), "the strengths, to the plan's precision"),
    Field("counts", "int64", ("m_target",), "over how many coefficients each strength is"),
    Field(
        "errors",
        "float64",
        ("m_target",),
        "the standard error of each strength: how much the sources' columns go together",
    ),
)


class Strengths(Level):
    """V_q = Σ_s ⟨v_s, y_q⟩ of every target column is opened; strengths and the ranking follow."""

    name: ClassVar[Reveal] = "strengths"
    opens = "the strengths, to about a tenth of the step they are published in (hence the ranking)"
    sent: ClassVar[tuple[Row, ...]] = (
        Row(
            Kind.DESCRIPTION,
            TARGET,
            COORDINATOR,
            (Field("constant", "flags", ("m_target",), "which features are constant"),),
        ),
        Row(Kind.DESCRIPTION, SOURCE, COORDINATOR, (LENGTH,)),
        *MASKED,
        *opened_rows(opens, (1, "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        Row(Kind.RESULT, COORDINATOR, TARGET, _PASSED_ON),
        Row(Kind.RESULT, COORDINATOR, SOURCE, _PASSED_ON),
    )
    operation: ClassVar[Operation] = "inner_products"

    def check(self, shapes: Shapes) -> None:
        """Refuse more rows than a run can have, or so many columns that what is computed may not fit."""
        super().check(shapes)
        most = shapes.features
        self.encoding(replace(shapes, defined=most, distinct=most, lasting=most))

    def encoding(self, shapes: Shapes) -> Encoding:
        """Return the fixed-point encoding; its scales depend on what all have told of their columns."""
        return Encoding.strengths(
            shapes.n,
            columns=shapes.m_sources,
            sources=len(shapes.features),
            estimator=self.plan.estimator,
            defined=shapes.defined_sources,
            distinct=shapes.distinct_sources,
        )

    def computation(self, shapes: Shapes) -> Computation:
        """Ask for sums, over all sources, of products of one vector each with every target column's."""
        bounds = None
        if shapes.defined:
            encoding = self.encoding(shapes)
            bounds = Bounds(
                encoding.value_bound, encoding.target_bound, encoding.target_sum, encoding.result_bound
            )
        return Computation(
            self.operation,
            encoded_rows(shapes.n, self.plan.estimator),
            dict.fromkeys(shapes.features, 1),
            shapes.m_target,
            summed=True,
            bounds=bounds,
        )

    def contribution(self, table: Table, ranks: Ranks, role: Role, shapes: Shapes) -> Contribution:
        """Return a source's one vector, or one for each of the target's columns, int64 (1 or m_B, rows)."""
        encoding = self.encoding(shapes)
        encode = encoding.source_vector if role is Role.SOURCE else encoding.column_vectors
        return Contribution(encode(ranks, table.party, id_order(table.ids)))

    def conclude(
        self, opened: NDArray[Any], sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> Numbers:
        """Compute strengths from one sum per target column."""
        mu, counts = self.encoding(shapes).decode(opened[0].tolist(), target.constant)
        return {
            "positions": estimators.positions(mu, self.plan.order),
            "strengths": mu,
            "counts": counts,
            "errors": self.errors(sources, shapes),
        }

    def warnings(
        self, numbers: Numbers, sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> list[str]:
        """Warn of eq. 2, of constant columns, of impossible values, and of what a strength is a mean of."""
        plan, encoding = self.plan, self.encoding(shapes)
        return [
            *(result_warnings.eq2_unseen() if plan.estimator == "paper" else ()),
            *result_warnings.constants(
                plan.parties.target.name, target.names, target.constant, plan.estimator
            ),
            *impossible(plan, numbers["counts"], shapes),
            *result_warnings.k_note(encoding.averaged, encoding.columns),
        ]

    def published(self, numbers: Numbers, grant: str, shapes: Shapes) -> Numbers:
        """Round strengths; the ranking is of the rounded ones."""
        grid, mu = self.precision(shapes).strengths, numbers["strengths"]
        if grid is not None:
            mu = grid.round(mu)
        return {**numbers, "strengths": mu, "positions": estimators.positions(mu, self.plan.order)}

    def opened_precisely(self, n: int | None, k: int) -> str:
        """Say how coarse the encoding is."""
        return "to about a tenth of the step in which they are published"

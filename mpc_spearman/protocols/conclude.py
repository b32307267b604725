"""What the coordinator computes from the opened integers, and the labelled part of it each party is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.config import Estimator, Plan
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.levels.encoding import encoding_of
from mpc_spearman.levels.products import Products
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.privacy.groups import equal_or_reversed
from mpc_spearman.results.dataframes import interval_matrix
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run
from mpc_spearman.statistics import estimators, inference, result_warnings
from mpc_spearman.wire.kinds import Field


@dataclass(frozen=True)
class Description:
    """What a data party told the coordinator about its columns; empty where withheld."""

    names: tuple[str, ...] = ()
    ties: tuple[int, ...] = ()
    constant: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Labels:
    """The names of the matrix's rows and columns, as far as a party knows them.

    Attributes
    ----------
    sources : sequence of (str, str)
        Party and feature of each row.
    target : sequence of str
    """

    sources: Sequence[tuple[str, str]]
    target: Sequence[str]

    @classmethod
    def of(cls, shapes: Shapes, sources: Sequence[str], target: Sequence[str]) -> Labels:
        """Say whose the sources' features are: their rows are stacked in roster order."""
        owners = [party.name for party, features in shapes.features.items() for _ in range(features)]
        return cls(list(zip(owners, sources, strict=True)) if sources else [], target)


@dataclass(frozen=True)
class Conclusion:
    """The numbers of a run, as far as a party has them. Shapes: (m_A, m_B) and (m_B,)."""

    positions: NDArray[np.int64] | None = None
    strengths: NDArray[np.float64] | None = None
    counts: NDArray[np.int64] | None = None
    coefficients: NDArray[np.float64] | None = None
    #: How far each column is tied (:class:`mpc_spearman.statistics.inference.Ties`), (m_A,) and (m_B,).
    source_ties: NDArray[np.int64] | None = None
    target_ties: NDArray[np.int64] | None = None
    #: Strengths under ``tie_corrected`` and ``paper``, (m_B, 2): never passed on, they tell of all ties.
    both: NDArray[np.float64] | None = None
    warnings: tuple[str, ...] = ()

    def granted(self, fields: Sequence[Field]) -> dict[str, Any]:
        """Pick the numbers among a message's fields."""
        return {field.name: getattr(self, field.name) for field in fields if hasattr(self, field.name)}

    def restricted(self, rows: slice) -> Conclusion:
        """Keep only some rows of the matrix."""
        if self.coefficients is None or self.source_ties is None:
            return self
        return replace(self, coefficients=self.coefficients[rows], source_ties=self.source_ties[rows])

    @classmethod
    def received(cls, values: Mapping[str, Any]) -> Conclusion:
        """Build a party's copy from what the coordinator sent it."""
        return cls(**{name: value for name, value in values.items() if name in cls.__dataclass_fields__})

    def result(
        self,
        run: Run,
        n: int,
        cost: pd.DataFrame,
        labels: Labels,
        warnings: Sequence[str],
        steps: Mapping[str, float],
        published: Conclusion | None = None,
    ) -> Result:
        """Label a party's numbers, and compute what follows from those that it has.

        Those are p-values and confidence intervals, which so tell it nothing more.

        Parameters
        ----------
        run : Run
        n : int
            Aligned rows.
        cost : DataFrame
        labels : Labels
        warnings : sequence of str
        steps : mapping of str to float
            The grids that published numbers lie on, as `Precision.steps` gives them.
        published : Conclusion, optional
            The numbers that the ranking is of, where they are not this party's own.
        """
        columns = pd.Index(list(labels.target), dtype="object")
        rows = pd.MultiIndex.from_tuples(list(labels.sources), names=["party", "feature"])

        def matrix(values: NDArray[np.float64]) -> pd.DataFrame:
            return pd.DataFrame(values, index=rows, columns=columns)

        def series(values: Any, name: str) -> Any:
            return None if values is None else pd.Series(values, index=columns, name=name)

        matrices: dict[str, pd.DataFrame] = {}
        if self.coefficients is not None:
            assert self.source_ties is not None
            assert self.target_ties is not None
            rho, tied = self.coefficients, inference.pairs(self.source_ties, self.target_ties)
            estimator, confidence = run.plan.estimator, run.plan.confidence
            step = steps.get("coefficients", 0.0) if published is None else 0.0
            low, high = inference.intervals(rho, n, tied, estimator, confidence, step)
            matrices = {
                "coefficients": matrix(rho),
                "pvalues": matrix(inference.pvalues(rho, n, tied, estimator, step)),
                "intervals": interval_matrix(matrix(low), matrix(high)),
            }
            warnings = [
                *warnings,
                *result_warnings.pvalues(tied, n, estimator),
                *result_warnings.intervals(tied, n, estimator),
            ]
        ranking, ranked = None, published or self
        if ranked.positions is not None:
            order = np.argsort(ranked.positions, kind="stable")  # equals in the table's order
            ranking = pd.DataFrame({"position": ranked.positions[order], "feature": columns[order].tolist()})
            if ranked.strengths is not None:
                ranking["strength"] = ranked.strengths[order]
        return Result(
            plan=run.plan.shared(),
            party=run.roster.me.name,
            role=run.roster.me.role.value,
            n=n,
            alignment=run.alignment,
            offered=run.offered,
            warnings=warnings,
            cost=cost,
            **matrices,
            strengths=series(self.strengths, "strength"),
            counts=series(self.counts, "count"),
            ranking=ranking,
            estimators=None
            if self.both is None
            else pd.DataFrame(self.both, index=columns, columns=["tie_corrected", "paper"]),
            precision=steps,
        )


def from_opened(
    plan: Plan,
    opened: NDArray[Any] | None,
    sources: Sequence[Description],
    target: Description,
    shapes: Shapes,
) -> Conclusion:
    """Conclude from what the engine opened at the plan's level (paper, step 3 and definition 2).

    None where it is opened to another party.
    """
    if opened is None:
        return Conclusion()
    if plan.reveal == "ranking":
        return from_order(plan, opened, shapes)
    if plan.reveal == "strengths":
        return from_sums(plan, opened[0], target, shapes)
    ties = [term for source in sources for term in source.ties]
    if plan.reveal == "differences":
        opened = estimators.products_from_differences(opened, ties, target.ties, shapes.n)
    else:
        opened = Products(shapes.n).decode(opened, ties, target.ties)
    return from_products(plan, opened, sources, target, shapes)


def from_products(
    plan: Plan, products: NDArray[Any], sources: Sequence[Description], target: Description, shapes: Shapes
) -> Conclusion:
    """Conclude from S, at ``differences`` and ``coefficients`` (paper, eq. 2 and definition 2).

    Parameters
    ----------
    plan : Plan
    products : ndarray of int, shape (m_A, m_B)
        S of every pair, the sources' rows in the plan's order.
    sources : sequence of Description
        One per source, in the plan's order, with names and tie terms.
    target : Description
        With names and tie terms.
    shapes : Shapes
        With what all have told of their columns.
    """
    estimator, n = plan.estimator, shapes.n
    source_ties = [term for source in sources for term in source.ties]
    matrices: dict[Estimator, NDArray[np.float64]] = {
        name: estimators.coefficients(products, source_ties, target.ties, n, name)
        for name in ("tie_corrected", "paper")
    }
    rho = matrices[estimator]
    both = np.column_stack([estimators.strengths(matrix, plan.strength)[0] for matrix in matrices.values()])
    mu, counts = estimators.strengths(rho, plan.strength)
    mean, _ = estimators.strengths(rho, "mean")
    mean_abs, _ = estimators.strengths(rho, "mean_abs")
    owners = [*(source.name for source in plan.parties.sources), plan.parties.target.name]
    sides = list(zip(owners, [*sources, target], strict=True))
    warnings = [
        *(
            result_warnings.eq2(target.names, both[:, 0], both[:, 1], plan.order)
            if estimator == "paper"
            else ()
        ),
        *(line for name, side in sides for line in column_cautions(plan, name, side.names, side.ties, n)),
        *impossible(plan, counts, shapes),
        *(result_warnings.scaled(n, error) if (error := _error(plan, n)) else ()),
        *(result_warnings.cancellations(target.names, mean, mean_abs) if plan.strength == "mean" else ()),
    ]
    return Conclusion(
        positions=estimators.positions(mu, plan.order),
        strengths=mu,
        counts=counts,
        coefficients=rho,
        source_ties=inference.ties(source_ties, n),
        target_ties=inference.ties(target.ties, n),
        both=both,
        warnings=tuple(warnings),
    )


def _error(plan: Plan, n: int) -> float:
    """How far the coordinator's coefficients are from exact ones, at most."""
    return Products(n).error if plan.reveal == "coefficients" else 0.0


def from_sums(plan: Plan, sums: NDArray[Any], target: Description, shapes: Shapes) -> Conclusion:
    """Conclude from one sum per target column, at ``strengths``.

    Parameters
    ----------
    plan : Plan
    sums : ndarray of int, shape (m_B,)
    target : Description
        As far as this level tells.
    shapes : Shapes
        With what all have told of their columns.
    """
    encoding = encoding_of(plan, shapes)
    mu, counts = encoding.decode(sums.tolist(), target.constant)
    warnings = [
        *(result_warnings.eq2_unseen() if plan.estimator == "paper" else ()),
        *result_warnings.constants(plan.parties.target.name, target.names, target.constant, plan.estimator),
        *impossible(plan, counts, shapes),
        *result_warnings.k_note(encoding.averaged, encoding.columns),
    ]
    return Conclusion(
        positions=estimators.positions(mu, plan.order),
        strengths=mu,
        counts=counts,
        warnings=tuple(warnings),
    )


def from_order(plan: Plan, opened: NDArray[np.bool_], shapes: Shapes) -> Conclusion:
    """Conclude from compared strengths, at ``ranking``.

    Parameters
    ----------
    plan : Plan
    opened : ndarray of bool
        "q before r" of each pair of columns q < r, row by row; under ``top`` one per column.
    shapes : Shapes
        With what the sources have told of their columns.

    Returns
    -------
    Conclusion
        With positions 1 to m_B; under ``top`` 1 for the k strongest and k + 1 for all others. Opened bits
        that no order gives, as only a party that does not follow the protocol can make them, are counted all
        the same, with a warning.
    """
    if plan.top is not None:
        before, as_expected = (~opened).astype(np.int64) * opened.sum(), opened.sum() == plan.top
    else:
        q, r = np.triu_indices(shapes.m_target, 1)
        before = np.bincount(np.where(opened, r, q), minlength=shapes.m_target)
        as_expected = len(set(before.tolist())) == shapes.m_target
    positions = np.sort(before).searchsorted(before) + 1
    encoding = encoding_of(plan, shapes)
    warnings = [
        *(result_warnings.eq2_unseen() if plan.estimator == "paper" else ()),
        *result_warnings.order_note(2 * encoding.error, plan.top),
        *result_warnings.k_note(encoding.averaged, encoding.columns),
        *(() if as_expected else result_warnings.no_order()),
    ]
    return Conclusion(positions=positions.astype(np.int64), warnings=tuple(warnings))


def impossible(plan: Plan, counts: NDArray[np.int64], shapes: Shapes) -> list[str]:
    """Say whether strengths are missing, or over fewer coefficients, that the columns do not explain."""
    if plan.estimator == "paper":
        return result_warnings.impossible(counts, shapes.m_sources, 0)
    return result_warnings.impossible(counts, shapes.defined_sources, shapes.constant_targets)


def repeated_columns(party: str, names: Sequence[str], ranks: Ranks) -> list[str]:
    """Say which of a source's own columns are there more than once: nobody else can tell."""
    groups = []
    for members in equal_or_reversed(ranks):
        first = ranks.matrix[members[0]]
        same = [column for column in members if np.array_equal(ranks.matrix[column], first)]
        other = [column for column in members if column not in same]
        groups.append(([names[column] for column in same], [names[column] for column in other]))
    return result_warnings.repeated(party, groups)


def column_cautions(plan: Plan, party: str, names: Sequence[str], ties: Sequence[int], n: int) -> list[str]:
    """Sentences about a party's own columns: ties under ``paper``, constants."""
    flags = [term == total(n) for term in ties]
    untied_or_constant = [0 if constant else term for term, constant in zip(ties, flags, strict=True)]
    return [
        *(result_warnings.ties(party, names, untied_or_constant, n) if plan.estimator == "paper" else ()),
        *result_warnings.constants(party, names, flags, plan.estimator),
    ]

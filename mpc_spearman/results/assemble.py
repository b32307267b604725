"""From a party's numbers to its `Result`: labels, and derived numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.config import OUTSIDE, Plan
from mpc_spearman.levels.level import Numbers
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.results import derived
from mpc_spearman.results.parts import PARTS
from mpc_spearman.results.result import Result
from mpc_spearman.statistics import explained, pvalues, result_warnings
from mpc_spearman.statistics.columns import Columns


@dataclass(frozen=True)
class Labels:
    """The names of the matrix's rows, (party, feature), and columns, as far as a party knows them."""

    sources: Sequence[tuple[str, str]]
    target: Sequence[str]

    @classmethod
    def of(cls, shapes: Shapes, sources: Sequence[str], target: Sequence[str]) -> Labels:
        """Label the sources' features, whose rows are stacked in roster order."""
        owners = [party.name for party, features in shapes.features.items() for _ in range(features)]
        return cls(list(zip(owners, sources, strict=True)) if sources else [], target)


def assemble(
    plan: Plan, me: Party, n: int, numbers: Numbers, labels: Labels, warnings: Sequence[str], **about: Any
) -> Result:
    """Label a party's numbers, and compute what follows from them, which tells it nothing more.

    `n` counts aligned rows; `about` are the other arguments of `Result`, such as the run's cost.
    """
    columns = pd.Index(list(labels.target), dtype="object")
    sources = [me.name] if me.role is Role.SOURCE else [source.name for source in plan.parties.sources]
    warnings = list(warnings)
    parts: dict[str, Any] = {}
    for name in ("strengths", "counts", "errors"):
        if (values := numbers.get(name)) is not None:
            parts[name] = pd.Series(values, index=columns)
    if (both := numbers.get("estimators")) is not None:
        parts["estimators"] = pd.DataFrame(both, columns, list(PARTS["estimators"].columns or ()))
    if "coefficients" in numbers:
        rho, noise = numbers["coefficients"], numbers.get("noise")
        source = Columns(numbers["source_ties"], numbers["source_skewness"])
        target = Columns(numbers["target_ties"], numbers["target_skewness"])
        names = [*labels.sources, *((plan.parties.target.name, name) for name in labels.target)]
        parts["columns"] = derived.column_table(names, source, target)
        rows = parts["columns"].index[: len(labels.sources)].remove_unused_levels()
        matrix = parts["coefficients"] = pd.DataFrame(rho, rows, columns)
        if noise is not None:
            parts["noise"] = pd.DataFrame(noise, rows, columns)
        pairs = derived.evidence(matrix, parts["columns"], parts.get("noise"), n, plan.estimator)
        parts |= derived.inferences(matrix, pairs, plan.confidence)
        testable = pvalues.testable(source.rows, target, plan.estimator) & ~np.isnan(rho)
        warnings += [
            *result_warnings.pvalues(**pairs),
            *result_warnings.intervals(parts["intervals"].to_numpy()[::2], testable, n),
            *result_warnings.noise("coefficients", np.asarray(pairs["noise"]), 1 / np.sqrt(n - 1)),
        ]
    for level in OUTSIDE:
        if level in numbers:
            told = derived.told(level, numbers)
            each = columns if level == "explained" else range(1, told["noise"].shape[1] + 1)
            index = pd.MultiIndex.from_product([sources, each], names=PARTS[level].index)
            table = pd.DataFrame({name: of_all.ravel() for name, of_all in told.items()}, index)
            parts[level] = derived.concluded(level, table, n)
    if "explained" in numbers:
        r2, s, k = numbers["explained"], numbers["explained_noise"], numbers["kept"]
        numbers = {**numbers, "positions": explained.positions(r2, k, n, plan.order)}
        warnings += result_warnings.explained(explained.spread(s, k[:, None], n).max(), len(k))
        warnings += result_warnings.uneven(np.isnan(told["dispersion"]) & ~np.isnan(r2))
    if "canonical" in numbers:
        s, k = numbers["canonical_noise"], numbers["kept"]
        spread = explained.spread(s, k * numbers["kept_target"], n).max()
        warnings += result_warnings.explained(spread, len(k), "Pillai's trace")
        warnings += result_warnings.uneven(np.isnan(told["dispersion"][:, 0]))
    if "positions" in numbers:
        order = np.argsort(numbers["positions"], kind="stable")  # equals in the table's order
        ranking = pd.DataFrame({"position": numbers["positions"][order], "feature": columns[order].tolist()})
        if "strengths" in numbers:
            ranking["strength"] = numbers["strengths"][order]
        parts["ranking"] = ranking
    if "errors" in numbers and "strengths_noise" in numbers:
        errors, s = numbers["errors"], numbers["strengths_noise"]
        warnings += result_warnings.noise("strengths", s, errors)
        parts["errors"] = pd.Series(np.hypot(errors, s), index=columns)
    return Result(
        plan=plan.shared(), party=me.name, role=me.role.value, n=n, warnings=warnings, **parts, **about
    )

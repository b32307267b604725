"""``balance``: the share of a feature's coefficients that are positive. A level made up for a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.findings import findings
from mpc_spearman.findings.findings import Copy
from mpc_spearman.findings.forms import Form, Labels, Numbers, series
from mpc_spearman.findings.sections import Section, Table, number
from mpc_spearman.levels.coefficients import Coefficients
from mpc_spearman.levels.rows import COORDINATOR, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.units import printable
from mpc_spearman.wire.kinds import Field, Kind, Row


class Findings(findings.Findings):
    """One share for each feature."""

    forms: ClassVar[Mapping[str, Form]] = {"balance": series("balances", "balance")}

    @classmethod
    def tables_from(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        return {"balance": pd.Series(numbers["balance"], list(labels.target))}

    def warnings(self) -> list[str]:
        return ["a made-up level warns"]

    def headline(self) -> str:
        return f"The most balanced feature is {printable(str((self.tables['balance'] - 0.5).abs().idxmin()))}"

    def sections(self) -> list[Section]:
        values = self.tables["balance"]
        columns = {"feature": [*map(printable, values.index)], "balance": [*map(number, values)]}
        return [Section("Balance", table=Table(columns, "result.json", values.tolist()))]


class Balance(Coefficients):
    """C opens the products of `coefficients`, and passes on only how many of them are positive."""

    name = "balance"
    findings: ClassVar[type[findings.Findings]] = Findings
    opens = "the exact product of every pair of columns"
    granted = (
        Row(
            Kind.RESULT, COORDINATOR, TARGET,
            (Field("balance", "float64", ("m_target",), "the share of positive coefficients"),),
        ),
    )  # fmt: skip

    def conclude(self, opened: NDArray[Any], shapes: Shapes) -> Numbers:
        return {"balance": (super().conclude(opened, shapes)["coefficients"] > 0).mean(axis=0)}

    def warnings(self, numbers: Numbers, shapes: Shapes) -> list[str]:
        return []

    def published(
        self, numbers: Numbers, grant: str, shapes: Shapes, source_rows: slice | None = None
    ) -> Numbers:
        return {name: np.round(values, 2) for name, values in numbers.items()}

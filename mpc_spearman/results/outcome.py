"""Everything that a party keeps of a run: its findings, costs, warnings and record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd

from mpc_spearman.config import Plan
from mpc_spearman.errors import NotRevealed
from mpc_spearman.findings.findings import Findings, RoleName
from mpc_spearman.findings.forms import Form
from mpc_spearman.levels import LEVELS
from mpc_spearman.parties import Role
from mpc_spearman.wire import meter

#: The form of every table that a result of some level can hold.
FORMS: dict[str, Form] = {
    name: form for level in LEVELS.values() for name, form in level.findings.forms.items()
}
#: What a run cost; docs/costs.md says what its columns count.
COST = Form(
    "costs", "cost.csv", (),
    {
        name: str if name in ("party", "phase") else float if name.endswith("seconds") else int
        for name in meter.COLUMNS
    },
)  # fmt: skip


class Outcome:
    """What one party knows when a run has ended; see `mpc_spearman.results.result.Result`."""

    findings: Findings
    warnings: tuple[str, ...]
    alignment: str | None
    record: str | None
    _cost: pd.DataFrame
    _offered: dict[str, int]

    def __init__(
        self,
        findings: Findings,
        *,
        cost: pd.DataFrame,
        warnings: Sequence[str] = (),
        alignment: str | None = None,
        offered: Mapping[str, int] = MappingProxyType({}),
        record: str | None = None,
    ) -> None:
        vars(self).update(findings=findings, warnings=tuple(warnings), alignment=alignment, record=record)
        vars(self).update(_cost=COST.plain(cost), _offered=dict(offered))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a result does not change: {name}")

    def __getattr__(self, name: str) -> Any:
        """Return a copy of a table; `NotRevealed` with the setting responsible if this party lacks it."""
        if name not in FORMS:
            raise AttributeError(f"a result has no {name!r}; its tables are {', '.join(FORMS)}")
        if (why := self.withheld(name)) is not None:
            raise NotRevealed(why)
        return self.findings.tables[name].copy()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *FORMS]

    @property
    def party(self) -> str:
        """Whose copy this is."""
        return self.findings.copy.party

    @property
    def role(self) -> RoleName:
        """Its owner's role: coordinator, target or source."""
        return self.findings.copy.role

    @property
    def n(self) -> int:
        """The number of aligned rows."""
        return self.findings.n

    @property
    def plan(self) -> Plan:
        """The plan that was run, without the local keys of any party."""
        return self.findings.plan

    @property
    def holds(self) -> tuple[str, ...]:
        """Names of the tables that this party was given."""
        return tuple(self.findings.tables)

    @property
    def offered(self) -> dict[str, int]:
        """Under ``alignment: intersect``: how many rows each party had, of which `n` are common to all.

        A data party knows its own number, the coordinator everyone's.
        """
        return dict(self._offered)

    @property
    def cost(self) -> pd.DataFrame:
        """Cost per party and phase, with the columns of ``cost.csv``. Data parties see their own only."""
        return self._cost.copy()

    def withheld(self, table: str) -> str | None:
        """Return a sentence with the level or grant that withheld a table, such as ``"coefficients"``.

        None if this copy has it.
        """
        if table in self.findings.tables:
            return None
        form, plan, why = FORMS[table], self.plan, "not in this copy of the result"
        is_data_party = self.role != "coordinator"
        if plan.opened_to == "target" and self.role != "target":
            why = "not in this result: the order was opened to the target alone (opened_to)"
        elif table not in LEVELS[plan.reveal].findings.forms:
            why = f"not in this result: the run revealed no more than {plan.reveal!r} (reveal)"
        elif is_data_party and form.coordinator:
            why = f"the coordinator's alone: {form.coordinator}"
        elif is_data_party and table not in self.findings.forms:
            granted = plan.terms.granted[Role(self.role)]
            to = "target" if self.role == "target" else "sources"
            why = f"not in this result: the coordinator passes {granted!r} on to the {to} (results.{to})"
        return f"The {form.words} {'are' if form.words.endswith('s') else 'is'} {why}."

    def withheld_from_this_party(self) -> str | None:
        """Return a sentence about the first table that was revealed, but not to this party, if any."""
        for name, form in LEVELS[self.plan.reveal].findings.forms.items():
            if name not in self.findings.forms and not form.coordinator:
                return self.withheld(name)
        return None

    def rows_used(self) -> str:
        """Return how many rows were used, and of how many rows of each party that this copy knows."""
        of = ", ".join(f"{name} {rows:,}" for name, rows in self._offered.items())
        return f"{self.n:,}" + (f", common to all parties (of {of})" if of else "")

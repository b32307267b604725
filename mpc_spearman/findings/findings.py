"""The contract of a party's copy of a result: its tables and sentences. Also a copy without tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pandas as pd

from mpc_spearman.config import Plan
from mpc_spearman.errors import NotRevealed
from mpc_spearman.findings import adjustment
from mpc_spearman.findings.forms import Form, Labels, Numbers, pair_table
from mpc_spearman.findings.sections import Section
from mpc_spearman.statistics.columns import Floats
from mpc_spearman.units import printable

RoleName = Literal["coordinator", "target", "source"]


@dataclass(frozen=True)
class Copy:
    """Which party has a copy, of which run: the plan without local keys, and the number of aligned rows."""

    plan: Plan
    party: str
    role: RoleName
    n: int

    def __post_init__(self) -> None:
        of_role = {"coordinator": [self.plan.names[0]], "target": [self.target], "source": self.sources}
        if self.party not in of_role[self.role]:
            raise ValueError(f"{self.party} is not the {self.role} of its plan")

    def chosen(self, items: int) -> int | None:
        """Return how many of `items` this copy has, chosen as the strongest; None if it has all."""
        k = None if self.role == "coordinator" else self.plan.results.strongest
        return None if k is None or k >= items else k

    @property
    def sources(self) -> list[str]:
        """Names of the sources, in roster order."""
        return [source.name for source in self.plan.parties.sources]

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.plan.parties.target.name


class Findings:
    """The numbers of a run that a party was given, as tables, and the sentences and sections about them.

    A subclass is for one level of ``reveal`` or grant of ``results``. This one is for a copy with nothing.
    """

    #: Every table that a copy can hold; the first is what people come for.
    forms: ClassVar[Mapping[str, Form]] = {}
    #: Why copies of several runs with other sources cannot be merged; empty if they can.
    unmergeable: ClassVar[str] = "it holds nothing that can be merged"
    #: Correlations of the target's own features, which it uses and does not keep: a saved copy may be shared.
    own_correlations: Floats | None = None

    def __init__(self, copy: Copy, tables: Mapping[str, Any]) -> None:
        self.copy, self.plan, self.n = copy, copy.plan, copy.n
        self.tables = dict(tables)

    # --- from numbers to tables

    @classmethod
    def of(cls, copy: Copy, numbers: Numbers, labels: Labels) -> Findings:
        """Make a copy of the numbers that a party has."""
        findings = cls(copy, cls.tables_from(copy, numbers, labels))
        findings.own_correlations = numbers.get("own_correlations")
        return findings.completed()

    def completed(self) -> Findings:
        """Return the copy, checked, with all derived tables."""
        return type(self)(self.copy, {**self.tables, **self.derived_tables()}).checked()

    def checked(self) -> Findings:
        """Return the copy after checking its tables against their forms; the tables are copied.

        `ValueError` if they contradict each other, or are not for this party.
        """
        for name in self.tables:
            form = self.forms.get(name)
            if form is None or (form.coordinator and self.copy.role != "coordinator"):
                raise ValueError(f"the plan in it does not give {name} to this party")
        self.tables = {
            name: form.plain(self.tables[name]) for name, form in self.forms.items() if name in self.tables
        }
        for name in [*self.forms][:1]:
            if name not in self.tables:
                raise ValueError(f"the {self.forms[name].words} are missing")
        labels = self.labels
        if not {party for party, _ in labels.sources} <= {*self.copy.sources}:
            raise ValueError("its rows are not those of this plan's sources")
        for name, table in self.tables.items():
            self.forms[name].check(table, labels, self.copy.target)
        return self

    @classmethod
    def tables_from(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        """Return a party's numbers as tables."""
        return {}

    def derived_tables(self) -> dict[str, Any]:
        """Return derived tables, new or with more columns, which reveal nothing more than this copy."""
        return {}

    @classmethod
    def merged(cls, copy: Copy, parts: Sequence[Findings]) -> dict[str, Any]:
        """Return the tables of one run with all sources, from copies of runs with fewer sources."""
        raise NotImplementedError

    @property
    def labels(self) -> Labels:
        """The names of features in this copy's tables."""
        for name, table in self.tables.items():
            if self.forms[name].columns is None:
                return Labels(list(table.index), list(table.columns))
        series = [table for name, table in self.tables.items() if self.forms[name].is_series]
        return Labels((), list(series[0].index) if series else ())

    # --- what a record shows

    @property
    def sizes(self) -> dict[str, int]:
        """The dimensions of the message from which this copy was made."""
        rows, copy = len(self.labels.sources), self.copy
        sources = 1 if copy.role == "source" else len(copy.sources)
        return {"m_target": len(self.labels.target), "m_source": rows, "m_sources": rows, "sources": sources}

    def labels_of(self, numbers: Numbers) -> Labels:
        """Return the names of features in a message's numbers, for comparison with this copy."""
        return self.labels

    def shows(self, numbers: Numbers) -> bool:
        """Return whether a message's numbers give the tables of this copy."""
        labels = self.labels_of(numbers)
        names = {"source_names": [name for _, name in labels.sources], "target_names": [*labels.target]}
        if any(list(numbers[key]) != names[key] for key in names.keys() & numbers.keys()):
            return False
        return all(
            name in self.tables and _covers(self.tables[name], table)
            for name, table in self.tables_from(self.copy, numbers, labels).items()
        )

    # --- what is said

    def warnings(self) -> list[str]:
        """Return the warnings that follow from the tables themselves."""
        return []

    def cautions(self) -> list[str]:
        """Return `warnings`, and those about adjusted numbers."""
        return [*self.warnings(), *(adjustment.warnings(self.plan, self.n) if self.tables else [])]

    def facts(self) -> dict[str, str]:
        """Return the settings of the plan that a reader of these numbers needs, by their names for people."""
        adjusted, privacy = adjustment.in_words(self.plan), self.plan.privacy
        return {
            **({"Features": adjusted} if adjusted else {}),
            **({} if self.exact else {"Privacy": f"loss {privacy.loss:g}, unit {privacy.unit}"}),
        }

    @property
    def exact(self) -> bool:
        """Whether the plan asks for results without noise."""
        return self.plan.results.precision == "exact"

    def noise_ratio(self) -> float:
        """Return the noise in these numbers, in multiples of chance variation; 0 if they have none."""
        return 0.0

    def only_order(self) -> str:
        """Return the sentence for a ranking in which no feature differs from chance."""
        why = "noise" if self.noise_ratio() > 1 else "chance"
        return f"The order is mostly {why}: no feature can be told from 0"

    def precision(self) -> str:
        """Return how exact the numbers of this copy are, in words."""
        if not self.tables:
            return "no results"
        ratio = self.noise_ratio()
        if not ratio:
            return "exact"
        size = f"{ratio:.2g}"
        return f"with noise of {size} standard error{'s' * (size != '1')}"

    def outcome(self) -> str:
        """Return the headline, with the covariates that features are adjusted for."""
        adjusted = adjustment.in_words(self.plan) if self.tables else ""
        return f"{self.headline()}, {adjusted}" if adjusted else self.headline()

    def headline(self) -> str:
        """Return one sentence with the outcome, without its full stop."""
        return f"This copy of {printable(self.copy.party)} ({self.copy.role}) holds no result"

    def sections(self) -> list[Section]:
        """Return all that is shown, in reading order."""
        return []

    def pairs(self) -> pd.DataFrame:
        """Return one row for each pair of columns, the strongest first; `NotRevealed` without any."""
        matrices = [(self.forms[name], table) for name, table in self.tables.items() if self.forms[name].pair]
        if not matrices:
            raise NotRevealed("This copy of the result has no numbers of single pairs of columns.")
        return pair_table(matrices)


def _covers(held: Any, table: Any) -> bool:
    """Return whether `held` has the numbers of `table`, in columns of the same names."""
    if isinstance(table, pd.DataFrame):
        if not {*table.columns} <= {*held.columns}:
            return False
        held = held[[*table.columns]]
    return bool(table.astype(object).equals(held.astype(object)))

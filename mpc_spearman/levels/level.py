"""The contract of a level of ``reveal``: everything that differs between levels.

Each module of this package is one level. Roles and engines know no level: roles ask the plan's level what to
contribute, compute and pass on; engines run the computation that it asks for.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Plan, Reveal
from mpc_spearman.data.ranks import LARGEST, Ranks, total
from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.errors import BoundError
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.expected_noise import ExpectedNoise, expect_noise
from mpc_spearman.levels.noise import InputNoise, with_noise
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.advice import on_inputs
from mpc_spearman.privacy.scales import Grid, Scales, Stated, column_grid, input_deviations, untied_range
from mpc_spearman.privacy.statements import Factors, Statements, factors, rows_differ, state_columns
from mpc_spearman.statistics import reading, result_warnings
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.strengths import strength_errors
from mpc_spearman.wire.kinds import Row


class Level(ABC):
    """A level of ``reveal``, under a plan."""

    name: ClassVar[Reveal]
    #: What a copy holds and says that is granted this level.
    findings: ClassVar[type[Findings]]
    #: Whether its results are of single features of the target, whose names C gets and passes on.
    of_features: ClassVar[bool] = True
    #: Whether its results are over all sources, so that every receiver gets the same ones.
    over_all_sources: ClassVar[bool] = False
    #: The roles that state how many of their features are not constant.
    states_defined: ClassVar[tuple[Role, ...]] = (Role.SOURCE, Role.TARGET)
    #: What the coordinator learns by opening, in words for the table of who learns what.
    opens: ClassVar[str] = ""
    #: The messages of this level alone.
    sent: ClassVar[tuple[Row, ...]] = ()
    #: The fields of results for a party that is granted this level, or one above it.
    granted: ClassVar[tuple[Row, ...]] = ()
    #: Whether owners add noise before anything is opened; else the coordinator adds it to exact numbers.
    owners_add: ClassVar[bool] = False
    #: What `averaged_columns` counts.
    counts: ClassVar[str] = "source columns that are not constant"
    #: How precise the opened numbers are, with noise and without.
    precision: ClassVar[tuple[str, str]]
    #: The roles that mix their columns by a random rotation before sharing them.
    whitening_roles: ClassVar[tuple[Role, ...]] = ()

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    # --- what is refused, in the order in which a run finds it out

    def check_rows(self, n: int) -> None:
        """Refuse more rows than a run can have; `BoundError`."""
        if n > LARGEST:
            raise BoundError(f"{n:,} rows are more than the {LARGEST:,} whose ranks fit 32 bits")

    def check(self, shapes: Shapes) -> None:
        """Refuse sizes whose result would not be exact (`BoundError`), or that contradict the plan."""
        self.check_rows(shapes.n)

    def check_columns_of(self, owner: Party, count: int, shapes: Shapes) -> None:  # noqa: B027
        """Raise `BoundError` if no result is possible with an owner's columns, of which `count` vary."""

    def check_statements(self, shapes: Shapes) -> None:
        """Raise `BoundError`, once all owners have stated their scales, if the result cannot be computed."""
        self.computation(shapes)

    def averaged_columns(self, shapes: Shapes) -> int:
        """Return how many columns (`counts`) an opened number averages, for ``policy.min_columns``."""
        return shapes.defined_sources

    # --- what data parties contribute, and what is opened

    @abstractmethod
    def computation(self, shapes: Shapes) -> Computation:
        """Return the computation, the same at all parties."""

    @abstractmethod
    def contribution(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, factors: Factors
    ) -> Contribution:
        """Return the vectors that a data party contributes, times its factors."""

    def encoding(self, shapes: Shapes) -> Encoding | None:
        """Return how vectors are scaled to integers; None for ranks as they are."""
        return None

    # --- what owners state, and the noise that follows (docs/guarantee.md)

    @property
    def noisy(self) -> bool:
        """Whether the numbers that are passed on have noise."""
        return self.plan.results.precision != "exact"

    def statements(self, ranks: Ranks, role: Role, factors: Floats) -> Statements:
        """Return a data party's statements about its columns, from the ranks of its whole table.

        Each range is stated larger by a factor, (m,), of ``policy.range``.
        """
        return state_columns(self.plan, ranks, factors)

    def stated_scales(self, stated: Statements, role: Role) -> dict[str, Stated]:
        """Return the stated scales that a data party sends, by field of the message."""
        return {"ranges": stated.vectors}

    @abstractmethod
    def grid(self, role: Role, field: str, n: int, features: int, defined: int) -> Grid:
        """Return the grid of ranges that a data party of so many features can state in a message field."""

    def factors(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, of_value: Floats
    ) -> Factors:
        """Return the factors of a data party's vectors, from its ranks of the rows of the run.

        A vector keeps within its stated range over `of_value`, (m,): the rest is for other vectors in which
        the same value shows. Only the owner knows the factors, except where C computes exact coefficients and
        applies them.
        """
        if not self.noisy:
            return Factors(np.ones(ranks.m))
        encoding = self.encoding(shapes)
        resolutions = (
            (0.0, 0.0) if encoding is None else (1 / encoding.source_scale, 1 / encoding.target_scale)
        )
        return factors(self.plan, ranks, stated, of_value, resolutions)

    def left_out(self, ranks: Ranks, role: Role, stated: Statements) -> Floats:
        """Return the share of each column's variance that the computation leaves out, (m,)."""
        return np.zeros(ranks.m)

    def stated_ranges(self, stated: Statements, role: Role, n: int) -> Floats:
        """Return each column's stated range in a run of n rows, in ranges of a column without ties, (m,)."""
        return column_grid(n, self.plan.estimator).scales(stated.vectors).widths / untied_range(n)

    def statements_for_tests(
        self, contribution: Contribution, role: Role, shapes: Shapes
    ) -> dict[str, Floats]:
        """Return what a party states about its vectors for tests without noise, by field of the message."""
        return {}

    def expected_noise(self, stated: Statements, role: Role, shapes: Shapes) -> ExpectedNoise:
        """Return the noise to expect in the most detailed numbers about an owner's columns."""
        return expect_noise(self.plan, stated, role, shapes)

    def draw_noise(self, shapes: Shapes, owner: Party) -> Ints | None:
        """Draw the noise that a data party adds to its term before opening (`Contribution.added`)."""
        return None

    def subtract_noise(
        self, numbers: Numbers, contribution: Contribution, owner: Party, shapes: Shapes
    ) -> Numbers:
        """Subtract this data party's own noise from the numbers that it receives."""
        return numbers

    # --- noise on inputs (`mpc_spearman.levels.noise`)

    def adds_to_inputs(self, owner: Party) -> bool:
        """Return whether an owner adds noise to its inputs, and none to results."""
        return self.plan.owner(owner.name).noise == "inputs"

    def input_steps(self, scales: Scales, role: Role, shapes: Shapes) -> Ints:
        """Return the standard deviation of noise on inputs with these scales, (vectors,), in integers."""
        deviations = input_deviations(scales, self.plan.privacy.loss, self.plan.privacy.unit)
        return np.ceil(deviations * self._unit(role, shapes)).astype(np.int64)

    def _unit(self, role: Role, shapes: Shapes) -> int:
        """Return the integer that encodes 1 in a data party's vectors, if there is noise on inputs."""
        encoding = self.encoding(shapes)
        assert encoding is not None
        return encoding.source_scale if role is Role.SOURCE else encoding.target_scale

    def input_noise(self, shapes: Shapes) -> InputNoise:
        """Return the noise of all owners on their inputs, in their vectors' unit."""

        def of(owner: Party) -> Floats:
            scales = shapes.scales[owner]
            if not self.adds_to_inputs(owner):
                return np.zeros(len(scales.widths))
            return self.input_steps(scales, owner.role, shapes) / self._unit(owner.role, shapes)

        sources = np.concatenate([of(source) for source in shapes.features])
        return InputNoise(shapes.n, sources, of(shapes.target))

    def add_input_noise(
        self, contribution: Contribution, factors: Factors, stated: Statements, owner: Party, shapes: Shapes
    ) -> Contribution:
        """Return an owner's vectors with its noise, if it adds noise to inputs.

        Factors that C would apply are applied here, because C gets no exact number of this owner.
        """
        if not self.adds_to_inputs(owner):
            return contribution
        grid = self.grid(owner.role, "ranges", shapes.n, shapes.features_of(owner), stated.defined)
        scales = grid.scales(self.stated_scales(stated, owner.role)["ranges"])
        sigma = self.input_steps(scales, owner.role, shapes)
        remaining = np.ones(len(sigma)) if self.owners_add else factors.columns
        return replace(contribution, vectors=with_noise(contribution.vectors, remaining, sigma, shapes.n))

    def check_inputs(self, error: float, n: int) -> None:
        """Raise `BoundError` if noise on inputs does not fit 64 bits; `error` is a bound on rounding."""
        if error > 0.1 / math.sqrt(n):
            names = ", ".join(on_inputs(self.plan))
            raise BoundError(
                f"the noise on inputs (noise: inputs) of {names} does not fit 64 bits with {n:,} rows and so "
                "many columns. Use fewer rows or columns, a larger privacy.loss, or noise: results"
            )

    def multiplied_scales(
        self, contribution: Contribution, owner: Party, shapes: Shapes
    ) -> dict[str, Stated]:
        """Return the statements about vectors with noise on inputs, by field of the message."""
        if owner.role not in self.plan.terms.on_inputs:
            return {}
        vectors = contribution.vectors
        grid = self.grid(owner.role, "multiplied_ranges", shapes.n, shapes.features_of(owner), 0)
        units = [1 / self._unit(owner.role, shapes)] * len(vectors)
        return {"multiplied_ranges": grid.stated(vectors, units)}

    # --- what the coordinator makes of it

    @abstractmethod
    def conclude(self, opened: NDArray[Any], shapes: Shapes) -> Numbers:
        """Return the level's numbers, from the opened integers (paper, step 3 and definition 2).

        `opened` is as the engine returns it. No opened value raises an error: it must not decide whether a
        run goes on.
        """

    def errors(self, shapes: Shapes) -> Floats:
        """Return the standard errors of strengths, (m_B,), from the owners' descriptions of their columns."""
        columns = shapes.features if self.plan.estimator == "paper" else shapes.defined
        counts = [columns[source] for source in shapes.features]
        sources, target = shapes.descriptions.sources, shapes.descriptions.target
        of_target = target.columns(shapes.m_target, shapes.n)
        lengths = [
            source.length * count / max(1, sum(counts)) for source, count in zip(sources, counts, strict=True)
        ]
        rows = [Pairs(shapes.n, source.together, of_target).counted_rows for source in sources]
        return strength_errors(lengths, rows)

    @abstractmethod
    def warnings(self, numbers: Numbers, shapes: Shapes) -> list[str]:
        """Return what a reader of these numbers must know."""

    def weakened(self, shapes: Shapes, names: Sequence[str]) -> list[str]:
        """Return warnings about the target's columns that the choice of rows may have weakened.

        Only at levels of means: there C, which passes names on, sees the target's ranges.
        """
        if not (self.owners_add and self.of_features and names and rows_differ(self.plan)):
            return []
        flags = reading.weakened(shapes.of_target.widths / untied_range(shapes.n), shapes.n)
        target = self.plan.parties.target.name
        return result_warnings.weakened(
            [f"{target}: {name}" for name, flag in zip(names, flags, strict=True) if flag]
        )

    def published(
        self, numbers: Numbers, grant: str, shapes: Shapes, source_rows: slice | None = None
    ) -> Numbers:
        """Return what the coordinator passes on to a party with that grant of ``results``.

        `source_rows` are a source's rows of the matrix, if it is a copy for that source alone. Derived
        numbers are computed from the published ones, so a receiver could derive them itself.
        """
        return numbers

    def of_source(self, numbers: Numbers, source: Party, shapes: Shapes) -> Numbers:
        """Return the published numbers that one source may see: about single columns only its own."""
        return numbers

    # --- what is said beforehand

    def opened_precision(self) -> str:
        """Return in words how precise the opened numbers are."""
        return self.precision[0 if self.noisy else 1] + self._noise_on_inputs()

    def published_precision(self, grant: str) -> str:
        """Return in words how precise the numbers are that a grant passes on."""
        return self.opened_precision()

    def _noise_on_inputs(self) -> str:
        names = on_inputs(self.plan)
        return f", and noise on the inputs of {', '.join(names)}" if names else ""


# --- warnings that follow from columns and counts alone


def impossible(plan: Plan, counts: Ints, shapes: Shapes) -> list[str]:
    """Return a warning if more strengths are missing, or over fewer coefficients, than constants explain."""
    if plan.estimator == "paper":
        return result_warnings.impossible(counts, shapes.m_sources, 0)
    defined_targets = sum(shapes.defined.values()) - shapes.defined_sources
    return result_warnings.impossible(counts, shapes.defined_sources, shapes.m_target - defined_targets)


def column_cautions(plan: Plan, party: str, names: Sequence[str], ties: Sequence[int], n: int) -> list[str]:
    """Return sentences about a party's columns: ties under ``paper``, constants."""
    flags = [term == total(n) for term in ties]
    untied_or_constant = [0 if constant else term for term, constant in zip(ties, flags, strict=True)]
    return [
        *(result_warnings.ties(party, names, untied_or_constant, n) if plan.estimator == "paper" else ()),
        *result_warnings.constants(party, names, flags, plan.estimator),
    ]

"""The contract of a level of ``reveal``: everything that differs between levels.

Each module of this package is one level. Roles and engines know no level: roles ask the plan's level what to
contribute, compute and pass on; engines run the computation that it asks for.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Plan, Reveal
from mpc_spearman.data.ranks import LARGEST, Ranks, total
from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.errors import BoundError
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.tables import Numbers
from mpc_spearman.levels.descriptions import Descriptions
from mpc_spearman.levels.inputs import InputNoise, foresee, with_noise
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.advice import on_inputs
from mpc_spearman.privacy.choice import noise_factor
from mpc_spearman.privacy.scales import (
    Grid,
    Scales,
    Stated,
    column_grid,
    input_deviations,
    sum_grid,
    untied_range,
)
from mpc_spearman.privacy.statements import Factors, Statements, factors, rows_differ, state_columns
from mpc_spearman.statistics import reading, result_warnings
from mpc_spearman.statistics.columns import Floats, Ints, counted_rows
from mpc_spearman.wire.kinds import Row


@dataclass(frozen=True)
class Foreseen:
    """The noise to expect in numbers about an owner's columns, computed from these columns alone."""

    #: What these numbers are, in words.
    numbers: str
    #: The noise's standard deviation, (m,); 0 for a constant column.
    noise: Floats
    #: How much such a number of unrelated columns varies by chance.
    error: float
    #: A warning if there are too few rows for this noise; else empty.
    too_few: str = ""
    #: Whether the numbers are coefficients or their means, which have standard errors and tests.
    of_coefficients: bool = False

    @classmethod
    def of(
        cls, numbers: str, noise: Floats, error: float, less: str, *, of_coefficients: bool = False
    ) -> Foreseen:
        """Return noise with a warning if most of it exceeds chance; `less` says how to get less noise."""
        ratio = float(np.median(noise[noise > 0])) / error if noise.any() else 0.0
        too_few = f"noise will be {ratio:.3g} times the sampling error. {less}" if ratio > 1 else ""
        return cls(numbers, noise, error, too_few, of_coefficients)

    @property
    def ratio(self) -> Floats:
        """Noise in multiples of chance, (m,)."""
        return self.noise / self.error


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
    #: What `behind` counts.
    counts: ClassVar[str] = "source columns that are not constant"
    #: How precise the opened numbers are, with noise and without.
    precision: ClassVar[tuple[str, str]]
    #: The roles that mix their columns by a random rotation before sharing them.
    whitening_roles: ClassVar[tuple[Role, ...]] = ()

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def passes_on_pairs(self) -> bool:
        """Whether somebody is granted a number for each pair of columns, not only means of these."""
        return False

    # --- what data parties contribute, and what is opened

    def check_rows(self, n: int) -> None:
        """Refuse more rows than a run can have; `BoundError`."""
        if n > LARGEST:
            raise BoundError(f"{n:,} rows are more than the {LARGEST:,} whose ranks fit 32 bits")

    def check(self, shapes: Shapes) -> None:
        """Refuse sizes whose result would not be exact (`BoundError`), or that contradict the plan."""
        self.check_rows(shapes.n)

    @abstractmethod
    def computation(self, shapes: Shapes) -> Computation:
        """Return the computation, the same at all parties."""

    @abstractmethod
    def contribution(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, factors: Factors
    ) -> Contribution:
        """Return the vectors that a data party contributes, times its factors."""

    def behind(self, shapes: Shapes) -> int:
        """Return how many `counts` an opened number averages, for ``policy.min_columns``."""
        return shapes.defined_sources

    def admit_own(self, owner: Party, count: int, shapes: Shapes) -> None:  # noqa: B027 - most refuse nothing
        """Raise `BoundError` if one owner's columns alone, `count` of them, make the result impossible."""

    def admit(self, shapes: Shapes) -> None:
        """Raise `BoundError`, once all owners have stated their scales, if the result cannot be computed."""
        self.computation(shapes)

    # --- noise (docs/guarantee.md)

    @property
    def noisy(self) -> bool:
        """Whether the numbers that are passed on have noise."""
        return self.plan.results.precision != "exact"

    def statements(self, ranks: Ranks, role: Role, factors: Floats) -> Statements:
        """Return a data party's statements about its columns, from the ranks of its whole table.

        Each range is stated larger by a factor, (m,), of ``policy.range``.
        """
        return state_columns(self.plan, ranks, factors)

    def sent_scales(self, stated: Statements, role: Role) -> dict[str, Stated]:
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
        stated_scales = column_grid(ranks.n, self.plan.estimator).scales(stated.vectors)
        allowed = replace(stated_scales, widths=stated_scales.widths / of_value)
        of_sum = sum_grid(ranks.n, ranks.m).scales(stated.sum)
        source, target = self.resolutions(shapes)
        return factors(self.plan, ranks, allowed, of_sum, resolution=target, of_sum_resolution=source)

    def left_out(self, ranks: Ranks, role: Role, stated: Statements) -> Floats:
        """Return the share of each column's variance that the computation leaves out, (m,)."""
        return np.zeros(ranks.m)

    def stated_ranges(self, stated: Statements, role: Role, n: int) -> Floats:
        """Return each column's stated range in a run of n rows, in ranges of a column without ties, (m,)."""
        return column_grid(n, self.plan.estimator).scales(stated.vectors).widths / untied_range(n)

    def weakened(self, shapes: Shapes, names: Sequence[str]) -> list[str]:
        """Return warnings about the target's columns that the choice of rows may have weakened.

        Only at levels of means: there C, which passes names on, sees the target's ranges.
        """
        if not (self.owners_add and self.of_features and names and rows_differ(self.plan)):
            return []
        flags = reading.weakened(shapes.of_target.widths / untied_range(shapes.n), shapes.n)
        owner = self.plan.parties.target.name
        return result_warnings.weakened(
            [f"{owner}: {name}" for name, flag in zip(names, flags, strict=True) if flag]
        )

    def resolutions(self, shapes: Shapes) -> tuple[float, float]:
        """Return the units to which elements of a sum of columns, and of single columns, are rounded."""
        return 0.0, 0.0

    # --- noise on inputs (`mpc_spearman.levels.inputs`)

    def adds_to_inputs(self, owner: Party) -> bool:
        """Return whether an owner adds noise to its inputs, and none to results."""
        return self.plan.owner(owner.name).noise == "inputs"

    def role_on_inputs(self, role: Role) -> bool:
        """Return whether a data party of that role adds noise to its inputs."""
        parties = self.plan.parties
        owners = parties.sources if role is Role.SOURCE else (parties.target,)
        return any(owner.noise == "inputs" for owner in owners)

    def unit(self, role: Role, shapes: Shapes) -> int:
        """Return the integer that stands for 1 in vectors of a data party, where noise is on inputs."""
        raise NotImplementedError(f"reveal: {self.name} has no noise on inputs")

    def input_steps(self, scales: Scales, role: Role, shapes: Shapes) -> Ints:
        """Return the standard deviation of noise on inputs with these scales, (vectors,), in integers."""
        deviations = input_deviations(scales, self.plan.privacy.loss, self.plan.privacy.unit)
        return np.ceil(deviations * self.unit(role, shapes)).astype(np.int64)

    def input_noise(self, shapes: Shapes) -> InputNoise:
        """Return the noise of all owners on their inputs, in their vectors' unit."""

        def of(owner: Party) -> Floats:
            scales, unit = shapes.scales[owner], self.unit(owner.role, shapes)
            steps = self.input_steps(scales, owner.role, shapes) / unit
            return steps if self.adds_to_inputs(owner) else np.zeros(len(scales.widths))

        sources = np.concatenate([of(source) for source in shapes.features])
        return InputNoise(shapes.n, sources, of(shapes.target))

    def hide_inputs(
        self, contribution: Contribution, factors: Factors, stated: Statements, me: Party, shapes: Shapes
    ) -> Contribution:
        """Return this owner's vectors with its noise, if it adds noise to inputs.

        Factors that C would apply are applied here, because C gets no exact number of this owner.
        """
        if not self.adds_to_inputs(me):
            return contribution
        features = shapes.features_of(me)
        grid = self.grid(me.role, "ranges", shapes.n, features, stated.defined)
        scales = grid.scales(self.sent_scales(stated, me.role)["ranges"])
        sigma = self.input_steps(scales, me.role, shapes)
        left = np.ones(len(sigma)) if self.owners_add else factors.columns
        return replace(contribution, vectors=with_noise(contribution.vectors, left, sigma, shapes.n))

    def check_inputs(self, error: float, n: int) -> None:
        """Raise `BoundError` if noise on inputs does not fit 64 bits; `error` is a bound on rounding."""
        if error > 0.1 / math.sqrt(n):
            names = ", ".join(on_inputs(self.plan))
            raise BoundError(
                f"the noise on inputs (noise: inputs) of {names} does not fit 64 bits with {n:,} rows and so "
                "many columns. Use fewer rows or columns, a larger privacy.loss, or noise: results"
            )

    def multiplied_scales(self, contribution: Contribution, me: Party, shapes: Shapes) -> dict[str, Stated]:
        """Return the statements about vectors with noise on inputs, by field of the message."""
        return {}

    # --- noise on results

    def own_noise(self, shapes: Shapes, me: Party) -> Ints | None:
        """Draw the noise that a data party adds to its term before opening (`Contribution.added`)."""
        return None

    def weights(self, contribution: Contribution, role: Role, shapes: Shapes) -> dict[str, Floats]:
        """Return the numbers about a party's vectors that tests without noise need, by field."""
        return {}

    def foreseen(self, stated: Statements, role: Role, shapes: Shapes) -> Foreseen:
        """Return the noise to expect in the most detailed numbers about an owner's columns that C passes on.

        It assumes that the other side's columns have no ties, and the largest diameter: their number.
        """
        others = shapes.m_target if role is Role.SOURCE else shapes.m_sources
        n, of_values, lengths = shapes.n, self.plan.privacy.unit == "value", (1.0, 1.0)
        own_scales, error = column_grid(n, self.plan.estimator).scales(stated.vectors), 1 / math.sqrt(n - 1)
        moving, other_scales = own_scales.widths > 0, Scales(np.array([untied_range(n)]), others)
        numbers, less = "strengths (means of coefficients)", "Use fewer columns, or more rows"
        if self.passes_on_pairs:
            numbers = "coefficients"
            less = "Grant strengths, use fewer columns, or agree on privacy.unit: value"
        elif role is Role.SOURCE:
            count = max(1, stated.defined)
            own_scales = Scales(sum_grid(n, len(own_scales.widths)).scales(stated.sum).widths / count)
            lengths = (max(stated.length, 1 / n), 1.0)
            error *= lengths[0]
        else:  # of a mean of columns that are independent
            width = min(untied_range(n), 2 * math.sqrt(2 * math.log(n) / (n * others)))
            other_scales, lengths = Scales(np.array([width])), (1.0, 1 / math.sqrt(others))
            error *= lengths[1]
        sides = (Role.SOURCE, Role.TARGET) if role is Role.SOURCE else (Role.TARGET, Role.SOURCE)
        adding = (self.role_on_inputs(sides[0]), self.role_on_inputs(sides[1]))
        known = (self.plan.privacy.loss, n, others if of_values else None)
        k, spread = self.plan.results.strongest, own_scales.spread * other_scales.spread
        items = len(moving) * others if self.passes_on_pairs else shapes.m_target
        noise = np.where(moving, foresee(own_scales, other_scales, lengths, adding, *known), 0.0)
        noise *= noise_factor(k, items, spread)
        if any(adding):
            less = "Use many more rows, or noise: results"
        return Foreseen.of(numbers, noise, error, less, of_coefficients=True)

    def without_own(self, numbers: Numbers, contribution: Contribution, me: Party, shapes: Shapes) -> Numbers:
        """Return received numbers without this party's own noise."""
        return numbers

    # --- what the coordinator makes of it

    @abstractmethod
    def conclude(self, opened: NDArray[Any], descriptions: Descriptions, shapes: Shapes) -> Numbers:
        """Return the level's numbers, from the opened integers (paper, step 3 and definition 2).

        `opened` is as the engine returns it; `descriptions` has the fields of this level. No opened value
        raises an error: it must not decide whether a run goes on.
        """

    def errors(self, descriptions: Descriptions, shapes: Shapes) -> Floats:
        """Return the standard errors of strengths, (m_B,), from the owners' descriptions of their columns."""
        paper = self.plan.estimator == "paper"
        columns = shapes.features if paper else {source: shapes.defined[source] for source in shapes.features}
        of_all = max(1, sum(columns.values()))
        lengths = [
            source.length * count / of_all
            for source, count in zip(descriptions.sources, columns.values(), strict=True)
        ]
        target = descriptions.target.each(shapes.m_target)
        rows = [counted_rows(shapes.n, source.together, target) for source in descriptions.sources]
        return reading.strength_errors(lengths, rows)

    @abstractmethod
    def warnings(self, numbers: Numbers, descriptions: Descriptions, shapes: Shapes) -> list[str]:
        """Return what a reader of these numbers must know."""

    def published(
        self,
        numbers: Numbers,
        descriptions: Descriptions,
        grant: str,
        shapes: Shapes,
        own_rows: slice | None = None,
    ) -> Numbers:
        """Return what the coordinator passes on to a party with that grant of ``results``.

        `own_rows` are a source's rows of the matrix, if it is a copy for that source alone.

        Derived numbers are computed from the published ones, so a receiver could derive them itself.
        """
        return numbers

    def of_source(self, numbers: Numbers, source: Party, shapes: Shapes) -> Numbers:
        """Return the published numbers that one source may see: about single columns only its own."""
        return numbers

    # --- what is said beforehand

    def opened_precisely(self) -> str:
        """Return in words how precise the opened numbers are."""
        return self.precision[0 if self.noisy else 1] + self._with_inputs()

    def published_precisely(self, grant: str) -> str:
        """Return in words how precise the numbers are that a grant passes on."""
        if not self.noisy:
            return "exact, without noise"
        of, k = grant, self.plan.results.strongest
        if k is not None:
            what = "pairs" if grant == "coefficients" else "features"
            of = f"the {k} strongest {what} (all, if there are no more), chosen with noise,"
        noise = f"the coordinator's noise{self._with_inputs()}"
        return f"{of} with {noise}, whose standard deviation each receiver gets"

    def _with_inputs(self) -> str:
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

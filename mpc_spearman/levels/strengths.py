"""``strengths``: the coordinator opens one integer per target column, a sum over all sources' columns.

Each source contributes one vector, the sum of its columns scaled to one length, and the target one for each
of its columns (:mod:`mpc_spearman.levels.encoding`). Nobody needs exact sums. So before anything is opened
every owner adds enough noise to its own term to hide its rows from everyone who does not know its draw.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.engines.computation import Computation, Contribution, Operation
from mpc_spearman.findings import strengths as shown
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels import noise, rows
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.level import Level, impossible
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy import scales
from mpc_spearman.privacy.gaussian import REACH, discrete_gaussian
from mpc_spearman.privacy.scales import Grid, Stated, add_scales, deviations, most_noise
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.statistics import estimators, result_warnings
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.wire.kinds import Field, Kind, Row

#: What source and target send each other if a strength is one product.
MASKED = rows.masked("one sum of scaled ranks", 1, "scaled ranks")
#: What owners state of their vectors: everyone needs it, to draw noise or to know how much there is.
SCALED = (
    *rows.scales({"ranges": (1,)}, Role.SOURCE, Role.COORDINATOR, Role.TARGET, Role.SOURCE),
    *rows.scales({"ranges": ("m_target",), "diameter": (1,)}, Role.TARGET, Role.COORDINATOR, Role.SOURCE),
)
_ERRORS = (
    "the standard error of each strength, which shows how strongly the sources' columns correlate with each "
    "other"
)
_PASSED_ON = (
    Field("strengths", "float64", ("m_target",), "the strengths, to the plan's precision"),
    Field("strengths_noise", "float64", ("m_target",), rows.NOISE, precision=("statistical",)),
    Field("counts", "int64", ("m_target",), "how many coefficients each strength averages"),
    Field("errors", "float64", ("m_target",), _ERRORS),
)


class Strengths(Level):
    """C opens V_q = Σ_s ⟨v_s, y_q⟩ of every target column, and computes strengths and the ranking."""

    name: ClassVar[Reveal] = "strengths"
    over_all_sources = True
    findings: ClassVar[type[Findings]] = shown.Strengths
    opens = "the strengths with the noise of all owners, and so their ranking"
    sent: ClassVar[tuple[Row, ...]] = (
        rows.CONSTANT_AND_GAPS,
        Row(Kind.DESCRIPTION, TARGET, COORDINATOR, rows.adjusted(Role.TARGET, "m_target")),
        Row(Kind.DESCRIPTION, SOURCE, COORDINATOR, (rows.LENGTH, rows.MOST_GAPS)),
        Row(Kind.DESCRIPTION, SOURCE, COORDINATOR, rows.adjusted(Role.SOURCE, together=True)),
        *SCALED,
        *MASKED,
        *rows.split_noise(),
        *rows.opened(opens, (1, "m_target")),
    )
    granted = tuple(Row(Kind.RESULT, COORDINATOR, receiver, _PASSED_ON) for receiver in (TARGET, SOURCE))
    owners_add: ClassVar[bool] = True
    precision = ("with the noise of every owner", "exact to a thousandth of a standard error")
    operation: ClassVar[Operation] = "inner_products"
    #: How many times all owners' noise the sums have to hold.
    noise_multiples: ClassVar[int] = 1

    # --- what data parties contribute, and what is opened

    def check(self, shapes: Shapes) -> None:
        super().check(shapes)
        encoding = self.encoding(shapes)
        if encoding.source_noise or encoding.target_noise:
            self.check_inputs(replace(encoding, averaged=encoding.columns).error, shapes.n)

    def encoding(self, shapes: Shapes) -> Encoding:
        """Return the fixed-point encoding; how many columns it averages is known once all stated it."""
        loss, on_inputs = self.plan.privacy.loss, self.plan.terms.on_inputs
        source = noise.element_noise(1, loss) if Role.SOURCE in on_inputs else 0.0
        target = noise.element_noise(shapes.m_target, loss) if Role.TARGET in on_inputs else 0.0
        result_noise = 0.0
        if self.noisy:
            result_noise = self.noise_multiples * most_noise(shapes.m_target, len(shapes.features) + 1, loss)
            # Noise on results covers the multiplied vectors, whose ranges are up to twice the noise wider.
            result_noise *= (1 + 2 * source) * (1 + 2 * target)
            result_noise += noise.product_noise(source, target, shapes.n)
        return Encoding.strengths(
            shapes.n,
            columns=shapes.m_sources,
            sources=len(shapes.features),
            estimator=self.plan.estimator,
            defined=shapes.defined_sources,
            result_noise=result_noise,
            source_noise=source,
            target_noise=target,
        )

    def computation(self, shapes: Shapes) -> Computation:
        encoding = self.encoding(shapes)
        noisy = tuple(source for source in shapes.features if self.noisy and not self.adds_to_inputs(source))
        return Computation(
            self.operation,
            encoding.rows,
            dict.fromkeys(shapes.features, 1),
            shapes.m_target,
            encoding.bounds,
            summed=True,
            noisy_sources=noisy,
        )

    def contribution(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, factors: Factors
    ) -> Contribution:
        """Return a source's one vector, or one for each of the target's columns, (1 or m_B, rows)."""
        encoding = self.encoding(shapes)
        if role is Role.SOURCE:
            return Contribution(encoding.source_vector(ranks, factors.sum))
        return Contribution(encoding.column_vectors(ranks, factors.columns))

    # --- what owners state, and the noise that follows

    def stated_scales(self, stated: Statements, role: Role) -> dict[str, Stated]:
        """Return the scale of the sum of a source's columns, or the scales of the target's columns."""
        return {"ranges": stated.sum if role is Role.SOURCE else stated.vectors}

    def grid(self, role: Role, field: str, n: int, features: int, defined: int) -> Grid:
        """Return the grid for a source's sum of columns, or for the target's columns."""
        loss = self.plan.privacy.loss
        if role is Role.SOURCE:
            exact, most = scales.sum_grid(n, features), features * noise.element_noise(1, loss)
        else:
            exact = scales.column_grid(n, self.plan.estimator)
            most = noise.element_noise(features, loss)
        return noise.grid_on_inputs(exact, most) if field.startswith("multiplied") else exact

    def deviations(self, shapes: Shapes) -> dict[Party, Floats]:
        """Return the standard deviation of the noise that each owner adds to K times a strength, (m_B,).

        Owners that add noise to inputs are not in it, and a source's noise need not cover their vectors.
        """
        adding = [source for source in shapes.features if not self.adds_to_inputs(source)]
        target, covered = shapes.target, dict.fromkeys(adding, adding)
        if not self.adds_to_inputs(target):
            covered[target] = list(shapes.features)
        of_target, loss = shapes.of_multiplied(target), self.plan.privacy.loss
        return {
            owner: deviations(add_scales(map(shapes.of_multiplied, sources)), of_target, loss).ravel()
            for owner, sources in covered.items()
        }

    def _steps(self, shapes: Shapes) -> dict[Party, Ints]:
        """Return the standard deviations in units of the opened integers, rounded up."""
        encoding = self.encoding(shapes)
        unit = encoding.source_scale * encoding.target_scale
        return {owner: np.ceil(s * unit).astype(np.int64) for owner, s in self.deviations(shapes).items()}

    def _noise(self, shapes: Shapes, errors: Floats) -> Floats:
        """Return the standard deviation of all noise in K times a strength, (m_B,).

        `errors` are the standard errors of strengths: they show the length of the sources' mean.
        """
        encoding = self.encoding(shapes)
        length = errors * math.sqrt(shapes.n - 1) * encoding.averaged
        squares = np.square(self.input_noise(shapes).of_sums(length))
        for steps in self._steps(shapes).values():
            squares = squares + np.square(steps / encoding.source_scale / encoding.target_scale)
        return np.asarray(np.sqrt(squares))

    def _most(self, shapes: Shapes) -> Floats:
        """Return a bound on K times a strength, with all noise, for the stated ranges, (m_B,).

        By Grüss's inequality |⟨a, b⟩| ≤ n·R_a·R_b/4 for vectors of mean 0. Elements that ``paper`` appends
        add at most the number of columns.
        """
        encoding = self.encoding(shapes)
        exact = shapes.n * add_scales(shapes.of_sources).widths[0] * shapes.of_target.widths / 4
        appended = encoding.columns if self.plan.estimator == "paper" else 0
        steps = sum(self._steps(shapes).values(), np.zeros(shapes.m_target))
        drawn = REACH * steps / encoding.source_scale / encoding.target_scale
        on_inputs = REACH * self.input_noise(shapes).of_sums(encoding.columns)
        return np.asarray(exact + appended + drawn + on_inputs + max(1, encoding.averaged) * encoding.error)

    def draw_noise(self, shapes: Shapes, owner: Party) -> Ints | None:
        if not self.noisy or self.adds_to_inputs(owner):
            return None
        return discrete_gaussian(self._steps(shapes)[owner])[None]

    def subtract_noise(
        self, numbers: Numbers, contribution: Contribution, owner: Party, shapes: Shapes
    ) -> Numbers:
        """Return strengths and positions without the receiver's noise; the noise of other owners stays."""
        if contribution.added is None or "strengths" not in numbers:
            return numbers
        unit, s = self.encoding(shapes).unit, numbers["strengths_noise"]
        mu = numbers["strengths"] - contribution.added[0] / unit
        s = np.sqrt(np.maximum(np.square(s) - np.square(self._steps(shapes)[owner] / unit), 0))
        mu = noise.in_digits(mu, s, self._error(shapes))
        positions = estimators.positions(mu, self.plan.order)
        return {**numbers, "strengths": mu, "strengths_noise": s, "positions": positions}

    def _error(self, shapes: Shapes) -> float:
        """Return the standard error of a mean over unrelated columns."""
        return 1 / math.sqrt((shapes.n - 1) * max(1, self.encoding(shapes).averaged))

    # --- the coordinator's numbers

    def conclude(self, opened: NDArray[Any], shapes: Shapes) -> Numbers:
        """Compute strengths, with the noise of all owners, from one sum per target column."""
        encoding, errors, most = self.encoding(shapes), self.errors(shapes), None
        constant = np.array(shapes.descriptions.target.constant, dtype=bool)
        if self.noisy:
            constant |= shapes.of_target.widths == 0  # they have no noise
            most = self._most(shapes)
        mu, counts = encoding.decode(opened[0].tolist(), constant.tolist(), most)
        numbers: dict[str, Any] = {"counts": counts, "errors": errors}
        if self.noisy:
            s = self._noise(shapes, errors) / max(1, encoding.averaged)
            mu = noise.in_digits(mu, s, self._error(shapes))
            numbers["strengths_noise"] = s
        return {**numbers, "strengths": mu, "positions": estimators.positions(mu, self.plan.order)}

    def warnings(self, numbers: Numbers, shapes: Shapes) -> list[str]:
        plan, target, encoding = self.plan, shapes.descriptions.target, self.encoding(shapes)
        return [
            *([result_warnings.EQ2_UNSEEN] if plan.estimator == "paper" else ()),
            *result_warnings.constants(
                plan.parties.target.name, target.names, target.constant, plan.estimator
            ),
            *impossible(plan, numbers["counts"], shapes),
            *result_warnings.k_note(encoding.averaged, encoding.columns),
        ]

    def published_precision(self, grant: str) -> str:
        """Return in words whose noise remains: an owner subtracts its own from strengths."""
        if not self.noisy:
            return "exact, without noise"
        if grant == self.name:
            return f"strengths with the noise of every other owner{self._noise_on_inputs()}"
        return f"{grant} of strengths with the noise of every owner{self._noise_on_inputs()}"

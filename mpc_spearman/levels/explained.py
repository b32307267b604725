"""``explained``: how much of each target column all columns of one source explain together.

The source's columns, whitened and rotated (:mod:`mpc_spearman.levels.whitening`), replace ranks. The
coordinator opens Z, k products for each target column, with the noise of source and target; R²_q = Σ z_q²
less what noise adds. Besides R², Z shows how much of every two target columns the same part of the source's
columns explains. A source shares as many vectors as it has columns: k directions, then zeros. So nobody has
to wait for k. All whitened vectors of an owner have one range R (docs/guarantee.md has the proof).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.data.adjusted import Adjusted
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.findings import explained as shown
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels import rows, whitening
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.expected_noise import ExpectedNoise
from mpc_spearman.levels.level import Level
from mpc_spearman.levels.noise import in_digits
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy import scales
from mpc_spearman.privacy.gaussian import REACH, discrete_gaussian
from mpc_spearman.privacy.scales import (
    Grid,
    Scales,
    Stated,
    deviations,
    most_noise,
    stack_scales,
    untied_range,
)
from mpc_spearman.privacy.statements import Factors, Statements, rows_differ, stated_unequal
from mpc_spearman.statistics import explained, result_warnings
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.wire.kinds import Field, Kind, Row

_FINE = 1 << 24  # what 1 is in the integers from which distances are stated
NOISE_IN_PRODUCTS = "the standard deviation of the noise in the products"
_R2 = (
    "the share of each target feature's variance of ranks that a source's columns explain (R²), with the "
    "noise of both"
)


class Explained(Level):
    """C opens Z = X̃·Ŷᵀ of every source, with noise, and computes R² of each target column."""

    name: ClassVar[Reveal] = "explained"
    findings: ClassVar[type[Findings]] = shown.Explained
    #: Not the sources: they state how many directions their whitened columns have.
    states_defined: ClassVar[tuple[Role, ...]] = TARGET
    opens = (
        "how much of each target column a source's columns explain together (R²), and for every two target "
        "columns how much of both the same part of them explains; a secret rotation mixes the source's "
        "columns, so that no single column can be read"
    )
    sent: ClassVar[tuple[Row, ...]] = (
        rows.CONSTANT_AND_GAPS,
        Row(Kind.DESCRIPTION, TARGET, COORDINATOR, (Field("nominal", "texts", ("m_target",), rows.NOMINAL),)),
        Row(Kind.DESCRIPTION, TARGET, COORDINATOR, rows.adjusted(Role.TARGET, "m_target")),
        Row(Kind.DESCRIPTION, SOURCE, COORDINATOR, rows.adjusted(Role.SOURCE, together=True)),
        *rows.whitened(Role.SOURCE, *Role),
        *rows.scales(
            {"ranges": ("m_target",), "diameter": (1,)},
            Role.TARGET,
            Role.COORDINATOR,
            Role.SOURCE,
            on_inputs=False,
        ),
        rows.kurtosis(
            Role.TARGET, "m_target", "each feature, which shows, with two values, how many rows have each"
        ),
        *rows.masked(rows.WHITENED, "m_source", "rounded scaled ranks"),
        *rows.split_noise(),
        *rows.opened(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        *rows.of_each_source(
            Field("explained", "float64", ("sources", "m_target"), _R2),
            Field(
                "explained_noise",
                "float64",
                ("sources", "m_target"),
                f"{NOISE_IN_PRODUCTS} whose squares add up to R²",
            ),
            Field(
                "kept", "int64", ("sources",), "k, how many independent directions a source's columns have"
            ),
        ),
        Row(
            Kind.RESULT,
            COORDINATOR,
            SOURCE,
            (Field("target_nominal", "texts", ("m_target",), f"{rows.NOMINAL}, of the target"),),
        ),
    )
    owners_add: ClassVar[bool] = True
    counts: ClassVar[str] = "directions of a source"
    precision = ("with the noise of the source and of the target", "exact, without noise")
    #: The names, in sentences, of what tests are about, and of what is passed on.
    numbers: ClassVar[str] = "R²"
    published_name: ClassVar[str] = "R²"
    whitening_roles: ClassVar[tuple[Role, ...]] = SOURCE

    # --- what data parties contribute, and what is opened

    def encoding(self, shapes: Shapes) -> Encoding:
        """Return how both sides' vectors are scaled, with room for the noise of a source and the target."""
        if not self.noisy:
            return Encoding.coefficients(shapes.n)
        most = max(shapes.features.values())
        least = min(1.0, math.sqrt(2) * whitening.largest(most, shapes.n))  # of R, which is √2 at most
        columns = len(shapes.features) * shapes.m_target
        return Encoding.coefficients(shapes.n, least * most_noise(columns, 2, self.plan.privacy.loss))

    def computation(self, shapes: Shapes) -> Computation:
        """Ask for inner products of each pair of vectors, of which only n and m are known."""
        encoding = self.encoding(shapes)
        largest = whitening.largest(max(shapes.features.values()), shapes.n, exact=not self.noisy)
        bounds = replace(encoding.bounds, value=math.ceil(encoding.source_scale * largest) + 1)
        noisy = tuple(shapes.features) if self.noisy else ()
        return Computation(
            "inner_products", shapes.n, shapes.features, shapes.m_target, noisy_sources=noisy, bounds=bounds
        )

    def contribution(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, factors: Factors
    ) -> Contribution:
        """Return whitened and rotated columns, or the target's own, (m, n)."""
        encoding = self.encoding(shapes)
        if role in self.whitening_roles:
            scale, factor = encoding.source_scale, float(factors.columns[0])
            vectors = whitening.whitened(ranks, scale, stated.defined, factor, exact=not self.noisy)
            return Contribution(vectors)
        return Contribution(encoding.column_vectors(ranks, factors.columns))

    def left_out(self, ranks: Ranks, role: Role, stated: Statements) -> Floats:
        if role not in self.whitening_roles or stated.defined == ranks.m:
            return super().left_out(ranks, role, stated)
        weights = whitening.directions(ranks, stated.defined, exact=not self.noisy)
        return whitening.left_out(ranks, weights)

    def _whitening_owners(self, shapes: Shapes) -> list[Party]:
        """Return the data parties whose columns are whitened, once these have stated their directions."""
        return [owner for owner in shapes.defined if owner.role in self.whitening_roles]

    def averaged_columns(self, shapes: Shapes) -> int:
        """Return the fewest directions of any source; R² on one direction is a squared coefficient."""
        return min(shapes.defined[source] for source in shapes.features)

    def check_columns_of(self, owner: Party, count: int, shapes: Shapes) -> None:
        """Refuse an owner whose columns are whitened and have no direction, or too many for the rows."""
        if owner.role not in self.whitening_roles:
            return
        if not count:
            columns = shapes.features_of(owner)
            raise BoundError(
                f"reveal: {self.name} can use none of the {columns} columns of {owner.name}: they are "
                "constant, or differ in so few rows that noise could not hide these. Use other columns"
            )
        if shapes.n < explained.ROWS_EACH * count:
            raise BoundError(
                f"reveal: {self.name} needs {explained.ROWS_EACH} rows for each direction of a party's "
                f"columns; {owner.name} has {count} and there are {shapes.n:,} rows. Use fewer columns, or "
                "more rows"
            )

    def check_statements(self, shapes: Shapes) -> None:
        """Refuse scales that contradict k, an owner without directions, or too few rows for k."""
        whitening_owners = self._whitening_owners(shapes)
        for owner, stated in shapes.scales.items():
            moving = int((stated.widths > 0).sum())
            if moving != (min(shapes.defined[owner], 1) if owner in whitening_owners else shapes.m_target):
                raise ProtocolViolation(
                    f"{owner} states ranges above 0 for {moving} vectors, which contradicts its columns: "
                    "the noise of others would be too small"
                )
        for owner, count in shapes.defined.items():
            self.check_columns_of(owner, count, shapes)

    # --- what owners state, and the noise that follows

    def statements(self, ranks: Ranks, role: Role, factors: Floats) -> Statements:
        """Return how many directions whitened columns have, and the farthest distance of two rows in these.

        A constant column of the target states an untied column's range, so no varying column can go without
        noise.
        """
        stated = super().statements(ranks, role, factors)
        if role not in self.whitening_roles:
            return stated.constants_hidden
        weights = whitening.directions(ranks, exact=not self.noisy)
        k = len(weights)
        if isinstance(ranks, Adjusted):
            unequal = ranks.unequal(whitening.leverages_in(ranks, weights))
            stated = replace(stated, unequal_together=float(stated_unequal(self.plan, np.array(unequal))))
        step = scales.NOTHING
        if k and self.noisy:
            distance = whitening.distance(whitening.whitened(ranks, _FINE), _FINE) * float(factors.max())
            step = whitening.distances(k, ranks.n).step(distance) + rows_differ(self.plan)
        return replace(stated, defined=k, vectors=Stated((step,)))

    def factors(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, of_value: Floats
    ) -> Factors:
        """Return one factor for all whitened columns, which brings rows as near as stated."""
        if role not in self.whitening_roles:
            return super().factors(ranks, role, shapes, stated, of_value)
        if not rows_differ(self.plan):
            return Factors(np.ones(ranks.m))
        allowed = self.grid(role, "ranges", ranks.n, ranks.m, stated.defined).scales(stated.vectors).widths[0]
        distance = whitening.distance(whitening.whitened(ranks, _FINE, stated.defined), _FINE)
        return Factors(np.full(ranks.m, min(1.0, allowed / distance) if distance else 1.0))

    def grid(self, role: Role, field: str, n: int, features: int, defined: int) -> Grid:
        """Return the grid for distances of whitened rows, or for the target's columns."""
        if role in self.whitening_roles:
            return whitening.distances(max(1, defined), n)
        return scales.column_grid(n, "tie_corrected")

    def statements_for_tests(
        self, contribution: Contribution, role: Role, shapes: Shapes
    ) -> dict[str, Floats]:
        """Return the kurtosis of whitened columns together (Mardia's), or of each of the target's."""
        scale, vectors = self.encoding(shapes).source_scale, contribution.vectors
        groups = [vectors] if role in self.whitening_roles else list(vectors[:, None])
        sums = [float(np.square(whitening.leverages(group, scale)).sum()) for group in groups]
        return {"kurtosis": shapes.n * np.array(sums)}

    def deviations(self, shapes: Shapes) -> Floats:
        """Return s of each owner's noise in each of the k products of a source, (sources, m_B or 1)."""
        return deviations(stack_scales(shapes.of_sources), shapes.of_target, self.plan.privacy.loss)

    def _steps(self, shapes: Shapes) -> Ints:
        """Return the standard deviations in units of the opened integers, rounded up."""
        return np.ceil(self.deviations(shapes) * self.encoding(shapes).unit).astype(np.int64)

    def draw_noise(self, shapes: Shapes, owner: Party) -> Ints | None:
        """Draw this owner's noise, (m_A, m_B), of equal size in all directions; none in vectors of zeros."""
        if not self.noisy:
            return None
        sigma = np.zeros((shapes.m_sources, shapes.m_target), dtype=np.int64)
        for source, steps in zip(shapes.features, self._steps(shapes), strict=True):
            sigma[shapes.rows(source)][: shapes.defined[source], : self._target_vectors(shapes)] = steps
        return discrete_gaussian(sigma[shapes.rows(owner)] if owner in shapes.features else sigma)

    def _target_vectors(self, shapes: Shapes) -> int:
        """Return how many of the target's vectors can carry noise: directions, or all its columns."""
        directions = [
            shapes.defined[owner] for owner in self._whitening_owners(shapes) if owner.role is Role.TARGET
        ]
        return directions[0] if directions else shapes.m_target

    def _in_one_test(self, shapes: Shapes) -> int:
        """Return how many of the target's vectors one test covers."""
        return self._target_vectors(shapes) if Role.TARGET in self.whitening_roles else 1

    def expected_noise(self, stated: Statements, role: Role, shapes: Shapes) -> ExpectedNoise:
        """Return how much noise and chance will move R² of (or with) each column, or Pillai's trace.

        It uses all parties' scales or, if `shapes` has none, this party's.
        """
        if shapes.scales:
            s = self.deviations(shapes).max(axis=0)
            s = s if role is Role.TARGET else np.median(s)[None]
            products = max(shapes.defined[source] for source in shapes.features) * self._in_one_test(shapes)
        else:
            n, features = shapes.n, len(stated.constant)
            columns = shapes.m_target if role is Role.SOURCE else max(shapes.features.values())
            width = 2 * math.sqrt(min(0.5, 3 * columns / n))
            if (Role.SOURCE if role is Role.TARGET else Role.TARGET) not in self.whitening_roles:
                width, columns = untied_range(n) * math.sqrt(columns), 1
            stated_scales = self.grid(role, "ranges", n, features, stated.defined).scales(stated.vectors)
            s = deviations(Scales(np.array([width])), stated_scales, self.plan.privacy.loss)[0]
            s = s * math.sqrt(len(shapes.features))
            products = columns * (stated.defined if role in self.whitening_roles else 1)
        noise = np.broadcast_to(math.sqrt(2 * products) * 2 * np.square(s), len(stated.constant))
        error = math.sqrt(2 * products) / shapes.n
        most = float(np.median(noise)) + error
        too_few = (
            f"with noise {self.numbers} of unrelated columns will vary by {most:.2g}. Use fewer "
            "columns, or more rows"
        )
        return ExpectedNoise(self.numbers, noise, error, too_few if most > explained.SPREAD else "")

    # --- the coordinator's numbers

    def conclude(self, opened: NDArray[Any], shapes: Shapes) -> Numbers:
        """Compute R² from Z; NaN for a constant target column, and where no columns can give Z."""
        s, k = self._noise(shapes), self._directions(shapes)[:, None]
        r2 = np.array([np.square(z).sum(axis=0) for z in self._products(opened, shapes)])
        r2 = r2.astype(np.float64) - k * np.square(s)
        r2[:, list(shapes.descriptions.target.constant)] = math.nan
        if not self.noisy:
            r2 = np.clip(r2, 0.0, 1.0)
        return {
            "explained": in_digits(r2, np.sqrt(2 * k) * np.square(s), np.sqrt(2 * k) / shapes.n),
            "explained_noise": s,
            "kept": k[:, 0],
            **self._for_tests(shapes),
        }

    def _directions(self, shapes: Shapes) -> Ints:
        """Return k of each source, (sources,)."""
        return np.array([shapes.defined[source] for source in shapes.features])

    def _noise(self, shapes: Shapes) -> Floats:
        """Return the standard deviation of both owners' noise in each product, (sources, target vectors)."""
        shape = len(shapes.features), self._target_vectors(shapes)
        if not self.noisy:
            return np.zeros(shape)
        return np.broadcast_to(self._steps(shapes) * (math.sqrt(2) / self.encoding(shapes).unit), shape)

    def _products(self, opened: NDArray[Any], shapes: Shapes) -> Iterator[Floats]:
        """Return Z of each source, (k, target vectors); NaN beyond what the stated ranges allow.

        By Grüss's inequality |⟨a, b⟩| ≤ n·R_a·R_b/4 of vectors of mean 0, and each owner adds noise.
        """
        encoding, count = self.encoding(shapes), self._target_vectors(shapes)
        unit, s = encoding.unit, self._noise(shapes)
        for source, k, noise in zip(shapes.features, self._directions(shapes), s, strict=True):
            bounds = [encoding.result_bound] * count
            if self.noisy:
                ranges = np.broadcast_to(shapes.of_target.widths, count)
                most = shapes.n * shapes.scales[source].widths[0] * ranges / 4 + math.sqrt(2) * REACH * noise
                bounds = [min(bounds[0], math.ceil((z + encoding.error) * unit)) for z in most.tolist()]
            z = opened[shapes.rows(source)][:k, :count].tolist()
            with_bounds = (zip(map(int, row), bounds, strict=True) for row in z)
            yield np.array([[v / unit if abs(v) <= b else math.nan for v, b in row] for row in with_bounds])

    def _for_tests(self, shapes: Shapes) -> Numbers:
        """Return what decides how tests count rows and noise, each (sources, tests).

        The share of rows in which both sides may lack values, how many powers of covariates a side is
        adjusted for, the most of both, how much variances of residuals change with covariates at both sides
        and, without noise, the dispersion that single rows cause.
        """
        sources, target = shapes.descriptions.sources, shapes.descriptions.target
        gaps = np.minimum.outer([source.most_gaps for source in sources], target.gaps or (target.most_gaps,))
        tests = gaps.shape[1]
        together = [source.unequal_together for source in sources]
        numbers: dict[str, Any] = {
            "gaps": gaps,
            "fitted": np.maximum.outer([source.fitted for source in sources], [target.fitted] * tests),
            "unequal": np.outer(together, target.unequal or (target.unequal_together,) * tests),
        }
        if not self.noisy:
            of_sources = np.array([shapes.kurtosis[source] for source in shapes.features])
            (of_target,) = (
                shapes.kurtosis[owner] for owner in shapes.kurtosis if owner not in shapes.features
            )
            k, in_one = self._directions(shapes)[:, None], self._in_one_test(shapes)
            numbers["dispersion"] = explained.dispersion(of_sources, k, of_target, in_one, shapes.n)
        return numbers

    def of_source(self, numbers: Numbers, source: Party, shapes: Shapes) -> Numbers:
        row = [list(shapes.features).index(source)]
        of_each = {field.name for field in self.granted[0].fields if field.shape[0] == "sources"}
        return {**numbers, **{name: numbers[name][row] for name in of_each & numbers.keys()}}

    # --- what is said

    def warnings(self, numbers: Numbers, shapes: Shapes) -> list[str]:
        target, undefined = shapes.descriptions.target, np.isnan(numbers["explained"]).any(axis=0)
        owner = self.plan.parties.target.name
        return [
            *self._fewer_directions(shapes),
            *result_warnings.constants(owner, target.names, target.constant, "tie_corrected"),
            *result_warnings.impossible(np.where(undefined, 0, 1), 1, int(np.sum(target.constant))),
        ]

    def _fewer_directions(self, shapes: Shapes) -> list[str]:
        """Return a warning about the parties that have fewer directions than columns."""
        directions = {
            owner: (shapes.defined[owner], shapes.features_of(owner))
            for owner in self._whitening_owners(shapes)
        }
        return result_warnings.fewer_directions(
            [f"{owner.name}: {k} of {columns}" for owner, (k, columns) in directions.items() if k < columns]
        )

    def published_precision(self, grant: str) -> str:
        return f"{self.published_name} {self.opened_precision()}"

"""``explained``: how much of each target column all columns of one source explain together.

The source's columns, whitened and turned (:mod:`mpc_spearman.levels.whitening`), take the place of ranks. The
coordinator opens Z, k products for each target column, with the noise of the source and of the target, and
R²_q = Σ z_q² less what noise adds. What Z shows beside R² is how much of two target columns is explained by
the same. k directions are shared as so many vectors as the source has columns, the rest of them zeros: nobody
has to wait for k.

Noise is that of :mod:`mpc_spearman.privacy.scales` with one range R = max ‖x̃_i - x̃_j‖ for all k vectors, so
that it is equal over them and their diameter is 1: when rows i and j are exchanged, Σ_p (x̃_pi - x̃_pj)² ≤ R².
The directions are the same for both tables and the rotation is independent of them, so the proof there holds
for every rotation, and for the mixture of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.engines.computation import Bounds, Computation, Contribution
from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.levels import whitening
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.level import (
    COORDINATOR,
    SOURCE,
    TARGET,
    Description,
    Foreseen,
    Level,
    Numbers,
    masked_rows,
    opened_rows,
    scale_rows,
)
from mpc_spearman.levels.noise import in_digits
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.gaussian import discrete_gaussian
from mpc_spearman.privacy.scales import NOTHING, Scales, deviations, joined, most_noise, untied
from mpc_spearman.statistics import explained, result_warnings
from mpc_spearman.wire.kinds import Field, Kind, Row

KEPT = Field("defined", "int64", (1,), "k, how many independent directions its columns have")
DISTANCE = {"ranges": "a rounded bound on how much any two of its rows differ in its whitened columns"}


def _passed_on(sources: str | int) -> tuple[Field, ...]:
    return (
        Field(
            "explained",
            "float64",
            (sources, "m_target"),
            "the share of each target feature's variance of ranks that a source's columns explain (R²), with "
            "the noise of both",
        ),
        Field(
            "explained_noise",
            "float64",
            (sources, "m_target"),
            "the standard deviation of the noise in the products whose squares add up to R²",
        ),
        Field("kept", "int64", (sources,), "k, how many independent directions a source's columns have"),
    )


def farthest(vectors: int, n: int) -> float:
    """Return an upper end of the distance of two rows, whitened from so many columns (0: any)."""
    return min(math.sqrt(2), 2 * whitening.largest(vectors, n)) if vectors else math.sqrt(2)


class Explained(Level):
    """Z = X̃·Ŷᵀ of every source is opened, with noise; R² of each target column follows."""

    name: ClassVar[Reveal] = "explained"
    opens = (
        "how much of each target column a source's columns explain together (R²), and how much of two target "
        "columns the same part of them explains; a secret rotation mixes the source's columns, so that none "
        "of them shows"
    )
    sent: ClassVar[tuple[Row, ...]] = (
        Row(
            Kind.DESCRIPTION,
            TARGET,
            COORDINATOR,
            (Field("constant", "flags", ("m_target",), "which features are constant"),),
        ),
        *(Row(Kind.COLUMNS, SOURCE, (receiver,), (KEPT,)) for receiver in Role),
        *scale_rows({"ranges": (1,)}, Role.SOURCE, *Role, tells=DISTANCE),
        *scale_rows({"ranges": ("m_target",), "diameter": (1,)}, Role.TARGET, Role.COORDINATOR, Role.SOURCE),
        *masked_rows("its whitened, randomly rotated columns", "m_source", "rounded scaled ranks"),
        *opened_rows(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        Row(Kind.RESULT, COORDINATOR, TARGET, _passed_on("sources")),
        Row(Kind.RESULT, COORDINATOR, SOURCE, _passed_on(1)),
    )
    owners_add: ClassVar[bool] = True
    counts: ClassVar[str] = "directions of a source"
    #: Numbers that have a row for each source.
    of_each: ClassVar[tuple[str, ...]] = ("explained", "explained_noise", "kept")

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
        """Ask for inner products of each pair of vectors; no more is known of them than n and m."""
        encoding = self.encoding(shapes)
        largest = whitening.largest(max(shapes.features.values()), shapes.n)
        bounds = Bounds(
            math.ceil(encoding.source_scale * largest) + 1,
            encoding.target_bound,
            encoding.target_sum,
            encoding.result_bound,
        )
        return Computation(
            "inner_products", shapes.n, shapes.features, shapes.m_target, noisy=self.noisy, bounds=bounds
        )

    def contribution(self, ranks: Ranks, role: Role, shapes: Shapes) -> Contribution:
        """Return a source's whitened, turned columns, (m_A, n), or the target's columns, (m_B, n)."""
        encoding = self.encoding(shapes)
        if role is Role.SOURCE:
            return Contribution(whitening.whitened(ranks, encoding.source_scale))
        return Contribution(encoding.column_vectors(ranks))

    def counted(self, own: Contribution, ranks: Ranks, role: Role) -> int:
        """Count a source's directions, and the target's columns that are not constant."""
        return whitening.kept(own.vectors) if role is Role.SOURCE else ranks.defined

    def whitens(self, shapes: Shapes) -> Mapping[Party, int]:
        """Return whose columns are whitened, and how many there are."""
        return shapes.features

    def behind(self, shapes: Shapes) -> int:
        """Return the fewest directions that an R² is over: over one it is a coefficient, squared."""
        return min(shapes.defined[source] for source in shapes.features)

    def admit(self, shapes: Shapes) -> None:
        """Refuse scales that k contradicts, a source of which no direction is left, or too few rows for k."""
        for owner, scales in shapes.scales.items():
            moving = sum(step != NOTHING for step in scales.ranges)
            k = shapes.defined.get(owner, moving)
            if moving != (min(k, 1) if owner in self.whitens(shapes) else k):
                raise ProtocolViolation(
                    f"{owner} states ranges above 0 for {moving} vectors, but has {k}: the noise of others "
                    "would be too small"
                )
        for source, columns in self.whitens(shapes).items():
            k = shapes.defined[source]
            if not k:
                raise BoundError(
                    f"reveal: {self.name} can use none of the {columns} columns of {source.name}: they are "
                    "constant, or differ in so few rows that noise could not hide these. Use other columns"
                )
            if shapes.n < explained.ROWS_EACH * k:
                raise BoundError(
                    f"reveal: {self.name} needs {explained.ROWS_EACH} rows for each direction of a source's "
                    f"columns; {source.name} has {k} and there are {shapes.n} rows. Use fewer columns, or "
                    "more rows"
                )

    # --- noise

    def scales(self, own: Contribution, ranks: Ranks, role: Role, shapes: Shapes) -> dict[str, Scales]:
        """Return how far apart two rows of a source's can lie; of the target's vectors the scales."""
        encoding = self.encoding(shapes)
        if role is Role.SOURCE:
            return {"ranges": whitening.distance(own.vectors, encoding.source_scale)}
        return {"ranges": Scales.of(own.vectors, [1 / encoding.target_scale] * ranks.m)}

    def limits(self, n: int, vectors: int, field: str) -> tuple[float, float]:
        """Return √(2/n), the mean distance of two rows of one direction (of the target 2/√n), to the most."""
        return math.sqrt(2 if vectors else 4) / math.sqrt(n), farthest(vectors, n)

    def deviations(self, shapes: Shapes) -> NDArray[np.float64]:
        """Return s of either owner's noise in each of the k products of a source, (sources, m_B)."""
        return deviations(joined(shapes.of_sources), shapes.of_target, self.plan.privacy.loss)

    def _steps(self, shapes: Shapes) -> NDArray[np.int64]:
        """Return that noise in steps of what is opened, rounded up."""
        return np.ceil(self.deviations(shapes) * self.encoding(shapes).unit).astype(np.int64)

    def columns(self, shapes: Shapes) -> int:
        """Return how many of the target's vectors are not zeros."""
        return shapes.m_target

    def own_noise(self, shapes: Shapes, me: Party) -> NDArray[np.int64] | None:
        """Draw this owner's noise, (m_A, m_B), equal in the vectors that are kept; none where all is zero."""
        if not self.noisy:
            return None
        sigma = np.zeros((shapes.m_sources, shapes.m_target), dtype=np.int64)
        for source, steps in zip(shapes.features, self._steps(shapes), strict=True):
            sigma[shapes.rows(source)][: shapes.defined[source], : self.columns(shapes)] = steps
        return discrete_gaussian(sigma[shapes.rows(me)] if me in shapes.features else sigma)

    def foreseen(self, ranks: Ranks, role: Role, shapes: Shapes) -> Foreseen:
        """Foresee by how much noise, and chance, move R² of (or with) each own column.

        From all parties' scales, or, in a shape without, from one's own.
        """
        if shapes.scales:
            s, k = self.deviations(shapes), max(shapes.defined[source] for source in shapes.features)
            of_each = s.max(axis=0) if role is Role.TARGET else np.full(ranks.m, np.median(s))
        else:
            most, n = max(shapes.features.values()), ranks.n
            own = self.contribution(ranks, role, shapes)
            stated = self.scales(own, ranks, role, shapes)["ranges"]
            if role is Role.TARGET:
                k, other = most, Scales.of_range(2 * math.sqrt(min(0.5, 3 * most / n)), True, n)
                of_each = deviations(other, stated, self.plan.privacy.loss)[0]
            else:
                k, width = self.counted(own, ranks, role), untied(n) * math.sqrt(shapes.m_target)
                of_each = np.full(
                    ranks.m, deviations(stated, Scales.of_range(width, True, n), self.plan.privacy.loss)
                )
            of_each = of_each * math.sqrt(len(shapes.features))
        return self.moved("R²", math.sqrt(2 * k) * 2 * np.square(of_each), math.sqrt(2 * k) / ranks.n)

    @staticmethod
    def moved(numbers: str, noise: NDArray[np.float64], error: float) -> Foreseen:
        """Say what is too much for numbers from 0 to 1."""
        most = float(np.median(noise)) + error
        too_few = (
            f"with noise {numbers} will vary by {most:.2g} where there is no relation. Use fewer columns, "
            "or more rows"
        )
        return Foreseen(numbers, noise, error, too_few if most > explained.SPREAD else "")

    # --- what the coordinator makes of it

    def conclude(
        self, opened: NDArray[Any], sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> Numbers:
        """Compute R² from Z; NaN of a constant target column, and of what no columns give."""
        encoding, n = self.encoding(shapes), shapes.n
        kept = np.array([shapes.defined[source] for source in shapes.features])
        s = self._steps(shapes) * (math.sqrt(2) / encoding.unit) if self.noisy else 0.0
        s = np.broadcast_to(np.asarray(s), (len(kept), shapes.m_target))
        r2 = np.full(s.shape, math.nan)
        for row, source in enumerate(shapes.features):
            of_source = opened[shapes.rows(source)][: kept[row]].T.tolist()
            for q, (values, constant) in enumerate(zip(of_source, target.constant, strict=True)):
                if not constant and all(abs(int(value)) <= encoding.result_bound for value in values):
                    r2[row, q] = math.fsum((int(value) / encoding.unit) ** 2 for value in values)
        k = kept[:, None]
        r2 -= k * np.square(s)
        if not self.noisy:
            r2 = np.clip(r2, 0.0, 1.0)
        return {
            "explained": in_digits(r2, np.sqrt(2 * k) * np.square(s), np.sqrt(2 * k) / n),
            "explained_noise": s.astype(np.float64),
            "kept": kept,
        }

    def of_source(self, numbers: Numbers, source: Party, shapes: Shapes) -> Numbers:
        """Return what of it is about one source's columns."""
        row = [list(shapes.features).index(source)]
        return {**numbers, **{part: numbers[part][row] for part in self.of_each}}  # type: ignore[literal-required,typeddict-item]

    def warnings(
        self, numbers: Numbers, sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> list[str]:
        """Warn of constant columns, and of values that no columns give."""
        owner, lost = self.plan.parties.target.name, np.isnan(numbers["explained"]).any(axis=0)
        return [
            *self.fewer(shapes),
            *result_warnings.constants(owner, target.names, target.constant, "tie_corrected"),
            *result_warnings.impossible(np.where(lost, 0, 1), 1, int(np.sum(target.constant))),
        ]

    def fewer(self, shapes: Shapes) -> list[str]:
        """Say of whom fewer directions are used than there are columns."""
        lines = [
            f"{owner.name}: {shapes.defined[owner]} of {columns}"
            for owner, columns in self.whitens(shapes).items()
            if shapes.defined[owner] < columns
        ]
        return result_warnings.fewer_directions(lines)

    def opened_precisely(self) -> str:
        """Say whose noise is in it."""
        return "with the noise of the source and of the target" if self.noisy else "exact, without noise"

    def published_precisely(self, grant: str) -> str:
        """Say the same of what is passed on."""
        return f"R² {self.opened_precisely()}"

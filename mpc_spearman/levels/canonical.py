"""``canonical``: whether a source's columns and the target's have anything in common at all.

As `explained`, but the target whitens and turns its columns as well (:mod:`mpc_spearman.levels.whitening`).
So the coordinator sees Z = O_A·Z₀·O_Bᵀ with noise that is equal in all its entries: it depends on both sides
through the singular values of Z₀ alone, the canonical correlations. Either side's vectors have one range R =
max ‖x̃_i - x̃_j‖, and their diameter is 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.engines.computation import Contribution
from mpc_spearman.levels import whitening
from mpc_spearman.levels.explained import DISTANCE, KEPT, Explained, farthest
from mpc_spearman.levels.level import (
    COORDINATOR,
    SOURCE,
    TARGET,
    Description,
    Foreseen,
    Numbers,
    masked_rows,
    opened_rows,
    scale_rows,
)
from mpc_spearman.levels.noise import in_digits
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.scales import Scales, deviations
from mpc_spearman.statistics import result_warnings
from mpc_spearman.wire.kinds import Field, Kind, Row

_WHITENED = "its whitened, randomly rotated columns"


def _passed_on(sources: str | int) -> tuple[Field, ...]:
    return (
        Field(
            "canonical",
            "float64",
            (sources, "m_target"),
            "the canonical correlations of a source's columns with the target's, with the noise of both",
        ),
        Field(
            "canonical_noise",
            "float64",
            (sources,),
            "the standard deviation of the noise in the products whose singular values they are",
        ),
        Field("kept", "int64", (sources,), "how many independent directions a source's columns have"),
        Field("kept_target", "int64", (1,), "how many independent directions the target's columns have"),
    )


class Canonical(Explained):
    """Z of every source, whitened on both sides, is opened, with noise; its singular values follow."""

    name: ClassVar[Reveal] = "canonical"
    opens = (
        "the canonical correlations: how much a source's columns as a whole have in common with "
        "the target's; secret rotations mix the columns of both, so that none of them shows"
    )
    sent: ClassVar[tuple[Row, ...]] = (
        *(Row(Kind.COLUMNS, SOURCE, (receiver,), (KEPT,)) for receiver in Role),
        *(Row(Kind.COLUMNS, TARGET, receiver, (KEPT,)) for receiver in (COORDINATOR, SOURCE)),
        *scale_rows({"ranges": (1,)}, Role.SOURCE, *Role, tells=DISTANCE),
        *scale_rows({"ranges": (1,)}, Role.TARGET, Role.COORDINATOR, Role.SOURCE, tells=DISTANCE),
        *masked_rows(_WHITENED, "m_source", _WHITENED),
        *opened_rows(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = (
        Row(Kind.RESULT, COORDINATOR, TARGET, _passed_on("sources")),
        Row(Kind.RESULT, COORDINATOR, SOURCE, _passed_on(1)),
    )

    of_each: ClassVar[tuple[str, ...]] = ("canonical", "canonical_noise", "kept")

    def contribution(self, ranks: Ranks, role: Role, shapes: Shapes) -> Contribution:
        """Return whitened, turned columns, (m, n)."""
        return Contribution(whitening.whitened(ranks, self.encoding(shapes).source_scale))

    def counted(self, own: Contribution, ranks: Ranks, role: Role) -> int:
        """Count directions, on both sides."""
        return whitening.kept(own.vectors)

    def whitens(self, shapes: Shapes) -> Mapping[Party, int]:
        """Return all data parties."""
        target = {owner: shapes.m_target for owner in shapes.defined if owner not in shapes.features}
        return {**shapes.features, **target}

    def columns(self, shapes: Shapes) -> int:
        """Return the target's directions."""
        return next(k for owner, k in shapes.defined.items() if owner not in shapes.features)

    def scales(self, own: Contribution, ranks: Ranks, role: Role, shapes: Shapes) -> dict[str, Scales]:
        """Return how far apart two rows can lie, on both sides."""
        return {"ranges": whitening.distance(own.vectors, self.encoding(shapes).source_scale)}

    def limits(self, n: int, vectors: int, field: str) -> tuple[float, float]:
        """Return √(2/n) to the largest, on both sides."""
        return math.sqrt(2 / n), farthest(vectors, n)

    def foreseen(self, ranks: Ranks, role: Role, shapes: Shapes) -> Foreseen:
        """Foresee by how much noise, and chance, move Pillai's trace, for each own column the same."""
        if shapes.scales:
            s = float(self.deviations(shapes).max())
            k = max(shapes.defined[source] for source in shapes.features) * self.columns(shapes)
        else:
            own = self.contribution(ranks, role, shapes)
            others = shapes.m_target if role is Role.SOURCE else max(shapes.features.values())
            width = 2 * math.sqrt(min(0.5, 3 * others / ranks.n) * len(shapes.features))
            stated = self.scales(own, ranks, role, shapes)["ranges"]
            s = float(deviations(stated, Scales.of_range(width, True, ranks.n), self.plan.privacy.loss).max())
            k = whitening.kept(own.vectors) * others
        noise = np.full(ranks.m, math.sqrt(2 * k) * 2 * s**2)
        return self.moved("Pillai's trace", noise, math.sqrt(2 * k) / ranks.n)

    def conclude(
        self, opened: NDArray[Any], sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> Numbers:
        """Compute the singular values of Z; NaN of what no columns give."""
        encoding, columns = self.encoding(shapes), self.columns(shapes)
        kept = np.array([shapes.defined[source] for source in shapes.features])
        s = self._steps(shapes)[:, 0] * (math.sqrt(2) / encoding.unit) if self.noisy else np.zeros(len(kept))
        found = np.full((len(kept), shapes.m_target), math.nan)
        for row, source in enumerate(shapes.features):
            z = opened[shapes.rows(source)][: kept[row], :columns].tolist()
            if all(abs(int(value)) <= encoding.result_bound for values in z for value in values):
                units = [[int(value) / encoding.unit for value in values] for values in z]
                found[row, : min(kept[row], columns)] = np.linalg.svd(np.array(units), compute_uv=False)
        rounded = in_digits(found, np.broadcast_to(s[:, None], found.shape), 1 / math.sqrt(shapes.n - 1))
        return {
            "canonical": rounded if self.noisy else np.clip(rounded, 0.0, 1.0),
            "canonical_noise": s.astype(np.float64),
            "kept": kept,
            "kept_target": np.array([columns]),
        }

    def warnings(
        self, numbers: Numbers, sources: Sequence[Description], target: Description, shapes: Shapes
    ) -> list[str]:
        """Warn of directions that are left out, and of values that no columns give."""
        lost = np.isnan(numbers["canonical"]).all(axis=1)
        return [*self.fewer(shapes), *result_warnings.impossible(np.where(lost, 0, 1), 1, 0)]

    def published_precisely(self, grant: str) -> str:
        """Say whose noise is in it."""
        return f"canonical correlations {self.opened_precisely()}"

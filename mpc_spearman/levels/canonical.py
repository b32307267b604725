"""``canonical``: whether a source's columns and the target's have anything in common at all.

Like `explained`, but the target whitens and rotates its columns too. So the coordinator sees Z = O_A·Z₀·O_Bᵀ
with the same noise in all entries: it depends on both sides only through the singular values of Z₀, the
canonical correlations (:mod:`mpc_spearman.levels.whitening`).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.findings import canonical as shown
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels import rows
from mpc_spearman.levels.explained import NOISE_IN_PRODUCTS, Explained
from mpc_spearman.levels.noise import in_digits
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.statistics import result_warnings
from mpc_spearman.wire.kinds import Field, Kind, Row

_CORRELATIONS = "the canonical correlations of a source's columns with the target's, with the noise of both"


class Canonical(Explained):
    """C opens every source's Z, whitened on both sides, with noise, and computes its singular values."""

    name: ClassVar[Reveal] = "canonical"
    findings: ClassVar[type[Findings]] = shown.Canonical
    of_features = False
    states_defined: ClassVar[tuple[Role, ...]] = ()
    opens = (
        "the canonical correlations: how much a source's columns as a whole have in common with "
        "the target's; secret rotations mix the columns of both, so that no single one can be read"
    )
    sent: ClassVar[tuple[Row, ...]] = (
        *(
            Row(Kind.DESCRIPTION, (owner,), COORDINATOR, rows.adjusted(owner, together=True))
            for owner in (Role.SOURCE, Role.TARGET)
        ),
        *rows.whitened(Role.SOURCE, *Role),
        *rows.whitened(Role.TARGET, Role.COORDINATOR, Role.SOURCE),
        *rows.masked(rows.WHITENED, "m_source", rows.WHITENED),
        *rows.split_noise(),
        *rows.opened(opens, ("m_source", "m_target")),
    )
    granted: ClassVar[tuple[Row, ...]] = rows.of_each_source(
        Field("canonical", "float64", ("sources", "m_target"), _CORRELATIONS),
        Field(
            "canonical_noise", "float64", ("sources",), f"{NOISE_IN_PRODUCTS} from which they are computed"
        ),
        Field("kept", "int64", ("sources",), "how many independent directions a source's columns have"),
        Field("kept_target", "int64", (1,), "how many independent directions the target's columns have"),
    )
    numbers: ClassVar[str] = "Pillai's trace"
    published_name: ClassVar[str] = "canonical correlations"
    whitening_roles: ClassVar[tuple[Role, ...]] = (*SOURCE, *TARGET)

    def conclude(self, opened: NDArray[Any], shapes: Shapes) -> Numbers:
        """Compute the singular values of Z; NaN if no columns can give Z."""
        s, directions = self._noise(shapes)[:, 0], self._directions(shapes)
        singular = np.full((len(directions), shapes.m_target), math.nan)
        for row, z in zip(singular, self._products(opened, shapes), strict=True):
            if not np.isnan(z).any():
                row[: min(z.shape)] = np.linalg.svd(z, compute_uv=False)
        of_each = np.broadcast_to(s[:, None], singular.shape)
        rounded = in_digits(singular, of_each, 1 / math.sqrt(shapes.n - 1))
        return {
            "canonical": rounded if self.noisy else np.clip(rounded, 0.0, 1.0),
            "canonical_noise": s,
            "kept": directions,
            "kept_target": np.array([self._target_vectors(shapes)]),
            **{name: values[:, 0] for name, values in self._for_tests(shapes).items()},
        }

    def warnings(self, numbers: Numbers, shapes: Shapes) -> list[str]:
        undefined = np.isnan(numbers["canonical"]).all(axis=1)
        return [*self._fewer_directions(shapes), *result_warnings.impossible(np.where(undefined, 0, 1), 1, 0)]

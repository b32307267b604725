"""What the coordinator receives at ``explained`` and ``canonical``, in recorded runs: only what is opened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.levels import level_of
from support.plans import PROTOCOLS, plan
from support.recording import Recorded
from support.references import table

#: Pairs of tables, as columns of bases: of the first two the coordinator must see the same. At `explained`
#: the source's columns span the same; at `canonical` the two sides are exchanged, and no column is left.
VIEWS: dict[str, dict[str, tuple[list[int], list[int]]]] = {
    "explained": {"one": ([0, 1], [3, 4]), "same": ([1, -1], [3, 4]), "other": ([1, 2], [3, 4])},
    "canonical": {"one": ([0, 1], [3, 4]), "same": ([3, 4], [0, 1]), "other": ([1, 2], [3, 4])},
}


@pytest.fixture(
    scope="module",
    params=[
        "canonical mpc",
        pytest.param("explained mpc", marks=pytest.mark.long),
        pytest.param("canonical paillier", marks=pytest.mark.long),
    ],
)
def recorded(request: pytest.FixtureRequest) -> tuple[str, dict[str, np.ndarray]]:
    """What the coordinator opened in recorded runs, (runs, k, m_B), by the pair of tables."""
    (level, scheme), n = request.param.split(), 60
    rng, views = np.random.default_rng(8), {}
    base = [rng.permutation(n).astype(float) for _ in range(3)]
    base += [base[0] + rng.normal(scale=20, size=n), rng.permutation(n)]
    settings: dict[str, Any] = {"reveal": level, "results": {"target": level, "precision": "statistical"}}
    settings |= PROTOCOLS[scheme]
    kind: Any = type(level_of(plan(**settings)))
    conclude, opened = kind.conclude, list[np.ndarray]()

    def record(self: Any, product: np.ndarray, shapes: Any) -> Any:
        opened.append(np.array(product.tolist(), dtype=float))
        return conclude(self, product, shapes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "conclude", record)
        for name, sides in VIEWS[level].items():
            tables = {
                party: table(
                    **{f"c{i}": base[place] if place >= 0 else -base[0] for i, place in enumerate(columns)}
                )
                for party, columns in zip("AB", sides, strict=True)
            }
            runs = [Recorded(tables, privacy={"loss": 100.0}, **settings).transcript for _ in range(16)]
            views[name] = np.array(opened) / 2.0**50
            opened.clear()
            if scheme == "mpc":
                shares = [sum(run.tensors(party, "opening")[0] for party in "ABC") for run in runs]
                np.testing.assert_allclose(np.array(shares, dtype=float) / 2.0**50, views[name])
            # beside that the coordinator hears what the table lists: no name or tie term of whitened columns
            stated = [
                (sender, kind, sorted(values))
                for sender, kind, values in runs[0].read_by("C")
                if kind in ("COLUMNS", "DESCRIPTION")
            ]
            assert ("A", "COLUMNS", ["defined", "ranges"]) in stated
            described = {sender: names for sender, kind, names in stated if kind == "DESCRIPTION"}
            of_target = ["constant", "gaps", "names", "nominal"] if level == "explained" else ["most_gaps"]
            assert described == {"A": ["most_gaps"], "B": of_target}
    return level, views


def test_in_recorded_runs_the_coordinator_sees_only_what_is_opened(
    recorded: tuple[str, dict[str, np.ndarray]],
) -> None:
    """Entries of Z, and ZᵀZ (at `canonical` singular values), have one distribution; of others another."""
    level, views = recorded
    one, same, other = (views[name] for name in ("one", "same", "other"))

    def shown(z: np.ndarray) -> list[np.ndarray]:
        if level == "canonical":
            return list(np.linalg.svd(z, compute_uv=False).T)
        squares = np.einsum("npq,npr->nqr", z, z)
        return [squares[:, 0, 0], squares[:, 0, 1], squares[:, 1, 1]]

    entries = ((0, 0), (0, 1), (1, 0), (1, 1))
    for first, second in (
        (shown(one), shown(same)),
        *(([one[:, p, q]], [same[:, p, q]]) for p, q in entries),
    ):
        for values, same_values in zip(first, second, strict=True):
            assert stats.ks_2samp(values, same_values).pvalue > 1e-8  # of 16 and 16 that do not mix: 3e-9
    assert stats.ks_2samp(shown(one)[0], shown(other)[0]).pvalue < 1e-6
    # no entry is more of one column than of another; chance is beyond these limits once in 10^9 times
    signs = np.concatenate([view[:, :, 0].ravel() for view in views.values()]) > 0
    assert 4 <= signs.sum() <= signs.size - 4

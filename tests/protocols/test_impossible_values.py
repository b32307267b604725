"""A source that shifts its shares: the run ends normally, whatever the target's rows are.

All parties see whether a run stops. If it stopped at an impossible value, a source that adds half the ring to
its value in row i would learn whether the target's integer in that row is odd.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.engines import ring
from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.engines.he import engine as he
from mpc_spearman.engines.he.paillier import keys as paillier_keys
from mpc_spearman.engines.mpc import engine as mpc
from mpc_spearman.run import Run
from mpc_spearman.statistics.reference import reference
from support.in_memory import Ended, run_in_memory
from support.plans import PROTOCOLS, plan
from support.recording import FEATURES, TABLES, encoded
from support.references import encoding_for, ring_bytes

CAUTION = "a value was opened that ranks cannot give"
X, Y = encoded(TABLES["A"]), encoded(TABLES["B"])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Run the roles, of which A adds `by`, or half the ring, to its first vector in one row; unchecked."""

    def run(row: int, by: int | None = None, **settings: Any) -> Ended:
        if by is None:
            width = ring_bytes(TABLES, settings["reveal"], settings.get("estimator", "tie_corrected"))
            by = 2 ** (8 * width - 1)
        matmul = ring.matmul
        stand_ins = {
            (ring, "matmul"): lambda x, y, bound=0: matmul(x, y),
            (paillier_keys, "check"): lambda values, bound, name: None,
        } | {(engine, "contribute"): shifted(engine.contribute, row, by) for engine in (mpc, he)}
        if importlib.util.find_spec("tenseal") is not None:
            from mpc_spearman.engines.he.bfv import keys

            stand_ins[keys, "check"] = lambda values, bound, name: None
        for (place, name), stand_in in stand_ins.items():
            monkeypatch.setattr(place, name, stand_in)
        results = {"target": "strengths", "sources": "strengths"}
        ended = run_in_memory(plan(**{"results": results} | settings), TABLES)
        assert not ended.errors, ended.errors
        return ended

    return run


def shifted(give: Callable[..., None], row: int, by: Any) -> Callable[..., None]:
    def give_shifted(run: Run, computation: Computation, contribution: Contribution) -> None:
        if run.roster.me.name == "A":
            vectors = contribution.vectors.astype(np.int64)
            if isinstance(by, np.ndarray):
                vectors[0] = by
            else:
                vectors[0, row] += np.array(by % 2**64, dtype=np.uint64).astype(np.int64)
            contribution = Contribution(vectors)
        give(run, computation, contribution)

    return give_shifted


def check(ended: Ended, undefined: np.ndarray) -> None:
    """These strengths are NaN for everyone who has them, and they are told so."""
    for party in "CBA":
        result = ended.result(party)
        assert result.strengths.isna().tolist() == list(undefined)
        assert (result.counts == 0).tolist() == list(undefined)
        assert [CAUTION in line for line in result.warnings].count(True) == undefined.any()
        assert result.ranking["feature"].tolist()[len(undefined) - undefined.sum() :] == [
            name for name, nan in zip(FEATURES["B"], undefined, strict=True) if nan
        ]


@pytest.mark.parametrize("estimator", ["tie_corrected", pytest.param("paper", marks=pytest.mark.long)])
def test_strengths(estimator, run):
    target = rank_columns([TABLES["B"][name].to_numpy() for name in FEATURES["B"]])
    encoding = encoding_for([TABLES["A"]], estimator)
    odd = encoding.column_vectors(target) % 2 == 1
    row = int(np.flatnonzero(odd.any(axis=0) & ~odd.all(axis=0))[0])
    ended = run(row, reveal="strengths", estimator=estimator)
    check(ended, odd[:, row])
    frames = {party: table.drop(columns="id") for party, table in TABLES.items()}
    truth = reference({"A": frames["A"]}, frames["B"], estimator=estimator).strengths
    defined = ~odd[:, row]
    np.testing.assert_allclose(
        ended.result("C").strengths[defined], truth[defined], rtol=0, atol=encoding.error
    )


def test_coefficients(run):
    odd = Y % 2 == 1
    row = int(np.flatnonzero(odd.any(axis=0))[0])
    result = run(row, reveal="coefficients").result("C")
    undefined = result.coefficients.isna().to_numpy()
    assert undefined[0].tolist() == odd[:, row].tolist()
    assert (undefined[1:] == (np.ptp(X, axis=1) == 0)[1:, None]).all()
    assert result.pvalues.isna().equals(result.coefficients.isna())
    assert result.counts.tolist() == (2 - odd[:, row]).tolist()
    assert sum(CAUTION in line for line in result.warnings) == 1


def test_coefficients_of_scaled_ranks(run, few):
    result = run(5, by=2**61, reveal="coefficients", results={"precision": "statistical"}).result("C")
    assert result.coefficients.iloc[0].isna().any()
    assert result.coefficients.iloc[1].notna().all()
    assert sum(CAUTION in line for line in result.warnings) == 1


@pytest.mark.parametrize("estimator", ["tie_corrected", pytest.param("paper", marks=pytest.mark.long)])
def test_differences(estimator, run):
    ended = run(0, reveal="differences", estimator=estimator)
    assert ended.result("C").coefficients.iloc[0].isna().all()
    assert ended.result("C").coefficients.iloc[1].notna().all()
    assert all(sum(CAUTION in line for line in ended.result(party).warnings) == 1 for party in "CBA")


@pytest.mark.parametrize(
    ("scheme", "level"),
    [
        ("paillier", "coefficients"),
        ("bfv", "strengths"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("paillier", "strengths"),
                ("paillier", "differences"),
                ("bfv", "coefficients"),
                ("bfv", "differences"),
            )
        ),
    ],
)
def test_encrypted(scheme, level, run):
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    # large enough to be seen, small enough for an encryption to hold: a row and an amount for each level
    row, by = {
        "strengths": (0, encoding_for([TABLES["A"]], "tie_corrected").bounds.value * np.sign(Y[0])),
        "coefficients": (int(np.argmin(abs(Y[0] - 1200))), -(2**20)),
        "differences": (int(np.argmin(abs(X[0] - Y[0] - 1400))), 2400),
    }[level]
    ended = run(row, by=by, reveal=level, **PROTOCOLS[scheme])
    result = ended.result("C")
    numbers = result.strengths if level == "strengths" else result.coefficients.iloc[0]
    assert numbers.isna().any()
    assert all(sum(CAUTION in line for line in ended.result(party).warnings) == 1 for party in "CBA")

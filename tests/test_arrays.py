"""Large arrays: in files that leave nothing behind, with the same numbers as in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc_spearman.arrays import parts, reordered, zeros, zeros_like
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.errors import OutputError
from mpc_spearman.levels import level_of, whitening
from mpc_spearman.levels.level import Level
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from support.plans import plan

N = 2_200_000  # of which two columns of int32, or one of 64 bits, are large enough for a file


def test_a_large_array_and_its_results_are_in_unnamed_files(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes, real = set(), os.open

    def opening(path: Any, *given: Any) -> int:
        opened = real(path, *given)
        if ".mpc-spearman-" in str(path):
            modes.add(os.fstat(opened).st_mode & 0o777)
        return opened

    monkeypatch.setattr(os, "open", opening)
    small, large = (zeros((rows,), np.float64, in_file=True) for rows in (9, N))
    assert [isinstance(one, np.memmap) for one in (small, large, zeros((N,), np.int64, in_file=False))] == [
        False, True, False,
    ]  # fmt: skip
    assert not large.any()
    assert isinstance(zeros_like(large, (2, N), np.int32), np.memmap)
    order = np.random.default_rng(1).permutation(N)
    table = zeros((2, N), np.int32, in_file=True)
    table[:] = np.arange(N), -np.arange(N)
    found = reordered(table, order)
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, [order, -order])
    for columns in (N, 1_000, 999_983):
        seen = [(at.start, at.stop, part[1, 0]) for at, part in parts(found, columns)]
        assert seen == [(i, min(N, i + columns), -order[i]) for i in range(0, N, columns)]
    assert not list(parts(table[:, :0], 9))
    assert not list(temporary.iterdir())
    assert modes == {0o600}  # of the names while there were any


@pytest.mark.parametrize("shape", [(1 << 58,), (N,)], ids=["no room", "no folder"])
def test_a_file_that_cannot_be_had_is_an_error_at_once(shape: tuple[int], temporary: Path) -> None:
    if shape == (N,):
        temporary.rmdir()
    with pytest.raises(OutputError, match=str(temporary)):
        zeros(shape, np.int64, in_file=True)


@pytest.fixture(scope="module")
def both() -> list[Ranks]:
    rng = np.random.default_rng(26)
    base = rng.normal(size=N)
    table = [base, rng.integers(0, 9, N) + (base > 0), -base]
    return [
        rank_columns(table),
        rank_columns(table, zeros((len(table), table[0].size), np.int32, in_file=True)),
    ]


@pytest.mark.parametrize("role", [Role.SOURCE, Role.TARGET])
@pytest.mark.parametrize(
    "settings",
    [{"reveal": "coefficients"}, {"reveal": "strengths"}, {"reveal": "strengths", "estimator": "paper"}],
    ids=["coefficients", "strengths", "paper"],
)
def test_vectors_in_files_are_those_in_memory(
    settings: dict[str, str], role: Role, both: list[Ranks]
) -> None:
    level, shapes = made(**settings)
    stated, also = (level.statements(ranks, role, np.ones(3)) for ranks in both)
    assert (stated.vectors, stated.sum) == (also.vectors, also.sum)
    in_memory, in_file = (
        level.contribution(
            ranks, role, shapes, stated, level.factors(ranks, role, shapes, stated, np.ones(ranks.m))
        )
        for ranks in both
    )
    assert not isinstance(in_memory.vectors, np.memmap)
    assert isinstance(in_file.vectors, np.memmap)
    assert in_memory.vectors.dtype == in_file.vectors.dtype
    assert np.array_equal(in_memory.vectors, in_file.vectors)


def test_columns_whitened_in_files_equal_those_in_memory_up_to_rotation(both: list[Ranks]) -> None:
    level, shapes = made(reveal="explained", results={"target": "explained"})
    in_memory, in_file = (whitening.directions(ranks) for ranks in both)
    assert np.array_equal(in_memory, in_file)
    scale = level.encoding(shapes).target_scale  # type: ignore[union-attr]
    vectors = whitening.whitened(both[1], scale)
    assert isinstance(vectors, np.memmap)
    found = whitening.leverages(vectors, scale)
    assert isinstance(found, np.memmap)
    np.testing.assert_allclose(found, np.square(in_memory @ both[0].matrix).sum(axis=0), atol=1e-8)


def made(**settings: object) -> tuple[Level, Shapes]:
    """A level, and the shapes of a run whose two data parties have the table."""
    chosen = plan(**settings)
    roster = chosen.roster("C")
    defined = dict.fromkeys((*roster.sources, roster.target), 3)
    return level_of(chosen), Shapes(N, dict.fromkeys(roster.sources, 3), 3, defined)

"""Attacks by a party on what it received, and the same attacks on deliberately broken protocols."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from mpc_spearman.attacks.twister import ENOUGH, twisted_bits
from mpc_spearman.engines.mpc.crypten_import import ArithmeticSharedTensor, arithmetic, communicator, crypten
from mpc_spearman.statistics.reference import reference
from support.harness import run_roles
from support.in_memory import run_in_memory
from support.plans import plan
from support.recording import Recorded, encoded
from support.uniform import fair, signs_of_pattern

M = 200  # columns a side
N = 151  # fewer rows than columns: the coordinator then knows vectors orthogonal to the target's masks


def _table(party: str, seed: int, n: int, m: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).normal(size=(n, m))
    table = pd.DataFrame(values, columns=[f"{party}{column}" for column in range(m)])
    table.insert(0, "id", [str(row) for row in range(n)])
    return table


WIDE = {"A": _table("A", 1, N, M), "B": _table("B", 2, N, M)}
X = encoded(WIDE["A"])


# ---- the coordinator strips all it can from what it received ----


HONEST, BROKEN = "honest", "broken"
wide_levels = pytest.mark.parametrize("level", ["differences", "coefficients"])


@cache
def wide_run(level: str, zero_share: str) -> Recorded:
    with pytest.MonkeyPatch.context() as patch:
        if zero_share == BROKEN:
            patch.setattr(ArithmeticSharedTensor, "PRZS", staticmethod(without_ab))
        return Recorded(WIDE, reveal=level)


def without_ab(*size, device=None):
    """A zero share that is made from the coordinator's two keys alone. Every sum still holds."""
    # CrypTen's: previous minus next, where the parties are C, B, A. B's next and A's previous are AB.
    signs = ({"prev": 1, "next": -1}, {"prev": 1}, {"next": -1})[communicator.get().get_rank()]
    share = torch.zeros(*size, dtype=torch.int64)
    for name, sign in signs.items():
        stream = crypten.generators[name][torch.device("cpu")]
        share += sign * arithmetic.generate_random_ring_element(*size, generator=stream)
    return ArithmeticSharedTensor.from_shares(share, precision=0)


class Coordinator:
    """What the coordinator has after a run: its own keys' streams, what it received, and what it opened."""

    def __init__(self, run: Recorded) -> None:
        self.level, self.width = run.plan.reveal, run.width
        transcript = run.transcript
        self.opened = run.reduced(sum(transcript.tensors(party, "opening")[0] for party in "CBA"))
        self.received = {party: run.shares(party).reshape(self.opened.shape) for party in "AB"}
        self.zero = [transcript.stream(pair, "zero").ring(*self.opened.shape) for pair in ("AC", "BC")]
        self.r, self.u = (transcript.stream(pair, "mask").ring(M, N) for pair in ("AC", "BC"))

    def streams(self) -> list[np.ndarray]:
        """Everything it can derive that has the shape of what it received."""
        if self.level == "differences":
            of_source = np.vstack([self.r, np.zeros_like(self.u[1:])])
            of_target = np.vstack([np.broadcast_to(-self.u[0], self.r.shape), self.u[1:] - self.u[0]])
            return [*self.zero, of_source, of_target]
        return [*self.zero, self.r @ self.u.T]

    def patterns(self, party: str) -> list[str]:
        """Signs of a pattern in a party's message after all combinations of adding or subtracting streams."""
        streams, patterns = self.streams(), []
        for signs in product((0, -1, 1), repeat=len(streams)):
            stripped = self.received[party].copy()
            for sign, stream in zip(signs, streams, strict=True):
                stripped += sign * stream
            patterns += [f"{signs}: {pattern}" for pattern in signs_of_pattern(stripped, self.width)]
        return patterns

    def bits_beyond_the_masks(self, party: str) -> np.ndarray:
        """At ``coefficients``: what is left of a message in directions in which the target's masks vanish.

        Without the zero share of source and target, the target's message is (X − R)·Uᵀ, and the source's
        is X·Yᵀ − X·Uᵀ, of which the coordinator opened the first term. For vectors k of 0 and 1 with
        k·U = 0 (mod 2), which exist because U has more rows than columns, both are even along k.
        """
        zero_ac, zero_bc = self.zero
        stripped = {
            "A": self.opened - (self.received["A"] + zero_ac),
            "B": self.received["B"] - zero_bc + self.r @ self.u.T,
        }[party]
        return (stripped @ _kernel(self.u & 1).T) & 1


def _kernel(matrix: np.ndarray) -> np.ndarray:
    """A basis of the vectors k of 0 and 1 with k·matrix = 0 (mod 2), one a row."""
    rows, columns = matrix.shape
    work = np.hstack([matrix, np.eye(rows, dtype=matrix.dtype)])
    rank = 0
    for column in range(columns):
        pivots = rank + np.flatnonzero(work[rank:, column])
        if pivots.size:
            work[[rank, pivots[0]]] = work[[pivots[0], rank]]
            odd = np.flatnonzero(work[:, column])
            work[odd[odd != rank]] ^= work[rank]
            rank += 1
    kernel = work[rank:, columns:]
    assert len(kernel) >= rows - columns
    assert not (kernel @ matrix & 1).any()
    return kernel


@wide_levels
@pytest.mark.parametrize("party", ["A", "B"])
def test_messages_stay_uniform_when_the_coordinator_strips_its_own_streams(level, party):
    coordinator = Coordinator(wide_run(level, HONEST))
    assert coordinator.patterns(party) == []
    if level == "coefficients":
        bits = coordinator.bits_beyond_the_masks(party)
        assert fair(int(bits.sum()), bits.size)


@wide_levels
@pytest.mark.parametrize("party", ["A", "B"])
def test_a_zero_share_that_the_coordinator_can_strip_does_not_pass(level, party):
    coordinator = Coordinator(wide_run(level, BROKEN))
    assert coordinator.patterns(party)
    if level == "coefficients":
        assert not coordinator.bits_beyond_the_masks(party).any()


# ---- stock CrypTen's masks are a Mersenne Twister's, ours are not ----


@pytest.mark.parametrize("seed", [0, 1, 2**31 + 5, 2**63 + 12345])
def test_stock_masks_are_recognised_from_masked_ranks(seed):
    generator = torch.Generator().manual_seed(seed)
    masks = crypten.common.rng.generate_random_ring_element((M, N), generator=generator).numpy()
    obeying = twisted_bits(X - masks)
    assert set(range(48, 64)) <= set(obeying)
    assert signs_of_pattern(X - masks) == []  # to the eye they are as good as ours


def test_the_mask_a_stock_tensor_puts_on_ranks_is_recognised(monkeypatch):
    cpu = torch.device("cpu")
    stock = crypten.common.rng.generate_random_ring_element
    monkeypatch.setattr(arithmetic, "generate_random_ring_element", stock)
    for name, seed in (("prev", 11), ("next", 22)):
        monkeypatch.setitem(crypten.generators[name], cpu, torch.Generator().manual_seed(seed))
    zero = ArithmeticSharedTensor.PRZS(torch.Size((M, N)), device=cpu).share.numpy()
    # the difference of two twisters' outputs keeps the relation in the lowest bit, where nothing is carried
    assert 0 in twisted_bits(zero)


@pytest.mark.parametrize(("receiver", "sender"), ["AB", "BA"])
def test_our_masks_are_not_recognised(receiver, sender):
    masked = wide_run("coefficients", HONEST).masked(receiver, sender)
    assert masked.size >= ENOUGH
    assert twisted_bits(masked) == []


@wide_levels
@pytest.mark.parametrize("party", ["A", "B"])
def test_our_zero_shares_are_not_recognised(level, party):
    assert twisted_bits(wide_run(level, HONEST).shares(party)) == []


# ---- the generators that a run must not use are really out of order ----

SMALL = {"A": _table("A", 3, 60, 2), "B": _table("B", 4, 60, 3)}


@pytest.mark.parametrize(
    ("generator", "named"),
    [
        ("numpy", "numpy.random.default_rng"),
        pytest.param("torch", "torch.randint", marks=pytest.mark.long),
        pytest.param("random", "random.randbytes", marks=pytest.mark.long),
    ],
)
def test_a_run_whose_masks_come_from_a_seedable_generator_fails(tmp_path, generator, named):
    staging = tmp_path / "out"
    staging.mkdir()
    arguments = {"directory": str(tmp_path / "record"), "generator": generator}
    hook = "frozen:record_frozen_with_masks_from"
    outcomes = run_roles(plan(), SMALL, staging, hook, arguments).values()
    assert "returned" not in {how.kind for how in outcomes}
    refused = [path.read_text().splitlines() for path in tmp_path.glob("record/*/refused")]
    assert refused
    assert all(names[0] == named for names in refused)
    assert not list(staging.glob("*/result.json"))


# ---- results are opened by CrypTen's reveal, and no other way ----


@pytest.mark.parametrize(
    ("level", "how"),
    [(level, how) for level in ("differences", "coefficients", "strengths") for how in ("raises", "zeros")],
)
def test_breaking_cryptens_reveal_breaks_the_run(monkeypatch, level, how):
    def broken(self, dst=None):
        if how == "raises":
            raise RuntimeError("CrypTen's reveal is broken")
        return torch.zeros_like(self.share)

    monkeypatch.setattr(ArithmeticSharedTensor, "reveal", broken)
    outcome = run_in_memory(plan(reveal=level), SMALL)
    assert outcome.errors or how == "zeros"
    if not outcome.errors:
        frames = {party: table.drop(columns="id") for party, table in SMALL.items()}
        truth = reference({"A": frames["A"]}, frames["B"])
        assert not np.isclose(outcome.result().strengths, truth.strengths, atol=1e-6).any()

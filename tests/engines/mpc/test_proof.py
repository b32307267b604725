"""Proved inputs: honest runs, and every way that a prover or a verifier can cheat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest

from mpc_spearman.engines.mpc import engine, proof, session
from mpc_spearman.engines.mpc import statement as statements
from mpc_spearman.engines.mpc.field import PRIME
from mpc_spearman.engines.mpc.statement import Statement
from support.faults import on_values
from support.in_memory import Ended, run_in_memory
from support.plans import plan
from support.references import pooled, table

N = 20
_RNG = np.random.default_rng(3)
TABLES = {
    "A": table(x=_RNG.normal(size=N), flag=_RNG.integers(0, 2, N), same=np.ones(N)),
    "B": table(y=_RNG.integers(0, 5, N), z=_RNG.normal(size=N)),
}


def run(tables: Mapping[str, Any] = TABLES, *, hooks: Any = None, **settings: Any) -> Ended:
    sources = [name for name in tables if name != "B"]
    return run_in_memory(plan(*sources, reveal="coefficients", proofs=True, **settings), tables, hooks)


def refused(ended: Ended) -> None:
    """Check that the coordinator found the proof to fail, that all others heard, and nobody has a result."""
    assert ended.classes()["C"] == "ProtocolViolation"
    assert "vectors failed" in str(ended.errors["C"])
    assert ended.errors.keys() == {"A", "B", "C"}
    assert ended.results == {}


@pytest.fixture
def in_eight_bytes(monkeypatch):
    """Let shares travel in 8 bytes, as those of many rows do: sums over subsets then have two limbs."""
    monkeypatch.setattr(session, "width_of", lambda bound: 8)


# ---- honest runs


@pytest.mark.parametrize("n", [3, 4, 41])
@pytest.mark.parametrize("width", [None, 8])
def test_honest_runs_give_the_same_coefficients(n, width, request):
    if width:
        request.getfixturevalue("in_eight_bytes")
    rng = np.random.default_rng(n)
    tables = {"A": table(x=rng.normal(size=n), t=np.arange(n) // 2), "B": table(y=rng.permutation(n))}
    got = run(tables).result().coefficients.to_numpy()
    np.testing.assert_allclose(got, pooled(*(tables[party].drop(columns="id") for party in "AB")), atol=1e-12)


def test_the_target_proves_to_each_source():
    tables = {**TABLES, "D": table(w=_RNG.normal(size=N))}
    assert run(tables).result().coefficients.shape == (4, 2)


def test_many_blocks_and_bits_of_wide_sums(in_eight_bytes):
    assert Statement(70_000, 1, 10, 64).bits == (2 + 2, statements.SUBSETS, 1)
    small = run_in_memory(plan(reveal="coefficients", proofs=True), TABLES, block_bytes=64)
    assert small.result().coefficients.shape == (3, 2)


# ---- a prover that lies about its vectors


def proving(monkeypatch: Any, change: Callable[[np.ndarray], np.ndarray], party: str = "A") -> None:
    """Let a party prove other vectors than it has shared."""

    def prove(run: Any, session: Any, vectors: np.ndarray) -> None:
        lie = run.roster.me.name == party
        proof.prove(run, session, change(vectors) if lie else vectors)

    monkeypatch.setattr(engine, "prove", prove)


@pytest.mark.parametrize("party", ["A", "B"])
def test_legal_vectors_that_were_not_shared_are_refused(monkeypatch, party):
    proving(monkeypatch, lambda vectors: vectors[:, ::-1], party)
    refused(run())


@pytest.mark.parametrize("change", [1, -1, 2**15, 2**63 - 1, -(2**63), PRIME])
@pytest.mark.parametrize("width", [None, 8])
def test_other_elements_than_those_proved_are_refused(change, width, request):
    """One element in the ring is not the one in the field, by any amount that wraps somewhere."""
    if width:
        request.getfixturevalue("in_eight_bytes")

    def lie(values: Mapping[str, Any]) -> Mapping[str, Any]:
        block = values["block"].copy()
        with np.errstate(over="ignore"):
            block[0, 0] += np.int64(change)
        return {"block": block}

    ended = run(hooks={"A": partial(on_values, kind="MASKED", change=lie)})
    if width is None and change in (-(2**63),):  # no change modulo 2^w: nothing is different on the wire
        assert ended.errors == {}
    else:
        refused(ended)


class _OutOfRange:
    """A prover whose first element is n, and which proves it as if it were legal, but for one lie."""

    def __init__(self, monkeypatch: Any, *, counted_as: int) -> None:
        own = np.array([[N, *range(1 - N, N - 1, 2)][:N]])

        def occurrences(statement: Statement, vectors: np.ndarray) -> np.ndarray:
            legal = np.where(vectors == N, counted_as, vectors)
            return np.bincount(legal.ravel() + N - 1, minlength=len(statement.table))

        def inverses_at(statement: Statement, inverse: np.ndarray, values: np.ndarray) -> np.ndarray:
            # 1/(τ − v) of a legal v gives τ, and τ the inverse of an element that is not in the table
            tau = (pow(int(inverse[N - 1]), -1, PRIME)) % PRIME
            return np.array(
                [pow(tau - N, -1, PRIME) if v == N else int(inverse[v + N - 1]) for v in values.tolist()]
            )

        monkeypatch.setattr(proof, "occurrences", occurrences)
        monkeypatch.setattr(proof, "inverses_at", inverses_at)
        self.vectors = own


def test_an_element_outside_the_table_is_refused(monkeypatch):
    lie = _OutOfRange(monkeypatch, counted_as=N - 1)
    real = engine.sharing.multiply_vectors

    def multiply_vectors(run: Any, its_session: Any, vectors: np.ndarray, *more: Any) -> np.ndarray:
        return real(run, its_session, lie.vectors if run.roster.me.name == "A" else vectors, *more)

    monkeypatch.setattr(engine.sharing, "multiply_vectors", multiply_vectors)
    proving(monkeypatch, lambda vectors: lie.vectors)
    tables = {"A": table(x=_RNG.normal(size=N)), "B": table(y=_RNG.normal(size=N))}
    refused(run(tables))


def test_a_carry_that_is_no_bit_is_refused(monkeypatch, in_eight_bytes):
    """Carries that fit a cell which is p too large in the ring: as elements of the field they are equal."""
    seeds: dict[int, bytes] = {}
    real_sums, real_carries = Statement.subset_sums, Statement.carries

    def subset_sums(self: Statement, seed: bytes, block: Any) -> np.ndarray:
        seeds[self.columns] = seed  # the coordinator is ahead, with the other owner's proof
        return real_sums(self, seed, block)

    def carries(self: Statement, masked: np.ndarray, masks: np.ndarray) -> np.ndarray:
        if self.columns != 3:  # the target's
            return real_carries(self, masked, masks)
        cell = np.zeros((3, N), dtype=np.int64)
        cell[0, 0] = PRIME
        return real_carries(
            self, masked + real_sums(self, seeds[self.columns], lambda rows, _: cell[:, rows]), masks
        )

    def lie(values: Mapping[str, Any]) -> Mapping[str, Any]:
        block = values["block"].copy()
        with np.errstate(over="ignore"):  # here, in the role's thread
            block[0, 0] += np.int64(PRIME)
        return {"block": block}

    monkeypatch.setattr(Statement, "subset_sums", subset_sums)
    monkeypatch.setattr(Statement, "carries", carries)
    refused(run(hooks={"A": partial(on_values, kind="MASKED", change=lie)}))


def messages_of_a_proof() -> int:
    """Count the messages of shares that A sends in a run."""
    seen = count()

    def change(values: Mapping[str, Any]) -> Mapping[str, Any]:
        next(seen)
        return values

    assert run(hooks={"A": partial(on_values, kind="PROOF_SHARES", change=change)}).errors == {}
    return next(seen)


@pytest.mark.parametrize("word", [0, -1])
def test_every_share_counts(word):
    """Of each message one share is another element: the elements, multiplicities, bits, and all rounds."""
    for at in range(messages_of_a_proof()):
        seen = count()

        def change(values: Mapping[str, Any], at: int = at, seen: Any = seen) -> Mapping[str, Any]:
            shares = values["shares"].copy()
            if next(seen) == at:
                shares[word] = (int(shares[word]) + 1) % PRIME
            return {"shares": shares}

        refused(run(hooks={"A": partial(on_values, kind="PROOF_SHARES", change=change)}))


@pytest.mark.parametrize("beyond", [PRIME, -1, 2**63 - 1])
def test_shares_beyond_the_field_are_refused_by_who_receives_them(beyond):
    def change(values: Mapping[str, Any]) -> Mapping[str, Any]:
        shares = values["shares"].copy()
        shares[0] = beyond
        return {"shares": shares}

    ended = run(hooks={"A": partial(on_values, kind="PROOF_SHARES", change=change)})
    assert ended.classes() == {"A": "PeerFailed", "B": "ProtocolViolation", "C": "PeerFailed"}
    assert "no element of the field" in str(ended.errors["B"])


def test_a_cell_changed_passes_one_random_subset_half_of_the_time(monkeypatch):
    """So the number of subsets is what makes the chance small: with one, cheats pass."""
    monkeypatch.setattr(statements, "SUBSETS", 1)
    tables = {"A": table(x=_RNG.normal(size=4)), "B": table(y=_RNG.normal(size=4))}

    def lie(values: Mapping[str, Any]) -> Mapping[str, Any]:
        block = values["block"].copy()
        block[0, 0] += 1
        return {"block": block}

    hook = {"A": partial(on_values, kind="MASKED", change=lie)}
    passed = sum(not run(tables, hooks=hook).errors for _ in range(40))
    assert 2 <= passed <= 38  # outside with chance 10^-9


# ---- verifiers that cheat can only stop a run


def test_a_verifier_that_sends_other_coins_stops_the_run():
    def change(values: Mapping[str, Any]) -> Mapping[str, Any]:
        coins = values["coins"]
        return {"coins": coins + 2 if len(coins) == 1 else coins}  # τ and every r

    refused(run(hooks={"B": partial(on_values, kind="PROOF_COINS", change=change)}))


@pytest.mark.parametrize("coin", [0, 1, PRIME - 1, PRIME, -1])
def test_a_prover_refuses_coins_that_would_show_its_vectors(coin):
    def change(values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"coins": np.array([coin]) if len(values["coins"]) == 1 else values["coins"]}

    ended = run(hooks={"B": partial(on_values, kind="PROOF_COINS", change=change)})
    assert ended.classes() == {"A": "ProtocolViolation", "B": "PeerFailed", "C": "PeerFailed"}
    assert "no coin of a proof" in str(ended.errors["A"])


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("verifier", ["A", "B"])
def test_other_last_shares_stop_the_run(verifier, which):
    def change(values: Mapping[str, Any]) -> Mapping[str, Any]:
        last = values["shares"].copy()
        last[which] = (int(last[which]) + 1) % PRIME
        return {"shares": last}

    refused(run(hooks={verifier: partial(on_values, kind="PROOF_END", change=change)}))

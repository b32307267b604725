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


def changing(party: str, kind: str, name: str, change: Callable[[np.ndarray], Any]) -> Any:
    """Return the hooks by which a party changes a copy of an array in its messages of a kind."""

    def changed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        array = values[name].copy()
        with np.errstate(over="ignore"):  # here, in the role's thread
            change(array)
        return {name: array}

    return {party: partial(on_values, kind=kind, change=changed)}


def assert_refused(outcome: Ended) -> None:
    """Check that the coordinator found the proof to fail, that all others heard, and nobody has a result."""
    assert outcome.classes()["C"] == "ProtocolViolation"
    assert "vectors failed" in str(outcome.errors["C"])
    assert outcome.errors.keys() == {"A", "B", "C"}
    assert outcome.results == {}


@pytest.fixture(params=[None, 8])
def width(request, monkeypatch):
    """Let shares travel in as many bytes as they need, or in 8: sums over subsets then have two limbs."""
    if request.param:
        monkeypatch.setattr(session, "width_of", lambda bound: 8)
    return request.param


# ---- honest runs


@pytest.mark.parametrize("n", [3, 4, 41])
def test_honest_runs_give_the_same_coefficients(n, width):
    rng = np.random.default_rng(n)
    tables = {"A": table(x=rng.normal(size=n), t=np.arange(n) // 2), "B": table(y=rng.permutation(n))}
    expected = pooled(*(tables[party].drop(columns="id") for party in "AB"))
    np.testing.assert_allclose(run(tables).result().coefficients.to_numpy(), expected, atol=1e-12)


def test_the_target_proves_to_each_source():
    tables = {**TABLES, "D": table(w=_RNG.normal(size=N))}
    assert run(tables).result().coefficients.shape == (4, 2)


def test_many_blocks_and_bits_of_wide_sums(width):
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
    assert_refused(run())


def shifting(amount: int) -> Any:
    """Return the hooks by which A adds to one of the elements that it shares."""

    def shift(block: np.ndarray) -> None:
        block[0, 0] += np.int64(amount)

    return changing("A", "MASKED", "block", shift)


@pytest.mark.parametrize("amount", [1, -1, 2**15, 2**63 - 1, -(2**63), PRIME])
def test_other_elements_than_those_proved_are_refused(amount, width):
    """One element in the ring is not the one in the field, by any amount that wraps somewhere."""
    outcome = run(hooks=shifting(amount))
    if width is None and amount == -(2**63):  # no change modulo 2^w: nothing is different on the wire
        assert outcome.errors == {}
    else:
        assert_refused(outcome)


def test_an_element_outside_the_table_is_refused(monkeypatch):
    """The source shares and proves n in its first row, counted as n − 1, with the right inverse."""
    illegal = np.array([[N, *range(1 - N, N - 1, 2)][:N]])
    multiply = engine.sharing.multiply_vectors

    def occurrences(statement: Statement, values: np.ndarray) -> np.ndarray:
        return np.bincount(np.minimum(values, N - 1) + N - 1, minlength=len(statement.table))

    def inverses_at(statement: Statement, inverse: np.ndarray, values: np.ndarray) -> np.ndarray:
        # 1/(τ − v) of a legal v gives τ, and τ the inverse of an element that is not in the table
        tau = pow(int(inverse[N - 1]), -1, PRIME)
        extended = [*inverse.tolist(), pow(tau - N, -1, PRIME)]
        return np.array([extended[v + N - 1] for v in values.tolist()])

    def multiply_vectors(run: Any, session: Any, vectors: np.ndarray, *more: Any) -> np.ndarray:
        return multiply(run, session, illegal if run.roster.me.name == "A" else vectors, *more)

    monkeypatch.setattr(proof, "occurrences", occurrences)
    monkeypatch.setattr(proof, "inverses_at", inverses_at)
    monkeypatch.setattr(engine.sharing, "multiply_vectors", multiply_vectors)
    proving(monkeypatch, lambda vectors: illegal)
    assert_refused(run({"A": table(x=_RNG.normal(size=N)), "B": table(y=_RNG.normal(size=N))}))


def test_a_carry_that_is_no_bit_is_refused(monkeypatch):
    """Carries that fit a cell which is p too large in the ring: as elements of the field they are equal."""
    monkeypatch.setattr(session, "width_of", lambda bound: 8)
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

    monkeypatch.setattr(Statement, "subset_sums", subset_sums)
    monkeypatch.setattr(Statement, "carries", carries)
    assert_refused(run(hooks=shifting(PRIME)))


@pytest.mark.parametrize("word", [0, -1])
def test_every_share_counts(word):
    """Of each message one share is another element: the elements, multiplicities, bits, and all rounds."""

    def run_changing(place: int) -> tuple[Ended, int]:
        """Change the message at a place; return the outcome, and how many messages there were."""
        messages = count()

        def change(shares: np.ndarray) -> None:
            if next(messages) == place:
                shares[word] = (int(shares[word]) + 1) % PRIME

        return run(hooks=changing("A", "PROOF_SHARES", "shares", change)), next(messages)

    honest, number = run_changing(-1)
    assert honest.errors == {}
    for place in range(number):
        assert_refused(run_changing(place)[0])


@pytest.mark.parametrize("beyond", [PRIME, -1, 2**63 - 1])
def test_shares_beyond_the_field_are_refused_by_who_receives_them(beyond):
    outcome = run(hooks=changing("A", "PROOF_SHARES", "shares", lambda shares: np.put(shares, 0, beyond)))
    assert outcome.classes() == {"A": "PeerFailed", "B": "ProtocolViolation", "C": "PeerFailed"}
    assert "no element of the field" in str(outcome.errors["B"])


def test_a_cell_changed_passes_one_random_subset_half_of_the_time(monkeypatch):
    """So the number of subsets is what makes the chance small: with one, cheats pass."""
    monkeypatch.setattr(statements, "SUBSETS", 1)
    tables = {"A": table(x=_RNG.normal(size=4)), "B": table(y=_RNG.normal(size=4))}
    passed = sum(not run(tables, hooks=shifting(1)).errors for _ in range(40))
    assert 2 <= passed <= 38  # outside with chance 10^-9


# ---- verifiers that cheat can only stop a run


def test_a_verifier_that_sends_other_coins_stops_the_run():
    def change(coins: np.ndarray) -> None:
        if len(coins) == 1:  # τ and every r
            coins += 2

    assert_refused(run(hooks=changing("B", "PROOF_COINS", "coins", change)))


@pytest.mark.parametrize("coin", [0, 1, PRIME - 1, PRIME, -1])
def test_a_prover_refuses_coins_that_would_show_its_vectors(coin):
    def change(coins: np.ndarray) -> None:
        if len(coins) == 1:
            coins[0] = coin

    outcome = run(hooks=changing("B", "PROOF_COINS", "coins", change))
    assert outcome.classes() == {"A": "ProtocolViolation", "B": "PeerFailed", "C": "PeerFailed"}
    assert "no coin of a proof" in str(outcome.errors["A"])


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("verifier", ["A", "B"])
def test_other_last_shares_stop_the_run(verifier, place):
    def change(shares: np.ndarray) -> None:
        shares[place] = (int(shares[place]) + 1) % PRIME

    assert_refused(run(hooks=changing(verifier, "PROOF_END", "shares", change)))

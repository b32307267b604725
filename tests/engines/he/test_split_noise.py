"""A source's noise under homomorphic encryption: in two parts, of which the target cannot leave out one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.arrays import blocks
from mpc_spearman.engines.he import engine
from mpc_spearman.engines.he.keys import keys_of
from mpc_spearman.engines.he.scheme import PublicKey, SecretKey, Sizes
from mpc_spearman.parties import Role
from support.in_memory import run_in_memory
from support.plans import PROTOCOLS, plan
from support.recording import Recorded
from support.references import table

SCHEMES = ("paillier", "bfv")
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
ROWS, TARGETS, LARGEST = 20, 60, 2**60
RNG = np.random.default_rng(8)


def keys(scheme: str, sizes: Sizes) -> tuple[SecretKey, PublicKey, PublicKey]:
    """Make a key; return it and the public key twice, since each may export only so much."""
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    settings = plan(reveal="strengths", **PROTOCOLS[scheme]).he
    made, read = keys_of(scheme)
    secret = made.generate(settings, sizes)
    one, other = (read.from_bytes(secret.public.to_bytes(), settings, sizes) for _ in range(2))
    return secret, one, other


def multiplied(key: PublicKey, x: np.ndarray, y: np.ndarray, added: Sequence[int] = ()) -> list[bytes]:
    """Return what a target with integers y sends the coordinator, for a source with x."""
    sums = key.products()
    for rows in blocks(x.shape[1], key.rows):
        sums.add(key.encrypt_block(x[:, rows]), y[:, rows])
    return sums.export(added)


def split(key: PublicKey, noise: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the target's part of noise and the coordinator's."""
    for_target = [secrets.randbelow(key.modulus) for _ in range(key.product_residues)]
    return for_target, [sum(both) % key.modulus for both in zip(key.residues(noise), for_target, strict=True)]


@every_scheme
def test_products_get_the_noise_whole_whatever_its_sign_and_size(scheme: str) -> None:
    """Over several columns in a ciphertext, next to products and noise at their bounds."""
    m_source, m_target = 40, 3
    secret, key, _ = keys(scheme, Sizes(ROWS, m_source, m_target, 9, 9, 9 * ROWS, LARGEST))
    x, y = RNG.integers(-9, 10, (m_source, ROWS)), RNG.integers(-9, 10, (m_target, ROWS))
    exact = x @ y.T
    noise = RNG.choice([-1, 0, 1], exact.shape) * RNG.integers(1, LARGEST - 2000, exact.shape)
    noise[:2] = np.clip(np.array([[LARGEST], [-LARGEST]]) - exact[:2], -LARGEST, LARGEST)
    for_target, for_coordinator = split(key, noise)
    raws = multiplied(key, x, y, [-part for part in for_target])
    assert (secret.open_products(raws, for_coordinator) == exact + noise).all()


@every_scheme
def test_a_target_that_omits_noise_gives_the_coordinator_uniform_numbers(scheme: str) -> None:
    """Where the noise is a row of the source's vectors it gives exact products instead."""
    x, y = RNG.integers(-9, 10, (1, ROWS)), RNG.integers(-9, 10, (TARGETS, ROWS))
    noise = RNG.integers(-(2**30), 2**30, (1, TARGETS))
    secret, key, again = keys(scheme, Sizes(ROWS + TARGETS, 1, TARGETS, 2**30, 9, 9 * ROWS + 1, LARGEST))

    as_rows = np.vstack([np.zeros((ROWS, TARGETS), dtype=np.int64), np.eye(TARGETS, dtype=np.int64)]).T
    columns, rows = np.hstack([x, noise]), np.hstack([y, 0 * as_rows[:, ROWS:]])
    assert (secret.open_products(multiplied(key, columns, rows)) == x @ y.T).all()

    for_target, for_coordinator = split(key, noise)
    opened = [
        (value + part) % key.modulus
        for value, part in zip((x @ y.T)[0].tolist(), for_coordinator, strict=True)
    ]
    for one in (for_target, for_coordinator, opened):
        assert stats.kstest([value / key.modulus for value in one], "uniform").pvalue > 1e-9
    read = secret.open_products(multiplied(again, x, y), for_coordinator)[0]
    assert (abs(read.astype(float)) > 2**40).mean() > 0.9


@every_scheme
@pytest.mark.parametrize("reveal", ["strengths", "explained"])
def test_a_run_whose_target_omits_noise_leaves_no_result(
    scheme: str, reveal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends as any other."""
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    receive = engine.receive_noise

    def leave_out(run: Any, key: PublicKey, sources: Any) -> list[int]:
        parts = receive(run, key, sources)
        return [0] * len(parts) if run.roster.me.role is Role.TARGET else parts

    monkeypatch.setattr(engine, "receive_noise", leave_out)
    rows = 300
    tables = {
        party: table(**{f"{party}{i}": RNG.normal(size=rows) for i in range(columns)})
        for party, columns in (("A", 2), ("B", 40))
    }
    its = plan(reveal=reveal, results={"precision": "statistical", "sources": "nothing"}, **PROTOCOLS[scheme])
    ended = run_in_memory(its, tables)
    found = ended.result("C").explained["r2"] if reveal == "explained" else ended.result("C").strengths
    assert (found.isna() | (found.abs() > 2)).mean() > 0.7
    assert any("impossible" in line or "cannot" in line for line in ended.result("C").warnings)


@every_scheme
def test_both_parts_of_the_noise_travel_as_uniform_numbers(scheme: str) -> None:
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    tables = {
        "A": table(a=RNG.normal(size=60), b=RNG.normal(size=60)),
        "B": table(**{f"b{i}": RNG.normal(size=60) for i in range(TARGETS)}),
    }
    run = Recorded(
        tables,
        reveal="strengths",
        results={"precision": "statistical", "target": "nothing", "sources": "nothing"},
        **PROTOCOLS[scheme],
    )
    (to_b,), (to_c,) = (run.transcript.payloads(peer, "A", "NOISE") for peer in "BC")
    width = len(to_b) // TARGETS
    parts = [
        [int.from_bytes(raw[at : at + width], "big") for at in range(0, len(raw), width)]
        for raw in (to_b, to_c)
    ]
    modulus = max(map(max, parts))
    for part in parts:
        assert stats.kstest([value / modulus for value in part], "uniform").pvalue > 1e-9

"""A source's noise under homomorphic encryption: in two parts, of which the target cannot leave out one."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.engines.computation import Bounds
from mpc_spearman.engines.he import engine
from mpc_spearman.engines.he.engine import keys_of
from mpc_spearman.engines.he.scheme import PublicKey, SecretKey, Sizes
from mpc_spearman.parties import Role
from support.he_parties import multiplied, products
from support.in_memory import run_in_memory
from support.plans import PROTOCOLS, plan
from support.recording import Recorded
from support.references import table

ROWS, TARGETS, LARGEST = 20, 60, 2**60
RNG = np.random.default_rng(8)


@pytest.fixture(params=["paillier", "bfv"])
def scheme(request) -> str:
    if request.param == "bfv":
        pytest.importorskip("tenseal")
    return request.param


def keys(scheme: str, sizes: Sizes) -> tuple[SecretKey, PublicKey, PublicKey]:
    """Make a key; return it and the public key twice, since each may export only so much."""
    settings = plan(reveal="strengths", **PROTOCOLS[scheme]).he
    of_secret, of_public = keys_of(scheme)
    secret = of_secret.generate(settings, sizes)
    one, two = (of_public.from_bytes(secret.public.to_bytes(), settings, sizes) for _ in range(2))
    return secret, one, two


def split(key: PublicKey, noise: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the target's part of noise and the coordinator's."""
    for_target = [secrets.randbelow(key.modulus) for _ in range(key.product_residues)]
    return for_target, [(e + r) % key.modulus for e, r in zip(key.residues(noise), for_target, strict=True)]


def test_products_get_the_noise_whole_whatever_its_sign_and_size(scheme):
    """Over several columns in a ciphertext, next to products and noise at their bounds."""
    m_source, m_target = 40, 3
    secret, key, _ = keys(scheme, Sizes(ROWS, m_source, m_target, Bounds(9, 9, 9 * ROWS, LARGEST)))
    x, y = RNG.integers(-9, 10, (m_source, ROWS)), RNG.integers(-9, 10, (m_target, ROWS))
    exact = x @ y.T
    noise = RNG.choice([-1, 0, 1], exact.shape) * RNG.integers(1, LARGEST - 2000, exact.shape)
    noise[:2] = np.clip(np.array([[LARGEST], [-LARGEST]]) - exact[:2], -LARGEST, LARGEST)
    for_target, for_coordinator = split(key, noise)
    raws = multiplied(key, x, y, [-part for part in for_target])
    assert (secret.decrypt_products(raws, for_coordinator) == exact + noise).all()


def test_a_target_that_omits_noise_gives_the_coordinator_uniform_numbers(scheme):
    """Where the noise is a row of the source's vectors it gives exact products instead."""
    x, y = RNG.integers(-9, 10, (1, ROWS)), RNG.integers(-9, 10, (TARGETS, ROWS))
    noise = RNG.integers(-(2**30), 2**30, (1, TARGETS))
    bounds = Bounds(2**30, 9, 9 * ROWS + 1, LARGEST)
    secret, key, again = keys(scheme, Sizes(ROWS + TARGETS, 1, TARGETS, bounds))

    columns, without_noise = np.hstack([x, noise]), np.hstack([y, np.zeros((TARGETS, TARGETS), int)])
    assert (products(secret, multiplied(key, columns, without_noise)) == x @ y.T).all()

    for_target, for_coordinator = split(key, noise)
    products_and_part = zip((x @ y.T)[0].tolist(), for_coordinator, strict=True)
    opened = [(value + part) % key.modulus for value, part in products_and_part]
    for residues in (for_target, for_coordinator, opened):
        assert stats.kstest([value / key.modulus for value in residues], "uniform").pvalue > 1e-9
    read = secret.decrypt_products(multiplied(again, x, y), for_coordinator)[0]
    assert (abs(read.astype(float)) > 2**40).mean() > 0.9


@pytest.mark.parametrize("reveal", ["strengths", pytest.param("explained", marks=pytest.mark.long)])
def test_a_run_whose_target_omits_noise_leaves_no_result(scheme, reveal, monkeypatch):
    """The run ends as any other."""
    receive = engine.receive_noise

    def leave_out(run: Any, key: PublicKey, sources: Any) -> list[int]:
        parts = receive(run, key, sources)
        return [0] * len(parts) if run.roster.me.role is Role.TARGET else parts

    monkeypatch.setattr(engine, "receive_noise", leave_out)
    tables = {
        party: table(**{f"{party}{i}": RNG.normal(size=300) for i in range(columns)})
        for party, columns in (("A", 2), ("B", 40))
    }
    results = {"precision": "statistical", "sources": "nothing"}
    result = run_in_memory(plan(reveal=reveal, results=results, **PROTOCOLS[scheme]), tables).result("C")
    numbers = result.explained["r2"] if reveal == "explained" else result.strengths
    assert (numbers.isna() | (numbers.abs() > 2)).mean() > 0.7
    assert any("impossible" in line or "cannot" in line for line in result.warnings)


def test_both_parts_of_the_noise_travel_as_uniform_numbers(scheme):
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
        [int.from_bytes(raw[start : start + width], "big") for start in range(0, len(raw), width)]
        for raw in (to_b, to_c)
    ]
    modulus = max(map(max, parts))
    for part in parts:
        assert stats.kstest([value / modulus for value in part], "uniform").pvalue > 1e-9

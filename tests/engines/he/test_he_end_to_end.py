"""Whole runs of the homomorphic protocol: exact results, and what crosses the wire."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.engines.differences import Squares
from mpc_spearman.engines.he.paillier import arithmetic
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.reference import reference
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.faults import on_values, with_links
from support.in_memory import run_in_memory
from support.plans import PROTOCOLS, SCHEMES, SMALL, plan
from support.recording import FEATURES, GRANTS, TABLES, Recorded, encoded
from support.references import tolerance, ulps


@pytest.fixture(params=SCHEMES)
def scheme(request) -> str:
    if request.param == "bfv":
        pytest.importorskip("tenseal")
    return request.param


def run(tables: Any, level: str, estimator: str, **settings: Any) -> Result:
    return run_in_memory(plan(reveal=level, estimator=estimator, **settings), tables).result()


def assert_exact(tables: dict[str, pd.DataFrame], level: str, estimator: str, **settings: Any) -> None:
    """Run the roles, and compare their result with the plaintext's."""
    result = run(tables, level, estimator, **settings)
    frames = {party: table.drop(columns="id") for party, table in tables.items()}
    expected = reference({"A": frames["A"]}, frames["B"], estimator=estimator)
    if level != "strengths":
        assert ulps(result.coefficients.to_numpy(), expected.coefficients.to_numpy()) <= 2
        if estimator == "paper":  # one correctly rounded division: the integers are the same
            assert result.coefficients.equals(expected.coefficients)
    gap = (result.strengths - expected.strengths).abs().max()
    assert gap < tolerance(level, [tables["A"]], estimator)
    assert result.counts.tolist() == expected.counts.tolist()
    assert result.ranking["feature"].tolist() == expected.ranking["feature"].tolist()


# Each scheme at each level, and each estimator at each level, in the short run.
SHORT = {
    ("paillier", "differences", "paper"),
    ("paillier", "coefficients", "tie_corrected"),
    ("paillier", "strengths", "paper"),
    ("bfv", "differences", "tie_corrected"),
    ("bfv", "coefficients", "paper"),
    ("bfv", "strengths", "tie_corrected"),
}
EVERYTHING = [(scheme, *run) for scheme in SCHEMES for run in GRANTS]


@pytest.mark.parametrize(
    ("scheme", "level", "estimator"),
    [pytest.param(*case, marks=() if case in SHORT else pytest.mark.long) for case in EVERYTHING],
    indirect=["scheme"],
)
def test_every_level_and_estimator(scheme: str, level: str, estimator: str) -> None:
    # 1501 rows: no multiple of any slot count, with ties and a constant column.
    assert_exact(TABLES, level, estimator, **PROTOCOLS[scheme])


@pytest.mark.parametrize("level", ["coefficients", "differences"])
def test_one_feature_a_side(scheme: str, level: str) -> None:
    tables = {"A": TABLES["A"][["id", "source_income"]], "B": TABLES["B"][["id", "target_smoker"]]}
    assert_exact(tables, level, "tie_corrected", **PROTOCOLS[scheme])


def test_the_papers_form_is_exact() -> None:
    settings = SMALL | {"form": "literal", "workers": 2}
    tables = {party: table[:40] for party, table in TABLES.items()}
    assert_exact(tables, "differences", "paper", protocol="he", he=settings)


def test_small_keys_come_with_a_warning() -> None:
    tables = {party: table[:30] for party, table in TABLES.items()}
    result = run(tables, "strengths", "paper", protocol="he", he=SMALL)
    assert any(f"{SMALL['key_bits']} bits can be broken" in warning for warning in result.warnings)


def encrypted(tables: Any, scheme: str, level: str) -> Recorded:
    return Recorded(tables, **PROTOCOLS[scheme], reveal=level)


def test_no_secret_prime_is_sent_or_written(monkeypatch: pytest.MonkeyPatch) -> None:
    generate, primes = arithmetic.generate, []

    def noted_generate(bits: int, *, short: bool) -> Any:
        secret, public = generate(bits, short=short)
        primes.extend((int(secret._p), int(secret._q)))
        return secret, public

    monkeypatch.setattr(arithmetic, "generate", noted_generate)
    run_of = encrypted(TABLES, "paillier", "differences")
    n = primes[0] * primes[1]
    forms = [
        prime.to_bytes(prime.bit_length() // 8 + 1, order).strip(b"\0")
        for prime in primes
        for order in ("big", "little")
    ]
    forms += [str(prime).encode() for prime in primes]
    sent = b"".join(message.payload for message in run_of.transcript.messages)
    assert n.to_bytes(SMALL["key_bits"] // 8, "big") in sent  # what is looked for in this way is found
    places = (run_of.directory / "record", run_of.out)
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files)
    assert len(written) > len(sent)
    for form in forms:
        assert form not in sent
        assert form not in written


def test_lengths_depend_on_public_sizes_only_and_nothing_repeats(scheme: str) -> None:
    rng = np.random.default_rng(1)
    permuted = {
        party: table.assign(**{name: rng.permutation(len(table)) for name in FEATURES[party]})
        for party, table in TABLES.items()
    }
    runs = [encrypted(tables, scheme, "coefficients").transcript for tables in (TABLES, permuted, TABLES)]
    for link in (("B", "A", "CIPHERTEXT"), ("C", "B", "EVALUATED"), ("A", "C", "PUBLIC_KEY")):
        first, second, again = (run.payloads(*link) for run in runs)
        assert first
        assert [*map(len, first)] == [*map(len, second)] == [*map(len, again)]
        # the same tables: fresh keys and fresh randomness
        assert not any(a == b for a, b in zip(first, again, strict=True))
    if scheme == "paillier":
        size = 2 * SMALL["key_bits"] // 8
        batch = b"".join(payload[32:] for payload in runs[0].payloads("B", "A", "CIPHERTEXT"))
        ciphertexts = [batch[start : start + size] for start in range(0, len(batch), size)]
        assert len(set(ciphertexts)) == len(ciphertexts)  # equal ranks among them


@pytest.mark.parametrize("form", ["literal", "packed"])
def test_differences_share_no_randomness_but_in_the_papers_form(form: str) -> None:
    tables = {"A": TABLES["A"].iloc[:6, :3], "B": TABLES["B"].iloc[:6, :2]}
    run = Recorded(tables, protocol="he", he=SMALL | {"form": form}, reveal="differences").transcript
    n = int.from_bytes(run.payloads("A", "C", "PUBLIC_KEY")[0][4:][: SMALL["key_bits"] // 8], "big")

    def ciphertexts(receiver: str, sender: str, kind: str) -> list[list[int]]:
        size, batch = SMALL["key_bits"] // 4, run.payloads(receiver, sender, kind)[0][32:]
        numbers = [int.from_bytes(batch[start : start + size], "big") for start in range(0, len(batch), size)]
        return [numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]]

    # Enc(a_1 − b) Enc(a_2) = Enc(a_2 − b) Enc(a_1) if both differences are from the same Enc(b).
    a, leaving = ciphertexts("B", "A", "CIPHERTEXT"), ciphertexts("C", "B", "EVALUATED")
    shared = [(d * y - e * x) % n**2 == 0 for x, y, d, e in zip(*a, *leaving, strict=True)]
    assert shared == [form == "literal"] * (6 if form == "literal" else 1)


def test_the_coordinator_sees_rows_in_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    add, blocks = Squares.add_basis, []

    def noted_add(self: Squares, opened: np.ndarray) -> None:
        blocks.append(opened.ravel())
        add(self, opened)

    monkeypatch.setattr(Squares, "add_basis", noted_add)
    encrypted(TABLES, "paillier", "differences")
    opened = np.concatenate(blocks)
    a, b = encoded(TABLES["A"]), encoded(TABLES["B"])
    first = opened[: 2 * 30]  # of the first block: the first of a_p − b_1
    straight = (a[0] - b[0])[: len(first)]
    assert not np.array_equal(first, straight)
    everything = np.vstack([a - b[0], b[1:] - b[0]])
    assert sorted(np.unique(opened)) == sorted(np.unique(everything))


@pytest.mark.parametrize("level", ["differences", "coefficients"])
def test_a_damaged_ciphertext_leaves_nan_and_says_so(scheme: str, level: str) -> None:
    class Damaging(Links):
        """Change some bytes of each ciphertext, high bits among them, before the link encrypts it.

        A value that was damaged is random, and one in a few of them could be a sum of products of ranks.
        """

        def send(self, peer: Party, kind: Kind, values: Mapping[str, Any], **more: Any) -> None:
            if kind is Kind.EVALUATED:
                batch, size = bytearray(values["batch"]), more["sizes"]["result_bytes"]
                for start in range(size * 7 // 8, len(batch), size):
                    batch[start : start + 8] = bytes(byte ^ 1 for byte in batch[start : start + 8])
                values = {**values, "batch": bytes(batch)}
            super().send(peer, kind, values, **more)

    hooks = {"B": partial(with_links, links=Damaging)}
    result = run_in_memory(plan(**PROTOCOLS[scheme], reveal=level), TABLES, hooks).result()
    constant = [[len(set(column)) == 1 for column in encoded(TABLES[party])] for party in "AB"]
    assert (result.coefficients.isna().to_numpy() & ~np.logical_or.outer(*constant)).any()
    assert any("a value was opened that ranks cannot give" in line for line in result.warnings)


@pytest.mark.parametrize(("party", "kind"), [("A", "CIPHERTEXT"), ("B", "EVALUATED")])
def test_ciphertexts_that_name_another_key_are_refused(party: str, kind: str) -> None:
    hook = partial(on_values, kind=kind, change=lambda values: {**values, "key": bytes(32)})
    outcome = run_in_memory(plan(reveal="coefficients", **PROTOCOLS["paillier"]), TABLES, {party: hook})
    assert not outcome.results
    assert type(outcome.errors[{"A": "B", "B": "C"}[party]]) is ProtocolViolation

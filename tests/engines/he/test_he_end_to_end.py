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

every_scheme = pytest.mark.parametrize("scheme", list(SCHEMES))


def he(tables: Any, level: str, estimator: str, scheme: str, **settings: Any) -> Result:
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    return run(tables, level, estimator, **PROTOCOLS[scheme], **settings)


def run(tables: Any, level: str, estimator: str, **settings: Any) -> Result:
    return run_in_memory(plan(reveal=level, estimator=estimator, **settings), tables).result()


def agrees(result: Result, tables: dict[str, pd.DataFrame], level: str, estimator: str) -> None:
    expected = reference(
        {"A": tables["A"].drop(columns="id")}, tables["B"].drop(columns="id"), estimator=estimator
    )
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
)
def test_every_level_and_estimator(scheme: str, level: str, estimator: str) -> None:
    # 1501 rows: no multiple of any slot count, with ties and a constant column.
    agrees(he(TABLES, level, estimator, scheme), TABLES, level, estimator)


@every_scheme
@pytest.mark.parametrize("level", ["coefficients", "differences"])
def test_one_feature_a_side(scheme: str, level: str) -> None:
    tables = {"A": TABLES["A"][["id", "source_income"]], "B": TABLES["B"][["id", "target_smoker"]]}
    agrees(he(tables, level, "tie_corrected", scheme), tables, level, "tie_corrected")


@pytest.mark.parametrize("form", ["literal", pytest.param("packed", marks=pytest.mark.long)])
def test_both_forms_agree(form: str) -> None:
    settings = SMALL | {"form": form, "workers": 2}
    tables = {party: table[:40] for party, table in TABLES.items()}
    agrees(run(tables, "differences", "paper", protocol="he", he=settings), tables, "differences", "paper")


def test_2048_bits_and_small_keys_come_with_a_warning() -> None:
    tables = {party: table[:30] for party, table in TABLES.items()}
    result = run(tables, "strengths", "paper", protocol="he", he={"key_bits": 2048, "randomness": "short"})
    assert any("2048" in warning for warning in result.warnings)
    small = run(tables, "strengths", "paper", protocol="he", he=SMALL)
    assert any(str(SMALL["key_bits"]) in warning for warning in small.warnings)


def encrypted(tables: Any, scheme: str, level: str) -> Recorded:
    return Recorded(tables, **PROTOCOLS[scheme], reveal=level)


def test_no_secret_prime_is_sent_or_written(monkeypatch: pytest.MonkeyPatch) -> None:
    generate, primes = arithmetic.generate, []

    def kept(*given: Any, **more: Any) -> Any:
        secret, public = generate(*given, **more)
        primes.extend((int(secret._p), int(secret._q)))
        return secret, public

    monkeypatch.setattr(arithmetic, "generate", kept)
    run_of = encrypted(TABLES, "paillier", "differences")
    n = primes[0] * primes[1]
    forms = [
        prime.to_bytes(prime.bit_length() // 8 + 1, order).strip(b"\0")
        for prime in primes
        for order in ("big", "little")
    ]
    forms += [str(prime).encode() for prime in primes]
    said = b"".join(message.payload for message in run_of.transcript.messages)
    assert n.to_bytes(SMALL["key_bits"] // 8, "big") in said  # what is looked for in this way is found
    places = (run_of.directory / "record", run_of.out)
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files)
    assert len(written) > len(said)
    for form in forms:
        assert form not in said
        assert form not in written


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_lengths_depend_on_public_sizes_only_and_nothing_repeats(scheme: str) -> None:
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    rng = np.random.default_rng(1)
    other = {
        party: table.assign(**{name: rng.permutation(len(table)) for name in FEATURES[party]})
        for party, table in TABLES.items()
    }
    one, two, again = (
        encrypted(tables, scheme, "coefficients").transcript for tables in (TABLES, other, TABLES)
    )
    for receiver, sender, kind in (
        ("B", "A", "CIPHERTEXT"),
        ("C", "B", "EVALUATED"),
        ("A", "C", "PUBLIC_KEY"),
    ):
        sizes = [
            [len(payload) for payload in run.payloads(receiver, sender, kind)] for run in (one, two, again)
        ]
        assert sizes[0]
        assert sizes[0] == sizes[1] == sizes[2]
        for a, b in zip(
            one.payloads(receiver, sender, kind), again.payloads(receiver, sender, kind), strict=True
        ):
            assert a != b  # the same tables: fresh keys and fresh randomness
    if scheme == "paillier":
        size = 2 * SMALL["key_bits"] // 8
        batch = b"".join(payload[32:] for payload in one.payloads("B", "A", "CIPHERTEXT"))
        ciphertexts = [batch[start : start + size] for start in range(0, len(batch), size)]
        assert len(set(ciphertexts)) == len(ciphertexts)  # equal ranks among them


@pytest.mark.parametrize("form", ["literal", "packed"])
def test_differences_share_no_randomness_but_in_the_papers_form(form: str) -> None:
    tables = {"A": TABLES["A"].iloc[:6, :3], "B": TABLES["B"].iloc[:6, :2]}
    its = Recorded(tables, protocol="he", he=SMALL | {"form": form}, reveal="differences").transcript
    n = int.from_bytes(its.payloads("A", "C", "PUBLIC_KEY")[0][4:][: SMALL["key_bits"] // 8], "big")

    def ciphertexts(receiver: str, sender: str, kind: str) -> list[list[int]]:
        size, batch = SMALL["key_bits"] // 4, its.payloads(receiver, sender, kind)[0][32:]
        numbers = [int.from_bytes(batch[at : at + size], "big") for at in range(0, len(batch), size)]
        return [numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]]

    # Enc(a_1 − b) Enc(a_2) = Enc(a_2 − b) Enc(a_1) if both differences are from the same Enc(b).
    a, left = ciphertexts("B", "A", "CIPHERTEXT"), ciphertexts("C", "B", "EVALUATED")
    same = [(d * y - e * x) % n**2 == 0 for x, y, d, e in zip(*a, *left, strict=True)]
    assert same == [form == "literal"] * (6 if form == "literal" else 1)


def test_the_coordinator_sees_rows_in_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    add, seen = Squares.add_basis, []

    def kept(self: Squares, opened: np.ndarray) -> None:
        seen.append(opened.ravel())
        add(self, opened)

    monkeypatch.setattr(Squares, "add_basis", kept)
    encrypted(TABLES, "paillier", "differences")
    opened = np.concatenate(seen)
    a, b = encoded(TABLES["A"]), encoded(TABLES["B"])
    first = opened[: 2 * 30]  # of the first block: the first of a_p − b_1
    straight = (a[0] - b[0])[: len(first)]
    assert not np.array_equal(first, straight)
    everything = np.vstack([a - b[0], b[1:] - b[0]])
    assert sorted(np.unique(opened)) == sorted(np.unique(everything))


@pytest.mark.parametrize(
    ("scheme", "level"), [(scheme, level) for scheme in SCHEMES for level in ("differences", "coefficients")]
)
def test_a_damaged_ciphertext_leaves_nan_and_says_so(scheme: str, level: str) -> None:
    if scheme == "bfv":
        pytest.importorskip("tenseal")

    class Damaging(Links):
        """Change some bytes of each ciphertext, high bits among them, before the link encrypts it.

        A value that was damaged is random, and one in a few of them could be a sum of products of ranks.
        """

        def send(self, peer: Party, kind: Kind, values: Mapping[str, Any], **more: Any) -> None:
            if kind is Kind.EVALUATED:
                batch, size = bytearray(values["batch"]), more["sizes"]["result_bytes"]
                for at in range(size * 7 // 8, len(batch), size):
                    batch[at : at + 8] = bytes(byte ^ 1 for byte in batch[at : at + 8])
                values = {**values, "batch": bytes(batch)}
            super().send(peer, kind, values, **more)

    its = plan(**PROTOCOLS[scheme], reveal=level)
    ended = run_in_memory(its, TABLES, {"B": partial(with_links, links=Damaging)})
    assert not ended.errors
    result = ended.results["C"]
    constant = [[len(set(column)) == 1 for column in encoded(TABLES[party])] for party in "AB"]
    assert (result.coefficients.isna().to_numpy() & ~np.logical_or.outer(*constant)).any()
    assert any("a value was opened that ranks cannot give" in line for line in result.warnings)


@pytest.mark.parametrize(("party", "kind"), [("A", "CIPHERTEXT"), ("B", "EVALUATED")])
def test_ciphertexts_that_name_another_key_are_refused(party: str, kind: str) -> None:
    hook = partial(on_values, kind=kind, change=lambda values: {**values, "key": bytes(32)})
    its = plan(reveal="coefficients", **PROTOCOLS["paillier"])
    ended = run_in_memory(its, TABLES, {party: hook})
    assert not ended.results
    finder = {"A": "B", "B": "C"}[party]
    assert type(ended.errors[finder]) is ProtocolViolation

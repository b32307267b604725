"""What several sources add to who receives what: a session each, what each receives about all sources, and,
at ``strengths``, one sum over both in which neither's part can be seen.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import HeSettings
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.engines.he.engine import keys_of
from mpc_spearman.engines.he.scheme import Sizes
from support.recording import (
    FEATURES,
    GRANTS_OF_SEVERAL,
    M_A,
    M_B,
    M_D,
    SEVERAL,
    TABLES,
    N,
    Recorded,
    encoded,
    recorded_of_several,
)
from support.references import encoding_for
from support.uniform import signs_of_pattern
from support.views import contents, everything

SOURCES = ("A", "D")

pytestmark = pytest.mark.xdist_group("recordings")
every_run = pytest.mark.parametrize(("level", "estimator"), list(GRANTS_OF_SEVERAL))


@every_run
def test_all_parties_receive_how_many_features_are_not_constant(level, estimator):
    run = recorded_of_several(level, estimator)
    for owner, defined in {"A": M_A - 1, "D": M_D, "B": M_B}.items():
        for receiver in (party for party in "CBAD" if party != owner):
            assert dict(contents(run, receiver, owner))["COLUMNS"] == {"defined": defined}
    count = M_A + M_D if estimator == "paper" else M_A - 1 + M_D
    assert run.results["C"].counts.tolist() == [count] * M_B


@every_run
def test_every_session_has_keys_of_its_own(level, estimator):
    transcript = recorded_of_several(level, estimator).transcript
    seen = set()
    for source in SOURCES:
        pairs = {"C" + source: ("mask", "zero"), "B" + source: ("digest", "zero"), "BC": ("mask", "zero")}
        if level == "differences":
            pairs["B" + source] += ("shuffle",)
        for (one, other), purposes in pairs.items():
            for purpose in purposes:
                key = transcript.subkey("".join(sorted(one + other)), purpose, source)
                assert transcript.keys(one)[other, purpose, source] == key
                assert transcript.keys(other)[one, purpose, source] == key
                seen.add(key)
    assert len(seen) == sum(map(len, pairs.values())) * len(SOURCES)
    between = [(purpose, name) for peer, purpose, name in transcript.keys("A") if peer == "D" and purpose]
    assert sorted(between) == [("confirm", "A"), ("confirm", "D")]


def test_rows_are_shuffled_anew_for_every_source():
    transcript = recorded_of_several("differences", "paper").transcript
    orders = [
        transcript.stream("".join(sorted("B" + source)), "shuffle", source).permutation(N)
        for source in SOURCES
    ]
    y = encoded(TABLES["B"])
    opened = [sum(_openings(transcript, party, source) for party in ("C", "B", source)) for source in SOURCES]
    for source, order, basis in zip(SOURCES, orders, opened, strict=True):
        x = encoded(SEVERAL[source])
        assert np.array_equal(basis, np.vstack([x - y[0], y[1:] - y[0]])[:, order])
    assert not (orders[0] == orders[1]).all()


def _openings(transcript, party: str, source: str) -> np.ndarray:
    """What a party gave to CrypTen's reveal in one source's session."""
    tensors = transcript.tensors(party, "opening")
    columns = len(FEATURES[source]) + M_B - 1
    return np.hstack([tensor for tensor in tensors if len(tensor) == columns])


# ---- strengths: one sum, and no source's part ----

WIDE_B, WIDE_N = 1_024, 60


@cache
def wide(repeat: int = 0) -> Recorded:
    """A run of two sources against as many target columns as it takes to tell noise from data."""
    rng = np.random.default_rng(8)
    ids = [f"{i:03d}" for i in range(WIDE_N)]
    tables = {
        name: pd.DataFrame({"id": ids} | {f"{name}{i}": rng.normal(size=WIDE_N) for i in range(columns)})
        for name, columns in (("A", 3), ("D", 2), ("B", WIDE_B))
    }
    return Recorded(tables, reveal="strengths", results={"target": "nothing"})


class Wide:
    """A wide run's values, from the tables and from keys derived here."""

    def __init__(self, run: Recorded) -> None:
        transcript = run.transcript
        ranks = {
            party: rank_columns([table[name].to_numpy() for name in table.columns[1:]])
            for party, table in run.tables.items()
        }
        encoding = encoding_for([run.tables[source] for source in SOURCES], "tie_corrected")
        self.y = encoding.column_vectors(ranks["B"])
        self.sent = {party: run.shares(party) for party in ("A", "D", "B")}
        self.values, self.of_coordinator, self.expected = {}, {}, {"B": np.zeros(WIDE_B, np.int64)}
        for source in SOURCES:
            x = encoding.source_vector(ranks[source])[0]
            keys = {pair: "".join(sorted(pair)) for pair in ("B" + source, "C" + source, "BC")}
            zero = {p: transcript.stream(keys[p], "zero", source).ring(WIDE_B) for p in keys}
            r = transcript.stream(keys["C" + source], "mask", source).ring(WIDE_N)
            u = transcript.stream("BC", "mask", source).ring(WIDE_B, WIDE_N)
            self.values[source] = x @ self.y.T
            self.of_coordinator[source] = r @ u.T + zero["C" + source] - zero["BC"]
            self.expected[source] = x @ (self.y - u).T + zero["B" + source] - zero["C" + source]
            self.expected["B"] = self.expected["B"] + (x - r) @ u.T + zero["BC"] - zero["B" + source]


def test_each_share_is_masked_by_a_stream_that_the_coordinator_lacks():
    wide_run = Wide(wide())
    for party in ("A", "D", "B"):
        assert np.array_equal(wide_run.sent[party], wide().reduced(wide_run.expected[party]))
    held = b"".join(wide().transcript.keys("C").values())
    for source in SOURCES:
        assert wide().transcript.subkey("".join(sorted("B" + source)), "zero", source) not in held


def test_the_coordinator_cannot_see_one_sources_part():
    """All three shares together give the total; whatever else it adds up is noise, true values taken off."""
    wide_run = Wide(wide())
    of_coordinator = sum(wide_run.of_coordinator.values())
    total = sum(wide_run.values.values())
    assert np.array_equal(wide().reduced(sum(wide_run.sent.values()) + of_coordinator), total)
    for count in (1, 2):
        for parties in combinations(wide_run.sent, count):
            partial = sum(wide_run.sent[party] for party in parties)
            for stripped in (0, of_coordinator, *wide_run.of_coordinator.values()):
                for true in (0, total, *wide_run.values.values()):
                    assert signs_of_pattern(partial + stripped - true, wide().width) == [], parties


@pytest.mark.long
def test_two_runs_on_the_same_data_send_other_shares():
    first, second = Wide(wide(0)), Wide(wide(1))
    assert np.array_equal(sum(first.values.values()), sum(second.values.values()))
    for party in first.sent:
        assert (first.sent[party] != second.sent[party]).all()
        assert signs_of_pattern(first.sent[party] - second.sent[party], wide().width) == []


# ---- homomorphic encryption ----


@cache
def encrypted(level: str) -> Recorded:
    pytest.importorskip("tenseal")
    return Recorded(
        SEVERAL,
        protocol="he",
        he={"scheme": "bfv"},
        reveal=level,
        results={"target": "nothing", "sources": "nothing"},
    )


@pytest.mark.parametrize("level", ["strengths", "coefficients"])
def test_the_messages_of_the_homomorphic_protocol(level):
    transcript = encrypted(level).transcript
    keys = 1 if level == "strengths" else len(SOURCES)
    first = ["HELLO", "CONFIRM", "SHAPE", "COLUMNS"]
    expected = {
        ("C", "B"): [*first, "DESCRIPTION", "EVALUATED", "COST", "FAREWELL"],
        ("B", "C"): ["HELLO", "CONFIRM", "PUBLIC_KEY", "RECORD", "FAREWELL"],
        **{pair: [*first, "FAREWELL"] for pair in permutations(SOURCES)},
    }
    for source in SOURCES:
        expected["C", source] = [*first, "DESCRIPTION", "COST", "FAREWELL"]
        expected[source, "C"] = ["HELLO", "CONFIRM", "PUBLIC_KEY", "RECORD", "FAREWELL"]
        aligned = [*first[:-1], "ALIGNMENT", "COLUMNS"]
        expected[source, "B"] = [*aligned, "FAREWELL"]
        expected["B", source] = [*aligned, "CIPHERTEXT", "FAREWELL"]
    for (receiver, sender), kinds in expected.items():
        seen = [message.kind for message in transcript.received(receiver, sender)]
        assert list(dict.fromkeys(seen)) == kinds, (receiver, sender)
    assert len(transcript.payloads("B", "C", "PUBLIC_KEY")) == keys
    # with a session each, a key each; for one sum, one key
    public_keys = [transcript.payloads(source, "C", "PUBLIC_KEY")[0] for source in SOURCES]
    assert (public_keys[0] == public_keys[1]) == (level == "strengths")
    assert list(dict.fromkeys(public_keys)) == transcript.payloads("B", "C", "PUBLIC_KEY")


def test_the_coordinator_gets_ciphertexts_of_one_sum_and_no_peers_names():
    """As many as there are for a single source: with two, those of each would be twice as many."""
    transcript = encrypted("strengths").transcript
    sent = sum(len(payload) - 32 for payload in transcript.payloads("C", "B", "EVALUATED"))
    encoding = encoding_for(map(SEVERAL.get, SOURCES), "tie_corrected")
    bounds = replace(encoding.bounds, target_sum=encoding.bounds.target_sum * len(SOURCES))
    sizes = Sizes(N * len(SOURCES), 1, M_B, bounds)
    raw = transcript.payloads("B", "C", "PUBLIC_KEY")[0][4:]
    public = keys_of("bfv")[1].from_bytes(raw, HeSettings(scheme="bfv"), sizes)
    layout = public.parameters.layout
    assert public.product_ciphertexts == layout.moduli * M_B
    assert sent == public.product_ciphertexts * public.result_ciphertext_bytes
    for party, owners in {"A": "DB", "D": "AB", "B": "AD", "C": "AD"}.items():
        seen = everything(encrypted("strengths"), party)
        assert not [name for owner in owners for name in FEATURES[owner] if name.encode() in seen]

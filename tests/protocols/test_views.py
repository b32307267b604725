"""Who received what: every byte of recorded runs, held against expectations written out here.

Of masks see test_masks.py, of attacks test_attacks.py, of what several sources add test_several_views.py.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.errors import NotRevealed
from mpc_spearman.levels.view import VIEW
from mpc_spearman.statistics.columns import Columns, rounded
from mpc_spearman.statistics.reference import reference
from mpc_spearman.wire.kinds import Kind
from support.recorder import plain
from support.recording import (
    FEATURES,
    GRANTS,
    GRANTS_OF_SEVERAL,
    M_B,
    TABLES,
    N,
    every_run,
    recorded,
    recorded_of_several,
    tie_terms,
)
from support.references import ranked_alike, tolerance
from support.transcript import PARTIES
from support.views import contents, everything

#: What whoever has coefficients has beside them, by the name of the part.
MATRICES = ("coefficients", "columns", "pvalues", "intervals", "qvalues")

pytestmark = pytest.mark.xdist_group("recordings")


every_recording = pytest.mark.parametrize(
    ("made", "level", "estimator"),
    [*((recorded, *run) for run in GRANTS), *((recorded_of_several, *run) for run in GRANTS_OF_SEVERAL)],
)


@every_recording
def test_nothing_arrives_that_is_not_listed(made, level, estimator):
    """Nor does the table of who learns what list a message that does not arrive."""
    run = made(level, estimator)
    roles = {party.name: party.role for party in run.plan.roster("A").parties}
    for receiver, sender in permutations(run.plan.names, 2):
        arrived = {kind for kind, _ in contents(run, receiver, sender)}
        ends = (roles[sender], roles[receiver])
        allowed = {kind.name for kind in Kind if VIEW.fields(run.plan.terms, kind, *ends) is not None}
        assert allowed - {"KEEPALIVE", "ABORT"} == arrived


@every_recording
def test_both_ends_of_a_link_record_and_read_the_same_bytes(made, level, estimator):
    run = made(level, estimator)
    transcript = run.transcript
    for receiver in run.plan.names:
        read = transcript.read_by(receiver)
        for sender in (party for party in run.plan.names if party != receiver):
            sent = transcript.raw(receiver, sender, at=sender)
            assert transcript.raw(receiver, sender, at=receiver) == sent
            received = [(kind, plain(values)) for kind, values in contents(run, receiver, sender)]
            assert [(kind, values) for name, kind, values in read if name == sender] == received


@every_run
def test_metadata_are_what_the_tables_say(level, estimator):
    run = recorded(level, estimator)
    constant = {party: [len(set(TABLES[party][name])) == 1 for name in FEATURES[party]] for party in "AB"}
    expected = {
        party: {
            "names": FEATURES[party],
            "nominal": [""] * len(FEATURES[party]),
            "ties": tie_terms(party),
            "constant": constant[party],
            "two_values": [len(set(TABLES[party][name])) == 2 for name in FEATURES[party]],
            "skewness": owned(party).skewness.tolist(),
            "length": [length(party, estimator)],
            "gaps": [0.0] * len(FEATURES[party]),
            "most_gaps": [0.0],
        }
        for party in "AB"
    }
    for owner in "AB":
        for receiver in (party for party in PARTIES if party != owner):
            shape = dict(contents(run, receiver, owner))["SHAPE"]
            assert (shape["n"], shape["features"]) == (N, len(FEATURES[owner]))
            told = dict(contents(run, receiver, owner))["COLUMNS"]
            assert told["defined"] == constant[owner].count(False)
        for name, value in dict(contents(run, "C", owner)).get("DESCRIPTION", {}).items():
            if name == "length":
                assert list(value) == pytest.approx(expected[owner][name])
            else:
                assert list(value) == expected[owner][name]


@every_recording
def test_names_reach_only_whom_they_should(made, level, estimator):
    run = made(level, estimator)
    sources = {name for name in run.tables if name != "B"}
    # at `strengths` the sources' names stay at the sources
    knows = {"C": {"B", *(sources if level != "strengths" else ())}}
    knows["B"] = sources if run.plan.results.target == "coefficients" else set()
    knows |= dict.fromkeys(sources, {"B"} if run.plan.results.sources != "nothing" else set())
    for party, allowed in knows.items():
        seen = everything(run, party)
        written = b"".join(path.read_bytes() for path in (run.out / party).iterdir())
        for owner in run.tables.keys() - {party}:
            for names in (seen, written):
                assert {name.encode() in names for name in FEATURES[owner]} == {owner in allowed}
        assert not re.search(rb"row-0\d{4}", seen)  # no id reaches anyone


# ---- results: what each party is given, on the wire and in its files ----


def owned(party: str) -> Columns:
    """What the owner knows of its columns' ties."""
    return Columns.of(rank_columns([TABLES[party][name].to_numpy() for name in FEATURES[party]]))


def length(party: str, estimator: str) -> float:
    """Length of the mean of the columns' unit vectors, or of ranks over the length of those without ties."""
    ranks = TABLES[party][FEATURES[party]].rank().to_numpy()
    vectors = ranks - ranks.mean(axis=0)
    lengths = np.linalg.norm(vectors, axis=0)
    if estimator == "paper":
        return float(np.linalg.norm(vectors.mean(axis=1)) / np.sqrt(N * (N * N - 1) / 12))
    varying = lengths > 0
    return float(np.linalg.norm((vectors[:, varying] / lengths[varying]).mean(axis=1)))


@every_run
def test_given_results_are_right(level, estimator):
    run = recorded(level, estimator)
    frames = {party: table.drop(columns="id") for party, table in TABLES.items()}
    truth = reference({"A": frames["A"]}, frames["B"], estimator=estimator)
    reported = rounded if run.plan.results.precision == "statistical" else np.asarray
    expected = {
        "strengths": truth.strengths,
        "counts": truth.counts,
        "coefficients": truth.coefficients,
        "errors": length("A", estimator) / np.sqrt(N - 1),
        "source_ties": owned("A").ties,
        "target_ties": owned("B").ties,
        "source_skewness": reported(owned("A").skewness),
        "target_skewness": reported(owned("B").skewness),
        "source_gaps": np.zeros(len(FEATURES["A"])),
        "target_gaps": np.zeros(len(FEATURES["B"])),
    }
    for receiver in "AB":
        for name, value in dict(contents(run, receiver, "C")).get("RESULT", {}).items():
            close = tolerance(level, [TABLES["A"]], estimator)
            if name == "nonce":
                assert len(set(value)) > 16
            elif name.endswith("nominal"):
                assert set(value) == {""}
            elif name.endswith("names"):
                assert value == FEATURES["B" if receiver == "A" else "A"]
            elif name == "positions":
                ranked = [FEATURES["B"][q] for q in np.argsort(value, kind="stable")]
                assert ranked_alike(ranked, truth.strengths, close)
            else:
                np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=close)


@every_run
def test_a_party_writes_exactly_what_it_was_granted(level, estimator):
    run = recorded(level, estimator)
    level_gives = "strengths" if level == "strengths" else "coefficients"
    grants = {"C": level_gives, "B": run.plan.results.target, "A": run.plan.results.sources}
    whole = run.results["C"]
    matrix = [] if level == "strengths" else whole.coefficients.to_numpy().ravel()
    numbers = {
        # numbers nobody would write by chance, unlike 0.5
        what: [repr(float(value)) for value in values if len(repr(float(value))) > length]
        # strengths that are opened by themselves are published on a grid
        for what, values, length in (
            ("strengths", whole.ranking["strength"], 12 if level != "strengths" else 4),
            ("coefficients", matrix, 12),
        )
    }
    assert len(numbers["strengths"]) == M_B
    assert len(numbers["coefficients"]) >= (0 if level == "strengths" else 2 * M_B)
    for party, grant in grants.items():
        directory = run.out / party
        names = {"result.json", "cost.csv", "report.html", "record.json"}
        names |= {"ranking.csv"} if grant != "nothing" else set()
        ranked = grant in ("strengths", "coefficients") and whole.plan.estimator != "paper"
        names |= {"ranks.csv"} if ranked else set()
        pairs = {"pairs.csv", "pairs.parquet", "matrix.csv", "columns.csv"}
        names |= pairs if grant == "coefficients" else set()
        names |= {"estimators.csv"} if (party, grant) == ("C", "coefficients") else set()
        assert {path.name for path in directory.iterdir()} == names
        # In the costs any number may turn up.
        files = (directory / name for name in names - {"cost.csv", "pairs.parquet"})
        text = "".join(path.read_text() for path in files)
        result = run.results[party]
        assert (result.party, result.n) == (party, N)
        for what, least in (
            ("ranking", ("ranking", "strengths", "coefficients")),
            ("strengths", ("strengths", "coefficients")),
            ("coefficients", ("coefficients",)),
            *((part, ("coefficients",)) for part in MATRICES[1:]),
            ("estimators", ("coefficients",) if party == "C" else ()),
        ):
            if grant in least:
                columns = ["position", "feature"] if (what, grant) == ("ranking", "ranking") else None
                mine, full = getattr(result, what), getattr(whole, what)
                if (what, level) == ("strengths", "strengths") and party != "C":
                    full = whole.ranking.set_index("feature")["strength"].loc[FEATURES["B"]]  # as published
                    assert mine.tolist() == full.tolist()
                else:
                    assert mine.equals(full[columns] if columns else full)
            else:
                with pytest.raises(NotRevealed):
                    getattr(result, what)
                for number in numbers.get(what, ()):
                    assert not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", text)
        if grant == "nothing" and party == "A":
            assert not [name for name in FEATURES["B"] if name in text]
        if grant != "coefficients" and party == "B":
            assert not [name for name in FEATURES["A"] if name in text]


# ---- metering ----

PHASE = {
    "HELLO": "connect",
    "CONFIRM": "connect",
    "SHAPE": "agree",
    "ALIGNMENT": "align",
    "COLUMNS": "protect",
    "DESCRIPTION": "describe",
    "MASKED": "share",
    "SHARE": "reveal",
    "RESULT": "publish",
}


@every_run
def test_the_meter_counts_what_was_on_the_wire(level, estimator):
    run = recorded(level, estimator)
    cost = run.results["C"].cost.set_index(["party", "phase"])
    sent, arrived, messages = Counter(), Counter(), Counter()
    for message in run.transcript.messages:
        if message.kind in PHASE:
            phase = PHASE[message.kind]
            sent[message.sender, phase] += message.size
            messages[message.sender, phase] += 1
            arrived[message.receiver, phase] += message.size
    for party, phase in product(PARTIES, sorted(set(cost.index.get_level_values("phase")) - {"keep-alive"})):
        row = cost.loc[party, phase]
        expected = sent[party, phase], messages[party, phase], arrived[party, phase]
        assert (row["bytes_sent"], row["messages"], row["bytes_received"]) == expected, (party, phase)
    assert sum(arrived.values()) > N * run.width * M_B
    for party in "AB":
        own = run.results[party].cost.set_index(["party", "phase"])
        assert set(own.index.get_level_values("party")) == {party}
        pd.testing.assert_frame_equal(own, cost.loc[[party]])


@every_run
def test_rounds_are_the_longest_chain_of_messages(level, estimator):
    run = recorded(level, estimator)
    cost = run.results["C"].cost
    for party in PARTIES:
        received = [
            message.depth + 1
            for message in run.transcript.messages
            if message.receiver == party and message.kind in PHASE
        ]
        assert cost.loc[cost["party"] == party, "rounds"].sum() == max(received)


# ---- the coordinator does not hold the key of source and target ----


@every_run
def test_no_byte_of_the_source_target_key_is_in_the_coordinators_record(level, estimator):
    run = recorded(level, estimator)
    transcript = run.transcript
    record = everything(run, "C") + b"".join(transcript.keys("C").values())
    record += b"".join(
        transcript.raw(receiver, sender, at="C") for receiver, sender in ("CA", "CB", "AC", "BC")
    )

    def pieces(pair: str) -> set[bytes]:
        """Every run of eight bytes of a pair's secret and subkeys."""
        one, other = pair
        keys = [key for (peer, _, _), key in transcript.keys(one).items() if peer == other]
        assert len(keys) >= 5
        return {key[i : i + 8] for key in keys for i in range(len(key) - 7)}

    assert not [piece for piece in pieces("AB") if piece in record]
    assert all(piece in record for piece in pieces("AC") | pieces("BC"))


def test_the_coordinator_is_told_that_it_cannot_see_ties():
    warnings = recorded("strengths", "paper").results["C"].warnings
    assert any("cannot see how many there are" in warning for warning in warnings)
    assert not any("source_" in warning for warning in warnings)

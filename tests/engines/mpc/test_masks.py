"""What hides the ranks: masks, zero shares, keys, and CrypTen's tensors of recorded runs."""

from __future__ import annotations

import hmac
import json
import struct
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.levels.view import VIEW
from support.recording import (
    FEATURES,
    M_A,
    M_B,
    TABLES,
    N,
    Recorded,
    encoded,
    every_level,
    every_run,
    frozen,
    recorded,
)
from support.references import encoding_for
from support.transcript import PARTIES
from support.uniform import signs_of_pattern

pytestmark = pytest.mark.xdist_group("recordings")

X, Y = encoded(TABLES["A"]), encoded(TABLES["B"])

# ---- what source and target receive of each other ----

both_ways = pytest.mark.parametrize(("receiver", "sender"), ["AB", "BA"])
# at `differences` they send each other no values, which test_views.py holds them to
masked_levels = pytest.mark.parametrize("level", ["coefficients", "strengths"])


@pytest.mark.parametrize("estimator", ["tie_corrected", "paper"])
@masked_levels
@both_ways
def test_what_data_parties_receive_of_each_other_is_uniform(level, estimator, receiver, sender):
    run = recorded(level, estimator)
    assert signs_of_pattern(run.masked(receiver, sender), run.width) == []


@masked_levels
@both_ways
def test_received_blocks_differ_between_two_runs_on_the_same_data(level, receiver, sender):
    first, second = (frozen(level, repeat).masked(receiver, sender) for repeat in (0, 1))
    assert (first != second).mean() > 0.99
    assert signs_of_pattern(first - second, frozen(level, 0).width) == []


@every_level
def test_digests_of_the_same_ids_differ_between_two_runs_and_directions(level):
    digests = {
        payload
        for repeat in (0, 1)
        for receiver, sender in ("AB", "BA")
        for payload in frozen(level, repeat).transcript.payloads(receiver, sender, "ALIGNMENT")
    }
    assert len(digests) == 4


def test_unmasked_ranks_do_not_pass_for_uniform():
    assert signs_of_pattern(X[:1])
    # nor do values of which all bits but the lowest are masked: encoded ranks without ties are even at odd n
    noise = np.random.default_rng(1).integers(-(2**63), 2**63, X.shape) & ~np.int64(1)
    assert signs_of_pattern((X + noise)[:1])


# ---- every mask bit again, from the keys alone ----


def inputs(run: Recorded) -> tuple[np.ndarray, np.ndarray]:
    """What source and target share, in the order of rows in which they share it."""
    x, y = X, Y
    if run.plan.reveal == "strengths":  # one vector of the source's columns, one for each of the target's
        encoding = encoding_for([TABLES["A"]], run.plan.estimator)
        ranks = [rank_columns([TABLES[p][name].to_numpy() for name in FEATURES[p]]) for p in "AB"]
        return encoding.source_vector(ranks[0]), encoding.column_vectors(ranks[1])
    if run.plan.reveal == "differences":
        order = run.transcript.stream("AB", "shuffle").permutation(N)
        assert sorted(order) == list(range(N)) != list(order)
        x, y = x[:, order], y[:, order]
    return x, y


class Masks:
    """All masks of a run, drawn from streams derived here, in the order in which the protocol draws them."""

    def __init__(self, run: Recorded) -> None:
        x, y = inputs(run)
        of_blocks = [(M_A + M_B - 1, rows) for rows in run.rows]
        opened = of_blocks if run.plan.reveal == "differences" else [(len(x), len(y))]

        def drawn(pair: str, purpose: str, shapes: list[tuple[int, int]]) -> np.ndarray:
            stream = run.transcript.stream(pair, purpose)
            return np.hstack([stream.ring(*shape) for shape in shapes])

        self.r = drawn("AC", "mask", [(len(x), rows) for rows in run.rows])
        self.u = drawn("BC", "mask", [(len(y), rows) for rows in run.rows])
        self.zero = {pair: drawn(pair, "zero", opened) for pair in ("AB", "AC", "BC")}


def basis(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The differences that span all others: x_p − y_1 and y_q − y_1."""
    return np.vstack([x - y[0], y[1:] - y[0]])


def terms(run: Recorded, masks: Masks) -> dict[str, np.ndarray]:
    """What each party holds of the result before zero shares are added (int64 wraps: modulo 2^64)."""
    (x, y), r, u = inputs(run), masks.r, masks.u
    if run.plan.reveal == "differences":
        return {"A": basis(x - r, np.zeros_like(y)), "B": basis(np.zeros_like(x), y - u), "C": basis(r, u)}
    return {"A": x @ (y - u).T, "B": (x - r) @ u.T, "C": r @ u.T}


@every_run
def test_an_independent_implementation_reproduces_every_mask_bit(level, estimator):
    run = recorded(level, estimator)
    masks, (x, y) = Masks(run), inputs(run)
    if level != "differences":
        assert np.array_equal(run.reduced(x - run.masked("B", "A")), run.reduced(masks.r))
        assert np.array_equal(run.reduced(y - run.masked("A", "B")), run.reduced(masks.u))
    zero, term = masks.zero, terms(run, masks)
    zero_share = {"A": zero["AB"] - zero["AC"], "B": zero["BC"] - zero["AB"], "C": zero["AC"] - zero["BC"]}
    for party in PARTIES:
        opened = np.hstack(run.transcript.tensors(party, "opening"))
        assert np.array_equal(run.reduced(opened - term[party]), run.reduced(zero_share[party])), party
        if party != "C":
            assert np.array_equal(run.shares(party).reshape(opened.shape), run.reduced(opened))


@every_run
def test_every_key_is_derived_as_specified_and_no_other(level, estimator):
    transcript = recorded(level, estimator).transcript
    uses = {
        "AB": {("digest", "A"), ("zero", "A"), ("confirm", "A"), ("confirm", "B")},
        "AC": {("mask", "A"), ("zero", "A"), ("confirm", "A"), ("confirm", "C")},
        "BC": {("mask", "A"), ("zero", "A"), ("confirm", "B"), ("confirm", "C")},
    }
    if level == "differences":
        uses["AB"].add(("shuffle", "A"))
    for pair in uses:
        for holder, partner in (pair, pair[::-1]):
            issued = {
                (purpose, session): key
                for (peer, purpose, session), key in transcript.keys(holder).items()
                if peer == partner and purpose
            }
            assert issued == {use: transcript.subkey(pair, *use) for use in uses[pair]}


@every_run
def test_digests_are_keyed_with_what_the_coordinator_does_not_know(level, estimator):
    transcript = recorded(level, estimator).transcript
    ids = [row.encode() for row in TABLES["A"]["id"]]
    text = b"".join(struct.pack("!Q", len(row)) + row for row in ids)
    key = transcript.subkey("AB", "digest")
    digest = hmac.digest(key, struct.pack("!Q", len(ids)) + text, "sha256")
    for receiver, sender in ("AB", "BA"):
        # each with its sender's name, so that it cannot be played back
        signed = hmac.digest(digest, sender.encode(), "sha256")
        assert transcript.payloads(receiver, sender, "ALIGNMENT") == [signed]


@every_run
def test_no_key_has_two_purposes(level, estimator):
    transcript = recorded(level, estimator).transcript
    issued = Counter(key for party in PARTIES for key in transcript.keys(party).values())
    assert set(issued.values()) == {2}  # by its two holders, once each


# ---- no clock and no generator behind a mask ----
# The clock stood still, and every generator with a seed would have raised: see frozen.py.


@every_level
def test_two_runs_on_the_same_data_share_no_key_and_no_mask(level):
    runs = [frozen(level, repeat) for repeat in (0, 1)]
    keys, again = ({key for party in PARTIES for key in run.transcript.keys(party).values()} for run in runs)
    assert len(keys) == len(again) >= 3 + 12
    assert not keys & again
    # neither at the same place nor anywhere else, in the other run or in another stream of the same run
    masks = [mask for run in map(Masks, runs) for mask in (run.r, run.u, *run.zero.values())]
    values = [set(mask.ravel().tolist()) for mask in masks]
    assert all(not a & b for a, b in combinations(values, 2))


def test_the_meeting_sends_only_what_the_table_lists():
    run = frozen("coefficients", 0)
    transcript, of_the_connection = run.transcript, {"alive", "probe", "connect"}
    met = b"".join(path.read_bytes() for path in transcript.directory.glob("*/meeting-point"))
    for party in PARTIES:
        listed = {
            field.name
            for row in VIEW.meeting
            if run.plan.roster(party).me.role in row.senders
            for field in row.fields
        }
        lines = (transcript.directory / party / "meeting-point").read_text().splitlines()
        assert {name for line in lines for name in json.loads(line)} <= listed | of_the_connection
    assert json.dumps(run.plan.canonical_json()).encode() in met
    for word in (*FEATURES["A"], *FEATURES["B"], "policy", "table", "max_reveal"):
        assert word.encode() not in met
    for party in PARTIES:
        for key in transcript.keys(party).values():
            assert not [i for i in range(len(key) - 7) if key[i : i + 8] in met]


# ---- CrypTen's tensors hold the ranks ----


@every_run
def test_the_three_shares_add_up_to_the_encoded_ranks(level, estimator):
    run = recorded(level, estimator)
    for values in inputs(run):
        summed = np.zeros_like(values)
        for party in PARTIES:
            shares = [
                share
                for share in run.transcript.tensors(party, "share")
                if len(share) == len(values) and share.shape[1] in run.rows
            ]
            assert [share.shape[1] for share in shares] == run.rows
            summed += np.hstack(shares)
        assert np.array_equal(summed, values)


@every_run
def test_the_three_opened_shares_add_up_to_the_result(level, estimator):
    run = recorded(level, estimator)
    opened = sum(np.hstack(run.transcript.tensors(party, "opening")) for party in PARTIES)
    x, y = inputs(run)
    if level == "differences":
        assert np.array_equal(opened, basis(x, y))
        return
    assert run.reduced(opened).tolist() == (x.astype(object) @ y.T.astype(object)).tolist()

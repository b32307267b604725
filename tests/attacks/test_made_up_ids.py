"""Ids that a party makes up, to find out which of them another party has: what it learns, what stops it.

A party that offers guesses is answered like any other: nobody can see that an id is made up. Rules are
applied before anyone is answered, so a refused attempt reveals only that it was refused, and nothing about a
single id.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.data.pseudonyms import pseudonyms
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.faults import with_links
from support.in_memory import run_in_memory

RNG = np.random.default_rng(7)
#: A hundred of A's ids are in a thousand that anyone could think of.
THINKABLE = [f"0{number}" for number in range(1000, 2000)]
PATIENTS = sorted(RNG.choice(THINKABLE, 100, replace=False).tolist())


def attempt(guesses: list[str], policy: Mapping[str, Any]) -> tuple[dict[str, str], set[str] | None]:
    """Let B offer guesses under A's policy; return who failed how, and which guesses B learnt that A has."""
    tables = {
        party: pd.DataFrame({"id": ids, "one": RNG.normal(size=len(ids)), "two": range(len(ids))})
        for party, ids in (("A", PATIENTS), ("B", guesses))
    }
    answers: list[bytes] = []
    offered: list[bytes] = []

    class Listening(Links):
        def send(self, peer: Any, kind: Kind, values: Any, **more: Any) -> bytes:
            if kind is Kind.MATCHING_KEY:
                offered.append(values["key"])
            return super().send(peer, kind, values, **more)

        def receive(self, peer: Any, kind: Kind, **more: Any) -> Any:
            values = super().receive(peer, kind, **more)
            if kind is Kind.COMMON:
                answers.append(values["common"])
            return values

    content = {
        "alignment": "intersect",
        "parties": {
            "coordinator": {"name": "C"},
            "target": {"name": "B", "policy": {"min_rows": 3}},
            "sources": [{"name": "A", "policy": dict(policy)}],
        },
    }
    hook = {"B": partial(with_links, links=Listening)}
    outcome = run_in_memory(load_plan(content), tables, hook)
    if not answers:
        return outcome.classes(), None
    order = np.argsort(pseudonyms(pa.array(guesses, pa.large_string()), offered[0]))
    bits = np.unpackbits(np.frombuffer(answers[0], np.uint8)).astype(bool)[: len(guesses)]
    return outcome.classes(), {guesses[row] for row in order[bits]}


REFUSED = {"C": "DisclosureError", "A": "PeerFailed", "B": "PeerFailed"}


def test_a_party_that_offers_all_possible_ids_learns_the_others_list() -> None:
    _, learnt = attempt(THINKABLE, {})
    assert learnt == set(PATIENTS)


@pytest.mark.parametrize("policy", [{"max_ids": 300}, {"max_unmatched": 0.5}])
def test_a_limit_on_ids_or_on_unmatched_ids_stops_made_up_ids(policy: Mapping[str, Any]) -> None:
    classes, learnt = attempt(THINKABLE, policy)
    assert classes == REFUSED
    assert learnt is None


def test_guesses_among_true_ids_are_told_up_to_the_cap() -> None:
    """What the rules leave: docs/privacy.md says so."""
    padded = PATIENTS[:60] + [guess for guess in THINKABLE if guess not in PATIENTS][:55]
    _, learnt = attempt(padded, {"max_unmatched": 0.5})
    assert learnt == set(PATIENTS[:60])
    classes, learnt = attempt(padded, {"max_unmatched": 0.4})
    assert (classes, learnt) == (REFUSED, None)


@pytest.mark.parametrize("policy", [{}, {"min_rows": 50}])
def test_a_list_that_a_few_guesses_match_is_not_answered(policy: Mapping[str, Any]) -> None:
    """Nor is it by default, under which an owner asks for 30 rows."""
    guesses = [*PATIENTS[:11], "none of them"]
    classes, learnt = attempt(guesses, policy)
    assert (classes, learnt) == (REFUSED, None)

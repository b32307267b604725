"""What is said before a long Paillier run. No figure is checked: they depend on the machine."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from mpc_spearman.config import HeSettings
from mpc_spearman.engines.he.scheme import Sizes
from mpc_spearman.engines.he.schemes import secret_key
from mpc_spearman.engines.he.timing import announce
from mpc_spearman.parties import Party, Role

TIME = r"(\d+ h \d\d min|\d+ min \d\d s|[\d.]+ s|\d+ ms)"
MANY = 3_000_000


def said(reveal: str, n: int, source: Party | None = None, **settings: Any) -> list[str]:
    he = HeSettings(key_bits=512, insecure=True, **settings)
    if reveal == "differences":
        sizes = Sizes(n, 4, 6, n - 1, n - 1, n * (n - 1), 2 * (n - 1))
    else:
        sizes = Sizes(n, 4, 6, n - 1, n - 1, n * (n - 1), n * (n * n - 1) // 3)
    operation = "differences" if reveal == "differences" else "products"
    heard: list[str] = []
    run: Any = SimpleNamespace(
        plan=SimpleNamespace(he=he),
        links=SimpleNamespace(dimensions={"n": n}),
        workers=1,
        say=heard.append,
    )
    announce(run, secret_key(he, sizes, operation), sizes, 9 if reveal == "differences" else 0, source)
    return heard


def test_the_literal_form_says_what_packing_takes() -> None:
    (line,) = said("differences", MANY, pairs="all", packing=False)
    assert re.fullmatch(
        rf"estimate: about {TIME} at n = 3,000,000 with one ciphertext per rank; "
        rf"he.packing=true takes about {TIME}",
        line,
    )


@pytest.mark.parametrize("reveal", ["differences", "coefficients"])
@pytest.mark.parametrize("randomness", ["full", "short"])
def test_other_long_runs_say_what_is_faster(reveal: str, randomness: str) -> None:
    (line,) = said(reveal, MANY, randomness=randomness)
    hint = "" if randomness == "short" else "he.randomness=short takes a fraction of that, "
    assert re.fullmatch(rf"estimate: about {TIME} at n = 3,000,000; {hint}he.scheme=bfv seconds", line)


@pytest.mark.parametrize("reveal", ["differences", "coefficients"])
def test_with_several_sources_the_line_says_whose_session_it_is_about(reveal: str) -> None:
    (line,) = said(reveal, MANY, Party("A2", Role.SOURCE, 3))
    assert line.startswith("estimate for A2: about ")


@pytest.mark.parametrize("reveal", ["differences", "coefficients"])
def test_a_short_run_says_nothing(reveal: str) -> None:
    assert said(reveal, 200) == []

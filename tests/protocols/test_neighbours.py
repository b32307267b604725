"""What data parties receive from tables in which two people changed places: the same, but for noise.

Without any noise drawn, all messages of a run that a data party receives are compared byte by byte, but for
those under masks, keys and nonces. Only numbers that carry noise may differ, all together by no more than μ
of their stated deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import load_plan
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.tables import read_table
from mpc_spearman.levels import explained, noise, strengths
from mpc_spearman.parties import Party
from mpc_spearman.privacy.loss import separation
from mpc_spearman.protocols.load import value_factors
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.in_memory import run_in_memory
from support.plans import mapping
from support.references import table

N = 12
#: Messages that masks, keys and nonces make different in every run, or that are about time.
RANDOM = {"HELLO", "CONFIRM", "MATCHING_KEY", "MASKED", "SHARE", "ALIGNMENT", "COMMON", "COST", "RECORD"}
RANDOM |= {"FAREWELL", "KEEPALIVE", "PSEUDONYMS", "REPLICA", "PADDED", "ORDER"}
Messages = list[tuple[str, str, str, dict[str, Any]]]
Run = Callable[..., Messages]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a plan whose noise is 0 and whose digits are kept, and return who was sent what."""
    messages: Messages = []
    send = Links.send

    def send_noted(links: Links, peer: Party, kind: Kind, values: Mapping[str, Any], **more: Any) -> bytes:
        messages.append((links._roster.me.name, peer.name, kind.name, dict(values)))
        return send(links, peer, kind, values, **more)

    monkeypatch.setattr(Links, "send", send_noted)
    for module in (noise, strengths, explained):
        monkeypatch.setattr(module, "discrete_gaussian", lambda sigma: np.zeros_like(sigma))
    for module in (noise, explained):
        monkeypatch.setattr(module, "in_digits", lambda values, *_: values)

    def run(chosen_plan: Any, tables: Mapping[str, pd.DataFrame]) -> Messages:
        messages.clear()
        run_in_memory(chosen_plan, tables).result("B")
        return sorted(messages, key=lambda message: message[:3])

    return run


def random_tables(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    return {
        "A": table(
            a=rng.normal(size=N),
            rare=np.arange(N) == 3,
            few=rng.poisson(1, N),
            flat=np.zeros(N),
            region=rng.permutation([*"uuuuuvvvvwww"]),
        ),
        "B": table(x=rng.normal(size=N), flag=rng.permutation(N) < 4, few=rng.poisson(0.7, N)),
    }


def exchanged(frame: pd.DataFrame, i: int, j: int) -> pd.DataFrame:
    """Two people with each other's values."""
    order = np.arange(N)
    order[[i, j]] = j, i
    return pd.concat([frame[["id"]], frame.drop(columns="id").iloc[order].reset_index(drop=True)], axis=1)


def plan_for(level: str, alignment: str, adjust: tuple[str, ...] = (), **settings: Any) -> Any:
    grants = {"target": level, "sources": level, "precision": "statistical"}
    content = mapping(reveal=level, alignment=alignment, **{"results": grants, **settings})
    content["parties"]["sources"][0] |= {"encode": {"region": "flags"}}
    content["parties"]["sources"][0]["policy"]["min_rows"] = 1
    for party in (content["parties"]["target"], *content["parties"]["sources"]):
        party["adjust"] = list(adjust)
    return load_plan(content)


def apart(first: Messages, second: Messages, receiver: str) -> float:
    """Σ Δ²/s² over all numbers with noise that a party received; all else must be the same."""
    square = 0.0
    lines = [
        [line for line in messages if line[1] == receiver and line[2] not in RANDOM]
        for messages in (first, second)
    ]
    assert [line[:3] for line in lines[0]] == [line[:3] for line in lines[1]]
    for (*_, first), (*_, second) in zip(*lines, strict=True):
        for name in first:
            a, b = first[name], second[name]
            with_noise = {"coefficients": "noise", "strengths": "strengths_noise"}.get(name)
            if name in ("nonce", "positions"):
                continue
            if with_noise is None:
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), name
                continue
            a, b, s = np.asarray(a), np.asarray(b), np.asarray(first[with_noise])
            assert (np.isnan(a) == np.isnan(b)).all()
            assert ((s > 0) == ~np.isnan(a)).all()
            # a receiver of coefficients could compute the means from them
            if name == "coefficients" or "coefficients" not in first:
                square += float(np.nansum(np.square((a - b)[s > 0] / s[s > 0])))
    return square


def neighbours(frames: dict[str, pd.DataFrame]) -> Iterator[tuple[str, dict[str, pd.DataFrame], int, int]]:
    """Yield, for each owner and pair of rows, the tables after their exchange."""
    for owner in "AB":
        for i, j in combinations(range(N), 2):
            yield owner, {**frames, owner: exchanged(frames[owner], i, j)}, i, j


@pytest.mark.parametrize("adjust", [(), ("age",)], ids=["ranks", "residuals"])
@pytest.mark.parametrize("alignment", ["same", "intersect"])
@pytest.mark.parametrize("level", ["coefficients", "strengths"])
@pytest.mark.parametrize("every", [29, pytest.param(1, marks=pytest.mark.long)])
def test_all_that_a_party_receives_differs_by_noise_alone(
    level: str, alignment: str, adjust: tuple[str, ...], every: int, heard: Run
) -> None:
    """Of pairs of rows both in the run by at most μ; of pairs of which one is not by at most 1.5·μ."""
    rng = np.random.default_rng(5)
    chosen_plan, frames, mu = plan_for(level, alignment, adjust), random_tables(rng), separation(2.0)
    frames = {
        owner: frame.assign(**dict.fromkeys(adjust, rng.permutation(N))) for owner, frame in frames.items()
    }
    left_out = [3, 7, 9] if alignment == "intersect" else []
    squares = {"both": [0.0], "one": [0.0]}

    def tables(whole: dict[str, pd.DataFrame], owner: str) -> dict[str, pd.DataFrame]:
        other = "B" if owner == "A" else "A"
        return {**whole, other: whole[other].drop(left_out).reset_index(drop=True)}

    before = {owner: heard(chosen_plan, tables(frames, owner)).copy() for owner in "AB"}
    for owner, after, i, j in list(neighbours(frames))[::every]:
        messages = heard(chosen_plan, tables(after, owner))
        in_run = 2 - len({i, j} & set(left_out))
        square = apart(before[owner], messages, "B" if owner == "A" else "A")
        squares["both" if in_run == 2 else "one"].append(square if in_run else 0.0)
        assert in_run or square < 1e-20
    assert 0.003 * mu**2 < max(squares["both"]) <= mu**2
    assert max(squares["one"]) <= (1.5 * mu) ** 2


def test_a_category_is_hidden_as_one_value(heard: Run) -> None:
    """Under ``unit: value`` two people exchange their categories alone, which changes two flags."""
    chosen_plan = plan_for(
        "coefficients",
        "same",
        privacy={"unit": "value"},
        results={"target": "coefficients", "sources": "nothing", "precision": "statistical"},
    )
    # Flags of two people have a range that is hardly rounded up.
    region, mu = np.array([*"uuvvwwwwwwww"]), separation(2.0)
    frames = {"A": table(region=region), "B": table(flag=np.isin(np.arange(N), [0, 4]))}
    before = heard(chosen_plan, frames).copy()
    region[[0, 2]] = region[[2, 0]]
    after = heard(chosen_plan, {**frames, "A": table(region=region)})
    assert 0.6 * mu**2 < apart(before, after, "B") <= mu**2


@pytest.mark.parametrize("columns", ["number", "categories", "chosen rows"])
def test_a_value_that_shows_in_several_features_is_hidden_as_one(columns: str, heard: Run) -> None:
    """Missing values that are features too; categories that are rarer in the rows a partner chooses."""
    content = mapping(
        reveal="coefficients",
        alignment="intersect" if columns == "chosen rows" else "same",
        privacy={"unit": "value"},
        results={"target": "coefficients", "sources": "nothing", "precision": "statistical"},
    )
    content["parties"]["sources"][0] |= {"missing": "middle", "missing_flags": True}
    values: Any = {
        "number": [1.0, *[0.0] * 28, np.nan],
        "categories": [*"vvvwww", *["u"] * 23, None],
        "chosen rows": [*"v" * 80, *"w" * 80, *"u" * 40],
    }[columns]
    content["parties"]["sources"][0]["policy"]["min_rows"] = 3
    if columns != "number":
        content["parties"]["sources"][0]["encode"] = {"x": "flags"}
    chosen_plan, whole, mu, squares = load_plan(content), table(x=values), separation(2.0), list[float]()
    rows = [0, 1, 2, 80, 81, 82, *range(160, 200)] if columns == "chosen rows" else [*range(30)]
    target = whole[["id"]].iloc[rows].assign(y=np.arange(len(rows)) == 0).reset_index(drop=True)
    before = heard(chosen_plan, {"A": whole, "B": target}).copy()
    for other in (rows[3], rows[-1]):
        x = whole["x"].to_numpy(copy=True)
        x[[0, other]] = x[[other, 0]]
        squares.append(apart(before, heard(chosen_plan, {"A": whole.assign(x=x), "B": target}), "B"))
    assert 0.2 * mu**2 < max(squares) <= mu**2


def test_gaps_of_a_covariate_widen_no_feature() -> None:
    """Only a feature that has a flag of its own gaps shows in two features."""
    frame = pd.DataFrame(
        {"id": list("abcd"), "x": [1, None, 3, 4], "y": [4, 1, 2, 3], "age": [5, 6, None, 7]}
    )
    keys = TableKeys(missing="middle", missing_flags=True)
    whole = read_table("A", frame, keys, adjust=["age"])
    assert whole.features == ("x", "y", "x is missing")
    factors = value_factors(load_plan(mapping(privacy={"unit": "value"})), whole)
    assert np.allclose(factors, np.sqrt([2, 1, 2]))


@pytest.mark.parametrize("adjust", [(), ("age",)], ids=["ranks", "residuals"])
@pytest.mark.parametrize("level", ["coefficients", "strengths", "ranking", "explained", "canonical"])
def test_statements_are_the_same_whatever_rows_a_partner_chooses(
    level: str, adjust: tuple[str, ...], heard: Run
) -> None:
    """Where the coordinator has no exact coefficients, also what owners describe to it."""
    rng, kinds = np.random.default_rng(6), ("COLUMNS", "DESCRIPTION" if level != "coefficients" else "")
    frames = {
        "A": pd.concat([random_tables(rng)["A"]] * 6, ignore_index=True).assign(
            id=[f"r{i}" for i in range(6 * N)]
        ),
        "B": pd.concat([random_tables(rng)["B"]] * 6, ignore_index=True).assign(
            id=[f"r{i}" for i in range(6 * N)]
        ),
    }
    ages = dict.fromkeys(adjust, rng.permutation(6 * N))
    frames = {owner: frame.assign(**ages) for owner, frame in frames.items()}
    chosen_plan, stated = plan_for(level, "intersect", adjust), set[str]()
    for left_out in ([], [3, 15, 27], [0, 1, 2]):
        chosen = {**frames, "B": frames["B"].drop(left_out).reset_index(drop=True)}
        messages = heard(chosen_plan, chosen)
        stated.add(str([line for line in messages if line[0] == "A" and line[2] in kinds]))
    assert len(stated) == 1

"""Noise on inputs: of the stated size, in whole runs, and enough whatever the other parties do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.config import Plan, load_plan
from mpc_spearman.engines.computation import Contribution
from mpc_spearman.errors import BoundError
from mpc_spearman.levels import level_of
from mpc_spearman.levels.coefficients import Coefficients
from mpc_spearman.levels.level import Level
from mpc_spearman.levels.noise import InputNoise, with_noise
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.strengths import Strengths
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.loss import guess, separation
from mpc_spearman.privacy.scales import Scales, input_deviations
from support.in_memory import Ended, run_in_memory
from support.plans import PROTOCOLS, mapping
from support.references import table

RNG = np.random.default_rng(14)
ROWS, COMMON = 120, RNG.normal(size=120)
TABLES = {
    "A": table(a0=COMMON + RNG.normal(size=ROWS), a1=RNG.normal(size=ROWS), rare=np.arange(ROWS) < 4),
    "D": table(d0=COMMON - RNG.normal(size=ROWS)),
    "B": table(b0=COMMON, b1=RNG.normal(size=ROWS), b2=np.arange(ROWS) % 7),
}
MU = separation(2.0)


def plan_of(reveal: str, on_inputs: str, sources: str = "A", **settings: Any) -> Plan:
    """Return a plan in which these parties add noise to their inputs."""
    results = {"precision": "statistical", "target": reveal, "sources": reveal}
    content = mapping(*sources, reveal=reveal, results=results, **settings)
    for party in (content["parties"]["target"], *content["parties"]["sources"]):
        party["noise"] = "inputs" if party["name"] in on_inputs else "results"
    return load_plan(content)


def run(plan: Plan) -> Ended:
    names = {plan.parties.target.name, *(source.name for source in plan.parties.sources)}
    return run_in_memory(plan, {name: TABLES[name] for name in names})


@dataclass
class Recording:
    """What went on inside of runs: by party its vectors before and after noise, and what it drew."""

    exact: dict[str, np.ndarray] = field(default_factory=dict)
    multiplied: dict[str, np.ndarray] = field(default_factory=dict)
    drawn: dict[str, np.ndarray] = field(default_factory=dict)
    opened: list[np.ndarray] = field(default_factory=list)
    shapes: list[Shapes] = field(default_factory=list)
    level: list[Level] = field(default_factory=list)


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Recording:
    inside = Recording()
    for kind in (Strengths, Coefficients):
        hide, draw, conclude = kind.add_input_noise, kind.draw_noise, kind.conclude

        def hidden(
            self: Any,
            exact: Contribution,
            factors: Any,
            stated: Any,
            me: Party,
            shapes: Any,
            hide: Any = hide,
        ) -> Contribution:
            inside.exact[me.name] = exact.vectors.astype(object)
            hidden = hide(self, exact, factors, stated, me, shapes)
            inside.multiplied[me.name] = hidden.vectors.astype(object)
            return hidden

        def drawn(self: Any, shapes: Any, me: Party, draw: Any = draw) -> Any:
            noise = draw(self, shapes, me)
            if noise is not None:
                inside.drawn[me.name] = noise.astype(object)
            return noise

        def concluded(self: Any, opened: Any, shapes: Any, conclude: Any = conclude) -> Any:
            inside.opened.append(np.array(opened.tolist(), dtype=object))
            inside.shapes.append(shapes)
            inside.level.append(self)
            return conclude(self, opened, shapes)

        monkeypatch.setattr(kind, "add_input_noise", hidden)
        monkeypatch.setattr(kind, "draw_noise", drawn)
        monkeypatch.setattr(kind, "conclude", concluded)
    return inside


def steps(recording: Recording, owner: Party) -> np.ndarray:
    """Return the standard deviation of an owner's noise on inputs, in the integers of its vectors, (m,)."""
    level, shapes = recording.level[-1], recording.shapes[-1]
    return level.input_steps(shapes.scales[owner], owner.role, shapes)


def fits(values: np.ndarray) -> float:
    """p-value that standardised values have variance 1."""
    total, many = float(np.square(values.astype(float)).sum()), values.size
    return float(2 * min(stats.chi2.cdf(total, many), stats.chi2.sf(total, many)))


CASES = [
    ("strengths", "A", "A", "mpc"),
    ("strengths", "B", "AD", "mpc"),
    ("strengths", "AB", "AD", "mpc"),
    ("strengths", "A", "AD", "paillier"),
    ("strengths", "AB", "A", "bfv"),
    ("coefficients", "A", "AD", "mpc"),
    ("coefficients", "B", "A", "paillier"),
    ("coefficients", "AB", "A", "mpc"),
    ("coefficients", "AB", "AD", "bfv"),
]


@pytest.mark.parametrize(("reveal", "on_inputs", "sources", "scheme"), CASES)
def test_noisy_vectors_are_multiplied_exactly_and_get_noise_once(
    reveal: str, on_inputs: str, sources: str, scheme: str, recording: Recording
) -> None:
    """An exchange of any two rows of an owner moves its vectors by at most μ standard deviations."""
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    run(plan_of(reveal, on_inputs, sources, **PROTOCOLS[scheme])).result("B")
    target = recording.multiplied["B"]
    products = [recording.multiplied[name] @ target.T for name in sources]
    if reveal == "strengths":
        assert (recording.opened[0] == sum(products) + sum(recording.drawn.values())).all()
        assert {*recording.drawn} == {*sources, "B"} - {*on_inputs}
    else:
        assert (recording.opened[0] == np.vstack(products)).all()
    shapes = recording.shapes[0]
    for owner in (*shapes.features, shapes.target):
        exact, noise = (
            recording.exact[owner.name],
            recording.multiplied[owner.name] - recording.exact[owner.name],
        )
        if owner.name not in on_inputs:
            assert not noise.any()
            continue
        sigma = steps(recording, owner)
        assert fits(noise / sigma[:, None]) > 1e-9
        assert sigma.min() > 100  # so that rounding to integers is nothing beside it
        apart = [
            2 * np.square((exact[:, i] - exact[:, j]).astype(float) / sigma).sum()
            for i in range(ROWS)
            for j in range(i)
        ]
        assert 0.5 * MU**2 < max(apart) <= MU**2


@pytest.mark.parametrize(
    ("reveal", "on_inputs"), [("strengths", "A"), ("coefficients", "A"), ("strengths", "AB")]
)
def test_every_copy_states_the_noise_that_it_has(reveal: str, on_inputs: str) -> None:
    """C's own copy too; the exact numbers are of a run without noise."""
    content = mapping("A", reveal=reveal)
    exact = run_in_memory(load_plan(content), {name: TABLES[name] for name in "AB"}).result()
    off: dict[str, list[np.ndarray]] = {"C": [], "B": []}
    for _ in range(8):
        outcome = run(plan_of(reveal, on_inputs))
        for party, errors in off.items():
            result = outcome.result(party)
            if reveal == "coefficients":
                errors.append(((result.coefficients - exact.coefficients) / result.noise).to_numpy())
                assert np.isfinite(result.pvalues.to_numpy()).all()
            else:
                stated = np.sqrt(np.square(result.errors) - np.square(exact.errors))
                errors.append(((result.strengths - exact.strengths) / stated).to_numpy())
    for errors in off.values():
        assert fits(np.array(errors)) > 1e-9


def test_noise_in_products_and_means_has_the_stated_variance() -> None:
    """Both sides add noise; the target's is the same in all products with one of its columns."""
    n, draws, unit = 60, 1000, 2**20
    a, b = (np.linalg.qr(RNG.normal(size=(n, m)))[0].T for m in (4, 3))
    a[1] = (a[0] + a[1]) / np.sqrt(2)
    sigma = np.array([0.1, 0.2, 0.05, 0.3]), np.array([0.1, 0.4, 0.2])
    stated = InputNoise(n, *sigma)
    x, y = (np.rint(side * unit).astype(np.int64) for side in (a, b))
    of_x, of_y = (np.rint(s * unit).astype(np.int64) for s in sigma)
    products = np.array(
        [
            (with_noise(x, np.ones(4), of_x, n) / unit) @ (with_noise(y, np.ones(3), of_y, n) / unit).T
            for _ in range(draws)
        ]
    )
    off = products - a @ b.T
    length = float(np.linalg.norm(a.sum(axis=0)))
    atol = 6 * np.sqrt(3 / draws)
    assert np.allclose(off.var(axis=0) / np.square(stated.of_products), 1, atol=atol)
    assert np.allclose(off.sum(axis=1).var(axis=0) / np.square(stated.of_sums(length)), 1, atol=atol)


def test_appended_entries_and_other_vectors_get_no_noise() -> None:
    vectors = RNG.integers(-9, 10, (3, 50))
    noisy = with_noise(vectors, np.ones(3), np.array([0, 1000, 10**15]), 48)
    assert np.array_equal(noisy[0], vectors[0])
    assert np.array_equal(noisy[:, 48:], vectors[:, 48:])
    assert fits((noisy - vectors)[1:, :48] / np.array([[1000], [10**15]])) > 1e-9


def test_the_noise_for_others_covers_the_vectors_actually_multiplied(recording: Recording) -> None:
    """A knows its own noise: to it rows of B differ by what A's noisy integers make of them."""
    run(plan_of("coefficients", "A")).result("B")
    level, shapes = recording.level[0], recording.shapes[0]
    assert isinstance(level, Coefficients)
    (a,) = shapes.features
    x, y = (recording.multiplied[name].astype(float) / level.encoding(shapes).source_scale for name in "AB")

    def apart(s: np.ndarray) -> float:
        moved = [
            np.linalg.norm(np.outer(x[:, i] - x[:, j], y[:, i] - y[:, j]) / s)
            for i in range(ROWS)
            for j in range(i)
        ]
        return float(max(moved))

    assert 0.02 * MU < apart(level.deviations(shapes)) <= MU
    of_exact_vectors = Shapes(ROWS, shapes.features, shapes.m_target, scales=shapes.scales)
    assert apart(level.deviations(of_exact_vectors)) > 2 * MU
    assert (shapes.multiplied[a].widths > 3 * shapes.scales[a].widths).all()


@pytest.mark.parametrize("on_inputs", ["", "A"])
def test_a_lying_target_reads_a_row_unless_noise_is_on_inputs(
    on_inputs: str, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It and C pool all they have. Its columns are zero but in two rows, its scales the least there are."""
    kind: Any = Strengths
    contribution, stated_scales = kind.contribution, kind.stated_scales
    mean = (TABLES["A"].drop(columns="id").rank() - (ROWS + 1) / 2).transform(lambda x: x / np.linalg.norm(x))
    i, j = int(mean.sum(axis=1).argmax()), int(mean.sum(axis=1).argmin())

    def lying(self: Any, ranks: Any, role: Role, shapes: Any, *more: Any) -> Contribution:
        honest = contribution(self, ranks, role, shapes, *more)
        if role is Role.SOURCE:
            return honest
        made_up = np.zeros_like(honest.vectors)
        made_up[:, i] = int(self.encoding(shapes).target_scale / np.sqrt(2))
        made_up[:, j] = -made_up[:, i]
        return Contribution(made_up)

    def least(self: Any, stated: Any, role: Role) -> Any:
        scales = stated_scales(self, stated, role)
        if role is Role.TARGET:
            scales["ranges"] = replace(scales["ranges"], diameter=scales["ranges"].least_diameter)
        return scales

    monkeypatch.setattr(kind, "contribution", lying)
    monkeypatch.setattr(kind, "stated_scales", least)
    scores, largest = [], 0.0
    for _ in range(10):
        run(plan_of("strengths", on_inputs)).result("C")
        x, y, opened = (
            recording.exact["A"][0],
            recording.multiplied["B"],
            recording.opened[-1][0] - recording.drawn["B"][0],
        )
        swapped = x.copy()
        swapped[[i, j]] = swapped[[j, i]]
        true, false = (float(np.mean(y @ table)) for table in (x, swapped))
        scores.append((float(np.mean(opened)) - (true + false) / 2) / ((true - false) / 2))
        if on_inputs:
            (a,) = recording.shapes[-1].features
            moved = np.linalg.norm((swapped - x).astype(float)) / steps(recording, a)[0]
            largest = max(largest, float(moved))
    # 1 is the true table and -1 the other.
    if not on_inputs:
        assert min(scores) > 0.5
        return
    assert 0.5 * MU < largest <= MU * (1 + 1e-9)
    assert np.square(np.array(scores) - 1).sum() > 0.3  # 10·(2/μ)² by the promise, and 0.3 once in 10^6


def test_whoever_sees_the_noisy_vectors_guesses_no_better_than_promised() -> None:
    """By the best test there is, for the two rows of a table that lie farthest apart."""
    columns, draws, unit = RNG.normal(size=(5, 200)), 1000, 2**20
    columns -= columns.mean(axis=1, keepdims=True)
    columns /= np.linalg.norm(columns, axis=1, keepdims=True)
    ranges = np.ptp(columns, axis=1)
    rows = columns / ranges[:, None]
    between = np.square(rows[:, :, None] - rows[:, None]).sum(axis=0)
    i, j = np.unravel_index(between.argmax(), between.shape)
    sigma = np.ceil(input_deviations(Scales(ranges, float(between.max())), 2.0, "row") * unit).astype(
        np.int64
    )
    true = np.rint(columns * unit).astype(np.int64)
    false = true.copy()
    false[:, [i, j]] = false[:, [j, i]]
    towards = (false - true) / np.square(sigma.astype(float))[:, None]
    middle = ((true + false) / 2 * towards).sum()
    scores = [(with_noise(true, np.ones(5), sigma, 200) * towards).sum() for _ in range(draws)]
    right = np.mean(np.array(scores) < middle)
    assert abs(right - guess(2.0)) < 5 * np.sqrt(0.84 * 0.16 / draws)


@pytest.mark.parametrize(
    ("reveal", "on_inputs", "rows", "columns"),
    [("coefficients", "AB", 10**8, 50), ("strengths", "A", 10**8, 50)],
)
def test_more_rows_than_the_integers_hold_are_refused_by_name(
    reveal: str, on_inputs: str, rows: int, columns: int
) -> None:
    plan = plan_of(reveal, on_inputs)
    level, (source,) = level_of(plan), plan.roster("C").sources
    level.check(Shapes(10**4, {source: columns}, columns))
    with pytest.raises(BoundError, match=r"\(noise: inputs\) of A.* 100,000,000 rows"):
        level.check(Shapes(rows, {source: columns}, columns))

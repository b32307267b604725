"""Noise in whole runs: of the stated size, added once by each owner, and subtracted by that owner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mpc_spearman.levels import explained, level_of, proved, strengths
from mpc_spearman.levels.noise import in_digits, noisy
from mpc_spearman.levels.shapes import Description, Descriptions, Shapes
from mpc_spearman.parties import Role
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import Scales, add_scales, deviations, stack_scales
from support.in_memory import run_in_memory
from support.plans import PROTOCOLS, plan
from support.recording import Recorded
from support.references import table
from support.uniform import signs_of_pattern

RNG = np.random.default_rng(3)
N, COMMON = 200, RNG.normal(size=200)
TABLES = {
    "A": table(
        a0=COMMON + RNG.normal(size=N), a1=RNG.normal(size=N), flag=np.arange(N) < 9, flat=np.zeros(N)
    ),
    "D": table(d0=COMMON - RNG.normal(size=N)),
    "B": table(b0=COMMON, b1=RNG.normal(size=N), b2=np.arange(N) % 7, flat=np.ones(N)),
}
NOISY = {"precision": "statistical"}


def noisy_plan(*sources: str, grants: tuple[str, str] = ("strengths", "strengths"), **settings: Any) -> Any:
    return plan(*sources, results={**NOISY, "target": grants[0], "sources": grants[1]}, **settings)


def only(*sources: str) -> dict[str, pd.DataFrame]:
    return {name: TABLES[name] for name in (*sources, "B")}


def spread(values: np.ndarray) -> float:
    """p-value that standardised values have variance 1."""
    statistic, many = float(np.square(values).sum()), values.size
    return 2 * min(stats.chi2.cdf(statistic, many), stats.chi2.sf(statistic, many))


@pytest.mark.parametrize("sources", [("A",), ("A", "D")])
def test_strengths_have_the_noise_that_each_copy_states(
    sources: tuple[str, ...],
) -> None:
    """Over runs: C's copy has all owners' draws, B's all but its own, independent from run to run."""
    without_noise = run_in_memory(plan(*sources, reveal="strengths"), only(*sources)).result()
    exact, by_chance = without_noise.strengths, without_noise.errors.to_numpy()[:3]
    off: dict[str, list[np.ndarray]] = {"C": [], "B": [], "A": []}
    for _ in range(12):
        outcome = run_in_memory(noisy_plan(*sources, reveal="strengths"), only(*sources))
        for party, errors in off.items():
            result = outcome.result(party)
            assert result.strengths.isna().equals(exact.isna())
            stated = np.sqrt(result.errors.to_numpy()[:3] ** 2 - by_chance**2)
            errors.append((result.strengths - exact).to_numpy()[:3] / stated)
    # Each limit is passed by chance less than once in 10^8 times.
    for errors in map(np.array, off.values()):
        assert spread(errors) > 1e-9
        assert abs(np.corrcoef(errors.T) - np.eye(3)).max() < 0.99
        assert abs(np.corrcoef(errors[:-1].ravel(), errors[1:].ravel())[0, 1]) < 0.85
    # The target's draw, which its own copy tells nothing of: C's copy less its own has that variance.
    draws = len(sources) + 1
    draw = np.array(off["C"]) * np.sqrt(draws) - np.array(off["B"]) * np.sqrt(draws - 1)
    assert spread(draw) > 1e-9
    assert abs(np.corrcoef(draw.ravel(), np.array(off["B"]).ravel())[0, 1]) < 0.85


@pytest.mark.parametrize("scheme", ["mpc", "paillier", "bfv"])
@pytest.mark.parametrize("level", ["strengths", "strengths paper", "explained", "canonical"])
def test_opened_values_contain_every_owners_full_draw_once(
    level: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the integer, under every protocol, with two sources, and draws as large as they can be.

    Each is for a deviation that hides the exchange of any two rows of the very integers that are multiplied.
    """
    if scheme == "bfv":
        pytest.importorskip("tenseal")
    reveal, *estimator = level.split()
    settings: dict[str, Any] = {"reveal": reveal, "estimator": estimator[0] if estimator else "tie_corrected"}
    settings |= PROTOCOLS[scheme]
    run_plan = noisy_plan("A", "D", grants=(reveal, "nothing"), **settings)
    kind: Any = type(level_of(run_plan))
    contribution, conclude, drawn, vectors, opened = kind.contribution, kind.conclude, [], {}, []
    sigmas: list[np.ndarray] = []
    needed: list[np.ndarray] = []

    def draw(sigma: np.ndarray) -> np.ndarray:
        sigmas.append(sigma.astype(float))
        drawn.append(np.where(np.indices(sigma.shape).sum(axis=0) % 2, 10, -10) * sigma + len(drawn))
        return drawn[-1]

    def contribute(self: Any, ranks: Any, role: Role, *more: Any) -> Any:
        contributed = contribution(self, ranks, role, *more)
        vectors[role, ranks.m] = contributed.vectors.astype(object)
        return contributed

    def record(self: Any, product: np.ndarray, shapes: Shapes) -> Any:
        opened.append(np.array(product.tolist(), dtype=object))
        rows = add_scales if reveal == "strengths" else stack_scales
        s = deviations(rows(shapes.of_sources), shapes.of_target, run_plan.privacy.loss)
        needed.append(s.ravel() * self.encoding(shapes).source_scale * self.encoding(shapes).target_scale)
        return conclude(self, product, shapes)

    for module in (strengths, explained):
        monkeypatch.setattr(module, "discrete_gaussian", draw)
    monkeypatch.setattr(kind, "contribution", contribute)
    monkeypatch.setattr(kind, "conclude", record)
    run_in_memory(run_plan, {name: frame.head(80) for name, frame in only("A", "D").items()}).result("B")
    *sources, target = (vectors[key] for key in ((Role.SOURCE, 4), (Role.SOURCE, 1), (Role.TARGET, 4)))
    exact = [source @ target.T for source in sources]
    by_length = {len(noise): noise.astype(object) for noise in drawn}
    assert len(drawn) == 3
    if reveal == "strengths":
        assert (opened[0] == sum(exact) + sum(noise.astype(object) for noise in drawn)).all()
    else:
        assert (opened[0] == np.vstack(exact) + np.vstack([by_length[4], by_length[1]]) + by_length[5]).all()
    together = sum(sources) if reveal == "strengths" else np.vstack(sources)
    mu = separation(run_plan.privacy.loss)
    for sigma in sigmas:
        assert all(np.isclose(s, needed[0], rtol=1e-9).any() for s in sigma[sigma > 0])
        for x in (*sources, together):
            if len(x) == len(sigma):
                assert 0.02 * mu < _most_moved(x.astype(float), target.astype(float), sigma) <= mu


def _most_moved(x: np.ndarray, y: np.ndarray, sigma: np.ndarray) -> float:
    """By how many deviations all products change together if any two rows of one side are exchanged."""
    weights = 1 / np.maximum(sigma, 1e-9)  # what has no noise must not change
    moved = [
        np.linalg.norm((x[:, [i]] - x[:, [j]]) * (y[:, i] - y[:, j]) * weights)
        for i in range(x.shape[1])
        for j in range(i)
    ]
    return float(max(moved))


@pytest.mark.parametrize("level", ["coefficients", "differences"])
def test_the_coordinator_passes_on_noisy_numbers_and_keeps_exact_ones(level: str) -> None:
    exact = run_in_memory(plan(reveal=level), only("A")).result("B").coefficients
    off, s = [], None
    for _ in range(12):
        outcome = run_in_memory(noisy_plan(reveal=level, grants=("coefficients", "coefficients")), only("A"))
        pd.testing.assert_frame_equal(outcome.result("C").coefficients, exact, check_exact=True)
        target, source = outcome.result("B"), outcome.result("A")
        pd.testing.assert_frame_equal(target.coefficients, source.coefficients, check_exact=True)
        s = target.noise.to_numpy()
        off.append((target.coefficients - exact).to_numpy())
    assert s is not None
    assert np.array_equal(s > 0, exact.notna())
    standard = np.array(off)[:, s > 0] / s[s > 0]
    assert spread(standard) > 1e-9
    assert abs(np.corrcoef(standard[:-1].ravel(), standard[1:].ravel())[0, 1]) < 0.6


@pytest.mark.parametrize("unit", ["row", "value"])
def test_coefficients_have_the_wider_sides_noise_and_strengths_their_kinds(
    unit: str,
) -> None:
    """For several sources, each of which hears of the noise in its own rows alone."""
    grants = ("coefficients", "coefficients")
    run_plan = noisy_plan("A", "D", grants=grants, privacy={"unit": unit}, strength="mean_abs")
    a, d, b = (run_plan.roster(name).me for name in "ADB")
    draw, m, level = np.random.default_rng(5), {a: 3, d: 1}, level_of(run_plan)
    scales = {who: Scales(draw.uniform(0.1, 0.3, k), k / 2) for who, k in ({**m, b: 2}).items()}
    sums = {who: Scales(draw.uniform(0.1, 0.3, 1)) for who in m}
    shapes = Shapes(N, m, 2, scales=scales, of_sums=sums)
    rho, loss = draw.uniform(-1, 1, (4, 2)), run_plan.privacy.loss
    numbers = {"coefficients": rho, "ratios": rho}
    *of_sources, of_target = (Description(ties=(0,) * k, factors=(1.0,) * k) for k in (3, 1, 2))
    shapes = replace(shapes, descriptions=Descriptions(tuple(of_sources), of_target))
    copy = level.published(numbers, "coefficients", shapes)
    columns = stack_scales([scales[a], scales[d]])
    needed = deviations(columns, scales[b], loss, 4 if unit == "value" else None)
    assert np.allclose(copy["noise"], needed, rtol=1e-6)
    assert np.array_equal(level.of_source(copy, d, shapes)["noise"], copy["noise"][3:])
    assert np.array_equal(level.of_source(copy, a, shapes)["coefficients"], copy["coefficients"][:3])
    copy = level.published(numbers, "strengths", shapes)
    assert np.allclose(
        copy["strengths_noise"], deviations(add_scales([columns]), scales[b], loss)[0] / 4, rtol=1e-6
    )
    signed = level_of(run_plan.model_copy(update={"strength": "mean"})).published(
        numbers, "strengths", shapes
    )
    needed = deviations(add_scales(sums.values()), scales[b], loss)[0] / 4
    assert np.allclose(signed["strengths_noise"], needed, rtol=1e-6)


@pytest.mark.parametrize("proofs", [False, True])
def test_means_over_two_sources_hide_the_values_of_each(proofs: bool) -> None:
    """The worst exchange of two values of D's column, in the means of ten target columns that A gets."""
    run_plan = noisy_plan(
        "A", "D", grants=("nothing", "coefficients"), privacy={"unit": "value"}, proofs=proofs, cautious=True
    )
    a, d, b = (run_plan.roster(name).me for name in "ADB")
    scales = {a: Scales(np.array([0.1])), d: Scales(np.array([0.3])), b: Scales(np.full(10, 0.2))}
    shapes = Shapes(N, {a: 1, d: 1}, 10, scales=scales)
    s = level_of(run_plan).deviations(shapes)
    change = np.full(10, 0.3 * 0.2)
    if proofs:
        s = np.full((2, 10), float(proved.deviation(run_plan, N, 2, 10)))
        change = np.full(10, 4.0 * (N - 1) ** 2)
    in_means = np.square(change) / np.square(s).sum(axis=0)
    assert in_means.sum() <= separation(run_plan.privacy.loss) ** 2


def test_numbers_are_moved_by_noise_of_the_stated_deviation_only() -> None:
    values = np.array([0.1, np.nan, -0.9, 1.0])
    s = np.array([0.02, 0.02, 0.0, 0.3])
    published, added = map(np.array, zip(*(noisy(values, s, 2.0) for _ in range(400)), strict=True))
    assert np.isnan(published[:, 1]).all()
    assert (published[:, 2] == -0.9).all()
    assert added[0, 1] == added[0, 2] == 0
    assert (added[0, [0, 3]] >= s[[0, 3]]).all()
    assert np.allclose(added[0, [0, 3]], s[[0, 3]], rtol=1e-6)
    assert spread((published[:, [0, 3]] - values[[0, 3]]) / s[[0, 3]]) > 1e-9
    assert (published[:, 3] > 1).any()  # beyond 1 is a valid number


def test_the_noise_covers_fixed_point_too() -> None:
    """Of k numbers that all change by rounding the sum of squares stays below mu^2."""
    k, s = 10**6, 2.0**-44
    _, added = noisy(np.zeros(k), np.full(k, s), 2.0)
    change = (s * separation(2.0) / np.sqrt(k) * 2**50 + 2) / 2**50
    assert np.sqrt(k) * change / added[0] <= separation(2.0) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "s", "error", "shown"),
    [
        (0.123456, 0.03, 0.01, 0.123),  # 0.0015: to 0.001
        (0.123456, 0.001, 0.1, 0.125),  # 0.005
        (-0.98765, 0.45, 0.1, -0.98),  # 0.0225: to 0.02
        (0.5, 0.0, 0.1, 0.5),
    ],
)
def test_digits_end_at_a_twentieth_of_noise_or_standard_error(
    value: float, s: float, error: float, shown: float
) -> None:
    rounded = in_digits(np.array([value]), np.array([s]), error)[0]
    assert rounded == pytest.approx(shown, abs=1e-12)
    assert abs(rounded - value) <= max(s, error) / 40 or s == 0


def test_rounded_digits_leave_the_size_of_small_p_values() -> None:
    """Steps of a quarter of the noise made 0.01 as common as 0.0137."""
    draws, z = RNG.normal(size=400_000), 2.576
    for s in (0.0199, 0.0399, 0.0401, 0.0999):
        shown = in_digits(s * draws, np.full(draws.size, s), 0.0) / s
        assert np.mean(np.abs(shown) >= z) == pytest.approx(0.01, rel=0.09)


def test_a_draw_is_in_no_message_but_the_owners_term() -> None:
    """With noise a run has the messages of one without; and its shares look as random."""
    wide = {
        name: table(**{f"{name}{i}": RNG.normal(size=60) for i in range(columns)})
        for name, columns in (("A", 3), ("B", 1024))
    }
    noisy_run, exact_run = (
        Recorded(wide, reveal="strengths", results={"precision": how, "target": "nothing"})
        for how in ("statistical", "exact")
    )
    kinds = [
        sorted((m.receiver, m.sender, m.kind) for m in run.transcript.messages if m.kind != "KEEPALIVE")
        for run in (noisy_run, exact_run)
    ]
    assert kinds[0] == kinds[1]
    for party in "AB":
        assert signs_of_pattern(noisy_run.shares(party), noisy_run.width) == []

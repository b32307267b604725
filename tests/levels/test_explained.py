"""``explained``: equal to least squares on pooled ranks, enough noise, and tests of the stated size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.config.parties import Policy
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.errors import BoundError, PolicyError, ProtocolViolation
from mpc_spearman.levels import level_of, whitening
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import SLACK, Scales, Stated, untied_range
from mpc_spearman.results.result import Result
from mpc_spearman.statistics import explained
from support.in_memory import run_in_memory
from support.plans import PROTOCOLS, everyone, mapping, plan
from support.references import DATA, SHARED, table

RNG = np.random.default_rng(25)
N = 300
COMMON = RNG.normal(size=N)
#: Ties, a flag, a constant, a column twice and one reversed, and one that two others give.
A = table(
    a=COMMON + RNG.normal(size=N), b=RNG.poisson(2, N), flag=np.arange(N) % 3 == 0, flat=np.zeros(N),
    twice=COMMON, again=COMMON, back=-COMMON, c=RNG.normal(size=N),
)  # fmt: skip
D = table(d=COMMON - RNG.normal(size=N), e=RNG.normal(size=N))
B = table(x=COMMON, y=RNG.normal(size=N) + A["c"], z=RNG.integers(0, 3, N), flat=np.ones(N), f=COMMON > 1)
EXPLAINED: dict[str, Any] = {"reveal": "explained", "results": {"target": "explained"}}
NOISY = {
    "reveal": "explained",
    "results": {"target": "explained", "sources": "explained", "precision": "statistical"},
}


def ranks_of(frame: pd.DataFrame) -> Ranks:
    return rank_columns([frame[name].to_numpy() for name in frame.columns if name != "id"])


def least_squares(source: Ranks, target: Ranks) -> np.ndarray:
    """R² of the target's ranks on all of the source's, by NumPy on pooled ranks."""
    x, y = source.matrix.T.astype(float), target.matrix.T.astype(float)
    fitted, sums = x @ np.linalg.lstsq(x, y, rcond=None)[0], np.square(y).sum(axis=0)
    return np.divide(np.square(fitted).sum(axis=0), sums, out=np.full(len(sums), np.nan), where=sums > 0)


def check_exact(source: pd.DataFrame, target: pd.DataFrame, **settings: Any) -> Result:
    """Hold an exact run against least squares, within the stated error and what float64 adds."""
    chosen = plan(**EXPLAINED, **settings)
    result = run_in_memory(chosen, {"A": source, "B": target}).result("B")
    truth, shown = least_squares(ranks_of(source), ranks_of(target)), result.explained
    shapes = Shapes(len(source), {Party("A", Role.SOURCE, 2): source.shape[1] - 1}, target.shape[1] - 1)
    close = 2 * np.sqrt(shown["k"].iloc[0]) * level_of(chosen).encoding(shapes).error + 1e-9
    np.testing.assert_allclose(shown["r2"], truth, rtol=0, atol=close)
    assert shown.loc["A", "predictive"].isna().tolist() == np.isnan(truth).tolist()
    best = shown["predictive"].droplevel(0)[result.ranking["feature"]].to_numpy()
    assert (np.diff(best[~np.isnan(best)]) <= 0).all()
    return result


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_exact_results_are_least_squares_of_pooled_ranks(protocol: str) -> None:
    if protocol == "bfv":
        pytest.importorskip("tenseal")
    rows = N if protocol == "mpc" else 80
    result = check_exact(A[:rows], B[:rows], **PROTOCOLS[protocol])
    assert (result.explained["k"] == 5).all()


@pytest.mark.parametrize("file", ["demo", "breast", "motor", "student"])
def test_real_tables_are_explained_as_least_squares_says(file: str) -> None:
    if file == "demo":
        frames = [pd.read_csv(DATA / name) for name in ("insurer.csv", "clinic.csv")]
        check_exact(*(frame.rename(columns={frame.columns[0]: "id"}) for frame in frames))
        return
    paths = [SHARED / f"{file}_hetero_{party}.csv" for party in ("host", "guest")]
    if not all(path.exists() for path in paths):
        pytest.skip("no such tables beside the repository")
    frames = [pd.read_csv(path).drop(columns="y", errors="ignore") for path in paths]
    check_exact(
        *(
            frame.rename(columns={frame.columns[0]: "id"}).sort_values("id", ignore_index=True)
            for frame in frames
        )
    )


def test_more_than_a_hundred_columns_with_many_copies() -> None:
    random = np.random.default_rng(25)
    base = random.normal(size=(40, 900))
    columns = np.vstack(
        [base, base[:30] + 0.01 * random.normal(size=(30, 900)), random.normal(size=(50, 900)) > 0]
    )
    source = table(**{f"c{i}": column for i, column in enumerate(columns)})
    result = check_exact(source, table(y=base.sum(axis=0), z=random.normal(size=900)))
    assert result.explained["k"].iloc[0] == 120
    assert 80 < len(whitening.directions(ranks_of(source))) < 95  # with noise


def test_a_small_difference_of_columns_counts_unless_there_is_noise() -> None:
    random = np.random.default_rng(26)
    base, apart = random.normal(size=(2, 2000))
    source = table(a=base + 0.05 * apart, b=base - 0.05 * apart, rare=np.arange(2000) < 3)
    target = table(y=apart + random.normal(size=2000), z=np.arange(2000) % 7)
    exact = run_in_memory(plan(**EXPLAINED), {"A": source, "B": target})
    shown = exact.result("B").explained
    assert shown["k"].iloc[0] == 3
    assert shown["r2"].iloc[0] > 0.3
    assert not any("left out" in line for line in exact.result("A").warnings)
    noisy = run_in_memory(plan(**NOISY), {"A": source, "B": target})
    (warning,) = [line for line in noisy.result("A").warnings if line.startswith("left out: ")]
    assert "100% of 'rare'" in warning
    assert noisy.result("B").explained["k"].iloc[0] == 1
    assert not any(line.startswith("left out: ") for line in noisy.result("B").warnings)


def test_exact_coefficients_reveal_correlations_between_source_columns() -> None:
    """The coordinator has ρ of another run and ZᵀZ: it solves ZᵀZ = ρᵀ·C⁻¹·ρ. Without noise it finds C."""
    rng, n = np.random.default_rng(6), 500
    base = rng.normal(size=n)
    source = rank_columns([base + rng.normal(size=n), base - rng.normal(size=n), rng.normal(size=n)])
    target = rank_columns([*(np.array([base, *rng.normal(size=(2, n))]) + rng.normal(size=(3, n))), base])
    rho = np.corrcoef(np.vstack([source.matrix, target.matrix]))[:3, 3:]
    y = target.matrix / np.linalg.norm(target.matrix, axis=1)[:, None]
    opened = whitening.whitened(source, 1 << 28) / (1 << 28) @ y.T
    solve = np.linalg.pinv(rho)
    solution = np.linalg.inv(solve.T @ (opened.T @ opened) @ solve)
    np.testing.assert_allclose(solution, np.corrcoef(source.matrix), atol=1e-4)
    noisy = np.linalg.pinv(solve.T @ (lambda z: z.T @ z)(Opened(source, target).z()) @ solve)
    assert np.abs(noisy - np.corrcoef(source.matrix)).max() > 0.05


class Opened:
    """A level's sums and noise without a protocol, as often as a test wants."""

    def __init__(self, source: Ranks, target: Ranks, **settings: Any) -> None:
        self.level = level_of(plan(**{**NOISY, **settings, "results": {"precision": "statistical"}}))
        roster = self.level.plan.roster("C")
        self.source, self.target = roster.sources[0], roster.target
        self.ranks, self.y = source, target
        self.shapes = Shapes(source.n, {self.source: source.m}, target.m)
        self.stated = {
            who: self.level.statements(ranks, who.role, np.ones(ranks.m))
            for who, ranks in ((self.source, source), (self.target, target))
        }
        self.b = self._contribution(self.target, target)

    def _contribution(self, owner: Party, ranks: Ranks) -> Any:
        stated = self.stated[owner]
        factors = self.level.factors(ranks, owner.role, self.shapes, stated, np.ones(ranks.m))
        return self.level.contribution(ranks, owner.role, self.shapes, stated, factors)

    def vectors(self) -> Any:
        return self._contribution(self.source, self.ranks)

    def stated_shapes(self) -> Shapes:
        scales = {
            who: self.level.grid(
                who.role, "ranges", self.shapes.n, len(stated.constant), stated.defined
            ).scales(self.level.stated_scales(stated, who.role)["ranges"])
            for who, stated in self.stated.items()
        }
        defined = {who: stated.defined for who, stated in self.stated.items()}
        return replace(self.shapes, defined=defined, scales=scales)

    def z(self) -> np.ndarray:
        """What the coordinator opens, in the unit of coefficients."""
        a = self.vectors()
        shapes = self.stated_shapes()
        sums = a.vectors.astype(object) @ self.b.vectors.astype(object).T
        for owner in (self.source, self.target):
            sums = sums + self.level.draw_noise(shapes, owner)
        return (sums / self.level.encoding(shapes).unit).astype(float)[: shapes.defined[self.source]]


@pytest.mark.parametrize("level", ["explained", "canonical"])
def test_exchanged_rows_move_the_sums_by_no_more_than_the_loss_allows(level: str) -> None:
    """Over all exchanges of a table with rare values, at either side: at most μ, and not far below."""
    n, random = 60, np.random.default_rng(11)
    source = rank_columns([random.normal(size=n), np.arange(n) < 9, random.normal(size=n)])
    target = rank_columns([random.normal(size=n), np.arange(n) % 5 == 0, random.permutation(n)])
    opened = Opened(source, target, reveal=level)
    a = opened.vectors()
    shapes = opened.stated_shapes()
    s = opened.level._steps(shapes)  # type: ignore[attr-defined]
    x, y = a.vectors.astype(float), opened.b.vectors.astype(float)
    moved = [
        np.linalg.norm(np.outer(x[:, i] - x[:, j], y[:, j] - y[:, i]) / s) for i in range(n) for j in range(i)
    ]
    mu = separation(opened.level.plan.privacy.loss)
    assert 0.3 * mu < max(moved) <= mu
    noise = opened.level.draw_noise(shapes, opened.target)
    assert noise is not None
    assert (noise != 0).all()


def test_published_numbers_have_the_noise_that_they_state_and_no_bias() -> None:
    truth = least_squares(ranks_of(A), ranks_of(B))
    runs = [run_in_memory(plan(**NOISY), {"A": A, "B": B}).result("A").explained for _ in range(25)]
    varying = [0, 1, 2, 4]
    r2 = np.array([shown["r2"] for shown in runs])[:, varying]
    s, k, right = runs[0]["noise"].to_numpy()[varying], runs[0]["k"].iloc[0], truth[varying]
    spread = np.sqrt(2 * k * s**4 + 4 * right * s**2)
    np.testing.assert_array_less(np.abs(r2.mean(axis=0) - right), 7 * spread / 5)
    ratio = r2.std(axis=0, ddof=1) / spread
    assert (ratio > 0.3).all()
    assert (ratio < 4).all()  # with five degrees of freedom tails are heavy


def test_several_sources_have_an_r2_each_and_a_source_sees_its_own() -> None:
    plans = plan("A", "D", reveal="explained", results={"target": "explained", "sources": "explained"})
    outcome = run_in_memory(plans, {"A": A, "D": D, "B": B})
    target = outcome.result("B").explained
    assert list(target.index.unique(0)) == ["A", "D"]
    for name, frame in (("A", A), ("D", D)):
        truth = least_squares(ranks_of(frame), ranks_of(B))
        np.testing.assert_allclose(target.loc[name, "r2"], truth, atol=1e-6)
        of_source = outcome.result(name).explained
        pd.testing.assert_series_equal(of_source["r2"], target.loc[[name], "r2"])
    assert any("each R² and each canonical correlation" in line for line in outcome.result("B").warnings)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (table(**{f"c{i}": RNG.normal(size=40) for i in range(9)}), "needs 5 rows for each direction"),
        (table(c=np.zeros(40)), "can use none"),
    ],
)
def test_a_source_with_too_few_directions_is_refused_before_sending(source: pd.DataFrame, text: str) -> None:
    random = np.random.default_rng(25)
    outcome = run_in_memory(plan(**EXPLAINED), {"A": source, "B": table(y=random.normal(size=40))})
    assert outcome.classes().keys() == {"A", "B", "C"}
    assert set(outcome.classes().values()) <= {"BoundError", "PeerFailed"}  # who hears of it first ends so
    assert any(isinstance(error, BoundError) and text in str(error) for error in outcome.errors.values())


def test_owners_grant_the_level_by_name_and_need_several_directions() -> None:
    for most, allowed in (("differences", False), ("explained", True), (["coefficients", "explained"], True)):
        assert Policy(max_reveal=most).allows("explained") is allowed
    parties = plan(reveal="explained").model_dump(mode="json")["parties"]
    twice = {"A": table(a=COMMON, b=COMMON), "B": B}
    for most, error in (
        ("differences", "max_reveal"),
        ("explained", "min_columns"),
        (["coefficients", "explained"], None),
    ):
        parties["target"]["policy"] = {"max_reveal": most}
        outcome = run_in_memory(plan(cautious=True, reveal="explained", parties=parties), twice)
        assert outcome.errors.keys() == ({"A", "B", "C"} if error else set())
        assert error is None or (
            isinstance(outcome.errors["B"], PolicyError) and error in str(outcome.errors["B"])
        )


def test_scales_state_the_largest_distance_of_two_rows() -> None:
    vectors = whitening.whitened(ranks_of(A), 1 << 24)
    x = vectors / (1 << 24)
    most = max(np.linalg.norm(x[:, [i]] - x, axis=0).max() for i in range(N))
    assert whitening.distance(vectors, 1 << 24) == pytest.approx(most)
    grid = whitening.distances(len(whitening.directions(ranks_of(A))), N)
    assert most <= grid.width(grid.step(most)) <= 1.21 * most


def test_rare_values_on_both_sides_have_no_p_value_without_noise(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(4), 400
    rare = {name: rng.permutation(n) < 20 for name in "abc"}
    target = table(flag=rng.permutation(n) < 25, few=np.arange(n) < 4, half=np.arange(n) % 2, y=rng.random(n))
    for level, none in (("explained", ["flag", "few"]), ("canonical", None)):
        tables = {"A": table(**rare), "B": target if none else table(**rare)}
        result = run_in_memory(plan(**EXPLAINED | {"reveal": level, "results": {}}), tables).result()
        p = getattr(result, level)["p"]
        assert p.isna().all() if none is None else list(p.index[p.isna()].get_level_values(1)) == none
        assert any("tests have no p-value" in line for line in result.warnings)
        result.save(tmp_path / level)
        assert getattr(Result.load(tmp_path / level), level).equals(getattr(result, level))


@pytest.mark.parametrize("level", ["explained", "canonical"])
def test_tests_count_only_rows_that_have_values_at_either_side(level: str) -> None:
    rng, n = np.random.default_rng(6), 400
    lacking = np.arange(n) % 10 < 4
    a, b = (table(**{name: rng.normal(size=n) for name in names}) for names in ("pqr", "xyz"))
    a.loc[lacking, ["p", "q"]] = np.nan
    b.loc[lacking, ["x", "z"]] = np.nan
    content = mapping(**EXPLAINED | {"reveal": level, "results": {}})
    for party in everyone(content)[1:]:
        party["missing"] = "middle"
    rows, chosen = n * 0.6, load_plan(content)
    result = run_in_memory(chosen, {"A": a, "B": b}).result("B")
    shown: Any = getattr(result, level).loc["A"]
    s, k, full = shown["noise"].to_numpy(), np.full(3, 3), shown["dispersion"].to_numpy()
    counted = np.array([rows, n if level == "explained" else rows, rows])
    if level == "explained":
        assert shown["gaps"].tolist() == pytest.approx([0.4, 0, 0.4])
        expected = explained.pvalues(shown["r2"].to_numpy(), explained.Directions(counted, k, s, full))
    else:
        assert shown["gaps"].tolist() == pytest.approx([0.4] * 3)
        expected = explained.pillai_pvalues(
            shown["trace"].to_numpy(), explained.Directions(counted, k, s, full, k)
        )
    np.testing.assert_allclose(shown["p"], expected)


@pytest.mark.parametrize("reveal", ["explained", "canonical"])
def test_no_smaller_range_is_taken_than_columns_can_have(reveal: str) -> None:
    """With less the noise of others would be too little; n rows of k orthonormal columns are no nearer."""
    run_plan, rng = plan(reveal=reveal), np.random.default_rng(2)
    owners = (run_plan.roster("A").me, run_plan.roster("B").me)
    for k in (1, 4):
        x = rng.normal(size=(100, k))
        x = np.linalg.qr(x - x.mean(axis=0))[0]
        farthest = max(np.linalg.norm(x[i] - x, axis=1).max() for i in range(100))
        of_source, of_target = (level_of(run_plan).grid(owner.role, "ranges", 100, 5, k) for owner in owners)
        assert of_source.least == pytest.approx(np.sqrt(2 * k / 100))
        assert of_source.least < farthest
        half = untied_range(100) / np.sqrt(3)  # of a column with two groups of the same size
        assert of_target.least == pytest.approx(of_source.least if reveal == "canonical" else half)


@pytest.mark.parametrize("level", ["explained", "canonical"])
def test_scales_of_nothing_beside_vectors_that_are_kept_are_refused(level: str) -> None:
    opened = Opened(ranks_of(A), ranks_of(B), reveal=level)
    shapes = opened.stated_shapes()
    opened.level.check_statements(shapes)
    for owner, scales in shapes.scales.items():
        nothing = Scales(np.append(0.0, scales.widths[1:]), scales.spread)
        with pytest.raises(ProtocolViolation, match=f"{owner.name} .* states ranges"):
            opened.level.check_statements(replace(shapes, scales={**shapes.scales, owner: nothing}))


def test_no_honest_distance_of_whitened_rows_exceeds_the_leverages() -> None:
    n, random = 4000, np.random.default_rng(3)
    for columns in (1, 3):
        grid = whitening.distances(columns, n)
        # rare flags have the largest leverages: the range is next to its upper end
        for rare in (400, 410, 2000):
            flags = [np.isin(np.arange(n), random.choice(n, rare, replace=False)) for _ in range(columns)]
            honest = whitening.distance(whitening.whitened(rank_columns(flags), 1 << 24), 1 << 24)
            stated = Stated((grid.step(honest),))
            assert grid.problem(stated, of_length_1=False) is None
            assert grid.scales(stated).widths[0] >= honest
        lie = Stated((grid.step(1.4),))
        assert grid.scales(lie).widths[0] <= SLACK * 2 * np.sqrt(10 * columns / n)

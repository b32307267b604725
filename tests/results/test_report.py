"""The report and the terminal summary: what is said, what is drawn, and that names stay text."""

from __future__ import annotations

import io
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from mpc_spearman.results import charts, report
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.reference import reference
from mpc_spearman.wire.meter import COLUMNS

DATA = Path(__file__).parents[2] / "data"
#: What HTML lets stand without an end tag.
VOID = {"meta", "br"}


def shared_plan(*sources: str, **changes: Any) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "protocol": "mpc",
        "reveal": "coefficients",
        "estimator": "tie_corrected",
        "strength": "mean",
        "order": "descending",
        "rows": None,
        "parties": {
            "coordinator": {"name": "C"},
            "target": {"name": "B"},
            "sources": [{"name": name} for name in sources or ("A",)],
        },
        "results": {"target": "coefficients", "sources": "nothing"},
        "privacy": {"min_group": 3, "min_rows_per_feature": 3},
        "network": {"timeout": 60.0},
    }
    return plan | changes


def costs(*rows: tuple[Any, ...]) -> pd.DataFrame:
    rows = rows or tuple((party, "reveal", 0.5, 0.25, 1000, 2000, 3, 1, 5_000_000) for party in "CBA")
    return pd.DataFrame(list(rows), columns=list(COLUMNS))


def computed(source: dict[str, pd.DataFrame], target: pd.DataFrame, **changes: Any) -> Result:
    """The coordinator's result on these tables."""
    settings = {k: changes.pop(k) for k in ("estimator", "strength", "order", "reveal") if k in changes}
    plan = shared_plan(*source, **settings)
    found = reference(
        source, target, estimator=plan["estimator"], strength=plan["strength"], order=plan["order"]
    )
    base: dict[str, Any] = {
        "plan": plan,
        "party": "C",
        "role": "coordinator",
        "n": len(target),
        "cost": costs(),
        "coefficients": found.coefficients,
        "pvalues": found.pvalues,
        "strengths": found.strengths,
        "counts": found.counts,
        "ranking": found.ranking,
    }
    return Result(**(base | changes))


def tables(n: int, source: int, target: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    generator = np.random.default_rng(7)
    common = generator.normal(size=(n, 3))
    a = common @ generator.normal(size=(3, source)) + generator.normal(size=(n, source))
    b = common @ generator.normal(size=(3, target)) + generator.normal(size=(n, target))
    return (
        pd.DataFrame(a, columns=[f"source_{i}" for i in range(source)]),
        pd.DataFrame(b, columns=[f"target_{i}" for i in range(target)]),
    )


def synthetic(n: int = 60, source: int = 4, target: int = 6, **changes: Any) -> Result:
    a, b = tables(n, source, target)
    return computed({"A": a}, b, **changes)


class Page(HTMLParser):
    """A parsed page: every element with its attributes, and the text inside each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1], data.strip()))

    def inside(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [attrs for _, attrs in self.elements if name in attrs.get("class", "").split()]

    @property
    def text(self) -> str:
        return " ".join(text for where, text in self.texts if where not in ("style", "title"))


def page(result: Result) -> Page:
    return Page(report.render(result))


# --- safe and self-contained ---------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></svg></style>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; &amp;",
    "evil\u202egnp\x1b[2J",
]


def test_hostile_names_stay_text() -> None:
    a, b = tables(80, len(HOSTILE), len(HOSTILE))
    a.columns, b.columns = HOSTILE, HOSTILE
    harmless = computed({"A": pd.DataFrame(a.to_numpy())}, pd.DataFrame(b.to_numpy()), warnings=["w"] * 6)
    cost = costs().replace({"party": {"A": "<i>A</i>"}})
    hostile = computed({"<i>A</i>": a}, b, warnings=HOSTILE, cost=cost, party="</p>")
    found = page(hostile)
    # The same elements as with harmless names, so none came from a name.
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in page(harmless).elements]
    for name in HOSTILE[:5]:
        assert name in found.inside("bdi")
        assert name in found.inside("li")
        assert any(name in title for title in found.inside("title"))
    assert "evil\ufffdgnp\ufffd[2J" in found.inside("bdi")
    assert "49" not in found.inside("bdi")


def test_the_page_runs_no_script_and_fetches_nothing() -> None:
    found = page(synthetic())
    assert {tag for tag, _ in found.elements}.isdisjoint({"script", "link", "img", "iframe", "object", "use"})
    for _, attributes in found.elements:
        assert not {key for key in attributes if key.startswith("on") or key in ("src", "href", "xlink:href")}
    assert re.findall(r"https?:|//|@import|url\((?!#)", report.render(synthetic())) == []
    policy = next(a for tag, a in found.elements if "http-equiv" in a)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_a_page_is_the_same_every_time() -> None:
    assert report.render(synthetic()) == report.render(synthetic())


# --- what it says --------------------------------------------------------------------------------------


@pytest.mark.skipif(not (DATA / "clinic.csv").exists(), reason="the demo's tables are not here")
def test_the_demo_shows_that_ties_mislead_eq_2() -> None:
    source = {"A": pd.read_csv(DATA / "insurer.csv").drop(columns="id")}
    target = pd.read_csv(DATA / "clinic.csv").drop(columns="id")
    right = page(computed(source, target))
    assert right.inside("h1") == ["disea ranks first of 6 features, with strength 0.017"]
    sentence = "eq. 2 puts hlthp on top with 0.56 because of ties"
    wrong = page(computed(source, target, estimator="paper", warnings=[sentence]))
    assert wrong.inside("h1") == ["hlthp ranks first of 6 features, with strength 0.559 by the paper's eq. 2"]
    assert sentence in wrong.inside("li")
    assert [a.get("aria-label") for a in wrong.of_class("alert")] == ["Warnings"]
    assert right.of_class("alert") == []


def test_the_ranking_comes_in_order_with_negative_bars_to_the_left() -> None:
    _, b = tables(200, 1, 5)
    a = pd.DataFrame({"p": b["target_0"], "q": b["target_0"] + b["target_1"]})
    b["target_2"] = -b["target_0"]
    b["target_3"] = 1.0
    result = computed({"A": a}, b)
    found = page(result)
    order = list(result.ranking["feature"])
    assert found.inside("bdi")[: len(order)] == order
    assert order[0] == "target_0"
    assert order[-1] == "target_3"
    assert "undefined: a constant column has no rank correlation" in found.inside("span")
    bars = [a for tag, a in found.elements if tag == "rect" and a.get("class") in ("positive", "negative")]
    strengths = [s for s in result.ranking["strength"] if not math.isnan(s)]
    assert [bar["class"] for bar in bars] == ["negative" if s < 0 else "positive" for s in strengths]
    zero = float(found.of_class("zero")[0]["x1"])
    for bar, strength in zip(bars, strengths, strict=True):
        start, length = float(bar["x"]), float(bar["width"])
        assert start == pytest.approx(zero if strength >= 0 else zero - length, abs=0.02)
    lengths = [float(bar["width"]) for bar in bars]
    assert np.argsort(lengths).tolist() == np.argsort(np.abs(strengths)).tolist()


def test_mean_absolute_correlation_stands_beside_the_strength() -> None:
    result = synthetic()
    lines = report.ranking_lines(result)
    means = result.coefficients.abs().mean()
    assert [line.other for line in lines] == [means[line.feature] for line in lines]
    assert "mean |ρ|" in page(result).inside("th")
    signed = report.ranking_lines(synthetic(strength="mean_abs"))
    assert [line.other for line in signed] == [result.coefficients.mean()[line.feature] for line in signed]


@pytest.mark.parametrize(
    ("strengths", "expected"),
    [
        ([0.5, 0.25], "f0 ranks first of 2 features, with strength 0.500"),
        ([0.5, 0.5, 0.5], "f0 ranks first of 3 features, with strength 0.500, level with 2 others"),
        ([math.nan, math.nan], "None of the 2 features has a defined strength"),
        ([-0.25], "f0 is the only feature, with strength −0.250"),
        ([math.nan], "f0 is the only feature, but no strength is defined"),
    ],
)
def test_the_headline_fits_the_result(strengths: list[float], expected: str) -> None:
    names = [f"f{i}" for i in range(len(strengths))]
    ranking = pd.DataFrame({"position": range(1, len(names) + 1), "feature": names, "strength": strengths})
    result = Result(
        plan=shared_plan(reveal="strengths"),
        party="C",
        role="coordinator",
        n=30,
        cost=costs(),
        strengths=pd.Series(strengths, names),
        counts=pd.Series([0 if math.isnan(s) else 4 for s in strengths], names),
        ranking=ranking,
    )
    assert page(result).inside("h1") == [expected]


@pytest.mark.parametrize("grant", ["nothing", "ranking", "strengths", "coefficients"])
def test_what_was_not_passed_on_is_absent_with_one_sentence(grant: str) -> None:
    full = synthetic()
    held: dict[str, Any] = {}
    if grant != "nothing":
        held["ranking"] = full.ranking if grant != "ranking" else full.ranking[["position", "feature"]]
    if grant in ("strengths", "coefficients"):
        held |= {"strengths": full.strengths, "counts": full.counts}
    if grant == "coefficients":
        held |= {"coefficients": full.coefficients, "pvalues": full.pvalues}
    plan = shared_plan(results={"target": grant, "sources": "nothing"})
    copy = Result(plan=plan, party="B", role="target", n=60, cost=costs(), **held)
    found = page(copy)
    assert bool(found.of_class("map")) == (grant == "coefficients")
    assert bool(found.of_class("zero")) == (grant in ("strengths", "coefficients"))
    assert bool(found.of_class("ranking")) == (grant != "nothing")
    assert found.text.count("(results.target)") == {"coefficients": 0, "strengths": 1}.get(grant, 2)
    assert ("source_0" in report.render(copy)) == (grant == "coefficients")


def test_who_learnt_what_is_the_view_table(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [
        {"role": "coordinator", "party": "C", "what": "the `n`", "from": "A, B", "phase": "agree"},
        {"role": "coordinator", "party": "C", "what": "the coefficients", "from": "A", "phase": "reveal"},
        {"role": "source", "party": "A", "what": "nothing: noise", "from": "B", "phase": "share"},
    ]
    asked: list[dict[str, Any]] = []

    def learnt(plan: dict[str, Any]) -> list[dict[str, str]]:
        asked.append(plan)
        return facts

    monkeypatch.setitem(sys.modules, "mpc_spearman.wire.disclosure", SimpleNamespace(learnt=learnt))
    result = synthetic()
    found = page(result)
    assert asked == [result.plan]
    start = found.texts.index(("th", "learnt"))
    cells = [text for where, text in found.texts[start:] if where in ("td", "bdi")]
    assert cells[:12] == [
        *("C", "the coefficients", "A", "reveal", "the n", "A, B", "agree"),
        *("A", "nothing: noise", "B", "share", "C"),  # C: the first cost table
    ]
    assert len(found.of_class("key")) == 2  # the fact that carries results, and the colour key


def test_the_real_view_table_fits_the_page() -> None:
    found = page(synthetic(reveal="differences"))
    assert any("within-row difference" in text for text in found.inside("td"))


def test_every_shared_setting_is_listed() -> None:
    found = page(synthetic())
    settings = dict(zip(found.inside("dt"), found.inside("dd"), strict=True))
    assert settings["parties.sources.0.name"] == "A"
    assert settings["network.timeout"] == "60.0"
    assert settings["rows"] == "not set"
    assert settings["results.sources"] == "nothing"


# --- the heat map --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "printed", "labels"),
    [(1, 1, 1, 1), (4, 6, 24, 6), (30, 30, 900, 30), (200, 200, 0, 40)],
)
def test_the_heat_map_scales(source: int, target: int, printed: int, labels: int) -> None:
    result = synthetic(max(30, 2 * source), source, target)
    text = report.render(result)
    assert len(text.encode()) < 4_000_000
    found = Page(text)
    assert len(found.of_class("c")) == source * target
    assert (
        len([a for tag, a in found.elements if tag == "text" and re.match(r"t\d", a.get("class", ""))])
        == printed
    )
    drawn = charts.heat_map(result.coefficients)
    assert len(drawn.column_labels) == labels
    assert drawn.left + drawn.cell_width * target <= 1024, "wider than the page"
    # Every value can be had by hovering, at three digits, under the names of its row and column.
    first, last = result.ranking["feature"].iloc[[0, -1]]
    for feature in (first, last):
        value = result.coefficients.iloc[-1][feature]
        wanted = f"source_{source - 1} × {feature}: {charts.number(value)}"
        assert any(title.startswith(wanted) for title in found.inside("title"))
    assert ("The same as a table" in text) == (source * target <= 1000)


def test_long_names_do_not_blow_the_page_up() -> None:
    a, b = tables(400, 200, 200)
    a.columns = [f"{i}<{'x' * 300}" for i in range(200)]
    b.columns = [f"{'y' * 300}{i}" for i in range(200)]
    found = computed({"A": a}, b)
    assert len(report.render(found).encode()) < 4_000_000
    drawn = charts.heat_map(found.coefficients)
    assert drawn.left < 300
    assert drawn.top < 300


def test_a_side_that_is_too_long_is_drawn_in_blocks_that_hide_nothing() -> None:
    values = np.full((450, 2), 0.01)
    values[100, 0], values[101, 1] = -0.9, math.nan
    values[447:, 1] = math.nan
    index = pd.MultiIndex.from_tuples([("A", f"s{i}") for i in range(450)])
    drawn = charts.heat_map(pd.DataFrame(values, index=index, columns=["t", "u"]))
    assert len(drawn.rows) == 150
    shades = np.array([[cell.shade for cell in cells] for _, cells in drawn.rows])
    assert np.argwhere(shades[:, 0] != shades[0, 0]).ravel().tolist() == [100 // 3]
    assert int(shades[33, 0]) < charts.STEPS // 2
    assert np.argwhere(shades[:, 1] == "n").ravel().tolist() == [149]
    assert drawn.rows[33][1][0].title == "s99 … s101 × t: −0.900"
    assert "3 × 1" in drawn.notes[0]


def test_colours_are_centred_on_zero_and_the_scale_ends_at_a_round_number() -> None:
    index = pd.MultiIndex.from_tuples([("A", "p"), ("A", "q")])
    drawn = charts.heat_map(pd.DataFrame([[0.0, 0.13], [math.nan, -0.2]], index=index, columns=["x", "y"]))
    shades = [[cell.shade for cell in cells] for _, cells in drawn.rows]
    assert drawn.bound == 0.2
    assert shades == [[str(charts.STEPS // 2), "33"], ["n", "0"]]
    assert [cell.text for _, cells in drawn.rows for cell in cells] == ["0.00", "0.13", "", "−0.20"]


def test_features_of_one_name_in_two_sources_stay_apart(tmp_path: Path) -> None:
    a, b = tables(60, 2, 3)
    whole = computed({"A1": a, "A2": a[::-1].reset_index(drop=True)}, b)
    back = Result.load(whole.save(tmp_path / "C"))
    pd.testing.assert_frame_equal(back.coefficients, whole.coefficients)
    assert not np.allclose(back.coefficients.loc["A1"], back.coefficients.loc["A2"])
    page = (tmp_path / "C" / "report.html").read_text()
    for party in ("A1", "A2"):
        first = charts.number(whole.coefficients.loc[(party, "source_0"), "target_0"])
        assert f"{party} · source_0 × target_0: {first}" in page
        assert f'<tr><td>{party}</td><th scope="row"><bdi>source_0</bdi></th>' in page


def test_a_sources_own_rows_are_not_compared_with_strengths_over_all() -> None:
    a, b = tables(60, 2, 3)
    whole = computed({"A1": a, "A2": -a}, b)
    own = computed(
        {"A1": a, "A2": -a},
        b,
        party="A2",
        role="source",
        coefficients=whole.coefficients.loc[["A2"]],
        pvalues=whole.pvalues.loc[["A2"]],
    )
    assert all(math.isnan(line.other) for line in report.ranking_lines(own))
    assert not any(math.isnan(line.other) for line in report.ranking_lines(whole))
    page, full = report.render(own), report.render(whole)
    assert "Rank correlation ρ of every feature of A2 (rows)" in page
    assert "Rank correlation ρ of every source feature (rows)" in full
    assert "The vertical mark" in full
    assert "The vertical mark" not in page
    out = io.StringIO()
    report.summarize(own, Console(file=out, width=100))
    assert "mean |rho|" not in out.getvalue()


def test_the_page_says_what_each_source_learnt_and_from_whom() -> None:
    a, b = tables(60, 2, 3)
    page = report.render(computed({"A1": a, "A2": a}, b))
    for party in ("A1", "A2"):
        assert re.search(rf'<th scope="rowgroup" rowspan="\d+"><bdi>{party}</bdi><br>', page)
    assert "<td>the feature names</td><td>A1, A2</td>" in page


def test_sources_are_set_apart() -> None:
    a, b = tables(60, 2, 3)
    drawn = charts.heat_map(computed({"A1": a, "A2": a}, b).coefficients)
    tops = [top for top, _ in drawn.rows]
    assert np.diff(tops).tolist() == [drawn.cell_height, drawn.cell_height + 8, drawn.cell_height]
    assert drawn.row_labels[2].full == "A2 · source_0"


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


@pytest.mark.parametrize("ramp", charts.ramps(), ids=["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_both_signs_can_be_told_apart_by_everyone(ramp: charts.Ramp, deficiency: str) -> None:
    def seen(colour: str) -> Any:
        srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        shifted = np.clip(DEFICIENCIES[deficiency] @ linear, 0, 1)
        return 255 * np.where(shifted <= 0.0031308, 12.92 * shifted, 1.055 * shifted ** (1 / 2.4) - 0.055)

    middle = charts.STEPS // 2
    for k in range(middle - 5):  # from a quarter of the scale on
        assert np.linalg.norm(seen(ramp.fills[k]) - seen(ramp.fills[-1 - k])) > 45


@pytest.mark.parametrize("ramp", charts.ramps(), ids=["light", "dark"])
def test_stronger_means_farther_from_the_page_and_numbers_stay_legible(ramp: charts.Ramp) -> None:
    light = [charts.luminance(fill) for fill in ramp.fills]
    middle = charts.STEPS // 2
    direction = np.sign(light[0] - light[middle])
    assert (np.diff(light[middle:]) * direction > 0).all()
    assert (np.diff(light[: middle + 1]) * direction < 0).all()
    for fill, text in zip(ramp.fills, ramp.texts, strict=True):
        assert charts.contrast(fill, text) >= 4.5


# --- costs ---------------------------------------------------------------------------------------------


COSTS = costs(
    ("C", "rank", 1.0, 2.0, 100, 0, 1, 1, 10_000_000),
    ("C", "reveal", 0.5, 0.0, 0, 900, 0, 2, 20_000_000),
    ("C", "keep-alive", 0.0, 0.0, 7, 7, 1, 0, 0),
    ("B", "rank", 3.0, 1.0, 400, 60, 2, 1, 30_000_000),
    ("A", "rank", 0.25, 0.0, 500, 40, 3, 1, 5_000_000),
)


def test_costs_add_up() -> None:
    cost = report.totals(synthetic(cost=COSTS))
    assert cost == report.Totals(
        complete=True,
        seconds=4.0,
        busiest=3.0,
        wire=1000,
        beside=7,
        messages=6,
        rounds=3,
        memory=(("C", 20_000_000), ("B", 30_000_000), ("A", 5_000_000)),
    )
    own = report.totals(synthetic(cost=COSTS[COSTS["party"] == "B"], party="B", role="target"))
    assert (own.complete, own.seconds, own.wire, own.rounds) == (False, 4.0, 460, 1)


def test_costs_are_shown_per_phase_and_party_in_human_units() -> None:
    found = page(synthetic(cost=COSTS))
    for text in ("1.0 s", "500 ms", "900 B", "20.0 MB"):
        assert text in found.inside("td")
    assert [text for text in found.inside("th") if text == "all phases"] == ["all phases"] * 3
    assert "keep-alives, beside them" in found.inside("th")
    assert "alone; the coordinator" not in found.text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0123, "12 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (99.96, "1 min 40 s"),
        (3599.6, "1 h 00 min"),
        (7260, "2 h 01 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert report.human_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_600, "1.0 MB"),
        (123_456_789, "123 MB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert report.human_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("short", 5, "short"),
        ("abcdefghij", 5, "ab…ij"),
        ("数据特征名称", 6, "数…称"),
        ("e\u0301" * 4, 4, "e\u0301" * 4),
    ],
)
def test_names_are_cut_in_the_middle(text: str, columns: int, expected: str) -> None:
    assert charts.shorten(text, columns) == expected
    assert charts.width(expected) <= columns


# --- the terminal --------------------------------------------------------------------------------------


def printed(result: Result, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    report.summarize(result, Console(file=stream, width=120))
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_the_summary_shows_ranking_warnings_and_three_lines_of_cost() -> None:
    result = synthetic(cost=COSTS, warnings=["mind the ties"])
    lines = printed(result).splitlines()
    assert lines[0] == report.headline(result) + "."
    rows = [line.split() for line in lines[2:8]]
    assert [row[1] for row in rows] == list(result.ranking["feature"])
    assert [float(row[2]) for row in rows] == pytest.approx(list(result.ranking["strength"]), abs=5e-5)
    assert lines[8:] == [
        "Warning: mind the ties",
        "time    4.0 s after start-up, 3.0 s computing",
        "wire    1.0 kB in 6 messages, 3 rounds",
        "memory  C 20.0 MB, B 30.0 MB, A 5.0 MB at the peak",
    ]


def test_a_long_ranking_is_cut_on_the_terminal() -> None:
    text = printed(synthetic(400, 3, 50, warnings=[f"w{i}" for i in range(12)]))
    assert "... and 30 more, in ranking.csv" in text
    assert "... and 9 more warnings, in the report" in text
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_name_controls_the_terminal(encoding: str) -> None:
    a, b = tables(60, 2, 3)
    b.columns = ["\x1b[31mred\x07", "[bold]markup[/bold]", "größe ρ"]
    text = printed(computed({"A": a}, b, warnings=["[red]\x1b]0;title\x07[/red]"]), encoding)
    assert not {c for c in text if ord(c) < 32} - {"\n"}
    assert "[bold]markup[/bold]" in text
    assert ("größe" if encoding == "utf-8" else "gr\\xf6\\xdfe") in text


def test_a_copy_without_a_ranking_says_why() -> None:
    plan = shared_plan()
    text = printed(Result(plan=plan, party="A", role="source", n=60, cost=COSTS[COSTS["party"] == "A"]))
    assert "holds no ranking" in text
    assert "(results.sources)" in text
    assert "wire    540 B in 3 messages, 1 rounds, A alone" in text

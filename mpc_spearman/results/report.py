"""What people look at: the HTML page of a run directory and the summary on a terminal.

The page is one file, without scripts and with nothing to fetch, so it can be mailed and opened offline. Names
are other parties' text: the template escapes everything, and the terminal gets no control characters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.filesize import decimal

from mpc_spearman.results import charts
from mpc_spearman.results.charts import number
from mpc_spearman.results.pages import template
from mpc_spearman.results.units import human_seconds, printable
from mpc_spearman.statistics import estimators, result_warnings
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    import jinja2
    from rich.console import Console

    from mpc_spearman.results.result import Result

_ESTIMATORS = {"tie_corrected": "tie-corrected, as SciPy and pandas compute it", "paper": "the paper's eq. 2"}
_STRENGTHS = {"mean": "mean ρ", "mean_abs": "mean |ρ|"}
#: Rows shown before the rest is folded away (page) or left to ``ranking.csv`` (terminal).
_SHOWN = 40
_SHOWN_TERMINAL = 20
_SHOWN_WARNINGS = 8
_SHOWN_WARNINGS_TERMINAL = 3
#: Largest matrix that the page also gives as a table of numbers.
_TABLE_CELLS = 1000
_BESIDE = "keep-alive"  # the one cost row that is no phase: it runs beside them all


# --- units ---------------------------------------------------------------------------------------------


# --- what a run cost -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Totals:
    """A run's cost in a few numbers.

    Attributes
    ----------
    complete : bool
        Whether all parties' costs are known; otherwise the numbers are those of the copy's own party.
    seconds : float
        From start to end, of the party that took longest.
    busiest : float
        Seconds the party that computed longest spent computing.
    wire : int
        Bytes sent by all parties; for a single party, sent and received.
    beside : int
        Bytes of keep-alives, which `wire` leaves out.
    messages, rounds : int
        Frames sent, and hops in the longest chain of dependent messages.
    memory : tuple of (str, int)
        Peak resident bytes by party.
    """

    complete: bool
    seconds: float
    busiest: float
    wire: int
    beside: int
    messages: int
    rounds: int
    memory: tuple[tuple[str, int], ...]


def totals(result: Result) -> Totals:
    """Sum up a result's cost table."""
    cost = result.cost
    beside = cost["phase"] == _BESIDE
    complete = _names(result.plan) <= set(cost["party"])
    moved = cost["bytes_sent"] + (0 if complete else cost["bytes_received"])
    by_party = cost[~beside].groupby("party", sort=False)
    memory = cost.groupby("party", sort=False)["peak_memory_bytes"].max()
    return Totals(
        complete=complete,
        seconds=float((by_party["seconds"].sum() + by_party["wait_seconds"].sum()).max() if len(cost) else 0),
        busiest=float(by_party["seconds"].sum().max() if len(cost) else 0),
        wire=int(moved[~beside].sum()),
        beside=int(moved[beside].sum()),
        messages=int(cost.loc[~beside, "messages"].sum()),
        rounds=int(by_party["rounds"].sum().max() if len(cost) else 0),
        memory=tuple((printable(str(party)), int(peak)) for party, peak in memory.items()),
    )


def _names(plan: Mapping[str, Any]) -> set[str]:
    parties = plan["parties"]
    return {
        parties["coordinator"]["name"],
        parties["target"]["name"],
        *(p["name"] for p in parties["sources"]),
    }


def _costs_by_party(result: Result) -> list[dict[str, Any]]:
    """Rows per party in the order of the phases, without phases in which nothing happened."""
    cost = result.cost
    numbers = list(cost.columns[2:])
    longest = float((cost["seconds"] + cost["wait_seconds"]).max()) if len(cost) else 0.0
    tables = []
    for party, rows in cost.groupby("party", sort=False):
        phases = rows[rows["phase"] != _BESIDE]
        sums = {name: phases[name].sum() for name in numbers}
        sums["peak_memory_bytes"] = phases["peak_memory_bytes"].max()
        lines = [
            _cost_line(row, longest) for row in phases.to_dict("records") if any(row[k] for k in numbers)
        ]
        lines.append({**_cost_line({"phase": "all phases", **sums}, 0.0), "total": True})
        for row in rows[rows["phase"] == _BESIDE].to_dict("records"):
            lines.append(_cost_line({**row, "phase": "keep-alives, beside them"}, 0.0))
        tables.append({"party": printable(str(party)), "lines": lines})
    return tables


def _cost_line(row: Mapping[Any, Any], longest: float) -> dict[str, Any]:
    compute, wait, memory = row["seconds"], row["wait_seconds"], int(row["peak_memory_bytes"])
    share = 100 / longest if longest else 0.0
    return {
        "phase": row["phase"],
        "compute": human_seconds(compute),
        "wait": human_seconds(wait),
        "bars": (round(compute * share, 2), round(wait * share, 2)) if longest else None,
        "sent": decimal(int(row["bytes_sent"])),
        "received": decimal(int(row["bytes_received"])),
        "messages": f"{int(row['messages']):,}",
        "rounds": f"{int(row['rounds']):,}",
        "memory": decimal(memory) if memory else "–",
        "total": False,
    }


# --- the ranking ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One feature of the ranking; NaN and None for what is undefined or not known."""

    position: int
    feature: str
    strength: float
    other: float  # mean |rho|, or mean rho where the strength is mean |rho|
    count: int | None


def ranking_lines(result: Result) -> list[Line]:
    """Join the ranking with what else is known of each feature; empty if the ranking was not revealed."""
    ranking = getattr(result, "ranking", None)
    if ranking is None:
        return []
    matrix, counts = getattr(result, "coefficients", None), getattr(result, "counts", None)
    other: Mapping[Any, float] = {}
    if matrix is not None and not _own_rows(result):
        compared = matrix if result.plan.get("strength") == "mean_abs" else matrix.abs()
        other = compared.mean().to_dict()
    strengths = ranking["strength"] if "strength" in ranking else [math.nan] * len(ranking)
    return [
        Line(
            int(position),
            printable(feature),
            float(strength),
            other.get(feature, math.nan),
            None if counts is None else int(counts[feature]),
        )
        for position, feature, strength in zip(
            ranking["position"], ranking["feature"], strengths, strict=True
        )
    ]


def _own_rows(result: Result) -> bool:
    """Tell whether a matrix in this copy has one source's rows only, while strengths are over several's."""
    return result.role == "source" and len(result.plan["parties"]["sources"]) > 1


def _strongest(lines: Sequence[Line]) -> Line | None:
    """Return the feature of the largest mean |rho|, where another ranks first: signs decide the order."""
    known = [line for line in lines if not math.isnan(line.other)]
    best = max(known, key=lambda line: line.other, default=None)
    return None if best is None or best is lines[0] else best


def _why_undefined(lines: Sequence[Line]) -> str:
    if all(math.isnan(line.strength) for line in lines):
        return "it, or every source feature, is constant: no rank correlation"
    return "a constant column has no rank correlation"


def headline(result: Result) -> str:
    """Say in one sentence what came out."""
    lines = ranking_lines(result)
    if not lines:
        return f"This copy of {printable(result.party)} ({result.role}) holds no ranking"
    first, m = lines[0], len(lines)
    name = charts.shorten(first.feature, 60)
    place = f"{name} ranks first of {m} features" if m > 1 else f"{name} is the only feature"
    if "strength" not in result.ranking:
        return place
    if math.isnan(first.strength):
        return (
            f"{place}, but no strength is defined"
            if m == 1
            else f"None of the {m} features has a defined strength"
        )
    level = sum(line.strength == first.strength for line in lines) - 1
    with_it = f", level with {level} other{'s' if level > 1 else ''}" if level else ""
    under = " by the paper's eq. 2" if result.plan["estimator"] == "paper" else ""
    return f"{place}, with strength {number(first.strength)}{under}{with_it}"


def eq2(result: Result) -> str | None:
    """Say what the paper's eq. 2 makes of this run's ties, where this copy knows and it matters."""
    if result.withheld("estimators") is not None:
        return None
    both = result.estimators
    corrected, paper = both.to_numpy().T
    sentences = result_warnings.eq2(
        [str(name) for name in both.index], corrected, paper, result.plan["order"]
    )
    return printable(sentences[0]) if sentences else None


def _both(result: Result) -> list[tuple[str, float, int, float, int]]:
    """Feature, then strength and position under either estimator, in ranking order; empty if unknown."""
    if eq2(result) is None:
        return []
    features = list(result.estimators.index)
    corrected, paper = result.estimators.to_numpy().T
    true, wrong = (estimators.order(mu, result.plan["order"]) for mu in (corrected, paper))
    return [
        (printable(features[q]), corrected[q], true.index(q) + 1, paper[q], wrong.index(q) + 1)
        for q in (wrong if result.plan["estimator"] == "paper" else true)
    ]


# --- the page ------------------------------------------------------------------------------------------


@cache
def _template() -> jinja2.Template:
    return template("report.html", number=number, seconds=human_seconds, bytes=decimal)


def render(result: Result) -> str:
    """Make the report of a result.

    Parameters
    ----------
    result : Result
        Any party's copy: what it does not hold is left out, with a sentence that says why.

    Returns
    -------
    str
        A whole HTML document, the same for the same result.
    """
    from mpc_spearman.wire.disclosure import learnt

    plan, lines = result.plan, ranking_lines(result)
    light, dark = charts.ramps()
    facts = [
        ("Aligned rows", f"{result.n:,}"),
        ("Protocol", str(plan["protocol"]).upper()),
        ("Revealed", str(plan["reveal"])),
        ("Estimator", _ESTIMATORS[plan["estimator"]]),
        ("Strength", f"{_STRENGTHS[plan['strength']]}, {plan['order']}"),
        ("Precision", precision(result)),
    ]
    return _template().render(
        headline=headline(result),
        result=result,
        owner=printable(result.party),
        facts=facts,
        sources=[printable(party["name"]) for party in plan["parties"]["sources"]],
        target=printable(plan["parties"]["target"]["name"]),
        warnings=[printable(text) for text in result.warnings],
        lines=lines,
        scored=bool(lines) and "strength" in result.ranking,
        compared=any(not math.isnan(line.other) for line in lines),
        other="mean ρ" if plan["strength"] == "mean_abs" else "mean |ρ|",
        counts=sorted({line.count for line in lines if line.count}),
        why=_why_undefined(lines),
        bars=charts.bars([line.strength for line in lines], [line.other for line in lines]),
        charts=charts,
        eq2=eq2(result),
        strongest=_strongest(lines) if plan["strength"] == "mean" else None,
        both=_both(result),
        shown=_SHOWN,
        shown_warnings=_SHOWN_WARNINGS,
        map=_heat_map(result),
        rows=f"every feature of {printable(result.party)}" if _own_rows(result) else "every source feature",
        matrix=_matrix_table(result),
        light=light,
        dark=dark,
        views=_views(learnt(plan)),
        totals=totals(result),
        costs=_costs_by_party(result),
        settings=[(key, printable(str(value))) for key, value in _flat(plan)],
        version=__version__,
    )


def precision(result: Result) -> str:
    """Say how exact the numbers of this copy are."""
    if not result.precision:
        return "exact" if result.plan["results"]["precision"] == "exact" else "nothing was published"
    steps = ", ".join(f"{part} in steps of {step:g}" for part, step in result.precision.items())
    return f"published {steps}" + (
        "; this copy rounds its ranking only" if result.role == "coordinator" else ""
    )


def _views(rows: Sequence[Mapping[str, str]]) -> list[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """Group what was learnt by party; what carries results first, what only failing runs send last."""
    order = {"reveal": 0, "evaluate": 0, "publish": 0, _BESIDE: 2}
    clean: list[dict[str, Any]] = [{key: printable(row[key]).replace("`", "") for key in row} for row in rows]
    return [
        (key, sorted(facts, key=lambda row: order.get(row["phase"], 1)))
        for key, facts in groupby(clean, lambda row: (row["party"], row["role"]))
    ]


def _in_order(result: Result) -> pd.DataFrame | None:
    matrix = getattr(result, "coefficients", None)
    return None if matrix is None else matrix[list(result.ranking["feature"])]


def _heat_map(result: Result) -> charts.HeatMap | None:
    matrix = _in_order(result)
    return None if matrix is None else charts.heat_map(matrix, getattr(result, "pvalues", None))


def _matrix_table(result: Result) -> dict[str, Any] | None:
    matrix = _in_order(result)
    if matrix is None or matrix.size > _TABLE_CELLS:
        return None
    return {
        "columns": [printable(name) for name in matrix.columns],
        "rows": [
            (printable(party), printable(feature), [number(value, 4) for value in row])
            for (party, feature), row in zip(matrix.index, matrix.to_numpy().tolist(), strict=True)
        ],
    }


def _flat(value: Any, key: str = "") -> list[tuple[str, Any]]:
    """Write nested settings as dotted keys, as the command line takes them."""
    if isinstance(value, dict) and value:
        return [leaf for name in value for leaf in _flat(value[name], f"{key}.{name}" if key else name)]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [leaf for i, item in enumerate(value) for leaf in _flat(item, f"{key}.{i}")]
    if isinstance(value, list):
        return [(key, ", ".join(str(item) for item in value))]
    return [(key, "not set" if value is None else value)]


# --- the terminal --------------------------------------------------------------------------------------


def summarize(result: Result, console: Console) -> None:
    """Print the ranking, the warnings and what the run cost.

    Parameters
    ----------
    result : Result
        Any party's copy.
    console : rich.console.Console
        Where to print; characters its encoding lacks are written as escapes.
    """
    from rich.table import Table
    from rich.text import Text

    def plain(text: str, style: str = "") -> Text:
        return Text(
            printable(text).encode(console.encoding, "backslashreplace").decode(console.encoding), style
        )

    lines = ranking_lines(result)
    console.print(plain(_ascii(headline(result)) + ".", "bold"))
    if lines and "strength" in result.ranking:
        plan = result.plan
        table = Table("position", "feature", _ascii(_STRENGTHS[plan["strength"]]), box=None, pad_edge=False)
        compared = any(not math.isnan(line.other) for line in lines)
        if compared:
            table.add_column("mean rho" if plan["strength"] == "mean_abs" else "mean |rho|")
        for column in (table.columns[0], *table.columns[2:]):
            column.justify = "right"
        for line in lines[:_SHOWN_TERMINAL]:
            cells = [str(line.position), line.feature, _ascii(number(line.strength, 4))]
            cells += [_ascii(number(line.other, 4))] if compared else []
            table.add_row(*map(plain, cells))
        console.print(table)
    else:
        for line in lines[:_SHOWN_TERMINAL]:
            console.print(plain(f"{line.position:>4}  {line.feature}"))
        console.print(plain(result.withheld("strengths" if lines else "ranking") or "", "dim"))
    if len(lines) > _SHOWN_TERMINAL:
        console.print(plain(f"... and {len(lines) - _SHOWN_TERMINAL} more, in ranking.csv", "dim"))
    trap = eq2(result)
    if trap is not None and result.plan["estimator"] != "paper":
        console.print(plain(_ascii(f"Note: {trap}.")))
    for text in result.warnings[:_SHOWN_WARNINGS_TERMINAL]:
        console.print(plain("Warning: ", "bold yellow") + plain(text, "yellow"))
    if len(result.warnings) > _SHOWN_WARNINGS_TERMINAL:
        console.print(
            plain(
                f"... and {len(result.warnings) - _SHOWN_WARNINGS_TERMINAL} more warnings, in the report",
                "yellow",
            )
        )

    cost = totals(result)
    whose = "" if cost.complete else f", {result.party} alone"
    peaks = ", ".join(f"{party} {decimal(size)}" for party, size in cost.memory) or "not measured"
    times = f"{human_seconds(cost.seconds)} after start-up, {human_seconds(cost.busiest)} computing"
    traffic = f"{decimal(cost.wire)} in {cost.messages:,} messages, {cost.rounds:,} rounds"
    for text in (f"time    {times}{whose}", f"wire    {traffic}{whose}", f"memory  {peaks} at the peak"):
        console.print(plain(text))


def _ascii(text: str) -> str:
    return text.replace("ρ", "rho").replace("−", "-")

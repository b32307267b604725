"""What people look at: the HTML page of a run directory.

The page is one file, without scripts and with nothing to fetch, so it can be mailed and opened offline. Names
are other parties' text: the template escapes everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from mpc_spearman.config.wording import spoken
from mpc_spearman.results import charts, evidence, heat_map
from mpc_spearman.results.charts import number
from mpc_spearman.results.costs import by_party, totals
from mpc_spearman.results.evidence import Pair
from mpc_spearman.results.pages import template
from mpc_spearman.results.summary import (
    STRENGTHS,
    both_estimators,
    by_size,
    canonical_lines,
    detectable,
    eq2,
    first,
    headline,
    own_rows,
    precision,
    ranking_lines,
    resolution,
    rows,
    shares,
    unseen,
    why_undefined,
)
from mpc_spearman.units import human_seconds, printable
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    import jinja2

    from mpc_spearman.results.result import Result

_ESTIMATORS = {"tie_corrected": "tie-corrected, as SciPy and pandas compute it", "paper": "the paper's eq. 2"}
#: Rows and warnings shown before the rest is folded away.
_SHOWN = 40
_SHOWN_WARNINGS = 8
#: Pairs that are plotted with their intervals, and how many of them the page begins with.
_PLOTTED = 20
_FIRST_PAIRS = 5


@cache
def page() -> jinja2.Template:
    """Load the report's template, which is compiled once in a process and those forked from it."""
    return template(
        "report.html",
        number=number,
        shorten=charts.shorten,
        seconds=human_seconds,
        bytes=decimal,
        chance=evidence.chance,
    )


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
    from mpc_spearman.levels import view  # a table that only pages need

    plan, lines = result.plan, ranking_lines(result)
    pairs = evidence.pairs(result)
    plotted, found = evidence.strongest(pairs, _PLOTTED), shares(result)
    sentences = {
        "first": first(result) if pairs else None,
        "resolution": resolution(lines),
        "by_size": by_size(result),
        "unseen": unseen(result),
        "detectable": detectable(result, pairs),
    }
    light, dark = charts.ramps()
    marks = [math.copysign(line.other, line.strength) for line in lines]  # on the side of each one's bar
    facts = [
        ("Aligned rows", rows(result)),
        ("Protocol", str(plan["protocol"]).upper()),
        ("Revealed", str(plan["reveal"])),
        ("Estimator", _ESTIMATORS[plan["estimator"]]),
        *(
            ()
            if found or plan["reveal"] == "canonical"
            else (("Strength", f"{STRENGTHS[plan['strength']]}, {plan['order']}"),)
        ),
        ("Precision", precision(result)),
    ]
    return page().render(
        headline=headline(result, pairs),
        **sentences,
        result=result,
        owner=printable(result.party),
        facts=facts,
        sources=[printable(party["name"]) for party in plan["parties"]["sources"]],
        target=printable(plan["parties"]["target"]["name"]),
        warnings=[[printable(line) for line in text.split("\n")] for text in result.warnings],
        lines=lines,
        shares=found,
        canonical=canonical_lines(result),
        several=len(plan["parties"]["sources"]) > 1 and result.role != "source",
        share_axis=charts.Axis([length for share in found for length in (share.r2, share.chance)]),
        scored=bool(lines) and "strength" in result.ranking,
        compared=any(not math.isnan(line.other) for line in lines),
        other="mean ρ" if plan["strength"] == "mean_abs" else "mean |ρ|",
        counts=sorted({line.count for line in lines if line.count}),
        why=why_undefined(lines),
        marks=marks,
        axis=charts.Axis([*marks, *(line.strength for line in lines)]),
        charts=charts,
        eq2=eq2(result),
        both=both_estimators(result),
        shown=_SHOWN,
        shown_warnings=_SHOWN_WARNINGS,
        map=heat_map.heat_map(pairs) if pairs else None,
        title=lambda pair: heat_map.title(pair, plan["confidence"]),
        found=_found(pairs),
        plotted=plotted,
        first_pairs=_FIRST_PAIRS,
        pair_axis=charts.Axis(value for pair in plotted for value in (pair.low, pair.rho, pair.high)),
        confidence=f"{100 * plan['confidence']:g} %",
        rows=f"every feature of {printable(result.party)}" if own_rows(result) else "every source feature",
        light=light,
        dark=dark,
        views=_views(view.learnt(plan)),
        totals=totals(result),
        costs=by_party(result),
        settings=[(key, printable(str(value))) for key, value in _flat(plan)],
        version=__version__,
        digest=spoken(result.plan_digest),
        rehearsal="identity" not in plan["parties"]["coordinator"],
    )


def _views(rows: Sequence[Mapping[str, str]]) -> list[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """Group what was learnt by party; what carries results first, what only failing runs send last."""
    from mpc_spearman.wire.disclosure import place

    clean: list[dict[str, Any]] = [{key: printable(row[key]).replace("`", "") for key in row} for row in rows]
    return [
        (key, sorted(facts, key=lambda row: place(row["what"], row["phase"])))
        for key, facts in groupby(clean, lambda row: (row["party"], row["role"]))
    ]


def _found(rows: Sequence[Sequence[Pair]]) -> dict[str, Any]:
    """Count the pairs that stand when all of them are taken as tests at once."""
    q = [pair.q for row in rows for pair in row if not math.isnan(pair.q)]
    count = sum(value <= evidence.DISCOVERY_RATE for value in q)
    marked = sum(pair.found for row in rows for pair in row)
    rate = f"{100 * evidence.DISCOVERY_RATE:g} %"
    return {"count": count, "of": len(q), "rate": rate, "marked": marked, "size": f"{evidence.SIZE:g}"}


def _flat(value: Any, key: str = "") -> list[tuple[str, Any]]:
    """Write nested settings as dotted keys, as the command line takes them."""
    if isinstance(value, dict) and value:
        return [leaf for name in value for leaf in _flat(value[name], f"{key}.{name}" if key else name)]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [leaf for i, item in enumerate(value) for leaf in _flat(item, f"{key}.{i}")]
    if isinstance(value, list):
        return [(key, ", ".join(map(str, value)) or "none")]
    return [(key, "not set" if value is None else value)]

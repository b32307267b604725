"""Results as if a run had made them, and their page taken apart."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.results import report
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.reference import reference
from mpc_spearman.wire.meter import COLUMNS
from support.plans import plan


def shared_plan(*sources: str, **changes: Any) -> dict[str, Any]:
    """Return the shared part of a plan, with other top-level keys, whether that would be a plan or not."""
    shared = plan(cautious=True, results={"target": "coefficients"}).shared()
    named = {"sources": [{"name": name} for name in sources or ("A",)]}
    return {**shared, "parties": {**shared["parties"], **named}, **changes}


def cost_table(*rows: tuple[Any, ...]) -> pd.DataFrame:
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
        "cost": cost_table(),
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


#: What HTML lets stand without an end tag.
VOID = {"meta", "br"}


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


def costs(*parties: str) -> pd.DataFrame:
    rows = [
        (party, phase, 0.1, 1 / 3, 10, 20, 2, 1, 1000) for party in parties for phase in ("rank", "reveal")
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def listing(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def parts(values: np.ndarray, names: list[str], rows: list[tuple[str, str]]) -> dict[str, Any]:
    """All parts of a result that has `values` as its matrix."""
    index = pd.MultiIndex.from_tuples(rows, names=["party", "feature"])
    matrix = pd.DataFrame(values, index=index, columns=names)
    mu = matrix.mean().rename("strength")
    ranked = mu.sort_values(ascending=False, kind="stable", na_position="last")
    return {
        "coefficients": matrix,
        "pvalues": matrix.abs(),
        "strengths": mu,
        "counts": matrix.notna().sum(),
        "ranking": pd.DataFrame(
            {"position": range(1, len(mu) + 1), "feature": list(ranked.index), "strength": ranked.to_numpy()}
        ),
    }


def small(**changes: Any) -> Result:
    values = np.array([[0.1, -0.25, math.nan], [1 / 3, 0.5, math.nan]])
    given_parts = parts(values, ["x", "y", "z"], [("A", "p"), ("A", "q")])
    base: dict[str, Any] = {
        "plan": shared_plan(),
        "party": "C",
        "role": "coordinator",
        "n": 50,
        "cost": costs("C", "B", "A"),
        "warnings": ["z is constant"],
        **given_parts,
    }
    return Result(**(base | changes))

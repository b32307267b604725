"""Results as if a run had made them, and their page taken apart."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.config import Plan
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.findings.coefficient_tables import column_table
from mpc_spearman.findings.findings import Copy
from mpc_spearman.findings.forms import Labels
from mpc_spearman.findings.ranking import ranking_table
from mpc_spearman.levels import findings_of
from mpc_spearman.results import report, saved
from mpc_spearman.results.outcome import FORMS
from mpc_spearman.results.result import Result
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.reference import reference
from mpc_spearman.wire.meter import COLUMNS


def shared_plan(
    *sources: str, coordinator: str = "C", target: str = "B", results: Mapping[str, Any] = {}, **changes: Any
) -> Plan:
    """Return a plan as results keep it, with other top-level keys, which may contradict each other."""
    exact = {"target": "coefficients", "sources": "nothing", "precision": "exact"}
    parties = {
        "coordinator": {"name": coordinator},
        "target": {"name": target},
        "sources": [{"name": name} for name in sources or ("A",)],
    }
    return Plan.model_validate({"parties": parties, "results": {**exact, **results}, **changes})


def cost_table(*rows: tuple[Any, ...]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(COLUMNS))


def costs(*parties: str) -> pd.DataFrame:
    phases = product(parties, ("rank", "reveal"))
    return cost_table(*((party, phase, 0.1, 1 / 3, 10, 20, 2, 1, 1000) for party, phase in phases))


def make_result(**arguments: Any) -> Result:
    """Make a result; derived tables that are not given are computed, and None leaves a table out."""
    copy = Copy(*(arguments.pop(key) for key in ("plan", "party", "role", "n")))
    given = {name: arguments.pop(name) for name in FORMS if name in arguments}
    tables = {name: table for name, table in given.items() if table is not None}
    kind = findings_of(copy.plan, copy.role)
    findings = kind(copy, tables)
    if {*[*kind.forms][:1]} <= {*tables}:  # otherwise they are refused below
        findings.tables = findings.derived_tables() | tables
    return Result(findings.checked(), **arguments)


def computed(source: dict[str, pd.DataFrame], target: pd.DataFrame, **changes: Any) -> Result:
    """The coordinator's result on these tables; `coordinator` is its name, ``results`` goes to the plan."""
    in_plan = ("estimator", "strength", "order", "reveal", "results", "coordinator")
    plan = shared_plan(*source, **{key: changes.pop(key) for key in in_plan if key in changes})
    coordinator = plan.names[0]
    pooled = reference(source, target, estimator=plan.estimator, strength=plan.strength, order=plan.order)
    arguments = {"plan": plan, "party": coordinator, "role": "coordinator", "n": len(target)}
    cost = costs(coordinator, "B", *source)
    columns = pd.concat(
        column_table(
            [(party, str(name)) for name in table],
            Columns.of(rank_columns([table[name].to_numpy() for name in table])),
        )
        for party, table in [*source.items(), (plan.names[1], target)]
    )
    return make_result(
        **(arguments | parts(pooled.coefficients, plan) | {"columns": columns, "cost": cost} | changes)
    )


def tables(n: int, source: int, target: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    generator = np.random.default_rng(7)
    common = generator.normal(size=(n, 3))

    def side(name: str, m: int) -> pd.DataFrame:
        values = common @ generator.normal(size=(3, m)) + generator.normal(size=(n, m))
        return pd.DataFrame(values, columns=[f"{name}_{i}" for i in range(m)])

    return side("source", source), side("target", target)


def synthetic(n: int = 60, source: int = 4, target: int = 6, **changes: Any) -> Result:
    a, b = tables(n, source, target)
    return computed({"A": a}, b, **changes)


class Page:
    """A parsed page: every element with its attributes, and the text inside each kind of element."""

    def __init__(self, text: str) -> None:
        root = ElementTree.fromstring(text.replace("<wbr/>", ""))  # where a long name may break
        self.elements = [(element.tag, element.attrib) for element in root.iter()]
        self.texts = [(tag, text.strip()) for tag, text in _texts(root) if text and text.strip()]

    def inside(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [attrs for _, attrs in self.elements if name in attrs.get("class", "").split()]

    @property
    def titles(self) -> list[str]:
        return [attrs["title"] for _, attrs in self.elements if "title" in attrs]

    @property
    def text(self) -> str:
        return " ".join(text for where, text in self.texts if where not in ("style", "script", "title"))


def _texts(element: ElementTree.Element) -> Iterator[tuple[str, str | None]]:
    yield element.tag, element.text
    for child in element:
        yield from _texts(child)
        yield element.tag, child.tail


def page(result: Result) -> Page:
    return Page(report.render(result))


def parts(matrix: pd.DataFrame, plan: Plan, ties: Ties = Ties.NONE, skewness: float = 0.0) -> dict[str, Any]:
    """Return all parts of a result with `matrix` for coefficients, of columns that are tied alike."""
    rho = matrix.to_numpy(dtype=np.float64)
    labels = [*matrix.index, *((plan.names[1], name) for name in matrix.columns)]
    alike = Columns(np.full(len(labels), ties), np.full(len(labels), skewness))
    mu, counts = estimators.strengths(rho, plan.strength)
    names, positions = list(matrix.columns), estimators.positions(mu, plan.order)
    return {
        "coefficients": matrix,
        "columns": column_table(labels, alike),
        "strengths": pd.Series(mu, names),
        "counts": pd.Series(counts, names),
        "ranking": ranking_table(positions, Labels((), names), strength=mu),
    }


def matrix_of(values: Any, names: Sequence[str], rows: Sequence[tuple[str, str]]) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(list(rows), names=["party", "feature"])
    return pd.DataFrame(np.asarray(values, dtype=np.float64), index=index, columns=list(names))


def small(**changes: Any) -> Result:
    """Return the coordinator's copy of a run of two source features and three of the target, one constant."""
    plan = changes.pop("plan", shared_plan())
    matrix = matrix_of(
        [[0.1, -0.25, np.nan], [1 / 3, 0.5, np.nan]], ["x", "y", "z"], [("A", "p"), ("A", "q")]
    )
    arguments = {"plan": plan, "party": "C", "role": "coordinator", "n": 50, "warnings": ["z is constant"]}
    return make_result(**(arguments | {"cost": costs("C", "B", "A")} | parts(matrix, plan) | changes))


def granted(grant: str, **changes: Any) -> Result:
    """Return the target's copy of `small` with no more than a grant."""
    arguments = {
        "plan": shared_plan(results={"target": grant}),
        "party": "B",
        "role": "target",
        **changes,
    }
    full, forms = small(), findings_of(arguments["plan"], arguments["role"]).forms
    if grant == "ranking":
        arguments["ranking"] = full.ranking[["position", "feature"]]
    return small(**{name: None for name in FORMS if name not in forms} | arguments)


def empty(plan: Plan, party: str, role: Any, n: int, cost: pd.DataFrame) -> Result:
    """Return a copy without any numbers, of a plan that gives nobody any."""
    results = {**plan.shared()["results"], "target": "nothing", "sources": "nothing"}
    shared = {**plan.shared(), "reveal": "ranking", "opened_to": "target", "results": results}
    return make_result(plan=Plan.model_validate(shared), party=party, role=role, n=n, cost=cost)


def change(file: Path, old: str, new: str) -> None:
    """Replace one piece of text in a file of a run directory, and no digest."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def seal(folder: Path) -> None:
    """Give a run directory that was changed the digests of what it holds now."""
    summary = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    content = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "result.json"}
    (folder / "result.json").write_bytes(saved.sealed(summary, content))

"""Tables from queries: their keys, and that no password gets into a plan or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.config import Query, load_plan
from mpc_spearman.errors import PlanError
from support.plans import plan_with

ASKED = {"query": "SELECT id, visits FROM clinic", "connection": "env:CLINIC", "order_by": ["id"]}
KEY = "parties.target.table"
ADDRESS = "postgresql://owner:hunter2@10.0.0.7/clinic"


def test_a_query_is_read_and_stays_with_its_party() -> None:
    plan = load_plan(plan_with({KEY: ASKED}))
    assert plan.parties.target.table == Query(**ASKED)
    assert load_plan(plan.model_dump(mode="json")) == plan
    assert "clinic" not in plan.canonical_json().lower()
    assert plan.restricted_to("A").parties.target.table is None
    assert plan.restricted_to("B").parties.target.table == Query(**ASKED)


def test_overrides_can_set_a_query_or_replace_it_by_a_file() -> None:
    settings = [f"{KEY}.query=SELECT 1 AS id", f"{KEY}.connection=env:CLINIC", f"{KEY}.order_by=id"]
    query = load_plan(plan_with(), settings).parties.target.table
    assert query == Query(query="SELECT 1 AS id", connection="env:CLINIC", order_by=("id",))
    assert load_plan(plan_with({KEY: ASKED}), tables={"B": Path("/b.csv")}).parties.target.table == Path(
        "/b.csv"
    )


@pytest.mark.parametrize(
    "query",
    [
        "select 1 as id",
        "  WITH w AS (SELECT 1 AS id)\n  SELECT * FROM w;\n",
        "-- those seen; all of them\nSELECT 1 AS id",
        "/* ; */ SELECT ';' AS id, 'it''s; ' AS x, 1 AS \"a;b\"",
    ],
)
def test_one_select_is_taken(query: str) -> None:
    table = load_plan(plan_with({KEY: {**ASKED, "query": query}})).parties.target.table
    assert isinstance(table, Query)
    assert table.query == query


@pytest.mark.parametrize(
    ("plan", "override"),
    [
        (plan_with({KEY: ADDRESS}), ()),
        (plan_with(), (f"{KEY}={ADDRESS}",)),
        (plan_with(), (f"{KEY}.connection={ADDRESS}",)),
        (plan_with({KEY: "b.csv"}), (f"{KEY}.connection={ADDRESS}",)),
        (plan_with({KEY: ASKED}), (f"{KEY}.connection={ADDRESS}",)),
        (plan_with({KEY: ASKED}), (f"{KEY}.adress={ADDRESS}",)),
        (plan_with({KEY: {**ASKED, "connection": {"address": ADDRESS}}}), ()),
        (plan_with({"parties.target.exclude": ADDRESS}), ()),
    ],
)
def test_an_address_in_the_wrong_place_is_refused_and_not_repeated(
    plan: Any, override: tuple[str, ...]
) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(plan, override)
    assert not any(part in str(caught.value) for part in ("owner", "hunter2", "10.0.0.7"))


def test_each_role_knows_which_variables_belong_to_others() -> None:
    insurers = {"query": "SELECT 1 AS id", "connection": "env:INSURER", "order_by": "id"}
    plan = load_plan(plan_with({KEY: ASKED, "parties.sources.0.table": insurers}))
    assert [plan.addresses_of_others(name) for name in "CBA"] == [
        {"CLINIC", "INSURER"},
        {"INSURER"},
        {"CLINIC"},
    ]
    shared = load_plan(plan_with({KEY: ASKED, "parties.sources.0.table": ASKED}))
    assert shared.addresses_of_others("A") == set()

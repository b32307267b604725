from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.errors import DisclosureError
from mpc_spearman.privacy.budget import Published, check_budget, order_bits
from mpc_spearman.privacy.examine import Examination, examine
from mpc_spearman.privacy.groups import check_groups
from mpc_spearman.privacy.precision import coefficient_grid, strength_grid

DEMO = Path(__file__).parents[2] / "data"
SHARED = Path(__file__).parents[3] / "shared" / "data"


def dry_run(table: pd.DataFrame, others: int) -> Examination:
    """At the defaults, but with coefficients granted to a target of so many columns."""
    published = [Published("B", "coefficients", others, coefficient_grid(len(table)))]
    ranks = rank_columns([table[name].to_numpy() for name in table])
    return examine(ranks, list(table), "A", min_group=10, budget=0.5, published=published)


def made_up() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, kind = rng.standard_normal(400), np.repeat(range(4), [150, 130, 116, 4])
    return pd.DataFrame({
        "age": x, "months": 12 * x, "site": 7, "few": np.arange(400) > 393, "half": np.arange(400) % 2,
        "is0": kind == 0, "is1": kind == 1, "is2": kind == 2, "count, of": np.arange(400) // 100,
    })  # fmt: skip


def test_a_dry_run_tells_types_figures_findings_and_what_to_exclude():
    run = dry_run(made_up(), 40)
    assert (run.party, run.n, run.distinct_defined) == ("A", 400, 7)
    assert {column.feature: column.kind for column in run.columns} == {
        "age": "no ties", "months": "no ties", "site": "constant", "few": "flag", "half": "flag",
        "is0": "flag", "is1": "flag", "is2": "flag", "count, of": "ties",
    }  # fmt: skip
    assert [(column.groups, column.outside) for column in run.columns[2:5]] == [(1, 0), (2, 6), (2, 200)]
    assert run.families == (("'is0'", "'is1'", "'is2'"),)
    assert [(finding.rule, finding.columns) for finding in run.findings] == [
        ("privacy.min_group", ("few",)),
        ("privacy.min_group", ("is0", "is1", "is2")),
        ("privacy.budget", ("few",)),
        ("privacy.budget", ("half",)),
        ("privacy.budget", ("is0",)),
        ("privacy.budget", ("is1",)),
        ("privacy.budget", ("is2",)),
    ]
    for column in run.columns:
        (told,) = column.told
        assert told.bits == 40 * told.bits_each
        over = "privacy.budget" in [f.rule for f in run.findings if column.feature in f.columns]
        assert over == (told.bits > column.held / 2)
    assert run.exclude == ("few", "half", "is0", "is1", "is2")


def test_without_what_it_says_to_exclude_a_table_passes():
    table = made_up()
    run = dry_run(table, 40)
    left = dry_run(table.drop(columns=list(run.exclude)), 40)
    assert (left.findings, left.exclude, left.exclude_line) == ((), (), "")


def test_the_line_to_exclude_is_yaml_whatever_the_names_are():
    names = ["a b", "c: d", "é", "[x]", "#", "it's", 'say "no"', "no"]
    table = pd.DataFrame({name: np.arange(50) == i for i, name in enumerate(names)})
    assert yaml.safe_load(dry_run(table, 1).exclude_line) == {"exclude": names}


def test_a_run_refuses_what_the_dry_run_finds_in_the_same_sentences():
    table = made_up()
    ranks, features = rank_columns([table[name].to_numpy() for name in table]), list(table)
    published = [Published("B", "coefficients", 40, coefficient_grid(400))]
    said = []
    for check in (
        lambda: check_groups(ranks, features, "A", 10),
        lambda: check_budget(ranks, features, "A", 0.5, published),
    ):
        with pytest.raises(DisclosureError) as caught:
            check()
        said += str(caught.value).splitlines()
    run = examine(ranks, features, "A", min_group=10, budget=0.5, published=published)
    assert said == [f"A: {finding.sentence}" for finding in run.findings]


def test_rules_that_are_off_find_nothing():
    table = made_up()
    ranks = rank_columns([table[name].to_numpy() for name in table])
    order = Published("B", "ranking", 1, order_bits=order_bits(5))
    assert examine(ranks, list(table), "A", min_group=1, budget=0.5, published=[order]).findings == ()
    assert examine(ranks, list(table), "A", min_group=1, budget=0.5).findings == ()


@pytest.mark.parametrize(("file", "others"), [("insurer.csv", 6), ("clinic.csv", 4)])
def test_the_demo_passes(file, others):
    assert dry_run(pd.read_csv(DEMO / file).drop(columns="id"), others).findings == ()


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
@pytest.mark.parametrize(
    ("file", "others"),
    [("breast_hetero_guest", 20), ("breast_hetero_host", 11), ("motor_hetero_guest", 7),
     ("motor_hetero_host", 5), ("motor_hetero_host_1", 5), ("motor_hetero_host_2", 5),
     ("student_hetero_guest", 7), ("student_hetero_host", 7)],
)  # fmt: skip
def test_real_tables_pass(file, others):
    table = pd.read_csv(SHARED / f"{file}.csv")
    assert dry_run(table.drop(columns=table.columns[0]), others).findings == ()


@pytest.mark.parametrize(
    ("n", "own", "others"),
    [(178, 5, 8), (178, 8, 5), (4_406, 4, 6), (4_406, 6, 4),
     pytest.param(200_000, 50, 50, marks=pytest.mark.long)],
)  # fmt: skip
def test_continuous_columns_pass(n, own, others):
    ranks = rank_columns(list(np.random.default_rng([n, own]).standard_normal((own, n))))
    published = [
        Published("B", "coefficients", others, coefficient_grid(n)),
        Published("B", "strengths", others, strength_grid(n, own), mean_of=own),
    ]
    run = examine(ranks, [*map(str, range(own))], "A", min_group=10, budget=0.5, published=published)
    assert (run.findings, run.distinct_defined) == ((), own)

"""What a sweep compares: the names of variants, and the tables."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from mpc_spearman.comparison.sweep import tables
from mpc_spearman.comparison.variants import Size, variants
from support.plans import plan
from support.sweeps import CONFIGS

# --- names ------------------------------------------------------------------------------------------------

HE = {"protocol": "he"}


LITERAL = {"form": "literal"}


@pytest.mark.parametrize(
    ("settings", "scheme"),
    [
        ({}, "MPC"),
        ({**HE, "he": {"scheme": "bfv"}}, "HE BFV"),
        (HE, "HE Paillier packed"),
        ({**HE, "he": {"randomness": "short"}}, "HE Paillier short"),
        ({**HE, "he": {"key_bits": 2048, "workers": 2}}, "HE Paillier packed, key_bits=2048, workers=2"),
        ({**HE, "reveal": "differences", "he": LITERAL}, "HE Paillier literal"),
    ],
)
def test_a_scheme_is_named_by_what_changes_its_cost(settings: dict[str, Any], scheme: str) -> None:
    (variant,) = variants([plan(**settings)])
    assert variant.scheme == scheme
    assert variant.plan.reveal == settings.get("reveal", "coefficients")


def test_the_plans_here_can_be_compared_and_lose_their_tables() -> None:
    # The others are one of these at other parties, or on other tables.
    alike = (
        *("cluster.yaml", "intersect.yaml", "noise_on_inputs.yaml", "proved.yaml", "two_sources.yaml"),
        *("adjusted.yaml", "databases.yaml", "nominal.yaml"),
    )
    named = variants(sorted(path for path in CONFIGS.glob("*.yaml") if path.name not in alike))
    for name in alike:
        assert str(variants([CONFIGS / name])[0]) in {str(variant) for variant in named}
    assert {variant.scheme for variant in named} == {"MPC", "HE BFV", "HE Paillier literal"}
    for variant in named:
        assert variant.plan.rows is None
        assert variant.plan.parties.target.table is None


def test_made_up_tables_are_the_same_again_and_have_ties() -> None:
    first, again = (tables(plan(), Size(200, 4, 3)) for _ in range(2))
    for party, m in (("A", 4), ("B", 3)):
        pd.testing.assert_frame_equal(first[party], again[party])
        assert first[party].shape == (200, m + 1)
        distinct = first[party].drop(columns="id").nunique()
        assert (distinct < 20).sum() == 1
        assert (distinct == 200).sum() == m - 1

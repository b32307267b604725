"""The keys of a plan, typed."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from mpc_spearman.config.fields import Count, Flag, Number, Section, Text, flag, page_text, setting, whole
from mpc_spearman.config.levels import Reveal, granted_by_default
from mpc_spearman.config.parties import Parties
from mpc_spearman.config.sections import (
    Alignment,
    Estimator,
    HeSettings,
    Network,
    OpenedTo,
    Order,
    Privacy,
    Protocol,
    Results,
    Strength,
)
from mpc_spearman.config.table_keys import Normalise, one_or_more


class PlanKeys(Section):
    """All keys of a plan, each checked by itself. docs/plan.md lists them."""

    protocol: Protocol = setting("How the private part is computed.", "mpc")
    reveal: Reveal = setting(
        "What the coordinator opens, weakest privacy first: docs/privacy.md#what-is-opened.", "coefficients"
    )
    estimator: Estimator = setting(
        "Spearman's coefficient, or the paper's formula, which is wrong where values tie: "
        "docs/results.md#two-estimators-and-the-tie-trap.",
        "tie_corrected",
    )
    strength: Strength = setting(
        "How a target feature's coefficients become its strength: their mean, or the mean of their absolute "
        "values, which ranks by size, whatever the signs. `mean_abs` needs `reveal: coefficients` or "
        "`differences`, and at most 3,024,616 rows.",
        "mean",
    )
    order: Order = setting(
        "How the ranking is sorted. Under `mean`, `descending` puts strong negative associations last.",
        "descending",
    )
    top: Count | None = whole(
        "At `reveal: ranking`: open only which features are the `top` strongest, not their order. It must be "
        "below the number of the target's features.",
        low=1,
    )
    opened_to: OpenedTo = setting(
        "At `reveal: ranking`: who learns the order. With `target` the coordinator learns nothing, so it has "
        "nothing to pass on.",
        "coordinator",
    )
    confidence: Number = setting(
        "The level of the coefficients' confidence intervals: docs/statistics.md#confidence-intervals.",
        0.95,
        "a number above 0 and below 1",
        gt=0,
        lt=1,
    )
    purpose: Text | None = page_text("What the run is for.")
    retention: Text | None = page_text("How long results are kept, and what happens to them then.")
    responsibility: Text | None = page_text(
        "Who is responsible for what under data protection law: controllers, joint controllers, processors."
    )
    transfers: Text | None = page_text(
        "Whether data or results leave the legal area, such as the European Economic Area, and on what basis."
    )
    rows: Count | None = whole(
        "Use only the first `rows` rows, for trials. Left out: all. With noise, owners still read the whole "
        "table, as what they state comes from it: docs/guarantee.md#other-rows-than-all.",
        low=3,
    )
    alignment: Alignment = setting(
        "Which rows are used. `same`: all; all tables must list the same ids in the same order. `intersect`: "
        "the rows that all data parties have, found privately (docs/protocol.md#common-rows). `ids`: those "
        "of an earlier run, whose ids every data party has kept (`aligned`).",
        "same",
    )
    normalise: Annotated[tuple[Normalise, ...], BeforeValidator(one_or_more)] = setting(
        "What every data party does to ids, in this order, before they are compared: docs/tables.md#ids.",
        (),
        "a list of steps",
    )
    proofs: Flag = flag(
        "At `reveal: coefficients` under MPC: every owner proves that its vectors are possible ranks. So "
        "noise protects the others' rows also if it lies: docs/guarantee.md#proved-inputs."
    )
    parties: Parties
    results: Results = Field(default=Results(), validate_default=True)
    privacy: Privacy = Privacy()
    network: Network = Network()
    he: HeSettings = HeSettings()

    @field_validator("results")
    @classmethod
    def _fill_in(cls, results: Results, info: ValidationInfo) -> Results:
        # shared() must hold the real value: two parties that both leave it out must mean the same.
        target, sources = granted_by_default(info.data.get("reveal", "coefficients"))
        filled = {"target": results.target or target, "sources": results.sources or sources}
        # Filled in, but not set: with another level, `Plan.as_written` leaves them to that level's defaults.
        return Results.model_construct(results.model_fields_set, **{**dict(results), **filled})

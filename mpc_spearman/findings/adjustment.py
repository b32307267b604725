"""Which covariates a plan adjusts for (``adjust``), in words, and which coefficients can be tested."""

from __future__ import annotations

from mpc_spearman.config import Plan
from mpc_spearman.units import printable

#: From how many rows on remaining confounding is worth a sentence.
_MANY = 2_000


def covariates(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns that each data party adjusts its features for, the sources first."""
    return {owner.name: owner.adjust for owner in (*plan.parties.sources, plan.parties.target)}


def comparable(plan: Plan, source: str) -> bool:
    """Return whether coefficients of a source can be tested.

    Both sides are adjusted for the same columns, or one side or none is. After different adjustments
    independent columns can be related.
    """
    of_source, of_target = ({*covariates(plan)[name]} for name in (source, plan.parties.target.name))
    return of_source == of_target or not of_source or not of_target


def in_words(plan: Plan) -> str:
    """Say who adjusts for what; empty if nobody does."""
    owners = dict[tuple[str, ...], list[str]]()
    for owner, names in covariates(plan).items():
        if names:
            owners.setdefault(names, []).append(printable(owner))
    parts = [
        f"for {', '.join(map(printable, names))} at {' and '.join(who)}" for names, who in owners.items()
    ]
    return f"adjusted {' and '.join(parts)}" if parts else ""


def warnings(plan: Plan, n: int) -> list[str]:
    """Return what a reader of adjusted numbers must know."""
    if not (adjusted := in_words(plan)):
        return []
    names, target = covariates(plan), plan.parties.target.name
    sentences = list[str]()
    for source in (source.name for source in plan.parties.sources if not comparable(plan, source.name)):
        lists = " and ".join(
            f"{printable(owner)} adjusts for {', '.join(map(printable, names[owner]))}"
            for owner in (source, target)
        )
        sentences.append(
            f"nothing is tested between {printable(source)} and {printable(target)}: {lists}, and features "
            "adjusted for different columns can be related without a reason. If these columns are the same, "
            "give them the same names"
        )
    if n >= _MANY:
        sentences.append(
            f"features are {adjusted}, by smooth curves of ranks. What these miss of the covariates' "
            f"influence stays, and with {n:,} rows small p-values can come from it: docs/adjusting.md"
        )
    differ = plan.alignment != "same" or plan.rows is not None
    if differ and plan.results.precision != "exact":
        sentences.append(
            "features are adjusted by a fit to each party's whole table, not to the rows used: where these "
            "differ from the table, confounding may be left"
        )
    return sentences

"""What a data owner can find out alone, before anybody else is asked: whether its own table passes a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mpc_spearman.config import Plan, check_policy, check_policy_columns, check_policy_rows
from mpc_spearman.data.independence import row_cautions
from mpc_spearman.data.ranks import check_width, rank_columns
from mpc_spearman.data.sources import ArrowTable
from mpc_spearman.errors import BoundError, DisclosureError, MpcSpearmanError, PolicyError
from mpc_spearman.levels import level_of
from mpc_spearman.levels.precision import Precision
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role, Roster
from mpc_spearman.privacy.examine import Examination, examine
from mpc_spearman.privacy.groups import distinct_defined, lasting_in_a_mean
from mpc_spearman.privacy.leverage import highest_leverage
from mpc_spearman.protocols.load import own_table
from mpc_spearman.protocols.protect import published_to_others


@dataclass(frozen=True)
class DryRun:
    """What stands in the way of a run, as far as one owner can tell.

    Attributes
    ----------
    examination : Examination
        Of its columns, against what would be published about them.
    leverage : float
        The highest of a row in its columns, which the others' budgets are about if this party is granted
        coefficients, or is the target and granted strengths.
    refusals : tuple of MpcSpearmanError
        Its policy's, and those of the rules that are about sizes; not the examination's findings.
    cautions : tuple of str
        What it should know of its table.
    """

    examination: Examination
    leverage: float
    refusals: tuple[MpcSpearmanError, ...]
    cautions: tuple[str, ...]


def dry_run(plan: Plan, name: str, other: int, frame: ArrowTable | None = None) -> DryRun:
    """Apply an owner's policy and rules to its own table, alone; nothing is sent.

    Parameters
    ----------
    plan : Plan
    name : str
        A data party.
    other : int
        Features of the other side, all of them distinct: the target's, or each source's. Of several sources,
        others than `name` are taken to have none, so that its part of a mean is as large as it can be.
    frame : table in memory, optional
        Its table, where that is not a file.

    Raises
    ------
    TableError
        The table cannot be used.
    """
    roster, refusals = Roster.of(plan, name), list[MpcSpearmanError]()
    table = own_table(plan, name, frame)
    ranks = rank_columns(map(table.column, range(table.m)), table.m)
    own = distinct_defined(ranks)
    as_source = roster.me.role is Role.SOURCE
    features = dict.fromkeys(roster.sources, 0 if as_source else other)
    distinct, lasting = dict(features), dict(features)
    if as_source:
        features[roster.me], distinct[roster.me] = table.m, own
        lasting[roster.me] = lasting_in_a_mean(ranks)
    shapes = Shapes(
        table.n,
        features,
        other if as_source else table.m,
        distinct={**distinct, roster.target: other if as_source else own},
        lasting=lasting,
    )
    known = not as_source or len(roster.sources) == 1  # k is that of all sources
    checks: tuple[Callable[[], None], ...] = (
        lambda: check_policy(plan, name),
        lambda: check_policy_rows(plan, name, table.n),
        lambda: level_of(plan).check_rows(table.n),
        *([lambda: check_policy_columns(plan, name, shapes.distinct_sources)] if known else []),
        lambda: check_width(table.n, shapes.m_sources, shapes.m_target, plan.privacy.min_rows_per_feature),
    )
    for check in checks:
        try:
            check()
        except (PolicyError, DisclosureError, BoundError) as error:
            refusals.append(error)
    found = examine(
        ranks,
        table.features,
        name,
        min_group=plan.privacy.min_group,
        budget=plan.privacy.budget,
        published=published_to_others(plan, roster, shapes),
    )
    leverage = highest_leverage(ranks, Precision.of(plan, table.n, 1).coefficients)
    cautions = (*table.cautions, *row_cautions(ranks, table.features))
    return DryRun(found, leverage, tuple(refusals), cautions)

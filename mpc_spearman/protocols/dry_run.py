"""What a data owner can check alone: whether its own table and policy pass a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mpc_spearman.config import Plan, check_policy, check_policy_columns, check_policy_rows
from mpc_spearman.data.adjusted import Adjusted
from mpc_spearman.data.independence import row_cautions
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import listed, show
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import BoundError, MpcSpearmanError, PolicyError
from mpc_spearman.levels import level_of
from mpc_spearman.levels.expected_noise import ExpectedNoise
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.privacy.statements import Statements, rows_differ
from mpc_spearman.protocols.charge import ledger_state
from mpc_spearman.protocols.load import many_ids, own_tables, own_vectors
from mpc_spearman.protocols.protect import too_few_rows
from mpc_spearman.statistics.columns import Floats


@dataclass(frozen=True)
class DryRun:
    """What an owner can know before a run: the errors that would stop the run, and the noise in its results.

    `expected_noise` is None if results would be exact; `refusals` are errors of its policy, and of the bounds
    on sizes.
    """

    table: Table
    ranks: Ranks
    #: Which share of each feature's variance the covariates leave, (m,); None if there are none.
    unexplained: Floats | None
    expected_noise: ExpectedNoise | None
    refusals: tuple[MpcSpearmanError, ...]
    cautions: tuple[str, ...]
    #: Where the ledger is, and what earlier runs have used.
    ledger: str


def dry_run(plan: Plan, name: str, other_features: int) -> DryRun:
    """Apply an owner's policy to its table, and compute the noise to expect; nothing is sent.

    `other_features` is the number of features of the target or of each source, assumed to have no ties.
    `TableError` if the table cannot be used.
    """
    roster, refusals = plan.roster(name), list[MpcSpearmanError]()
    tables = own_tables(plan, name)
    table, ranks_of = tables.of_run, cache(Table.ranks)
    ranks = ranks_of(table)
    as_source = roster.me.role is Role.SOURCE
    features = dict.fromkeys(roster.sources, other_features)
    if as_source:
        features[roster.me] = table.m
    shapes = Shapes(table.n, features, other_features if as_source else table.m)
    level = level_of(plan)
    vectors, stated = own_vectors(plan, tables, ranks_of)
    own_ranks = ranks.first(table.m)
    only_source = as_source and len(roster.sources) == 1  # a strength is over the columns of all sources
    checks: tuple[Callable[[], None], ...] = (
        lambda: check_policy(plan, name),
        lambda: check_policy_rows(plan, name, table.n),
        lambda: level.check_rows(table.n),
        *([lambda: check_policy_columns(plan, name, stated.defined, level.counts)] if only_source else []),
    )
    for check in checks:
        try:
            check()
        except (PolicyError, BoundError) as error:
            refusals.append(error)
    ledger, refusal = ledger_state(plan, name)
    refusals += [] if refusal is None else [refusal]
    cautions = (
        *table.cautions,
        *many_ids(plan, name, table.n),
        *row_cautions(ranks, table.columns),
        *too_few_rows(plan, stated, roster.me.role, shapes),
        *_exact_cautions(plan, table, own_ranks),
        *_range_cautions(plan, table, stated),
    )
    expected_noise = level.expected_noise(stated, roster.me.role, shapes) if level.noisy else None
    unexplained = vectors.unexplained if isinstance(vectors, Adjusted) else None
    return DryRun(table, own_ranks, unexplained, expected_noise, tuple(refusals), cautions, ledger)


#: The factor by which a column's range grows if its rare values are half as frequent in the rows of a run,
#: beyond the step that is stated in addition.
_HALF_AS_OFTEN = 1.2


def _range_cautions(plan: Plan, table: Table, stated: Statements) -> list[str]:
    """Propose ``policy.range`` for columns with rare values, where a run may use other rows."""
    level = level_of(plan)
    if not (level.noisy and rows_differ(plan)) or len(stated.vectors.ranges) != table.m:
        return []
    more = plan.owner(table.party).policy.range
    rare = [
        name
        for name, step in zip(table.features, stated.vectors.ranges, strict=True)
        if step > 1 and name not in more
    ]
    if not rare:
        return []
    keys = ", ".join(f"{show(name)}: {_HALF_AS_OFTEN:g}" for name in rare[:10])
    return [
        f"results about {listed(rare)} are weakened if the rows of a run have rare values more rarely than "
        f"this table. For rows that have them half as often, set policy: {{range: {{{keys}}}}}, with "
        f"{_HALF_AS_OFTEN:g} times the noise"
    ]


#: With fewer rows outside its largest group, a column's exact numbers nearly show the values of single rows.
_FEW = 10


def _exact_cautions(plan: Plan, table: Table, ranks: Ranks) -> list[str]:
    """Warn of columns whose numbers describe few rows, if a party gets these numbers without noise."""
    exact, on_inputs = plan.results.precision == "exact", plan.owner(table.party).noise == "inputs"
    if (level_of(plan).owners_add or on_inputs) and not exact:
        return []
    rare = [
        name for name, groups in zip(table.features, ranks.groups, strict=True) if 0 < groups.outside < _FEW
    ]
    why = "results.precision: exact has no noise, so" if exact else "the coordinator's own copy is exact:"
    return [f"{why} numbers about {', '.join(rare)} describe fewer than {_FEW} rows each"] if rare else []

"""An owner's dry run: all that its own rules say of its own table, before anybody else is asked.

It finds what a run refuses (:func:`mpc_spearman.privacy.groups.check_groups` and
:func:`mpc_spearman.privacy.budget.check_budget`), in the same sentences.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.privacy.budget import Published, Told, held, over_budget, told
from mpc_spearman.privacy.findings import Finding
from mpc_spearman.privacy.groups import distinct_defined, standing_apart


@dataclass(frozen=True)
class Column:
    """What one column holds, and what is told of it.

    Attributes
    ----------
    feature : str
        Its name.
    groups : int
        How many different values it has.
    outside : int
        Rows outside its largest group of equal values; 0 for a constant column.
    held : float
        H, the bits that its ranks hold.
    told : tuple of Told
        b and E·b for each receiver.
    """

    feature: str
    n: int
    groups: int
    outside: int
    held: float
    told: tuple[Told, ...]

    @property
    def kind(self) -> str:
        """``constant``, ``flag`` (two values), ``ties`` or ``no ties``."""
        names = {1: "constant", 2: "flag", self.n: "no ties"}
        return names.get(self.groups, "ties")


@dataclass(frozen=True)
class Examination:
    """What :func:`examine` found. Private to the owner.

    Attributes
    ----------
    party : str
        Whose columns these are.
    n : int
        Rows.
    columns : tuple of Column
        One for each feature, in the table's order.
    distinct_defined : int
        k, the columns that are not constant, equal and reversed ones counted once.
    families : tuple of tuple of str
        As in :class:`mpc_spearman.privacy.groups.Apart`.
    findings : tuple of Finding
        All that would be refused.
    exclude : tuple of str
        Columns without which nothing would be, in the table's order.
    """

    party: str
    n: int
    columns: tuple[Column, ...]
    distinct_defined: int
    families: tuple[tuple[str, ...], ...]
    findings: tuple[Finding, ...]
    exclude: tuple[str, ...]

    @property
    def exclude_line(self) -> str:
        """The line for the party's part of the plan; empty if nothing needs to be left out."""
        # JSON's strings and lists are YAML's
        return f"exclude: {json.dumps(self.exclude, ensure_ascii=False)}" if self.exclude else ""


def examine(
    ranks: Ranks,
    features: Sequence[str],
    party: str,
    *,
    min_group: int,
    budget: float,
    published: Sequence[Published] = (),
) -> Examination:
    """Apply every rule to a party's own columns and collect what is found.

    Parameters
    ----------
    ranks : Ranks
        The party's own.
    features : sequence of str, length m
        Their names.
    party : str
        Whose they are.
    min_group : int
        ``privacy.min_group``.
    budget : float
        ``privacy.budget``.
    published : sequence of Published
        What each other data party would have, as far as it is known.

    Returns
    -------
    Examination
        `exclude` is found greedily: it is enough, not always the least. (It does not take into account that
        strengths over fewer columns tell more about each of the others.)
    """
    spent = list(over_budget(ranks.groups, features, budget, published))
    apart = standing_apart(ranks, features, min_group)
    leave_out = {*apart.exclude, *(feature for finding in spent for feature in finding.columns)}
    columns = (
        Column(feature, ranks.n, column.count, column.outside, held(column), told(column, published))
        for feature, column in zip(features, ranks.groups, strict=True)
    )
    return Examination(
        party=party,
        n=ranks.n,
        columns=tuple(columns),
        distinct_defined=distinct_defined(ranks),
        families=apart.families,
        findings=(*apart.findings, *spent),
        exclude=tuple(feature for feature in features if feature in leave_out),
    )

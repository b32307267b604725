"""How much of a column its published correlations tell, in bits, against what the column holds.

A column's ranks are one of n!/Π t! arrangements (t runs over its groups of equal values): H = log2 of that
many bits. Each number published about it is a function of these ranks and of a column that its receiver
knows, and tells at most as many bits as the number has: b. Where a receiver gets E such numbers with
E·b < H, many arrangements fit all of them; the rule asks for half of that, E·b <= `budget`·H with 0.5.

Numbers that are about few rows tell all about these long before they tell half of the column, so a receiver's
equations count for more where its columns lie on few rows: :meth:`Published.weight`.

H and b count the arrangements as equally likely. What a receiver knows otherwise, or can guess from its own
columns, lowers H and is not counted; nor is it that an owner's own columns resemble each other, so that their
numbers add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mpc_spearman.data.ranks import Groups, Ranks, total
from mpc_spearman.data.refusals import show
from mpc_spearman.privacy.findings import Finding, refuse
from mpc_spearman.privacy.precision import Grid

_NORMAL = 2 * math.pi * math.e  # a normal of variance v has ½·log2(2πe·v) bits


def held(column: Groups) -> float:
    """Return H = log2(n!/Π t!), the bits that a column's ranks hold; 0 for a constant column."""
    if column.count == 1:
        return 0.0
    ties = math.fsum(count * math.lgamma(t + 1) for t, count in column.how_many)
    return (math.lgamma(column.n + 1) - ties) / math.log(2)


def exact_bits(column: Groups) -> float:
    """Return the bits of one exact coefficient with an untied column in random order: an upper bound.

    S = Σ x_i y_i with y_i = 2u_i - (n - 1), u a permutation of 0 … n-1. As Σ x_i = 0, S = 2 Σ x_i u_i.
    Let g be the greatest common divisor of the differences x_i - x_j, that is x_i = c + g z_i for integers
    z_i: then S = c n(n - 1) + 2g Σ z_i u_i lies on a lattice of step 2g, and on none coarser, since
    exchanging two neighbouring u changes S by 2(x_i - x_j). Its variance over the n! orders is
    Σx² Σy²/(n - 1) = (N - T) N/(n - 1) = (N - T) n(n + 1)/3. An integer of variance v has at most
    ½·log2(2πe (v + 1/12)) bits; here v = (N - T) n(n + 1)/(12 g²).

    An untied column has g = 2, so S moves in steps of 4 (as Σd² does in steps of 2); a flag has g = n, and
    S/(2n) is, up to a constant, the sum of the flagged rows' ranks. Ties at the other side make S vary less,
    but its lattice can be twice as fine: one bit more at most.

    References
    ----------
    T. M. Cover, J. A. Thomas, Elements of Information Theory, 2nd ed., 2006, problem 8.7.
    """
    if column.count == 1:
        return 0.0
    n = column.n
    variance = (total(n) - column.tie_term) * n * (n + 1) / (12 * column.step**2)
    return math.log2(_NORMAL * (variance + 1 / 12)) / 2


@dataclass(frozen=True)
class Published:
    """What one receiver will have about each of one's own columns.

    Only the finest that it is granted counts, since the coarser follows from it: strengths where no
    coefficients are, an order where no strengths are.

    Attributes
    ----------
    receiver : str
        The party.
    what : str
        ``coefficients``, ``strengths`` or ``ranking``.
    equations : int
        E. Coefficients: the receiver's own distinct columns. Strengths, for a source: the target's columns,
        each strength being a linear equation in the source's ranks; for the target: one. An order: one.
    grid : Grid, optional
        On which they lie; ``None`` if they are exact, or an order.
    mean_of : int
        A source's column is one of so many in a strength, and counts in it for w = 1/`mean_of`. 1 for a
        coefficient; and for the target's column in a strength, which all of the strength is about.
    order_bits : float
        Of an order, :func:`order_bits`.
    leverage : float
        h, the highest of the receiver's columns (:mod:`mpc_spearman.privacy.leverage`), as it states it; 0
        where it has no column of its own to compare with.
    """

    receiver: str
    what: Literal["coefficients", "strengths", "ranking"]
    equations: int
    grid: Grid | None = None
    mean_of: int = 1
    order_bits: float = 0.0
    leverage: float = 0.0

    def weight(self, n: int) -> float:
        """Return how many equations these count for among `n` rows: E, or n·h/2 if that is more.

        Leverages add up to E or less, so that n·h is at least about E, and about twice as much where the
        receiver's columns spread as evenly as random ones. Beyond that they lie on fewer rows, about which
        they tell as much as so many equations about all rows do.
        """
        return max(float(self.equations), n * self.leverage / 2)

    def bits_each(self, column: Groups) -> float:
        """Return b, the bits that each of these numbers tells about a column: an upper bound.

        On a grid the smaller of two: of the number as published, of standard deviation w/√(n - 1) around 0
        and rounded to δ; and of the exact coefficient.
        """
        if column.count == 1:  # nothing is published about it
            return 0.0
        if self.what == "ranking":
            return self.order_bits
        if self.grid is None:
            return exact_bits(column)
        spread = self.grid.steps / (self.mean_of * math.sqrt(column.n - 1))  # w·σ/δ
        return min(math.log2(_NORMAL * (spread**2 + 1 / 12)) / 2, exact_bits(column))


def order_bits(columns: int, top: int | None = None) -> float:
    """Return the bits of an order of m columns, log2 m!; or of which are the `top` k, log2 C(m, k)."""
    if top is None:
        return math.lgamma(columns + 1) / math.log(2)
    return math.log2(math.comb(columns, min(top, columns)))


@dataclass(frozen=True)
class Told:
    """What one receiver is told about one column, in bits.

    Attributes
    ----------
    published : Published
        To whom, and what.
    bits_each : float
        b, of each equation.
    bits : float
        E·b, or as many as its `Published.weight` makes of it.
    """

    published: Published
    bits_each: float
    bits: float


def told(column: Groups, published: Sequence[Published]) -> tuple[Told, ...]:
    """Return what each receiver is told about a column."""
    each = [(one, one.bits_each(column)) for one in published]
    return tuple(Told(one, bits, one.weight(column.n) * bits) for one, bits in each)


def over_budget(
    columns: Sequence[Groups], features: Sequence[str], budget: float, published: Sequence[Published]
) -> Iterator[Finding]:
    """Find the columns about which some receiver would be told more than `budget` of what they hold.

    And receivers whose own columns would tell more than `budget` of the variance of one row's rank, in any
    of this party's columns.
    """
    for other in published:
        if other.leverage > budget:
            yield Finding(
                "privacy.budget",
                (),
                1,
                f"the columns of {other.receiver} together single out a row: its {other.what} tell up to "
                f"{other.leverage:.0%} of the variance of that row's rank, more than the {budget:.0%} that "
                f"privacy.budget {budget:g} allows. {other.receiver} can leave out columns that are alike "
                "for almost all rows, or use fewer",
            )
    for column, feature in zip(columns, features, strict=True):
        limit = budget * held(column)
        for one in told(column, published):
            if one.bits > limit:
                sentence = _sentence(feature, column, budget, limit, one)
                yield Finding("privacy.budget", (feature,), column.n, sentence)


def _sentence(feature: str, column: Groups, budget: float, limit: float, one: Told) -> str:
    what, receiver = one.published.what, one.published.receiver
    if what == "ranking":
        numbers = f"the order that {receiver} will have tells {one.bits:.1f}"
    else:
        noun = what if one.published.equations > 1 else what.removesuffix("s")
        numbers = (
            f"the {one.published.equations} {noun} that {receiver} will have tell up to "
            f"{one.bits_each:.1f} each, {one.bits:.1f} in all"
        )
        if one.published.weight(column.n) > one.published.equations:
            numbers += f" as they lie on few rows (leverage {one.published.leverage:.2f})"
    most = int(limit / one.bits_each)  # b is above 0, or this would not be over a limit
    spread = one.published.weight(column.n) == one.published.equations
    fits = f" ({most} at most)" if most else " (not even one fits)"
    fits = fits if spread and what != "ranking" else ""
    exact = "results.precision: statistical, or " if what != "ranking" and one.published.grid is None else ""
    less = {"coefficients": "strengths or ranking", "strengths": "ranking", "ranking": "nothing"}[what]
    return (
        f"the ranks of {show(feature)} hold {held(column):.1f} bits; {numbers}, more than the {limit:.1f} "
        f"that privacy.budget {budget:g} allows. Leave the column out, use fewer columns on the other "
        f"side{fits}, or publish less ({exact}results: {less})"
    )


def check_budget(
    ranks: Ranks, features: Sequence[str], party: str, budget: float, published: Sequence[Published]
) -> None:
    """Refuse columns of which the published numbers would tell too much.

    Run by each party on its own columns before it sends anything of them; a constant column passes.

    Parameters
    ----------
    ranks : Ranks
        The party's own.
    features : sequence of str, length m
        Their names.
    party : str
        Whose they are.
    budget : float
        ``privacy.budget`` of the shared plan: the part of a column's bits that one receiver may be told.
    published : sequence of Published
        One for each other data party that is granted something.

    Raises
    ------
    DisclosureError
        Naming the party, every such column, H, E, b, E·b, the limit, and the three ways out.
    """
    refuse(party, list(over_budget(ranks.groups, features, budget, published)))

"""That no few rows stand apart in a party's own columns, one by one or together.

Whoever has the correlations of its columns with another's column y has Σ_i z_i y_i for every combination z
of its columns and the constant one. Where z is zero, or nearly so, outside a few rows, that tells those few
rows' ranks at the other side. ``privacy.min_group`` is the fewest rows that may stand apart so. Every owner
asks it of its own columns before it sends anything, in three steps:

1. **A column**: some, but fewer than `min_group` rows outside its largest group of equal values.
2. **Two columns**, as they are or one reversed, which order all rows alike but for 1 to `min_group` - 1 (and
   a tenth of all at most: more would move the others' ranks too much): two versions of a column with a few
   cells changed, nested flags, a flag and an almost-complement, a count that is rarely above 1 and its flag.
   Columns that are exactly equal or reversed tell nothing more and pass.
3. **Any combination** that is zero outside 1 to `min_group` - 1 rows, in the sense and with the chances of
   :mod:`mpc_spearman.privacy.combinations`: one-hot columns whose rare one was left out, unions and
   intersections of flags, two flags and their sum, columns that differ from a constant in the same few rows.

Not covered: three or more columns that isolate few rows nearly but not exactly; rows that can be guessed from
what is known otherwise; columns of another run, which the ledger is for; columns that their owner made up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import count_of, show
from mpc_spearman.privacy.combinations import Combination, sparse_combinations
from mpc_spearman.privacy.findings import Finding, refuse

_RULE = "privacy.min_group"
_KEY = 1024  # rows that tell most different columns apart


@dataclass(frozen=True)
class Apart:
    """Where few rows stand apart in a party's columns.

    Attributes
    ----------
    findings : tuple of Finding
        What breaks the rule.
    exclude : tuple of str
        Columns without which nothing does, in the table's order.
    families : tuple of tuple of str
        Flags (or their opposites, as ``not 'a'``) of which each row has exactly one, or all but a few rows.
    """

    findings: tuple[Finding, ...]
    exclude: tuple[str, ...]
    families: tuple[tuple[str, ...], ...]


def distinct_defined(ranks: Ranks) -> int:
    """Count the columns that are not constant, equal and reversed ones once: k."""
    return len(equal_or_reversed(ranks))


def lasting_in_a_mean(ranks: Ranks) -> int:
    """Count the distinct columns that a mean over all columns is about: k of strengths.

    A column cancels out where it stands as often as its reverse: male and female, for one.
    """
    alike = (
        [np.array_equal(ranks.matrix[column], ranks.matrix[members[0]]) for column in members]
        for members in equal_or_reversed(ranks)
    )
    return sum(2 * sum(same) != len(same) for same in alike)


def equal_or_reversed(ranks: Ranks) -> list[list[int]]:
    """Put the columns that are not constant together with those that they are equal to, or the reverse of."""
    alike: dict[tuple[int, bytes], list[list[int]]] = {}
    for column, (x, constant) in enumerate(zip(ranks.matrix, ranks.constant, strict=True)):
        if constant:
            continue
        start = x[:_KEY] if x[np.argmax(x != 0)] > 0 else -x[:_KEY]
        likely = alike.setdefault((ranks.tie_terms[column], start.tobytes()), [])
        for members in likely:
            other = ranks.matrix[members[0]]
            if np.array_equal(x, other) or np.array_equal(x, -other):
                members.append(column)
                break
        else:
            likely.append([column])
    return [members for likely in alike.values() for members in likely]


def standing_apart(ranks: Ranks, features: Sequence[str], min_group: int) -> Apart:
    """Find all that breaks the rule, and which columns to leave out.

    Parameters
    ----------
    ranks : Ranks
        The party's own.
    features : sequence of str, length m
        Their names.
    min_group : int
        The fewest rows that may stand apart; 1 turns the rule off.

    Returns
    -------
    Apart
        Each step looks at the columns that the ones before it leave.
    """
    if min_group <= 1:
        return Apart((), (), ())
    say = _Words(features, min_group)
    findings, families = [], []
    defined = {column for column, constant in enumerate(ranks.constant) if not constant}

    few = [column for column in sorted(defined) if ranks.groups[column].outside < min_group]
    findings += [say.column(column, ranks.groups[column].outside) for column in few]
    kept = defined.difference(few)

    for pair in _pairs(ranks, sorted(kept), min(min_group - 1, ranks.n // 10)):
        findings.append(say.pair(*pair))
        kept.discard(pair[1])

    # one more, and with the constant they can be made zero on all but min_group - 1 rows of one's choice
    most = max(0, ranks.n - min_group)
    distinct = equal_or_reversed(ranks)
    if len(columns := _one_of_each(distinct, kept)) > most:
        findings.append(say.too_many(columns, ranks.n))
        kept.intersection_update(columns[:most])

    searching = True
    while searching:
        columns = _one_of_each(distinct, kept)
        found = sparse_combinations([ranks.matrix[column] for column in columns], min_group)
        broken = []
        for one in found:
            involved = tuple(columns[index] for index in one.columns)
            if members := _family(ranks, one, columns):
                families.append(say.members(members))
            if one.rows.size:
                findings.append(say.combination(involved, members, one.rows.size))
                broken.append(involved)
        kept -= _cover(broken, ranks)
        searching = bool(broken)

    exclude = tuple(features[column] for column in sorted(defined - kept))
    return Apart(tuple(findings), exclude, tuple(dict.fromkeys(families)))


def check_groups(ranks: Ranks, features: Sequence[str], party: str, min_group: int) -> None:
    """Refuse columns that alone or together set a few rows apart from all others.

    Run by each party on its own columns; nothing is sent. A constant column says nothing and passes.

    Raises
    ------
    DisclosureError
        A line for each finding: the party, the columns, how many rows, the rule and what to leave out.
    """
    refuse(party, standing_apart(ranks, features, min_group).findings)


def _pairs(ranks: Ranks, columns: Sequence[int], most: int) -> Iterator[tuple[int, int, bool, int]]:
    """Find pairs that 1 to `most` rows tell apart: two columns, if one is reversed, how many rows.

    The second, which is the later one, is left out of what follows. Leaving c rows out moves an
    x = 2r - (n + 1) by c at most, so that all other rows of such a pair differ by 2c or less, and
    Σ_i (x_i ∓ x'_i)² <= c (2n)² + n (2c)². A Gram matrix in float64, with room for its rounding, tells for
    which pairs that can be.
    """
    gram = ranks.gram[np.ix_(columns, columns)]
    norms = np.diag(gram)
    bound = 1.01 * (4 * most * ranks.n**2 + 4 * most**2 * ranks.n)
    left_out: set[int] = set()
    for sign in (1, -1):
        for j, i in np.argwhere(np.tril(norms[:, None] + norms - 2 * sign * gram <= bound, -1)):
            if left_out.isdisjoint((i, j)):
                rows = _rows_apart(ranks.matrix[columns[i]], sign * ranks.matrix[columns[j]], most)
                if 0 < rows <= most:
                    left_out.add(j)
                    yield columns[i], columns[j], sign < 0, rows


def _rows_apart(x: NDArray[np.int32], y: NDArray[np.int32], most: int) -> int:
    """Return the fewest rows without which `x` and `y` order the rest alike, or any number above `most`."""
    x, y = x.astype(np.int64), y.astype(np.int64)
    if np.count_nonzero(abs(x - y) > 2 * most) > most:
        return most + 1
    # the different pairs of values, how many rows have each, and their places among the values of each column
    _, where, rows = np.unique(x * (2 * x.size) + y, return_index=True, return_counts=True)
    u, v = (np.unique(values[where], return_inverse=True)[1] for values in (x, y))
    # Pairs that are neighbours in both columns, each alone with its values, go together whatever is left out.
    # Each of the others breaks into four places at most.
    alone = (np.bincount(u)[u] == 1) & (np.bincount(v)[v] == 1)
    together = alone[1:] & alone[:-1] & (np.diff(v) == 1)
    first = np.flatnonzero(np.concatenate(([True], ~together)))
    if first.size > 5 * most + 1:
        return most + 1
    u, v, rows = u[first], v[first], np.add.reduceat(rows, first)
    # the heaviest chain that rises in both columns
    kept = np.zeros(first.size, dtype=np.int64)
    for k in range(first.size):
        below = (u[:k] < u[k]) & (v[:k] < v[k])
        kept[k] = rows[k] + kept[:k][below].max(initial=0)
    return int(x.size - kept.max())


def _family(ranks: Ranks, one: Combination, columns: tuple[int, ...]) -> list[tuple[int, bool]]:
    """Return the flags of which each row outside `one.rows` has exactly one, some as opposites; or nothing.

    A flag's x is n·flag less a constant, so that the weights of a family's members are the same but for the
    sign, which is the other one for those that belong to it as their opposites.
    """
    weights = one.weights[1:][list(one.columns)]
    involved = [ranks.matrix[columns[index]] for index in one.columns]
    alike = weights == weights[0]
    if not all(alike | (weights == -weights[0])) or not all(map(_is_flag, involved)):
        return []
    # a row that is not one of those apart: how many of the members does it have?
    row = np.setdiff1d(np.arange(one.rows.size + 1), one.rows)[0]
    marked = [bool(x[row] > 0) == same for x, same in zip(involved, alike, strict=True)]
    if marked.count(True) != 1:
        alike = ~alike
    if 1 not in (marked.count(True), marked.count(False)):
        return []
    return [(columns[index], not same) for index, same in zip(one.columns, alike, strict=True)]


def _is_flag(x: NDArray[np.int32]) -> bool:
    return bool(((x == x.max()) | (x == x.min())).all())


def _one_of_each(distinct: list[list[int]], kept: set[int]) -> tuple[int, ...]:
    """Return of equal and reversed columns the first that is kept."""
    left = (kept.intersection(members) for members in distinct)
    return tuple(sorted(min(members) for members in left if members))


def _cover(sets: list[tuple[int, ...]], ranks: Ranks) -> set[int]:
    """Choose one column or more of each set: the most frequent, then that of the fewest rows outside."""
    chosen: set[int] = set()
    while left := [one for one in sets if not chosen.intersection(one)]:
        frequency = Counter(column for one in left for column in one)
        chosen.add(max(frequency, key=lambda c: (frequency[c], -ranks.groups[c].outside, c)))
    return chosen


@dataclass(frozen=True)
class _Words:
    """The sentences."""

    features: Sequence[str]
    min_group: int

    @cached_property
    def names(self) -> list[str]:
        """Every column's name in quotes."""
        return [show(feature) for feature in self.features]

    def column(self, column: int, rows: int) -> Finding:
        what = f"{count_of(rows, 'row')} outside the largest group of equal values of {self.names[column]}"
        return self._finding((column,), rows, f"too few rows stand apart, {what}", "Leave it out")

    def pair(self, first: int, second: int, reversed_: bool, rows: int) -> Finding:
        how = " (one of them reversed)" if reversed_ else ""
        what = f"{self.names[first]} and {self.names[second]}{how} differ in {count_of(rows, 'row')}"
        return self._finding((first, second), rows, what, "Leave one of the two out")

    def combination(self, columns: Sequence[int], members: list[tuple[int, bool]], rows: int) -> Finding:
        if len(members) == 2:
            (first, not_first), (second, not_second) = members
            return self.pair(first, second, not_first == not_second, rows)
        if members:
            listed_ = ", ".join(self.members(members))
            what = f"all rows but {rows} have exactly one of {listed_}"
        else:
            listed_ = ", ".join(self.names[column] for column in columns)
            what = f"a combination of {listed_} sets {count_of(rows, 'row')} apart from all others"
        return self._finding(tuple(columns), rows, what, "Leave one of them out")

    def too_many(self, columns: Sequence[int], n: int) -> Finding:
        most = max(0, n - self.min_group)
        many = count_of(len(columns), "different column")
        what = f"{many} of {n} rows have combinations that set few rows apart"
        return self._finding(tuple(columns), max(1, n - len(columns)), what, f"Leave all but {most} out")

    def members(self, members: list[tuple[int, bool]]) -> tuple[str, ...]:
        """Name the members of a family."""
        return tuple(f"not {self.names[column]}" if not_ else self.names[column] for column, not_ in members)

    def _finding(self, columns: tuple[int, ...], rows: int, what: str, remedy: str) -> Finding:
        why = f"{_RULE} asks for {self.min_group} or more (or none), or results could give single rows away"
        names = tuple(self.features[column] for column in columns)
        return Finding(_RULE, names, rows, f"{what}; {why}. {remedy}")

"""The warnings in ``Result.warnings``: what a reader must know before trusting a number.

Each function returns at most one warning, unless it says otherwise; one about several columns has a sentence
with their number, and a line for each. `party` owns the columns `features`; n counts rows. Sentences name
parties and columns, and say counts, never cells. The caller knows who may be shown which.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc_spearman.config import Estimator, Order
from mpc_spearman.data.ranks import total
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.columns import Flags, Floats, Ints
from mpc_spearman.statistics.explained import SPREAD
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import SKEWED, TOO_SKEWED

#: A strength is flagged when it is under this share of the mean |rho| it averages (with equal magnitudes, at
#: least a third of the signs disagree), and only when that mean |rho| is worth a second look.
CANCELLED, NOTEWORTHY = 1 / 3, 0.05
#: A difference of strengths under the two estimators too small for a sentence.
TIED = 0.001
#: Approximate p-values need a sentence below so many rows: at 16 Student's t makes 0.00065 of 0.001.
FEW_ROWS = 20
#: What the coordinator cannot know at ``strengths`` and ``ranking`` under ``paper``.
EQ2_UNSEEN = (
    "eq. 2 (estimator: paper) counts ties as agreement, and the coordinator cannot see how many there are: "
    "the ranking may reflect ties alone"
)
#: If opened comparisons are not an order.
NO_ORDER = (
    "the comparisons that were opened contradict each other: a party did not follow the protocol, or its "
    "messages were damaged. Positions count how many features came out before each"
)
_JOINT = (
    "each R² and each canonical correlation is of one source. A joint one is at least the largest of these; "
    "it would need products between the sources' columns, which no run computes"
)


def _warn_of_each(sentence: str, items: Sequence[str]) -> list[str]:
    """Return a warning with a sentence and a line for each item, or none if there are no items."""
    return ["\n".join((sentence, *items))] if items else []


def _warn_of_count(flags: Flags, sentence: str) -> list[str]:
    """Return a warning that begins with how many of the flags are set, or none if no flag is."""
    return [f"{int(flags.sum())} of {flags.size} {sentence}"] if flags.any() else []


def _count_of(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def ties(party: str, features: Sequence[str], tie_terms: Sequence[int], n: int) -> list[str]:
    """Name the columns with ties: under eq. 2, S/N + (T_x + T_y)/(2N), each adds T/(2N) to a coefficient."""
    lines = [
        f"{feature}: ties add {int(term) / (2 * total(n)):.3g} to every coefficient of this column"
        for feature, term in zip(features, tie_terms, strict=True)
        if term
    ]
    columns = _count_of(len(lines), "column")
    return _warn_of_each(
        f"ties in {columns} of {party}, which eq. 2 (estimator: paper) counts as agreement", lines
    )


def constants(party: str, features: Sequence[str], flags: Sequence[bool], estimator: Estimator) -> list[str]:
    """Name the columns whose flag says that they are constant."""
    consequence = "its coefficients are NaN and no mean counts them"
    if estimator == "paper":
        consequence = "and the numbers of eq. 2 (estimator: paper) mean nothing"
    names = [feature for feature, constant in zip(features, flags, strict=True) if constant]
    return _warn_of_each(
        f"{_count_of(len(names), 'constant column')} of {party}: a constant has no rank correlation, "
        f"{consequence}",
        names,
    )


def cancellations(features: Sequence[str], mu: Floats, mean_abs: Floats) -> list[str]:
    """Name the target features whose mean hides coefficients of opposite signs.

    `mu` and `mean_abs` are means of rho and of |rho|.
    """
    lines = [
        f"{feature}: strength {_minus(f'{mean:.3f}')}, mean |rho| {size:.3f}"
        for feature, mean, size in zip(features, mu.tolist(), mean_abs.tolist(), strict=True)
        if size >= NOTEWORTHY and abs(mean) < CANCELLED * size
    ]
    return _warn_of_each(
        f"in {len(lines)} of {len(features)} features coefficients of opposite signs largely cancel in the "
        "mean",
        lines,
    )


def eq2(features: Sequence[str], corrected: Floats, paper: Floats, order: Order) -> list[str]:
    """Say how ties mislead eq. 2's ranking, if strengths differ by more than `TIED`."""
    apart = np.abs(corrected - paper)
    if not np.nanmax(apart, initial=0.0) > TIED:
        return []
    right, wrong = (
        ["undefined" if np.isnan(mu) else _minus(f"{mu:.3g}") for mu in strengths]
        for strengths in (corrected, paper)
    )
    true, (first, *_) = (
        estimators.in_order(estimators.positions(mu, order)).tolist() for mu in (corrected, paper)
    )
    if true[0] == first:
        worst = int(np.nanargmax(apart))
        return [
            f"ties shift eq. 2: it gives {features[worst]} a strength of {wrong[worst]}, which is "
            f"{right[worst]} when ties are accounted for"
        ]
    return [
        f"ties mislead eq. 2: it ranks {features[first]} first with a strength of {wrong[first]}, which is "
        f"{right[first]} (position {true.index(first) + 1} of {len(true)}) when ties are accounted for; then "
        f"{features[true[0]]} is first with {right[true[0]]}"
    ]


def _minus(number: str) -> str:
    """Replace a hyphen before a number by a minus sign."""
    return f"−{number[1:]}" if number.startswith("-") else number


def pvalues(pairs: Pairs) -> list[str]:
    """Say for how many pairs there is no p-value, or a poor one."""
    n, testable = pairs.n, pairs.testable
    skew = np.broadcast_to(pairs.null_skewness, testable.shape)
    exact = pairs.two_flags & (np.asarray(pairs.noise) == 0)
    too_skewed = testable & ~exact & (skew > TOO_SKEWED)
    approximate = testable & ~exact & ~too_skewed
    missing = "the distribution of eq. 2 (estimator: paper) under ties is unknown"
    if pairs.estimator != "paper":
        missing = "a constant column has no rank correlation to test"
    return [
        *_warn_of_count(~testable, f"p-values are missing: {missing}"),
        *_warn_of_count(
            too_skewed, "p-values are missing: ties skew both columns so much that no approximation holds"
        ),
        *_warn_of_count(approximate & (skew > SKEWED), "p-values are rough: ties skew both columns"),
        *_warn_of_count(
            approximate & (n < FEW_ROWS), f"p-values are approximations, which are poor for {n:,} rows"
        ),
    ]


def noise(numbers: str, ratio: float) -> list[str]:
    """Say that numbers of this name have more noise than chance variation, whose ratio is above 1."""
    sentence = f"{numbers} have more noise than chance variation: more rows or fewer columns reduce it"
    return [sentence] if ratio > 1 else []


def weakened(columns: Sequence[str]) -> list[str]:
    """Name the columns, as party and feature, that the choice of the run's rows may have weakened."""
    return _warn_of_each(
        f"{_count_of(len(columns), 'column')} may be weakened: of so few rows a random choice may have rare "
        "values more rarely than was stated of the whole table. Results about them may be nearer to 0, and "
        "their coefficients have no confidence interval",
        columns,
    )


def chosen(noun: str, k: int | None, of: int) -> list[str]:
    """Say that only k of the pairs or features are here, and how they were chosen; None if all are here."""
    sentence = (
        f"only {k} of {of} {noun} are here, chosen as the strongest with noise: others, undefined here, can "
        "be as strong. Strengths and the ranking are of these alone; q-values count all of them"
    )
    return [] if k is None else [sentence]


def fewer_directions(sources: Sequence[str]) -> list[str]:
    """Say which sources have fewer directions than columns; `sources` are lines."""
    return _warn_of_each(
        "fewer directions are used than a source has columns: the others repeat these, as one flag of each "
        "column without an order does, or are constant; with noise also those that nearly repeat these, or "
        "differ in so few rows that noise could not hide these",
        sources,
    )


def explained(spreads: Floats, sources: int, numbers: str = "R²") -> list[str]:
    """Warn if R² or Pillai's trace is unreliable, and that with several sources none is joint.

    `spreads` is how much each varies for unrelated columns; NaN where it is unknown.
    """
    spread = float(np.nanmax(spreads, initial=0.0))
    few = (
        f"too few rows for these columns: {numbers} of unrelated columns varies by {spread:.2g}, noise "
        "included; use fewer columns, or more rows"
    )
    return [*([few] if spread > SPREAD else ()), *([_JOINT] if sources > 1 else ())]


def gaps(too_many: Flags) -> list[str]:
    """Say how many tests have no p-value because both sides may lack values in nearly all rows."""
    return _warn_of_count(
        too_many, "tests have no p-value: too few rows have values, in columns of either side"
    )


def uneven(missing: Flags) -> list[str]:
    """Say how many tests have no p-value because single rows have too much weight."""
    why = "a few rows have so much weight, for example if a value is rare, that none would be right"
    return _warn_of_count(missing, f"tests have no p-value: {why}")


def impossible(counts: Ints, expected: int, constant: int) -> list[str]:
    """Say that an opened value cannot come from ranks.

    `counts` has how many coefficients each strength averages: `expected`, and 0 for `constant` columns.
    """
    short = int((counts < expected).sum()) - constant
    if not expected or short <= 0:
        return []
    return [
        f"for {short} of the target's {len(counts)} columns a value was opened that ranks cannot give: "
        "a party did not follow the protocol, or its messages were damaged. Such values are NaN, and no mean "
        "counts them"
    ]


def scaled(n: int, most: int, error: float) -> list[str]:
    """Say how exact coefficients are with more rows than can be multiplied exactly."""
    return [
        f"{n:,} rows are more than the {most:,} whose products of ranks fit 64 bits: coefficients were "
        f"computed from scaled ranks, and each is within {error:.1g} of the exact one"
    ]


def order_note(resolution: float, top: int | None) -> list[str]:
    """Say what an order, or the `top` features alone, means without strengths."""
    opened = "strengths were compared, not opened: equal ones keep the table's order, constant ones are last"
    if top is not None:
        opened = f"which {top} features are the strongest was opened, not their order: they share position 1"
    return [f"{opened}; strengths closer than {resolution:.1g} may come in either order"]


def k_note(defined: int, columns: int) -> list[str]:
    """Say over how many source columns strengths average, if some are constant."""
    if defined == columns > 1:
        return []
    effect = "each is this one's coefficient" if defined == 1 else "constant ones are left out"
    return [f"strengths average over {defined} of {columns} source columns: {effect}"]

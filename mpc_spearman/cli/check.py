"""Check an owner's table and policy against a plan.

Nothing is sent. For each column prints its kind, how many rows lie outside its largest group of equal values,
how much noise results about it would have, and the smallest correlation that could be detected; and how many
rows so many columns need.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mpc_spearman.cli.arguments import add_party, add_settings, party_plan, path, whole
from mpc_spearman.errors import PlanError
from mpc_spearman.parties import Role
from mpc_spearman.privacy.advice import advice
from mpc_spearman.protocols.dry_run import DryRun, dry_run
from mpc_spearman.statistics.reading import detectable
from mpc_spearman.units import printable


def add(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "configs/mpc.yaml", "results.target=coefficients")
    add_party(parser, "the data party")
    parser.add_argument("--table", type=path, metavar="FILE", help="its table, in place of the plan's")
    parser.add_argument(
        "--other",
        type=whole(1),
        metavar="M",
        help="features of the other side: the target's, or each source's; needed unless results are exact",
    )


def run(parsed: argparse.Namespace) -> int:
    """Print the columns, the noise to expect and all refusals; return the exit code of the first refusal."""
    plan, party = party_plan(parsed, parsed.table)
    if parsed.other is None and plan.owner(party) and plan.results.precision != "exact":
        raise PlanError("how many features does the other side have? Noise depends on it: give --other M")
    trial, console = dry_run(plan, party, parsed.other or 1), Console()
    sizes = (trial.table.m, parsed.other or 1)
    needed = advice(plan, sizes if plan.roster(party).me.role is Role.SOURCE else sizes[::-1])
    sentences = [str(error) for error in trial.refusals]
    titles, meanings, cells = zip(*_columns(trial), strict=True)
    table = Table(*titles, box=None, pad_edge=False)
    for row in zip(*cells, strict=True):
        table.add_row(*map(escape, row))
    console.print(table)
    explained = [f"{title}: {meaning}" for title, meaning in zip(titles, meanings, strict=True) if meaning]
    if trial.expected_noise is None:
        explained.append("results would be exact, without noise")
    rows = f"{trial.table.n:,} rows, {trial.ranks.defined} columns that are not constant"
    if plan.alignment == "intersect":
        rows += ". Only a run shows how many are common to all parties; fewer rows mean more noise"
    for line in (rows, *needed, *explained, *trial.cautions, trial.ledger, *sentences):
        console.print(printable(line, keep="\n"), highlight=False, markup=False, soft_wrap=True)
    if not sentences:
        console.print("this table and its policy fit the plan")
        return 0
    return trial.refusals[0].exit_code


def _columns(trial: DryRun) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the table's columns: title, meaning (empty if the title says it), and a cell for each feature."""
    groups, noise, n = trial.ranks.groups, trial.expected_noise, trial.table.n
    kinds = {1: "constant", 2: "flag", n: "no ties"}
    yield "column", "", [printable(name) for name in trial.table.features]
    yield "kind", "", [kinds.get(group.count, "ties") for group in groups]
    yield "values", "the number of different values", [f"{group.count:,}" for group in groups]
    outside = "rows outside the largest group of equal values; fewer of them mean more noise"
    yield "outside", outside, [f"{group.outside:,}" for group in groups]
    if noise is not None:
        meaning = "that involves this column, in multiples of its chance variation"
        if noise.of_coefficients:
            meaning = "about this column, in standard errors, if the other side has no ties"
        yield "noise", f"in {noise.numbers} {meaning}", [f"{ratio:.2g}" for ratio in noise.ratio]
    if noise is not None and noise.of_coefficients:
        smallest = [
            detectable(n, noise=ratio / math.sqrt(n - 1)) if n > 3 and group.count > 1 else 1.0
            for ratio, group in zip(noise.ratio, groups, strict=True)
        ]
        meaning = "the smallest |rho| that a test at 5 % detects in 8 of 10 samples, with this noise"
        if noise.numbers != "coefficients":
            meaning += ", if a strength varies as much as one coefficient"
        yield "seen from", meaning, [f"{rho:.2f}" if rho < 1 else "–" for rho in smallest]
    if trial.unexplained is not None:
        names = ", ".join(trial.table.covariates)
        meaning = f"how much of the variance of this column's ranks is explained by {names}"
        yield "covariates", meaning, [f"{1 - left:.0%}" for left in trial.unexplained]

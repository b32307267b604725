"""Check an owner's table and policy against a plan.

Nothing is sent. For each column prints its kind, how many rows lie outside its largest group of equal values,
how much noise results about it would have, and the smallest correlation that could be detected; and how many
rows so many columns need.
"""

from __future__ import annotations

import argparse
import math

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
    console.print(_columns(trial))
    rows = f"{trial.table.n:,} rows, {trial.ranks.defined} columns that are not constant"
    if plan.alignment == "intersect":
        rows += ". Only a run shows how many are common to all parties; fewer rows mean more noise"
    for line in (rows, *needed, *_meaning(trial), *trial.cautions, trial.ledger, *sentences):
        console.print(printable(line, keep="\n"), highlight=False, markup=False, soft_wrap=True)
    if not sentences:
        console.print("this table and its policy fit the plan")
        return 0
    return trial.refusals[0].exit_code


def _columns(trial: DryRun) -> Table:
    noise, n = trial.foreseen, trial.table.n
    means = noise is not None and noise.of_coefficients
    heads = [*(["noise"] if noise else ()), *(["seen from"] if means else ())]
    heads += ["covariates"] if trial.left is not None else []
    table = Table("column", "kind", "values", "outside", *heads, box=None, pad_edge=False)
    kinds = {1: "constant", 2: "flag", n: "no ties"}
    for column, (name, groups) in enumerate(zip(trial.table.features, trial.ranks.groups, strict=True)):
        cells = [printable(name), kinds.get(groups.count, "ties"), f"{groups.count:,}", f"{groups.outside:,}"]
        if noise is not None:
            ratio = float(noise.ratio[column])
            smallest = detectable(n, noise=ratio / math.sqrt(n - 1)) if n > 3 and groups.count > 1 else 1.0
            cells += [f"{ratio:.2g}", *([f"{smallest:.2f}" if smallest < 1 else "–"] if means else ())]
        cells += [] if trial.left is None else [f"{1 - trial.left[column]:.0%}"]
        table.add_row(*map(escape, cells))
    return table


def _meaning(trial: DryRun) -> list[str]:
    heads = [
        "values: the number of different values",
        "outside: rows outside the largest group of equal values; fewer of them mean more noise",
    ]
    if trial.left is not None:
        names = ", ".join(trial.table.covariates)
        heads.append(f"covariates: how much of the variance of this column's ranks is explained by {names}")
    noise = trial.foreseen
    if noise is None:
        return [*heads, "results would be exact, without noise"]
    if not noise.of_coefficients:
        multiples = "in multiples of its chance variation"
        return [*heads, f"noise: in {noise.numbers} that involves this column, {multiples}"]
    return [
        *heads,
        f"noise: in {noise.numbers} about this column, in standard errors, if the other side has no ties",
        "seen from: the smallest |rho| that a test at 5 % detects in 8 of 10 samples, with this noise"
        + ("" if noise.numbers == "coefficients" else ", if a strength varies as much as one coefficient"),
    ]

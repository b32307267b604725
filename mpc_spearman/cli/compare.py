"""Run every plan at every size on this machine, on made-up tables, and print what each run cost.

The columns LAN and WAN estimate its time on such a network. FILE gets the figures of all finished runs.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import pandas as pd
from rich.filesize import decimal

from mpc_spearman.cli.arguments import add_quiet, features, path, print_table, whole
from mpc_spearman.comparison import LAN, RUN, WAN, compare, on_network, per_run
from mpc_spearman.config import load_plan
from mpc_spearman.errors import PlanError
from mpc_spearman.launch import progress
from mpc_spearman.units import human_seconds


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "plans",
        nargs="+",
        metavar="PLAN",
        help="YAML files, such as configs/mpc.yaml; to change a setting, copy a plan",
    )
    parser.add_argument(
        "--rows", nargs="+", type=whole(3), required=True, metavar="N", help="rows, such as 1000 10000"
    )
    parser.add_argument(
        "--features",
        nargs="+",
        type=features,
        required=True,
        metavar="AxB",
        help="columns of each source and of the target, such as 10x10 30x30",
    )
    parser.add_argument("--repeats", type=whole(1), default=1, metavar="K", help="runs of each (default: 1)")
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="the CSV file to write")
    add_quiet(parser)


def run(parsed: argparse.Namespace) -> int:
    for plan in parsed.plans:
        if "=" in plan and not Path(plan).exists():
            raise PlanError(f"{plan}: compare takes no settings; copy the plan and change it there")
    plans = [load_plan(plan) for plan in parsed.plans]
    sizes = [(n, *columns) for n, columns in product(parsed.rows, parsed.features)]
    parties = dict.fromkeys(name for plan in plans for name in plan.names)
    try:
        with progress.shown(list(parties), quiet=parsed.quiet) as display:
            table = compare(plans, sizes, parsed.repeats, parsed.out, watch=display.watch, note=display.note)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the costs of finished runs are in {parsed.out}") from None
    _show(table)
    return 0


def _show(table: pd.DataFrame) -> None:
    """Print one line per plan and size, medians over repeats."""
    networks = {"LAN": LAN, "WAN": WAN}
    runs = per_run(table).assign(
        **{name: per_run(on_network(table, link))["modelled"] for name, link in networks.items()}
    )
    times = ["seconds", *networks]
    keys = [key for key in RUN if key != "repeat"]
    medians = runs.groupby(keys, sort=False)[[*times, "bytes"]].median().reset_index()
    rows = []
    for row in medians.to_dict("records"):
        description = (
            row["scheme"],
            row["level"],
            row["estimator"],
            f"{row['n']:,}",
            f"{row['m_A']}x{row['m_B']}",
        )
        rows.append(
            (*description, *(human_seconds(row[name]) for name in times), decimal(round(row["bytes"])))
        )
    print_table(("scheme", "level", "estimator"), ("rows", "columns", "time", *networks, "sent"), rows)

"""Compare `mpc-spearman estimate` with runs that it has not seen, here and on shaped networks.

    python benchmarks/estimate.py [--repeats 3] [--no-networks] [--write]      (networks: Linux, root)

For every plan and size, from a fresh calibration: the processors' seconds of all parties beyond those of a
run of a hundred rows, which another load on this machine hardly changes; the time after start-up, which it
does; and the largest resident memory of an owner. Runs are the median of the repeats. Tables are Parquet
files. Bytes are checked to be the very ones. Wanted are 25 %.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measuring

from mpc_spearman import run_local
from mpc_spearman.comparison import Link, data, on_network, per_run
from mpc_spearman.comparison.calibration import Machine
from mpc_spearman.comparison.prediction import Host, estimate
from mpc_spearman.comparison.shaping import ShapedNetwork, unavailable
from mpc_spearman.comparison.table import tidy
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.units import human_seconds

PARTIES = {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}
PLANS: dict[str, dict[str, Any]] = {
    "MPC, coefficients": {"reveal": "coefficients"},
    "MPC, strengths": {"reveal": "strengths"},
    "MPC, differences": {"reveal": "differences"},
    "BFV, coefficients": {"protocol": "he", "he": {"scheme": "bfv"}, "reveal": "coefficients"},
}
SIZES = (Size(50_000, 20, 40), Size(150_000, 40, 20), Size(400_000, 30, 30))
NETWORKS = (None, Link(1e8, 0.04), Link(5e7, 0.1))
#: What is measured beside the work of its own: rows that take no time.
_NONE = 100
WANTED = 0.25


@dataclass(frozen=True)
class Figures:
    """Seconds after start-up, the processors' seconds of all parties (0 if unknown), an owner's memory."""

    wall: float
    processors: float
    memory: float


def main() -> None:
    """Measure everything and print, or write, the table."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-networks", action="store_true", help="on this machine alone")
    options = parser.parse_args()
    problem = "left out" if options.no_networks else unavailable()
    rows, off = [], []
    with ForkServer() as server:
        for size in SIZES:
            for network in NETWORKS if problem is None else NETWORKS[:1]:
                for name, settings in PLANS.items():
                    (variant,) = variants([{"parties": PARTIES, **settings}])
                    found = (
                        expected(variant, size, network),
                        measured(variant, size, network, options.repeats, server),
                    )
                    line, apart = compared(*found)
                    where = "this machine" if network is None else str(network)
                    rows.append([str(size).replace(" columns", ""), where, name, *line])
                    off += apart
    heads = ["size", "network", "plan", "processors' seconds", "off", "time", "off", "memory", "off"]
    within = sum(abs(one) <= WANTED for one in off)
    line = measuring.environment("torch", "numpy")
    text = (
        f"{measuring.table(heads, rows)}\n{within} of {len(off)} figures are within {WANTED:.0%}. "
        f"Estimated / measured, the median of {options.repeats}; {line}\n"
    )
    measuring.show(text, __file__, write=options.write)
    if problem is not None:
        print(f"Without shaped networks: {problem}", file=sys.stderr)


def compared(one: Figures, other: Figures) -> tuple[list[str], list[float]]:
    """Put estimated and measured figures side by side; return cells, and by how much each is off."""
    cells, off = [], []
    for name in ("processors", "wall", "memory"):
        a, b = getattr(one, name), getattr(other, name)
        if not b:
            cells += ["", ""]
            continue
        shown = [f"{value / 1e6:.0f} MB" if name == "memory" else human_seconds(value) for value in (a, b)]
        off.append(a / b - 1)
        cells += [" / ".join(shown), f"{off[-1]:+.0%}"]
    return cells, off


def expected(variant: Variant, size: Size, network: Link | None) -> Figures:
    """Estimate a run: the processes share this machine's cores, whatever lies between them."""
    machine = Machine()
    table = estimate(variant, size, machine, Host.this(), name_bytes=4)
    table = table if network is None else on_network(table, network)
    (run,) = per_run(table).to_dict("records")
    alone = estimate(variant, size, machine, Host(1, shared=False), name_bytes=4)
    nothing = estimate(variant, Size(_NONE, size.m_A, size.m_B), machine, Host(1, shared=False))
    return Figures(
        float(run["seconds" if network is None else "modelled"]),
        float(alone["seconds"].sum() - nothing["seconds"].sum()),
        float(table.loc[table["party"] != "C", "memory"].max()),
    )


def measured(variant: Variant, size: Size, network: Link | None, repeats: int, server: ForkServer) -> Figures:
    """Run, and take the median of each figure."""
    table = estimate(variant, size, Machine(), Host.this(), name_bytes=4)
    bytes_sent = per_run(table)["bytes"].iloc[0]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repeats):
            print(f"{variant}, {size}, {network or 'here'}: {turn + 1} of {repeats}", file=sys.stderr)
            cost, spent = run(variant, size, folder, network, server)
            assert cost.loc[~cost["phase"].isin(["connect", "keep-alive"]), "bytes_sent"].sum() == bytes_sent
            if network is None:
                small = Size(_NONE, size.m_A, size.m_B)
                spent -= run(variant, small, folder, network, server)[1]
            (whole,) = per_run(tidy(variant, size, 1, cost)).to_dict("records")
            memory = cost.loc[cost["party"] != "C", "peak_memory_bytes"].max()
            found.append(Figures(whole["seconds"], spent, float(memory)))
    return Figures(
        *(statistics.median(getattr(one, name) for one in found) for name in ("wall", "processors", "memory"))
    )


def run(
    variant: Variant, size: Size, folder: str, network: Link | None, server: ForkServer
) -> tuple[Any, float]:
    """Run once, here or on a shaped network; return the cost table and what the processors spent."""
    files = {}
    for party in ("A", "B"):
        files[party] = Path(folder, f"{party}-{size.n}.parquet")
        if not files[party].exists():
            frame = data.tables(variant.plan, size)[party]
            frame.columns = ["id", *(f"{party}_{i:02d}" for i in range(len(frame.columns) - 1))]
            frame.to_parquet(files[party], index=False)
    before = processors()
    if network is None:
        cost = run_local(variant.plan, files, server=server).cost
        return cost, processors() - before
    with ShapedNetwork(variant.plan.names, network.bandwidth, network.rtt / 2) as hosts:
        return run_local(variant.plan, files, hosts=hosts).cost, 0.0


def processors() -> float:
    """Return the processors' seconds of roles that have ended: what their fork servers waited for."""
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread, or a child, that has just ended
            for child in (task / "children").read_text(encoding="ascii").split():
                fields = Path(f"/proc/{child}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                ticks += int(fields[13]) + int(fields[14])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

"""Compare `mpc-spearman estimate` with runs that it has not seen, here and on shaped networks.

    python benchmarks/estimate.py [--repeats 5] [--write]        (networks within this machine: Linux, root)

For every plan and size: the estimate, from a fresh calibration; a run's time after start-up, the median of
the repeats, all in turn; and the largest resident memory of an owner. Tables are Parquet files. Bytes are
checked to be the very ones. Wanted are 25 %.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import measuring

from mpc_spearman import run_local
from mpc_spearman.comparison import Link, data, on_network, per_run
from mpc_spearman.comparison.calibration import Machine
from mpc_spearman.comparison.estimate import Host, estimate
from mpc_spearman.comparison.shaping import ShapedNetwork, unavailable
from mpc_spearman.comparison.table import tidy
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.results.units import human_seconds

PARTIES = {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}
PLANS: dict[str, dict[str, Any]] = {
    "MPC, coefficients": {"reveal": "coefficients"},
    "MPC, strengths": {"reveal": "strengths"},
    "MPC, differences": {"reveal": "differences"},
    "BFV, coefficients": {"protocol": "he", "he": {"scheme": "bfv"}, "reveal": "coefficients"},
}
SIZES = (Size(50_000, 20, 40), Size(150_000, 40, 20), Size(400_000, 30, 30))
NETWORKS = (None, Link(1e8, 0.04), Link(5e7, 0.1))
WANTED = 0.25


def main() -> None:
    """Measure everything and print, or write, the table."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=measuring.REPEATS)
    options = parser.parse_args()
    problem = unavailable()
    networks = NETWORKS if problem is None else NETWORKS[:1]
    rows, off = [], []
    for size in SIZES:
        for network in networks:
            for name, settings in PLANS.items():
                (variant,) = variants([{"parties": PARTIES, **settings}])
                expected, (took, memory) = compared(variant, size, network, options.repeats, name)
                off += [abs(took / expected[0] - 1), abs(memory / expected[1] - 1)]
                rows.append(
                    [
                        str(size).replace(" columns", ""),
                        "this machine" if network is None else str(network),
                        name,
                        human_seconds(expected[0]),
                        human_seconds(took),
                        f"{expected[0] / took - 1:+.0%}",
                        f"{expected[1] / memory - 1:+.0%}",
                    ]
                )
    heads = ["size", "network", "plan", "estimate", "run", "off", "memory off"]
    within = sum(one <= WANTED for one in off)
    text = (
        f"{measuring.table(heads, rows)}\n{within} of {len(off)} figures are within {WANTED:.0%}. Medians of "
        f"{options.repeats}, in turn; {measuring.environment('torch', 'numpy')}\n"
    )
    measuring.show(text, __file__, write=options.write)
    if problem is not None:
        print(f"Without shaped networks: {problem}", file=sys.stderr)


def compared(
    variant: Variant, size: Size, network: Link | None, repeats: int, name: str
) -> tuple[tuple[float, int], tuple[float, int]]:
    """Return seconds and an owner's memory, as estimated and as measured."""
    # The processes share this machine's cores, whatever lies between them.
    table = estimate(variant, size, Machine(), Host.this(), name_bytes=4)
    table = table if network is None else on_network(table, network)
    (expected,) = per_run(table).to_dict("records")
    times, peaks = [], []
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for party, frame in data.tables(variant.plan, size).items():
            files[party] = Path(folder, f"{party}.parquet")
            frame.columns = ["id", *(f"{party}_{i:02d}" for i in range(len(frame.columns) - 1))]
            frame.to_parquet(files[party], index=False)
        for turn in range(repeats):
            print(f"{name}, {size}, {network or 'here'}: {turn + 1} of {repeats}", file=sys.stderr)
            cost = run(variant, files, network)
            (spent,) = per_run(tidy(variant, size, 1, cost)).to_dict("records")
            assert spent["bytes"] == expected["bytes"]
            times.append(spent["seconds"])
            peaks.append(int(cost.loc[cost["party"] != "C", "peak_memory_bytes"].max()))
    owners = int(table.loc[table["party"] != "C", "memory"].max())
    seconds = expected["seconds" if network is None else "modelled"]
    return (seconds, owners), (statistics.median(times), int(statistics.median(peaks)))


def run(variant: Variant, files: dict[str, Path], network: Link | None) -> Any:
    """Run once, here or on a shaped network; return the cost table."""
    if network is None:
        return run_local(variant.plan, files).cost
    with ShapedNetwork(variant.plan.names, network.bandwidth, network.rtt / 2) as hosts:
        return run_local(variant.plan, files, hosts=hosts).cost


if __name__ == "__main__":
    main()

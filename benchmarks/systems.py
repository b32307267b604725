"""Compare the private product with CrypTen as it ships.

    python benchmarks/systems.py [--rows 20000] [--features 20x20] [--repeats 5] [--write]

Three processes each on this machine, ranks ready in memory, the same integers: sharing both tables, the
product, and opening it. Here that is the phases share, multiply and reveal of a run, with what the
coordinator multiplies beforehand; CrypTen 0.4.1 shares, multiplies with triples from its dealer and reveals.
Both take turns, and CrypTen's result is compared with the exact one.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import measuring
import numpy as np

from mpc_spearman import run_local
from mpc_spearman.cli.arguments import features
from mpc_spearman.comparison import data
from mpc_spearman.comparison.variants import Size, variants
from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.units import human_seconds

PLAN = {"parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}}


def main() -> None:
    """Measure both and print, or write, the table."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=features, default=(20, 20), metavar="AxB")
    parser.add_argument("--repeats", type=int, default=measuring.REPEATS)
    options = parser.parse_args()
    (variant,) = variants([PLAN])
    size = Size(options.rows, *options.features)
    tables = data.tables(variant.plan, size)
    x, y = (
        rank_columns(tables[party].drop(columns="id").to_numpy().T.copy()).matrix.astype(np.int64)
        for party in "AB"
    )
    with ForkServer() as server, tempfile.TemporaryDirectory() as folder:

        def ours() -> float:
            cost = run_local(variant.plan, tables, server=server).cost
            private = cost[cost["phase"].isin(["share", "multiply", "reveal"])].set_index("party")
            # The coordinator waits for the others meanwhile; they wait for each other.
            waits = private["wait_seconds"].where(private.index != "C", 0.0)
            return float((private["seconds"] + waits).groupby(level=0).sum().max())

        ways = {"this package": ours, "CrypTen 0.4.1": lambda: crypten(x, y, folder)}
        found = measuring.in_turn(ways, options.repeats, f"{size}:")
    own = found["this package"]
    rows = [
        [f"{size.n:,}", f"{size.m_A} × {size.m_B}", name, human_seconds(seconds), f"{seconds / own:.1f}"]
        for name, seconds in found.items()
    ]
    line = measuring.environment("torch", "crypten", "numpy")
    text = measuring.table(["rows", "columns", "", "seconds", "times ours"], rows)
    measuring.show(f"{text}\nMedians of {options.repeats}, in turn; {line}\n", __file__, write=options.write)


def crypten(x: np.ndarray, y: np.ndarray, folder: str) -> float:
    """Run CrypTen as it ships in three processes; return its seconds."""
    meeting = Path(folder, f"meeting-{time.monotonic_ns()}")
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    processes = [
        context.Process(target=_crypten, args=(rank, str(meeting), x, y, results)) for rank in range(3)
    ]
    for process in processes:
        process.start()
    seconds, exact = results.get()
    for process in processes:
        process.join()
    assert exact
    return float(seconds)


def _crypten(rank: int, meeting: str, x: np.ndarray, y: np.ndarray, results: Any) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "3", "RENDEZVOUS": f"file://{meeting}"}
    # What mpc_spearman.engines.mpc.crypten_import says about importing it.
    sys.modules["torch.onnx.symbolic_registry"] = ModuleType("torch.onnx.symbolic_registry")
    import crypten
    import torch

    crypten.init()
    torch.set_num_threads(1)
    crypten.communicator.get().barrier()
    start = time.perf_counter()
    shared = [
        crypten.cryptensor(torch.from_numpy(values), src=owner, precision=0)
        for values, owner in ((x, 2), (y, 1))
    ]
    found = shared[0].matmul(shared[1].t()).get_plain_text(dst=0)
    seconds = time.perf_counter() - start
    if rank == 0:
        results.put((seconds, bool((found.numpy() == x @ y.T).all())))


if __name__ == "__main__":
    main()

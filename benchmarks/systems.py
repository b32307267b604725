"""Compare the private product with other systems: CrypTen as it ships, and SPU where it is installed.

    python benchmarks/systems.py [--rows 20000] [--features 20x20] [--repeats 5] [--spu PYTHON] [--write]

Three processes each on this machine, ranks ready in memory, the same integers: sharing both tables, the
product, and opening it. Here that is the phases share, multiply and reveal of a run, with what the
coordinator multiplies beforehand; CrypTen 0.4.1 shares, multiplies with triples from its dealer and reveals;
SecretFlow's SPU does it, compiled beforehand, by ABY3 over a ring of 64 bits. All take turns, and every
result is compared with the exact one. SPU's releases need another NumPy than this package: `--spu` names the
Python of an environment that has it, otherwise it is skipped.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
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
#: Executed by a Python that has SPU: three simulated parties, the product of two private matrices.
_SPU = """
import json, sys, time
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, numpy as np, spu
import spu.utils.simulation as simulation
x, y = (np.load(path) for path in sys.argv[1:])
config = spu.RuntimeConfig(protocol=spu.ProtocolKind.ABY3, field=spu.FieldType.FM64)
simulator = simulation.Simulator(3, config)
product = simulation.sim_jax(simulator, lambda x, y: jnp.matmul(x, y.T))
product(x, y)  # compiles it
start = time.perf_counter()
found = product(x, y)
print(json.dumps({"seconds": time.perf_counter() - start, "sum": int(np.asarray(found, dtype=object).sum())}))
"""


def main() -> None:
    """Measure all systems and print, or write, the table."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=features, default=(20, 20), metavar="AxB")
    parser.add_argument("--repeats", type=int, default=measuring.REPEATS)
    parser.add_argument("--spu", metavar="PYTHON", help="of an environment that has SPU")
    options = parser.parse_args()
    (variant,) = variants([PLAN])
    size = Size(options.rows, *options.features)
    tables = data.tables(variant.plan, size)
    x, y = (
        rank_columns(tables[party].drop(columns="id").to_numpy().T.copy()).matrix.astype(np.int64)
        for party in "AB"
    )
    with ForkServer() as server, tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, f"{name}.npy")) for name in "xy"]
        for path, values in zip(files, (x, y), strict=True):
            np.save(path, values)

        def ours() -> float:
            cost = run_local(variant.plan, tables, server=server).cost
            private = cost[cost["phase"].isin(["share", "multiply", "reveal"])].set_index("party")
            # The coordinator waits for the others meanwhile; they wait for each other.
            waits = private["wait_seconds"].where(private.index != "C", 0.0)
            return float((private["seconds"] + waits).groupby(level=0).sum().max())

        ways = {"this package": ours, "CrypTen 0.4.1": lambda: crypten(x, y, folder)}
        if options.spu is not None:
            expected = int((x @ y.T).sum(dtype=object))
            ways["SPU, ABY3"] = lambda: spu(options.spu, files, expected)
        found = measuring.in_turn(ways, options.repeats, f"{size}:")
    own = found["this package"]
    rows = [
        [f"{size.n:,}", f"{size.m_A} × {size.m_B}", name, human_seconds(seconds), f"{seconds / own:.1f}"]
        for name, seconds in found.items()
    ]
    if options.spu is None:
        print("SPU is skipped: name a Python that has it with --spu", file=sys.stderr)
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


def spu(python: str, files: list[str], expected: int) -> float:
    """Run SPU by another Python; return its seconds."""
    one_thread = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # its parties would fight for the processors
    done = subprocess.run(
        [python, "-c", _SPU, *files], capture_output=True, text=True, check=True, env=one_thread
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["sum"] == expected
    return float(found["seconds"])


if __name__ == "__main__":
    main()

"""How long a Paillier run will take, from two seconds of trying its operations on this machine.

Lattice ciphertexts take milliseconds and hold thousands of ranks: such runs take seconds and need no warning.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from mpc_spearman.parties import Party
from mpc_spearman.protocols.he.paillier.packing import Slots
from mpc_spearman.protocols.he.scheme import SecretKey, Sizes
from mpc_spearman.protocols.steps import Run
from mpc_spearman.results.units import human_seconds

# Runs shorter than this, in seconds, get no estimate.
_WORTH_SAYING = 10.0
# Seconds spent on trying each operation.
_TRIAL = 0.25
_TRIED_ROWS = 256


def announce(run: Run, key: SecretKey, sizes: Sizes, vectors: int, source: Party | None = None) -> None:
    """Say how long the run will take, if that is long, and what would take less.

    Parameters
    ----------
    run : Run
    key : SecretKey
        Of Paillier.
    sizes : Sizes
    vectors : int
        Difference vectors the coordinator gets, at ``differences``.
    source : Party, optional
        Whose session it is about, where there are several.
    """
    text = (
        _differences(run, key, sizes, vectors)
        if run.plan.reveal == "differences"
        else _products(run, key, sizes)
    )
    if text is not None:
        run.say(f"estimate{f' for {source.name}' if source else ''}: {text}")


def _differences(run: Run, key: SecretKey, sizes: Sizes, vectors: int) -> str | None:
    he, public = run.plan.he, key.public
    sample = np.zeros(public.slots, dtype=np.int64)
    raw = public.dump(public.encrypt(sample))

    def needed(trial: float, slots: int, rerandomised: bool) -> float:
        encryption = _seconds(lambda: public.encrypt(sample), trial)
        decryption = _seconds(lambda: key.decrypt(raw, public.slots), trial)
        chunks = -(-sizes.n // slots)
        at_target = (sizes.m_target + rerandomised * vectors) * chunks * encryption
        return _wall(run, sizes.m_source * chunks * encryption, at_target, vectors * chunks * decryption)

    if not _long(lambda trial: needed(trial, public.slots, rerandomised=he.packing)):
        return None
    seconds = needed(_TRIAL, public.slots, rerandomised=he.packing)
    if he.packing:
        return f"about {human_seconds(seconds)} at n = {sizes.n:,}; {_faster(run)}"
    packed = Slots.fit(sizes.result_bound, sizes.value_bound, he.key_bits, packing=True).count
    faster = needed(_TRIAL, packed, rerandomised=True)
    return (
        f"about {human_seconds(seconds)} at n = {sizes.n:,} with one ciphertext per rank; "
        f"he.packing=true takes about {human_seconds(faster)}"
    )


def _products(run: Run, key: SecretKey, sizes: Sizes) -> str | None:
    public = key.public
    row = np.zeros((sizes.m_source, 1), dtype=np.int64)

    def needed(trial: float) -> float:
        encryption = _seconds(lambda: public.encrypt_block(row), trial)
        return _wall(run, sizes.n * encryption, sizes.n * _multiplication(key, sizes, encryption))

    if not _long(lambda trial: sizes.n * _seconds(lambda: public.encrypt_block(row), trial)):
        return None
    n = run.links.dimensions["n"]
    return f"about {human_seconds(needed(_TRIAL))} at n = {n:,}; {_faster(run)}"


def _long(needed: Callable[[float], float]) -> bool:
    """Tell from one try of each operation whether more are worth the time: a short run is not held up."""
    return needed(0.0) > _WORTH_SAYING / 2 and needed(_TRIAL) > _WORTH_SAYING


def _multiplication(key: SecretKey, sizes: Sizes, encryption: float) -> float:
    """Return the target's seconds per row for its multiplications; `encryption` is that of a row."""
    public = key.public
    rows = min(_TRIED_ROWS, public.rows)
    block = public.encrypt_block(np.zeros((sizes.m_source, 1), dtype=np.int64)) * rows
    y = np.resize(np.linspace(-sizes.target_bound, sizes.target_bound, 7).astype(np.int64), rows)
    products = public.new_products()
    start = time.perf_counter()
    products.add(block, np.tile(y, (sizes.m_target, 1)))
    products.export()
    elapsed = time.perf_counter() - start - sizes.m_target * encryption
    return max(0.0, elapsed) / rows


def _seconds(operation: Callable[[], object], trial: float) -> float:
    """Return the seconds an operation takes, tried once or for so long."""
    start, times = time.perf_counter(), 0
    while times == 0 or time.perf_counter() - start < trial:
        operation()
        times += 1
    return (time.perf_counter() - start) / times


def _wall(run: Run, *parties: float) -> float:
    """Turn core-seconds of each party into time that passes: they work at once, as far as there are cores."""
    together = min(len(parties), len(os.sched_getaffinity(0)))
    return max(*parties, sum(parties) / together) / run.workers


def _faster(run: Run) -> str:
    short = "" if run.plan.he.randomness == "short" else "he.randomness=short takes a fraction of that, "
    return f"{short}he.scheme=bfv seconds"

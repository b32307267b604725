"""How long the encrypted part of a run takes, from trying its operations on this machine."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpc_spearman.engines.he.scheme import (
    Ciphertext,
    HeSettings,
    Operation,
    Products,
    PublicKey,
    SecretKey,
    Sizes,
)
from mpc_spearman.engines.he.schemes import new_products, public_key
from mpc_spearman.parties import Party
from mpc_spearman.run import Run
from mpc_spearman.units import human_seconds

# Runs shorter than this, in seconds, get no estimate.
_WORTH_SAYING = 10.0
# Seconds spent on trying each operation, and how often one is tried at most: a key floods so many results.
_TRIAL, _MOST = 0.25, 16
# Blocks of rows that are multiplied.
_BLOCKS = 5
# With short randomness so many ciphertexts take seconds on any machine.
_FEW = 5000


@dataclass(frozen=True)
class Operations:
    """Seconds of one core that each operation takes for one ciphertext.

    Attributes
    ----------
    encrypt, load, export, decrypt : float
        The source's, to bytes; the target's, from bytes until all its columns can be multiplied, and of a
        result, to bytes; the coordinator's.
    own : float
        The target's, at differences, of what it encrypts itself.
    multiply : float
        The target's, at products, of a ciphertext of the source's and one of its own columns.
    tables : float
        Of whoever encrypts, once: what is made for all encryptions.
    """

    encrypt: float
    load: float
    export: float
    decrypt: float
    own: float = 0.0
    multiply: float = 0.0
    tables: float = 0.0

    @classmethod
    def tried(
        cls, settings: HeSettings, key: SecretKey, sizes: Sizes, operation: Operation, trial: float = _TRIAL
    ) -> Operations:
        """Try each operation under a key, once or for `trial` seconds."""

        def public() -> PublicKey:  # as another party has it: a key counts what it floods
            return public_key(key.public.to_bytes(), settings, sizes, operation)

        return (_products if operation == "products" else _differences)(settings, key, public, sizes, trial)


def _differences(
    settings: HeSettings, key: SecretKey, public_key: Callable[[], PublicKey], sizes: Sizes, trial: float
) -> Operations:
    public = public_key()
    sample = np.zeros(public.slots, dtype=np.int64)
    first = _seconds(lambda: public.encrypt(sample), 0.0)
    raw = public.dump(public.encrypt(sample))
    own = _seconds(lambda: public.encrypt(sample), trial)
    theirs = public.load(raw)

    def export() -> bytes:
        difference = public.subtract(theirs, public.encrypt(sample))
        return public.export(difference, rerandomise=settings.packing)

    result = export()
    return Operations(
        encrypt=_seconds(lambda: public.dump(public.encrypt(sample)), trial),
        load=_seconds(lambda: public.load(raw), trial),
        export=max(0.0, _seconds(export, trial) - own),
        decrypt=_seconds(lambda: key.decrypt(result, public.slots), trial),
        own=own,
        tables=max(0.0, first - own),
    )


def _products(
    settings: HeSettings, key: SecretKey, public_key: Callable[[], PublicKey], sizes: Sizes, trial: float
) -> Operations:
    public, rows = public_key(), min(key.public.rows, sizes.n)
    row = np.zeros((sizes.m_source, 1), dtype=np.int64)
    first = _seconds(lambda: public.encrypt_block(row), 0.0)
    raws = [public.dump(each) for each in public.encrypt_block(row)]
    encrypt = _seconds(lambda: [public.dump(each) for each in public.encrypt_block(row)], trial) / len(raws)
    load = _seconds(lambda: public.load_many(raws), trial) / len(raws)
    blocks = max(1, min(_BLOCKS, sizes.n // rows))
    most = min(sizes.target_bound, sizes.target_sum // (rows * blocks))
    steps = np.linspace(-most, most, 7).astype(np.int64)
    y = np.tile(np.resize(steps, rows), (sizes.m_target, 1))
    start = time.process_time()
    products = new_products(public)
    results = products.export()
    exported = time.process_time() - start
    block = public.load_many(raws) * (public.ciphertexts_for(rows) // len(raws))
    # With one column's values, and zeros else, a block takes what it takes once, and one column.
    alone = np.vstack([y[:1], np.zeros_like(y[1:])])
    once, added = (_block_seconds(new_products(public), block, each, blocks) for each in (alone, y))
    multiply = (added - once) / (sizes.m_target - 1) if sizes.m_target > 1 else added
    load += max(0.0, once - multiply) / len(block)
    return Operations(
        encrypt=encrypt,
        load=load,
        export=exported / len(results),
        decrypt=_seconds(lambda: key.open_products(results), trial) / len(results),
        multiply=max(0.0, multiply) / len(block) * products.saved(rows),
        tables=max(0.0, first - len(raws) * encrypt),
    )


def _block_seconds(products: Products, block: Sequence[Ciphertext], y: np.ndarray, blocks: int) -> float:
    """Return the median of the seconds that the same block takes, so many times."""
    times = []
    for _ in range(blocks):
        start = time.process_time()
        products.add(block, y)
        products.settle()
        times.append(time.process_time() - start)
    return statistics.median(times)


def core_seconds(
    public: PublicKey, did: Operations, sizes: Sizes, vectors: int
) -> tuple[float, float, float]:
    """Work out what a session takes, in seconds of one core of source, target and coordinator.

    Parameters
    ----------
    public : PublicKey
        The session's.
    did : Operations
    sizes : Sizes
        The session's.
    vectors : int
        Difference vectors that the coordinator gets, at ``differences``; else 0.
    """
    if vectors:
        chunks = -(-sizes.n // public.slots)
        sent, results = sizes.m_source * chunks, vectors * chunks
        at_target = sizes.m_target * chunks * did.own
    else:
        whole, rest = divmod(sizes.n, public.rows)
        sent = whole * public.block_ciphertexts + (public.ciphertexts_for(rest) if rest else 0)
        results = public.product_ciphertexts
        at_target = sent * sizes.m_target * did.multiply
    return (
        did.tables + sent * did.encrypt,
        did.tables + sent * did.load + at_target + results * did.export,
        results * did.decrypt,
    )


def announce(run: Run, key: SecretKey, sizes: Sizes, vectors: int, source: Party | None = None) -> None:
    """Say how long a Paillier run will take, if that is long, and what would take less.

    Lattice ciphertexts take milliseconds and hold thousands of ranks: such runs take seconds and need no
    warning.

    Parameters
    ----------
    run : Run
    key : SecretKey
        Of Paillier.
    sizes : Sizes
    vectors : int
        Difference vectors the coordinator gets, at ``differences``; else 0.
    source : Party, optional
        Whose session it is about, where there are several.
    """
    he, public = run.plan.he, key.public
    operation: Operation = "differences" if vectors else "products"
    sample = np.zeros((sizes.m_source, 1), dtype=np.int64)

    def encryption() -> object:
        return public.encrypt(sample[0]) if vectors else public.encrypt_block(sample)

    # One try tells whether more are worth the time: a short run is not held up, and least by tables.
    chunks = sizes.m_source * -(-sizes.n // public.slots) if vectors else sizes.n
    if he.randomness == "short" and chunks < _FEW:
        return
    if chunks * _seconds(encryption, 0.0) < _WORTH_SAYING / 4:
        return
    did = Operations.tried(he, key, sizes, operation)
    seconds = _wall(run, core_seconds(public, did, sizes, vectors))
    if seconds <= _WORTH_SAYING:
        return
    text = f"about {human_seconds(seconds)} at n = {run.links.dimensions['n']:,}"
    if vectors and not he.packing:
        packed = public_key(public.to_bytes(), he.model_copy(update={"packing": True}), sizes, operation)
        # With randomness put in anew, which takes what an encryption takes.
        faster = core_seconds(packed, replace(did, export=did.own), sizes, vectors)
        text += (
            f" with one ciphertext per rank; he.packing=true takes about {human_seconds(_wall(run, faster))}"
        )
    else:
        short = "" if he.randomness == "short" else "he.randomness=short takes a fraction of that, "
        text += f"; {short}he.scheme=bfv seconds"
    run.say(f"estimate{f' for {source.name}' if source else ''}: {text}")


def _seconds(operation: Callable[[], object], trial: float) -> float:
    """Return the median of the processor's seconds of an operation, tried once, or for so long."""
    times: list[float] = []
    while not times or (sum(times) < trial and len(times) < _MOST):
        start = time.process_time()
        operation()
        times.append(time.process_time() - start)
    return statistics.median(times)


def _wall(run: Run, parties: tuple[float, float, float]) -> float:
    """Turn core-seconds of each party into time that passes: they work at once, as far as there are cores."""
    together = min(len(parties), len(os.sched_getaffinity(0)))
    return max(*parties, sum(parties) / together) / run.workers

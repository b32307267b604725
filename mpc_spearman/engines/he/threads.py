"""Long integer work on all cores: threads in which gmpy2 lets go of the interpreter lock.

Threads and not processes, because a process pool would pickle the secret key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import gmpy2

from mpc_spearman.engines.he.scheme import Tick

T = TypeVar("T")
R = TypeVar("R")


def spread(
    work: Callable[[T], R], items: Sequence[T], *, workers: int, tick: Tick, batch: int = 8
) -> list[R]:
    """Do the same work on many items; the results come in the items' order.

    With one of the `workers`, threads, everything happens in the calling thread. `tick` is told from the
    calling thread how many items are done, after each batch of them. If it raises, what has not begun is
    dropped.
    """

    def do(some: Sequence[T]) -> list[R]:
        return [work(item) for item in some]

    batches = [items[start : start + batch] for start in range(0, len(items), batch)]
    if workers == 1 or len(batches) <= 1:
        results: list[R] = []
        for some in batches:
            results += do(some)
            tick(len(results))
        return results
    with ThreadPoolExecutor(min(workers, len(batches)), initializer=_let_go) as pool:
        futures = [pool.submit(do, some) for some in batches]
        try:
            done = 0
            for future in as_completed(futures):
                done += len(future.result())
                tick(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [result for future in futures for result in future.result()]


def _let_go() -> None:
    gmpy2.set_context(gmpy2.context(allow_release_gil=True))

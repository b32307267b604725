"""Long integer work on all cores: threads in which gmpy2 lets go of the interpreter lock.

Threads and not processes, because a process pool would pickle the secret key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import gmpy2

from mpc_spearman.engines.he.scheme import Effort

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[T], R], items: Sequence[T], effort: Effort, batch: int = 8) -> list[R]:
    """Do the same work on many items; the results come in the items' order.

    With one worker everything happens in the calling thread. How many items are done is told after each batch
    of them; if that raises, what has not begun is dropped.
    """

    def do(some: Sequence[T]) -> list[R]:
        return [work(item) for item in some]

    batches = [items[start : start + batch] for start in range(0, len(items), batch)]
    if effort.workers == 1 or len(batches) <= 1:
        results: list[R] = []
        for some in batches:
            results += do(some)
            effort.tick(len(results))
        return results
    with ThreadPoolExecutor(min(effort.workers, len(batches)), initializer=_let_go) as pool:
        futures = [pool.submit(do, some) for some in batches]
        try:
            done = 0
            for future in as_completed(futures):
                done += len(future.result())
                effort.tick(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [result for future in futures for result in future.result()]


def _let_go() -> None:
    gmpy2.set_context(gmpy2.context(allow_release_gil=True))

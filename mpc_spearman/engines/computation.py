"""What an engine computes, from the parties' vectors, and from sizes and bounds that all parties know.

Every data party contributes vectors of integers, all of the same length. An engine offers three operations on
them, between each source, the target and the coordinator:

``differences``
    Opens x_p − y_q of all pairs of a source's and the target's vectors, row by row in a random order, but
    only a basis of them; the coordinator adds up their squares.
``inner_products``
    Opens ⟨x_p, y_q⟩ of all pairs or, if `summed`, only their sums over all sources.
``comparison``
    Keeps those sums hidden and opens only their comparisons.

A level (`mpc_spearman.levels`) defines the vectors, and what the opened integers mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.parties import Party

#: The largest absolute value to compare: half the signed ring, so that differences fit too.
LARGEST = 2**62 - 2

Operation = Literal["differences", "inner_products", "comparison"]
#: The second half of the coordinator's part in a computation; returns the opened integers.
Opening = Callable[[], Any]


@dataclass(frozen=True)
class Bounds:
    """Bounds on integers, from which follow how many bytes they travel in and how they are encrypted.

    In absolute value, elements of a source's vectors are at most `value`, of the target's `target`, and
    opened or compared integers `result`. The absolute values in one of the target's vectors add up to at most
    `target_sum`.
    """

    value: int
    target: int
    target_sum: int
    result: int


@dataclass(frozen=True)
class Computation:
    """What an engine computes in a run; the same at all parties."""

    operation: Operation
    #: The length of the vectors.
    rows: int
    #: How many vectors each source contributes, in roster order.
    source_vectors: Mapping[Party, int]
    target_vectors: int
    bounds: Bounds
    #: Whether all sources' inner products are added up before anything is opened or compared.
    summed: bool = False
    #: The sources that add noise to what is opened.
    noisy_sources: Sequence[Party] = ()
    #: Whether owners prove their vectors to be possible ranks.
    proved: bool = False


@dataclass(frozen=True)
class Contribution:
    """What a data party contributes to a computation.

    `vectors` are int32 or int64, (vectors, rows). `added` is this party's noise, added to each inner product
    or sum before it is opened or compared. It has the shape of the opened matrix, at a source of the rows of
    that source: (1, m_B) if products are summed. In a comparison the target's `last`, (m_B,), marks vectors
    that come last whatever their inner products are.
    """

    vectors: NDArray[Any]
    added: NDArray[np.int64] | None = None
    last: NDArray[np.bool_] | None = None

    def added_in(self, computation: Computation, source: Party) -> NDArray[np.int64] | None:
        """Return this party's noise in one source's session; it has one where sources are not summed."""
        vectors = computation.source_vectors
        if self.added is None or len(self.added) == vectors[source]:
            return self.added
        sources = list(vectors)
        start = sum(vectors[earlier] for earlier in sources[: sources.index(source)])
        return self.added[start : start + vectors[source]]

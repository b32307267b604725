"""Keys and operations of a plan's HE scheme, made and tried for an estimate."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from mpc_spearman.config import Plan
from mpc_spearman.engines.he.engine import sizes, vectors_of
from mpc_spearman.engines.he.scheme import Operation, PublicKey, SecretKey, Sizes
from mpc_spearman.engines.he.schemes import public_key, secret_key
from mpc_spearman.engines.he.timing import Operations, core_seconds
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Roster

# Operations are tried for so many columns of the target at most: each is the same for one more.
_TRIED_COLUMNS = 8


class Work(defaultdict[tuple[Party, str], float]):
    """Seconds of one core by party and phase."""

    def __init__(self, known: Mapping[tuple[Party, str], float] = MappingProxyType({})) -> None:
        super().__init__(float, known)

    def add(self, more: Work) -> None:
        """Add what else is done."""
        for at, spent in more.items():
            self[at] += spent


class Ciphertexts:
    """What ciphertexts of a plan's scheme take on this machine; each figure is measured when first asked for.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._made: dict[tuple[object, ...], tuple[SecretKey, float]] = {}
        self._tried: dict[tuple[object, ...], Operations] = {}

    def keys(self, shapes: Shapes) -> dict[Party, PublicKey]:
        """Return a public key for each source's session."""
        found = {}
        for source in shapes.features:
            layout, operation = self._layout(shapes, source)
            secret, _ = self._secret(layout, operation)
            if self._plan.he.scheme == "paillier":  # whose keys fit any layout
                raw = secret.public.to_bytes()
                found[source] = public_key(raw, self._plan.he, layout, operation)
            else:
                found[source] = secret_key(self._plan.he, layout, operation).public
        return found

    def session(self, shapes: Shapes, source: Party, key: PublicKey) -> Work:
        """Return the seconds of one core that each party spends on ciphertexts in one source's session."""
        plan, (layout, operation) = self._plan, self._layout(shapes, source)
        coordinator, target = Roster.of(plan, source.name).parties[:2]
        secret, made = self._secret(layout, operation)
        kind = (secret, operation)
        if kind not in self._tried:
            few = _few(layout)
            self._tried[kind] = Operations.tried(plan.he, secret, few, operation)
        computation = level_of(plan).computation(shapes)
        vectors = vectors_of(plan, computation.of(source)) if operation == "differences" else 0
        # A ciphertext of more or larger primes takes as much longer.
        scale = key.ciphertext_bytes / secret.public.ciphertext_bytes
        shared = len(shapes.features) if computation.summed else 1
        each = core_seconds(key, self._tried[kind], layout, vectors)
        at = ((source, "encrypt"), (target, "evaluate"), (coordinator, "decrypt"))
        work = Work({one: spent * scale / shared for one, spent in zip(at, each, strict=True)})
        work[coordinator, "keys"] = made / shared
        return work

    def _layout(self, shapes: Shapes, source: Party) -> tuple[Sizes, Operation]:
        computation = level_of(self._plan).computation(shapes)
        return sizes(computation, None if computation.summed else source)

    def _secret(self, layout: Sizes, operation: Operation) -> tuple[SecretKey, float]:
        """Return a key to try operations with, and the seconds that it took to make."""
        paillier = self._plan.he.scheme == "paillier"
        kind = (operation, layout.m_source, None if paillier else _few(layout))
        if kind not in self._made:
            start = time.perf_counter()
            secret = secret_key(self._plan.he, _few(layout), operation)
            self._made[kind] = secret, time.perf_counter() - start
        return self._made[kind]


def _few(layout: Sizes) -> Sizes:
    return replace(layout, m_target=min(layout.m_target, _TRIED_COLUMNS))

"""What crosses the links in a run, without a run: every message, from the view table and the sizes.

What is in a message the view table says (:mod:`mpc_spearman.levels.view`), how long its fields are the
codec, and into how many blocks, batches and steps a table is cut the functions by which the protocols do it.
So all bytes, messages and rounds are those of a run whose columns are neither constant nor alike, if names
are as long as is said; the tests hold them against metered runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mpc_spearman.config import Plan
from mpc_spearman.engines.he.scheme import PublicKey
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Roster
from mpc_spearman.run import rows_of_block
from mpc_spearman.version import __version__
from mpc_spearman.wire.frames import HEADER
from mpc_spearman.wire.integers import width_of
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import length

#: ANDs of a comparison with zero, one after the other: words of both their inputs, for each value compared.
_ANDS = ((1, 1), (1, 1), *((2, 2),) * 6)
#: The phase in which a message is waited for, where it is not the one its bytes belong to.
_AWAITED = {Kind.CIPHERTEXT: "evaluate", Kind.EVALUATED: "decrypt"}


@dataclass
class Flow:
    """What one party does in one phase; the figures are those of the meter."""

    bytes_sent: int = 0
    bytes_received: int = 0
    messages: int = 0
    rounds: int = 0


@dataclass(frozen=True)
class _Message:
    sender: Party
    receiver: Party
    kind: Kind
    sizes: Mapping[str, int] = field(default_factory=dict)
    count: int = 1  # so many alike, of one depth


class Traffic:
    """All messages of a run but those that carry its cost table.

    Parameters
    ----------
    plan : Plan
    shapes : Shapes
        With all columns defined, distinct and lasting.
    keys : mapping of Party to PublicKey
        Under HE, of each source's session; at ``strengths`` the same for all.
    name_bytes : int
        UTF-8 bytes of a feature's name.

    Attributes
    ----------
    flows : dict of (Party, str) to Flow
        By party and phase.
    """

    def __init__(self, plan: Plan, shapes: Shapes, keys: Mapping[Party, PublicKey], name_bytes: int) -> None:
        self.flows: dict[tuple[Party, str], Flow] = {}
        self._plan, self._shapes, self._keys, self._shared = plan, shapes, keys, plan.shared()
        self._roster = Roster.of(plan, plan.names[0])
        self._depth = dict.fromkeys(self._roster.parties, 0)
        self._dimensions = {"n": shapes.n, "m_sources": shapes.m_sources, "m_target": shapes.m_target}
        self._texts = dict.fromkeys(("names", "source_names", "target_names"), name_bytes)
        self._computation = level_of(plan).computation(shapes)
        self._begin()
        if plan.protocol == "mpc":
            self._multiparty()
        else:
            self._homomorphic()
        parties = self._roster.parties
        self._hop(*(self._result(peer) for peer in parties[1:]))

    # --- how messages follow one another

    def _hop(self, *messages: _Message) -> None:
        """Send all of these before any of them is received."""
        at = dict(self._depth)
        for message in messages:
            self._send(message, at[message.sender])

    def _send(self, message: _Message, depth: int) -> None:
        sender, receiver, kind = message.sender, message.receiver, message.kind
        fields = VIEW.fields(self._shared, kind, sender.role, receiver.role)
        if fields is None:
            return
        texts = self._texts
        if kind is Kind.HELLO:
            said = {"version": __version__, "party": sender.name, "role": sender.role.value}
            said["plan"] = self._plan.canonical_json()
            texts = {name: len(text.encode()) for name, text in said.items()}
        elif kind is Kind.PUBLIC_KEY:
            texts = {"key": message.sizes["key"]}
        payload = length(fields, {**self._dimensions, **message.sizes}, texts)
        size = message.count * (HEADER + payload)
        phase = kind.phase
        sent, received = self._flow(sender, phase), self._flow(receiver, phase)
        sent.bytes_sent += size
        sent.messages += message.count
        received.bytes_received += size
        deeper = depth + 1 - self._depth[receiver]
        if deeper > 0:
            self._depth[receiver] += deeper
            self._flow(receiver, _AWAITED.get(kind, phase)).rounds += deeper

    def _flow(self, party: Party, phase: str) -> Flow:
        return self.flows.setdefault((party, phase), Flow())

    # --- the steps, in their order

    def _begin(self) -> None:
        parties = self._roster.parties
        owners = parties[1:]
        target, sources = self._roster.target, self._roster.sources

        def everyone(kind: Kind, senders: tuple[Party, ...]) -> list[_Message]:
            return [_Message(one, other, kind) for one in senders for other in parties if one != other]

        self._hop(*everyone(Kind.HELLO, parties))
        self._hop(*everyone(Kind.CONFIRM, parties))
        if self._plan.alignment == "intersect":
            self._intersect()
        self._hop(*everyone(Kind.SHAPE, owners))
        self._agreed = self._depth[self._roster.coordinator]
        self._hop(*everyone(Kind.COLUMNS, owners))
        for source in sources:
            self._hop(_Message(source, target, Kind.ALIGNMENT), _Message(target, source, Kind.ALIGNMENT))
        self._hop(
            *(_Message(owner, parties[0], Kind.DESCRIPTION, self._shapes.sizes(owner)) for owner in owners)
        )

    def _intersect(self) -> None:
        """Follow :mod:`mpc_spearman.protocols.intersect`, where every party offers the common rows alone."""
        from mpc_spearman.protocols.intersect import BLOCK_IDS

        n, (coordinator, target, *sources) = self._shapes.n, self._roster.parties

        def offered(owner: Party) -> list[_Message]:
            blocks = [
                _Message(owner, coordinator, Kind.PSEUDONYMS, {"ids": ids}, count)
                for ids, count in _cut(n, BLOCK_IDS)
            ]
            return [_Message(owner, coordinator, Kind.OFFER), *blocks]

        self._hop(*(_Message(target, source, Kind.MATCHING_KEY) for source in sources), *offered(target))
        self._hop(*(message for source in sources for message in offered(source)))
        packed = {"packed": -(-n // 8)}
        self._hop(*(_Message(coordinator, owner, Kind.COMMON, packed) for owner in (target, *sources)))

    def _result(self, peer: Party) -> _Message:
        return _Message(self._roster.coordinator, peer, Kind.RESULT, self._shapes.sizes(peer))

    def _multiparty(self) -> None:
        computation, roster = self._computation, self._roster
        coordinator, target = roster.coordinator, roster.target
        self._dimensions["ring_bytes"] = width_of(computation.known.result)
        if computation.operation == "differences":
            for source in roster.sources:
                shape = computation.of(source)
                step = rows_of_block(shape.m_source + shape.m_target - 1)
                self._hop(
                    *(
                        _Message(owner, coordinator, Kind.SHARE, shape.sizes(rows=rows), count)
                        for rows, count in _cut(shape.n, step)
                        for owner in (source, target)
                    )
                )
            return
        for source in roster.sources:
            shape = computation.of(source)
            step = rows_of_block(max(shape.m_source, shape.m_target))
            self._hop(
                *(
                    _Message(one, other, Kind.MASKED, shape.sizes(rows=rows), count)
                    for rows, count in _cut(shape.n, step)
                    for one, other in ((source, target), (target, source))
                )
            )
            if not computation.summed:
                shares = (
                    _Message(owner, coordinator, Kind.SHARE, shape.sizes()) for owner in (source, target)
                )
                self._hop(*shares)
        if computation.operation == "comparison":
            self._hop(*(_Message(source, coordinator, Kind.PADDED) for source in roster.sources[1:]))
            self._compare()
        elif computation.summed:
            self._hop(*(_Message(owner, coordinator, Kind.SHARE) for owner in roster.parties[1:]))

    def _compare(self) -> None:
        """Follow :mod:`mpc_spearman.engines.mpc.order`."""
        circle = coordinator, target, source = self._roster.parties[:3]
        columns, top = self._shapes.m_target, self._plan.top
        pairs = columns * (columns - 1) // 2

        def give(sender: Party, receiver: Party, words: int) -> _Message:
            return _Message(sender, receiver, Kind.REPLICA, {"words": words})

        def not_negative(values: int) -> None:
            for inputs in _ANDS if values else ():
                self._hop(
                    *(
                        give(party, circle[(place + 1) % 3], words * values)
                        for place, party in enumerate(circle)
                        for words in inputs
                    )
                )

        not_negative(pairs)
        if top is not None:
            self._hop(give(coordinator, target, pairs), give(source, coordinator, pairs))
            self._hop(give(target, source, pairs))
            not_negative(columns)
        receiver = coordinator if self._plan.opened_to == "coordinator" else target
        packed = {"packed": -(-(pairs if top is None else columns) // 8)}
        self._hop(*(_Message(one, receiver, Kind.ORDER, packed) for one in circle if one != receiver))

    def _homomorphic(self) -> None:
        from mpc_spearman.engines.he import engine

        computation, roster = self._computation, self._roster
        coordinator, target = roster.coordinator, roster.target
        together = computation.summed
        for key, owners in (
            [(self._keys[roster.sources[0]], roster.sources)]
            if together
            else [(self._keys[source], (source,)) for source in roster.sources]
        ):
            # Those of each source leave while the others rank.
            depth = self._depth[coordinator] if together else self._agreed
            for owner in (target, *owners):
                sizes = {"key": len(key.to_bytes())}
                self._send(_Message(coordinator, owner, Kind.PUBLIC_KEY, sizes), depth)
        for source in roster.sources:
            key, shape = self._keys[source], computation.of(source)
            if computation.operation == "differences":
                step = engine.rows_of_group(shape.m_source, key)
                vectors = engine.vectors_of(self._plan, shape)
                cut = [(-(-rows // key.slots), count) for rows, count in _cut(shape.n, step)]
                sent = [(shape.m_source * each, count) for each, count in cut]
                exported = [(vectors * each, count) for each, count in cut]
            else:
                sent = [(key.ciphertexts_for(rows), count) for rows, count in _cut(shape.n, key.rows)]
                exported = [(key.product_ciphertexts, 1)]
            self._ciphertexts(source, target, key, Kind.CIPHERTEXT, sent)
            if not together or source == roster.sources[-1]:
                self._ciphertexts(target, coordinator, key, Kind.EVALUATED, exported)

    def _ciphertexts(
        self, sender: Party, receiver: Party, key: PublicKey, kind: Kind, lots: list[tuple[int, int]]
    ) -> None:
        """Send lots of ciphertexts, each of so many, so many times."""
        from mpc_spearman.engines.he import engine

        most = engine.most_of_message(key, kind)
        self._hop(
            *(
                _Message(sender, receiver, kind, engine.sizes_of(key, each), times * count)
                for ciphertexts, times in lots
                for each, count in _cut(ciphertexts, most)
            )
        )


def _cut(n: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut n into pieces of `most` and a last one: how large, and how many."""
    whole, rest = divmod(n, most)
    yield from ((size, count) for size, count in ((most, whole), (rest, 1)) if size and count)

"""The homomorphic-encryption protocol for the roles: the paper's, literally or faster.

Keys: the coordinator makes a key pair and sends the public key to source and target. With several sources,
at ``differences`` and ``coefficients`` each source's session has a key pair of its own, so that it is the
one-source protocol as it stands, with a layout and noise bounds of its own size.
Ranks are the common step ``rank``. The paper's steps 1 to 3 depend on the level.

``differences``
    1. encrypt: the source sends its ranks encrypted, [R^A_p] = Enc(r^A_pi), to the target.
    2. evaluate: the target encrypts its own, subtracts, [D_pq] = Enc(r^A_pi − r^B_qi), and sends the
       differences to the coordinator.
    3. decrypt: the coordinator decrypts d_pq^i and computes eq. 2.

    Literally (``pairs: all``, ``packing: false``): one ciphertext per rank, every pair's vector, the tables'
    order of rows, and no step the text lacks. The target does not re-randomise: Enc(r^A)·Enc(r^B)^-1 carries
    the target's own fresh randomness. In it the coordinator, who can take randomness out of a Paillier
    ciphertext, finds r_A/r_B modulo n, where r_A and r_B are uniform and independent of all ranks and of
    each other, so its view can be simulated from the differences alone. Otherwise the rows are shuffled,
    m_A + m_B − 1 vectors span the rest, many ranks share a ciphertext, and what leaves the target is
    re-randomised.

``coefficients`` and ``strengths``
    1. encrypt: the source sends its columns, or its one vector, encrypted.
    2. evaluate: the target multiplies them with its own integers in the clear, Enc(Σ_i x_pi y_qi), and sends
       the inner products, re-randomised, to the coordinator.
    3. decrypt: the coordinator decrypts one integer per pair, or per target column.

    At ``strengths`` all sources encrypt under one key, and the target adds the products of all their vectors
    up before it sends anything: the coordinator gets, and can decrypt, the sums over all sources alone.

Plaintexts are centred doubled ranks, integers, since tied ranks are halves: d_pq^i is half of what is
decrypted. Security: the target sees ciphertexts under a key it does not hold (IND-CPA, the scheme's
assumption), the source receives nothing, and the coordinator learns what it decrypts, as the scheme's
``export`` argues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mpc_spearman.config import HeSettings, Plan
from mpc_spearman.data.ranks import total
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role
from mpc_spearman.protocols.engine import Operand
from mpc_spearman.protocols.he.scheme import Operation, PublicKey, SecretKey, Sizes, Tick
from mpc_spearman.protocols.he.schemes import public_key, secret_key
from mpc_spearman.protocols.shuffle import shuffle
from mpc_spearman.protocols.squared_differences import Squares
from mpc_spearman.protocols.steps import Run, Shape, Shapes, step
from mpc_spearman.wire.disclosure import Kind

# Bytes of one message of ciphertexts, about.
_BATCH_BYTES = 1 << 22
# Ciphertexts of one message at most: with slow schemes, so that the next role can begin.
_BATCH = 512


class He:
    """Homomorphic encryption under the coordinator's keys: one per source's session, at `strengths` one."""

    def give_differences(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Encrypt the source's ranks; at the target subtract its own and pass the differences on."""
        for source, key in receive_keys(run, shapes).items():
            in_order = own if _literal(run.plan.he) else own[:, shuffle(run, source, shapes.n)]
            if run.roster.me == source:
                encrypt_ranks(run, key, in_order)
            else:
                subtract_ranks(run, key, source, in_order, shapes.of(source))

    def give_products(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Encrypt the source's ranks; at the target multiply its own with them and pass the products on."""
        for source, key in receive_keys(run, shapes).items():
            if run.roster.me == source:
                encrypt_vectors(run, key, own)
            else:
                multiply_vectors(run, key, [(source, own)], shapes.n)

    def give_sums(self, run: Run, own: Callable[[Party], Operand], shapes: Shapes) -> None:
        """Encrypt the source's vector; at the target add up its products with all sources', pass them on."""
        layout, operation = sizes(run.plan, shapes)
        key = receive_key(run, layout, operation)
        # One by one: the target's are as large as its table.
        values = ((one, _values(run, own(one), shapes.of(one))) for one in run.roster.sessions)
        if run.roster.me.role is Role.SOURCE:
            for _, mine in values:
                encrypt_vectors(run, key, mine)
        else:
            multiply_vectors(run, key, values, layout.n)

    @contextmanager
    def opening(self, run: Run, shapes: Shapes) -> Iterator[Callable[[], Any]]:
        """Make the keys while the others rank; then decrypt."""
        if run.plan.reveal == "strengths":
            key = make_key(run, shapes)
            yield lambda: decrypt_products(run, key)
            return
        keys = {source: make_key(run, shapes, source) for source in run.roster.sources}
        if run.plan.reveal == "differences":
            yield lambda: np.vstack(
                [decrypt_differences(run, key, shapes.of(source)) for source, key in keys.items()]
            )
        else:
            yield lambda: np.vstack([decrypt_products(run, key) for key in keys.values()])


def sizes(plan: Plan, shapes: Shapes, source: Party | None = None) -> tuple[Sizes, Operation]:
    """Return the public numbers that the layout of ciphertexts follows from; the same at all parties.

    At ``strengths`` one key, and one sum, serve all sources: the rows are theirs put end to end, and under
    ``paper`` a few more of each carry what that source and the target add for their own ties. Otherwise each
    `source` has a key of its own.
    """
    n, m_target = shapes.n, shapes.m_target
    if plan.reveal != "strengths":
        assert source is not None
        vectors, keys = shapes.features[source], len(shapes.features)
        if plan.reveal == "differences":
            return Sizes(n, vectors, m_target, n - 1, n - 1, 2 * (n - 1), keys), "differences"
        return Sizes(n, vectors, m_target, n - 1, n - 1, total(n), keys), "products"
    if plan.estimator == "tie_corrected":
        rows = n * len(shapes.features)
        return Sizes(rows, 1, m_target, 2**63 - 1, n - 1, 2**63 - 1), "products"
    rows = sum(n + 1 + len(_tie_rows(shapes.of(one))) for one in shapes.features)
    most = max(shapes.features.values())
    value = max(most * (n - 1), most * total(n) // 2)
    return Sizes(rows, 1, m_target, value, n - 1, shapes.m_sources * total(n)), "products"


@step("keys")
def make_key(run: Run, shapes: Shapes, source: Party | None = None) -> SecretKey:
    """Make a key pair for one source's session or for all.

    Its public half goes to that source, or to all, and to the target.
    """
    layout, operation = sizes(run.plan, shapes, source)
    key = secret_key(run.plan.he, layout, operation)
    for peer in (run.roster.target, *((source,) if source else run.roster.sources)):
        run.links.send(peer, Kind.PUBLIC_KEY, {"key": key.public.to_bytes()})
    _take_note(run, key.public)
    if run.plan.he.scheme == "paillier":
        from mpc_spearman.protocols.he.estimate import announce

        vectors = _vectors(run.plan, shapes.of(source)) if source else 0
        announce(run, key, layout, vectors, source if len(run.roster.sources) > 1 else None)
    return key


def receive_keys(run: Run, shapes: Shapes) -> dict[Party, PublicKey]:
    """Receive the key of each session this party takes part in, all of them before the first session.

    So the coordinator never waits for a session to end before it can send a key of a later one.
    """
    return {source: receive_key(run, *sizes(run.plan, shapes, source)) for source in run.roster.sessions}


@step("keys")
def receive_key(run: Run, layout: Sizes, operation: Operation) -> PublicKey:
    """Receive and check a public key of the coordinator's."""
    raw = run.links.receive(run.roster.coordinator, Kind.PUBLIC_KEY)["key"]
    key = public_key(raw, run.plan.he, layout, operation)
    _take_note(run, key)
    return key


def _take_note(run: Run, key: PublicKey) -> None:
    if key.caution and key.caution not in run.cautions:
        run.cautions.append(key.caution)


@step("encrypt")
def encrypt_ranks(run: Run, key: PublicKey, own: np.ndarray) -> None:
    """Source: encrypt its ranks and send them to the target (paper, step 1); `own` is int64 (m_A, n)."""
    done, of = 0, len(own) * -(-own.shape[1] // key.slots)
    for rows in groups(own.shape[1], len(own), key):
        chunks = [chunk for column in own[:, rows] for chunk in _chunks(column, key.slots)]
        ciphertexts = key.encrypt_many(chunks, workers=run.workers, tick=_ticks(run, done, of))
        done += len(ciphertexts)
        send(run, key, run.roster.target, Kind.CIPHERTEXT, [key.dump(each) for each in ciphertexts])


@step("evaluate")
def subtract_ranks(run: Run, key: PublicKey, source: Party, own: np.ndarray, shape: Shape) -> None:
    """Target: encrypt its ranks, subtract, and send the differences to the coordinator (paper, step 2).

    By pairs, or by the basis {a_p − b_1} ∪ {b_q − b_1, q ≥ 2}, whose second part the target encrypts itself.
    """
    he, m_source = run.plan.he, shape.m_source
    everyone = he.pairs == "all"
    done, of = 0, _vectors(run.plan, shape) * -(-shape.n // key.slots)
    for rows in groups(shape.n, m_source, key):
        count = -(-(rows.stop - rows.start) // key.slots)
        theirs = key.load_many(receive(run, key, source, Kind.CIPHERTEXT, m_source * count))
        columns = own[:, rows] if everyone else np.vstack([own[:1, rows], own[1:, rows] - own[:1, rows]])
        chunks = [chunk for column in columns for chunk in _chunks(column, key.slots)]
        mine = key.encrypt_many(chunks, workers=run.workers, tick=lambda _: run.links.check())
        against = range(shape.m_target if everyone else 1)
        pairs = [(p, q, c) for p in range(m_source) for q in against for c in range(count)]
        differences = key.subtract_many(
            [theirs[p * count + c] for p, _, c in pairs], [mine[q * count + c] for _, q, c in pairs]
        )
        differences += [] if everyone else mine[count:]
        exported = key.export_many(
            differences, rerandomise=not _literal(he), workers=run.workers, tick=_ticks(run, done, of)
        )
        done += len(exported)
        send(run, key, run.roster.coordinator, Kind.EVALUATED, exported)


@step("decrypt")
def decrypt_differences(run: Run, key: SecretKey, shape: Shape) -> np.ndarray:
    """Coordinator: decrypt the differences and sum their squares (paper, step 3).

    Returns
    -------
    ndarray of Python int, shape (m_A, m_B)
        Q_pq = Σ_i (2 d_pq^i)².
    """
    public = key.public
    squares = Squares(shape.m_source, shape.m_target, shape.n)
    vectors = _vectors(run.plan, shape)
    done, of = 0, vectors * -(-shape.n // public.slots)
    for rows in groups(shape.n, shape.m_source, public):
        lengths = [len(chunk) for chunk in _chunks(np.arange(rows.start, rows.stop), public.slots)]
        raws = receive(run, public, run.roster.target, Kind.EVALUATED, vectors * len(lengths))
        values = key.decrypt_many(raws, lengths * vectors, workers=run.workers, tick=_ticks(run, done, of))
        done += len(raws)
        opened = np.concatenate(values).reshape(vectors, -1)
        if run.plan.he.pairs == "all":
            squares.add_pairs(opened)
        else:
            squares.add_basis(opened)
    return squares.total


@step("encrypt")
def encrypt_vectors(run: Run, key: PublicKey, own: np.ndarray) -> None:
    """Source: encrypt its vectors, int64 (vectors, rows), block by block, and send them to the target."""
    done, n = 0, own.shape[1]
    of = sum(key.ciphertexts_for(rows.stop - rows.start) for rows in _blocks(n, key.rows))
    for rows in _blocks(n, key.rows):
        block = key.encrypt_block(own[:, rows], workers=run.workers, tick=_ticks(run, done, of))
        done += len(block)
        send(run, key, run.roster.target, Kind.CIPHERTEXT, [key.dump(each) for each in block])


@step("evaluate")
def multiply_vectors(run: Run, key: PublicKey, own: Iterable[tuple[Party, np.ndarray]], of: int) -> None:
    """Target: multiply its integers with the encrypted vectors of one or more sources; send the products on.

    `own` are int64 (m_B, rows) for each source, `of` rows in all. The products of several sources add up.
    """
    products, done = key.new_products(), 0
    for source, values in own:
        for rows in _blocks(values.shape[1], key.rows):
            count = rows.stop - rows.start
            raws = receive(run, key, source, Kind.CIPHERTEXT, key.ciphertexts_for(count))
            products.add(
                key.load_many(raws), values[:, rows], workers=run.workers, tick=lambda _: run.links.check()
            )
            done += count
            run.tick(done, of)
    exported = products.export(workers=run.workers, tick=lambda _: run.links.check())
    send(run, key, run.roster.coordinator, Kind.EVALUATED, exported)


@step("decrypt")
def decrypt_products(run: Run, key: SecretKey) -> np.ndarray:
    """Coordinator: decrypt the inner products; Python int, (m_A, m_B), or (1, m_B) at ``strengths``."""
    count = key.public.product_ciphertexts
    raws = receive(run, key.public, run.roster.target, Kind.EVALUATED, count)
    return key.open_products(raws, workers=run.workers, tick=_ticks(run, 0, count))


def groups(n: int, columns: int, key: PublicKey) -> Iterator[slice]:
    """Cut n rows into groups, the ciphertexts of one of which go in a few messages; all parties cut alike."""
    per_message = max(1, min(_BATCH, _BATCH_BYTES // key.ciphertext_bytes))
    return _blocks(n, key.slots * max(1, per_message // columns))


def send(run: Run, key: PublicKey, peer: Party, kind: Kind, ciphertexts: Sequence[bytes]) -> None:
    """Send ciphertexts of one length, as many to a message as fit, and the fingerprint of their key."""
    for batch in _batches(len(ciphertexts), _bytes(key, kind)):
        values = {"key": key.fingerprint, "batch": b"".join(ciphertexts[batch])}
        run.links.send(peer, kind, values, sizes=_sizes(key, batch))


def receive(run: Run, key: PublicKey, peer: Party, kind: Kind, count: int) -> list[bytes]:
    """Receive that many ciphertexts of one length.

    Raises
    ------
    ProtocolViolation
        They are under another key than the one this party has.
    """
    size = _bytes(key, kind)
    ciphertexts: list[bytes] = []
    for batch in _batches(count, size):
        values = run.links.receive(peer, kind, sizes=_sizes(key, batch))
        if values["key"] != key.fingerprint:
            raise ProtocolViolation(f"{peer} sent ciphertexts under another key than the coordinator's")
        payload = values["batch"]
        ciphertexts += [payload[start : start + size] for start in range(0, len(payload), size)]
    return ciphertexts


def _bytes(key: PublicKey, kind: Kind) -> int:
    return key.ciphertext_bytes if kind is Kind.CIPHERTEXT else key.result_ciphertext_bytes


def _sizes(key: PublicKey, batch: slice) -> dict[str, int]:
    return {
        "rows": batch.stop - batch.start,
        "ciphertext_bytes": key.ciphertext_bytes,
        "result_bytes": key.result_ciphertext_bytes,
    }


def _batches(count: int, size: int) -> Iterator[slice]:
    return _blocks(count, max(1, _BATCH_BYTES // size))


def _blocks(n: int, rows: int) -> Iterator[slice]:
    for start in range(0, n, rows):
        yield slice(start, min(n, start + rows))


def _chunks(column: np.ndarray, slots: int) -> list[np.ndarray]:
    return [column[chunk] for chunk in _blocks(len(column), slots)]


def _ticks(run: Run, done: int, of: int) -> Tick:
    return lambda more: run.tick(done + more, of)


def _vectors(plan: Plan, shape: Shape) -> int:
    """How many difference vectors the coordinator gets of a source."""
    if plan.he.pairs == "all":
        return shape.m_source * shape.m_target
    return shape.m_source + shape.m_target - 1


def _literal(he: HeSettings) -> bool:
    """Tell whether this is the paper's protocol to the letter."""
    return he.pairs == "all" and not he.packing


def _tie_rows(shape: Shape) -> list[int]:
    """Powers of n − 1, as many as it takes to write any offset m_A·T_q/2 ≤ m_A·N/2 in that base."""
    powers = [1]
    while powers[-1] * (shape.n - 1) <= shape.m_source * total(shape.n) // 2:
        powers.append(powers[-1] * (shape.n - 1))
    return powers


def _values(run: Run, own: Operand, shape: Shape) -> np.ndarray:
    """Append, under ``paper``, rows whose products are what source and target add for their ties.

    One row is (source's offset) · 1. In the others the source has the powers of n − 1 and the target its
    offset's digits in that base, so that its integers stay below n, and with them a lattice scheme's noise.
    """
    if run.plan.estimator != "paper":
        return own.values
    powers = _tie_rows(shape)
    if run.roster.me.role is Role.SOURCE:
        return np.hstack([own.values, own.offset, np.array([powers], dtype=np.int64)])
    digits = [[int(offset) // power % (shape.n - 1) for power in powers] for offset in own.offset[0]]
    ones = np.ones((len(digits), 1), dtype=np.int64)
    return np.hstack([own.values, ones, np.array(digits, dtype=np.int64)])

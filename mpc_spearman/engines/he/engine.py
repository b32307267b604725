"""The homomorphic-encryption protocol for the roles: the paper's, literally or faster.

The coordinator makes a key pair and sends the public key to source and target. If products are summed, all
sources encrypt under one key. Otherwise each source's session has its own key, and runs the one-source
protocol with a layout and noise bounds for its own size. docs/homomorphic-encryption.md has the steps, their
two forms at ``differences``, and the security of each.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mpc_spearman.arrays import blocks, parts
from mpc_spearman.config import Plan
from mpc_spearman.engines.computation import Computation, Contribution, Opening
from mpc_spearman.engines.differences import Squares, shuffled
from mpc_spearman.engines.he.keys import keys_of
from mpc_spearman.engines.he.scheme import PublicKey, SecretKey, Sizes
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind

# Bytes of a message of ciphertexts, about; ciphertexts of a group, unless it has more columns. Few, so that
# the next role begins, and a lost peer is noticed, soon: each ciphertext takes 30 ms with full randomness.
_BATCH_BYTES, _BATCH = 1 << 22, 64


def contribute(run: Run, computation: Computation, contribution: Contribution) -> None:
    """Do a data party's part: encrypt the source's vectors, and compute on them at the target."""
    if computation.operation == "differences":
        _differences(run, computation, contribution.vectors)
    elif computation.operation == "inner_products":
        _inner_products(run, computation, contribution)
    else:
        raise NotImplementedError("only secure multiparty computation compares in private")


def prepare(run: Run, computation: Computation) -> Opening:
    """Make each session's key while the others rank; the returned function decrypts.

    The key of sums, which all sources share, is made by that function.
    """
    noisy = computation.noisy_sources
    if computation.summed:
        return lambda: decrypt_products(run, make_key(run, computation, None), noisy)
    keys = {source: make_key(run, computation, source) for source in run.roster.sources}
    if computation.operation == "differences":
        return lambda: np.vstack([decrypt_differences(run, key) for key in keys.values()])
    return lambda: np.vstack(
        [decrypt_products(run, key, {source} & {*noisy}) for source, key in keys.items()]
    )


def _differences(run: Run, computation: Computation, vectors: np.ndarray) -> None:
    """Encrypt the source's ranks; at the target subtract its ranks, and send the differences on."""
    for source, key in receive_keys(run, computation).items():
        in_order = vectors if _literal(run.plan) else shuffled(run, source, vectors)
        if run.roster.me == source:
            encrypt_ranks(run, key, in_order)
        else:
            subtract_ranks(run, key, source, in_order)


def _inner_products(run: Run, computation: Computation, contribution: Contribution) -> None:
    """Encrypt the source's vectors; at the target multiply them with its vectors, and send the products."""
    if computation.summed:
        sessions = [(receive_key(run, computation, None), run.roster.sources, contribution.added)]
    else:
        sessions = [
            (key, (source,), contribution.added_in(computation, source))
            for source, key in receive_keys(run, computation).items()
        ]
    for key, sources, added in sessions:
        if run.roster.me.role is Role.SOURCE:
            encrypt_vectors(run, key, contribution.vectors)
            if added is not None:
                split_noise(run, key, added)
        else:
            noisy = [source for source in sources if source in computation.noisy_sources]
            multiply_vectors(run, key, sources, contribution.vectors, noisy, added)


def sizes(computation: Computation, source: Party | None) -> Sizes:
    """Return the public numbers that the layout of ciphertexts follows from; the same at all parties.

    Without a `source` they are those of sums: one key serves all sources, whose rows are put end to end, and
    the target's vectors repeat for each.
    """
    bounds = computation.bounds
    together = len(computation.source_vectors) if computation.summed else 1
    return Sizes(
        n=computation.rows * together,
        m_source=computation.source_vectors[source] if source else 1,
        m_target=computation.target_vectors,
        value_bound=bounds.value,
        target_bound=bounds.target,
        target_sum=bounds.target_sum * together,
        result_bound=bounds.result,
        keys=len(computation.source_vectors) if source else 1,
        operation="differences" if computation.operation == "differences" else "products",
    )


@step("keys")
def make_key(run: Run, computation: Computation, source: Party | None) -> SecretKey:
    """Make a key pair for one source's session, or for sums; send the public half to its data parties."""
    key = keys_of(run.plan.he.scheme)[0].generate(run.plan.he, sizes(computation, source))
    for peer in (run.roster.target, *((source,) if source else run.roster.sources)):
        run.links.send(peer, Kind.PUBLIC_KEY, {"key": key.public.to_bytes()})
    _prepare_key(run, key.public)
    return key


def receive_keys(run: Run, computation: Computation) -> dict[Party, PublicKey]:
    """Receive the keys of all this party's sessions, before the first session.

    So the coordinator can send all keys without waiting for a session to end.
    """
    return {source: receive_key(run, computation, source) for source in run.roster.sessions}


@step("keys")
def receive_key(run: Run, computation: Computation, source: Party | None) -> PublicKey:
    """Receive and check the coordinator's public key of one source's session, or of sums."""
    raw = run.links.receive(run.roster.coordinator, Kind.PUBLIC_KEY)["key"]
    key = keys_of(run.plan.he.scheme)[1].from_bytes(raw, run.plan.he, sizes(computation, source))
    _prepare_key(run, key)
    return key


def _prepare_key(run: Run, key: PublicKey) -> None:
    """Set how many threads a key may use, and note its caution for the result."""
    key.threads = run.threads
    if key.caution and key.caution not in run.notes.cautions:
        run.notes.cautions.append(key.caution)


@step("encrypt")
def encrypt_ranks(run: Run, key: PublicKey, vectors: np.ndarray) -> None:
    """Source: encrypt its ranks and send them to the target (paper, step 1); `vectors` is int32 (m_A, n)."""
    n = vectors.shape[1]
    for rows in groups(n, len(vectors), key):
        ciphertexts = key.encrypt(_chunks(np.array(vectors[:, rows], np.int64), key.slots))
        send(run, key, run.roster.target, Kind.CIPHERTEXT, ciphertexts)
        run.tick(rows.stop, n)


@step("evaluate")
def subtract_ranks(run: Run, key: PublicKey, source: Party, vectors: np.ndarray) -> None:
    """Target: encrypt its ranks, subtract, and send the differences to the coordinator (paper, step 2).

    By pairs, or by the basis {a_p − b_1} ∪ {b_q − b_1, q ≥ 2}, whose second part the target encrypts itself.
    """
    literal, (m_target, n), m_source = _literal(run.plan), vectors.shape, key.sizes.m_source
    for rows in groups(n, m_source, key):
        count = -(-(rows.stop - rows.start) // key.slots)
        ciphertexts = receive(run, key, source, Kind.CIPHERTEXT, m_source * count)
        columns = np.array(vectors[:, rows], np.int64)
        if not literal:
            columns[1:] -= columns[0]
        against = range(m_target if literal else 1)
        pairs: list[tuple[int | None, int]] = [
            (p * count + c, q * count + c) for p in range(m_source) for q in against for c in range(count)
        ]
        if not literal:
            pairs += [(None, j) for j in range(count, m_target * count)]
        chunks = _chunks(columns, key.slots)
        differences = key.subtract(ciphertexts, chunks, pairs, rerandomise=not literal)
        send(run, key, run.roster.coordinator, Kind.EVALUATED, differences)
        run.tick(rows.stop, n)


@step("decrypt")
def decrypt_differences(run: Run, key: SecretKey) -> np.ndarray:
    """Coordinator: decrypt the differences; sum their squares, Python int (m_A, m_B) (paper, step 3)."""
    public, literal, shape = key.public, _literal(run.plan), key.public.sizes
    squares = Squares(shape.m_source, shape.m_target, shape.n)
    vectors = shape.m_source * shape.m_target if literal else shape.m_source + shape.m_target - 1
    for rows in groups(shape.n, shape.m_source, public):
        lengths = [chunk.stop - chunk.start for chunk in blocks(rows.stop - rows.start, public.slots)]
        raws = receive(run, public, run.roster.target, Kind.EVALUATED, vectors * len(lengths))
        values = key.decrypt(raws, lengths * vectors)
        opened = np.concatenate(values).reshape(vectors, -1)
        if literal:
            squares.add_pairs(opened)
        else:
            squares.add_basis(opened)
        run.tick(rows.stop, shape.n)
    return squares.total


@step("encrypt")
def encrypt_vectors(run: Run, key: PublicKey, vectors: np.ndarray) -> None:
    """Source: encrypt its vectors, integers (vectors, rows), block by block, and send them to the target."""
    for block in _cut(run, vectors, key.rows):
        send(run, key, run.roster.target, Kind.CIPHERTEXT, key.encrypt_block(block))


@step("encrypt")
def split_noise(run: Run, key: PublicKey, added: np.ndarray) -> None:
    """Source: send its noise, (vectors, m_B), in two parts, one to the target and one to the coordinator.

    The target's part is uniform, and the target subtracts it under encryption. The coordinator's part is the
    noise plus the target's part, so it is uniform too; the coordinator adds it to the decrypted products. A
    target that leaves out its part gives the coordinator uniform residues, not products with less noise.
    """
    noise = key.residues(added)
    for_target = [secrets.randbelow(key.modulus) for _ in noise]
    rest = [(one + other) % key.modulus for one, other in zip(noise, for_target, strict=True)]
    size = _residue_bytes(key)
    for peer, part in ((run.roster.target, for_target), (run.roster.coordinator, rest)):
        raw = b"".join(residue.to_bytes(size, "big") for residue in part)
        run.links.send(peer, Kind.NOISE, {"part": raw}, sizes={"residues": len(part), "residue_bytes": size})


def receive_noise(run: Run, key: PublicKey, sources: Iterable[Party]) -> list[int]:
    """Receive this party's parts of the noise of some sources; return their sum, zeros without sources."""
    total, size = [0] * key.product_residues, _residue_bytes(key)
    for source in sources:
        symbols = {"residues": key.product_residues, "residue_bytes": size}
        raw = run.links.receive(source, Kind.NOISE, sizes=symbols)["part"]
        for at in range(key.product_residues):
            total[at] += int.from_bytes(raw[at * size : (at + 1) * size], "big")
    return total


@step("evaluate")
def multiply_vectors(
    run: Run,
    key: PublicKey,
    sources: Sequence[Party],
    vectors: np.ndarray,
    noisy: Sequence[Party],
    added: np.ndarray | None,
) -> None:
    """Target: multiply its integers with the encrypted vectors of one or more sources; send the products on.

    `vectors` are integers (m_B, rows), the same for each source. The products of several sources add up. This
    party's part of the `noisy` sources' noise is subtracted, and its own noise `added`, (vectors, m_B).
    """
    products = key.products()
    for source in sources:
        for block in _cut(run, vectors, key.rows):
            count = key.ciphertexts_for(block.shape[1])
            products.add(receive(run, key, source, Kind.CIPHERTEXT, count), block)
    parts_of_noise = receive_noise(run, key, noisy)
    noise = [0] * key.product_residues if added is None else key.residues(added)
    sums = [(one - part) % key.modulus for one, part in zip(noise, parts_of_noise, strict=True)]
    send(run, key, run.roster.coordinator, Kind.EVALUATED, products.export(sums))


@step("decrypt")
def decrypt_products(run: Run, key: SecretKey, noisy: Iterable[Party]) -> np.ndarray:
    """Coordinator: decrypt the inner products, and add the `noisy` sources' parts of their noise.

    Returns Python int, (m_A, m_B), or summed (1, m_B).
    """
    parts_of_noise = receive_noise(run, key.public, noisy)
    raws = receive(run, key.public, run.roster.target, Kind.EVALUATED, key.public.product_ciphertexts)
    return key.open_products(raws, parts_of_noise)


def groups(n: int, columns: int, key: PublicKey) -> Iterator[slice]:
    """Yield groups of rows whose ciphertexts fit a few messages; the same groups at all parties."""
    per_message = max(1, min(_BATCH, _BATCH_BYTES // key.ciphertext_bytes))
    return blocks(n, key.slots * max(1, per_message // columns))


def send(run: Run, key: PublicKey, peer: Party, kind: Kind, ciphertexts: Sequence[bytes]) -> None:
    """Send ciphertexts of one length in as few messages as possible, with the fingerprint of their key."""
    for batch, sizes in _messages(key, kind, len(ciphertexts)):
        values = {"key": key.fingerprint, "batch": b"".join(ciphertexts[batch])}
        run.links.send(peer, kind, values, sizes=sizes)


def receive(run: Run, key: PublicKey, peer: Party, kind: Kind, count: int) -> list[bytes]:
    """Receive that many ciphertexts of one length; `ProtocolViolation` if they are under another key."""
    size = _bytes(key, kind)
    ciphertexts: list[bytes] = []
    for _, sizes in _messages(key, kind, count):
        values = run.links.receive(peer, kind, sizes=sizes)
        if values["key"] != key.fingerprint:
            raise ProtocolViolation(f"{peer} sent ciphertexts under another key than the coordinator's")
        payload = values["batch"]
        ciphertexts += [payload[start : start + size] for start in range(0, len(payload), size)]
    return ciphertexts


def _bytes(key: PublicKey, kind: Kind) -> int:
    return key.ciphertext_bytes if kind is Kind.CIPHERTEXT else key.result_ciphertext_bytes


def _residue_bytes(key: PublicKey) -> int:
    return -(-key.modulus.bit_length() // 8)


def _messages(key: PublicKey, kind: Kind, count: int) -> Iterator[tuple[slice, dict[str, int]]]:
    """Yield, for each message of `count` ciphertexts, which of them it holds and the sizes of its fields."""
    lengths = {"ciphertext_bytes": key.ciphertext_bytes, "result_bytes": key.result_ciphertext_bytes}
    for batch in blocks(count, max(1, _BATCH_BYTES // _bytes(key, kind))):
        yield batch, {"rows": batch.stop - batch.start, **lengths}


def _cut(run: Run, table: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """Yield a table's rows in blocks, int64; report progress after each block."""
    for block, values in parts(table, rows):
        yield values.astype(np.int64)
        run.tick(block.stop, table.shape[1])


def _chunks(vectors: np.ndarray, slots: int) -> list[np.ndarray]:
    return [vector[chunk] for vector in vectors for chunk in blocks(len(vector), slots)]


def _literal(plan: Plan) -> bool:
    return plan.he.form == "literal"

"""The homomorphic-encryption protocol: the paper's steps, literally or in a faster form.

The coordinator makes a key pair and sends the public key to source and target. If products are summed, all
sources encrypt under one key. Otherwise each source's session has its own key, and runs the one-source
protocol with a layout and noise bounds for its own size. docs/homomorphic-encryption.md has the steps, their
two forms at ``differences``, and the security of each.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mpc_spearman.arrays import blocks, parts
from mpc_spearman.engines.computation import Computation, Contribution, Opening
from mpc_spearman.engines.differences import Squares, shuffled
from mpc_spearman.engines.he.scheme import MESSAGE_BYTES, Block, PublicKey, SecretKey, Sizes
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind

#: The sources that encrypt under one key.
Sources = Sequence[Party]


def contribute(run: Run, computation: Computation, contribution: Contribution) -> None:
    """Do a data party's part: encrypt the source's vectors, and compute on them at the target."""
    # All keys before the first session: so the coordinator can send them without waiting for one to end.
    keys = [(receive_key(run, computation, sources), sources) for sources in key_groups(run, computation)]
    is_source, vectors = run.roster.me.role is Role.SOURCE, contribution.vectors
    for key, sources in keys:
        if computation.operation == "differences":
            (source,) = sources
            ranks = vectors if run.plan.he.form == "literal" else shuffled(run, source, vectors)
            if is_source:
                encrypt(run, key, ranks)
            else:
                subtract_ranks(run, key, source, ranks)
            continue
        added = contribution.added if computation.summed else contribution.added_in(computation, sources[0])
        if is_source:
            encrypt(run, key, vectors)
            if added is not None:
                split_noise(run, key, added)
        else:
            noisy = noisy_sources(computation, sources)
            multiply_vectors(run, key, sources, vectors, noisy, added)


def prepare(run: Run, computation: Computation) -> Opening:
    """Make the keys while the others rank; the returned function decrypts."""
    keys = [(make_key(run, computation, sources), sources) for sources in key_groups(run, computation)]
    if computation.operation == "differences":
        return lambda: np.vstack([decrypt_differences(run, key) for key, _ in keys])
    return lambda: np.vstack(
        [decrypt_products(run, key, noisy_sources(computation, sources)) for key, sources in keys]
    )


def key_groups(run: Run, computation: Computation) -> list[Sources]:
    """Return the groups of sources that share a key of this party: one group if products are summed."""
    return [run.roster.sources] if computation.summed else [(source,) for source in run.roster.sessions]


def noisy_sources(computation: Computation, sources: Sources) -> Sources:
    """Return the sources that add noise under a key."""
    return [source for source in sources if source in computation.noisy_sources]


def sizes(computation: Computation, sources: Sources) -> Sizes:
    """Return the public numbers that decide how ciphertexts are laid out; the same at all parties.

    The rows of sources with one key are put end to end, and the target's vectors repeat for each.
    """
    bounds = computation.bounds
    return Sizes(
        n=computation.rows * len(sources),
        m_source=computation.source_vectors[sources[0]],
        m_target=computation.target_vectors,
        bounds=replace(bounds, target_sum=bounds.target_sum * len(sources)),
        keys=1 if computation.summed else len(computation.source_vectors),
        operation=computation.operation,
    )


def keys_of(scheme: str) -> tuple[type[SecretKey], type[PublicKey]]:
    """Import a scheme's keys: only what it needs has to be installed."""
    if scheme == "bfv":
        from mpc_spearman.engines.he.bfv.keys import BfvPublicKey, BfvSecretKey

        return BfvSecretKey, BfvPublicKey
    from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey

    return PaillierSecretKey, PaillierPublicKey


@step("keys")
def make_key(run: Run, computation: Computation, sources: Sources) -> SecretKey:
    """Make a key pair; send the public half to the sources that encrypt under it, and to the target."""
    key = keys_of(run.plan.he.scheme)[0].generate(run.plan.he, sizes(computation, sources))
    for peer in (run.roster.target, *sources):
        run.links.send(peer, Kind.PUBLIC_KEY, {"key": key.public.to_bytes()})
    _prepare_key(run, key.public)
    return key


@step("keys")
def receive_key(run: Run, computation: Computation, sources: Sources) -> PublicKey:
    """Receive and check the coordinator's public key."""
    raw = run.links.receive(run.roster.coordinator, Kind.PUBLIC_KEY)["key"]
    key = keys_of(run.plan.he.scheme)[1].from_bytes(raw, run.plan.he, sizes(computation, sources))
    _prepare_key(run, key)
    return key


def _prepare_key(run: Run, key: PublicKey) -> None:
    """Set how many threads a key may use, and add the key's caution to the run's notes."""
    key.threads = run.threads
    if key.caution and key.caution not in run.notes.cautions:
        run.notes.cautions.append(key.caution)


@step("encrypt")
def encrypt(run: Run, key: PublicKey, vectors: np.ndarray) -> None:
    """Source: encrypt its vectors, (m_A, rows), and send them to the target (paper, step 1)."""
    for block in _blocks(run, vectors, key.rows):
        send(run, key, run.roster.target, Kind.CIPHERTEXT, key.encrypt(block))


@step("evaluate")
def subtract_ranks(run: Run, key: PublicKey, source: Party, ranks: np.ndarray) -> None:
    """Target: encrypt its ranks, subtract, and send the differences to the coordinator (paper, step 2).

    By pairs, or by the basis {a_p − b_1} ∪ {b_q − b_1, q ≥ 2}, whose second part the target encrypts itself.
    """
    m_source, m_target = key.sizes.m_source, len(ranks)
    pairs: list[tuple[int | None, int]] = [(p, 0) for p in range(m_source)]
    pairs += [(None, q) for q in range(1, m_target)]
    if run.plan.he.form == "literal":
        pairs = [(p, q) for p in range(m_source) for q in range(m_target)]
    for block in _blocks(run, ranks, key.rows):
        ciphertexts = receive(run, key, source, Kind.CIPHERTEXT, key.ciphertexts_for(block.shape[1]))
        if run.plan.he.form != "literal":
            block[1:] -= block[0]
        send(run, key, run.roster.coordinator, Kind.EVALUATED, key.subtract(ciphertexts, block, pairs))


@step("decrypt")
def decrypt_differences(run: Run, key: SecretKey) -> np.ndarray:
    """Coordinator: decrypt the differences; sum their squares, Python int (m_A, m_B) (paper, step 3)."""
    public, shape, literal = key.public, key.public.sizes, run.plan.he.form == "literal"
    squares = Squares(shape.m_source, shape.m_target, shape.n)
    vectors = shape.m_source * shape.m_target if literal else shape.m_source + shape.m_target - 1
    for block in blocks(shape.n, public.rows):
        rows = block.stop - block.start
        count = vectors * -(-rows // public.slots)
        raws = receive(run, public, run.roster.target, Kind.EVALUATED, count)
        add = squares.add_pairs if literal else squares.add_basis
        add(key.decrypt(raws, vectors, rows))
        run.tick(block.stop, shape.n)
    return squares.total


@step("encrypt")
def split_noise(run: Run, key: PublicKey, added: np.ndarray) -> None:
    """Source: send its noise, (vectors, m_B), in two parts, one to the target and one to the coordinator.

    The target's part is uniform, and the target subtracts it under encryption. The coordinator's part is the
    noise plus the target's part, so it is uniform too; the coordinator adds it to the decrypted products. A
    target that leaves out its part gives the coordinator uniform residues, not products with less noise.
    """
    noise = key.residues(added)
    for_target = [secrets.randbelow(key.modulus) for _ in noise]
    for_coordinator = [(e + r) % key.modulus for e, r in zip(noise, for_target, strict=True)]
    symbols = _residue_symbols(key)
    for peer, part in ((run.roster.target, for_target), (run.roster.coordinator, for_coordinator)):
        raw = b"".join(residue.to_bytes(symbols["residue_bytes"], "big") for residue in part)
        run.links.send(peer, Kind.NOISE, {"part": raw}, sizes=symbols)


def receive_noise(run: Run, key: PublicKey, noisy: Sources) -> list[int]:
    """Receive this party's parts of some sources' noise; return their sum, zeros without sources."""
    total, symbols = [0] * key.product_residues, _residue_symbols(key)
    for source in noisy:
        raw, size = run.links.receive(source, Kind.NOISE, sizes=symbols)["part"], symbols["residue_bytes"]
        part = [int.from_bytes(raw[start : start + size], "big") for start in range(0, len(raw), size)]
        total = [a + b for a, b in zip(total, part, strict=True)]
    return total


@step("evaluate")
def multiply_vectors(
    run: Run,
    key: PublicKey,
    sources: Sources,
    vectors: np.ndarray,
    noisy: Sources,
    added: np.ndarray | None,
) -> None:
    """Target: multiply its integers with the encrypted vectors of one or more sources; send the products on.

    `vectors` are integers (m_B, rows), the same for each source. The products of several sources add up. This
    party's part of the `noisy` sources' noise is subtracted, and its own noise `added`, (vectors, m_B).
    """

    def encrypted() -> Iterator[Block]:
        for source in sources:
            for block in _blocks(run, vectors, key.rows):
                count = key.ciphertexts_for(block.shape[1])
                yield receive(run, key, source, Kind.CIPHERTEXT, count), block

    sums = key.multiply(encrypted())
    parts_of_noise = receive_noise(run, key, noisy)
    noise = [0] * key.product_residues if added is None else key.residues(added)
    residues = [(e - r) % key.modulus for e, r in zip(noise, parts_of_noise, strict=True)]
    send(run, key, run.roster.coordinator, Kind.EVALUATED, key.export(sums, residues))


@step("decrypt")
def decrypt_products(run: Run, key: SecretKey, noisy: Sources) -> np.ndarray:
    """Coordinator: decrypt the inner products, and add the `noisy` sources' parts of their noise.

    Returns Python int, (m_A, m_B), or summed (1, m_B).
    """
    parts_of_noise = receive_noise(run, key.public, noisy)
    raws = receive(run, key.public, run.roster.target, Kind.EVALUATED, key.public.product_ciphertexts)
    return key.decrypt_products(raws, parts_of_noise)


def send(run: Run, key: PublicKey, peer: Party, kind: Kind, ciphertexts: Sequence[bytes]) -> None:
    """Send ciphertexts of one length in as few messages as possible, with the fingerprint of their key."""
    for batch, symbols, _ in _messages(key, kind, len(ciphertexts)):
        values = {"key": key.fingerprint, "batch": b"".join(ciphertexts[batch])}
        run.links.send(peer, kind, values, sizes=symbols)


def receive(run: Run, key: PublicKey, peer: Party, kind: Kind, count: int) -> list[bytes]:
    """Receive that many ciphertexts of one length; `ProtocolViolation` if they are under another key."""
    ciphertexts: list[bytes] = []
    for _, symbols, size in _messages(key, kind, count):
        values = run.links.receive(peer, kind, sizes=symbols)
        if values["key"] != key.fingerprint:
            raise ProtocolViolation(f"{peer} sent ciphertexts under another key than the coordinator's")
        payload = values["batch"]
        ciphertexts += [payload[start : start + size] for start in range(0, len(payload), size)]
    return ciphertexts


def _residue_symbols(key: PublicKey) -> dict[str, int]:
    """Return the sizes of the fields of a message of noise."""
    return {"residues": key.product_residues, "residue_bytes": -(-key.modulus.bit_length() // 8)}


def _messages(key: PublicKey, kind: Kind, count: int) -> Iterator[tuple[slice, dict[str, int], int]]:
    """Yield for each message which of `count` ciphertexts it holds, its fields' sizes, and a ciphertext's."""
    lengths = {"ciphertext_bytes": key.ciphertext_bytes, "result_bytes": key.result_ciphertext_bytes}
    size = lengths["ciphertext_bytes" if kind is Kind.CIPHERTEXT else "result_bytes"]
    for batch in blocks(count, max(1, MESSAGE_BYTES // size)):
        yield batch, {"rows": batch.stop - batch.start, **lengths}, size


def _blocks(run: Run, vectors: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """Yield vectors in blocks of rows, int64; report progress after each block."""
    for block, values in parts(vectors, rows):
        yield values.astype(np.int64)
        run.tick(block.stop, vectors.shape[1])

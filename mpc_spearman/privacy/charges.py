"""What several runs of one owner give away together, and when the next would give too much.

Every other rule looks at one run; two runs can give away what neither does alone. So an owner can keep a
ledger of its runs (:mod:`mpc_spearman.privacy.ledger`), and a run is refused

- where its rows differ from an earlier run's by a few: the difference of the two results is about them;
- where a partner would have more than the budget's share of what a column's ranks hold, all runs together.

The identical run is always allowed again, after a failure say: it gives identical numbers, so nothing new.

Rows are compared by a *sketch* of their ids: each id has a 64-bit value and one of 4,096 buckets, both by
keyed BLAKE2b (RFC 7693), and a bucket is the XOR of the values of the ids in it. Sets that differ by d ids
differ in 1 to d buckets, except with chance 2^-64 or less in none, so too small a difference is always seen.
A greater one can look smaller where ids share buckets, and is then refused without need (of 10 ids: about 1
in 100 times). Neither the sketch nor the digests of columns depend on the order of rows.

A column is followed by its name and by a keyed digest of its ranks up to sign. Renamed, reversed or
transformed without a change of order it is still the same column, and so is a changed one of the same name.

What is not seen: a changed cell (its rows are the same rows, and the difference of two results is about that
cell; only the bits are counted again); a column that is renamed and changed at once; a partner under another
name; three or more runs that isolate a row together though no two of them do.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from mpc_spearman.config.fields import Section
from mpc_spearman.config.wording import canonical
from mpc_spearman.data.refusals import show
from mpc_spearman.version import __version__

BUCKETS = 4096


class Fingerprint(Section):
    """One's own input to a run, as only who has the key can tell it. Made by `fingerprint`.

    Attributes
    ----------
    n : int
        Aligned rows.
    inputs : str
        64 hexadecimal digits, equal for the same ids with the same ranked columns in the same order, and for
        nothing else. In what order the rows are changes no number that is published.
        Peers may be told: all it says is whether the input is that of another run.
    sketch : str
        The buckets, 64 bits each, little-endian, in base64.
    ranks : tuple of str
        For each column 32 hexadecimal digits, equal for the same ids with the same ranks, up to sign.
    """

    n: int
    inputs: str
    sketch: str
    ranks: tuple[str, ...]

    def buckets(self) -> NDArray[np.uint64]:
        """Return the sketch as numbers, shape (BUCKETS,)."""
        return np.frombuffer(base64.b64decode(self.sketch), dtype="<u8")


class Peer(Section):
    """Another party of a run.

    Attributes
    ----------
    grant : str
        What it gets to see: ``reveal`` for the coordinator, for the others what ``results`` says.
    columns : int
        How many features it has: m of the other side, 0 for the coordinator.
    inputs : str
        What it states its own `Fingerprint.inputs` to be, by which an identical run is known. It must be
        random where the peer states none, and is ``""`` for the coordinator, which has no input.
    """

    grant: str
    columns: int
    inputs: str


_Bits = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Column(Section):
    """One of the owner's columns in a run.

    Attributes
    ----------
    name : str
    entropy : float
        H = log2(n!/prod t!), the bits that its ranks hold.
    bits : dict of str to float
        For each peer that receives results: E*b, the bits that it gets about this column.
    """

    name: str
    entropy: _Bits
    bits: dict[str, _Bits]

    def share(self, receiver: str) -> float:
        """Return what part of the column a receiver gets; a constant column holds nothing to get."""
        return self.bits.get(receiver, 0.0) / self.entropy if self.entropy else 0.0


class ChargedRun(Section):
    """What a run gives to whom. Two runs that are equal here give identical numbers.

    Attributes
    ----------
    party : str
        The owner, by its name in the plan.
    plan : str
        The shared plan's digest, hexadecimal.
    version : str
        The package's; another one may round otherwise.
    own : Fingerprint
    peers : dict of str to Peer
        All other parties by name, also those that get nothing: other columns of theirs make other numbers.
    columns : tuple of Column
        In the order of ``own.ranks``.
    """

    party: str
    plan: str
    version: str = __version__
    own: Fingerprint
    peers: dict[str, Peer]
    columns: tuple[Column, ...]


class Charge(Section):
    """A run that was allowed, when, and by which approval. It counts though it may have failed since."""

    time: str
    run: ChargedRun
    approval: str = ""


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("is empty, or does not print on one line")
    return text


class Forgotten(Section):
    """What a partner got before this no longer counts, for a reason that the owner gives."""

    time: str
    partner: str
    reason: Annotated[str, AfterValidator(_printable)]


def fingerprint(key: bytes, ids: pa.LargeStringArray, ranks: NDArray[np.int32]) -> Fingerprint:
    """Make the fingerprint of one's own aligned rows and ranked columns.

    Parameters
    ----------
    key : bytes
        32 bytes that nobody else has.
    ids : LargeStringArray
        n different ones (of equal ones two would cancel).
    ranks : ndarray of int32, shape (m, n)
        Centred doubled average ranks, so that reversing a column changes its sign and nothing else.
    """

    def digest(person: bytes, content: bytes, size: int) -> bytes:
        return hashlib.blake2b(content, key=key, person=person, digest_size=size).digest()

    texts = ids.cast(pa.large_binary()).to_pylist()
    keyed = np.frombuffer(b"".join([digest(b"id", text, 16) for text in texts]), dtype="<u8")
    values, places = keyed.reshape(len(ids), 2).T
    buckets = np.zeros(BUCKETS, dtype="<u8")
    np.bitwise_xor.at(buckets, places % BUCKETS, values)
    by_value = np.argsort(values)
    ordered_ids = keyed.reshape(len(ids), 2)[by_value].tobytes()
    of_columns, signs = [], []
    for row in ranks:
        ordered = row[by_value].astype("<i8")
        sign = int(np.sign(ordered[np.argmax(ordered != 0)]))
        of_columns.append(digest(b"ranks", (ordered * sign).tobytes(), 16))
        signs.append(bytes([sign + 1]))
    signed = [column + sign for column, sign in zip(of_columns, signs, strict=True)]
    return Fingerprint(
        n=len(ids),
        inputs=digest(b"inputs", digest(b"ids", ordered_ids, 32) + b"".join(signed), 32).hex(),
        sketch=base64.b64encode(buckets.tobytes()).decode(),
        ranks=tuple(column.hex() for column in of_columns),
    )


def standing(entries: Sequence[Charge | Forgotten]) -> list[tuple[Charge, set[str]]]:
    """Return each distinct run, as first charged, with the partners whose copy of its result counts."""
    found: dict[str, tuple[Charge, set[str]]] = {}
    for entry in entries:
        if isinstance(entry, Charge):
            run = entry.run
            _, holders = found.setdefault(canonical(run.model_dump(mode="json")), (entry, set()))
            holders.update(name for name, peer in run.peers.items() if peer.grant != "nothing")
        else:
            for _, holders in found.values():
                holders.discard(entry.partner)
    return [(charge, holders) for charge, holders in found.values() if holders]


def spent(name: str, ranks: str, receiver: str, run: ChargedRun) -> float:
    """Return what part of a column an earlier run gave a receiver: of the bits it held in that run.

    Columns of the same name or the same ranks are that column. Where the run has two such, their equations
    are the same ones and the greater part counts.
    """
    return max(
        (
            column.share(receiver)
            for column, digest in zip(run.columns, run.own.ranks, strict=True)
            if column.name == name or digest == ranks
        ),
        default=0.0,
    )


def objections(
    run: ChargedRun, entries: Sequence[Charge | Forgotten], *, min_group: int, budget: float
) -> Iterator[str]:
    """Say all that earlier runs have against this one; nothing if it may be charged.

    Parameters
    ----------
    run : ChargedRun
    entries : sequence of Charge or Forgotten
        The ledger's, oldest first.
    min_group : int
        The shared plan's ``privacy.min_group``: rows of two runs may differ by none, or by this many.
    budget : float
        The shared plan's ``privacy.budget``: the part of a column's bits that one receiver may have.
    """
    counting = standing(entries)
    if all(charge.run != run for charge, _ in counting):
        for charge, holders in counting:
            differ = int(np.count_nonzero(run.own.buckets() != charge.run.own.buckets()))
            if 0 < differ < min_group:
                yield (
                    f"the ids differ from those of {_named(charge)} in {differ} of {BUCKETS} buckets, and "
                    f"privacy.min_group asks for none or {min_group}: the two results would give away the "
                    "few rows between them. Use exactly the rows of that run, or others that differ by more. "
                    f"Its result is with {', '.join(sorted(holders))}"
                )
    for receiver in run.peers:
        earlier = [charge for charge, holders in counting if receiver in holders]
        if any(charge.run == run for charge in earlier):
            continue
        for column, ranks in zip(run.columns, run.own.ranks, strict=True):
            given = [(charge, spent(column.name, ranks, receiver, charge.run)) for charge in earlier]
            given = [(charge, part) for charge, part in given if part]
            had, more = sum(part for _, part in given), column.share(receiver)
            if given and more and had + more > budget:
                yield (
                    f"column {show(column.name)}: {receiver} would get {column.bits[receiver]:.1f} of its "
                    f"{column.entropy:.1f} bits ({more:.1%}), and has {had:.1%} of them from earlier runs, "
                    f"the last {_named(given[-1][0])}; privacy.budget allows {budget:.1%} in all. Leave the "
                    "column out, have fewer columns on the other side, or publish less"
                )


def _named(charge: Charge) -> str:
    return f"the run of {charge.time} (plan {charge.run.plan[:8]})"

"""Hooks for child.py that write down everything a role's process sees, and some that break it on purpose.

A recorded role leaves in ``DIRECTORY/<party>``:

``from-<rank>.bin``, ``to-<rank>.bin``
    Every byte that came from, or went to, that rank, as it was on the wire.
``opened.jsonl``
    What the role made of the messages it read: sender's rank, kind, payload after decryption.
``keys.jsonl``
    The X25519 shared secret with each peer, and every subkey asked for.
``share-<number>.npy``, ``opening-<number>.npy``
    Every share put into a CrypTen tensor, and every share given to CrypTen's ``reveal``, in order.
``meeting-point``
    The rendezvous file as it was when all had met.
``refused``
    What the role called that no run may call.

Everything is written at once: a role's process ends without an orderly exit.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import socket
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from mpc_spearman.launch import meeting, role
from mpc_spearman.protocols.mpc import session, sharing
from mpc_spearman.protocols.mpc.crypten_import import ArithmeticSharedTensor, crypten
from mpc_spearman.results import report, result
from mpc_spearman.wire import keys, links, rendezvous, sockets

assert report
assert role  # imported here so that no import happens once the generators refuse to work


def record(order, directory, block_bytes=None):
    """Record a role; `block_bytes` makes the protocol cut the tables into more blocks than it would."""
    place = Path(directory, order.party)
    place.mkdir(parents=True)
    if block_bytes is not None:
        sharing._BLOCK_BYTES = block_bytes
    _record_wire(place, Path(order.meeting_point["file"]))
    _record_messages(place)
    _record_keys(place)
    _record_tensors(place)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(data)


def _note(path: Path, **fields: object) -> None:
    _append(path, json.dumps(fields).encode() + b"\n")


def _record_wire(place: Path, meeting_point: Path) -> None:
    send, receive, join = sockets.Sockets.send, sockets.Sockets.receive, meeting.join

    def recorded_send(self, rank, header, payload):
        _append(place / f"to-{rank}.bin", header + payload)
        send(self, rank, header, payload)

    def recorded_receive(self, rank, size, heard):
        data = receive(self, rank, size, heard)
        _append(place / f"from-{rank}.bin", bytes(data))
        return data

    stores, open_store = [], rendezvous.file_store

    def kept_store(*arguments):
        # The last store to be forgotten removes the file.
        stores.append(open_store(*arguments))
        return stores[-1]

    def recorded_join(*arguments):
        joined = join(*arguments)
        (place / "meeting-point").write_bytes(meeting_point.read_bytes())
        # From here on no byte may go another way than through the two methods above.
        for name in ("socket", "create_connection", "create_server", "socketpair"):
            setattr(socket, name, _refusing(place, f"socket.{name}"))
        dist.init_process_group = _refusing(place, "torch.distributed.init_process_group")
        return joined

    sockets.Sockets.send, sockets.Sockets.receive = recorded_send, recorded_receive
    meeting.join, rendezvous.file_store = recorded_join, kept_store


def _record_messages(place: Path) -> None:
    opened = links.Links._opened

    def recorded(self, peer, frame):
        payload = opened(self, peer, frame)
        _note(
            place / "opened.jsonl",
            rank=peer.number,
            kind=int(frame.header.kind),
            payload=bytes(payload).hex(),
        )
        return payload

    links.Links._opened = recorded


def _record_keys(place: Path) -> None:
    make, subkey = keys.PairKey.__init__, keys.PairKey.subkey

    def recorded_make(self, mine, theirs, me, peer, run_id, plan_digest):
        make(self, mine, theirs, me, peer, run_id, plan_digest)
        self._peer_rank = peer.number
        secret = mine.exchange(keys.X25519PublicKey.from_public_bytes(theirs))
        _note(place / "keys.jsonl", rank=peer.number, purpose="", session="", key=secret.hex())

    def recorded_subkey(self, purpose, name):
        key = subkey(self, purpose, name)
        _note(place / "keys.jsonl", rank=self._peer_rank, purpose=purpose.value, session=name, key=key.hex())
        return key

    keys.PairKey.__init__, keys.PairKey.subkey = recorded_make, recorded_subkey


def _record_tensors(place: Path) -> None:
    numbers = itertools.count()
    from_shares, reveal = ArithmeticSharedTensor.from_shares, ArithmeticSharedTensor.reveal

    def recorded_from_shares(share, *args, **kwargs):
        np.save(place / f"share-{next(numbers):04d}.npy", share.numpy())
        return from_shares(share, *args, **kwargs)

    def recorded_reveal(self, *args, **kwargs):
        np.save(place / f"opening-{next(numbers):04d}.npy", self.share.numpy())
        return reveal(self, *args, **kwargs)

    ArithmeticSharedTensor.from_shares = staticmethod(recorded_from_shares)
    ArithmeticSharedTensor.reveal = recorded_reveal


def _refusing(place: Path, name: str):
    def refuse(*args, **kwargs):
        _append(place / "refused", f"{name}\n".encode())
        raise RuntimeError(f"a run used {name}")

    return refuse


# ---- no clock, no generator ----


def record_frozen(order, directory, block_bytes=None):
    """Record a role whose clock stands still and which has no seedable generator to draw from."""
    record(order, directory, block_bytes)
    _stop_clock()
    _refuse_generators(Path(directory, order.party))


def _stop_clock() -> None:
    """Stop the clocks of ``time`` and the process id; waits with a deadline keep theirs (bound at import)."""
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, lambda: 1.7e9)
        setattr(time, name + "_ns", lambda: 1_700_000_000_000_000_000)
    os.getpid = lambda: 4242


def _refuse_generators(place: Path) -> None:
    """Seed every global generator with a constant, then make all of them refuse to work.

    Refused: the functions of ``random`` and its ``Random`` (not ``SystemRandom``, which is the operating
    system's and has no seed); everything callable in ``numpy.random``; torch's sampling functions and
    methods, ``torch.Generator`` and the seeding functions. All were imported before, so what libraries do at
    import is not touched. C++ code that drew from a default generator all the same would leave its state
    changed, so the states are compared when the role writes its result.
    """
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    python, numpy, pytorch = random.getstate, np.random.get_state, torch.get_rng_state

    def states() -> tuple[object, ...]:
        _, words, position, *rest = numpy()
        return python(), words.tobytes(), position, rest, pytorch().numpy().tobytes()

    before, save = states(), result.Result.save

    def checked_save(self, directory):
        save(self, directory)
        if states() != before:
            raise RuntimeError("a run changed the state of a generator")

    result.Result.save = checked_save

    for name in dir(random):
        if getattr(getattr(random, name), "__self__", None) is random._inst:
            setattr(random, name, _refusing(place, f"random.{name}"))
    random.Random = _refusing(place, "random.Random")
    for name in dir(np.random):
        if not name.startswith("_") and callable(getattr(np.random, name)):
            setattr(np.random, name, _refusing(place, f"numpy.random.{name}"))
    sampling = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson")
    like = ("rand_like", "randn_like", "randint_like")
    seeding = ("Generator", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state")
    for name in (*sampling, *like, *seeding):
        setattr(torch, name, _refusing(place, f"torch.{name}"))
    in_place = (
        "random",
        "uniform",
        "normal",
        "bernoulli",
        "exponential",
        "geometric",
        "cauchy",
        "log_normal",
    )
    for name in (*(f"{method}_" for method in in_place), "bernoulli", "multinomial"):
        setattr(torch.Tensor, name, _refusing(place, f"torch.Tensor.{name}"))


def record_frozen_with_masks_from(order, directory, generator):
    """As `record_frozen`, in a package whose masks come from a generator with a seed."""
    draws = {
        "numpy": lambda shape: np.random.default_rng(7).integers(-(2**63), 2**63, shape),
        "torch": lambda shape: torch.randint(-(2**63), 2**63 - 1, shape).numpy(),
        "random": lambda shape: np.frombuffer(random.randbytes(8 * int(np.prod(shape))), np.int64).reshape(
            shape
        ),
    }
    keys.Stream.ring = lambda self, shape: draws[generator](shape)
    record_frozen(order, directory)


# ---- broken on purpose ----


def record_zero_share_without_ab(order, directory):
    """Record a run whose zero share is made from the coordinator's two keys alone. Every sum still holds."""
    record(order, directory)
    # CrypTen's: previous minus next, where the parties are C, B, A. B's next and A's previous are AB.
    kept = {"C": {"prev": 1, "next": -1}, "B": {"prev": 1}, "A": {"next": -1}}[order.party]

    def without_ab(*size, device=None):
        share = torch.zeros(*size, dtype=torch.int64)
        for name, sign in kept.items():
            stream = crypten.generators[name][torch.device("cpu")]
            share += sign * session._ring_element(*size, generator=stream)
        tensor = ArithmeticSharedTensor(src=-1)
        tensor.share = share
        return tensor

    ArithmeticSharedTensor.PRZS = staticmethod(without_ab)


def break_reveal(order, how):
    """Break CrypTen's ``reveal``; a run that opened its result another way would not notice."""

    def raises(self, dst=None):
        raise RuntimeError("CrypTen's reveal is broken")

    def zeros(self, dst=None):
        return torch.zeros_like(self.share)

    ArithmeticSharedTensor.reveal = {"raises": raises, "zeros": zeros}[how]

"""Hooks for roles' processes without a clock, or without generators, which masks must never come from."""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from scipy import sparse, special, stats
from scipy.cluster import hierarchy

from mpc_spearman.engines.mpc import session
from mpc_spearman.network import control
from mpc_spearman.results import report
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run
from mpc_spearman.wire import keys
from mpc_spearman.wire.channel import Transport
from support.faults import Role, with_transport
from support.recorder import record

#: Imported here so that no import happens once the generators refuse to work.
IMPORTED = (hierarchy, report, session, sparse, special, stats)


def record_frozen(role: Role, run: Run, frame: Any, *, directory: str, **more: Any) -> Result:
    """Record a role whose clock stands still and which has no seedable generator to draw from.

    Beside what :func:`support.recorder.record` leaves, ``meeting-point`` has what the role said over the
    connection of the meeting, and ``refused`` what it called that no run may call.
    """
    place = Path(directory, run.roster.me.name)

    send = control.Control.send

    def watched_send(self: Any, **message: Any) -> None:
        with (place / "meeting-point").open("a") as file:
            file.write(json.dumps(message) + "\n")
        send(self, **message)

    control.Control.send = watched_send  # type: ignore[method-assign]

    def joined(transport: Transport) -> Transport:
        # From here on no byte may go another way than through the transport.
        _refuse(place, socket, "socket", "create_connection", "create_server", "socketpair")
        _refuse(place, dist, "init_process_group")
        return transport

    _stop_clock()
    changed = _refuse_generators(place)
    result = record(role, with_transport(run, joined), frame, directory=directory, **more)
    if changed():
        raise RuntimeError("a run changed the state of a generator")
    return result


def record_frozen_with_masks_from(role: Role, run: Run, frame: Any, *, generator: str, **more: Any) -> Result:
    """As `record_frozen`, in a package whose masks come from a generator with a seed."""
    draws = {
        "numpy": lambda shape: np.random.default_rng(7).integers(-(2**63), 2**63, shape),
        "torch": lambda shape: torch.randint(-(2**63), 2**63 - 1, shape).numpy(),
        "random": lambda shape: np.frombuffer(random.randbytes(8 * np.prod(shape)), "<i8").reshape(shape),
    }
    keys.Stream.ring = lambda self, shape: draws[generator](shape)
    return record_frozen(role, run, frame, **more)


def _refuse(place: Path, owner: Any, *names: str) -> None:
    """Let functions write down that they were called, and fail."""

    def refusing(name: str) -> Any:
        def refuse(*args: Any, **kwargs: Any) -> None:
            with (place / "refused").open("ab", buffering=0) as file:
                file.write(f"{name}\n".encode())
            raise RuntimeError(f"a run used {name}")

        return refuse

    for name in names:
        setattr(owner, name, refusing(f"{owner.__name__}.{name}"))


def _stop_clock() -> None:
    """Stop the clocks of ``time`` and the process id; waits with a deadline keep theirs (bound at import)."""
    names = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    vars(time).update({name: lambda: 1.7e9 for name in names})
    vars(time).update({f"{name}_ns": lambda: 1_700_000_000_000_000_000 for name in names})
    os.getpid = lambda: 4242


def _refuse_generators(place: Path) -> Callable[[], bool]:
    """Seed every global generator with a constant, then make all of them refuse to work.

    That is ``random`` (not ``SystemRandom``, which is the operating system's), all of ``numpy.random``,
    torch's sampling and seeding. Libraries were imported before. C++ code that drew from a default generator
    all the same would leave its state changed: what is returned tells whether one has.
    """
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    python, numpy, pytorch = random.getstate, np.random.get_state, torch.get_rng_state

    def states() -> tuple[object, ...]:
        _, words, position, *gauss = numpy()
        return python(), words.tobytes(), position, gauss, pytorch().numpy().tobytes()

    before = states()
    bound = (name for name in dir(random) if getattr(getattr(random, name), "__self__", None) is random._inst)
    _refuse(place, random, *tuple(bound), "Random")
    public = (name for name in dir(np.random) if not name.startswith("_"))
    _refuse(place, np.random, *[name for name in public if callable(getattr(np.random, name))])
    sampling = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson")
    like = ("rand_like", "randn_like", "randint_like")
    seeding = ("Generator", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state")
    _refuse(place, torch, *sampling, *like, *seeding)
    names = ("random", "uniform", "normal", "bernoulli", "exponential", "geometric", "cauchy", "log_normal")
    _refuse(place, torch.Tensor, *(f"{name}_" for name in names), "bernoulli", "multinomial")
    return lambda: states() != before

"""What the coordinator's host forwards: bytes it cannot read or change unnoticed, of one pair or another."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.meetings import PARTIES, Meeting
from support.processes import EVER

Meet = Callable[..., Meeting]
SECRET_WORDS = b"ranks of a patient " * 500


def test_the_coordinator_ends_when_the_others_have(meet: Meet) -> None:
    """It could be done before its host has passed on the last of what the others say to each other."""
    run = meet(listen={})
    for member in PARTIES:
        run.come(member)
    met = run.wait()
    done = threading.Thread(target=met["C"].sockets.close)
    done.start()
    met["A"].sockets.send(1, b"last", b" words")
    assert bytes(met["B"].sockets.receive(2, 10, lambda: None)) == b"last words"
    assert done.is_alive()
    met["A"].sockets.close()
    met["B"].sockets.close()
    done.join(EVER)
    assert not done.is_alive()

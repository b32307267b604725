"""Messages between the workers of one party."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.wire import team as module
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from mpc_spearman.wire.team import Team, fields
from support.memory_network import Wires
from support.processes import EVER

WORKERS = tuple(Party(name, Role.SOURCE, number) for number, name in enumerate(("A", "A/1", "A/2")))


@pytest.mark.parametrize(
    ("chunk", "timeout", "computes"), [(4, 2.0, 3.0), (6, EVER, 0.0), (1 << 22, EVER, 0.0)]
)
def test_workers_wait_for_longer_than_the_time_out_while_their_first_one_computes(
    chunk: int, timeout: float, computes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)  # of blocks of 8 bytes
    wires, dealt, vectors = Wires(3), dict[int, np.ndarray](), np.arange(20, dtype=np.int32).reshape(2, 10)

    def work(me: Party) -> None:
        links = Links(fields, Roster(WORKERS, me, star=True), wires.end(me.number), Meter(), timeout)
        team = Team(Roster(WORKERS, me, star=True), links)
        if team.leads:
            time.sleep(computes)  # what it hears meanwhile are signs of life
            dealt[0] = team.deal(vectors, block=8)
        else:
            dealt[team.shard] = team.dealt(2, 10, "<i4")
            team.hear()
        team.close()

    threads = [threading.Thread(target=work, args=(me,)) for me in WORKERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(EVER)
    for shard, part in dealt.items():
        np.testing.assert_array_equal(part, vectors[:, shard::3])
    assert sorted(dealt) == [0, 1, 2]

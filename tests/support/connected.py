"""Parties that have said hello, in threads of this process: for what only parts of their roles do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mpc_spearman.config import Plan
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Roster
from mpc_spearman.protocols.connect import agree_keys, connect
from mpc_spearman.run import Run
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from support.processes import EVER
from support.wires import Wires

T = TypeVar("T")


def together(plan: Plan, play: Callable[[Run], T], links: Callable[..., Links] = Links) -> dict[str, T]:
    """Connect all parties of a plan; return what `play` returns at each, by party."""
    wires, found, errors = Wires(len(plan.names), capacity=1 << 26), dict[str, T](), list[BaseException]()

    def take_part(number: int, name: str) -> None:
        try:
            roster, meter = Roster.of(plan, name), Meter()
            joined = links(partial(VIEW.fields, plan.shared()), roster, wires.end(number), meter, EVER)
            run = Run(plan, roster, lambda: joined, meter, lambda *_: None, lambda _: None)
            agree_keys(plan, roster, joined)
            connect(run)
            found[name] = play(run)
            joined.close()
        except BaseException as error:
            errors.append(error)
            wires.cut(number)

    threads = [threading.Thread(target=take_part, args=one, daemon=True) for one in enumerate(plan.names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(EVER)
        assert not thread.is_alive(), "a party does not end"
    for error in errors:
        raise error
    return found

"""A run's roles in threads of this process, over wires in memory: for all that needs no process.

They run the code that roles in processes run, :func:`mpc_spearman.launch.role.run_role`, to the farewell.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pandas as pd

from mpc_spearman.config import Plan
from mpc_spearman.identity import Identity, Signer
from mpc_spearman.launch.role import run_role
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Roster
from mpc_spearman.protocols.connect import agree_keys, connect
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from support.memory_network import Wires
from support.processes import EVER

T = TypeVar("T")


@dataclass(frozen=True)
class Ended:
    """How a run ended: by party, its result or what it raised."""

    results: Mapping[str, Result]
    errors: Mapping[str, BaseException]

    def result(self, party: str = "C") -> Result:
        for error in self.errors.values():
            raise error
        return self.results[party]

    def classes(self) -> dict[str, str]:
        return {party: type(error).__name__ for party, error in self.errors.items()}


def run_in_memory(
    plan: Plan | Mapping[str, Plan],
    tables: Mapping[str, pd.DataFrame],
    hooks: Mapping[str, Callable[..., Result]] | None = None,
    keys: Mapping[str, Identity] | None = None,
    **seams: Any,
) -> Ended:
    """Run all roles of a plan, or of one plan per party, to their end.

    By `hooks` a party's role is run by something that is called as ``run_role`` is, with ``run_role`` itself
    before all else. `keys` are everybody's, where the plan has their identities; otherwise they are made for
    this run. `seams` are other arguments of every party's ``run_role``.
    """
    plans = plan if isinstance(plan, Mapping) else dict.fromkeys(plan.names, plan)
    hooks = hooks or {}
    wires = Wires(max(len(its.names) for its in plans.values()))
    made = keys or {name: Identity.new() for its in plans.values() for name in its.names}
    public = {name: str(key) for name, key in made.items()}
    results: dict[str, Result] = {}
    errors: dict[str, BaseException] = {}

    def decline(its: Plan, roster: Roster, error: Exception) -> None:
        end = wires.end(roster.me.number)
        Links(partial(VIEW.fields, its.shared()), roster, end, Meter(), EVER, last_words=EVER).abort(error)

    def play(party: str, its: Plan) -> None:
        number = its.roster(party).me.number
        role = hooks.get(party, _patient)
        try:
            results[party] = role(
                run_role,
                its.restricted_to(party),
                party,
                tables.get(party),
                ready=lambda roster: Signer(made[party], public, rehearsal=keys is None),
                join=lambda roster, meter, agree: agree(wires.end(number)),
                decline=lambda roster, meter, error: decline(its, roster, error),
                **seams,
            )
        except BaseException as error:
            errors[party] = error
        finally:
            wires.cut(number)  # as the end of its process does

    _all_at_once(play, plans.items())
    return Ended(results, errors)


def together(plan: Plan, play: Callable[[Run], T]) -> dict[str, T]:
    """Let all parties of a plan say hello; return what `play`, a part of their roles, returns at each."""
    wires, found, errors = Wires(len(plan.names), capacity=1 << 26), dict[str, T](), list[BaseException]()

    def take_part(number: int, name: str) -> None:
        try:
            roster, meter = plan.roster(name), Meter()
            links = Links(partial(VIEW.fields, plan.shared()), roster, wires.end(number), meter, EVER)
            run = Run(plan, roster, lambda: links, meter, lambda *_: None, lambda _: None)
            agree_keys(plan, roster, links)
            connect(run)
            found[name] = play(run)
            links.close()
        except BaseException as error:
            errors.append(error)
            wires.cut(number)

    _all_at_once(take_part, enumerate(plan.names))
    for error in errors:
        raise error
    return found


def _all_at_once(play: Callable[..., None], parties: Iterable[tuple[Any, Any]]) -> None:
    threads = [threading.Thread(target=play, args=one, name=str(one[0]), daemon=True) for one in parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(EVER)
        assert not thread.is_alive(), f"the role of {thread.name} does not end"


def _patient(run: Callable[..., Result], *given: Any, **seams: Any) -> Result:
    """Run a role that tells all others that it stops, however busy the machine is."""
    return run(*given, **{"links": partial(Links, last_words=EVER), **seams})

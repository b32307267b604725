"""A run's roles in threads of this process, over wires in memory: for all that needs no process.

They run the code that roles in processes run, :func:`mpc_spearman.launch.role_process.run_role`, to the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from mpc_spearman.config import Plan
from mpc_spearman.identity import Identity, Signer
from mpc_spearman.launch.role_process import run_role
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Roster
from mpc_spearman.protocols.connect import connect
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from support.memory_network import Wires
from support.processes import EVER


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


class MemoryMeeting:
    """The meeting of a run in memory. `rehearsal` says whether the keys are in no plan."""

    def __init__(
        self, plan: Plan, roster: Roster, wires: Wires, keys: Mapping[str, Identity], *, rehearsal: bool
    ) -> None:
        self._plan, self._roster, self._wires = plan, roster, wires
        public = {name: str(key) for name, key in keys.items()}
        self.signer = Signer(keys[roster.me.name], public, rehearsal=rehearsal)
        self._joins = False

    def join(self, meter: Meter, agree: Callable[[Transport], None]) -> None:
        self._joins = True
        agree(self._wires.end(self._roster.me.number))

    def decline(self, error: Exception) -> None:
        if not self._joins:
            view, end = partial(VIEW.fields, self._plan.terms), self._wires.end(self._roster.me.number)
            Links(view, self._roster, end, Meter(), EVER, abort_seconds=EVER).abort(error)


def run_in_memory(
    plan: Plan | Mapping[str, Plan],
    tables: Mapping[str, pd.DataFrame],
    hooks: Mapping[str, Callable[..., Result]] | None = None,
    keys: Mapping[str, Identity] | None = None,
    **context: Any,
) -> Ended:
    """Run all roles of a plan, or of one plan per party, to their end.

    By `hooks` a party's role is run by something that is called as ``run_role`` is, with ``run_role`` itself
    before all else. `keys` are everybody's, where the plan has their identities; otherwise they are made for
    this run. `context` are other fields of every party's `Run`.
    """
    plans = plan if isinstance(plan, Mapping) else dict.fromkeys(plan.names, plan)
    wires = Wires(max(len(party_plan.names) for party_plan in plans.values()))
    identities = keys or {name: Identity.new() for party_plan in plans.values() for name in party_plan.names}
    # Who stops tells all others, however busy the machine is.
    context.setdefault("make_links", partial(Links, abort_seconds=EVER))
    results: dict[str, Result] = {}
    errors: dict[str, BaseException] = {}

    def play(party: str, party_plan: Plan) -> None:
        roster = party_plan.roster(party)
        meeting = MemoryMeeting(party_plan, roster, wires, identities, rehearsal=keys is None)
        run = Run(party_plan.restricted_to(party), roster, meeting, **context)
        role = (hooks or {}).get(party)
        try:
            frame = tables.get(party)
            results[party] = run_role(run, frame) if role is None else role(run_role, run, frame)
        except BaseException as error:
            errors[party] = error
        finally:
            wires.cut(roster.me.number)  # as the end of its process does

    threads = [
        threading.Thread(target=play, args=party, name=party[0], daemon=True) for party in plans.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(EVER)
        assert not thread.is_alive(), f"the role of {thread.name} does not end"
    return Ended(results, errors)


def play_connected(plan: Plan, play: Callable[[Run], Any]) -> Mapping[str, Any]:
    """Let all parties of a plan connect; return what `play`, a part of their roles, returns at each."""

    def part(role: Any, run: Run, frame: Any) -> Any:
        connect(run)
        value = play(run)
        run.links.close()
        return value

    ended = run_in_memory(plan, {}, dict.fromkeys(plan.names, part))
    for error in ended.errors.values():
        raise error
    return ended.results

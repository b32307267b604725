"""Run roles, or scripts in their place, as real processes."""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from mpc_spearman.config import Plan
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.local import arrow, assignments
from mpc_spearman.launch.meeting_point import MeetingPoint, Rehearsal
from mpc_spearman.launch.supervisor import Outcome, launch
from support.plans import plan
from support.processes import EVER
from support.server import fork_server, hooked

ROOT = Path(__file__).parents[2]


def run_roles(
    plan: Plan | Mapping[str, Plan],
    frames: Mapping[str, pd.DataFrame],
    staging: Path,
    hook: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Outcome]:
    """Run the roles of a plan in real processes; each party writes to ``staging/<party>``.

    `hook` and `arguments` are as in server.py. Roles that do not end by themselves are hardly ever ended.
    """
    plans = plan if isinstance(plan, Mapping) else dict.fromkeys(plan.names, plan)
    points = {name: MeetingPoint(rehearsal=keys) for name, keys in Rehearsal.of(tuple(plans)).items()}
    hooks = hooked(hook, **(arguments or {}))
    streams = {party: arrow(party, frame, plans[party].owner(party)) for party, frame in frames.items()}
    assigned = [
        replace(one, meeting_point=points[name], environment={**one.environment, **hooks})
        for name, party_plan in plans.items()  # with one set of keys, whatever their plans
        for one in assignments(party_plan, staging, streams)
        if one.party == name
    ]
    return launch(assigned, fork_server(), grace=EVER)


# ---- scripts

#: A fork server whose roles execute the script of their party. Before it forks it draws from every
#: generator, so that roles could share their states.
PROGRAM = """
import os, random, secrets, signal, ssl, sys, time
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from mpc_spearman.errors import TableError
from mpc_spearman.launch import forkserver
ssl.RAND_bytes(1), X25519PrivateKey.generate(), random.random(), np.random.random(), secrets.token_bytes(1)
def role(assignment, supervisor):
    def phase(name, done=0, of=0): supervisor.say(phase=name, done=done, of=of)
    def note(text): supervisor.say(note=str(text))
    def done(): supervisor.say(done=True); os._exit(0)
    exec(assignment.environment["DO"], globals() | locals())
forkserver.main(sys.argv[1], role)
"""


@cache
def server() -> ForkServer:
    script_server = ForkServer([sys.executable, "-c", PROGRAM])
    atexit.register(script_server.close)
    return script_server


def do(folder: Path, bodies: Mapping[str, str] | str, **more: Any) -> dict[str, Outcome]:
    """Let forked roles of C, B and A execute scripts, by party or one for all; a role without one is done."""
    run_plan = plan(**more.pop("settings", {}))
    texts = dict.fromkeys(run_plan.names, bodies) if isinstance(bodies, str) else bodies
    assigned = [
        replace(one, environment={**one.environment, "DO": texts.get(one.party, "done()")})
        for one in assignments(run_plan, folder, more.pop("tables", {}))
    ]
    return launch(assigned, more.pop("server", None) or server(), **{"grace": EVER, **more})


def notes(folder: Path, body: str, **more: Any) -> dict[str, list[str]]:
    """Let all roles execute a script; return what each noted."""
    texts: dict[str, list[str]] = {}
    note = lambda party, text: texts.setdefault(party, []).append(text)  # noqa: E731
    outcomes = do(folder, body + "\ndone()", note=note, **more)
    assert {outcome.kind for outcome in outcomes.values()} == {"returned"}, outcomes
    return texts


def server_of(roles: list[int]) -> int:
    """Return the process that forked these roles."""
    parents = {
        int(re.findall(r"PPid:\s*(\d+)", Path(f"/proc/{role}/status").read_text())[0]) for role in roles
    }
    assert len(parents) == 1
    return parents.pop()

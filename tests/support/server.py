"""Roles' processes for tests, with hooks.

``python tests/support/server.py PROTOCOL`` is the program of a `ForkServer`.
The environment variable `HOOK` of a role names a hook and its arguments, in JSON:
``["module:function", {…}]``, the module in this folder. The hook takes the place of ``run_role``: it is
called as that is, with ``run_role`` before all else and the arguments by name, and runs it with other plans,
transports, links or callbacks.
"""

from __future__ import annotations

import importlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

HOOK = "MPC_SPEARMAN_TEST_HOOK"


def hooked(hook: str | None, /, **arguments: Any) -> dict[str, str]:
    """Return what to add to a role's environment for a hook."""
    return {} if hook is None else {HOOK: json.dumps([hook, arguments])}


def command() -> list[str]:
    """Return the command of this program."""
    return [sys.executable, str(Path(__file__).absolute())]


def prepare(assignment: Any, supervisor: Any) -> None:
    """Let a role run with the hook that its environment names."""
    from mpc_spearman.launch import role

    if HOOK in assignment.environment:
        hook, arguments = json.loads(assignment.environment[HOOK])
        module, function = hook.split(":")
        wrapped = getattr(importlib.import_module(f"support.{module}"), function)
        role.run_role = partial(wrapped, role.run_role, **arguments)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from mpc_spearman.launch import forkserver

    forkserver.main(sys.argv[1], prepare)

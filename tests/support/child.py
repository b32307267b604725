"""A role's process with a hook: ``python tests/support/child.py HOOK ARGUMENTS``, started by harness.py.

HOOK is ``module:function`` in this folder. In every role's process it takes the place of ``run_role``: it is
called as that is, with ``run_role`` itself before all else and ARGUMENTS by name, and runs it with other plans,
transports, links or callbacks.
"""

from __future__ import annotations

import importlib
import json
import sys
from functools import partial
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])


def main() -> None:
    from mpc_spearman.launch import role, role_process

    module, function = sys.argv[1].split(":")
    hook = getattr(importlib.import_module(f"support.{module}"), function)
    role.run_role = partial(hook, role.run_role, **json.loads(sys.argv[2]))
    role_process.main()


if __name__ == "__main__":
    main()

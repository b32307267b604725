"""A role's process with a hook: ``python tests/child.py HOOK ARGUMENTS``, started by harness.py.

HOOK is ``module:function`` in this folder, called as ``function(order, **arguments)`` in every role's process
before it runs; it changes what the role does (records, kills, corrupts) by patching the package.
"""

import importlib
import json
import sys
from pathlib import Path

from mpc_spearman.launch import role_process


def main() -> None:
    module, function = sys.argv[1].split(":")
    sys.path[0] = str(Path(__file__).parents[1])
    hook = getattr(importlib.import_module(f"support.{module}"), function)
    arguments = json.loads(sys.argv[2])
    original = role_process._run

    def run(launcher, order, stream):
        hook(order, **arguments)
        original(launcher, order, stream)

    role_process._run = run
    role_process.main()


if __name__ == "__main__":
    main()

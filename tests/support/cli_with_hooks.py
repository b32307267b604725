"""The command, but its roles have hooks: ``python tests/support/cli_with_hooks.py …``; see server.py."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from mpc_spearman.cli.main import main
from mpc_spearman.launch import forkserver, join, local, supervisor
from mpc_spearman.launch.processes import executing
from support import server

local.ForkServer = partial(forkserver.ForkServer, server.command())  # type: ignore[misc]
join.supervisor = supervisor
supervisor.launch = partial(supervisor.launch, start=executing(server.command()))
sys.exit(main(sys.argv[1:]))

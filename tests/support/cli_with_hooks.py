"""The command, but its roles have hooks: ``python tests/support/cli_with_hooks.py …``; see server.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from mpc_spearman.cli.main import main
from mpc_spearman.launch import forkserver, processes
from support import server

forkserver.PROGRAM[:] = processes.COMMAND[:] = server.command()
sys.exit(main(sys.argv[1:]))

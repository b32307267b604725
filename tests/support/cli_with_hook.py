"""The command with a hook in its roles: ``python tests/cli_with_hook.py HOOK ARGUMENTS COMMAND-LINE…``.

See child.py for hooks.
"""

import sys
from functools import partial
from pathlib import Path

from mpc_spearman.cli import main
from mpc_spearman.launch import supervisor

child = [sys.executable, str(Path(__file__).with_name("child.py")), *sys.argv[1:3]]
supervisor.launch = partial(supervisor.launch, command=child)
sys.exit(main.main(sys.argv[3:]))

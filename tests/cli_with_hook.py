"""The command with a hook in its roles: ``python tests/cli_with_hook.py HOOK ARGUMENTS COMMAND-LINE…``.

See child.py for hooks.
"""

import sys
from functools import partial
from pathlib import Path

from mpc_spearman import cli, launch

child = [sys.executable, str(Path(__file__).with_name("child.py")), *sys.argv[1:3]]
launch.launch = partial(launch.launch, command=child)
sys.exit(cli.main(sys.argv[3:]))

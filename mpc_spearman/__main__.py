"""``python -m mpc_spearman``: the command ``mpc-spearman``."""

import sys

from mpc_spearman.cli.main import main

sys.exit(main())

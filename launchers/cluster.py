"""Run one role of a plan under torchrun: ``torchrun … launchers/cluster.py PLAN ...``, as in docs/hosts.md.

The node's rank is the party's number: 0 the coordinator, 1 the target, then the sources in the plan's order.
"""

import sys

from mpc_spearman.cli.main import main

sys.exit(main(["join", *sys.argv[1:]]))

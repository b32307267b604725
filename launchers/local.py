"""Run all roles of a plan on this machine: ``python launchers/local.py PLAN ...``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mpc_spearman.cli.main import main

sys.exit(main(["local", *sys.argv[1:]]))

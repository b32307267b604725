"""Run all roles of a plan on this machine: ``python launchers/local.py PLAN ...``."""

import sys

from mpc_spearman.cli.main import main

sys.exit(main(["local", *sys.argv[1:]]))

"""CrypTen is not among what pip installs by itself."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import importlib.machinery, sys
class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "crypten" else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
from mpc_spearman.errors import SetupError
try:
    import mpc_spearman.engines.mpc.crypten_import
except SetupError as error:
    print(error)
"""


def test_without_it_the_command_that_installs_it_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert "pip install --no-deps crypten==0.4.1" in done.stdout

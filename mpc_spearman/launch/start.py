"""The program of every process of this package: ``python start.py MODULE ARGUMENTS`` calls MODULE's `main`.

``python -m`` would put the current folder first on the path, and a script its own folder: a file
``random.py`` there would be executed in a process that holds a private table. (``python -P`` avoids that,
from Python 3.11 on.) Here only installed modules, those in ``PYTHONPATH``, and this package can be imported.
The package is the one that this file belongs to, even if its folder is not on the path.
"""

from __future__ import annotations

import sys


def command(module: str, *arguments: str) -> list[str]:
    """Return the command of a process that runs a module of this package."""
    return [sys.executable, __file__, module, *arguments]


def main(module: str, *arguments: str) -> None:
    """Run a module of the package that this file is part of."""
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # this file's folder
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    spec = spec_from_file_location("mpc_spearman", Path(__file__).absolute().parents[1] / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["mpc_spearman"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    import_module(module).main(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])

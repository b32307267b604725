"""Modules import only from further down the list of packages, and no imports go in a circle."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import mpc_spearman

ROOT = Path(mpc_spearman.__file__).parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "mpc_spearman").rglob("*.py")
}
#: The packages of the list, from the commands down.
ORDER = re.findall(r"^``(\w+)``  ", mpc_spearman.__doc__ or "", re.M)


def imported(module: str) -> set[str]:
    """Return the package's modules that a module imports anywhere in it, for types alone as well."""
    modules = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mpc_spearman"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules |= {name if name in MODULES else str(node.module) for name in names}
    return modules - {module}


def place(module: str) -> int:
    package = module.split(".")[1] if "." in module else ""
    return ORDER.index(package) if package in ORDER else len(ORDER)


def test_no_module_imports_from_further_up_the_list() -> None:
    assert {"findings", "results", "levels", "data"} <= {*ORDER}
    up = [
        (module, dependency)
        for module in MODULES
        for dependency in imported(module)
        if module not in ("mpc_spearman", "mpc_spearman.__main__") and place(dependency) < place(module)
    ]
    assert not up


def test_no_modules_import_each_other_in_a_circle() -> None:
    inside = {*MODULES} - {"mpc_spearman", "mpc_spearman.__main__"}
    assert [*TopologicalSorter({name: imported(name) & inside for name in inside}).static_order()]

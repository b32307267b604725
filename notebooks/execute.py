"""Execute the notebooks again and keep the executed files, in place or elsewhere.

    python notebooks/execute.py [--small] [--out DIR] [NAME ...]

`--small` puts small parameters after each notebook's own (the cell tagged "parameters"), as the tests do:
every cell is executed, in seconds instead of minutes, and the figures mean nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
#: What `--small` puts after the parameters, by notebook.
SMALL = {
    "walkthrough": "ROWS = 3000",
    "categories": "ROWS = 1000",
    "adjusting": "ROWS = 1500",
    "cluster": "ROWS = 300",
    "cost_he_vs_mpc": """\
LEVELS = ["differences"]
SQUARE = 2
ROWS = dict.fromkeys(ROWS, [12]) | {"MPC": [12, 24]}
COLUMNS = dict.fromkeys(COLUMNS, [2])""",
    "what_is_learnt": "ROWS = 200",
}


def main() -> None:
    """Execute the notebooks named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SMALL)} (default: all)")
    parser.add_argument("--small", action="store_true", help="with small parameters; needs --out")
    parser.add_argument(
        "--out", type=Path, default=HERE, metavar="DIR", help="where to write (default: in place)"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(SMALL):
        parser.error(f"there is no notebook {min(unknown)!r}; there are {', '.join(SMALL)}")
    if options.small and options.out.resolve() == HERE:
        parser.error("--small needs --out: notebooks are kept with their full parameters")
    for name in options.names or SMALL:
        start = time.monotonic()
        notebook = execute(name, small=options.small)
        options.out.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, options.out / f"{name}.ipynb")
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)


def execute(name: str, *, small: bool = False) -> nbformat.NotebookNode:
    """Execute a notebook; what this machine and moment add beside the outputs is taken out."""
    notebook = nbformat.read(HERE / f"{name}.ipynb", as_version=4)
    if small:
        (at,) = (i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
        notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(SMALL[name]))
    where = {"metadata": {"path": HERE}}
    NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it was executed
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


if __name__ == "__main__":
    main()

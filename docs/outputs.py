"""Write the output of commands into the pages: ``python docs/outputs.py``.

In a page, ``<!-- first 7 lines of: mpc-spearman … -->`` stands above a code block that holds them. A test
compares.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import generated

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
BLOCK = re.compile(r"(<!-- first (\d+) lines of: (.+?) -->\n+```\n).*?(?=^```$)", re.M | re.S)


def printed(command: str) -> str:
    """Run a command, without keeping its results; return what it prints."""
    with TemporaryDirectory() as out:
        words = shlex.split(command)[1:]
        words += [] if words[0] != "local" else ["--out", f"{out}/run"]
        run = [sys.executable, "-m", "mpc_spearman", *words]
        return subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def filled(text: str, printed: Callable[[str], str] = printed) -> str:
    """Return a page's text with the lines that its commands print now."""

    def block(match: re.Match[str]) -> str:
        lines = printed(match[3]).splitlines()[: int(match[2])]
        return match[1] + "".join(f"{line.rstrip()}\n" for line in lines)

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    for page in PAGES:
        generated.update(page, filled)

"""The pages that people read, taken apart: sections, tables, code, commands, links."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

ROOT = Path(__file__).parents[2]


def script(path: str) -> ModuleType:
    """Import a script of the repository that is in no package, and the modules beside it that it imports."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str((ROOT / path).parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


class Page:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        # A comment in a code block looks like a heading, and what is commented out is not read.
        self.prose = re.sub(r"^ *```.*?^ *```|<!--.*?-->", "", self.text, flags=re.M | re.S)

    def __repr__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def anchors(self) -> set[str]:
        """What a link may name after ``#``, as GitHub makes it of a heading."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.M)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    @property
    def links(self) -> list[str]:
        return re.findall(r"\]\(([^)\s]+)\)", self.prose)

    def section(self, title: str) -> str:
        """The text under a heading, up to the next heading of any level."""
        (text,) = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", self.prose, re.M | re.S)
        return str(text)

    def blocks(self, language: str = "") -> list[str]:
        """A text's code blocks in one language."""
        # All fences at once: the end of one in another language must not pass for a beginning.
        fenced = re.findall(r"^ *```(\w*)\n(.*?)^ *```", self.text, re.M | re.S)
        return [dedent(text) for name, text in fenced if name == language]

    def lines(self, start: str) -> list[str]:
        """The lines of a text's code blocks that begin with `start`."""
        return [line for block in self.blocks() for line in block.splitlines() if line.startswith(start)]

    def commands(self) -> list[list[str]]:
        """Every `mpc-spearman …` in a code block or between backticks, as arguments."""
        lines = [line for block in self.blocks() for line in block.splitlines()] + code(self.prose)
        return [shlex.split(line)[1:] for line in lines if line.startswith("mpc-spearman ")]


def rows(text: str, first: str) -> list[list[str]]:
    """Body cells of the tables in `text` whose header begins with `first`, one after the other."""
    tables = [
        block for block in re.findall(r"^\|.*(?:\n\|.*)*", text, re.M) if block.startswith(f"| {first}")
    ]
    assert tables, f"no table begins with {first!r}"
    lines = [line for block in tables for line in block.splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def code(text: str) -> list[str]:
    return [" ".join(snippet.split()) or snippet for snippet in re.findall(r"`([^`]+)`", text)]


PAGES = {
    str(path.relative_to(ROOT)): Page(path)
    for path in (
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "data" / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
README = PAGES["README.md"]
#: Pages about the package as it is: the changelog also speaks of what has been.
CURRENT = [page for name, page in PAGES.items() if name != "CHANGELOG.md"]

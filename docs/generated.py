"""Put generated text into a page: it stands between the line of its command and the end of what it made."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path


def filled(page: str, script: str, content: Callable[[str], str]) -> str:
    """Return a page's text with new content at every place of a script of docs/.

    `content` returns it, without a line end, by the word in brackets that follows the command at this place.
    """
    place = rf"(<!-- made by: python docs/{script}(?: \((\w+)\))? -->\n).*?(<!-- end of what is made -->)"
    return re.sub(place, lambda match: f"{match[1]}{content(match[2])}\n{match[3]}", page, flags=re.S)


def with_links(text: str) -> str:
    """Return a docstring's or description's first paragraph for a page, with links to other pages."""
    paragraph = " ".join(text.partition("\n\n")[0].split()).replace("``", "`")
    return re.sub(r"docs/([\w-]+)\.md(#[\w-]+)?", r"[\1](\1.md\2)", paragraph)


def update(path: Path, new_text: Callable[[str], str]) -> None:
    """Replace a page's text."""
    path.write_text(new_text(path.read_text(encoding="utf-8")), encoding="utf-8")

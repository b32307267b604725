"""Write the table of docs/errors.md: ``python docs/errors_table.py``, from each error's docstring."""

from __future__ import annotations

import re
from pathlib import Path

from mpc_spearman.errors import ERRORS

PAGE = Path(__file__).with_name("errors.md")
BLOCK = re.compile(
    r"(<!-- made by: python docs/errors_table.py -->\n).*?(<!-- end of what is made -->)", re.S
)


def filled(text: str) -> str:
    """Return the page with the errors of the code, by exit code."""
    lines = ["| code | error class | meaning |", "|---:|---|---|", "| 0 | | done |"]
    for error in sorted(ERRORS.values(), key=lambda error: error.exit_code):
        if error.__name__ != "NotRevealed":  # no command ends with it
            said = " ".join((error.__doc__ or "").partition("\n\n")[0].split()).replace("``", "`")
            said = re.sub(r"docs/([\w-]+)\.md(#[\w-]+)?", r"[\1](\1.md\2)", said)
            lines += [f"| {error.exit_code} | `{error.__name__}` | {said} |"]
    lines += ["| 130 | | Ctrl-C: no process is left, nothing half-written (143 by SIGTERM, 129 by SIGHUP). |"]
    return BLOCK.sub(lambda found: found[1] + "\n".join(lines) + f"\n{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

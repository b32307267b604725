"""Write the table of docs/errors.md: ``python docs/errors_table.py``, from each error's docstring."""

from __future__ import annotations

from pathlib import Path

import generated

from mpc_spearman.errors import ERRORS

PAGE = Path(__file__).with_name("errors.md")


def filled(text: str) -> str:
    """Return the page with the errors of the code, by exit code."""
    lines = ["| code | error class | meaning |", "|---:|---|---|", "| 0 | | done |"]
    for error in sorted(ERRORS.values(), key=lambda error: error.exit_code):
        if error.__name__ != "NotRevealed":  # no command ends with it
            meaning = generated.with_links(error.__doc__ or "")
            lines += [f"| {error.exit_code} | `{error.__name__}` | {meaning} |"]
    lines += ["| 130 | | Ctrl-C: no process is left, nothing half-written (143 by SIGTERM, 129 by SIGHUP). |"]
    return generated.filled(text, "errors_table.py", lambda place: "\n".join(lines))


if __name__ == "__main__":
    generated.update(PAGE, filled)

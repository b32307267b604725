"""Write docs/api.md, the public names of the package with their signatures: ``python docs/api.py``.

Griffe reads the source, without importing it, and writes signatures.
"""

from __future__ import annotations

from pathlib import Path

import griffe

from mpc_spearman import _HOME

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("api.md")
INTRODUCTION = """\
# Public API

<!-- made by: python docs/api.py -->

Everything that `import mpc_spearman` offers. Other modules may change in any version. The docstrings
(`help(mpc_spearman.correlate)`) describe parameters, errors and who learns what.
A `PlanSource` is a plan: a path, the content of a YAML file as a mapping, or a `Plan`.
"""


def page() -> str:
    """Return the page: each public name, its signature and the beginning of its docstring."""
    package = griffe.load("mpc_spearman", search_paths=[ROOT])
    parts = [INTRODUCTION]
    for name, module in sorted(_HOME.items(), key=lambda item: item[0].lower()):
        parts.append(f"## {name}\n\n{_described(package[f'{module}.{name}'])}")
    return "\n".join(parts) + "<!-- end of what is made -->\n"


def _described(member: griffe.Object | griffe.Alias) -> str:
    """Return a function's signature and summary, or a class's summary and what it offers."""
    if isinstance(member, griffe.Alias):
        member = member.final_target
    summary = _summary(member)
    if member.is_class:
        lines = [f"- `{_call(part)}`: {_summary(part)}" for part in member.members.values() if _public(part)]
        return "\n".join([summary, "", *lines, ""]) if lines else f"{summary}\n"
    if member.is_function:
        return f"```text\n{_call(member)}\n```\n\n{summary}\n"
    return f"{summary}\n"


def _public(part: griffe.Object | griffe.Alias) -> bool:
    is_listed = part.is_function or "property" in part.labels  # docs/plan.md lists a plan's keys
    return not part.name.startswith("_") and part.has_docstring and is_listed


def _call(part: griffe.Object | griffe.Alias) -> str:
    """Return a function's signature, or a property's name and type."""
    return str(part.signature()) if part.is_function else f"{part.name}: {part.annotation}"


def _summary(part: griffe.Object | griffe.Alias) -> str:
    text = part.docstring.value if part.docstring else ""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

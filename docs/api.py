"""Write docs/api.md, the public names of the package with their signatures: ``python docs/api.py``.

Griffe reads the source, without importing it, and writes signatures.
"""

from __future__ import annotations

from pathlib import Path

import generated
import griffe

from mpc_spearman import _HOME

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("api.md")


def filled(text: str) -> str:
    """Return the page with each public name, its signature and the beginning of its docstring."""
    package = griffe.load("mpc_spearman", search_paths=[ROOT])
    names = sorted(_HOME.items(), key=lambda item: item[0].lower())
    parts = (f"\n## {name}\n\n{_described(package[f'{module}.{name}'])}" for name, module in names)
    return generated.filled(text, "api.py", lambda place: "\n".join(parts))


def _described(member: griffe.Object | griffe.Alias) -> str:
    """Return a function's signature and summary, or a class's summary and what it offers."""
    if isinstance(member, griffe.Alias):
        member = member.final_target
    if member.is_function:
        return f"```text\n{_call(member)}\n```\n\n{_summary(member)}"
    offers = [f"- `{_call(part)}`: {_summary(part)}" for part in member.members.values() if _public(part)]
    return "\n".join([_summary(member), "", *offers] if member.is_class and offers else [_summary(member)])


def _public(part: griffe.Object | griffe.Alias) -> bool:
    is_listed = part.is_function or "property" in part.labels  # docs/plan.md lists a plan's keys
    return not part.name.startswith("_") and part.has_docstring and is_listed


def _call(part: griffe.Object | griffe.Alias) -> str:
    """Return a function's signature, or a property's name and type."""
    return str(part.signature()) if part.is_function else f"{part.name}: {part.annotation}"


def _summary(part: griffe.Object | griffe.Alias) -> str:
    return generated.with_links(part.docstring.value if part.docstring else "")


if __name__ == "__main__":
    generated.update(PAGE, filled)

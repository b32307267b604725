"""Write the tables of docs/who_learns_what.md: ``python docs/who_learns_what.py``.

They come from `mpc_spearman.learnt` for every possible plan, so they list exactly what the codec lets
through. A test compares them with the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import get_args

import generated

from mpc_spearman import learnt, load_plan
from mpc_spearman.config import Estimator, Grant, OpenedTo, Plan, Protocol, Reveal, least
from mpc_spearman.errors import PlanError
from mpc_spearman.levels.view import statements
from mpc_spearman.wire.kinds import place

PAGE = Path(__file__).with_name("who_learns_what.md")
NAMES = {"coordinator": "C", "target": "B", "source": "A"}

#: A value for each of `SETTINGS`, and a set of such.
Choice = tuple[str, ...]
Choices = set[Choice]
#: What plans differ in besides the level, each with its values; "grant" is what the receiver is granted, and
#: "adjusting" are the parties that adjust.
SETTINGS = {
    "protocol": get_args(Protocol),
    "estimator": get_args(Estimator),
    "grant": get_args(Grant),
    "opened_to": get_args(OpenedTo),
    "top": ("", "3"),
    "alignment": ("same", "intersect"),
    "precision": ("statistical", "exact"),
    "A's noise": ("results", "inputs"),
    "B's noise": ("results", "inputs"),
    "proofs": ("", "proofs"),
    "adjusting": ("", "A", "B", "AB"),
}
#: How a cell says that a setting has one value.
PHRASES = {
    "protocol": "if `{}`",
    "estimator": "if `{}`",
    "grant": "if granted `{}`",
    "opened_to": "if opened to the {}",
    "alignment": "if `{}`",
    "precision": "if `{}`",
    "A's noise": "if A has `noise: {}`",
    "B's noise": "if B has `noise: {}`",
}
#: How a cell says who of these adjusts.
ADJUST = {
    frozenset({"A", "AB"}): "if A has `adjust`",
    frozenset({"B", "AB"}): "if B has `adjust`",
    frozenset({"A", "B", "AB"}): "if A or B has `adjust`",
    frozenset({"", "B"}): "if A has no `adjust`",
    frozenset({"", "A"}): "if B has no `adjust`",
    frozenset({""}): "if nobody has `adjust`",
}


def plans(level: str, role: str) -> list[tuple[Choice, Plan]]:
    """Return each valid plan of a level, for every choice that concerns a role."""
    return _plans(level, "sources" if role == "source" else "target")


@cache
def _plans(level: str, receiver: str) -> list[tuple[Choice, Plan]]:
    return list(_valid_plans(level, receiver))


def _valid_plans(level: str, receiver: str) -> Iterator[tuple[Choice, Plan]]:
    for choice in product(*SETTINGS.values()):
        protocol, estimator, grant, opened_to, top, alignment, precision, *noise, proofs, adjusting = choice
        plain = (*noise, proofs) == ("results", "results", "")
        if not plain and (level not in ("coefficients", "strengths") or adjusting):
            continue  # not even to be read: that takes most of the time
        source, target = (
            {"name": name, "noise": where, "adjust": ["age"] * (name in adjusting)}
            for name, where in zip("AB", noise, strict=True)
        )
        plan = {
            "protocol": protocol,
            "reveal": level,
            "estimator": estimator,
            "results": {receiver: grant, "precision": precision},
            "opened_to": opened_to,
            "top": int(top) if top else None,
            "alignment": alignment,
            "proofs": bool(proofs),
            "parties": {"coordinator": {"name": "C"}, "target": target, "sources": [source]},
        }
        try:
            yield choice, load_plan(plan)
        except PlanError:  # a protocol or level that is not available, or a grant beyond it
            continue


def levels() -> list[str]:
    """List the levels that can be run, weakest privacy first."""
    return [level for level in get_args(Reveal) if plans(level, "target")]


def facts(role: str) -> dict[tuple[str, str, str], dict[str, str]]:
    """Map what a role learns, from whom, in which phase, to when it does at each level.

    Results first, the rest in the order of the protocol, what only failing runs send last.
    """
    when: dict[tuple[str, str, str], dict[str, Choices]] = {}
    every: dict[str, Choices] = {}
    for level in levels():
        for choice, plan in plans(level, role):
            every.setdefault(level, set()).add(choice)
            for row in learnt(plan):
                if row["party"] == NAMES[role]:
                    senders = [name for name in row["from"].split(", ") if name in NAMES.values()]
                    key = (row["what"], ", ".join(senders), row["phase"])
                    when.setdefault(key, {}).setdefault(level, set()).add(choice)
    return {
        key: {level: cell(when[key].get(level, set()), every[level]) for level in every}
        for key in sorted(when, key=lambda key: place(key[0], key[2]))
    }


def cell(choices: Choices, every: Choices) -> str:
    """Say under which of the valid choices something is learnt."""
    if choices in (set(), every):
        return "yes" if choices else "–"
    values = [set(values) for values in zip(*choices, strict=True)]
    if choices != set(product(*values)) & every:
        raise ValueError("several settings decide together: a cell cannot say that")
    by_setting = dict(zip(SETTINGS, values, strict=True))
    possible = dict(zip(SETTINGS, map(set, zip(*every, strict=True)), strict=True))
    # What is not combined above, or follows, is not said: noise on inputs and adjusting imply an estimator.
    implied = set[str]()
    if by_setting["proofs"] == {"proofs"}:
        implied |= {"adjusting"}
    elif {"inputs"} in (by_setting["A's noise"], by_setting["B's noise"]):
        implied |= {"estimator", "precision", "adjusting"}
    if "" not in by_setting["adjusting"]:
        implied |= {"estimator", "A's noise", "B's noise", "proofs"}
    return ", ".join(
        phrase(setting, values)
        for setting, values in by_setting.items()
        if values != possible[setting] and setting not in implied
    )


def phrase(setting: str, values: set[str]) -> str:
    """Say that a setting has one of these values."""
    if setting in ("top", "proofs"):
        return f"{'without' if values == {''} else 'with'} `{setting}`"
    if setting == "adjusting":
        return ADJUST[frozenset(values)]
    return PHRASES[setting].format(least(values) if setting == "grant" else "".join(values))


def filled(text: str) -> str:
    """Return the page with the tables of the code."""
    return generated.filled(text, "who_learns_what.py", lambda place: tables())


def tables() -> str:
    """Return what each role learns, and what owners state, as Markdown."""
    by_role = {role: facts(role) for role in NAMES}
    always = {
        role: {key[0] for key, cells in rows.items() if set(cells.values()) == {"yes"}}
        for role, rows in by_role.items()
    }
    common = set.intersection(*always.values())
    lines = []
    for role, rows in by_role.items():
        lines += [
            f"**{NAMES[role]}, the {role}**, learns | from | "
            + " | ".join(f"`{level}`" for level in levels())
        ]
        lines += ["---|---" + "|:---:" * len(levels())]
        lines += [
            f"{what} | {sender} | " + " | ".join(cells.values())
            for (what, sender, _), cells in rows.items()
            if what not in common
        ]
        lines += [""]
    lines += _stated()
    shared = dict.fromkeys(what for rows in by_role.values() for what, _, _ in rows if what in common)
    lines += ["At every level, every party also learns " + "; ".join(shared) + "."]
    return "\n".join(lines)


def _stated() -> list[str]:
    """List what owners state about their columns without noise, at any level."""
    whole, used = dict[str, None](), dict[str, None]()
    for level, role in product(levels(), NAMES):
        for choice, plan in plans(level, role):
            if "statistical" in choice:
                for owner in ("A", "B"):
                    of_table, of_rows = statements(plan, owner)
                    whole |= dict.fromkeys(of_table)
                    used |= dict.fromkeys(of_rows)
    return [
        "Without noise an owner states about its columns, of all rows of its table, whichever a run uses:",
        "",
        *(f"- {what}" for what in whole),
        "",
        "and of the rows of the run, to C alone, at `differences` and `coefficients`:",
        "",
        *(f"- {what}" for what in used),
        "",
    ]


if __name__ == "__main__":
    generated.update(PAGE, filled)

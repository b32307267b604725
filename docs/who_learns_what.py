"""Write the tables of docs/who_learns_what.md: ``python docs/who_learns_what.py``.

They come from `mpc_spearman.learnt` for every possible plan, so they list exactly what the codec lets
through. A test compares them with the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import get_args

from mpc_spearman import learnt, load_plan
from mpc_spearman.config import Estimator, Grant, OpenedTo, Plan, Protocol, Reveal, least
from mpc_spearman.errors import PlanError
from mpc_spearman.levels.view import statements
from mpc_spearman.wire.kinds import place

PAGE = Path(__file__).with_name("who_learns_what.md")
BEGIN = "<!-- made by: python docs/who_learns_what.py -->"
END = "<!-- end of what is made -->"

NAMES = {"coordinator": "C", "target": "B", "source": "A"}

# (protocol, estimator, what `results` grants the receiver, opened_to, top, alignment, precision, the source's
# noise, the target's noise, proofs, who adjusts), and a set of such.
Choice = tuple[str, ...]
SETTINGS = (
    *(get_args(kind) for kind in (Protocol, Estimator, Grant, OpenedTo)),
    ("", "3"),
    ("same", "intersect"),
    ("statistical", "exact"),
    ("results", "inputs"),
    ("results", "inputs"),
    ("", "proofs"),
    ("", "A", "B", "AB"),
)
#: By whom of these adjusts where something is learnt: how a cell says it.
ADJUST = {
    frozenset({"A", "AB"}): "if A has `adjust`",
    frozenset({"B", "AB"}): "if B has `adjust`",
    frozenset({"A", "B", "AB"}): "if A or B has `adjust`",
    frozenset({"", "B"}): "if A has no `adjust`",
    frozenset({"", "A"}): "if B has no `adjust`",
    frozenset({""}): "if nobody has `adjust`",
}
Choices = set[Choice]


def plans(level: str, role: str) -> tuple[tuple[Choice, Plan], ...]:
    """Return each valid plan of a level, for every choice that concerns a role."""
    return _plans(level, "sources" if role == "source" else "target")


@cache
def _plans(level: str, receiver: str) -> tuple[tuple[Choice, Plan], ...]:
    return tuple(_valid_plans(level, receiver))


def _valid_plans(level: str, receiver: str) -> Iterator[tuple[Choice, Plan]]:
    for choice in product(*SETTINGS):
        plain = choice[7:10] == ("results", "results", "")
        if not plain and (level not in ("coefficients", "strengths") or choice[10]):
            continue  # not even to be read: that takes most of the time
        plan = {
            "protocol": choice[0],
            "reveal": level,
            "estimator": choice[1],
            "results": {receiver: choice[2], "precision": choice[6]},
            "opened_to": choice[3],
            "top": int(choice[4]) if choice[4] else None,
            "alignment": choice[5],
            "proofs": bool(choice[9]),
            "parties": {
                "coordinator": {"name": NAMES["coordinator"]},
                "target": {
                    "name": NAMES["target"],
                    "noise": choice[8],
                    "adjust": ["age"] * ("B" in choice[10]),
                },
                "sources": [
                    {"name": NAMES["source"], "noise": choice[7], "adjust": ["age"] * ("A" in choice[10])}
                ],
            },
        }
        try:
            yield choice, load_plan(plan)
        except PlanError:  # a protocol or level that is not available, or a grant beyond it
            continue


def levels() -> list[str]:
    """List the levels that can be run, weakest privacy first."""
    return [level for level in get_args(Reveal) if any(plans(level, "target"))]


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
    values = [{choice[i] for choice in choices} for i in range(len(SETTINGS))]
    if choices != set(product(*values)) & every:
        raise ValueError("several settings decide together: a cell cannot say that")
    phrases = {
        0: lambda protocol: f"if `{protocol}`",
        1: lambda estimator: f"if `{estimator}`",
        2: lambda grants: f"if granted `{grants}`",
        3: lambda party: f"if opened to the {party}",
        4: lambda top: "with `top`" if top else "without `top`",
        5: lambda alignment: f"if `{alignment}`",
        6: lambda precision: f"if `{precision}`",
        7: lambda noise: f"if A has `noise: {noise}`",
        8: lambda noise: f"if B has `noise: {noise}`",
        9: lambda proofs: f"{'with' if proofs else 'without'} `proofs`",
    }
    # What is not combined above, or follows, is not said: noise on inputs and adjusting imply an estimator.
    implied = set[int]()
    if {"inputs"} in values[7:9] or values[9] == {"proofs"}:
        implied |= {10} if values[9] == {"proofs"} else {1, 6, 10}
    if "" not in values[10]:
        implied |= {1, 7, 8, 9}
    parts = [
        ADJUST[frozenset(settings)]
        if i == 10
        else phrases[i](least(settings) if i == 2 else "".join(settings))
        for i, settings in enumerate(values)
        if settings != {choice[i] for choice in every} and i not in implied
    ]
    return ", ".join(parts)


def tables() -> str:
    """Make the Markdown that stands between `BEGIN` and `END`."""
    known = {role: facts(role) for role in NAMES}
    always = {
        role: {key[0] for key, cells in rows.items() if set(cells.values()) == {"yes"}}
        for role, rows in known.items()
    }
    common = set.intersection(*always.values())
    lines = []
    for role, rows in known.items():
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
    shared = dict.fromkeys(what for rows in known.values() for what, _, _ in rows if what in common)
    lines += ["At every level, every party also learns " + "; ".join(shared) + "."]
    return "\n".join(lines)


def _stated() -> list[str]:
    """List what owners state about their columns without noise, at any level."""
    whole, used = dict[str, None](), dict[str, None]()
    for level, role in product(levels(), NAMES):
        for choice, plan in plans(level, role):
            if choice[6] == "statistical":
                for owner in ("A", "B"):
                    for found, facts in zip((whole, used), statements(plan, owner), strict=True):
                        found |= dict.fromkeys(facts)
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


def main() -> int:
    """Put the tables into the page; return 1 if it has no place for them."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        print(f"{PAGE} has no lines {BEGIN} and {END}", file=sys.stderr)
        return 1
    PAGE.write_text(f"{before}{BEGIN}\n{tables()}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Texts about plans: keys, values, problems and differences, as error messages show them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from mpc_spearman.config.fields import KINDS, allowed_text
from mpc_spearman.errors import HandshakeError, PlanMismatch, ProtocolViolation

#: The location of a value in a plan: keys, and positions in lists, outermost first.
Location = tuple[str | int, ...]

_LONGEST_SHOWN = 60
_MOST_DIFFERENCES = 50


def shown(value: object) -> str:
    """Write a value as in a plan, on one short line, for an error text."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    try:
        # `repr`, since it escapes control characters
        text = repr(str(value) if isinstance(value, Path) else value)
    except (ValueError, RecursionError):  # numbers that Python refuses to write, lists without end
        text = "a value too long to show"
    address, mark, secret = text.partition("://")  # what follows may be a password
    return _cut(f"{address}{mark}{'…' if secret else ''}")


def dotted(location: Location) -> str:
    """Return a location as settings write it: ``parties.sources.0.id``."""
    return ".".join(p if isinstance(p, str) and p.isprintable() and p else shown(p) for p in location)


def nearest(word: object, names: tuple[str, ...]) -> str:
    """Return ``"; did you mean 'x'?"`` for the valid name closest to `word`, or nothing."""
    by_lower = {name.lower(): name for name in names}
    close = get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def explain(problem: ErrorDetails, plan: type[BaseModel]) -> tuple[Location, str]:
    """Return the location and the text for one of pydantic's problems: the value, and what is allowed."""
    location = tuple(part for part in problem["loc"] if part not in KINDS)
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return location, _unknown_key(location, plan)
    if kind == "invalid_key":
        return location, f"{shown(location[-1])} is not a key; keys are text"
    if kind == "missing":
        return location, "is missing; every plan needs it"
    field, section = _resolve(location, plan)
    values, words = choices(field.annotation), allowed_text(field)
    if kind == "value_error":
        scalar = isinstance(value, (str, int, float, Path))
        offer = f"; allowed: {', '.join(values)}" if values else ""
        return location, f"{f'{shown(value)} ' if scalar else ''}{problem['ctx']['error']}{offer}"
    if value is None:
        advice = "" if field.is_required() else "; leave the key out to use its default"
        return location, f"null is not a value here{advice}"
    refusal = f"is not {words or problem['msg']}"
    if kind == "literal_error":
        # The values of this place: a key may take other words as well as a mapping to words.
        values = ast.literal_eval(f"[{problem['ctx']['expected'].replace(' or ', ', ')}]")
        or_mapping = f", or {words}" if problem["loc"][-1] == KINDS[0] else ""
        refusal = f"is not allowed; allowed: {', '.join(values)}{or_mapping}{nearest(value, values)}"
    elif kind == "model_type" and section is not None:
        refusal = f"is not a mapping; write {', '.join(section.model_fields)} below it"
    elif kind == "string_type":
        refusal = "is not text; put it in quotes"
    elif kind in ("int_type", "float_type") and isinstance(value, str):
        refusal = f"is text, not {words}"  # otherwise a number in quotes would be called no number
    elif kind == "tuple_type":
        word = nearest(value, ("flags",)) if location[-2:-1] == ("encode",) else ""
        refusal += word or "; write it in brackets, [...], or start each item with '- '"
    return location, f"{shown(value)} {refusal}"


_KEYS_INSTEAD = "parties are identified by keys: docs/hosts.md#keys"
_FORM_INSTEAD = "write he.form: literal for the paper to the letter"
_NOISE_INSTEAD = "noise protects rows, limited by privacy.loss and policy.loss"
_ONE_PROCESS_INSTEAD = (
    "a party is one process, which uses all processors of its host; where Paillier needed several hosts, use "
    "he.scheme: bfv"
)
_NOISE_RULES = ("min_group", "min_rows_per_feature", "budget")
#: Keys of earlier versions, by their last two parts without positions, and what to do instead.
_REPLACED = {
    **dict.fromkeys(("network.tls", "network.secret", "network.pins", "policy.tls"), _KEYS_INSTEAD),
    **dict.fromkeys(("he.pairs", "he.packing"), _FORM_INSTEAD),
    **{f"{section}.{rule}": _NOISE_INSTEAD for section in ("privacy", "policy") for rule in _NOISE_RULES},
    **{f"{role}.workers": _ONE_PROCESS_INSTEAD for role in ("coordinator", "target", "sources")},
    "shards": _ONE_PROCESS_INSTEAD,
    "table.path": "name the file itself, table: FILE; files of any size are read",
}


def keys(section: type[BaseModel], above: Location = ()) -> Iterator[tuple[Location, FieldInfo]]:
    """Yield every key of a section and of the sections in it, with its location without positions."""
    for name, field in section.model_fields.items():
        yield (*above, name), field
        if inner := model_in(field.annotation):
            yield from keys(inner, (*above, name))


def _unknown_key(location: Location, plan: type[BaseModel]) -> str:
    key, place = location[-1], tuple(part for part in location if isinstance(part, str))
    section = _resolve(location[:-1], plan)[1] if location[1:] else plan
    if instead := _REPLACED.get(dotted(place[-2:])):
        return f"no longer exists, remove it: {instead}"
    if places := [place for place, _ in keys(plan) if place[-1] == key]:
        named = (dotted(place) if place[1:] else f"{key}, at the top of the plan" for place in places)
        return f"there is no such key here; it is {' or '.join(named)}"
    names = tuple(section.model_fields) if section else ()
    return f"there is no such key; keys here: {', '.join(names)}{nearest(key, names)}"


def _resolve(location: Location, plan: type[BaseModel]) -> tuple[FieldInfo, type[BaseModel] | None]:
    """Return the field at a location, and the section that the field holds, if any."""
    fields, place = dict(keys(plan)), tuple(part for part in location if isinstance(part, str))
    section = model_in(fields[place].annotation) if place in fields else None
    while place not in fields:  # a key of a mapping, such as a column's name
        place = place[:-1]
    return fields[place], section


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a key holds, directly or in a list; None if it holds none."""
    if get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)


def choices(annotation: Any) -> tuple[str, ...]:
    """Return the values that a key can have, if its type lists them."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next(filter(None, map(choices, get_args(annotation))), ())


def canonical(content: object) -> str:
    """Return `content` as canonical JSON: ASCII, keys sorted, no spaces, no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def spoken(digest: bytes) -> str:
    """Return a digest in groups of four hexadecimal digits, for people who read it to each other."""
    return digest.hex(" ", 2)


def differences(here: str, there: str) -> list[str]:
    """Return a line for each key in which two shared plans, as canonical JSON, differ, sorted by key.

    For instance ``network.timeout: 60.0 here, 30.0 there``. The peer's values are escaped and shortened, so
    that they can be printed. `ProtocolViolation` if a text is not canonical JSON of a plan.
    """
    values_here, values_there = _leaves(here), _leaves(there)
    # Compared as JSON, not as Python values, for which 60 == 60.0 and True == 1.
    lines = sorted(
        f"{_key(place)}: {_cut(values_here.get(place, 'absent'))} here, "
        f"{_cut(values_there.get(place, 'absent'))} there"
        for place in values_here.keys() | values_there.keys()
        if values_here.get(place) != values_there.get(place)
    )
    more = len(lines) - _MOST_DIFFERENCES
    return lines if more <= 0 else [*lines[:_MOST_DIFFERENCES], f"and {more} more keys"]


def mismatch(
    me: object, my_version_and_plan: tuple[str, str], peer: object, peers_version_and_plan: tuple[str, str]
) -> HandshakeError | None:
    """Return the error for a peer whose version or shared plan differs; None if neither does."""
    (my_version, my_plan), (peers_version, peers_plan) = my_version_and_plan, peers_version_and_plan
    if peers_version != my_version:
        both = f"{peer} runs version {peers_version[:50]!r}, {me} {my_version!r}"
        return HandshakeError(f"{both}: all parties have to install the same version")
    if peers_plan != my_plan and (differing := differences(my_plan, peers_plan)):
        return PlanMismatch(f"the plans of {me} (here) and {peer} (there) differ: " + "; ".join(differing))
    return None


def _leaves(text: str) -> dict[Location, str]:
    """Return the scalars, lists of scalars and empty objects in canonical JSON by location, each as JSON."""

    def walk(content: object, place: Location) -> Iterator[tuple[Location, str]]:
        is_scalar_list = isinstance(content, list) and not any(
            isinstance(item, (dict, list)) for item in content
        )
        if isinstance(content, (dict, list)) and content and not is_scalar_list:
            for part, item in content.items() if isinstance(content, dict) else enumerate(content):
                yield from walk(item, (*place, part))
        elif place:
            yield place, canonical(content)

    try:
        content = json.loads(text)
        # This comparison also refuses NaN, and repeated keys, of which `json` keeps the last.
        if not isinstance(content, dict) or canonical(content) != text:
            raise ValueError
        return dict(walk(content, ()))
    except (ValueError, RecursionError):
        raise ProtocolViolation("what a peer sent as its plan is not a plan's canonical JSON") from None


def _key(place: Location) -> str:
    return _cut(".".join(json.dumps(part)[1:-1] if isinstance(part, str) else str(part) for part in place))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"

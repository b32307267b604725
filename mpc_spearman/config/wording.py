"""The words about plans: how a key, a value, a problem and a difference are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from mpc_spearman.config.fields import allowed_text
from mpc_spearman.errors import HandshakeError, PlanMismatch, ProtocolViolation

#: Where a value sits in a plan: keys, and positions in lists, from the outside in.
Location = tuple[str | int, ...]

#: Tells a table that is a file from one that is a query; pydantic puts it where a key would be in a location.
TABLE_KINDS = ("(file)", "(query)")

_LONGEST_SHOWN = 60
_MOST_DIFFERENCES = 50


def shown(value: object) -> str:
    """Write a value as a plan would, on one short line, for an error text."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    try:
        # not str: repr escapes whatever a terminal should not be sent
        text = repr(str(value) if isinstance(value, Path) else value)
    except (ValueError, RecursionError):  # numbers that Python refuses to write, lists without end
        text = "a value too long to show"
    address, mark, secret = text.partition("://")  # what follows may be a password
    return _cut(f"{address}{mark}{'…' if secret else ''}")


def dotted(location: Location) -> str:
    """Write a location as overrides do: ``parties.sources.0.id``."""
    return ".".join(p if isinstance(p, str) and p.isprintable() and p else shown(p) for p in location)


def nearest(word: object, names: tuple[str, ...]) -> str:
    """Return ``"; did you mean 'x'?"`` for the valid name closest to `word`, or nothing."""
    by_lower = {name.lower(): name for name in names}
    close = get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def explain(problem: ErrorDetails, plan: type[BaseModel]) -> tuple[Location, str]:
    """Turn one of pydantic's problems with a `plan` into its location, the value and what is allowed."""
    location = tuple(part for part in problem["loc"] if part not in TABLE_KINDS)
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return location, _unknown_key(location, plan)
    if kind == "invalid_key":
        return location, f"{shown(location[-1])} is not a key; keys are text"
    if kind == "missing":
        return location, "is missing; every plan needs it"
    field, model = _resolve(location, plan)
    allowed = choices(field.annotation) if field else ()
    offer = f"; allowed: {', '.join(allowed)}" if allowed else ""
    if kind == "value_error":
        scalar = isinstance(value, (str, int, float, Path))
        return location, f"{f'{shown(value)} ' if scalar else ''}{problem['ctx']['error']}{offer}"
    if value is None:
        how = "" if field is None or field.is_required() else "; leave the key out to use its default"
        return location, f"null is not a value here{how}"
    what = f"is not {(allowed_text(field) if field else '') or problem['msg']}"
    if kind == "literal_error":
        what = f"is not allowed{offer}{nearest(value, allowed)}"
    elif kind == "model_type" and model is not None:
        what = f"is not a mapping; write {', '.join(model.model_fields)} below it"
    elif kind == "string_type":
        what = "is not text; put it in quotes"
    elif kind in ("int_type", "float_type") and isinstance(value, str):
        what = f"is text, {what.removeprefix('is ')}"  # a number in quotes would be said to be none
    elif kind == "tuple_type":
        what += "; write it in brackets, [...], or start each item with '- '"
    return location, f"{shown(value)} {what}"


_BY_KEYS = "parties are identified by keys: docs/hosts.md#keys"
_BY_FORM = "write he.form: literal for the paper to the letter"
_BY_NOISE = "noise protects rows, limited by privacy.loss and policy.loss"
_BY_ONE_PROCESS = (
    "a party is one process, which uses all processors of its host; where Paillier needed several hosts, use "
    "he.scheme: bfv"
)
_RULES = ("min_group", "min_rows_per_feature", "budget")
#: Keys of earlier versions, by their last two parts without positions, and what took their place.
_REPLACED = {
    **dict.fromkeys(("network.tls", "network.secret", "network.pins", "policy.tls"), _BY_KEYS),
    "table.path": "name the file itself, table: FILE; files of any size are read",
    "table.memory": "write memory beside table",
    **dict.fromkeys(("he.pairs", "he.packing"), _BY_FORM),
    **dict.fromkeys((f"{section}.{key}" for section in ("privacy", "policy") for key in _RULES), _BY_NOISE),
    **dict.fromkeys(("shards", "coordinator.workers", "target.workers", "sources.workers"), _BY_ONE_PROCESS),
}


def _unknown_key(location: Location, plan: type[BaseModel]) -> str:
    _, model = _resolve(location[:-1], plan)
    names = tuple(model.model_fields) if model else ()
    if instead := _REPLACED.get(dotted(tuple(part for part in location if isinstance(part, str))[-2:])):
        return f"no longer exists, remove it: {instead}"
    return f"there is no such key; keys here: {', '.join(names)}{nearest(location[-1], names)}"


def _resolve(location: Location, plan: type[BaseModel]) -> tuple[FieldInfo | None, type[BaseModel] | None]:
    """Follow a location through the models to its field, and the model below that, if any."""
    field: FieldInfo | None = None
    model: type[BaseModel] | None = plan
    for part in location:
        if isinstance(part, str):
            field = model.model_fields.get(part) if model else field  # that of the keys of a mapping
            model = model_in(field.annotation) if field else None
    return field, model


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a key holds, or whose list it is."""
    if get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)


def choices(annotation: Any) -> tuple[str, ...]:
    """Return the values that a key can have, where its type lists them."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next(filter(None, map(choices, get_args(annotation))), ())


def canonical(content: object) -> str:
    """Return the one JSON text for `content`: ASCII, keys sorted, no spaces, no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def spoken(digest: bytes) -> str:
    """Write a digest in groups of four hexadecimal digits, as people read it to each other."""
    return digest.hex(" ", 2)


def differences(mine: str, theirs: str) -> list[str]:
    """Name the keys in which two plans' shared parts, as canonical JSON, differ; none if they are equal.

    Such as ``network.timeout: 60.0 here, 30.0 there``, sorted by key. What came from the peer is escaped and
    cut short, so it can be printed. `ProtocolViolation` if a text is not canonical JSON of a plan.
    """
    here, there = _leaves(mine), _leaves(theirs)
    # Compared as JSON, not as Python values, for which 60 == 60.0 and True == 1.
    found = sorted(
        f"{_key(place)}: {_cut(here.get(place, 'absent'))} here, {_cut(there.get(place, 'absent'))} there"
        for place in here.keys() | there.keys()
        if here.get(place) != there.get(place)
    )
    more = len(found) - _MOST_DIFFERENCES
    return found if more <= 0 else [*found[:_MOST_DIFFERENCES], f"and {more} more keys"]


def mismatch(
    me: object, mine: tuple[str, str], peer: object, theirs: tuple[str, str]
) -> HandshakeError | None:
    """Return how a peer's version and shared plan differ from this party's; None if they do not."""
    if theirs[0] != mine[0]:
        both = f"{peer} runs version {theirs[0][:50]!r}, {me} {mine[0]!r}"
        return HandshakeError(f"{both}: all parties have to install the same version")
    if theirs[1] != mine[1] and (differing := differences(mine[1], theirs[1])):
        return PlanMismatch(f"the plans of {me} (here) and {peer} (there) differ: " + "; ".join(differing))
    return None


def _leaves(text: str) -> dict[Location, str]:
    """Take canonical JSON apart into scalars, lists of scalars and empty objects, each written as JSON."""

    def walk(content: object, place: Location) -> Iterator[tuple[Location, str]]:
        of_scalars = isinstance(content, list) and not any(isinstance(item, (dict, list)) for item in content)
        if isinstance(content, (dict, list)) and content and not of_scalars:
            for part, item in content.items() if isinstance(content, dict) else enumerate(content):
                yield from walk(item, (*place, part))
        elif place:
            yield place, canonical(content)

    try:
        content = json.loads(text)
        # One text per content also rules out NaN, and repeated keys, which JSON would keep the last of.
        if not isinstance(content, dict) or canonical(content) != text:
            raise ValueError
        return dict(walk(content, ()))
    except (ValueError, RecursionError):
        raise ProtocolViolation("what a peer sent as its plan is not a plan's canonical JSON") from None


def _key(place: Location) -> str:
    return _cut(".".join(json.dumps(part)[1:-1] if isinstance(part, str) else str(part) for part in place))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"

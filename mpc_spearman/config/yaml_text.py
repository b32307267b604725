"""YAML text as people type it, in plans and settings: every value is read as it looks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address
from typing import Any

import yaml

from mpc_spearman.config.wording import Location

# A plan has tens of values; aliases of aliases make billions of a few lines.
_MOST_NODES = 10_000


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values that a document comes to once every alias is written out."""
    if id(node) not in known:
        known[id(node)] = 1  # an alias to what it stands in: `plain` says that it is without end
        children = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
        inside = () if isinstance(node, yaml.ScalarNode) else children
        known[id(node)] += sum(_expanded(child, known) for child in inside)
    return known[id(node)]


def plain(value: object) -> Any:
    """Copy into dicts and lists, so that an override never reaches a second place through an alias."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class _Loader(yaml.SafeLoader):
    """A safe loader to which a value without quotes is what it looks like.

    PyYAML's own takes 010 for 8, 1:30 for 90, no for false, ~ for nothing and 2024-01-01 for a date. Here
    these are text; numbers are decimal. A value that its tag does not fit, such as !!int x, is named.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


_Loader.yaml_implicit_resolvers = {}
for _tag, _first, _pattern in (
    ("bool", "tTfF", "true|True|TRUE|false|False|FALSE"),
    ("null", ["n", "N", ""], "null|Null|NULL|"),
    ("int", "+-0123456789", "[-+]?(0|[1-9][0-9]*)"),
    (
        "float",
        "+-.0123456789",
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    ),
    ("merge", "<", "<<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"({_pattern})$"), list(_first))

# What a comment begins with, where it is one on purpose: '#' and a space, or nothing.
_NO_COMMENT = re.compile(r"[ \t]+#[^\s#]")


def _misread(
    text: str, node: yaml.Node, location: Location, seen: set[int]
) -> Iterator[tuple[Location, str]]:
    """Find keys given twice, of which YAML keeps the last, and values that it cuts: ``my #1.csv``."""
    if id(node) in seen:  # an alias: reported where its anchor stands (and it may contain itself)
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            inside = location
            if isinstance(key, yaml.ScalarNode):
                inside, line = (*location, key.value), key.start_mark.line + 1
                if first := lines.get((key.tag, key.value)):
                    yield inside, f"the key is given twice, on lines {first} and {line}; keep one of them"
                lines.setdefault((key.tag, key.value), line)
            yield from _misread(text, value, inside, seen)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield from _misread(text, item, (*location, position), seen)
    elif (
        isinstance(node, yaml.ScalarNode)
        and node.style is None
        and _NO_COMMENT.match(text, node.end_mark.index)
    ):
        hint = "put the value in quotes, or a space after the '#'"
        yield location, f"YAML reads what follows '#' as a comment: {hint}"


# A host's address in brackets, with a port or without, which to YAML begins a list.
_BRACKETS = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\](:[0-9]+)?")


def _addresses(text: str) -> list[str]:
    """Find IPv6 addresses as they are written with a port."""

    def is_one(inside: str) -> bool:
        try:
            return bool(IPv6Address(inside))
        except ValueError:
            return False

    return [found[0] for found in _BRACKETS.finditer(text) if is_one(found[1])]


def parse(text: str) -> tuple[Any, list[tuple[Location, str]]]:
    """Read YAML text; return its value, and what in it is not what it looks like, with where it is.

    These are keys given twice, and values cut short.

    Raises
    ------
    ValueError
        The text is not YAML, with the line and what is wrong there.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, []
        if _expanded(node, {}) > _MOST_NODES:
            raise ValueError("not a plan: its aliases (*) expand to too many values; write them out")
        # In this order: constructing resolves merge keys (<<) by repeating what they bring.
        problems = list(_misread(text, node, (), set()))
        return plain(loader.construct_document(node)), problems
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        hint = "; indent with spaces, not tabs" if "'\\t'" in str(error.problem) else ""
        for address in _addresses(text.split("\n")[mark.line] if mark else ""):
            hint = f"; put an address in brackets in quotes: '{address}'"
        raise ValueError(f"{where}not valid YAML: {error.problem or error.context}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ValueError(f"line {line}: not valid YAML: a character that text cannot hold") from None
    except RecursionError:
        raise ValueError("not a plan: it is nested without end") from None


def parse_value(text: str) -> tuple[Any, list[tuple[Location, str]]]:
    """Read the value of one setting as `parse` does; a single value without quotes is all of the text.

    Whoever types ``table=my #1.csv`` means no comment, and ``listen=[::1]:29501`` is an address.

    Raises
    ------
    ValueError
        As in `parse`, or something follows the value.
    """
    written = text.strip()
    if _addresses(written) == [written]:
        return written, []
    value, problems = parse(text)
    node = yaml.compose(text, _Loader)
    if node is None or (isinstance(node, yaml.ScalarNode) and node.style is None):
        return (value if written == (node.value if node else "") else written), []
    if isinstance(node, yaml.ScalarNode) or (
        isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) and node.flow_style
    ):
        after = text[node.end_mark.index :].strip()
        if after:
            raise ValueError(f"not all of it: {after!r} follows it; put everything in quotes, or remove that")
    return value, problems

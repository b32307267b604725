"""Read YAML text of plans and settings so that every value means what it looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from mpc_spearman.config.wording import Location


class _Loader(yaml.SafeLoader):
    """A safe loader that reads an unquoted value as what it looks like.

    PyYAML's own takes 010 for 8, 1:30 for 90, no for false, ~ for nothing and 2024-01-01 for a date. Here
    these are text; numbers are decimal. Aliases are refused: a few lines of them can be billions of values.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "write the value out: * is not used", mark)
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:  # a value that its tag does not fit, such as !!int x
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


_Loader.yaml_implicit_resolvers = {}
for _tag, _first, _pattern in (
    ("bool", "tTfF", "true|True|TRUE|false|False|FALSE"),
    ("null", ["n", "N", ""], "null|Null|NULL|"),
    ("int", "+-0123456789", "[-+]?(0|[1-9][0-9]{0,99})"),
    (
        "float",
        "+-.0123456789",
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"({_pattern})$"), list(_first))

# A '#' that probably begins no comment: a comment has a space, or nothing, after it.
_NO_COMMENT = re.compile(r"[ \t]+#[^\s#]")
# The beginning of an IPv6 address in brackets, which YAML would read as a list.
_ADDRESS = re.compile(r"\[[0-9A-Fa-f]*:")


def parse(text: str) -> tuple[Any, list[tuple[Location, str]]]:
    """Return the value of YAML text, and the locations of keys given twice and of values cut short.

    `ValueError` if the text is not YAML, with the line and what is wrong there.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, []
        return loader.construct_document(node), list(_misread(text, node, ()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        hint = "; indent with spaces, not tabs" if "'\\t'" in str(error.problem) else ""
        if mark and _ADDRESS.search(text, max(0, mark.index - 45), mark.index + 1):
            hint = "; put quotes around an address in brackets"
        raise ValueError(f"{where}not valid YAML: {error.problem or error.context}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ValueError(f"line {line}: not valid YAML: a character that text cannot hold") from None
    except RecursionError:
        raise ValueError("not a plan: it is nested too deeply") from None


def parse_value(text: str) -> tuple[Any, list[tuple[Location, str]]]:
    """Return the value of one setting: YAML if quotes or brackets surround all of it, else one scalar.

    So ``table=my #1.csv`` has no comment, and ``listen=[::1]:29501`` is an address.
    """
    written = text.strip()
    if len(written) > 1 and written[0] + written[-1] in ("''", '""', "[]", "{}"):
        return parse(written)
    loader = _Loader("")
    tag = loader.resolve(yaml.ScalarNode, written, (True, False))  # type: ignore[no-untyped-call]
    return loader.construct_object(yaml.ScalarNode(tag, written)), []


def _misread(text: str, node: yaml.Node, location: Location) -> Iterator[tuple[Location, str]]:
    """Yield keys given twice, of which YAML keeps the last, and values that it cuts: ``my #1.csv``."""
    if isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:  # the keys are scalars, or they could not have been constructed
            inside, line = (*location, key.value), key.start_mark.line + 1
            if first := lines.get((key.tag, key.value)):
                yield inside, f"the key is given twice, on lines {first} and {line}; keep one of them"
            lines[key.tag, key.value] = line
            yield from _misread(text, value, inside)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield from _misread(text, item, (*location, position))
    elif (
        isinstance(node, yaml.ScalarNode)
        and node.style is None
        and _NO_COMMENT.match(text, node.end_mark.index)
    ):
        hint = "put the value in quotes, or a space after the '#'"
        yield location, f"YAML reads what follows '#' as a comment: {hint}"

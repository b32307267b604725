"""Strategies that make messages of all kinds, as plans allow them."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mpc_spearman.config import Terms
from mpc_spearman.config.levels import GRANTS, LEVELS
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind, Row

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SYMBOLS = sorted({size for row in VIEW.rows for f in row.fields for size in f.shape if isinstance(size, str)})
DIMENSIONS = st.fixed_dictionaries(
    {**{symbol: st.integers(0, 4) for symbol in SYMBOLS}, "ring_bytes": st.integers(1, 8)}
)

#: Every way a plan can choose among fields.
PLANS = [
    Terms(
        protocol=protocol,
        reveal=level,
        alignment=alignment,
        opened_to=opened_to,
        precision=precision,
        top=top,
        proofs=proofs,
        parties={Role.COORDINATOR: ("C",), Role.TARGET: ("B",), Role.SOURCE: ("A",)},
        granted={Role.COORDINATOR: "nothing", Role.TARGET: grant, Role.SOURCE: grant},
        on_inputs=inputs,
        adjusting=adjusting,
    )
    for protocol, level, grant, opened_to, top, alignment, precision, inputs, proofs, adjusting in product(
        ("mpc", "he"),
        LEVELS,
        GRANTS,
        ("coordinator", "target"),
        (False, True),
        ("same", "intersect"),
        ("statistical", "exact"),
        (frozenset[Role](), frozenset({Role.SOURCE, Role.TARGET})),
        (False, True),
        (frozenset[Role](), frozenset({Role.SOURCE, Role.TARGET})),
    )
    if not adjusting or (level != "differences" and (alignment, proofs) == ("same", False))
    if not proofs or (protocol, level, inputs) == ("mpc", "coefficients", frozenset())
    if level == "ranking" or (opened_to, top) == ("coordinator", False)
]

#: One field of each type, with every kind of shape.
TYPES = [
    Field("a", "text"),
    Field("b", "texts", ("m_source",)),
    Field("c", "blob"),
    Field("d", "bytes", (5,)),
    Field("e", "bytes", ("m_source", 3)),
    Field("f", "int64", (1,)),
    Field("g", "int64", ("m_source", "m_target")),
    Field("k", "int128", ("m_source",)),
    Field("h", "float64", ("m_target",)),
    Field("i", "flags", ("m_target",)),
    Field("j", "ring", ("m_source", "rows")),
]


def value_of(field: Field, dimensions: dict[str, int]) -> st.SearchStrategy[Any]:
    shape = tuple(size if isinstance(size, int) else dimensions[size] for size in field.shape)
    cells = math.prod(shape)

    def array(cell: st.SearchStrategy[Any], dtype: Any) -> st.SearchStrategy[np.ndarray]:
        cells_ = st.lists(cell, min_size=cells, max_size=cells)
        return cells_.map(lambda values: np.array(values, dtype=dtype).reshape(shape))

    half = 1 << (8 * dimensions["ring_bytes"] - 1)
    return {
        "text": TEXT,
        "texts": st.lists(TEXT, min_size=cells, max_size=cells),
        "blob": st.binary(max_size=40),
        "bytes": st.binary(min_size=cells, max_size=cells),
        "int64": array(st.integers(-(2**63), 2**63 - 1), np.int64),
        "int128": st.lists(st.integers(-(2**127), 2**127 - 1), min_size=cells, max_size=cells),
        "ring": array(st.integers(-half, half - 1), np.int64),
        "float64": array(st.floats(), np.float64),
        "flags": array(st.booleans(), np.bool_),
    }[field.type]


@st.composite
def messages(draw: st.DrawFn, fields: tuple[Field, ...] = tuple(TYPES)) -> tuple[Any, ...]:
    """Draw fields, dimensions, and a value for every field."""
    dimensions = draw(DIMENSIONS)
    return fields, dimensions, {f.name: draw(value_of(f, dimensions), label=f.name) for f in fields}


def sent_of(row: Row, plan: Terms) -> set[tuple[Field, ...]]:
    pairs = product(row.senders, row.receivers)
    return {
        fields
        for sender, receiver in pairs
        if sender is not receiver or row.kind in (Kind.ABORT, Kind.COLUMNS)
        for fields in [VIEW.fields(plan, row.kind, sender, receiver)]
        if fields is not None
    }


def assert_equal(values: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(values) == list(expected)
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert values[name].dtype == value.dtype
            assert values[name].shape == value.shape
            assert values[name].tobytes() == value.tobytes()  # NaN and -0.0 bit by bit
        else:
            assert values[name] == value
            assert type(values[name]) is type(value)

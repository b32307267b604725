"""Networks in memory, closed at the end of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from support.memory_network import Make, Network


@pytest.fixture
def make() -> Iterator[Make]:
    with ExitStack() as undo:

        def network(**settings: Any) -> Network:
            return undo.enter_context(closing(Network(**settings)))

        yield network

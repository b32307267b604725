"""Networks in memory, closed at the end of a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.memory_network import Make, Network


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Network] = []

    def network(**settings: Any) -> Network:
        made.append(Network(**settings))
        return made[-1]

    yield network
    for each in made:
        each.close()

"""Lines that commands write where nobody looks on: each begins with its time."""

from __future__ import annotations

import re

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", re.M)


def timeless(shown: str) -> str:
    """Return what was shown, without the times of its lines."""
    return _TIME.sub("", shown)

"""Where commands write by default."""

from __future__ import annotations

import secrets
from datetime import datetime, timezone
from pathlib import Path


def default_out(plan: str) -> Path:
    """Make up a new folder under ``runs/`` for a run of a plan."""
    started = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return Path("runs", f"{Path(plan).stem}-{started}")

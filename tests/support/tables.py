"""Tables to read, and what is said of those that are refused."""

from __future__ import annotations

import traceback
from typing import Any

import pandas as pd
import pytest

from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import TableError


def read(source: Any, **settings: Any) -> Table:
    return read_table("B", source, **{"id": "id", "features": None, "exclude": (), "rows": None, **settings})


def refusal(source: Any, **settings: Any) -> str:
    """The text of the TableError, after checking what every one must hold and must not."""
    with pytest.raises(TableError) as caught:
        read(source, **settings)
    text = str(caught.value)
    name = "the DataFrame" if isinstance(source, pd.DataFrame) else str(source)
    assert text.startswith(f"B: {name}: ")
    shown = "".join(traceback.format_exception(caught.type, caught.value, None)).replace(name, "")
    assert "SECRET" not in shown, "a cell or an id in the error or in its causes"
    return text.removeprefix(f"B: {name}: ")


def frame(x: Any, **more: Any) -> pd.DataFrame:
    x = pd.Series(x)
    return pd.DataFrame({"id": [f"SECRET{i}" for i in range(len(x))], "x": x, **more})


GOOD = "id,x,y\na,1,0.5\nb,2,0.25\nc,3,-1e3\n"

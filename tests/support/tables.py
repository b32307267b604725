"""Tables to read, and what is said of those that are refused."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mpc_spearman.config import TableKeys
from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import TableError


def read(source: Any, **settings: Any) -> Table:
    how = {key: settings.pop(key) for key in ("rows", "normalise", "fewest") if key in settings}
    return read_table("B", source, TableKeys(**settings), **how)


def id_array(ids: Sequence[str]) -> pa.LargeStringArray:
    return pa.array(ids, pa.large_string())


def columns(table: Table) -> list[np.ndarray]:
    return [table.column(index) for index in range(table.m)]


def refusal(source: Any, **settings: Any) -> str:
    """The text of the TableError, after checking what every one must hold and must not."""
    with pytest.raises(TableError) as caught:
        read(source, **settings)
    text = str(caught.value)
    name = str(source) if isinstance(source, Path) else "the table"
    assert text.startswith(f"B: {name}: ")
    shown = "".join(traceback.format_exception(caught.type, caught.value, None)).replace(name, "")
    assert "SECRET" not in shown, "a cell or an id in the error or in its causes"
    assert "During handling of" not in shown, "a traceback shows another error first"
    return text.removeprefix(f"B: {name}: ")


def frame(x: Any, **more: Any) -> pd.DataFrame:
    x = pd.Series(x)
    return pd.DataFrame({"id": [f"SECRET{i}" for i in range(len(x))], "x": x, **more})


GOOD = "id,x,y\na,1,0.5\nb,2,0.25\nc,3,-1e3\n"

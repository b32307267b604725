"""A PostgreSQL for each module of tests of tables that a database holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.tables import Table, read_table
from support.databases import ADDRESS, Ask, command, postgresql


@pytest.fixture(scope="module")  # its processes would be counted among a later test's
def server() -> Iterator[str]:
    with postgresql() as address:
        command(
            address,
            "CREATE TABLE visits AS SELECT 'SECRET' || g AS id, g FROM generate_series(1, 9) g",
            "CREATE ROLE reader LOGIN PASSWORD 'hunter'",
            "REVOKE TEMP ON DATABASE postgres FROM public",
        )
        yield address


@pytest.fixture
def ask(server: str, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks the server of the test's module."""
    monkeypatch.setenv(ADDRESS, server)

    def read(query: str, rows: int | None = None, order_by: Any = (), **keys: Any) -> Table:
        asked = Query(query=query, connection=f"env:{ADDRESS}", order_by=order_by)
        return read_table("B", asked, TableKeys.model_validate(keys), rows=rows)

    return read

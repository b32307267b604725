"""What databases refuse, in our own words.

Engines' messages are never passed on, since they quote addresses, queries and cells. Our errors restate their
SQLSTATE, class or a fixed phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mpc_spearman.data.refusals import Unusable
from mpc_spearman.errors import MpcSpearmanError

#: How long to wait for an engine; libpq by itself waits for as long as the network does.
CONNECT_SECONDS = 30
# What an SQLSTATE means, by its first characters; without one, what an error's class or a phrase means.
_ENDED = "the server ended the session; try again, and ask its administrator for time limits"
_POOL = "a connection pool is in between; connect to the database itself"
_STATES = {
    "0A": "it does more than a single SELECT may do",
    "08P01": _POOL,
    "22": "a cell cannot be computed or converted as the query asks",
    "25006": "it writes, but may only read",
    "25P0": _ENDED,
    "26000": _POOL,
    "42501": "the database's user has no right to read this",
    "42601": "it is not SQL, or not one SELECT; names such as order need double quotes",
    "42702": "it names a column that two tables have, or gives two columns one name; rename one with AS",
    "42703": "it names a column that does not exist",
    "42883": "it calls, compares or sorts with types that have no such function or order: cast them",
    "42P01": "it names a table that does not exist",
    "57014": "the database stopped it",
    "57P": _ENDED,
}
_PHRASES = {
    "read-only transaction": _STATES["25006"],
    "password": "the server does not accept the user and password",
    "Connection refused|ConnectionRefused": "nothing listens there",
    "could not translate host name|gaierror": "there is no such host",
    "timeout expired|TimeoutError": f"no answer within {CONNECT_SECONDS} s",
    "pg_hba.conf": "the server does not accept that user from this host",
    "SSL": "the two ends do not agree on TLS (sslmode)",
    "percent-encoded|invalid integer value": "in a name or password write % as %25, @ as %40, / as %2F",
    "server closed the connection|terminating connection": _ENDED,
    "canceling statement": _STATES["57014"],
    "pooling": _POOL,
    "No files found": "it names a file that does not exist; a relative path begins at the current folder",
    "sqlite_scanner": "the file is not a database of that kind",
    "requires the extension": "it needs an extension of DuckDB, and none is loaded; use local files",
    "no such function|Function with name": "it names a function that does not exist",
    "no such table|Table with name": _STATES["42P01"],
    "no such column|Referenced column": _STATES["42703"],
    "does not exist": "the server has no such database or user",
    "syntax error|Parser Error": _STATES["42601"],
    "not authorized": _STATES["0A"],
    "not a database|not a valid DuckDB|Cannot launch in-memory": "the file is not a database of that kind",
    "locked|lock on file|handle conflict": "another program has the file open to write: close it there",
    "decode to UTF-8": "a cell of text is not UTF-8",
    "Conversion Error|division by zero|invalid input syntax|out of range": _STATES["22"],
    "user-defined type": "it has a column of a user-defined type: leave it out of the query",
    "CSV": "it is not a well-formed CSV file with one header line",
    "arquet": "it is not a readable Parquet file",
    "No space left|failed to offload": "the disk for temporary files (TMPDIR) is full",
    "Out of Memory": "it needs more memory than `memory` allows; raise memory",
}


@contextmanager
def restated_errors(engine: str, failure: str) -> Iterator[None]:
    """Replace an engine's error by `Unusable` in our own words: its text may hold secrets."""
    try:
        yield
    except (Unusable, MpcSpearmanError, ImportError):
        raise
    except Exception as error:
        state = getattr(error, "sqlstate", None) or getattr(error, "getSqlState", str)() or ""
        text = f"{type(error).__name__}: {error}"
        reasons = [words for start, words in _STATES.items() if state.startswith(start)]
        if not state:
            reasons = [words for phrase, words in _PHRASES.items() if re.search(phrase, text)]
        reasons += ["it refuses; its message is not shown, because it may contain secrets. Try it by hand"]
        line = re.search(r"CSV Error on Line: (\d+)", text)
        where = f" (SQLSTATE {state})" if state else f" (line {line[1]} of a file)" if line else ""
        raise Unusable(f"{engine}: {failure}: {reasons[0]}{where}") from None

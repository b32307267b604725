"""A CSV file as text: one header line, rows of one length, and quotes only where RFC 4180 has them.

pyarrow splits the text into cells. This module refuses what pyarrow would accept, as bytes pass: a quote
inside a cell that does not begin with one, text after a closing quote, a quote that is never closed, rows
with too many or too few cells. Blank lines are not rows. Lines may end in LF, CRLF or CR.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from mpc_spearman.config.table_keys import Csv
from mpc_spearman.data.refusals import Unusable, count_of

#: Bytes read at a time, and the most that a row may have.
BLOCK = 8 << 20
_Wrong = list[tuple[int, int, int]]  # rows, how many cells each has, and how many the header has
_MALFORMED = "it is not a well-formed CSV file"
_SET_ENCODING = "set csv.encoding to its encoding, such as cp1252, latin-1, utf-16 or utf-16-le"


class CsvText:
    """A CSV file, compressed where its name ends in ``.gz``, of which columns are read as text."""

    def __init__(self, path: Path, dialect: Csv) -> None:
        self._path, self._encoding, self._excel = path, dialect.encoding, None
        name = path.name.lower()
        self._zipped = name.endswith(".gz")
        with self._opened() as file, _restated_errors(), suppress(UnicodeError):
            start = codecs.getincrementaldecoder(dialect.encoding)().decode(file.read(64))
            self._excel = re.match('\ufeff?("?sep=(.)"?\r?\n)', start)  # Excel's own first line
        by_name = "\t" if name.removesuffix(".gz").endswith(".tsv") else ","
        self.delimiter = dialect.delimiter or (self._excel[2] if self._excel else by_name)
        self.skip = 1 if self._excel else 0  # lines before the header
        with self._opened() as file, _restated_errors():
            text, head = self._text(file), b""
            while len(head) < BLOCK and (more := text.read(BLOCK - len(head))):
                head += more
            lines = io.StringIO(head.decode(errors="ignore"), newline="")
            rows = (row for row in csv.reader(lines, delimiter=self.delimiter) if row)
            self.names = next(rows, [])
        if not self.names:
            raise Unusable("the file is empty: not even a header line")

    def read(self, places: Sequence[int], rows: int | None) -> Iterator[pa.RecordBatch]:
        """Yield columns, by their places, as text, a block of rows at a time; with `rows` so many rows only.

        A column's name is its place after an ``f``. `Unusable` if rows are of different lengths.
        """
        wrong: _Wrong = []
        count = -1  # the header is no row of data
        # With threads it is not known which row is wrong, nor where to stop.
        for batch in self._batches(places, wrong, threads=rows is None):
            data, count = batch.slice(int(count < 0)), count + batch.num_rows
            yield data if rows is None or count <= rows else data.slice(0, data.num_rows - (count - rows))
            if rows is not None and count >= rows:
                break
        if wrong and rows is None:
            wrong.clear()
            for _ in self._batches(places, wrong, threads=False):
                pass
        wrong = [line for line in wrong if rows is None or line[0] <= rows + 1]
        if wrong:
            row, cells, expected = wrong[0]
            which = f"{count_of(len(wrong), 'row')} with too many or too few fields"
            where = f"the first in data row {row - 1}"
            hint = ""
            if len(wrong) >= count and all(cells == expected + 1 for _, cells, expected in wrong):
                hint = "; if R's write.table made the file, make it with row.names = FALSE"
            raise Unusable(f"{which}, {where}: {cells} where the header has {expected}{hint}")

    def _batches(self, places: Sequence[int], wrong: _Wrong, *, threads: bool) -> Iterator[pa.RecordBatch]:
        def skip(row: pa_csv.InvalidRow) -> str:
            wrong.append((row.number or 0, row.actual_columns, row.expected_columns))
            return "skip"

        names = [f"f{place}" for place in places]
        with self._opened() as file, _restated_errors():
            yield from pa_csv.open_csv(
                self._text(file),
                pa_csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK, use_threads=threads),
                pa_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=skip
                ),
                pa_csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names, pa.large_string()),
                    strings_can_be_null=False,
                    check_utf8=False,  # all of the file has been
                ),
            )

    def _opened(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self._path)) if self._zipped else self._path.open("rb")

    def _text(self, file: BinaryIO) -> _CheckedBytes:
        return _CheckedBytes(file, self._encoding, self.delimiter, self._excel[1] if self._excel else "")


@contextmanager
def _restated_errors() -> Iterator[None]:
    """Restate an error of Arrow or gzip in our own words, because theirs may quote the file."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if "straddling" in str(error):
            raise Unusable(f"it has a row of more than {BLOCK >> 20} MiB") from None
        raise Unusable(_MALFORMED) from None
    except csv.Error:
        raise Unusable(_MALFORMED) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise Unusable("it is not a complete gzip file") from None


class _CheckedBytes:
    """A file's bytes in UTF-8, with quotes checked as they pass; a file object for pyarrow."""

    closed = False

    def __init__(self, file: BinaryIO, encoding: str, delimiter: str, skip: str) -> None:
        self._file, self._encoding, self._skip = file, encoding, skip.encode()
        self._is_utf8 = codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._beside_quotes = np.zeros(256, dtype=bool)  # what may be next to a cell's quotes
        self._beside_quotes[[ord(mark) for mark in f'{delimiter}\r\n"']] = True
        self._last, self._held, self._ended, self._first = b"\n", b"", False, True
        self._inside_quotes, self._lines, self._quote_line = 0, 1, 0

    def close(self) -> None:
        self.closed = True

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, none at the end."""
        block = b""
        while not block and not self._ended:
            new = self._decoded(max(1, size - len(self._held)))
            self._ended = not new
            # A quote's right neighbour is looked at, so no block but the last ends in a quote.
            whole = self._held + (new or b"\n")
            block = whole if self._ended else whole.rstrip(b'"')
            self._held = whole[len(block) :]
        self._check_quotes(block)
        return block

    def _decoded(self, size: int) -> bytes:
        """Return more than half of `size` bytes in UTF-8, unless the file ends."""
        data, raw = b"", b"-"
        try:
            while len(data) <= size // 2 and raw:
                unread = size - len(data)  # in UTF-8 a byte of another encoding becomes at most three or four
                raw = self._file.read(max(1, unread if self._is_utf8 else unread // 4))
                text = self._decoder.decode(raw, final=not raw)
                data += raw if self._is_utf8 else text.encode()
        except UnicodeError as error:
            before = error.object[: error.start] if isinstance(error, UnicodeDecodeError) else b""
            line = self._lines + _line_ends(data + before)
            problem = f"it is not {self._encoding.upper()} text, in line {line} of the file"
            raise Unusable(f"{problem}: {_SET_ENCODING}") from None
        if self._first:
            self._first = False
            if self._is_utf8 and b"\0" in data[:100]:
                raise Unusable(f"it has NUL characters: {_SET_ENCODING}")
            data = data.removeprefix(codecs.BOM_UTF8).removeprefix(self._skip)
            self._lines += bool(self._skip)
        return data

    def _check_quotes(self, block: bytes) -> None:
        if b'"' in block:
            data = np.frombuffer(self._last + block + b"\n", dtype=np.uint8)
            quotes = np.flatnonzero(data == ord('"'))
            closing = (np.arange(len(quotes)) + self._inside_quotes) % 2 == 1
            wrong = ~self._beside_quotes[np.where(closing, data[quotes + 1], data[quotes - 1])]
            if wrong.any():
                first = int(wrong.argmax())
                problem = (
                    "text after a closing quote" if closing[first] else "a quote inside an unquoted cell"
                )
                line = self._lines + _line_ends(block[: quotes[first] - 1])
                hint, after = "", chr(data[quotes[first] + 1])
                if closing[first] and after in "; \t|":
                    hint = f"; if {after!r} separates cells, set csv.delimiter to that"
                raise Unusable(f"{_MALFORMED}: {problem}, in line {line} of the file{hint}")
            self._inside_quotes = (self._inside_quotes + len(quotes)) % 2
            self._quote_line = self._lines + _line_ends(block[: quotes[-1] - 1])
        self._lines += _line_ends(block)
        self._last = block[-1:] or self._last
        if self._ended and self._inside_quotes:
            raise Unusable(f"{_MALFORMED}: a quote is not closed, in line {self._quote_line} of the file")


def _line_ends(block: bytes) -> int:
    return max(block.count(b"\n"), block.count(b"\r"))

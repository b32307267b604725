"""How fast this machine does what a run is made of: each step's own code, tried on a few rows.

Everything is timed on one core, in seconds a row, at the columns that the run will have, so that only the
number of rows is extrapolated; and in a few seconds altogether. What grows a little faster than the rows is
tried at two sizes: ranking, and taking rows in another order, which leaves the caches behind.

NumPy's generators make the tables that are timed. They are nobody's: no mask, key or share comes from them.
"""

from __future__ import annotations

import math
import mmap
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from threadpoolctl import threadpool_limits

from mpc_spearman.config import RULES_OFF, Plan, load_plan
from mpc_spearman.data.ids import id_digest, id_order
from mpc_spearman.data.pseudonyms import common, pseudonyms, shuffled
from mpc_spearman.data.ranks import Ranks, rank_columns
from mpc_spearman.data.tables import Table
from mpc_spearman.engines import ring
from mpc_spearman.engines.computation import Shape
from mpc_spearman.engines.squared_differences import Squares
from mpc_spearman.launch.role_process import keep_freed_memory
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.levels.view import VIEW
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.parties import Party, Roster
from mpc_spearman.privacy.groups import check_groups, distinct_defined, lasting_in_a_mean
from mpc_spearman.privacy.leverage import highest_leverage
from mpc_spearman.privacy.precision import coefficient_grid
from mpc_spearman.protocols.load import own_table
from mpc_spearman.run import BLOCK_BYTES, Run, rows_of_block
from mpc_spearman.wire.keys import PairKey, Stream
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter

if TYPE_CHECKING:
    from mpc_spearman.comparison.ciphertexts import Ciphertexts
    from mpc_spearman.config import Estimator


_PLAN = {
    "parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]},
}
# Seconds for trying one thing, and rows and cells of what is tried.
_TRIAL = 0.1
_COLUMNS, _MESSAGES = 32, 8
_ROWS, _CELLS, _RANKED = 1 << 15, 1 << 21, (1 << 14, 1 << 20)


class Machine:
    """A machine as runs use it; each figure is measured when it is first asked for.

    Parameters
    ----------
    kind : str
        Suffix of the tables' files.

    Attributes
    ----------
    base : dict of str to int
        Resident bytes of a role with nothing in it, by protocol: this process imports the same.
    cell_bytes : int
        Of a cell of a table while it is ranked: of a CSV file all are kept, else columns are read one by one.
    """

    def __init__(self, kind: str = ".parquet") -> None:
        keep_freed_memory()  # as roles do
        self._kind = kind
        self.base, self.cell_bytes = _resident(), 8 if kind == ".csv" else 0
        self._ciphertexts: dict[str, Ciphertexts] = {}
        self.products = cache(self._products)
        self.rules = cache(self._rules)
        self.squares = cache(self._squares)
        self.opening = cache(self._opening)
        self.encoding = cache(self._encoding)
        self.wire = cache(self._wire)

    def ciphertexts(self, plan: Plan) -> Ciphertexts:
        """Return what a plan's HE scheme takes."""
        from mpc_spearman.comparison.ciphertexts import Ciphertexts

        key = plan.canonical_json()
        if key not in self._ciphertexts:
            self._ciphertexts[key] = Ciphertexts(plan)
        return self._ciphertexts[key]

    # --- a table

    @cached_property
    def reading(self) -> tuple[float, float]:
        """Seconds to read a row with its id, and one cell of a feature, and to take it to be ranked."""
        few, many = (self._read(columns) for columns in (1, 9))
        cell = max(0.0, many - few) / 8
        return max(0.0, few - cell), cell

    def _read(self, columns: int) -> float:
        with tempfile.TemporaryDirectory(prefix="mpc-spearman-estimate-") as folder:
            path = Path(folder, "table" + self._kind)
            frame = self._frame(columns)
            frame.to_parquet(path, index=False) if self._kind != ".csv" else frame.to_csv(path, index=False)
            plan = load_plan(_PLAN, (), {"B": path})

            def read() -> None:
                table = own_table(plan, "B")
                for index in range(table.m):
                    table.column(index)

            return seconds(read) / len(frame)

    def _frame(self, columns: int) -> pd.DataFrame:
        rng = np.random.default_rng(1)  # data, not secrets
        ids = pd.Series([f"r{row}" for row in range(4 * _ROWS)])
        return pd.DataFrame({"id": ids} | {f"f{i}": rng.normal(size=len(ids)) for i in range(columns)})

    @cached_property
    def _table(self) -> Table:
        return own_table(load_plan(_PLAN), "B", self._frame(1))

    @cached_property
    def digest(self) -> float:
        """Seconds to digest an id."""
        ids = self._table.ids
        return seconds(lambda: id_digest(ids, bytes(32))) / len(ids)

    @cached_property
    def intersection(self) -> tuple[float, float]:
        """Seconds of a data party and of the coordinator to find out about an id of each of two sets."""
        ids, key = self._table.ids, bytes(32)

        def find() -> None:
            found = pseudonyms(ids, key)
            chosen = np.argsort(found)
            self._table.take(chosen[shuffled(found[chosen], key)])

        ordered = np.sort(pseudonyms(ids, key))
        at_owner, at_coordinator = seconds(find), seconds(lambda: common([ordered, ordered]))
        return at_owner / len(ids), at_coordinator / len(ids)

    # --- ranks

    def ranking(self, n: int) -> float:
        """Seconds to rank a cell of a column of n rows."""
        return _between(self._ranking, n)

    @cached_property
    def _ranking(self) -> list[tuple[int, float]]:
        rng, found = np.random.default_rng(2), []
        for n in _RANKED:
            columns = rng.normal(size=(3, n))
            columns[2] = columns[2].round()  # as in the tables of `compare`
            found.append((n, seconds(partial(rank_columns, columns)) / columns.size))
        return found

    def shuffling(self, n: int) -> tuple[float, float]:
        """Seconds to draw the place of one of n rows in another order, and to take a cell from there."""
        drawn, taken = self._shuffling
        return _between(drawn, n), _between(taken, n)

    @cached_property
    def _shuffling(self) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        drawn, taken, stream, rows = [], [], Stream(os.urandom(32)), rows_of_block(_COLUMNS)
        for n in _RANKED:
            own, order = np.ones((8, n), np.int32), stream.permutation(n)
            blocks = [order[start : start + rows] for start in range(0, n, rows)]
            drawn.append((n, seconds(partial(stream.permutation, n)) / n))
            taken.append((n, seconds(partial(_take, own, blocks)) / own.size))
        return drawn, taken

    def _ranks(self, columns: int, cells: int = _CELLS) -> Ranks:
        rows = max(cells * 256 // _CELLS, cells // columns)
        values = np.random.default_rng(3).normal(size=(columns, rows))
        values[2::3] = values[2::3].round()
        return rank_columns(values)

    def _rules(self, columns: int) -> tuple[float, float]:
        """Seconds for an owner's rules on its own columns: whatever the rows, and for each."""
        names = [str(column) for column in range(columns)]

        def examine(ranks: Ranks) -> None:
            check_groups(ranks, names, "party", int(RULES_OFF["min_group"]))
            distinct_defined(ranks)
            lasting_in_a_mean(ranks)
            highest_leverage(ranks, coefficient_grid(ranks.n))

        few, many = (self._ranks(columns, cells) for cells in (_CELLS // 8, _CELLS))
        at_few, at_many = (seconds(partial(examine, ranks)) for ranks in (few, many))
        each = max(0.0, at_many - at_few) / max(1, many.n - few.n)
        return max(0.0, at_few - each * few.n), each

    # --- shares

    @cached_property
    def mask(self) -> float:
        """Seconds to draw a ring element."""
        stream = Stream(os.urandom(32))
        return seconds(lambda: stream.ring((BLOCK_BYTES // 8,))) / (BLOCK_BYTES // 8)

    @cached_property
    def touch(self) -> float:
        """Seconds to take a byte of memory into use that the process has not had."""
        size = 16 * BLOCK_BYTES
        with mmap.mmap(-1, size) as fresh:
            start = time.process_time()
            for place in range(0, size, mmap.PAGESIZE):
                fresh[place] = 1
            return (time.process_time() - start) / size

    def _wire(self, width: int) -> tuple[float, float]:
        """Seconds to mask and send a ring element of so many bytes, and to receive one: over real links."""
        rows = rows_of_block(_COLUMNS)
        own, mask = np.ones((_COLUMNS, rows), np.int32), np.ones((_COLUMNS, rows), np.int64)
        sizes = {"m_source": _COLUMNS, "rows": rows}
        with ExitStack() as stack:
            (source, target), (other, peer) = _pair(stack)
            for links in (source, other):
                links.dimensions["ring_bytes"] = width

            def give() -> None:
                for _ in range(_MESSAGES):
                    source.send(target, Kind.MASKED, {"block": own - mask}, sizes=sizes)

            def carry() -> None:
                sender = threading.Thread(target=give)
                sender.start()
                for _ in range(_MESSAGES):
                    other.receive(peer, Kind.MASKED, sizes=sizes)
                sender.join()

            both = seconds(carry) / (_MESSAGES * own.size)
        # What TLS does to every byte.
        cipher, nonce, payload = AESGCM(bytes(32)), bytes(12), bytes(width * own.size)
        sealed = cipher.encrypt(nonce, payload, None)
        work = lambda: (cipher.encrypt(nonce, payload, None), cipher.decrypt(nonce, sealed, None))  # noqa: E731
        both += seconds(work) / own.size
        return both / 2, both / 2

    def _products(self, left: int, right: int, small: bool) -> float:
        """Seconds a row for the product of two blocks of ring elements, of which one is ranks if `small`."""
        rows = rows_of_block(max(left, right))
        ranks = np.resize(np.arange(-rows, rows, 2), (left, rows)).astype(np.int32)
        x = ranks if small else Stream(os.urandom(32)).ring((left, rows))
        y = Stream(os.urandom(32)).ring((right, rows))
        return seconds(lambda: ring.matmul(x, y, rows if small else None)) / rows

    def _squares(self, m_source: int, m_target: int) -> float:
        """Seconds a row for the squares of all differences, from their basis."""
        rows = rows_of_block(m_source + m_target)
        sums = Squares(m_source, m_target, rows)
        basis = np.resize(np.arange(-rows, rows), (m_source + m_target - 1, rows)).astype(np.int64)
        return seconds(lambda: sums.add_basis(basis)) / rows

    def _opening(self, m_source: int, m_target: int) -> float:
        """Seconds a row to make re-randomised shares of the basis of differences from shares of ranks."""
        from mpc_spearman.engines.mpc.differences import basis
        from mpc_spearman.engines.mpc.session import Session

        roster, secret = Roster.of(load_plan(_PLAN), "A"), X25519PrivateKey.generate()
        shape = Shape(rows_of_block(m_source + m_target), m_source, m_target)
        with ExitStack() as stack:
            (links, _), _ = _pair(stack)
            run = Run(load_plan(_PLAN), roster, _nobody, Meter(), lambda *_: None, lambda _: None)
            run.links = links
            for peer in roster.peers:
                public = X25519PrivateKey.generate().public_key().public_bytes_raw()
                run.keys[peer] = PairKey(secret, public, roster.me, peer, bytes(16), bytes(32))
            session = Session(run, roster.me, shape)
            x, y = (session.shared(Stream(os.urandom(32)).ring((m, shape.n))) for m in (m_source, m_target))
            return seconds(lambda: session.rerandomised(basis(session, x, y))) / shape.n

    def _encoding(self, nearest: bool, estimator: Estimator, columns: int, source: bool) -> float:
        """Seconds a row to encode an owner's columns for a mean."""
        ranks = self._ranks(columns)
        make = Encoding.ranking if nearest else partial(Encoding.strengths, distinct=1)
        encoding = make(ranks.n, columns=1, sources=1, estimator=estimator, defined=1)
        encode = encoding.source_vector if source else encoding.column_vectors
        by_id = np.random.default_rng(4).permutation(ranks.n)
        return seconds(lambda: encode(ranks, "party", by_id)) / ranks.n

    @cached_property
    def order_of_ids(self) -> float:
        """Seconds a row to sort ids."""
        return seconds(lambda: id_order(self._table.ids)) / self._table.n

    @cached_property
    def comparison(self) -> float:
        """Seconds to send, receive and combine a word of a comparison."""
        x = Stream(os.urandom(32)).ring((_ROWS,))
        return seconds(lambda: (x & x) ^ (x & x) ^ (x & x)) / _ROWS + self.mask + sum(self.wire(8))


def _pair(stack: ExitStack) -> tuple[tuple[Links, Party], tuple[Links, Party]]:
    """Connect a source and a target over loopback: each one's links, and its peer."""
    plan = load_plan(_PLAN)
    there, back = _connected(), _connected()

    def end(name: str, sending: socket.socket, receiving: socket.socket) -> tuple[Links, Party]:
        whole = Roster.of(plan, name)
        roster = Roster(whole.parties[1:], whole.me)  # no coordinator
        (peer,) = roster.peers
        sockets = Sockets({peer.number: sending}, {peer.number: receiving})
        stack.callback(sockets.close)
        links = Links(VIEW.under(plan.shared()), roster, sockets, Meter(), plan.network.timeout)
        return links, peer

    return end("A", there[0], back[1]), end("B", back[0], there[1])


def _between(tried: list[tuple[int, float]], n: int) -> float:
    """Return what `n` rows take each, where fewer and more have been tried: by the logarithm between."""
    (small, at_small), (large, at_large) = tried
    slope = max(0.0, at_large - at_small) / math.log2(large / small)
    return max(at_small / 2, at_large + slope * math.log2(n / large))


def _nobody() -> NoReturn:
    raise RuntimeError("nobody is met for an estimate")


def _take(own: np.ndarray, blocks: Iterable[np.ndarray]) -> None:
    for rows in blocks:
        own[:, rows]


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    return one, other


@cache
def _resident() -> dict[str, int]:
    """Return what this process takes as a role of each protocol would, before it has tried anything."""
    found = {}
    for protocol in ("he", "mpc"):
        import_module(f"mpc_spearman.engines.{protocol}.engine")
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                found[protocol] = int(line.split()[1]) * 1024
    return found


def seconds(work: Callable[[], object]) -> float:
    """Return the median of the processor's seconds that some work takes, done three times or for so long.

    They do not grow, or not much, with what else the machine does.
    """
    times: list[float] = []
    with threadpool_limits(1):
        while len(times) < 3 or sum(times) < _TRIAL:
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
    return statistics.median(times)

"""The steps that every role of every protocol takes before and after the private computation.

Each step is a phase of the run: its name is the word in the cost report and in error messages. In order:
``load, connect, intersect, agree, rank, protect, align, describe``, then what the protocol computes, then
``publish, account``. Those of ``load``, ``intersect``, ``protect``, ``describe`` and ``publish`` are in the
modules of these names.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc_spearman.config import (
    Approval,
    Plan,
    differences,
    within,
)
from mpc_spearman.data.ids import id_digest, id_help
from mpc_spearman.data.ranks import Ranks, check_width, rank_columns
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import (
    AlignmentError,
    BoundError,
    HandshakeError,
    PlanError,
    PlanMismatch,
    ProtocolViolation,
)
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.privacy.groups import check_groups
from mpc_spearman.protocols.encoding import encoding_of
from mpc_spearman.protocols.products import check_rows
from mpc_spearman.protocols.shapes import Shapes
from mpc_spearman.version import __version__
from mpc_spearman.wire.keys import PairKey, Purpose
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.messages import MAX_PAYLOAD
from mpc_spearman.wire.meter import COLUMNS, FORWARDED, PHASES, Meter, costed

if TYPE_CHECKING:
    from mpc_spearman.protocols.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")

#: Bytes of one block of the wider table: enough to keep the link busy, and small enough for caches. Several
#: are on their way at a time, in several forms.
BLOCK_BYTES = 1 << 20
#: The most features of the target at ``ranking``: about 2 million pairs, 32 MB a message and 16 bytes a pair.
MAX_COMPARED = 2000
# What to do about rows that differ, by the plan's ``alignment``.
_WAY_OUT = {
    "same": "Align the tables first (same ids, written alike, same order), or set alignment: intersect",
    "ids": "Use the ids of one earlier run everywhere (aligned, beside a party's name)",
    "intersect": "The coordinator did not mark the rows in common and no others: see what it runs",
}
#: Called with phase, steps done, steps in all (0 where unknown).
Progress = Callable[[str, int, int], None]
#: Called with a sentence for whoever watches the run.
Say = Callable[[str], None]


@dataclass
class Run:
    """One role's run: what all steps need.

    Attributes
    ----------
    plan : Plan
        Of the local parts it holds this party's only.
    meet : callable
        Imports the protocol's engine, meets the other parties, and returns that and the links with them;
        called once, by `connect`.
    links, engine
        What that returned.
    secret : bytes, optional
        What all parties know, where there is no TLS: the salt of all keys.
    approval : Approval, optional
        That this party's owner has of this run; its ledger counts it.
    keys : dict
        The key shared with each peer, once connected.
    say : callable
        Tells whoever watches the run something worth a sentence.
    workers : int
        Threads this role may use.
    block_bytes : int
        Of the blocks of rows in which tables are shared; the same at all parties.
    cautions : list of str
        What the result's reader must know of how it was computed; engines add to it.
    offered : dict of str to int
        Where rows were intersected: how many each party had to match, as far as this one knows.
    at_end : list of callable
        What this party leaves for itself, once all have done all they had to.
    alignment : str, optional
        The target's tag of its row ids, for its own result and nobody else.
    """

    plan: Plan
    roster: Roster
    meet: Callable[[], tuple[Links, Engine]]
    meter: Meter
    progress: Progress
    say: Say
    workers: int = 1
    block_bytes: int = BLOCK_BYTES
    secret: bytes | None = field(default=None, repr=False)
    approval: Approval | None = None
    links: Links = field(init=False)
    engine: Engine = field(init=False)
    keys: dict[Party, PairKey] = field(default_factory=dict)
    cautions: list[str] = field(default_factory=list)
    offered: dict[str, int] = field(default_factory=dict)
    at_end: list[Callable[[], None]] = field(default_factory=list)
    alignment: str | None = None
    _shown: set[str] = field(default_factory=set)

    def enter(self, phase: str) -> None:
        """Show that a phase has begun, once: steps within steps come back to it block by block."""
        if phase not in self._shown:
            self._shown.add(phase)
            self.progress(phase, 0, 0)

    def tick(self, done: int, of: int) -> None:
        """Report progress; raise if a peer is lost meanwhile."""
        self.links.check()
        self.progress(self.meter.current, done, of)


def rows_of_block(columns: int, block_bytes: int = BLOCK_BYTES) -> int:
    """Rows of a block of so many ring elements a row."""
    return max(1, block_bytes // (8 * columns))


def step(name: str) -> Callable[[Callable[Concatenate[Run, P], T]], Callable[Concatenate[Run, P], T]]:
    """Charge a function to a phase and show that the phase began."""

    def decorate(function: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
        def run_step(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with run.meter.phase(name):
                run.enter(name)
                return function(run, *args, **kwargs)

        update_wrapper(run_step, function)
        return run_step

    return decorate


def connect(run: Run) -> None:
    """Meet the others, see that all run the same plan and version, and agree a key with each.

    Everyone sends before anyone checks, so that all find the same difference themselves.

    Raises
    ------
    PlanMismatch
        Naming every key that differs, here and there.
    HandshakeError
        Another version, or a party that is not who the plan says it is.
    """
    run.links, run.engine = run.meet()
    _say_hello(run)


@step("connect")
def _say_hello(run: Run) -> None:
    me, peers = run.roster.me, run.roster.peers
    mine = X25519PrivateKey.generate()
    hello: dict[str, Any] = {
        "version": __version__,
        "party": me.name,
        "role": me.role.value,
        "number": np.array([me.number]),
        "plan": run.plan.canonical_json(),
        "public_key": mine.public_key().public_bytes_raw(),
        "run": token_bytes(16),
    }
    for peer in peers:
        run.links.send(peer, Kind.HELLO, hello)
    heard = {peer: run.links.receive(peer, Kind.HELLO) for peer in peers}
    for peer, theirs in heard.items():
        _check_hello(run, peer, theirs)
    run_id = (heard | {me: hello})[run.roster.coordinator]["run"]
    for peer, theirs in heard.items():
        run.keys[peer] = PairKey(mine, theirs["public_key"], me, peer, run_id, run.plan.digest(), run.secret)
        run.links.secure(peer, run.keys[peer])


def _check_hello(run: Run, peer: Party, theirs: Mapping[str, Any]) -> None:
    if theirs["version"] != __version__:
        raise HandshakeError(
            f"{peer} runs version {theirs['version'][:50]!r}, {run.roster.me} {__version__!r}"
        )
    differing = differences(run.plan.canonical_json(), theirs["plan"])
    if differing:
        raise PlanMismatch(
            f"the plans of {run.roster.me} (here) and {peer} (there) differ: " + "; ".join(differing)
        )
    claimed = (theirs["party"], theirs["role"], int(theirs["number"][0]))
    if claimed != (peer.name, peer.role.value, peer.number):
        raise HandshakeError(
            f"party {peer.number} should be {peer}, but what answers there is "
            f"{claimed[0][:64]} ({claimed[1][:20]}) with number {claimed[2]}"
        )


@step("agree")
def agree(run: Run, table: Table | None = None) -> Shapes:
    """Exchange the number of rows and features; check every bound and rule that depends on them alone.

    Raises
    ------
    AlignmentError
        Different numbers of rows.
    BoundError
        The arithmetic would not be exact, or the result would not fit one message.
    PlanError
        ``top`` asks for as many features as there are.
    DisclosureError
        Too few rows for so many features (``privacy.min_rows_per_feature``).
    """
    links, roster, plan = run.links, run.roster, run.plan
    owners = [party for party in roster.parties if party.role is not Role.COORDINATOR]
    sizes: dict[Party, tuple[int, int]] = {}
    if table is not None:
        sizes[roster.me] = (table.n, table.m)
        for peer in roster.peers:
            links.send(peer, Kind.SHAPE, {"n": np.array([table.n]), "features": np.array([table.m])})
    for owner in owners:
        if owner != roster.me:
            values = links.receive(owner, Kind.SHAPE)
            sizes[owner] = (int(values["n"][0]), int(values["features"][0]))
    for owner, (n, features) in sizes.items():
        if n < 3 or features < 1:
            raise ProtocolViolation(f"{owner} announced a table of {n} rows and {features} features")
    if len({n for n, _ in sizes.values()}) != 1:
        found = ", ".join(f"{owner.name} has {n}" for owner, (n, _) in sizes.items())
        raise AlignmentError(
            f"the parties have different numbers of rows: {found}. {_WAY_OUT[plan.alignment]}"
        )
    shapes = Shapes(
        n=sizes[roster.target][0],
        features={source: sizes[source][1] for source in roster.sources},
        m_target=sizes[roster.target][1],
    )
    check_shapes(plan, shapes)
    links.dimensions |= {"n": shapes.n, "m_sources": shapes.m_sources, "m_target": shapes.m_target}
    return shapes


def check_shapes(plan: Plan, shapes: Shapes) -> None:
    """Check every bound and rule that depends on the plan and on sizes alone; raise as `agree` does."""
    check_rows(plan, shapes.n)
    matrix = within("coefficients", plan.reveal)
    if not matrix:
        most = shapes.features
        encoding_of(plan, replace(shapes, defined=most, distinct=most, lasting=most))
    if matrix and 16 * shapes.m_sources * shapes.m_target > MAX_PAYLOAD // 2:
        raise BoundError(
            f"{shapes.m_sources} × {shapes.m_target} coefficients are more than one result can carry "
            f"({MAX_PAYLOAD // 32}); use fewer features a side, or reveal: strengths"
        )
    if plan.reveal == "ranking":
        _check_compared(plan, shapes.m_target)
    check_width(shapes.n, shapes.m_sources, shapes.m_target, plan.privacy.min_rows_per_feature)


def _check_compared(plan: Plan, m_target: int) -> None:
    if m_target > MAX_COMPARED:
        raise BoundError(
            f"reveal: ranking compares every pair of the target's features, {m_target} of them; it takes "
            f"{MAX_COMPARED} at most. Use fewer, or reveal: strengths"
        )
    if plan.top is not None and plan.top >= m_target:
        raise PlanError(
            f"top: {plan.top} leaves out none of the target's {m_target} features; use fewer, or leave it out"
        )


@step("rank")
def rank(run: Run, table: Table) -> Ranks:
    """Rank the party's own columns (paper: rank vectors) and refuse those that would give single rows away.

    Raises
    ------
    DisclosureError
        A column where fewer than ``privacy.min_group`` rows lie outside its largest group.
    """
    ranked = 0

    def tick() -> None:
        nonlocal ranked
        ranked += 1
        run.tick(ranked, table.m)

    columns = map(table.column, range(table.m))
    ranks = rank_columns(columns, table.m, workers=run.workers, tick=tick)
    check_groups(ranks, table.features, table.party, run.plan.privacy.min_group)
    return ranks


@step("align")
def align(run: Run, table: Table, source: Party) -> None:
    """Compare a digest of source's and target's ids, keyed with what the coordinator does not know.

    What each sends has its own name in it, so that it cannot be played back to its sender.

    It is also the signal to begin: a party sends nothing of its data before its peer has passed every check
    of its own, but for its ledger's, and has sent this.

    Raises
    ------
    AlignmentError
        The ids, or their order, differ.
    """
    peer = run.roster.target if run.roster.me == source else source
    ids = id_digest(table.ids, run.keys[peer].subkey(Purpose.DIGEST, source.name))
    mine, theirs = (hmac.digest(ids, sender.name.encode(), "sha256") for sender in (run.roster.me, peer))
    run.links.send(peer, Kind.ALIGNMENT, {"digest": mine})
    if not hmac.compare_digest(run.links.receive(peer, Kind.ALIGNMENT)["digest"], theirs):
        if odd := id_help(table.ids):
            run.say(odd)
        raise AlignmentError(
            f"{run.roster.me.name} and {peer.name} hold {table.n} rows each, but not the same ids in the "
            f"same order. {_WAY_OUT[run.plan.alignment]}"
        )


@step("account")
def account(run: Run) -> pd.DataFrame:
    """Exchange costs: data parties send theirs, the coordinator has everyone's.

    The exchange itself and the farewell after it are not in the table they carry.

    Returns
    -------
    DataFrame
        Columns ``cost.COLUMNS``.
    """
    seconds, counts = run.meter.table()
    costs = {run.roster.me: (seconds, counts)}
    if run.roster.me.role is Role.COORDINATOR:
        for peer in run.roster.peers:
            values = run.links.receive(peer, Kind.COST)
            costs[peer] = (values["seconds"], values["counts"])
    else:
        run.links.send(run.roster.coordinator, Kind.COST, {"seconds": seconds, "counts": counts})
    shown = costed(run.plan.protocol, run.plan.alignment)
    rows = [
        (party.name, phase, *(float(x) for x in seconds[i]), *(int(x) for x in counts[i]))
        for party, (seconds, counts) in sorted(costs.items(), key=lambda item: item[0].number)
        for i, phase in enumerate(PHASES)
        if phase in shown
    ]
    forwarded = [
        (run.roster.me.name, f"{FORWARDED} {one} and {other}", 0.0, 0.0, sent, received, 0, 0, 0)
        for (one, other), (received, sent) in run.meter.forwarded.items()
    ]
    return pd.DataFrame([*rows, *forwarded], columns=list(COLUMNS))

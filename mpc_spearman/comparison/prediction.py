"""What a run would cost, before anyone runs it: bytes exactly, seconds and memory about.

Bytes, messages and rounds are worked out (:mod:`mpc_spearman.comparison.traffic`). Seconds are the rows and
cells that each step goes through, times what one takes here (:mod:`mpc_spearman.comparison.calibration`; for
ciphertexts :mod:`mpc_spearman.comparison.ciphertexts`). The steps of the parties follow one another as in a
run: what a party does not spend at work it waits. The table that results is one of `compare`, so that
:func:`mpc_spearman.comparison.network_model.on_network` puts it on a network as it does measured ones.

What is left out: starting Python, meeting and agreeing keys; keep-alives; the owners' ledgers, and their
search for rows that many flags taken together single out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from mpc_spearman.comparison.calibration import Machine
from mpc_spearman.comparison.ciphertexts import Work
from mpc_spearman.comparison.memory import blocks_bytes, peaks
from mpc_spearman.comparison.table import TIDY
from mpc_spearman.comparison.traffic import Flow, Traffic
from mpc_spearman.comparison.variants import Size, Variant
from mpc_spearman.config import Plan
from mpc_spearman.engines.computation import Operation
from mpc_spearman.engines.he.scheme import PublicKey
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Roster
from mpc_spearman.protocols.agree import check_shapes
from mpc_spearman.wire.integers import width_of
from mpc_spearman.wire.meter import costed

#: UTF-8 bytes of a feature's name, where nobody says more.
NAME_BYTES = 10
# Seconds that reading and ranking a first table take: their libraries are not used before.
_FIRST = 0.05
# Steps that use all workers; of the others one thread.
_ON_ALL_WORKERS = ("rank",)
_PAILLIER = ("encrypt", "evaluate", "decrypt")


@dataclass(frozen=True)
class Host:
    """What the parties compute on.

    Attributes
    ----------
    cores : int
    shared : bool
        All parties are on one such machine, as in `run_local`; else each has one of its own.
    """

    cores: int
    shared: bool

    @classmethod
    def this(cls) -> Host:
        """Return this machine, shared by all parties."""
        return cls(len(os.sched_getaffinity(0)), shared=True)

    def workers(self, plan: Plan) -> int:
        """Threads that each role uses."""
        return plan.he.workers or max(1, self.cores // (len(plan.names) if self.shared else 1))


def estimate(
    variant: Variant, size: Size, machine: Machine, host: Host, *, name_bytes: int = NAME_BYTES
) -> pd.DataFrame:
    """Work out what a plan costs at a size.

    Parameters
    ----------
    variant : Variant
        The plan, freed of its tables.
    size : Size
        Rows in common, columns of each source, columns of the target.
    machine : Machine
        Of that plan: what has been measured of it is not measured again.
    host : Host
    name_bytes : int
        UTF-8 bytes of a feature's name.

    Returns
    -------
    DataFrame
        As `compare` returns it, ``repeat`` 0, columns `TIDY`: of every party and phase the seconds at work
        and waiting, bytes, messages and rounds, and the largest resident memory, in bytes, about.

    Raises
    ------
    BoundError
        A run of this plan would refuse the size.
    """
    plan = variant.plan
    roster = Roster.of(plan, plan.names[0])
    features = dict.fromkeys(roster.sources, size.m_A)
    everything = {**features, roster.target: size.m_B}
    shapes = Shapes(size.n, features, size.m_B, everything, everything, features)
    check_shapes(plan, shapes)
    keys: Mapping[Party, PublicKey] = machine.ciphertexts(plan).keys(shapes) if plan.protocol == "he" else {}
    flows = Traffic(plan, shapes, keys, name_bytes).flows
    work = _work(plan, shapes, machine, keys, flows)
    spent, wall = _schedule(plan, level_of(plan).computation(shapes).operation, roster, work, host)
    memory = peaks(plan, shapes, keys, machine.base[plan.protocol], machine.cell_bytes)
    about = [variant.protocol, variant.scheme, variant.level, variant.estimator, *size, 0]
    rows = []
    for party in roster.parties:
        idle = wall - sum(seconds for (owner, _), seconds in spent.items() if owner == party)
        for phase in costed(plan.protocol, plan.alignment):
            flow, waits = flows.get((party, phase), Flow()), idle if phase == "agree" else 0.0
            rows.append(
                [
                    *(*about, phase, party.name, spent[party, phase], waits),
                    *(flow.bytes_sent, flow.bytes_received, flow.messages, flow.rounds, memory[party]),
                ]
            )
    return pd.DataFrame(rows, columns=TIDY)


def _work(
    plan: Plan,
    shapes: Shapes,
    machine: Machine,
    keys: Mapping[Party, PublicKey],
    flows: Mapping[tuple[Party, str], Flow],
) -> Work:
    """Return the seconds of one core that each party spends in each phase."""
    n, work = shapes.n, Work()
    computation, encoding = level_of(plan).computation(shapes), level_of(plan).encoding(shapes)
    coordinator, target, *sources = Roster.of(plan, plan.names[0]).parties
    row, cell = machine.reading
    for owner in (target, *sources):
        columns = shapes.features.get(owner, shapes.m_target)
        sessions = 1 if owner in sources else len(sources)
        work[owner, "load"] = _FIRST + n * (row + columns * cell)
        work[owner, "rank"] = n * columns * machine.ranking(n)
        whatever, each = machine.rules(columns)
        work[owner, "protect"] = whatever + n * each
        work[owner, "align"] = n * machine.digest * sessions
        if plan.alignment == "intersect":
            own, matching = machine.intersection
            work[owner, "intersect"] = n * own
            work[coordinator, "intersect"] += n * matching
        if encoding is not None:
            first = "share" if plan.protocol == "mpc" else "encrypt" if owner in sources else "evaluate"
            work[owner, first] += n * (
                machine.order_of_ids
                + machine.encoding(
                    encoding.nearest, plan.estimator, columns, owner in sources and computation.summed
                )
            )
    for source in sources:
        if plan.protocol == "he":
            work.add(machine.ciphertexts(plan).session(shapes, source, keys[source]))
            if computation.operation == "differences":
                squares = machine.squares(shapes.features[source], shapes.m_target)
                work[coordinator, "decrypt"] += n * squares
        elif computation.operation == "differences":
            work.add(_differences(shapes, source, machine, coordinator, target))
            for party in (coordinator, target, source):
                work[party, "reveal"] += machine.touch * blocks_bytes(plan, shapes)
        else:
            work.add(_products(plan, shapes, source, machine, coordinator, target))
    if computation.operation == "comparison":
        for party in (coordinator, target, sources[0]):
            work[party, "reveal"] += flows[party, "reveal"].bytes_sent / 8 * machine.comparison
    return work


def _products(
    plan: Plan, shapes: Shapes, source: Party, machine: Machine, coordinator: Party, target: Party
) -> Work:
    n, work = shapes.n, Work()
    computation = level_of(plan).computation(shapes)
    a, b = computation.source_vectors[source], shapes.m_target
    give, take = machine.wire(width_of(computation.known.result))
    for owner, own, other in ((source, a, b), (target, b, a)):
        work[owner, "share"] = n * (own * (machine.mask + give) + other * take)
        work[owner, "share"] += machine.touch * blocks_bytes(plan, shapes)
        work[owner, "multiply"] = n * machine.products(a, b, owner == source)
    work[coordinator, "multiply"] = n * ((a + b) * machine.mask + machine.products(a, b, False))
    return work


def _differences(shapes: Shapes, source: Party, machine: Machine, coordinator: Party, target: Party) -> Work:
    n, work = shapes.n, Work()
    a, b = shapes.features[source], shapes.m_target
    basis = a + b - 1
    give, take = machine.wire(width_of(2 * (n - 1)))
    drawn, taken = machine.shuffling(n)
    opening = machine.opening(a, b)
    for owner, own in ((source, a), (target, b)):
        work[owner, "share"] = n * (drawn + own * (taken + machine.mask))
        work[owner, "reveal"] = n * (opening + basis * give)
    work[coordinator, "reveal"] = n * ((a + b) * machine.mask + opening + 2 * basis * take)
    work[coordinator, "multiply"] = n * machine.squares(a, b)
    return work


def _schedule(plan: Plan, operation: Operation, roster: Roster, work: Work, host: Host) -> tuple[Work, float]:
    """Let the parties work side by side, stage after stage.

    Returns
    -------
    spent : Counter
        Seconds that each party is at work in each phase.
    wall : float
        Seconds from start to end.
    """
    coordinator, target, *sources = roster.parties
    owners, everyone = (target, *sources), roster.parties
    workers = min(host.workers(plan), host.cores)
    many = (*_ON_ALL_WORKERS, *(_PAILLIER if plan.he.scheme == "paillier" else ()))
    spent, wall, differences = Work(), 0.0, operation == "differences"
    # What the coordinator computes without a message, while the others rank.
    early = Work({(coordinator, phase): work[coordinator, phase] for phase in ("keys", "multiply")})
    if differences:
        early.pop((coordinator, "multiply"))
    ahead = sum(early.values())

    def stage(phases: tuple[str, ...], *parties: Party, beside: float = 0.0) -> None:
        """Do these phases of these parties at once; who is done waits. `beside` is what C does meanwhile."""
        nonlocal wall, ahead
        done = [(party, phase) for party in parties for phase in phases if (party, phase) not in early]
        each = {at: work[at] / (workers if at[1] in many else 1) for at in done}
        busy = max(sum(each[at] for at in done if at[0] == party) for party in parties)
        passes, beside = busy, min(beside, busy)
        if host.shared:
            passes = max(busy, (sum(work[at] for at in done) + beside) / host.cores)
        ahead -= beside
        wall += passes
        for at in done:  # with fewer cores than are at work, all take longer
            spent[at] += each[at] * (passes / busy if busy else 1.0)

    stage(("load",), *owners)
    stage(("intersect",), *owners)
    stage(("intersect",), coordinator)
    stage(("rank", "protect", "align"), *owners, beside=ahead)
    if plan.protocol == "mpc":
        both = ("share", "multiply", "reveal") if differences else ("share", "multiply")
        stage(both, *(everyone if differences else owners), beside=ahead)
        if operation == "comparison":
            stage(("reveal",), *everyone)
    elif differences:
        stage(("encrypt", "evaluate", "decrypt"), *everyone, beside=ahead)
    else:
        stage(("encrypt", "evaluate"), *owners, beside=ahead)
        stage(("decrypt",), coordinator)
    spent.add(early)
    return spent, wall + ahead

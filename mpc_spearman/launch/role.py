"""Run one role of a plan in this process: what every process of a role calls."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from mpc_spearman.config import Approval, Plan
from mpc_spearman.engines.engine import engine_for
from mpc_spearman.errors import MpcSpearmanError, OutputError
from mpc_spearman.identity import Signer
from mpc_spearman.levels.view import VIEW
from mpc_spearman.network.round import Check
from mpc_spearman.parties import Role, Roster
from mpc_spearman.protocols.account import sign_and_part
from mpc_spearman.protocols.connect import agree_keys
from mpc_spearman.protocols.roles import run_coordinator, run_data_party, run_worker
from mpc_spearman.results.result import Result
from mpc_spearman.run import BLOCK_BYTES, Progress, Run, Say
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from mpc_spearman.wire.team import Team, fields


def run_role(
    plan: Plan,
    party: str,
    frame: pa.Table | None,
    *,
    shard: int = 0,
    join: Callable[[Roster, Meter, Callable[[Transport], None]], None],
    gather: Callable[[Roster, Callable[[Transport], Check]], None] = lambda team, take: None,
    ready: Callable[[Roster], Signer],
    decline: Callable[[Roster, Meter, Exception], None] = lambda roster, meter, error: None,
    approval: Approval | None = None,
    progress: Progress = lambda phase, done, of: None,
    say: Say = lambda text: None,
    links: Callable[..., Links] = Links,
    block_bytes: int = BLOCK_BYTES,
    keep_ranks: Path | None = None,
) -> Result | None:
    """Run one party's role, from its own key and table to farewell; or its part in one shard of it.

    When this returns, every party has finished. If this party fails, also before it has met anyone, the
    others are told the error's class, and no more.

    `frame` is this party's table, where it is not a file; `shard` which of its workers this is. `join`,
    `gather`, `ready` and `decline` are how it meets the others, as
    :class:`mpc_spearman.launch.rendezvous.Rendezvous` does. `gather` comes first: it calls its last argument
    with a transport to this party's other workers, and gets a check back that raises what has gone wrong
    between them. `join` calls its last argument with a transport to the other parties, to agree with them:
    once, or again if all begin anew. While it waits it makes that check. `links` makes the links over a
    transport: `Links`, or what watches or changes its messages. The other arguments are as in `Run`.

    Returns this party's own result, with its costs; None at a worker that is not the first.
    """
    roster, meter = Roster.of(plan, party, shard), Meter()
    team = roster.team(plan.shards)
    came, joined, beside, compared = False, None, None, None
    carriers: dict[str, Transport] = {}
    patience = {"timeout": plan.network.timeout, "longest": plan.network.message_timeout}

    def agree(transport: Transport) -> None:
        nonlocal joined
        carriers["parties"] = transport
        joined = links(partial(VIEW.fields, plan.shared()), roster, transport, meter, **patience)
        try:
            agree_keys(plan, roster, joined, compared)
        except BaseException as error:
            joined.abort(error)
            raise

    def take(transport: Transport) -> Check:
        nonlocal beside
        carriers["team"] = transport
        beside = Links(fields, team, transport, Meter(within=meter), **patience)
        return check

    def check() -> None:
        """Raise what has gone wrong within the party; tell others first, whose connections then end."""
        assert beside is not None
        try:
            beside.check()
        except MpcSpearmanError as error:
            if joined is not None:
                joined.abort(error)
            raise

    def meet() -> tuple[Links, Team]:
        nonlocal came, compared
        # To import it may fail, and takes longer than to read a small table, which came first: in no phase,
        # and not while others wait.
        engine_for(plan.protocol)
        with meter.phase("connect"):
            progress("connect", 0, 0)
            with meter.waiting():
                if plan.shards > 1:
                    gather(team, take)
                # From here on it is `join` that tells the others of a failure, and links are there that do.
                own, came = Team(team, beside), True
                if shard:
                    told, _ = own.hear()  # in which run its party is
                    compared = plan.canonical_json(shard, run=told.get("run"))
                join(roster, meter, agree)
        assert joined is not None
        if beside is not None:
            joined.beside, beside.beside = beside, joined
        if own.leads:
            own.tell({"run": joined.run.hex()})
        return joined, own

    used = plan.he.workers or workers()
    run = Run(plan, roster, meet, meter, progress, say, used, block_bytes, keep_ranks, approval)
    try:
        run.signer = ready(roster)
        result = None
        if shard:
            run_worker(run)
            with meter.phase("account"):
                run.links.close()
                run.team.close()
        else:
            coordinates = roster.me.role is Role.COORDINATOR
            found = run_coordinator(run) if coordinates else run_data_party(run, frame)
            with meter.phase("account"):
                run.team.close()
            result = sign_and_part(run, found)
    except BaseException as error:
        for own in (joined, beside):
            if own is not None:
                own.abort(error)
        if joined is None and not came and isinstance(error, Exception):
            decline(roster, meter, error)
        run.at_failure.close()
        raise
    for carrier in carriers.values():
        carrier.close()
    for leave in run.at_end:
        try:
            leave()
        except OutputError as error:  # what the run found is worth more than a file beside it
            say(str(error))
            result = result and result.with_warning(str(error))
    return result


def workers() -> int:
    """Threads one role may use: ``OMP_NUM_THREADS`` if it is set, or the processors this process may use."""
    try:
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0))

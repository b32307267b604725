"""Run one role of a plan in this process: what every process of a role calls."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from mpc_spearman.config import Approval, Plan
from mpc_spearman.engines.engine import engine_for
from mpc_spearman.errors import OutputError
from mpc_spearman.identity import Signer
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Role, Roster
from mpc_spearman.protocols.account import sign_and_part
from mpc_spearman.protocols.connect import agree_keys
from mpc_spearman.protocols.roles import run_coordinator, run_data_party
from mpc_spearman.results.result import Result
from mpc_spearman.run import BLOCK_BYTES, Progress, Run, Say
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter


def run_role(
    plan: Plan,
    party: str,
    frame: pa.Table | None,
    *,
    join: Callable[[Roster, Meter, Callable[[Transport], None]], None],
    ready: Callable[[Roster], Signer],
    decline: Callable[[Roster, Meter, Exception], None] = lambda roster, meter, error: None,
    approval: Approval | None = None,
    progress: Progress = lambda phase, done, of: None,
    say: Say = lambda text: None,
    links: Callable[..., Links] = Links,
    block_bytes: int = BLOCK_BYTES,
    keep_ranks: Path | None = None,
) -> Result:
    """Run one party's role, from its own key and table to farewell.

    When this returns, every party has finished. If this party fails, also before it has met anyone, the
    others are told the error's class, and no more.

    `frame` is this party's table, where it is not a file. `join`, `ready` and `decline` are how it meets the
    others, as :class:`mpc_spearman.launch.rendezvous.Rendezvous` does. `join` calls its last argument with a
    transport to the other parties, to agree with them: once, or again if all begin anew. `links` makes the
    links over a transport: `Links`, or what watches or changes its messages. The other arguments are as in
    `Run`.

    Returns this party's own result, with its costs.
    """
    roster, meter = plan.roster(party), Meter()
    came, joined = False, None
    carrier: Transport | None = None
    patience = {"timeout": plan.network.timeout, "longest": plan.network.message_timeout}

    def agree(transport: Transport) -> None:
        nonlocal joined, carrier
        carrier = transport
        joined = links(partial(VIEW.fields, plan.shared()), roster, transport, meter, **patience)
        try:
            agree_keys(plan, roster, joined)
        except BaseException as error:
            joined.abort(error)
            raise

    def meet() -> Links:
        nonlocal came
        # To import it may fail, and takes longer than to read a small table, which came first: in no phase,
        # and not while others wait.
        engine_for(plan.protocol)
        with meter.phase("connect"):
            progress("connect", 0, 0)
            with meter.waiting():
                came = True  # from here on it is `join` that tells the others of a failure
                join(roster, meter, agree)
        assert joined is not None
        return joined

    used = plan.he.workers or workers()
    run = Run(plan, roster, meet, meter, progress, say, used, block_bytes, keep_ranks, approval)
    try:
        run.signer = ready(roster)
        coordinates = roster.me.role is Role.COORDINATOR
        result = sign_and_part(run, run_coordinator(run) if coordinates else run_data_party(run, frame))
    except BaseException as error:
        if joined is not None:
            joined.abort(error)
        elif not came and isinstance(error, Exception):
            decline(roster, meter, error)
        run.at_failure.close()
        raise
    assert carrier is not None
    carrier.close()
    for leave in run.at_end:
        try:
            leave()
        except OutputError as error:  # what the run found is worth more than a file beside it
            say(str(error))
            result = result.with_warning(str(error))
    return result


def workers() -> int:
    """Threads one role may use: ``OMP_NUM_THREADS`` if it is set, or the processors this process may use."""
    try:
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0))

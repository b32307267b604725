"""The last steps: the data parties send the coordinator their costs, and all parties sign the record."""

from __future__ import annotations

import pandas as pd

from mpc_spearman.parties import Role
from mpc_spearman.results.record import NO_SIGNATURE, Record, sign, signed_by, written
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.meter import COLUMNS, FORWARDED, PHASES, cost_phases


@step("account")
def account(run: Run) -> pd.DataFrame:
    """Send this party's costs to the coordinator; return them, or at the coordinator all parties' costs.

    The columns are ``meter.COLUMNS``. Costs are without this exchange and the farewell after it.
    """
    me = run.roster.me
    costs = {me: dict(zip(("seconds", "counts"), run.meter.table(), strict=True))}
    if me.role is Role.COORDINATOR:
        costs |= {peer: run.links.receive(peer, Kind.COST) for peer in run.roster.peers}
    else:
        run.links.send(run.roster.coordinator, Kind.COST, costs[me])
    shown = cost_phases(run.plan.protocol, run.plan.alignment, proofs=run.plan.proofs)
    rows = [
        (party.name, phase, *map(float, values["seconds"][i]), *map(int, values["counts"][i]))
        for party, values in sorted(costs.items(), key=lambda item: item[0].number)
        for i, phase in enumerate(PHASES)
        if phase in shown
    ]
    forwarded = [
        (me.name, f"{FORWARDED} {' and '.join(pair)}", 0.0, 0.0, size, size, 0, 0, 0)
        for pair, size in run.meter.forwarded.items()
    ]
    return pd.DataFrame([*rows, *forwarded], columns=list(COLUMNS))


@step("account")
def sign_and_part(run: Run, result: Result) -> Result:
    """Sign the coordinator's record if it equals this party's, and say farewell with the signature.

    Collective: the coordinator sends the record; every party signs it and sends its signature, or none, to
    all. Nothing that is opened or stated decides whether the run ends well: a signature that is missing or
    wrong is a warning in the result of the party that notices it.

    Security: a signature is over the record's bytes and its purpose, under the key by which the others know
    this party (Ed25519, RFC 8032: existentially unforgeable). Beyond what its readers know, a record has only
    commitments, which hide messages from parties without their nonces.
    """
    signer, me, hub = run.meeting.signer, run.roster.me, run.roster.coordinator
    own_record = Record.of(
        run.plan, run.links.run, result.n, signer.identities, run.notes.granted, run.notes.began,
        rehearsal=signer.rehearsal,
    )  # fmt: skip
    text = own_record.text
    if me.role is Role.COORDINATOR:
        for peer in run.roster.peers:
            run.links.send(peer, Kind.RECORD, {"record": text})
    else:
        text = run.links.receive(hub, Kind.RECORD)["record"]
    signature, differ = sign(text, own_record, me.name, signer.identity)
    signatures = run.links.close(signature)
    unsigned = sorted(signer.identities.keys() - signed_by(text, signer.identities, signatures))
    if differ:
        result = result.with_warning(
            f"This party has not signed {hub.name}'s record: it differs in {', '.join(differ)}."
        )
    missing = [
        f"{'not' if signatures[name] == NO_SIGNATURE else 'wrongly'} by {name}"
        for name in unsigned
        if name != me.name
    ]
    if missing:
        result = result.with_warning(f"The record of this run is signed {', '.join(missing)}.")
    return result.with_record(written(text, signatures, run.notes.granted))

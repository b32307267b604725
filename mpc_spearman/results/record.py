"""The record of a run: what happened, signed by all parties with their identities.

At the end the coordinator writes the record, every party compares it with what it knows itself, and signs
exactly these bytes for this purpose; signatures go pairwise, with the farewell. A party that does not agree
does not sign: results stay valid, and each folder's ``record.json`` names it.

A message that passes results on begins with a nonce, 32 random bytes that its maker and its receivers alone
know. The record holds a commitment to it: SHA-256 over the run, the grant and the whole message. The nonce
hides the message from others, and no other message has the same commitment (collision resistance).
"""

from __future__ import annotations

import binascii
import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from mpc_spearman.config import Plan
from mpc_spearman.config.fields import Count, Flag, Name, Section, Text
from mpc_spearman.config.wording import canonical, spoken
from mpc_spearman.errors import MpcSpearmanError, OutputError, RecordError
from mpc_spearman.identity import Identity, public_key, verify
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Role
from mpc_spearman.results import run_directory, saved
from mpc_spearman.results.saved import RECORD
from mpc_spearman.version import __version__
from mpc_spearman.wire.keys import list_hash
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import decode

#: A signature is 64 bytes; these stand for none, and no key can make them.
NO_SIGNATURE = bytes(64)
_PURPOSE = "record of a run"
_CLOCKS_APART = timedelta(hours=1)
Digest = Annotated[Text, Field(pattern="^[0-9a-f]{64}$")]

PROVES = (
    "A signature proves that its key's owner took part in this run of this plan, with this number of\n"
    "rows, and agrees to what it was given. The coordinator's proves that it sent exactly these messages.\n"
    "Not proved: that tables were real, that a result is right, or that nobody learnt more in another\n"
    "way. Pages and p-values are not checked. The times are the coordinator's."
)


class Granted(Section):
    """What the coordinator passed on to a party: a grant, and a commitment to the message, or "" if none."""

    grant: Text
    commitment: Digest | Literal[""]


class Record(Section):
    """What all parties sign: digests, commitments and the run's id are hexadecimal.

    ``rehearsal`` says that the identities were made for this run on one machine, and prove nothing about
    anybody; ``opened``, to whom the protocol's values were opened, and at which level; ``began`` and
    ``ended`` are by the coordinator's clock.
    """

    version: Text
    plan: Digest
    run: Digest
    rows: Count
    rehearsal: Flag
    identities: dict[Name, Text]
    opened: dict[Name, Text]
    granted: dict[Name, Granted]
    began: AwareDatetime
    ended: AwareDatetime

    @classmethod
    def of(
        cls, plan: Plan, run: bytes, rows: int, identities: Mapping[str, str], messages: Mapping[str, bytes],
        began: datetime, *, rehearsal: bool,
    ) -> Record:  # fmt: skip
        """Return the record of a run that ends now, as this party knows it.

        `messages` are the messages with results that this party knows, by receiver.
        """
        grants = {
            party.name: plan.terms.granted[party.role]
            for party in plan.roster(plan.names[0]).parties
            if party.role is not Role.COORDINATOR
        }
        return cls(
            version=__version__,
            plan=plan.digest().hex(),
            run=run.hex(),
            rows=rows,
            rehearsal=rehearsal,
            identities=dict(identities),
            opened={plan.informed: plan.reveal},
            granted={
                name: Granted(grant=grant, commitment=commitment(run, grant, messages.get(name)))
                for name, grant in grants.items()
            },
            began=began,
            ended=datetime.now(timezone.utc),
        )

    @property
    def text(self) -> str:
        """What is signed."""
        return canonical(self.model_dump(mode="json"))

    @classmethod
    def read(cls, text: str) -> Record:
        """Read a record; ValueError if it is none, or is written in another way than `text` writes it.

        JSON that names a key twice says one thing to one reader and another to the next.
        """
        record = cls.model_validate_json(text)
        if record.text != text:
            raise ValueError("not canonical")
        return record


def commitment(run: bytes, grant: str, message: bytes | None) -> str:
    """Commit to a message that begins with its nonce; hexadecimal."""
    if message is None:
        return ""
    return list_hash(_PURPOSE.encode(), run, grant.encode(), message).hex()


def sign(text: str, own_record: Record, me: str, identity: Identity) -> tuple[bytes, list[str]]:
    """Sign the coordinator's record if it says the same as a party's own.

    Returns the signature, or `NO_SIGNATURE`, and the names of what differs.
    """
    try:
        stated = Record.read(text)
    except ValueError:
        return NO_SIGNATURE, ["its form"]
    differ = [
        name
        for name in ("version", "plan", "run", "rows", "rehearsal", "identities", "opened")
        if getattr(stated, name) != getattr(own_record, name)
    ]
    grants, own_grants = ({name: g.grant for name, g in r.granted.items()} for r in (stated, own_record))
    own_grant = own_record.granted.get(me)
    if grants != own_grants or stated.granted.get(me) != own_grant:
        differ.append("granted")
    if stated.began > stated.ended:
        differ.append("began, ended")
    if abs(apart := stated.ended - own_record.ended) > _CLOCKS_APART:
        minutes = f"{abs(apart).total_seconds() / 60:,.0f} minutes"
        which = "ahead of" if apart > timedelta() else "behind"
        differ.append(f"ended (its clock is {minutes} {which} this host's: set both clocks, as by NTP)")
    return (NO_SIGNATURE if differ else identity.sign(_PURPOSE, text.encode())), differ


def signed_by(text: str, identities: Mapping[str, str], signatures: Mapping[str, bytes]) -> set[str]:
    """Return the parties whose signature under the record holds."""
    return {
        name
        for name, key in identities.items()
        if verify(public_key(key), _PURPOSE, text.encode(), signatures.get(name, NO_SIGNATURE))
    }


def written(text: str, signatures: Mapping[str, bytes], messages: Mapping[str, bytes]) -> str:
    """Write ``record.json``: the record as it was signed, the signatures, and the messages known here."""
    encoded = {
        key: {name: b64encode(data).decode() for name, data in by_name.items()}
        for key, by_name in (("signatures", signatures), ("messages", messages))
    }
    return json.dumps({"record": text, **encoded}, indent=2) + "\n"


def check(folder: Path, plan: Plan | None) -> Iterator[tuple[bool, str]]:
    """Check a run directory's record against a verifier's plan.

    Yields sentences in reading order, each with whether that check passed. `RecordError` if the record is
    missing or unreadable; `OutputError` if the folder is.
    """
    file, summary = folder / RECORD, run_directory.read_summary(folder)
    if not file.exists():
        raise RecordError(f"{folder} has no {RECORD}: runs leave one in each party's folder, merges do not")
    try:
        content = json.loads(run_directory.read_bytes(file))
        text = content["record"]
        signatures, messages = (
            {name: b64decode(encoded, validate=True) for name, encoded in content[key].items()}
            for key in ("signatures", "messages")
        )
        record = Record.read(text)
        digest, run = bytes.fromhex(record.plan), bytes.fromhex(record.run)
        for key in record.identities.values():
            public_key(key)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise RecordError(f"{file} is not a record, or is damaged") from None
    when = f"{record.began:%Y-%m-%d %H:%M:%S} to {record.ended:%H:%M:%S} UTC"
    yield True, f"plan {spoken(digest)}, {record.rows:,} rows, {when}, version {record.version}"
    keys: Mapping[str, str | None] = record.identities
    if plan is not None:
        yield plan.digest() == digest, "the plan's digest against your plan's"
    if record.rehearsal:
        yield False, "keys unproved: a rehearsal on one machine, with keys made for it"
    elif plan is None:
        yield False, "keys unproved: they are the record's own; --plan takes them from a plan that you trust"
    else:
        keys = plan.identities
        yield keys == record.identities, "the parties' keys against your plan's"
    signers = signed_by(text, {name: key for name, key in keys.items() if key is not None}, signatures)
    for name in keys:
        signed = name in signers
        missing = signatures.get(name, NO_SIGNATURE) == NO_SIGNATURE
        yield signed, f"{name}: {'signed' if signed else 'not signed' if missing else 'signature is wrong'}"
    plan_digest = hashlib.sha256(canonical(summary.get("plan")).encode()).digest()
    same_run = (plan_digest, summary.get("n")) == (digest, record.rows)
    yield same_run, "the result beside it, by plan and rows"
    for name, granted in record.granted.items():
        grant, is_owner = granted.grant, name == summary.get("party")
        if name in messages:
            matches = commitment(run, grant, messages[name]) == granted.commitment
            yield matches, f"{name}: the message with its {grant}, kept here, against its commitment"
            if is_owner:
                why = _what_differs(folder, messages[name])
                if why and record.version != __version__:
                    why = f"version {record.version} wrote it: verify with that one"
                hint = f" ({why})" if why else ""
                yield not why, f"{name}: what this folder shows against the message{hint}"
        elif granted.commitment and is_owner:
            yield False, f"{name}: the message with its {grant} is not here, so nothing shows its numbers"
        elif granted.commitment:
            yield True, f"{name}: {grant}, in a message that is not here (commitment {granted.commitment})"
        else:
            yield True, f"{name}: nothing was passed on"


def _what_differs(folder: Path, message: bytes) -> str:
    """Return where a data party's folder does not have the results in a message; empty if it has them."""
    try:
        findings, _ = saved.read(folder)
        role = Role(findings.copy.role)
        fields = VIEW.fields(findings.plan.terms, Kind.RESULT, Role.COORDINATOR, role) or ()
        numbers = dict(decode(fields, findings.sizes, memoryview(message)))
        if not findings.shows(numbers):
            return "result.json has other numbers"
        unlike = saved.unlike_csv_files(findings, folder)
        return f"not as in result.json: {', '.join(unlike)}" if unlike else ""
    except OutputError as error:  # it names the file
        return str(error)
    except (MpcSpearmanError, LookupError, ArithmeticError, TypeError, ValueError, AttributeError):
        return "result.json is damaged"

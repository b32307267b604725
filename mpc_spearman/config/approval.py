"""An approval: somebody other than the owner agrees to one plan, and signs it with their own key.

Anyone who runs ``join`` can also remove ``policy.approved_by`` from the owner's local file. So an approval
prevents mistakes and unreviewed changes. It does not stop somebody who is determined.

A file of two lines: the approval as canonical JSON, and the signature over exactly these bytes in base64.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, ValidationError

from mpc_spearman.config.fields import Count, Name, Section, Text, whole
from mpc_spearman.config.parties import DataParty
from mpc_spearman.config.plan import Plan
from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import ApprovalError, PlanError
from mpc_spearman.files import write_output

if TYPE_CHECKING:
    from mpc_spearman.identity import Identity

_PURPOSE = "approval of a run"
_LONGEST_FILE = 1 << 16
# Local keys that an approval does not cover: where this party is, and the approval itself.
_NOT_APPROVED: dict[str, Any] = {
    **dict.fromkeys(("name", "identity", "key", "listen", "advertise"), True),
    "policy": {"approval"},
}


class Approval(Section):
    """The approved plan and local part, as digests; the last day (UTC) to begin a run; how many runs.

    `made` distinguishes two approvals of the same plan, whose runs are counted separately.
    """

    party: Name
    plan: Text
    local: Text
    made: AwareDatetime
    until: date
    runs: Annotated[Count, whole(1)] = 1
    """How many runs may send something. The ledger counts them."""

    @property
    def text(self) -> bytes:
        """The bytes that are signed: canonical JSON."""
        return canonical(self.model_dump(mode="json")).encode()

    @property
    def digest(self) -> str:
        """The SHA-256 of `text`, hexadecimal; the ledger counts runs by it."""
        return hashlib.sha256(self.text).hexdigest()


def _local_digest(plan: Plan, party: str, folder: Path) -> str:
    """Return a digest of a data party's table setting, how the table is read, and its policy.

    Paths below `folder` are taken relative to it, so that a folder can be copied. The contents of files do
    not count.
    """
    content = plan.party(party).model_dump(mode="json", exclude=_NOT_APPROVED)

    def relative(value: object) -> object:
        if isinstance(value, dict):
            return {key: relative(item) for key, item in value.items()}
        inside = isinstance(value, str) and value.startswith("/") and Path(value).is_relative_to(folder)
        return str(Path(str(value)).relative_to(folder)) if inside else value

    return hashlib.sha256(canonical(relative(content)).encode()).hexdigest()


def approve(plan: Plan, party: str, officer: Identity, until: date, runs: int) -> Path:
    """Sign an approval and write it to ``policy.approval``; `PlanError` if this key may not approve."""
    policy = plan.owner(party).policy
    for name, identity in plan.identities.items():
        if identity == str(officer):
            raise PlanError(f"this is the key of party {name}: an approver needs a key of its own")
    if policy.approved_by != str(officer) or policy.approval is None:
        advice = f"to change that, write `approved_by: {officer}` below `policy` in its local file"
        raise PlanError(f"the policy of party {party} does not name this key as its approver's; {advice}")
    file = policy.approval
    approval = Approval(
        party=party,
        plan=plan.digest().hex(),
        local=_local_digest(plan, party, file.parent),
        made=datetime.now(timezone.utc),
        until=until,
        runs=runs,
    )
    signature = b64encode(officer.sign(_PURPOSE, approval.text))
    write_output(file, approval.text + b"\n" + signature + b"\n")
    return file


def check_approval(plan: Plan, party: str) -> Approval | None:
    """Return the approval of a run that is about to begin; None where the owner's policy needs none.

    `ApprovalError` if it is missing, forged, for another plan, or expired. The ledger counts its runs.
    """
    owner = plan.party(party)
    if not isinstance(owner, DataParty) or owner.policy.approved_by is None:
        return None
    file = owner.policy.approval
    advice = "`mpc-spearman approve` makes one, and `policy.approval` names it"
    if file is None or not file.is_file():  # a pipe could block for ever
        raise ApprovalError(f"party {party} has no approval{f' in {file}' if file else ''}: {advice}")
    try:
        with file.open("rb") as opened:
            text, _, signature = opened.read(_LONGEST_FILE).partition(b"\n")
    except OSError as error:
        raise ApprovalError(f"party {party}: its approval {file} cannot be read: {error.strerror}") from None
    from mpc_spearman.identity import public_key, verify

    try:
        key = public_key(owner.policy.approved_by)
        signed = verify(key, _PURPOSE, text, b64decode(signature.strip(), validate=True))
    except ValueError:  # not base64
        signed = False
    if not signed:
        why = "is not signed with the key of policy.approved_by, or was changed since"
        raise ApprovalError(f"party {party}: {file} {why}; {advice}")
    try:
        approval = Approval.model_validate_json(text)
    except ValidationError:
        raise ApprovalError(f"party {party}: {file} was made by another version; {advice}") from None
    for subject, approved, actual in (
        ("party", approval.party, party),
        ("shared plan", approval.plan, plan.digest().hex()),
        ("local part (table, columns or policy)", approval.local, _local_digest(plan, party, file.parent)),
    ):
        if approved != actual:
            undo = "Settings on the command line count. Undo the change, or have it approved"
            raise ApprovalError(f"party {party}: {file} approves a different {subject}. {undo}")
    if datetime.now(timezone.utc).date() > approval.until:
        raise ApprovalError(f"party {party}: {file} was valid until {approval.until}; {advice}")
    return approval

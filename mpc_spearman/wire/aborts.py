"""What a party that stops tells the others, and what they make of it: an error's class, a party, a phase.

Nothing else of an error leaves its party.
"""

from __future__ import annotations

from collections.abc import Collection

from mpc_spearman.errors import (
    ERRORS,
    HandshakeError,
    MpcSpearmanError,
    NetworkError,
    PartyMissing,
    PeerDied,
    PeerFailed,
    PeerTimeout,
    ProtocolViolation,
    TlsError,
)
from mpc_spearman.wire.meter import PHASES

#: Errors that mean the same for every party: told of one, a party raises it as its own.
COMMON = (HandshakeError, PartyMissing, PeerDied, PeerTimeout, TlsError)
_LOST = (PartyMissing, PeerDied, PeerTimeout)


def notice(error: BaseException, me: str, phase: str) -> tuple[str, str, str]:
    """Say of an error what others may hear: class of the first error, its party, and the phase."""
    if not isinstance(error, MpcSpearmanError):
        return MpcSpearmanError.__name__, me, phase
    return error.about or (type(error).__name__, me, phase)


def from_notice(
    name: str, party: str, phase: str, *, told_by: str, parties: Collection[str]
) -> MpcSpearmanError:
    """Turn what was heard into the error to stop with.

    Raises
    ------
    ProtocolViolation
        It names no error, party or phase of this run.
    """
    known = ERRORS.get(name)
    if known is None or phase not in PHASES or party not in parties:
        raise ProtocolViolation(f"{told_by} stopped with a message that makes no sense")
    text = f"party {party} stopped in phase {phase}: {known.public} ({name})"
    if issubclass(known, _LOST):
        text = f"{told_by} reports that party {party} is lost ({name})"
    return (known if issubclass(known, COMMON) else PeerFailed)(text, (name, party, phase))


def lost_party(error: BaseException) -> str | None:
    """Name the party that an error says is lost: gone, silent, or never come."""
    about = error.about if isinstance(error, MpcSpearmanError) else None
    if about is None or ERRORS.get(about[0]) not in (NetworkError, *_LOST):
        return None
    return about[1]

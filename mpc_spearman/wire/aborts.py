"""What a party that stops sends the others: the error's class, a party and a phase, and nothing else."""

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
    Unreachable,
)
from mpc_spearman.wire.meter import PHASES

#: Errors that mean the same for every party: a party that is told of one raises it as its own.
COMMON = (HandshakeError, PartyMissing, PeerDied, PeerTimeout, TlsError, Unreachable)
_LOST = (PartyMissing, PeerDied, PeerTimeout)


def notice(error: BaseException, me: str, phase: str) -> tuple[str, str, str]:
    """Return what others may learn of an error: the first error's class, its party, and the phase."""
    if not isinstance(error, MpcSpearmanError):
        return MpcSpearmanError.__name__, me, phase
    return error.about or (type(error).__name__, me, phase)


def from_notice(
    name: str, party: str, phase: str, *, told_by: str, parties: Collection[str]
) -> MpcSpearmanError:
    """Turn a received notice (an error's class, party and phase) into the error to stop with.

    `ProtocolViolation` if it names no error, party or phase of this run.
    """
    known = ERRORS.get(name)
    if known is None or phase not in PHASES or party not in parties:
        raise ProtocolViolation(f"{told_by} stopped with a message that this version cannot parse")
    text = f"party {party} stopped in phase {phase}: {known.public} ({name})"
    if known is PartyMissing:
        text = f"{told_by} reports that party {party} did not join in time ({name})"
    elif known is Unreachable:
        text = f"{told_by} reports that party {party} cannot be reached ({name})"
    elif issubclass(known, _LOST):
        # Blame nobody: the party may have ended, or the connection to it.
        text = f"{told_by} reports a lost connection with party {party} ({name})"
    kind = known if issubclass(known, COMMON) else PeerFailed
    return kind(text, (name, party, phase), heard=True)


def reach(error: MpcSpearmanError) -> int:
    """Return how far an error is from its cause: of several, the nearest explains the others.

    What a party found ranks before what it was told, and a reason for stopping before a lost connection.
    """
    if lost_party(error) is not None:
        return 4 if error.heard else 3
    if error.heard:
        return 2
    return int(isinstance(error, NetworkError))


def lost_party(error: BaseException) -> str | None:
    """Name the party that an error says is lost: gone, silent, or never come."""
    about = error.about if isinstance(error, MpcSpearmanError) else None
    if about is None or ERRORS.get(about[0]) not in (NetworkError, *_LOST):
        return None
    return about[1]

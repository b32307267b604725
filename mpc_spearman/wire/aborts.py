"""The notice with which a failing party stops the others: an error's class, a party and a phase, no more."""

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

#: Errors that mean the same for every party: whoever receives the notice of one raises the same class.
COMMON = (HandshakeError, PartyMissing, PeerDied, PeerTimeout, TlsError, Unreachable)
_LOSSES = (PartyMissing, PeerDied, PeerTimeout)


def notice(error: BaseException, me: str, phase: str) -> tuple[str, str, str]:
    """Return the notice of an error: the class of the first error, the party that had it, and the phase."""
    if not isinstance(error, MpcSpearmanError):
        return MpcSpearmanError.__name__, me, phase
    return error.about or (type(error).__name__, me, phase)


def from_notice(
    name: str, party: str, phase: str, *, sender: str, parties: Collection[str]
) -> MpcSpearmanError:
    """Return the error with which this party stops after the notice that `sender` sent.

    `ProtocolViolation` if it names no error, party or phase of this run.
    """
    reported = ERRORS.get(name)
    if reported is None or phase not in PHASES or party not in parties:
        raise ProtocolViolation(f"{sender} stopped with a message that this version cannot parse")
    text = f"party {party} stopped in phase {phase}: {reported.public} ({name})"
    if reported is PartyMissing:
        text = f"{sender} reports that party {party} did not join in time ({name})"
    elif reported is Unreachable:
        text = f"{sender} reports that party {party} cannot be reached ({name})"
    elif issubclass(reported, _LOSSES):
        # Blame nobody: the party may have ended, or the connection to it.
        text = f"{sender} reports a lost connection with party {party} ({name})"
    kind = reported if issubclass(reported, COMMON) else PeerFailed
    return kind(text, (name, party, phase), heard=True)


def distance_from_cause(error: MpcSpearmanError) -> int:
    """Return how far an error is from its cause; of several, the lowest explains the others.

    An error that arose here ranks before one in a notice, and any reason to stop before a lost connection.
    """
    if lost_party(error) is not None:
        return 4 if error.heard else 3
    if error.heard:
        return 2
    return int(isinstance(error, NetworkError))


def lost_party(error: BaseException) -> str | None:
    """Return the party that an error reports as lost (gone, silent or never joined), or None."""
    about = error.about if isinstance(error, MpcSpearmanError) else None
    if about is None or ERRORS.get(about[0]) not in (NetworkError, *_LOSSES):
        return None
    return about[1]

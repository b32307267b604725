"""Every error of the package, its exit code, and the sentence that peers get.

::

    MpcSpearmanError                 1
    ├── PlanError                    2
    ├── SetupError                   3
    ├── TableError                   4
    ├── DisclosureError              5
    ├── PolicyError                  6
    │   └── ApprovalError           26
    ├── BoundError                   7
    ├── HandshakeError               8
    │   ├── PlanMismatch             9
    │   └── AlignmentError          10
    ├── NetworkError                11
    │   ├── PeerDied                12
    │   ├── PeerTimeout             13
    │   ├── PeerFailed              14
    │   ├── PartyMissing            18
    │   ├── Unreachable             25
    │   └── TlsError                19
    │       ├── UnknownKey          21
    │       └── PlaintextPeer       23
    ├── ProtocolViolation           15
    ├── OutputError                 16
    ├── RoleCrashed                 17
    ├── MergeError                  24
    ├── RecordError                 27
    └── NotRevealed                  -

Ctrl-C ends with 130, SIGTERM with 143, SIGHUP with 129, as shells expect.

An error's text stays with its own party. A peer learns only the class and its fixed ``public`` sentence, so
no column name, file name or value can reach another party through an error.
"""

from __future__ import annotations

from typing import ClassVar


class MpcSpearmanError(Exception):
    """An error without a code of its own. The base of all errors of this package.

    Attributes
    ----------
    exit_code : int
        What a command that ends with this error returns.
    public : str
        The only sentence about it that peers get.
    about : tuple of str, or None
        For an error that began at another party: the first error's class, that party, and the phase. Peers
        get the same notice, so that everyone names the party that failed and not the one that reported it.
    heard : bool
        Whether this party has the error from another party's notice.
    """

    exit_code: ClassVar[int] = 1
    public: ClassVar[str] = "it stopped with an unexpected error"

    def __init__(
        self, message: str, about: tuple[str, str, str] | None = None, *, heard: bool = False
    ) -> None:
        super().__init__(message)
        self.about, self.heard = about, heard


class PlanError(MpcSpearmanError):
    """The plan is wrong (a key, a value, or two that contradict each other), or the command's usage."""

    exit_code, public = 2, "its plan is not valid"


class SetupError(MpcSpearmanError):
    """Something that this machine needs is missing: a library, files or processes, proxy credentials."""

    exit_code, public = 3, "its installation is incomplete"


class TableError(MpcSpearmanError):
    """A party's table cannot be used."""

    exit_code, public = 4, "its table was refused"


class DisclosureError(MpcSpearmanError):
    """Too many ids to match, or too few in common, for an owner's policy."""

    exit_code, public = 5, "an owner's limit on ids to match stopped it"


class PolicyError(MpcSpearmanError):
    """The plan goes beyond what a data owner's policy allows."""

    exit_code, public = 6, "its owner's policy does not allow this plan"


class ApprovalError(PolicyError):
    """The required approval is missing, forged, expired or for something else: docs/hosts.md#approval."""

    exit_code, public = 26, "its owner's approval of this run is missing"


class BoundError(MpcSpearmanError):
    """The numbers do not fit the encoding."""

    exit_code, public = 7, "the numbers do not fit the encoding"


class HandshakeError(MpcSpearmanError):
    """The parties do not agree on what they run, such as their versions."""

    exit_code, public = 8, "the handshake failed"


class PlanMismatch(HandshakeError):
    """The shared plans differ; the keys are named."""

    exit_code, public = 9, "the parties' plans differ"


class AlignmentError(HandshakeError):
    """The parties' rows differ in number, ids or order, or too few are in common."""

    exit_code, public = 10, "the parties' rows are not the same, or too few are in common"


class NetworkError(MpcSpearmanError):
    """A link to another party failed."""

    exit_code, public = 11, "a link failed"


class PeerDied(NetworkError):
    """Another party's process or connection is gone."""

    exit_code, public = 12, "it lost a peer"


class PeerTimeout(NetworkError):
    """Another party was silent for too long (``network.timeout``, ``network.message_timeout``)."""

    exit_code, public = 13, "a peer was silent for too long"


class PeerFailed(NetworkError):
    """Another party stopped with an error of its own."""

    exit_code, public = 14, "another party stopped"


class PartyMissing(NetworkError):
    """A party has not joined in time."""

    exit_code, public = 18, "a party has not joined in time"


class Unreachable(NetworkError):
    """Others cannot reach this party where it listens, or it cannot reach the coordinator again."""

    exit_code, public = 25, "it cannot be reached"


class TlsError(NetworkError):
    """TLS with another party failed, or this machine does not allow it."""

    exit_code, public = 19, "TLS with a peer failed"


class UnknownKey(TlsError):
    """Another party shows a key that is not in the plan, or its plan lacks this party's key."""

    exit_code, public = 21, "a party's key is not the one in the plan"


class PlaintextPeer(TlsError):
    """The other side does not speak TLS."""

    exit_code, public = 23, "a peer does not speak TLS"


class ProtocolViolation(MpcSpearmanError):
    """Another party sent what the protocol does not allow here."""

    exit_code, public = 15, "a peer broke the protocol"


class OutputError(MpcSpearmanError):
    """The results folder cannot be written or read."""

    exit_code, public = 16, "its results could not be written"


class RoleCrashed(MpcSpearmanError):
    """A role's process exited without an error message."""

    exit_code, public = 17, "it crashed"


class MergeError(MpcSpearmanError):
    """The results cannot be merged."""

    exit_code, public = 24, "results could not be merged"


class RecordError(MpcSpearmanError):
    """The signed record is missing, altered, or not signed by all: docs/hosts.md#the-record."""

    exit_code, public = 27, "a record is not valid"


class NotRevealed(MpcSpearmanError, AttributeError):
    """The run's ``reveal`` level or ``results`` did not give this part of the result.

    Also an ``AttributeError``, so that ``hasattr`` and ``getattr`` with a default work on results.
    """


def _tree(root: type[MpcSpearmanError]) -> list[type[MpcSpearmanError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _tree(child))]


#: Every class of the tree by name: a launcher rebuilds from it the error that a role's process reported.
ERRORS: dict[str, type[MpcSpearmanError]] = {cls.__name__: cls for cls in _tree(MpcSpearmanError)}

"""Every error of the package, its exit code, and what a peer may hear of it.

::

    MpcSpearmanError                 1   anything that has no code of its own
    ├── PlanError                    2   the plan is wrong: a key, a value, or two that do not go together
    ├── SetupError                   3   something this machine needs is not installed
    ├── TableError                   4   a party's table cannot be used
    ├── DisclosureError              5   too many ids to match, or too few in common, for an owner's policy
    ├── PolicyError                  6   the plan goes beyond what a data owner's policy allows
    │   └── ApprovalError           26   the owner's policy asks for an approval that this run does not have
    ├── BoundError                   7   the numbers do not fit the encoding
    ├── HandshakeError               8   the parties do not run the same thing
    │   ├── PlanMismatch             9   their plans differ, key by key
    │   └── AlignmentError          10   their rows differ in number, ids or order, or too few are in common
    ├── NetworkError                11   a link failed
    │   ├── PeerDied                12   a peer's process or connection is gone
    │   ├── PeerTimeout             13   a peer was silent beyond ``network.timeout``
    │   ├── PeerFailed              14   a peer stopped with an error of its own
    │   ├── PartyMissing            18   a party has not joined in time
    │   ├── Unreachable             25   a party cannot reach another one's address
    │   └── TlsError                19   TLS with a peer failed, or cannot be set up
    │       ├── UnknownKey          21   a party's key is not the one in a plan
    │       └── PlaintextPeer       23   a peer does not speak TLS
    ├── ProtocolViolation           15   a peer sent what the protocol does not allow here
    ├── OutputError                 16   the run directory cannot be written or read
    ├── RoleCrashed                 17   a role's process exited without an error message
    ├── MergeError                  24   results that cannot be merged
    ├── RecordError                 27   a run's record is not signed by all, or does not fit
    └── NotRevealed                  -   Python only: this run did not reveal what was asked of its result

Ctrl-C ends with 130, SIGTERM with 143, SIGHUP with 129, as shells expect.

An error's text stays with its own party. What a peer is told is the class and its fixed ``public``
sentence, so no column name, file name or value of one party can reach another through an error.
"""

from __future__ import annotations

from typing import ClassVar


class MpcSpearmanError(Exception):
    """Base of every error this package raises on purpose.

    Attributes
    ----------
    exit_code : int
        What a command that ends with this error returns.
    public : str
        The only sentence about it that peers are sent.
    about : tuple of str, or None
        For what began at another party: class of the first error, that party, and the phase. It is what
        others are told, so that everyone names the party that failed and not the one it heard it from.
    heard : bool
        It was another party that found it, and told this one.
    """

    exit_code: ClassVar[int] = 1
    public: ClassVar[str] = "it stopped with an unexpected error"

    def __init__(
        self, message: str, about: tuple[str, str, str] | None = None, *, heard: bool = False
    ) -> None:
        super().__init__(message)
        self.about, self.heard = about, heard


class PlanError(MpcSpearmanError):
    """A plan that cannot be run: unknown key, bad value, or a contradiction."""

    exit_code = 2
    public = "its plan is not valid"


class SetupError(MpcSpearmanError):
    """Something the run needs is missing from this machine."""

    exit_code = 3
    public = "its installation is incomplete"


class TableError(MpcSpearmanError):
    """A table that cannot be read or holds something that cannot be ranked."""

    exit_code = 4
    public = "its table was refused"


class DisclosureError(MpcSpearmanError):
    """A party offers more ids, or fewer are in common, than an owner's policy takes part with."""

    exit_code = 5
    public = "an owner's limit on ids to match stopped it"


class PolicyError(MpcSpearmanError):
    """The plan asks for more than this data owner's policy allows."""

    exit_code = 6
    public = "its owner's policy does not allow this plan"


class ApprovalError(PolicyError):
    """The owner's policy asks for an approval, and there is none of exactly this run."""

    exit_code = 26
    public = "its owner's approval of this run is missing"


class BoundError(MpcSpearmanError):
    """A value could leave the range in which the arithmetic is exact."""

    exit_code = 7
    public = "the numbers do not fit the encoding"


class HandshakeError(MpcSpearmanError):
    """The parties do not agree on what they are about to run."""

    exit_code = 8
    public = "the handshake failed"


class PlanMismatch(HandshakeError):
    """The shared parts of two parties' plans differ."""

    exit_code = 9
    public = "the parties' plans differ"


class AlignmentError(HandshakeError):
    """The data parties do not hold the same rows in the same order, or have too few in common."""

    exit_code = 10
    public = "the parties' rows are not the same, or too few are in common"


class NetworkError(MpcSpearmanError):
    """A link to a peer failed."""

    exit_code = 11
    public = "a link failed"


class PeerDied(NetworkError):
    """A peer's process or connection is gone."""

    exit_code = 12
    public = "it lost a peer"


class PeerTimeout(NetworkError):
    """Nothing, not even a keep-alive, came from a peer for ``network.timeout`` seconds."""

    exit_code = 13
    public = "a peer was silent for too long"


class PeerFailed(NetworkError):
    """A peer stopped with an error of its own and said so."""

    exit_code = 14
    public = "another party stopped"


class PartyMissing(NetworkError):
    """A party has not joined in time."""

    exit_code = 18
    public = "a party has not joined in time"


class Unreachable(NetworkError):
    """A party cannot reach another one where that listens; what is between them may be why.

    Attributes
    ----------
    number : int, optional
        Of the party that cannot be reached.
    """

    exit_code = 25
    public = "it cannot reach another party"
    number: int | None = None


class TlsError(NetworkError):
    """TLS with a peer failed, or this machine does not allow it."""

    exit_code = 19
    public = "TLS with a peer failed"


class UnknownKey(TlsError):
    """A party shows another key than the plan has for it, or this party's own is not in a peer's plan."""

    exit_code = 21
    public = "a party's key is not the one in the plan"


class PlaintextPeer(TlsError):
    """A peer does not speak TLS."""

    exit_code = 23
    public = "a peer does not speak TLS"


class ProtocolViolation(MpcSpearmanError):
    """A peer sent something malformed, out of order, or not in the view table."""

    exit_code = 15
    public = "a peer broke the protocol"


class OutputError(MpcSpearmanError):
    """A run directory cannot be written, or one that is read is not whole."""

    exit_code = 16
    public = "its results could not be written"


class RoleCrashed(MpcSpearmanError):
    """A role's process ended without reporting a result or an error."""

    exit_code = 17
    public = "it crashed"


class MergeError(MpcSpearmanError):
    """Results that do not belong together, or hold too little to be merged."""

    exit_code = 24
    public = "results could not be merged"


class RecordError(MpcSpearmanError):
    """The signed record of a run that is missing, damaged or altered, or is not signed by all."""

    exit_code = 27
    public = "a record does not hold"


class NotRevealed(MpcSpearmanError, AttributeError):
    """The run's ``reveal`` level or ``results`` did not give this part of the result.

    Also an ``AttributeError``, so that ``hasattr`` and ``getattr`` with a default work on results.
    """


def _tree(root: type[MpcSpearmanError]) -> list[type[MpcSpearmanError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _tree(child))]


#: Every class of the tree by name: how a launcher rebuilds the error a role's process reported.
ERRORS: dict[str, type[MpcSpearmanError]] = {cls.__name__: cls for cls in _tree(MpcSpearmanError)}

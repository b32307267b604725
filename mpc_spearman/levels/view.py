"""The table of who learns what: every message between two roles, in the order of the phases.

A :class:`~mpc_spearman.wire.kinds.Row` is one kind of message between two roles; a
:class:`~mpc_spearman.wire.kinds.Field` is one value in it, present only at the levels and grants it names.
Here are the fields that do not depend on the level; each level declares its own, and `VIEW` is all together.
Symbols in shapes are resolved by what the parties agreed on: ``n``, ``m_target``, ``m_sources`` of all
sources together, ``sources``, how many these are; of the one source a message is about
``m_source`` and ``basis`` = m_source + m_target − 1; ``rows`` of one block, or ciphertexts of one batch, and
how many bytes each takes; ``residues`` of noise, of ``residue_bytes`` each; ``ids`` of one block of
pseudonyms; ``words`` of one step of a comparison, and ``packed``, the bytes of bits opened or of a bitmap.

An element of a ring takes ``ring_bytes`` (:mod:`mpc_spearman.engines.mpc.session`).
"""

from __future__ import annotations

from itertools import groupby

from mpc_spearman.config import Plan, PlanSource, load_plan
from mpc_spearman.config.levels import GRANTS, within
from mpc_spearman.findings import adjustment
from mpc_spearman.levels import LEVELS
from mpc_spearman.levels.level import Level
from mpc_spearman.levels.rows import COORDINATOR, NAMES, OF_THE_RUN, SOURCE, TARGET
from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind, Row, ViewTable
from mpc_spearman.wire.meter import PHASES

_DATA, _ALL = (*SOURCE, *TARGET), (*SOURCE, *TARGET, *COORDINATOR)
_INTERSECT = ("intersect",)
_HE = ("he",)

#: Messages of the meeting, which are JSON on a connection of its own (:mod:`mpc_spearman.network.meeting`),
#: by their names. ``broken`` and ``stop`` reveal the same as ABORT.
MEETING = (
    Row(
        Kind.MEETING,
        _DATA,
        COORDINATOR,
        (
            Field("join", "text", tells="the package version and the shared plan"),
            Field("address", "text", tells="its address, if others dial this party"),
            *(Field(name, "text") for name in ("ready", "broken", "stop")),
        ),
    ),
    Row(
        Kind.MEETING,
        COORDINATOR,
        _DATA,
        (
            Field("missing", "text", tells="which parties have not joined yet"),
            Field("connect", "text"),
            Field("left", "text", tells="who has left the meeting, and with which error in which phase"),
            Field("addresses", "text", tells="the addresses of parties that others dial"),
            Field("met", "text"),
            Field("refused", "text", tells="if they differ, its package version and shared plan"),
            Field("stop", "text"),
        ),
    ),
)

# The fields of messages that are sent at every level.
_ABORT = (
    Field("error", "text", tells="if a run fails, the class of the error, the party and the phase"),
    Field("party", "text"),
    Field("phase", "text"),
)
_HELLO_TELLS = "a public key made for this run, with which two parties agree on secret keys"
_HELLO = (Field("public_key", "bytes", (32,), _HELLO_TELLS), Field("nonce", "bytes", (32,)))
_LIMITS = (
    "the limits of its policy: the fewest common rows (min_rows), the most ids of another party (max_ids), "
    "and the largest share of these that may be without a match (max_unmatched)"
)
_OFFER = (
    Field("ids", "int64", (1,), "how many ids it offers for matching"),
    Field("min_rows", "int64", (1,), _LIMITS),
    Field("max_ids", "int64", (1,)),
    Field("max_unmatched", "float64", (1,)),
)
_PSEUDONYMS = Field("ids", "bytes", ("ids", 16), "how many ids the data parties have in common (but no id)")
_COMMON = Field("common", "bytes", ("packed",), "which of its own rows all data parties have")
_SHAPE = (
    Field("n", "int64", (1,), "the number of rows"),
    Field("features", "int64", (1,), "the number of features"),
)
_DIGEST = Field("digest", "bytes", (32,), "whether the ids are the same in the same order (keyed digest)")
_OF_FEATURES = tuple(name for name, level in LEVELS.items() if level.of_features)
_NAMES = Field("names", "texts", ("m_target",), NAMES, levels=_OF_FEATURES, opened_to=("coordinator",))
_PUBLIC_KEY = Field("key", "blob", tells="a public encryption key made for this run", protocols=_HE)
# Which key a message's ciphertexts are under: SHA-256 of the public key, which says nothing new.
_KEY = Field("key", "bytes", (32,), protocols=_HE)
_ENCRYPTED = "nothing: its vectors under the coordinator's encryption key"
_CIPHERTEXT = Field("batch", "bytes", ("rows", "ciphertext_bytes"), _ENCRYPTED, protocols=_HE)
_COST = (
    Field("seconds", "float64", (len(PHASES), 2), "seconds, bytes, rounds and memory of each phase"),
    Field("counts", "int64", (len(PHASES), 5)),
)
# Whoever gets a message gets its nonce, without which nobody can test a guess of it (results.record).
_NONCE = Field("nonce", "bytes", (32,), grants=GRANTS[1:], opened_to=("coordinator",))
_RECORD = Field("record", "text", tells="the record to sign: times, and commitments that reveal nothing")
_FAREWELL = Field("signature", "bytes", (64,), "whether it signs the record")


def _defined(role: Role) -> Field:
    """Return the field with the number of varying features, for the levels at which a role states it."""
    levels = tuple(name for name, level in LEVELS.items() if role in level.states_defined)
    return Field("defined", "int64", (1,), "the number of features that are not constant", levels=levels)


_SHARED: tuple[Row, ...] = (
    # Control frames: any time, from anyone.
    Row(Kind.KEEPALIVE, _ALL, _ALL, ()),
    Row(Kind.ABORT, _ALL, _ALL, _ABORT),
    Row(Kind.HELLO, _ALL, _ALL, _HELLO),
    Row(Kind.CONFIRM, _ALL, _ALL, (Field("mac", "bytes", (32,)),)),
    Row(Kind.MATCHING_KEY, TARGET, SOURCE, (Field("key", "bytes", (32,)),), _INTERSECT),
    Row(Kind.OFFER, _DATA, COORDINATOR, _OFFER, _INTERSECT),
    Row(Kind.PSEUDONYMS, _DATA, COORDINATOR, (_PSEUDONYMS,), _INTERSECT),
    Row(Kind.COMMON, COORDINATOR, _DATA, (_COMMON,), _INTERSECT),
    Row(Kind.SHAPE, _DATA, _ALL, _SHAPE),
    Row(Kind.ALIGNMENT, SOURCE, TARGET, (_DIGEST,)),
    Row(Kind.ALIGNMENT, TARGET, SOURCE, (_DIGEST,)),
    Row(Kind.COLUMNS, SOURCE, COORDINATOR, (_defined(Role.SOURCE),)),
    Row(Kind.COLUMNS, SOURCE, SOURCE, (_defined(Role.SOURCE),)),
    Row(Kind.COLUMNS, SOURCE, TARGET, (_defined(Role.SOURCE),)),
    Row(Kind.COLUMNS, TARGET, COORDINATOR, (_defined(Role.TARGET),)),
    Row(Kind.COLUMNS, TARGET, SOURCE, (_defined(Role.TARGET),)),
    Row(Kind.DESCRIPTION, TARGET, COORDINATOR, (_NAMES,)),
    Row(Kind.PUBLIC_KEY, COORDINATOR, _DATA, (_PUBLIC_KEY,)),
    Row(Kind.CIPHERTEXT, SOURCE, TARGET, (_KEY, _CIPHERTEXT)),
    Row(Kind.EVALUATED, TARGET, COORDINATOR, (_KEY,)),
    Row(Kind.COST, _DATA, COORDINATOR, _COST),
    Row(Kind.RESULT, COORDINATOR, TARGET, (_NONCE,)),
    Row(Kind.RESULT, COORDINATOR, SOURCE, (_NONCE,)),
    Row(Kind.RECORD, COORDINATOR, _DATA, (_RECORD,)),
    Row(Kind.FAREWELL, _ALL, _ALL, (_FAREWELL,)),
)


def _of(level: type[Level]) -> list[Row]:
    """Return a level's rows: those sent only at this level, and those passed on at it or above."""
    grants = tuple(grant for grant in GRANTS if within(level.name, grant))
    return [row.at_level(level.name) for row in level.sent] + [row.to_grants(grants) for row in level.granted]


_TARGET_NAMES = Field("target_names", "texts", ("m_target",), f"the target's {NAMES}", grants=_OF_FEATURES)
#: Names of the target's features come after everything else that a source gets about them.
_LAST = Row(Kind.RESULT, COORDINATOR, SOURCE, (_TARGET_NAMES,))
VIEW = ViewTable.of(MEETING, (*_SHARED, *(row for level in LEVELS.values() for row in _of(level)), _LAST))


def learnt(plan: PlanSource) -> list[dict[str, str]]:
    """Return who learns what in a run of a plan: a row per party and fact, the coordinator first.

    Parameters
    ----------
    plan : path, mapping or Plan
        A YAML file, its content, or a plan that has been read: by `load_plan`, or as ``Result.plan``.

    Returns
    -------
    list of dict
        With the keys ``role``, ``party``, ``what``, ``from`` and ``phase``.
    """
    checked = load_plan(plan)
    facts = list[dict[str, str]]()
    for party, rows in groupby(VIEW.learnt(checked.terms), lambda row: row["party"]):
        of_party = [*rows]
        facts += of_party
        for owner, names in adjustment.covariates(checked).items():
            if names and owner != party:
                columns = f"the columns that its features are adjusted for: {', '.join(names)}"
                facts.append({**of_party[0], "what": columns, "from": owner, "phase": Kind.MEETING.phase})
    return facts


def statements(plan: Plan, owner: str) -> tuple[list[str], list[str]]:
    """Return an owner's exact statements about its columns: about the whole table, and about a run's rows."""
    stated = dict.fromkeys(
        row["what"]
        for row in learnt(plan)
        if owner in row["from"].split(", ")
        and row["phase"] in (Kind.COLUMNS.phase, Kind.DESCRIPTION.phase)
        and "feature names" not in row["what"]
    )
    of_run = [fact for fact in stated if fact.startswith(OF_THE_RUN) or "kurtosis" in fact]
    return [fact for fact in stated if fact not in of_run], [fact.removeprefix(OF_THE_RUN) for fact in of_run]

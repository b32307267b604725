"""The rows of the view table: every message between two roles, in the order of the phases.

A :class:`~mpc_spearman.wire.kinds.Row` is one kind of message between two roles; a
:class:`~mpc_spearman.wire.kinds.Field` is one value in it, present only at the levels and grants it names.
Symbols in shapes are resolved by what the parties agreed on: ``n``, ``m_target``, ``m_sources`` of all
sources together; of the one source a message is about ``m_source`` and ``basis`` = m_source + m_target − 1;
``rows`` of one block, or ciphertexts of one batch, and how many bytes each takes; ``ids`` of one block of
pseudonyms; ``words`` of one step of a comparison, and ``packed``, the bytes of bits opened or of a bitmap.

An element of a ring takes ``ring_bytes`` (:mod:`mpc_spearman.engines.mpc.sharing`).

How the table is asked is in :mod:`mpc_spearman.wire.disclosure`.
"""

from __future__ import annotations

from dataclasses import replace

from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind, Row
from mpc_spearman.wire.meter import PHASES

_ROWWISE = ("differences", "coefficients")
_NUMBERS = (*_ROWWISE, "strengths")
_S, _T, _C = Role.SOURCE, Role.TARGET, Role.COORDINATOR
_ALL = (_S, _T, _C)
_INTERSECT = ("intersect",)
_MPC, _HE = ("mpc",), ("he",)
_MATRIX = ("coefficients",)
_FROM_STRENGTHS = ("strengths", "coefficients")
_FROM_RANKING = ("ranking", "strengths", "coefficients")

# To whom the order can be opened, and what it is.
_TO_C, _TO_T = ("coordinator",), ("target",)
_ORDER = "the order of the target's features; equal ones in the table's order, as if they were not"
_TOP = "which of the target's features are the k strongest, in no order"

# What the coordinator passes on, as far as ``results`` grants it: the target gets the rows of all sources, a
# source its own.
_RANKED = (
    *(
        Field("positions", "int64", ("m_target",), tells, grants=_FROM_RANKING, opened_to=_TO_C, top=top)
        for tells, top in (("the ranking of the target's features", False), (_TOP, True))
    ),
    Field(
        "strengths",
        "float64",
        ("m_target",),
        "the strengths, to the plan's precision",
        grants=_FROM_STRENGTHS,
    ),
    Field(
        "counts",
        "int64",
        ("m_target",),
        "over how many coefficients each strength is",
        grants=_FROM_STRENGTHS,
    ),
)


def _matrix(rows: str) -> Field:
    return Field(
        "coefficients",
        "float64",
        (rows, "m_target"),
        "the coefficients, to the plan's precision: linear equations in the other side's ranks",
        grants=_MATRIX,
    )


def _ties(side: str, columns: str) -> Field:
    """Declare what p-values and intervals take beside coefficients (statistics.inference.Ties)."""
    return Field(
        f"{side}_ties",
        "int64",
        (columns,),
        "of each feature of the other side: whether it has no ties, some, many, or is constant",
        grants=_MATRIX,
    )


# What the coordinator finds when it opens.
_OPENED = {
    "differences": "every within-row difference of ranks; so nearly all ranks, each side's own correlations, "
    "and the coefficients",
    "coefficients": "the exact product of every pair of columns, hence the coefficients; nothing per row",
    "strengths": "the strengths, to about a tenth of the step they are published in (hence the ranking)",
}


_DIGEST = Field("digest", "bytes", (32,), "whether the ids are the same, in the same order (keyed digest)")

# Which key a message's ciphertexts are under: SHA-256 of the public key, which says nothing new.
_KEY = Field("key", "bytes", (32,), protocols=_HE)


_COUNTS = (
    Field("defined", "int64", (1,), "the number of features that are not constant"),
    Field("distinct", "int64", (1,), "how many of these differ, equal and reversed ones counted once"),
)
_LASTING = Field("lasting", "int64", (1,), "how many of these do not cancel out in a mean")
_COUNTS_BUT_OF_AN_ORDER = tuple(replace(field, levels=_NUMBERS) for field in _COUNTS)
_INPUTS = Field("inputs", "bytes", (32,), "whether its input is that of another run, if it keeps a ledger")


def _leverage(*granted: str) -> Field:
    """By whoever is granted numbers that come with each of its columns, to whom they are about."""
    what = "how far its columns, at most, single out a row (leverage), in steps"
    return Field("leverage", "float64", (1,), what, _NUMBERS, sender_grants=granted)


def _masked(columns: int | str, what: str, *levels: str) -> Field:
    return Field(
        "block",
        "ring",
        (columns, "rows"),
        f"nothing: {what} under a one-time mask",
        levels,
        protocols=_MPC,
    )


_RANKING = ("ranking",)
_REPLICA = (
    Field("share", "int64", ("words",), "nothing: bits of comparisons under a one-time mask", _RANKING),
)


def _opened_order(to: tuple[str, ...]) -> tuple[Field, ...]:
    return tuple(
        Field(
            "bits", "bytes", ("packed",), f"with the other shares: {tells}", _RANKING, opened_to=to, top=top
        )
        for tells, top in ((_ORDER, False), (_TOP, True))
    )


VIEW: tuple[Row, ...] = (
    # Control frames: any time, from anyone.
    Row(Kind.KEEPALIVE, "keep-alive", _ALL, _ALL, ()),
    Row(
        Kind.ABORT,
        "keep-alive",
        _ALL,
        _ALL,
        (
            Field("error", "text", tells="if a run fails: the class of the error, the party and the phase"),
            Field("party", "text"),
            Field("phase", "text"),
        ),
    ),
    Row(
        Kind.HELLO,
        "connect",
        _ALL,
        _ALL,
        (
            Field("version", "text", tells="the package version"),
            Field("party", "text"),
            Field("role", "text"),
            Field("number", "int64", (1,)),
            Field("plan", "text", tells="the shared part of the plan, which is the same for all"),
            Field("public_key", "bytes", (32,), tells="an X25519 key made for this run"),
            Field("run", "bytes", (16,)),
        ),
    ),
    Row(Kind.MATCHING_KEY, "intersect", (_T,), (_S,), (Field("key", "bytes", (32,)),), _INTERSECT),
    Row(
        Kind.OFFER,
        "intersect",
        (_S, _T),
        (_C,),
        (
            Field("ids", "int64", (1,), "how many rows it has to match"),
            Field("features", "int64", (1,)),
            Field("min_rows", "int64", (1,), "its policy's min_rows, max_ids and max_unmatched"),
            Field("max_ids", "int64", (1,)),
            Field("max_unmatched", "float64", (1,)),
        ),
        _INTERSECT,
    ),
    Row(
        Kind.PSEUDONYMS,
        "intersect",
        (_S, _T),
        (_C,),
        (Field("ids", "bytes", ("ids", 16), "how many ids the data parties have in common, and no id"),),
        _INTERSECT,
    ),
    Row(
        Kind.COMMON,
        "intersect",
        (_C,),
        (_S, _T),
        (Field("common", "bytes", ("packed",), "which of its own rows all data parties have"),),
        _INTERSECT,
    ),
    Row(
        Kind.SHAPE,
        "agree",
        (_S, _T),
        _ALL,
        (
            Field("n", "int64", (1,), tells="the number of rows"),
            Field("features", "int64", (1,), tells="the number of features"),
        ),
    ),
    Row(Kind.ALIGNMENT, "align", (_S,), (_T,), (_DIGEST,)),
    Row(Kind.ALIGNMENT, "align", (_T,), (_S,), (_DIGEST,)),
    Row(Kind.COLUMNS, "protect", (_S,), (_C,), (*_COUNTS, _LASTING)),
    Row(Kind.COLUMNS, "protect", (_S,), (_S,), (*_COUNTS, _LASTING, _INPUTS)),
    Row(Kind.COLUMNS, "protect", (_S,), (_T,), (*_COUNTS, _LASTING, _leverage(*_MATRIX), _INPUTS)),
    # An undefined column comes last in the order: how many there are would say which they are.
    Row(Kind.COLUMNS, "protect", (_T,), (_C,), _COUNTS_BUT_OF_AN_ORDER),
    Row(
        Kind.COLUMNS,
        "protect",
        (_T,),
        (_S,),
        (*_COUNTS_BUT_OF_AN_ORDER, _leverage(*_FROM_STRENGTHS), _INPUTS),
    ),
    Row(
        Kind.DESCRIPTION,
        "describe",
        (_S,),
        (_C,),
        (
            Field("names", "texts", ("m_source",), "the feature names", _ROWWISE),
            Field(
                "ties",
                "int128",
                ("m_source",),
                "the tie term of each feature: the class sizes of a binary one, and which are constant",
                _ROWWISE,
            ),
        ),
    ),
    Row(
        Kind.DESCRIPTION,
        "describe",
        (_T,),
        (_C,),
        (
            Field("names", "texts", ("m_target",), "the feature names", opened_to=_TO_C),
            Field(
                "ties",
                "int128",
                ("m_target",),
                "the tie term of each feature: the class sizes of a binary one, and which are constant",
                _ROWWISE,
            ),
            Field("constant", "flags", ("m_target",), "which features are constant", ("strengths",)),
        ),
    ),
    Row(
        Kind.MASKED,
        "share",
        (_S,),
        (_T,),
        (
            _masked("m_source", "ranks", "coefficients"),
            _masked(1, "one rounded sum of scaled ranks", "strengths", "ranking"),
        ),
    ),
    Row(
        Kind.MASKED,
        "share",
        (_T,),
        (_S,),
        (
            _masked("m_target", "ranks", "coefficients"),
            _masked("m_target", "rounded scaled ranks", "strengths", "ranking"),
        ),
    ),
    Row(
        Kind.SHARE,
        "reveal",
        (_S, _T),
        (_C,),
        tuple(
            Field(
                "share", "ring", shape, f"with the other shares: {_OPENED[level]}", (level,), protocols=_MPC
            )
            for level, shape in (
                ("differences", ("basis", "rows")),
                ("coefficients", ("m_source", "m_target")),
                ("strengths", (1, "m_target")),
            )
        ),
    ),
    Row(
        Kind.PADDED,
        "reveal",
        (_S,),
        (_C,),
        (
            Field(
                "share",
                "int64",
                ("m_target",),
                "nothing: of a source that is not the first, its part of the strengths under a one-time mask",
                _RANKING,
            ),
        ),
    ),
    # Around the circle of coordinator, target and first source, as replicated sharing goes.
    Row(Kind.REPLICA, "reveal", (_C,), (_T,), _REPLICA),
    Row(Kind.REPLICA, "reveal", (_T,), (_S,), _REPLICA),
    Row(Kind.REPLICA, "reveal", (_S,), (_C,), _REPLICA),
    Row(Kind.ORDER, "reveal", (_S, _T), (_C,), _opened_order(_TO_C)),
    Row(Kind.ORDER, "reveal", (_S, _C), (_T,), _opened_order(_TO_T)),
    Row(
        Kind.PUBLIC_KEY,
        "keys",
        (_C,),
        (_S, _T),
        (Field("key", "blob", tells="a public encryption key made for this run", protocols=_HE),),
    ),
    Row(
        Kind.CIPHERTEXT,
        "encrypt",
        (_S,),
        (_T,),
        (
            _KEY,
            Field(
                "batch",
                "bytes",
                ("rows", "ciphertext_bytes"),
                "nothing: ranks under the coordinator's encryption key",
                protocols=_HE,
            ),
        ),
    ),
    Row(
        Kind.EVALUATED,
        "evaluate",
        (_T,),
        (_C,),
        (
            _KEY,
            *(
                Field(
                    "batch", "bytes", ("rows", "result_bytes"), f"decrypted: {tells}", (level,), protocols=_HE
                )
                for level, tells in _OPENED.items()
            ),
        ),
    ),
    Row(
        Kind.RESULT,
        "publish",
        (_C,),
        (_T,),
        (
            *_RANKED,
            _matrix("m_sources"),
            _ties("source", "m_sources"),
            Field("source_names", "texts", ("m_sources",), "the sources' feature names", grants=_MATRIX),
        ),
    ),
    Row(
        Kind.RESULT,
        "publish",
        (_C,),
        (_S,),
        (
            *_RANKED,
            _matrix("m_source"),
            _ties("target", "m_target"),
            Field("target_names", "texts", ("m_target",), "the target's feature names", grants=_FROM_RANKING),
        ),
    ),
    Row(
        Kind.COST,
        "account",
        (_S, _T),
        (_C,),
        (
            Field("seconds", "float64", (len(PHASES), 2), "seconds, bytes, rounds and memory of each phase"),
            Field("counts", "int64", (len(PHASES), 5)),
        ),
    ),
    Row(Kind.FAREWELL, "account", _ALL, _ALL, ()),
)

"""What parties may receive, message by message, stated independently for tests of views.

Lines are as `support.transcript.parse` reads them.
"""

from __future__ import annotations

from support.recording import FEATURES, M_B, Recorded
from support.transcript import CONFIRM, HELLO, parse

# Sizes: mA, mB columns; basis = mA + mB − 1; rows of the block. A level of None: at every level.

SHAPE = "SHAPE n:int64 features:int64"
DIGEST = "ALIGNMENT digest:bytes*32"
COST = "COST seconds:float64*19*2 counts:int64*19*5"  # of 19 phases, those of other plans included
FAREWELL, RECORD = "FAREWELL signature:bytes*64", "RECORD record:text"

#: What the coordinator receives of the source's and the target's columns.
_EVERYTHING = (
    "length:float64 names:texts*mA ties:int128*mA two_values:flags*mA skewness:float64*mA gaps:float64*mA "
    "nominal:texts*mA",
    "names:texts*mB ties:int128*mB two_values:flags*mB skewness:float64*mB gaps:float64*mB nominal:texts*mB",
)
DESCRIPTION = {
    "differences": _EVERYTHING,
    "coefficients": _EVERYTHING,
    "strengths": ("length:float64 most_gaps:float64", "names:texts*mB constant:flags*mB gaps:float64*mB"),
}
#: What the coordinator receives of the values, block by block at ``differences``, else once.
SHARE = {
    "differences": "SHARE share:ring*basis*rows",
    "coefficients": "SHARE share:ring*mA*mB",
    "strengths": "SHARE share:ring*1*mB",
}
#: What the target receives of the source's values, and the source of the target's, block by block.
MASKED = {
    "differences": (None, None),
    "coefficients": ("MASKED block:ring*mA*rows", "MASKED block:ring*mB*rows"),
    "strengths": ("MASKED block:ring*1*rows", "MASKED block:ring*mB*rows"),
}
_RANKED = "RESULT nonce:bytes*32 positions:int64*mB"
_MEANS = f"{_RANKED} strengths:float64*mB counts:int64*mB errors:float64*mB"
_COEFFICIENTS = f"{_MEANS} coefficients:float64*mA*mB"
#: What the target, and the source, receive of the results.
RESULT = {
    "nothing": (None, None),
    "ranking": (_RANKED, f"{_RANKED} target_names:texts*mB"),
    "strengths": (_MEANS, f"{_MEANS} target_names:texts*mB"),
    "coefficients": (
        f"{_COEFFICIENTS} source_ties:int64*mA source_skewness:float64*mA source_gaps:float64*mA "
        "source_nominal:texts*mA source_names:texts*mA",
        f"{_COEFFICIENTS} target_ties:int64*mB target_skewness:float64*mB target_gaps:float64*mB "
        "target_nominal:texts*mB target_names:texts*mB",
    ),
}


COLUMNS = "COLUMNS defined:int64"  # exact runs need no scales


def listed(run: Recorded, receiver: str, sender: str) -> list[tuple[str, dict[str, int]]]:
    """All messages from one party to another, in order, with what the symbols in each stand for."""
    level, sources = run.plan.reveal, [name for name in run.tables if name != "B"]

    def sizes(source: str, rows: int = 0) -> dict[str, int]:
        m_source = len(FEATURES[source])
        basis = m_source + M_B - 1
        return {"mA": m_source, "mB": M_B, "basis": basis, "rows": rows, "ring": run.width}

    lines = [(HELLO, {}), (CONFIRM, {}), *([(SHAPE, {})] if sender != "C" else [])]
    if {sender, receiver} <= set(sources):
        lines.append((COLUMNS, {}))
    elif receiver == "C":
        described = DESCRIPTION[level][sender == "B"]
        lines += [(COLUMNS, {}), (f"DESCRIPTION {described}", sizes("A" if sender == "B" else sender))]
        # at strengths the target sends the sum of its shares of all sessions, else one share for each
        sessions = [sender] if sender != "B" else sources if level != "strengths" else sources[:1]
        for source in sessions:
            blocks = run.blocks(source) if level == "differences" else [0]
            lines += [(SHARE[level], sizes(source, rows)) for rows in blocks]
        lines.append((COST, {}))
    elif sender == "C":
        of_target = receiver == "B"
        grant = run.plan.results.target if of_target else run.plan.results.sources
        rows = sum(len(FEATURES[source]) for source in (sources if of_target else [receiver]))
        result = RESULT[grant][not of_target]
        lines += [(result, {"mA": rows, "mB": M_B})] if result else []
        lines.append((RECORD, {}))
    else:
        source = sender if receiver == "B" else receiver
        masked = MASKED[level][receiver != "B"]
        lines += [(DIGEST, {}), (COLUMNS, {})]
        lines += [(masked, sizes(source, rows)) for rows in run.blocks(source) if masked]
    return [*lines, (FAREWELL, {})]


def contents(run: Recorded, receiver: str, sender: str) -> list[tuple[str, dict[str, object]]]:
    """What one party received from another: kind and fields, parsed as `listed` says."""
    messages, lines = run.transcript.received(receiver, sender), listed(run, receiver, sender)
    assert [message.kind for message in messages] == [line.split()[0] for line, _ in lines]
    return [
        (message.kind, parse(line.split()[1:], message.payload, sizes))
        for message, (line, sizes) in zip(messages, lines, strict=True)
    ]


def everything(run: Recorded, party: str) -> bytes:
    """Return all that a party received from anyone, and the tensors of CrypTen there."""
    transcript = run.transcript
    messages = [message for message in transcript.messages if message.receiver == party]
    tensors = [tensor for kind in ("share", "opening") for tensor in transcript.tensors(party, kind)]
    return b"".join([*(message.payload for message in messages), *(tensor.tobytes() for tensor in tensors)])

"""What parties may receive, message by message, stated independently for tests of views.

Lines are as `support.transcript.parse` reads them.
"""

from __future__ import annotations

from support.recording import Recorded

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


def columns(run: Recorded, receiver: str, sender: str) -> str:
    """What a party says of its columns: exact runs need no scales."""
    return "COLUMNS defined:int64"


def everything(run: Recorded, party: str) -> bytes:
    """All that a party received from anyone, and what CrypTen computed there."""
    transcript = run.transcript
    messages = [message for message in transcript.messages if message.receiver == party]
    tensors = [tensor for what in ("share", "opening") for tensor in transcript.tensors(party, what)]
    return b"".join([*(message.payload for message in messages), *(tensor.tobytes() for tensor in tensors)])

"""The other sections of a plan, typed. docs/plan.md lists every key."""

from __future__ import annotations

from typing import Literal

from mpc_spearman.config.fields import (
    Count,
    Flag,
    Loss,
    Section,
    flag,
    key_bits,
    privacy_loss,
    setting,
    whole,
)
from mpc_spearman.config.scale import Grant

Protocol = Literal["mpc", "he"]
Estimator = Literal["tie_corrected", "paper"]
Strength = Literal["mean", "mean_abs"]
Order = Literal["descending", "ascending"]
Alignment = Literal["same", "intersect", "ids"]
OpenedTo = Literal["coordinator", "target"]
Precision = Literal["statistical", "exact"]
Unit = Literal["row", "value"]

#: The shared default of ``privacy.loss``, and each owner's limit.
LOSS = 2.0


class Results(Section):
    """What the coordinator passes on, at most what `Plan.reveal` gives it.

    In a `Plan` `target` and `sources` are never None: they are filled in.
    """

    target: Grant | None = setting(
        "What the coordinator passes on to the target, at most what it has itself. Left out: `strengths`, or "
        "what the level has in place of them. `explained` and `canonical` only at the level of that name.",
        None,
    )
    sources: Grant | None = setting(
        "What the coordinator passes on to each source. A source gets only its own rows of coefficients and "
        "of R²; strengths and ranking are over all sources. Left out: `nothing`; at `reveal: canonical`, "
        "`canonical`.",
        None,
    )
    precision: Precision = setting(
        "Whether what is passed on carries noise. `exact`, without noise, needs `policy.exact: true` of "
        "every data owner.",
        "statistical",
    )


class Privacy(Section):
    """How much a run may tell a receiver about whose row is whose (docs/guarantee.md)."""

    loss: Loss = privacy_loss(
        "How much one party's results may reveal. At 2, an attacker who knows everything else guesses right "
        "at most 84 times in 100 which of two rows is whose. A smaller loss means more noise: "
        "docs/privacy.md#the-guarantee.",
        LOSS,
    )
    unit: Unit = setting(
        "What noise hides: a person's whole row, or one value of one column. `value` is weaker, needs "
        "`policy.unit: value` of every data owner, and is for granted coefficients only.",
        "row",
    )


class HeSettings(Section):
    """How the homomorphic protocol encrypts."""

    scheme: Literal["paillier", "bfv"] = setting(
        "The encryption scheme: docs/homomorphic-encryption.md. `bfv` is much faster and needs Python 3.11 "
        "or newer.",
        "paillier",
    )
    key_bits: Count = key_bits(
        "Length of Paillier's modulus: 3072 (about 128 bits of security) or 2048 (about 112). Other lengths "
        "need `he.insecure`."
    )
    randomness: Literal["full", "short"] = setting(
        "Paillier's randomness. `short` exponents are faster and need one more assumption.", "full"
    )
    form: Literal["packed", "literal"] = setting(
        "At `reveal: differences` under Paillier: many ranks in one ciphertext, or the paper to the letter: "
        "docs/homomorphic-encryption.md#the-steps.",
        "packed",
    )
    insecure: Flag = flag("Allow Paillier keys that can be broken; for tests.")
    workers: Count | None = whole("Threads that this party uses. Left out, one per processor.", low=1)

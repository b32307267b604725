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

    Attributes
    ----------
    target : {'nothing', 'ranking', 'strengths', 'coefficients'}
        For the target. Left out of a plan, it is filled in: ``strengths``, the paper's list, or less where
        the coordinator has less. Never None in a `Plan`.
    sources : {'nothing', 'ranking', 'strengths', 'coefficients'}
        For each source.
    precision : {'statistical', 'exact'}
        What is passed on has the noise of ``privacy``, or none: then single rows can be solved for, so every
        data owner's policy must say ``exact: true``.
    """

    target: Grant | None = None
    sources: Grant = "nothing"
    precision: Precision = "statistical"


class Privacy(Section):
    """How much a run may tell a receiver about whose row is whose (docs/guarantee.md).

    Attributes
    ----------
    loss : float
        ρ: what a receiver gets is ρ-zero-concentrated differentially private. Less is more noise.
    unit : {'row', 'value'}
        What noise hides: which of two people has which of two whole rows; or, where coefficients alone are
        granted and every owner's policy says so, which of two has which of two values of one column.
    """

    loss: Loss = privacy_loss(LOSS)
    unit: Unit = "row"


class HeSettings(Section):
    """How the homomorphic protocol encrypts.

    Attributes
    ----------
    scheme : {'paillier', 'bfv'}
        The paper's additive scheme, or a lattice scheme that is thousands of times as fast.
    key_bits : int
        Paillier's modulus: 3072 (about 128 bits of security) or 2048 (about 112).
    randomness : {'full', 'short'}
        Paillier's randomness: full, or short exponents, which are faster under one more assumption
        (Damgård, Jurik and Nielsen 2010).
    form : {'packed', 'literal'}
        At ``differences`` under Paillier: many ranks in one ciphertext and the difference vectors that span
        all others, or one rank and each pair's, as the paper has it.
    insecure : bool
        Allow keys that can be broken. For tests.
    workers : int, optional
        Threads this party uses; all processors if left out. Not compared with other parties.
    """

    scheme: Literal["paillier", "bfv"] = "paillier"
    key_bits: Count = key_bits()
    randomness: Literal["full", "short"] = "full"
    form: Literal["packed", "literal"] = "packed"
    insecure: Flag = flag(False)
    workers: Count | None = whole(1, default=None)

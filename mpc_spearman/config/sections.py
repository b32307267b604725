"""The other sections of a plan, typed. docs/plan.md lists every key."""

from __future__ import annotations

from typing import Literal

from mpc_spearman.config.fields import Count, Flag, Section, Share, flag, key_bits, share, whole
from mpc_spearman.config.scale import Grant

Protocol = Literal["mpc", "he"]
Estimator = Literal["tie_corrected", "paper"]
Strength = Literal["mean", "mean_abs"]
Order = Literal["descending", "ascending"]
Alignment = Literal["same", "intersect", "ids"]
OpenedTo = Literal["coordinator", "target"]
Precision = Literal["statistical", "exact"]

#: The shared defaults of ``privacy``, and each owner's floors.
MIN_GROUP, MIN_ROWS_PER_FEATURE, BUDGET = 10, 3, 0.5


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
        What is passed on is rounded to about a tenth of its standard error, or exact: then single rows can
        be solved for, so every data owner's policy must say ``exact: true``.
    """

    target: Grant | None = None
    sources: Grant = "nothing"
    precision: Precision = "statistical"


class Privacy(Section):
    """The disclosure rules every party applies; lowering them takes a change all parties see.

    Attributes
    ----------
    min_group : int
        A column is refused where some, but fewer than this many rows lie outside its largest group
        of equal values; so are columns which together single out so few rows. 1 turns the rule off.
    min_rows_per_feature : int
        A run is refused with fewer rows than this times the features of all parties. 0 turns it off.
    budget : float
        A column is refused where what is published about it to one party carries more than this share of
        the information that its ranks hold; and a run, where it tells more than this share of the variance of
        one row's rank.
    """

    min_group: Count = whole(1, default=MIN_GROUP)
    min_rows_per_feature: Count = whole(0, default=MIN_ROWS_PER_FEATURE)
    budget: Share = share(BUDGET)


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

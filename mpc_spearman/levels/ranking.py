"""``ranking``: the order of the target's columns by strength, or which are the strongest, and nothing else.

The sums that `strengths` opens, with every owner's noise, stay hidden. Only their comparisons are opened, to
the coordinator or to the target.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.engines.computation import Contribution, Operation
from mpc_spearman.errors import BoundError, PlanError
from mpc_spearman.findings import ranking as shown
from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.levels.rows import COORDINATOR, SOURCE, TARGET
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.strengths import MASKED, SCALED, Strengths
from mpc_spearman.parties import Role
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.statistics import result_warnings
from mpc_spearman.statistics.columns import Floats
from mpc_spearman.wire.kinds import Field, Kind, Row

#: The most features of the target: about 2 million pairs, 32 MB a message and 16 bytes a pair.
MAX_COMPARED = 2000

_TOP = "which of the target's features are the k strongest, without their order"
_PADDED = "nothing: the part of the strengths of any source but the first, under a one-time mask"
_REPLICA = (Field("share", "int64", ("words",), "nothing: bits of comparisons under a one-time mask"),)


def _opened_to(party: str) -> tuple[Field, ...]:
    order = "the order of the target's features (equal ones in the table's order)"
    return tuple(
        Field("bits", "bytes", ("packed",), f"by combining all shares: {text}", opened_to=(party,), top=top)
        for text, top in ((order, False), (_TOP, True))
    )


_PASSED_ON = tuple(
    Field("positions", "int64", ("m_target",), text, opened_to=("coordinator",), top=top)
    for text, top in (("the ranking of the target's features", False), (_TOP, True))
)


class Ranking(Strengths):
    """Opens, for every pair of target columns, whether V_q comes before V_r."""

    name: ClassVar[Reveal] = "ranking"
    findings: ClassVar[type[Findings]] = shown.Ranking
    #: Not the target: its undefined columns come last, so their number would show which they are.
    states_defined: ClassVar[tuple[Role, ...]] = SOURCE
    sent: ClassVar[tuple[Row, ...]] = (
        *SCALED,
        *MASKED,
        Row(Kind.PADDED, SOURCE, COORDINATOR, (Field("share", "int64", ("m_target",), _PADDED),)),
        # Replicated sharing: each of coordinator, target and first source sends to the next one.
        Row(Kind.REPLICA, COORDINATOR, TARGET, _REPLICA),
        Row(Kind.REPLICA, TARGET, SOURCE, _REPLICA),
        Row(Kind.REPLICA, SOURCE, COORDINATOR, _REPLICA),
        Row(Kind.ORDER, (*SOURCE, *TARGET), COORDINATOR, _opened_to("coordinator")),
        Row(Kind.ORDER, (*SOURCE, *COORDINATOR), TARGET, _opened_to("target")),
    )
    granted = tuple(Row(Kind.RESULT, COORDINATOR, receiver, _PASSED_ON) for receiver in (TARGET, SOURCE))
    operation: ClassVar[Operation] = "comparison"
    precision = ("the order of strengths with the noise of every owner", "the order of exact strengths")
    noise_multiples: ClassVar[int] = 2  # so that vectors that come last, with noise, are below all others

    def check(self, shapes: Shapes) -> None:
        super().check(shapes)
        m_target, top = shapes.m_target, self.plan.top
        if m_target > MAX_COMPARED:
            raise BoundError(
                f"reveal: ranking compares every pair of the target's {m_target:,} features; it takes at "
                f"most {MAX_COMPARED:,}. Use fewer, or reveal: strengths"
            )
        if top is not None and top >= m_target:
            raise PlanError(
                f"top: {top} leaves out none of the target's {m_target} features; lower it, or leave it out"
            )

    def contribution(
        self, ranks: Ranks, role: Role, shapes: Shapes, stated: Statements, factors: Factors
    ) -> Contribution:
        """Return the vectors of `strengths`; the target's undefined columns come last."""
        vectors = super().contribution(ranks, role, shapes, stated, factors)
        undefined = np.array(stated.constant) & (self.plan.estimator != "paper")
        return replace(vectors, last=undefined) if role is Role.TARGET else vectors

    def statements(self, ranks: Ranks, role: Role, factors: Floats) -> Statements:
        """Return the statements of `strengths`, but those about constant target columns as if without ties.

        Otherwise all would know which columns come last.
        """
        stated = super().statements(ranks, role, factors)
        return stated.constants_hidden if role is Role.TARGET else stated

    def conclude(self, opened: NDArray[Any], shapes: Shapes) -> Numbers:
        """Turn comparisons into positions 1 to m_B; under ``top`` 1 for the k strongest, else k + 1.

        Contradictory bits, which only a deviating party can cause, are counted like others.
        """
        if self.plan.top is not None:
            before = (~opened).astype(np.int64) * opened.sum()
        else:
            q, r = np.triu_indices(shapes.m_target, 1)
            before = np.bincount(np.where(opened, r, q), minlength=shapes.m_target)
        positions = np.sort(before).searchsorted(before) + 1
        return {"positions": positions.astype(np.int64)}

    def warnings(self, numbers: Numbers, shapes: Shapes) -> list[str]:
        plan, encoding, positions = self.plan, self.encoding(shapes), numbers["positions"]
        if plan.top is not None:
            is_order = (positions == 1).sum() == plan.top
        else:
            is_order = len(np.unique(positions)) == len(positions)
        return [
            *([result_warnings.EQ2_UNSEEN] if plan.estimator == "paper" else ()),
            *result_warnings.order_note(self._resolution(shapes), plan.top),
            *result_warnings.k_note(encoding.averaged, encoding.columns),
            *(() if is_order else [result_warnings.NO_ORDER]),
        ]

    def _resolution(self, shapes: Shapes) -> float:
        """Return how far apart two strengths have to be for their order to be right, 19 times in 20."""
        encoding = self.encoding(shapes)
        if not self.noisy:
            return 2 * encoding.error
        most = np.full(shapes.m_target, 1 / math.sqrt(shapes.n - 1))  # the error of a mean of like columns
        s = float(self._noise(shapes, most).max()) / max(1, encoding.averaged)
        return 2 * encoding.error + 1.96 * math.sqrt(2) * s

    def published_precision(self, grant: str) -> str:
        return self.opened_precision()

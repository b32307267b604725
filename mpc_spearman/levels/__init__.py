"""The levels of ``reveal``, one module each: what parties contribute, and C opens, computes and passes on.

`level` is the contract. To add a level, write a module with a `Level`, add its class to `LEVELS`, and its
name to :mod:`mpc_spearman.config.scale`.
"""

from mpc_spearman.config import Plan
from mpc_spearman.levels.canonical import Canonical
from mpc_spearman.levels.coefficients import Coefficients
from mpc_spearman.levels.differences import Differences
from mpc_spearman.levels.explained import Explained
from mpc_spearman.levels.level import Level
from mpc_spearman.levels.ranking import Ranking
from mpc_spearman.levels.strengths import Strengths

#: All levels: first those in one order, the most private at its head.
LEVELS: tuple[type[Level], ...] = (Ranking, Strengths, Coefficients, Differences, Explained, Canonical)


def level_of(plan: Plan) -> Level:
    """Return the level of a plan."""
    return next(level for level in LEVELS if level.name == plan.reveal)(plan)

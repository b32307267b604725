"""The levels of ``reveal``, a module each: what is contributed, opened, concluded, published and told.

`level` says what a level is asked. To add one: a module with a `Level`, its class in `LEVELS`, and its name
in :mod:`mpc_spearman.config.scale`.
"""

from mpc_spearman.config import Plan
from mpc_spearman.levels.canonical import Canonical
from mpc_spearman.levels.coefficients import Coefficients
from mpc_spearman.levels.differences import Differences
from mpc_spearman.levels.explained import Explained
from mpc_spearman.levels.level import Level
from mpc_spearman.levels.ranking import Ranking
from mpc_spearman.levels.strengths import Strengths

#: All there are, those of the one order first, the most private at its head.
LEVELS: tuple[type[Level], ...] = (Ranking, Strengths, Coefficients, Differences, Explained, Canonical)


def level_of(plan: Plan) -> Level:
    """Return the level of a plan."""
    return next(level for level in LEVELS if level.name == plan.reveal)(plan)

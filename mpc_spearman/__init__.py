"""Private Spearman rank correlation between organisations that hold different columns of the same rows.

>>> import mpc_spearman
>>> result = mpc_spearman.run_local("configs/mpc.yaml")  # doctest: +SKIP
>>> result.ranking  # doctest: +SKIP

Names are imported when first used, so that ``mpc-spearman --help`` needs neither torch nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mpc_spearman.version import __version__ as __version__

if TYPE_CHECKING:
    from mpc_spearman.comparison import compare as compare
    from mpc_spearman.config import Plan as Plan
    from mpc_spearman.config import load_plan as load_plan
    from mpc_spearman.errors import MpcSpearmanError as MpcSpearmanError
    from mpc_spearman.errors import NotRevealed as NotRevealed
    from mpc_spearman.local import run_local as run_local
    from mpc_spearman.merging import merge as merge
    from mpc_spearman.result import Result as Result
    from mpc_spearman.views import learnt as learnt

_HOME = {
    "MpcSpearmanError": "errors",
    "NotRevealed": "errors",
    "Plan": "config",
    "Result": "result",
    "compare": "comparison",
    "learnt": "views",
    "load_plan": "config",
    "merge": "merging",
    "run_local": "local",
}

__all__ = [
    "MpcSpearmanError",
    "NotRevealed",
    "Plan",
    "Result",
    "__version__",
    "compare",
    "learnt",
    "load_plan",
    "merge",
    "run_local",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"mpc_spearman.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

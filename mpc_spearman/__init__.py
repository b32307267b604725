"""Private Spearman rank correlation between organisations that hold different columns of the same rows.

>>> import mpc_spearman
>>> result = mpc_spearman.correlate("data/insurer.csv", "data/clinic.csv")  # doctest: +SKIP
>>> result.pairs()  # doctest: +SKIP
>>> result = mpc_spearman.run_local("configs/mpc.yaml")  # doctest: +SKIP

The package, from the commands down to the foundations; modules import only from further down:

==============  =====================================================================================
``cli``         the commands
``comparison``  sweeps over plans and sizes, their table and figures; estimates
``launch``      all roles here (`local`), one party here (`join`), the supervisor, a role's process
``protocols``   the three roles and their steps, in modules of one or two phases
``results``     any party's result: its files, merging, the report, the terminal
``levels``      one module each: what parties contribute, and C opens, computes and passes on
``findings``    what a copy of each level's result holds, as tables, and says
``engines``     the private computation, ``mpc`` and ``he``: inner products, differences, comparison
``run``         what all steps and engines need of one role's run
``network``     how parties meet and connect: TLS by keys, one port, forwarding
``wire``        messages, frames, links, keys, the meter
``attacks``     attacks on published numbers; no run imports them
``privacy``     noise, what a loss means for an attacker's guess, the ledger
``statistics``  estimators, the sentences that go with a result, the plaintext reference
``data``        tables, from files, from memory and from databases; columns, ids, ranks
``config``      the plan, its policies, levels and grants in their order
``parties``     who takes part; ``identity``, ``arrays``, ``files``, ``installed``, ``units``, ``errors``
==============  =====================================================================================

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
    from mpc_spearman.launch.first_look import correlate as correlate
    from mpc_spearman.launch.join import run_party as run_party
    from mpc_spearman.launch.local import run_local as run_local
    from mpc_spearman.levels.view import learnt as learnt
    from mpc_spearman.results.merge import merge as merge
    from mpc_spearman.results.result import Result as Result

_HOME = {
    "MpcSpearmanError": "errors",
    "NotRevealed": "errors",
    "Plan": "config",
    "Result": "results.result",
    "compare": "comparison",
    "correlate": "launch.first_look",
    "learnt": "levels.view",
    "load_plan": "config",
    "merge": "results.merge",
    "run_local": "launch.local",
    "run_party": "launch.join",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"mpc_spearman.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

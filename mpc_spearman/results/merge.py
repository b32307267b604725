"""Results of several runs over the same rows, with different sources, made into one.

A run gives one source's rows of the matrix; a source that joins later brings rows of its own, and the earlier
ones need not be computed again (paper, several parties). The target merges its own copies on its own machine:
nothing is sent, and nobody learns anything that the target did not have before.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mpc_spearman.config import Plan, least
from mpc_spearman.config.parties import Parties
from mpc_spearman.errors import MergeError, OutputError
from mpc_spearman.findings.findings import Copy
from mpc_spearman.levels import findings_of
from mpc_spearman.results import run_directory
from mpc_spearman.results.result import Result

# A run directory as the caller named it, and the result in it.
Loaded = tuple[Path, Result]


def merge(directories: Sequence[str | Path], out: str | Path) -> Result:
    """Merge the target's results of several runs over the same rows.

    If all hold coefficients, the merged result equals that of one run with all sources, float for float.
    Otherwise, if all hold strengths, it holds their means, weighted by the number of coefficients.

    `directories` are at least two of the target's, each with a tag of its row ids
    (``parties.target.alignment_key``); a merged one may be among them. `out`, a different directory, is
    written completely or not at all. `MergeError` if the results do not belong together, or one holds too
    little; `OutputError` if a directory cannot be read or written.
    """
    runs = [(Path(directory), Result.load(directory)) for directory in directories]
    if len(runs) < 2:
        raise MergeError("merging needs the run directories of at least two runs")
    if any(Path(out).resolve() == folder.resolve() for folder, _ in runs):
        raise OutputError(f"{out} is one of the runs to be merged; choose another directory for the result")
    for run in runs:
        _check_mergeable(*run)
    for later in runs[1:]:
        _check_together(runs[0], later)
    merged = _merged(runs, _plan(runs))
    with run_directory.locked(Path(out)):
        merged.save(out)
    return merged


def _check_mergeable(folder: Path, result: Result) -> None:
    why, withheld = result.findings.unmergeable, result.withheld_from_this_party()
    refusals = (
        (
            result.role != "target",
            f"it is the copy of {result.party}, the {result.role}: merge the target's run directories",
        ),
        (why, f"{why}. {withheld}" if withheld else why),
        (
            result.plan.results.strongest is not None,
            "it holds the strongest results alone (results.strongest), and tests of a merged result do not "
            "allow for a choice in each run",
        ),
        (
            result.alignment is None,
            "it has no tag of its row ids, which may differ from those of the other runs: set "
            "parties.target.alignment_key to one file of the target's own in all runs",
        ),
    )
    for refused, reason in refusals:
        if refused:
            raise MergeError(f"{folder}: {reason}")


def _check_together(first: Loaded, later: Loaded) -> None:
    pair = f"{first[0]} and {later[0]} cannot be merged"
    settings, later_settings = (_compared(result) for _, result in (first, later))
    for name, setting in settings.items():
        if setting != later_settings[name]:
            values = "" if isinstance(setting, list) else f": {setting!r} and {later_settings[name]!r}"
            raise MergeError(f"{pair}: the {name} differs{values}")
    if not hmac.compare_digest(first[1].alignment or "", later[1].alignment or ""):
        raise MergeError(f"{pair}: other row ids, or another parties.target.alignment_key")


def _compared(result: Result) -> dict[str, Any]:
    """Return the settings in which merged runs must agree, by names for people."""
    return {
        "target": result.party,
        "number of rows": result.n,
        "list of columns that the target adjusts for": list(result.plan.parties.target.adjust),
        "list of the target's features": list(result.findings.labels.target),
        **{key: getattr(result.plan, key) for key in ("estimator", "strength", "order", "confidence")},
        "precision": result.plan.results.precision,
    }


def _plan(runs: Sequence[Loaded]) -> Plan:
    """Return the plan of one run with all sources, at the least level and grants of these runs."""
    plan, *_ = plans = [result.plan for _, result in runs]
    sources = [source for run_plan in plans for source in run_plan.parties.sources]
    taken = {name.casefold() for name in plan.names[:2]}
    for name in (source.name for source in sources):
        if name.casefold() in taken:
            folders = ", ".join(str(folder) for folder, _ in runs)
            why = "its rows would count twice, or two parties have one name; leave one of those runs out"
            raise MergeError(f"party {name!r} is in more than one of the runs ({folders}): {why}")
        taken.add(name.casefold())
    nobody = {"identity": None}  # which may be another one in every run
    parties = Parties(
        coordinator=plan.parties.coordinator.model_copy(update=nobody),
        target=plan.parties.target.model_copy(update=nobody),
        sources=tuple(source.model_copy(update=nobody) for source in sources),
    )
    grants = {
        role: least(str(getattr(run_plan.results, role)) for run_plan in plans)
        for role in ("target", "sources")
    }
    results = plan.results.model_copy(update=grants)
    reveal = least(run_plan.reveal for run_plan in plans)
    return plan.model_copy(update={"parties": parties, "reveal": reveal, "results": results})


def _merged(runs: Sequence[Loaded], plan: Plan) -> Result:
    """Merge the tables that every run gave the target."""
    results = [result for _, result in runs]
    first = results[0]
    kind, copy = findings_of(plan, first.role), Copy(plan, first.party, first.role, first.n)
    findings = kind(copy, kind.merged(copy, [result.findings for result in results])).completed()
    return Result(findings, alignment=first.alignment, cost=_cost(results), warnings=_warnings(runs))


def _cost(results: Sequence[Result]) -> pd.DataFrame:
    """Return the costs of all runs together."""
    costs = pd.concat([result.cost for result in results], ignore_index=True)
    how = dict.fromkeys(costs.columns[2:], "sum") | {"peak_memory_bytes": "max"}
    return costs.groupby(["party", "phase"], sort=False, as_index=False).agg(how)


def _warnings(runs: Sequence[Loaded]) -> list[str]:
    """Return the warnings of all runs, and where the result came from."""
    origins = []
    for folder, result in runs:
        sources, digest = ", ".join(result.plan.names[2:]), result.plan.digest().hex()[:16]
        origins.append(f"{folder} ({sources}; protocol {result.plan.protocol}, plan {digest}…)")
    warnings = dict.fromkeys(line for _, result in runs for line in result.warnings)
    return [*warnings, f"merged from {len(runs)} results over the same rows: {', '.join(origins)}"]

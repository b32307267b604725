"""Read a plan: files, overrides and tables, and every problem with them at once.

`load_plan` reports all wrong values, each on a line that names the file (or the override), the key, the
value, and what would be allowed; if there are none, it reports conflicting values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from mpc_spearman.config.draft import Draft
from mpc_spearman.config.parties import LOCAL_BESIDE_NAME, SHARED_BESIDE_NAME
from mpc_spearman.config.plan import LOCAL, MEETING_PLACE, Plan
from mpc_spearman.config.wording import explain, shown
from mpc_spearman.errors import PlanError


def load_plan(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    tables: Mapping[str, Path | None] = MappingProxyType({}),
    local: Path | None = None,
    party: str | None = None,
    *,
    shared_alone: bool = False,
) -> Plan:
    """Read a plan, change it as asked, and check it; a `PlanError` has one problem per line.

    Parameters
    ----------
    source : str, Path or mapping
        A YAML file, or the content of one.
    overrides : sequence of str
        Each ``key=value``: a dotted key such as ``network.timeout`` and a value in YAML. An item of
        a list is named by its position, a source also by its name: ``parties.sources.A.exclude=[x]``.
    tables : mapping
        Party name to table, in place of the plan's; None for a table that is not a file.
    local : Path, optional
        One party's local file: the keys that belong beside its name, and those of `LOCAL`. Overrides come
        before it.
    party : str, optional
        Its owner, if the file does not name it (``party``).
    shared_alone : bool
        Refuse local keys in `source`, other than `MEETING_PLACE`; with a `local` file they always are.

    Returns
    -------
    Plan
        With absolute file paths. Relative ones in a file are relative to the file's folder, all
        others to the working directory. That the files exist is not checked here.
    """
    if isinstance(overrides, str):
        raise PlanError(f"overrides: a list is needed, such as [{overrides!r}]")
    draft = Draft.read(source)
    draft.place_files(draft.folder)
    if local is not None or shared_alone:
        sections = {section: {*keys} - {*MEETING_PLACE} for section, keys in LOCAL.items()}
        draft.refuse_local(LOCAL_BESIDE_NAME, sections)
    if local is not None:
        own = Draft.read(local)
        draft.add_local(own, party, LOCAL, SHARED_BESIDE_NAME)
        draft.place_files(own.folder)
    approvers = draft.approvers()
    for override in overrides:
        draft.override(override)
    for name, approver in draft.approvers().items():
        if approvers.get(name) not in (None, approver):
            why = "no setting on the command line can change policy.approved_by; the local part can"
            draft.problems.append(f"{draft.where}: party {shown(name)}: {why}")
    for name, file in tables.items():
        draft.set_table(name, file)
    draft.place_files(Path.cwd())
    try:
        plan = Plan.model_validate(draft.data)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            if problem["type"] == "contradictions":
                for location, text in problem["ctx"]["found"]:
                    draft.report(location, text)
            # Of a list whose items are all wrong pydantic also says that it is too short.
            elif problem["type"] != "too_short" or not problem["input"]:
                draft.report(*explain(problem, Plan))
    if draft.problems:
        raise PlanError("\n".join(draft.problems))
    return plan


def local_party(file: Path) -> str | None:
    """Return whose a local file says that it is; raises `PlanError` if it cannot be read."""
    said = Draft.read(file).data.get("party")
    return said if isinstance(said, str) else None

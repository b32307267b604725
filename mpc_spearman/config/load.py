"""Read a plan from files, settings and tables; report every problem with them at once.

`load_plan` reports all wrong values, each on a line that names the file (or the setting), the key, the
value, and what would be allowed; if there are none, it reports conflicting values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from mpc_spearman.config.contradictions import contradictions
from mpc_spearman.config.draft import Draft
from mpc_spearman.config.plan import Plan
from mpc_spearman.config.wording import explain, shown
from mpc_spearman.errors import PlanError

#: What can be given as a plan: a YAML file, the content of one, or a plan that has been read.
PlanSource = str | Path | Mapping[str, Any] | Plan


def load_plan(
    source: PlanSource,
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
    source : str, Path, mapping or Plan
        A YAML file, or the content of one. A `Plan` is returned as it is, unless something is to be changed:
        then the keys that it sets are read again, so that defaults follow from what is changed.
    overrides : sequence of str
        Settings, each ``key=value``: a dotted key such as ``network.timeout`` and a value in YAML. An item of
        a list is named by its position, a source also by its name: ``parties.sources.A.exclude=[x]``.
    tables : mapping
        Party name to table, in place of the plan's; None for a table that is not a file.
    local : Path, optional
        One party's local file: keys of its entry in `parties`, and those of `LOCAL`. Settings replace them.
    party : str, optional
        The owner of the local file, if the file does not name it (``party``).
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
    if isinstance(source, Plan) and not (overrides or tables or local):
        return source
    draft = Draft.read(source.as_written() if isinstance(source, Plan) else source)
    draft.place_files(draft.folder)
    if local is not None or shared_alone:
        draft.refuse_local()
    if local is not None:
        local_draft = Draft.read(local)
        draft.add_local(local_draft, party)
        draft.place_files(local_draft.folder)
    approvers = draft.approvers()
    for override in overrides:
        draft.apply(override)
    for name, approver in draft.approvers().items():
        if approvers.get(name) not in (None, approver):
            reason = "no setting on the command line can change policy.approved_by; the local part can"
            draft.problems.append(f"{draft.where}: party {shown(name)}: {reason}")
    for name, file in tables.items():
        draft.set_table(name, file)
    draft.place_files(Path.cwd())
    try:
        plan = Plan.model_validate(draft.data)
        for location, text in contradictions(plan):
            draft.report(location, text)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            # If all items of a list are invalid, pydantic also reports that the list is too short.
            if problem["type"] != "too_short" or not problem["input"]:
                draft.report(*explain(problem, Plan))
    if draft.problems:
        raise PlanError("\n".join(draft.problems))
    return plan


def local_party(file: Path) -> str | None:
    """Return the owner that a local file names (``party``), or None; `PlanError` if it cannot be read."""
    party = Draft.read(file).data.get("party")
    return party if isinstance(party, str) else None

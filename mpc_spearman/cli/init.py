"""Make a party's key, ledger and local file, the shared plan, or a plan for two tables.

With --party, make the party's key (NAME.key) and its local file (NAME.yaml), and print the line for the
shared plan. The line is not secret; the key is. With a TABLE, the local file also lists its ids and columns,
which columns are left out and why, what its owner must decide, and the policy: what the owner allows. With
both, make the ledger too (NAME.ledger). With --shared, write the plan that all parties share (cluster.yaml),
for its author to fill in. With --containers, write a Containerfile, and how to run parties by compose and on
Kubernetes. With two tables, write a plan to rehearse on this machine; the second table is the target's.
Nothing is sent.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from textwrap import wrap

from rich.console import Console
from rich.progress import Progress

from mpc_spearman.cli.arguments import path
from mpc_spearman.cli.table_yaml import WIDTH, scalar, table_keys
from mpc_spearman.config import Policy, load_plan
from mpc_spearman.config.fields import meaning, party_name
from mpc_spearman.data.likely_ids import matching, why_none
from mpc_spearman.data.survey import Survey, survey
from mpc_spearman.errors import OutputError, PlanError, TableError
from mpc_spearman.files import create_once
from mpc_spearman.identity import Identity
from mpc_spearman.privacy.advice import advice
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.units import printable

#: Files of the package that are written unchanged, and what to do with them.
SHARED = "cluster.yaml"
CONTAINERS = {
    "Containerfile": "how to build an image, from this package's wheel beside it",
    "compose.yaml": "a rehearsal of three parties in three containers on this machine",
    "kubernetes.yaml": "each party's Job, to be filled in",
}
_THREE = {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE", help="one table, or two")
    parser.add_argument("--party", metavar="NAME", help="the party's name, as in the plan")
    parser.add_argument(
        "--out",
        type=path,
        metavar="FILE",
        help=f"the file to write (default: NAME.yaml, plan.yaml, {SHARED})",
    )
    parser.add_argument("--shared", action="store_true", help=f"write the shared plan, {SHARED}")
    parser.add_argument("--containers", action="store_true", help=f"write {', '.join(CONTAINERS)}")


def run(parsed: argparse.Namespace) -> int:
    tables, party, out = parsed.tables, parsed.party, parsed.out
    if parsed.shared or parsed.containers:
        if tables or party:
            raise PlanError("init: --shared and --containers write no party's own files; leave the rest out")
        if parsed.containers and out:
            raise PlanError("init: --containers writes several files into this folder; leave out --out")
        if parsed.shared:
            use = "enter C's address and everybody's identity, then send it to all parties"
            _copy(SHARED, out or Path(SHARED), use)
        for name, use in CONTAINERS.items() if parsed.containers else ():
            _copy(name, Path(name), use)
    elif len(tables) == 2:
        if party:
            raise PlanError("init: two tables make a plan for one machine; leave out --party")
        _write_plan(tables[0], tables[1], out or Path("plan.yaml"))
    elif len(tables) == 1 or (party and not tables):
        try:
            party = party and party_name(party)
        except ValueError as error:
            raise PlanError(f"--party: {party!r} {error}") from None
        name = party or tables[0].name.partition(".")[0]
        _write_local_file(tables, party, out or Path(f"{name}.yaml"))
    else:
        raise PlanError("init: name a party (--party), a table, or two tables")
    return 0


def _copy(name: str, file: Path, use: str) -> None:
    """Write a file of the package, and print what to do with it."""
    create_once(file, files("mpc_spearman").joinpath("templates", name).read_bytes())
    print(f"{file}: {use}")


def _write_local_file(tables: list[Path], party: str | None, file: Path) -> None:
    """Write a party's local file, of its table if there is one, and its key and ledger if it has a name."""
    key, ledger = (file.with_name(f"{party}.{end}") for end in ("key", "ledger"))
    if party is not None and key.exists():
        line = ""
        with suppress(PlanError):  # the key's line is worth more than to say that the file exists
            line = f"; its line is\nidentity: {Identity.read(key, 'key')}"
        raise OutputError(f"{key} exists and is not replaced; move it away first{line}")
    _refuse_existing(file)
    lines, messages = ["# This party's own settings. No other party sees them."], list[str]()
    if party is not None:
        lines += [f"party: {scalar(party)}", f"key: {scalar(key.name)}"]
    policy = [*_policy(party)]
    for table in tables:
        table_survey = _survey(table)
        keys = table_keys(_from(file, table), table_survey, ("strip",))
        if shortened := table_survey.ids.shortened:
            question = (
                f"# ? {shortened:,} ids have fewer digits than the others. Did a spreadsheet remove zeros in"
            )
            keys[:0] = [question, "#   front of them? Then the shared plan needs normalise: [unpad]."]
        lines += [*_legend(keys), *keys, *policy]
        messages.append(_summary(table_survey, keys))
        if columns := table_survey.features:  # the other side is taken to have as many
            messages += advice(load_plan({"parties": _THREE}), (columns, columns))
    if not tables:
        begin = f"`mpc-spearman ledger --begin {party}.ledger`"
        lines.append(f"# For a party that has a table: run {begin}, and remove the # before these lines.")
        lines += [f"# {line}" for line in ("table: TABLE", *policy) if not line.lstrip().startswith("#")]
    if party is not None:
        identity = Identity.new()
        identity.write(key)
        messages.append(f"identity: {identity}")
    if party is not None and tables and ledger.exists():
        messages.append(f"{ledger} exists, and is continued")
    elif party is not None and tables:
        Ledger.begin(ledger)
        messages.append(f"{ledger}: the ledger of its runs")
    create_once(file, "\n".join([*lines, ""]).encode())
    print(*messages, f"{file}: read it" if tables else f"{file}: local settings of {party}", sep="\n")


def _write_plan(source: Path, target: Path, file: Path) -> None:
    """Write a plan to rehearse with two tables; `TableError` if they have no id in common."""
    _refuse_existing(file)
    surveys = [_survey(source), _survey(target)]
    source_ids, target_ids, match = matching(surveys[0].ids, surveys[1].ids)
    surveys = [replace(surveys[0], ids=source_ids), replace(surveys[1], ids=target_ids)]
    keys = [table_keys(_from(file, of_table.table), of_table, match.steps) for of_table in surveys]
    reason = "" if match.common else why_none(source_ids, target_ids, (str(source), str(target)))
    doubt = f"No id is common: {reason}" if reason else match.doubt
    normalise = [
        *(wrap(f"# ? {printable(doubt)}", WIDTH, subsequent_indent="#   ") if doubt else ()),
        f"normalise: [{', '.join(match.steps)}]  # then {match.common:,} ids are in both tables",
    ]
    lines = [
        "# A rehearsal on this machine.",
        *_legend([*keys[0], *keys[1], *normalise]),
        "reveal: strengths",
        "# strength: mean_abs  # ranks by size, whatever the signs; needs reveal: coefficients",
        "alignment: intersect  # the rows that both tables have, by their ids",
        *normalise,
        "parties:",
        "  coordinator:",
        "    name: C",
        "  target:",
        "    name: B",
        *(f"    {line}" for line in keys[1]),
        "  sources:",
        "    - name: A",
        *(f"      {line}" for line in keys[0]),
    ]
    create_once(file, "\n".join([*lines, ""]).encode())
    print(*map(_summary, surveys, keys), sep="\n")
    if reason:
        raise TableError(f"no id is common to {source} and {target}: {reason}\n{file} is written: correct it")
    print(f"{match.common:,} ids in common" + (f"; {doubt[0].lower()}{doubt[1:]}" if doubt else ""))
    sizes = surveys[0].features, surveys[1].features
    needed = advice(load_plan(file), sizes) if all(sizes) else []
    print(*needed, f"{file}: read it, then run `mpc-spearman local {file}`", sep="\n")


def _survey(table: Path) -> Survey:
    """Survey a table, and show on a terminal how far that is."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(f"reading {printable(str(table))}", total=None)
        return survey(table, lambda done, of: bars.update(task, completed=done, total=of))


def _refuse_existing(file: Path) -> None:
    """Refuse to replace a file, before anything slow is done."""
    if file.exists():
        raise OutputError(f"{file} exists and is not replaced; move it away first, or give --out FILE")


def _from(file: Path, table: Path) -> str:
    """Return a table's path as a file names it, whose folder it is relative to."""
    if table.is_absolute() or file.absolute().parent == Path.cwd():
        return str(table)
    return os.path.relpath(table, file.absolute().parent)


def _legend(lines: list[str]) -> list[str]:
    return ["# Lines with `# ?` are for you to decide."] * any("# ?" in line for line in lines)


def _summary(of_table: Survey, keys: list[str]) -> str:
    """Say how many columns of a table are used, and how many lines of its keys ask its owner."""
    questions = sum("# ?" in line or ". ? " in line for line in keys)
    columns = f"{len(of_table.used_columns)} of {len(of_table.columns)} columns are used"
    text = f"{of_table.table}: {of_table.rows:,} rows, {columns}"
    return text + (f"; {questions} for you to decide, marked `# ?`" if questions else "")


def _policy(party: str | None) -> Iterator[str]:
    """Yield a data party's policy with its defaults, each key below a sentence on what it means."""
    yield "# What this owner allows, whatever the shared plan says: docs/plan.md#policy. These are defaults."
    yield "policy:"
    if party is not None:
        yield "  # Where each run is recorded. Keep it on a disk that lasts, and back it up."
        yield f"  ledger: {scalar(f'{party}.ledger')}"
    for key, field in Policy.model_fields.items():
        if field.default is not None:
            sentence = meaning(field).split(". ")[0].split(": docs/")[0].rstrip(".")
            yield from wrap(sentence, WIDTH, initial_indent="  # ", subsequent_indent="  # ")
            yield f"  {key}: {_yaml(field.default)}"


def _yaml(value: object) -> str:
    """Write a default of a policy as YAML."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value).lower()

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
from mpc_spearman.config.fields import party_name
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
    if parsed.shared or parsed.containers:
        if parsed.tables or parsed.party:
            raise PlanError("init: --shared and --containers write no party's own files; leave the rest out")
        if parsed.containers and parsed.out:
            raise PlanError("init: --containers writes several files into this folder; leave out --out")
        if parsed.shared:
            _copy(
                SHARED,
                parsed.out or Path(SHARED),
                "enter C's address and everybody's identity, then send it to all parties",
            )
        for name, use in CONTAINERS.items() if parsed.containers else ():
            _copy(name, Path(name), use)
        return 0
    if len(parsed.tables) > 2 or not (parsed.tables or parsed.party):
        raise PlanError("init: name a party (--party), a table, or two tables")
    if len(parsed.tables) == 2:
        if parsed.party:
            raise PlanError("init: two tables make a plan for one machine; leave out --party")
        source, target = parsed.tables
        _write_plan(source, target, parsed.out or Path("plan.yaml"))
    else:
        party = _name(parsed.party)
        name = party or parsed.tables[0].name.partition(".")[0]
        _write_own(parsed.tables, party, parsed.out or Path(f"{name}.yaml"))
    return 0


def _copy(name: str, file: Path, use: str) -> None:
    """Write a file of the package, and print what to do with it."""
    create_once(file, files("mpc_spearman").joinpath("templates", name).read_bytes())
    print(f"{file}: {use}")


def _name(party: str | None) -> str | None:
    try:
        return None if party is None else party_name(party)
    except ValueError as error:
        raise PlanError(f"--party: {party!r} {error}") from None


def _write_own(tables: list[Path], party: str | None, file: Path) -> None:
    """Write a party's local file, of its table if there is one, and its key if it has a name."""
    key, ledger = (file.with_name(f"{party}.{end}") for end in ("key", "ledger"))
    if party is not None and key.exists():  # whose line is worth more than to say that the file exists
        _refuse_key(key)
    _refuse_existing(file)
    lines, said = ["# This party's own settings. No other party sees them."], list[str]()
    if party is not None:
        lines += [f"party: {scalar(party)}", f"key: {scalar(key.name)}"]
    for table in tables:
        about = _survey(table)
        keys = table_keys(_from(file, table), about, ("strip",))
        if about.ids.name and (shortened := about.ids.shortened):
            at = keys.index(f"id: {scalar(about.ids.name)}")
            keys[at:at] = [
                f"# ? {shortened:,} ids have fewer digits than the others. Did a spreadsheet remove zeros in",
                "#   front of them? Then the shared plan needs normalise: [unpad].",
            ]
        lines += _open(keys) + keys
        said += [_in_words(about, keys), *_rows_needed(about.features)]
    policy = list(_policy(party))
    if tables:
        lines += policy
    else:
        begin = f"`mpc-spearman ledger --begin {party}.ledger`"
        lines.append(f"# For a party that has a table: run {begin}, and remove the # before these lines.")
        lines += [f"# {line}" for line in ("table: TABLE", *policy) if not line.lstrip().startswith("#")]
    if party is not None:
        said.append(_make_key(key))
    if party is not None and tables:
        said.append(_begin_ledger(ledger))
    create_once(file, "\n".join([*lines, ""]).encode())
    print(*said, f"{file}: read it" if tables else f"{file}: local settings of {party}", sep="\n")


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


def _in_words(about: Survey, keys: list[str]) -> str:
    """Say what was found of a table."""
    asked = sum("# ?" in line or ". ? " in line for line in keys)
    columns = f"{len(about.used)} of {len(about.columns)} columns are used"
    text = f"{about.table}: {about.rows:,} rows, {columns}"
    return text + (f"; {asked} for you to decide, marked `# ?`" if asked else "")


def _rows_needed(columns: int) -> list[str]:
    """Say how many rows a run needs if the other side has as many columns, under the default plan."""
    parties = {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}
    return advice(load_plan({"parties": parties}), (columns, columns)) if columns else []


def _policy(party: str | None) -> Iterator[str]:
    """Yield a data party's policy with its defaults, each key below a sentence on what it means."""
    yield "# What this owner allows, whatever the shared plan says: docs/plan.md#policy. These are defaults."
    yield "policy:"
    if party is not None:
        yield "  # Where each run is recorded. Keep it on a disk that lasts, and back it up."
        yield f"  ledger: {scalar(f'{party}.ledger')}"
    for key, field in Policy.model_fields.items():
        if field.default is not None:
            meaning = str(field.description).split(". ")[0].split(": docs/")[0].rstrip(".")
            yield from wrap(meaning, WIDTH, initial_indent="  # ", subsequent_indent="  # ")
            yield f"  {key}: {_written(field.default)}"


def _written(value: object) -> str:
    """Write a default of a policy as YAML."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _begin_ledger(file: Path) -> str:
    """Make a party's ledger; one of earlier runs stays, and is continued."""
    if file.exists():
        return f"{file} exists, and is continued"
    Ledger.begin(file)
    return f"{file}: the ledger of its runs"


def _write_plan(source: Path, target: Path, file: Path) -> None:
    _refuse_existing(file)
    first, second = _survey(source), _survey(target)
    *ids, match = matching(first.ids, second.ids)
    abouts = [replace(about, ids=its) for about, its in zip((first, second), ids, strict=True)]
    keys = [table_keys(_from(file, about.table), about, match.steps) for about in abouts]
    why = "" if match.common else why_none(abouts[0].ids, abouts[1].ids, (str(source), str(target)))
    doubt = f"No id is common: {why}" if why else match.doubt
    alike = [
        *(wrap(f"# ? {printable(doubt)}", WIDTH, subsequent_indent="#   ") if doubt else ()),
        f"normalise: [{', '.join(match.steps)}]  # then {match.common:,} ids are in both tables",
    ]
    lines = [
        "# A rehearsal on this machine.",
        *_open([*keys[0], *keys[1], *alike]),
        "reveal: strengths",
        "# strength: mean_abs  # ranks by size, whatever the signs; needs reveal: coefficients",
        "alignment: intersect  # the rows that both tables have, by their ids",
        *alike,
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
    print(*map(_in_words, abouts, keys), sep="\n")
    if why:
        raise TableError(f"no id is common to {source} and {target}: {why}\n{file} is written: correct it")
    asked = f"; {doubt[0].lower()}{doubt[1:]}" if doubt else ""
    print(f"{match.common:,} ids in common{asked}")
    sizes = abouts[0].features, abouts[1].features
    needed = advice(load_plan(file), sizes) if all(sizes) else []
    print(*needed, f"{file}: read it, then run `mpc-spearman local {file}`", sep="\n")


def _open(lines: list[str]) -> list[str]:
    return ["# Lines with `# ?` are for you to decide."] * any("# ?" in line for line in lines)


def _make_key(path: Path) -> str:
    identity = Identity.new()
    identity.write(path)
    return f"identity: {identity}"


def _refuse_key(path: Path) -> None:
    """Refuse to replace a key; give its line for the shared plan."""
    line = ""
    with suppress(PlanError):
        line = f"; its line is\nidentity: {Identity.read(path, 'key')}"
    raise OutputError(f"{path} exists and is not replaced; move it away first{line}")

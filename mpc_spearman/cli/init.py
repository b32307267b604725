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
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from textwrap import wrap

import numpy as np

from mpc_spearman.arrays import Memory
from mpc_spearman.config import Policy, load_plan
from mpc_spearman.config.fields import party_name
from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.ids import id_text
from mpc_spearman.data.source import Column
from mpc_spearman.data.survey import Survey, survey
from mpc_spearman.errors import OutputError, PlanError
from mpc_spearman.files import create_once
from mpc_spearman.identity import Identity
from mpc_spearman.privacy.advice import advice
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.units import printable

# Text that needs no quotes in YAML, whatever its rules for numbers and dates.
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off)$)[A-Za-z_][A-Za-z0-9_.-]*")
_PATH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
_WIDTH = 100
#: Files of the package that are written unchanged, and what to do with them.
SHARED = "cluster.yaml"
CONTAINERS = {
    "Containerfile": "how to build an image, from this package's wheel beside it",
    "compose.yaml": "a rehearsal of three parties in three containers on this machine",
    "kubernetes.yaml": "each party's Job, to be filled in",
}
# What may be done to ids, least first.
_STEPS: tuple[tuple[Normalise, ...], ...] = (
    (),
    ("strip",),
    ("strip", "casefold"),
    ("strip", "nfkc", "casefold"),
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE", help="one table, or two")
    parser.add_argument("--party", metavar="NAME", help="the party's name, as in the plan")
    parser.add_argument("--shared", action="store_true", help=f"write the shared plan, {SHARED}")
    parser.add_argument("--containers", action="store_true", help=f"write {', '.join(CONTAINERS)}")


def run(parsed: argparse.Namespace) -> int:
    if parsed.shared or parsed.containers:
        if parsed.tables or parsed.party:
            raise PlanError("init: --shared and --containers write no party's own files; leave the rest out")
        if parsed.shared:
            _copy(SHARED, "enter C's address and everybody's identity, then send it to all parties")
        for name, use in CONTAINERS.items() if parsed.containers else ():
            _copy(name, use)
        return 0
    if len(parsed.tables) > 2 or not (parsed.tables or parsed.party):
        raise PlanError("init: name a party (--party), a table, or two tables")
    if len(parsed.tables) == 2:
        if parsed.party:
            raise PlanError("init: two tables make a plan for one machine; leave out --party")
        _write_plan(*parsed.tables)
    else:
        _write_own(parsed.tables, _name(parsed.party))
    return 0


def _copy(name: str, use: str) -> None:
    """Write a file of the package into the current folder, and print what to do with it."""
    create_once(Path(name), files("mpc_spearman").joinpath("templates", name).read_bytes())
    print(f"{name}: {use}")


def _name(party: str | None) -> str | None:
    try:
        return None if party is None else party_name(party)
    except ValueError as error:
        raise PlanError(f"--party: {party!r} {error}") from None


def _write_own(tables: list[Path], party: str | None) -> None:
    """Write a party's local file, of its table if there is one, and its key if it has a name."""
    file = Path(f"{party or tables[0].name.partition('.')[0]}.yaml")
    lines, said = ["# This party's own settings. No other party sees them."], []
    if party is not None:
        lines += [f"party: {_scalar(party)}", f"key: {_scalar(f'{party}.key')}"]
    for table in tables:
        about_table = survey(table)
        about, in_words = _own_keys(table, about_table)
        lines += _open(about) + about
        said += [in_words, *_rows_needed(len(_used(about_table)))]
    policy = list(_policy(party))
    if tables:
        lines += policy
    else:
        begin = f"`mpc-spearman ledger --begin {party}.ledger`"
        lines.append(f"# For a party that has a table: run {begin}, and remove the # before these lines.")
        lines += [f"# {line}" for line in ("table: TABLE", *policy) if not line.lstrip().startswith("#")]
    if file.exists() and not (party and Path(f"{party}.key").exists()):  # whose line is worth more
        raise OutputError(f"{file} exists and is not replaced; move it away first")
    if party is not None:
        said.append(_make_key(party))
    if party is not None and tables:
        said.append(_begin_ledger(Path(f"{party}.ledger")))
    create_once(file, "\n".join([*lines, ""]).encode())
    print(*said, f"{file}: read it" if tables else f"{file}: local settings of {party}", sep="\n")


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
        yield f"  ledger: {_scalar(f'{party}.ledger')}"
    for key, field in Policy.model_fields.items():
        if field.default is not None:
            meaning = str(field.description).split(". ")[0].split(": docs/")[0].rstrip(".")
            yield from wrap(meaning, _WIDTH, initial_indent="  # ", subsequent_indent="  # ")
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


def _write_plan(source: Path, target: Path) -> None:
    source_table, target_table = survey(source), survey(target)
    (source_keys, of_source), (target_keys, of_target) = (
        _own_keys(source, source_table),
        _own_keys(target, target_table),
    )
    alike, common = _normalise(source_table, target_table)
    lines = [
        "# A rehearsal on this machine.",
        *_open([*source_keys, *target_keys]),
        "reveal: strengths",
        "# strength: mean_abs  # ranks by size, whatever the signs; needs reveal: coefficients",
        "alignment: intersect  # the rows that both tables have, by their ids",
        alike,
        "parties:",
        "  coordinator:",
        "    name: C",
        "  target:",
        "    name: B",
        *(f"    {line}" for line in target_keys),
        "  sources:",
        "    - name: A",
        *(f"      {line}" for line in source_keys),
    ]
    create_once(Path("plan.yaml"), "\n".join([*lines, ""]).encode())
    print(f"{of_source}\n{of_target}\n{common:,} ids in common")
    needed = advice(load_plan(Path("plan.yaml")), (len(_used(source_table)), len(_used(target_table))))
    print(*needed, "plan.yaml: read it, then run `mpc-spearman local plan.yaml`", sep="\n")


def _open(lines: list[str]) -> list[str]:
    return ["# Lines with `# ?` are for you to decide."] * any("# ?" in line for line in lines)


def _make_key(name: str) -> str:
    identity, path = Identity.new(), Path(f"{name}.key")
    try:
        identity.write(path)
    except OutputError as error:
        with suppress(PlanError):
            error = OutputError(f"{error}; its line is\nidentity: {Identity.read(path, 'key')}")
        raise error from None
    return f"identity: {identity}"


def _used(about_table: Survey) -> list[Column]:
    """Return the columns of a table that a run would use."""
    return [one for one in about_table.columns if not one.problem or "convert" in one.fix]


def _own_keys(table: Path, about_table: Survey) -> tuple[list[str], str]:
    """Return a party's local keys for a table as lines of YAML, and a sentence on what was found.

    The table's path is written unchanged, relative to the folder of the file with these keys.
    """
    used = _used(about_table)
    lines = list(_lines(table, about_table, used))
    asked = sum("# ?" in line for line in lines)
    text = f"{table}: {about_table.rows:,} rows, {len(used)} of {len(about_table.columns)} columns are used"
    return lines, text + (f"; {asked} for you to decide, marked `# ?`" if asked else "")


def _normalise(one: Survey, other: Survey) -> tuple[str, int]:
    """Find the steps that make most ids of two tables equal: a line of YAML, and how many are common."""
    best: tuple[int, tuple[Normalise, ...]] = (-1, ())
    for steps in _STEPS:
        ours, theirs = (set(id_text(table.ids.chunks, steps, Memory()).to_pylist()) for table in (one, other))
        best = max(best, (len(ours & theirs), steps), key=lambda each: each[0])  # the first of equals
    common, steps = best
    return f"normalise: [{', '.join(steps)}]  # then {common:,} ids are in both tables", common


def _lines(table: Path, about_table: Survey, used: list[Column]) -> Iterator[str]:
    name = str(table)
    yield f"table: {name if _PATH.fullmatch(name) else json.dumps(name, ensure_ascii=False)}"
    if about_table.id:
        if about_table.doubt:
            yield f"# ? {printable(about_table.doubt)}"
        yield f"id: {_scalar(about_table.id)}"
        if about_table.repeated:
            yield f"# ? {about_table.repeated:,} rows have duplicate ids: leave them out?"
            yield "duplicates: drop"
    else:
        yield "# ? No column identifies every row. Which columns together do?"
        yield "# id: [name, birth_date]"
    if about_table.separator:
        yield f"csv: {{delimiter: {json.dumps(about_table.separator)}}}"
    by_kind: dict[str, list[str]] = {}
    for column in used:
        kind = column.kind or str(column.fix["convert"])
        by_kind.setdefault(kind, []).append(column.name)
    gaps = [one.name for one in used if one.missing.any()]
    if about_table.repeated or gaps:
        yield "# Leaving out rows needs alignment: intersect in the shared plan."
    yield f"# Columns used: {len(used)}."
    for kind, names in by_kind.items():
        yield from _wrapped(f"#   {kind}: ", names)
    if convert := {one.name: one.fix["convert"] for one in used if one.problem}:
        yield "convert:"
        yield from (f"  {_scalar(name)}: {how}" for name, how in convert.items())
    if gaps:
        read = [one.missing for one in used if not one.problem]  # of others the cells were not read yet
        lost = int(np.logical_or.reduce(read).sum())
        yield from _wrapped(f"# In {lost:,} of {about_table.rows:,} rows a value is missing, in ", gaps)
        yield "# ? Leave these rows out (drop_rows), or put such cells in the middle of the ranks (middle)?"
        yield f"missing: {'middle' if 5 * lost > about_table.rows else 'drop_rows'}"
    for one in used:
        if one.codes:
            values = ", ".join(value for value, _ in one.codes)
            cells = " and ".join(f"{value} in {count:,} cells" for value, count in one.codes)
            yield f"# ? {printable(one.name)} is {cells}: codes for a missing value? If so, remove the #."
            yield f"# missing_values: {{{_scalar(one.name)}: [{values}]}}"
    left_out = [one for one in about_table.columns if one not in used]
    if left_out:
        yield "# Columns left out, and why. Once a column is fixed, remove it from this list."
        yield "exclude:"
        for column in left_out:
            categories = column.fix.get("encode")
            mark = "? " if categories or "convert" in column.problem or "csv." in column.problem else ""
            yield f"  - {_scalar(column.name)}  # {mark}{printable(column.problem)}"
    ordered = [(one.name, one.fix["encode"]) for one in left_out if "encode" in one.fix]
    if ordered:
        yield "# Text with few values. If the values have an order, list them in it, lowest first."
        yield "# encode:"
        for name, categories in ordered:
            assert isinstance(categories, list)
            yield f"#   {_scalar(name)}: [{', '.join(_scalar(str(one)) for one in categories)}]"


def _scalar(text: str) -> str:
    """Write a text for YAML, in quotes if it could be read as something else."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _wrapped(start: str, names: list[str]) -> list[str]:
    text = start + ", ".join(map(printable, names))
    return wrap(text, _WIDTH, subsequent_indent="#     ", break_long_words=False, break_on_hyphens=False)

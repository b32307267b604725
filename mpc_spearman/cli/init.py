"""Make a party's key and its local file, or a plan for two tables.

With --party, make the party's key (NAME.key) and its local file (NAME.yaml), and print the line for the
shared plan. The line is not secret; the key is. With a TABLE, the local file also lists its ids and columns,
which columns are left out and why, and what its owner must decide. With two tables, write a plan to rehearse
on this machine; the second table is the target's. Nothing is sent.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from mpc_spearman.cli.own_file import normalise, own_keys, scalar
from mpc_spearman.config.fields import party_name
from mpc_spearman.data.survey import survey
from mpc_spearman.errors import OutputError, PlanError
from mpc_spearman.files import create_once
from mpc_spearman.identity import Identity


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE", help="one table, or two")
    parser.add_argument("--party", metavar="NAME", help="the party's name, as in the plan")


def run(parsed: argparse.Namespace) -> int:
    """Make what was asked for, and say what it is."""
    if len(parsed.tables) > 2 or not (parsed.tables or parsed.party):
        raise PlanError("init: name a party (--party), a table, or two tables")
    if len(parsed.tables) == 2:
        if parsed.party:
            raise PlanError("init: two tables make a plan for one machine; leave out --party")
        _write_plan(*parsed.tables)
    else:
        _write_own(parsed.tables, _name(parsed.party))
    return 0


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
        lines += [f"party: {scalar(party)}", f"key: {scalar(f'{party}.key')}"]
    for table in tables:
        about, found = own_keys(table, survey(table))
        lines += ["# Lines with `# ?` are for you to decide.", *about]
        said.append(found)
    if file.exists() and not (party and Path(f"{party}.key").exists()):  # whose line is worth more
        raise OutputError(f"{file} exists and is not replaced; move it away first")
    if party is not None:
        said.append(_make_key(party))
    create_once(file, "\n".join([*lines, ""]).encode())
    print(*said, f"{file}: read it" if tables else f"{file}: local settings of {party}", sep="\n")


def _write_plan(source: Path, target: Path) -> None:
    ours, theirs = survey(source), survey(target)
    (ours_keys, found), (theirs_keys, also) = own_keys(source, ours), own_keys(target, theirs)
    alike, common = normalise(ours, theirs)
    lines = [
        "# A rehearsal on this machine. Lines with `# ?` are for you to decide.",
        "reveal: strengths",
        "alignment: intersect  # the rows that both tables have, by their ids",
        alike,
        "parties:",
        "  coordinator:",
        "    name: C",
        "  target:",
        "    name: B",
        *(f"    {line}" for line in theirs_keys),
        "  sources:",
        "    - name: A",
        *(f"      {line}" for line in ours_keys),
    ]
    create_once(Path("plan.yaml"), "\n".join([*lines, ""]).encode())
    print(f"{found}\n{also}\n{common:,} ids in common")
    print("plan.yaml: read it, then run `mpc-spearman local plan.yaml`")


def _make_key(name: str) -> str:
    identity, path = Identity.new(), Path(f"{name}.key")
    try:
        identity.write(path)
    except OutputError as error:
        with suppress(PlanError):
            error = OutputError(f"{error}; its line is\nidentity: {Identity.read(path, 'key')}")
        raise error from None
    return f"identity: {identity}"

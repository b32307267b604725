"""A plan before it is checked: YAML text and overrides, and where each value came from.

Nothing here knows which keys a plan may have; `mpc_spearman.config.plan` checks that. A draft only remembers
which values an override set, so that a problem names the place to correct.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from mpc_spearman.config.wording import Location, dotted, nearest, shown
from mpc_spearman.config.yaml_text import parse, parse_value
from mpc_spearman.errors import PlanError

# Bytes of a file; the shared part has to fit a message to each peer (`mpc_spearman.wire.messages.MAX_TEXT`).
_LONGEST = 1 << 20
# Files of a data party, of its policy and of any party.
_TABLES = ("table", "alignment_key", "aligned", "write_aligned", "write_unaligned")
_RECORDS = ("ledger", "approval")


@dataclass
class Draft:
    """The unchecked content of a plan: dicts, lists and scalars, shared with nobody.

    A problem starts with `where`, the file's name (or ``plan``), or with the override or local file that set
    the value (`origins`). Paths are relative to `folder`.
    """

    where: str
    folder: Path
    data: dict[Any, Any]
    problems: list[str] = field(default_factory=list)
    origins: dict[Location, str] = field(default_factory=dict)

    @classmethod
    def read(cls, source: str | Path | Mapping[str, Any]) -> Draft:
        """Take a mapping as it is, or read a YAML file; `PlanError` if it does not hold keys and values."""
        if isinstance(source, Mapping):
            return cls("plan", Path.cwd(), _copied(source))
        if not isinstance(source, (str, Path)):
            raise PlanError(f"a plan is a file or a mapping, not {type(source).__name__}")
        path = Path(os.path.expanduser(source))
        try:
            with path.open("rb") as file:
                written = file.read(_LONGEST + 1)
            if len(written) > _LONGEST:  # such as a table given by mistake
                raise ValueError(f"it is not a plan: it is longer than {_LONGEST >> 20} MiB")
            content, misread = parse(written.decode("utf-8-sig"))
            if not isinstance(content, dict):
                # Not what is in it: a table given by mistake would be quoted.
                raise ValueError("it is not a plan: a plan is made of 'key: value' lines")
        except FileNotFoundError:
            there = tuple(sorted(file.name for file in path.parent.glob("*.y*ml")))
            raise PlanError(f"{path}: no such file{nearest(path.name, there)}") from None
        except OSError as error:
            raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise PlanError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
        except ValueError as error:
            raise PlanError(f"{path}: {error}") from None
        draft = cls(str(path), path.absolute().parent, content)
        for location, text in misread:
            draft.report(location, text)
        return draft

    def report(self, location: Location, text: str) -> None:
        """Note a problem with the value at `location`."""
        inside = [known for known in self.origins if location[: len(known)] == known]
        where = self.origins[max(inside, key=len)] if inside else self.where
        key = f"{dotted(location)}: " if location else ""
        self.problems.append(f"{where}: {key}{text}")

    def override(self, text: str) -> None:
        """Apply one ``a.b.c=value``, the value in YAML; list items by position or by ``name``."""
        key, equals, written = text.partition("=")
        path = [part.strip() for part in key.split(".")]
        start = f"override {shown(text)}"
        if not equals or not all(path):
            self.problems.append(f"{start}: not of the form key=value, as in network.timeout=30")
            return
        node: Any = self.data
        location: Location = ()
        try:
            value, misread = parse_value(written)
            for depth, part in enumerate(path, start=1):
                step = _step(node, part, location)
                location = (*location, step)
                if depth == len(path):
                    node[step] = value
                elif isinstance(node, dict) and node.get(step) is None:
                    node[step] = {}
                    self.origins.setdefault(location, start)
                node = node[step]
        except ValueError as error:
            self.problems.append(f"{start}: {error}")
            return
        # What an earlier override set below this key is gone, and so is its name.
        self.origins = {k: v for k, v in self.origins.items() if k[: len(location)] != location}
        self.origins[location] = start
        for inside, problem in misread:
            self.report((*location, *inside), problem)

    def refuse_local(self, of_party: Collection[str], of_sections: Mapping[str, Collection[str]]) -> None:
        """Note a problem for every local key in a shared plan: beside any party's name, or in a section.

        Whoever writes the shared plan is not its readers' owner: a policy, a ledger or a file to write that
        stood there would be somebody else's.
        """
        places: list[Location] = [("coordinator",), ("target",)]
        entries = self._parties()
        places += [("sources", position) for position in range(len(entries) - 2)]
        for place, entry in zip(places, entries, strict=True):
            whose = f"{shown(entry.get('name'))} writes it into its own local file (--local)"
            for key in [key for key in entry if key in of_party]:
                self.report(("parties", *place, key), f"is local and no part of a shared plan; {whose}")
        for section, keys in of_sections.items():
            there = self.data.get(section)
            for key in [key for key in keys if isinstance(there, dict) and key in there]:
                each = "each party writes it into its own local file (--local)"
                self.report((section, key), f"is local and no part of a shared plan; {each}")

    def add_local(
        self,
        own: Draft,
        party: str | None,
        sections: Mapping[str, Sequence[str]],
        shared: Collection[str],
    ) -> None:
        """Merge a party's local file: beside the party's name, or into a section.

        The file's ``party`` names the owner, or else `party`. `sections` has the sections of the shared plan
        that it may have keys of, and these keys; `shared` are keys beside a name that are not local.
        """
        said = own.data.pop("party", None)
        names = [entry.get("name") for entry in self._parties()]
        name = party if said is None else said
        if party not in (None, name):
            own.report(("party",), f"this is the file of {shown(name)}, but the command names {shown(party)}")
        elif name not in names:
            own.report(("party",), f"{shown(name)} is not a party of the plan {self.where}")
        elif wrong := own.data.keys() & set(shared):
            own.report((min(wrong),), f"is shared: only the shared plan can have it ({self.where})")
        else:
            index = names.index(name)
            roles: tuple[Location, ...] = (("coordinator",), ("target",), ("sources", index - 2))
            below = ("parties", *roles[min(index, 2)])
            for key, value in own.data.items():
                if key not in sections:
                    self._parties()[index][key] = value
                    self.origins[(*below, key)] = own.where
                    continue
                section = value if isinstance(value, dict) else {}
                for inside in section.keys() - set(sections[key]):
                    own.report((key, inside), f"is not local; local keys here: {', '.join(sections[key])}")
                self.data[key] = {**(self.data.get(key) or {}), **section}
                self.origins.update(dict.fromkeys(((key, inside) for inside in section), own.where))
        self.problems += own.problems

    def data_parties(self) -> list[dict[Any, Any]]:
        """Return the target's and the sources' mappings, as far as the draft has them."""
        return [party for party in self._parties()[1:] if party]

    def approvers(self) -> dict[str, Any]:
        """Return who approves each data party's runs, by the party's name."""
        return {str(party.get("name")): _policy(party).get("approved_by") for party in self.data_parties()}

    def _parties(self) -> list[dict[Any, Any]]:
        """Return all parties' mappings, the coordinator's first; an empty one for what is none."""
        parties = self.data.get("parties")
        parties = parties if isinstance(parties, dict) else {}
        sources = parties.get("sources")
        found = [parties.get("coordinator"), parties.get("target")]
        found += sources if isinstance(sources, list) else []
        return [party if isinstance(party, dict) else {} for party in found]

    def set_table(self, party: str, file: Path | None) -> None:
        """Give the data party of that name another table, or none."""
        found = {str(entry.get("name")): entry for entry in self.data_parties()}
        if party in found:
            found[party]["table"] = file
        else:
            known = f"data parties: {', '.join(found) or 'none'}"
            why = f"the plan has no data party of that name; {known}"
            self.problems.append(f"table for {shown(party)}: {why}")

    def place_files(self, folder: Path) -> None:
        """Make the paths of all files absolute, reading relative ones from `folder`."""
        policies = [_policy(party) for party in self.data_parties()]
        tables = [table for party in self.data_parties() if isinstance(table := party.get("table"), dict)]
        for party, policy in zip(self.data_parties(), policies, strict=True):
            if policy.get("approved_by"):
                policy.setdefault("approval", f"{party.get('name')}.approval")
        files = (
            *product(self.data_parties(), _TABLES),
            *product(policies, _RECORDS),
            *product(tables, ("path",)),
            *product(self._parties(), ("key",)),
        )
        for section, key in files:
            file = section.get(key)
            # An empty path would name the folder itself, NUL is no part of any, an address is none, and a
            # locale may lack characters: left for the check.
            text = str(file)
            if isinstance(file, (str, Path)) and text.strip() and "\0" not in text and "://" not in text:
                with suppress(UnicodeEncodeError):
                    section[key] = (folder / os.path.expanduser(file)).resolve()


def _step(node: object, part: str, location: Location) -> str | int:
    """Return the key or position that a part of an override stands for; `ValueError` if there is none."""
    if isinstance(node, dict):
        return part
    if not isinstance(node, list):
        raise ValueError(f"{dotted(location)} is {shown(node)}, and has no keys below it")
    names = [str(item.get("name")) if isinstance(item, dict) else "" for item in node]
    if part in names:
        return names.index(part)
    if part.isdecimal() and int(part) < len(node):
        return int(part)
    raise ValueError(f"{dotted(location)} has no item {shown(part)}; it has {', '.join(names)}")


def _policy(party: Mapping[Any, Any]) -> dict[Any, Any]:
    policy = party.get("policy")
    return policy if isinstance(policy, dict) else {}


def _copied(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value

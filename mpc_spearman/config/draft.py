"""A plan before it is checked: its YAML text with settings, and the origin of each value.

A draft records which setting or local file set a value, so that an error names the place to correct. Which
keys a plan may have, and their values, `mpc_spearman.config.plan` checks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from mpc_spearman.config.parties import LOCAL_PARTY_KEYS, SHARED_PARTY_KEYS
from mpc_spearman.config.plan import LOCAL, MEETING_PLACE
from mpc_spearman.config.wording import Location, dotted, nearest, shown
from mpc_spearman.config.yaml_text import parse, parse_value
from mpc_spearman.errors import PlanError

# Most bytes of a file; the shared part has to fit into one message (`mpc_spearman.wire.messages.MAX_TEXT`).
_LONGEST_FILE = 1 << 20
_ROLES = ("coordinator", "target")  # of which a plan has one each
# Keys that hold file names: of a data party, and of its policy.
_PARTY_FILES = ("table", "alignment_key", "aligned", "write_aligned", "write_unaligned", "key")
_POLICY_FILES = ("ledger", "approval")


@dataclass
class Draft:
    """The unchecked content of a plan: dicts, lists and scalars, a copy of the caller's.

    The text of a problem starts with `where`, the file's name (or ``plan``), or with the setting or local
    file that set the value (`origins`). Paths are relative to `folder`.
    """

    where: str
    folder: Path
    data: dict[Any, Any]
    problems: list[str] = field(default_factory=list)
    origins: dict[Location, str] = field(default_factory=dict)

    @classmethod
    def read(cls, source: str | Path | Mapping[str, Any]) -> Draft:
        """Return the draft of a mapping or a YAML file; `PlanError` if the file holds no keys and values."""
        if isinstance(source, Mapping):
            return cls("plan", Path.cwd(), _copied(source))
        if not isinstance(source, (str, Path)):
            raise PlanError(f"a plan is a file or a mapping, not {type(source).__name__}")
        path = Path(os.path.expanduser(source))
        try:
            with path.open("rb") as file:
                text = file.read(_LONGEST_FILE + 1)
            if len(text) > _LONGEST_FILE:  # such as a table given by mistake
                raise ValueError(f"it is not a plan: it is longer than {_LONGEST_FILE >> 20} MiB")
            content, misread = parse(text.decode("utf-8-sig"))
            if not isinstance(content, dict):  # which is not quoted, as it may be a table given by mistake
                raise ValueError("it is not a plan: a plan is made of 'key: value' lines")
        except FileNotFoundError:
            plan_files = tuple(sorted(file.name for file in path.parent.glob("*.y*ml")))
            raise PlanError(f"{path}: no such file{nearest(path.name, plan_files)}") from None
        except OSError as error:
            raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 text (byte {error.start}); a plan is a YAML file in UTF-8"
            raise PlanError(f"{path}: {problem}") from None
        except ValueError as error:
            raise PlanError(f"{path}: {error}") from None
        draft = cls(str(path), path.absolute().parent, content)
        for location, problem in misread:
            draft.report(location, problem)
        return draft

    def report(self, location: Location, text: str) -> None:
        """Record a problem with the value at `location`."""
        enclosing = [place for place in self.origins if location[: len(place)] == place]
        where = self.origins[max(enclosing, key=len)] if enclosing else self.where
        key = f"{dotted(location)}: " if location else ""
        self.problems.append(f"{where}: {key}{text}")

    def apply(self, text: str) -> None:
        """Apply one setting, ``a.b.c=value``, the value in YAML; list items by position or by ``name``."""
        key, equals, written = text.partition("=")
        path = [part.strip() for part in key.split(".")]
        start = f"setting {shown(text)}"
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
        # This setting replaces what earlier ones set below its key.
        self.origins = {k: v for k, v in self.origins.items() if k[: len(location)] != location}
        self.origins[location] = start
        for inside, problem in misread:
            self.report((*location, *inside), problem)

    def refuse_local(self) -> None:
        """Record a problem for every local key in a shared plan, in a party's entry or in a section.

        The author of the shared plan must not decide on another organisation's policy, ledger or files.
        """
        local = {place: (entry, {*LOCAL_PARTY_KEYS}) for place, entry in self._parties().items()}
        for name, keys in LOCAL.items():
            local[name,] = _mapping(self.data.get(name)), {*keys} - {*MEETING_PLACE}
        for place, (entry, local_keys) in local.items():
            owner = shown(entry["name"]) if "name" in entry else "each party"
            for key in [key for key in entry if key in local_keys]:
                advice = f"{owner} writes it into its own local file (--local)"
                self.report((*place, key), f"is local and no part of a shared plan; {advice}")

    def add_local(self, local: Draft, party: str | None) -> None:
        """Merge a party's local file into its entry, and into sections of the plan that have local keys.

        The file's ``party`` names its owner, or else `party` does.
        """
        file_party = local.data.pop("party", None)
        name = party if file_party is None else file_party
        places = [place for place, entry in self._parties().items() if entry.get("name") == name]
        if party not in (None, name):
            problem = f"this is the file of {shown(name)}, but the command names {shown(party)}"
            local.report(("party",), problem)
        elif not places:
            local.report(("party",), f"{shown(name)} is not a party of the plan {self.where}")
        elif shared_keys := local.data.keys() & set(SHARED_PARTY_KEYS):
            local.report((min(shared_keys),), f"is shared: only the shared plan can have it ({self.where})")
        else:
            for key, value in local.data.items():
                if key not in LOCAL:
                    self._parties()[places[0]][key] = value
                    self.origins[(*places[0], key)] = local.where
                    continue
                section = _mapping(value)
                for name in section.keys() - set(LOCAL[key]):
                    local.report((key, name), f"is not local; local keys here: {', '.join(LOCAL[key])}")
                self.data[key] = {**(self.data.get(key) or {}), **section}
                self.origins.update(dict.fromkeys(((key, name) for name in section), local.where))
        self.problems += local.problems

    def data_parties(self) -> list[dict[Any, Any]]:
        """Return the target's and the sources' entries, as far as the draft has them."""
        return [party for party in [*self._parties().values()][1:] if party]

    def approvers(self) -> dict[str, Any]:
        """Return ``policy.approved_by`` of each data party, by the party's name."""
        return {
            str(party.get("name")): _mapping(party.get("policy")).get("approved_by")
            for party in self.data_parties()
        }

    def _parties(self) -> dict[Location, dict[Any, Any]]:
        """Return all parties' entries by their places, C's first; an empty mapping for each that is none."""
        parties = _mapping(self.data.get("parties"))
        entries: dict[Location, object] = {("parties", role): parties.get(role) for role in _ROLES}
        sources = parties.get("sources")
        for position, source in enumerate(sources if isinstance(sources, list) else ()):
            entries["parties", "sources", position] = source
        return {place: _mapping(entry) for place, entry in entries.items()}

    def set_table(self, party: str, file: Path | None) -> None:
        """Replace the table of the data party of that name; None removes it."""
        entries = {str(entry.get("name")): entry for entry in self.data_parties()}
        if party in entries:
            entries[party]["table"] = file
        else:
            reason = f"the plan has no data party of that name; data parties: {', '.join(entries) or 'none'}"
            self.problems.append(f"table for {shown(party)}: {reason}")

    def place_files(self, folder: Path) -> None:
        """Make the paths of all files absolute, reading relative ones from `folder`."""
        parties = self._parties().values()
        policies = {str(party.get("name")): _mapping(party.get("policy")) for party in parties}
        for name, policy in policies.items():
            if policy.get("approved_by"):
                policy.setdefault("approval", f"{name}.approval")
        files = (*product(parties, _PARTY_FILES), *product(policies.values(), _POLICY_FILES))
        for section, key in files:
            file = section.get(key)
            # Invalid paths are left unchanged, and the check reports them: empty ones, which would name the
            # folder itself, ones with NUL, addresses, and characters that the locale lacks.
            text = str(file)
            if isinstance(file, (str, Path)) and text.strip() and "\0" not in text and "://" not in text:
                with suppress(UnicodeEncodeError):
                    section[key] = (folder / os.path.expanduser(file)).resolve()


def _step(node: object, part: str, location: Location) -> str | int:
    """Return the key or position that one part of a setting's key names; `ValueError` if there is none."""
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


def _mapping(value: object) -> dict[Any, Any]:
    """Return a value if it is a mapping, and an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def _copied(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value

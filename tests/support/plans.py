"""The plans of tests: the one place where their numbers are freed of noise.

The tables of tests are small and nobody's, and results are held against references to the last digit. So here
numbers are exact, and every owner agrees to that; a test of noise, or of a default, says ``cautious``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import AGREE_TO_ALL, Plan, load_plan
from mpc_spearman.config.parties import SHARED_PARTY_KEYS
from mpc_spearman.config.plan import LOCAL, MEETING_PLACE
from mpc_spearman.errors import PlanError
from mpc_spearman.identity import Identity
from mpc_spearman.privacy.ledger import Ledger


def mapping(*sources: str, cautious: bool = False, **settings: Any) -> dict[str, Any]:
    """Return what would be in the YAML file of a plan for C, B and A, or other sources, without tables.

    `settings` are its top-level keys; ``results`` adds to what is said here. Where it is to be `cautious`,
    policies and precision are those by default.
    """
    parties: dict[str, Any] = {
        "coordinator": {"name": "C"},
        "target": {"name": "B"},
        "sources": [{"name": name} for name in sources or ("A",)],
    }
    content = {"parties": parties, **settings}
    if cautious:
        return content
    free = _freed(content)
    return {**free, "results": {**free["results"], **settings.get("results", {})}}


def plan(*sources: str, cautious: bool = False, **settings: Any) -> Plan:
    return load_plan(mapping(*sources, cautious=cautious, **settings))


def everyone(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a plan has of each party, in the order of their numbers."""
    parties = content["parties"]
    return [parties["coordinator"], parties["target"], *parties["sources"]]


def with_keys(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a plan whose parties have keys, in a folder, and their lines; data parties also ledgers."""
    keyed = deepcopy(dict(content))
    for party in everyone(keyed):
        identity, key = Identity.new(), folder / f"{party['name']}.key"
        identity.write(key)
        party |= {"identity": str(identity), "key": str(key)}
    for party in everyone(keyed)[1:]:
        ledger = Ledger.begin(folder / f"{party['name']}.ledger")
        party["policy"] = {**party.get("policy", {}), "ledger": str(ledger.path)}
    return keyed


def split(content: Mapping[str, Any], folder: Path, start: str = "") -> dict[str, Any]:
    """Write each party's local keys to START + NAME.local in a folder; return the rest, the shared plan."""
    shared = deepcopy(dict(content))
    sections: dict[str, dict[str, Any]] = {}
    for section, keys in LOCAL.items():
        values = shared.get(section, {})
        moved = [key for key in keys if key in values and key not in MEETING_PLACE]
        sections |= {section: {key: values.pop(key) for key in moved}} if moved else {}
    for party in everyone(shared):
        local = {key: party.pop(key) for key in list(party) if key not in SHARED_PARTY_KEYS}
        file = folder / f"{start}{party['name']}.local"
        file.write_text(json.dumps({"party": party["name"], **local, **sections}))  # which is YAML
    return shared


def freed(path: Path) -> Plan:
    """Return the plan of a file, with its tables, freed of noise."""
    return load_plan(_freed(load_plan(path).model_dump(mode="json")))


def _freed(content: Mapping[str, Any]) -> dict[str, Any]:
    means = content.get("reveal") not in (None, "coefficients", "differences")
    results = {"precision": "exact"} | ({} if means else {"target": "coefficients"})
    parties = content["parties"]
    return {
        **content,
        "parties": {
            **parties,
            "target": {**parties["target"], "policy": dict(AGREE_TO_ALL)},
            "sources": [{**source, "policy": dict(AGREE_TO_ALL)} for source in parties["sources"]],
        },
        "results": {**content.get("results", {}), **results},
    }


#: Keys of no security, which are quick to make; a plan's `he` by the name of the scheme; and what says under
#: which protocol a run is.
SMALL = {"key_bits": 256, "insecure": True, "randomness": "short"}
SCHEMES = {"paillier": {"scheme": "paillier", **SMALL}, "bfv": {"scheme": "bfv"}}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "mpc": {"protocol": "mpc"},
    **{scheme: {"protocol": "he", "he": section} for scheme, section in SCHEMES.items()},
}
#: Settings of runs in new processes whose protocol is no matter: without PyTorch these begin sooner.
LIGHT = PROTOCOLS["paillier"]


# ---- plans as they are written, and what is said of those that cannot be loaded

#: The least that a plan has to say.
MINIMAL = mapping(cautious=True)
YAML = """\
reveal: coefficients
parties:
  coordinator: {name: C}
  target: {name: B, table: b.csv}
  sources: [{name: A, table: sub/a.csv}]
"""


def plan_with(changes: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """MINIMAL with values set by dotted key; list items by position."""
    plan = deepcopy(MINIMAL) | top
    for key, value in (changes or {}).items():
        node: Any = plan
        *above, last = key.split(".")
        for part in above:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value
    return plan


def problems(source: Any, *overrides: str, **tables: Path | None) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load_plan(source, overrides, tables)
    return str(caught.value).splitlines()


def problem(source: Any, *overrides: str) -> str:
    (line,) = problems(source, *overrides)
    return line


INPUTS = ["a.csv", "b.csv", "plan.yaml"]


def write_inputs(folder: Path, seed: int) -> None:
    """Make a folder with a plan and its tables, for the command to run on."""
    (folder / "plan.yaml").write_text(YAML.replace("sub/", ""))
    values = np.random.default_rng(seed).normal(size=(5, 50))
    ids = pd.Index([f"p{i}" for i in range(50)], name="id")
    pd.DataFrame(values[:2].T, ids, ["a", "b"]).to_csv(folder / "a.csv")
    pd.DataFrame(values[2:].T, ids, ["x", "y", "z"]).to_csv(folder / "b.csv")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())

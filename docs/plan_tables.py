"""Write the tables of docs/plan.md: ``python docs/plan_tables.py``.

They come from the description of each key, where it is declared (`mpc_spearman.config`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import generated
from pydantic import BaseModel, Discriminator
from pydantic.fields import FieldInfo

from mpc_spearman.config import Plan, TargetParty
from mpc_spearman.config.fields import allowed_text, meaning
from mpc_spearman.config.parties import SHARED_PARTY_KEYS
from mpc_spearman.config.plan import LOCAL
from mpc_spearman.config.wording import choices, dotted, keys, model_in

PAGE = Path(__file__).with_name("plan.md")
Keys = dict[str, FieldInfo]
#: The keys that most plans and local files have.
FIRST = (
    *("protocol", "reveal", "alignment", "results.target", "results.sources", "privacy.loss"),
    *("parties.*.name", "parties.*.identity", "network.address", "key", "table", "id", "policy.max_reveal"),
)


def values(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every key that holds a value, by its dotted name."""
    for place, field in keys(model):
        section = model_in(field.annotation)
        if section is None or choices(field.annotation) or place[-1] == "table":  # a file, or keys below it
            yield dotted(place), field


def tables() -> dict[str, Keys]:
    """Sort the keys into the page's tables."""
    run = {key: field for key, field in values(Plan) if not key.startswith("parties.")}
    local_keys = {f"{section}.{key}" for section, names in LOCAL.items() for key in names}
    party = dict(values(TargetParty))
    names = {f"parties.*.{name}": party.pop(name) for name in SHARED_PARTY_KEYS}
    policy = {key: party.pop(key) for key in [*party] if key.startswith("policy.")}
    of_hosts = {key: party.pop(key) for key in ("key", "listen", "advertise")}
    table = {key: party.pop(key) for key in [*party] if key.partition(".")[0] == "table"}
    by_place = {
        "shared": {key: field for key, field in run.items() if key not in local_keys} | names,
        "party": table | party | of_hosts,
        "policy": policy,
        "host": {key: run[key] for key in run if key in local_keys},
    }
    first = {key: keys.pop(key) for key in FIRST for keys in by_place.values() if key in keys}
    return {"first": first, **by_place}


def code(value: object) -> str:
    """Write a value as a plan would."""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def default(field: FieldInfo) -> str:
    """Say what a key that is left out stands for; its meaning says so where that is no value."""
    value: Any = field.default
    if field.is_required():
        return "needed"
    if isinstance(value, tuple):
        return ", ".join(map(code, value)) or "–"
    return "–" if value in (None, {}) else code(value)


def allowed(field: FieldInfo) -> str:
    """Say what a key can hold."""
    values = () if get_origin(field.annotation) is dict else choices(field.annotation)
    mapping = any(isinstance(part, Discriminator) for part in field.metadata)
    words, text = ", ".join(map(code, values)), allowed_text(field)
    return f"{words}, or {text}" if words and mapping else words or text


def filled(text: str) -> str:
    """Return the page with the tables of the code."""
    keys_by_place = tables()

    def table(place: str) -> str:
        lines = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
        for key, field in keys_by_place[place].items():
            described = generated.with_links(meaning(field))
            lines += [f"| `{key}` | {default(field)} | {allowed(field)} | {described} |"]
        return "\n".join(lines)

    return generated.filled(text, "plan_tables.py", table)


if __name__ == "__main__":
    generated.update(PAGE, filled)

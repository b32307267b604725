"""Keys of a plan that contradict each other, found in its raw values, so that all are reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from mpc_spearman.config.scale import FOR_LEVEL, GRANTS, LEVELS, MPC_ONLY, OUTSIDE, grants, within
from mpc_spearman.config.table_keys import drops_rows
from mpc_spearman.config.wording import Location, dotted, shown

#: Under which ``alignment`` a data party can have which key.
_OF_ALIGNMENT = {
    "aligned": ("intersect", "ids"),
    "write_aligned": ("intersect",),
    "write_unaligned": ("intersect",),
}


def contradictions(data: Mapping[Any, Any]) -> Iterator[tuple[Location, str]]:
    """Find values that do not go together; values that are wrong by themselves are passed over."""

    def section(name: str) -> Mapping[Any, Any]:
        found = data.get(name)
        return found if isinstance(found, Mapping) else {}

    reveal = data.get("reveal", "coefficients")
    if reveal in LEVELS:
        for role in ("target", "sources"):
            grant = section("results").get(role)
            if grant in GRANTS and not within(grant, reveal):
                more = "not what" if {grant, reveal} & {*OUTSIDE} else "more than"
                has = f"{more} the coordinator has under reveal: {shown(reveal)}"
                yield ("results", role), f"{shown(grant)} is {has}; allowed: {', '.join(grants(reveal))}"
        if not within("coefficients", reveal):
            lacks = f"needs the coefficients, and reveal: {shown(reveal)} does not give them"
            if data.get("strength") == "mean_abs":
                yield ("strength",), f"'mean_abs' {lacks}; use strength: mean, or reveal: coefficients"
        if reveal in OUTSIDE and data.get("estimator") == "paper":
            yield ("estimator",), f"'paper' has no meaning at reveal: {shown(reveal)}; use tie_corrected"

    if section("privacy").get("unit") == "value":
        yield from _value_contradictions(section("results"), reveal)
    yield from _order_contradictions(data, reveal, section("results"))
    yield from _he_contradictions(section("he"), data.get("protocol", "mpc"), reveal)

    parties = section("parties")
    sources = parties.get("sources")
    entries: list[tuple[Location, Any]] = [((role,), parties.get(role)) for role in ("coordinator", "target")]
    if isinstance(sources, (list, tuple)):
        entries += [(("sources", position), source) for position, source in enumerate(sources)]
    for place, party in entries:
        if isinstance(party, Mapping) and party.get("advertise") and not party.get("listen"):
            yield (
                ("parties", *place, "advertise"),
                "needs listen too: where this party listens",
            )
    taken: dict[str, Location] = {}
    owners: dict[str, Location] = {}
    alignment = data.get("alignment", "same")
    for place, party in entries:
        party = party if isinstance(party, Mapping) else {}
        for key, needs in _OF_ALIGNMENT.items():
            if party.get(key) is not None and alignment not in needs:
                use = " or ".join(needs)
                yield ("parties", *place, key), f"is for alignment: {use} only, not {shown(alignment)}"
        drops = {"missing": drops_rows(party.get("missing")), "duplicates": party.get("duplicates") == "drop"}
        for key in (key for key, dropping in drops.items() if dropping and alignment == "same"):
            why = "leaves out rows that others keep, but alignment: 'same' needs the same rows everywhere"
            yield ("parties", *place, key), f"{shown(party[key])} {why}; set alignment: intersect"
        identity = party.get("identity")
        if isinstance(identity, str) and (other := owners.setdefault(identity, place)) != place:
            yield (
                ("parties", *place, "identity"),
                f"is also the identity of parties.{dotted(other)}; every party needs its own key",
            )
        name = party.get("name")
        if isinstance(name, str):
            # Not even by case alone: on some file systems that is one folder.
            first = taken.setdefault(name.casefold(), place)
            if first != place:
                whose = f"{shown(name)} is also the name at parties.{dotted(first)}.name"
                yield ("parties", *place, "name"), f"{whose} (ignoring case); every party needs its own"


def _value_contradictions(results: Mapping[Any, Any], reveal: object) -> Iterator[tuple[Location, str]]:
    """Find what noise that hides single values is not enough for: anything but granted coefficients."""
    why = "hides one value at a time, which is defined for granted coefficients alone; use unit: row"
    if reveal in LEVELS and not within("coefficients", str(reveal)):
        yield ("privacy", "unit"), f"'value' {why}, or reveal: coefficients"
        return
    for role, default in (("target", "strengths"), ("sources", "nothing")):
        grant = results.get(role) or default
        if grant in ("ranking", "strengths"):
            yield ("privacy", "unit"), f"'value' {why}, or results.{role}: coefficients or nothing"


def _order_contradictions(
    data: Mapping[Any, Any], reveal: object, results: Mapping[Any, Any]
) -> Iterator[tuple[Location, str]]:
    """Find what does not go together among the keys of an order."""
    asked = {"top": isinstance(data.get("top"), int), "opened_to": data.get("opened_to") == "target"}
    for key in (key for key, is_asked in asked.items() if is_asked and reveal != FOR_LEVEL[key]):
        yield (key,), f"{shown(data[key])} is for reveal: {FOR_LEVEL[key]} only; leave it out"
    if asked["opened_to"] and reveal == FOR_LEVEL["opened_to"]:
        if results.get("sources") in GRANTS[1:]:
            has = (
                "the order is opened to the target alone (opened_to), so the coordinator has "
                "nothing to pass on"
            )
            yield ("results", "sources"), f"{shown(results['sources'])}: {has}; use nothing"
        if results.get("target") == "nothing":
            yield ("results", "target"), "'nothing', but the order is opened to the target (opened_to)"


def _he_contradictions(
    he: Mapping[Any, Any], protocol: object, reveal: object
) -> Iterator[tuple[Location, str]]:
    """Find what does not go together in the ``he`` section, where the plan uses it."""
    if protocol != "he":
        return
    if why := MPC_ONLY.get(str(reveal)):
        yield ("reveal",), f"{shown(reveal)} {why}, which is for protocol: mpc, not 'he'"
    scheme, bits = he.get("scheme", "paillier"), he.get("key_bits", 3072)
    if scheme == "bfv":
        if find_spec("tenseal") is None:
            how = "pip install tenseal==0.3.18 (there is no wheel for Python 3.10), or he.scheme: paillier"
            yield ("he", "scheme"), f"'bfv' needs TenSEAL, which is not installed here: {how}"
        for key, value in (("key_bits", 3072), ("randomness", "full"), ("form", "packed")):
            if he.get(key, value) != value:
                yield ("he", key), f"{shown(he[key])} is for he.scheme: paillier only; leave it out for 'bfv'"
    elif bits not in (2048, 3072) and isinstance(bits, int) and not he.get("insecure", False):
        yield ("he", "key_bits"), f"{shown(bits)} is not 2048 or 3072; other sizes need he.insecure: true"
    level = FOR_LEVEL["he.form"]
    if he.get("form", "packed") != "packed" and scheme != "bfv" and reveal != level:
        yield ("he", "form"), f"{shown(he['form'])} is for reveal: {level} only; leave it out"

"""Which parts of a plan are shared, which never are, and how two plans are compared."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.config import (
    DataParty,
    Plan,
    TargetParty,
    differences,
    host_and_port,
    load_plan,
    local_party,
)
from mpc_spearman.errors import PlanError, ProtocolViolation
from mpc_spearman.identity import Identity
from support.plans import MINIMAL, plan_with

ONE = str(Identity.new())

# ---- shared and local ------------------------------------------------------------------------------

#: For every local field a value that would be recognised if it got out. A new field must be added here.
LOCAL: dict[str, Any] = {
    "listen": "secret.example.org:4242",
    "advertise": "secret.example.org:4243",
    "key": "/secret/own.key",
    "table": "/secret/table.csv",
    "id": "secret_id",
    "exclude": ["secret_column"],
    "encode": {"secret_grade": ["secret_low", "secret_high"]},
    "convert": {"secret_cost": "currency"},
    "missing": "middle",
    "missing_flags": False,
    "missing_values": ["secret_nothing"],
    "memory": "123GB",
    "duplicates": "error",
    "csv": {"delimiter": "|", "encoding": "cp1252"},
    "features": ["secret_feature"],
    "aligned": "/secret/earlier.csv",
    "write_aligned": "/secret/aligned.csv",
    "write_unaligned": "/secret/unaligned.csv",
    "policy": {
        "max_reveal": "differences",
        "min_rows": 424242,
        "lifetime": 43.4343,
        "protocols": ["mpc"],
        "results_to": [],
    },
    "page": {"people": "secret people"},
}


#: Those that only the target has.
TARGET: dict[str, Any] = {"alignment_key": "/secret/alignment.key"}


def with_secrets() -> Plan:
    secrets = {
        f"parties.{place}.{key}": value
        for place, local in (("target", LOCAL | TARGET), ("sources.0", LOCAL))
        for key, value in local.items()
    }
    return load_plan(plan_with({"alignment": "intersect", **secrets}))


def test_nothing_local_is_shared() -> None:
    assert set(LOCAL) == set(DataParty.model_fields) - {"name", "identity", "organisation", "noise", "adjust"}
    assert set(LOCAL | TARGET) == set(TargetParty.model_fields) - {
        "name",
        "identity",
        "organisation",
        "noise",
        "adjust",
    }
    plan = with_secrets()
    text = plan.canonical_json()
    assert plan.parties.target.id == ("secret_id",)
    keys = ("policy", "table", "features", "exclude", "missing", "duplicates", "aligned", "alignment_key")
    for trace in ("secret", "424242", "434343", "cp1252", *keys, "max_reveal", "results_to"):
        assert trace not in text
    assert plan.shared()["parties"] == {
        "coordinator": {"name": "C"},
        "target": {"name": "B"},
        "sources": [{"name": "A"}],
    }
    assert plan.digest() == load_plan(MINIMAL, ["alignment=intersect"]).digest()


SHARED: dict[str, Any] = {
    "reveal": "differences",
    "estimator": "paper",
    "strength": "mean_abs",
    "order": "ascending",
    "top": 2,
    "opened_to": "target",
    "rows": 100,
    "normalise": ["strip"],
    "alignment": "intersect",
    "results.target": "nothing",
    "results.sources": "ranking",
    "results.precision": "exact",
    "results.strongest": 3,
    "privacy.loss": 0.25,
    "privacy.unit": "value",
    "confidence": 0.9,
    "purpose": "a study of costs",
    "retention": "two years",
    "responsibility": "A and B are joint controllers",
    "transfers": "none",
    "proofs": True,
    "parties.target.organisation": "a clinic, dpo@clinic.example",
    "network.timeout": 30,
    "network.join_timeout": 30,
    "parties.coordinator.name": "C1",
    "parties.target.name": "B1",
    "parties.sources.0.name": "A1",
    "parties.coordinator.identity": ONE,
    "parties.sources.0.identity": ONE,
    "parties.sources.0.noise": "inputs",
    "parties.target.noise": "inputs",
}


@pytest.mark.parametrize("key", SHARED)
def test_every_shared_value_is_in_the_digest_and_named_when_it_differs(key: str) -> None:
    level = {"reveal": "ranking"} if key in ("top", "opened_to") else {}
    level |= {"results.target": "coefficients"} if key == "privacy.unit" else {}
    here_plan, there_plan = load_plan(plan_with(level)), load_plan(plan_with(level | {key: SHARED[key]}))
    assert here_plan.digest() != there_plan.digest()
    (line,) = differences(here_plan.canonical_json(), there_plan.canonical_json())
    assert line.startswith(f"{key}: ")


def test_every_shared_key_has_a_case_above() -> None:
    keys = {key for key, value in load_plan(MINIMAL).shared().items() if not isinstance(value, dict)}
    keys |= {
        f"{top}.{key}"
        for top in ("results", "privacy", "network")
        for key in load_plan(MINIMAL).shared()[top]
    }
    assert keys - {"protocol"} == {key for key in SHARED if not key.startswith("parties.")}
    assert set(Plan.model_fields) == set(load_plan(MINIMAL).shared())


def test_canonical_json_and_digest() -> None:
    plan = load_plan(plan_with({"parties.sources.0.name": "Zürich"}, network={"timeout": 60}))
    text = plan.canonical_json()
    assert text.isascii()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert json.loads(text) == plan.shared()
    assert '"timeout":60.0' in text
    assert plan.digest() == hashlib.sha256(text.encode()).digest()
    reordered = load_plan(dict(reversed(list(plan.shared().items()))))
    assert reordered.digest() == plan.digest()


@pytest.mark.parametrize("name", ["C", "B", "A"])
def test_restricted_to_keeps_only_its_own_local_part(name: str) -> None:
    plan = with_secrets()
    restricted = plan.restricted_to(name)
    assert restricted.digest() == plan.digest()
    assert restricted.names == plan.names
    for party in (restricted.parties.target, restricted.parties.sources[0]):
        assert party == (plan.party(party.name) if party.name == name else type(party)(name=party.name))
    assert pickle.loads(pickle.dumps(restricted)) == restricted  # noqa: S301
    assert any(trace in pickle.dumps(restricted) for trace in (b"secret_", b"/secret/")) == (name != "C")
    with pytest.raises(PlanError, match="no party 'X'"):
        plan.restricted_to("X")


def test_addresses_and_threads_are_local() -> None:
    network = {"address": "10.1.1.1", "port": 4711, "proxy": "http://10.0.0.1:3128", "message_timeout": 9}
    plan = load_plan(plan_with(network=network, he={"workers": 1}))
    assert plan.shared()["network"] == {"timeout": 60.0, "join_timeout": 600.0}
    assert plan.digest() == load_plan(MINIMAL).digest()


def test_identities_are_shared_and_known_to_every_party(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps(plan_with({"parties.target.identity": ONE, "parties.target.key": "B.key"})))
    plan = load_plan(file)
    assert plan.identities == {"C": None, "B": ONE, "A": None}
    assert plan.restricted_to("A").identities == plan.identities
    assert plan.parties.target.key == tmp_path / "B.key"
    assert plan.restricted_to("A").parties.target.key is None


def test_a_local_file_adds_local_keys_and_no_shared_ones(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    file = tmp_path / "own" / "B.yaml"
    file.write_text(
        "party: B\nkey: B.key\ntable: b.csv\npolicy: {max_reveal: strengths, ledger: ledger}\n"
        "network: {proxy: 'http://10.0.0.1:3128'}\nhe: {workers: 3}\n"
    )
    shared = plan_with(network={"address": "10.0.0.7"})
    plan = load_plan(shared, ["parties.target.id=person"], local=file)
    target, folder = plan.parties.target, tmp_path / "own"
    assert (target.key, target.table, target.policy.ledger) == tuple(
        folder / n for n in ("B.key", "b.csv", "ledger")
    )
    assert (plan.network.address, plan.network.proxy, plan.he.workers) == (
        "10.0.0.7",
        "http://10.0.0.1:3128",
        3,
    )
    assert target.id == ("person",)
    assert plan.digest() == load_plan(shared).digest()
    assert local_party(file) == "B"
    for text, message in {
        "party: B\nreveal: ranking\n": "B.yaml: parties.target.reveal: there is no such key",
        "party: B\nnetwork: {timeout: 3}\n": "B.yaml: network.timeout: is not local; local keys",
        "party: B\nidentity: x\n": "B.yaml: identity: is shared: only the shared plan can have it",
        "party: B\nnoise: results\n": "B.yaml: noise: is shared: only the shared plan can have it",
        "party: X\n": "B.yaml: party: 'X' is not a party of the plan",
        "key: B.key\n": "B.yaml: party: null is not a party",
        "party: B\ntable: [1]\n": "B.yaml: parties.target.table: ",
    }.items():
        file.write_text(text)
        with pytest.raises(PlanError) as raised:
            load_plan(shared, local=file)
        assert message in str(raised.value)
    file.write_text("party: B\n")
    with pytest.raises(PlanError, match="this is the file of 'B', but the command names 'A'"):
        load_plan(shared, local=file, party="A")


SOMEBODY_ELSES = {
    "parties.coordinator.listen": "127.0.0.1:1",
    "parties.target.table": "/etc/passwd",
    **{f"parties.sources.0.{key}": value for key, value in LOCAL.items()},
    "parties.target.alignment_key": "/tmp/key",
    "network.proxy": "http://10.6.6.6:3128",
    "network.message_timeout": 9,
    "he.workers": 1,
}


def test_a_shared_plan_cannot_set_what_is_local_at_any_party(tmp_path: Path) -> None:
    """Its author is not the owner: with a local file that is silent, its word would count."""
    file, local_file = tmp_path / "plan.yaml", tmp_path / "A.yaml"
    local_file.write_text("party: A\nkey: A.key\n")
    meeting = {"network.address": "10.0.0.7", "network.port": 4711}
    everything = plan_with({"alignment": "intersect", **meeting, **SOMEBODY_ELSES})
    file.write_text(json.dumps(everything))
    # The old rule, and still that of rehearsals: whoever writes the one file writes everybody's policy.
    assert load_plan(file).owner("A").policy.lifetime == 43.4343
    for how in ({"local": local_file}, {"shared_alone": True}):
        with pytest.raises(PlanError) as raised:
            load_plan(file, **how)
        lines = str(raised.value).splitlines()
        start = f"{file}: "
        assert {line.removeprefix(start).partition(": ")[0] for line in lines} == set(SOMEBODY_ELSES)
        assert all(line.startswith(start) and "local file (--local)" in line for line in lines)
    file.write_text(json.dumps(plan_with({"alignment": "intersect", **meeting})))
    settings = [f"parties.sources.A.{key}={json.dumps(LOCAL[key])}" for key in ("exclude", "policy")]
    plan = load_plan(file, settings, local=local_file)  # the command line is the owner's
    assert plan.owner("A").policy.lifetime == 43.4343
    assert plan.network.port == 4711


def test_an_address_with_a_port_needs_no_quotes_in_a_setting() -> None:
    assert host_and_port("10.0.0.7:0") == ("10.0.0.7", 0)
    assert host_and_port("[fe80::1]:29500") == ("fe80::1", 29500)
    plan = load_plan(MINIMAL, ["parties.target.listen=[::1]:29501", "parties.target.exclude=[a:b, c]"])
    assert plan.parties.target.exclude == ("a:b", "c")
    assert plan.restricted_to("A").parties.target.listen is None
    assert plan.restricted_to("B").parties.target.listen == "[::1]:29501"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        *(("10.0.0.7", "10.0.0.7"), ("c.example.org", "c.example.org"), ("::1", "::1"), ("'[::1]'", "::1")),
        ("'[fe80::1%eth0.7]'", "fe80::1%eth0.7"),
    ],
)
def test_addresses_are_written_with_and_without_brackets(written: str, address: str) -> None:
    assert load_plan(MINIMAL, [f"network.address={written}"]).network.address == address


# ---- differences -----------------------------------------------------------------------------------


def test_differences_name_key_and_both_values() -> None:
    here_plan = load_plan(MINIMAL)
    there_plan = load_plan(plan_with(reveal="strengths", network={"timeout": 30}))
    assert differences(here_plan.canonical_json(), here_plan.canonical_json()) == []
    assert differences(here_plan.canonical_json(), there_plan.canonical_json()) == [
        "network.timeout: 60.0 here, 30.0 there",
        'reveal: "coefficients" here, "strengths" there',
    ]
    assert differences('{"a":[1],"b":{}}', '{"a":[1,2],"c":null}') == [
        "a: [1] here, [1,2] there",
        "b: {} here, absent there",
        "c: absent here, null there",
    ]
    assert differences('{"a":1}', '{"a":true}') == ["a: 1 here, true there"]
    assert differences('{"a":60}', '{"a":60.0}') == ["a: 60 here, 60.0 there"]


def test_text_from_a_peer_is_printable() -> None:
    peer_text = json.dumps(
        {"\x1b[2J": "\x1b]0;\u202e", "k" * 999: "v" * 9999}, sort_keys=True, separators=(",", ":")
    )
    for line in differences('{"a":1}', peer_text):
        assert line.replace("…", "").isascii()
        assert line.isprintable()
        assert len(line) < 200
    many = json.dumps({f"k{i:03}": i for i in range(60)}, separators=(",", ":"))
    assert differences("{}", many)[-1] == "and 10 more keys"


@pytest.mark.parametrize(
    "peer_text",
    [
        *("", "{", "[]", "null", "3", '{"a":1}{}', '{"a": 1}', '{"b":1,"a":1}', '{"a":1,"a":1}'),
        *('{"a":NaN}', '{"a":Infinity}', '{"a":1e999}', '{"a":"ü"}'),
        '{"a":' + "9" * 5000 + "}",
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=lambda text: text[:12],
)
def test_a_peer_that_sends_no_canonical_json(peer_text: str) -> None:
    with pytest.raises(ProtocolViolation, match="canonical JSON"):
        differences("{}", peer_text)


contents = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=2),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.text("a.0", max_size=3), inner, max_size=2)
        ),
        max_leaves=5,
    ),
    max_size=3,
)


@given(contents, contents)
def test_differences_are_empty_exactly_for_equal_texts(
    here_plan: dict[str, Any], there_plan: dict[str, Any]
) -> None:
    here_text, there_text = (
        json.dumps(plan, sort_keys=True, separators=(",", ":")) for plan in (here_plan, there_plan)
    )
    assert (differences(here_text, there_text) == []) == (here_text == there_text)
    assert differences(here_text, here_text) == []
    assert len(differences(here_text, there_text)) == len(differences(there_text, here_text))

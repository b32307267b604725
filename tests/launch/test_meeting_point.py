"""Where the parties meet, by plan and environment, and with which keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.config import Plan, load_plan
from mpc_spearman.errors import HandshakeError, MpcSpearmanError, PlanError, TableError
from mpc_spearman.identity import Identity
from mpc_spearman.launch.meeting_point import MeetingPoint, Rehearsal, meeting_point, party_signer
from support import plans
from support.members import Members
from support.processes import eventually


def content(**network: Any) -> dict[str, Any]:
    """Return a plan with identities, and of key files the names."""
    content = plans.mapping(network=network)
    for party in plans.everyone(content):
        party |= {"identity": str(Identity.new()), "key": f"/keys/{party['name']}.key"}
    return content


def plan(**network: Any) -> Plan:
    return load_plan(content(**network))


def test_the_environment_comes_before_the_plan() -> None:
    located = plan(address="127.0.0.2", port=4711)
    assert meeting_point(located, "C", {}) == MeetingPoint(
        host="127.0.0.2", port=4711, bind="127.0.0.2", patient=True
    )
    assert meeting_point(located, "A", {}) == meeting_point(located, "C", {})
    environment = {"MASTER_ADDR": "127.0.0.3", "MASTER_PORT": "99", "RANK": "0", "WORLD_SIZE": "3"}
    assert meeting_point(located, "C", environment) == MeetingPoint(
        "127.0.0.3", 99, bind="127.0.0.3", patient=True
    )


def test_under_torchrun_the_coordinator_has_a_port_of_its_own() -> None:
    environment = {"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "99", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    located = plan(address="127.0.0.2", port=4711)
    assert meeting_point(located, "C", environment) == MeetingPoint("10.0.0.7", 4711, bind="")
    with pytest.raises(PlanError, match="torchrun itself uses port 99"):
        meeting_point(plan(address="127.0.0.2", port=99), "C", environment)


def test_the_coordinator_listens_where_its_plan_says() -> None:
    settings = ["network.address=10.0.0.7", "parties.coordinator.listen='192.0.2.7:4711'"]
    listening = load_plan(content(), settings)
    assert meeting_point(listening, "C", {}) == MeetingPoint("10.0.0.7", 4711, bind="192.0.2.7", patient=True)
    assert meeting_point(listening, "A", {}) == MeetingPoint("10.0.0.7", 29500, bind="", patient=True)
    everywhere = load_plan(content(), [settings[0], "parties.coordinator.listen='0.0.0.0:4711'"])
    assert meeting_point(everywhere, "C", {}).bind == "0.0.0.0"


@pytest.mark.parametrize(
    ("environment", "error", "text"),
    [
        (
            {"RANK": "1"},
            HandshakeError,
            "the environment's RANK is 1, but in the plan A (source) is number 2: correct RANK (torchrun: "
            "--node_rank), or unset it",
        ),
        (
            {"WORLD_SIZE": "4"},
            HandshakeError,
            "the environment's WORLD_SIZE is 4, but the plan has 3 parties: start all",
        ),
        ({"MASTER_PORT": "http"}, PlanError, "the environment's MASTER_PORT is 'http', not a number"),
    ],
)
def test_an_environment_that_contradicts_the_plan(
    environment: dict[str, str], error: type[MpcSpearmanError], text: str
) -> None:
    with pytest.raises(error) as raised:
        meeting_point(plan(address="127.0.0.1"), "A", environment)
    assert type(raised.value) is error
    assert str(raised.value) == text


def test_a_plan_without_an_address_is_refused() -> None:
    with pytest.raises(PlanError, match=r"network\.address is missing: .* give it in the plan"):
        meeting_point(plan(), "A", {})


def test_a_plan_names_every_partys_key_and_the_file_of_ones_own() -> None:
    with pytest.raises(PlanError, match="a draft, without an identity of C and B and A: `mpc-spearman init"):
        meeting_point(plans.plan(network={"address": "192.0.2.1"}), "A", {})
    lacking = plan(address="192.0.2.1").restricted_to("B")
    with pytest.raises(PlanError, match="party A has no key: give `key`"):
        meeting_point(lacking, "A", {})


def test_a_key_that_differs_from_its_line_in_the_plan_is_refused(tmp_path: Path) -> None:
    content = plans.with_keys(plans.mapping(), tmp_path)
    loaded = load_plan(content)
    party_signer(loaded, "A", None)
    mixed = load_plan(content, [f"parties.sources.A.key={tmp_path / 'B.key'}"])
    with pytest.raises(PlanError, match=r"B\.key is the key of party B in this plan"):
        party_signer(mixed, "A", None)
    changed = load_plan(content, [f"parties.sources.A.identity={Identity.new()}"])
    with pytest.raises(
        PlanError, match=f"A.key is {re.escape(loaded.identities['A'] or '')}, and the plan has"
    ):
        party_signer(changed, "A", None)


def test_keys_of_a_rehearsal_are_in_no_plan_and_no_repr() -> None:
    rehearsals = Rehearsal.of(("C", "B", "A"))
    signer = party_signer(plans.plan(), "A", rehearsals["A"])
    assert str(signer.identity) == rehearsals["A"].identities["A"]
    assert rehearsals["A"].identities == rehearsals["C"].identities
    assert rehearsals["A"].key not in repr(rehearsals["A"])
    assert rehearsals["A"].key not in str(rehearsals["A"].identities)


def test_a_party_that_cannot_take_part_says_why_even_if_nobody_listens(tmp_path: Path) -> None:
    """The error is printed once, in the end; with another's key nobody can be told."""
    with Members(tmp_path) as run:
        sources = [{**run.plan["parties"]["sources"][0], "exclude": ["no such column"]}]
        run.start("A", parties={**run.plan["parties"], "sources": sources})
        parties = {**run.plan["parties"], "target": {**run.plan["parties"]["target"], "key": "C.key"}}
        run.start("B", parties=parties)
        endings = run.wait(["A", "B"])
        eventually(lambda: run.processes() == [])
    assert {label: (end.error, end.code) for label, end in endings.items()} == {
        "A": ("TableError", TableError.exit_code),
        "B": ("PlanError", PlanError.exit_code),
    }
    shown = " ".join(endings["A"].printed.split())
    excuse, waited = shown.index("cannot take part (TableError)"), shown.index("waiting for C")
    assert excuse < waited < shown.index("there is no column 'no such column'")
    assert shown.count("no such column") == 1
    assert "C.key is the key of party C in this plan" in " ".join(endings["B"].printed.split())

"""Where the parties meet, by plan and environment, and with which credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.config import Plan, load_plan
from mpc_spearman.errors import HandshakeError, MpcSpearmanError, PlanError, TlsError, WrongName
from mpc_spearman.launch import meeting
from mpc_spearman.launch.meeting import MeetingPoint, meeting_point
from mpc_spearman.parties import Roster
from mpc_spearman.wire.certificates import make_certificates
from support import plans
from support.members import members


def plan(**network: Any) -> Plan:
    return plans.plan(network=network)


TLS = {"ca": "/c/ca.pem", "certificate": "/c/{party}.pem", "key": "/c/{party}/k"}


def test_the_environment_comes_before_the_plan() -> None:
    here = plan(address="127.0.0.2", port=4711, tls=TLS)
    assert meeting_point(here, "C", {}) == MeetingPoint(host="127.0.0.2", port=4711, bind="127.0.0.2")
    assert meeting_point(here, "A", {}) == meeting_point(here, "C", {})
    environment = {"MASTER_ADDR": "127.0.0.3", "MASTER_PORT": "99", "RANK": "0", "WORLD_SIZE": "3"}
    assert meeting_point(here, "C", environment) == MeetingPoint("127.0.0.3", 99, bind="127.0.0.3")


def test_under_torchrun_the_port_is_the_agents_and_the_coordinator_has_its_own() -> None:
    environment = {"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "99", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for port, own in ((4711, 4711), (99, 0)):
        here = plan(address="127.0.0.2", port=port, tls=TLS)
        assert meeting_point(here, "C", environment) == MeetingPoint("10.0.0.7", own, agent=99)


def test_the_coordinator_listens_where_its_plan_says() -> None:
    settings = ["network.address=10.0.0.7", "parties.coordinator.listen='192.0.2.7:4711'"]
    own = load_plan(plans.mapping(network={"tls": TLS}), settings)
    assert meeting_point(own, "C", {}) == MeetingPoint("10.0.0.7", 4711, bind="192.0.2.7")
    assert meeting_point(own, "A", {}) == MeetingPoint("10.0.0.7", 29500)


@pytest.mark.parametrize(
    ("environment", "error", "text"),
    [
        (
            {"RANK": "1"},
            HandshakeError,
            "the environment's RANK is 1, but in the plan A (source) is number 2: leave out --party or RANK",
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
        meeting_point(plan(address="127.0.0.1", tls=TLS), "A", environment)
    assert type(raised.value) is error
    assert str(raised.value) == text


def test_nothing_says_where() -> None:
    with pytest.raises(PlanError, match=r"network\.address is missing: .* give it in the plan"):
        meeting_point(plan(), "A", {})


@pytest.mark.parametrize("host", ["192.0.2.1", "127.0.0.1", "localhost"])
def test_the_plan_must_say_how_the_parties_know_each_other(host: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"network\.tls is missing: .* say network\.tls: insecure"):
        meeting_point(plan(address=host), "A", {})
    with pytest.raises(PlanError, match=r"network\.secret is missing: .* mpc-spearman secret FILE"):
        meeting_point(plan(address=host, tls="insecure"), "A", {})
    secret = str(tmp_path / "secret")
    assert meeting_point(plan(address=host, tls="insecure", secret=secret), "A", {}).host == host


def test_each_party_has_its_own_files(tmp_path: Path) -> None:
    own = meeting.credentials(plan(tls=TLS), "B")
    assert own is not None
    assert (own.ca, own.certificate, own.key) == (Path("/c/ca.pem"), Path("/c/B.pem"), Path("/c/B/k"))
    assert meeting.credentials(plan(tls="insecure"), "B") is None
    assert meeting.credentials(plan(), "B") is None


@pytest.mark.parametrize(("name", "error"), [("nobody", TlsError), ("B", WrongName)])
def test_wrong_credentials_are_found_before_anyone_is_waited_for(
    tmp_path: Path, name: str, error: type[TlsError]
) -> None:
    make_certificates(tmp_path, ["A", "B"])
    files = {"ca": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}
    mine = plan(tls={key: str(tmp_path / file) for key, file in files.items()})
    with pytest.raises(TlsError) as raised:
        meeting.check_credentials(mine, Roster.of(mine, "A"))
    assert type(raised.value) is error
    meeting.check_credentials(plan(), Roster.of(mine, "A"))


def test_who_cannot_take_part_says_why_though_nobody_is_there_to_be_told(tmp_path: Path) -> None:
    """A column and a certificate: each is said while the others are still looked for."""
    with members(tmp_path) as run:
        sources = [{**run.plan["parties"]["sources"][0], "exclude": ["no such column"]}]
        run.start("A", (None, {}), parties={**run.plan["parties"], "sources": sources})
        (tmp_path / "certs" / "B.pem").write_bytes((tmp_path / "certs" / "C.pem").read_bytes())
        (tmp_path / "certs" / "B.key").write_bytes((tmp_path / "certs" / "C.key").read_bytes())
        run.start("B", (None, {}))
        endings = run.wait(["A", "B"])
    assert (endings["A"].error, endings["B"].error) == ("TableError", "WrongName")
    for name, words in (("A", "there is no column 'no such column'"), ("B", "names 'C'")):
        shown = " ".join(endings[name].shown.split())
        said, waited = shown.index(f"{name}: cannot take part"), shown.index("waiting for C")
        assert words in shown[said:waited]

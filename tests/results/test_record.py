"""The signed record: who signs what, the effect of a missing signature, and altered records."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.config import load_plan
from mpc_spearman.config.wording import canonical, spoken
from mpc_spearman.errors import OutputError, RecordError
from mpc_spearman.identity import Identity
from mpc_spearman.results.record import _PURPOSE, NO_SIGNATURE, Record, sign, written
from mpc_spearman.results.result import Result
from mpc_spearman.results.saved import sealed
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.in_memory import Ended, run_in_memory
from support.members import Members
from support.plans import everyone, mapping

ROWS = 60
TABLES = {
    name: pd.DataFrame(
        {"id": range(ROWS), "x": [(i * step) % 61 for i in range(ROWS)], "y": range(ROWS), "constant": 1}
    )
    for name, step in (("A1", 7), ("A2", 11), ("B", 13))
}
KEYS = {name: Identity.new() for name in ("C", "B", "A1", "A2")}


def settings(**changes: Any) -> dict[str, Any]:
    """A plan's content, with everybody's identity, that grants the sources strengths."""
    content = mapping("A1", "A2", **{"reveal": "strengths", "results": {"sources": "strengths"}} | changes)
    for party in everyone(content):
        party["identity"] = str(KEYS[party["name"]])
    return content


def run(links: Callable[..., Links] = Links, **changes: Any) -> Ended:
    finished = run_in_memory(load_plan(settings(**changes)), TABLES, make_links=links, keys=KEYS)
    assert not finished.errors
    return finished


@pytest.fixture(scope="module")
def finished() -> Ended:
    return run()


def content(result: Result) -> dict[str, Any]:
    assert result.record is not None
    return dict(json.loads(result.record))


def verify(
    folder: Path, capsys: pytest.CaptureFixture[str], plan: Mapping[str, Any] | None
) -> tuple[int, str]:
    capsys.readouterr()
    arguments = ["verify", str(folder)]
    if plan is not None:
        place = folder.parent / "plan.yaml"
        place.write_text(json.dumps(plan))
        arguments += ["--plan", str(place)]
    code = main(arguments)
    return code, capsys.readouterr().out


def test_all_sign_the_same_and_it_holds_against_the_verifiers_plan(
    finished: Ended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: content(result) for name, result in finished.results.items()}
    assert len({file["record"] for file in files.values()}) == 1
    assert len({canonical(file["signatures"]) for file in files.values()}) == 1
    assert {name: sorted(file["messages"]) for name, file in files.items()} == {
        "C": ["A1", "A2", "B"],
        **{name: [name] for name in ("A1", "A2", "B")},
    }
    for name, result in finished.results.items():
        result.save(tmp_path / name)
        code, printed = verify(tmp_path / name, capsys, settings())
        assert (code, printed.count("NO ")) == (0, 0), printed
        assert all(f"{party}: signed" in printed for party in KEYS)
        assert "that tables were real" in printed
        assert Result.load(tmp_path / name).record == result.record


def test_without_a_plan_the_keys_are_unproved(
    finished: Ended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished.results["B"].save(tmp_path / "B")
    code, printed = verify(tmp_path / "B", capsys, None)
    assert code == RecordError.exit_code == 27
    assert [line for line in printed.splitlines() if line.startswith("NO ")] == [
        "NO  keys unproved: they are the record's own; --plan takes them from a plan that you trust"
    ]


def test_the_record_of_a_rehearsal_is_compared_with_the_plan_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = settings()
    run_in_memory(load_plan(plan), TABLES).results["C"].save(tmp_path / "C")
    for confidence, answer in ((0.95, "ok "), (0.9, "NO ")):
        code, printed = verify(tmp_path / "C", capsys, {**plan, "confidence": confidence})
        assert f"{answer} the plan's digest against your plan's" in printed
        assert (code, "NO  keys unproved" in printed) == (RecordError.exit_code, True)


def test_only_receivers_of_the_same_grant_can_compare_results(finished: Ended) -> None:
    record = Record.model_validate_json(content(finished.results["A1"])["record"])
    assert record.granted["A1"] == record.granted["A2"]
    assert record.granted["B"].commitment != record.granted["A1"].commitment
    finished = run(reveal="coefficients", results={"sources": "coefficients"})
    messages = content(finished.results["C"])["messages"]
    nonces = {b64decode(message)[:32] for message in messages.values()}
    assert len(nonces) == 3


@pytest.mark.parametrize("field", [*Record.model_fields])
def test_a_record_altered_in_any_field_is_seen(
    finished: Ended, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = finished.results["B"]
    file, record = content(result), json.loads(content(result)["record"])
    before = record[field]
    altered: Any = not before if isinstance(before, bool) else before + 1 if isinstance(before, int) else None
    if isinstance(before, str):
        digit = max(map(before.rfind, "0123456789"))
        altered = f"{before[:digit]}{(int(before[digit]) + 1) % 10}{before[digit + 1 :]}"
    if isinstance(before, dict):
        key, value = next(iter(before.items()))
        changed = {**value, "grant": "coefficients"} if isinstance(value, dict) else str(Identity.new())
        altered = {**before, key: changed}
    file["record"] = canonical({**record, field: altered})
    result.save(tmp_path / "B")
    (tmp_path / "B" / "record.json").write_text(json.dumps(file))
    code, printed = verify(tmp_path / "B", capsys, settings())
    assert code == RecordError.exit_code
    assert printed.count("signature is wrong") == 4 or field == "rehearsal"


def test_only_the_plan_shows_that_all_keys_were_replaced(
    finished: Ended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = finished.results["B"]
    record = Record.model_validate_json(content(result)["record"])
    forged = {name: Identity.new() for name in KEYS}
    text = record.model_copy(update={"identities": {name: str(key) for name, key in forged.items()}}).text
    signatures = {name: key.sign(_PURPOSE, text.encode()) for name, key in forged.items()}
    messages = {name: b64decode(data) for name, data in content(result)["messages"].items()}
    result.with_record(written(text, signatures, messages)).save(tmp_path / "B")
    code, printed = verify(tmp_path / "B", capsys, settings())
    assert code == RecordError.exit_code
    assert "NO  the parties' keys against your plan's" in printed
    assert printed.count("signature is wrong") == 4
    assert "keys unproved" in verify(tmp_path / "B", capsys, None)[1]


@pytest.mark.parametrize(
    ("spoil", "printed"),
    [
        (lambda file: file["messages"].update(B=b64encode(bytes(60)).decode()), "NO  B: the message"),
        (lambda file: file["signatures"].update(A1=b64encode(bytes(64)).decode()), "NO  A1: not signed"),
        (lambda file: file["signatures"].pop("A1"), "NO  A1: not signed"),
        (lambda file: file["signatures"].update(A1=file["signatures"]["A2"]), "NO  A1: signature is wrong"),
    ],
)
def test_what_else_is_altered_is_named(
    finished: Ended, spoil: Any, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = content(finished.results["B"])
    spoil(file)
    finished.results["B"].with_record(json.dumps(file)).save(tmp_path / "B")
    code, text = verify(tmp_path / "B", capsys, settings())
    assert (code, printed in text) == (RecordError.exit_code, True), text


@pytest.mark.parametrize(("minutes", "printed"), [(61, "61 minutes ahead of"), (-150, "150 minutes behind")])
def test_a_clock_that_is_off_is_named_as_that(finished: Ended, minutes: int, printed: str) -> None:
    own_record = Record.model_validate_json(content(finished.results["B"])["record"])
    off = timedelta(minutes=minutes)
    stated = own_record.model_copy(update={"began": own_record.began + off, "ended": own_record.ended + off})
    signature, differ = sign(stated.text, own_record, "B", KEYS["B"])
    assert (signature, len(differ)) == (NO_SIGNATURE, 1)
    assert differ[0] == f"ended (its clock is {printed} this host's: set both clocks, as by NTP)"


#: Changes the tables in result.json, or the CSV files beside it.
Change = Callable[[dict[str, Any], dict[str, bytes]], None]


def rewrite(folder: Path, change: Change) -> None:
    """Change a folder, and the digests in it: whoever can write the one can write the other."""
    summary = json.loads((folder / "result.json").read_text())
    files = {name: (folder / name).read_bytes() for name in summary["files"]}
    change(summary["tables"], files)
    for name, content in {"result.json": sealed(summary, files), **files}.items():
        (folder / name).write_bytes(content)


def halve(tables: dict[str, Any], files: dict[str, bytes]) -> None:
    tables["strengths"]["strength"][0] /= 2


def enlarge(tables: dict[str, Any], files: dict[str, bytes]) -> None:
    tables["errors"]["error"][0] *= 1.01


def rename(tables: dict[str, Any], files: dict[str, bytes]) -> None:
    names = tables["ranking"]["feature"]
    names[:2] = names[1::-1]


def increase(tables: dict[str, Any], files: dict[str, bytes]) -> None:
    tables["canonical"]["singular"][0] += 0.1


def rename_for_people(tables: dict[str, Any], files: dict[str, bytes]) -> None:
    header, *rows = files["ranking.csv"].splitlines(keepends=True)
    files["ranking.csv"] = b"".join([header, *rows[1::-1], *rows[2:]])


def not_shown(folder: Path, plan: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> bool:
    code, printed = verify(folder, capsys, plan)
    assert (code, printed.count("NO ")) == (RecordError.exit_code, 1)
    return f"NO  {folder.name}: what this folder shows against the message" in printed


def leave_out(tables: dict[str, Any], files: dict[str, bytes]) -> None:
    del files["ranking.csv"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (halve, "result.json has other numbers"),
        (rename, "result.json has other numbers"),
        (rename_for_people, "not as in result.json: ranking.csv"),
    ],
)
def test_verify_says_which_file_does_not_show_the_message(
    finished: Ended, change: Change, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.results["B"].save(tmp_path / "B")
    rewrite(folder, change)
    assert (
        f"NO  B: what this folder shows against the message ({said})\n"
        in verify(folder, capsys, settings())[1]
    )


def test_verify_names_a_file_that_was_edited_or_left_out(
    finished: Ended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited, without = (finished.results["B"].save(tmp_path / name) for name in ("edited", "without"))
    (edited / "ranking.csv").write_text("position,feature\n1,b\n")
    rewrite(without, leave_out)
    (without / "ranking.csv").unlink()
    assert f"({edited}/ranking.csv is damaged: " in verify(edited, capsys, settings())[1]
    assert "(not as in result.json: ranking.csv)" in verify(without, capsys, settings())[1]


@pytest.mark.parametrize("party", ["B", "A1"])
@pytest.mark.parametrize("change", [halve, rename, rename_for_people])
def test_numbers_that_no_message_passed_on_are_seen(
    finished: Ended, party: str, change: Change, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.results[party].save(tmp_path / party)
    rewrite(folder, change)
    assert not_shown(folder, settings(), capsys)


@pytest.mark.parametrize(
    ("level", "grant", "change"),
    [
        ("strengths", "strengths", enlarge),
        ("coefficients", "strengths", enlarge),
        ("coefficients", "coefficients", enlarge),
        ("canonical", "canonical", increase),
    ],
)
def test_numbers_with_noise_are_held_against_the_message_too(
    level: str, grant: str, change: Change, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Strengths without the owner's own draw as far as a draw can be: it alone knows it."""
    granted = {"precision": "statistical", "target": grant, "sources": grant}
    changes: dict[str, Any] = {"reveal": level, "results": granted}
    noisy = run(**changes)
    for party in ("B", "A1"):
        folder = noisy.results[party].save(tmp_path / party)
        assert verify(folder, capsys, settings(**changes))[0] == 0
        rewrite(folder, change)
        assert not_shown(folder, settings(**changes), capsys)


def test_a_damaged_row_is_reported_by_verify_and_fails_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"reveal": "explained", "results": {"target": "explained", "sources": "explained"}}
    folder = run(**changes).results["B"].save(tmp_path / "B")
    assert verify(folder, capsys, settings(**changes))[0] == 0
    rewrite(folder, lambda tables, files: tables["explained"]["r2"].pop())
    assert not_shown(folder, settings(**changes), capsys)
    with pytest.raises(OutputError, match="is damaged"):
        Result.load(folder)


@pytest.mark.parametrize(
    "spoil", [Path.unlink, lambda file: file.write_text("{}"), lambda file: file.write_text("[" * 100_000)]
)
def test_a_file_that_is_not_a_record_is_an_error(finished: Ended, tmp_path: Path, spoil: Any) -> None:
    finished.results["B"].save(tmp_path / "B")
    spoil(tmp_path / "B" / "record.json")
    assert main(["verify", str(tmp_path / "B")]) == RecordError.exit_code


#: Ways to write what is no record, or says one thing to one reader of JSON and another to the next.
NO_RECORDS: list[Callable[[str], str]] = [
    lambda text: text.replace('{"began"', '{"rows":59,"began"'),
    lambda text: f" {text}",
    lambda text: text.replace('"rows":60,', ""),
    lambda text: re.sub('"run":"..', '"run":"zz', text),
    lambda text: re.sub('("began":"[^"]*)Z"', r'\1"', text),
    lambda text: re.sub('"commitment":"..', '"commitment":"zz', text),
]


@pytest.mark.parametrize("spoil", NO_RECORDS)
def test_a_respelt_record_is_refused(finished: Ended, tmp_path: Path, spoil: Callable[[str], str]) -> None:
    file = content(finished.results["B"])
    assert spoil(file["record"]) != file["record"]
    finished.results["B"].with_record(json.dumps(file | {"record": spoil(file["record"])})).save(
        tmp_path / "B"
    )
    assert main(["verify", str(tmp_path / "B")]) == RecordError.exit_code


def test_parties_that_meet_by_join_prove_it_by_their_own_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Members(tmp_path) as run:
        for name in "CBA":
            run.start(name)
        run.wait(["C", "B", "A"])
    for name in "CBA":
        folder = tmp_path / "out" / name / name
        assert main(["verify", str(folder), "--plan", str(tmp_path / f"{name}.yaml")]) == 0
        status = json.loads((folder / "status.json").read_text())
        assert f"plan {spoken(bytes.fromhex(status['plan']))}" in capsys.readouterr().out


class Lying(Links):
    """Links of a party that says something else at the end."""

    def __init__(
        self, who: str, kind: Kind, change: Callable[[Any], Any], *arguments: Any, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self._who, self._kind, self._change = who, kind, change

    def send(self, peer: Any, kind: Kind, values: Mapping[str, Any], **more: Any) -> bytes:
        if self._roster.me.name == self._who and kind is self._kind:
            values = {name: self._change(value) for name, value in values.items()}
        return super().send(peer, kind, values, **more)


def test_a_missing_signature_voids_nothing_and_is_named() -> None:
    finished = run(partial(Lying, "A1", Kind.FAREWELL, lambda signature: bytes(64)))
    for name in ("C", "B", "A2"):
        (warning,) = (text for text in finished.results[name].warnings if "record" in text)
        assert warning == "The record of this run is signed not by A1."


def test_a_party_with_a_different_record_does_not_sign_and_says_why() -> None:
    finished = run(partial(Lying, "C", Kind.RECORD, lambda text: text.replace('"rows":60', '"rows":59')))
    for name in ("B", "A1", "A2"):
        assert any("it differs in rows" in text for text in finished.results[name].warnings)
        assert content(finished.results[name])["signatures"][name] == b64encode(bytes(64)).decode()
    assert any("not by A1, not by A2, not by B" in text for text in finished.results["C"].warnings)


def test_an_invalid_record_is_not_signed_and_voids_nothing() -> None:
    for spoil in (NO_RECORDS[0], NO_RECORDS[4]):  # a key twice, and times without a zone
        finished = run(partial(Lying, "C", Kind.RECORD, spoil))
        for name in ("B", "A1", "A2"):
            assert any("differs in its form" in text for text in finished.results[name].warnings)

"""What the coordinator's host passes on between a source and a target: all of it is theirs alone."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag

from support.members import JOIN_TIMEOUT, members
from support.tls_records import ALERT, CHANGE_CIPHER, DATA, HANDSHAKE, client_random, logged, opened, records

NO_HOOK: tuple[None, dict[str, Any]] = (None, {})
A, B = 2, 1


def in_memory(process: int, secrets: list[bytes]) -> list[bool]:
    """Which of these are anywhere in a process's memory."""
    found = [False] * len(secrets)
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if span is None:
                continue
            start, end = (int(part, 16) for part in span.groups())
            memory.seek(start)
            held = b""
            with suppress(OSError):  # given back to the system meanwhile
                held = memory.read(end - start)
            found = [before or secret in held for before, secret in zip(found, secrets, strict=True)]
    return found


def test_what_c_forwards_is_tls_under_keys_that_c_does_not_have(tmp_path: Path) -> None:
    """Record by record; and by searching all of C's memory, where the secrets of its own connections are."""
    recorded, keys, go = tmp_path / "recorded", tmp_path / "keys", tmp_path / "go"
    recorded.mkdir()
    with members(tmp_path) as run:
        run.start("C", ("recorded", {"folder": str(recorded), "phase": "publish", "until": str(go)}))
        run.start("B", NO_HOOK)
        run.start("A", ("logging_keys", {"file": str(keys)}))
        run.wait_for("C.fault")
        process = int((recorded / "process").read_text())
        secrets = logged(keys.read_text())
        of_data = {random: [end[1] for end in ends] for random, ends in secrets.items()}
        streams = {path.name: path.read_bytes() for path in recorded.glob("?-?-*")}
        sent, answered = (
            [stream for name, stream in streams.items() if name.startswith(f"{caller}-")] for caller in (A, B)
        )
        inner = {client_random(stream) for stream in sent}
        held = {random: in_memory(process, pair) for random, pair in of_data.items()}
        go.touch()
        endings = run.wait("ABC")
    assert {ending.error for ending in endings.values()} == {"done"}
    assert len(inner) == len(sent) == len(answered) == 2
    assert inner < set(secrets)
    assert [held[random] for random in inner] == [[False, False]] * 2
    # A's own two connections with C; there is also that of the meeting, and the outer ones of these two.
    assert sum(held[random] == [True, True] for random in set(held) - inner) >= 2
    theirs, outer = (
        [secrets[random] for random in inner],
        [secrets[random] for random in set(secrets) - inner],
    )
    total = 0
    for streams_of, end in ((sent, 0), (answered, 1)):
        for stream in streams_of:
            kinds = [record.kind for record in records(stream)]
            assert kinds[0] == HANDSHAKE
            assert kinds.count(HANDSHAKE) == 1
            assert set(kinds) <= {HANDSHAKE, CHANGE_CIPHER, DATA}
            assert ALERT not in kinds
            data = [clear for pair in theirs if (clear := attempt(stream, pair[end])) is not None]
            assert len(data) == 1
            assert not [pair for pair in outer if attempt(stream, pair[end]) is not None]
            total += len(data[0])
    assert total > 2 * 20_190 * 4  # the masked ranks of both pass here


def attempt(stream: bytes, secrets: tuple[bytes, bytes]) -> bytes | None:
    try:
        return opened(stream, secrets)
    except InvalidTag:
        return None


def test_a_coordinator_in_the_place_of_a_and_b_ends_the_run(tmp_path: Path) -> None:
    """It knows both parties' public keys, and has its own private one."""
    with members(tmp_path) as run:
        run.plan["network"]["join_timeout"] = JOIN_TIMEOUT
        run.start("C", ("impersonating", {}))
        for name in "BA":
            run.start(name, NO_HOOK)
        endings = run.wait("ABC")
    # Who finds it first ends; the other one may wait for that party until the time to join is over.
    assert {ending.error for ending in endings.values()} == {"UnknownKey", "PartyMissing"}
    for ending in endings.values():
        known = "does not have the key of this plan" in " ".join(ending.printed.split())
        assert known == (ending.error == "UnknownKey")
    for ending in endings.values():
        assert ending.files == []

"""Forked roles: each has its own memory, files, randomness and end, and none outlives the supervisor."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mpc_spearman.errors import PeerDied
from mpc_spearman.launch import forkserver
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.local import assignments
from mpc_spearman.launch.pipe import Assignment
from mpc_spearman.launch.supervisor import launch
from support.harness import ROOT, do, notes, server_of
from support.plans import LIGHT, plan
from support.processes import alive, children, eventually

# ---- what a role is


def test_each_role_is_a_process_with_its_own_files(tmp_path: Path) -> None:
    body = "import threading\nnote(os.getpid()), note(os.getsid(0)), note(os.getppid())\n" + (
        "for file in os.listdir('/proc/self/fd'):\n"
        "    if os.path.lexists(path := f'/proc/self/fd/{file}'): note(os.readlink(path))\n"
    )
    notes_by_party = notes(tmp_path, body)
    assert len({notes_by_party[party][0] for party in "ABC"}) == 3
    assert all(process == session for process, session, *_ in notes_by_party.values())
    assert len({parent for _, _, parent, *_ in notes_by_party.values()}) == 1
    for party, (_, _, _, *files) in notes_by_party.items():
        # Its standard input, output and error, and nothing of the server's or of another role's.
        pipes = {file for file in files if file.startswith(("socket", "pipe"))}
        assert len(pipes) == 3, files
        assert all(pipes.isdisjoint(notes_by_party[other][3:]) for other in set("ABC") - {party})


def test_a_role_has_the_callers_present_environment_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes(tmp_path, "")  # the server has begun
    monkeypatch.setenv("LATER", "than the server")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    notes_by_party = notes(
        tmp_path, "note(os.environ['LATER']), note('HOME' in os.environ), note(os.getcwd())"
    )
    assert notes_by_party == {party: ["than the server", "False", str(tmp_path)] for party in "ABC"}


def test_a_role_starts_with_one_thread_and_uses_its_share_of_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    body = (
        "from mpc_spearman.launch import role_process\n"
        "import numpy as np, threadpoolctl\n"
        "note(open(f'/proc/{os.getppid()}/status').read().split('Threads:')[1].split()[0])\n"
        "def look(*given, **more):\n"
        "    product = np.ones((300, 300)) @ np.ones((300, 300))\n"
        "    note(int(product.sum()))\n"
        "    note(sorted({one['num_threads'] for one in threadpoolctl.threadpool_info()}))\n"
        "    done()\n"
        "role_process.run_role = look\n"
    )
    notes_by_party: dict[str, list[str]] = {}
    do(tmp_path, body, note=lambda party, text: notes_by_party.setdefault(party, []).append(text))
    assert notes_by_party == {party: ["1", str(300**3), "[2]"] for party in "ABC"}


def test_a_protocols_libraries_stay_out_of_the_others_memory(tmp_path: Path) -> None:
    look = "note([name in sys.modules for name in ('pandas', 'torch', 'crypten')])"
    assert notes(tmp_path, look)["A"] == ["[True, True, True]"]
    assert notes(tmp_path, look, settings=LIGHT)["A"] == ["[True, False, False]"]


# ---- what a role reports, and the memory it keeps


def test_few_ticks_are_reported_but_every_beginning_and_end(tmp_path: Path) -> None:
    body = (
        "for phase, of in (('rank', 3000), ('multiply', 2000), ('reveal', 0)):\n"
        "    for tick in range(1, (of or 1000) + 1): supervisor.progress(phase, tick, of)\n"
        "done()"
    )
    progress: list[tuple[str, int, int]] = []
    do(tmp_path, body, watch=lambda party, *report: progress.append(report) if party == "A" else None)
    reports = [report for report in progress if report[0] in ("rank", "multiply", "reveal")]
    assert {("rank", 1, 3000), ("rank", 3000, 3000), ("multiply", 1, 2000), ("multiply", 2000, 2000)} <= {
        *reports
    }
    assert ("reveal", 1, 0) in reports  # one of which nobody knows how long it is
    assert len(reports) < 600


def test_a_role_keeps_the_memory_that_it_has_freed(tmp_path: Path) -> None:
    if "glibc" not in platform.libc_ver():
        pytest.skip("another C library decides for itself")
    body = (
        "import resource\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "def eight(): [np.ones(1 << 18) for _ in range(8)]\n"
        "for _ in range(3): eight()\n"
        "before = faults()\n"
        "for _ in range(10): eight()\n"
        "note(faults() - before)"
    )
    (faults,) = notes(tmp_path, body)["A"]
    assert int(faults) < 1000  # ten times eight blocks of 2 MB have 40,960 pages


DRAWS = """
import json, tempfile, uuid
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.asymmetric import ec
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
try:
    ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x").do_handshake()
except ssl.SSLWantReadError:
    pass
note(json.dumps({
    "kernel": os.urandom(16).hex(),
    "secrets": secrets.token_hex(16),
    "random": random.random(),
    "numpy": np.random.random(),
    "openssl": ssl.RAND_bytes(16).hex(),
    "tls": outgoing.read().hex(),
    "x25519": X25519PrivateKey.generate().public_key().public_bytes_raw().hex(),
    "aes": AESGCM.generate_key(256).hex(),
    "ec": str(ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value),
    "uuid": str(uuid.uuid4()),
    "names": next(tempfile._get_candidate_names()),
}))
"""


def test_roles_share_no_randomness(tmp_path: Path) -> None:
    drawn = [json.loads(texts[0]) for _ in range(2) for texts in notes(tmp_path, DRAWS).values()]
    assert len(drawn) == 6
    for source in drawn[0]:
        assert len({str(drawn_values[source]) for drawn_values in drawn}) == 6, source


def test_the_server_never_sees_a_plan_or_a_table(tmp_path: Path) -> None:
    secret = os.urandom(24)
    inverse = bytes(255 - byte for byte in secret)
    inside: dict[str, bool] = {}

    def look(party: str, phase: str, done: int, of: int) -> None:
        role = int(phase)
        inside["role"], inside["server"] = holds(role, secret), holds(server_of([role]), secret)
        raise _Seen

    # Put together only in the role: what the test gives it has it in no form.
    body = f"keep = bytes(255 - byte for byte in {inverse!r})\nphase(os.getpid())\ntime.sleep(600)"
    with suppress(_Seen):
        do(tmp_path, body, watch=look)
    assert inside == {"role": True, "server": False}


class _Seen(Exception):
    pass


def holds(process: int, sought: bytes) -> bool:
    """Tell whether a process has these bytes somewhere in its own memory."""
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            span, modes, *_ = line.split()
            begin, end = (int(place, 16) for place in span.split("-"))
            if modes.startswith("rw"):
                with suppress(OSError, OverflowError):
                    memory.seek(begin)
                    if sought in memory.read(end - begin):
                        return True
    return False


# ---- how a role ends


def test_the_server_keeps_no_zombie(tmp_path: Path) -> None:
    roles = [int(texts[0]) for texts in notes(tmp_path, "note(os.getppid())").values()]
    assert children(roles[0]) == set()


def test_without_the_server_roles_end_and_the_next_run_has_another(tmp_path: Path) -> None:
    processes: list[int] = []
    stopped = "supervisor.joined()\nphase(os.getpid())\nos.kill(os.getpid(), signal.SIGSTOP)"

    def watch(party: str, phase: str, done: int, of: int) -> None:
        processes.append(int(phase))
        if len(processes) == 3:
            os.kill(server_of(processes), signal.SIGKILL)

    outcomes = do(tmp_path, stopped, watch=watch, settings=LIGHT)
    assert {(outcome.kind, outcome.exit_code) for outcome in outcomes.values()} == {("died", -signal.SIGKILL)}
    eventually(lambda: not any(map(alive, processes)))
    assert len(notes(tmp_path, "note('again')", settings=LIGHT)) == 3


SUPERVISED = """
import sys
from pathlib import Path
sys.path.append({tests!r})
from support.plans import LIGHT
from support.harness import do
body = "phase(os.getpid())\\nos.kill(os.getpid(), signal.SIGSTOP)"
do(Path({folder!r}), body, settings=LIGHT, watch=lambda party, phase, *_: print(phase, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_without_the_supervisor_nothing_is_left(tmp_path: Path, number: int) -> None:
    """Though the roles are frozen, and could not notice by themselves."""
    script = SUPERVISED.format(tests=str(ROOT / "tests"), folder=str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        roles = [int(process.stdout.readline()) for _ in "ABC"]
        everyone = [server_of(roles), *roles]
        assert all(map(alive, everyone))
        process.send_signal(number)
    eventually(lambda: not any(map(alive, everyone)))


def test_a_run_that_is_stopped_while_the_server_begins_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> Iterator[Assignment]:
        yield from assignments(plan(), tmp_path)[:2]
        raise KeyboardInterrupt

    before = children(os.getpid())
    with (
        pytest.raises(KeyboardInterrupt),
        ForkServer([sys.executable, "-c", "import time; time.sleep(600)"]) as server,
    ):
        launch(interrupted(), server)
    assert children(os.getpid()) <= before


# ---- when it is not safe

THREADED = """
import sys, threading, time
from mpc_spearman.launch import forkserver
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
forkserver.main(sys.argv[1], lambda assignment, supervisor: None)
"""


@pytest.mark.parametrize("gone", ["supervisor", "party"])
def test_with_a_thread_in_the_server_roles_are_executed(tmp_path: Path, gone: str) -> None:
    """And end, as forked ones do, when the supervisor is gone, or a party for which they wait."""
    assignment = assignments(plan(**LIGHT), tmp_path)[0]
    with ForkServer([sys.executable, "-c", THREADED]) as server:
        role = server.start(assignment.plan.protocol)
        with role.stdin, role.stdout, role.stderr:
            role.stdin.write(assignment.packed())
            role.stdin.flush()
            while b'"connect"' not in (line := role.stdout.readline()):
                assert line, "it has ended"
            (process,) = {child for server_id in children(os.getpid()) for child in children(server_id)}
            assert forkserver.COMMAND[1] in Path(f"/proc/{process}/cmdline").read_text()
            if gone == "supervisor":
                role.stdin.close()  # its lifeline
                role._sockets[0].close()
                assert role.wait() == 1
            else:
                role.stdin.write(b'{"lost": "B", "about": null}\n')
                role.stdin.flush()
                assert role.wait() == PeerDied.exit_code
                assert b"party B ended before all had joined" in role.stdout.read()

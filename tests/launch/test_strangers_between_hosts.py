"""Strangers at the coordinator's port, from its own host and from another, while a run meets and runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mpc_spearman import run_local
from support.harness import fork_server
from support.hosts import Job, Network, hosts
from support.plans import mapping
from support.processes import eventually
from support.references import normal_tables

PLAN = mapping(results={"sources": "coefficients"})
#: Opens hundreds of connections, says what strangers say, and tells the most that it heard over one of them.
STRANGER = """
import json, secrets, socket, ssl, sys
from mpc_spearman.network.handshake import Greeting, Use
host, heard = sys.argv[1], []
def tls(raw):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(raw)
said = [b"", b"x" * (1 << 20), b"GET / HTTP/1.1\\r\\n\\r\\n", b"\\x16\\x03\\x01\\xff\\xff" + bytes(1 << 18)]
said += [Greeting(use, to).pack() + secrets.token_bytes(32) * 9 for use in Use for to in (0, 1, 2, 7)]
open_ones = []
for _ in range(6):
    for words in said:
        raw = socket.create_connection((host, 29500), 5)
        raw.settimeout(0.02)
        open_ones.append(raw)
        try:
            raw.sendall(words)
            heard.append(len(raw.recv(1 << 16)))
        except OSError:
            pass
        raw2 = socket.create_connection((host, 29500), 5)
        raw2.settimeout(2)
        try:
            with tls(raw2) as connection:
                connection.sendall(words)
                heard.append(len(connection.recv(1 << 16)))
        except OSError:
            pass
print(json.dumps({"most": max(heard), "opened": 2 * len(open_ones)}), flush=True)
sys.stdin.read()
"""


def memory(network: Network, party: str) -> int:
    """Bytes of the largest process on a party's host."""
    shown = subprocess.run(
        ["ip", "netns", "pids", network.command(party)[-1]], capture_output=True, text=True
    )
    sizes = []
    for pid in shown.stdout.split():
        status = Path("/proc", pid, "status").read_text()
        sizes += [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS")]
    return max(sizes)


@pytest.mark.long
@pytest.mark.parametrize("at", ["S", "C"])
def test_strangers_get_nothing_and_take_no_memory(at: str, tmp_path: Path) -> None:
    tables = normal_tables(307)
    expected = run_local(PLAN, tables, server=fork_server())
    with hosts("C", "B", "A", "S") as network, Job(network, tmp_path / "job", PLAN, tables) as job:
        job.join("CB")
        eventually(lambda: all(f"{name} connect: waiting for A" in job.shown(name) for name in "CB"))
        before = memory(network, "C")
        command = network.command(at, sys.executable, "-c", STRANGER, job.address)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
            assert stranger.stdout is not None
            told = json.loads(stranger.stdout.readline())
            assert told["opened"] > 200
            assert told["most"] <= 7  # outside of TLS an alert, inside nothing
            assert memory(network, "C") - before < 30 << 20
            job.join("A")  # while the stranger still holds what it can
            job.check(expected)
            stranger.communicate()
        assert "\x1b" not in job.shown("C")

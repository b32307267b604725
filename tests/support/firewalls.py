"""What stands between organisations: firewalls, address translation, a proxy, hosts with IPv6 alone.

All within the namespaces of a `ShapedNetwork`; each skips the test where this machine cannot do it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.processes import eventually
from support.shaping import ShapedNetwork

#: An address that no host has itself: the network's router translates it.
OUTSIDE = "10.77.0.200"


def _run(command: Sequence[str], text: str | None = None) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


def _rules(command: Sequence[str], rules: str) -> None:
    if shutil.which("nft") is None:
        pytest.skip("the command nft is missing (package nftables)")
    if subprocess.run([*command, "nft", "add", "table", "inet", "probe"], capture_output=True).returncode:
        pytest.skip("this kernel has no nftables")
    _run([*command, "nft", "-f", "-"], rules)


def _on_router(network: ShapedNetwork, *command: str) -> list[str]:
    return ["ip", "netns", "exec", network._hub, *command]


def close(network: ShapedNetwork, party: str, *ports: int) -> None:
    """Let nobody connect to a host, but for these ports; it may connect to others."""
    opened = f"tcp dport {{ {', '.join(map(str, ports))} }} accept" if ports else ""
    _rules(
        network.command(party),
        f"""table inet closed {{
            chain input {{
                type filter hook input priority 0; policy drop;
                iif lo accept
                ct state established,related accept
                {opened}
            }}
        }}""",
    )


def allow_only(network: ShapedNetwork, party: str, to: str, port: int) -> None:
    """Let a host connect to one other host's port and to nothing else."""
    _rules(
        network.command(party),
        f"""table inet leaving {{
            chain output {{
                type filter hook output priority 0; policy drop;
                oif lo accept
                ct state established,related accept
                ip daddr {network.address(to)} tcp dport {port} accept
            }}
        }}""",
    )


def translate(network: ShapedNetwork, party: str, outside: int, inside: int) -> str:
    """Put a host behind address translation: others reach it at the address returned, and no other way."""
    address = network.address(party)
    _run(_on_router(network, "ip", "address", "add", OUTSIDE, "dev", "lo"))
    _rules(
        _on_router(network),
        f"""table ip translated {{
            chain to {{
                type nat hook prerouting priority -100;
                ip daddr {OUTSIDE} tcp dport {outside} dnat to {address}:{inside}
            }}
            chain from {{
                type nat hook postrouting priority 100;
                ip saddr {address} snat to {OUTSIDE}
            }}
            chain between {{
                type filter hook forward priority 0;
                ct status dnat accept
                ip daddr {address} ct state new drop
            }}
        }}""",
    )
    return f"{OUTSIDE}:{outside}"


def ipv6_alone(network: ShapedNetwork, parties: Sequence[str]) -> dict[str, str]:
    """Take all hosts' IPv4 addresses away; return their IPv6 ones."""
    addresses = {}
    on = ("sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.all.disable_ipv6=0")
    _run(_on_router(network, *on, "net.ipv6.conf.all.forwarding=1"))
    for number, party in enumerate(parties, 1):
        addresses[party], router = f"fd77:{number}::1", f"fd77:{number}::fe"
        for command in (
            network.command(party, *on),
            network.command(party, "ip", "-4", "address", "flush", "dev", "eth0"),
            network.command(party, "ip", "-4", "address", "flush", "dev", "lo"),
            network.command(party, "ip", "address", "add", f"{addresses[party]}/64", "dev", "eth0", "nodad"),
            _on_router(network, "ip", "address", "add", f"{router}/64", "dev", network._port(party), "nodad"),
            network.command(party, "ip", "-6", "route", "add", "default", "via", router),
        ):
            _run(command)
    return addresses


@contextmanager
def proxy(network: ShapedNetwork, host: str, folder: Path, port: int = 8888) -> Iterator[str]:
    """Run Debian's tinyproxy on a host; it lets CONNECT pass to any port."""
    if shutil.which("tinyproxy") is None:
        pytest.skip("the command tinyproxy is missing (package tinyproxy)")
    address = network.address(host)
    log, settings = folder / "proxy.log", folder / "proxy.conf"
    settings.write_text(f'Port {port}\nListen {address}\nTimeout 600\nLogFile "{log}"\nLogLevel Info\n')
    with subprocess.Popen(network.command(host, "tinyproxy", "-d", "-c", str(settings))) as process:
        try:
            eventually(lambda: log.exists() and "Accepting connections" in log.read_text())
            yield f"http://{address}:{port}"
        finally:
            process.terminate()

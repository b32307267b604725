"""The plan's ``network`` section: how the parties find each other, and wait for each other."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Annotated

from pydantic import AfterValidator

from mpc_spearman.config.fields import Count, Seconds, Section, Text, seconds, setting


def host_name(text: str) -> str:
    """Return a host's name or address, an IPv6 one without its brackets; `ValueError` says what is wrong."""
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in host or host != text:
        try:
            IPv6Address(host)
        except ValueError:
            why = (
                "is not a host's name or address, such as 10.0.0.7 or 2001:db8::7 (the port is network.port)"
            )
            raise ValueError(why) from None
    return host


def host_and_port(text: str, *, any_address: bool = False) -> tuple[str, int]:
    """Take ``HOST:PORT`` apart, IPv6 hosts in brackets; `ValueError` says what is wrong with it.

    Every address of a machine is one only where `any_address` says so.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("is not HOST:PORT, such as 10.0.0.7:29501 or [2001:db8::7]:29501")
    if ":" in host and not host.startswith("["):
        raise ValueError("is not HOST:PORT: write an IPv6 address in brackets, such as [2001:db8::7]:29501")
    host = host_name(host)
    if host in ("0.0.0.0", "::", "*") and not any_address:
        raise ValueError("means every address of this machine; name the one that other parties can reach")
    return host, int(port)


def _proxy(value: str | None) -> str | None:
    if value is not None:
        scheme, _, rest = value.partition("://")
        if scheme != "http" or "@" in rest:
            where = "MPC_SPEARMAN_PROXY_USER, MPC_SPEARMAN_PROXY_PASSWORD"
            raise ValueError(f"is not http://HOST:PORT; credentials go into the environment: {where}")
        host_and_port(rest.removesuffix("/"))
    return value


Host = Annotated[Text, AfterValidator(host_name)]


class Network(Section):
    """How the parties find each other and wait for each other."""

    timeout: Seconds = seconds(
        "Seconds without a sign of life after which a party counts as lost. A party that computes, however "
        "long, sends signs of life.",
        60.0,
    )
    join_timeout: Seconds = seconds("Seconds to wait for a party that has not joined yet.", 600.0)
    message_timeout: Seconds = seconds(
        "Seconds to wait for one message of a party that gives signs of life: the time that it may compute.",
        86_400.0,
    )
    address: Host | None = setting(
        "The coordinator's host, which all others dial. `MASTER_ADDR` in the environment overrides it.",
        None,
        "a host name or address",
        min_length=1,
    )
    port: Count = setting(
        "The port there, the only one that has to be open. `MASTER_PORT` overrides it.",
        29500,
        "a port number from 1 to 65535",
        ge=1,
        le=65535,
    )
    proxy: Annotated[Text | None, AfterValidator(_proxy)] = setting(
        "The HTTP proxy through which this party dials; its credentials are in the environment: "
        "docs/hosts.md#through-a-proxy.",
        None,
        "the address of an HTTP proxy: http://HOST:PORT",
    )

"""The plan's ``network`` section: how the parties find each other and prove who they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from mpc_spearman.config.fields import (
    Count,
    Flag,
    OptionalFile,
    Seconds,
    Section,
    Text,
    flag,
    optional_file,
    seconds,
)


def host_name(text: str) -> str:
    """Return a host's name or address, an IPv6 one without its brackets; `ValueError` says what is wrong."""
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in host or host != text:
        try:
            IPv6Address(host)
        except ValueError:
            raise ValueError(
                "is not a host's name or address, such as 10.0.0.7 or 2001:db8::7 (the port is network.port)"
            ) from None
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
        raise ValueError("is every address of this machine; name the one that the other parties reach")
    return host, int(port)


def _no_list(value: object) -> object:
    if isinstance(value, list):  # of YAML, where an address in brackets has no quotes
        raise ValueError("is a list to YAML: put an address in brackets in quotes, or leave the brackets out")
    return value


def _proxy(value: str | None) -> str | None:
    if value is not None:
        scheme, _, rest = value.partition("://")
        if scheme != "http" or "@" in rest:
            raise ValueError(
                "is not http://HOST:PORT; credentials go into the environment: MPC_SPEARMAN_PROXY_USER, "
                "MPC_SPEARMAN_PROXY_PASSWORD"
            )
        host_and_port(rest.removesuffix("/"))
    return value


def _pins(value: Mapping[str, str]) -> Mapping[str, str]:
    for name, pin in value.items():
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", pin):
            raise ValueError(
                f"has for {name[:64]!r} no fingerprint: sha256: and 64 hexadecimal digits, as "
                "`mpc-spearman certs` and every run of `join` print them"
            )
    return value


Host = Annotated[Text, BeforeValidator(_no_list), AfterValidator(host_name)]


class Tls(Section):
    """Where a party's credentials for TLS are; local, but for whether there is TLS at all.

    Attributes
    ----------
    ca, certificate, key : Path, optional
        PEM files: the CA that all parties trust, this party's certificate, and its key. ``{party}`` in a
        path stands for the party's name, so that one plan can serve all hosts.
    insecure : bool
        No TLS, also between hosts. ``tls: insecure`` in a plan is short for it.
    """

    ca: OptionalFile = optional_file()
    certificate: OptionalFile = optional_file()
    key: OptionalFile = optional_file()
    insecure: Flag = flag(False)

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"insecure": True} if value == "insecure" else value

    @model_validator(mode="after")
    def _all_or_none(self) -> Tls:
        files = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        missing = [name for name, file in files.items() if file is None]
        if self.insecure and len(missing) < 3:
            raise ValueError("is 'insecure' and has files of TLS: take out one or the other")
        if not self.insecure and missing:
            raise ValueError(f"needs ca, certificate and key; missing: {', '.join(missing)}")
        return self


class Network(Section):
    """How the parties find each other, wait for each other, and prove who they are.

    Attributes
    ----------
    timeout : float
        Seconds without a sign of life after which a peer counts as lost. Computing, however long,
        is not silence.
    join_timeout : float
        Seconds to wait for a party that has not joined yet.
    address : str, optional
        The coordinator's host, where the parties meet; not compared, since hosts may know it by several
        names. The environment's ``MASTER_ADDR`` comes first.
    port : int
        The port there; not compared. The environment's ``MASTER_PORT`` comes first.
    tls : Tls, optional
        Compared is only whether there is TLS. Needed where each party starts by itself.
    secret : Path, optional
        Under ``tls: insecure`` a file of 32 random bytes, the same at all parties (``mpc-spearman secret``).
    pins : mapping of str to str
        Fingerprints, by party, of the certificates that are taken for theirs, and no others.
    proxy : str, optional
        ``http://HOST:PORT`` of the HTTP proxy through which this party connects to others.

    All but whether there is TLS is local.
    """

    timeout: Seconds = seconds(60.0)
    join_timeout: Seconds = seconds(600.0)
    address: Host | None = Field(default=None, min_length=1, description="a host name or address")
    port: Count = Field(default=29500, ge=1, le=65535, description="a port number from 1 to 65535")
    tls: Tls | None = None
    secret: OptionalFile = optional_file()
    pins: Annotated[dict[Text, Text], AfterValidator(_pins)] = Field(
        default={}, description="a mapping of parties' names to fingerprints"
    )
    proxy: Annotated[Text | None, AfterValidator(_proxy)] = Field(
        default=None, description="the address of an HTTP proxy: http://HOST:PORT"
    )

    @model_validator(mode="after")
    def _for_its_kind(self) -> Network:
        if self.secret is not None and self.security != "insecure":
            raise ValueError("has a secret, which is for tls: insecure only; take one of them out")
        if self.pins and self.security != "mutual":
            raise ValueError("has pins, which are for the certificates of tls; take them out")
        return self

    @property
    def security(self) -> Literal["mutual", "insecure"] | None:
        """What of `tls` all parties must agree on."""
        if self.tls is None:
            return None
        return "insecure" if self.tls.insecure else "mutual"

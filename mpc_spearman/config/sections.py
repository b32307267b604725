"""The other sections of a plan, typed. docs/plan.md lists every key."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Annotated, Literal

from pydantic import AfterValidator

from mpc_spearman.config.fields import (
    Count,
    Flag,
    KeyBits,
    Loss,
    Seconds,
    Section,
    Text,
    allowed,
    whole,
)
from mpc_spearman.config.levels import Grant

Protocol = Literal["mpc", "he"]
Estimator = Literal["tie_corrected", "paper"]
Strength = Literal["mean", "mean_abs"]
Order = Literal["descending", "ascending"]
OpenedTo = Literal["coordinator", "target"]
Unit = Literal["row", "value"]
Noise = Literal["results", "inputs"]

#: The shared default of ``privacy.loss``, and each owner's limit.
LOSS = 2.0


class Results(Section):
    """What the coordinator passes on; at most what it learns itself by ``reveal``.

    In a `Plan` `target` and `sources` are never None: they are filled in.
    """

    target: Grant | None = None
    """What the coordinator passes on to the target, at most what it has itself. Left out: `strengths`, or
    what the level has in place of them. `explained` and `canonical` only at the level of that name."""
    sources: Grant | None = None
    """What the coordinator passes on to each source. A source gets only its own rows of coefficients and of
    R²; strengths and ranking are over all sources. Left out: `nothing`; at `reveal: canonical`,
    `canonical`."""
    strongest: Annotated[Count | None, allowed("a whole number from 1 to 1000", ge=1, le=1000)] = None
    """Pass on only so many results to each receiver, the strongest: pairs where it is granted `coefficients`,
    features where it is granted `strengths`; all, if there are no more. Few of many carry less noise
    (`explain` says how much). They are chosen at random, the stronger the likelier:
    docs/guarantee.md#the-strongest-only. Only at `reveal: coefficients` and `differences`. The coordinator
    needs OpenDP: `pip install 'mpc_spearman[strongest]'`."""
    precision: Literal["statistical", "exact"] = "statistical"
    """Whether results that are passed on carry noise. `exact`, without noise, needs `policy.exact: true` of
    every data owner."""


class Privacy(Section):
    """How much a run may reveal to a receiver about whose row is whose (docs/guarantee.md)."""

    loss: Loss = LOSS
    """How much one party's results may reveal, except the coordinator's own at `coefficients` and
    `differences`, which are exact. At 2, an attacker who knows everything else guesses right at most 84 times
    in 100 which of two rows is whose. A smaller loss means more noise: docs/privacy.md#the-guarantee."""
    unit: Unit = "row"
    """What noise hides: a person's whole row, or one value of one column. `value` is weaker, needs
    `policy.unit: value` of every data owner, and is for granted coefficients only."""


class HeSettings(Section):
    """How the homomorphic protocol encrypts."""

    scheme: Literal["paillier", "bfv"] = "paillier"
    """The encryption scheme: docs/homomorphic-encryption.md. `bfv` is much faster and needs Python 3.11 or
    newer."""
    key_bits: KeyBits = 3072
    """Length of Paillier's modulus: 3072 (about 128 bits of security) or 2048 (about 112). Other lengths need
    `he.insecure`."""
    randomness: Literal["full", "short"] = "full"
    """Paillier's randomness. `short` exponents are faster and need one more assumption."""
    form: Literal["packed", "literal"] = "packed"
    """At `reveal: differences` under Paillier: many ranks in one ciphertext, or the paper to the letter:
    docs/homomorphic-encryption.md#the-steps."""
    insecure: Flag = False
    """Allow Paillier keys that can be broken; for tests."""
    workers: Annotated[Count | None, whole(1)] = None
    """Threads that this party uses. Left out, one per processor."""


def host_name(text: str) -> str:
    """Return a host's name or address, an IPv6 one without its brackets; `ValueError` says what is wrong."""
    if "{shard}" in text:
        raise ValueError("names a host for each shard, but a party is one process: write one host")
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in host or host != text:
        try:
            IPv6Address(host)
        except ValueError:
            why = "is not a host name or address, such as 10.0.0.7 or 2001:db8::7 (the port is network.port)"
            raise ValueError(why) from None
    return host


def host_and_port(text: str, *, any_address: bool = False) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT``; a `ValueError` says what is wrong.

    IPv6 hosts are in brackets. `any_address` allows 0.0.0.0 and ::, which mean every address of this machine.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("is not HOST:PORT, such as 10.0.0.7:29501 or [2001:db8::7]:29501")
    if ":" in host and not host.startswith("["):
        raise ValueError("is not HOST:PORT: write an IPv6 address in brackets, such as [2001:db8::7]:29501")
    host = host_name(host)
    if host == "*" or (host in ("0.0.0.0", "::") and not any_address):
        raise ValueError("means every address of this machine; name the one that other parties can reach")
    return host, int(port)


def _proxy(value: str) -> str:
    scheme, _, host_port = value.partition("://")
    if scheme != "http" or "@" in host_port:
        where = "MPC_SPEARMAN_PROXY_USER, MPC_SPEARMAN_PROXY_PASSWORD"
        raise ValueError(f"is not http://HOST:PORT; credentials go into the environment: {where}")
    host_and_port(host_port.removesuffix("/"))
    return value


Host = Annotated[Text, AfterValidator(host_name)]
Proxy = Annotated[Text, AfterValidator(_proxy)]


class Network(Section):
    """How the parties find each other and wait for each other."""

    timeout: Seconds = 60.0
    """Seconds without a sign of life after which a party counts as lost. A party that computes, however long,
    sends signs of life."""
    join_timeout: Seconds = 600.0
    """Seconds to wait for a party that has not joined yet."""
    message_timeout: Seconds = 86_400.0
    """Seconds to wait for one message of a party that gives signs of life: the time that it may compute."""
    address: Annotated[Host | None, allowed("a host name or address", min_length=1)] = None
    """The coordinator's host, which all others dial. `MASTER_ADDR` in the environment overrides it."""
    port: Annotated[Count, allowed("a port number from 1 to 65535", ge=1, le=65535)] = 29500
    """The coordinator's port, the only one that has to be open. `MASTER_PORT` overrides it."""
    proxy: Annotated[Proxy | None, allowed("the address of an HTTP proxy: http://HOST:PORT")] = None
    """The HTTP proxy through which this party dials; its credentials are in the environment:
    docs/hosts.md#through-a-proxy."""

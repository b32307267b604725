"""What a party brings to a meeting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mpc_spearman.network.addresses import Address
from mpc_spearman.network.tls import Tls

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """A party's own settings.

    Attributes
    ----------
    plan, version : str
        The shared plan as canonical JSON, and the package's version: what all must have alike.
    listen : Address, optional
        Where others may dial it.
    advertise : Address, optional
        What they dial, where that is something else.
    proxy : Address, optional
        The HTTP proxy through which it dials.
    join_timeout, timeout : float
        Seconds in which all have to have met; and without a sign of life, after which a party is lost.
    patient : bool
        Whether a party that is lost or leaves is waited for again; else that ends the meeting.
    """

    tls: Tls
    plan: str
    version: str
    listen: Address | None
    advertise: Address | None
    proxy: Address | None
    join_timeout: float
    timeout: float
    say: Say
    patient: bool = True

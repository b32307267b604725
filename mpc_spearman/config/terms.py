"""The terms of a plan: its settings that decide which messages are sent, and so who learns what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mpc_spearman.parties import Role


@dataclass(frozen=True)
class Terms:
    """The settings of a plan that decide who learns what.

    `parties` are the parties' names by role, `granted` is what ``results`` passes on to each role (the
    coordinator opens the results itself, and is granted nothing), `top` says whether the plan asks for the
    strongest features alone, `proofs` whether owners prove their vectors. Parties of the roles `on_inputs`
    add noise to their inputs, and those of the roles `adjusting` adjust features for covariates.
    """

    protocol: str
    reveal: str
    alignment: str
    opened_to: str
    precision: str
    top: bool
    proofs: bool
    parties: Mapping[Role, tuple[str, ...]]
    granted: Mapping[Role, str]
    on_inputs: frozenset[Role]
    adjusting: frozenset[Role]

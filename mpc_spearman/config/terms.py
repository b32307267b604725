"""The terms of a plan: its settings that decide which messages are sent, and so who learns what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpc_spearman.parties import Role


@dataclass(frozen=True)
class Terms:
    """The settings of a plan that decide who learns what.

    `parties` are the parties' names by role, `granted` is what ``results`` passes on to each role, `top` says
    whether the plan asks for the strongest features alone, `proofs` whether owners prove their vectors, and
    parties of the roles `on_inputs` add noise to their inputs.
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
    on_inputs: frozenset[Role] = frozenset()

    @classmethod
    def of_result(cls, plan: Mapping[str, Any]) -> Terms:
        """Read the terms from the shared part of a plan, as results hold it, also those of version 0.2.0."""
        parties, results = plan["parties"], plan["results"]
        names = [parties["coordinator"]["name"], parties["target"]["name"]]
        return cls(
            protocol=plan["protocol"],
            reveal=plan["reveal"],
            alignment=plan.get("alignment", "same"),
            opened_to=plan["opened_to"],
            precision=results["precision"],
            top=plan["top"] is not None,
            proofs=plan.get("proofs", False),
            parties=by_role([*names, *(source["name"] for source in parties["sources"])]),
            granted=granted(results["target"], results["sources"]),
            on_inputs=on_inputs(
                parties["target"].get("noise"), *(one.get("noise") for one in parties["sources"])
            ),
        )


def by_role(names: list[str] | tuple[str, ...]) -> dict[Role, tuple[str, ...]]:
    """Return the parties' names by role; `names` are in order of the parties' numbers."""
    return {Role.COORDINATOR: (names[0],), Role.TARGET: (names[1],), Role.SOURCE: tuple(names[2:])}


def granted(target: str, sources: str) -> dict[Role, str]:
    """Return the grant of each role; the coordinator gets none, since it opens the results itself."""
    return {Role.COORDINATOR: "nothing", Role.TARGET: target, Role.SOURCE: sources}


def on_inputs(target: str | None, *sources: str | None) -> frozenset[Role]:
    """Return the roles of which a party adds noise to its inputs (``noise``)."""
    by_role = {Role.TARGET: (target,), Role.SOURCE: sources}
    return frozenset(role for role, places in by_role.items() if "inputs" in places)

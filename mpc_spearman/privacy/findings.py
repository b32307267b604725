"""How a broken rule is said: one finding, one sentence, in a dry run's list or in the error that refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpc_spearman.errors import DisclosureError


@dataclass(frozen=True)
class Finding:
    """One rule that one or more of a party's own columns break.

    Attributes
    ----------
    rule : str
        The key of the shared plan it follows from: ``privacy.min_group`` or ``privacy.budget``.
    columns : tuple of str
        All columns that are part of it.
    rows : int
        How many rows it is about: those that stand apart; for a budget all of them.
    sentence : str
        What was found and what to do, with names and figures, without the party.
    """

    rule: str
    columns: tuple[str, ...]
    rows: int
    sentence: str


def refuse(party: str, findings: Sequence[Finding]) -> None:
    """Stop where there is a finding.

    Raises
    ------
    DisclosureError
        Every finding's sentence, one per line, each naming the party.
    """
    if findings:
        raise DisclosureError("\n".join(f"{party}: {finding.sentence}" for finding in findings))

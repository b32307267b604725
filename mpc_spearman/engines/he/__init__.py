"""The paper's protocol over homomorphic encryption: the contract of a scheme, two schemes, and the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpc_spearman.engines.he.scheme import PublicKey, SecretKey


def keys_of(scheme: str) -> tuple[type[SecretKey], type[PublicKey]]:
    """Import a scheme's keys: only what it needs has to be installed."""
    if scheme == "bfv":
        from mpc_spearman.engines.he.bfv.keys import BfvPublicKey, BfvSecretKey

        return BfvSecretKey, BfvPublicKey
    from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey

    return PaillierSecretKey, PaillierPublicKey

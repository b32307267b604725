"""The keys of each homomorphic encryption scheme, by the name that the plan has."""

from __future__ import annotations

from mpc_spearman.engines.he.scheme import PublicKey, SecretKey


def keys_of(scheme: str) -> tuple[type[SecretKey], type[PublicKey]]:
    """Import a scheme's keys: only what it needs has to be installed."""
    if scheme == "bfv":
        from mpc_spearman.engines.he.bfv.keys import BfvPublicKey, BfvSecretKey

        return BfvSecretKey, BfvPublicKey
    from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey

    return PaillierSecretKey, PaillierPublicKey

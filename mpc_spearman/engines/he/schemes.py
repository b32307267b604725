"""The schemes by name. Each is imported when a plan asks for it: only what it needs has to be installed."""

from __future__ import annotations

from mpc_spearman.config import HeSettings
from mpc_spearman.engines.he.scheme import Operation, Products, PublicKey, SecretKey, Sizes


def secret_key(settings: HeSettings, sizes: Sizes, operation: Operation) -> SecretKey:
    """Make a key pair of the plan's scheme."""
    return _scheme(settings)[0].generate(settings, sizes, operation)


def public_key(raw: bytes, settings: HeSettings, sizes: Sizes, operation: Operation) -> PublicKey:
    """Rebuild a public key of the plan's scheme from the wire."""
    return _scheme(settings)[1].from_bytes(raw, settings, sizes, operation)


def new_products(key: PublicKey) -> Products:
    """Begin inner products of the ciphertexts under a key, at the target."""
    if key.name == "bfv":
        from mpc_spearman.engines.he.bfv.keys import BfvPublicKey
        from mpc_spearman.engines.he.bfv.products import BfvProducts

        assert isinstance(key, BfvPublicKey)
        return BfvProducts(key)
    from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey
    from mpc_spearman.engines.he.paillier.products import PaillierProducts

    assert isinstance(key, PaillierPublicKey)
    return PaillierProducts(key)


def _scheme(settings: HeSettings) -> tuple[type[SecretKey], type[PublicKey]]:
    if settings.scheme == "bfv":
        from mpc_spearman.engines.he.bfv.keys import BfvPublicKey, BfvSecretKey

        return BfvSecretKey, BfvPublicKey
    from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey

    return PaillierSecretKey, PaillierPublicKey

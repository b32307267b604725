"""Paillier's scheme behind the contract of :mod:`mpc_spearman.engines.he.scheme`."""

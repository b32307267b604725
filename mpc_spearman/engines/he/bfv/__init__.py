"""The BFV scheme (SEAL, through TenSEAL) behind the contract of :mod:`mpc_spearman.engines.he.scheme`."""

"""The only place that imports TenSEAL, whose ``sealapi`` is Microsoft SEAL as it is.

Where SEAL's randomness comes from: every key pair and every encryption makes a generator of its own
(Blake2xb) and seeds it with 64 bytes from ``/dev/urandom``, through ``std::random_device("/dev/urandom")``
in SEAL's ``randomgen.cpp``; nothing is kept between two encryptions, so a forked process does not
repeat its parent's randomness. (Read in the source, and seen in a trace of system calls.)
"""

from __future__ import annotations

import importlib.util
import sys

from mpc_spearman.errors import PlanError, SetupError

if importlib.util.find_spec("tenseal") is None:
    if sys.version_info < (3, 11):
        raise PlanError(
            "he.scheme: 'bfv' needs TenSEAL, which has no build for Python 3.10 or older. "
            "Use Python 3.11 or newer, or he.scheme: paillier"
        )
    raise SetupError(
        "TenSEAL, which he.scheme: 'bfv' needs, is not installed. Run: pip install tenseal==0.3.18"
    )

from tenseal import sealapi as sealapi

"""The only place that imports CrypTen, with the workaround that this needs.

CrypTen 0.4.1 looks for ``torch.onnx.symbolic_registry``, then for a private module that torch ≥ 2.9 no
longer has, and fails. It only uses what it finds when it converts ONNX models, which this package never
does, so an empty module of that name is enough.
"""

from __future__ import annotations

import importlib.util
import sys
import types

from mpc_spearman.installed import check_crypten

check_crypten()

_REGISTRY = "torch.onnx.symbolic_registry"
if _REGISTRY not in sys.modules and importlib.util.find_spec(_REGISTRY) is None:
    sys.modules[_REGISTRY] = types.ModuleType(_REGISTRY)

import crypten  # noqa: E402
from crypten import communicator  # noqa: E402
from crypten.communicator import Communicator  # noqa: E402
from crypten.mpc.primitives import arithmetic, beaver, binary, circuit, replicated  # noqa: E402
from crypten.mpc.primitives.arithmetic import ArithmeticSharedTensor  # noqa: E402
from crypten.mpc.primitives.binary import BinarySharedTensor  # noqa: E402

__all__ = ["ArithmeticSharedTensor", "BinarySharedTensor", "Communicator", "arithmetic", "beaver", "binary"]
__all__ += ["circuit", "communicator", "crypten", "replicated"]

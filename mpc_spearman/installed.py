"""What a protocol needs on this machine beyond this package's own requirements."""

from __future__ import annotations

from importlib.metadata import requires
from importlib.util import find_spec

from mpc_spearman.errors import SetupError

#: What installs CrypTen; plain ``pip install crypten`` fails on its metadata.
INSTALL_CRYPTEN = "pip install --no-deps crypten==0.4.1"


def check_crypten() -> None:
    """Raise a `SetupError` without CrypTen; it names the command that installs it."""
    if find_spec("crypten") is None:
        raise SetupError(f"CrypTen is not installed. Run: {INSTALL_CRYPTEN}")


def install(extra: str) -> str:
    """Return the command that installs an extra's requirements by their names: no index has this package."""
    needed = (line.partition(";") for line in requires("mpc_spearman") or ())
    names = [f"'{name.strip()}'" for name, _, condition in needed if f'extra == "{extra}"' in condition]
    return f"pip install {' '.join(names)}"

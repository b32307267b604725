"""Run commands as in a container: in a mount namespace with a read-only root, as a user without rights.

This takes Linux and root. The root has the machine's programs, this Python and the package alone; a process
there has no capabilities. No image is built, and the network is the caller's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support.harness import ROOT

#: The user of the Containerfile.
USER = 10001
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ssl", "/etc/passwd", "/etc/ld.so.cache", "/proc", "/dev")


def skip_without() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mount namespaces take Linux and root")
    missing = [name for name in ("unshare", "setpriv", "chroot") if shutil.which(name) is None]
    if missing or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip(f"this machine makes no mount namespaces {missing}")
    python = [f"--reuid={USER}", "--clear-groups", sys.executable, "-c", ""]
    if Path(sys.executable).is_relative_to("/tmp") or subprocess.run(["setpriv", *python]).returncode:
        pytest.skip("a container has a /tmp and a user of its own, which lack this environment")


def give(folder: Path, user: int = USER) -> None:
    """Make a user the owner of a folder and of all in it."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)


def container(
    root: Path,
    mounts: Mapping[str, Path],
    command: Sequence[str],
    *,
    read_only: Sequence[str] = (),
    folder: str = "/",
    user: int = USER,
    names: Sequence[str] = (),
) -> list[str]:
    """Return a command that runs another one as in a container.

    `root` is an empty folder; `mounts` are folders by their place in the container, of which some are
    `read_only`. `names` are host names of this machine.
    """
    environment = (sys.prefix, sys.base_prefix, str(ROOT))
    lines = [f"mount -t tmpfs -o mode=755 root {root}", f"mkdir -p {root}/etc"]
    lines.append(f"echo '127.0.0.1 localhost {' '.join(names)}' > {root}/etc/hosts")
    for place in [*filter(os.path.exists, _SYSTEM), *dict.fromkeys(environment)]:
        inside = f"{root}{place}"
        file = "" if os.path.isdir(place) else f"rmdir {inside}; touch {inside}"
        lines += [f"mkdir -p {inside}", file, f"mount --rbind {place} {inside}"]
    for place in mounts:
        lines.append(f"mkdir -p {root}{place}")
    lines.append(f"mount -o remount,bind,ro {root}")
    for place, source in mounts.items():
        lines.append(f"mount --bind {source} {root}{place}")
        if place in read_only:
            lines.append(f"mount -o remount,bind,ro {root}{place}")
    rights = f"setpriv --reuid={user} --regid={user} --clear-groups --bounding-set=-all --no-new-privs"
    inside = f"cd {shlex.quote(folder)} && exec {rights} {shlex.join(command)}"
    lines.append(f"exec chroot {root} sh -c {shlex.quote(inside)}")
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(lines)]

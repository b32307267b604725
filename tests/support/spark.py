"""A Spark of its own for tests, in a folder that `make test-all` fills; nothing else needs its 500 MB."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from support.processes import EVER

VERSION = "4.3.0"
FOLDER = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpc_spearman" / f"pyspark-{VERSION}"
)


@contextmanager
def spark(folder: Path, *, cores: int = 2, ansi: bool = True) -> Iterator[str]:
    """Run a Spark Connect server on some cores, and give its address; skip where there is none to run."""
    if not FOLDER.is_dir():
        pytest.skip(f"no Spark in {FOLDER} (make {FOLDER})")
    if shutil.which("java") is None:
        pytest.skip("no Java runtime is installed (Debian: apt-get install default-jre-headless)")
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # the last, so that all libraries but Spark's are this environment's
    settings = {
        "spark.driver.memory": "1g",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.local.dir": str(folder / "spark-local"),
        "spark.sql.ansi.enabled": str(ansi).lower(),
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.warehouse.dir": str(folder / "spark-tables"),
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit, log = FOLDER / "pyspark/bin/spark-submit", folder / "spark-log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                submit,
                f"--master=local[{cores}]",
                "--driver-memory=1g",
                *options,
                "--class",
                server,
                "spark-internal",
            ],
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(FOLDER / "pyspark"), "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )
    try:
        deadline = monotonic() + EVER
        while (match := re.search(r"SparkConnectService' on port ([0-9]+)", log.read_text())) is None:
            if process.poll() is not None or monotonic() > deadline:
                raise RuntimeError(log.read_text())
            sleep(0.1)
        yield f"sc://127.0.0.1:{match[1]}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

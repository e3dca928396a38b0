"""A session with the RAPIDS Accelerator, on a machine that need not have a GPU."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/rapids/"):
            item.add_marker("rapids")
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=True).stdout.strip()


@pytest.fixture(scope="session")
def outcome() -> Iterator[dict[str, Any]]:
    """What the plugin said, which `RAPIDS_RECORD` names a file for."""
    import pyspark

    from gpu_wcoj.spark import session as rapids
    from gpu_wcoj.spark.session import find_java

    found: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": _printed("git", "rev-parse", "--short=12", "HEAD"),
        "plugin": rapids.PLUGIN,
        "pyspark": pyspark.__version__,
        "java": find_java().version,
        "python": platform.python_version(),
        "driver": shutil.which("nvidia-smi") is not None,
        "plans": {},
    }
    yield found
    if os.environ.get("RAPIDS_RECORD"):
        Path(os.environ["RAPIDS_RECORD"]).write_text(json.dumps(found, indent=1) + "\n")


@pytest.fixture(scope="session")
def jar() -> str:
    """The plugin's jar; it is a gigabyte, so only `make test-rapids` and `make test-rapids-gpu` ask for it."""
    if not os.environ.get("RAPIDS_JAR"):
        pytest.skip("make test-rapids runs these: they need the jar of the RAPIDS Accelerator")
    return os.environ["RAPIDS_JAR"]


@pytest.fixture(scope="session")
def planning(jar: str) -> Iterator[SparkSession]:
    """A session whose plugin says what it could run, and runs nothing."""
    import gpu_wcoj.spark as gws

    session = gws.local_session(master="local[2]", conf=gws.rapids_conf(jar, mode="explainOnly"))
    yield session
    session.stop()

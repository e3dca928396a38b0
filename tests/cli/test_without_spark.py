"""A Python without PySpark: commands that need it say so, and the others work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.command_line import ENVIRONMENT

MISSING = """
import importlib.metadata, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def version(name, known=importlib.metadata.version):
    if name == "pyspark":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)

sys.meta_path.insert(0, Absent())
importlib.metadata.version = version
"""
NEEDED = "gpu_wcoj.spark needs PySpark, which is not installed.\n  Install it: pip install 'gpu_wcoj[spark]'.\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MISSING + code], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "status", "printed"),
    [
        (["rum", "x.dl"], 2, 'Unknown command "rum". Did you mean "run"?'),
        (["spark", "run", "x.dl", "--source", "e=in", "--checkpoint", "state"], 2, f"gpu-wcoj: {NEEDED}"),
        (["spark", "--help"], 0, "Run programs on Apache Spark."),
    ],
)
def test_commands(arguments, status, printed):
    done = run(f"from gpu_wcoj.cli.main import main; sys.exit(main({arguments}))")
    assert done.returncode == status, done.stderr
    assert printed in (done.stderr if status else done.stdout)


def test_functions():
    done = run("import gpu_wcoj.spark as gws; gws.join")
    assert done.stderr.endswith(NEEDED)

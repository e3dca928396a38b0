"""``python -m tests.gpu``: parts, their limits, and the report, tried on the shim."""

from __future__ import annotations

import json
import os
import stat
import subprocess

import pytest

from tests import shim
from tests.gpu import __main__ as command
from tests.gpu.plugin import LIBRARIES, imported, needed_by

ONE = "tests/kernels/test_rows.py::test_all_rows_equal"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    if reason := shim.available():
        pytest.skip(reason)
    monkeypatch.setenv("OUT", str(tmp_path))
    return tmp_path


def report(folder):
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())


def test_a_part_and_its_report(folder, capfd):
    assert command.main(["--on", "shim", "--part", "kernels", "--test", ONE]) == 0
    document = report(folder)
    assert set(document["machine"]) >= {"date", "commit", "device", "libraries", "python"}
    (part,) = document["parts"]
    assert (part["part"], part["verdict"], part["failed"]) == ("kernels", "passed", 0)
    assert part["passed"] > 0
    assert "kernels: passed; " in capfd.readouterr().out
    assert list(folder.glob(".*")) == []


def test_a_part_that_fails_is_named(folder):
    test = folder / "test_wrong.py"
    test.write_text("def test_wrong():\n    assert 1 == 2\n\n\ndef test_right():\n    pass\n")
    assert command.main(["--on", "shim", "--part", "memory", "--test", str(test)]) == 1
    (part,) = report(folder)["parts"]
    assert (part["verdict"], part["passed"], part["failed"]) == ("exit status 1", 1, 1)
    assert "assert 1 == 2" in part["failures"][0]["message"]


@pytest.mark.long
def test_a_part_that_takes_too_long_has_told_what_it_did(folder):
    test = folder / "test_slow.py"
    test.write_text("import time\n\n\ndef test_quick():\n    pass\n\n\ndef test_slow():\n    time.sleep(60)\n")
    assert command.main(["--on", "shim", "--part", "memory", "--test", str(test), "--limit", "12"]) == 1
    (part,) = report(folder)["parts"]
    assert (part["verdict"], part["passed"]) == ("stopped after 12 s", 1)


@pytest.mark.long
def test_where_everything_is_skipped_nothing_has_passed(folder):
    test = folder / "test_away.py"
    test.write_text("import pytest\n\n\ndef test_away():\n    pytest.skip('no such thing')\n")
    assert command.main(["--on", "shim", "--part", "memory", "--test", str(test)]) == 1
    (part,) = report(folder)["parts"]
    assert part["verdict"] == "nothing passed: every test was skipped"
    assert part["skip_reasons"] == {"Skipped: no such thing": 1}


def test_what_is_not_there_is_said(folder):
    assert command.main(["--on", "shim", "--part", "memory", "--test", "tests/none.py"]) == 1
    (part,) = report(folder)["parts"]
    assert (part["verdict"], part["absent"]) == ("nothing to run", ["tests/none.py"])


def test_unknown_parts_are_refused(capfd):
    with pytest.raises(SystemExit):
        command.main(["--part", "nothing"])
    assert "there is no part nothing; the parts are kernels, random, engine" in capfd.readouterr().err


def test_without_a_sanitizer(monkeypatch, capfd):
    monkeypatch.setattr(command.shutil, "which", lambda name: None)
    assert command.main(["--sanitize"]) == 1
    assert "compute-sanitizer is not at hand" in capfd.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(("status", "verdict"), [("$?", "passed"), (command.FINDINGS, "the sanitizer has findings")])
def test_under_a_sanitizer(folder, monkeypatch, status, verdict):
    stand_in = folder / "compute-sanitizer"
    stand_in.write_text(
        f'#!/bin/sh\necho "$*" > {folder}/called\n'
        f'until case "$1" in *python*) true;; *) false;; esac; do shift; done\n"$@"\nexit {status}\n'
    )
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(command.shutil, "which", lambda name: str(stand_in))
    arguments = [
        "--sanitize",
        "--part",
        "memcheck",
        "--on",
        "shim",
        "--test",
        "tests/kernels/test_rows.py::test_lexsort",
    ]
    assert command.main(arguments) == int(verdict != "passed")
    (part,) = report(folder)["parts"]
    assert (part["part"], part["verdict"]) == ("memcheck", verdict)
    assert (folder / "called").read_text().startswith(f"--tool memcheck --error-exitcode {command.FINDINGS} ")


def test_every_path_of_every_part_is_there():
    for part in (*command.PARTS.values(), *command.SANITIZED.values()):
        for path in part.paths:
            assert (command.ROOT / path).exists(), path


def test_imports_are_read_from_the_text(folder):
    path = folder / "one.py"
    path.write_text("import numpy as np, duckdb\nfrom polars import x\n\n\ndef f():\n    import lark\n")
    assert imported(path) == {"numpy", "duckdb", "polars", "polars.x"}


def test_imports_are_followed_through_the_checkout(folder):
    """A helper's library is needed by the test that imports the helper, a command's by what imports the command."""
    path = folder / "one.py"
    path.write_text("from tests.helpers import random_duckdb_queries\n")
    assert needed_by(path) >= {"duckdb"}
    path.with_name("two.py").write_text("import gpu_wcoj.cli.main\n")
    assert needed_by(path.with_name("two.py")) >= {"cyclopts", "numpy"}
    path.with_name("three.py").write_text("import gpu_wcoj\n")
    assert not needed_by(path.with_name("three.py")) & LIBRARIES


ABSENT = """
import importlib.machinery
import sys

ABSENT = {"duckdb", "cyclopts", "lark", "polars", "sqlglot", "graphblas", "suitesparse_graphblas"}
find_spec = importlib.machinery.PathFinder.find_spec


def found(name, *arguments):
    return None if name.partition(".")[0] in ABSENT else find_spec(name, *arguments)


assert not ABSENT & set(sys.modules)
importlib.machinery.PathFinder.find_spec = staticmethod(found)
"""


@pytest.mark.long
def test_every_part_is_collected_where_libraries_are_absent(folder):
    """With what a machine with a GPU has: no file ends the run, and each part keeps tests."""
    (folder / "absent.py").write_text(ABSENT)
    paths = sorted({path for part in command.PARTS.values() for path in part.paths})
    variables = command.environment(command.PARTS["kernels"], "shim", folder / "log", is_slow=False)
    variables["PYTHONPATH"] = os.pathsep.join([str(folder), str(command.ROOT)])
    whole = command.pytest_command(command.Part(tuple(paths)), paths, is_slow=True)
    whole[whole.index("-p") : whole.index("-p")] = ["-p", "absent"]
    done = subprocess.run(
        [*whole, "--collect-only"], cwd=command.ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    for name, part in command.PARTS.items():
        assert any(line.startswith(part.paths) for line in collected), name
    for folder_name in ("tests/planner", "tests/engine", "tests/join"):
        assert sum(line.startswith(folder_name) for line in collected) > 50, folder_name
    assert "random_queries" not in done.stdout

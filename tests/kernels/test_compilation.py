"""All kernels are compiled ahead: by one process at a time, in the background or by command, into a folder to share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpu_fallback import compilation, exercise
from gpu_wcoj.cli.main import main
from tests.kernels.test_cache import copy_package, one_process, search

ROOT = Path(__file__).parents[2]

EXERCISE = """
import os
from pathlib import Path
from cpu_fallback.compilation import cache_folder
from cpu_fallback.lookup import ascends
import numpy as np

def call():
    place = cache_folder()
    (place / f"called by {os.getpid()}").write_text(f"{os.nice(0)} {os.sched_getscheduler(0)}")
    if (place / "fail").exists():
        raise MemoryError
    ascends(np.arange(3))

PARTS = {"one part": call}
"""
"""In place of the true one: a single kernel, and a file for each process that calls it."""

START = """
import json, os, sys, time
from pathlib import Path
from cpu_fallback import compilation

reports = []
running = compilation.start_background(reports.append)
until = time.monotonic() + 60
folder = compilation.cache_folder()
while not compilation.is_complete(folder) and not reports and time.monotonic() < until:
    time.sleep(0.02)
children = Path(f"/proc/self/task/{os.getpid()}/children")
while children.exists() and children.read_text() and time.monotonic() < until:
    time.sleep(0.02)
print(json.dumps([running, reports, "numba" in sys.modules, children.exists() and children.read_text()]))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package that has one kernel to compile."""
    place = copy_package(tmp_path / "package")
    (place / "cpu_fallback" / "exercise.py").write_text(EXERCISE)
    return place


def start(package: Path, cache: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", START], cwd=package, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.long
def test_the_background_process_has_the_lowest_priority_and_leaves_no_zombie(package, tmp_path):
    printed, logged = start(package, tmp_path / "cache").communicate(timeout=90)
    assert (json.loads(printed), logged) == ([True, [], False, ""], "")
    (folder,) = (tmp_path / "cache").iterdir()
    (called,) = folder.glob("called by *")
    assert called.read_text() == f"19 {os.SCHED_IDLE}"
    assert list(folder.glob("lookup.ascends-*.nbc"))


@pytest.mark.long
def test_processes_that_start_together_start_one_compilation(package, tmp_path):
    running = [start(package, tmp_path / "cache") for _ in range(3)]
    for process in running:
        printed, logged = process.communicate(timeout=90)
        assert (json.loads(printed)[:2], logged) == ([True, []], "")
    (folder,) = (tmp_path / "cache").iterdir()
    assert len(list(folder.glob("called by *"))) == 1


def test_a_compilation_that_fails_is_reported_and_not_taken_for_complete(package, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    code = "from cpu_fallback.compilation import *; create_folder(cache_folder()); (cache_folder() / 'fail').touch()"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=package)
    running, reports, *_ = json.loads(start(package, tmp_path / "cache").communicate(timeout=90)[0])
    assert running
    assert reports == ["the process that compiles the kernels ended with status 1"]


@pytest.mark.long
@one_process
def test_a_copied_folder_serves_at_another_place_and_read_only(compiled, tmp_path):
    place, copy = copy_package(tmp_path / "place"), shutil.copytree(compiled, tmp_path / "other" / "cache")
    files = sorted(copy.rglob("*"))
    for path in [*files, copy]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert search(place, NUMBA_CACHE_DIR=copy) == (["[[3, -1]]", "loaded"], "")
        assert search(place, NUMBA_CACHE_DIR=os.path.relpath(copy, place)) == (["[[3, -1]]", "loaded"], "")
    finally:
        for path in [copy, *files]:
            path.chmod(0o755)
    assert sorted(copy.rglob("*")) == files


def test_the_record_is_of_a_version_of_python_and_a_processor(tmp_path):
    assert not compilation.is_complete(tmp_path)
    record = tmp_path / f"complete-{sys.implementation.cache_tag}"
    record.write_text("another processor\n")
    assert not compilation.is_complete(tmp_path)
    compilation._set_complete(tmp_path)
    assert record.read_text().splitlines() == ["another processor", compilation.processor()]
    assert compilation.is_complete(tmp_path)


def test_the_command_compiles_and_says_where(monkeypatch, tmp_path, capsys):
    calls: list[str] = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(exercise, "PARTS", {name: lambda name=name: calls.append(name) for name in ("joins", "merges")})
    assert main(["warm"]) == 0
    printed, shown = capsys.readouterr()
    assert printed == f"compiled in 0 s into {compilation.cache_folder()}\n"
    assert shown.splitlines() == ["compiling 1 of 2: joins", "compiling 2 of 2: merges"]
    assert main(["warm"]) == 0
    assert capsys.readouterr().out == f"all kernels are in {compilation.cache_folder()}\n"
    assert calls == ["joins", "merges"]


def test_the_command_waits_for_another_process(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(exercise, "PARTS", {})
    folder = compilation.cache_folder()
    code = (
        "import sys, time; from pathlib import Path; from cpu_fallback import compilation\n"
        "folder = Path(sys.argv[1])\n"
        "with compilation._turn(folder, False):\n"
        "    print('held', flush=True); time.sleep(1); compilation._set_complete(folder)"
    )
    with subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert compilation.compile_kernels(folder, waits=False) is None
        assert not compilation.is_complete(folder)
        assert main(["warm"]) == 0
    assert capsys.readouterr().out == f"all kernels are in {folder}\n"
    assert other.returncode == 0


COVERED = """
import sys
from itertools import product
from numba.core import event
import numpy as np
from cpu_fallback.exercise import PARTS
for call in PARTS.values():
    call()
import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend
from tests.helpers.recursive_programs import CLOSURES
from tests.kernels.test_loading import PROGRAMS

with event.install_recorder("numba:compile") as recorder:
    texts = [*list(PROGRAMS.values())[:2], *list(CLOSURES.values())[:1], "n(a, s) :- s = sum b : { e(a, b) }, e(a, _)."]
    for text, bag, factor in product(texts, (False, True), (1, 2**40)):
        program = gw.Program(text, bag=bag, backend=cpu_backend(True))
        rng = np.random.default_rng(0)
        for n_rows, n_values in ((20, 9), (1100, 10**6), (3, 9)):
            program.step(
                {
                    name: gw.ZSet.from_numpy(rng.integers(0, n_values, (n_rows, program.arity(name))) * factor)
                    for name in program.inputs
                }
            )
for _, one in recorder.buffer:
    function = one.data["dispatcher"].py_func
    if one.is_start and function.__module__.startswith("cpu_fallback."):
        print(function.__name__, one.data["args"])
"""


def test_nothing_is_left_to_compile_for_programs():
    done = subprocess.run([sys.executable, "-c", COVERED], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == []


def test_kernels_free_every_array_that_they_make():
    program = """
from numba.core.runtime import rtsys
from cpu_fallback.exercise import PARTS

for call in PARTS.values():
    call()
before = rtsys.get_allocation_stats()
for call in PARTS.values():
    call()
after = rtsys.get_allocation_stats()
assert after.mi_alloc > before.mi_alloc, "no kernel makes an array"
assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free, (before, after)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"NUMBA_NRT_STATS": "1"})

"""Machine code is kept on disk: it follows the sources, not their place, and never stands in the way of a call."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import cpu_fallback
from cpu_fallback.compilation import MAX_FOLDERS, cache_folder, sources_hash
from cpu_fallback.runtime import KernelCache, Locator, cached_njit

PACKAGE = Path(cpu_fallback.__file__).parent

SEARCH = """
import logging
import sys
from numba.core import event

logging.basicConfig(format="%(message)s", stream=sys.stderr)
with event.install_recorder("numba:compile") as recorder:
    import numpy as np
    from cpu_fallback.kernels import CompiledKernels
    kernels = CompiledKernels()
    record, support = kernels.describe(np.arange(5) * 10, None, None)
    print(kernels.locate([[record]], [[0]], np.array([[30, 35]])).tolist())
print("compiled" if recorder.buffer else "loaded")
"""
"""Calls two compiled functions, one of which calls others in another file."""


def copy_package(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "cpu_fallback", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def search(folder: Path, **variables: object) -> tuple[list[str], str]:
    """What `SEARCH` prints for the copy of the package in a folder, and what is logged."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {name: str(value) for name, value in variables.items()}
    done = subprocess.run(
        [sys.executable, "-c", SEARCH], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


one_process = pytest.mark.xdist_group("compiled copy")
"""For tests that ask for the fixture `compiled`."""


@one_process
def test_another_copy_of_the_package_compiles_nothing(compiled, tmp_path):
    place, kept = copy_package(tmp_path), sorted(compiled.rglob("*"))
    assert search(place, NUMBA_CACHE_DIR=compiled) == (["[[3, -1]]", "loaded"], "")
    assert sorted(compiled.rglob("*")) == kept


SIDE_BY_SIDE = """
import sys
import time
from pathlib import Path
from numba.core import event
import numpy as np
from cpu_fallback.kernels import CompiledKernels

place, number = Path(sys.argv[1]), sys.argv[2]
(place / f"ready {number}").touch()
while len(list(place.glob("ready *"))) < 3:
    time.sleep(0.01)
with event.install_recorder("numba:compile") as recorder:
    kernels = CompiledKernels()
    record, support = kernels.describe(np.arange(5) * 10, None, None)
    print(kernels.locate([[record]], [[0]], np.array([[30, 35]])).tolist())
for _, one in recorder.buffer:
    function = one.data["dispatcher"].py_func
    if one.is_start and function.__module__.startswith("cpu_fallback."):
        print(function.__name__, one.data["args"])
"""
"""Like `SEARCH`, once three processes have come so far; prints what it compiles."""


@pytest.mark.long
def test_processes_that_start_together_compile_each_function_once(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SIDE_BY_SIDE, str(tmp_path), str(number)],
            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for number in range(3)
    ]  # fmt: skip
    compiled = []
    for process in running:
        printed, logged = process.communicate(timeout=300)
        assert (process.returncode, logged) == (0, "")
        answer, *own = printed.splitlines()
        assert answer == "[[3, -1]]"
        compiled += own
    assert len(compiled) == len(set(compiled)) > 2


def test_constants_that_are_handed_on_compile_a_function_once(tmp_path, monkeypatch):
    monkeypatch.setattr("cpu_fallback.runtime.FOLDER", tmp_path / "kernels")

    @cached_njit
    def moved(number, by, is_less):
        return number - by if is_less else number + by

    @cached_njit
    def calling(number):
        return moved(number, 1, True) + moved(number, 2, False) + moved(1, number, True)

    assert calling(5) == 4 + 7 - 4
    assert len(moved.linked.compiled) == 1


def test_a_process_that_stops_while_it_compiles_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("cpu_fallback.runtime.FOLDER", tmp_path / "kernels")
    monkeypatch.setattr("cpu_fallback.runtime.PATIENCE", 0.2)
    one, other = cached_njit(doubled), cached_njit(doubled)
    one._cache._wait()
    assert one._cache._turn is not None
    assert other(3) == 6
    one._cache._give_way()
    with numba.core.event.install_recorder("numba:compile") as recorder:
        assert one(4) == 8
    assert not recorder.buffer


def doubled(n):
    return n * 2


@one_process
def test_an_edited_function_is_compiled_into_its_callers_in_other_files(compiled, tmp_path):
    place, cache = copy_package(tmp_path / "place"), shutil.copytree(compiled, tmp_path / "cache")
    ranges = place / "cpu_fallback" / "ranges.py"
    before = ranges.read_text()
    assert before.count("return -1\n") == 2
    ranges.write_text(before.replace("return -1\n", "return -7\n"))
    assert search(place, NUMBA_CACHE_DIR=cache)[0] == ["[[3, -7]]", "compiled"]
    ranges.write_text(before)
    assert search(place, NUMBA_CACHE_DIR=cache)[0] == ["[[3, -1]]", "loaded"]


def test_a_package_that_cannot_be_written_to_uses_the_folder_of_the_user(tmp_path):
    place, home = copy_package(tmp_path / "place"), tmp_path / "home"
    home.mkdir()
    files = sorted(place.rglob("*"))
    for path in [*files, place]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert search(place, HOME=home) == (["[[3, -1]]", "compiled"], "")
        assert search(place, HOME=home) == (["[[3, -1]]", "loaded"], "")
    finally:
        for path in [place, *files]:
            path.chmod(0o755)
    assert sorted(place.rglob("*")) == files
    below = {path.relative_to(home).parts[:-2] for path in home.rglob("*.nbc")}
    assert below == {("Library", "Caches", "gpu_wcoj") if sys.platform == "darwin" else (".cache", "gpu_wcoj")}


def test_where_nothing_can_be_kept_the_log_says_so_once_and_calls_work(tmp_path):
    place, file = copy_package(tmp_path / "place"), tmp_path / "file"
    file.touch()
    lines, logged = search(place, NUMBA_CACHE_DIR=file / "cache")
    assert lines == ["[[3, -1]]", "compiled"]
    assert len(logged.splitlines()) == 1
    assert logged.startswith(f"Compiled kernels cannot be kept in {file / 'cache' / 'cpu_fallback-'}")


@pytest.mark.long
@one_process
@pytest.mark.parametrize(
    ("ending", "content"),
    [("nbc", b""), ("nbi", pickle.dumps(numba.__version__) + b"cnone\nnone\n.")],
    ids=["code", "index"],
)
def test_a_damaged_file_is_reported_and_compiled_anew(compiled, tmp_path, ending, content):
    place, cache = copy_package(tmp_path / "place"), shutil.copytree(compiled, tmp_path / "cache")
    damaged = list(cache.rglob(f"lookup.locate-*.{ending}"))
    assert damaged
    for path in damaged:
        path.write_bytes(content)
    lines, logged = search(place, NUMBA_CACHE_DIR=cache)
    assert lines == ["[[3, -1]]", "compiled"]
    assert len(logged.splitlines()) == 1
    assert search(place, NUMBA_CACHE_DIR=cache) == (["[[3, -1]]", "loaded"], "")


@pytest.mark.parametrize("error", [OSError, EOFError, ValueError, AttributeError, KeyError, IndexError, ImportError])
def test_whatever_a_damaged_file_raises_no_call_fails(error, tmp_path, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise error("damaged")

    cache = KernelCache(KernelCache.load_overload)
    monkeypatch.setattr(cache._impl.locator, "get_cache_path", lambda: str(tmp_path))
    cache._cache_path = str(tmp_path)
    monkeypatch.setattr("numba.core.caching.FunctionCache.load_overload", fail)
    monkeypatch.setattr("numba.core.caching.FunctionCache.save_overload", fail)
    assert cache.load_overload("signature", None) is None
    cache.save_overload("signature", None)
    assert "damaged" in caplog.text


def test_every_compiled_function_is_kept():
    from cpu_fallback import kernels  # noqa: F401  # loads them all

    functions = {
        function
        for name, module in sys.modules.items() if name.startswith("cpu_fallback.")
        for function in vars(module).values() if hasattr(function, "py_func")
    }  # fmt: skip
    kept = {function for function in functions if isinstance(function._cache, KernelCache)}
    assert functions == kept
    assert len(kept) > 20


def test_the_folder_is_named_after_numba_and_the_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / f"cpu_fallback-{numba.__version__}-{sources_hash(PACKAGE)}"


def test_the_hash_sees_names_contents_and_files_in_folders(tmp_path):
    copy = copy_package(tmp_path) / "cpu_fallback"
    hashes = [sources_hash(PACKAGE), sources_hash(copy)]
    assert hashes[0] == hashes[1]
    (copy / "lookup.py").rename(copy / "seek.py")
    hashes.append(sources_hash(copy))
    inner = copy / "folder" / "search.py"
    inner.parent.mkdir()
    inner.write_text("\n")
    hashes.append(sources_hash(copy))
    assert len(set(hashes)) == 3


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has one place for caches")
def test_the_folder_follows_the_desktop_standard(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert cache_folder().parent == tmp_path / "own" / "gpu_wcoj"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder().parent == tmp_path / ".cache" / "gpu_wcoj"


def test_the_oldest_folders_go_when_one_is_made(tmp_path):
    for age in range(MAX_FOLDERS + 2):
        folder = tmp_path / f"cpu_fallback-{age}"
        folder.mkdir()
        os.utime(folder, (10**9 - age, 10**9 - age))
    (tmp_path / "of another kind").mkdir()
    Locator(copy_package, __file__, tmp_path / "cpu_fallback-new").ensure_cache_path()
    names = {f"cpu_fallback-{age}" for age in range(MAX_FOLDERS - 1)}
    assert {path.name for path in tmp_path.iterdir()} == names | {"cpu_fallback-new", "of another kind"}

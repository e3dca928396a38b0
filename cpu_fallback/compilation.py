"""Compilation of all kernels ahead of their first use, into a folder that processes share.

numba is imported only to compile: a process that needs to know whether all kernels are compiled reads one small file.
The folder's name identifies the sources and the compiler:

    $NUMBA_CACHE_DIR/cpu_fallback-<version of numba>-<hash of every source of this package>

or the same below the user's cache folder. A copy of the package in another place uses the same folder, an edited
one another folder, and a copied folder serves as well as the original, also if it cannot be written to.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module, metadata, util
from pathlib import Path

from cpu_fallback.file_locks import lock_file

_LOGGER = logging.getLogger("gpu_wcoj")

MAX_FOLDERS = 8
"""Cache folders that remain when a new one is created; the oldest are removed."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from cpu_fallback.compilation import run_background; run_background()"
"""Program of the background process, with the module path of the process that starts it."""


def sources_hash(package: Path) -> str:
    """Return a hash of the names and contents of all Python files of a package."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


@functools.cache
def _own_hash() -> str:
    """Return the hash of this package, computed once, as every tick may ask for the folder."""
    return sources_hash(Path(__file__).parent)


def cache_folder() -> Path:
    """Return the folder for the machine code of these sources; it may not exist yet.

    Raises
    ------
    RuntimeError
        If neither ``NUMBA_CACHE_DIR`` nor the user's home folder is set.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR", "")
    if chosen:
        parent = Path(chosen).absolute()
    elif sys.platform == "darwin":
        parent = Path("~/Library/Caches/gpu_wcoj").expanduser()
    else:
        cache_home = os.environ.get("XDG_CACHE_HOME", "")
        parent = Path(cache_home if os.path.isabs(cache_home) else "~/.cache").expanduser() / "gpu_wcoj"
    return parent / f"cpu_fallback-{metadata.version('numba')}-{_own_hash()}"


def create_folder(folder: Path) -> None:
    """Create a cache folder; if it is new, remove the oldest ones beside it."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # another process may remove them too
        folders = folder.parent.glob("cpu_fallback-*")
        for old in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[MAX_FOLDERS:]:
            shutil.rmtree(old, ignore_errors=True)


# The record of what is compiled: a file per version of Python, with a line per processor.


def has_numba() -> bool:
    """Return whether numba seems to be installed, without importing it."""
    try:
        return "numba" in sys.modules or util.find_spec("numba") is not None
    except (ImportError, ValueError):
        return False


def is_complete(folder: Path) -> bool:
    """Return whether a folder holds all kernels for this version of Python.

    Once numba is imported, this processor must be one of those that they were compiled for.
    """
    try:
        processors = _record(folder).read_text().splitlines()
    except OSError:
        return False
    return "numba" not in sys.modules or processor() in processors


def processor() -> str:
    """Return the processor that numba compiles for, as one line of text."""
    from numba.core.registry import cpu_target

    parts = cpu_target.target_context.codegen().magic_tuple()  # pyright: ignore[reportAttributeAccessIssue]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16] + f" {parts[1]}"


def _record(folder: Path) -> Path:
    return folder / f"complete-{sys.implementation.cache_tag}"


def _set_complete(folder: Path) -> None:
    """Add this processor to the record, in one step that other processes see whole."""
    record = _record(folder)
    lines = record.read_text().splitlines() if record.exists() else []
    draft = record.with_name(f"{record.name}.{os.getpid()}")
    draft.write_text("".join(f"{line}\n" for line in dict.fromkeys([*lines, processor()])))
    draft.replace(record)


# The compilation itself, by one process at a time.


@contextmanager
def _turn(folder: Path, waits: bool) -> Generator[bool]:
    """Hold the lock of a folder's compilation; yield whether it is held."""
    create_folder(folder)
    with (folder / "compiling").open("w") as lock:
        yield lock_file(lock.fileno(), waits)


def compile_kernels(
    folder: Path, progress: Callable[[str, int, int], None] | None = None, waits: bool = True
) -> float | None:
    """Compile all kernels that a folder lacks; return the seconds, None if it lacked none.

    Parameters
    ----------
    progress
        Called before each part with its name, its number from 1 on, and the number of parts.
    waits
        Whether to wait while another process compiles for the same folder; otherwise nothing is done then.

    Raises
    ------
    ImportError
        If numba cannot be imported, or its compilation is disabled.
    OSError
        If the folder cannot be written to.
    """
    import numba

    if numba.config.DISABLE_JIT:
        raise ImportError("NUMBA_DISABLE_JIT is set")
    if is_complete(folder):
        return None
    with _turn(folder, waits) as is_mine:
        if not is_mine or is_complete(folder):
            return None
        parts = import_module("cpu_fallback.exercise").PARTS  # no import statement: it needs numba
        start = time.perf_counter()
        gc.disable()  # numba makes millions of objects, few of them garbage in cycles
        try:
            for number, (name, call) in enumerate(parts.items(), 1):
                if progress is not None:
                    progress(name, number, len(parts))
                call()
        finally:
            gc.freeze()  # what numba has made stays; looking through it takes a second
            gc.enable()
        _set_complete(folder)
        return time.perf_counter() - start


def run_background() -> None:
    """Compile all kernels at the lowest priority: the main function of the background process.

    On Linux it runs only while a processor is idle.
    """
    if hasattr(os, "nice"):
        os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    compile_kernels(cache_folder(), waits=False)


def start_background(report: Callable[[str], None]) -> bool:
    """Start a process that compiles all kernels; return whether one runs now.

    It outlives this process. Nothing is started while another process compiles for the same folder.

    Parameters
    ----------
    report
        Called with one sentence if the process fails, from another thread.
    """
    import subprocess

    folder = cache_folder()
    with _turn(folder, waits=False) as is_free:
        pass
    if not is_free:
        return True
    if not Path(sys.executable or "").name.startswith("python"):
        return False  # an application that embeds Python: starting it again would start the application
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(path=[os.path.abspath(entry) for entry in sys.path])],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd=folder, env=os.environ | {"NUMBA_CACHE_DIR": str(folder.parent)}, start_new_session=True,
    )  # fmt: skip

    def reap() -> None:
        status = process.wait()
        if status != 0:
            report(f"the process that compiles the kernels ended with status {status}")

    threading.Thread(target=reap, name="gpu_wcoj compilation", daemon=True).start()
    return True

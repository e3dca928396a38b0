"""Machine code kept on disk, so that only the first run ever compiles.

numba's own cache stands beside the sources, so it is lost when the package moves and impossible where its folder is
read-only; and it looks at one file only, so an edited function lives on in the functions of other files that call it.
Here all compiled functions share one folder, whose name says what the code was compiled from and by:

    $NUMBA_CACHE_DIR/cpu_fallback-<version of numba>-<hash of every source of this package>

or the same below the user's own cache folder. A copy of the package in another place finds that folder again, an
edited one gets another. Inside, numba tells apart versions of Python, processors and argument types. The files are
pickles, so the folder is never one that other users can write to, unless NUMBA_CACHE_DIR says so.

Processes that start side by side share the work: while one compiles a function, the others that need it wait for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.types import unliteral

_LOGGER = logging.getLogger("gpu_wcoj")

MAX_FOLDERS = 8
"""Folders of this kind that stay when one more is made; the oldest go."""

PATIENCE = 120.0
"""Seconds for which a process waits for another one that compiles the same function, which may have been stopped."""


def sources_hash(package: Path) -> str:
    """Hash of the names and contents of all Python files of a package."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where the machine code of these sources belongs; it need not exist."""
    if numba.config.CACHE_DIR:
        parent = Path(numba.config.CACHE_DIR)
    elif sys.platform == "darwin":
        parent = Path("~/Library/Caches/gpu_wcoj").expanduser()
    else:
        cache_home = os.environ.get("XDG_CACHE_HOME", "")
        parent = Path(cache_home if os.path.isabs(cache_home) else "~/.cache").expanduser() / "gpu_wcoj"
    return parent / f"cpu_fallback-{numba.__version__}-{sources_hash(Path(__file__).parent)}"


try:
    FOLDER: Path | None = cache_folder()
except RuntimeError as error:  # a user without a home
    FOLDER = None
    _LOGGER.warning("Compiled kernels are not kept (%s): set NUMBA_CACHE_DIR to a folder.", error)


class Locator:
    """Tells numba where the code of one function is kept: all in `FOLDER`, told apart by module and name."""

    def __init__(self, function: Any, file: str, folder: Path) -> None:
        self._py_file = file  # numba names it in its warnings
        self._folder = folder
        self._module = str(function.__module__)

    @classmethod
    def from_function(cls, function: Any, file: str) -> Locator:
        """The locator of a function."""
        assert FOLDER is not None  # without a folder `cached_njit` leaves numba without a cache
        return cls(function, file, FOLDER)

    def get_cache_path(self) -> str:
        """Path of the folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What the code was compiled from: the folder's name."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """What tells two functions of the same name apart."""
        return self._module

    def ensure_cache_path(self) -> None:
        """Make the folder; where it is new, remove the oldest of its kind."""
        if self._folder.is_dir():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # another process may be at it too
            folders = self._folder.parent.glob("cpu_fallback-*")
            for old in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[MAX_FOLDERS:]:
                shutil.rmtree(old, ignore_errors=True)


class KernelCacheImpl(CompileResultCacheImpl):
    """What is kept of a compiled function is numba's affair; where, is `Locator`'s."""

    _locator_classes = (Locator,)


class KernelCache(FunctionCache):
    """numba's cache of one function in `FOLDER`, safe for processes that start side by side.

    It never fails a call: code that cannot be read or kept is compiled, and one line in the log says so.
    """

    _impl_class = KernelCacheImpl
    _turn: int | None = None
    """While this process compiles the function: the file that says so, open and locked."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kept code for a signature, or None: then it is this process's turn to compile, until it keeps the code.

        If compiling fails, the turn is lost with the process, or the patience of those that wait.
        """
        overload = self._load_stored(sig, target_context)
        if overload is None and self._turn is None:
            self._wait()
            overload = self._load_stored(sig, target_context)
            if overload is not None:
                self._give_way()
        return overload

    def _load_stored(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a damaged file raises whatever its bytes happen to say
            self._report(error)
            with contextlib.suppress(OSError):
                self.flush()  # else its index could not be added to, now or ever
            return None

    def _wait(self) -> None:
        """Until no other process compiles this function, or for as long as there is patience."""
        try:
            self._impl.locator.ensure_cache_path()
            file = os.open(Path(self.cache_path) / f"{self._impl.filename_base}.turn", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:  # nothing can be kept there, which is reported when it is tried
            return
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(0.02)
                    continue
                os.close(file)
            except OSError:  # a file system without locks
                os.close(file)
            else:
                self._turn = file
            return

    def _give_way(self) -> None:
        if self._turn is not None:
            file, self._turn = self._turn, None
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)  # where a process has been forked meanwhile, closing is not enough
            os.close(file)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature. One process at a time: each reads the index, adds to it and writes it."""
        try:
            self._impl.locator.ensure_cache_path()
            with (Path(self.cache_path) / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                super().save_overload(sig, data)
        except Exception as error:  # it reads the index, too
            self._report(error)
        finally:
            self._give_way()

    def _report(self, error: Exception) -> None:
        if self.cache_path not in _REPORTED:
            _REPORTED.add(self.cache_path)
            _LOGGER.warning(
                "Compiled kernels cannot be kept in %s (%s), so every start compiles them. "
                "Set NUMBA_CACHE_DIR to a folder that can be written to.", self.cache_path, error
            )  # fmt: skip


_REPORTED: set[str] = set()
"""Folders that were complained about."""


def cached_njit(function: Callable[..., Any]) -> Any:
    """Compile a function for each kind of arguments it is called with, without the GIL, and keep the code on disk.

    A constant that one compiled function gives to another has its plain type there: numba would compile the callee once
    more for each constant.
    """
    dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True)(function)
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(
        tuple(map(unliteral, args)), dict(zip(kws, map(unliteral, kws.values()), strict=True))
    )
    if FOLDER is not None:
        dispatcher._cache = KernelCache(function)  # what `cache=True` does, with numba's own cache
    return dispatcher

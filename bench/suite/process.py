"""A process that is asked things one after the other, and ended where it takes too long; and the loop that it runs.

Those of the engine are forked by one process that has its kernels loaded, which each would else spend a second on.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import json
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.suite.contender import MissingError, NotForThisError

ROOT = Path(__file__).parents[2]
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["bench.suite.forking", "bench.suite.loaded"])
_FRESH = multiprocessing.get_context("spawn")

Opened = Callable[[Any, Path], Callable[[str], dict[str, Any]]]
"""Takes a task and a folder of its own, and returns what answers commands."""


class StoppedError(RuntimeError):
    """A contender came to no end, or could not start; the message says why.

    Attributes
    ----------
    kind
        ``MissingError`` and ``NotForThisError`` are those of `bench.suite.contender`, ``limit`` is the limit.
    computed
        At the limit, seconds for which it had computed since it was told what to do; None where that is not known.
    """

    def __init__(self, kind: str, message: str, computed: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.computed = computed


class Process:
    """Starts a process; used as a context, it is ended whatever happens.

    Parameters
    ----------
    opened
        What answers its commands; a function of a module.
    task
        What it is for, pickled.
    threads
        For libraries that go by the environment.
    limit_bytes
        Of its address space; None for no limit.
    is_loaded
        Whether it begins with the engine and its kernels; else with nothing but Python.

    Raises
    ------
    RuntimeError
        If it cannot begin with the engine.
    """

    def __init__(
        self, opened: Opened, task: Any, threads: int, limit_bytes: int | None = None, *, is_loaded: bool = True
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-suite-")
        self._errors = Path(self._folder.name) / "errors"
        self._computed: float | None = None
        self._is_killed = False
        self._connection, other = multiprocessing.Pipe()
        asked = (pickle.dumps((opened, task)), Path(self._folder.name), threads, limit_bytes, is_loaded, other)
        self._process: BaseProcess = (_FORKING if is_loaded else _FRESH).Process(target=_served, args=asked)
        try:
            self._process.start()
        except EOFError:
            raise RuntimeError("bench.suite.loaded cannot be loaded, for the reason that stands above") from None
        other.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def tell(self, command: str) -> None:
        """Let it begin with a command, whose answer `hear` waits for."""
        self._computed = computed(self.pid)
        with suppress(BrokenPipeError, ConnectionResetError):  # `hear` says what became of it
            self._connection.send_bytes(command.encode())

    def hear(self, limit: float) -> dict[str, Any]:
        """The answer to the command.

        Raises
        ------
        StoppedError
            If it has none within so many seconds, and is ended, or says that it cannot.
        """
        if not self._connection.poll(limit):
            both = self._computed, computed(self.pid)
            self.kill()
            spent = None if both[0] is None or both[1] is None else both[1] - both[0]
            raise StoppedError("limit", f"stopped after {limit:g} s", spent)
        try:
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            self._process.join()
            said = self._errors.read_text(errors="replace").strip().splitlines() if self._errors.exists() else []
            last = f": {said[-1][:300]}" if said else ""
            raise StoppedError("ended", f"its process ended with {self._process.exitcode}{last}") from None
        if "error" in answer:
            raise StoppedError(answer["error"], answer["message"])
        return answer

    def ask(self, command: str, limit: float) -> dict[str, Any]:
        """`tell`, then `hear`."""
        self.tell(command)
        return self.hear(limit)

    def to_core(self, number: int) -> None:
        """Let its main thread go on on this one of the cores that it may use, counted around; where Linux lets it."""
        if sys.platform == "linux":
            cores = sorted(os.sched_getaffinity(0))
            with suppress(OSError):
                os.sched_setaffinity(self.pid, {cores[number % len(cores)]})

    def kill(self) -> None:
        """End it and whatever it has started, also where it has ended, or what has forked it has."""
        if not self._is_killed:
            self._is_killed = True
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.kill()  # where it has not come to lead a group yet
            self._process.join()

    def __enter__(self) -> Self:
        return self

    def end(self) -> None:
        """Let it end in good order, if it has not ended yet."""
        if self._process.is_alive():
            with suppress(StoppedError):
                self.ask("end", 10.0)
                self._process.join(10.0)
        self.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
        self.kill()
        self._connection.close()
        self._process.close()
        self._folder.cleanup()


def computed(pid: int) -> float | None:
    """Seconds for which all threads of a process have computed; None where the system does not tell, or it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _served(
    asked: bytes, folder: Path, threads: int, limit_bytes: int | None, is_loaded: bool, connection: Connection
) -> None:
    """Answer commands until there are none or one says ``end``; whatever is printed goes to the folder's ``errors``."""
    os.setsid()
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    errors = os.open(folder / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if is_loaded:
        importlib.import_module("bench.suite.loaded")  # which has been done, or it says why that cannot be
    opened, task = pickle.loads(asked)
    answer_to = opened(task, folder)
    command = ""
    while command != "end":
        try:
            command = connection.recv_bytes().decode()
        except EOFError:
            break
        try:
            answer = answer_to(command)
        except (MissingError, NotForThisError) as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        except MemoryError as error:
            answer = {"error": "MemoryError", "message": f"out of memory: {error}"}
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            answer = {"error": type(error).__name__, "message": f"{type(error).__name__}: {first}"[:500]}
        connection.send_bytes(json.dumps(answer).encode())
    # What libraries have to do at the end is done, but modules are not taken apart, which is a fifth of a second.
    sys.stdout.flush()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - there is no public name for it
    os._exit(0)


def _end_with_parent() -> None:
    """When the process that asked for this one is gone, let this one and what it has started be killed.

    Linux does so itself, whatever this one is at then.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel
    if sys.platform == "linux":
        fcntl.fcntl(sentinel, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(sentinel, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)
        if not wait([sentinel], 0):
            return

    def end() -> None:
        wait([sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end, daemon=True).start()

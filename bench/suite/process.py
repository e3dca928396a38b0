"""A process that is asked things one after the other, and ended where it takes too long; and the loop that it runs."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.suite.contender import MissingError, NotForThisError

ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1


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
    module
        Its main module, which calls `serve`.
    task
        What it is for, pickled.
    threads
        For libraries that go by the environment.
    limit_bytes
        Of its address space; None for no limit.
    """

    def __init__(self, module: str, task: Any, threads: int, limit_bytes: int | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-suite-")
        folder = Path(self._folder.name)
        (folder / "task").write_bytes(pickle.dumps((task, limit_bytes)))
        self._errors = (folder / "errors").open("w+")
        self._computed: float | None = None
        own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, **own}, start_new_session=True,
        )  # fmt: skip

    def tell(self, command: str) -> None:
        """Let it begin with a command, whose answer `hear` waits for."""
        assert self._process.stdin is not None
        self._computed = computed(self._process.pid)
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `hear` says what became of it

    def hear(self, limit: float) -> dict[str, Any]:
        """The answer to the command.

        Raises
        ------
        StoppedError
            If it has none within so many seconds, and is ended, or says that it cannot.
        """
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], limit)
        if not ready:
            both = self._computed, computed(self._process.pid)
            self.kill()
            spent = None if both[0] is None or both[1] is None else both[1] - both[0]
            raise StoppedError("limit", f"stopped after {limit:g} s", spent)
        line = stdout.readline()
        if not line:
            status = self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines()
            last = f": {said[-1][:300]}" if said else ""
            raise StoppedError("ended", f"its process ended with {status}{last}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StoppedError(answer["error"], answer["message"])
        return answer

    def ask(self, command: str, limit: float) -> dict[str, Any]:
        """`tell`, then `hear`."""
        self.tell(command)
        return self.hear(limit)

    def kill(self) -> None:
        """End it and whatever it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def end(self) -> None:
        """Let it end in good order, if it has not ended yet."""
        if self._process.poll() is None:
            try:
                self.ask("end", 10.0)
                self._process.wait(10.0)
            except (StoppedError, subprocess.TimeoutExpired):
                pass
        self.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:
                pass  # what was not read any more
        self._folder.cleanup()


def computed(pid: int) -> float | None:
    """Seconds for which all threads of a process have computed; None where the system does not tell, or it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def serve(opened: Callable[[Any, Path], Callable[[str], dict[str, Any]]]) -> None:
    """Answer lines of the standard input with lines of JSON, until there are none or one says ``end``.

    Whatever else is printed goes to the standard error.

    Parameters
    ----------
    opened
        Takes the task and a folder of its own, and returns what answers a line.
    """
    _end_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder = Path(sys.argv[1])
    task, limit_bytes = pickle.loads((folder / "task").read_bytes())
    if limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
    answer_to = opened(task, folder)
    for line in sys.stdin:
        command = line.strip()
        try:
            answer = answer_to(command)
        except (MissingError, NotForThisError) as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        except MemoryError as error:
            answer = {"error": "MemoryError", "message": f"out of memory: {error}"}
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            answer = {"error": type(error).__name__, "message": f"{type(error).__name__}: {first}"[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if command == "end":
            break
    # What libraries have to do at the end is done, but modules are not taken apart, which is a fifth of a second.
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - there is no public name for it
    os._exit(0)


def _end_with_parent() -> None:
    """Where Linux can, let this process be killed when the thread that started it ends, whatever it is at."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))

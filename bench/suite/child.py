"""The process of one contender at one case, and the commands that it answers.

A command is the name of a method of `Session`, one of `COMMANDS`.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.suite.contender import Contender, Setting
from bench.suite.memory import forget_peak, peak_bytes
from bench.suite.record import How
from bench.suite.registry import factory
from bench.suite.workload import Stream, Workload

COMMANDS = ("warm", "load", "forward", "back", "count", "digest", "memory", "end")


@dataclass(frozen=True)
class Task:
    """What the process is for.

    Attributes
    ----------
    stream, tiny
        Folders with the rows of the case, and of the small one that is run first.
    """

    contender: str
    workload: Workload
    how: How
    threads: int
    stream: Path
    tiny: Path


class Session:
    """The contender, and the rows that it is fed."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.contender: Contender | None = None
        self.stream = Stream({}, ())
        self.batches: list[Any] = []
        self.inverse: list[Any] = []
        self.n_built = 0
        self.most = self.loaded = 0

    def build(self, n_ticks: int) -> Contender:
        """A new contender with an empty folder of its own; the one before is closed."""
        self.end()
        self.n_built += 1
        own = self.folder / f"own {self.n_built}"
        own.mkdir()
        task = self.task
        self.contender = factory(task.contender)(Setting(task.workload, task.how, task.threads, own, n_ticks))
        return self.contender

    def warm(self) -> dict[str, Any]:
        """Run the small case, so that nothing is compiled later on; say what the contender is."""
        tiny = Stream.read(self.task.tiny)
        contender = self.build(len(tiny.ticks))
        contender.load(tiny.state)
        for tick in tiny.ticks:
            contender.tick(contender.prepare(tick))
            contender.work()
        if contender.about.takes_deletions:
            for tick in reversed(tiny.ticks):
                contender.tick(contender.prepare({name: change.undone() for name, change in tick.items()}))
        about = asdict(contender.about)
        self.end()
        return about

    def load(self) -> dict[str, Any]:
        """Build the contender for the case and load the state; again for a contender that takes no deletions."""
        if not self.batches:
            self.stream = Stream.read(self.task.stream)
        else:
            gc.unfreeze()  # what is left of the one before is looked through once more
        contender = self.build(len(self.stream.ticks))
        if not self.batches:
            self.batches = [contender.prepare(tick) for tick in self.stream.ticks]
            if contender.about.takes_deletions:
                undone = [{name: change.undone() for name, change in tick.items()} for tick in self.stream.ticks]
                self.inverse = [contender.prepare(tick) for tick in reversed(undone)]
        gc.collect()
        forget_peak()
        before = peak_bytes()
        start = time.perf_counter()
        contender.load(self.stream.state)
        seconds = time.perf_counter() - start
        self.most = peak_bytes()
        gc.collect()
        gc.freeze()  # all that is there now is not looked through again, neither before rounds nor within them
        forget_peak()
        self.loaded = peak_bytes()
        return {"seconds": seconds, "before_bytes": before}

    def forward(self) -> dict[str, Any]:
        """Take all ticks, and add up what they counted."""
        return self._timed(self.batches)

    def back(self) -> dict[str, Any]:
        """Take them back, the last one first."""
        return self._timed(self.inverse)

    def _timed(self, batches: Sequence[Any]) -> dict[str, Any]:
        contender = self.contender
        assert contender is not None
        changes, seconds, cpu_seconds = [], [], []
        counted: dict[str, int] | None = None
        gc.collect()
        forget_peak()
        before = peak_bytes()  # what was asked since the state was loaded may have left something
        for batch in batches:
            start, computed = time.perf_counter(), time.process_time()
            outcome = contender.tick(batch)
            passed, worked = time.perf_counter() - start, time.process_time() - computed
            changes.append(outcome.net)
            seconds.append(passed if outcome.seconds is None else outcome.seconds)
            cpu_seconds.append(worked if outcome.cpu_seconds is None else outcome.cpu_seconds)
            work = contender.work()
            if work is not None:
                own = {name: value for name, value in asdict(work).items() if value is not None}
                counted = {name: value + (counted or {}).get(name, 0) for name, value in own.items()}
        self.most = max(self.most, self.loaded + peak_bytes() - before)
        return {"changes": changes, "seconds": seconds, "cpu_seconds": cpu_seconds, "work": counted}

    def count(self) -> dict[str, Any]:
        """Rows of the whole answer."""
        assert self.contender is not None
        return {"count": self.contender.count()}

    def digest(self) -> dict[str, Any]:
        """Of the rows of the whole answer."""
        assert self.contender is not None
        return {"digest": self.contender.digest()}

    def memory(self) -> dict[str, Any]:
        """The most that it took to load the state and to take ticks, and what the state is said to take."""
        assert self.contender is not None
        return {"peak_bytes": self.most, "state_bytes": self.contender.state_bytes()}

    def end(self) -> dict[str, Any]:
        """Close the contender, if there is one."""
        contender, self.contender = self.contender, None
        if contender is not None:
            contender.close()
            shutil.rmtree(self.folder / f"own {self.n_built}", ignore_errors=True)
        return {}


def opened(task: Task, folder: Path) -> Callable[[str], dict[str, Any]]:
    """What answers the commands."""
    session = Session(task, folder)
    commands: dict[str, Callable[[], dict[str, Any]]] = {name: getattr(session, name) for name in COMMANDS}
    return lambda command: commands[command]()

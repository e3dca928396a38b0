"""Contenders that are not to be trusted, for the tests of the benchmark suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np

from bench.suite.contender import About, MissingError, NotForThisError, Outcome
from bench.suite.digest import digest
from bench.suite.record import Work


class Honest:
    """Triangles among oriented edges, by looking at all pairs of them."""

    about = About(version="1")

    def __init__(self, setting):
        self.setting = setting
        self.rows = set()
        self.found = set()

    def load(self, state):
        (rows,) = state.values()
        self.rows = set(map(tuple, rows.tolist()))
        self.found = self._triangles()

    def _triangles(self):
        out = {}
        for a, b in self.rows:
            out.setdefault(a, set()).add(b)
        return {(a, b, c) for a, b in self.rows for c in out[a] & out.get(b, set())}

    def prepare(self, tick):
        return [
            (set(map(tuple, one.inserted.tolist())), set(map(tuple, one.deleted.tolist()))) for one in tick.values()
        ]

    def tick(self, prepared):
        before = len(self.found)
        for inserted, deleted in prepared:
            self.rows = (self.rows - deleted) | inserted
        self.found = self._triangles()
        return Outcome(len(self.found) - before)

    def work(self):
        return Work(probes=len(self.rows))

    def count(self):
        return len(self.found)

    def digest(self):
        return digest(np.array(sorted(self.found), np.int64).reshape(-1, 3))

    def state_bytes(self):
        return None

    def close(self):
        (self.setting.folder / "closed").touch()


class Liar(Honest):
    """Is right about how many rows there are before the ticks, and one off after each insertion."""

    def tick(self, prepared):
        true = super().tick(prepared)
        return Outcome(true.net + sum(len(inserted) for inserted, _ in prepared) - 1)


class Forger(Honest):
    """Counts right, and has other rows."""

    def digest(self):
        return digest(np.array(sorted(self.found), np.int64).reshape(-1, 3) + 1)


class Inconstant(Honest):
    """Is right in the first round."""

    n_ticks = 0

    def tick(self, prepared):
        self.n_ticks += 1
        return Outcome(super().tick(prepared).net + (self.n_ticks > 4))


class Sleeper(Honest):
    """Takes its time, once it has warmed up."""

    def tick(self, prepared):
        if len(self.rows) > 250:
            time.sleep(60)
        return super().tick(prepared)


class Toiler(Honest):
    """Computes all the time, once it has warmed up."""

    def tick(self, prepared):
        while len(self.rows) > 250:
            pass
        return super().tick(prepared)


class Straggler(Honest):
    """Takes its time for the way back, once it has warmed up."""

    def __init__(self, setting):
        super().__init__(setting)
        self.ticks = 0

    def tick(self, prepared):
        self.ticks += len(self.rows) > 250
        if self.ticks > 2:
            time.sleep(60)
        return super().tick(prepared)


class Deserter(Honest):
    """Its process ends."""

    def load(self, state):
        super().load(state)
        if len(self.rows) > 250:
            os._exit(7)


class Keeper(Honest):
    """Takes no deletions, so it is loaded anew for each round."""

    about = About(takes_deletions=False)

    def prepare(self, tick):
        assert not any(len(one.deleted) for one in tick.values())
        return super().prepare(tick)


class OwnClock(Honest):
    """Measures its own ticks."""

    def tick(self, prepared):
        return Outcome(super().tick(prepared).net, seconds=1.5, cpu_seconds=2.5)


def absent(setting):
    raise MissingError("the library is not installed")


def unfit(setting):
    raise NotForThisError("it counts stars only")


def worker(task, folder):
    """Answers commands of `bench.suite.process` itself, with a process that it has started."""
    if task is not None:
        raise ValueError(f"there is no task {task!r}")
    other = subprocess.Popen(["sleep", "1000"])

    def answer(command):
        if command == "compute":
            while True:
                pass
        if command == "compute and let nobody else":
            return {"sum": sum(range(10**13))}
        if command == "sleep":
            time.sleep(1000)
        if command == "kernels":
            return {"n": _kernels()}
        if command == "handlers":
            found = {one.name: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
            return {name: getattr(handler, "__name__", getattr(handler, "name", "")) for name, handler in found.items()}
        return {"pids": [os.getpid(), other.pid]}

    return answer


def _kernels():
    """How many kernels are compiled."""
    if "numba" not in sys.modules:
        return 0
    from numba.core.dispatcher import Dispatcher

    modules = [module for name, module in sys.modules.items() if name.startswith("cpu_fallback.")]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)]
    return sum(len(one.overloads) for one in found)

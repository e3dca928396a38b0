"""The Rust crate differential-dogs3: its delta query, and its worst-case-optimal delta query, for directed triangles.

The program of `bench.rivals.dogs3` reads ticks from its standard input, and measures itself. It makes every triangle
that comes or goes, in its own memory, whether they are only counted or not.
"""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import numpy as np
import psutil

from bench.rivals import dogs
from bench.suite.contender import About, MissingError, NotForThisError, Outcome, Setting
from bench.suite.record import Work
from bench.suite.workload import Change, Pattern, State, Tick

LARGEST = 2**32 - 1
"""Of the vertices' numbers."""


def delta(setting: Setting) -> Dogs3:
    """Lookups in an order that is chosen once."""
    return _made(setting, "delta")


def wcoj(setting: Setting) -> Dogs3:
    """Of the two atoms with the third variable, the one with fewer values proposes."""
    return _made(setting, "wcoj")


def _made(setting: Setting, query: dogs.Query) -> Dogs3:
    pattern = setting.workload.pattern
    if pattern is None or not is_triangle(pattern):
        raise NotForThisError("the program is written for the triangles e(a, b), e(b, c), e(a, c) of one relation")
    program = dogs.built()
    if program is None:
        raise MissingError(
            "the program of differential-dogs3 is not built: make bench-rivals builds it, where cargo is"
        )
    return Dogs3(str(program), query, pattern.atoms[0][0])


def is_triangle(pattern: Pattern) -> bool:
    """Whether it is e(a, b), e(b, c), e(a, c) in other words, and nothing else.

    Examples
    --------
    >>> is_triangle(Pattern((("r", ("y", "z")), ("r", ("x", "z")), ("r", ("x", "y")))))
    True
    >>> is_triangle(Pattern((("r", ("x", "y")), ("r", ("y", "z")), ("r", ("z", "x")))))
    False
    """
    if pattern.comparisons or len({relation for relation, _ in pattern.atoms}) > 1:
        return False
    edges = {variables for _, variables in pattern.atoms}
    if len(pattern.atoms) != 3 or len(edges) != 3 or {len(edge) for edge in edges} != {2}:
        return False
    return any({(a, b), (b, c), (a, c)} == edges for a, b in edges for _, c in edges if len({a, b, c}) == 3)


class Dogs3:
    """A process that takes ticks."""

    def __init__(self, program: str, query: dogs.Query, relation: str) -> None:
        self.relation = relation
        self.process = subprocess.Popen([program, "-", query], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.total = 0

    @property
    def about(self) -> About:
        """It counts on one thread."""
        return About(_version(), notes={"threads": 1})

    def load(self, state: State) -> None:
        """One tick that inserts all."""
        rows = state[self.relation]
        self._send(_packed(Change(rows, rows[:0])))

    def prepare(self, tick: Tick) -> bytes:
        """As the program reads it."""
        none = np.empty((0, 2), np.int64)
        return _packed(tick.get(self.relation, Change(none, none)))

    def tick(self, prepared: bytes) -> Outcome:
        """In the seconds that the program says."""
        found = self._send(prepared)
        return Outcome(found["triangles"], found["seconds"], found["cpu"])

    def _send(self, packed: bytes) -> dict[str, Any]:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(packed)
        stdin.flush()
        line = stdout.readline()
        if not line:
            status = self.process.wait()
            if status == -signal.SIGABRT:  # what a Rust program does that gets no memory
                raise MemoryError("the process of dogs3 was given no more")
            raise RuntimeError(f"dogs3 ended with {status}")
        found: dict[str, Any] = json.loads(line)
        self.total += found["triangles"]
        return found

    def work(self) -> Work | None:
        """It counts none."""
        return None

    def count(self) -> int:
        """The sum of all changes."""
        return self.total

    def digest(self) -> str | None:
        """It gives no rows away."""
        return None

    def state_bytes(self) -> int | None:
        """What its process holds."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def close(self) -> None:
        """End the process."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.kill()
        self.process.wait()


def _packed(change: Change) -> bytes:
    rows = np.concatenate([change.inserted, change.deleted])
    if len(rows) and not 0 <= rows.min() <= rows.max() <= LARGEST:
        raise NotForThisError(f"vertices are numbers from 0 to {LARGEST}, and there is {rows.min()} or {rows.max()}")
    weights = np.repeat(np.array([1, -1]), [len(change.inserted), len(change.deleted)])
    body = np.column_stack([rows, weights[:, None]]).astype(np.int64).astype("<u4")
    return len(rows).to_bytes(4, "little") + body.tobytes()


def _version() -> str | None:
    for line in (dogs.SOURCE / "Cargo.toml").read_text().splitlines():
        if line.startswith("differential-dogs3"):
            return line.partition('"=')[2].rstrip('"')
    return None

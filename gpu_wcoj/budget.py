"""Limits of one tick or query: its seconds, its bytes and the rows of its answers.

Memory is limited in two ways. What is known exactly, the arrays of the state and the rows that a head gathers, is
added up. All else, such as buffers, sorts, dictionaries and objects of Python, is measured: work asks with `reserve`
before it allocates much, and the growth of the process is compared with the limit. Without a limit of its own, work is
limited by the memory of the machine.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from gpu_wcoj.errors import MemoryBudgetError, RowBudgetError, TimeBudgetError, counted
from gpu_wcoj.units import available_memory, format_bytes, machine_memory, resident_memory

MEASURED_FROM = 16 << 20
"""Bytes of one request from which on the process is measured before they are allocated: they take longer to write."""

MEASURED_EVERY = 0.01
"""Seconds after which a smaller request has the process measured, too: 40 microseconds, so 4 in 1,000."""

UNCHARGED = 256 << 20
"""Bytes by which the process may grow beside a limit, for packages, machine code and what the allocator keeps: up to
231 MB in a fresh process that first loads numba and DuckDB. So what else holds memory in a process stops no small tick
of a program without a limit."""

DEFAULT_SHARE = 0.8
"""Share of the machine's memory that the process may have if a program has no limit, as in DuckDB."""

COMPARED_FROM = 64 << 20
"""Bytes of one request from which on they are compared with the free memory of the machine."""

PAUSE = 1.0
"""Seconds without a measurement after which the next one is of new work."""

TEXT_BYTES = 100
"""Bytes of a text or a wide number in a dictionary: its object of Python, and its place in a list and in a map."""


@dataclass(eq=False)
class Budget:
    """Limits of one piece of work; None for no limit.

    Joins check it between pieces of rows, and recursions between iterations, also on several threads. It limits
    nothing outside of `running`.

    Attributes
    ----------
    seconds
        Maximum seconds.
    nbytes
        Maximum bytes of the state and of what the work allocates beside it.
    rows
        Maximum rows of an answer, or of its change in one tick.

    Examples
    --------
    >>> budget = Budget(rows=2)
    >>> with budget.running():
    ...     budget.check_rows("hop", 3)
    Traceback (most recent call last):
    gpu_wcoj.errors.RowBudgetError: 'hop' has more rows than limit=2 allows.
      Nothing was changed. Raise limit, or let the query keep fewer rows.
    """

    seconds: float | None = None
    nbytes: int | None = None
    rows: int | None = None
    _deadline: float = math.inf
    _state_bytes: int = 0
    _resident_before: int = 0
    _is_running: bool = False

    @contextmanager
    def running(self, state_bytes: int = 0) -> Generator[None]:
        """Limit the work inside the context.

        Parameters
        ----------
        state_bytes
            Bytes of the state before the work.
        """
        self._deadline = math.inf if self.seconds is None else time.monotonic() + self.seconds
        self._state_bytes, self._is_running = state_bytes, True
        self._resident_before = 0 if self.nbytes is None else resident_memory()
        try:
            if self.nbytes is not None:
                with _lock:
                    _process.limited += (self,)
            yield
        finally:
            self._deadline, self._is_running = math.inf, False
            if self.nbytes is not None:
                with _lock:
                    _process.limited = tuple(budget for budget in _process.limited if budget is not self)

    @property
    def is_nearly_full(self) -> bool:
        """True if the state before the work has reached 9 tenths of its maximum."""
        return self.nbytes is not None and 10 * self._state_bytes > 9 * self.nbytes

    def check_time(self) -> None:
        """Raise `TimeBudgetError` if the work has taken too long."""
        if time.monotonic() > self._deadline:
            raise TimeBudgetError(
                f"the work takes longer than timeout={self.seconds:g} seconds allow.\n"
                "  Nothing was changed. Raise timeout, use smaller ticks, or look at explain(bounds=True)."
            )

    def check_rows(self, name: str, n_rows: int) -> None:
        """Raise `RowBudgetError` if so many rows of an answer are too many."""
        if self._is_running and self.rows is not None and n_rows > self.rows:
            raise RowBudgetError(
                f"'{name}' has more rows than limit={self.rows:,} allows.\n"
                "  Nothing was changed. Raise limit, or let the query keep fewer rows."
            )

    def check_gathered(self, n_bytes: int, what: str, n_rows: int) -> None:
        """Raise `MemoryBudgetError` if so many bytes of rows do not fit beside the state."""
        if self._is_exceeded_by(self._state_bytes + n_bytes):
            raise self._error(what, n_rows, n_bytes, self._state_bytes)

    def check_state(self, n_bytes: int) -> None:
        """Raise `MemoryBudgetError` if the state after a tick is too large."""
        if self._is_exceeded_by(n_bytes):
            raise self._error("the state after the tick", 0, n_bytes, 0)

    def check_process(self, n_bytes: int, what: str, n_rows: int) -> None:
        """Raise `MemoryBudgetError` if the process may not grow by so many bytes."""
        if self.nbytes is None or not self._is_exceeded_by(self.used(resident_memory()) + n_bytes - UNCHARGED):
            return
        _return_freed()
        used = self.used(resident_memory())
        if self._is_exceeded_by(used + n_bytes - UNCHARGED):
            raise self._error(what, n_rows, n_bytes, used)

    def used(self, resident: int) -> int:
        """Return the bytes of the state before the work, and by which the process has grown since."""
        return self._state_bytes + max(0, resident - self._resident_before)

    def _is_exceeded_by(self, n_bytes: int) -> bool:
        return self._is_running and self.nbytes is not None and n_bytes > self.nbytes

    def _error(self, what: str, n_rows: int, n_bytes: int, used: int) -> MemoryBudgetError:
        assert self.nbytes is not None
        return _exceeded(what, n_rows, n_bytes, used, f"memory={format_bytes(self.nbytes)}")


# Limits of the process. They are of the process and not of a program, because what is measured is.


@dataclass(eq=False)
class _Process:
    """Work with a limit, the time of the next measurement, and the bytes before this work."""

    limited: tuple[Budget, ...] = ()
    measured_at: float = -math.inf
    resident_before: int = 0


_process = _Process()
_lock = threading.Lock()


def reserve(n_bytes: int, what: str = "the rows of the join", n_rows: int = 0) -> None:
    """Raise `MemoryBudgetError` if there is no room for bytes that are about to be allocated.

    O(1): it is called once a buffer, a sort, a piece of rows or an iteration.

    Parameters
    ----------
    what, n_rows
        What needs the bytes and the number of its rows, for the message; 0 for no number.
    """
    now = time.monotonic()
    if n_bytes < MEASURED_FROM and now < _process.measured_at:
        return
    paused, _process.measured_at = now > _process.measured_at + PAUSE, now + MEASURED_EVERY
    for budget in _process.limited:
        budget.check_process(n_bytes, what, n_rows)
    if _process.limited:
        return
    used = resident_memory()
    if paused:
        _process.resident_before = used
    limit = default_limit()
    most = max(limit, _process.resident_before + UNCHARGED)
    if used + n_bytes > most:
        _return_freed()
        used = resident_memory()
    if used + n_bytes > most:
        shown = f"the default memory={format_bytes(limit)} ({DEFAULT_SHARE:.0%} of the machine)"
        raise _exceeded(what, n_rows, n_bytes, used, shown)
    if n_bytes >= COMPARED_FROM and n_bytes > (free := available_memory()):
        raise _exceeded(what, n_rows, n_bytes, used, f"the machine, with {format_bytes(free)} free,")


def remaining_memory() -> int:
    """Return the bytes that may still be allocated, at least `UNCHARGED`."""
    used = resident_memory()
    rooms = [budget.nbytes - budget.used(used) for budget in _process.limited if budget.nbytes is not None]
    return max(UNCHARGED, min([available_memory(), *rooms] if rooms else [available_memory(), default_limit() - used]))


def _exceeded(what: str, n_rows: int, n_bytes: int, used: int, limit: str) -> MemoryBudgetError:
    """Return the error of work that needs more bytes than its limit leaves.

    Examples
    --------
    >>> print(_exceeded("sorting", 70_000_000, 3 * 10**9, 2 * 10**9, "memory=4.0 GB"))
    sorting 70,000,000 rows needs 3.0 GB beside 2.0 GB in use, more than memory=4.0 GB allows.
      Nothing was changed. Raise memory, add a condition, set limit, or ask for counts.
    """
    rows = f" {counted(n_rows, 'row')}" if n_rows else ""
    n_bytes, used = (n_bytes, used) if n_bytes else (used, 0)
    beside = f" beside {format_bytes(used)} in use" if used else ""
    return MemoryBudgetError.with_parts(
        f"{what}{rows} needs {format_bytes(n_bytes)}{beside}, more than {limit} allows",
        subject="memory", got=n_bytes,
        remedy="Nothing was changed. Raise memory, add a condition, set limit, or ask for counts.",
    )  # fmt: skip


@functools.cache
def default_limit() -> int:
    """Return the maximum bytes of the process where no program sets a limit."""
    return int(DEFAULT_SHARE * machine_memory())


def limiting(budget: Budget | None) -> AbstractContextManager[None]:
    """Limit the work inside the context; None for no limit."""
    return nullcontext() if budget is None else budget.running()


def _return_freed() -> None:
    """Return freed memory to the operating system, so that it is not measured."""
    from cpu_fallback.tries import return_freed

    _ = return_freed()

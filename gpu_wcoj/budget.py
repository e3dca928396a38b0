"""Limits of one tick or query: its seconds, its bytes and the rows of its answers."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from gpu_wcoj.errors import MemoryBudgetError, RowBudgetError, TimeBudgetError
from gpu_wcoj.units import format_bytes


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
        Maximum bytes of the state together with the rows of an answer.
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
        try:
            yield
        finally:
            self._deadline, self._is_running = math.inf, False

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

    def check_gathered(self, n_bytes: int) -> None:
        """Raise `MemoryBudgetError` if so many bytes of rows do not fit beside the state."""
        self._check_bytes(self._state_bytes + n_bytes, "the state and the rows that the work gathers")

    def check_state(self, n_bytes: int) -> None:
        """Raise `MemoryBudgetError` if the state after a tick is too large."""
        self._check_bytes(n_bytes, "the state after the tick")

    def _check_bytes(self, n_bytes: int, what: str) -> None:
        if self._is_running and self.nbytes is not None and n_bytes > self.nbytes:
            raise MemoryBudgetError(
                f"{what} need {format_bytes(n_bytes)}, more than memory={format_bytes(self.nbytes)} allows.\n"
                "  Nothing was changed. Raise memory, delete rows, or keep fewer relations."
            )

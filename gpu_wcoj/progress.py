"""A progress bar for long work, shown on terminals only."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS: Final = 0.5
"""Seconds of work before the bar appears."""


class LateBar:
    """A bar on standard error that appears after half a second, and only on a terminal.

    It shows the finished share and the remaining time if the total is known, the speed if `unit` has a name, and the
    time since the start.

    Parameters
    ----------
    unit
        The counted unit, such as ``"rows"``; empty for a progress from 0 to 1.
    """

    def __init__(self, unit: str = "") -> None:
        self._unit = unit
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            text = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}")
            columns = (*text, TimeElapsedColumn(), TextColumn("{task.fields[left]}"), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5)
            self._task = self._bar.add_task("loading", total=None, amount="", left="")
            self._timer = threading.Timer(DELAY_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def update(self, what: str, done: float | None, total: float | None = 1.0) -> None:
        """Set the text and the progress; None for an unknown `done` or `total`."""
        if self._bar is None or self._task is None:
            return
        total = None if done is None else total
        self._bar.update(self._task, description=what, total=total, completed=done or 0.0)
        speed = self._bar.tasks[0].speed
        amount = [f"{int(100 * done / total)}%"] if done is not None and total else []
        if self._unit and done is not None:
            amount += [f"{done:,.0f} {self._unit}"] + ([f"{speed:,.0f} {self._unit}/s"] if speed else [])
        self._bar.update(self._task, amount=", ".join(amount), left="left:" if total else "")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None and self._timer is not None:
            self._timer.cancel()
            with self._lock:
                self._is_over = True
                self._bar.stop()

    def _show(self) -> None:
        with self._lock:
            if self._bar is not None and not self._is_over:
                self._bar.start()

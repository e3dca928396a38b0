"""A progress bar that appears on long work only, and only where a person is looking."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS: Final = 0.5


class LateBar:
    """A bar on standard error, shown after half a second, and never where standard error is not a terminal."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5)
            self._task = self._bar.add_task("loading", total=None)
            self._timer = threading.Timer(DELAY_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def update(self, what: str, fraction: float | None) -> None:
        """Say what is being done, and how much of all work is done, 0 to 1; None where that is not known."""
        if self._bar is not None and self._task is not None:
            total = None if fraction is None else 1.0
            self._bar.update(self._task, description=what, total=total, completed=fraction or 0.0)

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

"""What most rivals have in common: they count, and say nothing else of themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from bench.suite.contender import NotForThisError, Outcome, Setting
from bench.suite.record import Work


class Counter(ABC):
    """A contender that counts no work, makes no rows, and does not tell what its state takes."""

    @abstractmethod
    def count(self) -> int:
        """See `Contender`."""

    def work(self) -> Work | None:
        """Not known."""
        return None

    def digest(self) -> str | None:
        """There are no rows."""
        return None

    def state_bytes(self) -> int | None:
        """Not known."""
        return None


class Recounter(Counter):
    """One that counts everything after each tick; the change is the difference to the last count.

    Raises
    ------
    NotForThisError
        If rows are asked for.
    """

    def __init__(self, setting: Setting) -> None:
        if setting.how == "rows":
            raise NotForThisError("a recount gives the number of all rows, not the rows that changed")
        self.last = 0

    @abstractmethod
    def take(self, prepared: Any) -> None:
        """Let the rows come and go."""

    def tick(self, prepared: Any) -> Outcome:
        """See `Contender`."""
        self.take(prepared)
        before, self.last = self.last, self.count()
        return Outcome(self.last - before)

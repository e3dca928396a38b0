"""What ends a run before its last case: SIGINT and SIGTERM, of which the first one lets it put things in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


class EndedError(BaseException):
    """The process was told to end."""


@dataclass
class Ending:
    """Which signal came.

    Attributes
    ----------
    signal
        None where none has. A library that was at work may turn `EndedError` into an error of its own, so this is what
        tells whether an error is the signal's.
    """

    signal: signal.Signals | None = None

    @property
    def status(self) -> int:
        """The exit status that shells give to a process that a signal ended."""
        return 0 if self.signal is None else 128 + self.signal

    def heeded(self, say: Callable[[str, float], None]) -> Callable[[str, float], None]:
        """The same, which ends the run first if a signal has come: raised where nobody listens, an error is lost.

        So it is while an object is finalized.
        """

        def both(what: str, share: float) -> None:
            if self.signal is not None:
                raise EndedError(self.signal.name)
            say(what, share)

        return both


@contextmanager
def ending() -> Generator[Ending]:
    """Let the first SIGINT or SIGTERM raise `EndedError`; the next one ends the process at once."""
    found = Ending()
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def ended(number: int, _: FrameType | None) -> None:
        found.signal = signal.Signals(number)
        for one in before:
            signal.signal(one, signal.SIG_DFL)
        raise EndedError(found.signal.name)

    for one in before:
        signal.signal(one, ended)
    try:
        yield found
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

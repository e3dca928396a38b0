"""Who works on a state: one thread at a time, nothing in the middle of its work, and no copy of what has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, get_ident
from typing import NoReturn, Protocol, TypeVar
from weakref import WeakSet

from gpu_wcoj.errors import UsageError

T = TypeVar("T")


class ForkAware(Protocol):
    """What has a lock that a thread may hold while the process is forked."""

    def begin_anew(self) -> None:
        """In the process that was forked: let nobody have the lock whose thread is not here."""
        ...


_EVERY: WeakSet[ForkAware] = WeakSet()


def register_for_forks(lock: ForkAware) -> None:
    """Have `begin_anew` called in every process that is forked from now on, as long as there is the object."""
    _EVERY.add(lock)


class Turns:
    """Lets work on one state happen one after the other.

    Other threads wait for their turn. What is called in the middle of a thread's own turn, by a sink or while rows are
    read, and needs another one, is refused: the state is neither that of before nor that of after.

    Parameters
    ----------
    what
        Has the state, for messages.

    Examples
    --------
    >>> turns = Turns("the program")
    >>> turns.run("taking a tick", lambda: 5)
    5
    >>> turns.run("taking a tick", lambda: turns.run("reading", lambda: 5))
    Traceback (most recent call last):
    ...
    gpu_wcoj.errors.UsageError: reading is not possible now: the program is in the middle of taking a tick.
      Do it when that call has returned.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._lock = Lock()
        self._owner = 0
        self._doing = ""
        register_for_forks(self)

    def run(self, doing: str, work: Callable[[], T]) -> T:
        """Wait for a turn, and work; what `work` returns.

        Raises
        ------
        UsageError
            If this thread has its turn already.
        """
        thread_id = get_ident()
        if (
            self._owner == thread_id and self._lock.locked()
        ):  # an interrupt may have left the owner of a turn that is over
            raise UsageError(
                f"{doing} is not possible now: {self.what} is in the middle of {self._doing}.\n"
                "  Do it when that call has returned."
            )
        # On one line, so that an interrupt between two lines, wherever it comes, leaves no turn taken.
        with self._lock: return self._work(thread_id, doing, work)  # fmt: skip  # noqa: E701

    def _work(self, thread_id: int, doing: str, work: Callable[[], T]) -> T:
        self._owner, self._doing = thread_id, doing
        try:
            return work()
        finally:
            self._owner = 0

    def begin_anew(self) -> None:
        """In a process that was forked: let nobody have the turn whose thread is not here."""
        if self._owner != get_ident():
            self._lock = Lock()


class NotCopied:
    """What has a state that a copy would share, so that it can be neither copied nor pickled."""

    def __reduce_ex__(self, _: object) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"a {name} can be neither copied nor pickled: both would work on one state.\n"
            "  Make another one; or store the state by checkpoint, and restore it, where there are these methods."
        )


def _after_fork() -> None:
    for lock in list(_EVERY):
        lock.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

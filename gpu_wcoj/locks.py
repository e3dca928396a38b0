"""A non-reentrant lock on a program's state; forked children and copies may not use it."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, get_ident
from typing import NoReturn, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from gpu_wcoj.errors import UsageError

T = TypeVar("T")
P = ParamSpec("P")


class ForkAware(Protocol):
    """An object with a lock that a thread may hold while the process is forked."""

    def begin_anew(self) -> None:
        """Release the lock in a forked process if its thread does not exist there."""
        ...


_EVERY: WeakSet[ForkAware] = WeakSet()


def register_for_forks(lock: ForkAware) -> None:
    """Call `begin_anew` in every process that is forked while the object lives."""
    _EVERY.add(lock)


class StateLock:
    """A lock that serialises the work on one state.

    Other threads wait. A call that needs the lock while its thread holds it, from a sink or from an iterator of rows,
    is an error: the state is then neither the one before nor the one after the tick.

    Parameters
    ----------
    what
        The owner of the state, for messages.

    Examples
    --------
    >>> turns = StateLock("the program")
    >>> turns.run("taking a tick", lambda: 5)
    5
    >>> turns.run("taking a tick", lambda: turns.run("reading", lambda: 5))
    Traceback (most recent call last):
    ...
    gpu_wcoj.errors.UsageError: reading is not possible: the program is in the middle of taking a tick.
      Call it after that call has returned.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._lock = Lock()
        self._owner = 0
        self._doing = ""
        register_for_forks(self)

    def run(self, doing: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Wait for the lock, call `work` with the arguments and return its result.

        Raises
        ------
        UsageError
            If this thread holds the lock already.
        """
        thread_id = get_ident()
        if self._owner == thread_id and self._lock.locked():  # an interrupt may have left a stale owner
            raise UsageError.wrong_state(
                doing,
                f"{self.what} is in the middle of {self._doing}",
                "Call it after that call has returned.",
            )
        # On a single line, so that an interrupt between two lines cannot leave the lock acquired.
        with self._lock: return self._work(thread_id, doing, work, *arguments, **named)  # fmt: skip  # noqa: E701

    def _work(self, thread_id: int, doing: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        self._owner, self._doing = thread_id, doing
        try:
            return work(*arguments, **named)
        finally:
            self._owner = 0

    def begin_anew(self) -> None:
        """Release the lock in a forked process if its thread does not exist there."""
        if self._owner != get_ident():
            self._lock = Lock()


class ClosedLock(StateLock):
    """The lock of a state that is gone: every use of it is an error.

    Examples
    --------
    >>> ClosedLock("the program", "Create another one.").run("taking a tick", lambda: 5)
    Traceback (most recent call last):
    ...
    gpu_wcoj.errors.UsageError: taking a tick is not possible: the program is closed.
      Create another one.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self._remedy = remedy

    def run(self, doing: str, work: Callable[P, T], *_: P.args, **__: P.kwargs) -> NoReturn:  # noqa: ARG002
        """Raise a `UsageError`."""
        raise UsageError.wrong_state(doing, f"{self.what} is closed", self._remedy)


class NotCopied:
    """An object that can be neither copied nor pickled: a copy would share its state."""

    def __reduce_ex__(self, _: object) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"a {name} can be neither copied nor pickled: both copies would work on the same state.\n"
            "  Create another one; or store the state with checkpoint() and restore it, if it has these methods."
        )


def _after_fork() -> None:
    for lock in list(_EVERY):
        lock.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

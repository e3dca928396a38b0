"""Subscribers of maintained answers: functions and queues that get every change."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from gpu_wcoj.errors import UsageError, entry_point
from gpu_wcoj.locks import NotCopied, StateLock
from gpu_wcoj.maintained import ProgramAnswers


class Listener:
    """A subscriber of a view; made by `View.subscribe`.

    Examples
    --------
    >>> from gpu_wcoj import view
    >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2)])
    >>> changes = []
    >>> with hops.subscribe(changes.append):
    ...     _ = hops.apply(edge=[(2, 3)])
    >>> _ = hops.apply(edge=[(2, 4)])
    >>> [change.rows() for change in changes]
    [[((1, 3), 1)]]
    """

    def __init__(self, listeners: list[Listener], subscriber: Any) -> None:
        self.listeners = listeners
        self._deliver: Callable[[Any], Any] = subscriber if callable(subscriber) else subscriber.put
        listeners.append(self)

    def deliver(self, change: Any) -> None:
        """Pass a change on to the subscriber."""
        self._deliver(change)

    def close(self) -> None:
        """End the subscription; it may be ended twice."""
        if self in self.listeners:
            self.listeners.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@entry_point
class Subscribable(NotCopied, ProgramAnswers):
    """Answers of a program that pass their changes on to subscribers."""

    listeners: list[Listener]

    def subscribe(self, subscriber: Callable[[Any], Any] | Any, *, snapshot: bool = False) -> Listener:
        """Pass on every change of the answer, in the order of the ticks.

        It gets what `apply` returns, whoever calls that, after the tick; ticks that leave the answer as it was are left
        out. If a subscriber raises, the tick stands, all others get the change, and `apply` raises that error at the
        end.

        Parameters
        ----------
        subscriber
            A function of one argument, or an object with a method ``put``, such as `queue.Queue` or
            `queue.SimpleQueue`.
        snapshot
            True to pass on the present answer first, as a change, even if it has no rows.

        Returns
        -------
        An object with the method ``close``, which ends the subscription; also as a context.

        Raises
        ------
        UsageError
            If it is neither, or the view is closed.

        Examples
        --------
        >>> from queue import SimpleQueue
        >>> from gpu_wcoj import view
        >>> hops, changes = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2)]), SimpleQueue()
        >>> subscription = hops.subscribe(changes)
        >>> _ = hops.apply(edge=[(2, 3)])
        >>> changes.get().rows()
        [((1, 3), 1)]
        """
        if not callable(subscriber) and not callable(getattr(subscriber, "put", None)):
            raise UsageError.wrong_type(
                "the subscriber", subscriber, "a function, or an object with a method 'put'",
                "Pass a function of one argument, or a queue.Queue.",
            )  # fmt: skip
        return self.turns.run("subscribing", lambda: self._subscribe(subscriber, snapshot))

    def _subscribe(self, subscriber: Any, snapshot: bool) -> Listener:
        first = self._present() if snapshot else None
        listener = Listener(self.listeners, subscriber)
        if first is not None:
            listener.deliver(first)
        return listener

    @property
    @abstractmethod
    def turns(self) -> StateLock:
        """The lock of the ticks and of what they pass on."""

    @abstractmethod
    def _present(self) -> Any:
        """Return the present answer as a change."""


def deliver(changes: Iterable[tuple[Sequence[Listener], Any]]) -> None:
    """Pass changes on to their listeners; raise the first error at the end."""
    errors: list[Exception] = []
    for listeners, change in changes:
        for listener in list(listeners):
            try:
                listener.deliver(change)
            except Exception as error:
                errors.append(error)
    if errors:
        errors[0].add_note("A subscriber of the view raised this; the tick was applied.")
        raise errors[0]

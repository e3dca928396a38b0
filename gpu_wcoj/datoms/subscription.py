"""Subscriptions: unread changes, and the present answer of a query."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Self

from gpu_wcoj.datoms.follower import Follower
from gpu_wcoj.errors import UsageError, entry_point
from gpu_wcoj.program import Program
from gpu_wcoj.zset.zset import ZSet


@entry_point
class Subscription:
    """Subscription to the answer of a query; see `gpu_wcoj.datoms.Database.subscribe`.

    Examples
    --------
    >>> from gpu_wcoj.datoms import Database
    >>> db = Database()
    >>> live = db.subscribe("[:find ?city (count ?e) :where [?e :city ?city]]")
    >>> report = db.transact([{":db/id": 1, ":city": "Oslo"}, {":db/id": 2, ":city": "Oslo"}])
    >>> [change.rows() for change in live.changes()]
    [[], [(('Oslo', 2), 1)]]
    >>> live.answer()
    [('Oslo', 2)]
    """

    def __init__(self, follower: Follower, first: ZSet, closed: Callable[[Follower, Subscription], None]) -> None:
        self._follower: Follower | None = follower
        self._unread: deque[ZSet] = deque([first])
        self._closed = closed

    def __repr__(self) -> str:
        state = "closed" if self._follower is None else f"{self._follower.bound_query.text!r:.60}"
        return f"Subscription({state}; {len(self._unread):,} changes to read)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def program(self) -> Program:
        """The program of the answer, for `explain`, `state_rows`, `nbytes` and `last_tick`.

        Subscriptions of equal queries share it; only the database runs its ticks.
        """
        return self._open().program

    def changes(self) -> list[ZSet]:
        """Return the unread changes: the initial answer, then one Z-set per transaction.

        A transaction that does not change the answer gives a Z-set without rows. Unread changes accumulate.
        """
        changes = []
        while self._unread:  # pop singly, so that a concurrent change is not lost
            changes.append(self._unread.popleft())
        return changes

    def answer(self) -> Any:
        """Return the present answer in the shape of ``:find``.

        Returns
        -------
        A list of tuples, or of dicts with ``:keys``; a list of values for a collection; a single row for a tuple and a
        single value for a scalar, or None if the answer is empty.
        """
        follower = self._open()
        return follower.shape_answer(follower.answer)

    def relation(self) -> ZSet:
        """Return the present answer as a Z-set."""
        return self._open().answer

    def close(self) -> None:
        """End the subscription; unread changes can still be read."""
        if self._follower is not None:
            follower, self._follower = self._follower, None
            self._closed(follower, self)

    def _open(self) -> Follower:
        if self._follower is None:
            raise UsageError.wrong_state(
                "reading the answer", "the subscription is closed", "Subscribe again, or read it before close()."
            )
        return self._follower

    def put(self, change: ZSet) -> None:
        """Append an unread change."""
        self._unread.append(change)

"""What a subscriber sees of a query: the changes that are still to be read, and the present answer."""

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
    """Follows the answer of a query; `gpu_wcoj.datoms.Database.subscribe` makes it.

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
        state = "closed" if self._follower is None else f"{self._follower.question.text!r:.60}"
        return f"Subscription({state}; {len(self._unread):,} changes to read)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def program(self) -> Program:
        """The program that keeps the answer, to look at: its `explain`, `state_rows`, `nbytes` and `last_tick`.

        Subscriptions of one query share it, so it takes no ticks but those of the database.
        """
        return self._open().program

    def changes(self) -> list[ZSet]:
        """The changes that have not been read: the answer at the start, then one Z-set per transaction.

        A transaction that leaves the answer as it was has a Z-set without rows. Changes that nobody reads are kept.
        """
        found = []
        while self._unread:  # one at a time, so that one that comes meanwhile is not lost
            found.append(self._unread.popleft())
        return found

    def answer(self) -> Any:
        """The present answer, in the shape that ``:find`` says.

        Returns
        -------
        A list of tuples, or of dicts where there are ``:keys``; a list of values for a collection; for a tuple one
        row, for a scalar one value, or None without an answer.
        """
        follower = self._open()
        return follower.shaped(follower.answer)

    def relation(self) -> ZSet:
        """The present answer as a Z-set."""
        return self._open().answer

    def close(self) -> None:
        """Follow no longer; what has not been read can still be read."""
        if self._follower is not None:
            follower, self._follower = self._follower, None
            self._closed(follower, self)

    def _open(self) -> Follower:
        if self._follower is None:
            raise UsageError("the subscription is closed.\n  Subscribe anew, or read the answer before close().")
        return self._follower

    def put(self, change: ZSet) -> None:
        """Have a change to be read."""
        self._unread.append(change)

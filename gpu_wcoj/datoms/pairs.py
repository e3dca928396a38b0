"""Pairs of int64 that come and go, looked up by their first: sorted columns, and beside them what has changed since.

A pair takes 16 bytes in the columns. A change is an entry in a dict; once there are an eighth as many of them as pairs
(4,096 at least), they are merged into new columns, so that a change costs constant time on average.
"""

from __future__ import annotations

import numpy as np

from gpu_wcoj.backend import select_backend
from gpu_wcoj.column import Int64Array

_LEAST = 4096
"""Changes beside the columns that are not worth a merge."""
_SHARE = 8
"""The columns have fewer pairs than so many times the changes: merge."""
_NOTHING = np.empty(0, np.int64)


class Pairs:
    """A set of pairs ``(left, right)``.

    Examples
    --------
    >>> pairs = Pairs()
    >>> pairs.put(1, 5, True); pairs.put(1, 3, True); pairs.put(2, 3, True); pairs.put(1, 5, False)
    >>> pairs.rights(1), pairs.has(1, 5), len(pairs)
    ([3], False, 2)
    """

    __slots__ = ("_added", "_changes", "_left", "_length", "_removed", "_right")

    def __init__(self) -> None:
        self._left: Int64Array = _NOTHING
        self._right: Int64Array = _NOTHING
        self._added: dict[int, set[int]] = {}
        self._removed: dict[int, set[int]] = {}
        self._changes = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of the columns; what has changed since is not counted."""
        return self._left.nbytes + self._right.nbytes

    def _range(self, left: int) -> tuple[int, int]:
        return int(self._left.searchsorted(left)), int(self._left.searchsorted(left, "right"))

    def _stored(self, left: int, right: int) -> bool:
        low, high = self._range(left)
        at = low + int(self._right[low:high].searchsorted(right))
        return at < high and int(self._right[at]) == right

    def has(self, left: int, right: int) -> bool:
        """Whether the pair is there. O(log n)."""
        if right in self._added.get(left, ()):
            return True
        return right not in self._removed.get(left, ()) and self._stored(left, right)

    def rights(self, left: int) -> list[int]:
        """All that stands beside `left`, in no order. O(log n) and what is found."""
        low, high = self._range(left)
        found: list[int] = self._right[low:high].tolist()
        if gone := self._removed.get(left):
            found = [right for right in found if right not in gone]
        return [*found, *self._added.get(left, ())]

    def put(self, left: int, right: int, present: bool) -> None:
        """Let the pair be there or not, whatever was so before."""
        before = self.has(left, right)
        if before == present:
            return
        undone, noted = (self._removed, self._added) if present else (self._added, self._removed)
        if right in undone.get(left, ()):
            undone[left].discard(right)
            if not undone[left]:
                del undone[left]
            self._changes -= 1
        else:
            noted.setdefault(left, set()).add(right)
            self._changes += 1
        self._length += 1 if present else -1
        if self._changes > max(_LEAST, len(self._left) // _SHARE):
            self.columns()

    def prefers_columns(self, count: int) -> bool:
        """Whether so many changes are better merged than put one by one."""
        return count > 64 and count > len(self._left) // _SHARE

    def columns(self) -> tuple[Int64Array, Int64Array]:
        """All pairs, sorted; not to be written to."""
        if self._changes:
            lefts: list[int] = []
            rights: list[int] = []
            signs: list[int] = []
            for changed, sign in ((self._added, 1), (self._removed, -1)):
                for left, beside in changed.items():
                    lefts += [left] * len(beside)
                    rights += beside
                    signs += [sign] * len(beside)
            merged = self.merged(np.array(lefts, np.int64), np.array(rights, np.int64), np.array(signs, np.int64))
            self._left, self._right = merged
            self._added, self._removed, self._changes = {}, {}, 0
        return self._left, self._right

    def merged(self, left: Int64Array, right: Int64Array, signs: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The columns, with pairs that are not there (1) added and pairs that are (-1) taken out; see `replace`."""
        keys = [np.concatenate([self._left, left]), np.concatenate([self._right, right])]
        weights = np.concatenate([np.ones(len(self._left), np.int64), signs])
        found, _ = select_backend("cpu").kernels.consolidate(keys, weights)
        return found[0], found[1]

    def replace(self, columns: tuple[Int64Array, Int64Array]) -> None:
        """Hold these sorted pairs, and nothing else."""
        self._left, self._right = columns
        self._added, self._removed, self._changes = {}, {}, 0
        self._length = len(self._left)

    def ranges(self, lefts: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Where the pairs of each of `lefts` begin and end in the columns, which this brings up to date."""
        column, _ = self.columns()
        return (
            column.searchsorted(lefts).astype(np.int64, copy=False),
            column.searchsorted(lefts, "right").astype(np.int64, copy=False),
        )

"""Mutable sets of int64 pairs: sorted columns, and a buffer of recent changes.

A pair takes 16 bytes in the columns. Changes are buffered in dicts. They are merged into new columns when they exceed
4,096 and an eighth of the pairs, so that a change takes amortised constant time.
"""

from __future__ import annotations

import numpy as np

from gpu_wcoj.backend import select_backend
from gpu_wcoj.data.column import Int64Array

_MIN_CHANGES = 4096
"""Number of buffered changes below which they are never merged."""
_MERGE_RATIO = 8
"""Ratio of stored pairs to buffered changes below which changes are merged."""
_EMPTY = np.empty(0, np.int64)


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
        self._left: Int64Array = _EMPTY
        self._right: Int64Array = _EMPTY
        self._added: dict[int, set[int]] = {}
        self._removed: dict[int, set[int]] = {}
        self._changes = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Size of the columns in bytes, without buffered changes."""
        return self._left.nbytes + self._right.nbytes

    def _range(self, left: int) -> tuple[int, int]:
        return int(self._left.searchsorted(left)), int(self._left.searchsorted(left, "right"))

    def _stored(self, left: int, right: int) -> bool:
        low, high = self._range(left)
        position = low + int(self._right[low:high].searchsorted(right))
        return position < high and int(self._right[position]) == right

    def has(self, left: int, right: int) -> bool:
        """Return whether the pair is present. O(log n)."""
        if right in self._added.get(left, ()):
            return True
        return right not in self._removed.get(left, ()) and self._stored(left, right)

    def rights(self, left: int) -> list[int]:
        """Return the right values of `left`, unordered. O(log n + result size)."""
        low, high = self._range(left)
        rights: list[int] = self._right[low:high].tolist()
        if removed := self._removed.get(left):
            rights = [right for right in rights if right not in removed]
        return [*rights, *self._added.get(left, ())]

    def put(self, left: int, right: int, present: bool) -> None:
        """Add the pair if `present`, else remove it; idempotent."""
        before = self.has(left, right)
        if before == present:
            return
        undone, recorded = (self._removed, self._added) if present else (self._added, self._removed)
        if right in undone.get(left, ()):
            undone[left].discard(right)
            if not undone[left]:
                del undone[left]
            self._changes -= 1
        else:
            recorded.setdefault(left, set()).add(right)
            self._changes += 1
        self._length += 1 if present else -1
        if self._changes > max(_MIN_CHANGES, len(self._left) // _MERGE_RATIO):
            self.columns()

    def prefers_columns(self, count: int) -> bool:
        """Return whether `count` changes should be merged instead of put one at a time."""
        return count > 64 and count > len(self._left) // _MERGE_RATIO

    def columns(self) -> tuple[Int64Array, Int64Array]:
        """Merge buffered changes; return all pairs, sorted. Do not modify the arrays."""
        if self._changes:
            lefts: list[int] = []
            rights: list[int] = []
            signs: list[int] = []
            for changed, sign in ((self._added, 1), (self._removed, -1)):
                for left, values in changed.items():
                    lefts += [left] * len(values)
                    rights += values
                    signs += [sign] * len(values)
            merged = self.merge(np.array(lefts, np.int64), np.array(rights, np.int64), np.array(signs, np.int64))
            self._left, self._right = merged
            self._added, self._removed, self._changes = {}, {}, 0
        return self._left, self._right

    def merge(self, left: Int64Array, right: Int64Array, signs: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the columns with new pairs (sign 1) and without removed pairs (sign -1)."""
        keys = [np.concatenate([self._left, left]), np.concatenate([self._right, right])]
        weights = np.concatenate([np.ones(len(self._left), np.int64), signs])
        merged, _ = select_backend("cpu").kernels.consolidate(keys, weights)
        return merged[0], merged[1]

    def replace(self, columns: tuple[Int64Array, Int64Array]) -> None:
        """Replace all pairs by these sorted columns."""
        self._left, self._right = columns
        self._added, self._removed, self._changes = {}, {}, 0
        self._length = len(self._left)

    def ranges(self, lefts: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Merge buffered changes; return start and end of each left value in the columns."""
        column, _ = self.columns()
        return (
            column.searchsorted(lefts).astype(np.int64, copy=False),
            column.searchsorted(lefts, "right").astype(np.int64, copy=False),
        )

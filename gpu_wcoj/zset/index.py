"""Indexed Z-sets: a Z-set as a trie in one attribute order.

Level d holds `values` and, above the last level, `offsets`: the children of ``values[i]`` are
``[offsets[i], offsets[i + 1])`` of the next level. Siblings are ascending. The last level has the weights, or None if
all are 1; upper levels are unweighted key sets.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend, select_backend
from gpu_wcoj.budget import MEASURED_FROM, reserve
from gpu_wcoj.errors import UsageError, counted
from gpu_wcoj.kernels.protocol import CodeArray, Int64Array, Level, MergeInParts, Trie
from gpu_wcoj.zset.arrays import numbers, positions, stacked


class IndexedZSet:
    """An immutable trie over int64 codes, one level per column.

    Parameters
    ----------
    values, offsets
        The levels; see the module docstring. ``len(offsets) == len(values) - 1``.
    weights
        int64, one per row, never 0; None if all are 1.
    backend
        The backend of the arrays.

    Examples
    --------
    >>> import numpy as np
    >>> index = IndexedZSet.from_columns([np.array([1, 1, 2]), np.array([5, 7, 5])], np.array([1, -1, 2]))
    >>> index.values[0], index.offsets[0]
    (array([1, 2], dtype=int32), array([0, 2, 3]))
    >>> index.as_zset_view(1)
    ([array([1, 2])], array([1, 1]))
    """

    __slots__ = ("__dict__", "_levels", "backend", "n_rows", "offsets", "values", "weights")

    def __init__(
        self,
        values: Sequence[CodeArray],
        offsets: Sequence[Int64Array],
        weights: Int64Array | None,
        backend: Backend,
    ) -> None:
        self.values = tuple(values)
        self.offsets = tuple(offsets)
        self.weights = weights
        self.backend = backend
        self.n_rows = len(self.values[-1])
        self._levels: tuple[Level, ...] | None = None

    @classmethod
    def from_sorted(
        cls, columns: Sequence[Int64Array], weights: Int64Array | int | None, backend: Backend | None = None
    ) -> IndexedZSet:
        """Index rows that are already sorted and distinct, with weights or a common weight. O(n)."""
        backend = backend or select_backend("cpu")
        levels = backend.kernels.build_levels(columns)
        if weights is None or (isinstance(weights, int) and weights == 1):
            return cls(*levels, None, backend)
        if not isinstance(weights, int):
            return cls(*levels, backend.xp.ascontiguousarray(weights), backend)
        n = len(columns[0])
        index = cls(*levels, backend.xp.full(n, weights, np.int64), backend)
        index.__dict__.update(largest_weight=abs(weights) if n else 1, n_negative=n if weights < 0 else 0)
        return index

    @classmethod
    def from_columns(
        cls, columns: Sequence[Int64Array], weights: Int64Array | None = None, backend: Backend | None = None
    ) -> IndexedZSet:
        """Consolidate and index any rows, of the host or of the device. O(n log n)."""
        backend = backend or select_backend("cpu")
        row_weights = backend.xp.ones(len(columns[0]), np.int64) if weights is None else backend.asarray(weights)
        columns = [backend.asarray(column) for column in columns]
        if len(row_weights) == 1:  # which consolidating leaves as they are
            columns, row_weights = [column.copy() for column in columns], row_weights.copy()
        columns, sums = backend.kernels.consolidate(columns, row_weights)
        return cls.from_sorted(columns, None if bool((sums == 1).all()) else sums, backend)

    @classmethod
    def from_rows(cls, columns: Sequence[Int64Array], backend: Backend) -> IndexedZSet:
        """Index the distinct rows, each with weight 1. O(n log n)."""
        return cls(*backend.kernels.index_rows(columns), None, backend)

    @classmethod
    def rearranged(
        cls,
        parts: Sequence[IndexedZSet],
        order: Sequence[int],
        backend: Backend,
        tags: Sequence[int] = (),
        below: Int64Array | None = None,
    ) -> IndexedZSet:
        """Index the rows of disjoint tries of weight 1 in another column order. O(n log n).

        Parameters
        ----------
        tags
            One per part, which becomes the last column of its rows.
        below
            The array 0 to the number of rows, if available: tries with tags share it.

        Examples
        --------
        >>> rows = [[1], [5]], [[1, 2], [4, 5]]
        >>> parts = [IndexedZSet.from_columns([np.array(column) for column in own]) for own in rows]
        >>> IndexedZSet.rearranged(parts, [1, 0], parts[0].backend, tags=[0, 1]).columns()
        [array([4, 5, 5]), array([1, 1, 2]), array([1, 0, 1])]
        """
        values, offsets = backend.kernels.rearrange([(part.values, part.offsets) for part in parts], order, tags)
        if tags:
            leaf_offsets = backend.xp.arange(len(values[-1]) + 1, dtype=np.int64) if below is None else below
            offsets = [*offsets, leaf_offsets]
        return cls(values, offsets, None, backend)

    @classmethod
    def empty(cls, depth: int, backend: Backend | None = None) -> IndexedZSet:
        """Return the empty trie of `depth` levels."""
        backend = backend or select_backend("cpu")
        nothing = backend.xp.empty(0, np.int64)
        return cls([nothing] * depth, [backend.xp.zeros(1, np.int64)] * (depth - 1), None, backend)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"IndexedZSet({counted(len(self), 'row')}, {counted(self.depth, 'level')})"

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = [*self.values, *self.offsets, *([] if self.weights is None else [self.weights])]
        return sum(array.nbytes for array in arrays)

    @property
    def bytes_beside(self) -> int:
        """Bytes of the search structures that kernels have built so far."""
        top = self.__dict__.get("first level")
        described = self._levels or (() if top is None else (top,))
        return sum(map(self.backend.kernels.bytes_beside, described))

    @property
    def levels(self) -> tuple[Level, ...]:
        """Level descriptions for kernels, created once.

        Kernels store addresses of these descriptions, so all threads must use the same ones: `setdefault` returns the
        first that was stored, and an interrupt cannot leave a lock locked.
        """
        levels = self._levels
        if levels is None:
            described = [self._top]
            for depth, values in enumerate(self.values[1:], 1):
                parents = self.offsets[depth - 1]
                weights = self.weights if depth == self.depth - 1 else None
                record, support = self.backend.kernels.describe(values, parents, weights)
                described.append(Level(values, parents, weights, record, support))
            levels = self.__dict__.setdefault("first levels", tuple(described))
            self._levels = levels
        return levels

    @property
    def described_levels(self) -> tuple[Level, ...]:
        """The `levels` if they have been described; otherwise none."""
        return self._levels or ()

    def receive_descriptions(self, described: Sequence[tuple[Any, Any]]) -> None:
        """Take the result of `Kernels.describe` of every level."""
        last_level = self.depth - 1
        levels = tuple(
            Level(values, self.offsets[d - 1] if d else None, self.weights if d == last_level else None, *description)
            for d, (values, description) in enumerate(zip(self.values, described, strict=True))
        )
        self.__dict__["first level"], self.__dict__["first levels"] = levels[0], levels
        self._levels = levels

    @property
    def _top(self) -> Level:
        """The first of `levels`."""
        cached: Level | None = self.__dict__.get("first level")
        if cached is not None:
            return cached
        weights = self.weights if self.depth == 1 else None
        record, support = self.backend.kernels.describe(self.values[0], None, weights)
        level: Level = self.__dict__.setdefault("first level", Level(self.values[0], None, weights, record, support))
        return level

    @property
    def records(self) -> tuple[Any, ...]:
        """Kernel-specific descriptions of the levels."""
        return tuple([level.record for level in self.levels])

    @cached_property
    def largest_weight(self) -> int:
        """Largest magnitude of a weight; 1 for an empty trie."""
        weights = self.weights
        if weights is None or len(weights) == 0:
            return 1
        if self.backend.device is not None:
            return self._extremes[0]
        return max(int(weights.max()), -int(weights.min()))

    @cached_property
    def n_negative(self) -> int:
        """Rows of negative weight."""
        if self.weights is None or self.n_rows == 0:
            return 0
        if self.backend.device is not None:
            return self._extremes[1]
        return int(np.count_nonzero(self.weights < 0))

    @cached_property
    def n_negative_of_key(self) -> int:
        """Maximum number of negative rows below one top-level value."""
        if self.n_negative == 0:
            return 0
        below = self.negative_before[self.leaf_offsets]
        (max_negative,) = numbers(self.backend, (below[1:] - below[:-1]).max())
        return max_negative

    @cached_property
    def _extremes(self) -> tuple[int, int]:
        """Both of the above, fetched from the device together."""
        weights = self.weights
        assert weights is not None
        max_weight, min_weight, negative = numbers(self.backend, weights.max(), weights.min(), (weights < 0).sum())
        return max(max_weight, -min_weight), negative

    @cached_property
    def negative_before(self) -> Int64Array:
        """Number of negative rows before each row and before the end (length n + 1)."""
        counts: Int64Array = self.backend.xp.zeros(len(self) + 1, np.int64)
        if self.weights is not None:
            counts[1:] = self.backend.xp.cumsum(self.weights < 0, dtype=np.int64)
        return counts

    @cached_property
    def weight_before(self) -> Int64Array:
        """Sum of the weights before each row and before the end (length n + 1), modulo 2^64."""
        xp = self.backend.xp
        if self.weights is None:
            below: Int64Array = xp.arange(len(self) + 1, dtype=np.int64)
            return below
        sums: Int64Array = xp.zeros(len(self) + 1, np.int64)
        sums[1:] = xp.cumsum(self.weights, dtype=np.int64)
        return sums

    @cached_property
    def leaf_offsets(self) -> Int64Array:
        """Row range below each top-level value: ``[leaf_offsets[i], leaf_offsets[i + 1])``."""
        leaf: Int64Array = self.offsets[0] if self.offsets else self.backend.xp.arange(len(self) + 1)
        for offsets in self.offsets[1:]:
            leaf = offsets[leaf]
        return leaf

    def rows_below(self, node: Int64Array, level: int = 0) -> tuple[Int64Array, Int64Array]:
        """Return the begin and end of the rows below values of a level, given by position."""
        begin, end = node, node + 1
        for offsets in self.offsets[level:]:
            begin, end = offsets[begin], offsets[end]
        return begin, end

    def columns(self) -> list[Int64Array]:
        """Return all rows, sorted, as one int64 column per level. O(n)."""
        return self.backend.kernels.expand_columns(self.values, self.offsets)

    @cached_property
    def matrix(self) -> Int64Array:
        """All rows, sorted, as int64 of shape (depth, n). Cached until `forget_rows`."""
        return stacked(self.backend, self.columns())

    def forget_rows(self) -> None:
        """Release `matrix`, which may take several times the memory of the trie."""
        self.__dict__.pop("matrix", None)

    def lent(self) -> IndexedZSet:
        """Return a trie over the same arrays with a separate cache."""
        view = IndexedZSet(self.values, self.offsets, self.weights, self.backend)
        view.__dict__.update(self.__dict__)
        view._levels = self.levels
        return view

    def on(self, backend: Backend) -> IndexedZSet:
        """Return the trie on another backend of the same memory; it shares the arrays. O(1).

        Another trie has an empty cache.
        """
        return self if backend is self.backend else IndexedZSet(self.values, self.offsets, self.weights, backend)

    def weight_column(self) -> Int64Array:
        """Return the weight of every row."""
        if self.weights is not None:
            return self.weights
        ones: Int64Array = self.backend.xp.ones(len(self), np.int64)
        return ones

    def merge(self, other: IndexedZSet) -> IndexedZSet:
        """Add two tries of one attribute order by merging sorted runs. O(n + m).

        Raises
        ------
        UsageError
            If they are on different backends.
        """
        self._check_backend(other)
        if self.n_rows == 0:
            return other
        if other.n_rows == 0:
            return self
        merged = self.backend.kernels.merge_tries(
            (self.values, self.offsets, self.weights), (other.values, other.offsets, other.weights)
        )
        return IndexedZSet(*merged, self.backend)

    def _check_backend(self, trie: IndexedZSet) -> None:
        if trie.backend is not self.backend and trie.backend.device is not self.backend.device:
            raise UsageError.conflict(
                f"a batch of {self.backend}", f"a batch of {trie.backend}", "Build both batches with the same backend."
            )

    def begin_merge(self, right: IndexedZSet) -> TrieMerge:
        """Begin to add a trie of the same attribute order, both of one or more rows. O(1).

        The kernels must be able to; see `Kernels.begin_merge`.

        Raises
        ------
        UsageError
            If they are on different backends.
        """
        self._check_backend(right)
        return TrieMerge(self, right)

    def locate(self, columns: Sequence[Int64Array]) -> Int64Array:
        """Return the position of each prefix in level ``len(columns) - 1``; -1 if absent."""
        records = [(self._top.record,) if len(columns) == 1 else self.records[: len(columns)]]
        located = self.backend.kernels.locate(records, [range(len(columns))], stacked(self.backend, columns))
        position: Int64Array = located[0]
        return position

    def get_by_prefix(self, prefixes: Sequence[Int64Array]) -> tuple[Int64Array, list[Int64Array], Int64Array]:
        """Return the rows that start with each of n prefixes.

        Parameters
        ----------
        prefixes
            The columns of the prefixes, each int64 of shape (n,); one or more.

        Returns
        -------
        owner : int64, the prefix each row belongs to, ascending
        rest : the columns below the prefix; none if the prefix is a whole row
        weights : int64
        """
        xp = self.backend.xp
        position = self.locate(prefixes)
        (owner,) = positions(self.backend, position >= 0)
        node = position[owner]
        remaining: list[Int64Array] = []
        for level in range(len(prefixes), self.depth):
            begin, end = self.offsets[level - 1][node], self.offsets[level - 1][node + 1]
            sizes = end - begin
            start = xp.cumsum(sizes) - sizes
            repeat = xp.repeat(xp.arange(len(node)), sizes)
            n_bytes = 8 * len(repeat) * (6 + len(remaining))
            if n_bytes >= MEASURED_FROM and self.backend.device is None:
                reserve(n_bytes, "looking up", len(repeat))
            node = xp.arange(len(repeat)) - start[repeat] + begin[repeat]
            owner = owner[repeat]
            remaining = [column[repeat] for column in remaining]
            remaining.append(self.values[level][node].astype(np.int64))
        weights = xp.ones(len(node), np.int64) if self.weights is None else self.weights[node]
        return owner, remaining, weights

    def as_zset_view(self, depth: int) -> tuple[list[Int64Array], Int64Array]:
        """Return the distinct prefixes of `depth` columns, each of weight 1.

        Whole rows keep weights.
        """
        if depth == self.depth:
            return self.columns(), self.weight_column()
        columns = self.backend.kernels.expand_columns(self.values[:depth], self.offsets[: depth - 1])
        return columns, self.backend.xp.ones(len(columns[0]), np.int64)

    def extend_leaves(self, owner: Int64Array, values: Int64Array, weights: Int64Array) -> IndexedZSet:
        """Return a trie one level deeper: row ``owner[i]`` gets the child ``values[i]``.

        A child's weight is that of its row times ``weights[i]``, modulo 2^64. Rows without a child are dropped.
        """
        rows = [column[owner] for column in self.columns()]
        product = self.weight_column()[owner] * weights
        return IndexedZSet.from_columns([*rows, values.astype(np.int64)], product, self.backend)


class TrieMerge:
    """A merge of two tries that is done in instalments, while both can be read.

    Its progress depends on the largest number of rows that it has been asked to read, and its result on the tries
    alone. So several states may share it: one that has been undone, and those after it.

    Attributes
    ----------
    left, right
        The tries.
    n_rows
        Rows of both.
    n_read
        The largest number of rows that have been merged.
    """

    __slots__ = ("_lock", "_merge", "_merged", "left", "n_read", "n_rows", "right")

    def __init__(self, left: IndexedZSet, right: IndexedZSet) -> None:
        self.left = left
        self.right = right
        self.n_rows = len(left) + len(right)
        self.n_read = 0
        begin_merge = left.backend.kernels.begin_merge
        assert begin_merge is not None
        self._merge: MergeInParts | None = begin_merge(
            (left.values, left.offsets, left.weights),
            (right.values, right.offsets, right.weights),
            left.described_levels,
        )
        self._merged: IndexedZSet | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"TrieMerge({len(self.left)} and {len(self.right)} rows)"

    @property
    def nbytes(self) -> int:
        """Bytes of the result so far, and of the room for the rest."""
        merge, merged = self._merge, self._merged
        if merged is not None:
            return merged.nbytes + merged.bytes_beside
        return 0 if merge is None else merge.nbytes

    def advance(self, n_read: int) -> None:
        """Do the work for the first `n_read` rows, unless another thread is working on it."""
        if self._lock.acquire(blocking=False):
            try:
                if self._merge is not None:
                    self._merge.advance(n_read)
                self.n_read = max(self.n_read, n_read)
            finally:
                self._lock.release()

    def result(self) -> IndexedZSet:
        """Return the merged trie, after doing what is left of the work.

        It is the same object for all callers, unless several threads ask at the same time.
        """
        if self._merged is None and self._lock.acquire(blocking=False):
            try:
                if self._merge is not None:
                    self._merge.advance(self.n_rows)
                    self.n_read = self.n_rows
                    self._merged = self._as_trie(*self._merge.result())
                    self._merge = None
            finally:
                self._lock.release()
        merged = self._merged
        return self.left.merge(self.right) if merged is None else merged  # None if another thread is working on it

    def _as_trie(
        self, trie: Trie, described: Sequence[tuple[Any, Any]], extreme_weights: tuple[int, int]
    ) -> IndexedZSet:
        values, offsets, weights = trie
        index = IndexedZSet(values, offsets, weights, self.left.backend)
        index.__dict__["largest_weight"], index.__dict__["n_negative"] = extreme_weights
        if described:
            index.receive_descriptions(described)
        return index

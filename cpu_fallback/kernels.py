"""The kernels of the protocol in compiled loops: callers that pass tables of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from cpu_fallback import tries
from cpu_fallback import tries as choices
from cpu_fallback import tries as sort
from cpu_fallback import tries as sums
from cpu_fallback.extend import extend_arrays
from cpu_fallback.fixpoints import Fixpoint, Maintenance
from cpu_fallback.lookup import (
    bucket_index,
    count_children,
    expand_rows,
    locate,
    narrow,
    sort_keys,
    trie_levels,
    trie_levels_two,
)
from cpu_fallback.merge import (
    LARGEST_WEIGHT,
    LEFT_END,
    LEVEL,
    N_CURSOR,
    N_PROGRESS,
    NEGATIVE,
    NOT_ONE,
    PACKED_FROM,
    READ,
    RIGHT_END,
    SMALLEST_WEIGHT,
    consolidate_packed,
    consolidate_runs,
    distinct_packed,
    index_rows,
    merge_pairs,
    merge_part,
    rearrange_packed,
    table_of,
)
from cpu_fallback.new_rows import MAX_BIT_SPAN, MAX_BYTE_SPAN, fresh_values, span_of
from cpu_fallback.ranges import N_FIELDS, RankBuilder, add_widths, describe_level, publish, rank_level, scan_values
from cpu_fallback.runtime import address_of as _address
from cpu_fallback.ticks import small_tick
from cpu_fallback.tries import N_WORK, SURVIVORS, CodeArray, IndexArray, Int64Array
from cpu_fallback.walk_records import BEGIN_TICK, CONSOLIDATE, DERIVE, MERGE, RECEIVE, RUN_TICK, WALK

_NOTHING = np.empty(0, np.int64)
_NO_ROWS = np.empty((0, 0), np.int64)
_MAX_INT64 = np.iinfo(np.int64).max
Trie = tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None]
"""Values, offsets and weights; None if all weights are 1."""

DESCRIBED = 2
"""Arrays that `CompiledKernels.describe` stores for a level; the ranks of `prepare` follow after these."""

MIN_BUCKETED = 8
"""Values of a top level above which it gets a bucket index."""

DESCRIBING = 3
"""Passes over the values of a merged level: one to find their extremes, and two for their ranks."""

STEPS_A_ROW = 5
"""Values that are read in such a pass in the time in which a row is merged: 3 without weights, up to 8 with them."""

MAX_PIECE_ROWS = 1 << 22
"""Rows that one call of `fill_common` returns at most, regardless of its capacity: their memory is allocated first."""


# Merges in instalments: rows first, then what `describe` and `prepare` would make of the result.
#
# The progress is kept in arrays that compiled code updates, so a part that fails or is interrupted is continued or done
# again, with the same result.


def _room_for(x: CodeArray, y: CodeArray) -> CodeArray:
    """Return an array for all values of two levels."""
    size = len(x) + len(y)
    return np.empty(size, np.int32) if x.itemsize == y.itemsize == 4 else np.empty(size, np.int64)


def _room_for_buckets(values: CodeArray) -> tuple[int, Int64Array]:
    """Return the shift and the array of a bucket index; see `bucket_index`."""
    span = int(values[-1]) - int(values[0])
    shift = max(0, span.bit_length() - (2 * len(values)).bit_length())
    return shift, np.empty((span >> shift) + 2, np.int64)


def _address_or_none(weights: Int64Array | None) -> int:
    """Return the address of weights, 0 without."""
    return 0 if weights is None else int(_address(weights))


class RowMerge:
    """The merge of two tries of any depth, in as many parts as the caller likes.

    Attributes
    ----------
    is_done
        Whether nothing is left to do.
    """

    def __init__(self, left: Trie, right: Trie) -> None:
        self._sources = left, right
        self._tables = table_of(left[0], left[1]), table_of(right[0], right[1])
        self._values = [_room_for(x, y) for x, y in zip(left[0], right[0], strict=True)]
        self._offsets = [np.empty(len(level) + 1, np.int64) for level in self._values[:-1]]
        self._table = table_of(self._values, self._offsets)
        self._weights = None if left[2] is None and right[2] is None else np.empty(len(self._values[-1]), np.int64)
        depth = len(self._values)
        self._cursor, self._sizes = np.zeros((depth, N_CURSOR), np.int64), np.zeros(depth, np.int64)
        self._cursor[0, LEFT_END], self._cursor[0, RIGHT_END] = len(left[0][0]), len(right[0][0])
        self._progress = np.zeros(N_PROGRESS, np.int64)
        self._progress[SMALLEST_WEIGHT] = self._progress[LARGEST_WEIGHT] = 1
        self._unweighted = 0
        """Rows from the first one whose weights, which are 1, have still to be written."""
        self.is_done = False

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, written or not."""
        weights = [] if self._weights is None else [self._weights]
        return sum(array.nbytes for array in (*self._values, *self._offsets, *weights))

    def advance(self, n_rows: int) -> int:
        """Read about `n_rows` more rows of both tries; return how many were read.

        At most twice as many are read. A row whose weight is written afterwards counts once more.
        """
        if self._progress[LEVEL] < 0:
            return self._write_ones(n_rows)
        before = int(self._progress[READ])
        (_, _, left_weights), (_, _, right_weights) = self._sources
        weights = _NOTHING if self._weights is None else self._weights
        is_merged = merge_part(
            self._tables[0], _address_or_none(left_weights), self._tables[1], _address_or_none(right_weights),
            self._table, weights, self._cursor, self._sizes, self._progress, before + max(n_rows, 1),
        )  # fmt: skip
        if not is_merged:  # two rows of weight 1 are equal
            self._unweighted, self._weights = int(self._sizes[-1]), np.empty(len(self._values[-1]), np.int64)
        self.is_done = self._progress[LEVEL] < 0 and self._unweighted == 0
        return int(self._progress[READ]) - before

    def _write_ones(self, n_rows: int) -> int:
        assert self._weights is not None
        n = min(max(n_rows, 1), self._unweighted)
        self._weights[self._unweighted - n : self._unweighted] = 1
        self._unweighted -= n
        self.is_done = self._unweighted == 0
        return n

    def trie(self) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
        """Return the merged trie, once; its arrays are cut to their sizes in place."""
        sizes = self._sizes.tolist()
        for level, n in zip(self._values, sizes, strict=True):
            level.resize(n, refcheck=False)
        for level_offsets, n in zip(self._offsets, sizes, strict=False):
            level_offsets.resize(n + 1, refcheck=False)
        weights = self._weights if self._progress[NOT_ONE] else None
        if weights is not None:
            weights.resize(sizes[-1], refcheck=False)
        return self._values, self._offsets, weights

    @property
    def extreme_weights(self) -> tuple[int, int]:
        """The largest magnitude of a weight, and the number of negative weights."""
        progress = self._progress
        return max(int(progress[LARGEST_WEIGHT]), -int(progress[SMALLEST_WEIGHT])), int(progress[NEGATIVE])


class LevelDescription:
    """The description and the ranks of a merged level, made in parts.

    Attributes
    ----------
    support
        The arrays of the description; it is complete once `is_done`.
    is_done
        Whether nothing is left to do.
    """

    def __init__(
        self, values: CodeArray, parents: Int64Array | None, weights: Int64Array | None, is_ranked: bool
    ) -> None:
        self._values, self._parents, self._weights = values, parents, weights
        self._is_ranked = is_ranked
        self._shift, starts = 0, _NOTHING
        if parents is None and len(values) > MIN_BUCKETED:
            self._shift, starts = _room_for_buckets(values)
        self._starts = starts
        self._reached = np.zeros(2, np.int64)
        self._builder: RankBuilder | None = None
        self.record = 0
        self.support: list[Any] = [np.zeros(N_FIELDS, np.int64), starts]
        self.is_done = False

    @property
    def nbytes(self) -> int:
        """Bytes of the description and of the ranks so far."""
        ranks = () if self._builder is None else self._builder.arrays
        return sum(array.nbytes for array in (*self.support[:DESCRIBED], *ranks))

    def advance(self, n_values: int) -> int:
        """Read up to `n_values` more values or buckets; return how many were read."""
        if self._builder is not None:
            n = self._builder.advance(n_values)
            if self._builder.is_done:
                publish(self.support[0], self._builder.ranks)
                self.support = [*self.support[:DESCRIBED], self._builder.ranks]
                self.is_done = True
            return n
        before = int(self._reached.sum())
        level = _address(self._values), self._values.itemsize
        n = len(self._values)
        if self._parents is not None:
            end = min(before + n_values, n)
            scan_values(*level, before, end, self.support[0])
            self._reached[1] = end
            is_described = end == n
        else:
            bucket_index(*level, n, self._shift, self._starts, self._reached, n_values)
            is_described = self._reached[0] == len(self._starts)
        if is_described:
            self.record = describe_level(
                *level, n, _NOTHING if self._parents is None else self._parents, _address_or_none(self._weights),
                self._starts, self._shift, n, self.support[0],
            )  # fmt: skip
            if self._is_ranked and self._parents is not None:
                self._builder = RankBuilder(self.support[0], self._parents)
            else:
                self.is_done = True
        return int(self._reached.sum()) - before


class MergeInParts:
    """See `gpu_wcoj.kernels.protocol.MergeInParts`."""

    def __init__(self, left: Trie, right: Trie, levels: Sequence[Any]) -> None:
        self._levels = levels
        self.n_rows = len(left[0][-1]) + len(right[0][-1])
        self._rows = RowMerge(left, right)
        self._trie: Trie | None = None
        self._descriptions: list[LevelDescription] = []
        self._n_steps = STEPS_A_ROW * self.n_rows
        if levels:
            self._n_steps += DESCRIBING * sum(len(x) + len(y) for x, y in zip(left[0], right[0], strict=True))
        self._n_done = 0

    @property
    def nbytes(self) -> int:
        """See `gpu_wcoj.kernels.protocol.MergeInParts.nbytes`."""
        return self._rows.nbytes + sum(description.nbytes for description in self._descriptions)

    def advance(self, n_read: int) -> None:
        """See `gpu_wcoj.kernels.protocol.MergeInParts.advance`."""
        is_last = n_read >= self.n_rows
        target = self._n_steps if is_last else self._n_steps * n_read // self.n_rows
        while (part := self._next_part()) is not None and (is_last or self._n_done < target):
            n_steps = STEPS_A_ROW if part is self._rows else 1
            n = self._n_steps if is_last else max((target - self._n_done) // n_steps, 1)
            self._n_done += n_steps * part.advance(n)

    def _next_part(self) -> RowMerge | LevelDescription | None:
        """Return the part of the work that is to continue; None at the end."""
        if not self._rows.is_done:
            return self._rows
        if self._trie is None:
            values, offsets, weights = trie = self._rows.trie()
            leaf = len(values) - 1
            if self._levels and len(values[-1]):
                self._descriptions = [
                    LevelDescription(
                        level,
                        offsets[d - 1] if d else None,
                        weights if d == leaf else None,
                        is_ranked=len(self._levels[d].support) > DESCRIBED,
                    )
                    for d, level in enumerate(values)
                ]
            self._trie = trie
        return next((part for part in self._descriptions if not part.is_done), None)

    def result(self) -> tuple[Trie, list[tuple[Any, Any]], tuple[int, int]]:
        """See `gpu_wcoj.kernels.protocol.MergeInParts.result`."""
        assert self._trie is not None
        described = [(part.record, part.support) for part in self._descriptions]
        return self._trie, described, self._rows.extreme_weights


class CompiledWalks:
    """See `gpu_wcoj.kernels.protocol.WalkKernels`."""

    @staticmethod
    def run_tick(tick: int) -> int:
        """See `gpu_wcoj.kernels.protocol.WalkKernels.run_tick`."""
        return small_tick(RUN_TICK, tick, 0, 0, 0)

    @staticmethod
    def walk(context: int) -> int:
        """See `gpu_wcoj.kernels.protocol.WalkKernels.walk`."""
        return small_tick(WALK, context, 0, 0, 0)

    @staticmethod
    def begin_small_tick(context: int) -> None:
        """See `gpu_wcoj.kernels.protocol.WalkKernels.begin_small_tick`."""
        small_tick(BEGIN_TICK, context, 0, 0, 0)

    @staticmethod
    def receive_rows(context: int, relation: int, mode: int, capacity: int) -> int:
        """See `gpu_wcoj.kernels.protocol.WalkKernels.receive_rows`."""
        return small_tick(RECEIVE, context, relation, mode, capacity)

    @staticmethod
    def derive_presence(context: int, source: int, target: int) -> int:
        """See `gpu_wcoj.kernels.protocol.WalkKernels.derive_presence`."""
        return small_tick(DERIVE, context, source, target, 0)

    @staticmethod
    def consolidate_rows(context: int, spare_rows: int, order: int, spare: int) -> int:
        """See `gpu_wcoj.kernels.protocol.WalkKernels.consolidate_rows`."""
        return small_tick(CONSOLIDATE, context, spare_rows, order, spare)

    @staticmethod
    def merge_memtables(context: int, target: int) -> int:
        """See `gpu_wcoj.kernels.protocol.WalkKernels.merge_memtables`."""
        return small_tick(MERGE, context, target, 0, 0)


class CompiledKernels:
    """See `gpu_wcoj.kernels.protocol.Kernels`."""

    name: ClassVar[str] = "numba"
    measures_ranges: ClassVar[bool] = True
    walker: ClassVar[CompiledWalks] = CompiledWalks()
    walked_rows: ClassVar[int] = 1 << 14
    fixpoint = Fixpoint
    maintenance = Maintenance
    run_starts = staticmethod(sort.run_starts)
    held_rows = staticmethod(sort.held_rows)
    segment_sums = staticmethod(sums.segment_sums)
    exclusive_sum = staticmethod(sums.exclusive_sum)
    hash_rows = staticmethod(sums.hash_rows)

    @staticmethod
    def distinct_rows(columns: Sequence[Int64Array]) -> list[Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`."""
        distinct = consolidate_runs(columns, None)
        return distinct_packed(columns) if distinct is None else distinct[0]

    @staticmethod
    def consolidate(columns: Sequence[Int64Array], weights: Int64Array) -> tuple[list[Int64Array], Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Kernels.consolidate`."""
        return (
            consolidate_runs(columns, weights)
            or consolidate_packed(columns, weights)
            or sort.consolidate(columns, weights, sort_keys)
        )

    @staticmethod
    def lexsort(columns: Sequence[Int64Array]) -> IndexArray:
        """See `gpu_wcoj.kernels.protocol.Kernels.lexsort`."""
        return sort.lexsort(columns, sort_keys)

    @staticmethod
    def build_levels(columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
        """See `gpu_wcoj.kernels.protocol.Kernels.build_levels`."""
        n = len(columns[0])
        if len(columns) == 1 or n < 2:
            return tries.build_levels(columns)
        if len(columns) > 2:
            return _build_deep(columns) if n >= PACKED_FROM else tries.build_levels(columns)
        first, second = columns
        values = np.empty(n, np.int64)
        offsets = np.empty(n + 1, np.int64)
        fits = int(second.min()) >= -(1 << 31) and int(second.max()) < 1 << 31
        children: CodeArray = np.empty(n, np.int32) if fits else np.empty(n, np.int64)
        count = trie_levels_two(
            _address(first), first.strides[0], _address(second), second.strides[0], n, values, offsets,
            _address(children), children.itemsize,
        )  # fmt: skip
        return [tries.narrow(values[:count].copy()), children], [offsets[: count + 1].copy()]

    @staticmethod
    def index_rows(columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
        """See `gpu_wcoj.kernels.protocol.Kernels.index_rows`."""
        indexed = index_rows(columns) if len(columns[0]) >= PACKED_FROM else None
        return indexed or CompiledKernels.build_levels(CompiledKernels.distinct_rows(columns))

    @staticmethod
    def rearrange(
        parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int],
        tags: Sequence[int] = (),
    ) -> tuple[list[CodeArray], list[Int64Array]]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.rearrange`."""
        filled = [part for part, (values, _) in enumerate(parts) if len(values[-1])]
        if filled and sum(len(parts[part][0][-1]) for part in filled) >= PACKED_FROM:
            rearranged_trie = rearrange_packed(
                [parts[part] for part in filled], order, [tags[part] for part in filled if tags]
            )
            if rearranged_trie is not None:
                return rearranged_trie
        return tries.rearrange(parts, order, tags, CompiledKernels.index_rows)

    @staticmethod
    def describe(values: CodeArray, parent_offsets: Int64Array | None, weights: Int64Array | None) -> tuple[int, Any]:
        """See `gpu_wcoj.kernels.protocol.Kernels.describe`.

        The record is the address of the level's slot fields.
        """
        n = len(values)
        shift = 0
        starts = _NOTHING
        if parent_offsets is None and n > MIN_BUCKETED:
            shift, starts = _room_for_buckets(values)
            bucket_index(_address(values), values.itemsize, n, shift, starts, np.zeros(2, np.int64), n + len(starts))
        fields = np.empty(N_FIELDS, np.int64)
        parents = _NOTHING if parent_offsets is None else parent_offsets
        weights_address = 0 if weights is None or len(weights) == 0 else _address(weights)
        address = describe_level(
            _address(values), values.itemsize, n, parents, weights_address, starts, shift, 0, fields
        )
        return address, [fields, starts]

    @staticmethod
    def bytes_beside(level: Any) -> int:
        """See `gpu_wcoj.kernels.protocol.Kernels.bytes_beside`."""
        return sum(array.nbytes for array in (*level.support[:DESCRIBED], *chain(*level.support[DESCRIBED:])))

    @staticmethod
    def expand_columns(values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> list[Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Kernels.expand_columns`."""
        if len(values) != 2:
            return tries.expand_columns(values, offsets)
        parents = np.empty(len(values[1]), np.int64)
        expand_rows(offsets[0], parents)
        return [values[0][parents].astype(np.int64), values[1].astype(np.int64)]

    @staticmethod
    def merge_tries(
        left: tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None],
        right: tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None],
    ) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
        """See `gpu_wcoj.kernels.protocol.Kernels.merge_tries`."""
        left_values, left_offsets, _ = left
        if len(left_values) == 2:
            merged = _merge_pairs(left, right)
            if merged is None:
                merged = _merge_pairs((left_values, left_offsets, np.ones(len(left_values[1]), np.int64)), right)
            assert merged is not None
            return merged
        merge = RowMerge(left, right)
        while not merge.is_done:
            merge.advance(len(left[0][-1]) + len(right[0][-1]))
        return merge.trie()

    begin_merge = MergeInParts

    @staticmethod
    def locate(records: Sequence[Sequence[int]], column_of: Sequence[Sequence[int]], columns: Int64Array) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.locate`."""
        positions = np.empty((len(records), columns.shape[1]), np.int64)
        locate(_descents(records, column_of), columns, positions)
        return positions

    @staticmethod
    def weights_of(
        levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.weights_of`."""
        return choices.weights_of(CompiledKernels.locate, levels, column_of, columns)

    @staticmethod
    def count_children(
        levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.count_children`."""
        sums = np.empty(len(levels), np.int64)
        descents = _descents([[level.record for level in batch_levels[:-1]] for batch_levels in levels], column_of)
        count_children(
            descents, columns, np.array([batch_levels[-1].record for batch_levels in levels], np.int64), sums
        )
        return sums

    @staticmethod
    def widths(
        levels: Sequence[Any], rows: Sequence[int], positions: Int64Array, lower: Int64Array, upper: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.widths`."""
        widths = np.zeros(positions.shape[1], np.int64)
        records = np.array([level.record for level in levels], np.int64)
        add_widths(records, np.array(rows, np.int64), positions, lower, upper, widths)
        return widths

    @staticmethod
    def narrowest(choices: Sequence[tuple[Int64Array, Sequence[Sequence[tuple[int, Int64Array]]]]]) -> IndexArray:
        """See `gpu_wcoj.kernels.protocol.Kernels.narrowest`."""
        n = choices[0][0].shape[1]
        min_widths, chosen = np.full(n, _MAX_INT64), np.zeros(n, np.intp)
        for choice, (positions, atoms) in enumerate(choices):
            described = [len(atoms)]
            for batches in atoms:
                described.append(len(batches))
                for row, offsets in batches:
                    described += (row, _address(offsets))
            narrow(np.array(described, np.int64), positions, choice, min_widths, chosen)
        return chosen

    @staticmethod
    def extend_seeds(
        levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], first: Sequence[int],
        columns: Int64Array, fill: bool, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.extend_seeds`."""
        n_slots, n_atoms, n = len(levels), len(first) - 1, columns.shape[1]
        slots = [n_slots, n_atoms, *first, *[1] * n_atoms, *[0] * n_atoms]
        slots += [descent[-1].record for descent in levels]
        slots += [*range(n_slots), *[-1] * n_slots]
        descents: list[int] = []
        for descent, level_columns in zip(levels, column_of, strict=True):
            if len(level_columns) == 1:
                descents += (1, descent[0].record, level_columns[0])
                continue
            descents.append(len(level_columns))
            for level, column in zip(descent, level_columns, strict=False):
                descents += (level.record, column)
        positions = np.empty((n_slots, n), np.int64)
        extension, described = np.array(slots, np.int64), np.array(descents, np.int64)
        fixed = (extension, described, columns, positions, n, _NOTHING, _NOTHING, _NO_ROWS, False, 0)
        counts = np.zeros((1, n), np.int64)
        extend_arrays(*fixed, False, np.zeros(3, np.int64), counts, work)
        total = int(counts.sum()) if fill else 0
        if total == 0:
            return counts[0], np.empty((2, 0), np.int64)
        pairs = np.empty((2, total), np.int64)
        extend_arrays(*fixed, True, np.zeros(3, np.int64), pairs, np.zeros(N_WORK, np.int64))
        return counts[0], pairs

    @staticmethod
    def prepare(
        levels: Sequence[Any], first: Sequence[int], last: Sequence[bool], shared: Sequence[bool],
        rows: Sequence[int], out_rows: Sequence[int], sought: bool = False,
    ) -> Int64Array:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.prepare`."""
        if len(last) > 1 or sought:
            for level in levels:
                if level.parent_offsets is not None and len(level.support) == DESCRIBED:
                    level.support.append(rank_level(level.support[0], level.parent_offsets))
                    publish(level.support[0], level.support[DESCRIBED])
                    del level.support[DESCRIBED + 1 :]  # ranks that other threads have built meanwhile, unused
        records = [level.record for level in levels]
        return np.array([len(rows), len(last), *first, *last, *shared, *records, *rows, *out_rows], np.int64)

    @staticmethod
    def count_common(
        extension: Int64Array, positions: Int64Array, begin: int, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array, work: Int64Array,
    ) -> Int64Array:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.count_common`."""
        counts = np.zeros((1, end), np.int64)
        resume = np.array((begin, 0, 0), np.int64)
        extend_arrays(
            extension, _NOTHING, _NO_ROWS, positions, end, lower, upper, excluded, False, 0, False, resume, counts, work
        )
        return counts[0, begin:]

    @staticmethod
    def fill_common(
        extension: Int64Array, positions: Int64Array, resume: Int64Array, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array,
        weights: Int64Array | None, weighted: bool, capacity: int, n_out_rows: int, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.fill_common`."""
        fixed = 3 if weighted else 2
        out = np.empty((fixed + n_out_rows, min(capacity, MAX_PIECE_ROWS)), np.int64)
        call_work = np.zeros(N_WORK, np.int64)
        if weighted:
            weights = np.ones(end, np.int64) if weights is None else np.ascontiguousarray(weights)
        extend_arrays(
            extension, _NOTHING, _NO_ROWS, positions, end, lower, upper, excluded,
            weighted, _address_or_none(weights), True, resume, out, call_work,
        )  # fmt: skip
        work += call_work
        n = int(call_work[SURVIVORS])
        return out[0, :n], out[1, :n], out[2, :n] if weighted else None, out[fixed:, :n].copy()

    @staticmethod
    def fresh_values(
        levels: Sequence[Any], positions: Int64Array, starts: Int64Array,
        known: Sequence[Any], known_positions: Int64Array, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.fresh_values`."""
        records = np.array([level.record for level in (*levels, *known)], np.int64)
        base, maximum = span_of(records[: len(levels)])
        span = maximum - base + 1
        seen = np.zeros(-(-span // 8) * 8 if span <= MAX_BYTE_SPAN else 0, np.uint8)
        bits = np.zeros((span >> 6) + 1 if span <= MAX_BIT_SPAN else 0, np.uint64)
        above = np.zeros((len(bits) >> 6) + 1, np.uint64)
        offsets = np.empty(len(starts), np.int64)
        values, n = fresh_values(
            records, len(levels), np.ascontiguousarray(positions), starts, np.ascontiguousarray(known_positions),
            base, seen, bits, above, offsets, work,
        )  # fmt: skip
        return offsets, _trim(values, n)


def _descents(records: Sequence[Sequence[int]], column_of: Sequence[Sequence[int]]) -> Int64Array:
    """Return the table of the tries that `locate` descends."""
    described: list[int] = []
    for levels, level_columns in zip(records, column_of, strict=True):
        described.append(len(levels))
        for level, column in zip(levels, level_columns, strict=True):
            described += (level, column)
    return np.array(described, np.int64)


def _merge_pairs(
    left: tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None],
    right: tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None],
) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None] | None:
    """Merge tries of two levels; None if both have unit weights and a common row."""
    ((x_top, x), (x_offsets,), x_weights), ((y_top, y), (y_offsets,), y_weights) = left, right
    unit = x_weights is None and y_weights is None
    top = _room_for(x_top, y_top)
    values = _room_for(x, y)
    offsets = np.empty(len(top) + 1, np.int64)
    weights = _NOTHING if unit else np.empty(len(values), np.int64)
    sizes = np.empty(2, np.int64)
    merge_pairs(
        _address(x_top), x_top.itemsize, x_offsets, _address(x), x.itemsize, _address_or_none(x_weights),
        _address(y_top), y_top.itemsize, y_offsets, _address(y), y.itemsize, _address_or_none(y_weights),
        _address(top), top.itemsize, offsets, _address(values), values.itemsize, weights, sizes,
    )  # fmt: skip
    n_top, n = sizes.tolist()
    if n < 0:
        return None
    merged_weights = None if unit else _trim(weights, n)
    if merged_weights is not None and bool((merged_weights == 1).all()):
        merged_weights = None
    return [_trim(top, n_top), _trim(values, n)], [_trim(offsets, n_top + 1)], merged_weights


def _trim(array: Any, n: int) -> Any:
    """Return the first n elements, copied if much memory would remain unused."""
    return array[:n] if 8 * n >= 7 * len(array) else array[:n].copy()


def _build_deep(columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """Build levels of three or more columns; see `build_levels`."""
    contiguous = [np.ascontiguousarray(column) for column in columns]
    n, depth = len(contiguous[0]), len(contiguous)
    values, offsets = np.empty((depth - 1, n), np.int64), np.empty((depth - 1, n + 1), np.int64)
    counts = np.full(depth, n, np.int64)
    trie_levels(np.array([_address(column) for column in contiguous], np.int64), values, offsets, counts)
    sizes = counts.tolist()
    levels = [tries.narrow(values[level, : sizes[level]].copy()) for level in range(depth - 1)]
    return [*levels, tries.narrow(contiguous[-1])], [
        offsets[level, : sizes[level] + 1].copy() for level in range(depth - 1)
    ]

"""The kernels of the protocol with NumPy: callers of the other modules of this package."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from cpu_fallback import choices, sort, sums, tries
from cpu_fallback.numpy_kernels import Extension, Restrictions, Slot, Walk, count, fill
from cpu_fallback.sort import Int64Array
from cpu_fallback.tries import CodeArray
from cpu_fallback.vectorised.fresh import fresh_values
from cpu_fallback.vectorised.merge import merge_tries
from cpu_fallback.vectorised.search import find, find_in_all, lower_bound, upper_bound


class VectorisedKernels:
    """The kernels with NumPy alone; see `gpu_wcoj.kernels.protocol.Kernels`.

    Prefixes that share a range are not processed together, and nothing is marked: `shared` has no effect.
    """

    name: ClassVar[str] = "numpy"
    measures_ranges: ClassVar[bool] = False
    lexsort = staticmethod(sort.lexsort)
    run_starts = staticmethod(sort.run_starts)
    distinct_rows = staticmethod(sort.distinct_rows)
    consolidate = staticmethod(sort.consolidate)
    held_rows = staticmethod(sort.held_rows)
    segment_sums = staticmethod(sums.segment_sums)
    exclusive_sum = staticmethod(sums.exclusive_sum)
    hash_rows = staticmethod(sums.hash_rows)
    build_levels = staticmethod(tries.build_levels)
    index_rows = staticmethod(tries.index_rows)
    rearrange = staticmethod(tries.rearrange)
    expand_columns = staticmethod(tries.expand_columns)
    merge_tries = staticmethod(merge_tries)
    narrowest = staticmethod(choices.narrowest)
    fresh_values = staticmethod(fresh_values)

    @staticmethod
    def describe(
        values: CodeArray, parent_offsets: Int64Array | None, weights: Int64Array | None
    ) -> tuple[tuple[CodeArray, Int64Array | None], None]:
        """See `gpu_wcoj.kernels.protocol.Kernels.describe`.

        The record is the pair of arrays that `locate` reads.
        """
        return (values, parent_offsets), None

    @staticmethod
    def bytes_beside(level: Any) -> int:
        """See `gpu_wcoj.kernels.protocol.Kernels.bytes_beside`; always 0."""
        return 0

    @staticmethod
    def locate(
        records: Sequence[Sequence[tuple[CodeArray, Int64Array | None]]],
        column_of: Sequence[Sequence[int]],
        columns: Int64Array,
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.locate`."""
        positions = np.empty((len(records), columns.shape[1]), np.int64)
        for trie_positions, levels, level_columns in zip(positions, records, column_of, strict=True):
            for (values, parents), column in zip(levels, level_columns, strict=True):
                if parents is None:
                    trie_positions[:] = find_in_all(values, columns[column])
                else:
                    alive = np.flatnonzero(trie_positions >= 0)
                    node = trie_positions[alive]
                    trie_positions[alive] = find(values, parents[node], parents[node + 1], columns[column, alive])
        return positions

    @staticmethod
    def widths(
        levels: Sequence[Any], rows: Sequence[int], positions: Int64Array, lower: Int64Array, upper: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.widths`."""
        widths = np.zeros(positions.shape[1], np.int64)
        for level, row in zip(levels, rows, strict=True):
            low, high = np.zeros_like(widths), np.full_like(widths, len(level.values))
            if level.parent_offsets is not None:
                node = positions[row]
                low = level.parent_offsets[node]
                high = np.where(node < 0, low, level.parent_offsets[node + 1])
            if len(lower):
                low, high = lower_bound(level.values, low, high, lower), upper_bound(level.values, low, high, upper)
            widths += np.maximum(high - low, 0)
        return widths

    @staticmethod
    def weights_of(
        levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.weights_of`."""
        return choices.weights_of(VectorisedKernels.locate, levels, column_of, columns)

    @staticmethod
    def count_children(
        levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.count_children`."""
        return choices.count_children(VectorisedKernels.locate, levels, column_of, columns)

    @staticmethod
    def extend_seeds(
        levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], first: Sequence[int],
        columns: Int64Array, fill: bool, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.extend_seeds`."""
        kernels = VectorisedKernels
        n_slots, n_atoms, n = len(levels), len(first) - 1, columns.shape[1]
        records = [
            [level.record for level in descent[: len(level_columns)]]
            for descent, level_columns in zip(levels, column_of, strict=True)
        ]
        extension = kernels.prepare(
            [descent[-1] for descent in levels], first, [True] * n_atoms, [False] * n_atoms,
            range(n_slots), [-1] * n_slots,
        )  # fmt: skip
        nothing = np.empty(0, np.int64)
        positions = kernels.locate(records, column_of, columns)
        no_bounds = (nothing, nothing, np.empty((0, n), np.int64))
        counts = kernels.count_common(extension, positions, 0, n, *no_bounds, work)
        total = int(counts.sum()) if fill else 0
        if total == 0:
            return counts, np.empty((2, 0), np.int64)
        resume = np.zeros(3, np.int64)
        parent, value, _, _ = kernels.fill_common(
            extension, positions, resume, n, *no_bounds, None, False, total, 0, np.zeros_like(work)
        )
        return counts, np.array([parent, value])

    @staticmethod
    def prepare(
        levels: Sequence[Any], first: Sequence[int], last: Sequence[bool], shared: Sequence[bool],
        rows: Sequence[int], out_rows: Sequence[int], sought: bool = False,
    ) -> Extension:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.prepare`."""
        atoms = tuple(range(begin, end) for begin, end in pairwise(first))
        slots = (
            Slot(levels[k].values, levels[k].parent_offsets, levels[k].weights, rows[k], out_rows[k])
            for k in range(len(levels))
        )
        return Extension(tuple(slots), atoms, tuple(last))

    @staticmethod
    def count_common(
        extension: Extension, positions: Int64Array, begin: int, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array, work: Int64Array,
    ) -> Int64Array:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.count_common`."""
        question = Restrictions(positions, lower, upper, excluded)
        return count(Walk(extension, question, begin, 0, end, work), begin)

    @staticmethod
    def fill_common(
        extension: Extension, positions: Int64Array, resume: Int64Array, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array,
        weights: Int64Array | None, weighted: bool, capacity: int, n_out_rows: int, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.fill_common`."""
        question = Restrictions(positions, lower, upper, excluded)
        walk = Walk(extension, question, int(resume[0]), int(resume[2]), end, work)
        parent, value, weight, positions_out = fill(walk, capacity, n_out_rows)
        resume[:] = walk.prefix, 0, walk.skip
        if not weighted:
            return parent, value, None, positions_out
        return parent, value, weight if weights is None else weight * weights[parent], positions_out

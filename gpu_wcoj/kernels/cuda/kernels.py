"""The kernels of `gpu_wcoj.kernels.protocol` on a CUDA device.

Each launcher module has its CUDA C++ source beside it; launchers take the device as their first argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from gpu_wcoj.kernels.cuda import extend, tries
from gpu_wcoj.kernels.cuda import extend as fresh
from gpu_wcoj.kernels.cuda import tries as choosing
from gpu_wcoj.kernels.cuda import tries as merge
from gpu_wcoj.kernels.cuda import tries as rows
from gpu_wcoj.kernels.cuda import tries as sums
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.protocol import (
    BoolArray,
    Choice,
    CodeArray,
    IndexArray,
    Int64Array,
    Level,
    Trie,
    UInt64Array,
    WalkKernels,
    Walks,
)


class CudaKernels:
    """See `gpu_wcoj.kernels.protocol.Kernels`.

    Parameters
    ----------
    device
        The device that holds the arrays and runs the kernels.
    """

    name = "cuda"
    walker: WalkKernels | None = None
    begin_merge: Any = None
    measures_ranges = False
    walked_rows = 0

    def __init__(self, device: Device) -> None:
        self.device = device

    def fixpoint(self, walks: Walks, orders: Sequence[int]) -> NoReturn:
        """Raise: loops run vectorised on a device; see `walked_rows`."""
        raise NotImplementedError("loops run vectorised on a device")

    def maintenance(self, walks: Walks, states: Sequence[Sequence[Sequence[Level]]]) -> NoReturn:
        """Raise: loops run vectorised on a device; see `walked_rows`."""
        raise NotImplementedError("loops run vectorised on a device")

    def lexsort(self, columns: Sequence[Int64Array]) -> IndexArray:
        """See `gpu_wcoj.kernels.protocol.Kernels.lexsort`."""
        return rows.lexsort(self.device, columns)

    def run_starts(self, columns: Sequence[Int64Array]) -> IndexArray:
        """See `gpu_wcoj.kernels.protocol.Kernels.run_starts`."""
        return rows.run_starts(self.device, columns)

    def distinct_rows(self, columns: Sequence[Int64Array]) -> list[Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`."""
        return rows.distinct_rows(self.device, columns)

    def consolidate(self, columns: Sequence[Int64Array], weights: Int64Array) -> tuple[list[Int64Array], Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Kernels.consolidate`."""
        return rows.consolidate(self.device, columns, weights)

    def held_rows(self, masks: Sequence[BoolArray]) -> list[IndexArray]:
        """See `gpu_wcoj.kernels.protocol.Kernels.held_rows`."""
        return rows.held_rows(self.device, masks)

    def segment_sums(self, values: Int64Array, starts: IndexArray) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.segment_sums`."""
        return sums.segment_sums(self.device, values, starts)

    def exclusive_sum(self, counts: Int64Array) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.exclusive_sum`."""
        return sums.exclusive_sum(self.device, counts)

    def hash_rows(self, columns: Sequence[Int64Array]) -> UInt64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.hash_rows`."""
        return sums.hash_rows(self.device, columns)

    def build_levels(self, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
        """See `gpu_wcoj.kernels.protocol.Kernels.build_levels`."""
        return tries.build_levels(self.device, columns)

    def index_rows(self, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
        """See `gpu_wcoj.kernels.protocol.Kernels.index_rows`."""
        return tries.index_rows(self.device, columns)

    def rearrange(
        self, parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int],
        tags: Sequence[int] = (),
    ) -> tuple[list[CodeArray], list[Int64Array]]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.rearrange`."""
        return tries.rearrange(self.device, parts, order, tags)

    def expand_columns(self, values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> list[Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Kernels.expand_columns`."""
        return tries.expand_columns(self.device, values, offsets)

    def describe(
        self, values: CodeArray, parent_offsets: Int64Array | None, weights: Int64Array | None
    ) -> tuple[Any, Any]:
        """See `gpu_wcoj.kernels.protocol.Kernels.describe`."""
        return tries.describe(values, parent_offsets, weights)

    def bytes_beside(self, level: Level) -> int:
        """See `gpu_wcoj.kernels.protocol.Kernels.bytes_beside`."""
        return tries.bytes_beside(level.support)

    def merge_tries(self, left: Trie, right: Trie) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
        """See `gpu_wcoj.kernels.protocol.Kernels.merge_tries`."""
        return merge.merge_tries(self.device, left, right)

    def locate(
        self, records: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.locate`."""
        return tries.locate(self.device, records, column_of, columns)

    def weights_of(
        self, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.weights_of`."""
        return choosing.weights_of(self.device, levels, column_of, columns)

    def count_children(
        self, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.count_children`."""
        return choosing.count_children(self.device, levels, column_of, columns)

    def widths(
        self, levels: Sequence[Level], rows: Sequence[int], positions: Int64Array, lower: Int64Array, upper: Int64Array
    ) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Kernels.widths`."""
        return choosing.widths(self.device, levels, rows, positions, lower, upper)

    def narrowest(self, choices: Sequence[Choice]) -> IndexArray:
        """See `gpu_wcoj.kernels.protocol.Kernels.narrowest`."""
        return choosing.narrowest(self.device, choices)

    def extend_seeds(
        self, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], first: Sequence[int],
        columns: Int64Array, fill: bool, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.extend_seeds`."""
        return extend.extend_seeds(self.device, levels, column_of, first, columns, fill, work)

    def prepare(
        self, levels: Sequence[Level], first: Sequence[int], last: Sequence[bool], shared: Sequence[bool],
        rows: Sequence[int], out_rows: Sequence[int], sought: bool = False,  # noqa: ARG002 an unused hint
    ) -> Any:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.prepare`."""
        return extend.prepare(self.device, levels, first, last, shared, rows, out_rows)

    def count_common(
        self, extension: Any, positions: Int64Array, begin: int, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array, work: Int64Array,
    ) -> Int64Array:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.count_common`."""
        return extend.count_common(self.device, extension, positions, begin, end, lower, upper, excluded, work)

    def fill_common(
        self, extension: Any, positions: Int64Array, resume: Int64Array, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array,
        weights: Int64Array | None, weighted: bool, capacity: int, n_out_rows: int, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.fill_common`."""
        return extend.fill_common(
            self.device, extension, positions, resume, end, lower, upper, excluded,
            weights, weighted, capacity, n_out_rows, work,
        )  # fmt: skip

    def fresh_values(
        self, levels: Sequence[Level], positions: Int64Array, starts: Int64Array,
        known: Sequence[Level], known_positions: Int64Array, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """See `gpu_wcoj.kernels.protocol.Kernels.fresh_values`."""
        return fresh.fresh_values(self.device, levels, positions, starts, known, known_positions, work)

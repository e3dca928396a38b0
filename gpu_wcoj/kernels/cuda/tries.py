"""Tries on a device: built from sorted rows, expanded to rows, and descended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.device import BLOCK, MAX_BLOCK_ROWS, Device, column_arguments, looping_blocks, tiles
from gpu_wcoj.kernels.protocol import BoolArray, Choice, CodeArray, IndexArray, Int64Array, Level, Trie, UInt64Array

# Merge two tries: place the smaller one's nodes in the larger one, then copy every level.
#
# Left is the trie with more rows, right the other one; addition commutes.
#
# 1. *Places*, from the top down, a thread for four right nodes: the position or insertion point of each among the left
#    children of its parent, or the insertion point of its parent's children if left does not have the parent. Places
#    ascend along a level, so they are the second run of a merge path over the whole level, for any parents.
# 2. *Changes*, from the bottom up, a thread for four right nodes: each adds a node to the level (+1), meets an equal
#    one (0), or removes one (-1): a row whose weights cancel, a node that keeps no child. Their running sums are the
#    shifts of left's nodes. Neither step reads more of left than its searches do.
# 3. The only read: the change of each level's size, and whether weights other than 1 remain.
# 4. *Copies*, a launch a level, a block for every 4096 nodes of both tries in merged order: it finds its first and last
#    right node by a search, marks the source of each of its ranks, and copies; a warp with left nodes only just copies.
#    All else follows from the place in the order: the children of the node at rank d with r right nodes before it
#    begin at ``left_offsets[d - r]``, moved by the changes of the children of these r nodes.
#
# Launches: 3 a level less one, and one more if left has weights. Reads: one. Results of atomic operations do not depend
# on their order.
#
# Bytes, for n left and m right nodes of a level with codes of c bytes: a merge has to read c (n + m) and write as much,
# and 8 (n + m) more of each for an inner level's offsets, or for the last one's weights if there are any. The copies
# move as much, plus 16 m (8 m at the last level) for right's places and shifts. Steps 1 and 2 move about 20 m at the
# last level and 50 m at an inner one, and the sectors of left that the searches read: all threads of a block search
# between the places of its first and last node, and these sectors are in their cache after one sample each. So rows of
# narrow codes without weights cost 8 bytes each, with weights 24, and a row of the change up to a hundred. If left has
# weights, those that are not 1 are counted, up to the first that right cannot undo: if nearly all are 1, this reads up
# to 8 n more.


PLACE_BLOCK = 512
"""Threads of a block that places right nodes and adds them up. Same in places.cuh."""
CHUNK = 4 * PLACE_BLOCK
"""Right nodes that such a block handles. Same in places.cuh."""
TILE = 4096
"""Nodes of both tries that a block copies. Same in merge_path.cuh."""
COPY_BLOCK = 256
"""Threads of a block that copies. Same in merge_path.cuh."""
COUNT_BLOCK = 256
"""Threads of a block that counts weights. Same in merge.cu."""
COUNT_CHUNK = 8 * COUNT_BLOCK
"""Weights that a block counts at a time. Same in merge.cu."""


@dataclass(frozen=True, eq=False, slots=True)
class _Level:
    """One level of both tries, with the places and changes of right's nodes.

    Attributes
    ----------
    places
        int64 (m,): four times the left node that a right one equals or precedes, plus its kind of change.
    within, chunk_before
        int32 (m + 1,) and int64: the sum of the changes before each node, within its chunk and before the chunk.
    child_shift
        int64 (m + 1,), at inner levels: the sum of the changes of the next level before each node's children.
    """

    left: Any
    right: Any
    places: Any
    within: Any
    chunk_before: Any
    child_shift: Any

    @property
    def n_left(self) -> int:
        return len(self.left)

    @property
    def n_right(self) -> int:
        return len(self.right)

    @property
    def n_chunks(self) -> int:
        return len(self.chunk_before)

    @property
    def sources(self) -> tuple[Any, ...]:
        """Both sides' values as arguments of kernels for both code widths."""
        left, right = self.left, self.right
        return left, int(left.itemsize == 8), len(left), right, int(right.itemsize == 8), len(right)


def _blocks(n: int, per_block: int) -> int:
    return -(-n // per_block)


def _levels(device: Device, left: Trie, right: Trie) -> list[_Level]:
    xp = device.xp
    levels = []
    for depth, (x, y) in enumerate(zip(left[0], right[0], strict=True)):
        m = len(y)
        inner = depth < len(left[0]) - 1
        levels.append(
            _Level(
                x, y, xp.empty(m, xp.int64), xp.empty(m + 1, xp.int32), xp.empty(_blocks(m + 1, CHUNK), xp.int64),
                xp.empty(m + 1, xp.int64) if inner else None,
            )
        )  # fmt: skip
    return levels


def _place(device: Device, left: Trie, right: Trie, levels: list[_Level], counters: Any) -> None:
    """Run steps 1 and 2.

    `counters` holds per level the sum of its changes and a ticket, then three counts of weights.
    """
    last_level = len(levels) - 1
    for depth, level in enumerate(levels):
        x, x_wide, n, y, y_wide, m = level.sources
        above: tuple[Any, ...] = (None, y, y_wide, m, None, 0, None)
        if depth > 0:
            parents = levels[depth - 1]
            above = left[1][depth - 1], y, y_wide, m, right[1][depth - 1], parents.n_right, parents.places
        arguments = [x, x_wide, n, *above, level.places]
        if depth < last_level:
            device.launch("merge", "place_nodes", _blocks(m, CHUNK), PLACE_BLOCK, arguments)
        else:
            sums = [level.within, level.chunk_before, counters[2 * depth :], counters[2 * depth + 2 :]]
            device.launch(
                "merge", "place_rows", level.n_chunks, PLACE_BLOCK, [*arguments, left[2], right[2], *sums]
            )  # fmt: skip
    for depth in range(last_level - 1, -1, -1):
        level, below = levels[depth], levels[depth + 1]
        device.launch(
            "merge", "change_nodes", level.n_chunks, PLACE_BLOCK,
            [
                level.n_right, level.places, left[1][depth], right[1][depth], below.within, below.chunk_before,
                level.child_shift, level.within, level.chunk_before, counters[2 * depth :],
            ],
        )  # fmt: skip


def _copy(device: Device, level: _Level, size: int, kind: str, along: tuple[Any, ...]) -> CodeArray:
    """Copy the merged values of a level.

    `along` holds the arrays that accompany them on the left, on the right, and in the output.
    """
    xp = device.xp
    wide = 8 in (level.left.itemsize, level.right.itemsize)
    out: CodeArray = xp.empty(size, xp.int64 if wide else xp.int32)
    values = level.sources if wide else (level.left, level.n_left, level.right, level.n_right)
    # At least one block: it writes the end of the last node's children.
    n_blocks = max(1, _blocks(level.n_left + level.n_right, TILE))
    device.launch(
        "merge", f"copy_{'wide' if wide else 'narrow'}_{kind}", n_blocks, COPY_BLOCK,
        [*values, level.places, level.within, level.chunk_before, out, *along],
    )  # fmt: skip
    return out


def merge_tries(device: Device, left: Trie, right: Trie) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
    """See `gpu_wcoj.kernels.protocol.Kernels.merge_tries`."""
    xp = device.xp
    if len(left[0][-1]) < len(right[0][-1]):
        left, right = right, left
    levels = _levels(device, left, right)
    last_level = len(levels) - 1
    counters = xp.zeros(2 * len(levels) + 3, xp.int64)
    _place(device, left, right, levels, counters)
    if left[2] is not None:
        n_blocks = min(_blocks(len(left[2]), COUNT_CHUNK), 8 * device.multiprocessors)
        arguments = [left[2], len(left[2]), counters[2 * len(levels) :]]
        device.launch("merge", "count_weights", n_blocks, COUNT_BLOCK, arguments)
    counts = [int(counter) for counter in device.to_host(counters)]
    brought, met, n_other = counts[2 * len(levels) :]
    sizes = [level.n_left + change for level, change in zip(levels, counts[0 : 2 * len(levels) : 2], strict=True)]
    values: list[CodeArray] = []
    offsets: list[Int64Array] = []
    for depth in range(last_level):
        offsets.append(xp.empty(sizes[depth] + 1, xp.int64))
        along = left[1][depth], levels[depth].child_shift, offsets[depth]
        values.append(_copy(device, levels[depth], sizes[depth], "nodes", along))
    if brought == 0 and n_other <= met:
        values.append(_copy(device, levels[last_level], sizes[last_level], "rows", ()))
        return values, offsets, None
    weights: Int64Array = xp.empty(sizes[last_level], xp.int64)
    values.append(_copy(device, levels[last_level], sizes[last_level], "weighted", (left[2], right[2], weights)))
    return values, offsets, weights


# Rows on a device: sort them, find their runs, add their weights.
#
# Rows are sorted as keys: each column's codes minus the least one take as many bits as its range needs, and the columns
# of a row are concatenated to one integer that orders as rows do. A sort of integers is a stable radix sort, whose
# passes depend on the width of the key: 32 bits if the columns fit, else 64. Rows that need more are sorted by their
# last columns first, as many as fit a key, then, stably, by the ones before. Up to `FEW` rows are sorted by one block,
# since below about ten thousand rows launches dominate the time.
#
# Numbers of launches leave out those inside the array module's sort, and assume up to `N_DIRECT` columns: the addresses
# of further ones are uploaded.


_ROWS_SOURCE = "rows"
_ASCENDING, _REPEATING, _UNSORTED = range(3)
_KEY_BITS = 64
"""Bits of a key."""
_SCAN_BLOCK = 1024
"""Threads of the block that scans sums."""


def lexsort(device: Device, columns: Sequence[Int64Array]) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.lexsort`.

    Up to `FEW` rows: 1 launch, no read. Else 1 read and, if one key holds a row, 2 launches and a sort; 1 launch if
    the rows are sorted already.
    """
    n = len(columns[0])
    order: IndexArray
    if 2 <= n <= MAX_BLOCK_ROWS:
        order = device.xp.empty(n, np.int64)
        _sort_few(device, columns, None, order, None)
        return order
    table = _Table(device, columns) if n > 1 else None
    if table is not None and table.state == _UNSORTED:
        return _sort_order(table)
    order = device.xp.arange(n, dtype=np.int64)
    return order


def run_starts(device: Device, columns: Sequence[Int64Array]) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.run_starts`. 3 launches, 1 for one tile; 1 read."""
    n = len(columns[0])
    starts: IndexArray = device.xp.empty(n if tiles(n) <= 1 else 0, np.int64)
    if n == 0:
        return starts
    arguments = column_arguments(device, columns)
    total = device.xp.empty(1, np.int64)
    sums = None
    if tiles(n) > 1:
        sums = device.xp.empty(tiles(n), np.int64)
        device.launch(_ROWS_SOURCE, "count_runs", tiles(n), BLOCK, [*arguments, None, n, sums])
        scan_sums(device, sums, tiles(n), total)
        starts = device.xp.empty(_read_number(device, total), np.int64)
    device.launch(_ROWS_SOURCE, "place_runs", tiles(n), BLOCK, [*arguments, None, n, sums, total, starts, None])
    return starts if sums is not None else starts[: _read_number(device, total)]


def held_rows(device: Device, masks: Sequence[BoolArray]) -> list[IndexArray]:
    """See `gpu_wcoj.kernels.protocol.Kernels.held_rows`.

    Per mask 3 launches, 1 for one tile; 1 read for all.
    """
    xp = device.xp
    masks = [xp.ascontiguousarray(mask) for mask in masks]
    totals = xp.empty(len(masks), np.int64)
    buffers: list[Any] = []
    for index, mask in enumerate(masks):
        n = len(mask)
        buffers.append(xp.empty(n if tiles(n) == 1 else tiles(n), np.int64))
        if tiles(n) == 1:
            device.launch(
                _ROWS_SOURCE, "place_held", 1, BLOCK, [mask, n, None, totals[index : index + 1], buffers[index]]
            )
        elif n:
            device.launch(_ROWS_SOURCE, "count_held", tiles(n), BLOCK, [mask, n, buffers[index]])
            scan_sums(device, buffers[index], tiles(n), totals[index : index + 1])
    rows: list[IndexArray] = []
    sizes = device.to_host(totals).tolist() if any(map(len, masks)) else []
    for mask, buffer, size in zip(masks, buffers, sizes or [0] * len(masks), strict=True):
        n = len(mask)
        if tiles(n) <= 1:
            rows.append(buffer[: size if n else 0])
            continue
        rows.append(xp.empty(size, np.int64))
        if size:
            device.launch(_ROWS_SOURCE, "place_held", tiles(n), BLOCK, [mask, n, buffer, None, rows[-1]])
    return rows


def distinct_rows(device: Device, columns: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`.

    Up to `FEW` rows: 1 launch, 1 read. Else 1 read if the rows are sorted and distinct already, 2 otherwise.
    """
    n = len(columns[0])
    if n < 2:
        return list(columns)
    if n <= MAX_BLOCK_ROWS:
        return _consolidate_few(device, columns, None)[0]
    table = _Table(device, columns)
    if table.state == _ASCENDING:
        return list(columns)
    if table.state == _REPEATING:
        return table.rows(run_starts(device, columns))
    if len(table.groups) == 1:
        ((first, end, narrow),) = table.groups
        key = device.xp.sort(table.pack(first, end, narrow, None))
        key = key.astype(np.int64) if narrow else key.view(np.int64)
        return table.unpack(key, run_starts(device, [key]))
    order = _sort_order(table)
    rows = gather(device, columns, order)
    return gather(device, rows, run_starts(device, rows))


def consolidate(
    device: Device, columns: Sequence[Int64Array], weights: Int64Array
) -> tuple[list[Int64Array], Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.consolidate`.

    Up to `FEW` rows: 1 launch, 1 read. Else 2 reads and, if one key holds a row, 10 launches and a sort; the host reads
    the numbers of runs and of remaining rows at the end only.
    """
    n = len(weights)
    if n == 0:
        return list(columns), weights
    if n <= MAX_BLOCK_ROWS:
        return _consolidate_few(device, columns, weights)
    xp = device.xp
    table = _Table(device, columns)
    rows, sums, key = columns, weights, None
    if table.state == _UNSORTED and len(table.groups) == 1:
        key, sums = _sort_keys(table, weights)
        rows = [key]
    elif table.state == _UNSORTED:
        *rows, sums = gather(device, [*columns, weights], _sort_order(table))
    starts, before, n_runs = _find_runs(device, rows, sums)
    n_kept = xp.empty(1, np.int64)
    tile_sums = xp.empty(tiles(n), np.int64)
    device.launch(_ROWS_SOURCE, "count_kept", tiles(n), BLOCK, [before, n_runs, tile_sums])
    scan_sums(device, tile_sums, tiles(n), n_kept)
    m = _read_number(device, n_kept)
    if m == n and table.state == _ASCENDING:
        return list(columns), weights
    picks, picked_weights = xp.empty(m, np.int64), xp.empty(m, np.int64)
    device.launch(
        _ROWS_SOURCE, "place_kept", tiles(n), BLOCK, [before, starts, n_runs, tile_sums, picks, picked_weights]
    )
    return table.unpack(key, picks) if key is not None else gather(device, rows, picks), picked_weights


def gather(device: Device, columns: Sequence[Int64Array], picks: IndexArray) -> list[Int64Array]:
    """Return the columns of the rows at `picks`. 1 launch, no read."""
    m = len(picks)
    out = device.xp.empty((len(columns), m), np.int64)
    arguments = [*column_arguments(device, columns), picks, m, out]
    device.launch(_ROWS_SOURCE, "gather", looping_blocks(device, m), BLOCK, arguments)
    return list(out)


def scan_sums(device: Device, sums: Any, length: int, totals: Any) -> None:
    """Turn each row of `length` sums into the sums before them, in place.

    `totals` receives the sum of each row. 1 launch, a block a row.
    """
    device.launch(_ROWS_SOURCE, "scan_sums", len(totals), _SCAN_BLOCK, [sums, length, totals])


class _Table:
    """Columns of two or more rows, with their ranges and order, from one pass and one read.

    Attributes
    ----------
    state
        The order of adjacent rows: `_ASCENDING`, `_REPEATING` or `_UNSORTED`.
    groups
        (first column, end, whether 32 bits suffice) of each key, from the first columns to the last.
    """

    def __init__(self, device: Device, columns: Sequence[Int64Array]) -> None:
        xp = device.xp
        n = len(columns[0])
        self.device, self.columns, self.n = device, columns, n
        self.arguments = column_arguments(device, columns)
        blocks = looping_blocks(device, n)
        self.ranges = xp.full(2 * len(columns) + 1, np.iinfo(np.int64).min, np.int64)
        device.launch(_ROWS_SOURCE, "find_ranges", blocks, BLOCK, [*self.arguments, n, self.ranges])
        *limits, self.state = device.to_host(self.ranges).tolist()
        bits = [(high - ~low).bit_length() for low, high in zip(limits[::2], limits[1::2], strict=True)]
        self.groups: list[tuple[int, int, bool]] = []
        end = len(columns)
        while end > 0:
            first, taken = end, 0
            while first > 0 and taken + bits[first - 1] <= _KEY_BITS:
                first -= 1
                taken += bits[first]
            self.groups.insert(0, (first, end, taken <= _KEY_BITS // 2))
            end = first

    def pack(self, first: int, end: int, narrow: bool, order: IndexArray | None) -> Any:
        """Return the keys of columns `first` to `end`, of the rows in `order` if it is given."""
        keys = self.device.xp.empty(self.n, np.uint32 if narrow else np.uint64)
        arguments = [*self.arguments, self.n, self.ranges, first, end, order, int(narrow), keys]
        self.device.launch(_ROWS_SOURCE, "pack", looping_blocks(self.device, self.n), BLOCK, arguments)
        return keys

    def unpack(self, keys: Int64Array, picks: IndexArray) -> list[Int64Array]:
        """Return the columns of the keys at `picks`, which hold all columns."""
        m, k = len(picks), len(self.columns)
        out = self.device.xp.empty((k, m), np.int64)
        arguments = [keys, picks, m, self.ranges, k, out]
        self.device.launch(_ROWS_SOURCE, "unpack", looping_blocks(self.device, m), BLOCK, arguments)
        return list(out)

    def rows(self, picks: IndexArray) -> list[Int64Array]:
        """Return the rows at `picks`."""
        return gather(self.device, self.columns, picks)


def _sort_order(table: _Table) -> IndexArray:
    """Return the stable order of the table's rows: a sort a group, from the last to the first."""
    xp = table.device.xp
    *upper, (first, end, narrow) = table.groups
    order: IndexArray = xp.argsort(table.pack(first, end, narrow, None))
    for first, end, narrow in reversed(upper):
        order = order[xp.argsort(table.pack(first, end, narrow, order))]
    return order


def _sort_keys(table: _Table, weights: Int64Array) -> Any:
    """Return sorted keys of rows that fit one key, and their weights: int64, shape (2, n)."""
    device, n = table.device, table.n
    ((first, end, narrow),) = table.groups
    keys = table.pack(first, end, narrow, None)
    order = device.xp.argsort(keys)
    arranged = device.xp.empty((2, n), np.int64)
    arguments = [keys, int(narrow), device.xp.ascontiguousarray(weights), order, n, arranged]
    device.launch(_ROWS_SOURCE, "gather_keys", looping_blocks(device, n), BLOCK, arguments)
    return arranged


def _find_runs(device: Device, rows: Sequence[Int64Array], weights: Int64Array) -> tuple[Any, Any, Any]:
    """Return the starts of runs of equal rows, running sums of weights, and the number of runs.

    The first two are as long as if no two rows were equal, so that nothing is read. 3 launches.
    """
    xp = device.xp
    n = len(weights)
    arguments = [*column_arguments(device, rows), xp.ascontiguousarray(weights), n]
    sums, totals = xp.empty((2, tiles(n)), np.int64), xp.empty(2, np.int64)
    device.launch(_ROWS_SOURCE, "count_runs", tiles(n), BLOCK, [*arguments, sums])
    scan_sums(device, sums, tiles(n), totals)
    starts, before = xp.empty(n, np.int64), xp.empty(n + 1, np.int64)
    device.launch(_ROWS_SOURCE, "place_runs", tiles(n), BLOCK, [*arguments, sums, totals, starts, before])
    return starts, before, totals


def _sort_few(device: Device, columns: Sequence[Int64Array], weights: Any, order: Any, out: Any) -> None:
    n = len(columns[0])
    threads = max(32, 1 << (n - 1).bit_length())
    arguments = [*column_arguments(device, columns), n, weights, order, out]
    device.launch(_ROWS_SOURCE, "sort_few", 1, threads, arguments)


def _consolidate_few(
    device: Device, columns: Sequence[Int64Array], weights: Int64Array | None
) -> tuple[list[Int64Array], Int64Array]:
    """Sort up to `FEW` rows and drop repeats; with weights, also rows of weight 0."""
    xp = device.xp
    n, k = len(columns[0]), len(columns)
    out = xp.empty(1 + (k + 1) * n, np.int64)
    _sort_few(device, columns, None if weights is None else xp.ascontiguousarray(weights), None, out)
    m = _read_number(device, out[:1])
    *columns_out, sums = (out[1 + i * n : 1 + i * n + m] for i in range(k + 1))
    return columns_out, sums


def _read_number(device: Device, array: Any) -> int:
    """Read the only element of a device array."""
    return int(device.to_host(array)[0])


_SOURCE = "tries"
_ALIGNMENT = 8
"""Words of 8 bytes to which each array of a trie is rounded up. Same in tries.cu."""

VALUES, BYTES, PARENTS, WEIGHTS, N_VALUES, N_PARENTS, RECORD_FIELDS = range(7)
"""Fields of a level's record, and their number.

The values' address and bytes each, the addresses of the parents' offsets and of the weights, 0 if there are none, the
number of values, and of their parents, 1 at the top."""

Record = tuple[int, int, int, int, int, int]


@dataclass(eq=False, slots=True)
class Support:
    """Data derived from a level with weights on first use; lives as long as its batch."""

    weights: Int64Array
    sums: Int64Array | None = None

    def weight_sums(self, device: Device) -> Int64Array:
        """Return the inclusive running sums of the weights modulo 2^64."""
        sums = self.sums
        if sums is None:
            sums = self.sums = device.xp.cumsum(self.weights)
        return sums


def describe(
    values: CodeArray, parent_offsets: Int64Array | None, weights: Int64Array | None
) -> tuple[Record, Support | None]:
    """See `gpu_wcoj.kernels.protocol.Kernels.describe`. Nothing is launched or read.

    The record holds addresses: its user has to keep the arrays alive.
    """
    parents, n_parents = (0, 1) if parent_offsets is None else (_address(parent_offsets), len(parent_offsets) - 1)
    sums = 0 if weights is None else _address(weights)
    record = _address(values), values.dtype.itemsize, parents, sums, len(values), n_parents
    return record, None if weights is None else Support(weights)


def bytes_beside(level: Level) -> int:
    """See `gpu_wcoj.kernels.protocol.Kernels.bytes_beside`."""
    support = level.support
    return 0 if support is None or support.sums is None else int(support.sums.nbytes)


def build_levels(device: Device, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """See `gpu_wcoj.kernels.protocol.Kernels.build_levels`. 3 launches, 1 for one tile; 1 read.

    All arrays of a trie are parts of one allocation. A block handles a tile of rows, and each of its threads the nodes
    that start at its rows.
    """
    xp = device.xp
    n, depth = len(columns[0]), len(columns)
    if n == 0:
        return [xp.empty(0, np.int64) for _ in columns], [xp.zeros(1, np.int64) for _ in columns[1:]]
    arguments = [*column_arguments(device, columns), n]
    totals = xp.empty(2 * depth - 1, np.int64)
    sums = None
    if tiles(n) > 1:
        sums = xp.empty((2 * depth - 1, tiles(n)), np.int64)
        device.launch(_SOURCE, "count_nodes", tiles(n), BLOCK, [*arguments, sums])
        scan_sums(device, sums, tiles(n), totals)
        sizes = _read_sizes(device, totals, depth, n)
        memory = xp.empty(_count_words(sizes), np.int64)
    else:
        memory = xp.empty(_count_words([(n, 8)] * depth), np.int64)
        sizes = []
    device.launch(_SOURCE, "place_nodes", tiles(n), BLOCK, [*arguments, sums, totals, memory])
    return _slice_levels(memory, sizes or _read_sizes(device, totals, depth, n))


def index_rows(device: Device, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """See `gpu_wcoj.kernels.protocol.Kernels.index_rows`.

    The cost of `distinct_rows` and `build_levels`.
    """
    return build_levels(device, distinct_rows(device, columns))


def rearrange(
    device: Device, parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int],
    tags: Sequence[int] = (),
) -> tuple[list[CodeArray], list[Int64Array]]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.rearrange`.

    The cost of `index_rows`, and of `expand_columns` a trie.
    """
    rows = [expand_columns(device, *part) for part in parts]
    for columns, tag in zip(rows, tags, strict=False):
        columns.append(device.xp.full(len(columns[0]), tag, np.int64))
    joined = rows[0] if len(rows) == 1 else [device.xp.concatenate(columns) for columns in zip(*rows, strict=True)]
    values, offsets = index_rows(device, [joined[column] for column in (*order, *range(len(order), len(joined)))])
    return values, offsets[: len(order) - 1]


def expand_columns(device: Device, values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.expand_columns`. 1 upload, 1 launch, no read.

    A block handles a tile of rows; their nodes are found level by level upwards, each between those of its first and
    last row.
    """
    xp = device.xp
    n, depth = len(values[-1]), len(values)
    if n == 0 or depth == 1:
        return [level[:n].astype(np.int64) for level in values]
    table = [[_address(level), level.dtype.itemsize, 0, 0] for level in values]
    for fields, bounds in zip(table[1:], offsets, strict=True):
        fields[2:] = [_address(bounds), len(bounds) - 1]
    out = xp.empty((depth, n), np.int64)
    uploaded = device.asarray(np.array(table, np.int64))
    device.launch(_SOURCE, "expand_rows", tiles(n), BLOCK, [uploaded, depth, n, out])
    return list(out)


def locate(
    device: Device, records: Sequence[Sequence[Record]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.locate`. 1 upload, 1 launch, no read.

    A thread handles a row and a trie. The search in a top level starts by interpolation: O(1) if codes are dense.
    """
    xp = device.xp
    n = columns.shape[1]
    positions: Int64Array = xp.empty((len(records), n), np.int64)
    if positions.size == 0:
        return positions
    table = device.asarray(np.array(descents(records, column_of), np.int64))
    arguments = [table, len(records), xp.ascontiguousarray(columns), n, positions]
    device.launch(_SOURCE, "locate_rows", looping_blocks(device, positions.size), BLOCK, arguments)
    return positions


def descents(records: Sequence[Sequence[Record]], column_of: Sequence[Sequence[int]]) -> list[int]:
    """Return the table that `descend` reads: the start of each trie's levels, then the levels."""
    starts, entries = [0], []
    for levels, trie_columns in zip(records, column_of, strict=True):
        starts.append(starts[-1] + len(levels))
        for record, column in zip(levels, trie_columns, strict=True):
            entries += [*record, column]
    return [*starts, *entries]


def _address(array: Any) -> int:
    """Return an array's address on the device; 0 for an empty one."""
    return int(array.data.ptr) if array.size else 0


def _read_sizes(device: Device, totals: Any, depth: int, n: int) -> list[tuple[int, int]]:
    """Read (number of values, bytes each) of every level."""
    counters = device.to_host(totals).tolist()
    counts, wide = [*counters[: depth - 1], n], counters[depth - 1 :]
    return [(count, 8 if flag else 4) for count, flag in zip(counts, wide, strict=True)]


def _round_words(n_bytes: int) -> int:
    """Return the words of 8 bytes that an array of `n_bytes` bytes takes."""
    return -(-n_bytes // (8 * _ALIGNMENT)) * _ALIGNMENT


def _count_words(sizes: Sequence[tuple[int, int]]) -> int:
    """Return the words of a trie's levels: values, and offsets except the last one's."""
    words = [_round_words(count * size) + _round_words(8 * (count + 1)) for count, size in sizes]
    return sum(words) - _round_words(8 * (sizes[-1][0] + 1))


def _slice_levels(memory: Any, sizes: Sequence[tuple[int, int]]) -> tuple[list[CodeArray], list[Int64Array]]:
    """Return the arrays of levels in `memory`, which `place_nodes` has filled."""
    values: list[CodeArray] = []
    offsets: list[Int64Array] = []
    offset = 0
    for count, size in sizes:
        end = offset + _round_words(count * size)
        values.append(memory[offset : offset + count] if size == 8 else memory[offset:end].view(np.int32)[:count])
        offsets.append(memory[end : end + count + 1])
        offset = end + _round_words(8 * (count + 1))
    return values, offsets[:-1]


# Values below rows, and weights of rows, on a device: inputs for choosing orders and paths.


_CHOOSING_SOURCE = "choosing"
_SUM_BLOCK = 1024
"""Threads of a block that adds up the values below a sample of rows in one trie."""


def weights_of(
    device: Device, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.weights_of`. 1 upload, 1 launch, no read.

    A thread handles a row and a trie, or several tries if there are more than 32.
    """
    xp = device.xp
    n, k = columns.shape[1], len(levels)
    if k == 0:
        nothing: Int64Array = xp.zeros(n, np.int64)
        return nothing
    sums: Int64Array = xp.empty(n, np.int64)
    table = descents([[level.record for level in trie_levels] for trie_levels in levels], column_of)
    weights = [0 if trie_levels[-1].weights is None else _address(trie_levels[-1].weights) for trie_levels in levels]
    uploaded = device.asarray(np.array([*table, *weights], np.int64))
    group = min(32, 1 << (k - 1).bit_length())
    arguments = [uploaded, k, uploaded[len(table) :], xp.ascontiguousarray(columns), n, group, sums]
    device.launch(_CHOOSING_SOURCE, "add_weights", looping_blocks(device, n * group), BLOCK, arguments)
    return sums


def count_children(
    device: Device, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.count_children`. 1 upload, 1 launch, no read.

    A block handles a trie: meant for a sample of some thousand rows.
    """
    xp = device.xp
    totals: Int64Array = xp.empty(len(levels), np.int64)
    if not levels:
        return totals
    table = descents([[level.record for level in trie_levels[:-1]] for trie_levels in levels], column_of)
    offsets = [_address(trie_levels[-1].parent_offsets) for trie_levels in levels]
    uploaded = device.asarray(np.array([*table, *offsets], np.int64))
    arguments = [uploaded, len(levels), uploaded[len(table) :], xp.ascontiguousarray(columns), columns.shape[1], totals]
    device.launch(_CHOOSING_SOURCE, "sum_children", len(levels), _SUM_BLOCK, arguments)
    return totals


def widths(
    device: Device,
    levels: Sequence[Level],
    rows: Sequence[int],
    positions: Int64Array,
    lower: Int64Array,
    upper: Int64Array,
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.widths`. 1 upload, 1 launch, no read.

    A thread handles a prefix.
    """
    xp = device.xp
    n = positions.shape[1]
    totals: Int64Array = xp.empty(n, np.int64)
    records = [field for level in levels for field in level.record]
    table = device.asarray(np.array([*rows, *records], np.int64))
    bounds = [xp.ascontiguousarray(bound) for bound in (lower, upper)]
    arguments = [table, len(levels), xp.ascontiguousarray(positions), n, *bounds, int(len(lower) > 0), totals]
    device.launch(_CHOOSING_SOURCE, "widths", looping_blocks(device, n), BLOCK, arguments)
    return totals


def narrowest(device: Device, choices: Sequence[Choice]) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.narrowest`. 1 upload, 1 launch, no read.

    A thread handles a prefix.
    """
    xp = device.xp
    places = [xp.ascontiguousarray(positions) for positions, _ in choices]
    n = places[0].shape[1]
    atoms, batches, ranges = [0], [0], []
    for _, choice_atoms in choices:
        atoms.append(atoms[-1] + len(choice_atoms))
        for atom in choice_atoms:
            batches.append(batches[-1] + len(atom))
            for row, offsets in atom:
                ranges += [row, _address(offsets)]
    addresses = [_address(positions) for positions in places]
    chosen: IndexArray = xp.empty(n, np.int64)
    table = device.asarray(np.array([*atoms, *batches, *addresses, *ranges], np.int64))
    arguments = [table, len(choices), len(batches) - 1, n, chosen]
    device.launch(_CHOOSING_SOURCE, "narrowest", looping_blocks(device, n), BLOCK, arguments)
    return chosen


# Sums of runs, running sums, and hashes of rows, on a device.


_SUMS_SOURCE = "sums"


def segment_sums(device: Device, values: Int64Array, starts: IndexArray) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.segment_sums`. 4 launches, 2 for one tile; 1 read.

    Exact for runs of fewer than 2^31 values: lower and upper halves are added separately.
    """
    xp = device.xp
    n, m = len(values), len(starts)
    out: Int64Array = xp.empty(m, np.int64)
    if m == 0:
        return out
    values, starts = xp.ascontiguousarray(values), xp.ascontiguousarray(starts)
    before, failed, sums = xp.empty((2, m + 1), np.int64), xp.empty(1, np.int64), None
    if tiles(n) > 1:
        sums = xp.empty((2, tiles(n)), np.int64)
        device.launch(_SUMS_SOURCE, "sum_tiles", tiles(n), BLOCK, [values, n, 1, sums])
        scan_sums(device, sums, tiles(n), xp.empty(2, np.int64))
    device.launch(_SUMS_SOURCE, "sums_before_runs", tiles(n), BLOCK, [values, n, starts, m, sums, before, failed])
    device.launch(_SUMS_SOURCE, "join_sums", looping_blocks(device, m), BLOCK, [before, m, out, failed])
    first = int(device.to_host(failed)[0])
    if first < m:
        raise OverflowError(f"the sum of run {first} of {m} is outside int64")
    return out


def exclusive_sum(device: Device, counts: Int64Array) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.exclusive_sum`.

    3 launches, 1 for one tile; no read.
    """
    xp = device.xp
    n = len(counts)
    out: Int64Array = xp.empty(n + 1, np.int64) if n else xp.zeros(1, np.int64)
    if n == 0:
        return out
    counts, sums = xp.ascontiguousarray(counts), None
    if tiles(n) > 1:
        sums = xp.empty(tiles(n), np.int64)
        device.launch(_SUMS_SOURCE, "sum_tiles", tiles(n), BLOCK, [counts, n, 0, sums])
        scan_sums(device, sums, tiles(n), xp.empty(1, np.int64))
    device.launch(_SUMS_SOURCE, "place_sums", tiles(n), BLOCK, [counts, n, sums, out])
    return out


def hash_rows(device: Device, columns: Sequence[Int64Array]) -> UInt64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.hash_rows`. 1 launch, no read."""
    n = len(columns[0])
    out: UInt64Array = device.xp.empty(n, np.uint64)
    arguments = [*column_arguments(device, columns), n, out]
    device.launch(_SUMS_SOURCE, "hash_table", looping_blocks(device, n), BLOCK, arguments)
    return out

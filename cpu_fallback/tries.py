"""Build, narrow and prune tries with NumPy alone."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Range widths and weights per row (NumPy).


Int64Array = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
Locate = Callable[[Sequence[Sequence[Any]], Sequence[Sequence[int]], Int64Array], Int64Array]

_MAX_INT64 = np.iinfo(np.int64).max


def children_below(offsets: Int64Array, positions: Int64Array) -> Int64Array:
    """Return the number of children of each position of a level; 0 for position -1."""
    widths: Int64Array = np.maximum(offsets[positions + 1] - offsets[positions], 0)  # of -1: minus all children
    return widths


def count_children(
    locate: Locate, levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """Compute `gpu_wcoj.kernels.protocol.Kernels.count_children` with the kernels' `locate`."""
    records = [[level.record for level in batch_levels[:-1]] for batch_levels in levels]
    positions = locate(records, column_of, columns)
    sums = [
        children_below(batch_levels[-1].parent_offsets, row).sum()
        for batch_levels, row in zip(levels, positions, strict=True)
    ]
    return np.array(sums, np.int64)


def weights_of(
    locate: Locate, levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """Compute `gpu_wcoj.kernels.protocol.Kernels.weights_of` with the kernels' `locate`."""
    total = np.zeros(columns.shape[1], np.int64)
    positions = locate([[level.record for level in batch_levels] for batch_levels in levels], column_of, columns)
    for batch_levels, row in zip(levels, positions, strict=True):
        is_present = row >= 0
        if batch_levels[-1].weights is None:
            total += is_present
        else:
            total[is_present] += batch_levels[-1].weights[row[is_present]]
    return total


def narrowest(
    choices: Sequence[tuple[Int64Array, Sequence[Sequence[tuple[int, Int64Array]]]]],
) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.narrowest`."""
    widths = []
    for positions, atoms in choices:
        narrowest_width: Int64Array | None = None
        for batches in atoms:
            total = np.zeros(positions.shape[1], np.int64)
            for row, offsets in batches:
                total += children_below(offsets, positions[row])
            narrowest_width = total if narrowest_width is None else np.minimum(narrowest_width, total)
        widths.append(np.full(positions.shape[1], _MAX_INT64) if narrowest_width is None else narrowest_width)
    return np.argmin(np.array(widths), axis=0)


# Sorting rows of int64 codes: packed into one key if the ranges allow, else by column.


BoolArray = npt.NDArray[np.bool_]

PACKED_BITS = 63
"""Bits of all columns' ranges together up to which rows are sorted as one int64 key."""


def ranges_of(columns: Sequence[Int64Array]) -> tuple[list[int], list[int]]:
    """Return the smallest value of each column, and the bits of its values above that."""
    lows = [int(column.min()) for column in columns]
    return lows, [(int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)]


def packing(columns: Sequence[Int64Array]) -> tuple[list[int], list[int]] | None:
    """Return the smallest value and the bits of each column if they fit one key, else None."""
    lows, bits = ranges_of(columns)
    return (lows, bits) if sum(bits) <= PACKED_BITS else None


def pack(columns: Sequence[Int64Array], lows: Sequence[int], bits: Sequence[int]) -> Int64Array:
    """Return one key per row; keys are ordered like rows."""
    key = columns[0] - np.int64(lows[0])
    for column, low, width in zip(columns[1:], lows[1:], bits[1:], strict=True):
        key <<= np.int64(width)
        key |= column - np.int64(low)
    return key


def unpack(key: Int64Array, lows: Sequence[int], bits: Sequence[int]) -> list[Int64Array]:
    """Return the columns of packed keys."""
    columns = []
    for low, width in zip(reversed(lows), reversed(bits), strict=True):
        columns.append((key & np.int64((1 << width) - 1)) + np.int64(low))
        key = key >> np.int64(width)
    return columns[::-1]


def sort_keys(keys: Int64Array, low_bit: int, n_bits: int) -> Int64Array:
    """Return the keys, of at least 0, ordered by the `n_bits` bits from `low_bit` on.

    No higher bits are set. Keys that agree in these keep their order, or are ordered by their lower bits. The argument
    may be overwritten.
    """
    keys.sort()
    return keys


SortKeys = Callable[[Int64Array, int, int], Int64Array]
"""A function as `sort_keys`."""

NUMBERED_FROM = 256
"""Rows from which on they are sorted together with their numbers, as one key. To pack fewer into keys takes longer
than to sort them by columns: 8 rows of 5 columns are consolidated in 11 µs and not in 33."""

MAX_TIED_FRACTION = 0.5
"""Fraction of rows that may agree on the leading bits where only these rows are sorted by the others."""


def lexsort(columns: Sequence[Int64Array], sort_keys: SortKeys = sort_keys) -> npt.NDArray[np.intp]:
    """See `gpu_wcoj.kernels.protocol.Kernels.lexsort`."""
    n = len(columns[0])
    if n < 2:
        return np.arange(n)
    if n < NUMBERED_FROM:
        return np.argsort(columns[0], kind="stable") if len(columns) == 1 else np.lexsort(tuple(columns[::-1]))
    lows, bits = ranges_of(columns)
    n_row_bits = (n - 1).bit_length()
    if sum(bits) + n_row_bits <= PACKED_BITS:
        return _rows_of(_numbered(pack(columns, lows, bits), n_row_bits, sum(bits), sort_keys), n_row_bits)
    return _sort_wide(columns, lows, bits, n_row_bits, sort_keys)


def _numbered(key: Int64Array, n_row_bits: int, n_bits: int, sort_keys: SortKeys) -> Int64Array:
    """Return the sorted keys, of `n_bits`, each with the number of its row in its lowest bits."""
    numbered = key << np.int64(n_row_bits)
    numbered |= np.arange(len(key))
    return sort_keys(numbered, n_row_bits, n_bits)


def _rows_of(numbered: Int64Array, n_row_bits: int) -> npt.NDArray[np.intp]:
    rows: npt.NDArray[np.intp] = numbered & np.int64((1 << n_row_bits) - 1)
    return rows


def _above(column: Int64Array, low: int) -> npt.NDArray[np.uint64]:
    """Return how far values are above their minimum; 63 bits may not hold it."""
    return column.view(np.uint64) - np.uint64(low & ((1 << 64) - 1))


def _sort_wide(
    columns: Sequence[Int64Array], lows: Sequence[int], bits: Sequence[int], n_row_bits: int, sort_keys: SortKeys
) -> npt.NDArray[np.intp]:
    """Return the order of rows that do not fit one key.

    They are sorted by as many leading bits as fit, and those that agree on these by the other columns. If many agree,
    all are sorted by several keys, the last bits first.
    """
    n, free = len(columns[0]), PACKED_BITS - n_row_bits
    key = np.zeros(n, np.int64)
    whole = 0
    for column, low, width in zip(columns, lows, bits, strict=True):
        taken = min(width, free)
        key <<= np.int64(taken)
        key |= (_above(column, low) >> np.uint64(width - taken)).view(np.int64)
        free -= taken
        if taken < width:
            break
        whole += 1
    numbered = _numbered(key, n_row_bits, PACKED_BITS - n_row_bits, sort_keys)
    order, key = _rows_of(numbered, n_row_bits), numbered >> np.int64(n_row_bits)
    ties = key[1:] == key[:-1]
    is_tied = np.zeros(n, np.bool_)
    is_tied[1:] |= ties
    is_tied[:-1] |= ties
    places = np.flatnonzero(is_tied)
    if len(places) > MAX_TIED_FRACTION * n:
        return _sort_by_parts(columns, lows, bits, n_row_bits, sort_keys)
    tied = order[places]
    order[places] = tied[np.lexsort((*(column[tied] for column in reversed(columns[whole:])), key[places]))]
    return order


def _sort_by_parts(
    columns: Sequence[Int64Array], lows: Sequence[int], bits: Sequence[int], n_row_bits: int, sort_keys: SortKeys
) -> npt.NDArray[np.intp]:
    """Return the order of rows by several stable sorts, the last bits first.

    Each sorts as many bits as fit beside a row's number.
    """
    n, room = len(columns[0]), PACKED_BITS - n_row_bits
    order, key, filled = np.arange(n), np.zeros(n, np.int64), 0
    for column, low, width in zip(reversed(columns), reversed(lows), reversed(bits), strict=True):
        values = _above(column, low)
        while width > 0:
            taken = min(width, room - filled)
            key |= (values & np.uint64((1 << taken) - 1)).view(np.int64) << np.int64(filled)
            values >>= np.uint64(taken)
            width, filled = width - taken, filled + taken
            if filled == room:
                order = order[_rows_of(_numbered(key[order], n_row_bits, filled, sort_keys), n_row_bits)]
                key, filled = np.zeros(n, np.int64), 0
    return order[_rows_of(_numbered(key[order], n_row_bits, filled, sort_keys), n_row_bits)] if filled else order


def run_starts(columns: Sequence[Int64Array]) -> npt.NDArray[np.intp]:
    """See `gpu_wcoj.kernels.protocol.Kernels.run_starts`."""
    n = len(columns[0])
    if n == 0:
        return np.empty(0, np.intp)
    differs = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        differs |= column[1:] != column[:-1]
    return np.concatenate([np.zeros(1, np.intp), np.flatnonzero(differs) + 1])


def held_rows(masks: Sequence[BoolArray]) -> list[IndexArray]:
    """See `gpu_wcoj.kernels.protocol.Kernels.held_rows`."""
    return [np.flatnonzero(mask) for mask in masks]


def distinct_rows(columns: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`."""
    if len(columns[0]) < 2:
        return list(columns)
    packed = packing(columns)
    if packed is None:
        order = lexsort(columns)
        columns = [column[order] for column in columns]
        starts = run_starts(columns)
        return list(columns) if len(starts) == len(order) else [column[starts] for column in columns]
    key = pack(columns, *packed)
    if not (key[1:] > key[:-1]).all():
        key.sort()
        fresh = key[1:] != key[:-1]
        if not fresh.all():
            key = key[np.concatenate([np.ones(1, np.bool_), fresh])]
    else:
        return list(columns)
    return unpack(key, *packed)


def consolidate(
    columns: Sequence[Int64Array], weights: Int64Array, sort_keys: SortKeys = sort_keys
) -> tuple[list[Int64Array], Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.consolidate`."""
    n = len(weights)
    if n == 0:
        return list(columns), weights
    if n > 1:
        packed, n_row_bits = packing(columns) if n >= NUMBERED_FROM else None, (n - 1).bit_length()
        if packed is not None and sum(packed[1]) + n_row_bits <= PACKED_BITS:
            numbered = _numbered(pack(columns, *packed), n_row_bits, sum(packed[1]), sort_keys)
            weights = weights[_rows_of(numbered, n_row_bits)]
            key = numbered >> np.int64(n_row_bits)
            starts = run_starts([key])
            columns = unpack(key if len(starts) == n else key[starts], *packed)
        else:
            order = lexsort(columns, sort_keys)
            columns = [column[order] for column in columns]
            starts = run_starts(columns)
            weights = weights[order]
            columns = columns if len(starts) == n else [column[starts] for column in columns]
        if len(starts) < n:
            weights = np.add.reduceat(weights, starts)
    if weights.all():
        return list(columns), weights
    nonzero = np.flatnonzero(weights)
    return [column[nonzero] for column in columns], weights[nonzero]


CodeArray = npt.NDArray[np.int64] | npt.NDArray[np.int32]

_ONE_CHILD = np.array([0, 1], np.int64)
_MIN32, _MAX32 = -(1 << 31), (1 << 31) - 1


def narrow(values: CodeArray) -> CodeArray:
    """Return the same values in 4 bytes each, if they fit."""
    if values.dtype == np.int32 or len(values) == 0:
        return values
    if int(values[0]) < _MIN32 or int(values[-1]) > _MAX32:
        return values
    if len(values) == 1:
        return values.astype(np.int32) if int(values[0]) <= _MAX32 else values
    if int(values.min()) < _MIN32 or int(values.max()) > _MAX32:
        return values
    return values.astype(np.int32)


def build_levels(columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """See `gpu_wcoj.kernels.protocol.Kernels.build_levels`."""
    n = len(columns[0])
    if n == 1:
        return [narrow(column) for column in columns], [_ONE_CHILD] * (len(columns) - 1)
    values: list[CodeArray] = []
    offsets: list[Int64Array] = []
    starts = None
    for depth in range(len(columns) - 1):
        here = run_starts(columns[: depth + 1])
        values.append(narrow(columns[depth][here]))
        if starts is not None:
            offsets.append(np.append(np.searchsorted(here, starts), len(here)).astype(np.int64))
        starts = here
    values.append(narrow(np.ascontiguousarray(columns[-1])))
    if starts is not None:
        offsets.append(np.append(starts, n).astype(np.int64))
    return values, offsets


def prune(values: list[CodeArray], offsets: list[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """Drop the nodes of upper levels that have lost all their children."""
    for depth in range(len(offsets) - 1, -1, -1):
        has_children = offsets[depth][1:] > offsets[depth][:-1]
        if has_children.all():
            continue
        values[depth] = values[depth][has_children]
        offsets[depth] = np.append(offsets[depth][:-1][has_children], offsets[depth][-1])
        if depth > 0:
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(has_children, dtype=np.int64)])
            offsets[depth - 1] = before[offsets[depth - 1]]
    return values, offsets


def expand_columns(values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> list[Int64Array]:
    """Return the sorted rows of a trie by column: the inverse of `build_levels`."""
    columns = [level.astype(np.int64) for level in values]
    for depth, bounds in enumerate(offsets):
        sizes = np.diff(bounds)
        for upper in range(depth + 1):
            columns[upper] = np.repeat(columns[upper], sizes)
    return columns


def index_rows(columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """See `gpu_wcoj.kernels.protocol.Kernels.index_rows`."""
    return build_levels(distinct_rows(columns))


def rearrange(
    parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]],
    order: Sequence[int],
    tags: Sequence[int] = (),
    index: Callable[[Sequence[Int64Array]], tuple[list[CodeArray], list[Int64Array]]] = index_rows,
) -> tuple[list[CodeArray], list[Int64Array]]:
    """Compute `gpu_wcoj.kernels.protocol.Kernels.rearrange` with the kernels' `index`."""
    rows = [expand_columns(*part) for part in parts]
    for part_rows, tag in zip(rows, tags, strict=False):
        part_rows.append(np.full(len(part_rows[0]), tag, np.int64))
    joined = [np.concatenate(columns) for columns in zip(*rows, strict=True)]
    values, offsets = index([joined[column] for column in (*order, *range(len(order), len(joined)))])
    return values, offsets[: len(order) - 1]


# Sums of runs and hashes of rows, with NumPy alone.


UInt64Array = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def segment_sums(values: Int64Array, starts: IndexArray) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.segment_sums`."""
    if len(starts) == 0:
        return np.empty(0, np.int64)
    if max(int(values.max()), -int(values.min())) * len(values) < 2**63:
        sums: Int64Array = np.add.reduceat(values, starts)
        return sums
    lows = np.add.reduceat(values & 0xFFFFFFFF, starts)
    highs = np.add.reduceat(values >> 32, starts) + (lows >> 32)
    outside = np.flatnonzero((highs < -(2**31)) | (highs >= 2**31))
    if len(outside):
        raise OverflowError(f"the sum of run {outside[0]} of {len(starts)} is outside int64")
    exact: Int64Array = (highs << 32) | (lows & 0xFFFFFFFF)
    return exact


def exclusive_sum(counts: Int64Array) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.exclusive_sum`."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def hash_rows(columns: Sequence[Int64Array]) -> UInt64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.hash_rows`."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes ^= column.view(np.uint64)
        hashes += _STEP
        for shift, factor in _MIX:
            hashes ^= hashes >> np.uint64(shift)
            hashes *= np.uint64(factor)
        hashes ^= hashes >> np.uint64(31)
    return hashes


# Settings of glibc's allocator that keep freed memory for the next tick.


RETAINED_BYTES = 256 << 20
"""Bytes at the end of the heap that are not returned to the operating system."""

MAPPED_FROM = 32 << 20
"""Bytes of a block from which on it is mapped by itself and returned when freed. By default glibc raises this bound
while blocks are freed, up to this value, so the time of a tick would depend on earlier ones."""

SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
"""Environment variables with which users control the allocator."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def _glibc() -> ctypes.CDLL | None:
    """Return the C library if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None


def keep_freed(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell glibc's allocator to keep freed memory of this process; return whether it was told.

    A tick frees memory that the next one allocates again: mainly merged batches, tens of megabytes if many rows change.
    Touching a new page takes several times as long as reading its values.

    Parameters
    ----------
    environment
        Environment variables; a setting of the user in them takes precedence.

    Examples
    --------
    >>> keep_freed({"MALLOC_TRIM_THRESHOLD_": "0"})
    False
    """
    library = None if any(name in environment for name in SETTINGS) else _glibc()
    if library is None:
        return False
    return bool(library.mallopt(_MMAP_THRESHOLD, MAPPED_FROM) and library.mallopt(_TRIM_THRESHOLD, RETAINED_BYTES))


def return_freed() -> bool:
    """Return freed memory to the operating system.

    For after work that needed far more memory than the next ticks will. O(free blocks), a few milliseconds after a load
    of millions of rows.

    Returns
    -------
    Whether memory was returned; False without glibc.
    """
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


# Values that an extension returns to its caller: work counts, and where to resume.


SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS, RANKED, N_WORK = range(7)
"""Indices of the counts in `work`: smallest counts summed over prefixes, candidates examined, searches and mark tests,
values marked, candidates that survived, and searches by ranks."""

FRESH, ALONE, SCAN, GROUP = 0, 1, 2, 4
"""Modes of extending a prefix: by searching, by marking its smallest range, or (GROUP + SCAN) by marking the common
values of a group. The mode is stored in `resume`, so that an interrupted piece continues in the same order."""

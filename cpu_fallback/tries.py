"""Build, narrow and prune tries with NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from cpu_fallback.sort import distinct_rows, run_starts

Int64Array = npt.NDArray[np.int64]
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

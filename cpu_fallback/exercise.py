"""Calls of every compiled kernel with every type of arguments, to compile them ahead.

Each part of `PARTS` calls some kernels on a few rows: on codes of 4 and of 8 bytes, with and without weights. A kernel
that is missing here works all the same; the first process that needs it compiles it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from cpu_fallback.kernels import CompiledKernels
from cpu_fallback.merge import PACKED_FROM, RUNS_FROM
from cpu_fallback.ranges import RANKED_FROM
from cpu_fallback.tries import N_WORK, CodeArray, Int64Array
from cpu_fallback.walk_records import CONTEXT

_WIDE = 1 << 40
"""Distance of codes that do not fit 4 bytes."""
_WIDTHS = (1, _WIDE)
_NOTHING = np.empty(0, np.int64)

_Trie = tuple[list[CodeArray], list[Int64Array], Int64Array | None]


def _columns(n_columns: int, n_rows: int = 8, factor: int = 1) -> list[Int64Array]:
    """Return distinct sorted rows, two for each value of the first column."""
    row = np.arange(n_rows, dtype=np.int64)
    return [row // 2 * factor, *(row * factor for _ in range(n_columns - 1))]


def _trie(n_columns: int, factor: int, is_weighted: bool = False, n_rows: int = 8) -> _Trie:
    columns = [np.arange(n_rows) * factor] if n_columns == 1 else _columns(n_columns, n_rows, factor)
    weights = np.full(n_rows, 2) if is_weighted else None
    return *CompiledKernels.build_levels(columns), weights


def _levels(trie: _Trie) -> list[Any]:
    """Return the levels of a trie as `gpu_wcoj.kernels.protocol.Level` has them."""
    values, offsets, weights = trie
    levels = []
    for depth, level_values in enumerate(values):
        parents = None if depth == 0 else offsets[depth - 1]
        level_weights = weights if depth == len(values) - 1 else None
        record, support = CompiledKernels.describe(level_values, parents, level_weights)
        levels.append(
            SimpleNamespace(
                values=level_values, parent_offsets=parents, weights=level_weights, record=record, support=support
            )
        )
    return levels


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def build_tries() -> None:
    """Sort rows, and build tries from them."""
    for factor, n_columns, n_rows in product(_WIDTHS, (1, 2, 3), (8, PACKED_FROM)):
        columns = _columns(n_columns, n_rows, factor if n_columns == 1 else min(factor, 1 << 28))
        for rows in (columns, [column[::-1] for column in columns], [_read_only(column) for column in columns]):
            CompiledKernels.distinct_rows(rows)
            CompiledKernels.index_rows(rows)
        values, offsets = CompiledKernels.build_levels(columns)
        CompiledKernels.build_levels([_read_only(column) for column in columns])
        CompiledKernels.expand_columns(values, offsets)
        order = list(range(n_columns))[::-1]
        for tags in ((), (0,)):
            CompiledKernels.rearrange([(values, offsets)], order, tags)


def merge_tries() -> None:
    """Merge tries of every depth."""
    for n_columns, left_factor, right_factor, is_weighted in product((1, 2, 3), _WIDTHS, _WIDTHS, (False, True)):
        left, right = _trie(n_columns, left_factor, is_weighted), _trie(n_columns, right_factor)
        CompiledKernels.merge_tries(left, right)
        merge = CompiledKernels.begin_merge(left, right, _levels(left))
        merge.advance(merge.n_rows)


def describe_levels() -> None:
    """Describe levels, with an index of their values, and rank long ranges."""
    for factor, is_weighted in product(_WIDTHS, (False, True)):
        for n_columns in (1, 2):
            values, offsets, weights = _trie(n_columns, factor, is_weighted, 32)
            _levels((values, offsets, weights))
            _levels(([_read_only(level) for level in values], offsets, weights))
        row = np.arange(RANKED_FROM, dtype=np.int64)
        level = _levels(([np.zeros(1, np.int32), row.astype(np.int32)], [np.array([0, len(row)])], None))[1]
        CompiledKernels.prepare([level], [0, 1], [True], [False], [0], [-1], True)


def descend_tries() -> None:
    """Locate rows, and count and measure what is below them."""
    columns = np.array(_columns(2))
    for factor in _WIDTHS:
        first, second = _levels(_trie(2, factor))
        positions = CompiledKernels.locate([[first.record]], [[0]], columns)
        CompiledKernels.weights_of([[first, second]], [[0, 1]], columns)
        CompiledKernels.count_children([[first, second]], [[0]], columns)
        for bounds in ((_NOTHING, _NOTHING), (columns[0].copy(), columns[1].copy())):
            CompiledKernels.widths([second], [0], positions, *bounds)
        CompiledKernels.narrowest([(positions, [[(0, second.parent_offsets)]])] * 2)


def extend_prefixes() -> None:
    """Join: extend prefixes by the common values of one atom or several."""
    work = np.zeros(N_WORK, np.int64)
    for is_weighted, n_atoms, is_filled in product((False, True), (1, 2), (False, True)):
        levels = [_levels(_trie(2, 1, is_weighted)) for _ in range(n_atoms)]
        columns = np.arange(4, dtype=np.int64).reshape(1, 4)
        slots = list(range(n_atoms))
        positions = np.tile(columns, (n_atoms, 1))
        extension = CompiledKernels.prepare(
            [descent[1] for descent in levels], [*slots, n_atoms], [True] * n_atoms, [False] * n_atoms,
            slots, [-1] * n_atoms,
        )  # fmt: skip
        restrictions = _NOTHING, _NOTHING, np.empty((0, 4), np.int64)
        CompiledKernels.count_common(extension, positions, 0, 4, *restrictions, work)
        for weights in (None, np.ones(4, np.int64), _read_only(np.ones(4, np.int64))):
            CompiledKernels.fill_common(
                extension, positions, np.zeros(3, np.int64), 4, *restrictions, weights, is_weighted, 64, 0, work
            )
        if not is_weighted:
            CompiledKernels.extend_seeds(levels, [[0]] * n_atoms, [*slots, n_atoms], columns, is_filled, work)


def find_new_rows() -> None:
    """Recursion: find the values below groups of prefixes that are not known yet."""
    level = _levels(_trie(2, 1))[1]
    positions = np.arange(4, dtype=np.int64).reshape(1, 4)
    starts = np.array([0, 2, 4])
    CompiledKernels.fresh_values(
        [level], positions, starts, [level], positions[:, :2].copy(), np.zeros(N_WORK, np.int64)
    )


def run_loops() -> None:
    """Recursion: run a loop without rules row at a time, from nothing and after a change."""
    walks = SimpleNamespace(
        operations=np.zeros(1, np.int64), level_offsets=_NOTHING, levels=[], registers=np.zeros(1, np.int64),
        n_places=0, n_cursors=0, n_counters=1, widths=[1], starts=[[]], inverse=[[]],
    )  # fmt: skip
    fixpoint = CompiledKernels.fixpoint(walks, [0])
    fixpoint.add(0, [np.arange(2)], 0)
    fixpoint.run(9, 9, 99, 99)
    maintenance = CompiledKernels.maintenance(walks, [[]])
    maintenance.add(0, [np.arange(2)], np.zeros(2, np.int64), np.ones(2, np.int64))
    maintenance.run(9, 9, 99)


def add_up_runs() -> None:
    """Consolidate rows, also those that arrive in the order of their first column."""
    row = np.arange(RUNS_FROM, dtype=np.int64)
    for columns in ([row // 64, row % 64], [row // 64, row % 8, row % 3]):
        CompiledKernels.distinct_rows(columns)
        for rows in (columns, [column[::-1] for column in columns]):
            CompiledKernels.consolidate(rows, np.ones(RUNS_FROM, np.int64))


def walk_paths() -> None:
    """Small ticks: walk a query without paths over a state without arrangements."""
    context = np.zeros(CONTEXT, np.int64)
    CompiledKernels.walker.walk(context.ctypes.data)


PARTS: dict[str, Callable[[], Any]] = {
    "joins": extend_prefixes,
    "lookups": descend_tries,
    "building of tries": build_tries,
    "merging of tries": merge_tries,
    "long ranges": describe_levels,
    "small ticks": walk_paths,
    "runs of rows": add_up_runs,
    "recursion": find_new_rows,
    "loops": run_loops,
}
"""Names and calls, in the order of their use by a first program."""

__all__: Sequence[str] = ["PARTS"]

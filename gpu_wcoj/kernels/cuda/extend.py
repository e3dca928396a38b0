"""Fused count, propose and intersect on a device: bind one more variable of many prefixes.

Only `fill_common` reads from the device, once a window of candidates. A window has as many candidates as may yield
`capacity` survivors; further survivors wait on the device for the next call, which then neither tests a candidate nor
reads. Launches of a call, for any number of prefixes (a running sum counted as one):

    count_common   3; 7 if some atom may be marked; 1 for a single atom
    fill_common    5; 9 if some atom may be marked; 3 if the previous call left a plan; 1 if it left survivors;
                   for a single batch 4, or 2 if the previous call left a plan
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda import alone
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.plan import (
    BLOCK,
    MARK_VALUES,
    Arguments,
    Extension,
    Plan,
    looping_blocks,
    make_plan,
    prepare,
)
from gpu_wcoj.kernels.protocol import Int64Array, Level

__all__ = ["count_common", "extend_seeds", "fill_common", "prepare"]

MIN_ITEMS = 1 << 12
"""Least number of candidates of a window: few survivors may be requested of many candidates."""

MAX_ITEMS = 1 << 22
"""Greatest number of candidates of a window."""

SEED_ITEMS = 1 << 18
"""Survivors of one window if the prefixes are a few seeds."""

MAX_SPREAD = 8
"""Greatest number of candidates of a window for each requested survivor."""

COUNTED_PREFIXES = 1 << 22
"""Prefixes counted or copied at a time; each takes about 32 bytes."""

ROW_BITS = 24
"""Low bits of ``resume[2]`` that count returned survivors of a window; above is the walk."""

_walks = itertools.count(1)


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """Tested candidates: the output of `fill_*` and `finish_fill`, and the values read from it."""

    item_begin: int
    room: int
    owners: Any
    values: Int64Array
    weights: Int64Array | None
    places: Int64Array
    survived: Any
    unit_sums: Int64Array
    survivors: int
    n_items: int
    next_prefix: int
    next_item: int


@dataclass(eq=False, slots=True)
class Walk:
    """The position of `fill_common`.

    Attributes
    ----------
    walk_id
        A unique integer.
    prefix, item
        The beginning of the next or current window: the prefix, and the number of its candidates that are done.
    returned
        Survivors of this window that were returned.
    arrays
        The arrays of prefixes it was started with.
    expected
        The value of `resume` at which this walk continues; unlike `place`, it does not change while a call is under way
        or has failed.
    plan, window
        The plan and window from here on, if any.
    item_begin
        The beginning of the next window of the plan.
    """

    walk_id: int
    prefix: int
    item: int
    returned: int
    end: int
    arrays: tuple[Any, ...]
    expected: tuple[int, int, int]
    plan: Plan | None = None
    window: Window | None = None
    item_begin: int = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """The value of `resume` between two calls."""
        if self.prefix >= self.end:
            return self.end, 0, 0
        return self.prefix, self.item, self.walk_id << ROW_BITS | self.returned

    def leave_window(self) -> None:
        """Continue behind a window whose survivors have all been returned."""
        plan, window = self.plan, self.window
        assert plan is not None
        assert window is not None
        self.returned = max(0, self.returned - window.survivors)
        self.item_begin = window.item_begin + window.n_items
        self.prefix, self.item = plan.begin + window.next_prefix, window.next_item
        self.window = None
        if window.next_prefix == plan.n:
            self.plan = None


def count_common(
    device: Device, extension: Extension, positions: Int64Array, begin: int, end: int,
    lower: Int64Array, upper: Int64Array, excluded: Int64Array, work: Int64Array,
) -> Int64Array:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.count_common`. No read."""
    xp = device.xp
    counts: Int64Array = xp.empty(max(0, end - begin), np.int64)
    if end <= begin:
        return counts
    question = Arguments.from_call(device, positions, lower, upper, excluded, work)
    if alone.can_count(extension):
        alone.count(device, extension, question, begin, counts, work)
        return counts
    for first_prefix in range(begin, end, COUNTED_PREFIXES):
        n = min(end - first_prefix, COUNTED_PREFIXES)
        block_counts = counts[first_prefix - begin : first_prefix - begin + n]
        plan = make_plan(device, extension, question, first_prefix, n, block_counts, MARK_VALUES)
        device.launch(
            "extend", "count_sets" if extension.sets else "count_weights", looping_blocks(device), BLOCK,
            (extension.table, extension.n_atoms, extension.n_slots, question.positions, question.positions.shape[1],
             first_prefix, n, plan.sums, plan.minima, plan.groups, plan.lengths, plan.arena, plan.budget, plan.orders,
             plan.clips, question.excluded, question.excluded.shape[0], block_counts, work),
        )  # fmt: skip
    return counts


def fill_common(
    device: Device, extension: Extension, positions: Int64Array, resume: Int64Array, end: int,
    lower: Int64Array, upper: Int64Array, excluded: Int64Array,
    weights: Int64Array | None, weighted: bool, capacity: int, n_out_rows: int, work: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.fill_common`. 1 read, none if survivors are left.

    Windows without survivors are skipped, with a read each. A walk that another one has interrupted starts its window
    again.
    """
    xp = device.xp
    walk = _find_walk(extension, resume, end, (positions, lower, upper, excluded))
    question = Arguments.from_call(device, positions, lower, upper, excluded, work)
    copied = alone.can_copy(extension, question)
    piece = None
    while piece is None and walk.prefix < end:
        if copied:
            piece = _copy_candidates(device, extension, question, walk, capacity, weights, weighted, n_out_rows)
            continue
        if walk.window is None:
            try:
                _test_window(device, extension, question, walk, capacity, n_out_rows)
            except device.out_of_memory:
                walk.plan = None  # the next call may plan for fewer
                extension.spread = 1
                raise
        window = walk.window
        assert window is not None
        ready = min(window.survivors - walk.returned, capacity)
        if ready > 0:
            piece = _copy_survivors(device, walk, question, ready, weights, weighted, n_out_rows)
            walk.returned += ready
        if walk.returned >= window.survivors:
            walk.leave_window()
    walk.expected = walk.place
    extension.left = walk if walk.prefix < end else None
    resume[:] = walk.place
    if piece is None:
        nothing = xp.empty(0, np.int64)
        return nothing, nothing, nothing if weighted else None, xp.empty((n_out_rows, 0), np.int64)
    return piece


def _find_walk(extension: Extension, resume: Int64Array, end: int, arrays: tuple[Any, ...]) -> Walk:
    """Return the walk of the previous call if it stopped at `resume`, otherwise a new one."""
    prefix, item, code = (int(value) for value in resume)
    walk: Walk | None = extension.left
    if walk is not None and walk.expected == (prefix, item, code):
        # Walks that failed before their first row differ only in their arguments.
        is_same = code != 0 or all(walk_array is array for walk_array, array in zip(walk.arrays, arrays, strict=True))
        if is_same and (walk.end == end or walk.plan is None or walk.plan.begin + walk.plan.n <= end):
            walk.end = end
            return walk
    walk = Walk(next(_walks), prefix, item, code & ((1 << ROW_BITS) - 1), end, arrays, (prefix, item, code))
    extension.left = walk
    return walk


def _test_window(
    device: Device, extension: Extension, question: Arguments, walk: Walk, capacity: int, n_out_rows: int
) -> None:
    """Test the next window of candidates. Four numbers are read from the device."""
    xp = device.xp
    room = min(max(capacity, MIN_ITEMS) * extension.spread, MAX_ITEMS)
    plan = walk.plan
    if plan is None:
        n = min(walk.end - walk.prefix, MAX_SPREAD * room)
        plan = make_plan(device, extension, question, walk.prefix, n, None, min(MARK_VALUES, MAX_SPREAD * room))
        walk.plan, walk.item_begin = plan, walk.item
    # Allocate all memory first, including that of a piece, so that a tested window is never lost.
    piece = [xp.empty(min(capacity, room), np.int64) for _ in range(3 + n_out_rows)]
    owners = xp.empty(room, np.int32)
    values = xp.empty(room, np.int64)
    weights = None if extension.sets else xp.empty(room, np.int64)
    places = xp.empty(room * n_out_rows, np.int64)
    survived = xp.empty(-(-room // 32), np.uint32)
    unit_sums = xp.empty(-(-room // BLOCK) + 1, np.int64)
    summary = xp.empty(4, np.int64)
    del piece
    n_blocks = looping_blocks(device)
    device.launch(
        "extend", "fill_sets" if extension.sets else "fill_weights", n_blocks, BLOCK,
        (extension.table, extension.n_atoms, extension.n_slots, question.positions, question.positions.shape[1],
         plan.begin, plan.n, plan.sums, plan.groups, plan.lengths, plan.arena, plan.budget, plan.orders, plan.clips,
         question.excluded, question.excluded.shape[0], walk.item_begin, room, n_blocks, owners, values,
         *(() if extension.sets else (weights,)), places, survived, unit_sums, question.work),
    )  # fmt: skip
    device.launch(
        "extend", "finish_fill", 1, 1024,
        (plan.sums, plan.n, plan.minima, walk.item_begin, room, n_blocks, unit_sums, summary, question.work),
    )  # fmt: skip
    survivors, total, next_prefix, next_item = device.to_host(summary).tolist()
    n_items = min(total - walk.item_begin, room)
    walk.window = Window(
        walk.item_begin, room, owners, values, weights, places, survived, unit_sums, survivors, n_items, next_prefix,
        next_item,
    )  # fmt: skip
    extension.spread = min(MAX_SPREAD, max(1, n_items // max(1, survivors)))


def _copy_candidates(
    device: Device, extension: Extension, question: Arguments, walk: Walk, capacity: int,
    prefix_weights: Int64Array | None, weighted: bool, n_out_rows: int,
) -> alone.Piece | None:  # fmt: skip
    """Return the walk's next candidates, all of which survive; None if its plan has none.

    Five numbers are read.
    """
    try:
        plan = walk.plan
        if plan is None:
            n = min(walk.end - walk.prefix, COUNTED_PREFIXES)
            plan = make_plan(device, extension, question, walk.prefix, n, None, 0)
            walk.plan, walk.item_begin = plan, walk.item
        piece, prefix, item = alone.copy_piece(
            device, extension, question, plan, walk.item_begin, capacity, prefix_weights, weighted, n_out_rows,
            question.work,
        )  # fmt: skip
    except device.out_of_memory:
        walk.plan = None  # the next call may plan for fewer
        raise
    walk.item_begin += len(piece[0])
    walk.prefix, walk.item = plan.begin + prefix, item
    if prefix == plan.n:
        walk.plan = None
    return piece if len(piece[0]) else None


def _copy_survivors(
    device: Device, walk: Walk, question: Arguments, m: int, prefix_weights: Int64Array | None, weighted: bool,
    n_out_rows: int,
) -> alone.Piece:  # fmt: skip
    """Copy the next m survivors of the walk's window to new arrays."""
    xp = device.xp
    plan, window = walk.plan, walk.window
    assert plan is not None
    assert window is not None
    if prefix_weights is not None:
        prefix_weights = xp.ascontiguousarray(prefix_weights)
    parent = xp.empty(m, np.int64)
    value = xp.empty(m, np.int64)
    weight = xp.empty(m, np.int64) if weighted else None
    positions = xp.empty((n_out_rows, m), np.int64)
    n_blocks = looping_blocks(device)
    device.launch(
        "extend", "copy_survivors", n_blocks, BLOCK,
        (plan.sums, plan.n, plan.begin, window.item_begin, window.room, n_blocks, window.owners, window.values,
         window.weights, window.places, window.survived, window.unit_sums, prefix_weights, n_out_rows, walk.returned, m,
         parent, value, weight, positions, question.work),
    )  # fmt: skip
    return parent, value, weight, positions


def extend_seeds(
    device: Device, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], first: Sequence[int],
    columns: Int64Array, fill: bool, work: Int64Array,
) -> tuple[Int64Array, Int64Array]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.extend_seeds`.

    One read a window with `fill`, otherwise none.
    """
    from gpu_wcoj.kernels.cuda import tries

    xp = device.xp
    n = columns.shape[1]
    deep = [k for k, slot_levels in enumerate(levels) if len(slot_levels) > 1]
    rows = [-1] * len(levels)
    for row, k in enumerate(deep):
        rows[k] = row
    if deep:
        records = [[level.record for level in levels[k][:-1]] for k in deep]
        positions = tries.locate(device, records, [column_of[k] for k in deep], columns)
    else:
        positions = xp.empty((0, n), np.int64)
    n_atoms = len(first) - 1
    extension = prepare(
        device,
        [slot_levels[-1] for slot_levels in levels],
        first,
        [True] * n_atoms,
        [False] * n_atoms,
        rows,
        [-1] * len(levels),
    )
    none = xp.empty(0, np.int64)
    excluded = xp.empty((0, n), np.int64)
    if not fill:
        counts = count_common(device, extension, positions, 0, n, none, none, excluded, work)
        return counts, xp.empty((2, 0), np.int64)
    resume = np.zeros(3, np.int64)
    pieces = []
    while resume[0] < n:
        parent, value, _, _ = fill_common(
            device, extension, positions, resume, n, none, none, excluded, None, False, SEED_ITEMS, 0, work
        )
        if len(parent):
            pieces.append(xp.stack((parent, value)))
    if not pieces:
        return xp.zeros(n, np.int64), xp.empty((2, 0), np.int64)
    survivors = pieces[0] if len(pieces) == 1 else xp.concatenate(pieces, axis=1)
    # Sums of weights are 0 or 1, so a row's count is the number of its survivors.
    if n == 1:
        return xp.full(1, survivors.shape[1], np.int64), survivors
    offsets = xp.searchsorted(survivors[0], xp.arange(n + 1, dtype=np.int64))
    return xp.diff(offsets).astype(np.int64, copy=False), survivors

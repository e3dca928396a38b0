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

from gpu_wcoj.kernels.cuda import tries
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.tries import distinct_rows, gather, held_rows
from gpu_wcoj.kernels.protocol import N_WORK, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS, Int64Array, Level

# Plans of ranges of prefixes before candidates are tested: ranges, running sums, marks.


BLOCK = 256
"""Threads of a block. Same in the sources."""

BLOCKS_PER_MULTIPROCESSOR = 8
"""Blocks a multiprocessor in grids that loop over their work."""

MIN_MARKED = 256
"""Values of a range below which it is searched and not marked.

Such values are a few cache lines, which stay in the cache while a group of prefixes searches them."""

MIN_MARKED_TOP = 1 << 12
"""Values of a top level, which all prefixes share, below which it is not marked.

Fewer values stay in the fastest cache, are found in fewer steps if codes are dense, and marks would take 4 launches. So
a state that grows elsewhere, and with it its top levels, does not change the work of a small tick."""

MARK_VALUES = 1 << 21
"""Values marked at a time at most; their tables take 32 MiB, as a large cache."""


@dataclass(eq=False, slots=True)
class Extension:
    """The atoms of one variable; see `gpu_wcoj.kernels.protocol.Kernels.prepare`.

    Attributes
    ----------
    table
        Four words per atom (first slot, end, last, family), eight per slot (the record of its level, then rows of the
        positions before and after, and its index among the markable slots); on the device.
    levels
        Referenced to keep the addresses in the table valid.
    n_families, markable
        Atoms whose ranges may be marked for groups of prefixes; per markable slot (values, whether at the top level).
    most_batches
        Greatest number of batches of an atom.
    sets
        Whether every atom has one batch and no weights count.
    ends
        Whether the first atom, often the only one, has no further variable.
    weight_sums
        The addresses of the slots' running sums of weights, once needed; on the device.
    left
        The walk that the last call of `fill_common` left to the next.
    spread
        Candidates tested for each survivor, which sizes the next window.
    """

    table: Int64Array
    levels: Sequence[Level]
    n_atoms: int
    n_slots: int
    n_families: int
    markable: list[tuple[int, bool]]
    most_batches: int
    sets: bool
    ends: bool
    weight_sums: Any = None
    left: Any = None
    spread: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class Arguments:
    """The arguments of one call on an extension; see `Kernels.count_common`. Device arrays."""

    positions: Int64Array
    lower: Int64Array | None
    upper: Int64Array | None
    excluded: Int64Array
    work: Int64Array

    @classmethod
    def from_call(
        cls, device: Device, positions: Int64Array, lower: Int64Array, upper: Int64Array, excluded: Int64Array,
        work: Int64Array,
    ) -> Arguments:  # fmt: skip
        """Build a question from the arguments of `count_common` and `fill_common`."""
        xp = device.xp
        bounded = len(lower) > 0
        return cls(
            xp.ascontiguousarray(positions),
            xp.ascontiguousarray(lower) if bounded else None,
            xp.ascontiguousarray(upper) if bounded else None,
            xp.ascontiguousarray(excluded),
            work,
        )


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """Prefixes `begin` to `begin + n - 1`, prepared for the kernels that test candidates.

    Attributes
    ----------
    sums
        Running sums, n + 1 a row; see ``slots.cuh``.
    minima, groups
        The row of the smallest counts; the first row of groups.
    orders
        Per prefix, its atoms by ascending range.
    clips
        The bounded ranges that propose; None without bounds.
    lengths, arena, budget
        The marks; None, None and 0 without.
    """

    begin: int
    n: int
    sums: Int64Array
    minima: int
    groups: int
    orders: Int64Array
    clips: Int64Array | None
    lengths: Int64Array | None
    arena: Any
    budget: int


def prepare(
    device: Device, levels: Sequence[Level], first: Sequence[int], last: Sequence[bool], shared: Sequence[bool],
    rows: Sequence[int], out_rows: Sequence[int], sought: bool = False,  # noqa: ARG001  # a hint for other kernels
) -> Extension:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.prepare`. One upload."""
    n_atoms, n_slots = len(last), len(levels)
    words = np.full(4 * n_atoms + 8 * n_slots, -1, np.int64)
    atoms, slots = words[: 4 * n_atoms].reshape(n_atoms, 4), words[4 * n_atoms :].reshape(n_slots, 8)
    markable: list[tuple[int, bool]] = []
    n_families = 0
    for a in range(n_atoms):
        atom_slots = range(first[a], first[a + 1])
        atoms[a, :3] = first[a], first[a + 1], last[a]
        for k in atom_slots:
            slots[k, :5] = levels[k].record[:5]
            slots[k, 5:7] = rows[k], out_rows[k]
        if not shared[a] or n_atoms == 1:
            continue
        long = [k for k in atom_slots if _can_be_marked(len(levels[k].values), rows[k] < 0)]
        for k in long:
            slots[k, 7] = len(markable)
            markable.append((len(levels[k].values), rows[k] < 0))
        if long:
            atoms[a, 3] = n_families
            n_families += 1
    batches = [range(first[a], first[a + 1]) for a in range(n_atoms)]
    most_batches = max(map(len, batches), default=0)
    weightless = all(levels[k].weights is None for a in range(n_atoms) if last[a] for k in batches[a])
    sets = weightless and all(len(atom_slots) == 1 for atom_slots in batches)
    table = device.asarray(words)
    ends = n_atoms > 0 and last[0]
    return Extension(table, tuple(levels), n_atoms, n_slots, n_families, markable, most_batches, sets, ends)


def _can_be_marked(n_values: int, top: bool) -> bool:
    """Return whether a level may have ranges to mark.

    A top level is one range, which may exceed the room for marks.
    """
    return MIN_MARKED_TOP <= n_values < MARK_VALUES if top else n_values >= MIN_MARKED


def blocks_for(n: int) -> int:
    """Return the number of blocks with a thread for each of n items."""
    return -(-n // BLOCK)


def looping_blocks(device: Device) -> int:
    """Return the blocks of a grid that loops over work whose size only the device knows."""
    return BLOCKS_PER_MULTIPROCESSOR * device.multiprocessors


def make_plan(
    device: Device, extension: Extension, question: Arguments, begin: int, n: int, counts: Int64Array | None,
    most_marked: int,
) -> Plan:  # fmt: skip
    """Plan n prefixes, at least 1; `counts`, if given, is set to 0.

    One launch and a running sum, and another four and a running sum if something may be marked; no read.
    """
    xp = device.xp
    bounded = question.lower is not None
    fill = counts is None
    n_families = extension.n_families if n > 1 else 0
    groups = 2 if bounded else 1
    n_rows = groups + 2 * n_families
    sums = xp.empty(n_rows * (n + 1), np.int64)
    orders = xp.empty(n, np.int64)
    clips = xp.empty(2 * extension.most_batches * n, np.int64) if bounded else None
    stride = question.positions.shape[1]
    device.launch(
        "plan", "widths", blocks_for(max(n, n_rows)), BLOCK,
        (extension.table, extension.n_atoms, extension.n_slots, question.positions, stride, begin, n, question.lower,
         question.upper, sums, groups, n_families, orders, clips, counts),
    )  # fmt: skip
    xp.cumsum(sums, out=sums)
    lengths = arena = None
    budget = 0
    if n_families:
        n_marks = len(extension.markable)
        max_marks = sum((size + 1) * (1 if top else n // 2) for size, top in extension.markable)
        budget = min(max_marks, most_marked)
        lengths = xp.empty(n_marks * n + 1, np.int64)
        group_begins = xp.empty(n_families * n, np.int64)
        arena = xp.empty(2 * budget, np.uint64)
        device.launch(
            "plan", "choose_marks", blocks_for(n_families * n), BLOCK,
            (extension.table, extension.n_atoms, question.positions, stride, begin, n, sums, groups, n_families,
             MIN_MARKED, lengths, group_begins),
        )  # fmt: skip
        xp.cumsum(lengths, out=lengths)
        n_blocks = looping_blocks(device)
        device.launch("plan", "clear_marks", n_blocks, BLOCK, (arena, lengths, n_marks * n, budget))
        device.launch(
            "plan", "insert_marks", n_blocks, BLOCK,
            (extension.table, extension.n_atoms, extension.n_slots, question.positions, stride, begin, n, lengths,
             group_begins, n_marks, arena, budget, int(fill), question.work),
        )  # fmt: skip
    return Plan(begin, n, sums, groups - 1, groups, orders, clips, lengths, arena, budget)


# Extensions by a single atom: its ranges are the result, without searches elsewhere.
#
# Counts follow from the ends of the ranges: 1 launch, and for each batch with weights one running sum that lives as
# long as the batch. Rows are copied directly to the result, without windows of candidates: 2 launches and a read a
# piece.


_SOURCE = "alone"

MIN_SUMMED = 32
"""Weights of a batch below which they are added up per prefix, without launch and memory."""

Piece = tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]
"""The result of `fill_common`."""


def can_count(extension: Extension) -> bool:
    """Return whether sums over slots are the counts.

    A value in two slots counts once unless weights are added. Excluded values are searched and subtracted.
    """
    return extension.n_atoms == 1 and (extension.ends or extension.n_slots <= 1)


def can_copy(extension: Extension, question: Arguments) -> bool:
    """Return whether all candidates survive, each as it is stored."""
    return extension.n_atoms == 1 and extension.n_slots == 1 and question.excluded.shape[0] == 0


def count(
    device: Device, extension: Extension, question: Arguments, begin: int, counts: Int64Array, work: Int64Array
) -> None:
    """Write the counts of the prefixes from `begin` on, as many as `counts` has room for."""
    n = len(counts)
    device.launch(
        _SOURCE, "count_alone", min(blocks_for(n), looping_blocks(device)), BLOCK,
        (extension.table, extension.n_slots, question.positions, question.positions.shape[1], begin, n, question.lower,
         question.upper, question.excluded, question.excluded.shape[0], _weight_sums(device, extension), counts, work),
    )  # fmt: skip


def _weight_sums(device: Device, extension: Extension) -> Int64Array | None:
    """Return the addresses of the slots' running sums of weights, 0 without; None if all are 0."""
    sums: Int64Array | None = extension.weight_sums
    if sums is None:
        addresses = np.zeros(extension.n_slots, np.int64)
        for k, level in enumerate(extension.levels):
            if level.weights is not None and len(level.weights) >= MIN_SUMMED:
                addresses[k] = level.support.weight_sums(device).data.ptr
        if not addresses.any():
            return None
        sums = extension.weight_sums = device.asarray(addresses)
    return sums


def copy_piece(
    device: Device, extension: Extension, question: Arguments, plan: Plan, item_begin: int, capacity: int,
    prefix_weights: Int64Array | None, weighted: bool, n_out_rows: int, work: Int64Array,
) -> tuple[Piece, int, int]:  # fmt: skip
    """Copy the plan's candidates from `item_begin` on; return them and their end.

    The end is a prefix, and the number of its candidates that are done.
    """
    xp = device.xp
    summary = xp.empty(5, np.int64)
    device.launch(_SOURCE, "next_piece", 1, 96, (plan.sums, plan.n, item_begin, capacity, summary))
    m, prefix, item, first_begun, end_begun = device.to_host(summary).tolist()
    if prefix_weights is not None:
        prefix_weights = xp.ascontiguousarray(prefix_weights)
    parent, value = xp.empty(m, np.int64), xp.empty(m, np.int64)
    weight = xp.empty(m, np.int64) if weighted else None
    positions = xp.empty((n_out_rows, m), np.int64)
    arguments: tuple[Any, ...] = (
        extension.table, question.positions, question.positions.shape[1], plan.begin, plan.n, plan.sums, plan.minima,
        plan.clips, item_begin, m, first_begun, end_begun, prefix_weights, parent, value, weight, positions, work,
    )  # fmt: skip
    device.launch(_SOURCE, "copy_ranges", max(1, min(blocks_for(m), looping_blocks(device))), BLOCK, arguments)
    return (parent, value, weight, positions), prefix, item


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
    if can_count(extension):
        count(device, extension, question, begin, counts, work)
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
    copied = can_copy(extension, question)
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
) -> Piece | None:  # fmt: skip
    """Return the walk's next candidates, all of which survive; None if its plan has none.

    Five numbers are read.
    """
    try:
        plan = walk.plan
        if plan is None:
            n = min(walk.end - walk.prefix, COUNTED_PREFIXES)
            plan = make_plan(device, extension, question, walk.prefix, n, None, 0)
            walk.plan, walk.item_begin = plan, walk.item
        piece, prefix, item = copy_piece(
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
) -> Piece:  # fmt: skip
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


# New values below groups of prefixes, on a device.
#
# The values below all prefixes are listed by `fill_common`, a portion at a time, made distinct by a sort, and searched
# in the known ranges by `count_common`, with each value as the only allowed one.


ROW_BYTES = 256
"""Bytes of a candidate that is sorted and searched, including the sort's copies."""

MEMORY_DIVISOR = 4
"""Factor by which the free memory exceeds what a portion may take."""

MIN_PORTION, MAX_PORTION = 1 << 16, 1 << 25
"""Least and greatest number of candidates of a portion."""


def fresh_values(
    device: Device, levels: Sequence[Level], positions: Int64Array, starts: Int64Array,
    known: Sequence[Level], known_positions: Int64Array, work: Int64Array,
) -> tuple[Int64Array, Int64Array]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.fresh_values`.

    A portion costs up to 14 launches and a sort, and 4 reads.
    """
    xp = device.xp
    n, n_groups = positions.shape[1], len(starts) - 1
    group = xp.searchsorted(starts, xp.arange(n, dtype=np.int64), side="right") - 1
    extension = _prepare_single_atom(device, levels)
    known_extension = _prepare_single_atom(device, known) if known else None
    portion = max(MIN_PORTION, min(MAX_PORTION, device.free_bytes() // (MEMORY_DIVISOR * ROW_BYTES)))
    none, excluded = xp.empty(0, np.int64), xp.empty((0, n), np.int64)
    fill_work, sought = xp.zeros(N_WORK, np.int64), xp.zeros(N_WORK, np.int64)
    resume = np.zeros(3, np.int64)
    gathered: list[list[Int64Array]] = []
    n_rows = n_distinct = 0
    while resume[0] < n:
        parent, value, _, _ = fill_common(
            device, extension, positions, resume, n, none, none, excluded, None, False, portion, 0, fill_work
        )
        if len(parent) == 0:
            continue
        rows = distinct_rows(device, [group[parent], value])
        if known_extension is not None:
            group_positions = known_positions[:, rows[0]]
            no_exclusion = xp.empty((0, len(rows[0])), np.int64)
            counts = count_common(
                device, known_extension, group_positions, 0, len(rows[0]), rows[1], rows[1], no_exclusion, sought
            )  # fmt: skip
            rows = gather(device, rows, held_rows(device, [counts == 0])[0])
        gathered.append(rows)
        n_rows += len(rows[0])
        if n_rows > portion + 2 * n_distinct:
            gathered = [_merge_distinct(device, gathered)]
            n_rows = n_distinct = len(gathered[0][0])
    groups, values = _merge_distinct(device, gathered) if gathered else [none, none]
    work[SUM_OF_MINIMA : PROPOSALS + 1] += fill_work[SUM_OF_MINIMA : PROPOSALS + 1]
    work[PROBES : PROBES + 1] += sought[PROPOSALS : PROPOSALS + 1] + sought[PROBES : PROBES + 1]
    work[SURVIVORS : SURVIVORS + 1] += len(values)
    offsets = xp.searchsorted(groups, xp.arange(n_groups + 1, dtype=np.int64))
    return offsets.astype(np.int64, copy=False), values


def _prepare_single_atom(device: Device, levels: Sequence[Level]) -> Extension:
    rows = [-1 if level.parent_offsets is None else row for row, level in enumerate(levels)]
    return prepare(device, levels, [0, len(levels)], [True], [False], rows, [-1] * len(levels))


def _merge_distinct(device: Device, parts: list[list[Int64Array]]) -> list[Int64Array]:
    """Return the distinct rows of all parts, sorted."""
    if len(parts) == 1:
        return parts[0]
    return distinct_rows(device, [device.xp.concatenate(columns) for columns in zip(*parts, strict=True)])

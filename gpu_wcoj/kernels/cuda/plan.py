"""Plans of ranges of prefixes before candidates are tested: ranges, running sums, marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.protocol import Int64Array, Level

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
    rows: Sequence[int], out_rows: Sequence[int],
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

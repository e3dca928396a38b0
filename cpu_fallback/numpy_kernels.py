"""Binding one more variable of many prefixes: blocks of candidates, processed by array.

Every prefix takes the atom with the smallest range. Its candidates, prefix after prefix, are cut into blocks of at most
`BLOCK`, also within one prefix, and each atom processes a whole block at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpu_fallback import tries
from cpu_fallback import tries as choices
from cpu_fallback import tries as sort
from cpu_fallback import tries as sums
from cpu_fallback.plain_loops import PlainFixpoint, PlainMaintenance
from cpu_fallback.tries import PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS, CodeArray, Int64Array, distinct_rows, prune

# Searches of many values at once, each in a separate range of one sorted array.


_INT32 = np.iinfo(np.int32)


def ragged(sizes: Int64Array) -> tuple[npt.NDArray[np.intp], Int64Array]:
    """Return owner and place within the owner of every element of lists of these sizes.

    Examples
    --------
    >>> ragged(np.array([2, 0, 1]))
    (array([0, 0, 2]), array([0, 1, 0]))
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]


def lower_bound(values: CodeArray, low: Int64Array, high: Int64Array, targets: CodeArray) -> Int64Array:
    """Return, per i, the first position in ``[low[i], high[i])`` not below ``targets[i]``.

    It is ``high[i]`` if there is none.
    """
    return _bound(values, low, high, targets, np.less)


def upper_bound(values: CodeArray, low: Int64Array, high: Int64Array, targets: Int64Array) -> Int64Array:
    """Search like `lower_bound`, for the first value above ``targets[i]``."""
    return _bound(values, low, high, targets, np.less_equal)


def _bound(values: CodeArray, low: Int64Array, high: Int64Array, targets: CodeArray, before: np.ufunc) -> Int64Array:
    if len(values) == 0 or len(targets) == 0:
        return low
    for _ in range(max(0, int((high - low).max())).bit_length()):
        middle = (low + high) >> 1
        right = before(values[np.minimum(middle, len(values) - 1)], targets)
        right &= low < high
        low = np.where(right, middle + 1, low)
        high = np.where(right, high, middle)
    return low


def find(values: CodeArray, low: Int64Array, high: Int64Array, targets: Int64Array) -> Int64Array:
    """Return, per i, the position of ``targets[i]`` in ``[low[i], high[i])``, or -1."""
    return _matches(values, lower_bound(values, low, high, targets), high, targets)


def find_in_all(values: CodeArray, targets: Int64Array) -> Int64Array:
    """Return the position of each target in one sorted array, or -1."""
    keys = targets if values.dtype == np.int64 else np.clip(targets, _INT32.min, _INT32.max).astype(np.int32)
    return _matches(values, np.searchsorted(values, keys), np.int64(len(values)), targets)


def _matches(values: CodeArray, places: Int64Array, high: Int64Array | np.int64, targets: Int64Array) -> Int64Array:
    if len(values) == 0:
        return np.full(len(targets), -1, np.int64)
    is_match = places < high
    is_match &= values[np.minimum(places, len(values) - 1)] == targets
    return np.where(is_match, places, -1)


BLOCK = 1 << 16
"""Candidates that are processed together, at most."""

FIRST_BLOCK = 1 << 8
"""Candidates of the first block if few survivors are needed; every further block is twice as large."""

IndexArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """One batch of one atom; see `gpu_wcoj.kernels.protocol.Level` and `Kernels.prepare`."""

    values: CodeArray
    parents: Int64Array | None
    weights: Int64Array | None
    row: int
    out_row: int


@dataclass(frozen=True, eq=False, slots=True)
class Extension:
    """The slots of one variable's atoms.

    Per atom there is the range of its slots, and whether it is at its last level.
    """

    slots: tuple[Slot, ...]
    atoms: tuple[range, ...]
    is_last: tuple[bool, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Restrictions:
    """Positions, bounds and excluded values per prefix; see `Kernels.count_common`."""

    positions: Int64Array
    lower: Int64Array
    upper: Int64Array
    excluded: Int64Array


@dataclass(eq=False, slots=True)
class Block:
    """Candidates in the order of their prefixes; those that have not survived are removed.

    Attributes
    ----------
    owner
        The prefix of the window of each candidate.
    place
        Its index among all candidates of its prefix.
    atom, slot
        The atom and the slot that proposed it.
    weight
        Product of the weights of the atoms processed so far.
    matches
        Per slot, the position of its value, or -1.
    """

    owner: IndexArray
    place: Int64Array
    atom: Int64Array
    slot: Int64Array
    value: Int64Array
    weight: Int64Array
    matches: Int64Array

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Remove the candidates outside the mask."""
        if not mask.all():
            self.cut(np.flatnonzero(mask))

    def cut(self, rows: IndexArray | slice) -> None:
        """Remove all candidates but these."""
        self.owner, self.place, self.value = self.owner[rows], self.place[rows], self.value[rows]
        self.atom, self.slot, self.weight = self.atom[rows], self.slot[rows], self.weight[rows]
        self.matches = self.matches[:, rows]


class Walk:
    """Prefixes up to `end`, extended block by block.

    Parameters
    ----------
    prefix, skip
        The first prefix, and how many of its candidates are done.
    """

    def __init__(
        self, extension: Extension, question: Restrictions, prefix: int, skip: int, end: int, work: Int64Array
    ) -> None:
        self.extension = extension
        self.question = question
        self.prefix = prefix
        self.skip = skip
        self.end = end
        self.work = work

    def step(self, size: int, room: int | None = None) -> tuple[Int64Array, Block]:
        """Process up to `size` candidates; return prefixes and block of the first `room` survivors."""
        begin, skip = self.prefix, self.skip
        window = slice(begin, min(self.end, begin + size))
        low, high = self._ranges(window)
        widths = np.array([(high[slots.start : slots.stop] - low[slots.start : slots.stop]).sum(axis=0)
                           for slots in self.extension.atoms])  # fmt: skip
        proposer = widths.argmin(axis=0)
        minima = widths.min(axis=0)
        takes = minima.copy()
        takes[0] -= skip
        total = np.cumsum(takes)
        n = window.stop - begin
        self.prefix, self.skip = window.stop, 0
        if total[-1] > size:
            n = int(np.searchsorted(total, size)) + 1
            surplus = int(total[n - 1]) - size
            takes = takes[:n].copy()
            takes[-1] -= surplus
            if surplus:
                self.prefix, self.skip = begin + n - 1, int(minima[n - 1]) - surplus
            else:
                self.prefix = begin + n
        block = self._propose(takes, proposer, skip, low, high)
        if len(self.question.excluded):
            forbidden = self.question.excluded[:, begin + block.owner] == block.value
            block.keep(~forbidden.any(axis=0))
        for atom in range(len(self.extension.atoms)):
            self._intersect(block, atom, low, high)
        if room is not None and len(block.owner) > room:
            block.cut(slice(room))
            self.prefix, self.skip = begin + int(block.owner[-1]), int(block.place[-1]) + 1
        if skip:
            minima[0] = 0  # counted before
        self.work[SUM_OF_MINIMA] += minima[: self.prefix - begin + (self.skip > 0)].sum()
        self.work[SURVIVORS] += len(block.owner)
        return begin + block.owner, block

    def _ranges(self, window: slice) -> tuple[Int64Array, Int64Array]:
        """Return begin and end of every slot's range for each prefix of the window, within bounds."""
        question = self.question
        shape = len(self.extension.slots), window.stop - window.start
        low, high = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for k, slot in enumerate(self.extension.slots):
            if slot.parents is None:
                high[k] = len(slot.values)
            else:
                parent = question.positions[slot.row, window]
                has_parent = parent >= 0
                low[k, has_parent] = slot.parents[parent[has_parent]]
                high[k, has_parent] = slot.parents[parent[has_parent] + 1]
            if len(question.lower):
                low[k] = lower_bound(slot.values, low[k], high[k], question.lower[window])
                high[k] = upper_bound(slot.values, low[k], high[k], question.upper[window])
        return low, high

    def _propose(
        self, takes: Int64Array, proposer: IndexArray, skip: int, low: Int64Array, high: Int64Array
    ) -> Block:  # fmt: skip
        """Return the next ``takes[p]`` candidates of each prefix p; skip `skip` of the first one's."""
        owner, place = ragged(takes)
        place[owner == 0] += skip
        n = len(owner)
        block = Block(
            owner, place, proposer[owner], np.full(n, -1, np.int64), np.empty(n, np.int64), np.ones(n, np.int64),
            np.full((len(self.extension.slots), n), -1, np.int64),
        )  # fmt: skip
        self.work[PROPOSALS] += n
        for atom, slots in enumerate(self.extension.atoms):
            rows = np.flatnonzero(block.atom == atom)
            place_left = place[rows]
            for k in slots:
                if not len(rows):
                    break
                begin, width = low[k, owner[rows]], high[k, owner[rows]] - low[k, owner[rows]]
                here = place_left < width
                proposed = rows[here]
                position = begin[here] + place_left[here]
                block.slot[proposed] = k
                block.value[proposed] = self.extension.slots[k].values[position]
                block.matches[k, proposed] = position
                rows, place_left = rows[~here], (place_left - width)[~here]
        return block

    def _intersect(self, block: Block, atom: int, low: Int64Array, high: Int64Array) -> None:
        """Remove candidates that an atom lacks, proposed twice, or cancels by its weights."""
        n = len(block.owner)
        is_held = np.zeros(n, np.bool_)
        twice = np.zeros(n, np.bool_)
        weight = np.zeros(n, np.int64)
        ends = self.extension.is_last[atom]
        is_proposer = block.atom == atom
        for k in self.extension.atoms[atom]:
            slot = self.extension.slots[k]
            rows = np.flatnonzero(block.slot != k)
            begin, end = low[k, block.owner[rows]], high[k, block.owner[rows]]
            if not (begin < end).all():
                some = begin < end
                rows, begin, end = rows[some], begin[some], end[some]
            self.work[PROBES] += len(rows)
            if slot.parents is None and not len(self.question.lower):
                block.matches[k, rows] = find_in_all(slot.values, block.value[rows])
            else:
                block.matches[k, rows] = find(slot.values, begin, end, block.value[rows])
            hit = block.matches[k] >= 0
            twice |= is_proposer & hit & (k < block.slot)
            is_held |= hit
            if ends:
                weight[hit] += 1 if slot.weights is None else slot.weights[block.matches[k, hit]]
        if ends:
            is_held &= weight != 0
            block.weight *= weight
        block.keep(is_held & ~twice)


def count(walk: Walk, begin: int) -> Int64Array:
    """Return, per prefix from `begin` on, the sum of its survivors' weights modulo 2^64."""
    counts = np.zeros(walk.end - begin, np.int64)
    while walk.prefix < walk.end:
        parent, block = walk.step(BLOCK)
        if len(parent):
            starts = np.concatenate([np.zeros(1, np.intp), np.flatnonzero(parent[1:] != parent[:-1]) + 1])
            counts[parent[starts] - begin] += np.add.reduceat(block.weight, starts)
    return counts


def fill(walk: Walk, capacity: int, n_out_rows: int) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Return parents, values, weights and positions of at most `capacity` further survivors."""
    parts: list[tuple[Int64Array, Int64Array, Int64Array, Int64Array]] = []
    room = capacity
    size = min(max(room, FIRST_BLOCK), BLOCK)
    while walk.prefix < walk.end and room > 0:
        parent, block = walk.step(size, room)
        size = min(2 * size, BLOCK)
        if len(parent):
            positions = np.empty((n_out_rows, len(parent)), np.int64)
            for k, slot in enumerate(walk.extension.slots):
                if slot.out_row >= 0:
                    positions[slot.out_row] = block.matches[k]
            parts.append((parent, block.value, block.weight, positions))
            room -= len(parent)
    if not parts:
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing, np.empty((n_out_rows, 0), np.int64)
    parents, values, weights, matrices = zip(*parts, strict=True)
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parents), np.concatenate(values), np.concatenate(weights), np.concatenate(matrices, axis=1)


# Merging two tries level by level: the smaller one's values are searched in the larger one.
#
# Siblings of one parent are a run, and the runs of a level are in the order of their parents. So a value of the smaller
# trie has one place among all values of the larger one: within the run of its parent if the larger trie has that
# parent, else at the place of such a run.


Trie = tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None]


@dataclass(frozen=True, eq=False, slots=True)
class MergedLevel:
    """One level of the merged trie: values, places of both sources' values, and run bounds."""

    values: CodeArray
    from_large: npt.NDArray[np.intp]
    from_small: Int64Array
    bounds: Int64Array


def bounds(sizes: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Int64Array:
    """Return the begin of each of consecutive lists of these sizes, and the end of the last one."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def merge_level(large: CodeArray, large_sizes: Int64Array, small: CodeArray, small_sizes: Int64Array) -> MergedLevel:
    """Merge the runs of two sources parent by parent; sizes are those of the parents' runs."""
    starts = bounds(large_sizes)
    parent = np.repeat(np.arange(len(small_sizes)), small_sizes)
    place = lower_bound(large, starts[parent], starts[parent + 1], small)
    met = place < starts[parent + 1]
    met[met] = large[place[met]] == small[met]
    fresh = np.flatnonzero(~met)
    # The k-th value without counterpart follows `place` values of the larger source and k values of this kind.
    from_small = np.empty(len(small), np.int64)
    from_small[fresh] = place[fresh] + np.arange(len(fresh))
    is_large = np.ones(len(large) + len(fresh), np.bool_)
    is_large[from_small[fresh]] = False
    from_large = np.flatnonzero(is_large)
    from_small[met] = from_large[place[met]]
    n = len(is_large)
    narrow = large.itemsize == small.itemsize == 4
    values: CodeArray = np.empty(n, np.int32) if narrow else np.empty(n, np.int64)
    values[from_large] = large
    values[from_small[fresh]] = small[fresh]
    both = np.bincount(parent[met], minlength=len(large_sizes))
    return MergedLevel(values, from_large, from_small, bounds(large_sizes + small_sizes - both))


def merge_tries(left: Trie, right: Trie) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
    """See `gpu_wcoj.kernels.protocol.Kernels.merge_tries`."""
    large, small = (left, right) if len(left[0][-1]) >= len(right[0][-1]) else (right, left)
    level = merge_level(large[0][0], np.array([len(large[0][0])]), small[0][0], np.array([len(small[0][0])]))
    values = [level.values]
    offsets: list[Int64Array] = []
    for depth in range(1, len(large[0])):
        large_sizes, small_sizes = np.zeros((2, len(level.values)), np.int64)
        large_sizes[level.from_large] = np.diff(large[1][depth - 1])
        small_sizes[level.from_small] = np.diff(small[1][depth - 1])
        level = merge_level(large[0][depth], large_sizes, small[0][depth], small_sizes)
        values.append(level.values)
        offsets.append(level.bounds)
    if large[2] is None and small[2] is None and len(level.values) == len(large[0][-1]) + len(small[0][-1]):
        return values, offsets, None
    weights = np.zeros(len(level.values), np.int64)
    weights[level.from_large] = 1 if large[2] is None else large[2]
    weights[level.from_small] += 1 if small[2] is None else small[2]
    nonzero = weights != 0
    if not nonzero.all():
        values[-1], weights = values[-1][nonzero], weights[nonzero]
        if offsets:
            offsets[-1] = bounds(nonzero)[offsets[-1]]
    prune(values, offsets)
    return values, offsets, None if bool((weights == 1).all()) else weights


# New values below groups of prefixes: portions of candidates, sorted, without known values.


PORTION = 1 << 20
"""Candidates that are processed together, at most."""

_Ranges = tuple[Int64Array, Int64Array]
"""Per level and prefix, begin and end of the values below it."""


def fresh_values(
    levels: Sequence[Any], positions: Int64Array, starts: Int64Array,
    known: Sequence[Any], known_positions: Int64Array, work: Int64Array,
) -> tuple[Int64Array, Int64Array]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.fresh_values`."""
    n_groups = len(starts) - 1
    group = np.repeat(np.arange(n_groups), np.diff(starts))
    begin, end = _ranges(levels, positions)
    parts: list[list[Int64Array]] = []
    n_rows = n_distinct = 0
    for k, level in enumerate(levels):
        width = end[k] - begin[k]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(width)])
        work[SUM_OF_MINIMA] += before[-1]
        work[PROPOSALS] += before[-1]
        for first in range(0, int(before[-1]), PORTION):
            stop = min(first + PORTION, int(before[-1]))
            some = slice(int(np.searchsorted(before, first, "right")) - 1, int(np.searchsorted(before, stop)))
            low = np.maximum(begin[k, some], begin[k, some] + first - before[:-1][some])
            high = np.minimum(end[k, some], begin[k, some] + stop - before[:-1][some])
            owner, place = ragged(high - low)
            values = level.values[low[owner] + place].astype(np.int64, copy=False)
            portion = distinct_rows([group[some][owner], values])
            parts.append(_drop_known(portion, known, known_positions, work))
            n_rows += len(parts[-1][0])
            if n_rows > PORTION + 2 * n_distinct:
                parts = [_unite(parts)]
                n_rows = n_distinct = len(parts[0][0])
    groups, values = _unite(parts) if parts else [np.empty(0, np.int64)] * 2
    work[SURVIVORS] += len(values)
    return np.searchsorted(groups, np.arange(n_groups + 1)).astype(np.int64, copy=False), values


def _ranges(levels: Sequence[Any], positions: Int64Array) -> _Ranges:
    begin, end = np.zeros(positions.shape, np.int64), np.zeros(positions.shape, np.int64)
    for k, level in enumerate(levels):
        if level.parent_offsets is None:
            end[k] = len(level.values)
        else:
            has_parent = positions[k] >= 0
            begin[k, has_parent] = level.parent_offsets[positions[k, has_parent]]
            end[k, has_parent] = level.parent_offsets[positions[k, has_parent] + 1]
    return begin, end


def _drop_known(
    rows: list[Int64Array], known: Sequence[Any], known_positions: Int64Array, work: Int64Array
) -> list[Int64Array]:
    """Return the rows (group, value) that no known level contains."""
    begin, end = _ranges(known, known_positions)
    for k, level in enumerate(known):
        group, values = rows
        work[PROBES] += len(group)
        if level.parent_offsets is None:
            is_known = find_in_all(level.values, values) >= 0
        else:
            is_known = find(level.values, begin[k, group], end[k, group], values) >= 0
        if is_known.any():
            rows = [group[~is_known], values[~is_known]]
    return rows


def _unite(parts: list[list[Int64Array]]) -> list[Int64Array]:
    """Return the distinct rows of all parts, sorted."""
    return distinct_rows([np.concatenate(columns) for columns in zip(*parts, strict=True)])


# The kernels of the protocol with NumPy: callers of the other modules of this package.


class VectorisedKernels:
    """The kernels with NumPy alone; see `gpu_wcoj.kernels.protocol.Kernels`.

    Prefixes that share a range are not processed together, and nothing is marked: `shared` has no effect.
    """

    name: ClassVar[str] = "numpy"
    measures_ranges: ClassVar[bool] = False
    walker: ClassVar[None] = None
    begin_merge: ClassVar[None] = None
    walked_rows: ClassVar[int] = 1 << 4
    fixpoint = PlainFixpoint
    maintenance = PlainMaintenance
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


# The kernels with NumPy alone, used if numba is absent.


__all__ = ["VectorisedKernels"]

"""Binding one more variable of many prefixes: blocks of candidates, processed by array.

Every prefix takes the atom with the smallest range. Its candidates, prefix after prefix, are cut into blocks of at most
`BLOCK`, also within one prefix, and each atom processes a whole block at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpu_fallback.progress import PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS  # nothing is marked here
from cpu_fallback.sort import Int64Array
from cpu_fallback.tries import CodeArray
from cpu_fallback.vectorised.search import find, find_in_all, lower_bound, ragged, upper_bound

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

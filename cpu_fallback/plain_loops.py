"""Loops row at a time without compiled code: operations of walks in plain Python.

A row costs some 30 microseconds, a vectorised iteration about 20 times that, so it serves iterations of very few rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpu_fallback.tries import N_WORK, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS, Int64Array

LOAD, BIND, SEEK, COPY, COMPARE, CALCULATE, ABSENT, EMIT = range(8)
"""Codes of operations; see `gpu_wcoj.kernels.protocol.Walks` for these numbers and all others."""

LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER_EQUAL, GREATER = range(6)
ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, ABSOLUTE = range(6)
DROP, FAIL, WRAP = range(3)
FIXPOINT, PAUSED, WIDE, LIMIT, WRONG = range(5)

_MIN, _MAX = -(1 << 63), (1 << 63) - 1

Row = tuple[int, ...]


def compare(left: int, comparison: int, right: int) -> bool:
    """Return whether a comparison holds.

    Examples
    --------
    >>> [compare(1, comparison, 2) for comparison in (LESS, EQUAL, GREATER)]
    [True, False, False]
    """
    order = (left > right) - (left < right)
    passing = ((-1,), (-1, 0), (0,), (-1, 1), (0, 1), (1,))
    return order in passing[comparison]


def calculate(operator: int, left: int, right: int) -> tuple[int, bool]:
    """Return a result modulo 2^64, and whether the exact one is undefined or outside int64.

    Examples
    --------
    >>> calculate(DIVIDE, -7, 2), calculate(REMAINDER, -7, 2), calculate(DIVIDE, 7, 0)
    ((-3, False), (-1, False), (7, True))
    """
    is_undefined = False
    if operator in (DIVIDE, REMAINDER):
        is_undefined = right == 0
        quotient = abs(left) // abs(right or 1)
        if operator == DIVIDE:
            result = quotient if (left < 0) == (right < 0) else -quotient
        else:
            remaining = abs(left) - quotient * abs(right or 1)
            result = -remaining if left < 0 else remaining
    else:
        result = (
            left + right if operator == ADD
            else left - right if operator == SUBTRACT
            else left * right if operator == MULTIPLY
            else abs(left)
        )  # fmt: skip
    if not _MIN <= result <= _MAX:
        return (result + (1 << 63)) % (1 << 64) - (1 << 63), True
    return result, is_undefined


class PlainWalker:
    """Walks and what they change; see `gpu_wcoj.kernels.protocol.Walks`."""

    def __init__(self, walks: Any) -> None:
        self._code: list[int] = walks.operations.tolist()
        self._levels = walks.levels
        self._registers: list[int] = walks.registers.tolist()
        self._places = [-1] * walks.n_places
        self._row: Row = ()
        self._out: list[Row] = []
        self._counters = np.zeros((walks.n_counters, N_WORK), np.int64)
        self.starts = walks.starts
        self.inverse = walks.inverse
        self.walk_numbers = _numbered([*walks.starts, *walks.inverse])
        self.failed = np.zeros(len(self.walk_numbers), np.bool_)
        self._has_failed = False
        self.spent = 0

    @property
    def work(self) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.LoopRun`."""
        return self._counters

    def emitted(self, start: int, row: Row) -> list[Row]:
        """Return what a walk emits for a row: the target, then the columns."""
        self._row, self._out, self._has_failed = row, [], False
        self._run(start)
        if self._has_failed:
            self.failed[self.walk_numbers[start]] = True
        return self._out

    def _run(self, pc: int) -> None:
        """Run operations from an offset, for each binding of the variables that they bind."""
        code, registers = self._code, self._registers
        while True:
            self.spent += 1
            operation = code[pc]
            if operation == LOAD:
                for i in range(pc + 4, pc + 4 + 2 * code[pc + 3], 2):
                    registers[code[i + 1]] = self._row[code[i]]
            elif operation == BIND:
                self._bind(pc)
                return
            elif operation == SEEK:
                self._counters[code[pc + 4], PROBES] += 1
                if not self._seek(pc + 5, registers[code[pc + 3]]):
                    return
                self._counters[code[pc + 4], SURVIVORS] += 1
            elif operation == COPY:
                registers[code[pc + 3]] = registers[code[pc + 4]]
            elif operation == COMPARE:
                if not compare(registers[code[pc + 4]], code[pc + 3], registers[code[pc + 5]]):
                    return
            elif operation == CALCULATE:
                result, is_undefined = calculate(code[pc + 4], registers[code[pc + 5]], registers[code[pc + 6]])
                registers[code[pc + 3]] = result
                if is_undefined and code[pc + 7] != WRAP:
                    self._has_failed |= code[pc + 7] == FAIL
                    return
            elif operation == ABSENT:
                if self._is_present(pc):
                    return
            else:
                self._out.append(
                    (code[pc + 3], *(registers[register] for register in code[pc + 5 : pc + 5 + code[pc + 4]]))
                )
                return
            pc = code[pc + 1]

    def _bind(self, pc: int) -> None:
        """Run what follows for each value that all atoms hold."""
        code = self._code
        atoms, atom = [], pc + 9
        for _ in range(code[pc + 7]):
            atoms.append(atom)
            atom += 2 + 3 * code[atom]
        widths = [sum(end - begin for begin, end in map(self._range, self._slots(atom))) for atom in atoms]
        width = min(widths)
        chosen = atoms[widths.index(width)]
        counters = self._counters[code[pc + 5]]
        lower, upper = self._bounds(pc)
        if lower > upper:
            width = 0
        counters[SUM_OF_MINIMA] += width
        counters[PROPOSALS] += width
        if width == 0:
            return
        values = set[int]()
        for slot in self._slots(chosen):
            begin, end = self._range(slot)
            values.update(self._levels[code[slot]].values[begin:end].tolist())
        for value in sorted(value for value in values if lower <= value <= upper):
            self.spent += 1
            counters[PROBES] += len(atoms) - 1
            if self._seek(chosen, value) and all(self._seek(atom, value) for atom in atoms if atom != chosen):
                self._registers[code[pc + 3]] = value
                counters[SURVIVORS] += 1
                self._run(code[pc + 1])

    def _bounds(self, pc: int) -> tuple[int, int]:
        lower, upper = _MIN, _MAX
        for i in range(self._code[pc + 8], self._code[pc + 8] + 2 * self._code[pc + 6], 2):
            comparison, operand = self._code[i], self._registers[self._code[i + 1]]
            if comparison in (LESS, LESS_EQUAL):
                upper = min(upper, operand - (comparison == LESS))
            else:
                lower = max(lower, operand + (comparison == GREATER))
        return lower, upper

    def _slots(self, atom: int) -> range:
        """Return the offsets of an atom's batches."""
        return range(atom + 2, atom + 2 + 3 * self._code[atom], 3)

    def _range(self, slot: int) -> tuple[int, int]:
        """Return the range of a batch's values below the place reached in the level above."""
        level, above = self._levels[self._code[slot]], self._code[slot + 1]
        if above < 0:
            return 0, len(level.values)
        node = self._places[above]
        return (0, 0) if node < 0 else (int(level.parent_offsets[node]), int(level.parent_offsets[node + 1]))

    def _seek(self, atom: int, value: int) -> bool:
        """Search a value in all batches of an atom and move there; return whether the atom holds it."""
        is_last, total = self._code[atom + 1] != 0, 0
        for slot in self._slots(atom):
            level = self._levels[self._code[slot]]
            position = find(level, *self._range(slot), value)
            self._places[self._code[slot + 2]] = position
            if position >= 0:
                total += int(level.weights[position]) if is_last and level.weights is not None else 1
        return total != 0

    def _is_present(self, pc: int) -> bool:
        """Return whether the relation of an `ABSENT` has the row in its registers."""
        depth, n_batches = self._code[pc + 3], self._code[pc + 4]
        row = [self._registers[register] for register in self._code[pc + 5 : pc + 5 + depth]]
        first = pc + 5 + depth
        batches = [
            [self._levels[number] for number in self._code[begin : begin + depth]]
            for begin in range(first, first + depth * n_batches, depth)
        ]
        total = 0
        for levels in batches:
            position = descend(levels, row)
            if position >= 0:
                total += 1 if levels[-1].weights is None else int(levels[-1].weights[position])
        return total > 0


def _numbered(starts: Sequence[Sequence[int]]) -> dict[int, int]:
    return {start: number for number, start in enumerate(start for offsets in starts for start in offsets)}


def find(level: Any, begin: int, end: int, value: int) -> int:
    """Return the position of a value in a range of a level, -1 if absent."""
    position = bisect_left(level.values, value, begin, end)
    return position if position < end and level.values[position] == value else -1


def descend(levels: Sequence[Any], row: Sequence[int]) -> int:
    """Return the position of a row in the last of these levels of a batch, -1 if absent."""
    begin, end, position = 0, len(levels[0].values), 0
    for level, value in zip(levels, row, strict=True):
        if level.parent_offsets is not None:
            begin, end = int(level.parent_offsets[position]), int(level.parent_offsets[position + 1])
        position = find(level, begin, end, value)
        if position < 0:
            return -1
    return position


def _as_matrix(rows: Sequence[Row], width: int) -> Int64Array:
    matrix = np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return matrix


def _rows(head: int, columns: Sequence[Int64Array]) -> list[Row]:
    return [(head, *row) for row in zip(*(column.tolist() for column in columns), strict=True)]


class PlainFixpoint(PlainWalker):
    """See `gpu_wcoj.kernels.protocol.Fixpoint`."""

    def __init__(self, walks: Any, orders: Sequence[int]) -> None:
        super().__init__(walks)
        self._orders = orders
        self._width = 1 + max(walks.widths)
        self._rows: list[Row] = []
        self._ranks: list[int] = []
        self._position: dict[Row, int] = {}
        self.rank = 0
        self.bounds = 0, 0
        self._next_row = 0

    def add(self, head: int, columns: Sequence[Int64Array], rank: int) -> None:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.add`."""
        begin = self.bounds[0] if rank == self.rank else len(self._rows)
        for row in _rows(head, columns):
            self._insert(row, rank)
        self.rank, self.bounds, self._next_row = rank, (begin, len(self._rows)), begin

    def _insert(self, row: Row, rank: int) -> None:
        """Add a row unless it is there, or its group has a value that is not worse."""
        order = self._orders[row[0]]
        key = row if order == 0 else row[:-1]
        known = self._position.get(key)
        if known is not None:
            if order == 0 or order * row[-1] >= order * self._rows[known][-1]:
                return
            if self._ranks[known] == rank:
                self._rows[known] = row
                return
        self._position[key] = len(self._rows)
        self._rows.append(row)
        self._ranks.append(rank)

    def run(self, max_rank: int, max_frontier: int, max_work: int, budget: int) -> int:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.run`."""
        end_of_call = self.spent + budget
        begin_of_iteration = self.spent
        while True:
            end = self.bounds[1]
            while self._next_row < end:
                row = self._rows[self._next_row]
                for start in self.starts[row[0]]:
                    for derived in self.emitted(start, row):
                        self._insert(derived, self.rank + 1)
                self._next_row += 1
                if self.spent - begin_of_iteration > max_work:
                    del self._rows[end:], self._ranks[end:]
                    return WIDE
                if self.spent >= end_of_call:
                    return PAUSED
            if len(self._rows) == end:
                return FIXPOINT
            self.bounds, self.rank, begin_of_iteration = (end, len(self._rows)), self.rank + 1, self.spent
            if self.rank >= max_rank:
                return LIMIT
            if len(self._rows) - end > max_frontier:
                return WIDE

    def rows(self, begin: int, end: int) -> tuple[Int64Array, Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.rows`."""
        return _as_matrix(self._rows[begin:end], self._width), np.array(self._ranks[begin:end], np.int64)


class PlainMaintenance(PlainWalker):
    """See `gpu_wcoj.kernels.protocol.Maintenance`."""

    def __init__(self, walks: Any, states: Sequence[Sequence[Sequence[Any]]]) -> None:
        super().__init__(walks)
        self._states = states
        self._width = 1 + max(walks.widths)
        self._arrived: dict[int, dict[Row, int]] = {}
        self._due: dict[int, list[Row]] = {}
        self._entries: list[tuple[Row, int, int]] = []
        self._sums: dict[Row, int] = {}
        self._known_ranks: dict[Row, int] = {}
        self._waiting: list[tuple[Row, int]] = []
        self._n_derived = 0
        self.iterations = 0
        self._iteration = -1

    def add(self, head: int, columns: Sequence[Int64Array], iterations: Int64Array, weights: Int64Array) -> None:
        """See `gpu_wcoj.kernels.protocol.Maintenance.add`."""
        for row, iteration, weight in zip(_rows(head, columns), iterations.tolist(), weights.tolist(), strict=True):
            self._put(row, iteration, weight)

    def _put(self, row: Row, iteration: int, weight: int) -> None:
        arrived = self._arrived.setdefault(iteration, {})
        arrived[row] = arrived.get(row, 0) + weight

    def _rank(self, row: Row) -> int:
        """Return the rank of a row before the tick, -1 if it was absent."""
        rank = self._known_ranks.get(row)
        if rank is None:
            total = product = 0
            for levels in self._states[row[0]]:
                position = descend(levels[:-1], row[1:])
                if position >= 0:
                    ranks = levels[-1]
                    for i in range(int(ranks.parent_offsets[position]), int(ranks.parent_offsets[position + 1])):
                        weight = 1 if ranks.weights is None else int(ranks.weights[i])
                        total += weight
                        product += weight * int(ranks.values[i])
            rank = self._known_ranks[row] = product if total > 0 else -1
        return rank

    def run(self, max_iterations: int, max_derived: int, budget: int) -> int:
        """See `gpu_wcoj.kernels.protocol.Maintenance.run`."""
        end_of_call = self.spent + budget
        while True:
            while self._waiting:
                row, sign = self._waiting.pop()
                self.spent += 1
                for start in self.starts[row[0]]:
                    derived = self.emitted(start, row)
                    self._n_derived += len(derived)
                    for derived_row in derived:
                        self._put(derived_row, self._iteration + 1, sign)
                if self._n_derived > max_derived:
                    return WIDE
                if self.spent >= end_of_call:
                    return PAUSED
            iterations = {*self._arrived, *self._due}
            if not iterations:
                return FIXPOINT
            self.iterations += 1
            if self.iterations > max_iterations:
                return LIMIT
            self._iteration = min(iterations)
            first = len(self._entries)
            for row, arrived in self._arrived.pop(self._iteration, {}).items():
                self.spent += 1
                if not self._decide(row, arrived):
                    return WRONG
            for row in self._due.pop(self._iteration, []):
                self._enter(row, -1)
            self._waiting = [(row, sign) for row, _, sign in self._entries[first:]]

    def _enter(self, row: Row, sign: int) -> None:
        self._entries.append((row, self._iteration, sign))
        self._sums[row] = self._sums.get(row, 0) + sign

    def _decide(self, row: Row, arrived: int) -> bool:
        """Enter a row or let it leave; return False if it has fewer than no derivations."""
        iteration, rank = self._iteration, self._rank(row)
        if self._sums.get(row, 0) + (0 <= rank < iteration) or arrived == 0:
            return True
        if rank != iteration:
            if arrived < 0:
                return False
            self._enter(row, 1)
            if rank > iteration:
                self._due.setdefault(rank, []).append(row)
            return True
        if arrived > 0:
            return True
        derived_at = [emitted[1] + 1 for start in self.inverse[row[0]] for emitted in self.emitted(start, row)]
        left = arrived + derived_at.count(iteration)
        if left == 0:
            self._enter(row, -1)
            for later in derived_at:
                if later > iteration:
                    self._put(row, later, 1)
        return left >= 0

    def entries(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Maintenance.entries`."""
        rows = _as_matrix([row for row, _, _ in self._entries], self._width)
        numbers = np.array([(iteration, sign) for _, iteration, sign in self._entries], np.int64).reshape(-1, 2)
        return rows, numbers[:, 0], numbers[:, 1]

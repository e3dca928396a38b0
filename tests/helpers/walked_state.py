"""The records of a state of small ticks, made from dictionaries {row: weight}; see `cpu_fallback.walk_records`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpu_fallback import walk_records as record
from gpu_wcoj.backend import Backend
from gpu_wcoj.join.walk import OPERATORS, Walk, address_of
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.zset.index import IndexedZSet
from tests.reference.kernels import Row
from tests.reference.walks import Change, Weights, arranged

MODES = {"set": record.AS_SET, "bag": record.AS_BAG, "is": record.AS_IS}


def from_address(address: int, n: int) -> np.ndarray:
    """The n integers at an address."""
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_int64 * n).from_address(address)) if n else np.empty(0, np.int64)


def matrix_of(rows: Sequence[Row], width: int) -> np.ndarray:
    """Rows as a matrix."""
    return np.array(rows, np.int64).reshape(-1, width)


class WalkedState:
    """Batches and memtables of relations, and the context for the kernels that change them.

    Parameters
    ----------
    widths
        The columns of each relation.
    keys
        The arrangements; each relation has one of all rows in their own order, too.
    batches, memtables
        Per relation, its rows from the oldest to the newest: some batches, then the memtable.
    """

    def __init__(
        self,
        backend: Backend,
        widths: Mapping[str, int],
        keys: Sequence[ArrangementKey],
        batches: Mapping[str, Sequence[Weights]],
        memtables: Mapping[str, Weights],
        weighted: bool,
        capacity: int,
    ) -> None:
        self.kernels, self.weighted, self.capacity = backend.kernels, weighted, capacity
        assert backend.kernels.walker is not None
        self.walker = backend.kernels.walker
        self.names = list(widths)
        self.keys: list[ArrangementKey] = []
        spans = {}
        for name, width in widths.items():
            own = [ArrangementKey(name, tuple(range(width))), *(key for key in keys if key.relation == name)]
            spans[name] = len(self.keys), len(self.keys) + len(dict.fromkeys(own))
            self.keys += dict.fromkeys(own)
        self.places = {key: place for place, key in enumerate(self.keys)}
        self._memory: list[Any] = []
        self.context = np.zeros(record.CONTEXT, np.int64)
        depth = max(widths.values())
        self.stride = 2 + max(map(len, batches.values()))
        self.version = 0
        self.table = self._hold(np.zeros((len(self.keys), record.ARRANGEMENT), np.int64))
        self.arrangement_address = address_of(self.table)
        fields: list[Any] = []
        columns = np.zeros((len(self.keys), depth), np.int64)
        filters: list[tuple[int, ...]] = []
        filter_spans = [0]
        for place, key in enumerate(self.keys):
            columns[place, : len(key.order)] = key.order
            self._arrange(self.table[place], key, batches[key.relation], memtables[key.relation], fields, backend)
            filters += [(OPERATORS["="], column, -1, code) for column, code in key.constants]
            filters += [(OPERATORS["="], left, right, 0) for left, right in key.equal]
            filters += [
                (OPERATORS[op], left, -1 if right is None else right, code or 0)
                for left, op, right, code in key.compared
            ]
            filter_spans.append(len(filters))
        self.slots = self._hold(np.array(fields, np.int64) if fields else np.zeros((1, 1), np.int64))
        atoms = np.zeros((len(widths), record.ATOM), np.int64)
        self.relations = self._hold(np.zeros((len(widths), record.RELATION), np.int64))
        for number, (name, width) in enumerate(widths.items()):
            row = self.relations[number]
            atoms[number] = spans[name][0], 0, number * depth * self.stride
            row[record.R_WIDTH], row[record.R_ATOM] = width, number
            row[record.R_FIRST], row[record.R_END] = spans[name]
            for field, size in (
                (record.R_ROWS, width), (record.R_WEIGHTS, 1), (record.R_CHANGED, width), (record.R_CHANGES, 1),
                (record.R_BEFORE, 1), (record.R_STAMPS, 1),
            ):  # fmt: skip
                row[field] = address_of(self._hold(np.empty(capacity * size, np.int64)))
        for field, array in {
            record.ARRANGEMENTS: self.table,
            record.SLOTS: self.slots,
            record.ATOMS: atoms,
            record.CURSORS: np.zeros((len(widths) * depth * self.stride, 3), np.int64),
            record.RELATIONS: self.relations,
            record.COLUMNS: columns,
            record.FILTERS: np.array(filters or [(0, 0, 0, 0)], np.int64),
            record.FILTER_SPANS: np.array(filter_spans, np.int64),
            record.ORDER: np.zeros(capacity, np.int64),
            record.SPARE: np.zeros(capacity, np.int64),
            record.IDENTITY: np.arange(depth, dtype=np.int64),
            record.WORK: np.zeros(8, np.int64),
        }.items():
            self.context[field] = address_of(self._hold(array))
        self.context[record.STRIDE] = self.stride
        self.context[record.MAX_DEPTH] = depth
        self.context[record.WEIGHTED] = int(weighted)
        self.context[record.N_ARRANGEMENTS] = len(self.keys)

    def _hold(self, array: np.ndarray) -> np.ndarray:
        self._memory.append(array)
        return array

    def _arrange(
        self, row: np.ndarray, key: ArrangementKey, batches: Sequence[Weights], memtable: Weights, fields: list[Any],
        backend: Backend,
    ) -> None:  # fmt: skip
        """Fill the record of an arrangement."""
        width = len(key.order)
        tries = []
        for batch in batches:
            rows = dict(sorted(arranged(key, batch).items()))
            if rows:
                weights = None if set(rows.values()) == {1} else np.array(list(rows.values()), np.int64)
                tries.append(IndexedZSet.from_sorted(list(matrix_of(list(rows), width).T.copy()), weights, backend))
        levels = [level for trie in tries for level in trie.levels]
        row[record.A_DEPTH], row[record.A_BATCHES], row[record.A_SLOTS] = width, len(tries), len(fields)
        if levels:
            self.kernels.prepare(levels, [0], [True, True], [False], [], [])
        self._memory.append((tries, levels))
        fields += [level.support[0] for level in levels]
        rows = dict(sorted(arranged(key, memtable).items()))
        size = len(rows) + self.capacity
        for place, n_columns in (
            (record.A_ROWS, width), (record.A_WEIGHTS, 1), (record.A_SPARE_ROWS, width), (record.A_SPARE_WEIGHTS, 1),
            (record.A_TICK_ROWS, width), (record.A_TICK_WEIGHTS, 1), (record.A_TICK_STAMPS, 1),
            (record.A_TICK_BEFORE, 1),
        ):  # fmt: skip
            row[place] = address_of(self._hold(np.empty(size * n_columns, np.int64)))
        from_address(int(row[record.A_ROWS]), len(rows) * width)[:] = matrix_of(list(rows), width).ravel()
        from_address(int(row[record.A_WEIGHTS]), len(rows))[:] = list(rows.values())
        row[record.A_SIZE] = len(rows)

    def begin(self) -> None:
        """Begin a tick."""
        self.walker.begin_small_tick(address_of(self.context))

    def receive(self, name: str, operations: Sequence[tuple[Row, int]], mode: str) -> int:
        """Pass rows to a relation; return what the kernel returns."""
        row = self.relations[self.names.index(name)]
        n, width = len(operations), int(row[record.R_WIDTH])
        columns = matrix_of([r for r, _ in operations], width)
        weights = np.array([weight for _, weight in operations], np.int64)
        row[record.R_PLACES] = 0
        if n % 2 == 1:  # an odd number of rows is passed column by column, with a stride
            given = np.zeros((width + 1, 2 * n + 1), np.int64)
            given[:width, 1::2], given[width, 1::2] = columns.T, weights
            start, stride = address_of(given) + 8, given.strides[0]
            all_are_one = bool((weights == 1).all())
            places = [part for column in range(width) for part in (start + column * stride, 16)]
            places += (0, 0) if all_are_one else (start + width * stride, 16)
            self._given = given, np.array(places, np.int64)
            row[record.R_PLACES] = address_of(self._given[1])
        elif n <= self.capacity:
            from_address(int(row[record.R_ROWS]), n * width)[:] = columns.ravel()
            from_address(int(row[record.R_WEIGHTS]), n)[:] = weights
        row[record.R_SIZE] = n
        return int(
            self.walker.receive_rows(address_of(self.context), self.names.index(name), MODES[mode], self.capacity)
        )

    def passed(self, name: str) -> list[tuple[Row, int]]:
        """Return the rows that a relation has been passed."""
        row = self.relations[self.names.index(name)]
        n, width = int(row[record.R_SIZE]), int(row[record.R_WIDTH])
        rows = from_address(int(row[record.R_ROWS]), n * width).reshape(-1, width).tolist()
        return list(zip(map(tuple, rows), from_address(int(row[record.R_WEIGHTS]), n).tolist(), strict=True))

    def changes(self, name: str) -> list[Change]:
        """Return the changed rows of a relation."""
        row = self.relations[self.names.index(name)]
        n, width = int(row[record.R_N_CHANGED]), int(row[record.R_WIDTH])
        rows = from_address(int(row[record.R_CHANGED]), n * width).reshape(-1, width).tolist()
        others = (record.R_CHANGES, record.R_BEFORE, record.R_STAMPS)
        fields = [from_address(int(row[field]), n).tolist() for field in others]
        return [Change(tuple(values), *numbers) for values, *numbers in zip(rows, *fields, strict=True)]

    def tick_rows(self, key: ArrangementKey) -> list[Change]:
        """Return the changed rows of an arrangement."""
        row = self.table[self.places[key]]
        n, width = int(row[record.A_TICK_SIZE]), len(key.order)
        rows = from_address(int(row[record.A_TICK_ROWS]), n * width).reshape(-1, width).tolist()
        others = (record.A_TICK_WEIGHTS, record.A_TICK_BEFORE, record.A_TICK_STAMPS)
        fields = [from_address(int(row[field]), n).tolist() for field in others]
        return [Change(tuple(values), *numbers) for values, *numbers in zip(rows, *fields, strict=True)]

    def merged(self) -> tuple[int, dict[ArrangementKey, dict[Row, int]]]:
        """Merge the memtables into other records; return the size of the largest, and their rows."""
        target = np.zeros_like(self.table)
        largest = int(self.walker.merge_memtables(address_of(self.context), address_of(target)))
        return largest, {key: memtable(target[place], len(key.order)) for key, place in self.places.items()}


def memtable(row: np.ndarray, width: int) -> dict[Row, int]:
    """Return the rows of the memtable of an arrangement's record."""
    n = int(row[record.A_SIZE])
    rows = from_address(int(row[record.A_ROWS]), n * width).reshape(-1, width).tolist()
    return dict(zip(map(tuple, rows), from_address(int(row[record.A_WEIGHTS]), n).tolist(), strict=True))


class Driver:
    """Walks a query in as many calls as little memory and a small budget need."""

    def __init__(self, walk: Walk, state: WalkedState, out_rows: int, budget: int) -> None:
        self.walk, self.state, self.budget = walk, state, budget
        self.out = np.zeros((len(walk.records.head) + 1, out_rows), np.int64)
        self.ended: list[int] = []
        context = walk.context
        context[record.OUT], context[record.OUT_CAPACITY] = address_of(self.out), out_rows

    def run(self) -> list[tuple[Row, int]]:
        """Return the rows of the head in the order in which the kernel lists them."""
        context = self.walk._begin(self.state)
        rows: list[tuple[Row, int]] = []
        while True:
            context[record.BUDGET] = self.budget
            self.ended.append(ended := int(self.state.walker.walk(self.walk.address)))
            n = int(context[record.OUT_SIZE])
            if ended in (record.FULL, record.DONE):
                rows += [(tuple(row), weight) for *row, weight in self.out[:, :n].T.tolist()]
                context[record.OUT_SIZE] = 0
            if ended == record.DONE:
                return rows
            if ended == record.GROW:
                buffer, needed = int(context[record.RESULT]), int(context[record.NEEDED])
                assert needed > self.walk._buffers[buffer, record.B_CAPACITY]
                self.walk._memory[buffer] = self.walk._new_buffer(buffer, needed)

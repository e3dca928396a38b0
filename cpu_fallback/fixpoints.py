"""Loops row at a time: fixpoints from the empty state, and changes of filled loops.

The rows of all heads are in one matrix: the number of the head, then the columns. A hash table finds them. Rows that
are derived in one iteration follow each other, so the rows of the last one are a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cpu_fallback.loop_walks import DONE, FRESH, advance
from cpu_fallback.plain_loops import FIXPOINT, LIMIT, PAUSED, WIDE, WRONG
from cpu_fallback.ranges import PARENT, SIZE, VALUES, WIDTH, find, weight_at
from cpu_fallback.runtime import cached_njit, load, pointer64
from cpu_fallback.tries import N_WORK, Int64Array

# Rows of all heads in one matrix, found by a hash table of their numbers plus 1; 0 is a free place.


@cached_njit
def place_of(table, rows, source, i, n_columns):
    """Return the place of row i of `source` in the table, a free one if no row equals it.

    Its first columns are compared.
    """
    mixed = np.uint64(0)
    for column in range(n_columns):
        mixed = (mixed ^ np.uint64(source[i, column])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    mask = len(table) - 1
    place = np.int64(mixed & np.uint64(mask))
    while table[place] != 0:
        row = table[place] - 1
        same = True
        for column in range(n_columns):
            if rows[row, column] != source[i, column]:
                same = False
                break
        if same:
            break
        place = (place + 1) & mask
    return place


@cached_njit
def larger_matrix(matrix, n):
    """Return a matrix with twice the rows, with the first n of them."""
    larger = np.empty((2 * matrix.shape[0], matrix.shape[1]), np.int64)
    for row in range(n):  # an assignment of slices would compile numba's message for shapes that differ
        for column in range(matrix.shape[1]):
            larger[row, column] = matrix[row, column]
    return larger


@cached_njit
def longer_array(values, n, size):
    """Return an array of this size with the first n values; the others are -1."""
    longer = np.empty(size, np.int64)
    for i in range(n):
        longer[i] = values[i]
    for i in range(n, size):
        longer[i] = -1
    return longer


@cached_njit
def larger_table(table, rows, n, n_keys):
    """Return a table of four times the size with the first n rows.

    Later rows replace those of the same key.
    """
    larger = np.zeros(4 * len(table), np.int32)
    for row in range(n):
        larger[place_of(larger, rows, rows, row, n_keys[rows[row, 0]])] = row + 1
    return larger


N_ROWS, BEGIN, END, ROW, WALK, PC, ITERATION, N_STATE = range(8)
"""State of a fixpoint: number of rows, the rows of the last iteration, the row and walk that are being extended, where
the walk continues, the iteration of the last rows, and the number of these fields."""


@cached_njit
def add_row(store, plan, state, source, i, rank):
    """Add row i of `source` unless it is there, or its group has a value that is not worse."""
    table, rows, ranks = store
    _, _, n_keys, orders = plan
    head = source[i, 0]
    n_key = n_keys[head]
    place = place_of(table, rows, source, i, n_key)
    if table[place] != 0:
        if orders[head] == 0:
            return
        row = table[place] - 1
        value, old = source[i, n_key], rows[row, n_key]
        if not (value < old if orders[head] > 0 else value > old):
            return
        if ranks[row] == rank:  # the best value of this iteration alone is kept
            rows[row, n_key] = value
            return
    n = state[N_ROWS]
    for column in range(rows.shape[1]):
        rows[n, column] = source[i, column]
    ranks[n] = rank
    table[place] = n + 1
    state[N_ROWS] = n + 1


@cached_njit
def with_room(store, n, n_more, n_keys):
    """Return table, rows and ranks with room for more rows."""
    table, rows, ranks = store
    while n + n_more > len(rows):
        rows = larger_matrix(rows, n)
        ranks = longer_array(ranks, n, len(rows))
    while 2 * (n + n_more) > len(table):
        table = larger_table(table, rows, n, n_keys)
    return table, rows, ranks


@cached_njit
def add_rows(store, plan, state, source, rank):
    """Add rows, and return table, rows and ranks."""
    store = with_room(store, state[N_ROWS], len(source), plan[2])
    for i in range(len(source)):
        add_row(store, plan, state, source, i, rank)
    return store


@cached_njit
def run_fixpoint(machine, plan, store, state, failed, limits):
    """Derive rows iteration by iteration; return the result, and table, rows and ranks.

    `plan` holds the first walk of each head, the offsets of walks, and per head the number of columns that are compared
    and its order; `store` the table, rows and ranks; `limits` is those of `Fixpoint.run`.
    """
    first_walk, starts, n_keys, _ = plan
    max_rank, max_frontier, max_work, budget = limits
    out = machine[4]
    iteration_work = np.int64(0)
    while True:
        while state[ROW] < state[END]:
            row = state[ROW]
            head = store[1][row, 0]
            while state[WALK] < first_walk[head + 1] - first_walk[head]:
                walk = first_walk[head] + state[WALK]
                pc = state[PC]
                if pc == FRESH:
                    pc = starts[walk]
                before = budget
                pc, n, budget = advance(machine, pc, store[1], row, budget, failed[walk : walk + 1])
                iteration_work += before - budget
                state[PC] = pc
                store = with_room(store, state[N_ROWS], n, n_keys)
                for i in range(n):
                    add_row(store, plan, state, out, i, state[ITERATION] + 1)
                if pc == DONE:
                    state[WALK] += 1
                    state[PC] = FRESH
                elif iteration_work > max_work:
                    return WIDE, store
                elif budget <= 0:
                    return PAUSED, store
            state[ROW] += 1
            state[WALK] = 0
            if iteration_work > max_work:
                return WIDE, store
        if state[N_ROWS] == state[END]:
            return FIXPOINT, store
        state[BEGIN], state[END] = state[END], state[N_ROWS]
        state[ROW] = state[BEGIN]
        state[ITERATION] += 1
        iteration_work = 0
        if state[ITERATION] >= max_rank:
            return LIMIT, store
        if state[END] - state[BEGIN] > max_frontier:
            return WIDE, store
        budget -= 1
        if budget <= 0:
            return PAUSED, store


# Changes of a filled loop: rows with pending derivations by iteration; see `gpu_wcoj.circuit.recursion`.

RANK, PRESENT, ARRIVED, TOUCHED = range(4)
"""Columns of a row's information: its rank before the tick or -1, the sum of its entries, the derivations that have
arrived at the current iteration, and the iteration of these plus 1."""

NOW, DECIDE, DERIVE = range(3)
"""Phases of an iteration: collect what has arrived, decide on rows, derive from their entries."""

(
    M_ROWS, M_EVENTS, FREE_EVENT, LAST_ITERATION, M_ENTRIES, FIRST_ENTRY, PHASE, NEXT_PLACE, M_TOUCHED, M_DUE,
    M_WALK, M_PC, M_ITERATION, IS_ASKING, N_HERE, N_LATER, N_DERIVED, N_ITERATIONS, M_STATE,
) = range(19)  # fmt: skip
"""State of a change: rows, events, the first free event, the last iteration with events, entries, the first entry of
this iteration, the phase and the place in it, rows with derivations, rows that leave since they came earlier, the walk
and where it continues, the iteration, whether derivations of a row are being asked, their number at this iteration
and the number of later ones, derivations so far, iterations so far, and the number of these fields."""


@cached_njit
def rank_of(lookups, offset, rows, row, n_columns):
    """Return the rank of a row in the state, -1 if it has none.

    `lookups` holds the number of batches, then the addresses of all levels of each, the rank last.
    """
    weight, rank = np.int64(0), np.int64(0)
    for batch in range(lookups[offset]):
        base = offset + 1 + batch * (n_columns + 1)
        node = np.int64(0)
        for level in range(n_columns):
            fields = pointer64(lookups[base + level])
            low, high = np.int64(0), fields[SIZE]
            if level > 0:
                offsets = pointer64(fields[PARENT])
                low, high = offsets[node], offsets[node + 1]
            node = find(fields, 0, low, high, rows[row, 1 + level])
            if node < 0:
                break
        if node < 0:
            continue
        fields = pointer64(lookups[base + n_columns])
        offsets = pointer64(fields[PARENT])
        for i in range(offsets[node], offsets[node + 1]):
            weight += weight_at(fields, 0, i)
            rank += weight_at(fields, 0, i) * load(fields[VALUES], fields[WIDTH], i)
    return rank if weight > 0 else np.int64(-1)


@cached_njit
def row_number(store, state, lookup, source, i, n_keys):
    """Return the number of row i of `source`, added if it is new; there is room."""
    table, rows, about = store
    lookups, first_lookup = lookup
    head = source[i, 0]
    place = place_of(table, rows, source, i, n_keys[head])
    if table[place] != 0:
        return np.int64(table[place] - 1)
    n = state[M_ROWS]
    for column in range(rows.shape[1]):
        rows[n, column] = source[i, column]
    about[n, RANK] = rank_of(lookups, first_lookup[head], rows, n, n_keys[head] - 1)
    about[n, PRESENT] = 0
    about[n, ARRIVED] = 0
    about[n, TOUCHED] = 0
    table[place] = n + 1
    state[M_ROWS] = n + 1
    return n


@cached_njit
def put(events, firsts, state, row, iteration, weight):
    """Store a derivation at an iteration, or with weight 0 that a row leaves.

    Return events and firsts.
    """
    if iteration >= len(firsts):
        firsts = longer_array(firsts, len(firsts), max(2 * len(firsts), iteration + 1))
    event = state[FREE_EVENT]
    if event >= 0:
        state[FREE_EVENT] = events[event, 2]
    else:
        event = state[M_EVENTS]
        if event == len(events):
            events = larger_matrix(events, event)
        state[M_EVENTS] += 1
    events[event, 0], events[event, 1], events[event, 2] = row, weight, firsts[iteration]
    firsts[iteration] = event
    state[LAST_ITERATION] = max(state[LAST_ITERATION], iteration)
    return events, firsts


@cached_njit
def add_events(store, state, events, firsts, lookup, n_keys, source, iterations, weights):
    """Store derivations at their iterations; return the arrays, which may have grown."""
    store = with_rows(store, state[M_ROWS], len(source), n_keys)
    for i in range(len(source)):
        row = row_number(store, state, lookup, source, i, n_keys)
        events, firsts = put(events, firsts, state, row, iterations[i], weights[i])
    return store, events, firsts


@cached_njit
def with_rows(store, n, n_more, n_keys):
    """Return table, rows and their information with room for more rows."""
    table, rows, about = store
    while n + n_more > len(rows):
        rows = larger_matrix(rows, n)
        about = larger_matrix(about, n)
    while 2 * (n + n_more) > len(table):
        table = larger_table(table, rows, n, n_keys)
    return table, rows, about


@cached_njit
def longer_list(values, n):
    """Return a list with at least one more place."""
    return values if n < len(values) else longer_array(values, n, 2 * n)


@cached_njit
def enter(entries, about, state, row, iteration, sign):
    """Emit an entry; return the entries."""
    n = state[M_ENTRIES]
    if n == len(entries):
        entries = larger_matrix(entries, n)
    entries[n, 0], entries[n, 1], entries[n, 2] = row, iteration, sign
    about[row, PRESENT] += sign
    state[M_ENTRIES] = n + 1
    return entries


@cached_njit
def run_changes(machine, plan, inverse, store, state, waiting, lookup, failed, limits):
    """Maintain a loop iteration by iteration; return the result and the arrays that may grow.

    `plan` holds the first walk of each head, the offsets of walks and the number of compared columns of each head;
    `inverse` the first and the offsets of the walks to derivations; `store` the table, rows and their information;
    `waiting` events, the first one of each iteration, entries, and three lists of rows; `limits` is those of
    `Maintenance.run`. The last value returned is the budget that is left.
    """
    first_walk, starts, n_keys = plan
    first_inverse, inverse_starts = inverse
    table, rows, about = store
    events, firsts, entries, touched, due, later = waiting
    max_iterations, max_derived, budget = limits
    out = machine[4]
    result = -1
    while result < 0:
        if state[PHASE] == NOW:
            iteration = state[M_ITERATION] + 1
            while iteration <= state[LAST_ITERATION] and firsts[iteration] < 0:
                iteration += 1
            if iteration > state[LAST_ITERATION]:
                result = FIXPOINT
                break
            state[N_ITERATIONS] += 1
            if state[N_ITERATIONS] > max_iterations:
                result = LIMIT
                break
            event, n_touched, n_due = firsts[iteration], 0, 0
            firsts[iteration] = -1
            while event >= 0:
                row, weight, following = events[event, 0], events[event, 1], events[event, 2]
                events[event, 2], state[FREE_EVENT] = state[FREE_EVENT], event
                event = following
                budget -= 1
                if weight == 0:
                    due = longer_list(due, n_due)
                    due[n_due] = row
                    n_due += 1
                    continue
                if about[row, TOUCHED] != iteration + 1:
                    about[row, TOUCHED] = iteration + 1
                    about[row, ARRIVED] = 0
                    touched = longer_list(touched, n_touched)
                    touched[n_touched] = row
                    n_touched += 1
                about[row, ARRIVED] += weight
            state[M_ITERATION], state[M_TOUCHED], state[M_DUE] = iteration, n_touched, n_due
            state[FIRST_ENTRY], state[NEXT_PLACE], state[IS_ASKING], state[PHASE] = state[M_ENTRIES], 0, 0, DECIDE
        iteration = state[M_ITERATION]
        if state[PHASE] == DECIDE:
            while state[NEXT_PLACE] < state[M_TOUCHED] and result < 0:
                row = touched[state[NEXT_PLACE]]
                head = rows[row, 0]
                arrived, rank = about[row, ARRIVED], about[row, RANK]
                if state[IS_ASKING] == 0:
                    budget -= 1
                    present = about[row, PRESENT] + (0 <= rank < iteration)
                    if present == 0 and arrived != 0:
                        if rank != iteration:
                            if arrived < 0:
                                result = WRONG
                                break
                            entries = enter(entries, about, state, row, iteration, 1)
                            if rank > iteration:
                                events, firsts = put(events, firsts, state, row, rank, np.int64(0))
                        elif arrived < 0:
                            state[IS_ASKING], state[N_HERE], state[N_LATER] = 1, 0, 0
                            state[M_WALK], state[M_PC] = first_inverse[head], FRESH
                while state[IS_ASKING] != 0:
                    walk = state[M_WALK]
                    if walk == first_inverse[head + 1] or arrived + state[N_HERE] > 0:
                        if arrived + state[N_HERE] < 0:
                            result = WRONG
                            break
                        if arrived + state[N_HERE] == 0:
                            entries = enter(entries, about, state, row, iteration, -1)
                            for i in range(state[N_LATER]):
                                events, firsts = put(events, firsts, state, row, later[i], np.int64(1))
                        state[IS_ASKING] = 0
                        break
                    pc = state[M_PC]
                    if pc == FRESH:
                        pc = inverse_starts[walk]
                    number = len(starts) + walk
                    pc, n, budget = advance(machine, pc, rows, row, budget, failed[number : number + 1])
                    for i in range(n):
                        if out[i, 1] + 1 == iteration:
                            state[N_HERE] += 1
                        elif out[i, 1] + 1 > iteration:
                            later = longer_list(later, state[N_LATER])
                            later[state[N_LATER]] = out[i, 1] + 1
                            state[N_LATER] += 1
                    state[M_PC] = pc
                    if pc == DONE:
                        state[M_WALK] += 1
                        state[M_PC] = FRESH
                    if budget <= 0:
                        result = PAUSED
                        break
                if state[IS_ASKING] == 0 and result < 0:
                    state[NEXT_PLACE] += 1
                    if budget <= 0:
                        result = PAUSED
            if result >= 0:
                break
            for i in range(state[M_DUE]):
                entries = enter(entries, about, state, due[i], iteration, -1)
            state[NEXT_PLACE], state[M_WALK], state[M_PC], state[PHASE] = state[FIRST_ENTRY], 0, FRESH, DERIVE
        while state[NEXT_PLACE] < state[M_ENTRIES] and result < 0:
            row, sign = entries[state[NEXT_PLACE], 0], entries[state[NEXT_PLACE], 2]
            head = rows[row, 0]
            while state[M_WALK] < first_walk[head + 1] - first_walk[head]:
                walk = first_walk[head] + state[M_WALK]
                pc = state[M_PC]
                if pc == FRESH:
                    pc = starts[walk]
                pc, n, budget = advance(machine, pc, rows, row, budget, failed[walk : walk + 1])
                table, rows, about = with_rows((table, rows, about), state[M_ROWS], n, n_keys)
                for i in range(n):
                    number = row_number((table, rows, about), state, lookup, out, i, n_keys)
                    events, firsts = put(events, firsts, state, number, iteration + 1, sign)
                state[N_DERIVED] += n
                state[M_PC] = pc
                if pc == DONE:
                    state[M_WALK] += 1
                    state[M_PC] = FRESH
                if budget <= 0:
                    break
            if state[M_WALK] >= first_walk[head + 1] - first_walk[head]:
                state[M_WALK] = 0
                state[NEXT_PLACE] += 1
            budget -= 1
            if state[N_DERIVED] > max_derived:
                result = WIDE
            elif budget <= 0:
                result = PAUSED
        if result < 0:
            state[PHASE] = NOW
    return result, (table, rows, about), (events, firsts, entries, touched, due, later), budget


# The two runs as objects, which hold their arrays between calls.


_FIRST_ROWS = 1 << 8
"""Rows, events and entries that fit the first arrays."""

_OUT_ROWS = 1 << 8
"""Rows that a walk derives before they are added."""


class Walker:
    """Walks with their addresses in place; see `gpu_wcoj.kernels.protocol.Walks`.

    Attributes
    ----------
    machine
        Operations, registers, places, cursors, output and counters.
    """

    def __init__(self, walks: Any, n_keys: Sequence[int]) -> None:
        self._walks = walks  # keeps the levels alive
        code = walks.operations.copy()
        code[walks.level_offsets] = [walks.levels[number].record for number in code[walks.level_offsets]]
        self.first_walk, self.starts = _flat(walks.starts)
        self.inverse = _flat(walks.inverse)
        self.n_keys = np.array(n_keys, np.int64) + 1
        self.failed = np.zeros(len(self.starts) + len(self.inverse[1]), np.bool_)
        self._width = max(2, 1 + max(walks.widths))  # inverse walks emit a rank
        self.work = np.zeros((walks.n_counters, N_WORK), np.int64)
        self.machine = (
            code, walks.registers.copy(), np.full(max(1, walks.n_places), -1, np.int64),
            np.zeros((max(1, walks.n_cursors), 6), np.int64), np.zeros((_OUT_ROWS, self._width), np.int64), self.work,
        )  # fmt: skip

    def empty_rows(self) -> Int64Array:
        """Return room for the first rows."""
        return np.empty((_FIRST_ROWS, self._width), np.int64)

    def source(self, head: int, columns: Sequence[Int64Array]) -> Int64Array:
        """Return rows of a head as a matrix."""
        source = np.zeros((len(columns[0]), self._width), np.int64)
        source[:, 0] = head
        for place, column in enumerate(columns, 1):
            source[:, place] = column
        return source


def _flat(starts: Sequence[Sequence[int]]) -> tuple[Int64Array, Int64Array]:
    """Return lists as offsets and one list."""
    sizes = [len(offsets) for offsets in starts]
    return np.cumsum([0, *sizes]), np.array([offset for offsets in starts for offset in offsets], np.int64)


class Fixpoint:
    """See `gpu_wcoj.kernels.protocol.Fixpoint`."""

    def __init__(self, walks: Any, orders: Sequence[int]) -> None:
        n_keys = [width - (order != 0) for width, order in zip(walks.widths, orders, strict=True)]
        self._walker = walker = Walker(walks, n_keys)
        self._plan = walker.first_walk, walker.starts, walker.n_keys, np.array(orders, np.int64)
        self._store = np.zeros(4 * _FIRST_ROWS, np.int32), walker.empty_rows(), np.empty(_FIRST_ROWS, np.int64)
        self._state = np.zeros(N_STATE, np.int64)
        self._state[PC] = FRESH

    def add(self, head: int, columns: Sequence[Int64Array], rank: int) -> None:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.add`."""
        state = self._state
        if rank != state[ITERATION]:
            state[BEGIN] = state[ROW] = state[N_ROWS]
            state[ITERATION] = rank
        self._store = add_rows(self._store, self._plan, state, self._walker.source(head, columns), rank)
        state[END] = state[N_ROWS]

    def run(self, max_rank: int, max_frontier: int, max_work: int, budget: int) -> int:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.run`."""
        limits = max_rank, max_frontier, max_work, budget
        walker = self._walker
        result, self._store = run_fixpoint(walker.machine, self._plan, self._store, self._state, walker.failed, limits)
        return int(result)

    @property
    def rank(self) -> int:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.rank`."""
        return int(self._state[ITERATION])

    @property
    def bounds(self) -> tuple[int, int]:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.bounds`."""
        return int(self._state[BEGIN]), int(self._state[END])

    def rows(self, begin: int, end: int) -> tuple[Int64Array, Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.rows`."""
        return self._store[1][begin:end], self._store[2][begin:end]

    @property
    def work(self) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.work`."""
        return self._walker.work

    @property
    def failed(self) -> Any:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.failed`."""
        return self._walker.failed


class Maintenance:
    """See `gpu_wcoj.kernels.protocol.Maintenance`."""

    def __init__(self, walks: Any, states: Sequence[Sequence[Sequence[Any]]]) -> None:
        self._walker = walker = Walker(walks, walks.widths)
        self._plan = walker.first_walk, walker.starts, walker.n_keys
        self._states = states  # keeps the levels alive
        lookups: list[int] = []
        first: list[int] = []
        for batches in states:
            first.append(len(lookups))
            lookups.append(len(batches))
            lookups.extend(level.record for batch in batches for level in batch)
        self._lookup = np.array(lookups, np.int64), np.array(first, np.int64)
        about = np.empty((_FIRST_ROWS, 4), np.int64)
        self._store = np.zeros(4 * _FIRST_ROWS, np.int32), walker.empty_rows(), about
        events, entries = np.empty((2, _FIRST_ROWS, 3), np.int64)
        lists = np.empty((3, _FIRST_ROWS), np.int64)
        self._waiting = (events, np.full(_FIRST_ROWS, -1, np.int64), entries, *lists)
        self._state = np.zeros(M_STATE, np.int64)
        self._state[FREE_EVENT] = self._state[LAST_ITERATION] = self._state[M_ITERATION] = -1
        self._state[M_PC] = FRESH
        self.spent = 0

    def add(self, head: int, columns: Sequence[Int64Array], iterations: Int64Array, weights: Int64Array) -> None:
        """See `gpu_wcoj.kernels.protocol.Maintenance.add`."""
        events, firsts, *lists = self._waiting
        self._store, events, firsts = add_events(
            self._store, self._state, events, firsts, self._lookup, self._walker.n_keys,
            self._walker.source(head, columns), np.ascontiguousarray(iterations), np.ascontiguousarray(weights),
        )  # fmt: skip
        self._waiting = (events, firsts, *lists)

    def run(self, max_iterations: int, max_derived: int, budget: int) -> int:
        """See `gpu_wcoj.kernels.protocol.Maintenance.run`."""
        walker, limits = self._walker, (max_iterations, max_derived, budget)
        result, self._store, self._waiting, left = run_changes(
            walker.machine, self._plan, walker.inverse, self._store, self._state, self._waiting, self._lookup,
            walker.failed, limits,
        )  # fmt: skip
        self.spent += budget - int(left)
        return int(result)

    @property
    def iterations(self) -> int:
        """See `gpu_wcoj.kernels.protocol.Maintenance.iterations`."""
        return int(self._state[N_ITERATIONS])

    def entries(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """See `gpu_wcoj.kernels.protocol.Maintenance.entries`."""
        entries = self._waiting[2][: self._state[M_ENTRIES]]
        return self._store[1][entries[:, 0]], entries[:, 1], entries[:, 2]

    @property
    def work(self) -> Int64Array:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.work`."""
        return self._walker.work

    @property
    def failed(self) -> Any:
        """See `gpu_wcoj.kernels.protocol.Fixpoint.failed`."""
        return self._walker.failed

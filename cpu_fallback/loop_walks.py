"""Walks: delta paths as operations that derive rows from one row at a time.

A walk is a delta path as a table of operations in one int64 array. Each operation begins with its code, the offset of
the next operation, and the offset of the last `BIND` before it, to which a failed one returns. The binding of a prefix
is in `registers`, one a variable or constant; `places` holds the position that each batch of each atom has reached;
`cursors` holds the candidates left of each `BIND`. A walk therefore stops anywhere and continues later, with all of its
state in arrays.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.plain_loops import (
    ABSENT,
    ABSOLUTE,
    ADD,
    BIND,
    CALCULATE,
    COMPARE,
    COPY,
    DIVIDE,
    EQUAL,
    FAIL,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOAD,
    MULTIPLY,
    NOT_EQUAL,
    SEEK,
    SUBTRACT,
    WRAP,
)  # fmt: skip
from cpu_fallback.ranges import PARENT, SIZE, VALUES, WIDTH, find, lower_bound, weight_at
from cpu_fallback.runtime import cached_njit, load, pointer64
from cpu_fallback.tries import PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS

DONE, FRESH = -1, -2
"""Offsets of a walk that has ended, and of one that has not begun."""

_MIN = np.iinfo(np.int64).min
_MAX = np.iinfo(np.int64).max


@cached_njit
def candidates(code, slot, places):
    """Return the range of a batch's values below the place reached in the level above."""
    fields = pointer64(code[slot])
    above = code[slot + 1]
    if above < 0:
        return np.int64(0), fields[SIZE]
    node = places[above]
    if node < 0:
        return np.int64(0), np.int64(0)
    offsets = pointer64(fields[PARENT])
    return offsets[node], offsets[node + 1]


@cached_njit
def seek(code, atom, places, value):
    """Search a value in all batches of an atom and move there; return whether the atom holds it."""
    is_last = code[atom + 1] != 0
    total = np.int64(0)
    for slot in range(atom + 2, atom + 2 + 3 * code[atom], 3):
        low, high = candidates(code, slot, places)
        fields = pointer64(code[slot])
        position = find(fields, 0, low, high, value)
        places[code[slot + 2]] = position
        if position >= 0:
            total += weight_at(fields, 0, position) if is_last else 1
    return total != 0


@cached_njit
def compare(left, comparison, right):
    """Return whether a comparison holds."""
    if comparison == LESS:
        return left < right
    if comparison == LESS_EQUAL:
        return left <= right
    if comparison == EQUAL:
        return left == right
    if comparison == NOT_EQUAL:
        return left != right
    if comparison == GREATER_EQUAL:
        return left >= right
    return left > right


@cached_njit
def calculate(operator, left, right):
    """Return the result of an operator modulo 2^64, and whether it has no exact one in int64."""
    if operator == ADD:
        result = left + right
        return result, ((left ^ result) & (right ^ result)) < 0
    if operator == SUBTRACT:
        result = left - right
        return result, ((left ^ right) & (left ^ result)) < 0
    if operator == MULTIPLY:
        result = left * right
        about = np.float64(left) * np.float64(right)  # a quotient of the result would be simplified by the compiler
        is_large = abs(about) > 2.0**62
        return result, abs(about) > 1.5 * 2.0**63 or (is_large and (result < 0) != (about < 0))
    if operator == ABSOLUTE:
        return (-left if left < 0 else left), left == _MIN
    if operator == DIVIDE:
        failed = right == 0 or (right == -1 and left == _MIN)
        by = np.int64(1) if failed else right
        result = left // by
        if result * by != left and (left < 0) != (by < 0):
            result += 1
        return result, failed
    failed = right == 0
    by = np.int64(1) if failed or right == -1 else right
    result = left - left // by * by
    if result != 0 and (left < 0) != (by < 0):
        result -= by
    return result, failed


@cached_njit
def weight_of(code, offset, n_batches, depth, registers, terms):
    """Return the weight of the row in the registers named at `terms`, summed over batches."""
    total = np.int64(0)
    for batch in range(n_batches):
        node = np.int64(0)
        for level in range(depth):
            fields = pointer64(code[offset + batch * depth + level])
            low, high = np.int64(0), fields[SIZE]
            if level > 0:
                offsets = pointer64(fields[PARENT])
                low, high = offsets[node], offsets[node + 1]
            node = find(fields, 0, low, high, registers[code[terms + level]])
            if node < 0:
                break
            if level == depth - 1:
                total += weight_at(fields, 0, node)
    return total


@cached_njit
def begin_bind(code, pc, registers, places, cursors, work):
    """Choose the atom with the fewest candidates of a `BIND`, and set its cursor before them."""
    chosen, min_width = np.int64(-1), np.int64(_MAX)
    atom = pc + 9
    for _ in range(code[pc + 7]):
        width = np.int64(0)
        for slot in range(atom + 2, atom + 2 + 3 * code[atom], 3):
            low, high = candidates(code, slot, places)
            width += high - low
        if width < min_width:
            chosen, min_width = atom, width
        atom += 2 + 3 * code[atom]
    lower, upper = np.int64(_MIN), np.int64(_MAX)
    bound = code[pc + 8]
    for _ in range(code[pc + 6]):
        comparison, operand = code[bound], registers[code[bound + 1]]
        if comparison == LESS_EQUAL:
            upper = min(upper, operand)
        elif comparison == GREATER_EQUAL:
            lower = max(lower, operand)
        elif comparison == LESS:
            if operand == _MIN:
                min_width = 0
            else:
                upper = min(upper, operand - 1)
        elif operand == _MAX:
            min_width = 0
        else:
            lower = max(lower, operand + 1)
        bound += 2
    cursor = code[pc + 4]
    cursors[cursor, 0] = chosen
    cursors[cursor, 1] = code[chosen] if min_width == 0 else -1  # the batch, before the first or behind the last one
    cursors[cursor, 2] = 0
    cursors[cursor, 3] = 0
    cursors[cursor, 4] = lower
    cursors[cursor, 5] = upper
    counters = code[pc + 5]
    work[counters, SUM_OF_MINIMA] += min_width
    work[counters, PROPOSALS] += min_width


@cached_njit
def next_binding(code, pc, registers, places, cursors, work, budget):
    """Bind the next candidate of a `BIND` that all of its atoms hold.

    Return whether there is one, and the budget that is left. With a budget of 0 or less it stops in between; the next
    call continues.
    """
    cursor = code[pc + 4]
    chosen, batch = cursors[cursor, 0], cursors[cursor, 1]
    at, end = cursors[cursor, 2], cursors[cursor, 3]
    lower, upper = cursors[cursor, 4], cursors[cursor, 5]
    n_batches, is_last = code[chosen], code[chosen + 1] != 0
    counters = code[pc + 5]
    bound = False
    while not bound and budget > 0:
        budget -= 1
        if at >= end:
            batch += 1
            if batch >= n_batches:
                break
            slot = chosen + 2 + 3 * batch
            at, end = candidates(code, slot, places)
            if lower > _MIN:
                at = lower_bound(pointer64(code[slot]), 0, at, end, lower)
            continue
        slot = chosen + 2 + 3 * batch
        fields = pointer64(code[slot])
        value = load(fields[VALUES], fields[WIDTH], at)
        if value > upper:
            end = at
            continue
        places[code[slot + 2]] = at
        weight = weight_at(fields, 0, at) if is_last else np.int64(1)
        at += 1
        passes = True
        for sibling in range(n_batches):
            if sibling == batch:
                continue
            slot = chosen + 2 + 3 * sibling
            low, high = candidates(code, slot, places)
            position = find(pointer64(code[slot]), 0, low, high, value)
            places[code[slot + 2]] = position
            if position >= 0:
                if sibling < batch:  # it was a candidate there
                    passes = False
                    break
                weight += weight_at(pointer64(code[slot]), 0, position) if is_last else 1
        if not passes or weight == 0:
            continue
        atom = pc + 9
        for _ in range(code[pc + 7]):
            if atom != chosen:
                work[counters, PROBES] += 1
                if not seek(code, atom, places, value):
                    passes = False
                    break
            atom += 2 + 3 * code[atom]
        if passes:
            registers[code[pc + 3]] = value
            work[counters, SURVIVORS] += 1
            bound = True
    cursors[cursor, 1], cursors[cursor, 2], cursors[cursor, 3] = batch, at, end
    return bound, budget


@cached_njit
def advance(machine, pc, rows, row, budget, failed):
    """Run a walk from an offset until it ends, its output is full or the budget is used up.

    `machine` holds the operations, registers, places, cursors, output and counters; `row` is the number of the row.

    Returns
    -------
    pc : where the walk continues, `DONE` at its end; a `BIND` that is to go on is -3 minus its offset
    n : rows written to the output, the target and the columns each
    budget : what is left of it, a unit a candidate and an operation
    """
    code, registers, places, cursors, out, work = machine
    n = 0
    while pc != DONE:
        if budget <= 0 or n == out.shape[0]:
            break
        if pc <= -3:
            bind = -3 - pc
            bound, budget = next_binding(code, bind, registers, places, cursors, work, budget)
            if bound:
                pc = code[bind + 1]
            elif budget > 0:
                back = code[bind + 2]
                pc = DONE if back < 0 else -3 - back
            continue
        budget -= 1
        operation = code[pc]
        passes = True
        if operation == BIND:
            begin_bind(code, pc, registers, places, cursors, work)
            pc = -3 - pc
            continue
        if operation == LOAD:
            for i in range(code[pc + 3]):
                registers[code[pc + 5 + 2 * i]] = rows[row, code[pc + 4 + 2 * i]]
        elif operation == SEEK:
            work[code[pc + 4], PROBES] += 1
            passes = seek(code, pc + 5, places, registers[code[pc + 3]])
            work[code[pc + 4], SURVIVORS] += passes
        elif operation == COPY:
            registers[code[pc + 3]] = registers[code[pc + 4]]
        elif operation == COMPARE:
            passes = compare(registers[code[pc + 4]], code[pc + 3], registers[code[pc + 5]])
        elif operation == CALCULATE:
            result, is_undefined = calculate(code[pc + 4], registers[code[pc + 5]], registers[code[pc + 6]])
            registers[code[pc + 3]] = result
            if is_undefined and code[pc + 7] != WRAP:
                passes = False
                if code[pc + 7] == FAIL:
                    failed[0] = True
        elif operation == ABSENT:
            depth, n_batches = code[pc + 3], code[pc + 4]
            passes = weight_of(code, pc + 5 + depth, n_batches, depth, registers, pc + 5) <= 0
        else:
            out[n, 0] = code[pc + 3]
            for i in range(code[pc + 4]):
                out[n, 1 + i] = registers[code[pc + 5 + i]]
            n += 1
            passes = False
        if passes:
            pc = code[pc + 1]
        else:
            back = code[pc + 2]
            pc = DONE if back < 0 else -3 - back
    return pc, n, budget

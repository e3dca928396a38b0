"""All delta paths of a tick, walked depth first in one call.

The change of a join by few rows is many small steps. A call of a compiled function a step costs more than the steps, so
here one call walks every path from every changed row. Nothing is written between the steps but one list of candidates
a step.

The records that describe a query and a state are matrices of int64, whose columns are the constants of this module.
`Context` holds their addresses; compiled functions pass it on alone.

A relation's rows are in up to three kinds of sources: immutable batches (tries), a memtable of recent rows, and the
rows of this tick. The latter two are *runs*: sorted rows, weights and, for the rows of this tick, stamps. A changed row
sees another one of its tick if its own stamp is larger, so that every binding is found from the last of its rows.

A path's steps form a tree: steps that share nothing but their ancestors are children of one step, and their sums are
multiplied. Common values of several atoms' ranges that do not change while a descendant's sibling is bound are
intersected once, into a list.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.extend_marked import count_in_common
from cpu_fallback.ranges import (
    BUCKETS,
    MAXIMUM,
    MINIMUM,
    N_FIELDS,
    PARENT,
    PLACES,
    SHIFT,
    SIZE,
    VALUES,
    WEIGHTS,
    WIDTH,
    WORDS,
    base_of,
    count_ranked,
    find,
    gallop,
    is_set,
    lower_bound,
    position_of,
    range_of,
    weight_at,
)
from cpu_fallback.runtime import cached_njit, load, pointer32, pointer64, pointer_float, prefetch, unsigned64
from cpu_fallback.tries import N_WORK, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS
from cpu_fallback.walk_records import (
    A_BATCHES,
    A_DEPTH,
    A_ROWS,
    A_SIZE,
    A_SLOTS,
    A_TICK_BEFORE,
    A_TICK_ROWS,
    A_TICK_SIZE,
    A_TICK_STAMPS,
    A_TICK_WEIGHTS,
    A_WEIGHTS,
    ACTION,
    ARRANGEMENT,
    ARRANGEMENTS,
    ATOM,
    ATOM_AFTER,
    ATOM_ARRANGEMENT,
    ATOM_CURSORS,
    ATOM_VARIABLES,
    ATOMS,
    B_BASE,
    B_BITS,
    B_CAPACITY,
    B_MARKED,
    B_PLAIN,
    B_POSITION,
    B_SIZE,
    B_SUMMED,
    B_VALID,
    B_VALUES,
    B_WEIGHTS,
    B_WORDS,
    BEGIN,
    BUDGET,
    BUFFER,
    BUFFERS,
    CHECK,
    CHECKS,
    CHILDREN,
    CURSORS,
    DONE,
    EMIT,
    EMITTING,
    ENTER,
    EQ,
    EXCLUDED,
    FULL,
    GE,
    GROW,
    GT,
    HEAD,
    K_ARRANGEMENT,
    K_ATOM,
    K_CONSTANT,
    K_FIRST_TERM,
    K_KIND,
    K_LEFT,
    K_OP,
    K_RIGHT,
    L_BASE,
    L_BUFFER,
    L_END_USE,
    L_FIRST_USE,
    LE,
    LIST,
    LISTS,
    LT,
    MAGNITUDES,
    MARKED_A_RANK,
    MAX_DEPTH,
    MAX_INT64,
    MIN_INT64,
    MIN_SUMMED,
    N_BUFFER,
    N_COUNTS,
    N_END_CHECK,
    N_END_CHILD,
    N_END_CONDITION,
    N_END_LIST,
    N_END_USE,
    N_ENDS_ROWS,
    N_FIRST_CHECK,
    N_FIRST_CHILD,
    N_FIRST_CONDITION,
    N_FIRST_LIST,
    N_FIRST_USE,
    N_HEAD,
    N_LIST,
    N_LOOKUP,
    N_MODE,
    N_NODES,
    N_PARENT,
    N_SUMMED,
    N_VARIABLE,
    NE,
    NEEDED,
    NEXT,
    NODE,
    NODE_FIELDS,
    NODES,
    OUT,
    OUT_CAPACITY,
    OUT_SIZE,
    OUT_START,
    P_ATOM,
    P_EMITS,
    P_END_ATOM,
    P_END_CHECK,
    P_END_CHILD,
    P_END_LIST,
    P_END_USE,
    P_END_VARIANT,
    P_FIRST_ATOM,
    P_FIRST_CHECK,
    P_FIRST_CHILD,
    P_FIRST_LIST,
    P_FIRST_USE,
    P_FIRST_VARIANT,
    P_NEGATED,
    P_ROOT,
    P_SEED,
    P_SORTED,
    P_WIDTH,
    PATH,
    PATH_END,
    PATH_FIELDS,
    PATHS,
    PAUSED,
    RESULT,
    RETURNED,
    S_ADDRESS,
    S_BUFFER,
    S_HIGH,
    S_LIMIT,
    S_LOW,
    S_SLOT,
    S_STAMPS,
    S_START,
    S_STRIDE,
    S_WEIGHTS,
    S_WIDTH,
    SEED,
    SEGMENT,
    SEGMENTS,
    SLOTS,
    STAMP,
    START,
    STRIDE,
    SUM,
    SUMMED_A_CALL,
    SUMS,
    TERMS,
    TOTAL_WORK,
    TOTALS,
    U_ATOM,
    U_LAST,
    U_LEVEL,
    U_LISTED,
    U_UNITED,
    USE,
    USES,
    USES_A_LIST,
    VARIABLES,
    VARIANTS_FROM,
    WAY,
    WEIGHTED,
    WORK,
    WORK_DONE,
)


@cached_njit
def run_bound(rows, depth, column, low, high, value):
    """Return the first row of a run with a value not below `value`."""
    while low < high:
        middle = (low + high) >> 1
        if rows[middle * depth + column] < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def open_atom(context, atom):
    """Set an atom's cursors at its first level to everything."""
    atoms, cursors = pointer64(context[ATOMS]), pointer64(context[CURSORS])
    arrangement = context[ARRANGEMENTS] + 8 * ARRANGEMENT * atoms[atom * ATOM + ATOM_ARRANGEMENT]
    source = pointer64(arrangement)
    slots = pointer64(context[SLOTS])
    depth, n_batches = source[A_DEPTH], source[A_BATCHES]
    cursor = 3 * atoms[atom * ATOM + ATOM_CURSORS]
    for batch in range(n_batches):
        cursors[cursor] = 0
        cursors[cursor + 1] = slots[(source[A_SLOTS] + batch * depth) * N_FIELDS + SIZE]
        cursors[cursor + 2] = -1
        cursor += 3
    cursors[cursor] = 0
    cursors[cursor + 1] = source[A_SIZE]
    cursors[cursor + 3] = 0
    cursors[cursor + 4] = source[A_TICK_SIZE]


@cached_njit
def descend(context, atom, level, value, work):
    """Descend an atom by a value; return whether it has it, and the weight at the last level."""
    atoms, cursors, slots = pointer64(context[ATOMS]), pointer64(context[CURSORS]), pointer64(context[SLOTS])
    source = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * atoms[atom * ATOM + ATOM_ARRANGEMENT])
    depth, n_batches = source[A_DEPTH], source[A_BATCHES]
    is_last = level + 1 == depth
    cursor = 3 * (atoms[atom * ATOM + ATOM_CURSORS] + level * context[STRIDE])
    below = cursor + 3 * context[STRIDE]
    hit, weight = False, 0
    slot = source[A_SLOTS] + level
    for _ in range(n_batches):
        low, high, start = cursors[cursor], cursors[cursor + 1], cursors[cursor + 2]
        position = np.int64(-1)
        if low < high:
            work[PROBES] += 1
            if start >= 0:
                position = position_of(slots, slot, start, value)
            else:
                position = find(slots, slot, low, high, value)
        if is_last:
            if position >= 0:
                hit = True
                weight += weight_at(slots, slot, position)
        elif position >= 0:
            hit = True
            cursors[below], cursors[below + 1], cursors[below + 2] = range_of(slots, slot + 1, position)
        else:
            cursors[below] = 0
            cursors[below + 1] = 0
        cursor += 3
        below += 3
        slot += depth
    for run in range(2):
        low, high = cursors[cursor], cursors[cursor + 1]
        if low < high:
            rows = pointer64(source[A_TICK_ROWS if run else A_ROWS])
            low = run_bound(rows, depth, level, low, high, value)
            if is_last:
                if low < high and rows[low * depth + level] == value:
                    if run == 0:
                        hit = True
                        weight += pointer64(source[A_WEIGHTS])[low]
                    elif pointer64(source[A_TICK_STAMPS])[low] < context[STAMP] + atoms[atom * ATOM + ATOM_AFTER]:
                        hit = True
                        weight += pointer64(source[A_TICK_WEIGHTS])[low]
            elif low < high and rows[low * depth + level] == value:
                hit = True
                if value < MAX_INT64:
                    high = run_bound(rows, depth, level, low + 1, high, value + 1)
            else:
                high = low
        if not is_last:
            cursors[below] = low
            cursors[below + 1] = high
        cursor += 3
        below += 3
    if is_last:
        return hit and weight != 0, weight
    return hit, 1


@cached_njit
def add_segments(context, use, n):
    """Write the segments of a use after the first `n`; return their number, and the width."""
    atoms, cursors = pointer64(context[ATOMS]), pointer64(context[CURSORS])
    uses = pointer64(context[USES] + 8 * USE * use)
    atom, level, is_last = uses[U_ATOM], uses[U_LEVEL], uses[U_LAST]
    source = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * atoms[atom * ATOM + ATOM_ARRANGEMENT])
    depth, n_batches = source[A_DEPTH], source[A_BATCHES]
    cursor = 3 * (atoms[atom * ATOM + ATOM_CURSORS] + level * context[STRIDE])
    segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * n)
    width = np.int64(0)
    slot = source[A_SLOTS] + level
    for _ in range(n_batches):
        low, high = cursors[cursor], cursors[cursor + 1]
        if low < high:
            fields = pointer64(context[SLOTS] + 8 * N_FIELDS * slot)
            segment[S_ADDRESS] = fields[VALUES]
            segment[S_WIDTH] = fields[WIDTH]
            segment[S_STRIDE] = 1
            segment[S_LOW] = low
            segment[S_HIGH] = high
            segment[S_SLOT] = slot
            segment[S_START] = cursors[cursor + 2]
            segment[S_WEIGHTS] = fields[WEIGHTS] if is_last else 0
            segment[S_STAMPS] = 0
            segment[S_BUFFER] = -1
            width += high - low
            n += 1
            segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * n)
        cursor += 3
        slot += depth
    for run in range(2):
        low, high = cursors[cursor], cursors[cursor + 1]
        if low < high:
            segment[S_ADDRESS] = source[A_TICK_ROWS if run else A_ROWS] + 8 * level
            segment[S_WIDTH] = 8
            segment[S_STRIDE] = depth
            segment[S_LOW] = low
            segment[S_HIGH] = high
            segment[S_SLOT] = -1
            segment[S_START] = -1
            segment[S_WEIGHTS] = source[A_TICK_WEIGHTS if run else A_WEIGHTS] if is_last else 0
            segment[S_STAMPS] = source[A_TICK_STAMPS] if run and is_last else 0
            segment[S_LIMIT] = context[STAMP] + atoms[atom * ATOM + ATOM_AFTER]
            segment[S_BUFFER] = -1
            width += high - low
            n += 1
            segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * n)
        cursor += 3
    return n, width


@cached_njit
def add_list(context, buffer, n):
    """Write the segment of a list after the first `n`; return their number then, and the width."""
    buffers = pointer64(context[BUFFERS] + 8 * BUFFER * buffer)
    size = buffers[B_SIZE]
    if size == 0:
        return n, np.int64(0)
    segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * n)
    segment[S_ADDRESS] = buffers[B_VALUES]
    segment[S_WIDTH] = 8
    segment[S_STRIDE] = 1
    segment[S_LOW] = 0
    segment[S_HIGH] = size
    segment[S_SLOT] = -1
    segment[S_START] = -1
    segment[S_WEIGHTS] = 0 if buffers[B_PLAIN] else buffers[B_WEIGHTS]
    segment[S_STAMPS] = 0
    segment[S_BUFFER] = buffer
    return n + 1, size


@cached_njit
def segment_value(segment, i):
    """Return the value at a position of a segment."""
    if segment[S_WIDTH] == 4:
        return np.int64(pointer32(segment[S_ADDRESS])[i])
    return pointer64(segment[S_ADDRESS])[i * segment[S_STRIDE]]


@cached_njit
def segment_weight(segment, i):
    """Return the weight at a position of a segment; 0 if the changed row does not see it."""
    if segment[S_STAMPS] != 0 and pointer64(segment[S_STAMPS])[i] >= segment[S_LIMIT]:
        return np.int64(0)
    if segment[S_WEIGHTS] == 0:
        return np.int64(1)
    return pointer64(segment[S_WEIGHTS])[i]


@cached_njit
def segment_bound(segment, low, high, value):
    """Return the first position of a segment with a value not below `value`, by galloping."""
    if low >= high or segment_value(segment, low) >= value:
        return low
    step = 1
    while low + step < high and segment_value(segment, low + step) < value:
        low += step
        step <<= 1
    high = min(high, low + step)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if segment_value(segment, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def segment_find(context, segment, value):
    """Return the position of a value in a segment, or -1."""
    low, high = segment[S_LOW], segment[S_HIGH]
    slot = segment[S_SLOT]
    if slot >= 0:
        slots = pointer64(context[SLOTS])
        if segment[S_START] >= 0:
            position = position_of(slots, slot, segment[S_START], value)
        else:
            position = find(slots, slot, low, high, value)
        return position if low <= position < high else np.int64(-1)
    position = segment_bound(segment, low, high, value)
    if position < high and segment_value(segment, position) == value:
        return position
    return np.int64(-1)


@cached_njit
def clip(context, begin, end, lower, upper):
    """Narrow segments to values between inclusive bounds; return the width that is left."""
    width = np.int64(0)
    for s in range(begin, end):
        segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * s)
        low, high = segment[S_LOW], segment[S_HIGH]
        if lower > MIN_INT64:
            low = segment_bound(segment, low, high, lower)
        if upper < MAX_INT64:
            high = segment_bound(segment, low, high, upper + 1)
        segment[S_LOW] = low
        segment[S_HIGH] = high
        width += high - low
    return width


@cached_njit
def weight_in(context, begin, end, is_last, value):
    """Return the weight of a value in the segments of one factor, or its presence."""
    weight = np.int64(0)
    for s in range(begin, end):
        segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * s)
        if segment[S_LOW] >= segment[S_HIGH]:
            continue
        position = segment_find(context, segment, value)
        if position >= 0:
            if not is_last:
                return np.int64(1)
            weight += segment_weight(segment, position)
    return weight


@cached_njit
def is_excluded_value(context, n_excluded, value):
    """Return whether a ``!=`` excludes the value."""
    excluded = pointer64(context[EXCLUDED])
    for e in range(n_excluded):
        if excluded[e] == value:
            return True
    return False


@cached_njit
def propose_values(context, begin, end, is_last, buffers):
    """Write the distinct values of one factor's segments and their weights into a buffer."""
    values, weights = pointer64(buffers[B_VALUES]), pointer64(buffers[B_WEIGHTS])
    n = np.int64(0)
    plain = np.int64(1)
    only = -1
    for s in range(begin, end):
        segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * s)
        if segment[S_LOW] < segment[S_HIGH]:
            only = s if only == -1 else -2
    if only >= 0:
        segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * only)
        low, high = segment[S_LOW], segment[S_HIGH]
        if segment[S_STAMPS] == 0 and segment[S_WEIGHTS] == 0 and (segment[S_SLOT] >= 0 or is_last):
            address, width, stride = segment[S_ADDRESS], segment[S_WIDTH], segment[S_STRIDE]
            if width == 4:
                for i in range(low, high):
                    values[n] = pointer32(address)[i]
                    n += 1
            else:
                for i in range(low, high):
                    values[n] = pointer64(address)[i * stride]
                    n += 1
            return n, np.int64(1)
    while True:
        first, value, after = np.int64(-1), MAX_INT64, MAX_INT64
        for s in range(begin, end):
            segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * s)
            if segment[S_LOW] < segment[S_HIGH]:
                head = segment_value(segment, segment[S_LOW])
                if first < 0 or head < value:
                    after = value if first >= 0 else after
                    first, value = np.int64(s), head
                else:
                    after = min(after, head)
        if first < 0:
            return n, plain
        segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * first)
        if value < after and segment[S_STAMPS] == 0 and segment[S_WEIGHTS] == 0 and (segment[S_SLOT] >= 0 or is_last):
            low, high = segment[S_LOW], segment[S_HIGH]
            while low < high:
                value = segment_value(segment, low)
                if value >= after:
                    break
                values[n], weights[n] = value, 1
                n += 1
                low += 1
            segment[S_LOW] = low
            continue
        weight = np.int64(0)
        for s in range(begin, end):
            segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * s)
            low, high = segment[S_LOW], segment[S_HIGH]
            if low < high and segment_value(segment, low) == value:
                if is_last:
                    weight += segment_weight(segment, low)
                    low += 1
                else:
                    weight = 1
                    low += 1
                    if segment[S_SLOT] < 0:
                        while low < high and segment_value(segment, low) == value:
                            low += 1
                segment[S_LOW] = low
        if weight != 0:
            values[n] = value
            weights[n] = weight
            plain &= np.int64(weight == 1)
            n += 1


@cached_njit
def add_matches(context, segment, is_last, values, n, sums):
    """Add to ``sums[i]`` the weight of ``values[i]`` in a segment, or its presence."""
    low, high = segment[S_LOW], segment[S_HIGH]
    slot, start = segment[S_SLOT], segment[S_START]
    is_plain = segment[S_WEIGHTS] == 0 and segment[S_STAMPS] == 0
    if slot >= 0 and start >= 0:
        slots = pointer64(context[SLOTS])
        begin, end = np.int64(0), n
        minimum, maximum = slots[slot * N_FIELDS + MINIMUM], slots[slot * N_FIELDS + MAXIMUM]
        while begin < end and values[begin] < minimum:
            begin += 1
        while begin < end and values[end - 1] > maximum:
            end -= 1
        if is_plain:
            words, base = unsigned64(slots[slot * N_FIELDS + WORDS]), base_of(slots, slot)
            for i in range(begin, end):
                sums[i] += is_set(words, start, values[i] - base)
            return
        for i in range(begin, end):
            position = position_of(slots, slot, start, values[i])
            if position >= 0:
                sums[i] += segment_weight(segment, position)
        return
    if high - low < 8 * n:
        i = np.int64(0)
        while i < n and low < high:
            value, other = values[i], segment_value(segment, low)
            if value == other:
                sums[i] += segment_weight(segment, low) if is_last else 1
            i += np.int64(value < other) if value != other else np.int64(is_last or segment[S_SLOT] >= 0)
            low += np.int64(other <= value)
        return
    for i in range(n):
        low = segment_bound(segment, low, high, values[i])
        if low >= high:
            return
        if segment_value(segment, low) == values[i]:
            sums[i] += segment_weight(segment, low) if is_last else 1


@cached_njit
def clear_marks(buffers):
    """Clear the bits of a list's values."""
    values, bits, base = pointer64(buffers[B_VALUES]), unsigned64(buffers[B_BITS]), buffers[B_BASE]
    for i in range(buffers[B_SIZE]):
        bits[(values[i] - base) >> 6] = np.uint64(0)
    buffers[B_MARKED] = 0


@cached_njit
def set_marks(buffers):
    """Set a bit for each value of a list, if they lie close enough; return whether it has bits."""
    if buffers[B_MARKED]:
        return True
    values, size = pointer64(buffers[B_VALUES]), buffers[B_SIZE]
    base = values[0] >> 6 << 6
    if np.uint64(values[size - 1]) - np.uint64(base) >= np.uint64(64 * buffers[B_WORDS]):
        return False
    bits = unsigned64(buffers[B_BITS])
    for i in range(size):
        distance = values[i] - base
        bits[distance >> 6] |= np.uint64(1) << np.uint64(distance & 63)
    buffers[B_BASE] = base
    buffers[B_MARKED] = 1
    return True


@cached_njit
def count_bits(bits, base, address, width, low, high):
    """Return how many values of a range have their bit set."""
    hits = np.int64(0)
    if width == 4:
        narrow = pointer32(address)
        for i in range(low, high):
            distance = np.int64(narrow[i]) - base
            hits += np.int64((bits[distance >> 6] >> np.uint64(distance & 63)) & np.uint64(1))
        return hits
    wide = pointer64(address)
    for i in range(low, high):
        distance = wide[i] - base
        hits += np.int64((bits[distance >> 6] >> np.uint64(distance & 63)) & np.uint64(1))
    return hits


@cached_njit
def count_marked(buffers, segment, minimum, maximum, low, high):
    """Return how many values of a segment from `minimum` to `maximum` are in a list with bits."""
    address, width = segment[S_ADDRESS], segment[S_WIDTH]
    if high - low > 16:
        low = segment_bound(segment, low, high, minimum)
    while low < high and load(address, width, low) < minimum:
        low += 1
    while low < high and load(address, width, high - 1) > maximum:
        high -= 1
    return count_bits(unsigned64(buffers[B_BITS]), buffers[B_BASE], address, width, low, high)


@cached_njit
def clip_within(slots, slot, low, high, lower, upper):
    """Return `clip_range` of a range whose ends mostly lie within the bounds."""
    address, width = slots[slot * N_FIELDS + VALUES], slots[slot * N_FIELDS + WIDTH]
    if low < high and load(address, width, low) < lower:
        low = gallop(slots, slot, low, high, lower)
    if low < high and load(address, width, high - 1) > upper:
        high = lower_bound(slots, slot, low, high, upper + 1)
    return low, high


@cached_njit
def intersect_marked(context, factors, n_factors, buffers, work):
    """Write the values of one range whose bits are set in a list; return their number, or -1.

    It is -1 if the factors are not a list and one range of a batch, both without weights, or if another way is faster.
    """
    if n_factors != 2:
        return np.int64(-1)
    first = pointer64(context[SEGMENTS] + 8 * SEGMENT * factors[0])
    if factors[1] - factors[0] != 1 or first[S_BUFFER] < 0 or first[S_WEIGHTS] != 0:
        return np.int64(-1)
    only = np.int64(-1)
    for s in range(factors[4], factors[5]):
        segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * s)
        if segment[S_LOW] < segment[S_HIGH]:
            if only >= 0 or segment[S_SLOT] < 0 or segment[S_WEIGHTS] != 0:
                return np.int64(-1)
            only = s
    segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * only)
    size, width = first[S_HIGH] - first[S_LOW], segment[S_HIGH] - segment[S_LOW]
    marked = pointer64(context[BUFFERS] + 8 * BUFFER * first[S_BUFFER])
    if size < 4 or width >= MARKED_A_RANK * size or not set_marks(marked):
        return np.int64(-1)
    work[PROPOSALS] += min(size, width)
    work[PROBES] += width
    listed, bits, base = pointer64(marked[B_VALUES]), unsigned64(marked[B_BITS]), marked[B_BASE]
    low, high = clip_within(
        pointer64(context[SLOTS]), segment[S_SLOT], segment[S_LOW], segment[S_HIGH],
        listed[first[S_LOW]], listed[first[S_HIGH] - 1],
    )  # fmt: skip
    values, n = pointer64(buffers[B_VALUES]), np.int64(0)
    if segment[S_WIDTH] == 4:
        narrow = pointer32(segment[S_ADDRESS])
        for i in range(low, high):
            values[n] = narrow[i]
            distance = np.int64(narrow[i]) - base
            n += np.int64((bits[distance >> 6] >> np.uint64(distance & 63)) & np.uint64(1))
        return n
    wide = pointer64(segment[S_ADDRESS])
    for i in range(low, high):
        values[n] = wide[i]
        distance = wide[i] - base
        n += np.int64((bits[distance >> 6] >> np.uint64(distance & 63)) & np.uint64(1))
    return n


@cached_njit
def intersect(context, factors, n_factors, buffer, n_excluded, work):
    """Write the common values of factors and the products of their weights into a buffer.

    `factors` holds per factor the first segment, the end, whether weights count, and the width. Returns False if the
    buffer is too small; the room that it needs is in the context then.
    """
    buffers = pointer64(context[BUFFERS] + 8 * BUFFER * buffer)
    if buffers[B_MARKED]:
        clear_marks(buffers)
    buffers[B_SIZE] = 0
    buffers[B_PLAIN] = 1
    smallest = 0
    for f in range(n_factors):
        if factors[4 * f + 3] < factors[4 * smallest + 3]:
            smallest = f
    width = factors[4 * smallest + 3]
    work[SUM_OF_MINIMA] += width
    if width == 0:
        return True
    if width > buffers[B_CAPACITY]:
        context[NEEDED] = width
        context[RESULT] = buffer
        return False
    if n_excluded == 0:
        marked = intersect_marked(context, factors, n_factors, buffers, work)
        if marked >= 0:
            buffers[B_SIZE] = marked
            return True
    work[PROPOSALS] += width
    values, weights = pointer64(buffers[B_VALUES]), pointer64(buffers[B_WEIGHTS])
    sums = pointer64(buffers[B_WEIGHTS] + 8 * buffers[B_CAPACITY])
    n, plain = propose_values(
        context, factors[4 * smallest], factors[4 * smallest + 1], factors[4 * smallest + 2], buffers
    )
    if n_excluded > 0:
        left = np.int64(0)
        for i in range(n):
            if not is_excluded_value(context, n_excluded, values[i]):
                values[left] = values[i]
                if not plain:
                    weights[left] = weights[i]
                left += 1
        n = left
    for f in range(n_factors):
        if f == smallest or n == 0:
            continue
        is_last = factors[4 * f + 2]
        for i in range(n):
            sums[i] = 0
        for s in range(factors[4 * f], factors[4 * f + 1]):
            segment = pointer64(context[SEGMENTS] + 8 * SEGMENT * s)
            if segment[S_LOW] < segment[S_HIGH]:
                work[PROBES] += n
                add_matches(context, segment, is_last, values, n, sums)
        stays_plain = plain
        if is_last:
            for i in range(n):
                stays_plain &= np.int64(sums[i] == 0) | np.int64(sums[i] == 1)
        left = np.int64(0)
        if stays_plain:
            for i in range(n):
                values[left] = values[i]
                left += np.int64(sums[i] != 0)
        else:
            for i in range(n):
                if sums[i] != 0:
                    weight = np.int64(1) if plain else weights[i]
                    values[left] = values[i]
                    weights[left] = weight * sums[i] if is_last else weight
                    left += 1
        plain = stays_plain
        n = left
    buffers[B_SIZE] = n
    buffers[B_PLAIN] = plain
    return True


@cached_njit
def sum_segment(segment):
    """Return the sum of a segment's weights, and of their magnitudes."""
    low, high = segment[S_LOW], segment[S_HIGH]
    if segment[S_WEIGHTS] == 0 and segment[S_STAMPS] == 0:
        return max(high - low, np.int64(0)), np.float64(max(high - low, np.int64(0)))
    total, magnitude = np.int64(0), 0.0
    for i in range(low, high):
        weight = segment_weight(segment, i)
        total += weight
        magnitude += abs(np.float64(weight))
    return total, magnitude


@cached_njit
def sum_pair(context, x, y, work):
    """Return the sum of weight products over the common values of two segments; its magnitude."""
    if x[S_BUFFER] < 0 and y[S_BUFFER] >= 0:
        x, y = y, x
    if x[S_BUFFER] >= 0 and y[S_SLOT] >= 0 and x[S_WEIGHTS] == 0 and y[S_WEIGHTS] == 0:
        size, width = x[S_HIGH] - x[S_LOW], y[S_HIGH] - y[S_LOW]
        buffers = pointer64(context[BUFFERS] + 8 * BUFFER * x[S_BUFFER])
        is_worth_it = width < MARKED_A_RANK * size if y[S_START] >= 0 else width < 8 * size
        if size >= 4 and is_worth_it and set_marks(buffers):
            work[PROPOSALS] += min(size, width)
            work[PROBES] += width
            values = pointer64(buffers[B_VALUES])
            hits = count_marked(buffers, y, values[x[S_LOW]], values[x[S_HIGH] - 1], y[S_LOW], y[S_HIGH])
            return hits, np.float64(hits)
    if y[S_HIGH] - y[S_LOW] < x[S_HIGH] - x[S_LOW]:
        x, y = y, x
    low, high = x[S_LOW], x[S_HIGH]
    other, other_high = y[S_LOW], y[S_HIGH]
    if low >= high or segment_value(x, low) > segment_value(y, other_high - 1):
        return np.int64(0), 0.0
    if segment_value(y, other) > segment_value(x, high - 1):
        return np.int64(0), 0.0
    work[PROPOSALS] += high - low
    slots = pointer64(context[SLOTS])
    is_plain = x[S_WEIGHTS] == 0 and x[S_STAMPS] == 0 and y[S_WEIGHTS] == 0 and y[S_STAMPS] == 0
    if is_plain and y[S_SLOT] >= 0:
        if x[S_SLOT] >= 0:
            hits, _, probes = count_in_common(
                slots, x[S_SLOT], low, high, x[S_START], y[S_SLOT], other, other_high, y[S_START]
            )
            work[PROBES] += probes
            return hits, np.float64(hits)
        if y[S_START] >= 0 and x[S_STRIDE] == 1:
            work[PROBES] += high - low
            hits = count_ranked(slots, y[S_SLOT], y[S_START], x[S_ADDRESS], 8, low, high)
            return hits, np.float64(hits)
    work[PROBES] += high - low
    total, magnitude = np.int64(0), 0.0
    if other_high - other < 8 * (high - low):
        while low < high and other < other_high:
            value, other_value = segment_value(x, low), segment_value(y, other)
            if value == other_value:
                weight = segment_weight(x, low) * segment_weight(y, other)
                total += weight
                magnitude += abs(np.float64(weight))
            low += np.int64(value <= other_value)
            other += np.int64(other_value <= value)
        return total, magnitude
    for i in range(low, high):
        value = segment_value(x, i)
        if y[S_START] >= 0:
            position = position_of(slots, y[S_SLOT], y[S_START], value)
            if position < other or position >= other_high:
                continue
        else:
            position = segment_bound(y, other, other_high, value)
            other = position
            if position >= other_high:
                break
            if segment_value(y, position) != value:
                continue
        weight = segment_weight(x, i) * segment_weight(y, position)
        total += weight
        magnitude += abs(np.float64(weight))
    return total, magnitude


@cached_njit
def gather_factors(context, first_use, end_use, base, skip_listed, factors):
    """Write the segments of a step's atoms and of its list; return the number of factors."""
    n = np.int64(0)
    n_factors = 0
    if base >= 0:
        buffer = pointer64(context[LISTS])[base * LIST + L_BUFFER]
        end, width = add_list(context, buffer, n)
        factors[0], factors[1], factors[2], factors[3] = n, end, 1, width
        n = end
        n_factors = 1
    uses = pointer64(context[USES])
    for use in range(first_use, end_use):
        if skip_listed and uses[use * USE + U_LISTED]:
            continue
        end, width = add_segments(context, use, n)
        if uses[use * USE + U_UNITED]:
            factors[4 * n_factors - 3] = end
            factors[4 * n_factors - 1] += width
            n = end
            continue
        at = 4 * n_factors
        factors[at], factors[at + 1], factors[at + 2], factors[at + 3] = n, end, uses[use * USE + U_LAST], width
        n = end
        n_factors += 1
    return n_factors


@cached_njit
def make_list(context, index, factors, work):
    """Make a list valid, and those that it starts from; return False if a buffer is too small."""
    lists = pointer64(context[LISTS])
    entry = pointer64(context[LISTS] + 8 * LIST * index)
    buffers = pointer64(context[BUFFERS] + 8 * BUFFER * entry[L_BUFFER])
    while buffers[B_VALID] != 1:
        lowest = index
        base = lists[lowest * LIST + L_BASE]
        while base >= 0 and pointer64(context[BUFFERS])[lists[base * LIST + L_BUFFER] * BUFFER + B_VALID] != 1:
            lowest = base
            base = lists[lowest * LIST + L_BASE]
        made = pointer64(context[LISTS] + 8 * LIST * lowest)
        n_factors = gather_factors(context, made[L_FIRST_USE], made[L_END_USE], base, False, factors)
        if not intersect(context, factors, n_factors, made[L_BUFFER], 0, work):
            return False
        pointer64(context[BUFFERS])[made[L_BUFFER] * BUFFER + B_VALID] = 1
    return True


@cached_njit
def is_deferred(context, index):
    """Return whether a list of one atom has been asked for too rarely to be made."""
    entry = pointer64(context[LISTS] + 8 * LIST * index)
    if entry[L_END_USE] - entry[L_FIRST_USE] != 1 or entry[L_BASE] >= 0:
        return False
    buffers = pointer64(context[BUFFERS] + 8 * BUFFER * entry[L_BUFFER])
    if buffers[B_VALID] == 1:
        return False
    _, width = add_segments(context, entry[L_FIRST_USE], 0)
    buffers[B_VALID] -= 1
    return -buffers[B_VALID] * USES_A_LIST < width


@cached_njit
def compare(op, left, right):
    """Return whether a comparison holds."""
    if op == EQ:
        return left == right
    if op == NE:
        return left != right
    if op == LT:
        return left < right
    if op == LE:
        return left <= right
    if op == GT:
        return left > right
    return left >= right


@cached_njit
def operand_of(variables, check):
    """Return the right side of a comparison."""
    if check[K_RIGHT] >= 0:
        return variables[check[K_RIGHT]]
    return check[K_CONSTANT]


@cached_njit
def node_bounds(context, first, end):
    """Return inclusive bounds of a step's variable, and the number of excluded values."""
    variables, excluded = pointer64(context[VARIABLES]), pointer64(context[EXCLUDED])
    lower, upper = MIN_INT64, MAX_INT64
    n_excluded = 0
    for c in range(first, end):
        check = pointer64(context[CHECKS] + 8 * CHECK * c)
        operand, op = operand_of(variables, check), check[K_OP]
        if op == NE:
            excluded[n_excluded] = operand
            n_excluded += 1
        if op in (LE, EQ):
            upper = min(upper, operand)
        if op in (GE, EQ):
            lower = max(lower, operand)
        if op == LT:
            if operand == MIN_INT64:
                return MAX_INT64, MIN_INT64, n_excluded
            upper = min(upper, operand - 1)
        if op == GT:
            if operand == MAX_INT64:
                return MAX_INT64, MIN_INT64, n_excluded
            lower = max(lower, operand + 1)
    return lower, upper, n_excluded


@cached_njit
def passes(context, first, end, work):
    """Return whether the bound variables pass checks: comparisons, and negated atoms."""
    variables = pointer64(context[VARIABLES])
    for c in range(first, end):
        check = pointer64(context[CHECKS] + 8 * CHECK * c)
        if check[K_KIND] == 0:
            if not compare(check[K_OP], variables[check[K_LEFT]], operand_of(variables, check)):
                return False
            continue
        atom = check[K_ATOM]
        open_atom(context, atom)
        depth = pointer64(context[ARRANGEMENTS])[check[K_ARRANGEMENT] * ARRANGEMENT + A_DEPTH]
        terms = pointer64(context[TERMS])
        weight = np.int64(0)
        for level in range(depth):
            term = 2 * (check[K_FIRST_TERM] + level)
            value = variables[terms[term]] if terms[term] >= 0 else terms[term + 1]
            hit, weight = descend(context, atom, level, value, work)
            if not hit:
                weight = 0
                break
        if weight > 0:
            return False
    return True


@cached_njit
def invalidate(context, first, end):
    """Mark lists as out of date."""
    for index in range(first, end):
        buffer = pointer64(context[LISTS])[index * LIST + L_BUFFER]
        pointer64(context[BUFFERS])[buffer * BUFFER + B_VALID] = 0


@cached_njit
def open_seed(context, path, seed):
    """Bind a changed row; return its weight times those of the atoms that it binds, or 0."""
    entry = pointer64(context[PATHS] + 8 * PATH_FIELDS * path)
    source = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * entry[P_SEED])
    rows, width = pointer64(source[A_TICK_ROWS]), entry[P_WIDTH]
    weight = pointer64(source[A_TICK_WEIGHTS])[seed]
    if entry[P_NEGATED]:
        if context[WEIGHTED]:
            before = pointer64(source[A_TICK_BEFORE])[seed]
            weight = np.int64(before > 0) - np.int64(before + weight > 0)
            if weight == 0:
                return weight
        else:
            weight = -weight
    variables, names = pointer64(context[VARIABLES]), pointer64(context[ATOM_VARIABLES])
    first = entry[P_ATOM] * context[MAX_DEPTH]
    for column in range(width):
        variables[names[first + column]] = rows[seed * width + column]
    context[STAMP] = pointer64(source[A_TICK_STAMPS])[seed]
    work = pointer64(context[WORK] + 8 * N_WORK * entry[P_ROOT])
    for atom in range(entry[P_FIRST_ATOM], entry[P_END_ATOM]):
        open_atom(context, atom)
    uses = pointer64(context[USES])
    for use in range(entry[P_FIRST_USE], entry[P_END_USE]):
        atom, depth = uses[use * USE + U_ATOM], uses[use * USE + U_LEVEL]
        for level in range(depth):
            value = variables[names[atom * context[MAX_DEPTH] + level]]
            hit, factor = descend(context, atom, level, value, work)
            if hit:
                weight *= factor
            elif not uses[use * USE + U_UNITED]:
                return np.int64(0)
    if not passes(context, entry[P_FIRST_CHECK], entry[P_END_CHECK], work):
        return np.int64(0)
    invalidate(context, entry[P_FIRST_LIST], entry[P_END_LIST])
    return weight


SEEDS_A_BLOCK = 16
"""Changed rows whose ranges are prefetched at a time."""

MIN_PREFETCHED = 1 << 9
"""Values of a batch's top level from which its ranges are prefetched; smaller ones stay in the caches."""


@cached_njit
def prefetch_ranges(fields, below, rows, width, n, positions):
    """Prefetch what a search of `n` values at a batch's top level reads, and the ranges below.

    The values are one column of rows of `width` values. Each pass over them reads what the pass before has prefetched,
    so the reads of many rows overlap, while the walk of one row waits for each of its reads. `positions` is scratch.
    """
    shift, minimum = np.uint64(fields[SHIFT]), np.uint64(fields[MINIMUM])
    starts, values, value_width = pointer64(fields[BUCKETS]), fields[VALUES], fields[WIDTH]
    for i in range(n):
        value = rows[i * width]
        if fields[MINIMUM] <= value <= fields[MAXIMUM]:
            positions[i] = np.int64((np.uint64(value) - minimum) >> shift)
            prefetch(fields[BUCKETS] + 8 * positions[i])
        else:
            positions[i] = -1
    for i in range(n):
        if positions[i] >= 0:
            prefetch(values + value_width * ((starts[positions[i]] + starts[positions[i] + 1]) >> 1))
    offsets, places = below[PARENT], below[PLACES]
    for i in range(n):
        if positions[i] >= 0:
            positions[i] = find(fields, 0, 0, fields[SIZE], rows[i * width])
        if positions[i] >= 0:
            prefetch(offsets + 8 * positions[i])
            if places != 0:
                prefetch(places + 4 * positions[i])
    for i in range(n):
        if positions[i] >= 0:
            prefetch(below[VALUES] + below[WIDTH] * pointer64(offsets)[positions[i]])
            prefetch(below[VALUES] + below[WIDTH] * (pointer64(offsets)[positions[i] + 1] - 1))


@cached_njit
def prefetch_seeds(context, path, first, end_seed, scratch):
    """Prefetch the ranges of the atoms that changed rows `first` to `end_seed` bind.

    `scratch` has room for as many numbers.
    """
    entry = pointer64(context[PATHS] + 8 * PATH_FIELDS * path)
    seeds = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * entry[P_SEED])
    width, names = entry[P_WIDTH], pointer64(context[ATOM_VARIABLES])
    own = entry[P_ATOM] * context[MAX_DEPTH]
    for use in range(entry[P_FIRST_USE], entry[P_END_USE]):
        atom = pointer64(context[USES])[use * USE + U_ATOM]
        arrangement = pointer64(context[ATOMS])[atom * ATOM + ATOM_ARRANGEMENT]
        source = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * arrangement)
        column = np.int64(0)
        while column < width and names[own + column] != names[atom * context[MAX_DEPTH]]:
            column += 1
        if column == width or pointer64(context[USES])[use * USE + U_LEVEL] == 0:
            continue
        rows = pointer64(seeds[A_TICK_ROWS] + 8 * (first * width + column))
        for batch in range(source[A_BATCHES]):
            top = context[SLOTS] + 8 * N_FIELDS * (source[A_SLOTS] + batch * source[A_DEPTH])
            if pointer64(top)[SIZE] >= MIN_PREFETCHED and source[A_DEPTH] > 1:
                below = pointer64(top + 8 * N_FIELDS)
                prefetch_ranges(pointer64(top), below, rows, width, end_seed - first, pointer64(scratch))


@cached_njit
def first_width(context, path, factors):
    """Return how many values the first step of a path proposes for the bound row."""
    entry = pointer64(context[PATHS] + 8 * PATH_FIELDS * path)
    node = pointer64(context[NODES] + 8 * NODE_FIELDS * pointer64(context[CHILDREN])[entry[P_FIRST_CHILD]])
    if node[N_LOOKUP]:
        return np.int64(1)
    lower, upper, _ = node_bounds(context, node[N_FIRST_CONDITION], node[N_END_CONDITION])
    if lower > upper:
        return np.int64(0)
    n_factors = gather_factors(context, node[N_FIRST_USE], node[N_END_USE], -1, False, factors)
    width = MAX_INT64
    for f in range(n_factors):
        if lower > MIN_INT64 or upper < MAX_INT64:
            factors[4 * f + 3] = clip(context, factors[4 * f], factors[4 * f + 1], lower, upper)
        width = min(width, factors[4 * f + 3])
    return width


@cached_njit
def choose_way(context, path, seed, factors):
    """Bind a changed row to the variant that proposes the fewest values first; return it."""
    entry = pointer64(context[PATHS] + 8 * PATH_FIELDS * path)
    best, way = first_width(context, path, factors), path
    if best < VARIANTS_FROM:
        return way
    for variant in range(entry[P_FIRST_VARIANT], entry[P_END_VARIANT]):
        open_seed(context, variant, seed)
        width = first_width(context, variant, factors)
        if width < best:
            best, way = width, variant
    return way


@cached_njit
def sum_node(context, node, factors, work):
    """Return the sum over a last step's values and its magnitude; False if a buffer is small."""
    entry = pointer64(context[NODES] + 8 * NODE_FIELDS * node)
    base = entry[N_LIST]
    if base >= 0 and is_deferred(context, base):
        base = -1
    if base >= 0 and not make_list(context, base, factors, work):
        return np.int64(0), 0.0, False
    lower, upper, n_excluded = node_bounds(context, entry[N_FIRST_CONDITION], entry[N_END_CONDITION])
    n_factors = gather_factors(context, entry[N_FIRST_USE], entry[N_END_USE], base, base >= 0, factors)
    if lower > upper:
        return np.int64(0), 0.0, True
    is_bounded = lower > MIN_INT64 or upper < MAX_INT64
    smallest = MAX_INT64
    for f in range(n_factors):
        if is_bounded:
            factors[4 * f + 3] = clip(context, factors[4 * f], factors[4 * f + 1], lower, upper)
        smallest = min(smallest, factors[4 * f + 3])
    if smallest == 0:
        return np.int64(0), 0.0, True
    total, magnitude = np.int64(0), 0.0
    if n_factors > 2:
        if not intersect(context, factors, n_factors, entry[N_BUFFER], n_excluded, work):
            return np.int64(0), 0.0, False
        _, width = add_list(context, entry[N_BUFFER], 0)
        if width > 0:
            total, magnitude = sum_segment(pointer64(context[SEGMENTS]))
        work[SURVIVORS] += width
        return total, magnitude, True
    work[SUM_OF_MINIMA] += smallest
    for i in range(factors[0], factors[1]):
        x = pointer64(context[SEGMENTS] + 8 * SEGMENT * i)
        if n_factors == 1:
            part, part_magnitude = sum_segment(x)
            total += part
            magnitude += part_magnitude
            continue
        for j in range(factors[4], factors[5]):
            y = pointer64(context[SEGMENTS] + 8 * SEGMENT * j)
            part, part_magnitude = sum_pair(context, x, y, work)
            total += part
            magnitude += part_magnitude
    excluded = pointer64(context[EXCLUDED])
    for e in range(n_excluded):
        value = excluded[e]
        if is_excluded_value(context, e, value):
            continue
        weight = np.int64(1)
        for f in range(n_factors):
            weight *= weight_in(context, factors[4 * f], factors[4 * f + 1], factors[4 * f + 2], value)
            if weight == 0:
                break
        total -= weight
    work[SURVIVORS] += total
    return total, magnitude, True


@cached_njit
def enter_node(context, node, factors, work):
    """Write the candidates of a step into its buffer; return False if a buffer is too small."""
    entry = pointer64(context[NODES] + 8 * NODE_FIELDS * node)
    buffers = pointer64(context[BUFFERS] + 8 * BUFFER * entry[N_BUFFER])
    buffers[B_POSITION] = 0
    buffers[B_SUMMED] = 0
    if entry[N_LOOKUP]:
        use = pointer64(context[USES] + 8 * USE * entry[N_FIRST_USE])
        value = pointer64(context[VARIABLES])[entry[N_VARIABLE]]
        hit, weight = descend(context, use[U_ATOM], use[U_LEVEL], value, work)
        pointer64(buffers[B_VALUES])[0] = value
        pointer64(buffers[B_WEIGHTS])[0] = weight
        buffers[B_SIZE] = 1 if hit else 0
        buffers[B_PLAIN] = 0
        return True
    base = entry[N_LIST]
    if base >= 0 and not make_list(context, base, factors, work):
        return False
    lower, upper, n_excluded = node_bounds(context, entry[N_FIRST_CONDITION], entry[N_END_CONDITION])
    buffers[B_SIZE] = 0
    if lower > upper:
        return True
    n_factors = gather_factors(context, entry[N_FIRST_USE], entry[N_END_USE], base, True, factors)
    if lower > MIN_INT64 or upper < MAX_INT64:
        for f in range(n_factors):
            factors[4 * f + 3] = clip(context, factors[4 * f], factors[4 * f + 1], lower, upper)
    return intersect(context, factors, n_factors, entry[N_BUFFER], n_excluded, work)


# Steps whose only child counts the common values of one range and a list: one loop over all values of the step.


@cached_njit
def prepare_sum(context, node, factors):
    """Decide whether a step's values are summed at once, and make the list for them.

    Returns False if a buffer is too small.
    """
    entry = pointer64(context[NODES] + 8 * NODE_FIELDS * node)
    own = pointer64(context[BUFFERS] + 8 * BUFFER * entry[N_BUFFER])
    own[B_SUMMED] = -1
    if own[B_SIZE] < MIN_SUMMED or not own[B_PLAIN]:
        return True
    child = pointer64(context[CHILDREN])[entry[N_FIRST_CHILD]]
    base = pointer64(context[NODES])[child * NODE_FIELDS + N_LIST]
    listed = pointer64(context[LISTS] + 8 * LIST * base)
    marked = pointer64(context[BUFFERS] + 8 * BUFFER * listed[L_BUFFER])
    if marked[B_VALID] != 1:
        if listed[L_END_USE] - listed[L_FIRST_USE] == 1 and listed[L_BASE] < 0:
            _, width = add_segments(context, listed[L_FIRST_USE], 0)
            if own[B_SIZE] * USES_A_LIST < width:
                return True
        if not make_list(context, base, factors, pointer64(context[WORK] + 8 * N_WORK * child)):
            own[B_SUMMED] = 0
            return False
    if not marked[B_PLAIN] or (marked[B_SIZE] > 0 and not set_marks(marked)):
        return True
    use = pointer64(context[USES] + 8 * USE * (entry[N_SUMMED] - 1))
    atom = pointer64(context[ATOMS])[use[U_ATOM] * ATOM + ATOM_ARRANGEMENT]
    source = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * atom)
    for batch in range(source[A_BATCHES]):
        slot = source[A_SLOTS] + batch * source[A_DEPTH] + use[U_LEVEL]
        if pointer64(context[SLOTS])[slot * N_FIELDS + WEIGHTS] != 0:
            return True
    own[B_SUMMED] = 1
    return True


@cached_njit
def sum_values(context, node, scratch, sums, magnitudes):
    """Count the common values of a list with bits and the range of each value of a step.

    `scratch` has room for 256 numbers.
    """
    nodes = pointer64(context[NODES])
    entry = pointer64(context[NODES] + 8 * NODE_FIELDS * node)
    own = pointer64(context[BUFFERS] + 8 * BUFFER * entry[N_BUFFER])
    child = pointer64(context[CHILDREN])[entry[N_FIRST_CHILD]]
    marked_buffer = pointer64(context[LISTS])[nodes[child * NODE_FIELDS + N_LIST] * LIST + L_BUFFER]
    marked = pointer64(context[BUFFERS] + 8 * BUFFER * marked_buffer)
    first_condition, end_condition = (
        nodes[child * NODE_FIELDS + N_FIRST_CONDITION],
        nodes[child * NODE_FIELDS + N_END_CONDITION],
    )
    use = pointer64(context[USES] + 8 * USE * (entry[N_SUMMED] - 1))
    level = use[U_LEVEL]
    atom = pointer64(context[ATOMS] + 8 * ATOM * use[U_ATOM])
    source = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * atom[ATOM_ARRANGEMENT])
    depth, n_batches = source[A_DEPTH], source[A_BATCHES]
    slots, cursors, variables = pointer64(context[SLOTS]), pointer64(context[CURSORS]), pointer64(context[VARIABLES])
    first_cursor = 3 * (atom[ATOM_CURSORS] + (level - 1) * context[STRIDE])
    values, listed, n_listed = pointer64(own[B_VALUES]), pointer64(marked[B_VALUES]), marked[B_SIZE]
    bits, base = unsigned64(marked[B_BITS]), marked[B_BASE]
    work = pointer64(context[WORK] + 8 * N_WORK * node)
    below = pointer64(context[WORK] + 8 * N_WORK * child)
    position = own[B_POSITION]
    end = min(own[B_SIZE], position + SUMMED_A_CALL)
    context[BUDGET] -= end - position
    own[B_POSITION] = end
    if n_listed == 0:
        return
    least, greatest = listed[0], listed[n_listed - 1]
    total, magnitude = np.int64(0), np.int64(0)
    lows, highs = pointer64(np.int64(scratch)), pointer64(np.int64(scratch) + 512)
    starts, hits = pointer64(np.int64(scratch) + 1024), pointer64(np.int64(scratch) + 1536)
    while position < end:
        n = min(end - position, np.int64(64))
        for i in range(n):
            hits[i] = 0
        cursor = first_cursor
        slot = source[A_SLOTS] + level
        for _ in range(n_batches):
            low, high, start = cursors[cursor], cursors[cursor + 1], cursors[cursor + 2]
            cursor += 3
            slot += depth
            if low >= high:
                continue
            address, width = slots[(slot - depth) * N_FIELDS + VALUES], slots[(slot - depth) * N_FIELDS + WIDTH]
            work[PROBES] += n
            for i in range(n):
                value = values[position + i]
                if start >= 0:
                    found = position_of(slots, slot - depth - 1, start, value)
                else:
                    found = find(slots, slot - depth - 1, low, high, value)
                lows[i], highs[i], starts[i] = range_of(slots, slot - depth, found)
                if found >= 0:
                    hits[i] = 1
                    prefetch(address + width * lows[i])
            for i in range(n):
                low, high = lows[i], highs[i]
                if low >= high:
                    continue
                lower, upper = least, greatest
                if first_condition < end_condition:
                    variables[entry[N_VARIABLE]] = values[position + i]
                    lower, upper, _ = node_bounds(context, first_condition, end_condition)
                    lower, upper = max(lower, least), min(upper, greatest)
                low, high = clip_within(slots, slot - depth, low, high, lower, upper)
                if low >= high:
                    continue
                count = high - low
                below[PROPOSALS] += min(count, n_listed)
                below[SUM_OF_MINIMA] += min(count, n_listed)
                if starts[i] >= 0 and count >= MARKED_A_RANK * n_listed:
                    first, last = np.int64(0), n_listed
                    while first < last and listed[first] < lower:
                        first += 1
                    while first < last and listed[last - 1] > upper:
                        last -= 1
                    below[PROBES] += last - first
                    found = count_ranked(slots, slot - depth, starts[i], marked[B_VALUES], 8, first, last)
                else:
                    below[PROBES] += count
                    found = count_bits(bits, base, address, width, low, high)
                below[SURVIVORS] += found
                total += found
                magnitude += found
        for run in range(2):
            low, high = cursors[cursor], cursors[cursor + 1]
            cursor += 3
            if low >= high:
                continue
            rows = pointer64(source[A_TICK_ROWS if run else A_ROWS])
            weights = pointer64(source[A_TICK_WEIGHTS if run else A_WEIGHTS])
            stamps, limit = pointer64(source[A_TICK_STAMPS]), context[STAMP] + atom[ATOM_AFTER]
            for i in range(n):
                value = values[position + i]
                low = run_bound(rows, depth, level - 1, low, high, value)
                if low >= high:
                    break
                if rows[low * depth + level - 1] != value:
                    continue
                hits[i] = 1
                lower, upper = least, greatest
                if first_condition < end_condition:
                    variables[entry[N_VARIABLE]] = value
                    lower, upper, _ = node_bounds(context, first_condition, end_condition)
                    lower, upper = max(lower, least), min(upper, greatest)
                while low < high and rows[low * depth + level - 1] == value:
                    distance = rows[low * depth + level] - base
                    if lower <= rows[low * depth + level] <= upper and (run == 0 or stamps[low] < limit):
                        below[PROBES] += 1
                        if (bits[distance >> 6] >> np.uint64(distance & 63)) & np.uint64(1):
                            total += weights[low]
                            magnitude += abs(weights[low])
                    low += 1
        for i in range(n):
            work[SURVIVORS] += hits[i]
        position += n
    sums[3 * node] += total
    magnitudes[2 * node] += np.float64(magnitude)


@cached_njit
def emit_row(context, weight, n_sorted):
    """Write the head's columns and a weight as the next row of the result."""
    out, head, variables = pointer64(context[OUT]), pointer64(context[HEAD]), pointer64(context[VARIABLES])
    row, capacity = context[OUT_SIZE], context[OUT_CAPACITY]
    for i in range(n_sorted):  # the variables' values, ascending, follow them
        value, j = variables[i], n_sorted + i
        while j > n_sorted and variables[j - 1] > value:
            variables[j] = variables[j - 1]
            j -= 1
        variables[j] = value
    for column in range(context[N_HEAD]):
        out[column * capacity + row] = variables[head[2 * column]] if head[2 * column] >= 0 else head[2 * column + 1]
    out[context[N_HEAD] * capacity + row] = weight
    context[OUT_SIZE] = row + 1


@cached_njit
def emit_values(context, node, weight, n_sorted, work):
    """Write a row per value of a step; return the sum of the magnitudes of its weights.

    `weight` is that of the values before. Values for which there is no room are left.
    """
    entry = pointer64(context[NODES] + 8 * NODE_FIELDS * node)
    own = pointer64(context[BUFFERS] + 8 * BUFFER * entry[N_BUFFER])
    variables, variable = pointer64(context[VARIABLES]), entry[N_VARIABLE]
    values, weights = pointer64(own[B_VALUES]), pointer64(own[B_WEIGHTS])
    out, head, n_head = pointer64(context[OUT]), pointer64(context[HEAD]), context[N_HEAD]
    row, capacity, position = context[OUT_SIZE], context[OUT_CAPACITY], own[B_POSITION]
    n = min(own[B_SIZE] - position, capacity - row)
    own[B_POSITION] = position + n
    context[OUT_SIZE] = row + n
    context[BUDGET] -= n
    work[SURVIVORS] += n
    if n_sorted == 0 and own[B_PLAIN] and weight != 0:
        for column in range(n_head):
            source = head[2 * column]
            at = column * capacity + row
            if source == variable:
                for i in range(n):
                    out[at + i] = values[position + i]
            else:
                value = variables[source] if source >= 0 else head[2 * column + 1]
                for i in range(n):
                    out[at + i] = value
        for i in range(n):
            out[n_head * capacity + row + i] = weight
        return np.float64(n)
    context[OUT_SIZE] = row
    magnitude = 0.0
    for i in range(n):
        variables[variable] = values[position + i]
        own_weight = np.int64(1) if own[B_PLAIN] else weights[position + i]
        magnitude += abs(np.float64(own_weight))
        if weight * own_weight != 0:
            emit_row(context, weight * own_weight, n_sorted)
    return magnitude


@cached_njit
def bind_value(context, node, work):
    """Bind the next candidate that a step allows; return its weight, 0 after the last one."""
    entry = pointer64(context[NODES] + 8 * NODE_FIELDS * node)
    buffers = pointer64(context[BUFFERS] + 8 * BUFFER * entry[N_BUFFER])
    uses = pointer64(context[USES])
    position, size = buffers[B_POSITION], buffers[B_SIZE]
    while position < size:
        value = pointer64(buffers[B_VALUES])[position]
        weight = np.int64(1) if buffers[B_PLAIN] else pointer64(buffers[B_WEIGHTS])[position]
        position += 1
        pointer64(context[VARIABLES])[entry[N_VARIABLE]] = value
        is_held = True
        if not entry[N_LOOKUP]:
            for use in range(entry[N_FIRST_USE], entry[N_END_USE]):
                if not uses[use * USE + U_LAST]:
                    hit, _ = descend(context, uses[use * USE + U_ATOM], uses[use * USE + U_LEVEL], value, work)
                    if not hit:
                        is_held = False
                        break
        if is_held and passes(context, entry[N_FIRST_CHECK], entry[N_END_CHECK], work):
            invalidate(context, entry[N_FIRST_LIST], entry[N_END_LIST])
            work[SURVIVORS] += 1
            buffers[B_POSITION] = position
            context[BUDGET] -= 1
            return weight
    context[BUDGET] -= size
    buffers[B_POSITION] = position
    return np.int64(0)


@cached_njit
def has_values(context, entry):
    """Return whether a step has values that are not bound yet."""
    own = pointer64(context[BUFFERS] + 8 * BUFFER * entry[N_BUFFER])
    return own[B_POSITION] < own[B_SIZE]


@cached_njit
def begin_walk(context):
    """Start with the first path; the work of the walk before is added to the total."""
    context[PATH] = context[SEED] = 0
    context[OUT_SIZE] = context[OUT_START]
    context[ACTION] = START
    totals = pointer64(context[TOTALS])
    totals[0] = totals[1] = 0
    pointer_float(context[TOTALS] + 16)[0] = 0.0
    work, total = pointer64(context[WORK]), pointer64(context[TOTAL_WORK])
    for i in range(context[N_NODES] * N_WORK):
        total[i] += work[i]
        work[i] = 0


@cached_njit
def sum_work(context):
    """Write the values proposed and searched so far."""
    work, done = pointer64(context[WORK]), np.int64(0)
    for node in range(context[N_NODES]):
        done += work[node * N_WORK + PROPOSALS] + work[node * N_WORK + PROBES]
    context[WORK_DONE] = done


@cached_njit
def walk(address):
    """Walk paths from their changed rows until all is done or the caller is needed.

    `address` is that of the context. The totals are per sign of the change.
    """
    context = pointer64(address)
    if context[ACTION] == BEGIN:
        begin_walk(context)
    sums, magnitudes = pointer64(context[SUMS]), pointer_float(context[MAGNITUDES])
    totals, total_magnitude = pointer64(context[TOTALS]), pointer_float(context[TOTALS] + 16)
    factors = np.empty(4 * 64, np.int64)
    factor = pointer64(np.int64(factors.ctypes.data))
    children = pointer64(context[CHILDREN])
    path, end_path, seed, way = context[PATH], context[PATH_END], context[SEED], context[WAY]
    node, action = context[NODE], context[ACTION]
    result, result_magnitude = np.int64(0), 0.0
    # per step: sums[3 * node] is the sum so far, + 1 the product of this value, + 2 the next child
    while path < end_path:
        if action == START:
            way = path
        entry = pointer64(context[PATHS] + 8 * PATH_FIELDS * way)
        source = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * entry[P_SEED])
        if action == START:
            if seed >= source[A_TICK_SIZE]:
                path += 1
                seed = 0
                continue
            if seed % SEEDS_A_BLOCK == 0 and source[A_TICK_SIZE] >= SEEDS_A_BLOCK:
                end_seed = min(seed + SEEDS_A_BLOCK, source[A_TICK_SIZE])
                prefetch_seeds(context, path, seed, end_seed, np.int64(factors.ctypes.data))
            weight = open_seed(context, path, seed)
            if weight == 0:
                seed += 1
                continue
            if entry[P_FIRST_VARIANT] < entry[P_END_VARIANT]:
                way = choose_way(context, path, seed, factor)
                entry = pointer64(context[PATHS] + 8 * PATH_FIELDS * way)
            root = entry[P_ROOT]
            sums[3 * root + 1] = weight
            sums[3 * root + 2] = entry[P_FIRST_CHILD]
            magnitudes[2 * root + 1] = abs(np.float64(weight))
            node = root
            action = RETURNED
            result, result_magnitude = np.int64(1), 1.0
        root = entry[P_ROOT]
        # the walk below one changed row
        while True:
            if action == ENTER:
                work = pointer64(context[WORK] + 8 * N_WORK * node)
                if pointer64(context[NODES])[node * NODE_FIELDS + N_COUNTS]:
                    result, result_magnitude, is_done = sum_node(context, node, factor, work)
                    if is_done:
                        context[BUDGET] -= 1
                        node = pointer64(context[NODES])[node * NODE_FIELDS + N_PARENT]
                        action = RETURNED
                        continue
                elif enter_node(context, node, factor, work):
                    sums[3 * node] = 0
                    magnitudes[2 * node] = 0.0
                    action = NEXT
                    continue
                context[PATH], context[WAY], context[SEED] = path, way, seed
                context[NODE], context[ACTION] = node, action
                sum_work(context)
                return GROW
            current = pointer64(context[NODES] + 8 * NODE_FIELDS * node)
            mode = current[N_MODE]
            if action == NEXT:
                if context[BUDGET] < 0:
                    context[PATH], context[WAY], context[SEED] = path, way, seed
                    context[NODE], context[ACTION] = node, action
                    sum_work(context)
                    return PAUSED
                if current[N_SUMMED] > 0:
                    own = pointer64(context[BUFFERS] + 8 * BUFFER * current[N_BUFFER])
                    if own[B_SUMMED] == 0 and not prepare_sum(context, node, factor):
                        context[PATH], context[WAY], context[SEED] = path, way, seed
                        context[NODE], context[ACTION] = node, action
                        sum_work(context)
                        return GROW
                    if own[B_SUMMED] > 0 and own[B_POSITION] < own[B_SIZE]:
                        sum_values(context, node, np.int64(factors.ctypes.data), sums, magnitudes)
                        continue
                parent = current[N_PARENT]
                if current[N_ENDS_ROWS] and entry[P_EMITS]:
                    work = pointer64(context[WORK] + 8 * N_WORK * node)
                    emitted = emit_values(context, node, sums[3 * parent + 1], entry[P_SORTED], work)
                    total_magnitude[0] += emitted * magnitudes[2 * parent + 1]
                    if has_values(context, current):
                        context[PATH], context[WAY], context[SEED] = path, way, seed
                        context[NODE], context[ACTION] = node, action
                        sum_work(context)
                        return FULL
                    if parent == root:
                        action = START
                        break
                    node = parent
                    continue
                weight = bind_value(context, node, pointer64(context[WORK] + 8 * N_WORK * node))
                if weight == 0:
                    if mode == SUM:
                        result, result_magnitude = sums[3 * node], magnitudes[2 * node]
                        node = parent
                        action = RETURNED
                        continue
                    if parent == root:
                        action = START
                        break
                    node = parent
                    continue
                magnitude = abs(np.float64(weight))
                if mode != SUM:
                    weight *= sums[3 * parent + 1]
                    magnitude *= magnitudes[2 * parent + 1]
                sums[3 * node + 1] = weight
                sums[3 * node + 2] = current[N_FIRST_CHILD]
                magnitudes[2 * node + 1] = magnitude
                result, result_magnitude = np.int64(1), 1.0
                action = RETURNED
            if action == RETURNED:
                sums[3 * node + 1] *= result
                magnitudes[2 * node + 1] *= result_magnitude
                child = sums[3 * node + 2]
                is_root = node == root
                end_child = entry[P_END_CHILD] if is_root else current[N_END_CHILD]
                if result_magnitude != 0.0 and child < end_child:
                    sums[3 * node + 2] = child + 1
                    node = children[child]
                    action = ENTER
                    continue
                if mode == SUM and not is_root:
                    if result_magnitude != 0.0:
                        sums[3 * node] += sums[3 * node + 1]
                        magnitudes[2 * node] += magnitudes[2 * node + 1]
                    action = NEXT
                    continue
                action = EMITTING
            # one row of the result, or a step of the enumeration without more below
            if mode == EMIT:
                weight = sums[3 * node + 1]
                if weight != 0:
                    if entry[P_EMITS]:
                        if context[OUT_SIZE] == context[OUT_CAPACITY]:
                            context[PATH], context[WAY], context[SEED] = path, way, seed
                            context[NODE], context[ACTION] = node, action
                            sum_work(context)
                            return FULL
                        emit_row(context, weight, entry[P_SORTED])
                    else:
                        sign = 1 if context[WEIGHTED] == 0 and pointer64(source[A_TICK_WEIGHTS])[seed] > 0 else 0
                        totals[sign] += weight
                total_magnitude[0] += magnitudes[2 * node + 1]
            if node == root:
                action = START
                break
            action = NEXT
        seed += 1
    context[PATH], context[SEED], context[ACTION] = path, seed, START
    sum_work(context)
    return DONE

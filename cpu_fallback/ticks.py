"""Small changes of relations: rows of a tick in sorted runs, merged into memtables.

See `cpu_fallback.walk` for the records and the sources of an arrangement.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.runtime import cached_njit, pointer64, pointer_float
from cpu_fallback.walk import compare, descend, open_atom, walk
from cpu_fallback.walk_records import (
    A_DEPTH,
    A_ROWS,
    A_SIZE,
    A_SPARE_ROWS,
    A_SPARE_WEIGHTS,
    A_TICK_BEFORE,
    A_TICK_ROWS,
    A_TICK_SIZE,
    A_TICK_STAMPS,
    A_TICK_WEIGHTS,
    A_WEIGHTS,
    ACTION,
    ARRANGEMENT,
    ARRANGEMENTS,
    AS_BAG,
    AS_IS,
    AS_SET,
    ATOM,
    ATOM_ARRANGEMENT,
    ATOMS,
    BEGIN,
    BEGIN_TICK,
    BUDGET,
    CALLED,
    COLUMNS,
    CONSOLIDATE,
    DELETED,
    DERIVE,
    DONE,
    F_CONSTANT,
    F_LEFT,
    F_OP,
    F_RIGHT,
    FILTER,
    FILTER_SPANS,
    FILTERS,
    FIRST_INSERT,
    H_CALLED,
    H_DELETED,
    H_DERIVATIONS,
    H_DONE,
    H_END_READ,
    H_END_WALK,
    H_FIRST_READ,
    H_FIRST_WALK,
    H_INSERTED,
    H_KIND,
    H_LISTED,
    H_MAGNITUDE,
    H_OBSERVED,
    H_RECORD,
    H_RELATION,
    H_RESULT,
    H_ROWS,
    H_SKIPPED,
    H_STALE,
    H_UNCHANGED,
    H_WALK,
    H_WORK,
    IDENTITY,
    INSERTED,
    LARGE,
    LARGEST_WEIGHT,
    MAX_DEPTH,
    MERGE,
    N_ARRANGEMENTS,
    N_HEAD,
    N_RELATIONS,
    ORDER,
    OUT,
    OUT_CAPACITY,
    OUT_SIZE,
    OUT_START,
    R_ARROW,
    R_ATOM,
    R_BEFORE,
    R_CHANGED,
    R_CHANGES,
    R_END,
    R_FIRST,
    R_LARGEST,
    R_N_CHANGED,
    R_PLACES,
    R_ROWS,
    R_SIZE,
    R_STAMPS,
    R_WEIGHTS,
    R_WIDTH,
    RECEIVE,
    RELATION,
    RELATIONS,
    RESULT,
    RUN_TICK,
    SPARE,
    T_ATOMS,
    T_BEGIN,
    T_BUDGET,
    T_CAPACITY,
    T_CONTEXT,
    T_FLAGS,
    T_HEAD,
    T_HEADS,
    T_INPUTS,
    T_LARGEST,
    T_LISTED,
    T_MODE,
    T_N_CHANGED,
    T_N_GONE,
    T_N_HEADS,
    T_N_INPUTS,
    T_N_ROWS,
    T_NUMBERS,
    T_READS,
    T_SPARE_ROWS,
    T_STAGE,
    T_TARGET,
    T_WALKING,
    T_WALKS,
    TOTALS,
    UNREADABLE,
    W_CONTEXT,
    W_END_ATOM,
    W_FIRST_ATOM,
    W_RECORD,
    W_SHARE,
    WALK,
    WEIGHTED,
    WORK,
    WORK_DONE,
)


@cached_njit
def is_before(rows, stride, columns, n_columns, left, right):
    """Return whether a row precedes another in an order of columns."""
    for c in range(n_columns):
        x, y = rows[left * stride + columns[c]], rows[right * stride + columns[c]]
        if x != y:
            return x < y
    return False


@cached_njit
def sort_rows(rows, stride, columns, n_columns, order, spare, n):
    """Sort the row numbers in `order` by columns, stably; `spare` is scratch memory of as many."""
    width = 1
    source, target = order, spare
    while width < n:
        begin = 0
        while begin < n:
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            i, j = begin, middle
            for k in range(begin, end):
                if i < middle and (j >= end or not is_before(rows, stride, columns, n_columns, source[j], source[i])):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
            begin = end
        source, target = target, source
        width *= 2
    for i in range(n):
        order[i] = source[i]


@cached_njit
def passes_filter(filters, first, end, rows, row, stride):
    """Return whether a row is in a filtered arrangement."""
    for f in range(first, end):
        entry = f * FILTER
        left = rows[row * stride + filters[entry + F_LEFT]]
        column = filters[entry + F_RIGHT]
        right = rows[row * stride + column] if column >= 0 else filters[entry + F_CONSTANT]
        if not compare(filters[entry + F_OP], left, right):
            return False
    return True


@cached_njit
def find_arrow(relation):
    """Find the columns of a record batch; return False if one may have nulls.

    References
    ----------
    The Arrow C data interface: an ArrowArray is length, null_count, offset, n_buffers, n_children, buffers, children.
    """
    array, places = pointer64(relation[R_ARROW]), pointer64(relation[R_PLACES])
    children = pointer64(array[6])
    width = relation[R_WIDTH]
    for column in range(array[4]):
        child = pointer64(children[column])
        buffers = pointer64(child[5])
        if child[1] != 0 and buffers[0] != 0:
            return False
        places[2 * column] = buffers[1] + 8 * (array[2] + child[2])
        places[2 * column + 1] = 8
    if array[4] == width:
        places[2 * width] = 0
    return True


@cached_njit
def copy_rows(relation):
    """Copy a relation's rows and weights from where they were passed."""
    rows, weights, places = pointer64(relation[R_ROWS]), pointer64(relation[R_WEIGHTS]), pointer64(relation[R_PLACES])
    width, n = relation[R_WIDTH], relation[R_SIZE]
    for column in range(width):
        address, stride = places[2 * column], places[2 * column + 1]
        for row in range(n):
            rows[row * width + column] = pointer64(address + row * stride)[0]
    address, stride = places[2 * width], places[2 * width + 1]
    for row in range(n):
        weights[row] = pointer64(address + row * stride)[0] if address != 0 else np.int64(1)


@cached_njit
def is_large(weight, limit):
    """Return whether a weight has a magnitude of at least `limit`; -2^63 has none in int64."""
    return weight >= limit or weight <= -limit


@cached_njit
def receive(address, index, mode, capacity):
    """Make a relation's given rows its change of this tick, in each of its arrangements.

    Returns the number of changed rows; -1 if a weight is too large or there are more rows than `capacity`; -2 if rows
    of Arrow have nulls.
    """
    context = pointer64(address)
    relation = pointer64(context[RELATIONS] + 8 * RELATION * index)
    width, n = relation[R_WIDTH], relation[R_SIZE]
    rows, weights = pointer64(relation[R_ROWS]), pointer64(relation[R_WEIGHTS])
    order, spare = pointer64(context[ORDER]), pointer64(context[SPARE])
    changed, changes = pointer64(relation[R_CHANGED]), pointer64(relation[R_CHANGES])
    befores, stamps = pointer64(relation[R_BEFORE]), pointer64(relation[R_STAMPS])
    work = pointer64(context[WORK])
    columns = pointer64(context[IDENTITY])
    if n > capacity:
        return np.int64(-1)
    if relation[R_PLACES] != 0:
        if relation[R_ARROW] != 0 and not find_arrow(relation):
            return np.int64(-2)
        copy_rows(relation)
    n_rows = np.int64(0)
    for row in range(n):
        if weights[row] != 0:
            order[n_rows] = row
            n_rows += 1
    sort_rows(rows, width, columns, width, order, spare, n_rows)
    atom = relation[R_ATOM]
    arrangement = pointer64(context[ATOMS])[atom * ATOM + ATOM_ARRANGEMENT]
    canonical = pointer64(context[COLUMNS] + 8 * context[MAX_DEPTH] * arrangement)
    total = largest = np.int64(0)
    # two passes: deleted rows are first
    for sign in range(2 if mode != AS_BAG else 1):
        at = np.int64(0)
        while at < n_rows:
            end = at + 1
            while end < n_rows and not is_before(rows, width, columns, width, order[at], order[end]):
                end += 1
            row = order[end - 1]
            weight = weights[row]
            if mode == AS_BAG:
                weight = np.int64(0)
                for i in range(at, end):
                    if is_large(weights[order[i]], LARGEST_WEIGHT // capacity):
                        return np.int64(-1)
                    weight += weights[order[i]]
            at = end
            if weight == 0 or (mode != AS_BAG and (weight > 0) != (sign == 1)):
                continue
            before = np.int64(0)
            if mode != AS_IS:
                open_atom(context, atom)
                for level in range(width):
                    hit, before = descend(context, atom, level, rows[row * width + canonical[level]], work)
                    if not hit:
                        before = np.int64(0)
                        break
                if mode == AS_SET:
                    if (weight > 0) == (before != 0):
                        continue
                    weight = np.int64(1) if weight > 0 else np.int64(-1)
                elif is_large(before, LARGEST_WEIGHT):
                    return np.int64(-1)
            for column in range(width):
                changed[total * width + column] = rows[row * width + column]
            changes[total] = weight
            befores[total] = before
            stamp = DELETED if weight < 0 and context[WEIGHTED] == 0 else INSERTED
            stamps[total] = context[stamp]
            context[stamp] += 1
            largest = max(largest, abs(weight))
            total += 1
    relation[R_N_CHANGED] = total
    if context[WEIGHTED]:
        pointer_float(context[RELATIONS] + 8 * (RELATION * index + R_LARGEST))[0] += largest
    filters, spans = pointer64(context[FILTERS]), pointer64(context[FILTER_SPANS])
    for arrangement in range(relation[R_FIRST], relation[R_END]):
        record = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * arrangement)
        columns = pointer64(context[COLUMNS] + 8 * context[MAX_DEPTH] * arrangement)
        depth = record[A_DEPTH]
        n_rows = 0
        for row in range(total):
            if passes_filter(filters, spans[arrangement], spans[arrangement + 1], changed, row, width):
                order[n_rows] = row
                n_rows += 1
        sort_rows(changed, width, columns, depth, order, spare, n_rows)
        run, run_weights = pointer64(record[A_TICK_ROWS]), pointer64(record[A_TICK_WEIGHTS])
        run_stamps, run_before = pointer64(record[A_TICK_STAMPS]), pointer64(record[A_TICK_BEFORE])
        for i in range(n_rows):
            row = order[i]
            for level in range(depth):
                run[i * depth + level] = changed[row * width + columns[level]]
            run_weights[i] = changes[row]
            run_stamps[i] = stamps[row]
            run_before[i] = befores[row]
        record[A_TICK_SIZE] = n_rows
    return total


@cached_njit
def derive_presence(address, source, target):
    """Give a set the rows that appear or disappear where derivations change."""
    context = pointer64(address)
    counts = pointer64(context[RELATIONS] + 8 * RELATION * source)
    relation = pointer64(context[RELATIONS] + 8 * RELATION * target)
    changed, changes, befores = pointer64(counts[R_CHANGED]), pointer64(counts[R_CHANGES]), pointer64(counts[R_BEFORE])
    rows, weights = pointer64(relation[R_ROWS]), pointer64(relation[R_WEIGHTS])
    width, n = counts[R_WIDTH], np.int64(0)
    for row in range(counts[R_N_CHANGED]):
        change = np.int64(befores[row] + changes[row] > 0) - np.int64(befores[row] > 0)
        if change != 0:
            for column in range(width):
                rows[n * width + column] = changed[row * width + column]
            weights[n] = change
            n += 1
    relation[R_SIZE] = n
    return n


@cached_njit
def find_row(rows, depth, low, high, run, row):
    """Return the first row that does not precede a row of a run, and whether they are equal."""
    is_there = False
    while low < high:
        middle = (low + high) >> 1
        order = np.int64(0)
        for level in range(depth):
            x, y = rows[middle * depth + level], run[row * depth + level]
            if x != y:
                order = np.int64(1) if x > y else np.int64(-1)
                break
        if order < 0:
            low = middle + 1
        else:
            high = middle
            is_there = order == 0
    return high, is_there


@cached_njit
def copy_run(rows, weights, depth, begin, end, out, out_weights, n):
    """Copy rows of a memtable and their weights to row `n` of another one."""
    for i in range((end - begin) * depth):
        out[n * depth + i] = rows[begin * depth + i]
    for i in range(end - begin):
        out_weights[n + i] = weights[begin + i]


@cached_njit
def merge_runs(address, target):
    """Write into `target` the arrangements with this tick's rows merged into their memtables.

    `target` is the address of as many records. A memtable is merged into the spare memory of its arrangement, so that
    the present records stay valid. Returns the rows of the largest memtable.
    """
    context = pointer64(address)
    largest = np.int64(0)
    for arrangement in range(context[N_ARRANGEMENTS]):
        record = pointer64(context[ARRANGEMENTS] + 8 * ARRANGEMENT * arrangement)
        merged = pointer64(target + 8 * ARRANGEMENT * arrangement)
        for field in range(ARRANGEMENT):
            merged[field] = record[field]
        if record[A_TICK_SIZE] > 0:
            depth = record[A_DEPTH]
            rows, weights = pointer64(record[A_ROWS]), pointer64(record[A_WEIGHTS])
            run, run_weights = pointer64(record[A_TICK_ROWS]), pointer64(record[A_TICK_WEIGHTS])
            out, out_weights = pointer64(record[A_SPARE_ROWS]), pointer64(record[A_SPARE_WEIGHTS])
            i, n = np.int64(0), np.int64(0)
            size = record[A_SIZE]
            for j in range(record[A_TICK_SIZE]):
                found, is_there = find_row(rows, depth, i, size, run, j)
                copy_run(rows, weights, depth, i, found, out, out_weights, n)
                n += found - i
                i = found
                weight = run_weights[j]
                if is_there:
                    weight += weights[i]
                    i += 1
                if weight != 0:
                    for level in range(depth):
                        out[n * depth + level] = run[j * depth + level]
                    out_weights[n] = weight
                    n += 1
            copy_run(rows, weights, depth, i, size, out, out_weights, n)
            n += size - i
            merged[A_ROWS], merged[A_WEIGHTS] = record[A_SPARE_ROWS], record[A_SPARE_WEIGHTS]
            merged[A_SPARE_ROWS], merged[A_SPARE_WEIGHTS] = record[A_ROWS], record[A_WEIGHTS]
            merged[A_SIZE] = n
            merged[A_TICK_SIZE] = 0
        largest = max(largest, merged[A_SIZE])
    return largest


@cached_njit
def begin_tick(address):
    """Drop the rows of the tick before, which failed or was merged."""
    context = pointer64(address)
    for arrangement in range(context[N_ARRANGEMENTS]):
        pointer64(context[ARRANGEMENTS])[arrangement * ARRANGEMENT + A_TICK_SIZE] = 0
    context[DELETED] = 0
    context[INSERTED] = FIRST_INSERT


@cached_njit
def consolidate_rows(address, spare_rows, order, spare):
    """Sort the listed rows, add weights of equal ones, drop weight 0; return their number.

    Rows of negative weight stand before the others in set semantics, and their number is the context's RESULT.
    `spare_rows` is the address of as much memory as the result has, `order` and `spare` of one number a row.
    """
    context = pointer64(address)
    n, width, capacity = context[OUT_SIZE], context[N_HEAD], context[OUT_CAPACITY]
    out, rows, numbers, others = pointer64(context[OUT]), pointer64(spare_rows), pointer64(order), pointer64(spare)
    stride = width + 1
    for row in range(n):
        numbers[row] = row
        for column in range(width):
            rows[row * stride + column] = out[column * capacity + row]
        rows[row * stride + width] = out[width * capacity + row]
    sort_rows(rows, stride, pointer64(context[IDENTITY]), width, numbers, others, n)
    n_left, n_gone = np.int64(0), np.int64(0)
    at = np.int64(0)
    while at < n:
        row = numbers[at]
        weight = rows[row * stride + width]
        at += 1
        while at < n and not is_before(rows, stride, pointer64(context[IDENTITY]), width, row, numbers[at]):
            weight += rows[numbers[at] * stride + width]
            at += 1
        if weight != 0:
            rows[row * stride + width] = weight
            numbers[n_left] = row
            n_left += 1
            n_gone += np.int64(weight < 0)
    if context[WEIGHTED]:
        n_gone = np.int64(0)
    gone, come = np.int64(0), n_gone
    for i in range(n_left):
        row = numbers[i]
        if rows[row * stride + width] < 0 and context[WEIGHTED] == 0:
            target = gone
            gone += 1
        else:
            target = come
            come += 1
        for column in range(stride):
            out[column * capacity + target] = rows[row * stride + column]
    context[RESULT] = n_gone
    return n_left


# A whole tick.


@cached_njit
def may_leave_int64(tick, walk_record):
    """Return whether a product of weights may leave int64, as walks multiply modulo 2^64."""
    atoms = pointer64(tick[T_ATOMS])
    context = pointer64(tick[T_CONTEXT])
    bound = 1.0
    for i in range(walk_record[W_FIRST_ATOM], walk_record[W_END_ATOM]):
        relation = atoms[i]
        bound *= max(1.0, pointer_float(context[RELATIONS] + 8 * (RELATION * relation + R_LARGEST))[0])
        if bound >= LARGEST_WEIGHT:
            return True
    return False


@cached_njit
def walk_rules(tick, head):
    """Walk the rules of a head; return `DONE` or why the caller is needed."""
    context = pointer64(tick[T_CONTEXT])
    floats = pointer_float(tick[T_HEADS] + 8 * H_RECORD * tick[T_HEAD])
    lists = head[H_KIND] == H_LISTED
    while head[H_WALK] < head[H_END_WALK]:
        record = pointer64(tick[T_WALKS] + 8 * W_RECORD * head[H_WALK])
        walked = pointer64(record[W_CONTEXT])
        if tick[T_STAGE] == T_BEGIN:
            if context[WEIGHTED] and may_leave_int64(tick, record):
                return np.int64(LARGE)
            walked[ARRANGEMENTS] = context[ARRANGEMENTS]
            walked[ACTION] = BEGIN
            walked[BUDGET] = tick[T_BUDGET]
            walked[OUT_START] = tick[T_N_ROWS]
            tick[T_STAGE] = T_WALKING
        ended = walk(record[W_CONTEXT])
        if ended != DONE:
            return np.int64(ended)
        totals = pointer64(walked[TOTALS])
        head[H_DELETED] += totals[0]
        head[H_INSERTED] += totals[1]
        floats[H_MAGNITUDE] += pointer_float(walked[TOTALS] + 16)[0]
        floats[H_WORK] += walked[WORK_DONE] * pointer_float(tick[T_WALKS] + 8 * W_RECORD * head[H_WALK])[W_SHARE]
        if lists:
            tick[T_N_ROWS] = walked[OUT_SIZE]
        head[H_WALK] += 1
        tick[T_STAGE] = T_BEGIN
    if floats[H_MAGNITUDE] >= LARGEST_WEIGHT:
        return np.int64(LARGE)
    if lists:
        n = tick[T_N_ROWS]
        last = pointer64(tick[T_WALKS] + 8 * W_RECORD * (head[H_END_WALK] - 1))[W_CONTEXT]
        tick[T_N_GONE] = 0
        if n > 1 or (n == 1 and context[WEIGHTED] == 0):
            pointer64(last)[OUT_SIZE] = n
            numbers = tick[T_NUMBERS]
            tick[T_N_ROWS] = consolidate_rows(last, tick[T_SPARE_ROWS], numbers, numbers + 8 * tick[T_CAPACITY])
            tick[T_N_GONE] = pointer64(last)[RESULT]
    tick[T_STAGE] = T_LISTED
    return np.int64(DONE)


@cached_njit
def keep_listed(tick, index, mode):
    """Make the listed rows the change of a relation; return what `receive` does."""
    head = pointer64(tick[T_HEADS] + 8 * H_RECORD * tick[T_HEAD])
    context = pointer64(tick[T_CONTEXT])
    last = pointer64(pointer64(tick[T_WALKS] + 8 * W_RECORD * (head[H_END_WALK] - 1))[W_CONTEXT])
    relation = pointer64(context[RELATIONS] + 8 * RELATION * index)
    rows, weights = pointer64(relation[R_ROWS]), pointer64(relation[R_WEIGHTS])
    out, capacity, width, n = pointer64(last[OUT]), last[OUT_CAPACITY], relation[R_WIDTH], tick[T_N_ROWS]
    for column in range(width):
        for row in range(n):
            rows[row * width + column] = out[column * capacity + row]
    for row in range(n):
        weights[row] = out[width * capacity + row]
    relation[R_SIZE] = n
    return receive(tick[T_CONTEXT], index, mode, tick[T_CAPACITY])


@cached_njit
def finish_listed(tick, head):
    """Keep the listed rows of a head and count them; return `DONE` or `LARGE`."""
    context = pointer64(tick[T_CONTEXT])
    relation, derivations = head[H_RELATION], head[H_DERIVATIONS]
    n, n_gone = tick[T_N_ROWS], tick[T_N_GONE]
    head[H_ROWS] = n
    if context[WEIGHTED]:
        if relation >= 0 and keep_listed(tick, relation, AS_BAG) < 0:
            return np.int64(LARGE)
        last = pointer64(pointer64(tick[T_WALKS] + 8 * W_RECORD * (head[H_END_WALK] - 1))[W_CONTEXT])
        out = pointer64(last[OUT])
        net = np.int64(0)
        for row in range(n):
            net += out[last[N_HEAD] * last[OUT_CAPACITY] + row]
        head[H_DELETED], head[H_INSERTED], head[H_OBSERVED] = net, 0, np.int64(n > 0)
        return np.int64(DONE)
    if derivations >= 0:
        n = keep_listed(tick, derivations, AS_BAG)
        if n < 0:
            return np.int64(LARGE)
        target = derivations
        if relation >= 0:
            n = derive_presence(tick[T_CONTEXT], derivations, relation)
            receive(tick[T_CONTEXT], relation, AS_IS, tick[T_CAPACITY])
            target = relation
        entry = pointer64(context[RELATIONS] + 8 * RELATION * target)
        changes, befores = pointer64(entry[R_CHANGES]), pointer64(entry[R_BEFORE])
        n_gone = n_come = np.int64(0)
        for row in range(entry[R_N_CHANGED]):
            before = befores[row] if relation < 0 else np.int64(0)
            change = np.int64(before + changes[row] > 0) - np.int64(before > 0)
            if relation >= 0:
                change = changes[row]
            n_gone += np.int64(change < 0)
            n_come += np.int64(change > 0)
        head[H_ROWS] = -1 - target
    else:
        if relation >= 0 and keep_listed(tick, relation, AS_IS) < 0:
            return np.int64(LARGE)
        n_come = n - n_gone
    head[H_DELETED], head[H_INSERTED], head[H_OBSERVED] = n_gone, n_come, np.int64(n_gone + n_come > 0)
    return np.int64(DONE)


@cached_njit
def run_head(tick, head):
    """Evaluate a head, or go on with it; return `DONE` or why the caller is needed."""
    if tick[T_STAGE] == T_BEGIN:
        flags, reads = pointer64(tick[T_FLAGS]), pointer64(tick[T_READS])
        is_changed = False
        for i in range(head[H_FIRST_READ], head[H_END_READ]):
            is_changed = is_changed or flags[reads[i]] != 0
        head[H_OBSERVED] = 0
        head[H_RESULT] = H_UNCHANGED
        if not is_changed:
            return np.int64(DONE)
        head[H_RESULT] = H_STALE
        if head[H_KIND] == H_SKIPPED:
            return np.int64(DONE)
        head[H_RESULT] = H_DONE
        if head[H_KIND] == H_CALLED:
            return np.int64(CALLED)
        head[H_WALK] = head[H_FIRST_WALK]
        head[H_DELETED] = head[H_INSERTED] = tick[T_N_ROWS] = 0
        floats = pointer_float(tick[T_HEADS] + 8 * H_RECORD * tick[T_HEAD])
        floats[H_MAGNITUDE] = floats[H_WORK] = 0.0
    if tick[T_STAGE] != T_LISTED:
        ended = walk_rules(tick, head)
        if ended != DONE:
            return ended
    if head[H_KIND] == H_LISTED:
        return finish_listed(tick, head)
    head[H_DELETED] = -head[H_DELETED] if pointer64(tick[T_CONTEXT])[WEIGHTED] == 0 else head[H_DELETED]
    return np.int64(DONE)


@cached_njit
def run_tick(address):
    """Run a tick or go on with it; return `DONE` or why the caller is needed.

    `address` is that of the record of the tick. After an error the present memtables are as they were.
    """
    tick = pointer64(address)
    flags = pointer64(tick[T_FLAGS])
    if tick[T_HEAD] < 0:
        begin_tick(tick[T_CONTEXT])
        inputs, context = pointer64(tick[T_INPUTS]), pointer64(tick[T_CONTEXT])
        for relation in range(context[N_RELATIONS]):
            pointer64(context[RELATIONS])[RELATION * relation + R_N_CHANGED] = 0
            flags[relation] = 0
        tick[T_N_CHANGED] = 0
        for i in range(tick[T_N_INPUTS]):
            n = receive(tick[T_CONTEXT], inputs[i], tick[T_MODE], tick[T_CAPACITY])
            if n < 0:
                return np.int64(LARGE if n == -1 else UNREADABLE)
            flags[inputs[i]] = np.int64(n > 0)
            tick[T_N_CHANGED] += n
        tick[T_HEAD] = 0
        tick[T_STAGE] = T_BEGIN
    while tick[T_HEAD] < tick[T_N_HEADS]:
        head = pointer64(tick[T_HEADS] + 8 * H_RECORD * tick[T_HEAD])
        ended = run_head(tick, head)
        if ended != DONE:
            return ended
        flags[pointer64(tick[T_CONTEXT])[N_RELATIONS] + tick[T_HEAD]] = head[H_OBSERVED]
        tick[T_HEAD] += 1
        tick[T_STAGE] = T_BEGIN
    if tick[T_N_CHANGED] > 0:
        tick[T_LARGEST] = merge_runs(tick[T_CONTEXT], tick[T_TARGET])
    return np.int64(DONE)


@cached_njit
def small_tick(action, address, first, second, third):
    """Do one of the actions of small ticks; see `gpu_wcoj.kernels.protocol.WalkKernels`.

    They are one function for the calls from Python, so that the walk is compiled once.
    """
    if action == RUN_TICK:
        return run_tick(address)
    if action == BEGIN_TICK:
        begin_tick(address)
    elif action == RECEIVE:
        return receive(address, first, second, third)
    elif action == WALK:
        return walk(address)
    elif action == DERIVE:
        return derive_presence(address, first, second)
    elif action == CONSOLIDATE:
        return consolidate_rows(address, first, second, third)
    elif action == MERGE:
        return merge_runs(address, first)
    return np.int64(DONE)

"""Merge two tries level by level: sorted runs below matching parents, whole blocks copied where only one has rows."""

from __future__ import annotations

from cpu_fallback.cache import cached_njit
from cpu_fallback.pointers import load, pointer32, pointer64, store

BLOCK_FACTOR = 8
"""A run this many times longer than the other is copied in blocks around the other's values."""


@cached_njit
def copy_block(source, source_width, begin, count, target, target_width, at):
    """Copy `count` values to position `at` of the target."""
    if source_width == 4 and target_width == 4:
        source32, target32 = pointer32(source), pointer32(target)
        for i in range(count):
            target32[at + i] = source32[begin + i]
    elif source_width == 4:
        source32, target64 = pointer32(source), pointer64(target)
        for i in range(count):
            target64[at + i] = source32[begin + i]
    elif target_width == 8:
        source64, target64 = pointer64(source), pointer64(target)
        for i in range(count):
            target64[at + i] = source64[begin + i]
    else:
        for i in range(count):
            store(target, target_width, at + i, load(source, source_width, begin + i))


@cached_njit
def first_not_below(address, width, low, high, value):
    """First position in [low, high) whose value is not below `value`."""
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def copy_run(
    values, width, weights, begin, end, from_left, inner, target, target_width, out_left, out_right, out_weight, at
):
    """Copy positions begin to end of one trie's level, with what goes with them, to position `at`."""
    copy_block(values, width, begin, end - begin, target, target_width, at)
    if inner:
        for i in range(end - begin):
            out_left[at + i] = begin + i if from_left else -1
            out_right[at + i] = -1 if from_left else begin + i
    elif len(out_weight) > 0:
        if weights == 0:
            for i in range(end - begin):
                out_weight[at + i] = 1
        else:
            source = pointer64(weights)
            for i in range(end - begin):
                out_weight[at + i] = source[begin + i]
    return at + end - begin


@cached_njit
def merge_run(
    left_values, left_width, left_weights, i, i_end, right_values, right_width, right_weights, j, j_end,
    inner, target, target_width, out_left, out_right, out_weight, at,
):  # fmt: skip
    """Merge positions i to i_end of one level with j to j_end of another; where the output ends. See `merge_level`."""
    while i < i_end and j < j_end:
        if i_end - i > BLOCK_FACTOR * (j_end - j):
            stop = first_not_below(left_values, left_width, i, i_end, load(right_values, right_width, j))
            at = copy_run(
                left_values, left_width, left_weights, i, stop, True, inner,
                target, target_width, out_left, out_right, out_weight, at,
            )  # fmt: skip
            i = stop
            if i == i_end:
                break
        elif j_end - j > BLOCK_FACTOR * (i_end - i):
            stop = first_not_below(right_values, right_width, j, j_end, load(left_values, left_width, i))
            at = copy_run(
                right_values, right_width, right_weights, j, stop, False, inner,
                target, target_width, out_left, out_right, out_weight, at,
            )  # fmt: skip
            j = stop
            if j == j_end:
                break
        x = load(left_values, left_width, i)
        y = load(right_values, right_width, j)
        if x < y:
            at = copy_run(
                left_values, left_width, left_weights, i, i + 1, True, inner,
                target, target_width, out_left, out_right, out_weight, at,
            )  # fmt: skip
            i += 1
        elif y < x:
            at = copy_run(
                right_values, right_width, right_weights, j, j + 1, False, inner,
                target, target_width, out_left, out_right, out_weight, at,
            )  # fmt: skip
            j += 1
        else:
            if inner:
                store(target, target_width, at, x)
                out_left[at] = i
                out_right[at] = j
                at += 1
            else:
                weight = (pointer64(left_weights)[i] if left_weights != 0 else 1) + (
                    pointer64(right_weights)[j] if right_weights != 0 else 1
                )
                if len(out_weight) == 0:
                    return -1
                if weight != 0:
                    store(target, target_width, at, x)
                    out_weight[at] = weight
                    at += 1
            i += 1
            j += 1
    if i < i_end:
        at = copy_run(
            left_values, left_width, left_weights, i, i_end, True, inner,
            target, target_width, out_left, out_right, out_weight, at,
        )  # fmt: skip
    if j < j_end:
        at = copy_run(
            right_values, right_width, right_weights, j, j_end, False, inner,
            target, target_width, out_left, out_right, out_weight, at,
        )  # fmt: skip
    return at


@cached_njit
def merge_level(
    left_values, left_width, left_weights, left_begin, left_end,
    right_values, right_width, right_weights, right_begin, right_end,
    inner, target, target_width, out_left, out_right, out_weight, out_offsets,
):  # fmt: skip
    """Merge the runs below every parent; parent i owns left_begin[i] to left_end[i] and likewise on the right.

    At an inner level `out_left` and `out_right` get the source positions (-1: none). At the last level weights of
    equal values add, modulo 2^64, and rows of weight 0 are dropped. Returns the number of values written;
    -1 if two rows meet at the last level and `out_weight` is empty, as for tries of unit weights without common rows.
    """
    at = 0
    for parent in range(len(left_begin)):
        out_offsets[parent] = at
        i, i_end = left_begin[parent], left_end[parent]
        j, j_end = right_begin[parent], right_end[parent]
        at = merge_run(
            left_values, left_width, left_weights, i, i_end, right_values, right_width, right_weights, j, j_end,
            inner, target, target_width, out_left, out_right, out_weight, at,
        )  # fmt: skip
        if at < 0:
            return -1
    out_offsets[len(left_begin)] = at
    return at


@cached_njit
def children_of(sources, offsets, begin, end):
    """Ranges of the children of the nodes at `sources`; empty where that is -1."""
    for i in range(len(sources)):
        node = sources[i]
        if node >= 0:
            begin[i] = offsets[node]
            end[i] = offsets[node + 1]
        else:
            begin[i] = 0
            end[i] = 0


@cached_njit
def first_from(address, width, low, high, value):
    """As `first_not_below`, in time logarithmic in the distance from `low`."""
    step = 1
    while low + step < high and load(address, width, low + step) < value:
        low += step
        step <<= 1
    return first_not_below(address, width, low, min(high, low + step + 1), value)


@cached_njit
def merge_pairs(
    left_top, left_top_width, left_offsets, left_values, left_width, left_weights,
    right_top, right_top_width, right_offsets, right_values, right_width, right_weights,
    top, top_width, out_offsets, target, target_width, out_weight, sizes,
):  # fmt: skip
    """Merge two tries of two levels in one pass; keys that only one side has are copied with their rows as a block.

    Keys that lose all their rows are dropped. Writes the number of keys and of rows to `sizes`; both are -1 if two
    rows meet and `out_weight` is empty.
    """
    nothing = out_offsets[:0]
    i = j = n = at = 0
    i_end, j_end = len(left_offsets) - 1, len(right_offsets) - 1
    while i < i_end or j < j_end:
        from_left = True
        if i < i_end and j < j_end:
            x = load(left_top, left_top_width, i)
            y = load(right_top, right_top_width, j)
            if x == y:
                start = at
                at = merge_run(
                    left_values, left_width, left_weights, left_offsets[i], left_offsets[i + 1],
                    right_values, right_width, right_weights, right_offsets[j], right_offsets[j + 1],
                    False, target, target_width, nothing, nothing, out_weight, at,
                )  # fmt: skip
                if at < 0:
                    sizes[0] = sizes[1] = -1
                    return
                if at > start:
                    store(top, top_width, n, x)
                    out_offsets[n] = start
                    n += 1
                i += 1
                j += 1
                continue
            from_left = x < y
        else:
            from_left = i < i_end
        if from_left:
            stop = i_end
            if j < j_end:
                stop = first_from(left_top, left_top_width, i, i_end, load(right_top, right_top_width, j))
            shift = at - left_offsets[i]
            for k in range(stop - i):
                out_offsets[n + k] = left_offsets[i + k] + shift
            copy_block(left_top, left_top_width, i, stop - i, top, top_width, n)
            at = copy_run(
                left_values, left_width, left_weights, left_offsets[i], left_offsets[stop], True, False,
                target, target_width, nothing, nothing, out_weight, at,
            )  # fmt: skip
            n += stop - i
            i = stop
        else:
            stop = j_end
            if i < i_end:
                stop = first_from(right_top, right_top_width, j, j_end, load(left_top, left_top_width, i))
            shift = at - right_offsets[j]
            for k in range(stop - j):
                out_offsets[n + k] = right_offsets[j + k] + shift
            copy_block(right_top, right_top_width, j, stop - j, top, top_width, n)
            at = copy_run(
                right_values, right_width, right_weights, right_offsets[j], right_offsets[stop], False, False,
                target, target_width, nothing, nothing, out_weight, at,
            )  # fmt: skip
            n += stop - j
            j = stop
    out_offsets[n] = at
    sizes[0] = n
    sizes[1] = at

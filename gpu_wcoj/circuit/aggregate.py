"""Heads that aggregate another relation by its first columns: count, sum, mean, min and max.

A tick reads the groups of the changed rows only. The present row of a group is looked up in the head; counts and sums
follow from it and the change, so their cost does not depend on the size of a group. When the minimum or maximum of a
group is deleted, the next value is searched for in an arrangement of the source.

Rows have weight 1 in sets. In bags, count and sum use the weights, while mean, min and max use each row of positive
weight once; no changed row of a source may have a negative weight after the tick. Rows whose value is null do not
count, and groups without rows are not in the head.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.circuit.operator import ChangeCount, GroupsOperator, PieceSink, distinct_change
from gpu_wcoj.data.column import float_codes, floats_of, without_zero_signs
from gpu_wcoj.errors import AggregateOverflowError, NegativeWeightError
from gpu_wcoj.join.prefixes import largest_magnitudes, weights_of_rows
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows, RowBatch, UnsortedArrangement
from gpu_wcoj.zset.arrays import BoolArray, joined_columns, numbers, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

# Exact sums of integers over groups, as words of 128 bits.


_MASK = (1 << 32) - 1
"""The low 32 bits."""
_MIN_INT64 = -(1 << 63)
"""The smallest value of int64."""

Words = tuple[Int64Array, Int64Array]
"""Low and high words of integers of 128 bits, in two's complement."""


def sums_of_integers(values: Int64Array, weights: Int64Array | None, starts: Int64Array, backend: Backend) -> Words:
    """Return exact sums of values times weights over runs from `starts`, modulo 2^128.

    Weights are 1 for None.
    """
    xp = backend.xp
    n = len(values)
    if n == 0:
        return xp.empty(0, np.int64), xp.empty(0, np.int64)
    max_value, *others = largest_magnitudes(backend, values, *(() if weights is None else (weights,)))
    max_weight = others[0] if others else 1
    if max_value * max_weight * n < 1 << 63:
        low = _run_sums(values if weights is None else values * weights, starts, backend)
        return low, low >> 63
    factors: Int64Array = xp.ones(n, np.int64) if weights is None else weights
    if max_weight * n < 1 << 30:
        high, low = (
            _run_sums((values >> 32) * factors, starts, backend),
            _run_sums((values & _MASK) * factors, starts, backend),
        )
        return add_words((high << 32, high >> 32), (low, low >> 63))
    exact = backend.to_host(values).astype(object) * backend.to_host(factors).astype(object)
    totals = np.add.reduceat(exact, backend.to_host(starts)).tolist()
    return to_words(totals, backend)


def _run_sums(values: Int64Array, starts: Int64Array, backend: Backend) -> Int64Array:
    if backend.device is None:
        sums: Int64Array = np.add.reduceat(values, starts)
        return sums
    before = backend.kernels.exclusive_sum(values)
    ends = backend.xp.concatenate([starts[1:], backend.xp.full(1, len(values), np.int64)])
    runs: Int64Array = before[ends] - before[starts]
    return runs


def add_words(left: Words, right: Words) -> Words:
    """Add modulo 2^128.

    There is a carry where the low word is less, unsigned, than the low word of a summand.
    """
    low = left[0] + right[0]
    carry = (low ^ _MIN_INT64) < (left[0] ^ _MIN_INT64)
    return low, left[1] + right[1] + carry


def to_words(numbers: Sequence[int], backend: Backend) -> Words:
    """Convert Python integers to words.

    The high word of an integer beyond 128 bits is clipped, so that it still counts as outside int64.
    """
    low = [(number + (1 << 63)) % (1 << 64) - (1 << 63) for number in numbers]
    high = [max(-(1 << 63), min((1 << 63) - 1, number >> 64)) for number in numbers]
    return backend.asarray(np.array(low, np.int64)), backend.asarray(np.array(high, np.int64))


def to_integers(words: Words, backend: Backend) -> list[int]:
    """Convert words to Python integers."""
    low, high = (backend.to_host(word).tolist() for word in words)
    return [(above << 64) + below % (1 << 64) for below, above in zip(low, high, strict=True)]


def means_of_integers(words: Words, counts: Int64Array, backend: Backend, units: float = 1) -> Int64Array:
    """Return the codes of sums divided by counts as doubles; both are rounded to doubles first.

    Parameters
    ----------
    units
        Units of the sums that make 1, for decimals.
    """
    low, high = words
    sums = low.astype(np.float64)
    beyond = backend.to_host(high != low >> 63)
    if bool(beyond.any()):
        host = backend.to_host(sums).copy()
        exact = to_integers((low[backend.asarray(beyond)], high[backend.asarray(beyond)]), backend)
        host[beyond] = [float(total) for total in exact]
        sums = backend.asarray(host)
    times = backend.xp.maximum(counts, 1).astype(np.float64) * float(units)
    return float_codes(sums / times, backend.xp)


# Plans of aggregating heads, and the change of their source by group.


@dataclass(frozen=True)
class GroupingPlan:
    """The aggregate that a head computes.

    Attributes
    ----------
    op
        ``count``, ``sum``, ``min``, ``max`` or ``mean``.
    source
        The arrangement of the aggregated rows.
    group
        Grouping columns of the source's relation, in the order of the head's columns.
    value
        Aggregated column of the source's relation; None for ``count``.
    head
        Stored grouping columns of the head.
    result
        The result column of the head.
    family
        Type family of the value.
    scale
        Decimal places of a value.
    result_factor
        Factor from a sum to the unit of the head's column, which may have more decimal places.
    max_sum
        Maximum magnitude of a sum; 0 for the limit of int64.
    is_weighted
        True if a mean uses each row with its weight instead of once.
    of_derivations
        True if the rows of the source are numbers of derivations of a set's rows.
    """

    op: str
    source: ArrangementKey
    group: tuple[int, ...]
    value: int | None
    head: tuple[int, ...]
    result: int
    family: str = "integer"
    scale: int = 0
    result_factor: int = 1
    max_sum: int = 0
    is_weighted: bool = False
    of_derivations: bool = False

    @property
    def order(self) -> tuple[int, ...]:
        """Columns of the head, grouping columns first."""
        return (*self.head, self.result)

    @property
    def has_totals(self) -> bool:
        """True if sums are part of the state."""
        return self.op in ("sum", "mean")

    @property
    def counts_once(self) -> bool:
        """True if a row of positive weight counts once instead of with its weight."""
        return self.op == "mean" and not self.is_weighted

    @property
    def is_extreme(self) -> bool:
        """True if the result is a value of the source (``min`` or ``max``)."""
        return self.op in ("min", "max")


@dataclass(frozen=True, eq=False)
class GroupChange:
    """Changed rows of a source, sorted by group; a weight is the change of a row's count.

    Attributes
    ----------
    columns
        Columns of the groups with changed rows.
    n
        Number of groups.
    starts
        Offset of the first row of each group.
    owner
        Group of each row.
    values
        Aggregated value of each row; None for ``count``.
    """

    columns: Sequence[Int64Array]
    n: int
    starts: Int64Array
    owner: Int64Array
    values: Int64Array | None
    weights: Int64Array


def group_change(
    plan: GroupingPlan,
    order: Sequence[int],
    batches: Sequence[IndexedZSet],
    backend: Backend,
    weights: Int64Array | None = None,
) -> GroupChange:
    """Sort the rows of one batch or more by group. O(n log n).

    Parameters
    ----------
    order
        The source's column of each level of the batches.
    weights
        Counts of the rows, if not their weights; may be 0.
    """
    xp = backend.xp
    parts = [batch.columns() for batch in batches]
    columns = joined_columns(parts, xp)
    row_weights: Int64Array = (
        xp.concatenate([batch.weight_column() for batch in batches]) if weights is None else weights
    )
    groups = [columns[order.index(column)] for column in plan.group]
    values = None if plan.value is None else columns[order.index(plan.value)]
    starts = xp.zeros(1, np.int64)
    if groups:
        rows = backend.kernels.lexsort(groups)
        groups, row_weights = [column[rows] for column in groups], row_weights[rows]
        values = None if values is None else values[rows]
        starts = backend.kernels.run_starts(groups)
    n = len(starts)
    owner = xp.repeat(xp.arange(n), xp.diff(xp.concatenate([starts, xp.full(1, len(row_weights), np.int64)])))
    return GroupChange([column[starts] for column in groups], n, starts, owner, values, row_weights)


def refuse_out_of_range(
    what: str, words: Words, head: str, change: GroupChange, plan: GroupingPlan, backend: Backend, max_sum: int = 0
) -> None:
    """Raise for the first count or sum outside int64, or above a nonzero `max_sum`."""
    mask = words[1] != words[0] >> 63
    if max_sum:
        mask = mask | (words[0] > max_sum) | (words[0] < -max_sum)
    (beyond,) = positions(backend, mask)
    if len(beyond) == 0:
        return
    first = beyond[:1]
    (total,) = to_integers((words[0][first], words[1][first]), backend)
    codes = dict(zip(plan.head, numbers(backend, *(column[first][0] for column in change.columns)), strict=True))
    group = tuple(codes[column] for column in sorted(codes))
    if not max_sum:
        raise AggregateOverflowError(what, head, group, total)
    value, largest = (Decimal(code).scaleb(-plan.scale, Context(prec=100)) for code in (total, max_sum))
    limits = f"the digits of the result, -{largest} to {largest}"
    raise AggregateOverflowError(what, head, group, value, limits=limits)


# Exact sums of floats over groups, stored as words.
#
# A float is an integer times 2^-1074, and so is a sum of floats. Its words are amounts at powers of 2^32. The words
# that a row adds depend on the row only, so a sum does not depend on the order of its rows, and a deletion is exact. A
# sum is rounded once, when it is read. Infinities and NaNs are counted in separate words.
#
# All computation is on the host: rows are split into words in bulk, and the sums of changed groups are assembled one by
# one.


INFINITY, MINUS_INFINITY, NAN = 1000, 1001, 1002
"""Words that count infinities and NaNs."""

MAX_WORD = 1 << 61
"""Amount of a word above which the words of a sum are normalised."""

_UNIT = 1 << 1074
"""The value 1.0 in units of 2^-1074."""

FloatArray = npt.NDArray[np.float64]
Contributions = tuple[Int64Array, Int64Array, Int64Array]
"""Columns of group, word and amount."""


def float_words(group: Int64Array, codes: Int64Array, width: int, weights: Int64Array) -> Contributions:
    """Return the amounts that rows add to the words of their groups, consolidated.

    Parameters
    ----------
    width
        Bytes of a float, 4 or 8.
    """
    values = floats_of(codes, width).astype(np.float64)
    if len(values) and max(int(weights.max()), -int(weights.min())) * len(values) >= MAX_FLOAT_ROWS:
        return _exact_words(group, values, weights)
    strange = [
        (group[mask], np.full(np.count_nonzero(mask), word), weights[mask])
        for mask, word in ((values == np.inf, INFINITY), (values == -np.inf, MINUS_INFINITY), (np.isnan(values), NAN))
    ]
    finite = np.isfinite(values)
    group = group[finite]
    parts = [(group, word, amount) for word, amount in split_floats(values[finite], weights[finite])]
    contributions = [np.concatenate(each).astype(np.int64) for each in zip(*parts, *strange, strict=True)]
    (group, word), amount = cpu_backend().kernels.consolidate(contributions[:2], contributions[2])
    return group, word, amount


def split_floats(values: FloatArray, weights: Int64Array) -> list[tuple[Int64Array, Int64Array]]:
    """Return three words of each finite value, and the amounts that it adds to them."""
    mantissa, exponent = np.frexp(values)
    digits_of = np.ldexp(mantissa, 53).astype(np.int64)
    shift = exponent.astype(np.int64) + (1074 - 53)
    digits_of = digits_of >> np.maximum(-shift, 0)  # the digits of the smallest floats end with as many zeros
    shift = np.maximum(shift, 0)
    signed = np.where(digits_of < 0, -1, 1) * weights
    digits, bits, word = np.abs(digits_of).astype(np.uint64), (shift % 32).astype(np.uint64), shift // 32
    mask, half = np.uint64(_MASK), np.uint64(32)
    below, above = (digits & mask) << bits, (digits >> half) << bits
    amounts = (below & mask, (below >> half) + (above & mask), above >> half)
    return [(word + offset, amount.astype(np.int64) * signed) for offset, amount in enumerate(amounts)]


def _exact_words(group: Int64Array, values: FloatArray, weights: Int64Array) -> Contributions:
    """Compute `float_words` with Python integers, as int64 may overflow."""
    totals: dict[int, WordsByBit] = defaultdict(dict)
    for group_index, value, weight in zip(group.tolist(), values.tolist(), weights.tolist(), strict=True):
        if math.isfinite(value):
            above, below = value.as_integer_ratio()
            totals[group_index][0] = totals[group_index].get(0, 0) + above * (_UNIT // below) * weight
        else:
            word = NAN if math.isnan(value) else INFINITY if value > 0 else MINUS_INFINITY
            totals[group_index][word] = totals[group_index].get(word, 0) + weight
    rows = [
        (group_index, *pair)
        for group_index, words in sorted(totals.items())
        for pair in sorted(normalise_words(words).items())
    ]
    table = np.array(rows, np.int64).reshape(len(rows), 3).T
    return table[0], table[1], table[2]


WordsByBit = dict[int, int]
"""The words of one sum, exact."""


def normalise_words(words: Mapping[int, int]) -> WordsByBit:
    """Return the same sum with all words below 2^32 in magnitude and without zeros."""
    total = sum(amount << (32 * word) for word, amount in words.items() if word < INFINITY)
    result = {word: amount for word, amount in words.items() if word >= INFINITY and amount}
    remaining, word, sign = abs(total), 0, -1 if total < 0 else 1
    while remaining:
        if remaining & _MASK:
            result[word] = sign * (remaining & _MASK)
        remaining, word = remaining >> 32, word + 1
    return result


def float_sum_codes(sums: Sequence[Mapping[int, int]], counts: Sequence[int] | None = None) -> Int64Array:
    """Return the codes of sums as doubles, divided by `counts` if given.

    Examples
    --------
    >>> group = np.array([0, 0, 1])
    >>> words = float_words(group, float_codes(np.array([1.5, -0.25, 1e300])), 8, np.ones(3, np.int64))
    >>> sums = [{}, {}]
    >>> for position, word, amount in zip(*(each.tolist() for each in words), strict=True):
    ...     sums[position][word] = amount
    >>> floats_of(float_sum_codes(sums), 8)
    array([1.25e+000, 1.00e+300])
    """
    values = [_rounded(words) for words in sums]
    if counts is not None:
        values = [value / count if count else value for value, count in zip(values, counts, strict=True)]
    codes: Int64Array = without_zero_signs(float_codes(np.array(values, np.float64)))
    return codes


def _rounded(words: Mapping[int, int]) -> float:
    strange = {word for word, amount in words.items() if word >= INFINITY and amount}
    if NAN in strange or {INFINITY, MINUS_INFINITY} <= strange:
        return math.nan
    if strange:
        return math.inf if INFINITY in strange else -math.inf
    total = sum(amount << (32 * word) for word, amount in words.items())
    try:
        return total / _UNIT
    except OverflowError:
        return math.inf if total > 0 else -math.inf


# Minimum or maximum of a group, looked up in an arrangement of (group, value, ...).


INITIAL_WINDOW = 4
"""Least nodes of a group and batch in the first search window."""

ALL = 1 << 62
"""More nodes, each with a row or more, than a group can have."""

Batches = Sequence[IndexedZSet]


def refuse_negative_weights(
    doing: str, head: str, key: ArrangementKey, columns: Sequence[Int64Array], weights: Int64Array, backend: Backend
) -> None:
    """Raise `NegativeWeightError` if a row of an arrangement has a negative weight."""
    (negative,) = positions(backend, weights < 0)
    if not len(negative):
        return
    codes = dict(zip(key.order, numbers(backend, *(column[negative[:1]][0] for column in columns)), strict=True))
    codes |= dict(key.constants)
    for left, right in (*key.equal, *(pair[::-1] for pair in key.equal)):
        if left in codes:
            codes.setdefault(right, codes[left])
    row = tuple(codes[column] for column in sorted(codes))
    (weight,) = numbers(backend, weights[negative[:1]][0])
    raise NegativeWeightError(doing, row, weight, head, key.relation)


def changed_rows(source: Arrangement, backend: Backend) -> tuple[list[Int64Array], Int64Array] | None:
    """Return the pending change of an arrangement by level, and its weights; None without one."""
    batches = [batch for batch in source.pending if batch.n_rows]
    if not batches:
        return None
    *columns, weights = joined_columns([[*batch.columns(), batch.weight_column()] for batch in batches], backend.xp)
    columns, weights = backend.kernels.consolidate(columns, weights)
    return (columns, weights) if len(weights) else None


def entries_below(
    batches: Batches, prefix: Sequence[Int64Array], backend: Backend
) -> tuple[Int64Array, list[Int64Array], Int64Array]:
    """Return the rows of each batch below each prefix: owner, remaining columns, weights.

    The owner is the position of the prefix. Without columns there is one prefix, that of all rows. If there are no
    batches, one empty remaining column is returned.
    """
    xp = backend.xp
    parts: list[list[Int64Array]] = []
    for batch in batches:
        if prefix:
            owner, columns_below, weights = batch.get_by_prefix(prefix)
        else:
            columns_below, weights = batch.columns(), batch.weight_column()
            owner = xp.zeros(len(weights), np.int64)
        parts.append([owner, *columns_below, weights])
    if not parts:
        nothing: Int64Array = xp.empty(0, np.int64)
        return nothing, [nothing], nothing
    joined = joined_columns(parts, xp)
    return joined[0], joined[1:-1], joined[-1]


def rows_below(
    batches: Batches, prefix: Sequence[Int64Array], backend: Backend
) -> tuple[Int64Array, list[Int64Array], Int64Array]:
    """Return consolidated rows below each prefix; see `entries_below`."""
    owner, columns, weights = entries_below(batches, prefix, backend)
    (owner, *columns), weights = backend.kernels.consolidate([owner, *columns], weights)
    return owner, columns, weights


def rows_of_groups(
    batches: Batches, groups: Sequence[Int64Array], depth: int, backend: Backend
) -> tuple[Int64Array, list[Int64Array], Int64Array]:
    """Return the rows of groups: owner, all `depth` columns, and weights; see `rows_below`."""
    owner, below, weights = rows_below([batch for batch in batches if len(batch)], groups, backend)
    if not len(owner):
        return owner, [owner] * depth, weights
    return owner, [*(column[owner] for column in groups), *below], weights


def are_present(batches: Batches, columns: Sequence[Int64Array], backend: Backend) -> BoolArray:
    """Return a mask of the paths (group and value) that have a row of positive weight.

    No weight is negative.
    """
    xp = backend.xp
    total: Int64Array = xp.zeros(len(columns[0]), np.int64)
    batches = [batch for batch in batches if len(batch)]
    if _may_wrap(batches):
        owner, _, weights = rows_below(batches, columns, backend)
        total[owner[weights > 0]] = 1
        return total > 0
    if batches:
        records = [batch.records[: len(columns)] for batch in batches]
        located = backend.kernels.locate(records, [range(len(columns))] * len(batches), stacked(backend, columns))
        for batch, position in zip(batches, located, strict=True):
            total += xp.where(position >= 0, _sums_below(batch, len(columns) - 1, xp.maximum(position, 0)), 0)
    return total > 0


def extreme_values(
    batches: Batches, groups: Sequence[Int64Array], n: int, greatest: bool, backend: Backend, rank: Int64Array | None
) -> tuple[BoolArray, Int64Array]:
    """Return per group whether it has a row of positive weight, and the extreme value.

    O(log n) per batch and group, plus deleted values that are skipped. If values are texts, all values of the group
    are read.

    Parameters
    ----------
    groups
        Columns of `n` groups, the first columns of the batches; none for one group of all rows.
    rank
        Sort position per code of texts; None if values are not texts.
    """
    has_value: BoolArray = backend.xp.zeros(n, np.bool_)
    best: Int64Array = backend.xp.zeros(n, np.int64)
    limit = 1 if rank is None else ALL
    owner, (value,), _ = first_nodes(batches, groups, n, len(groups), limit, backend, greatest)
    if rank is not None:
        owner, value = _pick_extremes(owner, value, greatest, backend, rank)
    has_value[owner] = True
    best[owner] = value
    return has_value, best


def _pick_extremes(
    owner: Int64Array, value: Int64Array, greatest: bool, backend: Backend, rank: Int64Array | None
) -> tuple[Int64Array, Int64Array]:
    """Return each group that owns a value, and its extreme value; `rank` as in `extreme_values`."""
    if not len(owner):
        return owner, value
    order = backend.kernels.lexsort([owner, value if rank is None else rank[value]])
    owner, value = owner[order], value[order]
    ends, edge = owner[1:] != owner[:-1], backend.xp.ones(1, np.bool_)
    (chosen,) = positions(backend, backend.xp.concatenate([ends, edge] if greatest else [edge, ends]))
    return owner[chosen], value[chosen]


def first_nodes(
    batches: Batches,
    groups: Sequence[Int64Array],
    n: int,
    level: int,
    limit: int,
    backend: Backend,
    greatest: bool = False,
) -> tuple[Int64Array, list[Int64Array], Int64Array]:
    """Return the first nodes of a level in each group, of those with rows of positive weight.

    Every batch is read from one end of a group, eight times as far each time, until `limit` nodes are final: a node is
    final once every batch has been read up to it. O(limit + deleted nodes that are skipped), times a logarithm.

    Parameters
    ----------
    groups
        Columns of `n` groups, the first columns of the batches; none for one group of all rows.
    limit
        Maximum number of nodes of a group; `ALL` for all of them.
    greatest
        Whether the last nodes are returned instead of the first ones.

    Returns
    -------
    owner : position of the group of each node
    columns : values of each node, from the level after the group's on
    weights : sum of the weights of the rows below each node
    """
    xp = backend.xp
    batches = [batch for batch in batches if len(batch)]
    nothing: Int64Array = xp.empty(0, np.int64)
    parts: list[list[Int64Array]] = []
    waiting: Int64Array = xp.arange(n)
    window = min(max(INITIAL_WINDOW, limit), ALL)
    while batches and len(waiting):
        open_groups = [column[waiting] for column in groups]
        (owner, *columns), weights, is_cut = _window_nodes(
            batches, open_groups, len(waiting), level, window, greatest, backend
        )
        bounds = xp.searchsorted(owner, xp.arange(len(waiting) + 1))
        is_final = ~is_cut | (bounds[1:] - bounds[:-1] >= limit)
        place = xp.arange(len(owner))
        rank = bounds[owner + 1] - 1 - place if greatest else place - bounds[owner]
        chosen, left = positions(backend, is_final[owner] & (rank < limit), ~is_final)
        parts.append([waiting[owner[chosen]], *(column[chosen] for column in columns), weights[chosen]])
        waiting, window = waiting[left], window * 8
    if not parts:
        return nothing, [nothing] * (level + 1 - len(groups)), nothing
    owner, *columns, weights = joined_columns(parts, xp)
    return owner, columns, weights


def _window_nodes(
    batches: Batches,
    groups: Sequence[Int64Array],
    n: int,
    level: int,
    window: int,
    greatest: bool,
    backend: Backend,
) -> tuple[list[Int64Array], Int64Array, BoolArray]:
    """Return nodes in a window at one end of each group, weights, and a mask of cut groups.

    The nodes are sorted, as owner and columns, and only those up to which every batch has been read.
    """
    xp, first = backend.xp, len(groups)
    is_cut: BoolArray = xp.zeros(n, np.bool_)
    horizon: list[Int64Array] = []
    parts = []
    for batch in batches:
        begin, end = _node_ranges(batch, groups, n, level, backend)
        width = xp.minimum(end - begin, window)
        ends = xp.cumsum(width)
        starts = ends - width
        owner = xp.repeat(xp.arange(n), width)
        node = xp.arange(len(owner)) + xp.repeat((end - ends if greatest else begin - starts), width)
        columns = _columns_of_nodes(batch, first, level, node)
        parts.append([owner, *columns, _sums_below(batch, level, node)])
        (cut,) = positions(backend, end - begin > window)
        if len(cut):
            edge = [column[(starts if greatest else ends - 1)[cut]] for column in columns]
            horizon = horizon or [xp.full(n, -(1 << 63) if greatest else (1 << 63) - 1, np.int64) for _ in edge]
            is_nearer = _reaches(edge, [column[cut] for column in horizon], greatest)
            for column, values in zip(horizon, edge, strict=True):
                column[cut] = xp.where(is_nearer, values, column[cut])
            is_cut[cut] = True
    *columns, weights = joined_columns(parts, xp)
    kernels = backend.kernels
    if level < batches[0].depth - 1 and _may_wrap(batches):
        columns = kernels.distinct_rows(columns)
        paths = [*(column[columns[0]] for column in groups), *columns[1:]]
        weights = are_present(batches, paths, backend).astype(np.int64)
    elif len(parts) > 1 and len(weights):
        order = kernels.lexsort(columns)
        starts = kernels.run_starts([column[order] for column in columns])
        columns = [column[order[starts]] for column in columns]
        weights = kernels.segment_sums(weights[order], starts)
    is_known = weights > 0
    if horizon:
        is_known &= _reaches(columns[1:], [column[columns[0]] for column in horizon], greatest)
    (known,) = positions(backend, is_known)
    return [column[known] for column in columns], weights[known], is_cut


def _reaches(nodes: Sequence[Int64Array], limits: Sequence[Int64Array], greatest: bool) -> BoolArray:
    """Return a mask of the nodes up to their limits in order, or down to them with `greatest`."""
    *pairs, (value, limit) = list(zip(nodes, limits, strict=True))
    mask: BoolArray = value >= limit if greatest else value <= limit
    for value, limit in reversed(pairs):
        mask = ((value > limit) if greatest else (value < limit)) | ((value == limit) & mask)
    return mask


def _columns_of_nodes(batch: IndexedZSet, first: int, level: int, node: Int64Array) -> list[Int64Array]:
    """Return the values on the paths to nodes of a level, from the level `first` on."""
    columns = []
    for depth in range(level, first - 1, -1):
        columns.append(batch.values[depth][node].astype(np.int64))
        if depth > first:
            node = batch.backend.xp.searchsorted(batch.offsets[depth - 1], node, side="right") - 1
    return columns[::-1]


def _node_ranges(
    batch: IndexedZSet, groups: Sequence[Int64Array], n: int, level: int, backend: Backend
) -> tuple[Int64Array, Int64Array]:
    """Return the begin and end offsets of the nodes of a level in each group."""
    xp = backend.xp
    if not groups:
        begin, end = xp.zeros(n, np.int64), xp.full(n, len(batch.values[0]), np.int64)
    else:
        position = batch.locate(groups)
        begin = xp.maximum(position, 0)
        end = begin + (position >= 0)
    for offsets in batch.offsets[max(len(groups) - 1, 0) : level]:
        begin, end = offsets[begin], offsets[end]
    return begin, end


def _sums_below(batch: IndexedZSet, level: int, node: Int64Array) -> Int64Array:
    """Return the sum of the weights of the rows below nodes of a level."""
    return _sums_between(batch, level, node, node + 1)


def group_weights(batches: Batches, groups: Sequence[Int64Array], n: int, backend: Backend) -> Int64Array:
    """Return the sum of the weights of each of `n` groups, modulo 2^64.

    O(log n) per batch and group, once the weights of a batch have been summed up.

    `groups` are the first columns of the batches; none for one group of all rows.
    """
    xp = backend.xp
    total: Int64Array = xp.zeros(n, np.int64)
    for batch in batches:
        if not len(batch):
            continue
        if groups:
            position = batch.locate(groups)
            below = _sums_below(batch, len(groups) - 1, xp.maximum(position, 0))
            total += xp.where(position >= 0, below, 0)
        else:
            total += _sums_between(batch, 0, xp.zeros(n, np.int64), xp.full(n, len(batch.values[0]), np.int64))
    return total


def _sums_between(batch: IndexedZSet, level: int, begin: Int64Array, end: Int64Array) -> Int64Array:
    """Return the sum of the weights of the rows below ranges of nodes of a level."""
    for offsets in batch.offsets[level:]:
        begin, end = offsets[begin], offsets[end]
    return end - begin if batch.weights is None else batch.weight_before[end] - batch.weight_before[begin]


def _may_wrap(batches: Batches) -> bool:
    """Return whether a sum of weights might leave int64."""
    return sum(batch.largest_weight * len(batch) for batch in batches) >= 1 << 63


# Incremental counts, sums and means of groups, from the old values and the changed rows.


UNCOUNTED, LOW, HIGH, COUNT = -4, -3, -2, -1
"""Word indices of a group: number of rows that do not count, low and high word of a sum of integers, and number of rows
that count. Words of floats start at 0."""

Additions = tuple[Int64Array, Int64Array, Int64Array]
"""Amounts to add to words: columns of group, word and amount."""


def counts_after(
    before: Int64Array,
    head: str,
    change: GroupChange,
    plan: GroupingPlan,
    backend: Backend,
    weights: Int64Array | None = None,
) -> Int64Array:
    """Return the new row count of each group: the sum of weights, ones if rows count once.

    Parameters
    ----------
    weights
        The weights to count; by default those of the change.

    Raises
    ------
    AggregateOverflowError
        If a count leaves int64.
    """
    weights = change.weights if weights is None else weights
    words = add_words((before, before >> 63), sums_of_integers(weights, None, change.starts, backend))
    refuse_out_of_range("count", words, head, change, plan, backend)
    return words[0]


class Totals:
    """Exact counts and sums of changed groups as words, from the old ones and the changed rows.

    Parameters
    ----------
    batches
        The state: rows of (group, word index), with the word as weight.
    """

    def __init__(
        self, head: str, batches: Sequence[IndexedZSet], change: GroupChange, plan: GroupingPlan, backend: Backend
    ) -> None:
        self._head, self._change, self._plan, self._backend = head, change, plan, backend
        owner, (word,), amount = self._state = rows_below(batches, change.columns, backend)
        self.words: Int64Array = backend.xp.zeros((4, change.n), np.int64)
        """The words of counts and integers of each group before the change; word indices are those of rows."""
        (rows,) = positions(backend, word < 0)
        self.words[word[rows], owner[rows]] = amount[rows]
        self.words_after = self.words.copy()
        """The words after the change."""
        self._float_additions: Additions | None = None

    def before(self) -> tuple[Int64Array, Int64Array]:
        """Return the number of rows that count, and the result, of each group before the change."""
        counts = self.words[COUNT]
        if self._is_float:
            return counts, self._float_results(self._float_words, counts)
        return counts, self._integer_results((self.words[LOW], self.words[HIGH]), counts)

    def after(self) -> tuple[Int64Array, Int64Array]:
        """Return the number of rows that count, and the result, of each group after the change.

        Raises
        ------
        AggregateOverflowError
            If a number of rows, or a sum of integers, leaves int64.
        """
        counts = self.count(COUNT, self._change.weights)
        return counts, self._add_floats(counts) if self._is_float else self._add_integers(counts)

    def count(self, word_index: int, weights: Int64Array) -> Int64Array:
        """Add weights to one word; return it for each group."""
        before, plan = self.words[word_index], self._plan
        after = counts_after(before, self._head, self._change, plan, self._backend, weights)
        self.words_after[word_index] = after
        return after

    @property
    def additions(self) -> Additions:
        """The amounts to add to the state."""
        n, changed = self._change.n, (self.words_after - self.words).reshape(-1)
        (rows,) = positions(self._backend, changed != 0)
        words = rows % n, rows // n - len(self.words), changed[rows]
        if self._float_additions is None:
            return words
        group, word, amount = joined_columns([words, self._float_additions], self._backend.xp)
        return group, word, amount

    @property
    def _is_float(self) -> bool:
        return self._plan.family.startswith("float")

    def _add_integers(self, counts: Int64Array) -> Int64Array:
        change, plan = self._change, self._plan
        words: Words = self.words[LOW], self.words[HIGH]
        if change.values is not None:
            words = add_words(words, sums_of_integers(change.values, change.weights, change.starts, self._backend))
            self.words_after[LOW], self.words_after[HIGH] = words
        if plan.op == "sum":
            refuse_out_of_range("sum", words, self._head, change, plan, self._backend, plan.max_sum)
        return self._integer_results(words, counts)

    def _integer_results(self, words: Words, counts: Int64Array) -> Int64Array:
        if self._plan.op == "count":
            return counts
        if self._plan.op == "mean":
            return means_of_integers(words, counts, self._backend, 10**self._plan.scale)
        return words[0] if self._plan.result_factor == 1 else words[0] * self._plan.result_factor

    @cached_property
    def _float_words(self) -> list[WordsByBit]:
        """The words of the float sum of each group before the change."""
        words: list[WordsByBit] = [{} for _ in range(self._change.n)]
        for group_index, word, amount in _to_lists(self._backend, self._state[0], self._state[1][0], self._state[2]):
            if word >= 0:
                words[group_index][word] = amount
        return words

    def _float_results(self, sums: Sequence[Mapping[int, int]], counts: Int64Array) -> Int64Array:
        n_values = self._backend.to_host(counts).tolist() if self._plan.op == "mean" else None
        codes: Int64Array = self._backend.asarray(float_sum_codes(sums, n_values))
        return codes

    def _add_floats(self, counts: Int64Array) -> Int64Array:
        backend, change = self._backend, self._change
        assert change.values is not None
        n_rows = backend.to_host(counts).tolist()
        words_before = self._float_words
        sums = [dict(words) for words in words_before]
        rows = [backend.to_host(each) for each in (change.owner, change.values, change.weights)]
        width = 4 if self._plan.family == "float32" else 8
        for group, word, amount in _to_lists(backend, *float_words(rows[0], rows[1], width, rows[2])):
            sums[group][word] = sums[group].get(word, 0) + amount
        for index, words in enumerate(sums):
            if n_rows[index] == 0:
                sums[index] = {}
            elif any(abs(amount) > MAX_WORD for amount in words.values()):
                sums[index] = normalise_words(words)
        fresh = [
            (group_index, word, words.get(word, 0) - words_before[group_index].get(word, 0))
            for group_index, words in enumerate(sums)
            for word in sorted({**words_before[group_index], **words})
        ]
        table = np.array([triple for triple in fresh if triple[2]], np.int64).reshape(-1, 3).T.copy()
        self._float_additions = backend.asarray(table[0]), backend.asarray(table[1]), backend.asarray(table[2])
        return self._float_results(sums, counts)


def _to_lists(backend: Backend, *columns: Int64Array) -> zip[tuple[int, int, int]]:
    return zip(*(backend.to_host(column).tolist() for column in columns), strict=True)


# Groups of a single tick, added up in one pass over rows in any order; on the host.


MIN_PLACES = 1 << 16
"""Places, one a possible group, that a table of groups may have whatever the number of rows."""

PLACES_PER_ROW = 2
"""Places per row that a table of groups may have; beyond that rows are sorted to number their groups."""


FLOAT_WORDS = 68
"""Words of a sum of floats: 2,098 bits of finite doubles, and two words more that a value may reach into."""

FLOAT_BLOCK = 1 << 15
"""Rows whose floats are split at a time, so that their words stay in the processor's cache."""

MAX_FLOAT_PLACES = 1 << 16
"""Places of a table of float sums at most: it takes 35 MB."""

MAX_FLOAT_ROWS = 1 << 28
"""Sum of weights below which the amount of a word fits int64."""


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The groups of rows in any order.

    Attributes
    ----------
    place
        Per row, the place of its group.
    n_places
        Number of places; those without rows are no groups.
    columns
        Returns the columns of the groups at some places. Groups ascend with their places.
    """

    place: Int64Array
    n_places: int
    columns: Callable[[Int64Array], list[Int64Array]]

    @classmethod
    def of_rows(cls, keys: Sequence[Int64Array], n_rows: int, backend: Backend) -> RowGroups:
        """Return the groups of rows by their key columns.

        O(n) if the possible combinations of keys are few, by place in a table; else O(n log n).
        """
        if n_rows == 0 or not keys:
            return cls(np.zeros(n_rows, np.int64), 1, lambda _: [np.empty(0, np.int64)] * len(keys))
        lows = [int(column.min()) for column in keys]
        sizes = [int(column.max()) - low + 1 for column, low in zip(keys, lows, strict=True)]
        n_places = math.prod(sizes)
        if n_places > max(MIN_PLACES, PLACES_PER_ROW * n_rows):
            return cls._sorted(keys, n_rows, backend)
        place = keys[0] if lows[0] == 0 else keys[0] - lows[0]
        for column, low, size in zip(keys[1:], lows[1:], sizes[1:], strict=True):
            place = place * size
            place += column if low == 0 else column - low

        def columns(places: Int64Array) -> list[Int64Array]:
            unpacked = []
            for low, size in zip(reversed(lows), reversed(sizes), strict=True):
                unpacked.append(places % size + low)
                places = places // size
            return unpacked[::-1]

        return cls(place, n_places, columns)

    @classmethod
    def _sorted(cls, keys: Sequence[Int64Array], n_rows: int, backend: Backend) -> RowGroups:
        order = backend.kernels.lexsort(keys)
        columns = [column[order] for column in keys]
        starts = backend.kernels.run_starts(columns)
        place = np.empty(n_rows, np.int64)
        place[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n_rows)))
        return cls(place, len(starts), lambda places: [column[starts[places]] for column in columns])

    def totals(self, amounts: Int64Array | None) -> Int64Array:
        """Return the sum of the amounts at each place, modulo 2^64; the number of rows for None."""
        if amounts is None:
            return np.bincount(self.place, minlength=self.n_places)
        sums = np.zeros(self.n_places, np.int64)
        np.add.at(sums, self.place, amounts)
        return sums

    def float_totals(self, codes: Int64Array, width: int, weights: Int64Array | None) -> list[WordsByBit] | None:
        """Return the words of the sum of floats at each place; None if their table is too large.

        Weights, below `MAX_FLOAT_ROWS` together, are 1 for None.
        """
        n = len(codes)
        if self.n_places > MAX_FLOAT_PLACES:
            return None
        table = np.zeros((self.n_places, FLOAT_WORDS), np.int64)
        flat = table.reshape(-1)
        strange = dict.fromkeys((INFINITY, MINUS_INFINITY, NAN), np.zeros(0, np.int64))
        for begin in range(0, n, FLOAT_BLOCK):
            part = slice(begin, begin + FLOAT_BLOCK)
            values, place = floats_of(codes[part], width).astype(np.float64), self.place[part]
            times = np.ones(len(values), np.int64) if weights is None else weights[part]
            finite = np.isfinite(values)
            if not finite.all():
                masks = values == np.inf, values == -np.inf, np.isnan(values)
                for word, mask in zip(strange, masks, strict=True):
                    counts = np.zeros(self.n_places, np.int64)
                    np.add.at(counts, place[mask], times[mask])
                    strange[word] = counts + strange[word] if len(strange[word]) else counts
                values, place, times = values[finite], place[finite], times[finite]
            for words, amounts in split_floats(values, times):
                np.add.at(flat, place * FLOAT_WORDS + words, amounts)
        sums: list[WordsByBit] = [{} for _ in range(self.n_places)]
        used = np.nonzero(table)
        for place_index, word_index, amount_sum in zip(*(each.tolist() for each in (*used, table[used])), strict=True):
            sums[place_index][word_index] = amount_sum
        for word_index, counts in strange.items():
            for place_index in np.flatnonzero(counts).tolist():
                sums[place_index][word_index] = int(counts[place_index])
        return sums

    def extremes(self, values: Int64Array, greatest: bool) -> Int64Array:
        """Return the greatest or the least value at each place; any number at a place without rows."""
        bounds = np.iinfo(np.int64)
        best = np.full(self.n_places, bounds.min if greatest else bounds.max)
        (np.maximum if greatest else np.minimum).at(best, self.place, values)
        return best


@dataclass(eq=False)
class GroupingHead(GroupsOperator):
    """A head that aggregates another relation.

    Attributes
    ----------
    relation
        Its rows, one per group.
    derivations
        For sums and means, their words: rows of the head with the index of a word instead of the result, and the word
        as weight; if rows count once, the words use each row of positive weight once.
    source
        The arrangement `plan.source`, or another arrangement of the same rows if their order does not matter.
    """

    name: str
    width: int
    plan: GroupingPlan
    source: Arrangement
    derivations: RelationIndex | None = field()
    relation: RelationIndex = field()
    execution: Execution

    def evaluate(
        self,
        collect: bool,  # noqa: ARG002  # the rows are state
        sink: PieceSink | None = None,  # noqa: ARG002
    ) -> tuple[ChangeCount, list[PhaseRows]]:
        """Compute this tick's change from the pending change of the source.

        Raises
        ------
        NegativeWeightError
            If a changed row of the source has a negative weight after the tick.
        AggregateOverflowError
            If a count or a sum of integers leaves int64.
        """
        if isinstance(self.source, UnsortedArrangement):
            rows = self._added_up(self.source)
            if rows is not None:
                return self._emit_rows(self._no_rows(), rows)
        change = self._change()
        if change is None:
            return self._emit_rows(self._no_rows(), self._no_rows())
        had, before = self._results_before(change)
        if self.plan.is_extreme:
            has, after = self._extremes(change, had, before)
        elif self.plan.op == "count":
            after = counts_after(before, self.name, change, self.plan, self._backend)
            has = after != 0
        else:
            has, after = self._totals(change)
        differ = before != after
        gone, come = positions(self._backend, had & (differ | ~has), has & (differ | ~had))
        return self._emit_rows(self._rows(change, before, gone), self._rows(change, after, come))

    def _added_up(self, source: UnsortedArrangement) -> list[Int64Array] | None:
        """Return the head's rows after a single tick, from rows of the source in any order.

        None if the rows have to be indexed: they may repeat and must not, have negative weights, or a sum does not fit
        a word.
        """
        phases = [rows for rows in source.phases if len(rows)]
        if not phases:
            return self._no_rows()
        (rows,) = phases
        plan = self.plan
        weighted = self.execution.weighted or plan.of_derivations
        if (plan.counts_once or not weighted) and not rows.is_consolidated:
            return None
        batch = RowBatch(source.key, rows, self._backend)
        weights = None if plan.counts_once or not weighted else batch.weights
        if weighted and batch.weights is not None and bool((batch.weights < 0).any()):
            return None
        groups = self._groups_of(batch)
        max_weight = 1 if weights is None else largest_magnitudes(self._backend, weights)[0]
        if max_weight * len(groups.place) >= 1 << 63:
            return None
        counts = groups.totals(weights)
        (chosen,) = positions(self._backend, counts > 0)
        columns, counts = groups.columns(chosen), counts[chosen]
        nothing = np.empty(0, np.int64)
        change = GroupChange(columns, len(chosen), nothing, nothing, None, nothing)
        results = counts if plan.op == "count" else self._results(batch, groups, weights, chosen, counts, change)
        return None if results is None else self._rows(change, results, np.arange(len(chosen)))

    def _groups_of(self, batch: RowBatch) -> RowGroups:
        """Return the groups of a batch, numbered once for all aggregates by the same columns."""
        key, group = batch.key, self.plan.group
        made = batch.rows.groups
        place = group, key.selection
        if place not in made:
            columns = dict(zip(key.order, batch.columns(), strict=True))
            n_rows = len(next(iter(columns.values())))
            made[place] = RowGroups.of_rows([columns[column] for column in group], n_rows, self._backend)
        groups: RowGroups = made[place]
        return groups

    def _results(
        self,
        batch: RowBatch,
        groups: RowGroups,
        weights: Int64Array | None,
        chosen: Int64Array,
        counts: Int64Array,
        change: GroupChange,
    ) -> Int64Array | None:
        """Return the aggregated value of the chosen groups; None if it has to be found otherwise."""
        plan = self.plan
        assert plan.value is not None
        values = batch.columns()[batch.key.order.index(plan.value)]
        if plan.is_extreme:
            if plan.family not in ("string", "binary"):
                return groups.extremes(values, plan.op == "max")[chosen]
            rank = self.execution.ranks(plan.family)
            code = np.empty(len(rank), np.int64)
            code[rank] = np.arange(len(rank))
            return code[groups.extremes(rank[values], plan.op == "max")[chosen]]
        if plan.family.startswith("float"):
            return self._float_results(groups, values, weights, chosen, counts)
        max_value, max_weight = largest_magnitudes(self._backend, values, counts if weights is None else weights)
        if max_value * (1 if weights is None else max_weight) * len(values) >= 1 << 63:
            return None
        low = groups.totals(values if weights is None else values * weights)[chosen]
        words = low, low >> 63
        if plan.op == "mean":
            return means_of_integers(words, counts, self._backend, 10**plan.scale)
        refuse_out_of_range("sum", words, self.name, change, plan, self._backend, plan.max_sum)
        return low if plan.result_factor == 1 else low * plan.result_factor

    def _float_results(
        self, groups: RowGroups, codes: Int64Array, weights: Int64Array | None, chosen: Int64Array, counts: Int64Array
    ) -> Int64Array | None:
        """Return the sum or mean of the chosen groups; None if it has to be found otherwise."""
        max_weight = 1 if weights is None else largest_magnitudes(self._backend, weights)[0]
        if max_weight * len(codes) >= MAX_FLOAT_ROWS:
            return None
        sums = groups.float_totals(codes, 4 if self.plan.family == "float32" else 8, weights)
        if sums is None:
            return None
        return float_sum_codes(
            [sums[place] for place in chosen.tolist()], counts.tolist() if self.plan.op == "mean" else None
        )

    def _emit_rows(self, gone: list[Int64Array], come: list[Int64Array]) -> tuple[ChangeCount, list[PhaseRows]]:
        """Pass the change to the head's arrangements and return it."""
        if not self.execution.weighted:
            return self._emit_set(gone, come)
        xp = self._backend.xp
        columns = joined_columns([gone, come], xp)
        weights = xp.concatenate([xp.full(len(gone[0]), -1, np.int64), xp.ones(len(come[0]), np.int64)])
        return self._emit(*self._backend.kernels.consolidate(columns, weights))

    def _rows(self, change: GroupChange, results: Int64Array, chosen: Int64Array) -> list[Int64Array]:
        """Return rows of the head: the chosen groups with their results."""
        columns = self._no_rows()
        for column, values in zip(self.plan.head, change.columns, strict=True):
            columns[column] = values[chosen]
        columns[self.plan.result] = results[chosen]
        return columns

    def _change(self) -> GroupChange | None:
        """Return the pending change of the source, both phases together; None if it is empty."""
        batches = [batch for batch in self.source.pending if batch.n_rows]
        if not batches:
            return None
        counted = None
        if self.execution.weighted:
            (batch,) = batches
            after = self._weights_after(batch)
            if self.plan.counts_once:
                counted = distinct_change(after - batch.weight_column(), after)
        return group_change(self.plan, self.source.key.order, batches, self._backend, counted)

    def _weights_after(self, batch: IndexedZSet) -> Int64Array:
        """Return the weights of the changed rows after the tick; raise if one is negative."""
        columns = batch.columns()
        weights = weights_of_rows(
            self.source.after(0), range(batch.depth), stacked(self._backend, columns), self._backend
        )
        refuse_negative_weights(self.plan.op, self.name, self.source.key, columns, weights, self._backend)
        return weights

    def _results_before(self, change: GroupChange) -> tuple[BoolArray, Int64Array]:
        """Return a mask of the groups that the head has a row for, and their results."""
        xp = self._backend.xp
        had: BoolArray = xp.zeros(change.n, np.bool_)
        before: Int64Array = xp.zeros(change.n, np.int64)
        owner, below, _ = rows_below(self.relation.accumulated(), change.columns, self._backend)
        if len(owner):
            had[owner] = True
            before[owner] = below[0]
        return had, before

    def _totals(self, change: GroupChange) -> tuple[BoolArray, Int64Array]:
        """Return a mask of groups with rows and their sums or means.

        Pass the changed words to the state.
        """
        assert self.derivations is not None
        totals = Totals(self.name, self.derivations.accumulated(), change, self.plan, self._backend)
        counts, results = totals.after()
        group, word, amount = totals.additions
        columns = self._no_rows()
        for column, values in zip(self.plan.head, change.columns, strict=True):
            columns[column] = values[group]
        columns[self.plan.result] = word
        self.derivations.receive_delta([PhaseRows(*self._backend.kernels.consolidate(columns, amount))])
        return counts != 0, results

    def _extremes(self, change: GroupChange, had: BoolArray, before: Int64Array) -> tuple[BoolArray, Int64Array]:
        """Return a mask of groups with rows and their extremes.

        Search only where the old extreme was deleted.
        """
        assert change.values is not None
        backend, plan = self._backend, self.plan
        xp, kernels = backend.xp, backend.kernels
        greatest = plan.op == "max"
        rank = self.execution.ranks(plan.family) if plan.family in ("string", "binary") else None
        state = self.source.after(len(self.execution.phases) - 1)
        owner, value = kernels.distinct_rows([change.owner, change.values])
        (old_rows,) = positions(backend, had)
        owner, value = xp.concatenate([owner, old_rows]), xp.concatenate([value, before[old_rows]])
        is_present = are_present(state, [*(column[owner] for column in change.columns), value], backend)
        gone: BoolArray = xp.zeros(change.n, np.bool_)
        gone[old_rows] = ~is_present[len(is_present) - len(old_rows) :]
        (rows,) = positions(backend, is_present)
        owner, value = owner[rows], value[rows]
        has: BoolArray = xp.zeros(change.n, np.bool_)
        best: Int64Array = xp.zeros(change.n, np.int64)
        owner, value = _pick_extremes(owner, value, greatest, backend, rank)
        has[owner] = True
        best[owner] = value
        (searched,) = positions(backend, gone)
        if len(searched):
            groups = [column[searched] for column in change.columns]
            has[searched], best[searched] = extreme_values(state, groups, len(searched), greatest, backend, rank)
        return has, best

"""Join of two streams, value by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import UsageError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import NOTHING, Place, is_nothing
from gpu_wcoj.streams.operator import Operator, Pending, split_by_iteration, take_due
from gpu_wcoj.streams.trace import ColumnName, Sorting, TimedTrace, Trace
from gpu_wcoj.zset.zset import ZSet, column_positions, select_columns, select_rows, take_rows

# Pairs of rows with equal keys: the common part of all joins of two streams.


@dataclass(frozen=True)
class JoinShape:
    """The key columns and the output columns of a join of two streams.

    Output rows have the columns of the left, then the non-key columns of the right, with the suffix ``_right`` if the
    name is taken.

    Attributes
    ----------
    left, right
        The key columns of both sides, pair by pair.
    select
        The output columns by name; None for all.
    """

    left: tuple[ColumnName, ...]
    right: tuple[ColumnName, ...]
    select: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return ", ".join(f"{left} = {right}" for left, right in zip(self.left, self.right, strict=True))

    @property
    def mirrored(self) -> JoinShape:
        """The shape of the join from the right to the left."""
        return JoinShape(self.right, self.left)

    def output(self, left: Sequence[str], right: Sequence[str]) -> tuple[list[str], list[tuple[bool, int]]]:
        """Return the names of the output columns, and for each its side (True: left) and position."""
        keys = column_positions(right, self.right, "the right of the join")
        names, sources = list(left), [(True, position) for position in range(len(left))]
        for column, name in enumerate(right):
            if column not in keys:
                while name in names:
                    name += "_right"
                names.append(name)
                sources.append((False, column))
        if self.select is None:
            return names, sources
        chosen = column_positions(names, self.select, "the join")
        return [names[position] for position in chosen], [sources[position] for position in chosen]


def match_rows(
    place: Place, shape: JoinShape, change: ZSet, trace: Trace | TimedTrace, change_is_left: bool, now: int | None
) -> list[tuple[int, ZSet]]:
    """Return all pairs of a change row and a trace row with equal keys, by iteration.

    Parameters
    ----------
    now
        The iteration of the change; None if the trace's times do not count.
    """
    if not len(change) or not (trace.names or len(trace)):  # rows without columns are rows
        return []
    key_positions = column_positions(change.names, shape.left if change_is_left else shape.right)
    entries = trace.below([change.columns[position] for position in key_positions], count=len(change))
    if entries is None or not len(entries.owner):
        return []
    left, right = (change.names, trace.names) if change_is_left else (trace.names, change.names)
    names, sources = shape.output(left, right)
    columns = [
        change.columns[position].gather(entries.owner) if is_left == change_is_left else entries.columns[position]
        for is_left, position in sources
    ]
    weights = place.backend.asarray(change.stored_weights)[entries.owner], entries.weights
    if now is None:
        return [(0, place.exact(names, columns, *weights))]
    return split_by_iteration(place, names, columns, weights, entries.columns[-1].stored, now)


def keyed(place: Place, rows: ZSet, keys: Sequence[ColumnName]) -> Trace:
    """Return the rows of a Z-set as a trace, for lookup by these columns."""
    return Trace(place, Sorting(tuple(keys))).append(rows)


def has_match(place: Place, shape: JoinShape, left: ZSet, right: ZSet) -> Int64Array:
    """Return the left rows whose key has a positive sum of weights on the right."""
    nothing: Int64Array = place.xp.zeros(0, np.int64)
    if is_nothing(right) or not len(left):
        return nothing
    keys = select_columns(right, column_positions(right.names, shape.right, "the right of the join"))
    keys = select_rows(keys, keys.stored_weights > 0)
    key_columns = [
        left.columns[position] for position in column_positions(left.names, shape.left, "the left of the join")
    ]
    matches = keyed(place, keys, range(len(shape.right))).below(key_columns, count=len(left))
    if matches is None:
        return nothing
    rows: Int64Array = place.xp.sort(matches.owner)
    return rows


def pad_rows(place: Place, shape: JoinShape, rows: ZSet, other_side: ZSet, rows_are_left: bool) -> ZSet:
    """Return rows of one side without a match as rows of an outer join, padded with nulls."""
    if not len(rows):
        return NOTHING
    if not other_side.columns:
        raise UsageError(
            "an outer join has rows without a match, but the columns of the other side are unknown.\n"
            "  Declare them: source(name, schema={'column': 'type', ...}). Behind an aggregate, a join, a delay or\n"
            "  a map they are known from its first row on."
        )
    left, right = (rows, other_side) if rows_are_left else (other_side, rows)
    names, sources = shape.output(left.names, right.names)
    pairs = dict(zip(column_positions(left.names, shape.left), column_positions(right.names, shape.right), strict=True))
    columns: list[Column] = []
    for is_left, position in sources:
        if is_left == rows_are_left:
            columns.append(rows.columns[position])
        elif is_left and position in pairs:
            columns.append(rows.columns[pairs[position]])
        else:
            columns.append(place.nulls(other_side.columns[position], len(rows)))
    return place.made(names, columns, rows.stored_weights)


class Join(Operator):
    """``out(l, r) = left(l) · right(r)`` for equal keys; null equals nothing. Bilinear.

    It pairs what the two streams hold at one time. O(rows of both, and of the result), times a logarithm.
    """

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return all pairs."""
        if not len(left) or not len(right):
            return NOTHING
        pairs = match_rows(self.place, self.shape, left, keyed(self.place, right, self.shape.right), True, None)
        return pairs[0][1] if pairs else NOTHING

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"join on {self.shape}"


class JoinTrace(Pending):
    """``out(l, r) = change(l) · trace(r)`` for equal keys; null equals nothing. Bilinear.

    With a trace that keeps times, in a subcircuit, a pair belongs to the later of both iterations, and waits for it.
    O(rows of the change, and of the result), times a logarithm of the trace.

    Parameters
    ----------
    change_is_left
        Whether the change is on the left of the join.
    """

    def __init__(self, shape: JoinShape, change_is_left: bool = True) -> None:
        self.shape, self.change_is_left = shape, change_is_left

    def evaluate(self, change: ZSet, trace: Trace | TimedTrace) -> ZSet:
        """Return all pairs of this time."""
        is_timed = isinstance(trace, TimedTrace) and self.scope.depth > 0
        now = self.time.iteration if is_timed else 0
        results = match_rows(self.place, self.shape, change, trace, self.change_is_left, now if is_timed else None)
        out, self.state = take_due(self.place, self.state, results, now)
        return out

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"join with a trace on {self.shape}"


class Semijoin(Operator):
    """``out(l) = left(l) · d(sum of right(r) with l's key)``.

    Linear in the left, not in the right.
    """

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the rows that have a match."""
        return take_rows(left, has_match(self.place, self.shape, left, right)) if len(left) else left


# Antijoin: the rows of one stream that have no match in another.


class Antijoin(Semijoin):
    """``out = left - semijoin(left, right)``; a null key has no match. Linear in the left only."""

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the rows that have no match."""
        if not len(left):
            return left
        without = self.place.xp.ones(len(left), np.bool_)
        without[has_match(self.place, self.shape, left, right)] = False
        return select_rows(left, without)


Side = Literal["left", "right", "full"]


class Pad(Operator):
    """Rows of one side of an outer join, padded with nulls for the other side. Linear.

    Parameters
    ----------
    rows_are_left
        Of which side the rows are.
    """

    state: ZSet = NOTHING
    """The other side's columns, as far as they are known; no rows."""

    def __init__(self, shape: JoinShape, rows_are_left: bool) -> None:
        self.shape, self.rows_are_left = shape, rows_are_left

    def evaluate(self, rows: ZSet, other_side: ZSet) -> ZSet:
        """Return the padded rows."""
        if other_side.columns:
            self.state = self.place.plus(take_rows(other_side, slice(0)), self.state)
        return pad_rows(self.place, self.shape, rows, self.state, self.rows_are_left)

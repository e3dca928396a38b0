"""What a tick's changes make of a relation, over plain dictionaries {row: weight}."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Row = tuple[object, ...]
ZSet = dict[Row, int]


def plus(left: Mapping[Row, int], right: Mapping[Row, int]) -> ZSet:
    """left + right, without rows of weight zero."""
    total = dict(left)
    for row, weight in right.items():
        total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}


def minus(left: Mapping[Row, int], right: Mapping[Row, int]) -> ZSet:
    """left - right, without rows of weight zero."""
    return plus(left, {row: -weight for row, weight in right.items()})


def summed(rows: Iterable[tuple[Row, int]]) -> ZSet:
    """The Z-set of (row, weight) pairs: weights of equal rows add."""
    total: ZSet = {}
    for row, weight in rows:
        total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}


def apply_rows(state: Mapping[Row, int], rows: Iterable[tuple[Row, int]]) -> ZSet:
    """A set after ordered operations: the last one on a row wins; weight > 0 inserts, < 0 deletes, 0 does nothing."""
    after = dict(state)
    for row, weight in rows:
        if weight > 0:
            after[row] = 1
        elif weight < 0:
            after.pop(row, None)
    return after


def apply_zset(state: Mapping[Row, int], changes: Iterable[tuple[Row, int]]) -> ZSet:
    """A set after changes without an order: a net weight above 0 makes the row present, below 0 absent."""
    return apply_rows(state, summed(changes).items())


def apply_bag(state: Mapping[Row, int], changes: Iterable[tuple[Row, int]]) -> ZSet:
    """A bag after changes: weights add."""
    return plus(state, summed(changes))

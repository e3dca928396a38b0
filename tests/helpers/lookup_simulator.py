"""Execute plans of lookups over dictionaries on several partitions, with expected results."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product

from gpu_wcoj.planner.delta_lookups import Arranged, Column, Filter, JoinGraph, LookupPath, LookupPlan

Row = tuple[int, ...]
ZSet = Mapping[Row, int]
Bound = dict[str, Row]
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def plus(left: ZSet, right: ZSet) -> ZSet:
    """The sum of two Z-sets."""
    total = Counter(dict(left))
    for row, weight in right.items():
        total[row] += weight
    return {row: weight for row, weight in total.items() if weight}


def joined(graph: JoinGraph, state: Mapping[str, ZSet]) -> ZSet:
    """Return the join by a nested loop, rows concatenated in the order of the tables."""
    total: Counter[Row] = Counter()
    for rows in product(*(state[table.source].items() for table in graph.tables)):
        bound = {table.name: row for table, (row, _) in zip(graph.tables, rows, strict=True)}
        if all(
            bound[edge.left][one] == bound[edge.right][other]
            for edge in graph.edges
            for one, other in zip(edge.left_key, edge.right_key, strict=True)
        ) and all(holds(one, bound) for one in graph.filters):
            weight = 1
            for _, own in rows:
                weight *= own
            total[sum((row for row, _ in rows), ())] += weight
    return {row: weight for row, weight in total.items() if weight}


def holds(one: Filter, bound: Bound) -> bool:
    other = value(bound, one.other) if isinstance(one.other, tuple) else one.other
    return OPERATORS[one.op](value(bound, one.column), other)


def value(bound: Bound, column: Column) -> int:
    return bound[column[0]][column[1]]


def partition(values: Sequence[int], partitions: int) -> int:
    code = 17
    for one in values:
        code = (code * 31 + one * one + 7 * one) % 1009
    return code % partitions


def spread(rows: ZSet, arranged: Arranged, partitions: int) -> list[list[tuple[Row, int]]]:
    """Rows where an arrangement has them."""
    parts: list[list[tuple[Row, int]]] = [[] for _ in range(partitions)]
    for row, weight in rows.items():
        here = partition([row[column] for column in arranged.by], partitions)
        for number in [here] if arranged.by else range(partitions):
            parts[number].append((row, weight))
    return parts


def delta_of(
    plan: LookupPlan, graph: JoinGraph, before: Mapping[str, ZSet], changes: Mapping[str, ZSet], partitions: int
) -> ZSet:
    """The sum of what the paths give; a lookup sees only the rows that its own partition has."""
    after = {name: plus(rows, changes[name]) for name, rows in before.items()}
    total: ZSet = {}
    for path in plan.paths:
        total = plus(total, path_output(path, graph, before, after, changes, partitions))
    return total


def path_output(
    path: LookupPath,
    graph: JoinGraph,
    before: Mapping[str, ZSet],
    after: Mapping[str, ZSet],
    changes: Mapping[str, ZSet],
    partitions: int,
) -> ZSet:
    prefixes: list[tuple[int, Bound, int]] = []
    for row, weight in changes[graph.by_name[path.table].source].items():
        bound = {path.table: row}
        if all(row[left] == row[right] for left, right in path.checks) and all(
            holds(one, bound) for one in path.filters
        ):
            prefixes.append((partition([row[column] for column in path.spread], partitions), bound, weight))
    for lookup in path.lookups:
        table = graph.by_name[lookup.table]
        arranged = lookup.arrangement
        assert arranged.relation == table.source
        assert set(arranged.order[: len(lookup.key)]) == {column for column, _ in lookup.key}
        state = after if lookup.sees == "after" else before
        parts = spread(state[table.source], arranged, partitions)
        found = []
        for here, bound, weight in prefixes:
            if lookup.exchange is not None:
                here = partition([value(bound, column) for column in lookup.exchange], partitions)
            for row, own in parts[here]:
                if any(row[column] != value(bound, other) for column, other in lookup.key):
                    continue
                more = {**bound, lookup.table: row}
                if any(row[column] != value(more, other) for column, other in lookup.checks):
                    continue
                if all(holds(one, more) for one in lookup.filters):
                    found.append((here, more, weight * own))
        prefixes = found
    total: Counter[Row] = Counter()
    for _, bound, weight in prefixes:
        total[sum((bound[table.name] for table in graph.tables), ())] += weight
    return {row: weight for row, weight in total.items() if weight}

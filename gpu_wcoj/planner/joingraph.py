"""Join graph of a body: tables, equal columns, filters, and expected rows of a lookup.

Columns that equalities connect, directly or through other columns, form a *class*, which corresponds to a variable of a
rule. A lookup in a table uses all of its columns whose class is bound by then, so every predicate is applied, whichever
edge stated it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from math import prod, sqrt

import numpy as np

from gpu_wcoj.errors import UsageError, listed, nearest

Column = tuple[str, int]
"""Name of a table and index of one of its columns."""

ASSUMED_ROWS = 1000.0
"""Assumed rows of a table without statistics; each of its columns has the square root of this as distinct values."""

MOST = 1e300
"""Upper bound on amounts, near the largest float."""

KEPT = {"=": 0.1, "!=": 0.9, "<": 1 / 3, "<=": 1 / 3, ">": 1 / 3, ">=": 1 / 3}
"""Assumed share of rows that a filter keeps, by operator."""


@dataclass(frozen=True)
class Table:
    """Occurrence of a relation.

    Attributes
    ----------
    name
        Unique name, also if the relation occurs several times.
    arity
        Number of columns.
    relation
        Name of the relation; occurrences share arrangements. Empty if it is the name of the table.
    rows
        Rows of the state; None if unknown.
    distinct
        Per ascending tuple of columns, the known number of distinct values that these have together.
    changes
        Rows that change in a tick; 0 for a table that never changes.

    Examples
    --------
    >>> Table("e", 2, rows=1000, distinct={(0,): 50}).rows_per_value([0])
    20.0
    """

    name: str
    arity: int
    relation: str = ""
    rows: float | None = None
    distinct: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    changes: float = 1.0

    @property
    def source(self) -> str:
        """Name of the relation."""
        return self.relation or self.name

    def values(self, columns: Collection[int]) -> float:
        """Estimate how many distinct values these columns have together."""
        key = tuple(sorted(set(columns)))
        rows = ASSUMED_ROWS if self.rows is None else max(self.rows, 1.0)
        if not key:
            return 1.0
        if key in self.distinct:
            return min(max(self.distinct[key], 1.0), rows)
        single = sqrt(rows) if len(key) < self.arity else rows
        max_values = min(rows, prod(self.distinct.get((column,), single) for column in key))
        min_values = max((count for part, count in self.distinct.items() if set(part) <= set(key)), default=1.0)
        return max(min_values, max_values, 1.0)

    def rows_per_value(self, columns: Collection[int]) -> float:
        """Return the mean number of rows that agree with one value of these columns."""
        return (ASSUMED_ROWS if self.rows is None else self.rows) / self.values(columns)


@dataclass(frozen=True)
class Edge:
    """Equality of two tables' keys, column by column."""

    left: str
    right: str
    left_key: tuple[int, ...]
    right_key: tuple[int, ...]

    def __str__(self) -> str:
        pairs = zip(self.left_key, self.right_key, strict=True)
        return ", ".join(
            f"{self.left}.{left_column} = {self.right}.{right_column}" for left_column, right_column in pairs
        )


@dataclass(frozen=True)
class Filter:
    """Comparison ``column op other``, where `other` is another column or a value.

    Attributes
    ----------
    kept
        The share of rows that it keeps; None if unknown.
    """

    column: Column
    op: str
    other: Column | int | float | str | Decimal | None
    kept: float | None = None

    def __str__(self) -> str:
        operand = f"{self.other[0]}.{self.other[1]}" if isinstance(self.other, tuple) else repr(self.other)
        return f"{self.column[0]}.{self.column[1]} {self.op} {operand}"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that it reads."""
        return (self.column, self.other) if isinstance(self.other, tuple) else (self.column,)

    @property
    def tables(self) -> frozenset[str]:
        """Names of the tables that it reads."""
        return frozenset(table for table, _ in self.columns)

    @property
    def share(self) -> float:
        """Share of rows that it is assumed to keep."""
        return KEPT[self.op] if self.kept is None else self.kept


@dataclass(frozen=True)
class JoinGraph:
    """Tables and the conditions on them.

    Raises
    ------
    UsageError
        If an edge or a filter names a missing table or column, or a number is invalid: negative rows, NaN, or a share
        above 1.

    Examples
    --------
    >>> edges = [Edge("a", "b", (0,), (1,)), Edge("b", "c", (1,), (0,))]
    >>> graph = JoinGraph((Table("a", 1), Table("b", 2), Table("c", 1)), tuple(edges))
    >>> graph.classes
    ((('a', 0), ('b', 1), ('c', 0)),)
    """

    tables: tuple[Table, ...]
    edges: tuple[Edge, ...] = ()
    filters: tuple[Filter, ...] = ()

    def __post_init__(self) -> None:
        names = [table.name for table in self.tables]
        for name in names:
            if names.count(name) > 1:
                raise UsageError.duplicate(
                    "table",
                    name,
                    remedy="Give each occurrence its own name, and name the relation with relation='...'.",
                )
        for checked_table in self.tables:
            _check_numbers(checked_table)
        for edge in self.edges:
            for key in (edge.left_key, edge.right_key):
                _check_key(edge, key)
            if len(edge.left_key) != len(edge.right_key) or not edge.left_key:
                raise UsageError.with_parts(
                    f"the keys {edge.left_key} of '{edge.left}' and {edge.right_key} of '{edge.right}' differ in "
                    "length or are empty",
                    subject=f"the edge from '{edge.left}' to '{edge.right}'",
                    got=(edge.left_key, edge.right_key),
                    remedy="Name the equal columns in pairs, at least one pair.",
                )
            for table, key in ((edge.left, edge.left_key), (edge.right, edge.right_key)):
                self._check(table, key, f"the edge '{edge}'")
        for compared in self.filters:
            who, share = f"filter '{compared}'", compared.kept
            if compared.op not in KEPT:
                raise UsageError.with_parts(
                    f"{who}: unknown operator '{compared.op}'",
                    subject=who,
                    got=compared.op,
                    expected=f"one of {listed(KEPT)}",
                )
            if share is not None and not (is_amount(share) and share <= 1):
                raise UsageError.invalid_value(f"{who}: kept", share, "a share from 0 to 1, or None if unknown")
            for table, column in compared.columns:
                self._check(table, (column,), f"the {who}")

    def _check(self, name: str, columns: Sequence[int], who: str) -> None:
        tables = {table.name: table for table in self.tables}
        if name not in tables:
            raise UsageError.with_parts(
                f"{who} names the unknown table '{name}'",
                subject=who,
                got=name,
                expected=f"one of {listed(tables)}",
                remedy=nearest(name, tables).strip(),
            )
        for column in columns:
            if not 0 <= column < tables[name].arity:
                raise UsageError.with_parts(
                    f"{who}: table '{name}' has no column {column}",
                    subject=who,
                    got=column,
                    expected=f"one of its {tables[name].arity} columns, from 0 on",
                )

    @cached_property
    def by_name(self) -> Mapping[str, Table]:
        """Tables by name."""
        return {table.name: table for table in self.tables}

    @cached_property
    def classes(self) -> tuple[tuple[Column, ...], ...]:
        """Classes of equal columns, in the order of the tables."""
        above: dict[Column, Column] = {}

        def root(column: Column) -> Column:
            while above.setdefault(column, column) != column:
                column = above[column]
            return column

        for edge in self.edges:
            for left_column, right_column in zip(edge.left_key, edge.right_key, strict=True):
                above[root((edge.left, left_column))] = root((edge.right, right_column))
        place = {table.name: i for i, table in enumerate(self.tables)}
        members_of: dict[Column, list[Column]] = {}
        for column in sorted(above, key=lambda column: (place[column[0]], column[1])):
            members_of.setdefault(root(column), []).append(column)
        return tuple(tuple(members) for members in members_of.values())

    @cached_property
    def class_of(self) -> Mapping[Column, int]:
        """Index of each joined column's class."""
        return {column: class_index for class_index, members in enumerate(self.classes) for column in members}

    @cached_property
    def joined(self) -> Mapping[str, tuple[int, ...]]:
        """Per table, its columns that are in a class, ascending."""
        return {
            table.name: tuple(i for i in range(table.arity) if (table.name, i) in self.class_of)
            for table in self.tables
        }

    def classes_in(self, name: str) -> frozenset[int]:
        """Return the classes that a table has columns of."""
        return frozenset(self.class_of[name, column] for column in self.joined[name])

    def unconnected(self, start: str) -> list[str]:
        """Return the tables that no chain of equalities connects with a table."""
        reached, reached_classes = {start}, set(self.classes_in(start))
        grown = True
        while grown:
            more = [t.name for t in self.tables if t.name not in reached and self.classes_in(t.name) & reached_classes]
            grown = bool(more)
            reached.update(more)
            reached_classes.update(*(self.classes_in(name) for name in more))
        return [table.name for table in self.tables if table.name not in reached]


def is_amount(value: object) -> bool:
    """Return True if the value is a finite number from 0 on.

    Examples
    --------
    >>> [is_amount(one) for one in (0, 2.5, -1, float("nan"), float("inf"), "3", True, None)]
    [True, True, False, False, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(0 <= value < MOST)


def is_column(value: object) -> bool:
    """Return True if the value is a possible column index.

    Examples
    --------
    >>> [is_column(one) for one in (0, 7, -1, 1.0, "a", True)]
    [True, True, False, False, False, False]
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0


def _check_numbers(table: Table) -> None:
    if not is_column(table.arity):
        raise UsageError.invalid_value(f"table '{table.name}': arity", table.arity, "a number of columns")
    if table.rows is not None and not is_amount(table.rows):
        raise UsageError.invalid_value(
            f"table '{table.name}': rows", table.rows, "a finite number from 0 on, or None if unknown"
        )
    if not is_amount(table.changes):
        raise UsageError.invalid_value(f"table '{table.name}': changes", table.changes, "a finite number from 0 on")
    for columns, values in table.distinct.items():
        if not is_amount(values) or not all(is_column(column) and column < table.arity for column in columns):
            raise UsageError.with_parts(
                f"table '{table.name}': distinct={{{columns!r}: {values!r}}} is not allowed",
                subject=f"table '{table.name}'",
                got={columns: values},
                expected=f"a tuple of its {table.arity} columns, from 0 on, and a finite number from 0 on",
            )


def _check_key(edge: Edge, key: Sequence[int]) -> None:
    columns: object = key
    if not isinstance(columns, (tuple, list)) or not all(isinstance(column, (int, np.integer)) for column in columns):
        raise UsageError.with_parts(
            f"the edge from '{edge.left}' to '{edge.right}' has the invalid key {key!r}",
            subject=f"the edge from '{edge.left}' to '{edge.right}'",
            got=key,
            expected="a tuple of columns, such as (0,)",
        )

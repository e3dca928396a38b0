"""Delta-join solver: the order of lookups for each changed table.

For each changed table, the solver starts with every table that can come first and continues in two ways: with lookups
that need no exchange, in the order of preference, as the solver published with RisingWave does throughout; or with the
cheapest lookup. It returns the cheapest of these orders, ties by the order of preference. So it compares at most
(tables squared x classes of equal columns) orders.

The partition of rows is tracked as the columns by whose hash they are partitioned. A change starts in the partition
that its first lookup reads, since the change is sent to the arrangements of its table anyway. A lookup in an
arrangement partitioned by columns equal to those needs no exchange; so a new arrangement is partitioned by these, if
its key holds them. If all tables share columns, the solver also evaluates a partitioning of all tables by these alone,
which needs no exchange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from types import MappingProxyType
from typing import Literal, get_args

from gpu_wcoj.errors import UsageError, listed, nearest
from gpu_wcoj.planner.joingraph import Column, Edge, Filter, JoinGraph, Table, is_amount, is_column
from gpu_wcoj.planner.lookups import Arranged, Lookup, LookupPath, LookupPlan

Preference = Literal["left", "right"]
"""Tie-breaking order of tables: the first given one first, or the last."""

Crossing = Literal["refuse", "allow"]
"""Treatment of tables that no equality connects: an error, or a cross product."""


@dataclass(frozen=True)
class Costs:
    """Relative costs of operations.

    Attributes
    ----------
    lookup, found, exchanged
        Cost of a lookup by one row, of a matching row, and of a row sent to another partition.
    maintained
        Cost of a changed row of a relation, per new arrangement.
    """

    lookup: float = 1.0
    found: float = 1.0
    exchanged: float = 2.0
    maintained: float = 1.0


def solve(
    tables: Sequence[Table],
    edges: Sequence[Edge] = (),
    *,
    numbering: Sequence[str] | None = None,
    existing: Sequence[Arranged] = (),
    filters: Sequence[Filter] = (),
    orders: Mapping[str, Sequence[str]] = MappingProxyType({}),
    prefer: Preference = "left",
    cross: Crossing = "refuse",
    costs: Costs = Costs(),
) -> LookupPlan:
    """Plan the lookups of every table that changes.

    Parameters
    ----------
    tables
        The tables, in the order that breaks ties.
    edges
        Equalities.
    numbering
        Names of all tables by number: a table of lower number is read after the tick. None for the order of `tables`.
    existing
        Existing arrangements.
    filters
        Comparisons of columns; each is applied as soon as its tables are bound.
    orders
        Per changed table, the order of its lookups, if it is fixed.
    prefer
        End of `tables` that is preferred in ties.
    cross
        Treatment of tables that no equality connects: an error (``refuse``) or a cross product (``allow``).
    costs
        The cost model.

    Raises
    ------
    UsageError
        If a table is not connected with the others and `cross` does not allow it, `numbering` does not name each table
        once, one of `orders` does not name each other table once, each with an equality to an earlier one, an
        arrangement has a missing relation or column, or an option or a number is outside what is allowed.

    Examples
    --------
    >>> chain = [Edge("a", "b", (0,), (0,)), Edge("b", "c", (1,), (0,))]
    >>> print(solve([Table("a", 1), Table("b", 2), Table("c", 1)], chain, numbering=["c", "b", "a"]))
    c -> b -> a
    b -> a -> c*
    a -> b* -> c*
    """
    for option, value, kinds in (("prefer", prefer, Preference), ("cross", cross, Crossing)):
        if value not in get_args(kinds):
            raise UsageError.invalid_value(option, value, f"one of {listed(get_args(kinds))}")
    for name, amount in vars(costs).items():
        if not is_amount(amount):
            raise UsageError.with_parts(
                f"Costs({name}={amount!r}) is not allowed",
                subject=name,
                got=amount,
                expected="a finite number from 0 on",
            )
    graph = JoinGraph(tuple(tables), tuple(edges), tuple(filters))
    if not graph.tables:
        raise UsageError.with_parts(
            "the join has no tables", subject="tables", expected="at least one table", remedy="Pass a table."
        )
    numbers = _numbers(graph, numbering)
    if cross == "refuse":
        unconnected = graph.unconnected(graph.tables[0].name)
        if unconnected:
            word = "table" if len(unconnected) == 1 else "tables"
            raise UsageError.with_parts(
                f"no equality connects {word} {listed(unconnected)} with '{graph.tables[0].name}', so the join is a "
                "cross product",
                subject=listed(unconnected),
                remedy="Add the missing edge, or allow a cross product with cross='allow'.",
            )
    for arrangement in existing:
        _check_arranged(arrangement, graph)
    for name, order in orders.items():
        other_tables = [table.name for table in graph.tables if table.name != name]
        if len(other_tables) == len(graph.tables) or sorted(order) != sorted(other_tables):
            raise UsageError.with_parts(
                f"the order for the change of '{name}' is {listed(order)}",
                subject=name,
                got=tuple(order),
                expected=f"an order for one of {listed(graph.by_name)} that names each other table once",
            )
    return _Solver(graph, numbers, prefer, costs, orders, list(dict.fromkeys(existing))).plan()


def _check_arranged(arrangement: Arranged, graph: JoinGraph) -> None:
    if len(set(arrangement.order)) < len(arrangement.order) or not set(arrangement.by) <= set(arrangement.order):
        raise UsageError.with_parts(
            f"the order of arrangement {arrangement} repeats a column, or lacks a column that it is partitioned by",
            subject=str(arrangement),
            got=arrangement.order,
            expected=f"distinct columns, among them {list(arrangement.by)}",
        )
    arity = {table.source: table.arity for table in graph.tables}
    if arrangement.relation not in arity:
        raise UsageError.with_parts(
            f"arrangement {arrangement} has the unknown relation '{arrangement.relation}'",
            subject=str(arrangement),
            got=arrangement.relation,
            expected=f"one of {listed(arity)}",
            remedy=nearest(arrangement.relation, arity).strip(),
        )
    for column in arrangement.order:
        if not is_column(column) or column >= arity[arrangement.relation]:
            raise UsageError.with_parts(
                f"arrangement {arrangement}: relation '{arrangement.relation}' has no column {column!r}",
                subject=str(arrangement),
                got=column,
                expected=f"one of its {arity[arrangement.relation]} columns, from 0 on",
            )


def _numbers(graph: JoinGraph, numbering: Sequence[str] | None) -> dict[str, int]:
    names = list(graph.by_name) if numbering is None else list(numbering)
    for name in names:
        if name not in graph.by_name:
            raise UsageError.with_parts(
                f"the numbering names the unknown table '{name}'",
                subject="numbering",
                got=name,
                expected=f"one of {listed(graph.by_name)}",
                remedy=nearest(name, graph.by_name).strip(),
            )
    if len(names) != len(graph.tables) or len(set(names)) != len(names):
        raise UsageError.with_parts(
            f"the numbering is {listed(names)}",
            subject="numbering",
            got=tuple(names),
            remedy=f"Name each of {listed(graph.by_name)} once.",
        )
    return {name: index for index, name in enumerate(names)}


@dataclass(frozen=True)
class _Way:
    """Prefix of a path: the bound tables, and the partitions of its rows.

    Attributes
    ----------
    bound
        The tables, the changed one first.
    at
        The classes by whose hash the rows are partitioned; None while any partition will do.
    rows
        Expected rows.
    made
        New arrangements of the path.
    within
        The classes by which all new arrangements are partitioned; empty to choose for each.
    """

    bound: tuple[str, ...]
    rows: float
    at: tuple[int, ...] | None = None
    lookups: tuple[Lookup, ...] = ()
    made: tuple[Arranged, ...] = ()
    cost: float = 0.0
    within: tuple[int, ...] = ()


@dataclass(eq=False)
class _Solver:
    graph: JoinGraph
    numbers: dict[str, int]
    prefer: Preference
    costs: Costs
    orders: Mapping[str, Sequence[str]]
    existing: list[Arranged]
    made: list[Arranged] = field(default_factory=list)
    considered: int = 0

    def plan(self) -> LookupPlan:
        names = [table.name for table in self.graph.tables]
        ordered = names if self.prefer == "left" else names[::-1]
        self.rank = {name: i for i, name in enumerate(ordered)}
        class_sets = [self.graph.classes_in(name) for name in names]
        self.common = tuple(sorted(frozenset.intersection(*class_sets)))
        numbering = tuple(sorted(self.numbers, key=self.numbers.__getitem__))
        paths = tuple(self._path(name) for name in numbering if self.graph.by_name[name].changes)
        used = dict.fromkeys(lookup.arrangement for path in paths for lookup in path.lookups)
        made = tuple(arrangement for arrangement in used if arrangement in self.made)
        return LookupPlan(numbering, paths, tuple(used), made, self.considered)

    def _path(self, name: str) -> LookupPath:
        changed = self.graph.by_name[name]
        filters = tuple(candidate for candidate in self.graph.filters if candidate.tables == frozenset([name]))
        start = _Way((name,), changed.changes * prod(table_filter.share for table_filter in filters))
        if name in self.orders:
            candidates = [self._along_order(start, self.orders[name])]
        elif len(self.graph.tables) == 1:
            candidates = [self._along_order(start, ())]
        else:
            firsts = self._next(start)
            steady = firsts[:1] if len(self.graph.classes) < 2 else firsts
            candidates = [self._finished(self._looked_up(start, first), steady=False) for first in firsts]
            candidates += [self._finished(self._looked_up(start, first), steady=True) for first in steady]
            if self.common and len(self.graph.classes) > 1:
                candidates.append(self._finished(replace(start, within=self.common), steady=False))
        best = min(candidates, key=lambda way: (float(f"{way.cost:.9g}"), [self.rank[table] for table in way.bound]))
        self.made += [arrangement for arrangement in best.made if arrangement not in self.made]
        return LookupPath(name, best.lookups, self._first_spread(best), self._within(changed, ()), filters, best.cost)

    def _along_order(self, way: _Way, order: Sequence[str]) -> _Way:
        """Return the path in a given order."""
        self.considered += 1
        for name in order:
            if name not in self._next(way):
                raise UsageError.with_parts(
                    f"the order {listed(order)} for the change of '{way.bound[0]}': no equality connects '{name}' with "
                    f"{listed(way.bound)}",
                    subject=way.bound[0],
                    got=name,
                    remedy=f"Continue with one of {listed(self._next(way))}.",
                )
            way = self._looked_up(way, name)
        return way

    def _finished(self, way: _Way, steady: bool) -> _Way:
        """Complete the path: by preference without avoidable exchanges, or by lowest cost."""
        self.considered += 1
        while len(way.bound) < len(self.graph.tables):
            ways = [self._looked_up(way, name) for name in self._next(way)]
            if steady:
                way = next((candidate for candidate in ways if candidate.lookups[-1].exchange is None), ways[0])
            else:
                way = min(ways, key=lambda one: (float(f"{one.cost + one.rows:.9g}"), self.rank[one.bound[-1]]))
        return way

    def _next(self, way: _Way) -> list[str]:
        """Return the tables for the next lookup by preference; unconnected ones only if all are."""
        bound_classes = self._bound_classes(way.bound)
        unbound = sorted(
            (table.name for table in self.graph.tables if table.name not in way.bound), key=self.rank.__getitem__
        )
        return [name for name in unbound if self.graph.classes_in(name) & bound_classes] or unbound

    def _bound_classes(self, bound: Sequence[str]) -> frozenset[int]:
        return frozenset(chain.from_iterable(self.graph.classes_in(name) for name in bound))

    def _holder(self, bound: Sequence[str], class_index: int) -> Column:
        """Return the earliest bound column of a class."""
        return min(
            (column for column in self.graph.classes[class_index] if column[0] in bound),
            key=lambda column: (bound.index(column[0]), column[1]),
        )

    def _looked_up(self, way: _Way, name: str) -> _Way:
        """Return the path with one more lookup, in the cheapest arrangement for it."""
        ways = [self._through(way, name, arrangement) for arrangement in self._arrangements(way, name)]
        return min(ways, key=lambda one: float(f"{one.cost:.9g}"))

    def _arrangements(self, way: _Way, name: str) -> list[Arranged]:
        """Return the arrangements by which a table can be looked up, existing ones first."""
        table = self.graph.by_name[name]
        bound_classes = self._bound_classes(way.bound)
        class_of = self.graph.class_of
        columns = [column for column in self.graph.joined[name] if class_of[name, column] in bound_classes]
        columns.sort(key=lambda column: (class_of[name, column], column))
        there = [
            arrangement
            for arrangement in chain(self.existing, self.made, way.made)
            if arrangement.relation == table.source
        ]
        usable = [
            arrangement
            for arrangement in there
            if set(arrangement.by) <= set(_prefix(arrangement, columns)) and (arrangement.order or not columns)
        ]
        if not columns:
            return [arrangement for arrangement in usable if not arrangement.by] or [Arranged(table.source, (), ())]
        place = {class_of[name, column]: column for column in reversed(columns)}
        if way.within:
            by = tuple(place[class_index] for class_index in way.within)
            order = (*by, *(column for column in columns if column not in by))
            usable.append(Arranged(table.source, order, None if by == order else by))
            return [arrangement for arrangement in dict.fromkeys(usable) if arrangement.by in ((), by)]
        if way.at and set(way.at) <= place.keys():
            by = tuple(place[class_index] for class_index in way.at)
            order = (*dict.fromkeys(by), *(column for column in columns if column not in by))
            usable.append(Arranged(table.source, order, None if by == order else by))
        by = tuple(dict.fromkeys(place[class_of[name, column]] for column in columns))
        usable.append(Arranged(table.source, tuple(columns), None if len(by) == len(columns) else by))
        return [arrangement for arrangement in dict.fromkeys(usable) if _prefix(arrangement, columns)]

    def _through(self, way: _Way, name: str, arranged: Arranged) -> _Way:
        """Return the path with a lookup of the table in one arrangement."""
        table, graph, costs = self.graph.by_name[name], self.graph, self.costs
        bound_classes = self._bound_classes(way.bound)
        equal = {
            column: self._holder(way.bound, graph.class_of[name, column])
            for column in graph.joined[name]
            if graph.class_of[name, column] in bound_classes
        }
        key = _prefix(arranged, list(equal))
        by = tuple(graph.class_of[name, column] for column in arranged.by)
        exchange, partitioning = None, way.at
        if by and way.at is None and set(by) <= graph.classes_in(way.bound[0]):
            partitioning = by
        elif by and way.at != by:
            exchange, partitioning = tuple(equal[column] for column in arranged.by), by
        bound = (*way.bound, name)
        checks = [(column, bound_column) for column, bound_column in equal.items() if column not in key]
        checks += [(column, (name, first)) for first, column in self._within(table, bound_classes)]
        filters = tuple(
            candidate for candidate in graph.filters if name in candidate.tables and candidate.tables <= set(bound)
        )
        probed = way.rows * self._rows_per_lookup(table, [(column, equal[column]) for column in key])
        rows = way.rows * self._rows_per_lookup(table, list(equal.items())) * prod(applied.share for applied in filters)
        is_new = arranged not in self.existing and arranged not in self.made and arranged not in way.made
        cost = way.rows * (costs.lookup + (costs.exchanged if exchange is not None else 0.0)) + probed * costs.found
        lookup = Lookup(
            name,
            "after" if self.numbers[name] < self.numbers[way.bound[0]] else "before",
            arranged,
            tuple((column, equal[column]) for column in key),
            tuple(checks),
            filters,
            exchange,
            rows,
        )
        return replace(
            way,
            bound=bound,
            rows=rows,
            at=partitioning,
            lookups=(*way.lookups, lookup),
            made=(*way.made, arranged) if is_new else way.made,
            cost=way.cost + cost + (table.changes * costs.maintained if is_new else 0.0),
        )

    def _within(self, table: Table, bound_classes: Sequence[int] | frozenset[int]) -> tuple[tuple[int, int], ...]:
        """Return pairs of a table's columns that have to agree and are not both looked up."""
        first: dict[int, int] = {}
        pairs = []
        for column in self.graph.joined[table.name]:
            class_index = self.graph.class_of[table.name, column]
            if class_index in first and class_index not in bound_classes:
                pairs.append((first[class_index], column))
            first.setdefault(class_index, column)
        return tuple(pairs)

    def _rows_per_lookup(self, table: Table, equal: Sequence[tuple[int, Column]]) -> float:
        """Return the mean rows of a lookup, if the side with fewer values is contained in the other."""
        rows = table.rows_per_value(()) if table.rows is None else table.rows
        max_values = table.values([column for column, _ in equal])
        for name in {bound_column[0] for _, bound_column in equal}:
            columns = [bound_column[1] for _, bound_column in equal if bound_column[0] == name]
            max_values = max(max_values, self.graph.by_name[name].values(columns))
        return rows / max_values

    def _first_spread(self, way: _Way) -> tuple[int, ...]:
        """Return the columns of the changed table that its rows are partitioned by at first."""
        for lookup in way.lookups:
            if lookup.exchange is not None:
                return ()
            if lookup.arrangement.by:
                place = dict(lookup.key)
                classes = [self.graph.class_of[place[column]] for column in lookup.arrangement.by]
                return tuple(self._column(way.bound[0], class_index) for class_index in classes)
        return ()

    def _column(self, name: str, class_index: int) -> int:
        return next(column for column in self.graph.joined[name] if self.graph.class_of[name, column] == class_index)


def _prefix(arranged: Arranged, columns: Sequence[int]) -> tuple[int, ...]:
    """Return the longest prefix of an arrangement's columns among these columns."""
    prefix: list[int] = []
    for column in arranged.order:
        if column not in columns:
            break
        prefix.append(column)
    return tuple(prefix)

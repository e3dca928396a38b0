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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from itertools import chain
from math import prod, sqrt
from typing import Literal

from gpu_wcoj.planner.statistics import SELECTIVITY
from gpu_wcoj.query.ir import MIRRORED, Comparison, Constant, Rule, Variable

# Join graph of a body: tables, equal columns, filters, and expected rows of a lookup.
#
# Columns that equalities connect, directly or through other columns, form a *class*, which corresponds to a variable of
# a rule. A lookup in a table uses all of its columns whose class is bound by then, so every predicate is applied,
# whichever edge stated it.


Column = tuple[str, int]
"""Name of a table and index of one of its columns."""

ASSUMED_ROWS = 1000.0
"""Assumed rows of a table without statistics; each of its columns has the square root of this as distinct values."""

MAX_AMOUNT = 1e300
"""Upper bound on numbers of rows and values, near the largest float."""


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
    >>> Table("e", 2, rows=1000, distinct={(0,): 50}).values([0])
    50
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
        return SELECTIVITY[self.op] if self.kept is None else self.kept


@dataclass(frozen=True)
class JoinGraph:
    """Tables and the conditions on them.

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


# Plans of delta joins as sequences of lookups, one per changed table.
#
# With the tables numbered A1 ... An, the lookups of Aj's change read Ai after the tick if i < j, written ``Ai*``, and
# before the tick if i > j: the star depends on the table's number, not on its position in the path. The sum of all
# paths' outputs, in the order of the numbers, is the change of the join.


@dataclass(frozen=True)
class Arranged:
    """Relation indexed by the columns that it is looked up by.

    Attributes
    ----------
    relation
        Name of the relation.
    order
        Columns, outermost first. Rows can be looked up by any prefix of them.
    spread
        The columns whose hash, in this order, determines the partition of a row; empty if every partition has all rows;
        None for all of `order`.
    """

    relation: str
    order: tuple[int, ...]
    spread: tuple[int, ...] | None = None

    def __str__(self) -> str:
        text = f"{self.relation}[{', '.join(map(str, self.order))}]"
        if not self.by:
            return f"{text} everywhere"
        return text if self.by == self.order else f"{text} by {', '.join(map(str, self.by))}"

    @property
    def by(self) -> tuple[int, ...]:
        """Columns that it is partitioned by; none if every partition has all rows."""
        return self.order if self.spread is None else self.spread


@dataclass(frozen=True)
class Lookup:
    """Lookup of a path.

    Attributes
    ----------
    table
        Name of the table.
    sees
        The state with (``after``) or without (``before``) this tick's change.
    arrangement
        Arrangement that is read.
    key
        (column of the table, bound column): equalities of the lookup, over the first columns of the arrangement.
    checks
        (column of the table, bound column): equalities that are checked in the matching rows.
    filters
        Filters that are applied afterwards; all of their tables are bound.
    exchange
        The columns by whose hash rows are exchanged before the lookup; None if they stay.
    rows
        Expected rows of the path after the lookup.
    """

    table: str
    sees: Literal["before", "after"]
    arrangement: Arranged
    key: tuple[tuple[int, Column], ...]
    checks: tuple[tuple[int, Column], ...] = ()
    filters: tuple[Filter, ...] = ()
    exchange: tuple[Column, ...] | None = None
    rows: float = 0.0

    def __str__(self) -> str:
        return f"{self.table}*" if self.sees == "after" else self.table

    @property
    def predicates(self) -> tuple[tuple[int, Column], ...]:
        """All equalities, by key or by comparison."""
        return (*self.key, *self.checks)


@dataclass(frozen=True)
class LookupPath:
    """Change of a table and the lookups that join it with the others.

    Attributes
    ----------
    table
        Name of the changed table.
    lookups
        Lookups, in order.
    spread
        The columns whose hash determines the partition that a changed row starts in; empty for any partition.
    checks
        Pairs of the table's columns that have to agree.
    filters
        Filters that read only this table.
    cost
        Expected cost per tick; see `Costs`.

    Examples
    --------
    >>> path = LookupPath("b", (Lookup("a", "after", Arranged("a", (0,)), ((0, ("b", 1)),)),), (1,))
    >>> print(path)
    b -> a*
    """

    table: str
    lookups: tuple[Lookup, ...]
    spread: tuple[int, ...]
    checks: tuple[tuple[int, int], ...] = ()
    filters: tuple[Filter, ...] = ()
    cost: float = 0.0

    def __str__(self) -> str:
        return " -> ".join([self.table, *map(str, self.lookups)])

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the tables that are looked up."""
        return tuple(lookup.table for lookup in self.lookups)

    @property
    def exchanges(self) -> int:
        """Number of times that rows change their partitions."""
        return sum(lookup.exchange is not None for lookup in self.lookups)


@dataclass(frozen=True)
class LookupPlan:
    """Plan of a delta join.

    Attributes
    ----------
    numbering
        The tables by number.
    paths
        One per table that changes, by number: their outputs are combined in this order.
    arrangements
        Arrangements that lookups use, each once.
    made
        Those of the arrangements that did not exist.
    considered
        Number of orders of lookups that were compared.
    """

    numbering: tuple[str, ...]
    paths: tuple[LookupPath, ...]
    arrangements: tuple[Arranged, ...]
    made: tuple[Arranged, ...]
    considered: int

    def __str__(self) -> str:
        return "\n".join(map(str, self.paths))

    @property
    def cost(self) -> float:
        """Expected cost per tick."""
        return sum(path.cost for path in self.paths)

    def path(self, table: str) -> LookupPath:
        """Return the path of a table's change."""
        return next(path for path in self.paths if path.table == table)


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
    existing: Sequence[Arranged] = (),
    filters: Sequence[Filter] = (),
    costs: Costs = Costs(),
) -> LookupPlan:
    """Plan the lookups of every table that changes.

    Parameters
    ----------
    tables
        The tables by number: a table of lower number is read after the tick. The first ones are preferred in ties.
    edges
        Equalities.
    existing
        Existing arrangements.
    filters
        Comparisons of columns; each is applied as soon as its tables are bound.
    costs
        The cost model.

    Examples
    --------
    >>> chain = [Edge("a", "b", (0,), (0,)), Edge("b", "c", (1,), (0,))]
    >>> print(solve([Table("c", 1), Table("b", 2), Table("a", 1)], chain))
    c -> b -> a
    b -> c* -> a
    a -> b* -> c*
    """
    return Solver(JoinGraph(tuple(tables), tuple(edges), tuple(filters)), costs, list(dict.fromkeys(existing))).plan()


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
class Solver:
    """The search for the paths of a join graph."""

    graph: JoinGraph
    costs: Costs
    existing: list[Arranged]
    made: list[Arranged] = field(default_factory=list)
    considered: int = 0

    def __post_init__(self) -> None:
        self.rank = {table.name: i for i, table in enumerate(self.graph.tables)}
        self.common = tuple(sorted(frozenset.intersection(*map(self.graph.classes_in, self.rank))))

    def plan(self) -> LookupPlan:
        """Return the cheapest path found for every table that changes."""
        numbering = tuple(self.rank)
        paths = tuple(self.path(name) for name in numbering if self.graph.by_name[name].changes)
        used = dict.fromkeys(lookup.arrangement for path in paths for lookup in path.lookups)
        made = tuple(arrangement for arrangement in used if arrangement in self.made)
        return LookupPlan(numbering, paths, tuple(used), made, self.considered)

    def path(self, name: str) -> LookupPath:
        """Return the cheapest path found for the change of a table."""
        changed, start = self.graph.by_name[name], self.start(name)
        if len(self.graph.tables) == 1:
            candidates = [self._finished(start, steady=False)]
        else:
            firsts = self.next_tables(start)
            steady = firsts[:1] if len(self.graph.classes) < 2 else firsts
            candidates = [self._finished(self.look_up(start, first), steady=False) for first in firsts]
            candidates += [self._finished(self.look_up(start, first), steady=True) for first in steady]
            if self.common and len(self.graph.classes) > 1:
                candidates.append(self._finished(replace(start, within=self.common), steady=False))
        best = min(candidates, key=lambda way: (float(f"{way.cost:.9g}"), [self.rank[table] for table in way.bound]))
        self.made += [arrangement for arrangement in best.made if arrangement not in self.made]
        return LookupPath(
            name, best.lookups, self._first_spread(best), self._within(changed, ()), self._filters_of(name), best.cost
        )

    def start(self, name: str) -> _Way:
        """Return the path of a table's change without a lookup."""
        shares = (table_filter.share for table_filter in self._filters_of(name))
        return _Way((name,), self.graph.by_name[name].changes * prod(shares))

    def _filters_of(self, name: str) -> tuple[Filter, ...]:
        return tuple(candidate for candidate in self.graph.filters if candidate.tables == frozenset([name]))

    def _finished(self, way: _Way, steady: bool) -> _Way:
        """Complete the path: by preference without avoidable exchanges, or by lowest cost."""
        self.considered += 1
        while len(way.bound) < len(self.graph.tables):
            ways = [self.look_up(way, name) for name in self.next_tables(way)]
            if steady:
                way = next((candidate for candidate in ways if candidate.lookups[-1].exchange is None), ways[0])
            else:
                way = min(ways, key=lambda one: (float(f"{one.cost + one.rows:.9g}"), self.rank[one.bound[-1]]))
        return way

    def next_tables(self, way: _Way) -> list[str]:
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

    def look_up(self, way: _Way, name: str) -> _Way:
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
            "after" if self.rank[name] < self.rank[way.bound[0]] else "before",
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
        rows = ASSUMED_ROWS if table.rows is None else table.rows
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


# Exchanges of rows between partitions that a rule needs, by its join graph and lookups.
#
# If no lookup of any path needs an exchange, the rows of all atoms can be partitioned by the hash of the same
# variables, and rows that join are in the same partition. Otherwise some prefixes have to be exchanged, by the
# variables of `Exchanges.moved`, or rows have to be copied to every partition that may need them.


SENT = Costs(lookup=0.0, found=0.0, exchanged=1.0, maintained=0.0)
"""Costs that count only prefixes that travel; ties prefer existing arrangements."""


def graph_of(rule: Rule, rows: Mapping[str, float] | None = None) -> JoinGraph:
    """Return the join graph of a rule's positive atoms, with tables named by number and text.

    Parameters
    ----------
    rows
        Known rows of relations.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> graph = graph_of(parse("t(a, c) :- e(a, b), e(b, c), a < c, f(b, 7).").rules[0])
    >>> [table.name for table in graph.tables]
    ['1: e(a, b)', '2: e(b, c)', '3: f(b, 7)']
    >>> graph.classes
    ((('1: e(a, b)', 1), ('2: e(b, c)', 0), ('3: f(b, 7)', 0)),)
    >>> print(*graph.filters, sep="; ")
    3: f(b, 7).1 = 7; 1: e(a, b).0 < 2: e(b, c).1
    """
    rows_of = rows or {}
    tables, edges, filters = [], [], []
    first: dict[str, Column] = {}
    for atom_number, atom in enumerate(rule.atoms, 1):
        table = Table(f"{atom_number}: {atom}", len(atom.terms), atom.relation, rows_of.get(atom.relation))
        tables.append(table)
        for column, term in enumerate(atom.terms):
            if isinstance(term, Variable):
                first_column = first.setdefault(term.name, (table.name, column))
                if first_column != (table.name, column):
                    edges.append(Edge(first_column[0], table.name, (first_column[1],), (column,)))
            elif isinstance(term, Constant):
                filters.append(Filter((table.name, column), "=", term.value))
    for comparison in rule.comparisons:
        compared = _filter(comparison, first)
        if compared is not None:
            filters.append(compared)
    return JoinGraph(tuple(tables), tuple(edges), tuple(filters))


def _filter(comparison: Comparison, first: Mapping[str, Column]) -> Filter | None:
    """Return the comparison of columns; None if it compares calculations or only constants."""
    op, left, right = comparison.op, comparison.left, comparison.right
    if not isinstance(left, Variable):
        op, left, right = MIRRORED[op], right, left
    if not isinstance(left, Variable) or left.name not in first:
        return None
    if isinstance(right, Constant):
        return Filter(first[left.name], op, right.value)
    if isinstance(right, Variable) and right.name in first:
        return Filter(first[left.name], op, first[right.name])
    return None


@dataclass(frozen=True)
class Exchanges:
    """Lookups of a rule, with the partitions that rows are in.

    Attributes
    ----------
    rule
        Rule of positive atoms and comparisons.
    graph, plan
        Its join graph, and its plan of lookups.
    """

    rule: Rule
    graph: JoinGraph
    plan: LookupPlan

    @classmethod
    def plan_rule(
        cls,
        rule: Rule,
        rows: Mapping[str, float] | None = None,
        existing: Sequence[Arranged] = (),
    ) -> Exchanges:
        """Plan the lookups of a rule; unconnected atoms are combined by a cross product.

        Parameters
        ----------
        rows
            Known rows of relations.
        existing
            Existing arrangements, for example of other rules, whose rows need not be sent again.

        Examples
        --------
        >>> from gpu_wcoj.query.datalog import parse
        >>> star = Exchanges.plan_rule(parse("s(a, b, c) :- e(a, b), f(a, c), g(a).").rules[0])
        >>> star.shared, star.moved
        (('a',), ())
        >>> path = Exchanges.plan_rule(parse("p(a, d) :- e(a, b), e(b, c), e(c, d).").rules[0])
        >>> path.shared, path.moved
        ((), (('c',), ('b',)))
        """
        graph = graph_of(rule, rows)
        read = {table.source for table in graph.tables}
        there = [arrangement for arrangement in existing if arrangement.relation in read]
        return cls(rule, graph, solve(graph.tables, graph.edges, filters=graph.filters, existing=there, costs=SENT))

    @property
    def shared(self) -> tuple[str, ...]:
        """Variables to partition all atoms by so that no lookup needs an exchange; else none.

        If the head keeps some of these variables, only those: then derived rows need no exchange either.
        """
        if any(path.exchanges for path in self.plan.paths):
            return ()
        used = [self._by(lookup) for path in self.plan.paths for lookup in path.lookups]
        first = used[0] if used else tuple(variable.name for variable in self.rule.variables)
        common = tuple(name for name in first if all(name in names for names in used))
        head_names = {variable.name for variable in self.rule.head.variables}
        return tuple(name for name in common if name in head_names) or common

    @cached_property
    def moved(self) -> tuple[tuple[str, ...], ...]:
        """Variables by which prefixes are exchanged, each tuple once, in the order of the paths."""
        lookups = (lookup for path in self.plan.paths for lookup in path.lookups)
        return tuple(dict.fromkeys(self._by(lookup) for lookup in lookups if lookup.exchange is not None))

    @property
    def crosses(self) -> bool:
        """True if atoms form a cross product, so that every partition needs all rows of one atom."""
        return any(not arrangement.by for arrangement in self.plan.arrangements)

    @property
    def joined(self) -> tuple[str, ...]:
        """Variables that several atoms have, in order of first occurrence."""
        variables_of = [atom.variables for atom in self.rule.atoms]
        return tuple(
            variable.name for variable in self.rule.variables if sum(variable in names for names in variables_of) > 1
        )

    def _by(self, lookup: Lookup) -> tuple[str, ...]:
        """Return the variables that partition the rows that a lookup reads."""
        atom = self.rule.atoms[[table.name for table in self.graph.tables].index(lookup.table)]
        terms = [atom.terms[column] for column in lookup.arrangement.by]
        return tuple(dict.fromkeys(term.name for term in terms if isinstance(term, Variable)))

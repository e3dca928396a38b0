"""Random queries in a form that several languages can write, and smaller ones of the same shape."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from bench.suite.hypergraph import is_acyclic
from gpu_wcoj.query.languages import Language

Edges = Sequence[tuple[int, ...]]
T = TypeVar("T", "Query", "Subquery")
Mode = Literal["rows", "distinct", "count", "groups", "first rows", "window"]

FIRST_HALF = frozenset({"equality", "constant", "exists", "not exists", "outer join", "distinct", "count", "groups"})
"""Parts of a query for which the laws are promised; the other parts are drawn, and counted apart."""

COLUMNS = ("uniform", "uniform", "uniform", "skewed", "hub", "key", "near", "few")
"""Distributions of a column, with their frequencies; see `bench.cliffs.rows`."""


@dataclass(frozen=True)
class Table:
    """A relation.

    Attributes
    ----------
    n_rows
        Rows before duplicates are removed.
    columns
        Per column its distribution.
    density
        Distinct values of a uniform column, in units of the rows.
    seed
        Seed of the rows.
    """

    name: str
    n_rows: int
    columns: tuple[str, ...]
    density: float
    seed: int


@dataclass(frozen=True)
class Atom:
    """A relation with a variable per column."""

    table: str
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """A comparison.

    Attributes
    ----------
    kind
        ``constant``: v op n. ``equality``: v = w. ``range``: v op w + n. ``band``: 0 <= v - w < n. ``modulo``:
        v % n = 1. ``sum``: v + w op n. ``either``: v = n or w < n. ``record``: w < n, of the second part of a record of
        v and w.
    """

    kind: str
    variables: tuple[str, ...]
    op: str
    n: int


@dataclass(frozen=True)
class Subquery:
    """An EXISTS or NOT EXISTS; variables of the outer query correlate, the others are its own."""

    is_negated: bool
    atoms: tuple[Atom, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class OuterJoin:
    """A LEFT JOIN.

    Attributes
    ----------
    variables
        Names of the table's columns.
    keys
        Per equality the column and the variable of the outer query.
    condition
        A comparison of the last column with a constant, or None.
    """

    table: str
    variables: tuple[str, ...]
    keys: tuple[tuple[int, str], ...]
    condition: Condition | None


@dataclass(frozen=True)
class Lookup:
    """A condition on the number of rows of a table with the value of an outer variable: a query as a value.

    Attributes
    ----------
    column
        The column that equals the variable.
    op, n
        The comparison of the number of rows.
    """

    table: str
    column: int
    variable: str
    op: str
    n: int


@dataclass(frozen=True)
class Query:
    """A query and its relations.

    Attributes
    ----------
    language
        ``sql`` (bags) or ``datalog`` (sets).
    selected
        Variables of the head, or of GROUP BY.
    aggregate, argument
        What a group, a window or the whole is aggregated by, and the variable for all but ``count``.
    alternatives
        Pairs of conditions of which one has to hold.
    limit
        The rows that are kept of those in the order of all selected columns, in the mode ``first rows``.
    """

    seed: int
    language: Language
    tables: tuple[Table, ...]
    atoms: tuple[Atom, ...]
    conditions: tuple[Condition, ...]
    subqueries: tuple[Subquery, ...]
    outer_joins: tuple[OuterJoin, ...]
    mode: Mode
    selected: tuple[str, ...]
    aggregate: str
    argument: str
    alternatives: tuple[tuple[Condition, Condition], ...] = ()
    lookups: tuple[Lookup, ...] = ()
    limit: int = 0

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the atoms, in order of appearance."""
        return tuple(dict.fromkeys(name for atom in self.atoms for name in atom.variables))

    @property
    def used_tables(self) -> tuple[Table, ...]:
        """The relations that the query reads."""
        used = {atom.table for atom in self.atoms} | {join.table for join in self.outer_joins}
        used |= {atom.table for subquery in self.subqueries for atom in subquery.atoms}
        used |= {lookup.table for lookup in self.lookups}
        return tuple(table for table in self.tables if table.name in used)

    @property
    def is_acyclic(self) -> bool:
        """Whether the body has a join forest."""
        return is_acyclic([atom.variables for atom in self.atoms])

    @property
    def parts(self) -> frozenset[str]:
        """The kinds of its parts, as in `FIRST_HALF`."""
        conditions = [*self.conditions, *(one for subquery in self.subqueries for one in subquery.conditions)]
        kinds = {condition.kind for condition in conditions}
        kinds |= {"not exists" if subquery.is_negated else "exists" for subquery in self.subqueries}
        if self.outer_joins:
            kinds.add("outer join")
        if self.mode in ("distinct", "first rows", "window"):
            kinds.add(self.mode)
        if self.alternatives:
            kinds.add("or")
        if self.lookups:
            kinds.add("query as a value")
        if self.mode in ("count", "groups"):
            kinds.add(self.mode if self.aggregate == "count" else self.aggregate)
        return frozenset(kinds)

    @property
    def is_promised(self) -> bool:
        """Whether the laws are promised for it."""
        return self.parts <= FIRST_HALF


class _Draw:
    """The parts of one random query."""

    def __init__(self, seed: int, max_rows: int) -> None:
        self.chance = random.Random(seed)
        self.n_rows = int(10 ** self.chance.uniform(min(3.0, math.log10(max_rows) - 1), math.log10(max_rows)))
        self.tables: list[Table] = []

    def table(self, arity: int) -> str:
        chance = self.chance
        others = (0, 3, 100, self.n_rows // 10, 2 * self.n_rows)
        n_rows = self.n_rows if chance.random() < 0.8 else chance.choice(others)
        columns = tuple("one" if chance.random() < 0.01 else chance.choice(COLUMNS) for _ in range(arity))
        name = f"t{len(self.tables)}"
        density = chance.choice((1.0, 1.0, 0.3, 0.1, 2.0))
        self.tables.append(Table(name, n_rows, columns, density, chance.randrange(1 << 30)))
        return name

    def any_table(self) -> tuple[str, int]:
        if self.chance.random() < 0.5:
            table = self.chance.choice(self.tables)
            return table.name, len(table.columns)
        arity = self.chance.choice((1, 2, 2, 3))
        return self.table(arity), arity

    def edges(self) -> Edges:
        chance = self.chance
        shape = chance.choice(("chain", "star", "cycle", "snowflake", "bow-tie", "clique", "random"))
        n = chance.choice((2, 3, 3, 4, 5))
        if shape == "chain":
            return [(i, i + 1) for i in range(n)]
        if shape == "star":
            return [(0, i + 1) for i in range(n)]
        if shape == "cycle":
            n = max(3, n)
            return [(i, (i + 1) % n) for i in range(n)]
        if shape == "snowflake":
            return [(0, 1), (0, 2), (1, 3), (2, 4), (0, 5)][: max(3, n)]
        if shape == "bow-tie":
            return [(0, 1), (1, 2), (0, 2), (0, 3), (3, 4), (0, 4)]
        if shape == "clique":
            return [(i, j) for i in range(4) for j in range(i + 1, 4)]
        edges: list[tuple[int, ...]] = [(0, 1)]
        for number in range(n - 1):
            if chance.random() < 0.7:
                edges.append((chance.randrange(number + 2), number + 2))
            else:
                edges.append((*chance.sample(range(number + 2), 2), number + 2))
        return edges

    def atoms(self) -> tuple[Atom, ...]:
        chance = self.chance
        is_self_join = chance.random() < 0.35
        atoms: list[Atom] = []
        for number, edge in enumerate(self.edges()):
            variables = [f"v{end}" for end in edge]
            if not is_self_join:
                variables += [f"p{number}{extra}" for extra in range(chance.choice((0, 0, 0, 1, 2)))]
                chance.shuffle(variables)
            same = [table for table in self.tables if is_self_join and len(table.columns) == len(variables)]
            atoms.append(Atom(same[0].name if same else self.table(len(variables)), tuple(variables)))
        return tuple(atoms)

    def constant(self) -> int:
        return self.chance.choice((0, 1, 7, self.n_rows // 100, self.n_rows // 3))

    def condition(self, variables: Sequence[str]) -> Condition:
        chance = self.chance
        kind = chance.choice(
            ("constant", "constant", "constant", "equality", "range", "range", "band", "modulo", "sum")
        )
        if len(variables) < 2 and kind not in ("constant", "modulo"):
            kind = "constant"
        if kind == "constant":
            return Condition(kind, (chance.choice(variables),), chance.choice(("=", "<", ">", "!=")), self.constant())
        if kind == "modulo":
            return Condition(kind, (chance.choice(variables),), "=", chance.choice((2, 10, 100)))
        pair = tuple(chance.sample(list(variables), 2))
        if kind == "equality":
            return Condition(kind, pair, "=", 0)
        if kind == "range":
            return Condition(kind, pair, chance.choice(("<", "<=", "!=")), chance.choice((0, 0, 1, 10)))
        if kind == "band":
            return Condition(kind, pair, "<", chance.choice((1, 10, 100)))
        return Condition(kind, pair, chance.choice(("<", "=", ">")), self.constant())

    def subquery(self, variables: Sequence[str], number: int) -> Subquery:
        chance = self.chance
        name, arity = self.any_table()
        inner = [chance.choice(variables) if chance.random() < 0.6 else f"w{number}{i}" for i in range(arity)]
        if not set(inner) & set(variables):
            inner[0] = chance.choice(variables)
        atoms = [Atom(name, tuple(inner))]
        if chance.random() < 0.3:
            name, arity = self.any_table()
            own = [f"x{number}{i}" for i in range(arity - 1)]
            atoms.append(Atom(name, (chance.choice(inner), *own)))
        own = sorted({name for atom in atoms for name in atom.variables} - set(variables))
        conditions: tuple[Condition, ...] = ()
        if own and chance.random() < 0.4:
            if chance.random() < 0.5:
                conditions = (Condition("constant", (chance.choice(own),), chance.choice("<>"), self.constant()),)
            else:
                pair = chance.choice(own), chance.choice(variables)
                conditions = (Condition("range", pair, chance.choice(("<", ">", "!=")), chance.choice((0, 0, 5))),)
        return Subquery(chance.random() < 0.6, tuple(atoms), conditions)

    def outer_join(self, variables: Sequence[str], number: int) -> OuterJoin:
        chance = self.chance
        name, arity = self.any_table()
        keys = [(0, chance.choice(variables))]
        if arity > 1 and chance.random() < 0.3:
            keys.append((1, chance.choice(variables)))
        own = tuple(f"l{number}{i}" for i in range(arity))
        condition = None
        if chance.random() < 0.3:
            condition = Condition("constant", (own[-1],), chance.choice(("<", ">", "=")), self.constant())
        return OuterJoin(name, own, tuple(keys), condition)

    def add_more(self, query: Query) -> Query:
        """Return an SQL query with an OR, a query as a value, first rows or a window; most stay as they are."""
        chance = self.chance = random.Random(f"{query.seed} more")  # the other parts are drawn as before
        if query.language != "sql" or chance.random() > 0.35:
            return query
        kind = chance.choice(("or", "or", "value", "first rows", "window"))
        if kind == "or":
            pair = (self.condition(query.variables), self.condition(query.variables))
            return replace(query, alternatives=(pair,))
        if kind == "value":
            table = chance.choice(self.tables)
            lookup = Lookup(
                table.name, chance.randrange(len(table.columns)), chance.choice(query.variables),
                chance.choice(("=", "<", ">")), chance.choice((0, 1, 2, 10)),
            )  # fmt: skip
            return replace(query, lookups=(lookup,))
        if kind == "window":
            return replace(query, mode="window")
        return replace(query, mode="first rows", limit=chance.choice((1, 10, 1_000)))


def draw(seed: int, max_rows: int = 50_000) -> Query:
    """Return the random query of a seed.

    Examples
    --------
    >>> query = draw(3)
    >>> query == draw(3), query.language in ("sql", "datalog")
    (True, True)
    """
    parts = _Draw(seed, max_rows)
    chance = parts.chance
    language: Language = "sql" if chance.random() < 0.65 else "datalog"
    atoms = parts.atoms()
    variables = list(dict.fromkeys(name for atom in atoms for name in atom.variables))
    conditions = tuple(parts.condition(variables) for _ in range(chance.choice((0, 0, 1, 1, 2))))
    n_subqueries = chance.choice((1, 1, 2)) if chance.random() < 0.35 else 0
    subqueries = tuple(parts.subquery(variables, number) for number in range(n_subqueries))
    n_outer = chance.choice((1, 1, 2)) if language == "sql" and chance.random() < 0.25 else 0
    outer_joins = tuple(parts.outer_join(variables, number) for number in range(n_outer))
    mode: Mode = chance.choice(("rows", "distinct", "groups", "count"))
    if language == "datalog" and mode == "groups":
        mode = "rows"
    listed = [*variables, *(name for join in outer_joins for name in join.variables)]
    selected = tuple(chance.sample(listed, min(len(listed), chance.choice((1, 2, 2, 3)))))
    aggregate = "count" if language == "datalog" else chance.choice(("count", "count", "sum", "min", "max"))
    more = random.Random(f"disjunctions and records {seed}")
    if language == "datalog" and len(variables) > 1 and more.random() < 0.4:
        pair = tuple(more.sample(variables, 2))
        added = Condition(more.choice(("either", "record")), pair, "<", more.choice((1, parts.n_rows // 3)))
        conditions = (*conditions, added)
    query = Query(
        seed, language, tuple(parts.tables), atoms, conditions, subqueries, outer_joins, mode, selected, aggregate,
        chance.choice(listed),
    )  # fmt: skip
    return parts.add_more(query)


def reductions(query: Query) -> Iterator[Query]:
    """Yield queries that are smaller than a query by one part, or by half of a table."""
    for field in ("lookups", "alternatives", "subqueries", "outer_joins", "conditions", "atoms"):
        parts = getattr(query, field)
        for number in range(len(parts)):
            smaller = _bound(_without(query, field, number))
            if smaller is not None:
                yield smaller
    for number, subquery in enumerate(query.subqueries):
        for field in ("conditions", "atoms"):
            own = getattr(subquery, field)
            for part in range(len(own) if field == "conditions" or len(own) > 1 else 0):
                smaller = _bound(_with(query, "subqueries", number, _without(subquery, field, part)))
                if smaller is not None:
                    yield smaller
    for number, join in enumerate(query.outer_joins):
        if join.condition is not None:
            yield _with(query, "outer_joins", number, replace(join, condition=None))
    if query.mode != "rows":
        yield replace(query, mode="rows")
    for number in range(len(query.selected) if len(query.selected) > 1 else 0):
        yield replace(query, selected=query.selected[:number] + query.selected[number + 1 :])
    used = {table.name for table in query.used_tables}
    for number, table in enumerate(query.tables):
        if table.name not in used:
            continue
        if table.n_rows > 1:
            yield _with(query, "tables", number, replace(table, n_rows=table.n_rows // 2))
        for column, kind in enumerate(table.columns):
            if kind != "uniform":
                columns = (*table.columns[:column], "uniform", *table.columns[column + 1 :])
                yield _with(query, "tables", number, replace(table, columns=columns))


def _with(query: Query, field: str, number: int, part: object) -> Query:
    """Return a query with another part at a place of a field."""
    parts = list(getattr(query, field))
    parts[number] = part
    changes: dict[str, Any] = {field: tuple(parts)}
    return replace(query, **changes)


def _without(whole: T, field: str, number: int) -> T:
    """Return a query or subquery without a part of a field."""
    parts = getattr(whole, field)
    changes: dict[str, Any] = {field: parts[:number] + parts[number + 1 :]}
    return replace(whole, **changes)


def _bound(query: Query) -> Query | None:
    """Return a query without the parts whose variables are not bound any more; None if nothing is left."""
    if not query.atoms:
        return None
    bound = set(query.variables)
    outer_joins = tuple(join for join in query.outer_joins if all(name in bound for _, name in join.keys))
    listed = [*query.variables, *(name for join in outer_joins for name in join.variables)]
    subqueries = []
    for subquery in query.subqueries:
        inside = {name for atom in subquery.atoms for name in atom.variables}
        if inside & bound:
            known = inside | bound
            conditions = tuple(one for one in subquery.conditions if set(one.variables) <= known)
            subqueries.append(replace(subquery, conditions=conditions))
    selected = tuple(name for name in query.selected if name in listed) or (listed[0],)
    return replace(
        query,
        conditions=tuple(one for one in query.conditions if set(one.variables) <= bound),
        alternatives=tuple(
            pair for pair in query.alternatives if all(set(condition.variables) <= bound for condition in pair)
        ),
        lookups=tuple(lookup for lookup in query.lookups if lookup.variable in bound),
        subqueries=tuple(subqueries),
        outer_joins=outer_joins,
        selected=selected,
        argument=query.argument if query.argument in listed else listed[0],
    )

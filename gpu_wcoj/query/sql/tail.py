"""Split of a statement that the engine refuses: the joins that it does, and the rest.

A block is a SELECT without its subqueries. Its core are the joins and conditions that the engine can do; the rest of
the block, its tail, reads the rows of the core in place of FROM and WHERE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_wcoj.errors import ColumnError
from gpu_wcoj.query.sql.scope import calculation_name
from gpu_wcoj.query.sql.source import Place, Quoted, statements
from gpu_wcoj.user_functions import Function

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node
    from sqlglot.expressions import Identifier, Select, With


def named_tables(node: Node, tables: Iterable[str], place: Place) -> list[str]:
    """Return the tables that a statement reads.

    Raises
    ------
    UnknownRelationError
        If it names another relation.
    UnsupportedError
        If a name has a schema or catalog.
    """
    from sqlglot import expressions as exp

    names = list(tables)
    defined = [cte.alias for cte in node.find_all(exp.CTE)]
    result: dict[str, None] = {}
    for table in node.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function
        if table.args.get("db") or table.args.get("catalog"):
            what = "names with a schema or catalog are not supported"
            raise place.refused(what, table, "Name the relation alone.")
        is_quoted = bool(table.this.args.get("quoted"))
        matches = place.names.matching(table.name, is_quoted, names, is_table=True)
        if len(matches) > 1:
            raise place.ambiguous("relation", table.this, matches)
        result.update(dict.fromkeys(matches))
        if not matches and not place.names.matching(table.name, is_quoted, defined):
            raise place.unknown(table.this, [*defined, *names], "relations")
    return list(result)


def named_columns(node: Node, columns: Iterable[str], place: Place) -> list[str]:
    """Return the columns of a table that a statement may read.

    These are all if it may have a `*`, or names a column by its position.
    """
    from sqlglot import expressions as exp

    names = list(columns)
    if any(join.args.get("method") == "NATURAL" for join in node.find_all(exp.Join)):
        return names
    is_counted = (star for star in node.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    whole = node.find_all(exp.Columns, exp.Pivot, exp.PositionalColumn)
    if next(is_counted, None) is not None or next(whole, None) is not None:
        return names
    used = {place.names.folded(identifier.name).lower() for identifier in node.find_all(exp.Identifier)}
    tables = {place.names.folded(table.alias_or_name).lower() for table in node.find_all(exp.Table)}
    if any(not column.table and column.name.lower() in tables for column in node.find_all(exp.Column)):
        return names  # a row of a table as a struct
    return [name for name in names if name.lower() in used]


def check_tables(
    text: str, tables: Mapping[str, object], *, dialect: str = "duckdb", functions: Iterable[Function] = ()
) -> None:
    """Raise if a text names other relations than the tables and its own views.

    Raises
    ------
    UnknownRelationError
        With the first such relation.
    """
    from sqlglot import expressions as exp

    place = Place(text, "<text>", dialect)
    names = list(tables)
    for node in statements(text, dialect, place, [function.name.lower() for function in functions]):
        place.names.fold(node)
        query = node.expression if isinstance(node, exp.Create) else node
        if isinstance(query, exp.Query):
            _ = named_tables(query, names, place)
        if isinstance(node, exp.Create):
            names += [table.name for table in node.this.find_all(exp.Table)]


def check_case(node: Node, columns: Iterable[str], place: Place) -> None:
    """Raise for names that DuckDB, which ignores case, takes for others than the dialect does.

    Parameters
    ----------
    columns
        The columns of the tables that the statement reads.

    Raises
    ------
    ColumnError
        If a quoted name differs in case from all columns and names of the statement.
    UnsupportedError
        If names that differ in case only stand for different things.
    """
    from sqlglot import expressions as exp

    if not place.names.has_case:
        return
    sources = list(dict.fromkeys(columns))
    defined = [name.this for name in node.find_all(exp.Identifier) if not isinstance(name.parent, exp.Column)]
    for column in node.find_all(exp.Column):
        if isinstance(column.this, exp.Star):
            continue
        is_quoted, name = bool(column.this.args.get("quoted")), str(column.name)
        candidates = [*sources, *map(str, defined)] if is_quoted else sources
        near = {candidate for candidate in candidates if candidate.lower() == name.lower()}
        if is_quoted and name not in near:
            raise place.marked(ColumnError(None, name, sources, table="the query"), column.this)
        if len(near) > 1:
            what = "names that differ only in case are not supported in what DuckDB does"
            raise place.refused(what, column, "Rename one of them.")


def identifier(name: str, place: Place) -> Identifier:
    """Return a node of a name that equals only itself, where the dialect has such names."""
    from sqlglot import expressions as exp

    return exp.Identifier(this=Quoted(name) if place.names.has_case else name, quoted=True)


def select_all(table: str, place: Place, columns: Sequence[str] = ()) -> Select:
    """Return a SELECT of all rows of a table."""
    from sqlglot import expressions as exp

    items = [exp.Column(this=identifier(column, place)) for column in columns]
    source = exp.Table(this=identifier(table, place))
    return exp.Select(expressions=items or [exp.Star()], from_=exp.From(this=source))


def with_ctes(node: Node, ctes: Iterable[Node], is_recursive: bool) -> Node:
    """Return a copy of a query with common table expressions in front of its own."""
    from sqlglot import expressions as exp

    copy = node.copy()
    first = [cte.copy() for cte in ctes]
    inner: With | None = copy.args.get("with_")
    if not first:
        return copy
    if inner is not None:
        is_recursive = is_recursive or bool(inner.args.get("recursive"))
        first += inner.expressions
    copy.set("with_", exp.With(expressions=first, recursive=is_recursive))
    return copy


def reads(node: Node, name: str, place: Place) -> bool:
    """Return whether a query names a relation."""
    from sqlglot import expressions as exp

    return any(place.names.key(table.name) == place.names.key(name) for table in node.find_all(exp.Table))


def is_block(node: Node) -> bool:
    """Return whether a query is one SELECT whose rows the engine may reduce."""
    from sqlglot import expressions as exp

    return isinstance(node, exp.Select) and (
        bool(node.args.get("joins")) or node.args.get("where") is not None or node.args.get("group") is not None
    )


def items_of_from(select: Node) -> list[Node]:
    """Return the relations of FROM."""
    start = select.args.get("from_")
    return [] if start is None else [start.this, *(join.this for join in select.args.get("joins") or ())]


def subqueries(select: Node) -> Iterator[Node]:
    """Yield the outermost queries of a SELECT outside of FROM and WITH."""
    from sqlglot import expressions as exp

    for name, value in select.args.items():
        if name in ("from_", "with_"):
            continue
        waiting = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr)]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
                yield node
            elif isinstance(node, exp.Join):
                waiting += [part for key, part in node.args.items() if key == "on" and isinstance(part, exp.Expr)]
            else:
                waiting += node.iter_expressions()


@dataclass(frozen=True)
class Relation:
    """A relation of FROM with its columns."""

    alias: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Exposure:
    """A column that the core of a block gives to its tail.

    Attributes
    ----------
    relation
        Position of its relation in FROM; None if the column is one that USING merges.
    column
        Its name in the relation.
    name
        Its name in the rows of the core.
    """

    relation: int | None
    column: str
    name: str


class Block:
    """A SELECT, and the relations of its FROM.

    Attributes
    ----------
    select
        The query, which `replace_core` changes.
    relations
        The relations of FROM, in their order.
    """

    def __init__(self, select: Select, relations: Sequence[Relation], place: Place) -> None:
        self.select = select
        self.relations = tuple(relations)
        self.place = place
        self.keys = [place.names.key(relation.alias) for relation in relations]

    def is_plain(self) -> bool:
        """Return whether all parts of FROM and all names are of kinds that are understood here."""
        from sqlglot import expressions as exp

        for join in self.select.args.get("joins") or ():
            if join.args.get("kind") not in (None, "", "INNER", "OUTER", "CROSS") or join.args.get("pivots"):
                return False
            if join.args.get("method") not in (None, "", "NATURAL"):
                return False
        if any(item.args.get("joins") or item.args.get("pivots") for item in items_of_from(self.select)):
            return False
        if len(set(self.keys)) < len(self.keys) or any(key in ("", "*") for key in self.keys):
            return False
        if self.select.args.get("laterals") or next(self.select.find_all(exp.Columns), None) is not None:
            return False
        columns = {self.place.names.key(column) for relation in self.relations for column in relation.columns}
        for column, hidden in self._columns():
            if isinstance(column, exp.Star):
                continue
            if column.args.get("db") or column.args.get("join_mark"):
                return False
            if isinstance(column.this, exp.Star):
                if self._stars_of(column) is None:
                    return False
            elif column.args.get("table"):
                key = self.place.names.key(column.args["table"].name)
                if key not in self.keys and key not in hidden and key in columns:
                    return False  # a field of a struct
            elif self.place.names.key(column.name) in self.keys and self.place.names.key(column.name) not in columns:
                return False  # a row as a struct
        return self._merged() is not None and all(self._is_plain_star(item) for item in self.select.expressions)

    def _is_plain_star(self, item: Node) -> bool:
        from sqlglot import expressions as exp

        star = item.this if isinstance(item, exp.Column) else item
        if not isinstance(star, exp.Star):
            return True
        return not any(star.args.get(part) for part in ("except_", "replace", "rename")) and not self._merged()

    def _stars_of(self, column: Node) -> int | None:
        """Return the position of the relation of ``r.*``."""
        key = self.place.names.key(column.args["table"].name) if column.args.get("table") else None
        return self.keys.index(key) if key in self.keys else None

    def _merged(self) -> list[str] | None:
        """Return the columns that USING and NATURAL merge; None if one of them cannot be named."""
        merged: dict[str, None] = {}
        seen: set[str] = {self.place.names.key(column) for column in self.relations[0].columns}
        joins: list[Node] = self.select.args.get("joins") or []
        for join, relation in zip(joins, self.relations[1:], strict=True):
            here = {self.place.names.key(column) for column in relation.columns}
            if join.args.get("method") == "NATURAL":
                merged.update(dict.fromkeys(sorted(seen & here)))
            using: list[Node] = join.args.get("using") or []
            merged.update(dict.fromkeys(self.place.names.key(node.name) for node in using))
            seen |= here
        return list(merged) if merged.keys() <= seen else None

    def _columns(self, left_out: Sequence[Node] = ()) -> Iterator[tuple[Node, frozenset[str]]]:
        """Yield columns outside of FROM and `left_out` with the relations of subqueries around."""
        from sqlglot import expressions as exp

        waiting: list[tuple[Node, frozenset[str]]] = [
            (part, frozenset())
            for name, value in self.select.args.items()
            if name not in ("from_", "with_", "joins")
            for part in (value if isinstance(value, list) else [value])
            if isinstance(part, exp.Expr)
        ]
        for join in self.select.args.get("joins") or ():
            waiting += [(part, frozenset()) for part in (join.args.get("on"),) if part is not None]
        while waiting:
            node, hidden = waiting.pop()
            if any(node is other for other in left_out):
                continue
            if isinstance(node, (exp.Column, exp.Star)):
                yield node, hidden
                continue
            if isinstance(node, exp.Select):
                names = (self.place.names.key(item.alias_or_name) for item in items_of_from(node))
                hidden = hidden | frozenset(names)
            waiting += [(child, hidden) for child in node.iter_expressions()]

    def exposures(self, conditions: Sequence[Node]) -> list[Exposure]:
        """Return the columns that the block may read outside of the conditions of its core."""
        from sqlglot import expressions as exp

        merged = self._merged() or []
        result: dict[tuple[int | None, str], Exposure] = {}
        for column, hidden in sorted(self._columns(conditions), key=lambda pair: bool(pair[0].args.get("table"))):
            if isinstance(column, exp.Star):
                if column.parent is self.select:
                    for position, relation in enumerate(self.relations):
                        for name in relation.columns:
                            self._expose(result, position, name)
            elif isinstance(column.this, exp.Star):
                star_of = self._stars_of(column)
                if star_of is not None and not hidden:
                    for name in self.relations[star_of].columns:
                        self._expose(result, star_of, name)
            elif column.args.get("table"):
                key = self.place.names.key(column.args["table"].name)
                if key in self.keys and key not in hidden:
                    position = self.keys.index(key)
                    for name in self._matching(column, position):
                        self._expose(result, position, name)
            else:
                owners = [
                    (position, name)
                    for position in range(len(self.relations))
                    for name in self._matching(column, position)
                ]
                if self.place.names.key(column.name) in merged and owners:
                    name = owners[0][1]
                    result[None, self.place.names.key(name)] = Exposure(None, name, name)
                elif len(owners) == 1:
                    self._expose(result, *owners[0])
        if not result:
            self._expose(result, 0, self.relations[0].columns[0])
        return list(result.values())

    def _matching(self, column: Node, position: int) -> list[str]:
        is_quoted = bool(column.this.args.get("quoted"))
        return self.place.names.matching(column.name, is_quoted, self.relations[position].columns)

    def _expose(self, result: dict[tuple[int | None, str], Exposure], position: int, column: str) -> None:
        """Add a column, with the name of its relation too if several relations have its name."""
        key = self.place.names.key(column)
        owners = sum(any(self.place.names.key(name) == key for name in relation.columns) for relation in self.relations)
        name = column if owners == 1 else f"{self.relations[position].alias}.{column}"
        result.setdefault((position, key), Exposure(position, column, name))

    # conditions

    def conditions(self) -> list[Node]:
        """Return the conjuncts of WHERE, and those of ON that may be moved there."""
        where = self.select.args.get("where")
        result = [] if where is None else _conjuncts(where.this)
        for join in self.movable_joins():
            result += _conjuncts(join.args["on"])
        return result

    def movable_joins(self) -> list[Node]:
        """Return the inner joins whose ON may be a part of WHERE."""
        joins = self.select.args.get("joins") or ()
        if any(join.args.get("side") in ("RIGHT", "FULL") for join in joins):
            return []
        return [join for join in joins if join.args.get("on") is not None and not join.args.get("side")]

    def connects(self, conditions: Sequence[Node]) -> bool:
        """Return whether conditions and joins connect all relations: there is no cross product."""
        groups = list(range(len(self.relations)))

        def unite(positions: Iterable[int]) -> None:
            united = {groups[position] for position in positions}
            groups[:] = [min(united) if group in united else group for group in groups]

        movable = self.movable_joins()
        for number, join in enumerate(self.select.args.get("joins") or (), 1):
            if join.args.get("using") or join.args.get("method") == "NATURAL":
                unite((number - 1, number))
            elif join.args.get("on") is not None and join not in movable:
                for part in _conjuncts(join.args["on"]):
                    unite(self.relations_of(part))
        for condition in conditions:
            unite(self.relations_of(condition))
        return len(set(groups)) == 1

    def relations_of(self, condition: Node) -> list[int]:
        """Return the positions of the relations that a condition names."""
        from sqlglot import expressions as exp

        positions: dict[int, None] = {}
        for column in condition.find_all(exp.Column):
            if column.args.get("table"):
                key = self.place.names.key(column.args["table"].name)
                if key in self.keys:
                    positions[self.keys.index(key)] = None
            elif not isinstance(column.this, exp.Star):
                owners = [position for position in range(len(self.relations)) if self._matching(column, position)]
                positions.update(dict.fromkeys(owners if len(owners) == 1 else ()))
        return list(positions)

    def core(self, conditions: Sequence[Node], exposures: Sequence[Exposure]) -> Select:
        """Return the query of the core: these columns, under these conditions."""
        from sqlglot import expressions as exp

        items = []
        for exposure in exposures:
            table = None if exposure.relation is None else self.relations[exposure.relation].alias
            column = exp.Column(
                this=identifier(exposure.column, self.place), table=table and identifier(table, self.place)
            )
            items.append(exp.Alias(this=column, alias=identifier(exposure.name, self.place)))
        movable = self.movable_joins()
        joins = []
        for join in self.select.args.get("joins") or ():
            copy = join.copy()
            if join in movable or not (join.args.get("on") or join.args.get("using") or join.args.get("method")):
                for part in ("on", "side"):
                    copy.set(part, None)
                copy.set("kind", "CROSS")
            joins.append(copy)
        where = exp.Where(this=exp.and_(*conditions, copy=True, wrap=False)) if conditions else None
        return exp.Select(expressions=items, from_=self.select.args["from_"].copy(), joins=joins, where=where)

    def replace_core(self, table: str, exposures: Sequence[Exposure], remaining: Sequence[Node]) -> None:
        """Let the block read a table of the rows of its core, under the remaining conditions."""
        from sqlglot import expressions as exp

        exposed = {(exposure.relation, self.place.names.key(exposure.column)): exposure for exposure in exposures}
        where = exp.Where(this=exp.and_(*remaining, copy=True)) if remaining else None
        self.select.set("joins", [])
        self.select.set("where", where)
        items: list[Node] = []
        for item in self.select.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            if isinstance(star, exp.Star):
                position = self._stars_of(item) if isinstance(item, exp.Column) else None
                chosen = range(len(self.relations)) if position is None else (position,)
                items += [
                    self._read(table, exposed[number, self.place.names.key(column)])
                    for number in chosen
                    for column in self.relations[number].columns
                ]
            elif isinstance(item, exp.Column) and item.args.get("table"):
                key = self.place.names.key(item.args["table"].name)
                position = self.keys.index(key) if key in self.keys else -1
                exposure = exposed.get((position, self.place.names.key(item.name)))
                items.append(item if exposure is None else self._read(table, exposure))
            else:
                items.append(item)
        self.select.set("expressions", items)
        for column, hidden in list(self._columns()):
            if isinstance(column, exp.Star) or not column.args.get("table"):
                continue
            key = self.place.names.key(column.args["table"].name)
            if key not in self.keys or key in hidden:
                continue
            exposure = exposed.get((self.keys.index(key), self.place.names.key(column.name)))
            if exposure is not None:
                column.set("table", identifier(table, self.place))
                column.set("this", identifier(exposure.name, self.place))
        self.select.set("from_", exp.From(this=exp.Table(this=identifier(table, self.place))))

    def _read(self, table: str, exposure: Exposure) -> Node:
        """Return a selected column of the core's table, under the name that it had."""
        from sqlglot import expressions as exp

        column = exp.Column(this=identifier(exposure.name, self.place), table=identifier(table, self.place))
        label = exposure.column
        return column if exposure.name == label else exp.Alias(this=column, alias=identifier(label, self.place))


def _conjuncts(node: Node) -> list[Node]:
    from sqlglot import expressions as exp

    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return [node]


def shown_names(query: Node, columns: Sequence[str], place: Place) -> list[str]:
    """Return names for the columns of an answer, with short ones for calculations.

    They are those of the engine: of the function, or ``column`` and the position. Columns between two ``*`` keep their
    names.
    """
    from sqlglot import expressions as exp

    while isinstance(query, (exp.Subquery, exp.SetOperation)):
        query = query.this
    names = list(columns)
    if not isinstance(query, exp.Select):
        return names
    items = list(query.expressions)
    for step in (1, -1):
        for number in range(len(items)):
            position = number if step == 1 else -1 - number
            is_several = items[position].is_star or items[position].find(exp.Columns) is not None
            if is_several or number >= len(names):
                break
            if not isinstance(items[position].unnest(), (exp.Alias, exp.Column, exp.Aliases)):
                names[position] = calculation_name(items[position], position % len(names), place)
    return names

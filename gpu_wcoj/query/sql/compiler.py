"""The SQL compiler: statements, views, WITH, set operations, names of relations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import SqlSyntaxError, UsageError
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import Atom, Declaration, Directive, Expression, Rule, Rules
from gpu_wcoj.query.sql import conditions, expressions, select
from gpu_wcoj.query.sql import conditions as formulas
from gpu_wcoj.query.sql import scope as literals
from gpu_wcoj.query.sql import select as recursion
from gpu_wcoj.query.sql import select as selection
from gpu_wcoj.query.sql import select as sets
from gpu_wcoj.query.sql.coercion import unify_pair, unify_rows
from gpu_wcoj.query.sql.scope import Branch, Case, Context, Derived, Scope, Values
from gpu_wcoj.query.sql.select import GroupedScope, identity
from gpu_wcoj.query.sql.source import Place, check_parts, describe_node, unique
from gpu_wcoj.query.sql.source import statements as read

if TYPE_CHECKING:
    from sqlglot.expressions import Column as ColumnNode
    from sqlglot.expressions import Expr as Node


class Compiler(Context):
    """Compiler of the views of an SQL text to rules."""

    def __init__(self, place: Place, dialect: str, tables: Mapping[str, Mapping[str, str | None]]) -> None:
        super().__init__(place, dialect)
        self.tables = tables
        self.views: dict[str, Derived] = {}
        self.named_here: list[dict[str, Derived]] = []

    def query(self, node: Node, scope: Scope | None) -> Derived:
        """See `gpu_wcoj.query.sql.scope.Context.query`."""
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Subquery, exp.Paren)):
            check_parts(node, self.place, "this")
            return self.query(node.this, scope)
        self.named_here.append({})
        try:
            if node.args.get("with_") is not None:
                self.with_clause(node.args["with_"])
            if isinstance(node, exp.Select):
                return selection.select(self, node, scope)
            if isinstance(node, exp.SetOperation):
                return sets.combined(self, node, scope)
            if isinstance(node, exp.Values):
                return sets.listed(self, node, scope)
        finally:
            _ = self.named_here.pop()
        raise self.place.refused(
            f"{describe_node(node)} is not supported", node, "Write SELECT or CREATE VIEW name AS SELECT."
        )

    def with_clause(self, node: Node) -> None:
        """Compile the common table expressions of WITH."""
        check_parts(node, self.place, "expressions", "recursive")
        here = self.named_here[-1]
        for cte in node.expressions:
            check_parts(cte, self.place, "this", "alias", "materialized")
            name = cte.alias
            if self.place.names.key(name) in map(self.place.names.key, here):
                raise self.place.wrong(f"WITH names '{name}' twice", cte.args["alias"])
            names = [column.name for column in cte.args["alias"].args.get("columns") or ()]
            check_parts(cte.args["alias"], self.place, "this", "columns")
            if node.args.get("recursive") and recursion.reads(self, cte.this, name):
                here[name] = recursion.recursive(self, cte, names)
            else:
                here[name] = self.with_names(self.query(cte.this, None), names, cte)

    def with_names(self, derived: Derived, names: Sequence[str], node: Node) -> Derived:
        """Return a query result with its columns renamed."""
        if not names:
            return derived
        if len(names) != len(derived.columns):
            raise self.place.wrong(
                f"there are {len(names)} names for {len(derived.columns)} columns", node.args.get("alias") or node
            )
        return replace(derived, columns=unique(names, self.place.names))

    def relation(self, node: Node) -> Derived:
        """See `gpu_wcoj.query.sql.scope.Context.relation`."""
        for part in ("db", "catalog"):
            if node.args.get(part):
                raise self.place.refused(
                    "names with a schema or catalog are not supported", node, "Name the relation alone."
                )
        from sqlglot import expressions as exp

        if not isinstance(node.this, exp.Identifier):
            raise self.place.refused(f"the function {describe_node(node.this)} is not supported in FROM", node)
        name, is_quoted = node.this.this, bool(node.this.args.get("quoted"))
        for names_in_scope in reversed(self.named_here):
            for match in self.place.names.matching(name, is_quoted, names_in_scope):
                return names_in_scope[match]
        matches = self.place.names.matching(name, is_quoted, [*self.views, *self.tables], is_table=True)
        if len(matches) > 1:
            raise self.place.ambiguous("relation", node.this, matches)
        for match in matches:
            return self.views[match] if match in self.views else self.table(match)
        names = [
            *(relation_name for names_in_scope in self.named_here for relation_name in names_in_scope),
            *self.views,
            *self.tables,
        ]
        raise self.place.unknown(node.this, names, "relations")

    def table(self, name: str) -> Derived:
        """Return an input relation."""
        columns = self.tables[name]
        kinds = (None if kind is None else DataType(kind).value_name for kind in columns.values())
        terms = tuple(map(self.fresh, columns, kinds))
        return Derived(tuple(columns), ((Branch((Atom(name, terms),)), terms),))

    def truth(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """See `gpu_wcoj.query.sql.scope.Context.truth`."""
        return self.limited(conditions.truth(self, node, truth_value, scope, branch), node)

    def cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        """See `gpu_wcoj.query.sql.scope.Context.cases`."""
        leaf = self.leaf(node, scope, branch)
        return expressions.cases(self, node, scope, branch) if leaf is None else [leaf]

    def formula(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """See `gpu_wcoj.query.sql.scope.Context.formula`."""
        return formulas.formula(self, node, scope, branch)

    def value(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """See `gpu_wcoj.query.sql.scope.Context.value`."""
        branch, value = formulas.formula(self, node, scope, branch)
        return branch, formulas.nullable(branch, value)

    def leaf(self, node: Node, scope: Scope, branch: Branch) -> Case | None:
        """See `gpu_wcoj.query.sql.scope.Context.leaf`."""
        from sqlglot import expressions as exp

        if isinstance(scope, GroupedScope):
            case = self.grouped_case(node, scope, branch)
            if case is not None:
                return case
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return branch, self.column(node, scope, branch)
        if isinstance(node, exp.Subquery):
            return self.single(node, scope, branch)
        return None

    def column(self, node: ColumnNode, scope: Scope, branch: Branch) -> Expression:
        """Return the value of a column, also of an outer query that groups by it."""
        column_number = node.args.get("number")
        if column_number is None:
            column_number = scope.column(node, self.place)
        reach: Scope | None = scope
        while reach is not None and column_number not in branch.values:
            if isinstance(reach, GroupedScope):
                column_number = reach.column_numbers.get(("column", column_number), column_number)
            reach = reach.parent
        if column_number not in branch.values:
            raise self.place.refused(
                f"the column '{node.name}' of the outer query cannot be used here", node, "Name it in WHERE."
            )
        return branch.values[column_number]

    def single(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return the value of a one-row query: an aggregate without GROUP BY."""
        from sqlglot import expressions as exp

        query = node
        while isinstance(query, exp.Subquery):
            check_parts(query, self.place, "this")
            query = query.this
        is_one = isinstance(query, exp.Select) and select.is_grouped(query)
        if not is_one or query.args.get("group") or query.args.get("having") or len(query.expressions) != 1:
            raise self.place.refused(
                "a query as a value is supported with one aggregate, without GROUP BY and HAVING",
                node,
                "Join with the query in FROM.",
            )
        refused = (
            "a query as a value cannot refer to the outer query\n"
            "Write a subquery in FROM that groups by the columns that are compared, and join with it."
        )
        derived = self.query(query, Scope(parent=scope, outer_refused=refused))
        read, (value,) = self.reading(self.named(derived), derived)
        return branch.joined(read), value

    def grouped_case(self, node: Node, scope: GroupedScope, branch: Branch) -> Case | None:
        """Return the value of a key or an aggregate; None for any other expression."""
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Literal, exp.Alias, exp.Paren, exp.Null, exp.Boolean)):
            return None
        if isinstance(node, (exp.Subquery, exp.Query, exp.Exists)):
            return None
        plain = scope.plain
        if (
            isinstance(node, exp.Column)
            and node.args.get("number") is None
            and plain.resolve_local(node, self.place) is None
        ):
            item = None if node.args.get("table") else scope.named.get(self.place.names.key(node.name))
            return None if item is None else self.value(item, replace(scope, named={}), branch)
        column_number = scope.column_numbers.get(identity(self, node, plain))
        if column_number is not None:
            return branch, branch.values[column_number]
        if isinstance(node, exp.Column):
            raise self.place.wrong(
                f"the column '{node.name}' is neither grouped nor aggregated; name it in GROUP BY, or take its MIN",
                node,
            )
        return None

    def select_within(self, node: Node, scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
        """See `gpu_wcoj.query.sql.scope.Context.select_within`."""
        return selection.within_row(self, node, scope, branch)

    def literal(self, node: Node) -> Expression | None:
        """See `gpu_wcoj.query.sql.scope.Context.literal`."""
        return literals.literal(node, self.place)

    def unify_pair(self, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
        """See `gpu_wcoj.query.sql.scope.Context.unify_pair`."""
        return unify_pair(self, left, right, node)

    def unify_rows(
        self, rows: Sequence[tuple[Branch, Values]], nodes: Sequence[Node] = ()
    ) -> list[tuple[Branch, Values]]:
        """See `gpu_wcoj.query.sql.scope.Context.unify_rows`."""
        return unify_rows(self, rows, nodes)


# SQL text to `Rules`: statements, and the relations that they define.


TEXT_BYTES = 1_000_000
"""Longest text, in bytes of UTF-8."""
DIALECTS = (
    "duckdb", "postgres", "spark", "databricks", "redshift", "snowflake", "bigquery", "trino", "presto", "athena",
    "materialize", "risingwave",
)  # fmt: skip
"""Dialects whose comparisons, nulls and functions agree with those of the engine, except for NaN.

Here NaN equals itself and is larger than all numbers, as in DuckDB, PostgreSQL, Spark and Snowflake; in Trino, Presto,
Athena and BigQuery no comparison with NaN holds.
"""
ANSWER = "answer"
"""Name of the relation of a SELECT without CREATE VIEW."""


def parse(
    text: str,
    tables: Mapping[str, Sequence[str] | Mapping[str, str | None]],
    *,
    dialect: str = "duckdb",
    source: str = "<text>",
) -> Rules:
    """Compile views in SQL to rules, which are meant for a program with ``bag=True``.

    Parameters
    ----------
    text
        One or several ``CREATE VIEW name AS SELECT ...``, separated by ``;``, or a single SELECT.
    tables
        For each table the names of its columns, or their types by name, in Arrow's spelling (None if unknown).
    dialect
        One of `DIALECTS`. It determines the syntax, the comparison of names (see `gpu_wcoj.query.sql.source`), the
        types of ``/`` and AVG, the result of a double divided by 0, the mapping of UPPER and LOWER, and whether a
        backslash is an escape in LIKE.
    source
        The name of the text in messages.

    Raises
    ------
    SqlSyntaxError
        If the text is not valid SQL.
    UnknownRelationError, ColumnError
        If it names unknown relations or columns.
    UnsupportedError
        For SQL that a maintained view cannot have, with a replacement.
    TypeMismatchError
        If types do not fit.
    BackendUnavailableError
        If sqlglot is not installed.

    Examples
    --------
    >>> print(parse("SELECT e.src a, f.dst b FROM edge e JOIN edge f ON e.dst = f.src", {"edge": ["src", "dst"]}))
    .decl edge(src, dst)
    .decl answer(a, b)
    answer(a, b) :- edge(a, dst), edge(dst, b).
    .output answer
    """
    if not isinstance(text, str):
        raise UsageError.wrong_type("the query", text, "text (str)")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError.mismatch("the text", "is too long", f"{n_bytes:,} bytes", f"at most {TEXT_BYTES:,} bytes")
    place = Place(text, source, dialect)
    if half := re.search("[\\ud800-\\udfff]", text):
        what = f"the text contains an unpaired surrogate (U+{ord(half[0]):04X})"
        raise SqlSyntaxError(what, text, *place.span_at(half.start(), 1), source)
    schemas = {
        name: dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
        for name, columns in tables.items()
    }
    if dialect not in DIALECTS:
        raise UsageError.unknown_name("dialect", dialect, DIALECTS)
    for name in schemas:
        if "#" in name:
            problem = f"the table name '{name}' contains '#', which is reserved for helper relations"
            raise UsageError.with_parts(problem, subject="table", got=name, remedy="Rename it.")
    compiler = Compiler(place, dialect, schemas)
    views: dict[str, Derived] = {}
    try:
        named: dict[str, None] = {}
        for node in read(text, dialect, place):
            place.names.fold(node)
            named.update(dict.fromkeys(_tables(node, schemas, place)))
            name, derived = _statement(compiler, node, views)
            views[name] = derived
            compiler.views[name] = derived
            _ = compiler.named(derived, head=name)
        return _rules(compiler, views, schemas, named, source)
    except RecursionError:
        raise SqlSyntaxError("this nests too deep", text, 1, 1, 1, source) from None


def _statement(compiler: Compiler, node: Node, views: Mapping[str, Derived]) -> tuple[str, Derived]:
    from sqlglot import expressions as exp

    place = compiler.place
    if not isinstance(node, exp.Create):
        if not isinstance(node, (exp.Query, exp.Subquery, exp.Values)):
            raise place.refused(
                f"{describe_node(node)} is not supported", node, "Write SELECT or CREATE VIEW name AS SELECT."
            )
        if ANSWER in views:
            raise place.wrong("there are two queries without a name; write CREATE VIEW name AS for each", node)
        if place.names.matching(ANSWER, False, compiler.tables, is_table=True):
            raise place.wrong(
                f"a query without a name is '{ANSWER}', and so is a table; write CREATE VIEW name AS", node
            )
        return ANSWER, compiler.query(node, None)
    check_parts(node, place, "this", "kind", "expression", "replace", "exists", "with_")
    if node.args.get("kind") != "VIEW" or node.expression is None:
        raise place.refused(
            f"CREATE {node.args.get('kind')} is not supported", node, "Write CREATE VIEW name AS SELECT."
        )
    target, names = node.this, []
    if isinstance(target, exp.Schema):
        check_parts(target, place, "this", "expressions")
        names = [identifier.name for identifier in target.expressions]
        target = target.this
    check_parts(target, place, "this")
    name = target.name
    if "#" in name:
        raise place.wrong("the name of a view cannot have a '#'", target)
    is_quoted = bool(target.this.args.get("quoted")) if hasattr(target.this, "args") else False
    if place.names.matching(name, is_quoted, [*views, *compiler.tables], is_table=True):
        raise place.wrong(f"there is a relation '{name}' already", target)
    return name, compiler.with_names(compiler.query(node.expression, None), names, target)


def _tables(node: Node, table_names: Iterable[str], place: Place) -> Iterator[str]:
    """Yield the tables that a statement may name anywhere."""
    from sqlglot import expressions as exp

    for table in node.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            is_quoted = bool(table.this.args.get("quoted"))
            yield from place.names.matching(table.name, is_quoted, table_names, is_table=True)


def _rules(
    compiler: Compiler,
    views: Mapping[str, Derived],
    schemas: Mapping[str, Mapping[str, str | None]],
    named: Iterable[str],
    source: str,
) -> Rules:
    rules = _needed(compiler.rules, views)
    read = dict.fromkeys(atom.relation for rule in rules for atom in rule.read if atom.relation in schemas)
    unread = [name for name in named if name not in read]  # in conditions that never hold or are never evaluated
    columns = [(name, schemas[name]) for name in (*read, *unread)]
    inputs = [Declaration(name, tuple(types), tuple(types.values()), is_binding=False) for name, types in columns]
    outputs = [
        Declaration(str(name), tuple(map(str, derived.columns)), (None,) * len(derived.columns))
        for name, derived in views.items()
    ]
    made = Rules(
        tuple(rules), (*inputs, *outputs), tuple(views), directives=tuple(Directive("input", name) for name in unread)
    )
    check(made, source=source)
    return made


def _needed(rules: Sequence[Rule], outputs: Iterable[str]) -> list[Rule]:
    """Return the rules that outputs depend on."""
    reads: dict[str, set[str]] = {}
    for rule in rules:
        reads.setdefault(rule.head.relation, set()).update(atom.relation for atom in rule.read)
    needed: set[str] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += reads.get(name, ())
    return [rule for rule in rules if rule.head.relation in needed]

"""The SQL compiler: statements, views, WITH, set operations, names of relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.query.ir import Atom, Expression
from gpu_wcoj.query.sql import conditions, expressions, formulas, literals, recursion, select, selection, sets
from gpu_wcoj.query.sql.alike import unify_pair, unify_rows
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.context import Case, Context, Derived
from gpu_wcoj.query.sql.known import check_parts, describe_node
from gpu_wcoj.query.sql.names import unique
from gpu_wcoj.query.sql.place import Place
from gpu_wcoj.query.sql.scope import Scope
from gpu_wcoj.query.sql.select import GroupedScope, identity

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
        """See `gpu_wcoj.query.sql.context.Context.query`."""
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
        """See `gpu_wcoj.query.sql.context.Context.relation`."""
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
        """See `gpu_wcoj.query.sql.context.Context.truth`."""
        return self.limited(conditions.truth(self, node, truth_value, scope, branch), node)

    def cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        """See `gpu_wcoj.query.sql.context.Context.cases`."""
        leaf = self.leaf(node, scope, branch)
        return expressions.cases(self, node, scope, branch) if leaf is None else [leaf]

    def formula(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """See `gpu_wcoj.query.sql.context.Context.formula`."""
        return formulas.formula(self, node, scope, branch)

    def value(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """See `gpu_wcoj.query.sql.context.Context.value`."""
        branch, value = formulas.formula(self, node, scope, branch)
        return branch, formulas.nullable(branch, value)

    def leaf(self, node: Node, scope: Scope, branch: Branch) -> Case | None:
        """See `gpu_wcoj.query.sql.context.Context.leaf`."""
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
        """See `gpu_wcoj.query.sql.context.Context.select_within`."""
        return selection.within_row(self, node, scope, branch)

    def literal(self, node: Node) -> Expression | None:
        """See `gpu_wcoj.query.sql.context.Context.literal`."""
        return literals.literal(node, self.place)

    def unify_pair(self, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
        """See `gpu_wcoj.query.sql.context.Context.unify_pair`."""
        return unify_pair(self, left, right, node)

    def unify_rows(
        self, rows: Sequence[tuple[Branch, Values]], nodes: Sequence[Node] = ()
    ) -> list[tuple[Branch, Values]]:
        """See `gpu_wcoj.query.sql.context.Context.unify_rows`."""
        return unify_rows(self, rows, nodes)

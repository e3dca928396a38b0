"""The compiler as a whole: statements, views, WITH, UNION, and what names of relations mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.sql import literals, recursion, select, sets, truth, values
from gpu_wcoj.query.sql.alike import alike, unified
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.context import Case, Context, Derived
from gpu_wcoj.query.sql.groups import GroupedScope, identity
from gpu_wcoj.query.sql.known import called, check_parts
from gpu_wcoj.query.sql.place import Place
from gpu_wcoj.query.sql.scope import Scope, matching
from gpu_wcoj.query.terms import Atom, Expression

if TYPE_CHECKING:
    from sqlglot.expressions import Expression as Node


class Compiler(Context):
    """The rules of a text in SQL, as far as they have been written down."""

    def __init__(self, place: Place, dialect: str, tables: Mapping[str, Mapping[str, str | None]]) -> None:
        super().__init__(place, dialect)
        self.tables = tables
        self.views: dict[str, Derived] = {}
        self.named_here: list[dict[str, Derived]] = []

    def query(self, node: Node, scope: Scope | None) -> Derived:
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Subquery, exp.Paren)):
            check_parts(node, self.place, "this")
            return self.query(node.this, scope)
        self.named_here.append({})
        try:
            if node.args.get("with_") is not None:
                self.with_clause(node.args["with_"])
            if isinstance(node, exp.Select):
                return select.select(self, node, scope)
            if isinstance(node, exp.SetOperation):
                return sets.combined(self, node, scope)
            if isinstance(node, exp.Values):
                return sets.listed(self, node, scope)
        finally:
            _ = self.named_here.pop()
        raise self.place.refused(
            f"{called(node)} is not supported", node, "Write SELECT or CREATE VIEW name AS SELECT."
        )

    def with_clause(self, node: Node) -> None:
        """Take in what WITH names."""
        check_parts(node, self.place, "expressions", "recursive")
        here = self.named_here[-1]
        for one in node.expressions:
            check_parts(one, self.place, "this", "alias")
            name = one.alias
            if name in here:
                raise self.place.wrong(f"WITH names '{name}' twice", one.args["alias"])
            names = [column.name for column in one.args["alias"].args.get("columns") or ()]
            check_parts(one.args["alias"], self.place, "this", "columns")
            if node.args.get("recursive") and recursion.reads(one.this, name):
                here[name] = recursion.recursive(self, one, names)
            else:
                here[name] = self.with_names(self.query(one.this, None), names, one)

    def with_names(self, derived: Derived, names: Sequence[str], node: Node) -> Derived:
        """What a query gives, its columns under other names."""
        if not names:
            return derived
        if len(names) != len(derived.columns):
            raise self.place.wrong(
                f"there are {len(names)} names for {len(derived.columns)} columns", node.args.get("alias") or node
            )
        return Derived(select.unique(names), derived.branches, derived.head)

    def relation(self, node: Node) -> Derived:
        for part in ("db", "catalog"):
            if node.args.get(part):
                raise self.place.refused(
                    "names with a schema or catalog are not supported", node, "Name the relation alone."
                )
        from sqlglot import expressions as exp

        if not isinstance(node.this, exp.Identifier):
            raise self.place.refused(f"the function {called(node.this)} is not supported in FROM", node)
        name, is_quoted = node.this.this, bool(node.this.args.get("quoted"))
        for known in [*reversed(self.named_here), self.views]:
            for one in matching(name, is_quoted, known):
                return known[one]
        for one in matching(name, is_quoted, self.tables):
            return self.table(one)
        names = [*(one for known in self.named_here for one in known), *self.views, *self.tables]
        raise self.place.unknown(node.this, names, "relations")

    def table(self, name: str) -> Derived:
        """An input relation."""
        columns = self.tables[name]
        terms = tuple(self.fresh(column, kind) for column, kind in columns.items())
        return Derived(tuple(columns), ((Branch((Atom(name, terms),)), terms),))

    def truth(self, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
        return self.limited(truth.truth(self, node, wanted, scope, branch), node)

    def cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        from sqlglot import expressions as exp

        if isinstance(node, exp.Column) and node.args.get("number") is not None and not isinstance(scope, GroupedScope):
            return [(branch, branch.values[node.args["number"]])]
        if isinstance(scope, GroupedScope):
            found = self.grouped_case(node, scope, branch)
            if found is not None:
                return found
        return values.cases(self, node, scope, branch)

    def grouped_case(self, node: Node, scope: GroupedScope, branch: Branch) -> list[Case] | None:
        """The value of a key or an aggregate; None if it is something else, made of them."""
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Literal, exp.Alias, exp.Paren, exp.Null, exp.Boolean)):
            return None
        if isinstance(node, (exp.Subquery, exp.Query, exp.Exists)):
            return None
        assert scope.known is not None
        plain = Scope(scope.sources, scope.visible, scope.around, scope.outer_refused)
        number = scope.known.get(identity(self, node, plain))
        if number is not None:
            return [(branch, branch.values[number])]
        if isinstance(node, exp.Column):
            if node.args.get("number") is None and plain.own(node, self.place) is None:
                return None
            raise self.place.wrong(
                f"the column '{node.name}' is neither grouped nor aggregated; name it in GROUP BY, or take its MIN",
                node,
            )
        return None

    def select_within(self, node: Node, scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
        return select.within_row(self, node, scope, branch)

    def literal(self, node: Node) -> Expression | None:
        return literals.literal(node, self.place)

    def alike(self, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
        return alike(self, left, right, node)

    def unified(self, found: list[Case], node: Node) -> list[Case]:
        return unified(self, found, node)

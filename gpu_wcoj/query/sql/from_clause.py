"""FROM: relations and their joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.query.ir import NULL, Atom, Expression
from gpu_wcoj.query.sql.conditions import TRUE_VALUE
from gpu_wcoj.query.sql.expressions import Expressions
from gpu_wcoj.query.sql.scope import Branch, Derived, Scope, Source
from gpu_wcoj.query.sql.source import check_parts, describe_node, unique

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node
    from sqlglot.expressions import Join


MAX_BRANCHES_OF_SIDE = 8
"""Most branches of a side of an outer join; a side with more becomes a relation."""


@dataclass(frozen=True)
class Joined:
    """Joined relations: the names in scope, and the rows as branches.

    Attributes
    ----------
    deferred
        Conditions of inner joins that use columns of the outer query.
    """

    scope: Scope
    branches: list[Branch]
    deferred: tuple[Node, ...] = ()


def _is_join(node: Node) -> bool:
    """Return whether a node is a join in parentheses rather than a query."""
    from sqlglot import expressions as exp

    if not isinstance(node, exp.Subquery):
        return False
    return isinstance(node.this, exp.Table) or (isinstance(node.this, exp.Subquery) and _is_join(node.this))


class FromClause(Expressions):
    """FROM, as the columns in scope and the branches of its rows."""

    def from_clause(self, select: Node, around: Scope | None) -> Joined:
        """Compile FROM with its joins; `around` is the scope of the outer query."""
        first = select.args.get("from_")
        if first is None:
            return Joined(Scope(parent=around), [self.unit()])
        check_parts(first, self.place, "this")
        groups: list[tuple[Node, list[Join]]] = [(first.this, [])]
        for join in select.args.get("joins") or ():
            if self._is_comma(join):
                groups.append((join.this, []))
            else:
                groups[-1][1].append(join)
        result: Joined | None = None
        early = self._early_conditions(select)
        for start, joins in groups:
            chain = self._chain(start, joins, around, early)
            result = chain if result is None else self._crossed(result, chain, start)
        assert result is not None
        return result

    def relation(self, node: Node) -> Derived:
        """Return the table, view or common table expression that a name refers to."""
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

    def _is_comma(self, join: Join) -> bool:
        if any(join.args.get(part) for part in ("method", "side", "kind", "on", "using")):
            return False
        word = self.place.word_before(join.this)
        if word != ",":
            raise self.place.wrong("this join has no condition; write ON or USING, or CROSS JOIN", join.this)
        return True

    def _chain(self, start: Node, joins: Sequence[Join], around: Scope | None, early: Sequence[Node]) -> Joined:
        result = self._from_item(start, around)
        for join in joins:
            if early and join.args.get("side") == "LEFT":
                result = self._filtered_early(result, early)
            result = self._joined(result, join, around)
        return result

    def _early_conditions(self, select: Node) -> list[Node]:
        """Return the conjuncts of WHERE that may be applied before a LEFT JOIN.

        They are applied once all their relations are joined.

        A RIGHT or FULL JOIN after them would preserve rows that match a row which is filtered out.
        """
        from sqlglot import expressions as exp

        where, sides = select.args.get("where"), {join.args.get("side") for join in select.args.get("joins") or ()}
        if where is None or "LEFT" not in sides or sides & {"RIGHT", "FULL"}:
            return []
        parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        return [
            part
            for part in parts
            if next(part.find_all(exp.Query), None) is None
            and all(column.args.get("table") for column in part.find_all(exp.Column))
            and next(part.find_all(exp.Column), None) is not None
        ]

    def _filtered_early(self, joined: Joined, early: Sequence[Node]) -> Joined:
        """Apply the conditions of WHERE whose relations are joined already."""
        from sqlglot import expressions as exp

        branches = joined.branches
        for part in early:
            tables = [column.args["table"] for column in part.find_all(exp.Column)]
            if id(part) in self.applied or any(joined.scope.source(table, self.place) is None for table in tables):
                continue
            self.applied[id(part)] = part
            branches = [after for branch in branches for after in self.truth(part, TRUE_VALUE, joined.scope, branch)]
        branches = branches or [branch.never() for branch in joined.branches[:1]]
        return replace(joined, branches=branches)

    def _from_item(self, node: Node, around: Scope | None) -> Joined:
        """Compile one relation of FROM: a table, a view, a subquery, or a join in parentheses."""
        from sqlglot import expressions as exp

        place = self.place
        if isinstance(node, (exp.Lateral, exp.Unnest)):
            raise place.refused(
                f"{'a lateral join' if isinstance(node, exp.Lateral) else 'UNNEST'} is not supported",
                node,
                "Join with a subquery that does not refer to the relations beside it.",
            )
        if isinstance(node, exp.Table):
            check_parts(node, place, "this", "alias", "joins", "db", "catalog")
            derived = self.relation(node)
            result = self._with_alias(derived, node, node.name, around)
            return self._with_nested_joins(result, node, around)
        if _is_join(node):
            check_parts(node, place, "this", "alias", "joins")
            result = self._from_item(node.this, around)
            if node.args.get("alias") is not None:
                result = self._renamed(result, node)
            return self._with_nested_joins(result, node, around)
        if isinstance(node, (exp.Subquery, exp.Values)):
            if isinstance(node, exp.Subquery):
                check_parts(node, place, "this", "alias", "joins")
            lateral = Scope(parent=around, outer_refused="a subquery in FROM cannot refer to the outer query")
            derived = self.query(node.this if isinstance(node, exp.Subquery) else node, lateral)
            result = self._with_alias(derived, node, node.alias or "subquery", around)
            return self._with_nested_joins(result, node, around)
        raise place.refused("this is not supported in FROM", node, "Name a relation, or write a subquery.")

    def _renamed(self, joined: Joined, node: Node) -> Joined:
        """Return joined relations under one name, which hides their names."""
        alias = node.args["alias"]
        check_parts(alias, self.place, "this")
        names = unique([name for name, _ in joined.scope.visible], self.place.names)
        columns = tuple((name, column) for name, (_, column) in zip(names, joined.scope.visible, strict=True))
        scope = Scope((Source(alias.name, columns),), columns, joined.scope.parent, joined.scope.outer_refused)
        return replace(joined, scope=scope)

    def _with_nested_joins(self, joined: Joined, node: Node, around: Scope | None) -> Joined:
        """Add the joins that are nested in the node of a relation."""
        for join in node.args.get("joins") or ():
            if self._is_comma(join):
                joined = self._crossed(joined, self._from_item(join.this, around), join.this)
            else:
                joined = self._joined(joined, join, around)
        return joined

    def _with_alias(self, derived: Derived, node: Node, name: str, around: Scope | None) -> Joined:
        alias = node.args.get("alias")
        columns = derived.columns
        if alias is not None:
            check_parts(alias, self.place, "this", "columns")
            name = alias.name or name
            aliases = [identifier.name for identifier in alias.args.get("columns") or ()]
            if len(aliases) > len(columns):
                raise self.place.wrong(f"there are {len(aliases)} names for {len(columns)} columns", alias)
            columns = (*aliases, *columns[len(aliases) :])
        branch, values = self.read(derived)
        numbers = self.numbered(len(values))
        visible = tuple(zip(columns, numbers, strict=True))
        inside = Scope((Source(name, visible),), visible, around)
        self.column_kinds.update(zip(numbers, map(self.kind, values), strict=True))
        return Joined(inside, [branch.with_values(dict(zip(numbers, values, strict=True)))])

    def _both(self, left: Joined, right: Joined, node: Node) -> Scope:
        for source in right.scope.sources:
            key = self.place.names.key
            if key(source.name) in {key(left_source.name) for left_source in left.scope.sources}:
                raise self.place.wrong(
                    f"'{source.name}' stands twice in FROM; give one of them another name with AS", node
                )
        return replace(
            left.scope,
            sources=(*left.scope.sources, *right.scope.sources),
            visible=(*left.scope.visible, *right.scope.visible),
        )

    def _crossed(self, left: Joined, right: Joined, node: Node) -> Joined:
        scope = self._both(left, right, node)
        branches = self.limited([a.joined(b) for a in left.branches for b in right.branches], node)
        return Joined(scope, branches, (*left.deferred, *right.deferred))

    def _joined(self, left: Joined, join: Join, around: Scope | None) -> Joined:
        """Add one join: the matches, and the rows that an outer join preserves."""
        from sqlglot import expressions as exp

        place = self.place
        check_parts(join, place, "this", "method", "side", "kind", "on", "using")
        method, side, kind = (join.args.get(part) or "" for part in ("method", "side", "kind"))
        if (
            method not in ("", "NATURAL")
            or side not in ("", "LEFT", "RIGHT", "FULL")
            or kind not in ("", "INNER", "OUTER", "CROSS")
        ):
            raise place.refused(
                f"{' '.join(word for word in (method, side, kind) if word)} JOIN is not supported", join,
                "INNER, CROSS, NATURAL, LEFT, RIGHT and FULL joins are; "
                "for SEMI and ANTI, write EXISTS and NOT EXISTS.",
            )  # fmt: skip
        right = self._from_item(join.this, around)
        if side and (len(left.branches) > MAX_BRANCHES_OF_SIDE or len(right.branches) > MAX_BRANCHES_OF_SIDE):
            left, right = self._flat(left), self._flat(right)
        scope = self._both(left, right, join.this)
        names = list(self._shared(left, right, join, method))
        if method == "NATURAL" and not names:
            raise place.wrong("the two sides of NATURAL JOIN have no column in common; write ON, or CROSS JOIN", join)
        condition = join.args.get("on")
        if not names and condition is None and method != "NATURAL" and kind != "CROSS":
            raise place.wrong("this join has no condition; write ON or USING, or CROSS JOIN", join.this)

        deferred = [*left.deferred, *right.deferred]
        parts: list[Node] = []
        if condition is not None:
            parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
            outer = [part for part in parts if not side and self._is_outer(part, scope)]
            parts = [part for part in parts if part not in outer]
            deferred += outer

        def matched(pair: Branch) -> list[Branch]:
            branch = pair
            for _, a, b in names:
                x, y = branch.values[a], branch.values[b]
                equal = None if NULL in (x, y) else branch.compared("=", *self.unify_pair(x, y, join))
                if equal is None:
                    return []
                branch = equal
            branches = [branch]
            for part in parts:
                branches = [after for before in branches for after in self.truth(part, "T", scope, before)]
            return branches

        pairs = [a.joined(b) for a in left.branches for b in right.branches]
        branches = [branch for pair in pairs for branch in matched(pair)]
        branches = branches or [pair.never() for pair in pairs[:1]]  # which gives the columns their types
        if side in ("LEFT", "FULL"):
            branches += self._unmatched(left, right, matched)
        if side in ("RIGHT", "FULL"):
            branches += self._unmatched(right, left, matched)
        scope, branches = self._merged(scope, branches, names, side)
        return Joined(scope, self.limited(branches, join), tuple(deferred))

    def _is_outer(self, node: Node, scope: Scope) -> bool:
        """Return whether a condition itself names a column of the outer query."""
        from sqlglot import expressions as exp

        if scope.parent is None:
            return False
        columns = [
            column
            for column in node.find_all(exp.Column)
            if column.find_ancestor(exp.Select) is node.find_ancestor(exp.Select)
        ]
        return any(scope.resolve_local(column, self.place) is None for column in columns)

    def _unmatched(
        self, preserved: Joined, opposite: Joined, matched: Callable[[Branch], list[Branch]]
    ) -> Iterator[Branch]:
        """Yield the rows of one side without a match, with nulls for the other side."""
        absent = {column: NULL for source in opposite.scope.sources for _, column in source.columns}
        absent |= {column: NULL for _, column in opposite.scope.visible}
        for a in preserved.branches:
            fixed = replace(a, fixed=a.fixed | a.variables)
            pairs = [pair for b in opposite.branches for pair in matched(fixed.joined(b))]
            for unmatched in self.antijoin(a, a, pairs):
                yield unmatched.with_values(absent)

    def _shared(self, left: Joined, right: Joined, join: Join, method: str) -> Iterator[tuple[str, int, int]]:
        """Yield the columns that USING or NATURAL compares: name, and number on both sides."""
        place = self.place
        if method == "NATURAL":
            for name, left_number in left.scope.visible:
                right_columns = place.names.counterparts(name, [right_name for right_name, _ in right.scope.visible])
                left_columns = place.names.counterparts(name, [left_name for left_name, _ in left.scope.visible])
                if not right_columns:
                    continue
                if len(left_columns) > 1 or len(right_columns) > 1:
                    raise place.wrong(f"'{name}' stands for several columns of this join; write ON", join)
                yield name, left_number, dict(right.scope.visible)[right_columns[0]]
            return
        from sqlglot import expressions as exp

        seen: list[str] = []
        for node in join.args.get("using") or ():
            if not isinstance(node.this, (str, exp.Identifier)):
                raise place.wrong("USING takes names of columns", node)
            if place.names.key(node.name) in seen:
                raise place.wrong(f"USING names '{node.name}' twice", node)
            seen.append(place.names.key(node.name))
            column = node if isinstance(node, exp.Column) else exp.Column(this=node)
            pair = []
            for side in (left, right):
                column_number = side.scope.resolve_local(column, place)
                if column_number is None:
                    raise replace(side.scope, parent=None).unknown(column, place)
                pair.append(column_number)
            yield node.name, pair[0], pair[1]

    def _merged(
        self, scope: Scope, branches: list[Branch], names: list[tuple[str, int, int]], side: str
    ) -> tuple[Scope, list[Branch]]:
        """Merge the columns of USING and NATURAL: each has the value of the side that has one.

        In DuckDB they stay where the left side has them; elsewhere they come first.
        """
        visible = list(scope.visible)
        merged: list[int] = []
        for _, a, b in names:
            (column_number,) = self.numbered(1)
            place = next(i for i, entry in enumerate(visible) if entry[1] == a)
            visible[place] = (visible[place][0], column_number)
            visible = [entry for entry in visible if entry[1] != b]
            merged.append(column_number)
            updated = []
            for branch in branches:
                left, right = branch.values[a], branch.values[b]
                value = right if side == "RIGHT" or (left == NULL and side == "FULL") else left
                updated.append(branch.with_values({column_number: value}))
            branches = updated
        if self.dialect != "duckdb":
            visible.sort(key=lambda entry: merged.index(entry[1]) if entry[1] in merged else len(merged))
        return replace(scope, visible=tuple(visible)), branches

    def _flat(self, joined: Joined) -> Joined:
        """Return joined relations as one branch, which reads a relation of its rows."""
        if len(joined.branches) <= 1:
            return joined
        columns = {column: name for source in joined.scope.sources for name, column in source.columns}
        columns |= {column: name for name, column in joined.scope.visible}
        rows: list[tuple[Branch, tuple[Expression, ...]]] = [
            (replace(branch, values={}), tuple(branch.values[column] for column in columns))
            for branch in joined.branches
        ]
        branch, values = self.read(Derived(tuple(columns.values()), tuple(rows)))
        return Joined(joined.scope, [branch.with_values(dict(zip(columns, values, strict=True)))])

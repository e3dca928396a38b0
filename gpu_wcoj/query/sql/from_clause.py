"""FROM: relations and their joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.query.ir import NULL, Atom, Expression
from gpu_wcoj.query.sql.conditions import TRUE_VALUE
from gpu_wcoj.query.sql.expressions import Expressions
from gpu_wcoj.query.sql.pivot import unfolded
from gpu_wcoj.query.sql.scope import Branch, Derived, OuterReferenceError, Scope, Source, column_name
from gpu_wcoj.query.sql.source import check_parts, describe_node, is_grouped, is_unnest, windows_in

if TYPE_CHECKING:
    from sqlglot.expressions import Column as ColumnNode
    from sqlglot.expressions import Expr as Node
    from sqlglot.expressions import Join


MAX_SERIES = 1 << 16
"""Most values of a series of constants, which are rows of the program; not measured."""
MAX_BRANCHES_OF_SIDE = 8
"""Most branches of a side of an outer join; a side with more becomes a relation."""


@dataclass(frozen=True)
class Joined:
    """Joined relations: the names in scope, and the rows as branches.

    Attributes
    ----------
    deferred
        Conditions of inner joins that use columns of the outer query.
    links
        Columns of a relation before this one, and the columns here that are equal to them, or null with them.
    """

    scope: Scope
    branches: list[Branch]
    deferred: tuple[Node, ...] = ()
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class OuterRows:
    """The distinct rows of what a query refers to outside of it.

    Attributes
    ----------
    relation
        Has each row once, and its weight as a last column.
    numbers
        The numbers of the columns outside.
    kinds, non_null
        Their types, and whether they are never null.
    """

    relation: str
    numbers: tuple[int, ...]
    kinds: tuple[str | None, ...]
    non_null: tuple[bool, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns that a query which refers to these rows selects in addition."""
        return [f"outer#{i}" for i in range(len(self.numbers))]


OUTER = "outer rows"
"""Key of `OuterRows` in the notes of a node."""
REFERS_OUTSIDE = "a subquery in FROM cannot refer to the outer query"
"""The reason for which a subquery in FROM cannot name columns outside of it."""
_GLOBAL = ("expressions", "from_", "joins", "where")
"""The parts of a SELECT of aggregates without GROUP BY that each of its values needs."""


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
        first, outer = select.args.get("from_"), select.meta.get(OUTER)
        if first is None:
            return Joined(Scope(parent=around), [self.unit() if outer is None else self._read_outer(outer)])
        check_parts(first, self.place, "this")
        groups: list[tuple[Node, list[Join]]] = [(first.this, [])]
        for join in select.args.get("joins") or ():
            if self._is_comma(join):
                groups.append((join.this, []))
            else:
                groups[-1][1].append(join)
        result: Joined | None = None
        early = self._early_conditions(select)
        preserves_right = any(join.args.get("side") in ("RIGHT", "FULL") for join in select.args.get("joins") or ())
        of_outer = None if outer is None else Joined(Scope(parent=around), [self._read_outer(outer)])
        for start, joins in groups:
            before = of_outer if result is None and not preserves_right else result
            item = self._from_item(start, around, before)
            if before is not None and (item.links or result is None):
                item, result = self._crossed(before, item, start), None
            chain = self._chain(item, joins, around, early)
            result = chain if result is None else self._crossed(result, chain, start)
        assert result is not None
        if of_outer is not None and preserves_right:
            result = replace(
                result, branches=[each.joined(one) for each in of_outer.branches for one in result.branches]
            )
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
            what = f"the function '{self.place.text_of(node.this)}' is not supported in FROM"
            raise self.place.refused(what, node, "Pass a table of its rows.")
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

    def _chain(self, result: Joined, joins: Sequence[Join], around: Scope | None, early: Sequence[Node]) -> Joined:
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

    def _from_item(self, node: Node, around: Scope | None, before: Joined | None = None) -> Joined:
        """Compile one relation of FROM: a table, a view, a subquery, or a join in parentheses.

        `before` are the relations before it, to which a subquery may refer.
        """
        from sqlglot import expressions as exp

        place = self.place
        if node.args.get("pivots"):
            node = self._of_pivot(node, around)
        node = self._of_elements(node)
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            check_parts(node, place, "this", "alias")
            if before is None:
                outside = Scope(parent=around, outer_refused=REFERS_OUTSIDE)
                return self._with_alias(self.query(node.this, outside), node, node.alias or "subquery", around)
            return self.lateral(node.this, node, before.scope, before.branches) or self._with_alias(
                self.query(node.this, None), node, node.alias or "subquery", around
            )
        if isinstance(node, (exp.Lateral, exp.Unnest)):
            raise place.refused(
                f"{'LATERAL of a function' if isinstance(node, exp.Lateral) else 'UNNEST'} is not supported",
                node,
                "Join with a relation of a row for each element.",
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
            query = node.this if isinstance(node, exp.Subquery) else node
            outside = Scope(parent=around if before is None else before.scope, outer_refused=REFERS_OUTSIDE)
            try:
                derived = self.query(query.copy(), outside)
                result = self._with_alias(derived, node, node.alias or "subquery", around)
            except OuterReferenceError as error:
                if before is None or error.reason != REFERS_OUTSIDE:
                    raise
                # in other dialects, only LATERAL makes the relations before it visible
                names = before.scope if self.dialect == "duckdb" else Scope(parent=around)
                beside = self.lateral(query, node, names, before.branches)
                if beside is None:
                    raise
                result = beside
            return self._with_nested_joins(result, node, around)
        raise place.refused("this is not supported in FROM", node, "Name a relation, or write a subquery.")

    def _of_pivot(self, node: Node, around: Scope | None) -> Node:
        """Return a relation with PIVOT or UNPIVOT as a subquery."""
        from sqlglot import expressions as exp

        source = node.copy()
        (pivot, *more), joins = source.args["pivots"], source.args.get("joins")
        source.set("pivots", more)
        source.set("joins", None)
        query = unfolded(pivot, source, self.columns_of(source, around), self.place)
        alias = pivot.args.get("alias") or source.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        return exp.Subquery(this=query, alias=alias.copy(), joins=joins)

    def columns_of(self, source: Node, around: Scope | None) -> list[str]:
        """Return the columns of a relation of FROM."""
        return [name for name, _ in self._from_item(source.copy(), around).scope.visible]

    def _of_elements(self, node: Node) -> Node:
        """Return a list or series of FROM as a LATERAL query of its elements; another node as it is."""
        from sqlglot import expressions as exp

        call = node.this if isinstance(node, (exp.Lateral, exp.Table)) else node
        series, elements = isinstance(call, exp.GenerateSeries), call
        if isinstance(call, exp.Unnest) and len(call.expressions) == 1:
            (elements,) = call.expressions
        if not (series or elements is not call) or self.dialect not in ("duckdb", "postgres"):
            return node
        if call is not node:
            check_parts(node, self.place, "this", "alias")
        check_parts(call, self.place, "expressions", "alias", "start", "end", "step", "is_end_exclusive")
        alias = node.args.get("alias") or call.args.get("alias")
        name = "unnest"
        if series:
            self.check_series(call)
            name = "range" if call.args.get("is_end_exclusive") else "generate_series"
            bounds = [call.args[part] for part in ("start", "end", "step") if call.args.get(part) is not None]
            elements = exp.Anonymous(this=name, expressions=bounds)
        if alias is not None and alias.name and self.dialect == "postgres":
            name = alias.name
        item = exp.alias_(exp.Explode(this=elements.copy()), name, quoted=True)
        return exp.Lateral(this=exp.Subquery(this=exp.Select(expressions=[item])), alias=alias)

    def check_series(self, node: Node) -> None:
        """Raise for a series of constants with too many values, before DuckDB makes a list of them."""
        from sqlglot import expressions as exp

        for series in node.find_all(exp.GenerateSeries):
            text = series.sql(dialect="duckdb")
            if series.find(exp.Column) is None and sql_expressions.is_longer(text, MAX_SERIES):
                what = f"'{self.place.text_of(series)}' has more than {MAX_SERIES:,} values, which is not supported"
                raise self.place.refused(what, series, "Pass a table of its rows.")

    def _renamed(self, joined: Joined, node: Node) -> Joined:
        """Return joined relations under one name, which hides their names."""
        alias = node.args["alias"]
        check_parts(alias, self.place, "this")
        names = self.place.names.unique([name for name, _ in joined.scope.visible])
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
        pairs = [pair for a in left.branches for b in right.branches for pair in linked(a.joined(b), right.links)]
        branches = self.limited(pairs, node)
        return Joined(scope, branches, (*left.deferred, *right.deferred))

    def _joined(self, left: Joined, join: Join, around: Scope | None) -> Joined:
        """Add one join: the matches, and the rows that an outer join preserves."""
        from sqlglot import expressions as exp

        place = self.place
        check_parts(join, place, "this", "method", "side", "kind", "on", "using")
        method, side, kind = (join.args.get(part) or "" for part in ("method", "side", "kind"))
        if method == "ASOF" and side in ("", "LEFT") and kind in ("", "INNER", "OUTER"):
            return self._joined(left, self._as_lateral(join, left, around), around)
        if (
            method not in ("", "NATURAL")
            or side not in ("", "LEFT", "RIGHT", "FULL")
            or kind not in ("", "INNER", "OUTER", "CROSS", *(("SEMI", "ANTI") if side in ("", "LEFT") else ()))
        ):
            raise place.refused(
                f"{' '.join(word for word in (method, side, kind) if word)} JOIN is not supported", join,
                "INNER, CROSS, NATURAL, LEFT, RIGHT, FULL, SEMI, ANTI and ASOF joins are.",
            )  # fmt: skip
        right = self._from_item(join.this, around, left)
        if right.links and side in ("RIGHT", "FULL"):
            what = f"a {side} JOIN with a subquery that refers to the relations before it is not supported"
            raise place.refused(what, join, "Write LEFT JOIN, or join by conditions.")
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
            is_inner = not side and kind not in ("SEMI", "ANTI")
            outer = [part for part in parts if is_inner and self._is_outer(part, scope)]
            parts = [part for part in parts if part not in outer]
            deferred += outer

        def matched(pair: Branch) -> list[Branch]:
            branches = []
            for linked_pair in linked(pair, right.links):
                branch: Branch | None = linked_pair
                for _, a, b in names:
                    x, y = (NULL, NULL) if branch is None else (branch.values[a], branch.values[b])
                    branch = (
                        None if branch is None or NULL in (x, y) else branch.compared("=", *self.unify_pair(x, y, join))
                    )
                branches += [] if branch is None else [branch]
            for part in parts:
                branches = [after for before in branches for after in self.truth(part, "T", scope, before)]
            return branches

        if kind in ("SEMI", "ANTI"):
            chosen: list[Branch] = []
            for a in left.branches:
                fixed = replace(a, fixed=a.fixed | a.variables)
                matches = [pair for b in right.branches for pair in matched(fixed.joined(b))]
                chosen += (self.semijoin if kind == "SEMI" else self.antijoin)(a, a, matches)
            chosen = chosen or [a.never() for a in left.branches[:1]]
            return Joined(left.scope, self.limited(chosen, join), left.deferred)
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
        columns_of = branch.with_values(dict(zip(columns, values, strict=True)))
        return replace(joined, branches=[columns_of])

    def _as_lateral(self, join: Join, left: Joined, around: Scope | None) -> Join:
        """Return an ASOF join as a join with the first row that fulfils its conditions."""
        from sqlglot import expressions as exp

        place, item = self.place, join.this
        name = item.alias_or_name
        right = self._from_item(item.copy(), around).scope
        condition = join.args.get("on")
        parts = (
            []
            if condition is None
            else [part.copy() for part in condition.flatten()]
            if isinstance(condition, exp.And)
            else [condition.copy()]
        )
        names = [column.name for column in join.args.get("using") or ()]
        for position, column in enumerate(names, start=1):
            compared = exp.EQ if position < len(names) else exp.GTE
            (owner,) = [source.name for source in left.scope.sources if column in dict(source.columns)][:1] or [""]
            sides = exp.column(column, owner, quoted=True), exp.column(column, name, quoted=True)
            parts.append(compared(this=sides[0], expression=sides[1]))
        unequal = [part for part in parts if isinstance(part, (exp.GT, exp.GTE, exp.LT, exp.LTE))]
        if len(unequal) != 1:
            raise place.wrong("an ASOF join needs one condition with <, <=, > or >=, and equalities", join)
        is_greater = isinstance(unequal[0], (exp.GT, exp.GTE))
        sides_in = [
            all(right.resolve_local(column, place) is not None for column in side.find_all(exp.Column))
            for side in (unequal[0].this, unequal[0].expression)
        ]
        if sum(sides_in) != 1:
            what = "the inequality of an ASOF join needs a column of each side; name their relations"
            raise place.wrong(what, condition or join)
        term = unequal[0].this if sides_in[0] else unequal[0].expression
        where = parts[0]
        for part in parts[1:]:
            where = exp.And(this=where, expression=part)
        order = exp.Ordered(this=term.copy(), desc=is_greater != sides_in[0], nulls_first=False)
        query = exp.Select(
            expressions=[exp.Star()], from_=exp.From(this=item.copy()), where=exp.Where(this=where),
            order=exp.Order(expressions=[order]), limit=exp.Limit(expression=exp.Literal.number(1)),
        )  # fmt: skip
        lateral = exp.Lateral(
            this=exp.Subquery(this=query), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        )
        made: Join = exp.Join(this=lateral, side=join.args.get("side"), on=exp.Boolean(this=True))
        return made

    # Queries that refer to rows outside of them: they select, group and partition by these rows, too.

    def lateral(self, query: Node, named: Node, scope: Scope, branches: Sequence[Branch]) -> Joined | None:
        """Compile a query for each distinct row outside that it refers to; None if there is none.

        Parameters
        ----------
        named
            The node with the alias of the query.
        scope, branches
            The names outside, and the rows.
        """
        if self.recursing:
            what = "a subquery that refers to the relations beside it is not supported in a recursion"
            raise self.place.refused(what, query, "Join with it by conditions in WHERE.")
        outer = self.outer_rows(query, scope, branches)
        if outer is None:
            return None
        extended = self._extended(query.copy(), outer)
        result = self._with_alias(self.query(extended, scope), named, named.alias or "subquery", scope.parent)
        (source,) = result.scope.sources
        n = len(outer.numbers)
        columns = source.columns[:-n]
        inside = Scope((replace(source, columns=columns),), columns, scope.parent)
        links = tuple(zip(outer.numbers, (number for _, number in source.columns[-n:]), strict=True))
        return replace(result, scope=inside, links=links)

    def outer_rows(self, query: Node, scope: Scope, branches: Sequence[Branch]) -> OuterRows | None:
        """Return the rows of the columns outside that a query may refer to; None if there are none."""
        from sqlglot import expressions as exp

        key = self.place.names.key
        inside = {key(name.alias_or_name) for name in query.find_all(exp.Table, exp.Subquery) if name.alias_or_name}
        columns: dict[int, ColumnNode] = {}
        for column in query.find_all(exp.Column):
            if isinstance(column.this, exp.Star) or key(column.table) in inside:
                continue
            try:
                number = scope.column(column, self.place)
                _ = [self.column(column, scope, branch) for branch in branches]
            except GpuWcojError:
                continue  # a name inside, or one that is refused where it is read
            _ = columns.setdefault(number, column)
        if not columns:
            return None
        rows = [
            (replace(branch, values={}), tuple(self.column(column, scope, branch) for column in columns.values()))
            for branch in branches
        ]
        derived = Derived(tuple(column.name for column in columns.values()), tuple(rows))
        relation = self.distinct(self.named(derived, "outer"), len(columns))
        kinds = tuple(self.kind_of_column(values[i] for _, values in rows) for i in range(len(columns)))
        non_null = tuple(not any(branch.may_be_null(values[i]) for branch, values in rows) for i in range(len(columns)))
        return OuterRows(relation, tuple(columns), kinds, non_null)

    def _read_outer(self, outer: OuterRows) -> Branch:
        """Return a branch of the outer rows, with the numbers that their columns have outside."""
        terms = [self.fresh("outer", kind) for kind in outer.kinds]
        non_null = frozenset(term for term, is_given in zip(terms, outer.non_null, strict=True) if is_given)
        atom = Atom(outer.relation, (*terms, self.fresh("_")))
        values = dict(zip(outer.numbers, terms, strict=True))
        return Branch((atom,), non_null=non_null, safe=frozenset(terms) - non_null, values=values)

    def _extended(self, node: Node, outer: OuterRows) -> Node:
        """Return a query that selects, groups and partitions by the columns of outer rows, too.

        The query itself changes. They are the last columns. Aggregates without GROUP BY become queries as values, as
        they have a row for each outer row.
        """
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Subquery, exp.Paren)):
            check_parts(node, self.place, "this")
            return self._extended(node.this, outer)
        if node.args.get("with_") is not None:
            raise self.place.refused("WITH in a subquery that refers to the outer query is not supported", node)
        if isinstance(node, exp.SetOperation):
            for side in ("this", "expression"):
                node.set(side, self._extended(node.args[side], outer))
        elif isinstance(node, exp.Select):
            if is_grouped(node) and node.args.get("group") is None:
                node = self._values_of(node)
            self._group_by_outer(node, outer)
        else:
            raise self.place.refused(f"{describe_node(node)} cannot refer to the outer query", node)
        node.meta[OUTER] = outer
        return node

    def _values_of(self, node: Node) -> Node:
        """Return a SELECT of aggregates without GROUP BY as a SELECT of a query for each value."""
        from sqlglot import expressions as exp

        for part, value in node.args.items():
            if part not in (*_GLOBAL, "order", "distinct", "having", "limit", "offset") and value:
                what = f"{part.strip('_').upper()} with aggregates without GROUP BY, in a query that refers to the "
                raise self.place.refused(f"{what}outer query, is not supported", node, "Write GROUP BY.")

        def of_group(item: Node) -> Node:
            query = exp.Select(**{part: node.args.get(part) for part in _GLOBAL[1:]}).copy()
            query.set("expressions", [item.copy()])
            return exp.Subquery(this=query)

        items = []
        for position, item in enumerate(node.expressions, start=1):
            name = item.alias or column_name(item, position, Scope(), self.place)
            items.append(exp.Alias(this=of_group(item.unalias()), alias=exp.to_identifier(name, quoted=True)))
        having, cut = node.args.get("having"), {part: node.args.get(part) for part in ("limit", "offset")}
        return exp.Select(expressions=items, where=having and exp.Where(this=of_group(having.this)), **cut)

    def _group_by_outer(self, node: Node, outer: OuterRows) -> None:
        """Let a SELECT group and partition by the columns of outer rows, and select them last."""
        from sqlglot import expressions as exp

        def keys() -> list[Node]:
            return list(map(numbered_column, outer.names, outer.numbers))

        qualify = node.args.get("qualify")
        parts = node.expressions if qualify is None else [*node.expressions, qualify]
        for window in [window for part in parts for window in windows_in(part) if not is_unnest(window)]:
            if window.args.get("alias") is not None:
                what = "a named window in a query that refers to the outer query is not supported"
                raise self.place.refused(what, window, "Write the window in OVER (...).")
            window.set("partition_by", [*(window.args.get("partition_by") or ()), *keys()])
        group = node.args.get("group")
        if group is not None and not group.args.get("all"):
            group.set("expressions", [*group.expressions, *keys()])
        distinct = node.args.get("distinct")
        on = None if distinct is None else distinct.args.get("on")
        if distinct is not None and on is not None:
            distinct.set("on", exp.Tuple(expressions=[*(on.expressions or [on]), *keys()]))
        named = [exp.alias_(column, name, quoted=True) for column, name in zip(keys(), outer.names, strict=True)]
        node.set("expressions", [*node.expressions, *named])


def numbered_column(name: str, column_number: int) -> ColumnNode:
    """Return the node of a column by its number."""
    from sqlglot import expressions as exp

    column = exp.column(name, quoted=True)
    column.set("number", column_number)
    return column


def linked(branch: Branch, links: Sequence[tuple[int, int]]) -> list[Branch]:
    """Return the branches in which the columns of each link are equal, or both null."""
    branches = [branch]
    for outside, inside in links:
        branches = [after for one in branches for after in one.same(one.values[outside], one.values[inside])]
    return branches


def outer_names(node: Node) -> list[str]:
    """Return the names of the columns of outer rows that a query selects in addition."""
    outer: OuterRows | None = node.meta.get(OUTER)
    return [] if outer is None else outer.names

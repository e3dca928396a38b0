"""Queries: SELECT, WITH, set operations and VALUES.

A query that groups becomes a relation of keys and arguments, and one for each aggregate. Joins by keys treat null as
equal to null. An aggregate without any value is null, or 0 for a count: a rule derives it for groups that have only
nulls, and derives nothing if a column has never had a null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.errors import ColumnError, GpuWcojError, UnknownRelationError, UnsupportedError, counted
from gpu_wcoj.query.ir import (
    NULL,
    Atom,
    Call,
    Comparison,
    ComputedGroups,
    Constant,
    Expression,
    FirstRows,
    Rule,
    Sorting,
    Variable,
    variables_of,
)
from gpu_wcoj.query.sql.coercion import group_of, is_long, label
from gpu_wcoj.query.sql.conditions import TRUE_VALUE, added_to, binding, creation_order
from gpu_wcoj.query.sql.duckdb_calls import DuckDBCalls
from gpu_wcoj.query.sql.first_rows import (
    Ordering,
    distinct_on,
    keeps_first_rows,
    numbers_rows,
    read_stages,
    read_terms,
    without_first_rows,
)
from gpu_wcoj.query.sql.from_clause import (
    OUTER,
    REFERS_OUTSIDE,
    FromClause,
    Joined,
    linked,
    numbered_column,
    outer_names,
)
from gpu_wcoj.query.sql.pivot import unfolded
from gpu_wcoj.query.sql.scope import (
    ANSWER,
    MAX_BRANCHES,
    UNIT,
    Branch,
    Case,
    Derived,
    GroupedScope,
    OuterReferenceError,
    Scope,
    Values,
    column_name,
    substituted,
)
from gpu_wcoj.query.sql.source import (
    aggregates_in,
    check_parts,
    describe_node,
    has_query,
    is_grouped,
    is_unnest,
    refused_statement,
    windows_in,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Column as ColumnNode
    from sqlglot.expressions import Expr as Node


_ZERO = Constant(0)
ALIASES_REACH = ("duckdb", "snowflake")
"""Dialects in which the name of a selected expression can stand in the expressions after it, and in WHERE."""
DOUBLE_MEANS = ("spark", "databricks", "bigquery", "trino", "presto", "athena")
"""Dialects in which AVG of integers is a double."""


@dataclass(frozen=True)
class _Aggregate:
    """One aggregate: operation and column number of its argument, if it has one."""

    op: str
    argument: int | None
    is_distinct: bool


@dataclass(frozen=True)
class _ComputedAggregate:
    """One aggregate that DuckDB computes: its text over the columns of the base, and the call."""

    expression: str
    node: Node = field(compare=False)


class _Groups:
    """Helper relations of one grouping."""

    def __init__(self, compiler: DuckDBCalls, base: Derived, n_keys: int) -> None:
        self.compiler = compiler
        self.base = base
        self.n_keys = n_keys
        self.head = compiler.named(base, "group")
        self.results: dict[_Aggregate, str] = {}

    def joined(
        self, aggregates: Sequence[_Aggregate | _ComputedAggregate]
    ) -> tuple[Branch, Values, dict[_Aggregate | _ComputedAggregate, Expression]]:
        """Return a branch with a row for each group: the keys and the aggregates."""
        compiler = self.compiler
        keys = tuple(
            compiler.fresh(name, self.kind(column)) for column, name in enumerate(self.base.columns[: self.n_keys])
        )
        non_null = frozenset(key for column, key in enumerate(keys) if not self.may_be_null(column))
        atoms: list[Atom] = []
        value_of: dict[_Aggregate | _ComputedAggregate, Expression] = {}
        read_aggregates = [aggregate for aggregate in aggregates if isinstance(aggregate, _Aggregate)]
        computed = [aggregate for aggregate in aggregates if isinstance(aggregate, _ComputedAggregate)]
        if computed:
            value_of.update(zip(computed, self.read_computed(computed, keys, atoms), strict=True))
        elif not read_aggregates:
            read_aggregates = [_Aggregate("count", None, False)]
        solid: set[Variable] = set()
        for aggregate in read_aggregates:
            result = self.read(aggregate, keys, atoms)
            value_of[aggregate] = result
            if aggregate.op == "count" or (
                aggregate.argument is not None
                and self.n_keys
                and not self.may_be_null(self.n_keys + aggregate.argument)
            ):
                solid.add(result)
        return Branch(tuple(atoms), non_null=non_null | solid, safe=frozenset(keys) - non_null), keys, value_of

    def read_computed(
        self, aggregates: Sequence[_ComputedAggregate], keys: tuple[Variable, ...], atoms: list[Atom]
    ) -> list[Variable]:
        """Read the relation of aggregates that DuckDB computes; without keys, it always has a row."""
        compiler = self.compiler
        kinds = tuple(map(self.kind, range(len(self.base.columns))))
        returns = [compiler.bound_group(each.expression, kinds, each.node) for each in aggregates]
        head, n = compiler.helper("computed"), len(aggregates)
        expressions = tuple(each.expression for each in aggregates)
        compiler.computed_groups.append(
            ComputedGroups(
                head,
                self.head,
                self.n_keys,
                tuple(kind or "int64" for kind in kinds),
                expressions,
                tuple(kind.name for kind in returns),
                texts=tuple(compiler.place.text_of(each.node) for each in aggregates),
            )
        )
        results = [compiler.fresh("value", kind.name) for kind in returns]
        if not self.n_keys:
            name, has = compiler.helper("value"), compiler.helper("has")
            values = tuple(Variable(f"v{i}") for i in range(n))
            _ = compiler.unit()
            none = tuple(compiler.constant_of_no_rows(each.expression, kinds) for each in aggregates)
            compiler.rules += [
                Rule(Atom(name, values), (Atom(head, values),)),
                Rule(Atom(has, (_ZERO,)), (Atom(head, tuple(Variable(f"_#{i}") for i in range(n))),)),
                Rule(Atom(name, none), (Atom(UNIT, (Variable("_#1"),)),), (), (Atom(has, (_ZERO,)),)),
            ]
            head = name
        atoms.append(Atom(head, (*keys, *results)))
        return results

    def kind(self, column: int) -> str | None:
        return self.compiler.kind_of_column(values[column] for _, values in self.base.branches)

    def may_be_null(self, column: int) -> bool:
        return any(branch.may_be_null(values[column]) for branch, values in self.base.branches)

    def read(self, aggregate: _Aggregate, keys: tuple[Variable, ...], atoms: list[Atom]) -> Variable:
        head = self.result(aggregate)
        for atom in atoms:
            if atom.relation == head:
                return atom.terms[-1]  # type: ignore[return-value]
        kind = {"count": "int64", "avg": "double"}.get(aggregate.op) or self.sum_kind(aggregate)
        result = self.compiler.fresh(aggregate.op, kind)
        atoms.append(Atom(head, (*keys, result)))
        return result

    def sum_kind(self, aggregate: _Aggregate) -> str | None:
        assert aggregate.argument is not None
        kind = self.kind(self.n_keys + aggregate.argument)
        return "int64" if aggregate.op == "sum" and kind is not None and "int" in kind else kind

    def result(self, aggregate: _Aggregate) -> str:
        """Return the relation of the results of an aggregate, one for each group.

        A group without values has null, or 0 for a count.
        """
        relation = self.results.get(aggregate)
        if relation is not None:
            return relation
        if aggregate.op == "avg":
            return self.average(aggregate)
        compiler = self.compiler
        source, column = self.head, aggregate.argument
        n_columns = len(self.base.columns)
        if aggregate.is_distinct:
            source, column, n_columns = self.distinct(aggregate), 0, self.n_keys + 2
        name = self.results[aggregate] = compiler.helper(aggregate.op)
        keys = tuple(Variable(f"k{i}") for i in range(self.n_keys))
        value_terms = [Variable(f"_#{i}") for i in range(n_columns - self.n_keys)]
        value = Variable("v")
        call = Call("count", ()) if aggregate.op == "count" else Call(aggregate.op, (value,))
        tests: tuple[Comparison, ...] = ()
        if column is not None:
            value_terms[column] = value
            tests = (Comparison("!=", value, NULL),)
        read = Atom(source, (*keys, *value_terms))
        may_lack = column is not None and self.may_be_null(self.n_keys + (aggregate.argument or 0))
        if not may_lack and self.n_keys:
            compiler.rules.append(Rule(Atom(name, (*keys, call)), (read,)))
            return name
        aggregate_head, has = compiler.helper("agg"), compiler.helper("has")
        compiler.rules.append(Rule(Atom(aggregate_head, (*keys, call)), (read,), tests if may_lack else ()))
        safe = tuple(Variable(f"k{i}?") for i in range(self.n_keys))
        nothing = _ZERO if aggregate.op == "count" else NULL
        compiler.rules += [
            Rule(Atom(name, (*keys, value)), (Atom(aggregate_head, (*keys, value)),)),
            Rule(Atom(has, keys or (_ZERO,)), (Atom(aggregate_head, (*keys, Variable("_#1"))),)),
        ]
        if not self.n_keys:
            _ = compiler.unit()
            unit_atom = Atom(UNIT, (Variable("_#1"),))
            compiler.rules.append(Rule(Atom(name, (nothing,)), (unit_atom,), (), (Atom(has, (_ZERO,)),)))
            return name
        without = compiler.helper("null")
        value_terms[column or 0] = NULL  # type: ignore[call-overload]
        compiler.rules += [
            Rule(Atom(without, (*keys, Call("count", ()))), (Atom(source, (*keys, *value_terms)),)),
            Rule(Atom(name, (*safe, nothing)), (Atom(without, (*safe, Variable("_#1"))),), (), (Atom(has, safe),)),
        ]
        return name

    def distinct(self, aggregate: _Aggregate) -> str:
        """Return the relation of keys and one argument, each once, with their weight."""
        name = self.results.get(_Aggregate("each", aggregate.argument, True))
        if name is None:
            name = self.results[_Aggregate("each", aggregate.argument, True)] = self.compiler.helper("each")
            keys = tuple(Variable(f"k{i}") for i in range(self.n_keys))
            value_terms = [Variable(f"_#{i}") for i in range(len(self.base.columns) - self.n_keys)]
            value_terms[aggregate.argument or 0] = Variable("v")
            self.compiler.rules.append(
                Rule(Atom(name, (*keys, Variable("v"), Call("count", ()))), (Atom(self.head, (*keys, *value_terms)),))
            )
        return name

    def average(self, aggregate: _Aggregate) -> str:
        """Return the relation of sums divided by counts, as doubles; null if the sum is null."""
        sums = self.result(_Aggregate("sum", aggregate.argument, aggregate.is_distinct))
        counts = self.result(_Aggregate("count", aggregate.argument, aggregate.is_distinct))
        name = self.results[aggregate] = self.compiler.helper("avg")
        keys = tuple(Variable(f"k{i}?") for i in range(self.n_keys))
        total, count = Variable("s"), Variable("n")
        mean = Call("/", (Call("double", (total,)), Call("double", (count,))))
        plain = tuple(Variable(f"k{i}") for i in range(self.n_keys))
        self.compiler.rules += [
            Rule(Atom(name, (*keys, mean)), (Atom(sums, (*keys, total)), Atom(counts, (*keys, count)))),
            Rule(Atom(name, (*plain, NULL)), (Atom(sums, (*plain, NULL)),)),
        ]
        return name


def _marked(piece: Node, position: int | None) -> Node:
    """Return a column in place of an expression that has a position."""
    from sqlglot import expressions as exp

    return piece if position is None else exp.column(sql_expressions.column_name(position), quoted=True)


def _columns_outside(node: Node, calls: Sequence[Node]) -> Iterator[ColumnNode]:
    """Yield the columns of an expression that are not in one of these calls, or in a query."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        yield node
    elif node not in calls and not isinstance(node, (exp.Query, exp.Subquery)):
        for child in node.iter_expressions():
            yield from _columns_outside(child, calls)


def _shifted(aggregate: _Aggregate | _ComputedAggregate, n_keys: int) -> _Aggregate | _ComputedAggregate:
    """Return an aggregate over columns that follow `n_keys` more."""
    if isinstance(aggregate, _Aggregate):
        return aggregate
    shifted = re.sub(r'"\$(\d+)"', lambda match: f'"${int(match[1]) + n_keys}"', aggregate.expression)
    return replace(aggregate, expression=shifted)


_CORRELATED = "a query as a value refers to the outer query"
_ONLY_ROW = f"CASE WHEN count(*) > 1 THEN error('{sql_expressions.SEVERAL_ROWS}') ELSE first(\"{{}}\") END"
"""The value of the only row of a group."""
_MAX_CUBE = 6
"""Most columns of CUBE, which has a grouping set for each choice of them."""
_OF_DUCKDB = -1
"""Number of the columns of groups and rows in the text of a window function."""


def _over_group(window: Node) -> Node:
    """Return a window function over a group; the rows break ties."""
    from sqlglot import expressions as exp

    made = window.copy()
    if is_unnest(window):
        return made
    group, row = (exp.column(name, quoted=True) for name in (sql_expressions.GROUP, sql_expressions.ROW))
    for column in (group, row):
        column.set("number", _OF_DUCKDB)
    made.set("partition_by", [group])
    function = made.this
    while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
        function = function.this
    spec = made.args.get("spec")
    by_place = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
    if isinstance(function, by_place) or (spec is not None and str(spec.args.get("kind")).upper() == "ROWS"):
        order = made.args.get("order") or exp.Order(expressions=[])
        order.append("expressions", exp.Ordered(this=row, nulls_first=False))
        made.set("order", order)
    return made


PARTS = (
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "distinct",
    "with_",
    "kind",
    "operation_modifiers",
    "qualify",
    "windows",
)
_PARTS_OF_SETS = ("this", "expression", "distinct", "with_", "by_name")
_NOT_CORRELATED = "a query with aggregates, UNION or WITH in a condition refers to the outer query"


def bare(branch: Branch) -> Branch:
    """Return the branch without column values."""
    return replace(branch, values={})


def _goes_on(node: Node, outer: Node) -> bool:
    """Return whether a node continues a chain of one operation: ``a UNION b UNION c``."""
    is_plain = node is outer or not node.args.get("with_")
    return is_plain and all(node.args.get(part) == outer.args.get(part) for part in ("distinct", "by_name"))


class Queries(FromClause):
    """Queries, as their columns and the branches of their rows."""

    def query(self, node: Node, scope: Scope | None) -> Derived:
        """Compile a query; `scope` holds the names of the outer query."""
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Subquery, exp.Paren)):
            check_parts(node, self.place, "this")
            return self.query(node.this, scope)
        self.named_here.append({})
        around, self.is_operand = self.is_operand, False
        try:
            if node.args.get("with_") is not None:
                self.with_clause(node.args["with_"])
            rest = None if node is self.ordered or OUTER in node.meta else without_first_rows(node)
            if rest is not None:
                return self._set_operation(rest, scope)
            if keeps_first_rows(node) or node is self.ordered:
                return self._first_rows(node, scope)
            if isinstance(node, exp.Select):
                return self._select(node, scope)
            if isinstance(node, exp.SetOperation):
                return self._set_operation(node, scope)
            if isinstance(node, exp.Values):
                return self._values(node, scope)
            if isinstance(node, exp.Pivot):
                return self.query(unfolded(node, node.this, self.columns_of(node.this, scope), self.place), scope)
        finally:
            self.is_operand = around
            _ = self.named_here.pop()
        raise refused_statement(node, self.place)

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
            if node.args.get("recursive") and self._reads(cte.this, name):
                here[name] = self._recursive(cte, names)
            else:
                here[name] = self.with_names(self.query(cte.this, None), names, cte)

    def with_names(self, derived: Derived, names: Sequence[str], node: Node) -> Derived:
        """Return a query result with its columns renamed."""
        if not names:
            return derived
        if len(names) != len(derived.columns):
            raise self.place.wrong(
                f"got {counted(len(names), 'name')} for {counted(len(derived.columns), 'column')}",
                node.args.get("alias") or node,
            )
        return replace(derived, columns=self.place.names.unique(names))

    # LIMIT, DISTINCT ON and QUALIFY: the first rows of a query, or of each group.

    def _first_rows(self, node: Node, scope: Scope | None) -> Derived:
        """Compile a query that keeps its first rows, with hidden columns that they are sorted by."""
        from sqlglot import expressions as exp

        if self.recursing:
            raise self.place.refused("LIMIT, DISTINCT ON and QUALIFY in a recursion are not supported", node)
        stages = read_stages(node, self.place)
        order = Ordering(node, self.place)
        outside: list[Node] = [exp.column(name, quoted=True) for name in outer_names(node)]
        sorted_by = [
            ([order.place_of(part) for part in (*stage.groups, *outside)], order.places_of(stage.terms))
            for stage in stages
        ]
        shown = order.places_of(read_terms(node.args.get("order"), self.place)) if node is self.ordered else []
        for part in ("order", "limit", "offset", *(["qualify"] if numbers_rows(node.args.get("qualify")) else [])):
            node.set(part, None)
        if distinct_on(node) is not None:
            node.set("distinct", None)
        for hidden in order.hidden:
            node.append("expressions", hidden)
        derived = self._select(node, scope) if isinstance(node, exp.Select) else self._set_operation(node, scope)
        head = self.named(derived, "sorted")
        branch, values = self.reading(head, derived)
        for stage, (groups, terms) in zip(stages, sorted_by, strict=True):
            helper = self.helper("first")
            keys = order.keys(terms, derived.columns)
            numbers = dict.fromkeys(number for place in groups for number in order.numbers(place, derived.columns))
            self.first_rows.append(FirstRows(helper, head, tuple(keys), stage.limit, stage.offset, tuple(numbers)))
            head = helper
        (atom,) = branch.atoms
        branch = replace(branch, atoms=(replace(atom, relation=head),))
        n = len(derived.columns) - len(order.hidden)
        if node is self.ordered:
            self.sorting = Sorting(ANSWER, tuple(order.keys(shown, derived.columns)), n)
            n = len(derived.columns)
        return Derived(derived.columns[:n], ((branch, values[:n]),))

    # GROUP BY and aggregates.

    def _grouped_select(self, node: Node, joined: Joined) -> Derived:
        """Compile a SELECT that aggregates, once for each grouping set."""
        from sqlglot import expressions as exp

        scope = joined.scope
        items = self._expanded(node, scope)
        sets = self._grouping_sets(node, items, scope)
        conditions = [node.args[part] for part in ("having", "qualify") if node.args.get(part) is not None]
        for condition in conditions:
            check_parts(condition, self.place, "this")
        parts = [*(item for item, _ in items), *(condition.this for condition in conditions)]
        calls = self._distinct_nodes((call for part in parts for call in aggregates_in(part)), scope)
        masks = self._distinct_nodes(
            (mask for part in parts for mask in part.find_all(exp.Grouping, exp.GroupingId)), scope
        )
        keys = self._distinct_nodes((key for group in sets for key in group), scope)
        rows: list[tuple[Branch, Values]] = []
        for group in sets:
            groups = self._distinct_nodes(group, scope)
            found = self._aggregated(joined, groups, calls)
            if found is None:
                continue
            branch, key_values, results = found
            value_of = dict(zip((self.identity(key, scope) for key in groups), key_values, strict=True))
            own = [value_of.get(self.identity(key, scope), NULL) for key in keys]
            rows.append((branch, (*own, *results, *(self._mask(mask, value_of, scope) for mask in masks))))
        if not rows:
            return Derived(self.place.names.unique([name for _, name in items]), ())
        columns = [*keys, *calls, *masks]
        if len(sets) > 1:
            union = Derived(tuple(f"c{i}" for i in range(len(columns))), tuple(self.unify_rows(rows)))
            rows = [self.reading(self.named(union, "groups"), union)]
        ((branch, values),) = rows
        numbers = self.numbered(len(columns))
        visible = dict(zip((self.identity(column, scope) for column in columns), numbers, strict=True))
        branch = branch.with_values(dict(zip(numbers, values, strict=True)))
        named = {self.place.names.key(item.alias): item for item, _ in items if item.alias}
        made = GroupedScope(scope.sources, scope.visible, scope.parent, scope.outer_refused, visible, named)
        having = node.args.get("having")
        branches = [branch] if having is None else self.truth(having.this, TRUE_VALUE, made, branch)
        return self._selected(node, items, replace(made, named={}), branches)

    def _distinct_nodes(self, nodes: Iterable[Node], scope: Scope) -> list[Node]:
        """Return expressions, equal ones once."""
        distinct: dict[object, Node] = {}
        for node in nodes:
            distinct.setdefault(self.identity(node, scope), node)
        return list(distinct.values())

    def _mask(self, node: Node, value_of: Mapping[object, Expression], scope: Scope) -> Constant:
        """Return the number of GROUPING: a bit for each key, 1 if the grouping set lacks it."""
        number = 0
        for key in node.expressions:
            number = 2 * number + (self.identity(key, scope) not in value_of)
        return Constant(number)

    def _aggregated(
        self, joined: Joined, keys: Sequence[Node], calls: Sequence[Node]
    ) -> tuple[Branch, Values, list[Expression]] | None:
        """Return a row for each group, keys and aggregates; None if there never is a row."""
        arguments: list[Node] = []
        aggregates = [self._add_aggregate(call, arguments, joined.scope, len(keys)) for call in calls]
        rows = [
            (bare(where), values)
            for branch in joined.branches
            for where, values in self.each([*keys, *arguments], joined.scope, branch)
        ]
        names = tuple(f"key{i}" if not key.name else key.name for i, key in enumerate(keys))
        if not keys and not arguments:  # a relation needs a column
            names, rows = ("row",), [(where, (_ZERO,)) for where, _ in rows]
        rows = self.unify_rows(rows, [*keys, *arguments])
        base = Derived((*names, *(f"value{i}" for i in range(len(arguments)))), tuple(rows))
        if not rows and keys:
            return None
        groups = _Groups(self, base, len(keys))
        checked = self._checked(groups, calls, aggregates)
        branch, key_values, results = groups.joined(list(dict.fromkeys(checked)))
        return branch, key_values, [results[aggregate] for aggregate in checked]

    def _selected(
        self, node: Node, items: Sequence[tuple[Node, str]], scope: Scope, branches: Sequence[Branch]
    ) -> Derived:
        """Return the selected expressions of rows, after window functions and QUALIFY."""
        nodes = [item for item, _ in items]
        qualify = node.args.get("qualify")
        condition = None if qualify is None else self._unaliased(qualify.this, items, scope)
        parts = nodes if condition is None else [*nodes, condition]
        windows = [self._with_names_of(window, node) for part in parts for window in windows_in(part)]
        if windows:
            scope, branches = self._windowed(parts, windows, scope, branches)
        if condition is not None:
            if all(map(is_unnest, windows)):
                raise self.place.wrong("QUALIFY needs a window function; write WHERE or HAVING", qualify)
            branches = [after for branch in branches for after in self.truth(condition, TRUE_VALUE, scope, branch)]
        rows = [(bare(where), values) for branch in branches for where, values in self.each(nodes, scope, branch)]
        return Derived(self.place.names.unique([name for _, name in items]), tuple(self.unify_rows(rows, nodes)))

    # Window functions: heads that DuckDB computes, one for each way to partition.

    def _unaliased(self, condition: Node, items: Sequence[tuple[Node, str]], scope: Scope) -> Node:
        """Return the condition of QUALIFY with selected expressions in place of their names."""
        from sqlglot import expressions as exp

        named = {self.place.names.key(item.alias): item.this for item, _ in items if item.alias}

        def replaced(piece: Node) -> Node:
            if not isinstance(piece, exp.Column) or piece.args.get("table"):
                return piece
            item = named.get(self.place.names.key(piece.name))
            return piece if item is None or scope.resolve_local(piece, self.place) is not None else item.copy()

        changed = condition.transform(replaced)
        changed.parent = condition.parent
        return changed

    def _with_names_of(self, window: Node, node: Node) -> Node:
        """Return a window function with the parts of the window of WINDOW that it names."""
        name = window.args.get("alias")
        if name is None:
            return window
        key = self.place.names.key
        named = next((one for one in node.args.get("windows") or () if key(one.name) == key(name.name)), None)
        if named is None:
            names = [one.name for one in node.args.get("windows") or ()]
            raise self.place.unknown(name, names, "windows")
        for part in ("partition_by", "order", "spec"):
            if not window.args.get(part):
                value = named.args.get(part)
                window.set(part, [one.copy() for one in value] if isinstance(value, list) else value and value.copy())
        window.set("alias", None)
        return window

    def _windowed(
        self, parts: Sequence[Node], windows: Sequence[Node], scope: Scope, branches: Sequence[Branch]
    ) -> tuple[Scope, list[Branch]]:
        """Return rows with the results of window functions, and the scope in which they are columns.

        Rows are repeated for the elements of ``unnest`` last, as in DuckDB.
        """
        plain = scope.plain if isinstance(scope, GroupedScope) else scope
        columns: list[Node] = []

        def position(piece: Node) -> int | None:
            return self._position(piece, columns, plain) if self._is_column(piece, scope) else None

        for part in parts:
            _ = part.transform(lambda piece: _marked(piece, position(piece)))
        partitions: dict[tuple[int, ...], list[Node]] = {}
        for window in windows:
            if is_unnest(window):
                self.check_series(window)
                continue
            keys = (self._position(key, columns, plain) for key in window.args.get("partition_by") or ())
            partitions.setdefault(tuple(dict.fromkeys(keys)), []).append(window)
        rows = [(bare(where), values) for branch in branches for where, values in self.each(columns, scope, branch)]
        if not columns:  # a relation needs a column
            rows = [(where, (_ZERO,)) for where, _ in rows]
        base = Derived(tuple(f"c{i}" for i in range(max(1, len(columns)))), tuple(self.unify_rows(rows, columns)))
        branch, values = self.reading(self.named(base, "window"), base)
        number_of: dict[object, int] = {}
        branch = branch.with_values(dict(zip(self._numbered_by(columns, plain, number_of), values, strict=False)))
        unnested = [window for window in windows if is_unnest(window)]
        for by, group in [*partitions.items(), *([(None, unnested)] if unnested else [])]:
            by = tuple(range(len(values))) if by is None else by
            branch, values = self._computed_windows(branch, values, by, group, position)
            numbers = self._numbered_by(group, plain, number_of)
            branch = branch.with_values(dict(zip(numbers, values[len(values) - len(group) :], strict=True)))
        made = GroupedScope(scope.sources, scope.visible, scope.parent, scope.outer_refused, number_of)
        return made, [branch]

    def _numbered_by(self, nodes: Sequence[Node], scope: Scope, number_of: dict[object, int]) -> list[int]:
        """Return new columns for expressions, which are added to `number_of`."""
        numbers = self.numbered(len(nodes))
        number_of.update(zip((self.identity(node, scope) for node in nodes), numbers, strict=True))
        return list(numbers)

    def _is_column(self, piece: Node, scope: Scope) -> bool:
        """Return whether an expression is a column of the rows that window functions read."""
        from sqlglot import expressions as exp

        if isinstance(scope, GroupedScope):
            return self.identity(piece, scope.plain) in scope.column_numbers
        if not isinstance(piece, exp.Column) or isinstance(piece.this, exp.Star):
            return False
        if piece.args.get("number") is None:
            try:
                _ = scope.column(piece, self.place)
            except (ColumnError, UnknownRelationError):
                return False
        return True

    def _computed_windows(
        self, branch: Branch, values: Values, by: tuple[int, ...], windows: Sequence[Node],
        position: Callable[[Node], int | None],
    ) -> tuple[Branch, Values]:  # fmt: skip
        """Return rows with the results of window functions of one partition."""
        from sqlglot import expressions as exp

        order = [*by, *(column for column in range(len(values)) if column not in by)]
        place_of = {column: place for place, column in enumerate(order)}
        source = self.helper("partition")
        self.write(source, replace(branch, values={}), [values[column] for column in order])

        def argument(piece: Node) -> Node | None:
            if piece.args.get("number") == _OF_DUCKDB:
                return piece
            column = position(piece)
            if column is not None:
                return exp.column(sql_expressions.column_name(place_of[column]), quoted=True)
            return None

        kinds = tuple(self.kind(values[column]) for column in order)
        expressions = []
        for window in windows:
            error = self.place.refused("this window function is not supported", window)
            expressions.append(self.translated(_over_group(window), argument, error))
        returns = [
            self.bound_group(expression, kinds, window, is_window=True)
            for expression, window in zip(expressions, windows, strict=True)
        ]
        head = self.helper("windows")
        self.computed_groups.append(
            ComputedGroups(
                head, source, len(by), tuple(kind or "int64" for kind in kinds), tuple(expressions),
                tuple(kind.name for kind in returns), True, tuple(map(self.place.text_of, windows)),
            )
        )  # fmt: skip
        passed = [self.fresh(f"c{column}", self.kind(values[column])) for column in order]
        non_null = frozenset(
            made for made, column in zip(passed, order, strict=True) if not branch.may_be_null(values[column])
        )
        results = [self.fresh("window", kind.name) for kind in returns]
        in_place = tuple(passed[place_of[column]] for column in range(len(values)))
        names = dict(zip(values, in_place, strict=True))
        carried = {number: names[value] for number, value in branch.values.items() if value in names}
        made = Branch((Atom(head, (*passed, *results)),), non_null=non_null, values=carried)
        return made, (*in_place, *results)

    def _grouping_sets(self, node: Node, items: list[tuple[Node, str]], scope: Scope) -> list[list[Node]]:
        """Return the keys of each grouping set of GROUP BY, which are mostly one."""
        group = node.args.get("group")
        if group is None:
            return [[]]
        check_parts(group, self.place, "expressions", "all")
        if group.args.get("all"):
            return [[item.unalias() for item, _ in items if next(aggregates_in(item), None) is None]]
        sets: list[list[Node]] = [[]]
        for element in group.expressions:
            sets = [[*keys, *more] for keys in sets for more in self._sets_of(element)]
            if len(sets) > MAX_BRANCHES:
                raise self.place.refused(f"more than {MAX_BRANCHES} grouping sets are not supported", element)
        return [self._group_keys(keys, items, scope) for keys in sets]

    def _sets_of(self, element: Node) -> list[list[Node]]:
        """Return the sets of an element of GROUP BY."""
        from sqlglot import expressions as exp

        if isinstance(element, exp.GroupingSets):
            return [keys for part in element.expressions for keys in self._sets_of(part)]
        if isinstance(element, exp.Tuple):
            return [[key for part in element.expressions for keys in self._sets_of(part) for key in keys]]
        if not isinstance(element, (exp.Rollup, exp.Cube)):
            return [[element]]
        check_parts(element, self.place, "expressions")
        parts = [keys for part in element.expressions for keys in self._sets_of(part)]
        n = len(parts)
        if isinstance(element, exp.Rollup):
            chosen = [parts[:length] for length in range(n, -1, -1)]
        else:
            if n > _MAX_CUBE:
                raise self.place.refused(f"CUBE of more than {_MAX_CUBE} columns is not supported", element)
            chosen = [[parts[i] for i in range(n) if mask >> i & 1] for mask in range(2**n - 1, -1, -1)]
        return [[key for keys in each for key in keys] for each in chosen]

    def _group_keys(self, nodes: Sequence[Node], items: list[tuple[Node, str]], scope: Scope) -> list[Node]:
        """Return keys of GROUP BY: columns, expressions, positions, and aliases of SELECT."""
        from sqlglot import expressions as exp

        place = self.place
        keys: list[Node] = []
        for node in nodes:
            key_node = node.unnest() if isinstance(node, exp.Paren) else node  # a query stays one
            if isinstance(key_node, exp.Literal) and not key_node.is_string:
                position = int(key_node.this) if str(key_node.this).isdecimal() else 0
                if not 1 <= position <= len(items):
                    raise place.wrong(f"GROUP BY {key_node.this}: got {counted(len(items), 'column')}", key_node)
                key_node = items[position - 1][0]
            elif (
                isinstance(key_node, exp.Column)
                and not key_node.args.get("table")
                and scope.resolve_local(key_node, place) is None
            ):
                key = place.names.key
                alias = [item for item, name in items if item.alias and key(name) == key(key_node.name)]
                key_node = alias[0] if alias else key_node
            while isinstance(key_node, (exp.Alias, exp.Paren)):
                key_node = key_node.this
            if next(aggregates_in(key_node), None) is not None:
                raise place.wrong("GROUP BY cannot name an aggregate", key_node)
            keys.append(key_node)
        return keys

    def _checked(
        self, groups: _Groups, calls: Sequence[Node], aggregates: Sequence[_Aggregate | _ComputedAggregate]
    ) -> list[_Aggregate | _ComputedAggregate]:
        """Return the aggregates, of which DuckDB computes sums and means of long numbers.

        Sums of other types than numbers, and means that are decimals in the dialect, are refused; means are doubles.
        """
        checked: list[_Aggregate | _ComputedAggregate] = []
        for node, aggregate in zip(calls, aggregates, strict=True):
            checked.append(aggregate)
            if isinstance(aggregate, _ComputedAggregate) or aggregate.op not in ("sum", "avg"):
                continue
            column = groups.n_keys + (aggregate.argument or 0)
            kind = groups.kind(column)
            has_result = kind is None or group_of(kind) == "number" or kind.startswith("duration")
            if not has_result and not (aggregate.op == "avg" and group_of(kind or "") == "time"):
                raise self.place.mistyped(f"{aggregate.op.upper()} needs numbers: got type {label(kind)}", node)
            if kind is not None and (is_long(kind) or group_of(kind) != "number"):
                distinct = "DISTINCT " * aggregate.is_distinct
                checked[-1] = _ComputedAggregate(f'{aggregate.op}({distinct}"${column}")', node)
                continue
            if aggregate.op == "sum" or self.dialect == "duckdb":
                continue
            is_integer = kind is not None and "int" in kind
            if kind != "double" and not (is_integer and self.dialect in DOUBLE_MEANS):
                raise self.place.refused(
                    f"AVG of {kind or 'an unknown type'} may be a decimal in the dialect '{self.dialect}'",
                    node,
                    "Declare the types of columns, or write AVG(CAST(x AS DOUBLE)); in Postgres, DOUBLE PRECISION.",
                )
        return checked

    def _add_aggregate(
        self, node: Node, arguments: list[Node], scope: Scope, n_keys: int
    ) -> _Aggregate | _ComputedAggregate:
        """Return the aggregate of a call; its arguments are added to `arguments`."""
        try:
            return self._native_aggregate(node, arguments, scope)
        except UnsupportedError as error:
            return self._computed_aggregate(node, arguments, scope, n_keys, error)

    def _computed_aggregate(
        self, node: Node, arguments: list[Node], scope: Scope, n_keys: int, error: GpuWcojError
    ) -> _ComputedAggregate:
        """Return an aggregate that DuckDB computes, over columns of the base."""
        from sqlglot import expressions as exp

        inner = [each for child in node.walk() if child is not node for each in aggregates_in(child)]
        call = node
        while isinstance(call, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
            call = call.this
        if any(each is not call and not isinstance(each, type(node)) and each.this is not call for each in inner):
            raise self.place.wrong("an aggregate cannot stand in an aggregate", inner[-1])

        def argument(piece: Node) -> Node | None:
            is_column = isinstance(piece, exp.Column) and not isinstance(piece.this, exp.Star)
            if not (is_column or isinstance(piece, exp.Subquery) or self.is_native_part(piece)):
                return None
            return exp.column(
                sql_expressions.column_name(n_keys + self._position(piece, arguments, scope)), quoted=True
            )

        return _ComputedAggregate(self.translated(node, argument, error), node)

    def _position(self, node: Node, arguments: list[Node], scope: Scope) -> int:
        """Return the position of an argument; a new one is added."""
        argument_identity = self.identity(node, scope)
        for position, argument in enumerate(arguments):
            if self.identity(argument, scope) == argument_identity:
                return position
        arguments.append(node)
        return len(arguments) - 1

    def _native_aggregate(self, node: Node, arguments: list[Node], scope: Scope) -> _Aggregate:
        """Return the aggregate of a call that the engine keeps itself."""
        from sqlglot import expressions as exp

        place = self.place
        condition = None
        call = node
        if isinstance(node, exp.Filter):
            check_parts(node, place, "this", "expression")
            condition, call = node.expression.this, node.this
        names: dict[type, str] = {exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max", exp.Avg: "avg"}
        if type(call) not in names:
            raise place.refused(
                f"the aggregate {describe_node(call)} is not supported", call, "COUNT, SUM, MIN, MAX and AVG are."
            )
        check_parts(call, place, "this", "big_int")
        op, value = names[type(call)], call.this
        is_distinct = isinstance(value, exp.Distinct)
        if is_distinct:
            check_parts(value, place, "expressions")
            if len(value.expressions) != 1:
                raise place.refused(
                    "DISTINCT of several columns is not supported in an aggregate",
                    value,
                    "Count the rows of a SELECT DISTINCT in a subquery.",
                )
            value = value.expressions[0]
        inner = None if value is None else next(aggregates_in(value), None)
        if inner is not None:
            raise place.wrong("an aggregate cannot stand in an aggregate", inner)
        if isinstance(value, exp.Tuple):
            raise place.refused("a row of values in an aggregate is not supported", value)
        if value is None or isinstance(value, exp.Star):
            if op != "count" or is_distinct:
                raise place.wrong("'*' can only be counted", call)
            if condition is None:
                return _Aggregate("count", None, False)
            value = exp.Boolean(this=True)
        if condition is not None:
            chosen = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
            chosen.parent = node
            value = chosen
        if op in ("min", "max"):
            is_distinct = False
        return _Aggregate(op, self._position(value, arguments, scope), is_distinct)

    # SELECT: FROM, WHERE, the selected columns, GROUP BY, DISTINCT.

    def _select(self, node: Node, around: Scope | None) -> Derived:
        """Compile a SELECT."""
        check_parts(node, self.place, *PARTS)
        if not node.expressions:
            raise self.place.wrong("SELECT names no column", node)
        if node.args.get("kind"):
            raise self.place.refused(f"SELECT AS {node.args['kind']} is not supported", node)
        relations = self.from_clause(node, around)
        if self.dialect in ALIASES_REACH:
            self._replace_aliases(node, relations.scope)
        joined = self._where(node, relations)
        if is_grouped(node):
            derived = self._grouped_select(node, joined)
        else:
            derived = self._selected(node, self._expanded(node, joined.scope), joined.scope, joined.branches)
        _ = self.limited([branch for branch, _ in derived.branches], node)
        if node.args.get("distinct"):
            check_parts(node.args["distinct"], self.place)
            return self._once(derived)
        return derived

    def _replace_aliases(self, node: Node, scope: Scope) -> None:
        """Replace names of selected expressions by these, where FROM has no such column.

        They reach the expressions after them, and WHERE.
        """
        from sqlglot import expressions as exp

        named: dict[str, Node] = {}

        def replaced(piece: Node) -> Node:
            if isinstance(piece, exp.Query):
                return piece
            if isinstance(piece, exp.Column) and not isinstance(piece.this, exp.Star) and not piece.args.get("table"):
                item = named.get(self.place.names.key(piece.name))
                if item is None or piece.args.get("number") is not None:
                    return piece
                return piece if scope.resolve_local(piece, self.place) is not None else exp.Paren(this=item.copy())
            for part in list(piece.iter_expressions()):
                made = replaced(part)
                if made is not part:
                    part.replace(made)
            return piece

        for item in node.expressions:
            _ = replaced(item)
            if isinstance(item, exp.Alias):
                named.setdefault(self.place.names.key(item.alias), item.this)
        if named and node.args.get("where") is not None:
            _ = replaced(node.args["where"])

    def _where(self, node: Node, joined: Joined) -> Joined:
        """Apply WHERE and the deferred conditions."""
        where = node.args.get("where")
        conditions = list(joined.deferred)
        if where is not None:
            check_parts(where, self.place, "this")
            conditions += self._not_applied(where.this)
        branches = joined.branches
        for condition in conditions:
            branches = [
                after for branch in branches for after in self.truth(condition, TRUE_VALUE, joined.scope, branch)
            ]
        branches = branches or [branch.never() for branch in joined.branches[:1]]  # which gives the columns their types
        return Joined(joined.scope, self.limited(branches, where or node))

    def _not_applied(self, condition: Node) -> list[Node]:
        """Return the condition of WHERE without the parts that were applied before a join."""
        from sqlglot import expressions as exp

        parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
        left = [part for part in parts if id(part) not in self.applied]
        return [condition] if len(left) == len(parts) else sorted(left, key=has_query)

    def _once(self, derived: Derived) -> Derived:
        """Return the rows of a query result, each once."""
        if not derived.branches:
            return derived
        head = self.named(derived, "row")
        counted = self.distinct(head, len(derived.columns))
        branch, values = self.reading(head, derived)
        (atom,) = branch.atoms
        atom = Atom(counted, (*atom.terms, self.fresh("_")))
        return Derived(derived.columns, ((replace(branch, atoms=(atom,)), values),))

    def _expanded(self, node: Node, scope: Scope) -> list[tuple[Node, str]]:
        """Return the selected expressions with their names, and ``*`` expanded."""
        from sqlglot import expressions as exp

        place = self.place
        result: list[tuple[Node, str]] = []
        for position, item in enumerate(node.expressions, start=1):
            star = item.this if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else item
            if not isinstance(star, exp.Star):
                result.append((item, item.alias or column_name(item, position, scope, place)))
                continue
            check_parts(star, place, "except_", "replace")
            columns: Sequence[tuple[str, int]] = scope.visible
            if star is not item:
                source = scope.source(item.args["table"], place)
                if source is None:
                    raise place.unknown(
                        item.args["table"], [source.name for source in scope.sources], UnknownRelationError.IN_REACH
                    )
                columns = source.columns
            elif not columns:
                raise place.wrong("'*' needs a FROM", item)
            names = [name for name, _ in columns]
            excluded = self._columns_of_star(star.args.get("except_") or (), names)
            instead = self._columns_of_star(star.args.get("replace") or (), names)
            for name, column_number in columns:
                if name in excluded:
                    continue
                if name in instead:
                    result.append((exp.alias_(instead[name].this, name, quoted=True), name))
                    continue
                column = exp.Column(this=exp.Identifier(this=name, quoted=True))
                column.set("number", column_number)
                column.parent = item.parent
                result.append((column, name))
        return result

    def _columns_of_star(self, nodes: Iterable[Node], names: Sequence[str]) -> dict[str, Node]:
        """Return the parts of EXCLUDE or REPLACE by the columns that they name."""
        found: dict[str, Node] = {}
        for node in nodes:
            name = node.args["alias"] if node.args.get("alias") is not None else node
            matches = self.place.names.matching(name.name, bool(name.args.get("quoted")), names)
            if not matches:
                raise self.place.unknown(name, names, "columns")
            found.update(dict.fromkeys(matches, node))
        return found

    def select_within(self, node: Node, scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
        """Return the rows of a query in a condition, joined with a row of the outer query."""
        from sqlglot import expressions as exp

        while isinstance(node, (exp.Subquery, exp.Paren)):
            check_parts(node, self.place, "this")
            node = node.this
        if isinstance(node, exp.Union) and not node.args.get("with_"):
            check_parts(node, self.place, "this", "expression", "distinct")
            parts = [self.select_within(operand, scope, branch) for operand in (node.this, node.expression)]
            if all(parts) and len(parts[0][0][1]) != len(parts[1][0][1]):
                raise self.place.wrong("the two queries of UNION have other numbers of columns", node)
            return [pair for part in parts for pair in part]
        row = replace(branch, fixed=branch.fixed | branch.variables)
        is_plain = isinstance(node, exp.Select) and not (is_grouped(node) or node.args.get("with_"))
        if not is_plain or keeps_first_rows(node) or any(next(windows_in(item), None) for item in node.expressions):
            try:
                derived = self.query(node.copy(), Scope(parent=scope, outer_refused=_NOT_CORRELATED))
            except OuterReferenceError as error:
                if error.reason not in (_NOT_CORRELATED, REFERS_OUTSIDE):
                    raise
                return self._rows_of_outer_row(node, scope, row)
            if not derived.branches and not derived.head:
                return []
            read, values = self.read(derived)
            return [(row.joined(read), values)]
        check_parts(node, self.place, *PARTS)
        joined = self._joined_within(node, scope, row)
        items = [item for item, _ in self._expanded(node, joined.scope)]
        pairs = [pair for branch in joined.branches for pair in self.each(items, joined.scope, branch)]
        return [(branch, ()) for branch in joined.branches] if isinstance(node.parent, exp.Exists) else pairs

    # Queries as values: of one row, or of one row for each row of the outer query.

    def single(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return the value of a query as a value: null if it has no row."""
        from sqlglot import expressions as exp

        query = node
        while isinstance(query, (exp.Subquery, exp.Paren)):
            check_parts(query, self.place, "this")
            query = query.this
        if isinstance(query, exp.Select) and len(query.expressions) != 1:
            raise self.place.wrong("a query as a value has one column", query)
        try:
            derived = self.query(query.copy(), Scope(parent=scope, outer_refused=_CORRELATED))
        except OuterReferenceError as error:
            if error.reason not in (_CORRELATED, REFERS_OUTSIDE):
                raise
            return self._correlated(query, scope, branch)
        if len(derived.columns) != 1:
            raise self.place.wrong("a query as a value has one column", query)
        is_one = isinstance(query, exp.Select) and is_grouped(query) and not query.args.get("group")
        if is_one and not query.args.get("having") and not query.args.get("qualify"):
            read, (value,) = self.reading(self.named(derived), derived)
            return branch.joined(read), value
        groups = _Groups(self, derived, 0)
        atoms: list[Atom] = []
        (value,) = groups.read_computed([_ComputedAggregate(_ONLY_ROW.format("$0"), node)], (), atoms)
        return branch.joined(Branch(tuple(atoms))), value

    def _correlated(self, query: Node, scope: Scope, branch: Branch) -> Case:
        """Return the value of a query that refers to the outer row.

        It becomes a query that groups by what it reads of the outer row, with a row for each of these rows.
        """
        from sqlglot import expressions as exp

        parts = {"expressions", "from_", "joins", "where"}
        other = [part for part in query.args if part not in parts and query.args[part]]
        if self.recursing:
            what = "a query as a value that refers to the outer query is not supported in a recursion"
            raise self.place.refused(what, query, "Join with a relation of its values.")
        row = replace(branch, fixed=branch.fixed | branch.variables)
        calls: list[Node] = []
        if isinstance(query, exp.Select) and not other and not list(windows_in(query.expressions[0])):
            joined = self._joined_within(query, scope, row)
            (item,) = query.expressions
            calls += aggregates_in(item)
        else:
            joined, columns = self._of_outer_row(query, scope, row)
            if len(columns) != 1:
                raise self.place.wrong("a query as a value has one column", query)
            (item,) = columns
        arguments: list[Node] = []
        aggregates = [self._add_aggregate(call, arguments, joined.scope, 0) for call in calls]
        if not calls:
            arguments = [item]
        pairs = [pair for each in joined.branches for pair in self.each(arguments, joined.scope, each)]
        pairs = [(pair, values or (_ZERO,)) for pair, values in pairs]
        outer_columns = {
            Scope.column(joined.scope, column, self.place): column
            for column in _columns_outside(item, calls)
            if column.args.get("number") is None and joined.scope.resolve_local(column, self.place) is None
        }
        read_outside = [self.column(column, joined.scope, row) for column in outer_columns.values()]
        added = [(added_to(row, pair), values) for pair, values in pairs]
        read = {
            variable
            for pair, values in added
            for variable in (*pair.variables, *variables_of(values), *(pair.solid - row.solid - row.non_null))
        }
        keys = tuple(sorted(row.variables & {*read, *variables_of(read_outside)}, key=creation_order))
        outer = self.helper("outer")
        unbound = [
            pair for pair, _ in added if not {term for atom in pair.atoms for term in atom.terms}.issuperset(keys)
        ]
        # the value of a plain aggregate is right for rows besides, and none of their joins are wanted
        is_plain = not unbound and calls == [item.unalias()] and isinstance(aggregates[0], _Aggregate)
        self.write(outer, replace(binding(row, keys) if is_plain and keys else row, values={}), keys or (_ZERO,))
        once = self.distinct(outer, len(keys) or 1)
        of_outer = Atom(once, (*(keys or (self.fresh("_"),)), self.fresh("_")))
        rows = []
        for pair, values in added:
            if pair in unbound or not calls:  # of other rows, there may be several
                pair = replace(pair, atoms=(of_outer, *pair.atoms), safe=pair.safe | frozenset(keys))
            rows.append((replace(bare(pair), fixed=frozenset()), (*keys, *values)))
        names = (*(f"key{i}" for i in range(len(keys))), *(f"value{i}" for i in range(len(pairs[0][1]))))
        groups = _Groups(self, Derived(names, tuple(self.unify_rows(rows))), len(keys))
        if not calls:
            aggregates = [_ComputedAggregate(_ONLY_ROW.format("$0"), query)]
        shifted = [_shifted(aggregate, len(keys)) for aggregate in aggregates]
        checked = self._checked(groups, calls, shifted) if calls else shifted
        outside = dict(zip(outer_columns, read_outside, strict=True))
        return self._left_joined(branch, keys, of_outer, groups, checked, calls, item, joined.scope, outside)

    def _joined_within(self, query: Node, scope: Scope, row: Branch) -> Joined:
        """Return the rows of FROM and WHERE of a query, joined with the outer row that it names."""
        try:
            relations = self.from_clause(query.copy(), scope)
        except OuterReferenceError as error:
            outer = self.outer_rows(query, scope, [row]) if error.reason == REFERS_OUTSIDE else None
            if outer is None:
                raise
        else:
            return self._where(query, replace(relations, branches=[row.joined(each) for each in relations.branches]))
        of_each = query.copy()
        of_each.meta[OUTER] = outer
        joined = self._where(of_each, self.from_clause(of_each, scope))
        columns = [(number, self.column(numbered_column("outer", number), scope, row)) for number in outer.numbers]
        copies = self.numbered(len(columns))
        row = row.with_values(dict(zip(copies, (value for _, value in columns), strict=True)))
        links = tuple(zip(copies, outer.numbers, strict=True))
        branches = [after for each in joined.branches for after in linked(row.joined(each), links)]
        return replace(joined, branches=branches or [row.joined(each).never() for each in joined.branches[:1]])

    def _of_outer_row(self, query: Node, scope: Scope, row: Branch) -> tuple[Joined, list[ColumnNode]]:
        """Return the rows of a query joined with the outer row that it names, and their columns."""
        from sqlglot import expressions as exp

        joined = self.lateral(query, exp.Subquery(), scope, [row])
        if joined is None:
            raise self.place.refused("this query refers to names of the outer query that it cannot use here", query)
        columns = [numbered_column(name, number) for name, number in joined.scope.visible]
        outside = [numbered_column("outer", number) for number, _ in joined.links]
        row = row.with_values({column.args["number"]: self.column(column, scope, row) for column in outside})
        branches = [after for each in joined.branches for after in linked(row.joined(each), joined.links)]
        return replace(joined, branches=branches or [row.joined(each).never() for each in joined.branches[:1]]), columns

    def _rows_of_outer_row(self, query: Node, scope: Scope, row: Branch) -> list[tuple[Branch, Values]]:
        """Return the rows of a query that refers to an outer row, with their values."""
        joined, columns = self._of_outer_row(query, scope, row)
        return [
            (each, tuple(self.column(column, joined.scope, each) for column in columns)) for each in joined.branches
        ]

    def _left_joined(
        self, branch: Branch, keys: tuple[Variable, ...], of_outer: Atom, groups: _Groups,
        aggregates: Sequence[_Aggregate | _ComputedAggregate], calls: Sequence[Node], item: Node, scope: Scope,
        outside: Mapping[int, Expression],
    ) -> Case:  # fmt: skip
        """Return a value of the group of each outer row, or that of no rows if there is no group.

        `outside` has the values of outer columns, in terms of the keys.
        """
        found, key_values, results = groups.joined(list(dict.fromkeys(aggregates)))
        kinds = tuple(map(groups.kind, range(len(groups.base.columns))))
        has, name = self.helper("has"), self.helper("value")
        self.write(has, found, key_values or (_ZERO,))
        missing = Branch((of_outer,), (Atom(has, keys or (_ZERO,)),), safe=frozenset(keys))
        kind: str | None = None
        for where, by, results_of in (
            (found, key_values, results),
            (missing, keys, {each: self._of_no_rows(each, kinds) for each in aggregates}),
        ):
            key_numbers = self.numbered(len(keys))
            where = where.with_values(dict(zip(key_numbers, by, strict=True)))
            if calls:
                numbers = self.numbered(len(calls))
                number_of: dict[object, int] = {
                    self.identity(call, scope): n for call, n in zip(calls, numbers, strict=True)
                }
                values = {n: results_of[each] for n, each in zip(numbers, aggregates, strict=True)}
                key_of = dict(zip(keys, by, strict=True))
                for (column, value), n in zip(outside.items(), self.numbered(len(outside)), strict=True):
                    number_of["column", column], values[n] = n, substituted(value, key_of)
                inner = GroupedScope(scope.sources, scope.visible, scope.parent, scope.outer_refused, number_of)
                rows = self.unify_rows(self.each([item], inner, where.with_values(values)), [item])
            else:
                rows = [(where, (results_of[aggregates[0]],))]
            for each, (value,) in rows:
                kind = kind or self.kind(value)
                self.write(name, bare(each), (*(each.values[n] for n in key_numbers), value))
        value = self.fresh("value", kind)
        read = Branch((Atom(name, (*keys, value)),), safe=frozenset(keys))
        return branch.joined(read), value

    def _of_no_rows(self, aggregate: _Aggregate | _ComputedAggregate, kinds: Sequence[str | None]) -> Constant:
        """Return the value of an aggregate of no rows."""
        if isinstance(aggregate, _ComputedAggregate):
            return self.constant_of_no_rows(aggregate.expression, kinds)
        return _ZERO if aggregate.op == "count" else NULL

    # Set operations UNION, EXCEPT, INTERSECT, and VALUES.

    def _set_operation(self, node: Node, scope: Scope | None) -> Derived:
        """Compile UNION, UNION ALL, EXCEPT or INTERSECT of queries."""
        from sqlglot import expressions as exp

        check_parts(node, self.place, *_PARTS_OF_SETS)
        if not isinstance(node, exp.Union) and not node.args.get("distinct"):
            return self._set_operation_of_all(node, scope)
        parts = [node]
        while type(parts[0]) is type(node) and _goes_on(parts[0], node):
            check_parts(parts[0], self.place, *_PARTS_OF_SETS)
            parts[:1] = [parts[0].this, parts[0].expression]
        result = self.query(parts[0], scope)
        for part in parts[1:]:
            result = self._combined(node, result, self.query(part, scope), part)
        if isinstance(node, exp.Union) and node.args.get("distinct"):
            return self._once(result)
        return result

    def _set_operation_of_all(self, node: Node, scope: Scope | None) -> Derived:
        """Compile EXCEPT ALL or INTERSECT ALL, of rows with numbers among equal rows."""
        left, right = self.query(node.this, scope), self.query(node.expression, scope)
        left, right = self._in_one_order(node, left, right)
        self._check_columns(node, left, right, node.expression)
        first, second = map(self._numbered_rows, self._unify_types(left, right))
        combined = self._combined(node, first, second, node.expression)
        return Derived(left.columns, tuple((branch, values[:-1]) for branch, values in self._rows_of(combined)))

    def _numbered_rows(self, derived: Derived) -> Derived:
        """Return rows with their numbers among the rows that equal them, in a last column."""
        source = self.named(derived, "side")
        read, values = self.reading(source, derived)
        head, n = self.helper("numbered"), len(values)
        kinds = tuple(self.kind(value) or "int64" for value in values)
        window = f'row_number() OVER (PARTITION BY "{sql_expressions.GROUP}")'
        self.computed_groups.append(ComputedGroups(head, source, n, kinds, (window,), ("int64",), is_window=True))
        number = self.fresh("number", "int64")
        (atom,) = read.atoms
        branch = replace(read, atoms=(Atom(head, (*atom.terms, number)),), non_null=read.non_null | {number})
        return Derived((*derived.columns, "#"), ((branch, (*values, number)),))

    def _in_one_order(self, node: Node, left: Derived, right: Derived) -> tuple[Derived, Derived]:
        """Return two queries with the same columns in the same order, if BY NAME is written.

        A column that only one of them has is null in the other.
        """
        if not node.args.get("by_name"):
            return left, right
        key = self.place.names.key
        positions = [{key(name): i for i, name in enumerate(side.columns)} for side in (left, right)]
        columns = (*left.columns, *(name for name in right.columns if key(name) not in positions[0]))
        sides = []
        for side, position in zip((left, right), positions, strict=True):
            order = [position.get(key(name)) for name in columns]
            rows = tuple(
                (branch, tuple(NULL if i is None else values[i] for i in order))
                for branch, values in self._rows_of(side)
            )
            sides.append(Derived(columns, rows))
        return sides[0], sides[1]

    def _check_columns(self, node: Node, left: Derived, right: Derived, part: Node) -> None:
        if len(left.columns) != len(right.columns):
            raise self.place.wrong(
                f"{describe_node(node)} of {len(left.columns)} and {counted(len(right.columns), 'column')};"
                " write the same number",
                part,
            )

    def _combined(self, node: Node, left: Derived, right: Derived, part: Node) -> Derived:
        from sqlglot import expressions as exp

        left, right = self._in_one_order(node, left, right)
        self._check_columns(node, left, right, part)
        if isinstance(node, exp.Union):
            rows = [row for side in (left, right) for row in self._rows_of(side)]
            _ = self.limited([branch for branch, _ in rows], part)
            return Derived(left.columns, tuple(self.unify_rows(rows)))
        left, right = self._unify_types(left, right)
        first, second = self._once(left), self._once(right)
        if not first.branches:
            return first
        row, values = self.read(first)
        numbers = self.numbered(2 * len(values))
        fixed = replace(row, fixed=row.variables)
        pairs = []
        for branch, right_values in second.branches:
            pair = fixed.joined(branch).with_values(dict(zip(numbers, (*values, *right_values), strict=True)))
            matches = [pair]
            for a, b in zip(numbers[: len(values)], numbers[len(values) :], strict=True):
                matches = [match for where in matches for match in where.same(where.values[a], where.values[b])]
            pairs += matches
        if isinstance(node, exp.Except):
            branches = self.antijoin(row, row, pairs)
        else:
            branches = self.semijoin(row, row, pairs)
        return Derived(left.columns, tuple((replace(branch, values={}), values) for branch in branches))

    def _unify_types(self, left: Derived, right: Derived) -> tuple[Derived, Derived]:
        """Convert two queries to types that compare."""
        tagged = [
            (branch, (*values, Constant(side)))
            for side, derived in enumerate((left, right))
            for branch, values in self._rows_of(derived)
        ]
        rows = self.unify_rows(tagged)
        first, second = (
            tuple((branch, values[:-1]) for branch, values in rows if values[-1] == Constant(side)) for side in (0, 1)
        )
        return Derived(left.columns, first), Derived(right.columns, second)

    def _rows_of(self, derived: Derived) -> list[tuple[Branch, Values]]:
        """Return the branches of a query result."""
        if derived.head:
            return [self.read(derived)]
        return list(derived.branches)

    def _values(self, node: Node, scope: Scope | None) -> Derived:
        """Compile VALUES."""
        check_parts(node, self.place, "expressions", "alias")
        rows = []
        for row in node.expressions:
            items = row.expressions
            if len(items) != len(node.expressions[0].expressions):
                raise self.place.wrong("the rows of VALUES have other numbers of columns", row)
            for branch, values in self.each(items, scope or Scope(), self.unit()):
                rows.append((replace(branch, values={}), values))
        names = tuple(f"col{i}" for i in range(len(node.expressions[0].expressions)))
        return Derived(names, tuple(self.unify_rows(rows, node.expressions[0].expressions)))

    # WITH RECURSIVE: a relation that reads itself and has each row once.

    def _reads(self, node: Node, name: str) -> bool:
        """Return whether a query reads a relation of this name."""
        return next(self._places(node, name), None) is not None

    def _places(self, node: Node, name: str) -> Iterator[Node]:
        """Return the nodes of a query that read a relation of this name."""
        from sqlglot import expressions as exp

        key = self.place.names.key
        return (table for table in node.find_all(exp.Table) if key(table.name) == key(name))

    def _recursive(self, node: Node, names: Sequence[str]) -> Derived:
        """Compile a recursive common table expression: the initial and the recursive queries."""
        from sqlglot import expressions as exp

        place = self.place
        union, name = node.this, node.alias
        if not isinstance(union, exp.Union) or not union.args.get("distinct"):
            raise place.refused(
                f"the recursion of '{name}' is not a UNION"
                + (" but UNION ALL" if isinstance(union, exp.Union) else ""),
                node.args["alias"],
                "A view has each row of a recursion once: write UNION. Add a column, such as the number of steps, if "
                "equal rows have to count. gpu_wcoj.query answers UNION ALL once.",
            )
        check_parts(union, place, "this", "expression", "distinct")
        if self._reads(union.this, name):
            raise place.refused(
                f"'{name}' is read before its recursion begins",
                next(self._places(union.this, name)),
                "Write what begins it first, and all that reads it behind one UNION: "
                "first UNION (next UNION ALL next).",
            )
        parts = list(self._recursive_parts(union.expression))
        start = self.query(union.this, None)
        columns = self.with_names(start, names, node).columns
        head = self.helper(name)
        rows = [values for _, values in self._rows_of(start)]
        relation = Derived(
            columns, (), head, tuple(self.kind_of_column(row[column] for row in rows) for column in range(len(columns)))
        )
        self.named_here[-1][name] = relation
        around = self.recursing
        self.recursing = {**around, head: node.args["alias"]}
        self._write_part(head, relation, start, union.this)
        for part in parts:
            if self._reads(part, name):
                self._check_linear(part, name)
            self._write_part(head, relation, self.query(part, None), part)
        self.recursing = around
        return relation

    def _recursive_parts(self, node: Node) -> Iterator[Node]:
        """Yield the SELECTs of the query after UNION."""
        from sqlglot import expressions as exp

        if isinstance(node, exp.Select):
            yield node
        elif isinstance(node, exp.Subquery):
            check_parts(node, self.place, "this")
            yield from self._recursive_parts(node.this)
        elif isinstance(node, exp.Union):
            check_parts(node, self.place, "this", "expression", "distinct")
            yield from self._recursive_parts(node.this)
            yield from self._recursive_parts(node.expression)
        else:
            raise self.place.refused(f"{describe_node(node)} is not supported in a recursion", node)

    def _check_linear(self, node: Node, name: str) -> None:
        """Refuse recursive queries that need a complete relation, or that databases disagree on."""
        from sqlglot import expressions as exp

        places = list(self._places(node, name))
        if len(places) > 1:
            raise self.place.refused(
                f"'{name}' stands twice in a part of its recursion",
                places[1],
                "Let one of the two read what the recursion begins with.",
            )
        if places[0].find_ancestor(exp.Select) is not node or node.args.get("distinct") or is_grouped(node):
            raise self.place.refused(
                f"'{name}' is only read in the FROM of a SELECT without DISTINCT and aggregates in its recursion",
                places[0],
            )
        for join in node.args.get("joins") or ():
            if join.args.get("side"):
                raise self.place.refused("outer joins are not supported in a recursion", join)

    def _write_part(self, head: str, relation: Derived, derived: Derived, node: Node) -> None:
        if len(derived.columns) != len(relation.columns):
            raise self.place.wrong(
                f"this part has {counted(len(derived.columns), 'column')}, and the first one {len(relation.columns)}",
                node,
            )
        for branch, values in self._rows_of(derived):
            self.write(head, branch, values, relation.columns)

"""GROUP BY and aggregates: a relation of keys and arguments, and one of each aggregate.

Joins by keys treat null as equal to null. An aggregate without any value is null, or 0 for a count: a rule derives it
for groups that have only nulls, and derives nothing if a column has never had a null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpu_wcoj.query.ir import NULL, Atom, Call, Comparison, Constant, Expression, Rule, Variable
from gpu_wcoj.query.sql.coercion import group_of
from gpu_wcoj.query.sql.conditions import TRUE_VALUE, antijoin, distinct, semijoin
from gpu_wcoj.query.sql.from_clause import Joined, from_clause
from gpu_wcoj.query.sql.scope import UNIT, Branch, Context, Derived, Scope, Values
from gpu_wcoj.query.sql.source import Place, check_parts, describe_node, unique

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

    from gpu_wcoj.query.sql.compiler import Compiler


_ZERO = Constant(0)
DOUBLE_MEANS = ("spark", "databricks", "bigquery", "trino", "presto", "athena")
"""Dialects in which AVG of integers is a double."""


def is_grouped(node: Node) -> bool:
    """Return whether a SELECT groups or aggregates."""
    if node.args.get("group") or node.args.get("having"):
        return True
    return any(next(aggregates_in(expression), None) is not None for expression in node.expressions)


def aggregates_in(node: Node) -> Iterator[Node]:
    """Yield the aggregates of an expression, without those of its subqueries."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Window):
        return
    if isinstance(node, (exp.AggFunc, exp.Filter)):
        yield node
        return
    if isinstance(node, (exp.Query, exp.Subquery)):
        return
    for child in node.iter_expressions():
        yield from aggregates_in(child)


@dataclass(frozen=True)
class _Aggregate:
    """One aggregate: operation and column number of its argument, if it has one."""

    op: str
    argument: int | None
    is_distinct: bool


def grouped(context: Context, node: Node, joined: Joined) -> Derived:
    """Compile a SELECT that aggregates."""
    items = expanded(context, node, joined.scope)
    keys = _keys(context, node, items, joined.scope)
    having = node.args.get("having")
    if having is not None:
        check_parts(having, context.place, "this")
    parts = [item for item, _ in items] + ([] if having is None else [having.this])
    calls = [call for part in parts for call in aggregates_in(part)]
    arguments: list[Node] = []
    aggregates = [_add_aggregate(context, call, arguments, joined.scope) for call in calls]
    rows = [
        (bare(where), values)
        for branch in joined.branches
        for where, values in context.each([*keys, *arguments], joined.scope, branch)
    ]
    names = tuple(f"key{i}" if not key.name else key.name for i, key in enumerate(keys))
    if not keys and not arguments:  # a relation needs a column
        names, rows = ("row",), [(where, (_ZERO,)) for where, _ in rows]
    rows = context.unify_rows(rows, [*keys, *arguments])
    base = Derived((*names, *(f"value{i}" for i in range(len(arguments)))), tuple(rows))
    if not rows and keys:
        return Derived(unique([name for _, name in items], context.place.names), ())
    groups = _Groups(context, base, len(keys))
    _check_kinds(context, groups, calls, aggregates)
    branch, key_values, results = groups.joined(list(dict.fromkeys(aggregates)))
    numbers = context.numbered(len(keys))
    visible = {identity(context, key, joined.scope): n for key, n in zip(keys, numbers, strict=True)}
    branch = branch.with_values(dict(zip(numbers, key_values, strict=True)))
    for call, aggregate in zip(calls, aggregates, strict=True):
        (column,) = context.numbered(1)
        visible[identity(context, call, joined.scope)] = column
        branch = branch.with_values({column: results[aggregate]})
    named = {context.place.names.key(item.alias): item for item, _ in items if item.alias}
    scope = GroupedScope(
        joined.scope.sources, joined.scope.visible, joined.scope.parent, joined.scope.outer_refused, visible, named
    )
    branches = [branch] if having is None else context.truth(having.this, TRUE_VALUE, scope, branch)
    result = [
        (bare(where), values)
        for branch in branches
        for where, values in context.each([item for item, _ in items], replace(scope, named={}), branch)
    ]
    result = context.unify_rows(result, [item for item, _ in items])
    return Derived(unique([name for _, name in items], context.place.names), tuple(result))


@dataclass(frozen=True)
class GroupedScope(Scope):
    """Scope after GROUP BY: numbers of keys and aggregates, and named items of SELECT."""

    column_numbers: Mapping[object, int] = field(default_factory=dict)
    named: Mapping[str, Node] = field(default_factory=dict)

    @property
    def plain(self) -> Scope:
        """The scope before GROUP BY."""
        return Scope(self.sources, self.visible, self.parent, self.outer_refused)


def identity(context: Context, node: Node, scope: Scope) -> object:
    """Return a key that equal expressions share.

    It holds the parts of the expression, the numbers of columns, and the texts of queries.
    """
    from sqlglot import expressions as exp

    if isinstance(node, exp.Query):  # its columns are not in this scope
        return "query", node.sql()
    if isinstance(node, exp.Paren):
        return identity(context, node.this, scope)
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        column_number = node.args.get("number")
        return "column", column_number if column_number is not None else Scope.column(scope, node, context.place)
    parts = []
    for name, value in sorted(node.args.items()):
        values = value if isinstance(value, list) else [value]
        parts.append(
            (
                name,
                tuple(
                    identity(context, value, scope) if hasattr(value, "walk") else str(value)
                    for value in values
                    if value is not None and value is not False
                ),
            )
        )
    return type(node).__name__, tuple(part for part in parts if part[1])


def _keys(context: Context, node: Node, items: list[tuple[Node, str]], scope: Scope) -> list[Node]:
    """Return the keys of GROUP BY: columns, expressions, positions, and aliases of SELECT."""
    from sqlglot import expressions as exp

    place = context.place
    group = node.args.get("group")
    if group is None:
        return []
    check_parts(group, place, "expressions", "all")
    if group.args.get("all"):
        return [item for item, _ in items if next(aggregates_in(item), None) is None]
    keys: list[Node] = []
    for key_node in group.expressions:
        if isinstance(key_node, (exp.Rollup, exp.Cube, exp.GroupingSets)):
            raise place.refused(
                f"{describe_node(key_node)} is not supported",
                key_node,
                "Write one GROUP BY for each set of columns, and UNION ALL.",
            )
        if isinstance(key_node, exp.Literal) and not key_node.is_string:
            position = int(key_node.this) if str(key_node.this).isdecimal() else 0
            if not 1 <= position <= len(items):
                raise place.wrong(f"GROUP BY {key_node.this}: there are {len(items)} columns", key_node)
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


def _check_kinds(context: Context, groups: _Groups, calls: Sequence[Node], aggregates: Sequence[_Aggregate]) -> None:
    """Refuse sums of other types than numbers, and means that are decimals in the dialect.

    Means are doubles here.
    """
    for node, aggregate in zip(calls, aggregates, strict=True):
        if aggregate.op not in ("sum", "avg"):
            continue
        kind = groups.kind(groups.n_keys + (aggregate.argument or 0))
        if kind is not None and group_of(kind) != "number":
            raise context.place.mistyped(f"{aggregate.op.upper()} needs numbers: got type '{kind}'", node)
        if aggregate.op == "sum" or context.dialect == "duckdb":
            continue
        is_integer = kind is not None and "int" in kind
        if kind != "double" and not (is_integer and context.dialect in DOUBLE_MEANS):
            raise context.place.refused(
                f"AVG of {kind or 'an unknown type'} may be a decimal in the dialect '{context.dialect}'",
                node,
                "Declare the types of columns, or write AVG(CAST(x AS DOUBLE)); in Postgres, DOUBLE PRECISION.",
            )


def _add_aggregate(context: Context, node: Node, arguments: list[Node], scope: Scope) -> _Aggregate:
    """Return the aggregate of a call; its argument is added to `arguments`."""
    from sqlglot import expressions as exp

    place = context.place
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
    argument_identity = identity(context, value, scope)
    for position, argument in enumerate(arguments):
        if identity(context, argument, scope) == argument_identity:
            return _Aggregate(op, position, is_distinct)
    arguments.append(value)
    return _Aggregate(op, len(arguments) - 1, is_distinct)


class _Groups:
    """Helper relations of one grouping."""

    def __init__(self, context: Context, base: Derived, n_keys: int) -> None:
        self.context = context
        self.base = base
        self.n_keys = n_keys
        self.head = context.named(base, "group")
        self.results: dict[_Aggregate, str] = {}

    def joined(self, aggregates: list[_Aggregate]) -> tuple[Branch, Values, dict[_Aggregate, Expression]]:
        """Return a branch with a row for each group: the keys and the aggregates."""
        context = self.context
        keys = tuple(
            context.fresh(name, self.kind(column)) for column, name in enumerate(self.base.columns[: self.n_keys])
        )
        non_null = frozenset(key for column, key in enumerate(keys) if not self.may_be_null(column))
        atoms: list[Atom] = []
        value_of: dict[_Aggregate, Expression] = {}
        read_aggregates = aggregates or [_Aggregate("count", None, False)]
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

    def kind(self, column: int) -> str | None:
        return self.context.kind_of_column(values[column] for _, values in self.base.branches)

    def may_be_null(self, column: int) -> bool:
        return any(branch.may_be_null(values[column]) for branch, values in self.base.branches)

    def read(self, aggregate: _Aggregate, keys: tuple[Variable, ...], atoms: list[Atom]) -> Variable:
        head = self.result(aggregate)
        for atom in atoms:
            if atom.relation == head:
                return atom.terms[-1]  # type: ignore[return-value]
        kind = {"count": "int64", "avg": "double"}.get(aggregate.op) or self.sum_kind(aggregate)
        result = self.context.fresh(aggregate.op, kind)
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
        context = self.context
        source, column = self.head, aggregate.argument
        n_columns = len(self.base.columns)
        if aggregate.is_distinct:
            source, column, n_columns = self.distinct(aggregate), 0, self.n_keys + 2
        name = self.results[aggregate] = context.helper(aggregate.op)
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
            context.rules.append(Rule(Atom(name, (*keys, call)), (read,)))
            return name
        aggregate_head, has = context.helper("agg"), context.helper("has")
        context.rules.append(Rule(Atom(aggregate_head, (*keys, call)), (read,), tests if may_lack else ()))
        safe = tuple(Variable(f"k{i}?") for i in range(self.n_keys))
        nothing = _ZERO if aggregate.op == "count" else NULL
        context.rules += [
            Rule(Atom(name, (*keys, value)), (Atom(aggregate_head, (*keys, value)),)),
            Rule(Atom(has, keys or (_ZERO,)), (Atom(aggregate_head, (*keys, Variable("_#1"))),)),
        ]
        if not self.n_keys:
            _ = context.unit()
            unit_atom = Atom(UNIT, (Variable("_#1"),))
            context.rules.append(Rule(Atom(name, (nothing,)), (unit_atom,), (), (Atom(has, (_ZERO,)),)))
            return name
        without = context.helper("null")
        value_terms[column or 0] = NULL  # type: ignore[call-overload]
        context.rules += [
            Rule(Atom(without, (*keys, Call("count", ()))), (Atom(source, (*keys, *value_terms)),)),
            Rule(Atom(name, (*safe, nothing)), (Atom(without, (*safe, Variable("_#1"))),), (), (Atom(has, safe),)),
        ]
        return name

    def distinct(self, aggregate: _Aggregate) -> str:
        """Return the relation of keys and one argument, each once, with their weight."""
        name = self.results.get(_Aggregate("each", aggregate.argument, True))
        if name is None:
            name = self.results[_Aggregate("each", aggregate.argument, True)] = self.context.helper("each")
            keys = tuple(Variable(f"k{i}") for i in range(self.n_keys))
            value_terms = [Variable(f"_#{i}") for i in range(len(self.base.columns) - self.n_keys)]
            value_terms[aggregate.argument or 0] = Variable("v")
            self.context.rules.append(
                Rule(Atom(name, (*keys, Variable("v"), Call("count", ()))), (Atom(self.head, (*keys, *value_terms)),))
            )
        return name

    def average(self, aggregate: _Aggregate) -> str:
        """Return the relation of sums divided by counts, as doubles; null if the sum is null."""
        sums = self.result(_Aggregate("sum", aggregate.argument, aggregate.is_distinct))
        counts = self.result(_Aggregate("count", aggregate.argument, aggregate.is_distinct))
        name = self.results[aggregate] = self.context.helper("avg")
        keys = tuple(Variable(f"k{i}?") for i in range(self.n_keys))
        total, count = Variable("s"), Variable("n")
        mean = Call("/", (Call("double", (total,)), Call("double", (count,))))
        plain = tuple(Variable(f"k{i}") for i in range(self.n_keys))
        self.context.rules += [
            Rule(Atom(name, (*keys, mean)), (Atom(sums, (*keys, total)), Atom(counts, (*keys, count)))),
            Rule(Atom(name, (*plain, NULL)), (Atom(sums, (*plain, NULL)),)),
        ]
        return name


# SELECT: FROM, WHERE, the selected columns, GROUP BY, DISTINCT.


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
)

_NOT_CORRELATED = (
    "a query with aggregates, UNION or WITH in a condition cannot refer to the outer query\n"
    "Join with it in FROM instead, by the columns that are compared."
)


def select(context: Context, node: Node, around: Scope | None) -> Derived:
    """Compile a SELECT."""
    check_parts(node, context.place, *PARTS)
    if not node.expressions:
        raise context.place.wrong("SELECT names no column", node)
    if node.args.get("kind"):
        raise context.place.refused(f"SELECT AS {node.args['kind']} is not supported", node)
    joined = filtered(context, node, from_clause(context, node, around))
    if is_grouped(node):
        derived = grouped(context, node, joined)
    else:
        items = expanded(context, node, joined.scope)
        rows = [
            (bare(where), values)
            for branch in joined.branches
            for where, values in context.each([item for item, _ in items], joined.scope, branch)
        ]
        derived = Derived(
            unique([name for _, name in items], context.place.names),
            tuple(context.unify_rows(rows, [item for item, _ in items])),
        )
    _ = context.limited([branch for branch, _ in derived.branches], node)
    if node.args.get("distinct"):
        check_parts(node.args["distinct"], context.place)
        return once(context, derived)
    return derived


def filtered(context: Context, node: Node, joined: Joined) -> Joined:
    """Apply WHERE and the deferred conditions."""
    where = node.args.get("where")
    conditions = list(joined.deferred)
    if where is not None:
        check_parts(where, context.place, "this")
        conditions.append(where.this)
    branches = joined.branches
    for condition in conditions:
        branches = [
            after for branch in branches for after in context.truth(condition, TRUE_VALUE, joined.scope, branch)
        ]
    branches = branches or [branch.never() for branch in joined.branches[:1]]  # which gives the columns their types
    return Joined(joined.scope, context.limited(branches, where or node))


def bare(branch: Branch) -> Branch:
    """Return the branch without column values."""
    return replace(branch, values={})


def once(context: Context, derived: Derived) -> Derived:
    """Return the rows of a query result, each once."""
    if not derived.branches:
        return derived
    head = context.named(derived, "row")
    counted = distinct(context, head, len(derived.columns))
    branch, values = context.reading(head, derived)
    (atom,) = branch.atoms
    atom = Atom(counted, (*atom.terms, context.fresh("_")))
    return Derived(derived.columns, ((replace(branch, atoms=(atom,)), values),))


def expanded(context: Context, node: Node, scope: Scope) -> list[tuple[Node, str]]:
    """Return the selected expressions with their names, and ``*`` expanded."""
    from sqlglot import expressions as exp

    place = context.place
    result: list[tuple[Node, str]] = []
    for position, item in enumerate(node.expressions, start=1):
        star = item.this if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else item
        if not isinstance(star, exp.Star):
            result.append((item, item.alias or column_name(item, position, scope, place)))
            continue
        check_parts(star, place)
        columns: Sequence[tuple[str, int]] = scope.visible
        if star is not item:
            source = scope.source(item.args["table"], place)
            if source is None:
                raise place.unknown(item.args["table"], [source.name for source in scope.sources], "relations in reach")
            columns = source.columns
        elif not columns:
            raise place.wrong("'*' needs a FROM", item)
        for name, column_number in columns:
            column = exp.Column(this=exp.Identifier(this=name, quoted=True))
            column.set("number", column_number)
            column.parent = item.parent
            result.append((column, name))
    return result


def column_name(item: Node, position: int, scope: Scope, place: Place) -> str:
    """Return the name of a column without an alias: of the column or function."""
    from sqlglot import expressions as exp

    if isinstance(item, exp.Paren):
        return column_name(item.this, position, scope, place)
    if isinstance(item, exp.Column):
        column_number = scope.resolve_local(item, place)
        columns = [*scope.visible, *(column for source in scope.sources for column in source.columns)]
        return next((name for name, candidate in columns if candidate == column_number), str(item.name))
    if isinstance(item, exp.Func) and not isinstance(item, (exp.Connector, exp.Predicate, exp.Cast)):
        return item.sql_name().lower()
    return f"column{position}"


def within_row(context: Context, node: Node, scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
    """Return the rows of a query in a condition, joined with a row of the outer query."""
    from sqlglot import expressions as exp

    while isinstance(node, (exp.Subquery, exp.Paren)):
        check_parts(node, context.place, "this")
        node = node.this
    if isinstance(node, exp.Union) and not node.args.get("with_"):
        check_parts(node, context.place, "this", "expression", "distinct")
        parts = [within_row(context, operand, scope, branch) for operand in (node.this, node.expression)]
        if all(parts) and len(parts[0][0][1]) != len(parts[1][0][1]):
            raise context.place.wrong("the two queries of UNION have other numbers of columns", node)
        return [pair for part in parts for pair in part]
    row = replace(branch, fixed=branch.fixed | branch.variables)
    if not isinstance(node, exp.Select) or is_grouped(node) or node.args.get("with_"):
        derived = context.query(node, Scope(parent=scope, outer_refused=_NOT_CORRELATED))
        if not derived.branches and not derived.head:
            return []
        read, values = context.read(derived)
        return [(row.joined(read), values)]
    check_parts(node, context.place, *PARTS)
    relations = from_clause(context, node, scope)
    joined = filtered(context, node, replace(relations, branches=[row.joined(branch) for branch in relations.branches]))
    items = [item for item, _ in expanded(context, node, joined.scope)]
    pairs = [pair for branch in joined.branches for pair in context.each(items, joined.scope, branch)]
    return [(branch, ()) for branch in joined.branches] if isinstance(node.parent, exp.Exists) else pairs


# Set operations UNION, EXCEPT, INTERSECT, and VALUES.


def combined(context: Context, node: Node, scope: Scope | None) -> Derived:
    """Compile UNION, UNION ALL, EXCEPT or INTERSECT of queries."""
    from sqlglot import expressions as exp

    check_parts(node, context.place, "this", "expression", "distinct", "with_")
    if not isinstance(node, exp.Union) and not node.args.get("distinct"):
        raise context.place.refused(
            f"{describe_node(node)} ALL is not supported", node, f"Write {describe_node(node)}."
        )
    parts = [node]
    while type(parts[0]) is type(node) and _goes_on(parts[0], node):
        check_parts(parts[0], context.place, "this", "expression", "distinct", "with_")
        parts[:1] = [parts[0].this, parts[0].expression]
    result = context.query(parts[0], scope)
    for part in parts[1:]:
        result = _with(context, node, result, context.query(part, scope), part)
    if isinstance(node, exp.Union) and node.args.get("distinct"):
        return once(context, result)
    return result


def _goes_on(node: Node, outer: Node) -> bool:
    """Return whether a node continues a chain of one operation: ``a UNION b UNION c``."""
    is_plain = node is outer or not node.args.get("with_")
    return is_plain and node.args.get("distinct") == outer.args.get("distinct")


def _with(context: Context, node: Node, left: Derived, right: Derived, part: Node) -> Derived:
    from sqlglot import expressions as exp

    if len(left.columns) != len(right.columns):
        raise context.place.wrong(
            f"{describe_node(node)} of {len(left.columns)} and {len(right.columns)} columns; write the same number",
            part,
        )
    if isinstance(node, exp.Union):
        rows = [row for side in (left, right) for row in rows_of(context, side)]
        _ = context.limited([branch for branch, _ in rows], part)
        return Derived(left.columns, tuple(context.unify_rows(rows)))
    left, right = _unify_types(context, left, right)
    first, second = once(context, left), once(context, right)
    if not first.branches:
        return first
    row, values = context.read(first)
    numbers = context.numbered(2 * len(values))
    fixed = replace(row, fixed=row.variables)
    pairs = []
    for branch, right_values in second.branches:
        pair = fixed.joined(branch).with_values(dict(zip(numbers, (*values, *right_values), strict=True)))
        matches = [pair]
        for a, b in zip(numbers[: len(values)], numbers[len(values) :], strict=True):
            matches = [match for where in matches for match in where.same(where.values[a], where.values[b])]
        pairs += matches
    if isinstance(node, exp.Except):
        branches = antijoin(context, row, row, pairs)
    else:
        branches = semijoin(context, row, row, pairs)
    return Derived(left.columns, tuple((replace(branch, values={}), values) for branch in branches))


def _unify_types(context: Context, left: Derived, right: Derived) -> tuple[Derived, Derived]:
    """Convert two queries to types that compare."""
    tagged = [
        (branch, (*values, Constant(side)))
        for side, derived in enumerate((left, right))
        for branch, values in rows_of(context, derived)
    ]
    rows = context.unify_rows(tagged)
    first, second = (
        tuple((branch, values[:-1]) for branch, values in rows if values[-1] == Constant(side)) for side in (0, 1)
    )
    return Derived(left.columns, first), Derived(right.columns, second)


def rows_of(context: Context, derived: Derived) -> list[tuple[Branch, Values]]:
    """Return the branches of a query result."""
    if derived.head:
        return [context.read(derived)]
    return list(derived.branches)


def listed(context: Context, node: Node, scope: Scope | None) -> Derived:
    """Compile VALUES."""
    check_parts(node, context.place, "expressions", "alias")
    rows = []
    for row in node.expressions:
        items = row.expressions
        if len(items) != len(node.expressions[0].expressions):
            raise context.place.wrong("the rows of VALUES have other numbers of columns", row)
        for branch, values in context.each(items, scope or Scope(), context.unit()):
            rows.append((replace(branch, values={}), values))
    names = tuple(f"col{i}" for i in range(len(node.expressions[0].expressions)))
    return Derived(names, tuple(context.unify_rows(rows, node.expressions[0].expressions)))


# WITH RECURSIVE: a relation that reads itself and has each row once.


def reads(context: Context, node: Node, name: str) -> bool:
    """Return whether a query reads a relation of this name."""
    return next(_places(context, node, name), None) is not None


def _places(context: Context, node: Node, name: str) -> Iterator[Node]:
    """Return the nodes of a query that read a relation of this name."""
    from sqlglot import expressions as exp

    key = context.place.names.key
    return (table for table in node.find_all(exp.Table) if key(table.name) == key(name))


def recursive(context: Compiler, node: Node, names: Sequence[str]) -> Derived:
    """Compile a recursive common table expression: the initial and the recursive queries."""
    from sqlglot import expressions as exp

    place = context.place
    union, name = node.this, node.alias
    if not isinstance(union, exp.Union) or not union.args.get("distinct"):
        raise place.refused(
            f"the recursion of '{name}' is not a UNION" + (" but UNION ALL" if isinstance(union, exp.Union) else ""),
            node.args["alias"],
            "Recursion gives each row once: write WITH RECURSIVE name AS (first UNION next).",
        )
    check_parts(union, place, "this", "expression", "distinct")
    if reads(context, union.this, name):
        raise place.refused(
            f"'{name}' is read before its recursion begins",
            next(_places(context, union.this, name)),
            "Write what begins it first, and all that reads it behind one UNION: first UNION (next UNION ALL next).",
        )
    parts = list(_parts(context, union.expression))
    start = context.query(union.this, None)
    columns = context.with_names(start, names, node).columns
    head = context.helper(name)
    rows = [values for _, values in rows_of(context, start)]
    relation = Derived(
        columns, (), head, tuple(context.kind_of_column(row[column] for row in rows) for column in range(len(columns)))
    )
    context.named_here[-1][name] = relation
    around = context.recursing
    context.recursing = {**around, head: node.args["alias"]}
    _write(context, head, relation, start, union.this)
    for part in parts:
        if reads(context, part, name):
            _check_linear(context, part, name)
        _write(context, head, relation, context.query(part, None), part)
    context.recursing = around
    return relation


def _parts(context: Context, node: Node) -> Iterator[Node]:
    """Yield the SELECTs of the query after UNION."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Select):
        yield node
    elif isinstance(node, exp.Subquery):
        check_parts(node, context.place, "this")
        yield from _parts(context, node.this)
    elif isinstance(node, exp.Union):
        check_parts(node, context.place, "this", "expression", "distinct")
        yield from _parts(context, node.this)
        yield from _parts(context, node.expression)
    else:
        raise context.place.refused(f"{describe_node(node)} is not supported in a recursion", node)


def _check_linear(context: Context, node: Node, name: str) -> None:
    """Refuse recursive queries that need a complete relation, or that databases disagree on."""
    from sqlglot import expressions as exp

    places = list(_places(context, node, name))
    if len(places) > 1:
        raise context.place.refused(
            f"'{name}' stands twice in a part of its recursion",
            places[1],
            "Let one of the two read what the recursion begins with.",
        )
    if places[0].find_ancestor(exp.Select) is not node or node.args.get("distinct") or is_grouped(node):
        raise context.place.refused(
            f"'{name}' is only read in the FROM of a SELECT without DISTINCT and aggregates in its recursion", places[0]
        )
    for join in node.args.get("joins") or ():
        if join.args.get("side"):
            raise context.place.refused("outer joins are not supported in a recursion", join)


def _write(context: Context, head: str, relation: Derived, derived: Derived, node: Node) -> None:
    if len(derived.columns) != len(relation.columns):
        raise context.place.wrong(
            f"this part has {len(derived.columns)} columns, and the first one {len(relation.columns)}", node
        )
    for branch, values in rows_of(context, derived):
        context.write(head, branch, values, relation.columns)

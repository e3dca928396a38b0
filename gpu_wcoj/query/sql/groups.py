"""GROUP BY and aggregates: a relation of keys and arguments, one aggregate each of it, joined again by the keys.

Keys are joined null with null. An aggregate of no value at all is null, or 0 if it counts: there is a rule for
the groups that have nulls and nothing else, which derives nothing where a column has never had a null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.sql.alike import group_of
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.context import UNIT, Context, Derived
from gpu_wcoj.query.sql.joins import Joined
from gpu_wcoj.query.sql.known import called, check_parts
from gpu_wcoj.query.sql.names import unique
from gpu_wcoj.query.sql.scope import Scope
from gpu_wcoj.query.sql.truth import TRUE
from gpu_wcoj.query.terms import NULL, Atom, Call, Comparison, Constant, Expression, Variable

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_ZERO = Constant(0)
DOUBLE_MEANS = ("spark", "databricks", "bigquery", "trino", "presto", "athena")
"""Dialects in which AVG of integers is a double."""


def is_grouped(node: Node) -> bool:
    """Whether a SELECT groups or aggregates."""
    if node.args.get("group") or node.args.get("having"):
        return True
    return any(next(aggregates_in(one), None) is not None for one in node.expressions)


def aggregates_in(node: Node) -> Iterator[Node]:
    """The aggregates of an expression, not those of queries within it."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Window):
        return
    if isinstance(node, (exp.AggFunc, exp.Filter)):
        yield node
        return
    if isinstance(node, (exp.Query, exp.Subquery)):
        return
    for one in node.iter_expressions():
        yield from aggregates_in(one)


@dataclass(frozen=True)
class _Asked:
    """One aggregate: what it is, and the number of the argument in the relation that is grouped, if it has one."""

    op: str
    argument: int | None
    is_distinct: bool


def grouped(context: Context, node: Node, found: Joined) -> Derived:
    """What a SELECT that aggregates gives."""
    from gpu_wcoj.query.sql.selection import bare, expanded

    items = expanded(context, node, found.scope)
    keys = _keys(context, node, items, found.scope)
    having = node.args.get("having")
    if having is not None:
        check_parts(having, context.place, "this")
    parts = [one for one, _ in items] + ([] if having is None else [having.this])
    calls = [one for part in parts for one in aggregates_in(part)]
    arguments: list[Node] = []
    asked = [_asked(context, one, arguments, found.scope) for one in calls]
    rows = [
        (bare(where), values)
        for branch in found.branches
        for where, values in context.each([*keys, *arguments], found.scope, branch)
    ]
    names = tuple(f"key{i}" if not one.name else one.name for i, one in enumerate(keys))
    if not keys and not arguments:  # a relation has a column
        names, rows = ("row",), [(where, (_ZERO,)) for where, _ in rows]
    rows = context.unified(rows, [*keys, *arguments])
    base = Derived((*names, *(f"value{i}" for i in range(len(arguments)))), tuple(rows))
    if not rows and keys:
        return Derived(unique([name for _, name in items], context.place.names), ())
    groups = _Groups(context, base, len(keys))
    _check_kinds(context, groups, calls, asked)
    branch, key_values, results = groups.joined(list(dict.fromkeys(asked)))
    numbers = context.numbered(len(keys))
    visible = {identity(context, key, found.scope): n for key, n in zip(keys, numbers, strict=True)}
    branch = branch.with_values(dict(zip(numbers, key_values, strict=True)))
    for one, what in zip(calls, asked, strict=True):
        (number,) = context.numbered(1)
        visible[identity(context, one, found.scope)] = number
        branch = branch.with_values({number: results[what]})
    named = {context.place.names.key(one.alias): one for one, _ in items if one.alias}
    scope = GroupedScope(
        found.scope.sources, found.scope.visible, found.scope.around, found.scope.outer_refused, visible, named
    )
    branches = [branch] if having is None else context.truth(having.this, TRUE, scope, branch)
    result = [
        (bare(where), values)
        for one in branches
        for where, values in context.each([item for item, _ in items], replace(scope, named={}), one)
    ]
    result = context.unified(result, [one for one, _ in items])
    return Derived(unique([name for _, name in items], context.place.names), tuple(result))


@dataclass(frozen=True)
class GroupedScope(Scope):
    """What is in reach behind GROUP BY: keys and aggregates by what they are, and what is selected by its name."""

    known: Mapping[object, int] = field(default_factory=dict)
    named: Mapping[str, Node] = field(default_factory=dict)

    @property
    def plain(self) -> Scope:
        """What was in reach before."""
        return Scope(self.sources, self.visible, self.around, self.outer_refused)


def identity(context: Context, node: Node, scope: Scope) -> object:
    """What is equal for expressions that mean the same: their parts, the numbers of columns, the texts of queries."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Query):  # which has columns of its own
        return "query", node.sql()
    if isinstance(node, exp.Paren):
        return identity(context, node.this, scope)
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        number = node.args.get("number")
        return "column", number if number is not None else Scope.column(scope, node, context.place)
    parts = []
    for name, value in sorted(node.args.items()):
        values = value if isinstance(value, list) else [value]
        parts.append(
            (
                name,
                tuple(
                    identity(context, one, scope) if hasattr(one, "walk") else str(one)
                    for one in values
                    if one is not None and one is not False
                ),
            )
        )
    return type(node).__name__, tuple(one for one in parts if one[1])


def _keys(context: Context, node: Node, items: list[tuple[Node, str]], scope: Scope) -> list[Node]:
    """What GROUP BY names: columns, expressions, places and names of what is selected."""
    from sqlglot import expressions as exp

    place = context.place
    group = node.args.get("group")
    if group is None:
        return []
    check_parts(group, place, "expressions", "all")
    if group.args.get("all"):
        return [one for one, _ in items if next(aggregates_in(one), None) is None]
    keys: list[Node] = []
    for one in group.expressions:
        if isinstance(one, (exp.Rollup, exp.Cube, exp.GroupingSets)):
            raise place.refused(
                f"{called(one)} is not supported", one, "Write one GROUP BY for each set of columns, and UNION ALL."
            )
        if isinstance(one, exp.Literal) and not one.is_string:
            at = int(one.this) if str(one.this).isdecimal() else 0
            if not 1 <= at <= len(items):
                raise place.wrong(f"GROUP BY {one.this}: there are {len(items)} columns", one)
            one = items[at - 1][0]
        elif isinstance(one, exp.Column) and not one.args.get("table") and scope.own(one, place) is None:
            key = place.names.key
            alias = [item for item, name in items if item.alias and key(name) == key(one.name)]
            one = alias[0] if alias else one
        while isinstance(one, (exp.Alias, exp.Paren)):
            one = one.this
        if next(aggregates_in(one), None) is not None:
            raise place.wrong("GROUP BY cannot name an aggregate", one)
        keys.append(one)
    return keys


def _check_kinds(context: Context, groups: _Groups, calls: Sequence[Node], asked: Sequence[_Asked]) -> None:
    """Refuse sums of what is no number, and means that are decimals in the dialect; those here are doubles."""
    for node, one in zip(calls, asked, strict=True):
        if one.op not in ("sum", "avg"):
            continue
        kind = groups.kind(groups.n_keys + (one.argument or 0))
        if kind is not None and group_of(kind) != "number":
            raise context.place.mistyped(f"{one.op.upper()} is of numbers, and this is of type '{kind}'", node)
        if one.op == "sum" or context.dialect == "duckdb":
            continue
        is_integer = kind is not None and "int" in kind
        if kind != "double" and not (is_integer and context.dialect in DOUBLE_MEANS):
            raise context.place.refused(
                f"AVG of {kind or 'a type that is not known'} may be a decimal in the dialect '{context.dialect}'",
                node,
                "Declare the types of columns, or write AVG(CAST(x AS DOUBLE)); in Postgres, DOUBLE PRECISION.",
            )


def _asked(context: Context, node: Node, arguments: list[Node], scope: Scope) -> _Asked:
    """What an aggregate asks for; its argument joins `arguments`."""
    from sqlglot import expressions as exp

    place = context.place
    condition = None
    call = node
    if isinstance(node, exp.Filter):
        check_parts(node, place, "this", "expression")
        condition, call = node.expression.this, node.this
    names: dict[type, str] = {exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max", exp.Avg: "avg"}
    if type(call) not in names:
        raise place.refused(f"the aggregate {called(call)} is not supported", call, "COUNT, SUM, MIN, MAX and AVG are.")
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
            return _Asked("count", None, False)
        value = exp.Boolean(this=True)
    if condition is not None:
        chosen = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
        chosen.parent = node
        value = chosen
    if op in ("min", "max"):
        is_distinct = False
    mine = identity(context, value, scope)
    for at, one in enumerate(arguments):
        if identity(context, one, scope) == mine:
            return _Asked(op, at, is_distinct)
    arguments.append(value)
    return _Asked(op, len(arguments) - 1, is_distinct)


class _Groups:
    """The helpers of one grouping."""

    def __init__(self, context: Context, base: Derived, n_keys: int) -> None:
        self.context = context
        self.base = base
        self.n_keys = n_keys
        self.head = context.named(base, "group")
        self.results: dict[_Asked, str] = {}

    def joined(self, asked: list[_Asked]) -> tuple[Branch, Values, dict[_Asked, Expression]]:
        """A branch that has a row for each group: the keys, and what each aggregate comes to."""
        context = self.context
        keys = tuple(context.fresh(name, self.kind(at)) for at, name in enumerate(self.base.columns[: self.n_keys]))
        known = frozenset(key for at, key in enumerate(keys) if not self.may_be_null(at))
        atoms: list[Atom] = []
        found: dict[_Asked, Expression] = {}
        wanted = asked or [_Asked("count", None, False)]
        solid: set[Variable] = set()
        for one in wanted:
            result = self.read(one, keys, atoms)
            found[one] = result
            if one.op == "count" or (
                one.argument is not None and self.n_keys and not self.may_be_null(self.n_keys + one.argument)
            ):
                solid.add(result)
        return Branch(tuple(atoms), known=known | solid, safe=frozenset(keys) - known), keys, found

    def kind(self, at: int) -> str | None:
        return self.context.kind_of_column(values[at] for _, values in self.base.branches)

    def may_be_null(self, at: int) -> bool:
        return any(branch.may_be_null(values[at]) for branch, values in self.base.branches)

    def read(self, asked: _Asked, keys: tuple[Variable, ...], atoms: list[Atom]) -> Variable:
        head = self.result(asked)
        for one in atoms:
            if one.relation == head:
                return one.terms[-1]  # type: ignore[return-value]
        kind = {"count": "int64", "avg": "double"}.get(asked.op) or self.sum_kind(asked)
        result = self.context.fresh(asked.op, kind)
        atoms.append(Atom(head, (*keys, result)))
        return result

    def sum_kind(self, asked: _Asked) -> str | None:
        assert asked.argument is not None
        kind = self.kind(self.n_keys + asked.argument)
        return "int64" if asked.op == "sum" and kind is not None and "int" in kind else kind

    def result(self, asked: _Asked) -> str:
        """The relation of an aggregate's results: one for every group, also null and 0."""
        known = self.results.get(asked)
        if known is not None:
            return known
        if asked.op == "avg":
            return self.average(asked)
        context = self.context
        source, at = self.head, asked.argument
        n_columns = len(self.base.columns)
        if asked.is_distinct:
            source, at, n_columns = self.distinct(asked), 0, self.n_keys + 2
        name = self.results[asked] = context.helper(asked.op)
        keys = tuple(Variable(f"k{i}") for i in range(self.n_keys))
        rest = [Variable(f"_#{i}") for i in range(n_columns - self.n_keys)]
        value = Variable("v")
        call = Call("count", ()) if asked.op == "count" else Call(asked.op, (value,))
        tests: tuple[Comparison, ...] = ()
        if at is not None:
            rest[at] = value
            tests = (Comparison("!=", value, NULL),)
        read = Atom(source, (*keys, *rest))
        may_lack = at is not None and self.may_be_null(self.n_keys + (asked.argument or 0))
        if not may_lack and self.n_keys:
            context.rules.append(Rule(Atom(name, (*keys, call)), (read,)))
            return name
        own, has = context.helper("agg"), context.helper("has")
        context.rules.append(Rule(Atom(own, (*keys, call)), (read,), tests if may_lack else ()))
        safe = tuple(Variable(f"k{i}?") for i in range(self.n_keys))
        nothing = _ZERO if asked.op == "count" else NULL
        context.rules += [
            Rule(Atom(name, (*keys, value)), (Atom(own, (*keys, value)),)),
            Rule(Atom(has, keys or (_ZERO,)), (Atom(own, (*keys, Variable("_#1"))),)),
        ]
        if not self.n_keys:
            _ = context.unit()
            one = Atom(UNIT, (Variable("_#1"),))
            context.rules.append(Rule(Atom(name, (nothing,)), (one,), (), (Atom(has, (_ZERO,)),)))
            return name
        without = context.helper("null")
        rest[at or 0] = NULL  # type: ignore[call-overload]
        context.rules += [
            Rule(Atom(without, (*keys, Call("count", ()))), (Atom(source, (*keys, *rest)),)),
            Rule(Atom(name, (*safe, nothing)), (Atom(without, (*safe, Variable("_#1"))),), (), (Atom(has, safe),)),
        ]
        return name

    def distinct(self, asked: _Asked) -> str:
        """The relation of keys and one argument, each once, with their number."""
        name = self.results.get(_Asked("each", asked.argument, True))
        if name is None:
            name = self.results[_Asked("each", asked.argument, True)] = self.context.helper("each")
            keys = tuple(Variable(f"k{i}") for i in range(self.n_keys))
            rest = [Variable(f"_#{i}") for i in range(len(self.base.columns) - self.n_keys)]
            rest[asked.argument or 0] = Variable("v")
            self.context.rules.append(
                Rule(Atom(name, (*keys, Variable("v"), Call("count", ()))), (Atom(self.head, (*keys, *rest)),))
            )
        return name

    def average(self, asked: _Asked) -> str:
        """The relation of sums through counts, as doubles; null where the sum is."""
        sums = self.result(_Asked("sum", asked.argument, asked.is_distinct))
        counts = self.result(_Asked("count", asked.argument, asked.is_distinct))
        name = self.results[asked] = self.context.helper("avg")
        keys = tuple(Variable(f"k{i}?") for i in range(self.n_keys))
        total, number = Variable("s"), Variable("n")
        mean = Call("/", (Call("double", (total,)), Call("double", (number,))))
        plain = tuple(Variable(f"k{i}") for i in range(self.n_keys))
        self.context.rules += [
            Rule(Atom(name, (*keys, mean)), (Atom(sums, (*keys, total)), Atom(counts, (*keys, number)))),
            Rule(Atom(name, (*plain, NULL)), (Atom(sums, (*plain, NULL)),)),
        ]
        return name

"""Expressions: their values, and the branches under which they have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant import folded
from gpu_wcoj.query.sql.branch import Branch
from gpu_wcoj.query.sql.context import Case, Context
from gpu_wcoj.query.sql.known import check_parts, has_query
from gpu_wcoj.query.sql.literals import is_date, literal
from gpu_wcoj.query.sql.scope import Scope
from gpu_wcoj.query.sql.truth import FALSE, TRUE, UNKNOWN, conditions, is_simple
from gpu_wcoj.query.terms import NULL, Call, Constant

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


def cases(context: Context, node: Node, scope: Scope, branch: Branch) -> list[Case]:
    """The values of an expression in `branch`, disjoint: null where it is null, else what is calculated."""
    from sqlglot import expressions as exp

    place = context.place
    constant = literal(node, place)
    if constant is not None:
        return [(branch, constant)]
    if isinstance(node, (exp.Paren, exp.Alias)):
        check_parts(node, place, "this", "alias")
        return context.cases(node.this, scope, branch)
    if isinstance(node, (exp.Column, exp.Star)):
        raise place.wrong("'*' stands for all columns; name one here", node)
    if isinstance(node, exp.Window):
        raise place.refused(
            "window functions are not supported", node, "Aggregate with GROUP BY in a subquery, and join its result."
        )
    if isinstance(node, (exp.AggFunc, exp.Filter)):
        raise place.wrong("an aggregate cannot stand here; use it in SELECT or HAVING", node)
    is_choice = isinstance(node, (*conditions(), exp.Case, exp.If, exp.Coalesce, exp.Nullif))
    if is_choice and not _is_split(node) and not has_query(node):
        return [context.value(node, scope, branch)]
    if isinstance(node, conditions()):
        values = ((TRUE, Constant(True)), (FALSE, Constant(False)), (UNKNOWN, NULL))
        found: list[Case] = [
            (one, value) for wanted, value in values for one in context.truth(node, wanted, scope, branch)
        ]
        context.limited([one for one, _ in found], node)
        return found
    if isinstance(node, (exp.Case, exp.If)):
        return _case(context, node, scope, branch)
    if isinstance(node, exp.Coalesce):
        check_parts(node, place, "this", "expressions")
        return _coalesce(context, [node.this, *node.expressions], scope, branch)
    if isinstance(node, exp.Nullif):
        check_parts(node, place, "this", "expression")
        equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
        equal.parent = node
        found = [(one, NULL) for one in context.truth(equal, TRUE, scope, branch)]
        for wanted in (FALSE, UNKNOWN):
            found += [
                c for one in context.truth(equal, wanted, scope, branch) for c in context.cases(node.this, scope, one)
            ]
        return found
    return _calculated(context, node, scope, branch)


def _is_split(node: Node) -> bool:
    """Return whether a CASE becomes a rule for each value: one comparison of a column selects rows by an index then."""
    from sqlglot import expressions as exp

    if not isinstance(node, exp.Case) or node.this is not None:
        return False
    arms: Sequence[Node] = node.args.get("ifs") or ()
    return len(arms) == 1 and is_simple(arms[0].this)


def _case(context: Context, node: Node, scope: Scope, branch: Branch) -> list[Case]:
    from sqlglot import expressions as exp

    check_parts(node, context.place, "this", "ifs", "default", "true", "false")
    arms: list[tuple[Node, Node]] = []
    if isinstance(node, exp.If):
        arms.append((node.this, node.args["true"]))
    for one in node.args.get("ifs") or ():
        check_parts(one, context.place, "this", "true")
        asked = one.this
        if isinstance(node, exp.Case) and node.this is not None:
            asked = exp.EQ(this=node.this.copy(), expression=one.this.copy())
            asked.parent = node
        arms.append((asked, one.args["true"]))
    other = node.args.get("default") or node.args.get("false")
    found: list[Case] = []
    rest = [branch]
    for condition, value in arms:
        found += [
            case for where in rest for one in context.truth(condition, TRUE, scope, where)
            for case in context.cases(value, scope, one)
        ]  # fmt: skip
        rest = [
            one for where in rest for wanted in (FALSE, UNKNOWN)
            for one in context.truth(condition, wanted, scope, where)
        ]  # fmt: skip
        context.limited([*rest, *(one for one, _ in found)], node)
    for where in rest:
        found += [(where, NULL)] if other is None else context.cases(other, scope, where)
    return [(one, value) for one, (value,) in context.unified([(one, (value,)) for one, value in found])]


def _coalesce(context: Context, nodes: Sequence[Node], scope: Scope, branch: Branch) -> list[Case]:
    found: list[Case] = []
    rest = [branch]
    for node in nodes:
        empty: list[Branch] = []
        for where in rest:
            for there, value in context.cases(node, scope, where):
                if not there.may_be_null(value):
                    found.append((there, value))
                    continue
                full, none = there.not_null(value), there.null(value)
                found += [] if full is None else [(full, value)]
                empty += [] if none is None else [none]
        rest = empty
    found += [(one, NULL) for one in rest]
    return [(one, value) for one, (value,) in context.unified([(one, (value,)) for one, value in found])]


def _calculated(context: Context, node: Node, scope: Scope, branch: Branch) -> list[Case]:
    from gpu_wcoj.query.sql.functions import function

    arguments, make = function(context, node)
    found: list[Case] = []
    for where, values in context.each(arguments, scope, branch):
        nullable = [value for value in values if not isinstance(value, Call) and where.may_be_null(value)]
        if NULL in nullable[:1]:
            found.append((where, NULL))
            continue
        rest: Branch | None = where
        numbers = context.numbered(len(values) if nullable else 0)
        if nullable:
            rest = where.with_values(dict(zip(numbers, values, strict=True)))
        for number in numbers:
            assert rest is not None
            value = rest.values[number]
            if not rest.may_be_null(value) or isinstance(value, Call):
                continue
            none, rest = rest.null(value), rest.not_null(value)
            found += [] if none is None else [(none, NULL)]
            if rest is None:
                break
        if rest is not None:
            given = tuple(rest.values[number] for number in numbers) if nullable else values
            for one in given:
                if is_date(one):
                    raise context.place.refused(
                        "a date is not calculated with but for intervals, and is compared", node
                    )
            found.append((rest, folded(make(given))))
    context.limited([one for one, _ in found], node)
    return found

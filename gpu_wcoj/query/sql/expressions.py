"""Values of SQL expressions, and the branches in which they have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant_folding import fold_constants
from gpu_wcoj.query.ir import NULL, Call, Constant
from gpu_wcoj.query.sql.conditions import FALSE_VALUE, TRUE_VALUE, UNKNOWN, conditions, is_simple
from gpu_wcoj.query.sql.scope import Branch, Case, Context, Scope, is_date, literal
from gpu_wcoj.query.sql.source import check_parts, has_query

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


def cases(context: Context, node: Node, scope: Scope, branch: Branch) -> list[Case]:
    """Return disjoint branches with the values of an expression, null included."""
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
        values = ((TRUE_VALUE, Constant(True)), (FALSE_VALUE, Constant(False)), (UNKNOWN, NULL))
        result: list[Case] = [
            (after, value) for truth_value, value in values for after in context.truth(node, truth_value, scope, branch)
        ]
        context.limited([after for after, _ in result], node)
        return result
    if isinstance(node, (exp.Case, exp.If)):
        return _case(context, node, scope, branch)
    if isinstance(node, exp.Coalesce):
        check_parts(node, place, "this", "expressions")
        return _coalesce(context, [node.this, *node.expressions], scope, branch)
    if isinstance(node, exp.Nullif):
        check_parts(node, place, "this", "expression")
        equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
        equal.parent = node
        result = [(after, NULL) for after in context.truth(equal, TRUE_VALUE, scope, branch)]
        for truth_value in (FALSE_VALUE, UNKNOWN):
            result += [
                c
                for after in context.truth(equal, truth_value, scope, branch)
                for c in context.cases(node.this, scope, after)
            ]
        return result
    return _calculated(context, node, scope, branch)


def _is_split(node: Node) -> bool:
    """Return whether a CASE becomes a rule for each value.

    That pays for one comparison of a column, which selects rows by an index.
    """
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
    for arm in node.args.get("ifs") or ():
        check_parts(arm, context.place, "this", "true")
        arm_condition = arm.this
        if isinstance(node, exp.Case) and node.this is not None:
            arm_condition = exp.EQ(this=node.this.copy(), expression=arm.this.copy())
            arm_condition.parent = node
        arms.append((arm_condition, arm.args["true"]))
    default = node.args.get("default") or node.args.get("false")
    result: list[Case] = []
    remaining = [branch]
    for condition, value in arms:
        result += [
            case for where in remaining for after in context.truth(condition, TRUE_VALUE, scope, where)
            for case in context.cases(value, scope, after)
        ]  # fmt: skip
        remaining = [
            after for where in remaining for truth_value in (FALSE_VALUE, UNKNOWN)
            for after in context.truth(condition, truth_value, scope, where)
        ]  # fmt: skip
        context.limited([*remaining, *(after for after, _ in result)], node)
    for where in remaining:
        result += [(where, NULL)] if default is None else context.cases(default, scope, where)
    return [(after, value) for after, (value,) in context.unify_rows([(after, (value,)) for after, value in result])]


def _coalesce(context: Context, nodes: Sequence[Node], scope: Scope, branch: Branch) -> list[Case]:
    result: list[Case] = []
    remaining = [branch]
    for node in nodes:
        empty: list[Branch] = []
        for where in remaining:
            for there, value in context.cases(node, scope, where):
                if not there.may_be_null(value):
                    result.append((there, value))
                    continue
                full, none = there.not_null(value), there.null(value)
                result += [] if full is None else [(full, value)]
                empty += [] if none is None else [none]
        remaining = empty
    result += [(after, NULL) for after in remaining]
    return [(after, value) for after, (value,) in context.unify_rows([(after, (value,)) for after, value in result])]


def _calculated(context: Context, node: Node, scope: Scope, branch: Branch) -> list[Case]:
    from gpu_wcoj.query.sql.coercion import function

    arguments, make = function(context, node)
    result: list[Case] = []
    for where, values in context.each(arguments, scope, branch):
        nullable = [value for value in values if not isinstance(value, Call) and where.may_be_null(value)]
        if NULL in nullable[:1]:
            result.append((where, NULL))
            continue
        remaining: Branch | None = where
        numbers = context.numbered(len(values) if nullable else 0)
        if nullable:
            remaining = where.with_values(dict(zip(numbers, values, strict=True)))
        for column in numbers:
            assert remaining is not None
            value = remaining.values[column]
            if not remaining.may_be_null(value) or isinstance(value, Call):
                continue
            none, remaining = remaining.null(value), remaining.not_null(value)
            result += [] if none is None else [(none, NULL)]
            if remaining is None:
                break
        if remaining is not None:
            operands = tuple(remaining.values[column] for column in numbers) if nullable else values
            for operand in operands:
                if is_date(operand):
                    raise context.place.refused("a date literal can only be compared, or moved by an interval", node)
            result.append((remaining, fold_constants(make(operands))))
    context.limited([after for after, _ in result], node)
    return result

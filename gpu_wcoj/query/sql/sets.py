"""Set operations UNION, EXCEPT, INTERSECT, and VALUES."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.query.ir import Constant
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.context import Context, Derived
from gpu_wcoj.query.sql.existence import antijoin, semijoin
from gpu_wcoj.query.sql.known import check_parts, describe_node
from gpu_wcoj.query.sql.scope import Scope

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


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
        from gpu_wcoj.query.sql.selection import once

        return once(context, result)
    return result


def _goes_on(node: Node, outer: Node) -> bool:
    """Return whether a node continues a chain of one operation: ``a UNION b UNION c``."""
    is_plain = node is outer or not node.args.get("with_")
    return is_plain and node.args.get("distinct") == outer.args.get("distinct")


def _with(context: Context, node: Node, left: Derived, right: Derived, part: Node) -> Derived:
    from sqlglot import expressions as exp

    from gpu_wcoj.query.sql.selection import once

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

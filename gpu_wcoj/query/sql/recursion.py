"""WITH RECURSIVE: a relation that reads itself and has each row once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.sql.context import Context, Derived
from gpu_wcoj.query.sql.known import check_parts, describe_node
from gpu_wcoj.query.sql.select import is_grouped
from gpu_wcoj.query.sql.sets import rows_of

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

    from gpu_wcoj.query.sql.compiler import Compiler


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

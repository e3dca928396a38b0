"""SELECT: FROM, WHERE, the selected columns, GROUP BY, DISTINCT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.query.ir import Atom
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.conditions import TRUE_VALUE
from gpu_wcoj.query.sql.context import Context, Derived
from gpu_wcoj.query.sql.existence import distinct
from gpu_wcoj.query.sql.from_clause import Joined, from_clause
from gpu_wcoj.query.sql.known import check_parts
from gpu_wcoj.query.sql.names import unique
from gpu_wcoj.query.sql.place import Place
from gpu_wcoj.query.sql.scope import Scope
from gpu_wcoj.query.sql.select import grouped, is_grouped

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

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

"""Conditions as disjoint branches in which they are true, false or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant_folding import equality_key, negated, simplified_call
from gpu_wcoj.query.ir import COMPARING, NULL, Call, Constant, Expression
from gpu_wcoj.query.sql.branch import Branch
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.existence import antijoin, semijoin
from gpu_wcoj.query.sql.formulas import filtered_each, like_parts, listed, where_true
from gpu_wcoj.query.sql.known import check_parts, has_query
from gpu_wcoj.query.sql.literals import as_text
from gpu_wcoj.query.sql.scope import Scope

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

TRUE_VALUE, FALSE_VALUE, UNKNOWN = "T", "F", "U"
_OPPOSITE = {TRUE_VALUE: FALSE_VALUE, FALSE_VALUE: TRUE_VALUE, UNKNOWN: UNKNOWN}
MAX_INEQUALITIES = 8
"""Most constants of NOT IN that are compared one by one; a longer list becomes a relation."""
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conditions() -> tuple[type, ...]:
    """Return the classes of nodes that are true, false or unknown."""
    from sqlglot import expressions as exp

    return (
        exp.Not, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Is,
        exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Exists, exp.Like, exp.Escape,
    )  # fmt: skip


def truth(context: Context, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Return the branches of `branch` in which a condition has a truth value."""
    from sqlglot import expressions as exp

    operators: dict[type, str] = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
    place = context.place
    if isinstance(node, exp.Paren):
        check_parts(node, place, "this")
        return truth(context, node.this, truth_value, scope, branch)
    if isinstance(node, exp.Not):
        check_parts(node, place, "this")
        return truth(context, node.this, _OPPOSITE[truth_value], scope, branch)
    if isinstance(node, (exp.And, exp.Or)):
        check_parts(node, place, "this", "expression")
        is_or = isinstance(node, exp.Or)
        if truth_value == (FALSE_VALUE if is_or else TRUE_VALUE):
            parts = sorted(node.flatten(), key=lambda part: _may_split(part, truth_value))
            likes = [part for part in parts if _is_like(part)]
            if len(likes) > 1:
                other_parts = [part for part in parts if not _is_like(part)]
                branches = _all(
                    context,
                    other_parts,
                    _OPPOSITE[truth_value] if is_or else truth_value,
                    scope,
                    branch,
                    node,
                    negated=is_or,
                )
                return [after for there in branches for after in _likes(context, likes, truth_value, scope, there)]
        elif not has_query(node):
            return _as_filter(context, node, truth_value, scope, branch)
        else:
            parts = _grouped(list(node.flatten()), node)
            if truth_value != UNKNOWN:
                return _one_of(context, parts, truth_value, scope, branch, node)
        return _all(
            context, parts, _OPPOSITE[truth_value] if is_or else truth_value, scope, branch, node, negated=is_or
        )
    if ((truth_value == UNKNOWN and not is_simple(node)) or _has_choice(node)) and not has_query(node):
        return _as_filter(context, node, truth_value, scope, branch)
    if type(node) in operators:
        check_parts(node, place, "this", "expression")
        return _compared(context, operators[type(node)], node.this, node.expression, node, truth_value, scope, branch)
    if isinstance(node, exp.Between):
        check_parts(node, place, "this", "low", "high")
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        both = exp.And(this=low, expression=high)
        both.parent = node.parent
        return truth(context, both, truth_value, scope, branch)
    if isinstance(node, exp.Is):
        return _is(context, node, truth_value, scope, branch)
    if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
        check_parts(node, place, "this", "expression")
        return _same(
            context, node, (truth_value == TRUE_VALUE) == isinstance(node, exp.NullSafeEQ), truth_value, scope, branch
        )
    if isinstance(node, exp.In):
        return _in(context, node, truth_value, scope, branch)
    if isinstance(node, exp.Exists):
        check_parts(node, place, "this")
        return exists(context, node.this, truth_value, scope, branch)
    if isinstance(node, (exp.Like, exp.Escape)):
        return _like(context, node, truth_value, scope, branch)
    return _of_value(context, node, truth_value, scope, branch)


def _all(
    context: Context,
    parts: Sequence[Node],
    truth_value: str,
    scope: Scope,
    branch: Branch,
    node: Node,
    negated: bool = False,
) -> list[Branch]:
    """Return AND of `parts`, or of their opposites if `negated`."""

    def branches_of(part: Node, value: str, where: Branch) -> list[Branch]:
        return truth(context, part, _OPPOSITE[value] if negated else value, scope, where)

    true: list[Branch] = [branch]
    unknown: list[Branch] = []
    false: list[Branch] = []
    for part in parts:
        if truth_value == FALSE_VALUE:
            false += [after for where in (*true, *unknown) for after in branches_of(part, FALSE_VALUE, where)]
        if truth_value != TRUE_VALUE:
            more = [after for where in true for after in branches_of(part, UNKNOWN, where)]
            unknown = [
                f for where in unknown for value in (TRUE_VALUE, UNKNOWN) for f in branches_of(part, value, where)
            ] + more
        true = [after for where in true for after in branches_of(part, TRUE_VALUE, where)]
        context.limited([*true, *unknown, *false], node)
    return {TRUE_VALUE: true, FALSE_VALUE: false, UNKNOWN: unknown}[truth_value]


def _is_like(node: Node) -> bool:
    from sqlglot import expressions as exp

    return isinstance(node.unnest() if not isinstance(node, exp.Not) else node.this.unnest(), (exp.Like, exp.Escape))


def _likes(context: Context, parts: Sequence[Node], truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Return the branches in which all LIKEs of a conjunction have a truth value."""
    numbers = context.numbered(len(parts))
    values: dict[int, Expression] = {}
    for column, part in zip(numbers, parts, strict=True):
        branch, value = context.formula(part, scope, branch.with_values(values))
        values = {column: value if truth_value == TRUE_VALUE else negated(value)}
    branch = branch.with_values(values)
    return filtered_each(context, branch, [branch.values[column] for column in numbers])


def _one_of(
    context: Context, parts: Sequence[Node], truth_value: str, scope: Scope, branch: Branch, node: Node
) -> list[Branch]:
    """Return the branches in which a part has a truth value and no earlier part has it.

    That makes an OR true, or an AND false.
    """
    result: list[Branch] = []
    remaining = [branch]
    for part in parts:
        result += [after for there in remaining for after in truth(context, part, truth_value, scope, there)]
        remaining = [after for there in remaining for after in _without(context, part, truth_value, scope, there)]
        _ = context.limited([*result, *remaining], node)
    return result


def _without(context: Context, node: Node, unwanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Return the branches in which a condition has not the truth value `unwanted`."""
    if has_query(node):
        other_values = [value for value in (TRUE_VALUE, FALSE_VALUE, UNKNOWN) if value != unwanted]
        return [after for value in other_values for after in truth(context, node, value, scope, branch)]
    joined, condition = context.formula(node, scope, branch)
    condition = condition if unwanted == TRUE_VALUE else negated(condition)
    return where_true(context, joined, negated(simplified_call("istrue", condition)))


def _as_filter(context: Context, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Return the branches in which a condition without queries has a truth value.

    The condition becomes a filter instead of being split into its parts.
    """
    joined, condition = context.formula(node, scope, branch)
    kind = context.kind(condition)
    if condition != NULL and kind not in (None, "bool"):
        raise context.place.mistyped(f"a condition must be a boolean: got type '{kind}'", node)
    if truth_value == UNKNOWN:
        return where_true(context, joined, simplified_call("isnull", condition))
    return where_true(context, joined, condition if truth_value == TRUE_VALUE else negated(condition))


def is_simple(node: Node) -> bool:
    """Return whether a condition compares a column with a column or a literal."""
    from sqlglot import expressions as exp

    if not isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return False
    return all(isinstance(operand, (exp.Column, exp.Literal)) for operand in (node.this, node.expression))


def _has_choice(node: Node) -> bool:
    """Return whether an operand of a comparison is a CASE or similar, which would branch."""
    from sqlglot import expressions as exp

    if isinstance(node, (exp.Case, exp.If, exp.Coalesce, exp.Nullif)):
        return True
    if not isinstance(
        node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
    ):
        return False
    chosen = (exp.Case, exp.If, exp.Coalesce, exp.Nullif, *conditions())
    return any(isinstance(piece, chosen) for side in (node.this, node.expression) for piece in side.walk())


def _may_split(node: Node, truth_value: str) -> bool:
    """Return whether a condition is an OR, which is compiled after the other conditions.

    The joins of the other conditions decide whether it splits.
    """
    from sqlglot import expressions as exp

    while isinstance(node, (exp.Paren, exp.Not)):
        truth_value = _OPPOSITE[truth_value] if isinstance(node, exp.Not) else truth_value
        node = node.this
    return isinstance(node, exp.Or if truth_value == TRUE_VALUE else exp.And)


def _grouped(parts: list[Node], node: Node) -> list[Node]:
    """Return the operands of AND or OR, with those without queries merged into one filter."""
    plain = [part for part in parts if not has_query(part)]
    if len(plain) < 2:
        return sorted(parts, key=has_query)
    both = plain[0].copy()
    for part in plain[1:]:
        both = type(node)(this=both, expression=part.copy())
    both.parent = node
    return [both, *(part for part in parts if has_query(part))]


def compared(
    context: Context, op: str, left: Expression, right: Expression, node: Node, truth_value: str, branch: Branch
) -> list[Branch]:
    """Return the branches in which a comparison of two values has a truth value."""
    if truth_value == UNKNOWN:
        branches = [branch.null(left)]
        not_null = branch.not_null(left)
        branches.append(not_null and not_null.null(right))
    elif NULL in (left, right):
        branches = []
    else:
        op = op if truth_value == TRUE_VALUE else NEGATED[op]
        left, right = context.unify_pair(left, right, node)
        if any(isinstance(value, Call) and value.takes_nulls for value in (left, right)):
            name = next(name for name, operator in COMPARING.items() if operator == op)
            return where_true(context, branch, simplified_call(name, left, right))
        branches = [branch.compared(op, left, right)]
    return [branch for branch in branches if branch is not None]


def _compared(
    context: Context, op: str, left: Node, right: Node, node: Node, truth_value: str, scope: Scope, branch: Branch
) -> list[Branch]:
    from sqlglot import expressions as exp

    if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
        pairs = _pairs(context, left, right, node)
        if op not in ("=", "!="):
            raise context.place.refused("rows are only compared by = and <>", node)
        parts: list[Node] = [equality(context)(this=a.copy(), expression=b.copy()) for a, b in pairs]
        for part in parts:
            part.parent = node
        return _all(context, parts, truth_value if op == "=" else _OPPOSITE[truth_value], scope, branch, node)
    branches = []
    for where, (a, b) in context.each([left, right], scope, branch):
        branches += compared(context, op, a, b, node, truth_value, where)
    return context.limited(branches, node)


def equality(context: Context) -> type[Node]:
    """Return the comparison for columns of rows; DuckDB treats two nulls in them as equal."""
    from sqlglot import expressions as exp

    return exp.NullSafeEQ if context.dialect == "duckdb" else exp.EQ


def _pairs(context: Context, left: Node, right: Node, node: Node) -> list[tuple[Node, Node]]:
    from sqlglot import expressions as exp

    sides = [side.expressions if isinstance(side, exp.Tuple) else [side] for side in (left, right)]
    if len(sides[0]) != len(sides[1]):
        raise context.place.wrong(f"a row of {len(sides[0])} is compared with one of {len(sides[1])}", node)
    return list(zip(*sides, strict=True))


def _is(context: Context, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    from sqlglot import expressions as exp

    check_parts(node, context.place, "this", "expression")
    right = node.expression
    if isinstance(right, exp.Boolean):
        tested = TRUE_VALUE if right.this else FALSE_VALUE
        if truth_value == FALSE_VALUE and not has_query(node):
            return _as_filter(context, node, truth_value, scope, branch)
        values = (
            [tested]
            if truth_value == TRUE_VALUE
            else [value for value in (TRUE_VALUE, FALSE_VALUE, UNKNOWN) if value != tested]
        )
        return (
            []
            if truth_value == UNKNOWN
            else [f for value in values for f in truth(context, node.this, value, scope, branch)]
        )
    if not isinstance(right, exp.Null):
        raise context.place.refused("IS is supported with NULL, TRUE and FALSE", node)
    if truth_value == UNKNOWN:
        return []
    branches = [
        where.null(value) if truth_value == TRUE_VALUE else where.not_null(value)
        for where, value in context.cases(node.this, scope, branch)
    ]
    return [result for result in branches if result is not None]


def _same(context: Context, node: Node, is_same: bool, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    if truth_value == UNKNOWN:
        return []
    branches: list[Branch] = []
    for where, (a, b) in context.each([node.this, node.expression], scope, branch):
        unified = (a, b) if NULL in (a, b) else context.unify_pair(a, b, node)
        if is_same and unified == (a, b):
            branches += where.same(a, b)
            continue
        pair = [] if NULL in (a, b) else [where.compared("=" if is_same else "!=", *unified)]
        if is_same:
            empty = where.null(a)
            pair.append(empty and empty.null(b))
        else:
            pair += [
                present and present.null(empty) for empty, present in ((a, where.not_null(b)), (b, where.not_null(a)))
            ]
        branches += [result for result in pair if result is not None]
    return branches


def _in(context: Context, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    from sqlglot import expressions as exp

    place = context.place
    check_parts(node, place, "this", "expressions", "query")
    if node.args.get("query") is not None:
        return _in_query(context, node, truth_value, scope, branch)
    if not node.expressions:
        raise place.wrong("the list of IN is empty", node)
    parts: list[Node] = []
    rows = [_constants(context, element) for element in node.expressions]
    columns = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    plain = [row for row in rows if row is not None]
    has_null = any(NULL in row for row in plain)
    if len(plain) == len(rows) and len(rows) > 1 and not (has_null and len(columns) > 1):
        if truth_value == TRUE_VALUE:
            return _in_list(context, node, columns, plain, scope, branch)
        if truth_value == FALSE_VALUE and len(rows) > MAX_INEQUALITIES and len(columns) == 1:
            return [] if has_null else _in_list(context, node, columns, plain, scope, branch, negated=True)
    if truth_value == TRUE_VALUE and len(rows) > 1:
        return _as_filter(context, node, truth_value, scope, branch)
    for element in node.expressions:
        equal = exp.EQ(this=node.this.copy(), expression=element.copy())
        equal.parent = node
        parts.append(equal)
    return _all(context, parts, _OPPOSITE[truth_value], scope, branch, node, negated=True)


def _constants(context: Context, node: Node) -> tuple[Expression, ...] | None:
    from sqlglot import expressions as exp

    values = [context.literal(element) for element in (node.expressions if isinstance(node, exp.Tuple) else [node])]
    return None if None in values else tuple(value for value in values if value is not None)


def _in_list(
    context: Context, node: Node, columns: Sequence[Node], rows: Sequence[tuple[Expression, ...]], scope: Scope,
    branch: Branch, negated: bool = False,
) -> list[Branch]:  # fmt: skip
    """Return the branches for IN with a list of constants, stored as a relation."""
    for row_node, row in zip(node.expressions, rows, strict=True):
        if len(row) != len(columns):
            raise context.place.wrong(f"a row of {len(columns)} is compared with one of {len(row)}", row_node)
    for column in range(len(columns)):
        kinds = {context.kind(as_text(row[column])) for row in rows if row[column] != NULL}
        if "string" in kinds and len(kinds) > 1:
            raise context.place.mistyped("the values of IN are of different types", node)
    result: list[Branch] = []
    for here, values in context.each(columns, scope, branch):
        solid = [here]
        for value in values:
            solid = [result for result in (each.not_null(value) for each in solid) if result is not None]
        for there in solid:
            fitted = [
                tuple(context.unify_pair(a, b, node)[1] for a, b in zip(values, row, strict=True)) for row in rows
            ]
            lefts = [context.unify_pair(a, b, node)[0] for a, b in zip(values, rows[0], strict=True)]
            distinct_rows = {_row_key(context, row, lefts): row for row in fitted if NULL not in row}
            if all(isinstance(operand, Constant) for operand in lefts):
                result += [there] if (_row_key(context, lefts, lefts) in distinct_rows) != negated else []
                continue
            result += listed(context, there, lefts, list(distinct_rows.values()), negated)
    return result


def _row_key(context: Context, row: Sequence[Expression], compared: Sequence[Expression]) -> tuple[object, ...]:
    """Return a key that rows of constants share if they equal the same compared values."""
    are_doubles = [context.kind(value) == "double" for value in compared]
    return tuple(equality_key(value, is_double=is_double) for value, is_double in zip(row, are_doubles, strict=True))


def _in_query(context: Context, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Return the branches in which ``x IN (SELECT ...)`` has a truth value.

    It is true if a row is equal; it is unknown if no row is equal and a row or x is null.
    """
    from sqlglot import expressions as exp

    query = node.args["query"]
    query = query.this if isinstance(query, exp.Subquery) else query
    columns = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    branches: list[Branch] = []
    if truth_value != TRUE_VALUE and len(columns) > 1:
        raise context.place.refused(
            "NOT IN of rows and a query is not supported", node, "Write NOT EXISTS with the equalities in its WHERE."
        )
    for where, operands in context.each(columns, scope, branch):
        rows = context.select_within(query, scope, where)
        if any(len(row) != len(operands) for _, row in rows):
            raise context.place.wrong(f"{len(operands)} columns are compared with a query of {len(rows[0][1])}", node)
        equal = [
            match
            for pair, row in rows
            for match in context.equated(
                pair, [context.unify_pair(a, b, node) for a, b in zip(operands, row, strict=True)]
            )
        ]
        if truth_value == TRUE_VALUE:
            branches += semijoin(context, where, where, equal)
            continue
        (value,) = operands
        empty, full = where.null(value), where.not_null(value)
        nulls = [null_branch for null_branch in (pair.null(row[0]) for pair, row in rows) if null_branch is not None]
        if truth_value == FALSE_VALUE:
            if empty is not None:
                branches += exists(context, query, FALSE_VALUE, scope, empty)
            if full is not None:
                branches += [
                    f
                    for unmatched in antijoin(context, full, full, equal)
                    for f in antijoin(context, unmatched, full, nulls)
                ]
        else:
            if empty is not None:
                branches += exists(context, query, TRUE_VALUE, scope, empty)
            if full is not None:
                branches += [
                    f
                    for unmatched in antijoin(context, full, full, equal)
                    for f in semijoin(context, unmatched, full, nulls)
                ]
    return branches


def exists(context: Context, query: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Return the branches in which a query has rows, or has none."""
    if truth_value == UNKNOWN:
        return []
    pairs = [pair for pair, _ in context.select_within(query, scope, branch)]
    return (semijoin if truth_value == TRUE_VALUE else antijoin)(context, branch, branch, pairs)


def _like(context: Context, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    text, pattern, is_negated = like_parts(context, node)
    branches: list[Branch] = []
    for there, value in context.cases(text, scope, branch):
        if value == NULL:
            continue
        is_like = simplified_call("like", value, *pattern)
        branches += where_true(
            context, there, negated(is_like) if is_negated == (truth_value == TRUE_VALUE) else is_like
        )
    return branches


def _of_value(context: Context, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Return the branches for a column or other expression as a condition, a boolean."""
    branches: list[Branch] = []
    for there, value in context.cases(node, scope, branch):
        kind = context.kind(value)
        if value != NULL and kind not in (None, "bool"):
            raise context.place.mistyped(f"a condition must be a boolean: got type '{kind}'", node)
        if truth_value == UNKNOWN:
            empty = there.null(value)
            branches += [] if empty is None else [empty]
        else:
            branches += where_true(context, there, value if truth_value == TRUE_VALUE else negated(value))
    return branches

"""Conditions: where they are true, false or unknown, as disjoint branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant import called, equality_key, negated
from gpu_wcoj.query.sql.branch import Branch
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.existence import within, without
from gpu_wcoj.query.sql.formulas import filtered_each, like_parts, listed, where_true
from gpu_wcoj.query.sql.known import check_parts, has_query
from gpu_wcoj.query.sql.literals import spelled
from gpu_wcoj.query.sql.scope import Scope
from gpu_wcoj.query.terms import COMPARING, NULL, Call, Constant, Expression

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

TRUE, FALSE, UNKNOWN = "T", "F", "U"
_OPPOSITE = {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}
MOST_UNEQUAL = 8
"""How many constants of NOT IN are compared one by one; more of them are a relation."""
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conditions() -> tuple[type, ...]:
    """The kinds of nodes that are true, false or unknown in themselves."""
    from sqlglot import expressions as exp

    return (
        exp.Not, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Is,
        exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Exists, exp.Like, exp.Escape,
    )  # fmt: skip


def truth(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Where in `branch` a condition has the truth value that is wanted."""
    from sqlglot import expressions as exp

    operators: dict[type, str] = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
    place = context.place
    if isinstance(node, exp.Paren):
        check_parts(node, place, "this")
        return truth(context, node.this, wanted, scope, branch)
    if isinstance(node, exp.Not):
        check_parts(node, place, "this")
        return truth(context, node.this, _OPPOSITE[wanted], scope, branch)
    if isinstance(node, (exp.And, exp.Or)):
        check_parts(node, place, "this", "expression")
        is_or = isinstance(node, exp.Or)
        if wanted == (FALSE if is_or else TRUE):
            parts = sorted(node.flatten(), key=lambda one: _may_split(one, wanted))
            likes = [one for one in parts if _is_like(one)]
            if len(likes) > 1:
                rest = [one for one in parts if not _is_like(one)]
                found = _all(context, rest, _OPPOSITE[wanted] if is_or else wanted, scope, branch, node, negated=is_or)
                return [one for there in found for one in _likes(context, likes, wanted, scope, there)]
        elif not has_query(node):
            return _whole(context, node, wanted, scope, branch)
        else:
            parts = _grouped(list(node.flatten()), node)
            if wanted != UNKNOWN:
                return _one_of(context, parts, wanted, scope, branch, node)
        return _all(context, parts, _OPPOSITE[wanted] if is_or else wanted, scope, branch, node, negated=is_or)
    if ((wanted == UNKNOWN and not is_simple(node)) or _has_choice(node)) and not has_query(node):
        return _whole(context, node, wanted, scope, branch)
    if type(node) in operators:
        check_parts(node, place, "this", "expression")
        return _compared(context, operators[type(node)], node.this, node.expression, node, wanted, scope, branch)
    if isinstance(node, exp.Between):
        check_parts(node, place, "this", "low", "high")
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        both = exp.And(this=low, expression=high)
        both.parent = node.parent
        return truth(context, both, wanted, scope, branch)
    if isinstance(node, exp.Is):
        return _is(context, node, wanted, scope, branch)
    if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
        check_parts(node, place, "this", "expression")
        return _same(context, node, (wanted == TRUE) == isinstance(node, exp.NullSafeEQ), wanted, scope, branch)
    if isinstance(node, exp.In):
        return _in(context, node, wanted, scope, branch)
    if isinstance(node, exp.Exists):
        check_parts(node, place, "this")
        return exists(context, node.this, wanted, scope, branch)
    if isinstance(node, (exp.Like, exp.Escape)):
        return _like(context, node, wanted, scope, branch)
    return _of_value(context, node, wanted, scope, branch)


def _all(
    context: Context,
    parts: Sequence[Node],
    wanted: str,
    scope: Scope,
    branch: Branch,
    node: Node,
    negated: bool = False,
) -> list[Branch]:
    """AND of `parts`; of the opposites of `parts`, where they are negated."""

    def one(part: Node, value: str, where: Branch) -> list[Branch]:
        return truth(context, part, _OPPOSITE[value] if negated else value, scope, where)

    true: list[Branch] = [branch]
    unknown: list[Branch] = []
    false: list[Branch] = []
    for part in parts:
        if wanted == FALSE:
            false += [found for where in (*true, *unknown) for found in one(part, FALSE, where)]
        if wanted != TRUE:
            more = [found for where in true for found in one(part, UNKNOWN, where)]
            unknown = [f for where in unknown for value in (TRUE, UNKNOWN) for f in one(part, value, where)] + more
        true = [found for where in true for found in one(part, TRUE, where)]
        context.limited([*true, *unknown, *false], node)
    return {TRUE: true, FALSE: false, UNKNOWN: unknown}[wanted]


def _is_like(node: Node) -> bool:
    from sqlglot import expressions as exp

    return isinstance(node.unnest() if not isinstance(node, exp.Not) else node.this.unnest(), (exp.Like, exp.Escape))


def _likes(context: Context, parts: Sequence[Node], wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Where all LIKEs of a conjunction have the truth value that is wanted."""
    numbers = context.numbered(len(parts))
    values: dict[int, Expression] = {}
    for number, part in zip(numbers, parts, strict=True):
        branch, value = context.formula(part, scope, branch.with_values(values))
        values = {number: value if wanted == TRUE else negated(value)}
    branch = branch.with_values(values)
    return filtered_each(context, branch, [branch.values[number] for number in numbers])


def _one_of(
    context: Context, parts: Sequence[Node], wanted: str, scope: Scope, branch: Branch, node: Node
) -> list[Branch]:
    """Where a part has the truth value that is wanted, and none before it has: OR is true so, and AND false."""
    found: list[Branch] = []
    rest = [branch]
    for part in parts:
        found += [one for there in rest for one in truth(context, part, wanted, scope, there)]
        rest = [one for there in rest for one in _without(context, part, wanted, scope, there)]
        _ = context.limited([*found, *rest], node)
    return found


def _without(context: Context, node: Node, unwanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Where a condition has another truth value than the one that is not wanted."""
    if has_query(node):
        others = [one for one in (TRUE, FALSE, UNKNOWN) if one != unwanted]
        return [one for wanted in others for one in truth(context, node, wanted, scope, branch)]
    joined, condition = context.formula(node, scope, branch)
    condition = condition if unwanted == TRUE else negated(condition)
    return where_true(context, joined, negated(called("istrue", condition)))


def _whole(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Where a condition without queries has the truth value that is wanted, as a filter rather than by its parts."""
    joined, condition = context.formula(node, scope, branch)
    kind = context.kind(condition)
    if condition != NULL and kind not in (None, "bool"):
        raise context.place.mistyped(f"a condition is true or false, and this is of type '{kind}'", node)
    if wanted == UNKNOWN:
        return where_true(context, joined, called("isnull", condition))
    return where_true(context, joined, condition if wanted == TRUE else negated(condition))


def is_simple(node: Node) -> bool:
    """Return whether a condition compares a column with a column or a literal."""
    from sqlglot import expressions as exp

    if not isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return False
    return all(isinstance(one, (exp.Column, exp.Literal)) for one in (node.this, node.expression))


def _has_choice(node: Node) -> bool:
    """Return whether a comparison's operand has its value by a condition, so that its cases would be branches."""
    from sqlglot import expressions as exp

    if isinstance(node, (exp.Case, exp.If, exp.Coalesce, exp.Nullif)):
        return True
    if not isinstance(
        node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
    ):
        return False
    chosen = (exp.Case, exp.If, exp.Coalesce, exp.Nullif, *conditions())
    return any(isinstance(one, chosen) for side in (node.this, node.expression) for one in side.walk())


def _may_split(node: Node, wanted: str) -> bool:
    """Return whether a condition is an OR, which is looked at when it is known what the other conditions join."""
    from sqlglot import expressions as exp

    while isinstance(node, (exp.Paren, exp.Not)):
        wanted = _OPPOSITE[wanted] if isinstance(node, exp.Not) else wanted
        node = node.this
    return isinstance(node, exp.Or if wanted == TRUE else exp.And)


def _grouped(parts: list[Node], node: Node) -> list[Node]:
    """The operands of AND or OR, with those that ask for no query's rows as one, so that they become a filter."""
    plain = [one for one in parts if not has_query(one)]
    if len(plain) < 2:
        return sorted(parts, key=has_query)
    both = plain[0].copy()
    for one in plain[1:]:
        both = type(node)(this=both, expression=one.copy())
    both.parent = node
    return [both, *(one for one in parts if has_query(one))]


def compared(
    context: Context, op: str, left: Expression, right: Expression, node: Node, wanted: str, branch: Branch
) -> list[Branch]:
    """Where a comparison of two values has the truth value that is wanted."""
    if wanted == UNKNOWN:
        found = [branch.null(left)]
        rest = branch.not_null(left)
        found.append(rest and rest.null(right))
    elif NULL in (left, right):
        found = []
    else:
        op = op if wanted == TRUE else NEGATED[op]
        left, right = context.alike(left, right, node)
        if any(isinstance(one, Call) and one.takes_nulls for one in (left, right)):
            name = next(name for name, own in COMPARING.items() if own == op)
            return where_true(context, branch, called(name, left, right))
        found = [branch.compared(op, left, right)]
    return [one for one in found if one is not None]


def _compared(
    context: Context, op: str, left: Node, right: Node, node: Node, wanted: str, scope: Scope, branch: Branch
) -> list[Branch]:
    from sqlglot import expressions as exp

    if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
        pairs = _pairs(context, left, right, node)
        if op not in ("=", "!="):
            raise context.place.refused("rows are only compared by = and <>", node)
        parts: list[Node] = [equality(context)(this=a.copy(), expression=b.copy()) for a, b in pairs]
        for one in parts:
            one.parent = node
        return _all(context, parts, wanted if op == "=" else _OPPOSITE[wanted], scope, branch, node)
    found = []
    for where, (a, b) in context.each([left, right], scope, branch):
        found += compared(context, op, a, b, node, wanted, where)
    return context.limited(found, node)


def equality(context: Context) -> type[Node]:
    """How the columns of two rows are compared: DuckDB takes two nulls in them as equal."""
    from sqlglot import expressions as exp

    return exp.NullSafeEQ if context.dialect == "duckdb" else exp.EQ


def _pairs(context: Context, left: Node, right: Node, node: Node) -> list[tuple[Node, Node]]:
    from sqlglot import expressions as exp

    sides = [one.expressions if isinstance(one, exp.Tuple) else [one] for one in (left, right)]
    if len(sides[0]) != len(sides[1]):
        raise context.place.wrong(f"a row of {len(sides[0])} is compared with one of {len(sides[1])}", node)
    return list(zip(*sides, strict=True))


def _is(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    from sqlglot import expressions as exp

    check_parts(node, context.place, "this", "expression")
    right = node.expression
    if isinstance(right, exp.Boolean):
        asked = TRUE if right.this else FALSE
        if wanted == FALSE and not has_query(node):
            return _whole(context, node, wanted, scope, branch)
        values = [asked] if wanted == TRUE else [one for one in (TRUE, FALSE, UNKNOWN) if one != asked]
        return [] if wanted == UNKNOWN else [f for one in values for f in truth(context, node.this, one, scope, branch)]
    if not isinstance(right, exp.Null):
        raise context.place.refused("IS is supported with NULL, TRUE and FALSE", node)
    if wanted == UNKNOWN:
        return []
    found = [
        where.null(value) if wanted == TRUE else where.not_null(value)
        for where, value in context.cases(node.this, scope, branch)
    ]
    return [one for one in found if one is not None]


def _same(context: Context, node: Node, is_same: bool, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    if wanted == UNKNOWN:
        return []
    found: list[Branch] = []
    for where, (a, b) in context.each([node.this, node.expression], scope, branch):
        alike = (a, b) if NULL in (a, b) else context.alike(a, b, node)
        if is_same and alike == (a, b):
            found += where.same(a, b)
            continue
        pair = [] if NULL in (a, b) else [where.compared("=" if is_same else "!=", *alike)]
        if is_same:
            empty = where.null(a)
            pair.append(empty and empty.null(b))
        else:
            pair += [one and one.null(empty) for empty, one in ((a, where.not_null(b)), (b, where.not_null(a)))]
        found += [one for one in pair if one is not None]
    return found


def _in(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    from sqlglot import expressions as exp

    place = context.place
    check_parts(node, place, "this", "expressions", "query")
    if node.args.get("query") is not None:
        return _in_query(context, node, wanted, scope, branch)
    if not node.expressions:
        raise place.wrong("IN names no value", node)
    parts: list[Node] = []
    rows = [_constants(context, one) for one in node.expressions]
    columns = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    plain = [row for row in rows if row is not None]
    has_null = any(NULL in row for row in plain)
    if len(plain) == len(rows) and len(rows) > 1 and not (has_null and len(columns) > 1):
        if wanted == TRUE:
            return _in_list(context, node, columns, plain, scope, branch)
        if wanted == FALSE and len(rows) > MOST_UNEQUAL and len(columns) == 1:
            return [] if has_null else _in_list(context, node, columns, plain, scope, branch, negated=True)
    if wanted == TRUE and len(rows) > 1:
        return _whole(context, node, wanted, scope, branch)
    for one in node.expressions:
        equal = exp.EQ(this=node.this.copy(), expression=one.copy())
        equal.parent = node
        parts.append(equal)
    return _all(context, parts, _OPPOSITE[wanted], scope, branch, node, negated=True)


def _constants(context: Context, node: Node) -> tuple[Expression, ...] | None:
    from sqlglot import expressions as exp

    values = [context.literal(one) for one in (node.expressions if isinstance(node, exp.Tuple) else [node])]
    return None if None in values else tuple(one for one in values if one is not None)


def _in_list(
    context: Context, node: Node, columns: Sequence[Node], rows: Sequence[tuple[Expression, ...]], scope: Scope,
    branch: Branch, negated: bool = False,
) -> list[Branch]:  # fmt: skip
    """A list of constants is a relation that the text gives."""
    for given, row in zip(node.expressions, rows, strict=True):
        if len(row) != len(columns):
            raise context.place.wrong(f"a row of {len(columns)} is compared with one of {len(row)}", given)
    for at in range(len(columns)):
        kinds = {context.kind(spelled(row[at])) for row in rows if row[at] != NULL}
        if "string" in kinds and len(kinds) > 1:
            raise context.place.mistyped("the values of IN are of different types", node)
    result: list[Branch] = []
    for here, values in context.each(columns, scope, branch):
        solid = [here]
        for value in values:
            solid = [one for one in (each.not_null(value) for each in solid) if one is not None]
        for there in solid:
            fitted = [tuple(context.alike(a, b, node)[1] for a, b in zip(values, row, strict=True)) for row in rows]
            lefts = [context.alike(a, b, node)[0] for a, b in zip(values, rows[0], strict=True)]
            kept = {_row_key(context, row, lefts): row for row in fitted if NULL not in row}
            if all(isinstance(one, Constant) for one in lefts):
                result += [there] if (_row_key(context, lefts, lefts) in kept) != negated else []
                continue
            result += listed(context, there, lefts, list(kept.values()), negated)
    return result


def _row_key(context: Context, row: Sequence[Expression], compared: Sequence[Expression]) -> tuple[object, ...]:
    """What is the same for rows of constants that are equal to the same values of what they are compared with."""
    are_doubles = [context.kind(one) == "double" for one in compared]
    return tuple(equality_key(one, is_double=is_double) for one, is_double in zip(row, are_doubles, strict=True))


def _in_query(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """``x IN (SELECT ...)``: true if a row is equal, unknown if none is and one is null or x is."""
    from sqlglot import expressions as exp

    query = node.args["query"]
    query = query.this if isinstance(query, exp.Subquery) else query
    columns = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    found: list[Branch] = []
    if wanted != TRUE and len(columns) > 1:
        raise context.place.refused(
            "NOT IN of rows and a query is not supported", node, "Write NOT EXISTS with the equalities in its WHERE."
        )
    for where, given in context.each(columns, scope, branch):
        rows = context.select_within(query, scope, where)
        if any(len(row) != len(given) for _, row in rows):
            raise context.place.wrong(f"{len(given)} columns are compared with a query of {len(rows[0][1])}", node)
        equal = [
            one
            for pair, row in rows
            for one in context.equated(pair, [context.alike(a, b, node) for a, b in zip(given, row, strict=True)])
        ]
        if wanted == TRUE:
            found += within(context, where, where, equal)
            continue
        (value,) = given
        empty, full = where.null(value), where.not_null(value)
        nulls = [one for one in (pair.null(row[0]) for pair, row in rows) if one is not None]
        if wanted == FALSE:
            if empty is not None:
                found += exists(context, query, FALSE, scope, empty)
            if full is not None:
                found += [f for one in without(context, full, full, equal) for f in without(context, one, full, nulls)]
        else:
            if empty is not None:
                found += exists(context, query, TRUE, scope, empty)
            if full is not None:
                found += [f for one in without(context, full, full, equal) for f in within(context, one, full, nulls)]
    return found


def exists(context: Context, query: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """Where a query has rows, or none."""
    if wanted == UNKNOWN:
        return []
    pairs = [pair for pair, _ in context.select_within(query, scope, branch)]
    return (within if wanted == TRUE else without)(context, branch, branch, pairs)


def _like(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    text, pattern, is_negated = like_parts(context, node)
    found: list[Branch] = []
    for there, value in context.cases(text, scope, branch):
        if value == NULL:
            continue
        is_like = called("like", value, *pattern)
        found += where_true(context, there, negated(is_like) if is_negated == (wanted == TRUE) else is_like)
    return found


def _of_value(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """A column or another expression as a condition: it has to be a boolean."""
    found: list[Branch] = []
    for there, value in context.cases(node, scope, branch):
        kind = context.kind(value)
        if value != NULL and kind not in (None, "bool"):
            raise context.place.mistyped(f"a condition is true or false, and this is of type '{kind}'", node)
        if wanted == UNKNOWN:
            empty = there.null(value)
            found += [] if empty is None else [empty]
        else:
            found += where_true(context, there, value if wanted == TRUE else negated(value))
    return found

"""Conditions: where they are true, false or unknown, as disjoint branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant import equality_key
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.sql.branch import Branch
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.existence import within, without
from gpu_wcoj.query.sql.known import check_parts
from gpu_wcoj.query.sql.literals import spelled
from gpu_wcoj.query.sql.scope import Scope
from gpu_wcoj.query.terms import NULL, Atom, Call, Constant, Expression

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

TRUE, FALSE, UNKNOWN = "T", "F", "U"
_OPPOSITE = {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}
MOST_UNEQUAL = 8
"""How many constants of NOT IN are compared one by one; more of them are a relation."""
BACKSLASH = ("postgres", "redshift", "spark", "databricks", "bigquery", "materialize", "risingwave")
"""Dialects in which a backslash escapes in LIKE by itself."""
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
        parts = list(node.flatten())
        if isinstance(node, exp.Or):
            check_one_relation(context, node, scope)
            return _all(context, parts, _OPPOSITE[wanted], scope, branch, node, negated=True)
        return _all(context, parts, wanted, scope, branch, node)
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


def check_one_relation(context: Context, node: Node, scope: Scope) -> None:
    """Refuse OR whose sides speak of several relations of FROM."""
    from sqlglot import expressions as exp

    owners: set[str] = set()
    for one in node.find_all(exp.Column):
        if one.find_ancestor(exp.Select) is not node.find_ancestor(exp.Select) or isinstance(one.this, exp.Star):
            continue
        number = scope.own(one, context.place)
        owners.update(source.name for source in scope.sources if any(number == own for _, own in source.columns))
    if len(owners) > 1:
        raise context.place.refused(
            f"OR across relations ({', '.join(sorted(owners))}) is not supported",
            node,
            "Write a query for each case, so that no row is in two of them, and put UNION ALL between;\n"
            "  or, of equalities with constants, (a.x, b.y) IN ((1, 2), (3, 4)).",
        )


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
        found = [branch.compared(op if wanted == TRUE else NEGATED[op], *context.alike(left, right, node))]
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
    if len(plain) != len(rows) and len(rows) > 1:
        check_one_relation(context, node, scope)
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
    for where, values in context.each(columns, scope, branch):
        solid = [where]
        for value in values:
            solid = [one for one in (each.not_null(value) for each in solid) if one is not None]
        for there in solid:
            fitted = [tuple(context.alike(a, b, node)[1] for a, b in zip(values, row, strict=True)) for row in rows]
            lefts = [context.alike(a, b, node)[0] for a, b in zip(values, rows[0], strict=True)]
            kept = {_row_key(context, row, lefts): row for row in fitted if NULL not in row}
            if all(isinstance(one, Constant) for one in lefts):
                result += [there] if (_row_key(context, lefts, lefts) in kept) != negated else []
                continue
            if not kept:
                continue
            name = context.helper("in")
            context.rules += [Rule(Atom(name, row), ()) for row in kept.values()]
            if negated:
                result.append(replace(there, negated=(*there.negated, Atom(name, tuple(lefts)))))
                continue
            terms = tuple(context.fresh("value", context.kind(one)) for one in lefts)
            listed = there.joined(Branch((Atom(name, terms),), known=frozenset(terms)))
            result += context.equated(listed, list(zip(lefts, terms, strict=True)))
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
    from sqlglot import expressions as exp

    place = context.place
    escape: tuple[Expression, ...] = (Constant("\\"),) if context.dialect in BACKSLASH else ()
    like = node
    if isinstance(node, exp.Escape):
        check_parts(node, place, "this", "expression")
        like = node.this
        char = context.literal(node.expression)
        if (
            not isinstance(like, exp.Like)
            or not isinstance(char, Constant)
            or not isinstance(char.value, str)
            or len(char.value) != 1
        ):
            raise place.refused("ESCAPE is supported behind LIKE, with a character", node)
        escape = (char,)
    check_parts(like, place, "this", "expression", "negate")
    if like.args.get("negate"):
        wanted = _OPPOSITE[wanted]
    pattern = context.literal(like.expression)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise place.refused("LIKE is supported with a constant pattern", like)
    found = []
    for where, value in context.cases(like.this, scope, branch):
        if wanted == UNKNOWN:
            found.append(where.null(value))
            continue
        solid = where.not_null(value)
        call = Call("like", (value, pattern, *escape))
        found.append(solid and solid.compared("=", call, Constant(wanted == TRUE)))
    return [one for one in found if one is not None]


def _of_value(context: Context, node: Node, wanted: str, scope: Scope, branch: Branch) -> list[Branch]:
    """A column or another expression as a condition: it has to be a boolean."""
    found = []
    for where, value in context.cases(node, scope, branch):
        kind = context.kind(value)
        if value != NULL and kind not in (None, "bool"):
            raise context.place.mistyped(f"a condition is true or false, and this is of type '{kind}'", node)
        if wanted == UNKNOWN:
            found.append(where.null(value))
        elif isinstance(value, Constant):
            found.append(where if value.value is (wanted == TRUE) else None)
        else:
            found.append(where.compared("=", value, Constant(wanted == TRUE)))
    return [one for one in found if one is not None]

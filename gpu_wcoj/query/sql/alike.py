"""Values of two types side by side: what is converted, as SQL does it, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.literals import is_date, spelled
from gpu_wcoj.query.terms import NULL, Call, Constant, Expression

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


def alike(context: Context, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
    """Two values, neither null, in types that compare: numbers beside doubles as doubles, dates as they are spelled."""
    if is_date(left) and is_date(right):
        return spelled(left), spelled(right)
    for one, other in ((left, right), (right, left)):
        kind = context.kind(other)
        if is_date(one) and kind is not None and not kind.startswith(("date", "timestamp")):
            raise context.place.mistyped(f"a date is compared with a value of type '{kind}'", node)
    left, right = spelled(left), spelled(right)
    _check_groups(context, left, right, node)
    kinds = _family(context, left), _family(context, right)
    if set(kinds) == {"integer", "double"} or set(kinds) == {"decimal", "double"}:
        left, right = (
            Call("double", (one,)) if kind != "double" and not isinstance(one, Constant) else one
            for one, kind in zip((left, right), kinds, strict=True)
        )
    return left, right


def group_of(kind: str) -> str:
    """What types it compares with: a number, a text, a truth value or a time.

    Examples
    --------
    >>> group_of("decimal128(9, 2)"), group_of("timestamp[us]")
    ('number', 'time')
    """
    if kind.startswith(("int", "uint", "decimal", "double", "float")):
        return "number"
    return "time" if kind.startswith(("date", "timestamp")) else "text" if "string" in kind else kind


def _check_groups(context: Context, left: Expression, right: Expression, node: Node) -> None:
    kinds = [context.kind(one) for one in (left, right)]
    groups = {group_of(one) for one in kinds if one is not None}
    is_spelled = any(isinstance(one, Constant) and isinstance(one.value, str) for one in (left, right))
    if len(groups) > 1 and not (is_spelled and groups == {"text", "time"}):
        raise context.place.mistyped(f"values of the types '{kinds[0]}' and '{kinds[1]}' do not compare", node)


def _family(context: Context, value: Expression) -> str:
    if isinstance(value, Constant) and isinstance(value.value, (int, float, Decimal)):
        return "constant"
    kind = context.kind(value) or ""
    return "integer" if kind.lstrip("u").startswith("int") else kind.split("(")[0].rstrip("0123456789")


def unified(
    context: Context, rows: Sequence[tuple[Branch, Values]], nodes: Sequence[Node] = ()
) -> list[tuple[Branch, Values]]:
    """Rows of the same columns: beside doubles, integers and decimals become doubles, too.

    Dates of the text stand for dates where other rows have some; by themselves they are no values of a column. That is
    refused for those that `nodes` are given for, which are what a relation's columns are made of.
    """
    found = list(rows)
    for at in range(len(rows[0][1]) if rows else 0):
        families = {_family(context, values[at]) for _, values in found}
        if "double" in families and families & {"integer", "decimal"}:
            found = [one for branch, values in found for one in _as_double(context, branch, values, at)]
        if any(is_date(values[at]) for _, values in found):
            kinds = [context.kind(values[at]) or "" for _, values in found]
            if any(one.startswith(("date", "timestamp")) for one in kinds):
                found = [(one, (*values[:at], spelled(values[at]), *values[at + 1 :])) for one, values in found]
            elif nodes:
                what = "a date of the text is compared, and cannot be a column's value by itself"
                raise context.place.refused(what, nodes[at], "Compare a column with it.")
    return found


def _as_double(context: Context, branch: Branch, values: Values, at: int) -> Iterator[tuple[Branch, Values]]:
    value = values[at]
    if _family(context, value) not in ("integer", "decimal"):
        yield branch, values
        return
    numbers = context.numbered(len(values))
    branch = branch.with_values(dict(zip(numbers, values, strict=True)))
    empty, full = branch.null(value), branch.not_null(value)
    for one in (empty, full):
        if one is not None:
            made = [one.values[number] for number in numbers]
            made[at] = NULL if one is empty else Call("double", (made[at],))
            yield one, tuple(made)

"""Values of two types side by side: what is converted, as SQL does it, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant import is_spelled
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.literals import is_date, spelled
from gpu_wcoj.query.terms import NULL, Call, Constant, Expression
from gpu_wcoj.schema import DataType

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


def alike(context: Context, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
    """Two values, neither null, in types that compare: numbers as decimals or doubles, dates as they are spelled."""
    if is_date(left) and is_date(right):
        return spelled(left), spelled(right)
    for one, other in ((left, right), (right, left)):
        kind = context.kind(other)
        if is_date(one) and kind is not None and not kind.startswith(("date", "timestamp")):
            raise context.place.mistyped(f"a date is compared with a value of type '{kind}'", node)
    left, right = spelled(left), spelled(right)
    _check_groups(context, left, right, node)
    wanted = _common({_family(context, one) for one in (left, right)})
    return _converted(context, left, wanted), _converted(context, right, wanted)


def _common(families: set[str]) -> str:
    """What numbers of such types become side by side; empty if they stay what they are."""
    if len(families & {"integer", "decimal", "float", "double"}) < 2:
        return ""
    return "decimal" if families <= {"integer", "decimal", "constant"} else "double"


def _converted(context: Context, value: Expression, wanted: str, scale: int = 0) -> Expression:
    """A value that is not null as a double or a decimal; constants are what they stand beside."""
    family = _family(context, value)
    if not wanted or family in (wanted, "constant") or family not in ("integer", "decimal", "float"):
        return value
    return (
        Call("double", (value,))
        if wanted == "double"
        else Call("*", (value, Constant(Decimal(1).quantize(Decimal(1).scaleb(-scale)))))
    )


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
    is_text = any(map(is_spelled, (left, right)))
    if len(groups) > 1 and not (is_text and groups == {"text", "time"}):
        raise context.place.mistyped(f"values of the types '{kinds[0]}' and '{kinds[1]}' do not compare", node)
    if groups == {"time"} and len({DataType(one).family for one in kinds if one is not None}) > 1:
        what = f"this compares values of the types '{kinds[0]}' and '{kinds[1]}'; give both columns one of the two"
        raise context.place.mistyped(what, node)


def _family(context: Context, value: Expression) -> str:
    if isinstance(value, Constant) and isinstance(value.value, (int, float, Decimal)):
        return "constant"
    kind = context.kind(value) or ""
    return "integer" if kind.lstrip("u").startswith("int") else kind.split("(")[0].rstrip("0123456789")


def unified(
    context: Context, rows: Sequence[tuple[Branch, Values]], nodes: Sequence[Node] = ()
) -> list[tuple[Branch, Values]]:
    """Rows of the same columns: integers beside decimals become decimals, and all numbers beside doubles doubles.

    Dates of the text stand for dates where other rows have some; by themselves they are no values of a column. That is
    refused for those that `nodes` are given for, which are what a relation's columns are made of.
    """
    found = list(rows)
    for at in range(len(rows[0][1]) if rows else 0):
        families = {_family(context, values[at]) for _, values in found}
        constants = [one.value for one in (values[at] for _, values in found) if isinstance(one, Constant)]
        scales = [-int(one.as_tuple().exponent) for one in constants if isinstance(one, Decimal)]
        families |= {"double" for one in constants if isinstance(one, float)} | {"decimal" for _ in scales}
        wanted = _common(families)
        if wanted:
            scale = max([0, *scales])
            found = [one for branch, values in found for one in _as(context, branch, values, at, wanted, scale)]
        if any(is_date(values[at]) for _, values in found):
            kinds = [context.kind(values[at]) or "" for _, values in found]
            if any(one.startswith(("date", "timestamp")) for one in kinds):
                found = [(one, (*values[:at], spelled(values[at]), *values[at + 1 :])) for one, values in found]
            elif nodes:
                what = "a date of the text is compared, and cannot be a column's value by itself"
                raise context.place.refused(what, nodes[at], "Compare a column with it.")
    return found


def in_common(context: Context, values: Sequence[Expression], node: Node) -> list[Expression]:
    """Values of one column, converted as `unified` does it; null where they were."""
    families = {_family(context, one) for one in values}
    constants = [one.value for one in values if isinstance(one, Constant)]
    scales = [-int(one.as_tuple().exponent) for one in constants if isinstance(one, Decimal)]
    families |= {"double" for one in constants if isinstance(one, float)} | {"decimal" for _ in scales}
    wanted = _common(families)
    found = [_converted(context, one, wanted, max([0, *scales])) for one in values] if wanted else list(values)
    if any(map(is_date, found)) and not all(is_date(one) or one == NULL for one in found):
        for kind in (context.kind(one) for one in found if not is_date(one) and one != NULL):
            if kind is not None and not kind.startswith(("date", "timestamp")):
                raise context.place.mistyped(f"a date stands beside a value of type '{kind}'", node)
        found = [spelled(one) for one in found]
    return found


def _as(
    context: Context, branch: Branch, values: Values, at: int, wanted: str, scale: int
) -> Iterator[tuple[Branch, Values]]:
    """A row with one of its columns as a double or a decimal, or null."""
    if _converted(context, values[at], wanted) == values[at]:
        yield branch, values
        return
    own = values[at]
    if isinstance(own, Call) and own.takes_nulls:
        yield branch, (*values[:at], _converted(context, own, wanted, scale), *values[at + 1 :])
        return
    numbers = context.numbered(len(values))
    branch = branch.with_values(dict(zip(numbers, values, strict=True)))
    empty, full = branch.null(values[at]), branch.not_null(values[at])
    for one in (empty, full):
        if one is not None:
            made = [one.values[number] for number in numbers]
            made[at] = NULL if one is empty else _converted(context, made[at], wanted, scale)
            yield one, tuple(made)

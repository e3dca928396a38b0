"""Type coercion of values that are compared or share a column, as in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.query.constant_folding import is_spelled
from gpu_wcoj.query.ir import NULL, Call, Constant, Expression
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.literals import as_text, is_date

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


def unify_pair(context: Context, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
    """Convert two non-null values to types that compare.

    Numbers become decimals or doubles if they differ in type, dates become texts.
    """
    if is_date(left) and is_date(right):
        return as_text(left), as_text(right)
    for side, opposite in ((left, right), (right, left)):
        kind = context.kind(opposite)
        if is_date(side) and kind is not None and not kind.startswith(("date", "timestamp")):
            raise context.place.mistyped(f"a date is compared with a value of type '{kind}'", node)
    left, right = as_text(left), as_text(right)
    _check_groups(context, left, right, node)
    target = _common({_family(context, value) for value in (left, right)})
    return _converted(context, left, target), _converted(context, right, target)


def _common(families: set[str]) -> str:
    """Return the common type of number types; empty if no conversion is needed."""
    if len(families & {"integer", "decimal", "float", "double"}) < 2:
        return ""
    return "decimal" if families <= {"integer", "decimal", "constant"} else "double"


def _converted(context: Context, value: Expression, target: str, scale: int = 0) -> Expression:
    """Convert a non-null value to a double or a decimal; constants stay as they are."""
    family = _family(context, value)
    if not target or family in (target, "constant") or family not in ("integer", "decimal", "float"):
        return value
    return (
        Call("double", (value,))
        if target == "double"
        else Call("*", (value, Constant(Decimal(1).quantize(Decimal(1).scaleb(-scale)))))
    )


def group_of(kind: str) -> str:
    """Return the group of types that a type compares with: number, text, bool or time.

    Examples
    --------
    >>> group_of("decimal128(9, 2)"), group_of("timestamp[us]")
    ('number', 'time')
    """
    if kind.startswith(("int", "uint", "decimal", "double", "float")):
        return "number"
    return "time" if kind.startswith(("date", "timestamp")) else "text" if "string" in kind else kind


def _check_groups(context: Context, left: Expression, right: Expression, node: Node) -> None:
    kinds = [context.kind(value) for value in (left, right)]
    groups = {group_of(kind) for kind in kinds if kind is not None}
    is_text = any(map(is_spelled, (left, right)))
    if len(groups) > 1 and not (is_text and groups == {"text", "time"}):
        raise context.place.mistyped(f"values of the types '{kinds[0]}' and '{kinds[1]}' do not compare", node)
    if groups == {"time"} and len({DataType(kind).family for kind in kinds if kind is not None}) > 1:
        what = f"this compares values of the types '{kinds[0]}' and '{kinds[1]}'; give both columns one of the two"
        raise context.place.mistyped(what, node)


def _family(context: Context, value: Expression) -> str:
    if isinstance(value, Constant) and isinstance(value.value, (int, float, Decimal)):
        return "constant"
    kind = context.kind(value) or ""
    return "integer" if kind.lstrip("u").startswith("int") else kind.split("(")[0].rstrip("0123456789")


def unify_rows(
    context: Context, rows: Sequence[tuple[Branch, Values]], nodes: Sequence[Node] = ()
) -> list[tuple[Branch, Values]]:
    """Convert the columns of rows: integers to decimals, numbers to doubles, as needed.

    A date literal is a date if other rows have dates in its column. A column of date literals only is refused if
    `nodes`, the expressions of the columns of a relation, are given.
    """
    result = list(rows)
    for column in range(len(rows[0][1]) if rows else 0):
        families = {_family(context, values[column]) for _, values in result}
        constants = [value.value for value in (values[column] for _, values in result) if isinstance(value, Constant)]
        scales = [-int(constant.as_tuple().exponent) for constant in constants if isinstance(constant, Decimal)]
        families |= {"double" for constant in constants if isinstance(constant, float)} | {"decimal" for _ in scales}
        target = _common(families)
        if target:
            scale = max([0, *scales])
            result = [
                row for branch, values in result for row in _column_as(context, branch, values, column, target, scale)
            ]
        if any(is_date(values[column]) for _, values in result):
            kinds = [context.kind(values[column]) or "" for _, values in result]
            if any(kind.startswith(("date", "timestamp")) for kind in kinds):
                result = [
                    (branch, (*values[:column], as_text(values[column]), *values[column + 1 :]))
                    for branch, values in result
                ]
            elif nodes:
                what = "a date literal can only be compared; it cannot be the value of a column"
                raise context.place.refused(what, nodes[column], "Compare a column with it.")
    return result


def unify_values(context: Context, values: Sequence[Expression], node: Node) -> list[Expression]:
    """Convert the values of one column, as `unify_rows` does; null stays null."""
    families = {_family(context, value) for value in values}
    constants = [value.value for value in values if isinstance(value, Constant)]
    scales = [-int(constant.as_tuple().exponent) for constant in constants if isinstance(constant, Decimal)]
    families |= {"double" for constant in constants if isinstance(constant, float)} | {"decimal" for _ in scales}
    target = _common(families)
    converted = [_converted(context, value, target, max([0, *scales])) for value in values] if target else list(values)
    if any(map(is_date, converted)) and not all(is_date(value) or value == NULL for value in converted):
        for kind in (context.kind(value) for value in converted if not is_date(value) and value != NULL):
            if kind is not None and not kind.startswith(("date", "timestamp")):
                raise context.place.mistyped(f"a date cannot be combined with a value of type '{kind}'", node)
        converted = [as_text(value) for value in converted]
    return converted


def _column_as(
    context: Context, branch: Branch, values: Values, position: int, target: str, scale: int
) -> Iterator[tuple[Branch, Values]]:
    """Yield a row with one of its columns as a double or a decimal, or null."""
    if _converted(context, values[position], target) == values[position]:
        yield branch, values
        return
    value = values[position]
    if isinstance(value, Call) and value.takes_nulls:
        yield branch, (*values[:position], _converted(context, value, target, scale), *values[position + 1 :])
        return
    numbers = context.numbered(len(values))
    branch = branch.with_values(dict(zip(numbers, values, strict=True)))
    empty, full = branch.null(values[position]), branch.not_null(values[position])
    for case_branch in (empty, full):
        if case_branch is not None:
            made = [case_branch.values[column] for column in numbers]
            made[position] = NULL if case_branch is empty else _converted(context, made[position], target, scale)
            yield case_branch, tuple(made)

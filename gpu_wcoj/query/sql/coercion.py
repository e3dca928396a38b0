"""Arithmetic and functions of SQL: their names and argument types in the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.errors import nearest
from gpu_wcoj.query.ir import CHECKED, Call, Constant, Expression
from gpu_wcoj.query.sql.alike import group_of
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.known import check_parts, describe_node

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

DOUBLE_QUOTIENTS = ("spark", "databricks", "bigquery")
"""Dialects in which ``/`` of integers is a double, as in DuckDB, but ``/`` of decimals is not."""
INFINITE = ("duckdb", "trino", "presto", "athena")
"""Dialects in which a double divided by 0 is infinite or NaN; in all other dialects it is an error."""
BY_CHARACTER = ("duckdb", "trino", "presto", "athena")
"""Dialects in which UPPER and LOWER map each character to one character; others are assumed to map as Java does.

One difference is known: Trino, Presto and Athena keep 'ß', which becomes 'ẞ' here, as in DuckDB.
"""
FUNCTION_NAMES = (
    "ABS", "LOWER", "UPPER", "LENGTH", "SUBSTRING", "YEAR", "MONTH", "DAY", "EXTRACT", "COALESCE", "NULLIF", "COUNT",
    "SUM", "MIN", "MAX", "AVG",
)  # fmt: skip
"""Names of the supported functions."""
_CLOCK = "A view does not follow the clock; compare with a date, as DATE '2026-01-31', or with a column."
INSTEAD = {
    "ILike": "Write LOWER(x) LIKE 'pattern'.",
    "Any": "Write x IN (SELECT ...), or EXISTS.",
    "All": "Write NOT EXISTS with the opposite condition.",
    "Rand": "A view of something random cannot be kept.",
    "CurrentDate": _CLOCK,
    "CurrentTimestamp": _CLOCK,
    "Now": _CLOCK,
    "Interval": "Intervals are added to dates of the text only: d < DATE '2026-01-31' + INTERVAL '3' MONTH.",
    "Placeholder": "Write the value into the text.",
    "Parameter": "Write the value into the text.",
    "Tuple": "Name its columns one by one.",
    "Greatest": "Write CASE WHEN a > b THEN a ELSE b END.",
    "Least": "Write CASE WHEN a < b THEN a ELSE b END.",
}
"""Advice for unsupported syntax, by class of node."""
Make = Callable[[Sequence[Expression]], Expression]


def function(context: Context, node: Node) -> tuple[list[Node], Make]:
    """Return the argument nodes of a calculation, and a function from their values to its value.

    The function gets non-null values.

    Raises
    ------
    UnsupportedError
        If the core has no such function, or the function differs there.
    """
    from sqlglot import expressions as exp

    place = context.place
    plain: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
    if type(node) in plain:
        check_parts(node, place, "this", "expression")
        op = next(op for kind, op in plain.items() if isinstance(node, kind))
        return [node.this, node.expression], lambda values: Call(op, _numbers(context, values, node))
    if isinstance(node, exp.Mod):
        check_parts(node, place, "this", "expression")
        return [node.this, node.expression], lambda values: _divided(context, "%", _numbers(context, values, node))
    if isinstance(node, exp.Neg):
        check_parts(node, place, "this")
        return [node.this], lambda values: Call("-", _numbers(context, values, node))
    if isinstance(node, exp.Div):
        return _division(context, node)
    if isinstance(node, exp.IntDiv):
        check_parts(node, place, "this", "expression")
        return [node.this, node.expression], lambda values: Call("/", _integers(context, values, node))
    if isinstance(node, exp.DPipe):
        check_parts(node, place, "this", "expression", "safe")
        return [node.this, node.expression], lambda values: Call("cat", _texts(context, values, node))
    single: dict[type, str] = {
        exp.Abs: "abs",
        exp.Lower: "downcase" if context.dialect in BY_CHARACTER else "lower",
        exp.Upper: "upcase" if context.dialect in BY_CHARACTER else "upper",
        exp.Year: "year",
        exp.Month: "month",
        exp.Day: "day",
    }
    if type(node) in single:
        check_parts(node, place, "this")
        operand = node.this
        if isinstance(node, (exp.Year, exp.Month, exp.Day)) and isinstance(operand, exp.TsOrDsToDate):
            check_parts(operand, place, "this")  # Spark's, which takes texts too
            operand = operand.this
        return [operand], _call(next(op for kind, op in single.items() if isinstance(node, kind)))
    if isinstance(node, exp.Length):
        check_parts(node, place, "this", "binary")  # counts bytes of binary values only, which are not texts
        return [node.this], _call("strlen")
    if isinstance(node, exp.Extract):
        check_parts(node, place, "this", "expression")
        part = node.this.name.lower()
        if part not in ("year", "month", "day"):
            raise place.refused(f"EXTRACT of '{part}' is not supported", node, "YEAR, MONTH and DAY are.")
        return [node.expression], _call(part)
    if isinstance(node, exp.Substring):
        return _substring(context, node)
    if isinstance(node, exp.Cast):
        return _cast(context, node)
    if isinstance(node, exp.Anonymous):
        what = f"there is no function '{node.name}' here"
        raise place.refused(
            f"{what}.{nearest(node.name.upper(), FUNCTION_NAMES)}", node, f"There are {', '.join(FUNCTION_NAMES)}."
        )
    raise place.refused(f"{describe_node(node)} is not supported", node, INSTEAD.get(type(node).__name__, ""))


def _call(op: str) -> Make:
    return lambda values: Call(op, tuple(values))


def _texts(context: Context, values: Sequence[Expression], node: Node) -> tuple[Expression, ...]:
    for value in values:
        kind = context.kind(value)
        if kind is not None and group_of(kind) != "text":
            raise context.place.mistyped(f"'||' needs texts: got a value of type '{kind}'", node)
    return tuple(values)


def _numbers(context: Context, values: Sequence[Expression], node: Node) -> tuple[Expression, ...]:
    """Return numbers as they are, or all as doubles if one is a double."""
    kinds = [context.kind(value) for value in values]
    for kind in kinds:
        if kind is not None and group_of(kind) != "number":
            raise context.place.mistyped(f"this calculates with a value of type '{kind}'", node)
    if "double" not in kinds or None in kinds:
        return tuple(values)
    return tuple(_double(context, value) for value in values)


def _integers(context: Context, values: Sequence[Expression], node: Node) -> tuple[Expression, ...]:
    for value in values:
        kind = context.kind(value)
        if kind is None or "int" not in kind:
            raise context.place.refused(
                f"'//' is supported for integers only: got {kind or 'an unknown type'}",
                node,
                "Declare the types of columns.",
            )
    return tuple(values)


def _division(context: Context, node: Node) -> tuple[list[Node], Make]:
    """Return ``/`` of the dialect: of doubles, or of integers with truncation."""
    place = context.place
    check_parts(node, place, "this", "expression", "typed", "safe")
    is_typed = bool(node.args.get("typed"))

    def made(values: Sequence[Expression]) -> Expression:
        kinds = [context.kind(value) for value in values]
        are_integers = all(kind is not None and "int" in kind for kind in kinds)
        if not is_typed and (context.dialect == "duckdb" or (context.dialect in DOUBLE_QUOTIENTS and are_integers)):
            return _divided(context, "/", tuple(_double(context, value) for value in values))
        if (are_integers and is_typed) or all(kind == "double" for kind in kinds):
            return _divided(context, "/", tuple(values))
        raise place.refused(
            f"'/' in the dialect '{context.dialect}' is not supported for operands of these types"
            f" ({', '.join(kind or 'not known' for kind in kinds)})",
            node,
            "Declare the types of columns, or cast both sides to DOUBLE.",
        )

    return [node.this, node.expression], made


def _divided(context: Context, op: str, values: tuple[Expression, ...]) -> Call:
    """Return ``/`` or ``%``, as a checked function if division by 0 must be an error."""
    is_safe = isinstance(values[1], Constant) and values[1].value != 0
    are_exact = all((context.kind(value) or "").lstrip("u").startswith(("int", "decimal")) for value in values)
    if is_safe or are_exact or context.dialect in INFINITE:
        return Call(op, values)
    return Call(next(name for name, plain in CHECKED.items() if plain == op), values)


def _double(context: Context, value: Expression) -> Expression:
    if isinstance(value, Constant) and not isinstance(value.value, (bool, str)):
        return Constant(float(value.value))  # type: ignore[arg-type]  # null is excluded by the callers
    return value if context.kind(value) == "double" else Call("double", (value,))


def _substring(context: Context, node: Node) -> tuple[list[Node], Make]:
    place = context.place
    check_parts(node, place, "this", "start", "length", "zero_start")
    numbers = [
        context.literal(node.args[argument_name]) if node.args.get(argument_name) is not None else None
        for argument_name in ("start", "length")
    ]
    start, length = (literal.value if isinstance(literal, Constant) else None for literal in numbers)
    if type(start) is not int or start < 1 or type(length) is not int or length < 0:
        raise place.refused(
            "SUBSTRING is supported with a constant start, from 1 on, and a constant length", node,
            "Write SUBSTRING(text, 1, 2).",
        )  # fmt: skip
    first, many = start, length
    return [node.this], lambda values: Call("substr", (values[0], Constant(first - 1), Constant(many)))


def _cast(context: Context, node: Node) -> tuple[list[Node], Make]:
    """Return a cast that keeps every value, so that TRY_CAST means the same."""
    place = context.place
    check_parts(node, place, "this", "to", "safe")
    target = node.args["to"].this.name if hasattr(node.args["to"].this, "name") else ""

    def made(values: Sequence[Expression]) -> Expression:
        (value,) = values
        kind = context.kind(value)
        if target == "DOUBLE":
            if kind == "double":
                return value
            if kind is None or "int" in kind or kind.startswith(("decimal", "float")):
                return _double(context, value)
        widths = {"BIGINT": 64, "INT": 32, "SMALLINT": 16, "TINYINT": 8}
        if target in widths and kind is not None and kind.startswith("int") and int(kind[3:]) <= widths[target]:
            return value
        same = {"VARCHAR": "string", "TEXT": "string", "BOOLEAN": "bool", "DATE": "date32[day]"}
        if kind is not None and same.get(target) == kind:
            return value
        raise place.refused(
            f"a cast of {kind or 'an unknown type'} to {target or 'this type'} is not supported", node,
            "DOUBLE of numbers, and wider integers of integers whose type is declared, are.",
        )  # fmt: skip

    return [node.this], made

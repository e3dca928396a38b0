"""Arithmetic and functions: what they are called in the core, and what they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.known import called, check_parts
from gpu_wcoj.query.terms import Call, Constant, Expression

if TYPE_CHECKING:
    from sqlglot.expressions import Expression as Node

Make = Callable[[Sequence[Expression]], Expression]


def function(context: Context, node: Node) -> tuple[list[Node], Make]:
    """The arguments of a calculation, and what makes its value of theirs, none of which is null.

    Raises
    ------
    UnsupportedError
        If there is none such in the core, or it means something else there.
    """
    from sqlglot import expressions as exp

    place = context.place
    plain = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
    if type(node) in plain:
        check_parts(node, place, "this", "expression")
        return [node.this, node.expression], _call(plain[type(node)])
    if isinstance(node, exp.Neg):
        check_parts(node, place, "this")
        return [node.this], _call("-")
    if isinstance(node, exp.Div):
        return _division(context, node)
    if isinstance(node, exp.DPipe):
        check_parts(node, place, "this", "expression", "safe")
        return [node.this, node.expression], _call("cat")
    single = {
        exp.Abs: "abs",
        exp.Lower: "lower",
        exp.Upper: "upper",
        exp.Year: "year",
        exp.Month: "month",
        exp.Day: "day",
    }
    if type(node) in single:
        check_parts(node, place, "this")
        return [node.this], _call(single[type(node)])
    if isinstance(node, exp.Length):
        check_parts(node, place, "this")
        return [node.this], _call("strlen")
    if isinstance(node, exp.Extract):
        check_parts(node, place, "this", "expression")
        part = node.this.name.lower()
        if part not in ("year", "month", "day"):
            raise place.refused(f"EXTRACT of '{part}' is not supported", node, "YEAR, MONTH and DAY are.")
        return [node.expression], _call(part)
    if isinstance(node, exp.Substring):
        return _substring(context, node)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return _cast(context, node)
    name = node.name.upper() if isinstance(node, exp.Anonymous) else called(node)
    raise place.refused(f"{name} is not supported", node)


def _call(op: str) -> Make:
    return lambda values: Call(op, tuple(values))


def _division(context: Context, node: Node) -> tuple[list[Node], Make]:
    """``/`` as the dialect has it: of doubles, or of integers cut off."""
    place = context.place
    check_parts(node, place, "this", "expression", "typed", "safe")
    is_typed = bool(node.args.get("typed"))

    def made(values: Sequence[Expression]) -> Expression:
        kinds = [context.kind(one) for one in values]
        if not is_typed and context.dialect == "duckdb":
            return Call("/", tuple(_double(context, one) for one in values))
        if all(one is not None and "int" in one for one in kinds) and is_typed:
            return Call("/", tuple(values))
        if all(one == "double" for one in kinds):
            return Call("/", tuple(values))
        raise place.refused(
            f"'/' in the dialect '{context.dialect}' is not supported for operands of these types"
            f" ({', '.join(one or 'not known' for one in kinds)})",
            node,
            "Declare the types of columns, or cast both sides to DOUBLE.",
        )

    return [node.this, node.expression], made


def _double(context: Context, value: Expression) -> Expression:
    if isinstance(value, Constant) and not isinstance(value.value, (bool, str)):
        return Constant(float(value.value))  # type: ignore[arg-type]  # null has been told apart
    return value if context.kind(value) == "double" else Call("double", (value,))


def _substring(context: Context, node: Node) -> tuple[list[Node], Make]:
    place = context.place
    check_parts(node, place, "this", "start", "length")
    numbers = [
        context.literal(node.args[one]) if node.args.get(one) is not None else None for one in ("start", "length")
    ]
    start, length = (one.value if isinstance(one, Constant) else None for one in numbers)
    if type(start) is not int or start < 1 or type(length) is not int or length < 0:
        raise place.refused(
            "SUBSTRING is supported with a constant start, from 1 on, and a constant length", node,
            "Write SUBSTRING(text, 1, 2).",
        )  # fmt: skip
    first, many = start, length
    return [node.this], lambda values: Call("substr", (values[0], Constant(first - 1), Constant(many)))


def _cast(context: Context, node: Node) -> tuple[list[Node], Make]:
    """A cast that keeps every value as it is."""
    place = context.place
    check_parts(node, place, "this", "to")
    wanted = node.args["to"].this.name if hasattr(node.args["to"].this, "name") else ""

    def made(values: Sequence[Expression]) -> Expression:
        (value,) = values
        kind = context.kind(value)
        if wanted == "DOUBLE":
            if kind == "double":
                return value
            if kind is None or "int" in kind or kind.startswith(("decimal", "float")):
                return _double(context, value)
        widths = {"BIGINT": 64, "INT": 32, "SMALLINT": 16, "TINYINT": 8}
        if wanted in widths and kind is not None and kind.startswith("int") and int(kind[3:]) <= widths[wanted]:
            return value
        same = {"VARCHAR": "string", "TEXT": "string", "BOOLEAN": "bool", "DATE": "date32[day]"}
        if kind is not None and same.get(wanted) == kind:
            return value
        raise place.refused(
            f"a cast of {kind or 'a type that is not known'} to {wanted or 'this type'} is not supported", node,
            "DOUBLE of numbers, and wider integers of integers whose type is declared, are.",
        )  # fmt: skip

    return [node.this], made

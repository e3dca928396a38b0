"""Values of two types side by side: what is converted, as SQL does it, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from gpu_wcoj.query.sql.context import Case, Context
from gpu_wcoj.query.sql.literals import is_date, spelled
from gpu_wcoj.query.terms import Call, Constant, Expression

if TYPE_CHECKING:
    from sqlglot.expressions import Expression as Node


def alike(context: Context, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
    """Two values in types that compare: numbers beside doubles as doubles, dates of the text as their spelling."""
    if is_date(left) and is_date(right):
        return spelled(left), spelled(right)
    for one, other in ((left, right), (right, left)):
        kind = context.kind(other)
        if is_date(one) and kind is not None and not kind.startswith(("date", "timestamp")):
            raise context.place.mistyped(f"a date is compared with a value of type '{kind}'", node)
    left, right = spelled(left), spelled(right)
    kinds = _family(context, left), _family(context, right)
    if set(kinds) == {"integer", "double"} or set(kinds) == {"decimal", "double"}:
        left, right = (
            Call("double", (one,)) if kind != "double" and not isinstance(one, Constant) else one
            for one, kind in zip((left, right), kinds, strict=True)
        )
    return left, right


def _family(context: Context, value: Expression) -> str:
    if isinstance(value, Constant) and isinstance(value.value, (int, float, Decimal)):
        return "constant"
    kind = context.kind(value) or ""
    return "integer" if kind.lstrip("u").startswith("int") else kind.split("(")[0].rstrip("0123456789")


def unified(context: Context, found: list[Case], node: Node) -> list[Case]:
    """The values of one column, integers and decimals as doubles where others are doubles."""
    families = {_family(context, value) for _, value in found}
    if "double" not in families or not families & {"integer", "decimal"}:
        return found
    return [
        (branch, Call("double", (value,)) if _family(context, value) in ("integer", "decimal") else value)
        for branch, value in found
    ]

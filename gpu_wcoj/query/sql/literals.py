"""Literals: numbers, texts, dates, and constant date arithmetic."""

from __future__ import annotations

import calendar
import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.query.ir import NULL, Call, Constant, Expression
from gpu_wcoj.query.sql.context import DATE
from gpu_wcoj.query.sql.known import check_parts, describe_node
from gpu_wcoj.query.sql.place import Place

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


def literal(node: Node, place: Place) -> Expression | None:
    """Return the value of a literal; None for any other node."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Null):
        return NULL
    if isinstance(node, exp.Boolean):
        return Constant(bool(node.this))
    if isinstance(node, exp.Literal):
        return Constant(node.this) if node.is_string else parse_number(node, place)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return parse_number(node.this, place, "-")
    moment = _moment(node, place)
    if moment is None:
        return None
    return Call(DATE, (Constant(moment.isoformat(sep=" ") if isinstance(moment, dt.datetime) else moment.isoformat()),))


def parse_number(node: Node, place: Place, sign: str = "") -> Constant:
    """Return the number of a literal: an integer, a decimal, or a double with an exponent."""
    text = sign + str(node.this)
    try:
        if "e" in text.lower():
            return Constant(float(text))
        return Constant(Decimal(text) if "." in text else int(text))
    except (UnsupportedTypeError, ValueError, ArithmeticError) as error:
        raise place.wrong(str(error).split("\n")[0], node) from None


def is_date(value: Expression) -> bool:
    """Return whether a value is a date or time literal, or a CASE of them."""
    if not isinstance(value, Call):
        return False
    if value.op != "case":
        return value.op == DATE
    return any(map(is_date, values_of(value)))


def values_of(case: Call) -> tuple[Expression, ...]:
    """Return the values of a CASE without null."""
    parts = case.arguments
    values = (*parts[1::2], parts[-1]) if len(parts) % 2 else parts[1::2]
    return tuple(value for value in values if value != NULL)


def as_text(value: Expression) -> Expression:
    """Return a date literal as the text constant that it compares as; other values unchanged."""
    if not isinstance(value, Call) or not is_date(value):
        return value
    if value.op == DATE:
        return value.arguments[0]
    return replace(value, arguments=tuple(map(as_text, value.arguments)))


def _moment(node: Node, place: Place) -> dt.date | None:
    from sqlglot import expressions as exp

    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        kind = node.to.this.name if hasattr(node.to.this, "name") else str(node.to.this)
        if kind in ("DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"):
            check_parts(node, place, "this", "to")
            return _parse_moment(node.this.this, kind, node, place)
        return None
    if isinstance(node, (exp.Date, exp.TsOrDsToDate)) and isinstance(node.this, exp.Literal) and node.this.is_string:
        check_parts(node, place, "this")
        return _parse_moment(node.this.this, "DATE", node, place)
    if isinstance(node, (exp.Add, exp.Sub)) and isinstance(node.expression, exp.Interval):
        start = _moment(node.this, place)
        if start is None:
            return None
        sign = 1 if isinstance(node, exp.Add) else -1
        return _moved(start, sign * _amount(node.expression, place), _unit(node.expression, place), node, place)
    return None


def _parse_moment(text: str, kind: str, node: Node, place: Place) -> dt.date:
    try:
        if kind == "DATE":
            return dt.date.fromisoformat(text.strip())
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        what = "date" if kind == "DATE" else "time"
        raise place.wrong(
            f"'{text}' is not a valid {what}; write it as 2026-01-31{'' if kind == 'DATE' else ' 23:59:59'}", node
        ) from None
    if moment.tzinfo is not None:
        raise place.refused("times with a zone are not supported as literals", node)
    return moment


def _amount(interval: Node, place: Place) -> int:
    from sqlglot import expressions as exp

    value = interval.this
    sign = 1
    while isinstance(value, (exp.Neg, exp.Paren)):
        sign = -sign if isinstance(value, exp.Neg) else sign
        value = value.this
    if not isinstance(value, exp.Literal) or not str(value.this).strip().lstrip("-").isdecimal():
        raise place.refused("only intervals of a whole number are supported", interval, "Write INTERVAL '3' MONTH.")
    return sign * int(value.this)


def _unit(interval: Node, place: Place) -> str:
    unit = interval.args.get("unit")
    name = unit.name.upper().removesuffix("S") if unit is not None else ""
    if name not in ("DAY", "WEEK", "MONTH", "YEAR", "HOUR", "MINUTE", "SECOND"):
        what = f"the unit '{name.lower()}'" if name else f"this {describe_node(interval).lower()}"
        raise place.refused(
            f"{what} is not supported",
            interval,
            "Write INTERVAL '3' MONTH; YEAR, WEEK, DAY, HOUR, MINUTE and SECOND are, too.",
        )
    return name


def _moved(start: dt.date, amount: int, unit: str, node: Node, place: Place) -> dt.date:
    try:
        if unit in ("MONTH", "YEAR"):
            months = start.year * 12 + start.month - 1 + amount * (12 if unit == "YEAR" else 1)
            year, month = months // 12, months % 12 + 1
            return start.replace(year=year, month=month, day=min(start.day, calendar.monthrange(year, month)[1]))
        if unit in ("HOUR", "MINUTE", "SECOND") and not isinstance(start, dt.datetime):
            start = dt.datetime.combine(start, dt.time())
        return start + dt.timedelta(**{f"{unit.lower()}s": amount})
    except (ValueError, OverflowError):
        raise place.wrong("invalid date: expected a year from 1 to 9999", node) from None

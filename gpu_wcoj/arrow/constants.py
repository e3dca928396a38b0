"""Constants of a program's text as codes of a column's type."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.read import encode
from gpu_wcoj.arrow.types import storage_of, to_pyarrow
from gpu_wcoj.data.column import float_codes
from gpu_wcoj.data.schema import NO_DECIMAL, DataType
from gpu_wcoj.data.wide import entry_of_decimal
from gpu_wcoj.errors import TypeMismatchError, listed

_FLOAT_DIGITS = 15
"""Maximum decimal digits that survive a round trip through a 64-bit float."""


def encode_constant(value: object, kind: DataType, op: str = "") -> int:
    """Return the code of a literal in a fixed-width column; dates and timestamps are texts.

    Parameters
    ----------
    op
        The operator of a comparison with the literal, or empty. In a comparison, decimals and integers may meet numbers
        with more digits than they have, dates and timestamps finer times, and the code is one that gives the same
        result of the comparison.

    Raises
    ------
    TypeMismatchError
        If the literal is not a value of the type.

    Examples
    --------
    >>> encode_constant("1970-01-02", DataType("date32[day]"))
    1
    >>> encode_constant(0.05, DataType("decimal128(15, 2)"))
    5
    >>> [encode_constant(0.055, DataType("decimal128(15, 2)"), op) for op in ("<=", "<")]
    [5, 6]
    """
    if kind.family == "decimal" or isinstance(value, Decimal):
        return _of_number(value, kind, op)
    literals = _LITERALS.get(kind.family)
    if literals is not None and type(value) not in literals:
        raise TypeMismatchError.with_parts(
            f"the constant {value!r} is not a value of type '{kind}'",
            got=value,
            remedy="Write a constant of that type.",
        )
    if kind.family == "bool":
        return int(value is True)
    if kind.family == "enum":
        if value not in kind.categories:
            raise TypeMismatchError.with_parts(
                f"the constant {value!r} is not a category of its column",
                got=value,
                expected=f"one of {listed(map(str, kind.categories))}",
            )
        return kind.categories.index(value)
    if kind.family == "duration":
        return _duration_code(str(value), kind)
    if kind.family == "time":
        return _time_code(str(value), kind)
    if kind.family in ("date", "timestamp"):
        finer = (DataType(f"timestamp[{unit}]") for unit in ("ns", "us", "ms", "s"))
        for unit in finer:
            if unit.per_day > kind.per_day and is_value(value, unit):
                return _coarser(*divmod(encode_constant(value, unit), kind.factor_to(unit)), kind, op, value)
    try:
        if isinstance(value, str):
            array = pa.array([value]).cast(to_pyarrow(kind))
        elif kind.family.startswith("float"):
            return int(float_codes(np.array([_as_float(value, kind)], storage_of(kind)[0]))[0])
        else:
            array = pa.array([value], to_pyarrow(kind))
    except (pa.ArrowException, OverflowError, ValueError) as error:
        if isinstance(error, TypeMismatchError):
            raise
        raise TypeMismatchError(f"the constant {value!r} is not a value of type '{kind}': {error}.") from None
    return int(encode(array).codes[0])


def is_value(value: object, kind: DataType, is_compared: bool = False) -> bool:
    """Return True if a literal of a query is a value of the type, or compares with its values.

    Examples
    --------
    >>> is_value("2026-01-31", DataType("date32[day]")), is_value("x", DataType("date32[day]"))
    (True, False)
    """
    try:
        _ = encode_constant(value, kind, "<" * is_compared)
    except TypeMismatchError:
        return False
    return True


def constant_entry(value: object, kind: DataType) -> bytes:
    """Return the bytes that stand for a literal: a number of many digits, or a UUID.

    Raises
    ------
    TypeMismatchError
        If the literal is not a value of the type.

    Examples
    --------
    >>> from gpu_wcoj.data.schema import UUID
    >>> constant_entry("0000000000000000000000000000000a", DataType(UUID))[-1]
    10
    """
    if kind.family == "uuid":
        import uuid

        try:
            return uuid.UUID(str(value)).bytes
        except ValueError:
            pass
    elif kind.family == "wide" and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        entry = entry_of_decimal(Decimal(str(value)))
        if entry is not None:
            return entry
    raise TypeMismatchError.with_parts(f"the constant {value!r} is not a value of type '{kind}'", got=value)


_DURATION = re.compile(
    r"(?:(?P<days>-?\d+) days?,?)? ?(?P<sign>-?)(?:(?P<h>\d+):(?P<m>\d\d)(?::(?P<s>\d\d)(?P<f>\.\d{1,9})?)?)?"
)


def _time_code(text: str, kind: DataType) -> int:
    """Return the code of a time of day such as ``09:30`` or ``23:59:59.5``.

    Raises
    ------
    TypeMismatchError
        If it is not a time of day, or is finer than the type's unit.
    """
    is_day = _DURATION.fullmatch(text) is not None and text[:1].isdecimal() and "day" not in text
    code = _duration_code(text, kind) if is_day else -1
    if not 0 <= code < kind.per_day:
        raise TypeMismatchError.with_parts(
            f"the constant {text!r} is not a value of type '{kind}'",
            got=text,
            remedy="Write hours, minutes and seconds: '09:30' or '23:59:59.5'.",
        )
    return code


def _duration_code(text: str, kind: DataType) -> int:
    """Return the code of a duration such as ``3 days``, ``1 day 02:30:00`` or ``-00:00:01.5``.

    Raises
    ------
    TypeMismatchError
        If it is not a duration, or is finer than the type's unit.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text.strip():
        raise TypeMismatchError.with_parts(
            f"the constant {text!r} is not a duration",
            got=text,
            remedy="Write days, hours, minutes and seconds: '2 days', '1 day 02:30:00' or '00:00:01.5'.",
        )
    clock = int(match["h"] or 0) * 3600 + int(match["m"] or 0) * 60 + int(match["s"] or 0)
    nanoseconds = clock * 10**9 + int((match["f"] or ".0")[1:].ljust(9, "0"))
    total = int(match["days"] or 0) * 86_400 * 10**9 + (-nanoseconds if match["sign"] else nanoseconds)
    code, rest = divmod(total, {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.time_unit])
    if rest or not -(2**63) <= code < 2**63:
        raise TypeMismatchError.with_parts(f"the constant {text!r} is not exactly a value of type '{kind}'", got=text)
    return code


_LITERALS: dict[str, tuple[type, ...]] = {
    "integer": (int,), "bool": (bool,), "float32": (int, float), "float64": (int, float), "date": (str,),
    "timestamp": (str,), "zoned": (str,), "time": (str,), "duration": (str,),
}  # fmt: skip
"""Types of the literals that columns are compared with, by the family of the column."""


def _as_float(value: object, kind: DataType) -> float:
    """Return a number as a float of the column's type: integers exactly, finite stays finite.

    Floats are rounded to those of 32 bits, as in any comparison of the two.
    """
    converted = float(value)  # type: ignore[arg-type]  # of an int or a float
    if kind.family == "float32" and np.isfinite(converted):
        with np.errstate(over="ignore"):
            converted = float(np.float32(converted))
    if not np.isfinite(converted) and value == value and abs(value) != np.inf:  # type: ignore[arg-type]
        raise TypeMismatchError(
            f"the constant {value!r} is too large for type '{kind}'.\n  Write a smaller number, or remove it."
        )
    if isinstance(value, int) and int(converted) != value:
        raise TypeMismatchError(
            f"the constant {value} is not exactly a value of type '{kind}': got {value}, expected an integer that "
            f"a float holds, such as {int(converted)}.\n  Write the float that is meant: {converted!r}."
        )
    return converted


def _of_number(value: object, kind: DataType, op: str) -> int:
    """Return the code of a number in a decimal column, or of a decimal in another column."""
    if kind.family in ("float32", "float64"):
        return encode_constant(float(str(value)) + 0.0, kind)  # decimals have a single zero, without a sign
    if kind.family not in ("integer", "decimal") or isinstance(value, (bool, str)):
        raise TypeMismatchError.with_parts(f"the constant {str(value)!r} is not a value of type '{kind}'", got=value)
    digits, exponent = _digits(Decimal(str(value)))
    if isinstance(value, float) and len(str(abs(digits))) > _FLOAT_DIGITS:
        raise TypeMismatchError.with_parts(
            f"the constant {value!r} has too many digits for a float beside decimals",
            got=value,
            expected=f"at most {_FLOAT_DIGITS} digits",
            remedy=f"Write it as a decimal: {value!r}m.",
        )
    exponent += kind.digits[1]
    return _coarser(*divmod(digits * int(10 ** max(0, exponent)), int(10 ** max(0, -exponent))), kind, op, value)


def _coarser(code: int, over: int, kind: DataType, op: str, value: object) -> int:
    """Return the code of a compared literal that lies `over` parts of a unit above `code`."""
    low, high = kind.code_range
    if not over and low <= code <= high:
        return code
    if over and op in ("<", ">="):
        code += 1
    if op in ("=", "!=") and (kind.family == "decimal" or (low > NO_DECIMAL and kind.family != "integer")):
        return NO_DECIMAL
    if op in ("<", "<=", ">", ">=") and (kind.family == "decimal" or low <= code <= high):
        return max(-(1 << 63), min((1 << 63) - 1, code))
    what = "is not exactly a value" if over else "is outside the values"
    raise TypeMismatchError.with_parts(
        f"the constant {value} {what} of type '{kind}'", got=value, remedy="Compare it by '<' or '>'."
    )


def _digits(value: Decimal) -> tuple[int, int]:
    """Return the number as an integer without trailing zeros, and a power of 10."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    integer = int("".join(map(str, digits)))
    while integer and integer % 10 == 0:
        integer, exponent = integer // 10, exponent + 1
    return (-integer if sign else integer), (exponent if integer else 0)

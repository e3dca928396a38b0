"""Constants of a program's text as codes of a column's type."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.incoming import encode
from gpu_wcoj.arrow.types import storage_of, to_pyarrow
from gpu_wcoj.column import float_codes
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.schema import NO_DECIMAL, DataType

_FLOAT_DIGITS = 15
"""So many digits of a decimal text are sure to come back from the float that it is read as."""


def encode_constant(value: object, kind: DataType, op: str = "") -> int:
    """The code of a literal in a column of a fixed-width type; dates and timestamps are written as text.

    Parameters
    ----------
    op
        Where the literal is compared by it: then decimals and integers may be compared with numbers of more digits than
        they have, and the code is one of which the comparison says the same.

    Raises
    ------
    TypeMismatchError
        If the literal is no value of the type.

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
        raise TypeMismatchError(f"the constant {value!r} is no value of type '{kind.name}'.\n  Write one of that type.")
    if kind.family == "bool":
        return int(value is True)
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
        raise TypeMismatchError(f"the constant {value!r} is no value of type '{kind.name}': {error}.") from None
    return int(encode(array).codes[0])


_LITERALS: dict[str, tuple[type, ...]] = {
    "integer": (int,), "bool": (bool,), "float32": (int, float), "float64": (int, float), "date": (str,),
    "timestamp": (str,), "zoned": (str,),
}  # fmt: skip
"""Types of the literals that columns are compared with, by the family of the column."""


def _as_float(value: object, kind: DataType) -> float:
    """The float that a number is in a column of floats: integers exactly, and what is finite stays so.

    Floats are rounded to those of 32 bits, as in any comparison of the two.
    """
    number = float(value)  # type: ignore[arg-type]  # of an int or a float
    if kind.family == "float32" and np.isfinite(number):
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    if not np.isfinite(number) and value == value and abs(value) != np.inf:  # type: ignore[arg-type]
        raise TypeMismatchError(
            f"the constant {value!r} is too large for type '{kind.name}'.\n  Write a smaller number, or leave it out."
        )
    if isinstance(value, int) and int(number) != value:
        raise TypeMismatchError(
            f"the constant {value} is not exactly a value of type '{kind.name}': got {value}, expected an integer that "
            f"a float holds, such as {int(number)}.\n  Write the float that is meant: {number!r}."
        )
    return number


def _of_number(value: object, kind: DataType, op: str) -> int:
    """The code of a number beside decimals, or of a decimal beside other numbers."""
    if kind.family in ("float32", "float64"):
        return encode_constant(float(str(value)) + 0.0, kind)  # decimals have one zero, whatever its sign
    if kind.family not in ("integer", "decimal") or isinstance(value, (bool, str)):
        raise TypeMismatchError(f"the constant {str(value)!r} is no value of type '{kind.name}'.")
    digits, exponent = _digits(Decimal(str(value)))
    if isinstance(value, float) and len(str(abs(digits))) > _FLOAT_DIGITS:
        raise TypeMismatchError(
            f"the constant {value!r} stands beside decimals; floats have {_FLOAT_DIGITS} digits for sure.\n"
            f"  Write it as a decimal: {value!r}m."
        )
    exponent += kind.digits[1]
    found, is_exact = digits * int(10 ** max(0, exponent)), True
    if exponent < 0:
        found, over = divmod(digits, int(10**-exponent))
        is_exact = over == 0
        if not is_exact and op in ("<", ">="):
            found += 1
    low, high = kind.code_range
    if is_exact and low <= found <= high:
        return found
    if op in ("=", "!=") and kind.family == "decimal":
        return NO_DECIMAL
    if op in ("<", "<=", ">", ">=") and (kind.family == "decimal" or low <= found <= high):
        return max(-(1 << 63), min((1 << 63) - 1, found))
    what = "is not exactly a value" if not is_exact else "is outside the values"
    raise TypeMismatchError(f"the constant {value} {what} of type '{kind.name}'.\n  Compare it by '<' or '>'.")


def _digits(value: Decimal) -> tuple[int, int]:
    """The number as an integer, without zeros at its end, times a power of 10."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)))
    while number and number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    return (-number if sign else number), (exponent if number else 0)

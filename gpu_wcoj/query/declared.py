"""Types that a declaration may name, in the spellings of Arrow and other systems."""

from __future__ import annotations

import re

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError, nearest

SPELLINGS = {
    "float32": "float",
    "float64": "double",
    "date32": "date32[day]",
    "date64": "date64[ms]",
    "utf8": "string",
    "large_utf8": "large_string",
    "boolean": "bool",
    "number": "int64",
    "unsigned": "uint64",
    "symbol": "string",
}
"""Other spellings of a type, and the Arrow spelling. ``float`` is Arrow's: 32 bits."""

_PLAIN = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("bool", "float", "double", "string", "large_string", "string_view", "binary", "large_binary", "binary_view"),
    *("date32[day]", "date64[ms]"),
)
_SHAPED = ("timestamp[us]", "timestamp[us, tz=UTC]", "decimal128(10, 2)")
_DECIMAL_DIGITS = 18
"""Largest precision of a decimal, in digits: 18 digits fit int64."""


def declared_type(text: str) -> str:
    """Return the Arrow spelling of a type of a declaration.

    Raises
    ------
    UnsupportedTypeError
        If there is no such type, or the engine does not support it.

    Examples
    --------
    >>> declared_type("symbol"), declared_type("timestamp[ms,tz=Europe/Rome]"), declared_type("decimal(9,2)")
    ('string', 'timestamp[ms, tz=Europe/Rome]', 'decimal128(9, 2)')
    """
    name = SPELLINGS.get(text, text)
    if match := re.fullmatch(r"timestamp\[\s*(\w+)\s*(?:,\s*tz\s*=\s*(.*\S)\s*)?\]", name):
        name = f"timestamp[{match[1]}, tz={match[2]}]" if match[2] else f"timestamp[{match[1]}]"
    elif match := re.fullmatch(r"decimal(|32|64|128|256)\((\d{1,9}), ?(-?\d{1,9})\)", name):
        if not 1 <= int(match[2]) <= _DECIMAL_DIGITS:
            raise UnsupportedTypeError.mismatch(
                f"type '{text}'", "has an unsupported number of digits", match[2], f"1 to {_DECIMAL_DIGITS}"
            )
        name = f"decimal{match[1] or 128}({match[2]}, {match[3]})"
    try:
        _ = DataType(name).family
    except TypeMismatchError:
        spellings = (*_PLAIN, *SPELLINGS, *_SHAPED)
        raise UnsupportedTypeError(
            f"there is no type '{text}'; allowed are the integers int8 to int64 and uint8 to uint64, float, double,"
            f" bool, string, binary, date32, date64, {', '.join(_SHAPED)} and their like.{nearest(text, spellings)}"
        ) from None
    return name

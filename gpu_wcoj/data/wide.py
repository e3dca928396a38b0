"""Numbers of up to 38 digits as bytes, whose order is that of the numbers.

Decimals of more than 18 digits and unsigned integers above 2^63-1 do not fit the int64 codes of columns. They are
entries of the dictionary of bytes, like values of type binary: a number times 10^38, plus 2^255, in 32 bytes from the
highest on. Equal numbers have equal entries in every type, and the dictionary's ranks are their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from gpu_wcoj.data.schema import FULL_UINT64, DataType
from gpu_wcoj.errors import TypeMismatchError

_SCALE = 38
"""Digits after the point of a number in an entry."""
_ZERO = 1 << 255
"""The entry of 0, of 256 bits; a difference of 1 is the last of 38 digits."""
_N_BYTES = 32
"""Bytes of an entry."""


def entry_of(code: int, scale: int = 0) -> bytes:
    """Return the entry of the number ``code / 10**scale``.

    Examples
    --------
    >>> sorted([entry_of(15, 1), entry_of(-2), entry_of(1)]) == [entry_of(-2), entry_of(1), entry_of(15, 1)]
    True
    >>> entry_of(150, 2) == entry_of(15, 1)
    True
    """
    number: int = code * 10 ** (_SCALE - scale) + _ZERO
    return number.to_bytes(_N_BYTES, "big")


def entry_of_decimal(value: Decimal) -> bytes | None:
    """Return the entry of a decimal; None for more than 38 digits before or after its point.

    Examples
    --------
    >>> entry_of_decimal(Decimal("1.50")) == entry_of(15, 1), entry_of_decimal(Decimal("1E-39"))
    (True, None)
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > 10 * _SCALE:
        return None
    code = int("".join(map(str, digits))) * (-1 if sign else 1)
    while exponent < -_SCALE and code % 10 == 0:
        code, exponent = code // 10, exponent + 1
    if exponent < -_SCALE or abs(code) >= 10 ** max(0, _SCALE - exponent):
        return None
    return entry_of(code, -exponent)


def codes_of(entries: Iterable[bytes], kind: DataType) -> list[int]:
    """Return the numbers of entries times 10 to the scale of a type.

    Raises
    ------
    TypeMismatchError
        If a number is not a value of the type.

    Examples
    --------
    >>> codes_of([entry_of(15, 1)], DataType("decimal128(20, 3)[full]"))
    [1500]
    """
    precision, scale = kind.digits
    lowest, highest = 1 - 10**precision, 10**precision - 1
    if kind.name == FULL_UINT64:
        lowest, highest = 0, 2**64 - 1
    elif kind.family != "wide":
        (lowest, highest), scale = kind.code_range, scale if kind.family == "decimal" else 0
    divisor = 10 ** (_SCALE - scale)
    codes = []
    for entry in entries:
        code, rest = divmod(int.from_bytes(entry, "big") - _ZERO, divisor)
        if rest or not lowest <= code <= highest:
            number = Decimal(f"{int.from_bytes(entry, 'big') - _ZERO}E-{_SCALE}").normalize()
            raise TypeMismatchError.with_parts(
                f"the value {number:f} is not a value of type '{kind}'",
                got=number,
                remedy="Use the wider type for both, or convert the column before you pass it.",
            )
        codes.append(code)
    return codes

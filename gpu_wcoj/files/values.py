"""Conversion of one column's texts to int64, float64 or string.

Errors give the place of the first value that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.data.column import BoolArray
from gpu_wcoj.errors import InputFileError

_INTEGER: Final = r"^[ \t]*[+-]?[0-9]+[ \t]*$"
_NUMBER: Final = r"^[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*$"

_LEADING_ZEROS: Final = r"^[ \t]*[+-]?0[0-9]"
_ZERO: Final = 48
"""The byte of the digit 0."""
_FIELDS_LOOKED_AT: Final = 1000
"""Fields that begin with a zero which are examined one by one before the complete block is scanned."""
_EXACT: Final = 2.0**53
"""Every integer of a smaller magnitude is exactly a 64-bit float."""

Place = Callable[[int], str]


def is_number(text: str) -> bool:
    """Return True if a text spells an integer or a decimal number.

    Examples
    --------
    >>> [is_number(text) for text in ("+1", " -2.5e3", "1_000", "nan", "")]
    [True, True, False, False, False]
    """
    return bool(_matches(pa.array([text]), _NUMBER)[0])


def is_integer(text: str) -> bool:
    """Return True if a text spells an integer of any size.

    Examples
    --------
    >>> [is_integer(text) for text in ("+1", "-20", "1.0", "")]
    [True, True, False, False]
    """
    return bool(_matches(pa.array([text]), _INTEGER)[0])


def may_lead_with_zero(data: bytes, separator: str) -> bool:
    r"""Return True if some field may begin with a zero and another digit; False is certain.

    Examples
    --------
    >>> [may_lead_with_zero(data, ",") for data in (b"1,007\n", b"0,10\n0.5,-0\n", b"-01,2\n")]
    [True, False, True]
    """
    if data[:2].isdigit() and data.startswith(b"0"):
        return True
    for start in {f"{separator}0".encode(), b"\n0", b"-0", b"+0", b'"0', b" 0", b"\t0"}:
        offset = data.find(start) if start[:1] in data else -1
        for _ in range(_FIELDS_LOOKED_AT):
            if offset < 0:
                break
            if data[offset + 2 : offset + 3].isdigit():
                return True
            offset = data.find(start, offset + 2)
        else:
            return _leads_with_zero(data)
    return False


def _leads_with_zero(data: bytes) -> bool:
    text = np.frombuffer(data + b"\n", np.uint8)
    zeros = np.flatnonzero(text == _ZERO)
    digit = (text >= _ZERO) & (text <= _ZERO + 9)
    zeros = zeros[digit[zeros + 1]]
    before = zeros[zeros > 0] - 1
    return len(before) < len(zeros) or not (digit[before] | (text[before] == ord("."))).all()


def changed_value(texts: pa.Array, numbers: pa.Array, is_guessed: bool) -> int | None:
    """Return the first row whose text says more than its number; None if there is none.

    That is a text with leading zeros, or an integer that a float rounds, where the type is guessed; and in any case a
    number too large for a float.

    Examples
    --------
    >>> changed_value(pa.array(["7", "007"]), pa.array([7, 7]), True)
    1
    >>> changed_value(pa.array(["0.5", "9007199254740993"]), pa.array([0.5, 9007199254740992.0]), True)
    1
    >>> changed_value(pa.array(["1e400"]), pa.array([float("inf")]), False)
    0
    """
    texts = texts.cast(pa.string())
    changed = np.zeros(len(texts), bool)
    if is_guessed:
        changed |= _matches(texts, _LEADING_ZEROS)
    if pa.types.is_floating(numbers.type):
        values = numbers.to_numpy(zero_copy_only=False)
        changed |= np.isinf(values) & _matches(texts, _NUMBER)
        if is_guessed:
            large = (np.abs(values) >= _EXACT) & np.isfinite(values) & _matches(texts, _INTEGER)
            changed[[row for row in np.flatnonzero(large) if int(texts[int(row)].as_py()) != int(values[row])]] = True
    return int(np.argmax(changed)) if changed.any() else None


def may_be_rounded(numbers: pa.Array) -> bool:
    """Return True if some float of a column is so large that integers are rounded to it."""
    if not pa.types.is_floating(numbers.type) or len(numbers) == numbers.null_count:
        return False
    values = numbers.to_numpy(zero_copy_only=False)
    return bool((np.abs(values) >= _EXACT).any())


def decide_type(texts: pa.Array, place: Place, hint: str) -> str:
    """Return ``"int64"`` or ``"float64"`` if all non-empty values are such, else ``"string"``.

    Raises
    ------
    InputFileError
        If some values are numbers and some are not; `place` says where row i stands, and `hint` what to do.
    """
    texts = _as_string(texts, place)
    filled = _flags(pc.not_equal(texts, ""))
    is_numeric = _matches(texts, _NUMBER) & filled
    if not is_numeric.any():
        return "string"
    if (is_numeric == filled).all():
        return "int64" if (_matches(texts, _INTEGER) == filled).all() else "float64"
    first = int(np.flatnonzero(filled)[0])
    conflicting = int(np.flatnonzero(filled & (is_numeric != is_numeric[first]))[0])
    kinds = ("a number", "text") if is_numeric[first] else ("text", "a number")
    raise InputFileError(
        f"{place(conflicting)}: '{texts[conflicting]}' is {kinds[1]}, but '{texts[first]}' in the same column is "
        f"{kinds[0]} ({place(first)}).\n  {hint}"
    )


def as_type(texts: pa.Array, kind: str, place: Place, why: str) -> pa.Array:
    """Return the values as ``"int64"``, ``"float64"`` or ``"string"``; an empty text is null.

    Raises
    ------
    InputFileError
        If a value is not of that kind; `place` says where row i stands, and `why` what asks for the kind.
    """
    texts = _as_string(texts, place)
    if kind == "string":
        return texts
    pattern = _INTEGER if kind == "int64" else None
    filled = _flags(pc.not_equal(texts, ""))
    if pattern is not None and len(wrong := np.flatnonzero(filled & ~_matches(texts, pattern))):
        raise _unfit(texts, int(wrong[0]), kind, place, why)
    plain = pc.replace_substring_regex(pc.utf8_trim(texts, " \t"), pattern=r"^\+", replacement="")
    plain = pc.if_else(pa.array(filled), plain, pa.scalar(None, pa.string()))
    target = pa.int64() if kind == "int64" else pa.float64()
    try:
        return plain.cast(target)
    except pa.ArrowInvalid:
        row = next(row for row, value in enumerate(plain) if not _casts(value, target))
        raise _unfit(texts, row, kind, place, why) from None


def _unfit(texts: pa.Array, row: int, kind: str, place: Place, why: str) -> InputFileError:
    what = "an integer of 64 bits" if kind == "int64" else "a number"
    return InputFileError(f"{place(row)}: '{texts[row]}' is not {what}{why}")


def _casts(value: pa.Scalar, target: pa.DataType) -> bool:
    try:
        value.cast(target)
    except pa.ArrowInvalid:
        return False
    return True


def _as_string(texts: pa.Array, place: Place) -> pa.Array:
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        row = next(row for row, value in enumerate(texts) if not _casts(value, pa.string()))
        raise InputFileError(
            f"{place(row)}: {texts[row].as_py()[:40]!r} is not UTF-8 text.\n  Convert the file to UTF-8."
        ) from None


def _matches(texts: pa.Array, pattern: str) -> BoolArray:
    return _flags(pc.match_substring_regex(texts, pattern))


def _flags(array: pa.Array) -> BoolArray:
    flags: BoolArray = array.to_numpy(zero_copy_only=False).astype(bool)
    return flags

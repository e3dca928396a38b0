"""Text values of one column into int64, float64 or string, with the place of the first value that does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.column import BoolArray
from gpu_wcoj.errors import InputFileError

_INTEGER: Final = r"^[ \t]*[+-]?[0-9]+[ \t]*$"
_NUMBER: Final = r"^[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*$"

Place = Callable[[int], str]


def is_number(text: str) -> bool:
    """Whether a text spells an integer or a decimal number.

    Examples
    --------
    >>> [is_number(text) for text in ("+1", " -2.5e3", "1_000", "nan", "")]
    [True, True, False, False, False]
    """
    return bool(_matches(pa.array([text]), _NUMBER)[0])


def is_integer(text: str) -> bool:
    """Return whether a text spells an integer, of whatever size.

    Examples
    --------
    >>> [is_integer(text) for text in ("+1", "-20", "1.0", "")]
    [True, True, False, False]
    """
    return bool(_matches(pa.array([text]), _INTEGER)[0])


def decide_type(texts: pa.Array, place: Place, hint: str) -> str:
    """``"int64"`` or ``"float64"`` where every value that is not empty is such a number, else ``"string"``.

    Raises
    ------
    InputFileError
        If some values are numbers and some are not; `place` says where row i stands, and `hint` what to do.
    """
    texts = _as_string(texts, place)
    filled = _flags(pc.not_equal(texts, ""))
    number = _matches(texts, _NUMBER) & filled
    if not number.any():
        return "string"
    if (number == filled).all():
        return "int64" if (_matches(texts, _INTEGER) == filled).all() else "float64"
    first = int(np.flatnonzero(filled)[0])
    other = int(np.flatnonzero(filled & (number != number[first]))[0])
    kinds = ("a number", "text") if number[first] else ("text", "a number")
    raise InputFileError(
        f"{place(other)}: '{texts[other]}' is {kinds[1]}, but '{texts[first]}' in the same column is {kinds[0]} "
        f"({place(first)}).\n  {hint}"
    )


def as_type(texts: pa.Array, kind: str, place: Place, why: str) -> pa.Array:
    """The values as `kind`, ``"int64"``, ``"float64"`` or ``"string"``; an empty text is a null number.

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

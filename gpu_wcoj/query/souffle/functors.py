"""Soufflé's functors, as functions with declared types that rules call by name.

They are functions of `gpu_wcoj.user_functions`, so everything that evaluates Python functions evaluates them, too. A
functor of several types has a name for each: ``min(x, y)`` of texts is ``lesser_text(x, y)``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.query.souffle import records
from gpu_wcoj.user_functions import Function

_INT, _FLOAT, _TEXT, _BOOL = (DataType(name) for name in ("int64", "double", "string", "bool"))
_KINDS: Final = {
    "n": _INT, "u": DataType("uint64"), "f": _FLOAT, "g": _FLOAT, "s": _TEXT, "r": _TEXT,
}  # fmt: skip
"""Letters of the types of fields: numbers, unsigned numbers, floats of 64 and 32 bits, texts, records."""
_RESULTS: Final = {**_KINDS, "g": DataType("float")}
_BITS = 64
"""Size of an integer, in bits."""


class Functor(Function):
    """A function that needs no declaration, so that programs store its name only."""

    is_functor = True

    def describe_in_message(self, arguments: Sequence[str]) -> str:
        """Return the text of a call as users write it, whatever the types of its arguments.

        Examples
        --------
        >>> functor("number_of_text").describe_in_message(["'ab'"]), functor("bshl").describe_in_message(["1", "2"])
        ("to_number('ab')", 'bshl(1, 2)')
        """
        if self.name == "stored_record":
            return f"the record {arguments[0]}"
        target, is_conversion, _ = self.name.partition("_of_")
        name = {"text": "to_string"}.get(target, f"to_{target}") if is_conversion else self.name
        return f"{name}({', '.join(arguments)})"


def _as_int64(value: int) -> int:
    """Return an integer modulo 2^64, from -2^63 to 2^63-1."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _shift_left(value: int, places: int) -> int:
    return _as_int64(value << (places % _BITS))


def _shift_right_unsigned(value: int, places: int) -> int:
    return _as_int64((value % (1 << 64)) >> (places % _BITS))


def power(base: int, exponent: int) -> int:
    """Return an integer power, cut off towards 0.

    Examples
    --------
    >>> power(2, 10), power(-3, 3), power(2, -1), power(-1, -3)
    (1024, -27, 0, -1)
    """
    if exponent >= 0:
        if exponent > _BITS and abs(base) > 1:
            raise OverflowError(f"{base} ^ {exponent} is outside int64, -2^63 to 2^63-1")
        return int(base ** (exponent if abs(base) > 1 else min(exponent, 2 + exponent % 2)))
    if base == 0:
        raise ZeroDivisionError("0 has no negative power")
    return (1 if exponent % 2 == 0 else base) if abs(base) == 1 else 0


def to_number(text: str) -> int:
    """Return the integer of a text: decimal, ``0x...`` or ``0b...``.

    Examples
    --------
    >>> to_number("-12"), to_number("0xff"), to_number("0b101")
    (-12, 255, 5)
    """
    digits = text.strip()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.removeprefix("-").removeprefix("+")
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 10)
    try:
        if "_" not in digits and digits.isascii():
            return sign * int(digits if base == 10 else digits[2:], base)
    except ValueError:
        pass
    raise ValueError(f"'{text}' is not a number")


def to_unsigned(text: str) -> int:
    """Return the integer of a text that is not negative."""
    value = to_number(text)
    if value < 0:
        raise ValueError(f"'{text}' is negative")
    return value


def to_float(text: str) -> float:
    """Return the float of a text."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None


def format_float(value: float) -> str:
    """Return the shortest text of a float, without a point if it is whole."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _truncate(value: float) -> int:
    if not math.isfinite(value):
        raise OverflowError(f"{value} is not a number of int64")
    return int(value)


def ordinal(text: str) -> int:
    """Return a number of a text, in every run the same for equal texts and no others."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


def range_size(start: float, end: float, step: float) -> int:
    """Return the number of values of a range; a step of 0 gives the start, unless it is the end.

    Examples
    --------
    >>> range_size(1, 5, 1), range_size(5, 0, -2), range_size(5, 3.75, -0.5), range_size(3, 4, 0), range_size(3, 0, 1)
    (4, 3, 3, 1, 0)
    """
    if step == 0:
        return int(start != end)
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return max(0, -((start - end) // step))
    return max(0, math.ceil((end - start) / step))


def range_step(start: float, end: float) -> int:
    """Return the step of a range without one: -1 for a range that descends."""
    return 1 if start <= end else -1


_Rows = Callable[..., Any]

_ARRAYS: Final[dict[str, _Rows]] = {
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "bnot": np.bitwise_not,
    "land": lambda left, right: ((left != 0) & (right != 0)).astype(np.int64),
    "lor": lambda left, right: ((left != 0) | (right != 0)).astype(np.int64),
    "lxor": lambda left, right: ((left != 0) ^ (right != 0)).astype(np.int64),
    "lnot": lambda value: (value == 0).astype(np.int64),
    "bshr": lambda value, places: value >> (places % _BITS),
    "lesser": np.minimum,
    "greater": np.maximum,
}
"""Functors of integers on arrays; see `gpu_wcoj.user_functions.function`."""
_SINGLE: Final[dict[str, tuple[Callable[..., Any], tuple[DataType, ...], DataType]]] = {
    "bshl": (_shift_left, (_INT, _INT), _INT),
    "bshru": (_shift_right_unsigned, (_INT, _INT), _INT),
    "power": (power, (_INT, _INT), _INT),
    "power_float": (math.pow, (_FLOAT, _FLOAT), _FLOAT),
    "lesser_float": (min, (_FLOAT, _FLOAT), _FLOAT),
    "greater_float": (max, (_FLOAT, _FLOAT), _FLOAT),
    "lesser_text": (min, (_TEXT, _TEXT), _TEXT),
    "greater_text": (max, (_TEXT, _TEXT), _TEXT),
    "number_of_text": (to_number, (_TEXT,), _INT),
    "number_of_float": (_truncate, (_FLOAT,), _INT),
    "unsigned_of_text": (to_unsigned, (_TEXT,), _KINDS["u"]),
    "unsigned_of_float": (_truncate, (_FLOAT,), _KINDS["u"]),
    "unsigned_of_number": (int, (_INT,), _KINDS["u"]),
    "float_of_text": (to_float, (_TEXT,), _FLOAT),
    "text_of_number": (str, (_INT,), _TEXT),
    "text_of_float": (format_float, (_FLOAT,), _TEXT),
    "narrow_float": (float, (_FLOAT,), _RESULTS["g"]),
    "ordinal": (ordinal, (_TEXT,), _INT),
    "range_size": (range_size, (_INT, _INT, _INT), _INT),
    "range_size_float": (range_size, (_FLOAT, _FLOAT, _FLOAT), _INT),
    "range_step": (range_step, (_INT, _INT), _INT),
    "range_step_float": (range_step, (_FLOAT, _FLOAT), _INT),
    "is_branch": (records.is_branch, (_TEXT, _TEXT), _BOOL),
    "stored_record": (records.stored, (_TEXT, _TEXT, _TEXT), _TEXT),
}
"""Functors of single values: the Python function, the types of the arguments and of the result."""
NAMES: Final = (*_ARRAYS, *_SINGLE)
"""Names of functors; with `PATTERN`, those that a text may call."""
PATTERN: Final = "|".join((*sorted(NAMES, reverse=True), "pack_[nufgsr]*", "unpack_[nufgsr]"))
"""The names as alternatives of a regular expression, longer ones before their beginnings."""
OLD_NAMES: Final = {
    "ftoi": "to_number", "utoi": "to_number", "itou": "to_unsigned", "ftou": "to_unsigned", "itof": "to_float",
    "utof": "to_float",
}  # fmt: skip
"""Earlier names of conversions between numbers."""
SPELLED: Final = (
    "as", "ord", "range", "to_float", "to_number", "to_string", "to_unsigned", "autoinc", *OLD_NAMES,
)  # fmt: skip
"""Functors that become others by the types of their arguments; see `gpu_wcoj.query.souffle.rewriting`."""


@lru_cache(maxsize=1024)
def functor(name: str) -> Functor | None:
    """Return the functor of this name, always the same one; None if there is none.

    Examples
    --------
    >>> functor("band"), functor("pack_nr"), functor("unpack_s"), functor("edge")
    (Function(band(int64, int64) -> int64, arrays=True), Function(pack_nr(string, int64, string) -> string), \
Function(unpack_s(string, string, int64, int64) -> string), None)
    """
    if name in _ARRAYS:
        parameters = (_INT,) if name in ("bnot", "lnot") else (_INT, _INT)
        return Functor(name, parameters, _INT, _ARRAYS[name], arrays=True)
    if name in _SINGLE:
        call, kinds, returns = _SINGLE[name]
        return Functor(name, kinds, returns, call)
    stem, _, letters = name.partition("_")
    if stem == "pack" and _ and set(letters) <= set(_KINDS):
        return Functor(name, (_TEXT, *(_KINDS[letter] for letter in letters)), _TEXT, _packer(letters))
    if stem == "unpack" and letters in _KINDS:
        return Functor(name, (_TEXT, _TEXT, _INT, _INT), _RESULTS[letters], _unpacker(letters))
    return None


def _packer(letters: str) -> Callable[..., str]:
    def pack(branch: str, *values: Any) -> str:
        return records.pack(branch, letters, values)

    return pack


def _unpacker(letter: str) -> Callable[[str, str, int, int], Any]:
    def unpack(value: str, branch: str, index: int, arity: int) -> Any:
        return records.unpack(value, branch, index, arity, letter)

    return unpack

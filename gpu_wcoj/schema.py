"""Types of columns: how they are spelled, which of them join, and into which common type they widen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.errors import SchemaError, TypeMismatchError

TIME_UNITS = ("s", "ms", "us", "ns")
"""From coarse to fine; each is 1,000 of the next."""

_INTEGER = re.compile(r"(u?)int(8|16|32|64)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=0>")
_TEXT = {"string", "large_string", "string_view"}
_BYTES = {"binary", "large_binary", "binary_view"}
_PLAIN = {"bool", "float", "double", "date32[day]", "date64[ms]"}
MOST_DIGITS = 18
"""Of a decimal: its codes are int64."""
NO_DECIMAL = -(1 << 63)
"""What no decimal has as its code."""
_DAY = 86_400_000
"""Milliseconds in a day: the factor from date32 to date64."""


@dataclass(frozen=True)
class DataType:
    """The type of a column, spelled as Arrow spells it (``"int64"``, ``"timestamp[us, tz=UTC]"``, ...).

    Two types join if and only if they are of one `family`; the result has the wider of the two.

    Examples
    --------
    >>> DataType("int32").common(DataType("uint16"))
    DataType(name='int32')
    >>> DataType("timestamp[s]").common(DataType("timestamp[ms]")).name
    'timestamp[ms]'
    """

    name: str

    @cached_property
    def family(self) -> str:
        """What it joins with: ``integer bool float32 float64 date timestamp zoned string binary decimal``."""
        name = self.value_name
        if _INTEGER.fullmatch(name):
            return "integer"
        if match := _TIMESTAMP.fullmatch(name):
            return "zoned" if match[2] else "timestamp"
        if _DECIMAL.fullmatch(name):
            return "decimal"
        if name in _TEXT:
            return "string"
        if name in _BYTES:
            return "binary"
        if name in _PLAIN:
            return {"float": "float32", "double": "float64", "bool": "bool"}.get(name, "date")
        raise TypeMismatchError(
            f"type '{name}' is not supported.\n"
            "  Types are spelled as Arrow spells them: int64, double, bool, string, date32[day], timestamp[us]."
        )

    @cached_property
    def value_name(self) -> str:
        """The spelling of the values' type; other than `name` for dictionary-encoded columns only."""
        match = _DICTIONARY.fullmatch(self.name)
        return match[1] if match else self.name

    @property
    def has_dictionary(self) -> bool:
        """Whether codes are positions in a program's dictionary (text and bytes)."""
        return self.family in ("string", "binary")

    def factor_to(self, other: DataType) -> int:
        """By how much a code of this type is multiplied to become a code of `other`, a finer type; else 1."""
        if self.family in ("timestamp", "zoned"):
            return int(1000 ** max(0, TIME_UNITS.index(_unit(other)) - TIME_UNITS.index(_unit(self))))
        if self.family == "decimal":
            return int(10 ** max(0, _scale(other) - _scale(self)))
        if self.value_name == "date32[day]" and other.value_name == "date64[ms]":
            return _DAY
        return 1

    @property
    def code_range(self) -> tuple[int, int]:
        """The smallest and the largest code of a value of this type.

        Examples
        --------
        >>> DataType("uint8").code_range
        (0, 255)
        """
        if match := _INTEGER.fullmatch(self.value_name):
            bits = int(match[2])
            return (0, 2 ** min(bits, 63) - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if match := _DECIMAL.fullmatch(self.value_name):
            highest = 10 ** min(int(match[2]), 18) - 1
            return -highest, highest
        if self.value_name == "date32[day]":
            return -(2**31), 2**31 - 1
        return (0, 1) if self.value_name == "bool" else (-(2**63), 2**63 - 1)

    @property
    def digits(self) -> tuple[int, int]:
        """Of a decimal its precision and scale; of an integer those of the decimals that hold its values.

        Examples
        --------
        >>> DataType("decimal128(15, 2)").digits, DataType("int8").digits, DataType("int64").digits
        ((15, 2), (3, 0), (18, 0))
        """
        if self.family == "decimal":
            return _decimal(self)
        return min(MOST_DIGITS, len(str(self.code_range[1]))), 0

    @property
    def per_day(self) -> int:
        """How many codes of a type of points in time make a day.

        Examples
        --------
        >>> DataType("date32[day]").per_day, DataType("timestamp[s]").per_day
        (1, 86400)
        """
        if self.family == "date":
            return 1 if self.value_name == "date32[day]" else _DAY
        return int(86_400 * 1000 ** TIME_UNITS.index(_unit(self)))

    def common(self, other: DataType, is_worked_out: bool = False) -> DataType:
        """The narrowest type that holds the values of both.

        Parameters
        ----------
        is_worked_out
            Whether one of them is that of results, whose values are looked at one by one: then decimals which need more
            digits together than there are get as many as there are.

        Raises
        ------
        TypeMismatchError
            If the two are of different families.
        """
        if self == other:
            return self
        family = self.family
        if family != other.family:
            raise TypeMismatchError(
                f"types '{self.name}' and '{other.name}' do not join.\n"
                "  Only integers, time units and decimal scales widen; cast one of the two columns."
            )
        if self.value_name == other.value_name and "<" in self.name + other.name:
            return DataType(self.value_name)
        if family == "integer":
            return _common_integer(self, other)
        if family in ("timestamp", "zoned"):
            finer = max(self, other, key=lambda kind: TIME_UNITS.index(_unit(kind)))
            return DataType(finer.value_name)
        if family == "decimal":
            return _common_decimal(self, other, is_worked_out)
        if family == "date":
            return DataType("date64[ms]")
        return DataType(f"large_{family}")


def check_names(names: Iterable[object], where: str) -> None:
    r"""Refuse names of columns that are no texts, or have half a surrogate pair: no file or terminal can take those.

    Raises
    ------
    SchemaError
        If one of them is such.

    Examples
    --------
    >>> check_names(["src", "größe"], "rows")
    >>> check_names(["a\ud800"], "rows")
    Traceback (most recent call last):
    ...
    gpu_wcoj.errors.SchemaError: rows: the name 'a\ud800' of a column has half a surrogate pair, which is no character.
      Rename the column.
    """
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"{where}: the name {name!r:.80} of a column is no text.\n  Names of columns are texts.")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SchemaError(
                f"{where}: the name {name!a:.80} of a column has half a surrogate pair, which is no character.\n"
                "  Rename the column."
            ) from None


def _common_integer(left: DataType, right: DataType) -> DataType:
    bits: dict[str, int] = {}
    for kind in (left, right):
        match = _INTEGER.fullmatch(kind.value_name)
        assert match is not None
        bits[match[1]] = max(int(match[2]), bits.get(match[1], 0))
    if "u" not in bits:
        return DataType(f"int{bits['']}")
    if "" not in bits:
        return DataType(f"uint{bits['u']}")
    return DataType(f"int{min(64, max(bits[''], 2 * bits['u']))}")


def _common_decimal(left: DataType, right: DataType, is_worked_out: bool) -> DataType:
    precisions, scales = zip(*(_decimal(kind) for kind in (left, right)), strict=True)
    scale = max(scales)
    digits_before = max(precision - digits_after for precision, digits_after in zip(precisions, scales, strict=True))
    if is_worked_out:
        return decimal_of(digits_before + scale, scale)
    if digits_before + scale > MOST_DIGITS:
        raise TypeMismatchError(
            f"types '{left.name}' and '{right.name}' need {digits_before + scale} digits together; {MOST_DIGITS} are allowed."
        )
    return DataType(f"decimal128({digits_before + scale}, {scale})")


def _unit(kind: DataType) -> str:
    match = _TIMESTAMP.fullmatch(kind.value_name)
    assert match is not None
    return match[1]


def _decimal(kind: DataType) -> tuple[int, int]:
    match = _DECIMAL.fullmatch(kind.value_name)
    assert match is not None
    return int(match[2]), int(match[3])


def _scale(kind: DataType) -> int:
    return _decimal(kind)[1]


def decimal_of(precision: int, scale: int) -> DataType:
    """The type of decimals of so many digits, of which `scale` stand behind the point; at most 18 in all."""
    return DataType(f"decimal128({min(precision, MOST_DIGITS)}, {scale})")


INT64 = DataType("int64")

"""Types of columns: how they are spelled, which of them join, and into which common type they widen."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_wcoj.errors import TypeMismatchError

TIME_UNITS = ("s", "ms", "us", "ns")
"""From coarse to fine; each is 1,000 of the next."""

_INTEGER = re.compile(r"(u?)int(8|16|32|64)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_DICTIONARY = re.compile(r"dictionary<values=(\w+), indices=(\w+), ordered=([01])>")
_TEXT = {"string", "large_string", "string_view"}
_BYTES = {"binary", "large_binary", "binary_view"}
_PLAIN = {"bool", "float", "double", "date32[day]", "date64[ms]"}


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

    @property
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
        raise TypeMismatchError(f"type '{name}' is not supported.")

    @property
    def value_name(self) -> str:
        """The spelling of the values' type; other than `name` for dictionary-encoded columns only."""
        match = _DICTIONARY.fullmatch(self.name)
        return match[1] if match else self.name

    @property
    def has_dictionary(self) -> bool:
        """Whether codes are positions in a program's dictionary (text and bytes)."""
        return self.family in ("string", "binary")

    @property
    def is_ordered_by_code(self) -> bool:
        """Whether comparing codes compares values; False for text and bytes."""
        return not self.has_dictionary

    def factor_to(self, other: DataType) -> int:
        """By how much a code of this type is multiplied to become a code of `other`, a common type of it."""
        if self.family in ("timestamp", "zoned"):
            return 1000 ** (TIME_UNITS.index(_unit(other)) - TIME_UNITS.index(_unit(self)))
        if self.family == "decimal":
            return 10 ** int(_scale(other) - _scale(self))
        return 1

    def common(self, other: DataType) -> DataType:
        """The narrowest type that holds the values of both.

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
        if family == "integer":
            return _common_integer(self, other)
        if family in ("timestamp", "zoned"):
            return max(self, other, key=lambda kind: TIME_UNITS.index(_unit(kind)))
        if family == "decimal":
            return _common_decimal(self, other)
        if self.name == self.value_name:
            return self if other.name != other.value_name or self.name <= other.name else other
        return other if other.name == other.value_name else self


def _common_integer(left: DataType, right: DataType) -> DataType:
    bits = {}
    for kind in (left, right):
        match = _INTEGER.fullmatch(kind.name)
        assert match is not None
        bits[match[1]] = max(int(match[2]), bits.get(match[1], 0))
    if "u" not in bits:
        return DataType(f"int{bits['']}")
    if "" not in bits:
        return DataType(f"uint{bits['u']}")
    return DataType(f"int{min(64, max(bits[''], 2 * bits['u']))}")


def _common_decimal(left: DataType, right: DataType) -> DataType:
    precisions, scales = zip(*(_decimal(kind) for kind in (left, right)), strict=True)
    scale = max(scales)
    whole = max(precision - own for precision, own in zip(precisions, scales, strict=True))
    if whole + scale > 18:
        raise TypeMismatchError(
            f"types '{left.name}' and '{right.name}' need {whole + scale} digits together; 18 are allowed."
        )
    return DataType(f"decimal128({whole + scale}, {scale})")


def _unit(kind: DataType) -> str:
    match = _TIMESTAMP.fullmatch(kind.name)
    assert match is not None
    return match[1]


def _decimal(kind: DataType) -> tuple[int, int]:
    match = _DECIMAL.fullmatch(kind.name)
    assert match is not None
    return int(match[2]), int(match[3])


def _scale(kind: DataType) -> int:
    return _decimal(kind)[1]


INT64 = DataType("int64")
STRING = DataType("string")

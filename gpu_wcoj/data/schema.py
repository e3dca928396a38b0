"""Types of columns: their spelling, their families, and the common type of two."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Final, Literal

from gpu_wcoj.errors import SchemaError, TypeMismatchError, UnsupportedTypeError, nearest

TIME_UNITS = ("s", "ms", "us", "ns")
"""Units of time from coarse to fine; each is 1,000 of the next."""

_INTEGER = re.compile(r"(u?)int(8|16|32|64)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_CLOCK = re.compile(r"(?:time32|time64|duration)\[(s|ms|us|ns)\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=0>")
_ENUM = re.compile(r"dictionary<values=(\w+), indices=(\w+), ordered=1>(\[.*\])", re.DOTALL)
_FIXED_BYTES = re.compile(r"fixed_size_binary\[(\d+)\]")
_NESTED = re.compile(r"(?:list|large_list|list_view|large_list_view|fixed_size_list|struct|map)<.*", re.DOTALL)


def casts_to_views(pyarrow_version: str) -> bool:
    """Return True if Polars can read PyArrow's casts to views of text.

    Those of earlier versions end the process.

    Examples
    --------
    >>> casts_to_views("25.0.0"), casts_to_views("24.0.0")
    (True, False)
    """
    return int(pyarrow_version.partition(".")[0]) >= 25


_TEXT = {"string", "large_string", "string_view"}
_BYTES = {"binary", "large_binary", "binary_view"}
_PLAIN = {"bool", "float", "double", "date32[day]", "date64[ms]"}
INTERVAL = "month_day_nano_interval"
"""Arrow's intervals; those without months are durations of days and nanoseconds."""
FULL = "[full]"
"""The end of the name of a type of numbers of which some do not fit int64 codes; the rest is Arrow's name."""
FULL_UINT64 = f"uint64{FULL}"
NO_TYPE = "nulls"
"""The name of the type of a column of rows that holds nothing but nulls; its relation may have any type."""
UUID = "extension<arrow.uuid>"
MAX_DIGITS = 18
"""Maximum precision of a decimal whose codes are its values, in digits: these codes are int64."""
MAX_WIDE_DIGITS = 38
"""Maximum precision of a decimal, in digits."""
_IN_BYTES = ("binary", "wide", "uuid", "nested")
"""Families whose values are stored as bytes in a dictionary."""
_WITH_UNITS = ("timestamp", "zoned", "time", "duration")
"""Families whose codes count units of time."""
POINTS: Final = frozenset(("date", "timestamp"))
"""Families of points in time without a zone; a date is its midnight."""
NO_DECIMAL = -(1 << 63)
"""A code that no decimal has; it stands for a constant that no value of the column equals."""
_DAY = 86_400_000
"""Milliseconds in a day: the factor from date32 to date64."""


@dataclass(frozen=True)
class DataType:
    """The type of a column in Arrow's spelling (``"int64"``, ``"timestamp[us, tz=UTC]"``, ...).

    Two types join if they are of one `family`, or a date and a timestamp; the result has the wider of the two.

    Examples
    --------
    >>> DataType("int32").common(DataType("uint16"))
    DataType(name='int32')
    >>> DataType("timestamp[s]").common(DataType("timestamp[ms]")).name
    'timestamp[ms]'
    """

    name: str

    def __str__(self) -> str:
        """Return the spelling of Arrow."""
        return self.name.replace(FULL, "")

    @cached_property
    def family(self) -> str:
        """The group of types that join with each other.

        One of ``integer bool float32 float64 date timestamp zoned time duration string binary decimal wide uuid enum
        nested nulls``. Numbers of more digits than int64 has are ``wide``; an ``enum`` is text in the order of its
        categories; lists, structs and maps are ``nested``.
        """
        name = self.value_name
        if _INTEGER.fullmatch(name):
            return "integer"
        if match := _TIMESTAMP.fullmatch(name):
            return "zoned" if match[2] else "timestamp"
        if _CLOCK.fullmatch(name) or name == INTERVAL:
            return "time" if name.startswith("time") else "duration"
        if _DECIMAL.fullmatch(name.removesuffix(FULL)) or name == FULL_UINT64:
            return "wide" if name.endswith(FULL) else "decimal"
        if name in _TEXT:
            return "string"
        if name in _BYTES or _FIXED_BYTES.fullmatch(name):
            return "binary"
        if name in _PLAIN:
            return {"float": "float32", "double": "float64", "bool": "bool"}.get(name, "date")
        if name in (UUID, NO_TYPE):
            return "uuid" if name == UUID else NO_TYPE
        if _ENUM.fullmatch(name):
            return "enum"
        if _NESTED.fullmatch(name):
            return "nested"
        raise TypeMismatchError(
            f"type '{name}' is not supported.\n"
            "  Types are spelled as Arrow spells them: int64, double, bool, string, date32[day], timestamp[us]."
        )

    @cached_property
    def value_name(self) -> str:
        """The spelling of the values' type; differs from `name` for dictionary-encoded columns."""
        match = _DICTIONARY.fullmatch(self.name)
        return match[1] if match else self.name

    @cached_property
    def label(self) -> str:
        """The name of the type for people.

        Examples
        --------
        >>> [DataType(name).label for name in ("int64", "int8", "large_string", "double", "date32[day]")]
        ['int', 'int8', 'str', 'float', 'date']
        >>> [DataType(name).label for name in ("timestamp[us]", "timestamp[ns, tz=UTC]", "decimal128(9, 2)")]
        ['datetime', 'datetime[ns, UTC]', 'decimal(9, 2)']
        >>> [DataType(name).label for name in ("time64[us]", "duration[ns]", "large_list<item: int64>")]
        ['time', 'duration[ns]', 'list']
        """
        if self.name != self.value_name:
            return f"category[{DataType(self.value_name).label}]"
        family = self.family
        if family in ("timestamp", "zoned"):
            parts = self.name.removeprefix("timestamp[").removesuffix("]").replace("tz=", "").split(", ")
            shown = ", ".join(part for part in parts if part != "us")
            return f"datetime[{shown}]" if shown else "datetime"
        if family in ("time", "duration"):
            unit = self.time_unit
            return family if unit == "us" else "interval" if self.name == INTERVAL else f"{family}[{unit}]"
        if family == "enum":
            return "enum"
        if family in ("wide", "decimal"):
            return "uint64" if self.name == FULL_UINT64 else f"decimal({self.name.partition('(')[2].removesuffix(FULL)}"
        if family == "integer":
            return "int" if self.name == "int64" else self.name
        if family == "nested":
            return self.name.partition("<")[0].rpartition("_")[2].replace("view", "list")
        return {"string": "str", "binary": "bytes", "float64": "float"}.get(family, family)

    @cached_property
    def dictionary(self) -> Literal["string", "binary", ""]:
        """The kind of the dictionary whose positions are the codes; empty if codes are values.

        Examples
        --------
        >>> [DataType(name).dictionary for name in ("large_string", "decimal128(38, 2)[full]", "int64")]
        ['string', 'binary', '']
        """
        family = self.family
        return "string" if family == "string" else "binary" if family in _IN_BYTES else ""

    @property
    def has_dictionary(self) -> bool:
        """True if codes are positions in a program's dictionary."""
        return bool(self.dictionary)

    @cached_property
    def categories(self) -> tuple[str | int | float | bool, ...]:
        """The categories of an enum in their order; its codes are their positions.

        Examples
        --------
        >>> DataType('dictionary<values=string, indices=int8, ordered=1>["low", "high"]').categories
        ('low', 'high')
        """
        match = _ENUM.fullmatch(self.name)
        return tuple(json.loads(match[3])) if match else ()

    def factor_to(self, operand: DataType) -> int:
        """Return the factor from codes of this type to codes of the finer type `operand`; else 1."""
        if self.family == "decimal":
            return int(10 ** max(0, _scale(operand) - _scale(self)))
        return max(1, operand.per_day // self.per_day) if self.family in ("date", *_WITH_UNITS) else 1

    def converts_to(self, operand: DataType) -> bool:
        """Return True if `factor_to` has the factor from codes of one type to those of the other.

        Examples
        --------
        >>> DataType("date32[day]").converts_to(DataType("timestamp[us]"))
        True
        """
        return self.family == operand.family or POINTS.issuperset((self.family, operand.family))

    @property
    def scale(self) -> int | None:
        """The digits behind the point of a decimal, or of the seconds of a time; None for others.

        Examples
        --------
        >>> DataType("decimal128(5, 2)").scale, DataType("timestamp[ms]").scale, DataType("int64").scale
        (2, 3, None)
        """
        if self.family in _WITH_UNITS:
            return 3 * TIME_UNITS.index(_unit(self))
        return _scale(self) if self.family == "decimal" else None

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
        if self.value_name in ("date32[day]", "time32[s]", "time32[ms]"):
            return -(2**31), 2**31 - 1
        return (0, 1) if self.value_name == "bool" else (-(2**63), 2**63 - 1)

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale of a decimal, or of the decimals that hold an integer type.

        Examples
        --------
        >>> DataType("decimal128(15, 2)").digits, DataType("int8").digits, DataType("int64").digits
        ((15, 2), (3, 0), (18, 0))
        """
        if self.name == FULL_UINT64:
            return 20, 0
        if self.family in ("decimal", "wide"):
            return _decimal(self)
        return min(MAX_DIGITS, len(str(self.code_range[1]))), 0

    @property
    def time_unit(self) -> str:
        """NumPy's unit of the codes of a type of dates or times.

        Examples
        --------
        >>> DataType("date32[day]").time_unit, DataType("date64[ms]").time_unit, DataType("timestamp[ns]").time_unit
        ('D', 'ms', 'ns')
        """
        if self.family == "date":
            return "D" if self.value_name == "date32[day]" else "ms"
        return _unit(self)

    @property
    def per_day(self) -> int:
        """The number of codes in a day, for a type of points in time.

        Examples
        --------
        >>> DataType("date32[day]").per_day, DataType("timestamp[s]").per_day
        (1, 86400)
        """
        if self.family == "date":
            return 1 if self.value_name == "date32[day]" else _DAY
        return int(86_400 * 1000 ** TIME_UNITS.index(_unit(self)))

    def common(self, operand: DataType, is_computed: bool = False) -> DataType:
        """The narrowest type that holds the values of both.

        Parameters
        ----------
        is_computed
            True if one of them is the type of calculated results, whose values are checked one by one: then decimals
            that need more digits than the maximum get the maximum.

        Raises
        ------
        TypeMismatchError
            If the two are of different families.
        """
        if self == operand:
            return self
        family = self.family
        if not self.converts_to(operand) and not _widens(self, operand):
            raise TypeMismatchError.with_parts(
                f"types '{self}' and '{operand}' do not join",
                remedy="Only integers, time units and decimal scales widen. Cast one of the two columns.",
            )
        if "wide" in (family, operand.family):
            return _common_wide(self, operand)
        if family == "enum" and self.categories == operand.categories:
            return self
        if family == "nested" and _shape_of(self) == _shape_of(operand):
            return operand if _REQUIRED in self.name else self
        if family in ("enum", "nested"):
            raise TypeMismatchError.with_parts(
                f"types '{self}' and '{operand}' differ",
                remedy="Cast one of the two columns to the other type."
                + " Enums need the same categories in the same order." * (family == "enum"),
            )
        if self.value_name == operand.value_name and "<" in self.name + operand.name:
            return DataType(self.value_name)
        if family == "integer":
            return _common_integer(self, operand)
        if family != operand.family:  # a date and a timestamp
            unit = max(self, operand, key=lambda kind: kind.per_day).time_unit
            return DataType(f"timestamp[{unit}]")
        if family in _WITH_UNITS:
            finer = max(self, operand, key=lambda kind: (TIME_UNITS.index(_unit(kind)), kind.name == INTERVAL))
            return DataType(finer.value_name)
        if family == "decimal":
            return _common_decimal(self, operand, is_computed)
        if family == "date":
            return DataType("date64[ms]")
        return DataType(f"large_{family}")


def check_names(names: Iterable[object], where: str) -> None:
    r"""Raise for column names that are not text or have an unpaired surrogate.

    No file or terminal accepts an unpaired surrogate.

    Raises
    ------
    SchemaError
        If a name is invalid.

    Examples
    --------
    >>> check_names(["src", "größe"], "rows")
    >>> check_names(["a\ud800"], "rows")
    Traceback (most recent call last):
    ...
    gpu_wcoj.errors.SchemaError: rows: the column name 'a\ud800' contains an unpaired surrogate.
      Rename the column.
    """
    for name in names:
        if not isinstance(name, str):
            raise SchemaError.wrong_type(f"{where}: a column name", name, "a text")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SchemaError.with_parts(
                f"{where}: the column name {name!a:.80} contains an unpaired surrogate",
                subject=where,
                got=name,
                remedy="Rename the column.",
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
    n_rescaled = max((n + scale - own for n, own in zip(precisions, scales, strict=True) if own < scale), default=0)
    if n_rescaled > MAX_DIGITS:  # codes of that many digits may leave int64
        return _wide_decimal(digits_before, scale, left, right)
    return DataType(f"decimal128({digits_before + scale}, {scale})")


_REQUIRED = " not null"
"""The mark of a field without nulls in the name of a nested type."""
_LIST = re.compile(r"(?<!size_)(?:large_)?list(?:_view)?<[^:<>]*: ")
_LEAF = re.compile(r"\b(?:large_)?(string|binary)(?:_view)?\b")


def _shape_of(kind: DataType) -> str:
    """Return the name of a nested type without what only concerns the memory of its values.

    Examples
    --------
    >>> _shape_of(DataType("large_list<item: struct<a: string_view>>")) == _shape_of(
    ...     DataType("list<element: struct<a: string>>")
    ... )
    True
    """
    return _LEAF.sub(r"\1", _LIST.sub("list<", kind.name)).replace(_REQUIRED, "")


def _widens(left: DataType, right: DataType) -> bool:
    """Return True if one of two types is wide, and the other one has numbers of its kind."""
    wide, narrow = (left, right) if left.family == "wide" else (right, left)
    if wide.family != "wide":
        return False
    return narrow.family == ("decimal" if wide.digits[1] else "integer") or (
        narrow.family == "decimal" and wide.name != FULL_UINT64
    )


def _common_wide(left: DataType, right: DataType) -> DataType:
    """Return the type of numbers of two types, one of which is wide."""
    if FULL_UINT64 in (left.name, right.name) and all(kind.value_name.startswith("uint") for kind in (left, right)):
        return DataType(FULL_UINT64)
    digits = [(20, 0) if kind.family == "integer" else kind.digits for kind in (left, right)]
    precisions, scales = zip(*digits, strict=True)
    scale = max(scales)
    n_before = max(precision - behind for precision, behind in zip(precisions, scales, strict=True))
    return _wide_decimal(n_before, scale, left, right)


def _wide_decimal(n_before: int, scale: int, left: DataType, right: DataType) -> DataType:
    """Return the wide type of decimals with these digits before and after the point."""
    if n_before + scale > MAX_WIDE_DIGITS:
        raise TypeMismatchError.mismatch(
            f"the common type of '{left}' and '{right}'",
            "has too many digits",
            n_before + scale,
            f"at most {MAX_WIDE_DIGITS}",
        )
    return DataType(f"decimal128({n_before + scale}, {scale}){FULL}")


def _unit(kind: DataType) -> str:
    if kind.value_name == INTERVAL:
        return "ns"
    match = _TIMESTAMP.fullmatch(kind.value_name) or _CLOCK.fullmatch(kind.value_name)
    assert match is not None
    return match[1]


def _decimal(kind: DataType) -> tuple[int, int]:
    match = _DECIMAL.fullmatch(kind.value_name.removesuffix(FULL))
    assert match is not None
    return int(match[2]), int(match[3])


def _scale(kind: DataType) -> int:
    return _decimal(kind)[1]


def decimal_of(precision: int, scale: int) -> DataType:
    """Return the decimal type of a precision, capped at 18, and a scale."""
    return DataType(f"decimal128({min(precision, MAX_DIGITS)}, {scale})")


INT64 = DataType("int64")


# Types that a declaration may name, in the spellings of Arrow and other systems.


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
    "uuid": UUID,
    "interval": INTERVAL,
}
"""Other spellings of a type, and the Arrow spelling. ``float`` is Arrow's: 32 bits."""

_SHOWN = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("bool", "float", "double", "string", "large_string", "string_view", "binary", "large_binary", "binary_view"),
    *("date32[day]", "date64[ms]", "time32[s]", "time32[ms]", "time64[us]", "time64[ns]", FULL_UINT64),
)
_ELSEWHERE = {
    **dict.fromkeys(("int", "integer", "bigint", "long"), "int64"),
    **dict.fromkeys(("str", "text", "varchar"), "string"),
    **dict.fromkeys(("bytes", "blob", "varbinary"), "binary"),
    **dict.fromkeys(("datetime", "timestamp"), "timestamp[us]"),
    "date": "date32",
    "time": "time64[us]",
    "timedelta": "duration[us]",
    "decimal": "decimal128(10, 2)",
}
"""Names of types in Python and SQL, which errors translate."""
_SHAPED = ("timestamp[us]", "timestamp[us, tz=UTC]", "decimal128(10, 2)", "duration[us]", "fixed_size_binary[16]")


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
        if not 1 <= int(match[2]) <= MAX_WIDE_DIGITS:
            raise UnsupportedTypeError.mismatch(
                f"type '{text}'", "has an unsupported number of digits", match[2], f"1 to {MAX_WIDE_DIGITS}"
            )
        name = f"decimal{match[1] or 128}({match[2]}, {match[3]})"
    try:
        _ = DataType(name).family
    except TypeMismatchError:
        spellings = (*_SHOWN, *SPELLINGS, *_SHAPED)
        raise UnsupportedTypeError(
            f"unknown type '{text}'; allowed are the integers int8 to int64 and uint8 to uint64, float, double, bool,"
            f" string, binary, date32, date64, time64[us], uuid, interval, {', '.join(_SHAPED)} and their like."
            f"{nearest(_ELSEWHERE.get(text.lower(), text), spellings)}"
        ) from None
    return name


def integer_of(value: int) -> DataType:
    """Return the narrowest integer type of a value.

    Examples
    --------
    >>> integer_of(-128).name, integer_of(128).name
    ('int8', 'int16')
    """
    bits = next(bits for bits in (8, 16, 32, 64) if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1))
    return DataType(f"int{bits}")


def digits_of(value: int | Decimal) -> tuple[int, int]:
    """Return precision and scale of the narrowest decimal that holds a number.

    Examples
    --------
    >>> digits_of(Decimal("12.50")), digits_of(300), digits_of(Decimal("1E-3"))
    ((4, 2), (3, 0), (3, 3))
    """
    _, digits, exponent = Decimal(value).as_tuple()
    scale = max(0, -int(exponent))
    return max(len(digits) + max(0, int(exponent)), scale), scale

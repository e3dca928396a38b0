"""Types of Arrow and of the engine: their names, and the memory layout of values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from gpu_wcoj.data.schema import FULL, INTERVAL, DataType, casts_to_views
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError

_PLAIN: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.date64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.month_day_nano_interval(), pa.uuid()),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    )
}
if not casts_to_views(pa.__version__):
    _PLAIN |= {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
SUPPORTED = (
    "  Supported are integers, bool, float32, float64, dates, timestamps, times, durations, text, binary, UUIDs,\n"
    "  decimals of up to 38 digits, dictionaries of these, lists, structs and maps. Cast the column, or leave it out."
)


@lru_cache(maxsize=1024)
def type_of(kind: pa.DataType) -> DataType:
    """Return the engine's type for an Arrow type.

    Raises
    ------
    UnsupportedTypeError
        If it is a union, a half float, a dictionary whose order has a meaning (see `enum_type`), ...

    Examples
    --------
    >>> import pyarrow as pa
    >>> type_of(pa.timestamp("us", tz="UTC"))
    DataType(name='timestamp[us, tz=UTC]')
    """
    data_type = DataType(str(kind))
    try:
        if data_type.family == "nested":
            for position in range(kind.num_fields):
                if not pa.types.is_null(kind.field(position).type):
                    _ = type_of(kind.field(position).type)
    except TypeMismatchError:
        raise UnsupportedTypeError(f"type '{kind}' is not supported.\n{SUPPORTED}") from None
    if data_type.family == "nested" and _parsed(data_type.name) != kind:
        raise UnsupportedTypeError(
            f"type '{kind}' has fields with names that are not supported.\n  Rename fields with one of < > , : in them."
        )
    return data_type


def enum_type(kind: pa.DictionaryType, categories: pa.Array) -> DataType:
    """Return the engine's type for an ordered dictionary with these categories.

    Raises
    ------
    UnsupportedTypeError
        If a category is null or occurs twice, or is neither text nor a number nor a truth value.

    Examples
    --------
    >>> enum_type(pa.dictionary(pa.int8(), pa.string(), ordered=True), pa.array(["low", "high"])).categories
    ('low', 'high')
    """
    values = categories.to_pylist()
    plain = {int, str, bool, float}
    if not {type(value) for value in values} <= plain or len(set(values)) < len(values):
        raise UnsupportedTypeError(
            f"type '{kind}' is not supported: the categories are {categories.to_pylist()!r:.200}, expected different "
            "texts or numbers.\n  Cast the column to the type of its values."
        )
    return DataType(f"{kind}{json.dumps(values, ensure_ascii=False)}")


@lru_cache(maxsize=1024)
def to_pyarrow(kind: DataType) -> pa.DataType:
    """Return the Arrow type of that name.

    Examples
    --------
    >>> to_pyarrow(DataType("decimal128(9, 2)"))
    Decimal128Type(decimal128(9, 2))
    """
    name, family = kind.value_name.removesuffix(FULL), kind.family
    if kind.value_name != kind.name:
        indices = kind.name.removeprefix(f"dictionary<values={name}, indices=").partition(",")[0]
        return pa.dictionary(_PLAIN[indices], to_pyarrow(DataType(name)))
    if family in ("timestamp", "zoned"):
        unit, _, zone = name.removeprefix("timestamp[")[:-1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    if name.startswith("decimal"):
        width, _, digits = name[:-1].partition("(")
        precision, scale = digits.split(", ")
        return getattr(pa, width)(int(precision), int(scale))
    if family == "enum":
        parts = dict(re.findall(r"(\w+)=(\w+)", name.partition("[")[0]))
        return pa.dictionary(_PLAIN[parts["indices"]], _PLAIN[parts["values"]], ordered=True)
    if name.startswith("fixed_size_binary"):
        return pa.binary(int(name.partition("[")[2][:-1]))
    return _parsed(name) if family == "nested" else _PLAIN[name]


_FIELD = re.compile(r"(?P<name>.*?): (?P<type>.*?)(?P<required> not null)?", re.DOTALL)
_MAKERS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}


def _parsed(name: str) -> pa.DataType:
    """Return the nested type of Arrow with that text."""
    if name == "struct<>":
        return pa.struct([])
    outer, _, inner = name.partition("<")
    inner, _, size = inner.rpartition(">")
    if not inner or (size and outer != "fixed_size_list"):
        return pa.null()  # which equals no nested type
    parts = _split(inner)
    if outer == "map":
        if len(parts) < 2:
            return pa.null()
        key, (value, is_required) = _part(parts[0]), _optional(parts[1])
        return pa.map_(key, pa.field("value", _part(value), not is_required), "keys_sorted" in parts[2:])
    fields = []
    for part in parts:
        if (match := _FIELD.fullmatch(part)) is None:
            return pa.null()
        fields.append(pa.field(match["name"], _part(match["type"]), match["required"] is None))
    if outer == "struct":
        return pa.struct(fields)
    return pa.list_(fields[0], int(size.strip("[]"))) if outer == "fixed_size_list" else _MAKERS[outer](fields[0])


def _part(name: str) -> pa.DataType:
    """Return the type of a part of a nested type; null for a text that is none."""
    if name == "null":
        return pa.null()
    data_type = DataType(name)
    try:
        return _parsed(name) if data_type.family == "nested" else to_pyarrow(data_type)
    except (TypeMismatchError, LookupError):
        return pa.null()


def _optional(name: str) -> tuple[str, bool]:
    return name.removesuffix(" not null"), name.endswith(" not null")


def _split(text: str) -> list[str]:
    """Return the parts between the commas that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for position, letter in enumerate(text):
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(letter, 0)
        if depth == 0 and text.startswith(", ", position):
            parts.append(text[begin:position])
            begin = position + 2
    return [*parts, text[begin:]]


def table_without_rows(columns: Mapping[str, str | None]) -> pa.Table:
    """Return an empty table of these types; type None becomes Arrow's ``null``.

    Examples
    --------
    >>> table_without_rows({"a": "int64", "b": None}).schema.types
    [DataType(int64), DataType(null)]
    """
    kinds = {name: pa.null() if kind is None else to_pyarrow(DataType(kind)) for name, kind in columns.items()}
    return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})


def storage_of(kind: DataType) -> tuple[np.dtype[Any], int]:
    """Return the dtype of a word and the words per value of a fixed-width type."""
    name, family = kind.value_name, kind.family
    if family == "decimal":
        bits = int(name.removeprefix("decimal").partition("(")[0])
        return np.dtype(np.int32 if bits == 32 else np.int64), max(1, bits // 64)
    if family in ("integer", "float32", "float64"):
        return np.dtype({"float": "float32", "double": "float64"}.get(name, name)), 1
    if name == INTERVAL:
        return np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)]), 1
    if family == "bool":
        return np.dtype(np.uint8), 1
    return np.dtype(np.int32 if name in ("date32[day]", "time32[s]", "time32[ms]") else np.int64), 1

"""Types by name: Arrow's to the engine's and back, and the memory layout of values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError

_PLAIN: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.date64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    )
}
SUPPORTED = (
    "  Supported are integers, bool, float32, float64, dates, timestamps, text, binary, decimals of up to 18 digits,\n"
    "  and unordered dictionaries of these. Cast the column before you pass it."
)


@lru_cache(maxsize=1024)
def type_of(kind: pa.DataType) -> DataType:
    """Return the engine's type for an Arrow type.

    Raises
    ------
    UnsupportedTypeError
        If it is nested, a duration, a dictionary whose order has a meaning, ...

    Examples
    --------
    >>> import pyarrow as pa
    >>> type_of(pa.timestamp("us", tz="UTC"))
    DataType(name='timestamp[us, tz=UTC]')
    """
    data_type = DataType(str(kind))
    try:
        _ = data_type.family
    except TypeMismatchError:
        raise UnsupportedTypeError(f"type '{kind}' is not supported.\n{SUPPORTED}") from None
    return data_type


@lru_cache(maxsize=1024)
def to_pyarrow(kind: DataType) -> pa.DataType:
    """Return the Arrow type of that name.

    Examples
    --------
    >>> to_pyarrow(DataType("decimal128(9, 2)"))
    Decimal128Type(decimal128(9, 2))
    """
    name, family = kind.value_name, kind.family
    if name != kind.name:
        indices = kind.name.removeprefix(f"dictionary<values={name}, indices=").partition(",")[0]
        return pa.dictionary(_PLAIN[indices], to_pyarrow(DataType(name)))
    if family in ("timestamp", "zoned"):
        unit, _, zone = name.removeprefix("timestamp[")[:-1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    if family == "decimal":
        width, _, digits = name[:-1].partition("(")
        precision, scale = digits.split(", ")
        return getattr(pa, width)(int(precision), int(scale))
    return _PLAIN[name]


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
    if family == "bool":
        return np.dtype(np.uint8), 1
    return np.dtype(np.int32 if name == "date32[day]" else np.int64), 1

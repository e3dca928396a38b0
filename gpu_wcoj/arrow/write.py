"""Decoding of one column: codes to an Arrow or NumPy array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj.data.column import Column, Int64Array, floats_of
from gpu_wcoj.data.schema import DataType, casts_to_views
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
    import polars as pl

# Types by name: Arrow's to the engine's and back, and the memory layout of values.


_PLAIN: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.date64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    )
}
if not casts_to_views(pa.__version__):
    _PLAIN |= {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
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


def decode(column: Column) -> pa.Array:
    """Return the column as an Arrow array of its type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from gpu_wcoj.arrow import encode
    >>> decode(encode(pa.array([3, None], pa.uint8()))).type
    DataType(uint8)
    """
    kind, out = column.type, to_pyarrow(column.type)
    if pa.types.is_dictionary(out):
        return _decode_categories(column, out)
    if column.dictionary is not None:
        return column.dictionary.decode(column.codes, column.valid).cast(out)
    bitmap = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if kind.family == "bool":
        data = np.packbits(column.codes.astype(bool), bitorder="little")
    else:
        storage, words = storage_of(kind)
        data = _natural(column.codes, storage)
        if words > 1:
            data = np.repeat(data >> 63, words)
            data[::words] = column.codes
    return pa.Array.from_buffers(out, len(column), [bitmap, pa.py_buffer(data)])


def _natural(codes: Int64Array, storage: np.dtype[Any]) -> npt.NDArray[Any]:
    if storage.kind == "f":
        return floats_of(codes, storage.itemsize)
    return np.ascontiguousarray(codes, storage)


def _decode_categories(column: Column, out: pa.DictionaryType) -> pa.DictionaryArray:
    present_codes = column.codes if column.valid is None else column.codes[column.valid]
    used, places = np.unique(present_codes, return_inverse=True)
    values = decode(Column(DataType(column.type.value_name), used, None, column.dictionary))
    bits = next(bits for bits in (8, 16, 32, 64) if bits >= out.index_type.bit_width and len(used) <= 2 ** (bits - 1))
    index_name = f"int{bits}" if pa.types.is_signed_integer(out.index_type) else f"uint{bits}"
    indices = np.zeros(len(column), index_name)
    indices[slice(None) if column.valid is None else column.valid] = places
    mask = None if column.valid is None else ~column.valid
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=mask), values)


def to_numpy(column: Column) -> npt.NDArray[Any]:
    """Return the values as a NumPy array; a masked array if there are nulls.

    Text, bytes and decimals are Python objects; a timestamp with a zone is its instant in UTC.

    Raises
    ------
    UnsupportedTypeError
        If a time is the value that NumPy uses for NaT.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from gpu_wcoj.arrow import encode
    >>> to_numpy(encode(pa.array([1, None])))
    masked_array(data=[1, --],
                 mask=[False,  True],
           fill_value=999999)
    """
    kind = DataType(column.type.value_name)
    if kind.family in ("string", "binary", "decimal"):
        plain = Column(kind, column.codes, column.valid, column.dictionary)
        values = np.empty(len(column), object)
        values[:] = decode(plain).to_pylist()
        if column.valid is not None:  # values below the mask must be comparable
            values[~column.valid] = {"string": "", "binary": b""}.get(kind.family, Decimal(0))
    elif kind.family == "bool":
        values = column.codes.astype(bool)
    else:
        values = _natural(column.codes, storage_of(kind)[0])
        if kind.family in ("date", "timestamp", "zoned"):
            if bool((column.codes == -(2**63)).any()):
                raise UnsupportedTypeError(_NO_TIME.format(kind.name, "NumPy"))
            values = values.astype(np.int64).view(f"M8[{kind.time_unit}]")
    return values if column.valid is None else np.ma.masked_array(values, ~column.valid)


def to_python(column: Column) -> list[Any]:
    """Return the values as Python objects, None where null.

    Raises
    ------
    UnsupportedTypeError
        If Python cannot hold a time: outside the years 1 to 9999, or finer than microseconds.

    Examples
    --------
    >>> from gpu_wcoj.arrow import encode
    >>> to_python(encode(pa.array(["a", None])))
    ['a', None]
    """
    kind = DataType(column.type.value_name)
    if kind.family == "integer" and column.valid is None:
        values: list[Any] = column.codes.tolist()
        return values
    if kind.family in ("timestamp", "zoned") and to_pyarrow(kind).unit == "ns":
        if bool((column.codes % 1000 != 0).any()):
            raise UnsupportedTypeError(_BEYOND_PYTHON.format(kind.name))
        zone = to_pyarrow(kind).tz
        kind = DataType(f"timestamp[us, tz={zone}]" if zone else "timestamp[us]")
        column = Column(kind, column.codes // 1000, column.valid)
    try:
        return list(decode(Column(kind, column.codes, column.valid, column.dictionary)).to_pylist())
    except (OverflowError, ValueError, LookupError):  # LookupError: an unknown zone
        raise UnsupportedTypeError(_BEYOND_PYTHON.format(kind.name)) from None


_BEYOND_PYTHON = (
    "a column of type '{}' holds a time that Python's datetime cannot: outside the years 1 to 9999, finer than\n"
    "  microseconds, or in an unknown zone. Use to_arrow() or to_numpy() instead."
)


def to_text(column: Column) -> list[str]:
    """Return the values as text for people, also times that Python's datetime cannot hold.

    Examples
    --------
    >>> from gpu_wcoj.arrow import encode
    >>> to_text(encode(pa.array([b"a", None])))
    ["b'a'", 'null']
    """
    kind = DataType(column.type.value_name)
    array = decode(Column(kind, column.codes, column.valid, column.dictionary))
    if kind.family in ("binary", "float32", "float64"):
        texts = [None if value is None else repr(value) for value in array.to_pylist()]
    else:
        try:
            texts = array.cast(pa.large_string()).to_pylist()
        except pa.ArrowInvalid:  # an unknown zone: the instant in UTC
            texts = array.cast(pa.timestamp(array.type.unit, "UTC")).cast(pa.large_string()).to_pylist()
    return ["null" if text is None else text for text in texts]


def to_table(names: Sequence[str], columns: Sequence[Column]) -> pa.Table:
    """Return the columns as an Arrow table.

    Examples
    --------
    >>> from gpu_wcoj.arrow import as_table
    >>> to_table(*as_table({"a": [1, 2]})).to_pydict()
    {'a': [1, 2]}
    """
    return pa.Table.from_arrays([decode(column) for column in columns], list(names))


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return the table as a pandas frame.

    Integers and booleans with nulls get pandas' nullable types, so no value is rounded.

    Structs become dictionaries of Python values.

    Raises
    ------
    UnsupportedTypeError
        If pandas cannot hold a value.

    Examples
    --------
    >>> frame = to_pandas(pa.table({"n": [2**53 + 1, None], "s": [{"n": 2**53 + 1}, {"n": None}]}))
    >>> frame["n"][0], frame["s"][0], frame["s"][1]
    (np.int64(9007199254740993), {'n': 9007199254740993}, {'n': None})
    """
    import pandas as pd
    import pyarrow.compute as pc  # loading it takes a fifth of a small program's time

    frame = _exported(table, "pandas", pa.Table.to_pandas)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type) and bool(pc.any(pc.equal(column.cast(pa.int64()), -(2**63))).as_py()):
            raise UnsupportedTypeError(_NO_TIME.format(column.type, "pandas"))
        if column.null_count and _is_whole(column.type):
            nullable = pd.array(column.to_pylist(), dtype=_nullable_name(column.type))
            frame[name] = pd.Series(nullable, index=frame.index)
        elif pa.types.is_nested(column.type):
            frame[name] = pd.Series(column.to_pylist(), index=frame.index, dtype=object)
    return frame


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _nullable_name(kind: pa.DataType) -> str:
    return "boolean" if pa.types.is_boolean(kind) else str(kind).replace("uint", "UInt").replace("int", "Int")


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return the table as a Polars frame; all decimals become Polars' single decimal type.

    Raises
    ------
    UnsupportedTypeError
        If Polars cannot hold a value.
    """
    import polars as pl

    fields = [
        field.with_type(pa.decimal128(field.type.precision, field.type.scale))
        if pa.types.is_decimal(field.type)
        else field
        for field in table.schema
    ]
    frame: pl.DataFrame = _exported(table.cast(pa.schema(fields)), "Polars", pl.from_arrow)
    return frame


def _exported(table: pa.Table, library: str, export: Callable[[pa.Table], Any]) -> Any:
    """Export the table to another library; an error names the column that it cannot hold."""
    try:
        return export(table)
    except MemoryError:
        raise
    except Exception as error:  # whatever the library raises
        for name in table.column_names:
            try:
                export(table.select([name]))
            except Exception as reason:
                raise UnsupportedTypeError(
                    f"column '{name}' cannot be exported to {library}: got type '{table.schema.field(name).type}', "
                    f"expected a type of {library} ({str(reason).splitlines()[0].rstrip('.')}).\n  Use to_arrow()."
                ) from error
        raise


_NO_TIME = "a column of type '{}' holds the time -2^63, which is NaT in {}.\n  Use to_arrow() instead."

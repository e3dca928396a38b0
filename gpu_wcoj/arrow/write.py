"""Decoding of one column: codes to an Arrow or NumPy array."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj.arrow.types import storage_of, to_pyarrow, type_of
from gpu_wcoj.data.column import Column, Dictionary, Int64Array, floats_of
from gpu_wcoj.data.schema import FULL_UINT64, INTERVAL, DataType
from gpu_wcoj.data.wide import codes_of
from gpu_wcoj.errors import UnsupportedTypeError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
    import polars as pl


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
    if kind.family == "enum":
        mask = None if column.valid is None else ~column.valid
        indices = pa.array(column.codes.astype(str(out.index_type)), mask=mask)
        return pa.DictionaryArray.from_arrays(indices, pa.array(kind.categories, out.value_type), ordered=True)
    if pa.types.is_dictionary(out):
        return _decode_categories(column, out)
    if column.dictionary is not None:
        if kind.family in ("string", "binary"):
            return column.dictionary.decode(column.codes, column.valid).cast(out)
        return _decode_entries(column, out)
    bitmap = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if kind.family == "bool":
        data = np.packbits(column.codes.astype(bool), bitorder="little")
    else:
        storage, words = storage_of(kind)
        data = _natural(column.codes, storage)
        if kind.name == INTERVAL:
            spans: Any = np.zeros(len(column), storage)
            spans["days"], spans["nanoseconds"] = np.divmod(column.codes, _DAY_NS)
            data = spans
        if words > 1:
            data = np.repeat(data >> 63, words)
            data[::words] = column.codes
    return pa.Array.from_buffers(out, len(column), [bitmap, pa.py_buffer(data)])


_DAY_NS = 86_400 * 10**9
"""Nanoseconds of a day."""


def _decode_entries(column: Column, out: pa.DataType) -> pa.Array:
    """Return values that a dictionary holds as bytes; each distinct number is decoded once."""
    assert column.dictionary is not None
    if column.type.family == "nested":
        reader = _reader_of(out)
        entries = column.dictionary.values_of(column.codes) if len(column.dictionary) else []
        for row in range(len(column)):
            if column.valid is None or column.valid[row]:
                reader.read(entries[row], 0)
            else:
                reader.add_null()
        return reader.array()
    present_codes = column.codes if column.valid is None else column.codes[column.valid]
    used, places = np.unique(present_codes, return_inverse=True)
    entries = column.dictionary.values_of(used)
    if column.type.family == "uuid":
        values: pa.Array = pa.array(entries, out.storage_type)
    else:
        values = _numbers(codes_of(entries, column.type), out)
    rows = np.zeros(len(column), np.int64)
    rows[slice(None) if column.valid is None else column.valid] = places
    taken = values.take(pa.array(rows, mask=None if column.valid is None else ~column.valid))
    return pa.ExtensionArray.from_storage(out, taken) if column.type.family == "uuid" else taken


def _numbers(codes: Sequence[int], out: pa.DataType) -> pa.Array:
    """Return unsigned integers, or decimals by their unscaled values, as an array."""
    if pa.types.is_unsigned_integer(out):
        return pa.array(np.array(codes, np.uint64))
    raw = b"".join(code.to_bytes(out.byte_width, "little", signed=True) for code in codes)
    return pa.Array.from_buffers(out, len(codes), [None, pa.py_buffer(raw)])


class _Reader(ABC):
    """Values of a part of a nested type, which are read one after the other.

    Parameters
    ----------
    kind
        The type of the values.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.present: list[bool] = []

    def read(self, entry: bytes, position: int) -> int:
        """Read the value that begins at a position of an entry; return the position behind it."""
        if entry[position] == 0:
            self.add_null()
            return position + 1
        self.present.append(True)
        return self.read_value(entry, position + 1)

    def mask(self) -> pa.Array | None:
        """Return the nulls as Arrow's constructors expect them."""
        return None if all(self.present) else pa.array([not is_present for is_present in self.present])

    @abstractmethod
    def read_value(self, entry: bytes, position: int) -> int:
        """Read a value that is not null."""

    @abstractmethod
    def add_null(self) -> None:
        """Add a null."""

    @abstractmethod
    def array(self) -> pa.Array:
        """Return the values as an array."""


class _LeafReader(_Reader):
    """Values of a type that is not nested: codes, or texts or bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self.type = type_of(kind)
        self.codes: list[int] = []
        self.dictionary = Dictionary(self.type.dictionary) if self.type.dictionary else None

    def read_value(self, entry: bytes, position: int) -> int:
        code = int.from_bytes(entry[position : position + 8], "little", signed=True)
        position += 8
        if self.dictionary is not None:
            value = entry[position : position + code]
            position += code
            code = self.dictionary.encode_one(value.decode() if self.type.dictionary == "string" else value)
        self.codes.append(code)
        return position

    def add_null(self) -> None:
        self.present.append(False)
        self.codes.append(0)

    def array(self) -> pa.Array:
        valid = None if all(self.present) else np.array(self.present, np.bool_)
        return decode(Column(self.type, np.array(self.codes, np.int64), valid, self.dictionary))


class _ListReader(_Reader):
    """Lists, and maps as lists of pairs."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self.sizes: list[int] = []
        pairs = pa.types.is_map(kind)
        self.items = _reader_of(pa.struct([kind.key_field, kind.item_field]) if pairs else kind.value_type)

    def read_value(self, entry: bytes, position: int) -> int:
        size = int.from_bytes(entry[position : position + 8], "little")
        self.sizes.append(size)
        position += 8
        for _ in range(size):
            position = self.items.read(entry, position)
        return position

    def add_null(self) -> None:
        self.present.append(False)
        size = self.kind.list_size if pa.types.is_fixed_size_list(self.kind) else 0
        self.sizes.append(size)
        for _ in range(size):
            self.items.add_null()

    def array(self) -> pa.Array:
        kind, items, mask = self.kind, self.items.array(), self.mask()
        ends = np.cumsum([0, *self.sizes])
        if pa.types.is_fixed_size_list(kind):
            return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)
        is_large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
        offsets = pa.array(ends, pa.int64() if is_large else pa.int32())
        if pa.types.is_map(kind):
            # which takes nulls as offsets
            if mask is not None:
                offsets = pa.array(ends, pa.int32(), mask=np.array([*(~np.array(self.present)), False]))
            return pa.MapArray.from_arrays(offsets, *items.flatten(), type=kind)
        if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
            maker = pa.LargeListViewArray if is_large else pa.ListViewArray
            return maker.from_arrays(offsets[:-1], pa.array(self.sizes, offsets.type), items, type=kind, mask=mask)
        maker = pa.LargeListArray if is_large else pa.ListArray
        return maker.from_arrays(offsets, items, type=kind, mask=mask)


class _StructReader(_Reader):
    """Structs: one reader for each field."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self.fields = [_reader_of(field.type) for field in kind]

    def read_value(self, entry: bytes, position: int) -> int:
        for field in self.fields:
            position = field.read(entry, position)
        return position

    def add_null(self) -> None:
        self.present.append(False)
        for field in self.fields:
            field.add_null()

    def array(self) -> pa.Array:
        if not self.fields:
            nothing = pa.array([{}] * len(self.present), self.kind)
            return pa.array([{} if there else None for there in self.present], self.kind) if self.mask() else nothing
        return pa.StructArray.from_arrays(
            [field.array() for field in self.fields], fields=list(self.kind), mask=self.mask()
        )


class _NullReader(_Reader):
    """Values without a type, which are all null."""

    def read_value(self, entry: bytes, position: int) -> int:
        raise AssertionError(f"a value without a type is null: byte {position} of {entry!r}")

    def add_null(self) -> None:
        self.present.append(False)

    def array(self) -> pa.Array:
        return pa.nulls(len(self.present))


def _reader_of(kind: pa.DataType) -> _Reader:
    """Return a reader of values of a type."""
    if pa.types.is_null(kind):
        return _NullReader(kind)
    if pa.types.is_struct(kind):
        return _StructReader(kind)
    return _ListReader(kind) if pa.types.is_nested(kind) else _LeafReader(kind)


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

    Text, bytes, decimals, times of day, UUIDs, enums and nested values are Python objects; a timestamp with a zone is
    its instant in UTC.

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
    if kind.name == FULL_UINT64:
        values = np.array(decode(Column(kind, column.codes, None, column.dictionary)).to_numpy())
    elif kind.family in _OBJECTS:
        values = np.empty(len(column), object)
        values[:] = to_python(Column(kind, column.codes, column.valid, column.dictionary))
        if column.valid is not None:  # values below the mask must be comparable
            values[~column.valid] = _OBJECTS[kind.family]
    elif kind.family == "bool":
        values = column.codes.astype(bool)
    else:
        values = column.codes if kind.name == INTERVAL else _natural(column.codes, storage_of(kind)[0])
        if kind.family in ("date", "timestamp", "zoned", "duration"):
            if bool((column.codes == -(2**63)).any()):
                raise UnsupportedTypeError(_NO_TIME.format(kind.name, "NumPy"))
            values = values.astype(np.int64).view(f"{'m' if kind.family == 'duration' else 'M'}8[{kind.time_unit}]")
    return values if column.valid is None else np.ma.masked_array(values, ~column.valid)


_OBJECTS: dict[str, Any] = {
    "string": "", "binary": b"", "decimal": Decimal(0), "wide": Decimal(0), "time": dt.time(), "uuid": None,
    "enum": "", "nested": None,
}  # fmt: skip
"""Families whose values are Python objects in NumPy arrays, and the value in place of a null."""


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
    if kind.family in ("timestamp", "zoned", "time", "duration") and kind.time_unit == "ns":
        if bool((column.codes % 1000 != 0).any()):
            raise UnsupportedTypeError(_BEYOND_PYTHON.format(kind.name))
        coarser = "duration[us]" if kind.name == INTERVAL else kind.name.replace("[ns", "[us")
        kind, column = DataType(coarser), Column(DataType(coarser), column.codes // 1000, column.valid)
    try:
        return list(decode(Column(kind, column.codes, column.valid, column.dictionary)).to_pylist())
    except (OverflowError, ValueError, LookupError):  # LookupError: an unknown zone
        raise UnsupportedTypeError(_BEYOND_PYTHON.format(kind.name)) from None


_BEYOND_PYTHON = (
    "a column of type '{}' holds a time that Python's datetime cannot: outside the years 1 to 9999, finer than\n"
    "  microseconds, too long, or in an unknown zone. Use to_arrow() or to_numpy() instead."
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
    if kind.family == "duration":
        spans = column.codes.view(f"m8[{kind.time_unit}]").astype(str).tolist()
        return [
            "null" if column.valid is not None and not column.valid[row] else _span_text(int(code), kind, spans[row])
            for row, code in enumerate(column.codes)
        ]
    array = decode(Column(kind, column.codes, column.valid, column.dictionary))
    if kind.family in ("binary", "float32", "float64"):
        texts = [None if value is None else repr(value) for value in array.to_pylist()]
    elif kind.family in ("uuid", "nested", "enum"):
        texts = [None if value is None else str(value) for value in array.to_pylist()]
    else:
        try:
            texts = array.cast(pa.large_string()).to_pylist()
        except pa.ArrowInvalid:  # an unknown zone: the instant in UTC
            texts = array.cast(pa.timestamp(array.type.unit, "UTC")).cast(pa.large_string()).to_pylist()
    return ["null" if text is None else text for text in texts]


def _span_text(code: int, kind: DataType, plain: str) -> str:
    """Return a duration as Python writes it; one that Python cannot hold as NumPy does."""
    per_second = kind.per_day // 86_400
    if kind.time_unit == "ns" and code % 1000:
        return plain
    seconds, rest = divmod(code, per_second)
    try:
        return str(dt.timedelta(seconds=seconds, microseconds=rest * 10**6 // per_second))
    except OverflowError:
        return plain


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

    Structs become dictionaries of Python values. Intervals become durations.

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

    table = _without_intervals(table)
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
    """Return the table as a Polars frame.

    All decimals become Polars' single decimal type, UUIDs become texts, intervals durations, and enums Polars' Enum.

    Raises
    ------
    UnsupportedTypeError
        If Polars cannot hold a value.
    """
    import polars as pl

    table, enums = _without_intervals(table), {}
    for position, field in enumerate(table.schema):
        kind, column = field.type, table.column(position)
        if pa.types.is_decimal(kind):
            column = column.cast(pa.decimal128(kind.precision, kind.scale))
        elif isinstance(kind, pa.UuidType):
            column = pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
        elif pa.types.is_dictionary(kind) and kind.ordered:
            categories = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
            if all(isinstance(category, str) for category in categories):
                enums[field.name] = pl.Enum(categories)
            column = pa.array(column.to_pylist(), pa.large_string() if field.name in enums else kind.value_type)
        else:
            continue
        table = table.set_column(position, field.name, column)
    frame: pl.DataFrame = _exported(table, "Polars", pl.from_arrow)
    return frame.cast(enums) if enums else frame


def _without_intervals(table: pa.Table) -> pa.Table:
    """Return the table with durations in place of intervals."""
    for position, field in enumerate(table.schema):
        if str(field.type) == INTERVAL:
            spans = [
                None if value is None else value.days * _DAY_NS + value.nanoseconds
                for value in table.column(position).to_pylist()
            ]
            table = table.set_column(position, field.name, pa.array(spans, pa.int64()).cast(pa.duration("ns")))
    return table


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

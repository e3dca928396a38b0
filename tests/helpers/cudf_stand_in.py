"""As much of pylibcudf and cuDF as `gpu_wcoj.arrow.cudf` asks for, by PyArrow and the memory of the shim.

Names, parameters and layouts are those of pylibcudf 26.10: truth values in bytes, masks of bits, offsets into both.
"""

from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.backend import Backend

TypeId = IntEnum(
    "TypeId",
    "EMPTY INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FLOAT32 FLOAT64 BOOL8 TIMESTAMP_DAYS TIMESTAMP_SECONDS"
    " TIMESTAMP_MILLISECONDS TIMESTAMP_MICROSECONDS TIMESTAMP_NANOSECONDS STRING LIST DECIMAL32 DECIMAL64 DECIMAL128",
    start=0,
)
OF_ARROW = {
    pa.int8(): "INT8", pa.int16(): "INT16", pa.int32(): "INT32", pa.int64(): "INT64", pa.uint8(): "UINT8",
    pa.uint16(): "UINT16", pa.uint32(): "UINT32", pa.uint64(): "UINT64", pa.float32(): "FLOAT32",
    pa.float64(): "FLOAT64", pa.bool_(): "BOOL8", pa.date32(): "TIMESTAMP_DAYS", pa.string(): "STRING",
    pa.large_string(): "STRING", pa.list_(pa.int64()): "LIST",
}  # fmt: skip
UNITS = {"s": "SECONDS", "ms": "MILLISECONDS", "us": "MICROSECONDS", "ns": "NANOSECONDS"}
OutOfBoundsPolicy = IntEnum("OutOfBoundsPolicy", "NULLIFY DONT_CHECK", start=0)


class DataType:
    def __init__(self, type_id: TypeId, scale: int = 0) -> None:
        self._id, self._scale = type_id, scale

    def id(self) -> TypeId:
        return self._id

    def scale(self) -> int:
        return self._scale


class gpumemoryview:
    """Shows its length in bytes; that of a slice leaves out what lies before, as pylibcudf's does."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.__cuda_array_interface__ = obj.__cuda_array_interface__
        self.ptr = self.__cuda_array_interface__["data"][0]
        self.size = self.__cuda_array_interface__["shape"][0]


class Column:
    """A column; text is PyArrow's, with a mask on the device beside it."""

    backend: Backend

    def __init__(self, data_type, size, data, mask, null_count, offset, children, validate=True, texts=None) -> None:
        assert mask is not None or null_count == 0
        self.parts = (data_type, size, data, mask, null_count, offset, list(children))
        self.texts = texts

    def type(self):
        return self.parts[0]

    def size(self):
        return self.parts[1]

    def data(self):
        return self.parts[2]

    def null_mask(self):
        return self.parts[3]

    def null_count(self):
        return self.parts[4]

    def offset(self):
        return self.parts[5]

    def to_arrow(self) -> pa.Array:
        """For tests, of every type."""
        if self.texts is not None:
            return self.texts
        kind, size, data, mask, null_count, offset, _ = self.parts
        host = b"" if not size else self.backend.asarray(data).get().tobytes()
        bits = None if mask is None else pa.py_buffer(self.backend.asarray(mask).get().tobytes())
        if kind.id() == TypeId.BOOL8:
            host = np.packbits(np.frombuffer(host, np.uint8), bitorder="little").tobytes()
        return pa.Array.from_buffers(_arrow_type(kind), size, [bits, pa.py_buffer(host)], null_count, offset)

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Column:
        mask_bits, data = array.buffers()[:2]
        bits = None if mask_bits is None else np.frombuffer(mask_bits, np.uint8).copy()
        mask = None if bits is None else gpumemoryview(cls.backend.asarray(bits))
        name = OF_ARROW.get(array.type)
        scale = 0
        if pa.types.is_timestamp(array.type):
            name = f"TIMESTAMP_{UNITS[array.type.unit]}"
        elif pa.types.is_decimal(array.type):
            name, scale = f"DECIMAL{array.type.bit_width}", -array.type.scale
        kind = DataType(TypeId[name or "EMPTY"], scale)
        if name in ("STRING", "LIST"):
            return cls(kind, len(array), None, mask, array.null_count, array.offset, [], texts=array)
        values = np.frombuffer(data, np.uint8)
        if name == "BOOL8":
            values = np.unpackbits(values, bitorder="little")[: array.offset + len(array)]
        data = gpumemoryview(cls.backend.asarray(values.copy())) if len(values) else None
        return cls(kind, len(array), data, mask, array.null_count, array.offset, [])

    @classmethod
    def from_cuda_array_interface(cls, obj: Any) -> Column:
        assert obj.__cuda_array_interface__["typestr"] == "<i4"
        return cls(DataType(TypeId.INT32), len(obj), gpumemoryview(obj), None, 0, 0, [])


def _arrow_type(kind: DataType) -> pa.DataType:
    name = TypeId(kind.id()).name
    if name.startswith("DECIMAL"):
        digits = {"32": 9, "64": 18, "128": 38}[name[7:]]
        return getattr(pa, name.lower())(digits, -kind.scale())
    if name.startswith("TIMESTAMP_") and name != "TIMESTAMP_DAYS":
        return pa.timestamp(next(unit for unit, long in UNITS.items() if name.endswith(f"_{long}")))
    return next(arrow for arrow, mine in OF_ARROW.items() if mine == name)


class Table:
    def __init__(self, columns) -> None:
        self._columns = tuple(columns)

    def columns(self):
        return self._columns

    def num_columns(self):
        return len(self._columns)

    @staticmethod
    def from_arrow(data) -> Table:
        return Table([Column.from_arrow(column) for column in data.batch.columns])


class TableWithMetadata:
    def __init__(self, tbl, names) -> None:
        self.tbl, self.names = tbl, names
        self.columns = tbl.columns()

    def column_names(self, include_children=False):
        return list(self.names)


def encode(table):
    (column,) = table.columns()
    values = sorted({value for value in column.texts.to_pylist() if value is not None})
    keys = values + [None] * bool(column.texts.null_count)
    places = np.array([keys.index(value) for value in column.texts.to_pylist()], np.int32)
    rows = Column.from_cuda_array_interface(Column.backend.asarray(places))
    return Table([Column.from_arrow(pa.array(keys, pa.string()))]), rows


def gather(table, rows, policy):
    (column,) = table.columns()
    places = rows.to_arrow().to_pylist()
    values = column.texts.to_pylist()
    found = [values[place] if 0 <= place < len(values) else None for place in places]
    return Table([Column.from_arrow(pa.array(found, pa.string()))])


class Builder:
    def __init__(self, source) -> None:
        self.source = source

    def column_names(self, names) -> Builder:
        self.names = list(names)
        return self

    def build(self) -> Builder:
        return self


def read_parquet(options):
    table = pq.read_table(options.source[0], columns=options.names).combine_chunks()
    columns = [Column.from_arrow(_plain(column.chunk(0))) for column in table.columns]
    return TableWithMetadata(Table(columns), table.column_names)


def _plain(array):
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


class Frame:
    """A cuDF frame of Arrow columns."""

    def __init__(self, table, index=None) -> None:
        self.table = table
        self.index = index or type("RangeIndex", (), {"name": None, "names": [None]})()

    def __getitem__(self, name):
        kind = self.table.schema.field(name).type
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        digits = kind.precision if pa.types.is_decimal(kind) else None
        return SimpleNamespace(dtype=SimpleNamespace(tz=zone, precision=digits))

    @property
    def dtypes(self):
        return {name: self[name].dtype for name in self.table.column_names}

    def to_pylibcudf(self):
        columns = [Column.from_arrow(column.combine_chunks()) for column in self.table.columns]
        return Table(columns), {"columns": self.table.column_names, "index": self.index}

    @staticmethod
    def from_pylibcudf(table, metadata):
        return dict(zip(metadata["columns"], table.columns(), strict=True))


def modules(backend: Backend) -> dict[str, Any]:
    """The two libraries, on the memory of `backend`."""
    Column.backend = backend
    parquet = SimpleNamespace(ParquetReaderOptions=SimpleNamespace(builder=Builder), read_parquet=read_parquet)
    pylibcudf = SimpleNamespace(
        TypeId=TypeId,
        DataType=DataType,
        Column=Column,
        Table=Table,
        gpumemoryview=gpumemoryview,
        transform=SimpleNamespace(encode=encode),
        copying=SimpleNamespace(gather=gather, OutOfBoundsPolicy=OutOfBoundsPolicy),
        io=SimpleNamespace(TableWithMetadata=TableWithMetadata, SourceInfo=list, parquet=parquet),
    )
    return {"pylibcudf": pylibcudf, "cudf": SimpleNamespace(DataFrame=Frame)}

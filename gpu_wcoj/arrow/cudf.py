"""Conversion to and from cuDF columns, without copying, through its core pylibcudf.

No library is loaded before one of these functions is called. What the buffers hold is read by `gpu_wcoj.arrow.read`,
which the tests cover; what cuDF itself answers here (`encode`, `gather`, `from_arrow`, its Parquet reader, frames)
**has not yet been run on a device**.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.arrow import as_table, type_of
from gpu_wcoj.arrow.read import Buffers, buffers_of, fixed_width, n_bytes, text, validity, values_in_use
from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import Column, Dictionary
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import (
    BackendUnavailableError,
    ColumnError,
    InputFileError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
)

_KINDS = {
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "FLOAT32": "float", "FLOAT64": "double", "BOOL8": "bool", "TIMESTAMP_DAYS": "date32[day]",
    "TIMESTAMP_SECONDS": "timestamp[s]", "TIMESTAMP_MILLISECONDS": "timestamp[ms]",
    "TIMESTAMP_MICROSECONDS": "timestamp[us]", "TIMESTAMP_NANOSECONDS": "timestamp[ns]",
}  # fmt: skip
"""The engine's type name of each fixed-width type of cuDF."""
_DIGITS = {"DECIMAL32": 9, "DECIMAL64": 18, "DECIMAL128": 38}
_MAX_ROWS = 2**31 - 1
"""Maximum rows of a column of cuDF, whose sizes are int32."""
_DEFAULT_STREAM, _STREAM_OF_THREAD = 1, 2
"""The streams that cuDF may work in, as the CUDA array interface numbers them."""


class _Hint(NamedTuple):
    """Parts of a type that pylibcudf does not store: the time zone, the digits of a decimal."""

    zone: str | None = None
    precision: int | None = None


class _Memory:
    """Bytes of a cuDF buffer that an array may share; keeps them alive."""

    def __init__(self, span: Any, count: int) -> None:
        self.span = span
        self.__cuda_array_interface__ = {
            "data": (int(span.ptr), False), "shape": (count,), "strides": None, "typestr": "|u1", "version": 3,
            "stream": _stream(),
        }  # fmt: skip


def _stream() -> int:
    """Return the stream that cuDF works in; cuDF reads the same variable."""
    return _STREAM_OF_THREAD if os.environ.get("CUDF_PER_THREAD_STREAM") == "1" else _DEFAULT_STREAM


def is_installed() -> bool:
    """Return True if pylibcudf is installed; it is not loaded."""
    return importlib.util.find_spec("pylibcudf") is not None


def _load(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendUnavailableError.with_parts(
            f"{name} cannot be loaded: {str(error).splitlines()[0].rstrip('.')}",
            subject=name,
            remedy=f"Install it with {extra}, or convert through Arrow: ZSet.from_arrow, to_arrow.",
        ) from error


def _pylibcudf() -> Any:
    return _load("pylibcudf", "pip install 'gpu_wcoj[gpu-cudf]'")


def columns_of(
    data: Any, names: Sequence[str] | None, string: Dictionary, backend: Backend
) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns of a cuDF frame, pylibcudf table or Arrow device object.

    Raises
    ------
    UnsupportedTypeError, TypeMismatchError, SchemaError
        If it is not such a table, or the type of a column is not supported.
    """
    plc = _pylibcudf()
    table, labels, hints = _opened(plc, data)
    if names is not None:
        labels = tuple(names)
    columns = list(table.columns())
    if len(labels) != len(columns):
        raise SchemaError.mismatch(
            "the list of names",
            "has the wrong length",
            f"{len(labels)} ({', '.join(labels)})",
            f"{len(columns)}, one for each column",
        )
    parts = zip(labels, columns, hints or [_Hint()] * len(columns), strict=True)
    return labels, [_column(plc, column, hint, string, backend, f"column '{label}'") for label, column, hint in parts]


def _opened(plc: Any, data: Any) -> tuple[Any, tuple[str, ...], list[_Hint]]:
    """Return a pylibcudf table, its names, and the hints for its types if there are any."""
    if hasattr(data, "to_pylibcudf") and hasattr(data, "dtypes"):
        frame = _with_plain_columns(data)
        table, metadata = frame.to_pylibcudf()
        kinds = [frame[name].dtype for name in metadata["columns"]]
        hints = [_Hint(_zone(kind), getattr(kind, "precision", None)) for kind in kinds]
        return table, tuple(map(str, metadata["columns"])), hints
    if isinstance(data, plc.io.TableWithMetadata):
        return data.tbl, tuple(data.column_names()), []
    if not isinstance(data, plc.Table):
        if not (hasattr(data, "__arrow_c_device_array__") or hasattr(data, "__arrow_c_device_stream__")):
            raise TypeMismatchError.mismatch(
                "the data",
                "has the wrong type",
                f"'{type(data).__module__}.{type(data).__qualname__}'",
                "a cuDF DataFrame, a pylibcudf Table or an object with __arrow_c_device_array__",
                "Pass other tables to ZSet.from_arrow, and device arrays to ZSet.from_device.",
            )
        data = plc.Table.from_arrow(data)
    return data, tuple(f"c{i}" for i in range(data.num_columns())), []


def _with_plain_columns(frame: Any) -> Any:
    """Return the frame with its named index as columns, and categories as their values."""
    if type(frame.index).__name__ != "RangeIndex" or frame.index.name is not None:
        if any(name is None for name in frame.index.names):
            raise SchemaError(
                "this cuDF frame has an index without a name.\n"
                "  Name it with .rename_axis('key') to make it a column, or call .reset_index(drop=True)."
            )
        frame = frame.reset_index()
    for name, kind in frame.dtypes.items():
        if str(kind) == "category":
            frame = frame.assign(**{name: frame[name].astype(frame[name].cat.categories.dtype)})
    return frame


def _zone(kind: Any) -> str | None:
    zone = getattr(kind, "tz", None)
    return None if zone is None else str(zone)


def _column(plc: Any, column: Any, hint: _Hint, string: Dictionary, backend: Backend, what: str) -> Column:
    kind_id = column.type().id()
    if kind_id == plc.TypeId.STRING:
        kind = DataType("string")
        if not column.size():
            return Column(kind, backend.xp.zeros(0, np.int64), None, string)
        keys, places = plc.transform.encode(plc.Table([column]))
        of_rows = fixed_width(DataType("int32"), _buffers(places, DataType("int32"), backend), backend, what)
        valid = validity(_buffers(column, None, backend), backend)
        return text(kind, of_rows.stored, keys.columns()[0].to_arrow(), valid, string, backend)
    kind = _kind(plc, column.type(), hint, what)
    return fixed_width(kind, _buffers(column, kind, backend), backend, what)


def _kind(plc: Any, cudf_type: Any, hint: _Hint, what: str) -> DataType:
    for name, ours in _KINDS.items():
        if cudf_type.id() == getattr(plc.TypeId, name):
            zoned = hint.zone is not None and ours.startswith("timestamp")
            return DataType(f"{ours[:-1]}, tz={hint.zone}]" if zoned else ours)
    for name, digits in _DIGITS.items():
        if cudf_type.id() == getattr(plc.TypeId, name):
            return DataType(f"{name.lower()}({hint.precision or digits}, {-cudf_type.scale()})")
    raise UnsupportedTypeError.with_parts(
        f"{what} has an unsupported cuDF type: got type id {int(cudf_type.id())}",
        subject=what,
        got=int(cudf_type.id()),
        remedy="Supported are numbers, bool, dates, timestamps, text and decimals. Cast the column before you pass it.",
    )


def _buffers(column: Any, kind: DataType | None, backend: Backend) -> Buffers:
    """Return the buffers of a cuDF column; without the values if `kind` is None."""
    rows = column.offset() + column.size()
    data = _shared(column.data(), 0 if kind is None else n_bytes(kind, rows), backend)
    mask = None if column.null_mask() is None else _shared(column.null_mask(), (rows + 7) // 8, backend)
    return Buffers(column.size(), column.offset(), data, mask, column.null_count())


def _shared(span: Any, count: int, backend: Backend) -> Any:
    if span is None or not count:
        return backend.xp.zeros(0, np.uint8)
    return backend.asarray(_Memory(span, count))


def to_frame(names: Sequence[str], columns: Sequence[Column], backend: Backend) -> Any:
    """Return the columns as a cuDF frame; categories become their values.

    Raises
    ------
    UnsupportedTypeError
        If a column holds bytes, which cuDF has no type for, or has more rows than a cuDF column can have.
    """
    cudf = _load("cudf", "pip install cudf-cu13")
    plc = _pylibcudf()
    parts = [column_to_cudf(plc, c, backend, f"column '{name}'") for name, c in zip(names, columns, strict=True)]
    frame = cudf.DataFrame.from_pylibcudf(plc.Table(parts), {"columns": list(names)})
    for name, column in zip(names, columns, strict=True):
        if column.type.family == "zoned":
            zone = column.type.value_name.partition(", tz=")[2][:-1]
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert(zone)
    return frame


def column_to_cudf(plc: Any, column: Column, backend: Backend, what: str) -> Any:
    """Return a column of pylibcudf; the inverse of `columns_of`."""
    if len(column) > _MAX_ROWS:
        raise UnsupportedTypeError.mismatch(
            what, "is too long for cuDF", f"{len(column):,} rows", f"at most {_MAX_ROWS:,}"
        )
    kind = DataType(column.type.value_name)
    if kind.dictionary == "binary" or kind.family in ("enum", "time", "duration"):
        raise UnsupportedTypeError.with_parts(
            f"{what} is of type '{kind.label}', and cuDF has no such type", subject=what, remedy="Use to_arrow()."
        )
    if kind.family == "string":
        return _text_to_cudf(plc, column, backend)
    if kind.name.startswith("decimal256"):
        kind = DataType(kind.name.replace("256(" + kind.name[11:].partition(",")[0], "128(38"))
    buffers = buffers_of(Column(kind, column.stored, column.stored_valid), backend)
    _finish(backend)
    mask = None if buffers.mask is None or not buffers.null_count else plc.gpumemoryview(buffers.mask)
    data = plc.gpumemoryview(buffers.data)
    return plc.Column(_type_of_cudf(plc, kind), buffers.size, data, mask, buffers.null_count if mask else 0, 0, [])


def _text_to_cudf(plc: Any, column: Column, backend: Backend) -> Any:
    if not len(column):
        return plc.Column.from_arrow(pa.array([], pa.string()))
    used, places = values_in_use(column, backend)
    if not len(used):  # only nulls: each row's position is behind the single value
        used, places = pa.array([""]), backend.xp.ones(len(column), np.int64)
    _finish(backend)
    rows = plc.Column.from_cuda_array_interface(places.astype(np.int32))
    policy = plc.copying.OutOfBoundsPolicy.NULLIFY
    return plc.copying.gather(plc.Table([plc.Column.from_arrow(used)]), rows, policy).columns()[0]


def _type_of_cudf(plc: Any, kind: DataType) -> Any:
    if kind.family == "decimal":
        name, _, digits = kind.name[:-1].partition("(")
        return plc.DataType(getattr(plc.TypeId, name.upper()), -int(digits.split(", ")[1]))
    plain = kind.name.partition(",")[0] + "]" if kind.family == "zoned" else kind.name
    plain = "timestamp[ms]" if plain == "date64[ms]" else plain
    return plc.DataType(getattr(plc.TypeId, next(name for name, ours in _KINDS.items() if ours == plain)))


def _finish(backend: Backend) -> None:
    """Wait for CuPy's stream: pylibcudf does not synchronise before it reads arrays."""
    cuda = getattr(backend.xp, "cuda", None)
    if cuda is not None:
        cuda.get_current_stream().synchronize()


def read_parquet(
    path: str | PathLike[str], columns: Sequence[str] | None, string: Dictionary, backend: Backend
) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns of a Parquet file: by cuDF onto the device, else by PyArrow.

    Raises
    ------
    ColumnError
        If the file has no such column.
    InputFileError
        If the file is missing, or is not Parquet.
    """
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InputFileError.with_parts(
            f"'{fspath(path)}' cannot be read as Parquet: {error}", subject=fspath(path), remedy="Look at the path."
        ) from error
    chosen = list(schema.names) if columns is None else list(columns)
    for name in chosen:
        if name not in schema.names:
            raise ColumnError(fspath(path), name, schema.names)
    kinds = [type_of(schema.field(name).type) for name in chosen]
    if backend.device is None or not is_installed() or any(kind.dictionary == "binary" for kind in kinds):
        return as_table(pq.read_table(path, columns=chosen), fspath(path), string=string)
    plc = _pylibcudf()
    source = plc.io.SourceInfo([fspath(path)])
    options = plc.io.parquet.ParquetReaderOptions.builder(source).column_names(chosen).build()
    read = plc.io.parquet.read_parquet(options)
    by_name = dict(zip(read.column_names(), read.columns, strict=True))
    encoded = [
        _column(plc, by_name[name], _hint_of(kind), string, backend, f"column '{name}'")
        for name, kind in zip(chosen, kinds, strict=True)
    ]
    return tuple(chosen), [
        Column(kind, column.stored, column.stored_valid, column.dictionary) if kind.family == "string" else column
        for column, kind in zip(encoded, kinds, strict=True)
    ]


def _hint_of(kind: DataType) -> _Hint:
    zone = kind.value_name.partition(", tz=")[2][:-1] if kind.family == "zoned" else None
    digits = kind.value_name.partition("(")[2].partition(",")[0] if kind.family == "decimal" else ""
    return _Hint(zone, int(digits) if digits else None)

"""One column out: codes to an Arrow or NumPy array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj.arrow.types import storage_of, to_pyarrow
from gpu_wcoj.column import Column, Int64Array, floats_of
from gpu_wcoj.schema import DataType


def decode(column: Column) -> pa.Array:
    """The column as an Arrow array of its type.

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
    shown = column.codes if column.valid is None else column.codes[column.valid]
    used, places = np.unique(shown, return_inverse=True)
    values = decode(Column(DataType(column.type.value_name), used, None, column.dictionary))
    bits = next(bits for bits in (8, 16, 32, 64) if bits >= out.index_type.bit_width and len(used) <= 2 ** (bits - 1))
    index_name = f"int{bits}" if pa.types.is_signed_integer(out.index_type) else f"uint{bits}"
    indices = np.zeros(len(column), index_name)
    indices[slice(None) if column.valid is None else column.valid] = places
    mask = None if column.valid is None else ~column.valid
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=mask), values)


def to_numpy(column: Column) -> npt.NDArray[Any]:
    """The values as NumPy holds them; a masked array where there are nulls.

    Text, bytes and decimals are Python objects; a timestamp with a zone is its instant in UTC.

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
    elif kind.family == "bool":
        values = column.codes.astype(bool)
    else:
        values = _natural(column.codes, storage_of(kind)[0])
        if kind.family in ("date", "timestamp", "zoned"):
            unit = {"date32[day]": "D", "date64[ms]": "ms"}.get(kind.name) or to_pyarrow(kind).unit
            values = values.astype(np.int64).view(f"M8[{unit}]")
    return values if column.valid is None else np.ma.masked_array(values, ~column.valid)

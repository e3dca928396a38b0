"""Stored rows of a result as an Arrow table."""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow import encode
from gpu_wcoj.arrow.indexed_table import dictionaries, key_matrix
from gpu_wcoj.data.column import Column, Int64Array
from gpu_wcoj.data.rows import Row, weight_name
from gpu_wcoj.data.schema import INTERVAL
from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.zset.zset import TextColumn, ZSet, clean, text_columns


class ArrowRows:
    """Stored rows of a result as an Arrow table, also with structs; see `gpu_wcoj.result.Rows`."""

    def __init__(self, names: tuple[str, ...], weights: Int64Array) -> None:
        self.names = names
        self.weights = weights

    @cached_property
    def table(self) -> Any:
        """The columns, without weights."""
        raise NotImplementedError

    def gathered(self, positions: Int64Array, weights: Int64Array) -> ArrowRows:
        """Return the rows at these positions, with these weights."""
        return DecodedRows(self.table.take(positions), weights)

    def merged(self) -> ArrowRows:
        """Return each distinct row once, with the sum of its weights."""
        return DecodedRows(*net(self.table, self.weights))

    def column(self, position: int) -> Column:
        """Return a column in the engine's form."""
        return encode(one_piece(self.table.column(position)))

    def zset(self) -> ZSet:
        """Return the rows, unsorted, with the weights to be left out of exports."""
        columns = tuple(self.column(position) for position in range(len(self.names)))
        return ZSet(self.names, columns, self.weights, None)

    def to_zset(self) -> ZSet:
        """Return each distinct row once, with the sum of its weights."""
        return ZSet.from_columns(self.names, self.zset().columns, self.weights)

    def counted(self) -> DecodedRows:
        """Return each distinct row once, with the sum of its weights in a last column."""
        rows, weights = net(self.table, self.weights)
        return DecodedRows(rows.append_column(weight_name(self.names), pa.array(weights)), np.ones_like(weights))

    def to_arrow(self) -> Any:
        """Return the rows as a table."""
        return self.table

    def values(self) -> list[Row]:
        """Return the rows as Python values; structs are dictionaries."""
        return list(zip(*map(_values, self.table.columns), strict=True))

    def text_columns(self) -> list[TextColumn]:
        """Return the rows as text."""
        return [_as_text(name, column) for name, column in zip(self.names, self.table.columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return Python values; intervals without months are timedeltas, as those of the engine."""
    values: list[Any] = column.to_pylist()
    if str(column.type) != INTERVAL:
        return values
    return [
        dt.timedelta(value.days, microseconds=value.nanoseconds // 1000)
        if value is not None and value.months == 0 and value.nanoseconds % 1000 == 0
        else value
        for value in values
    ]


def _as_text(name: str, column: pa.ChunkedArray) -> TextColumn:
    values = column.to_pylist()
    try:
        rows = ZSet((name,), (encode(one_piece(column)),), np.ones(len(values), np.int64))
        return text_columns(rows)[0]
    except UnsupportedTypeError:
        named = {INTERVAL: "interval"}.get(str(column.type), str(column.type))
        kind = "struct" if pa.types.is_struct(column.type) else named
        cells = ["null" if value is None else clean(str(value)) for value in values]
    return TextColumn(clean(name), clean(kind), cells, False)


class DecodedRows(ArrowRows):
    """Rows that are an Arrow table already."""

    def __init__(self, table: Any, weights: Int64Array) -> None:
        super().__init__(tuple(table.column_names), weights)
        self._decoded = table

    @classmethod
    def of_table(cls, table: Any) -> DecodedRows:
        """Return the rows of a table, each once."""
        return cls(table, np.ones(len(table), np.int64))

    @cached_property
    def table(self) -> Any:
        """The columns, without weights."""
        return self._decoded


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
    return array


def net(rows: pa.Table, weights: Int64Array) -> tuple[pa.Table, Int64Array]:
    """Merge equal rows and add their weights; rows of weight 0 are left out."""
    if len(rows) == 0:
        return rows, weights
    keys = _keys(rows)
    _, first, place = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    sums = np.zeros(len(first), object)
    np.add.at(sums, place.ravel(), weights.astype(object))
    (nonzero,) = np.nonzero(sums != 0)
    return rows.take(first[nonzero]), sums[nonzero].astype(np.int64)


def _keys(rows: pa.Table) -> Int64Array:
    """Return the rows as integers that are equal for equal rows."""
    flat_rows = rows
    lines = []
    while any(pa.types.is_struct(kind) for kind in flat_rows.schema.types):
        nested = [column for column in flat_rows.columns if pa.types.is_struct(column.type)]
        lines += [column.is_valid().to_numpy().astype(np.int64) for column in nested]
        flat_rows = flat_rows.flatten()
    names = [str(position) for position in range(flat_rows.num_columns)]
    matrix = key_matrix(flat_rows.rename_columns(names), "the matches", *dictionaries())
    return np.concatenate([np.stack(lines), matrix]) if lines else matrix

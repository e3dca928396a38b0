"""Export of matches: columns of structs, or flat columns, of the matched rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.arrow.row_index import dictionaries, key_matrix
from gpu_wcoj.arrow.write import decode
from gpu_wcoj.data.column import Column, Int64Array


def values_of(column: Column) -> pa.Array:
    """Decode a column of an answer."""
    return decode(column)


def constant(value: int | str, size: int) -> pa.Array:
    """Return an array of `size` copies of a value."""
    return pa.repeat(pa.scalar(value, pa.int64() if isinstance(value, int) else pa.string()), size)


def places(values: pa.Array, among: pa.ChunkedArray) -> Int64Array:
    """Return the positions of values in a column of distinct values."""
    if pa.types.is_dictionary(among.type):
        among = among.cast(among.type.value_type)
    if values.type != among.type:
        values = values.cast(among.type)
    if pa.types.is_floating(among.type):  # -0.0 is 0.0
        values, among = (pc.add(operand, pa.scalar(0.0, among.type)) for operand in (values, among))
    return np.asarray(pc.index_in(values, value_set=among)).astype(np.int64)


def structs(rows: pa.Table) -> pa.Array:
    """Return the rows of a table as structs."""
    arrays = [one_piece(column) for column in rows.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(rows.schema))


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
    return array


def nothing(like: pa.Schema, column: str | None, size: int) -> pa.Array:
    """Return `size` nulls of the type of a column, or of the rows as structs."""
    return pa.nulls(size, pa.struct(list(like)) if column is None else like.field(column).type)


def no_text(size: int) -> pa.Array:
    """Return `size` nulls of type text."""
    return pa.nulls(size, pa.string())


def replaced(values: pa.Array, texts: Mapping[str, str]) -> pa.Array:
    """Replace each value by its text."""
    place = pc.index_in(values, value_set=pa.array(list(texts)))
    return pa.array(list(texts.values())).take(place)


def table_of(names: Sequence[str], arrays: Sequence[pa.Array]) -> pa.Table:
    """Return a table of arrays."""
    return pa.table(list(arrays), names=list(names))


def pair(src: pa.Array, dst: pa.Array, names: Sequence[str], like: pa.Schema) -> pa.Table:
    """Return a table of edges that have only end points, with the columns of `like`."""
    ends = dict(zip(names, (src, dst), strict=True))
    return pa.table({field.name: ends[field.name].cast(field.type) for field in like})


def with_column(rows: pa.Table, name: str, values: Int64Array) -> pa.Table:
    """Return the table with one more column."""
    return rows.append_column(name, pa.array(values))


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables, which have the same columns."""
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]


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


def repeated(rows: pa.Table, times: Int64Array) -> pa.Table:
    """Repeat each row `times` times."""
    if bool((times == 1).all()):
        return rows
    return rows.take(np.repeat(np.arange(len(rows)), times))


def python_rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows as Python values."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

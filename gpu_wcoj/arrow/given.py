"""Tables as passed in, complete or as changes: Arrow tables or Spark DataFrames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.arrow.read import as_arrow
from gpu_wcoj.arrow.row_index import dictionaries, encode_all, key_matrix
from gpu_wcoj.arrow.table import columns_by_name, is_of_spark
from gpu_wcoj.arrow.types import SUPPORTED, type_of
from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UnsupportedTypeError, UsageError
from gpu_wcoj.weights import as_weights, weight_name


def as_arrow_or_spark(data: Any, what: str) -> Any:
    """Return a table-like object as an Arrow table; a Spark DataFrame is returned unread.

    Examples
    --------
    >>> as_arrow_or_spark({"id": [1, 2], "name": ["x", "y"]}, "the vertices").to_pydict()
    {'id': [1, 2], 'name': ['x', 'y']}
    """
    if is_of_spark(data):
        if data.isStreaming:
            raise UsageError.unsupported(
                f"a stream as {what}", remedy="Collect its batches, and pass each batch to apply()."
            )
        return data
    arrays = columns_by_name(data, what)
    return pa.table({name: _array(values, f"{what}, column '{name}'") for name, values in arrays.items()})


def kinds_of(data: Any) -> dict[str, str]:
    """Return the columns of a table of `as_arrow_or_spark` and their type families.

    The family is empty for types that rules cannot read.

    Examples
    --------
    >>> kinds_of(pa.table({"n": [1], "tags": [["x"]]}))
    {'n': 'integer', 'tags': ''}
    """
    if is_of_spark(data):
        return {column.name: _SPARK_KINDS.get(column.dataType.typeName(), "") for column in data.schema.fields}
    return {column.name: _kind(column.type) for column in data.schema}


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type without views of texts and bytes, whose rows cannot be gathered."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(_without_views(child.type)) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    return kind


_SPARK_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "integer"), "float": "float32", "double": "float64",
    "string": "string", "boolean": "bool",
}  # fmt: skip


def _kind(arrow_type: pa.DataType) -> str:
    try:
        return type_of(arrow_type).family
    except UnsupportedTypeError:
        return ""


def read_rows(data: Any, what: str, columns: Sequence[str]) -> pa.Table:
    """Return these columns of a table of `as_arrow_or_spark`; a Spark DataFrame is collected.

    Raises
    ------
    ColumnError
        If a column is missing.
    """
    available = list(kinds_of(data))
    for name in columns:
        if name not in available:
            raise ColumnError(what.removeprefix("the "), name, available)
    if is_of_spark(data):
        quoted = [f"`{name.replace('`', '``')}`" for name in columns]
        return as_arrow_or_spark(data.select(*quoted).toArrow(), what)
    return data.select(list(columns))


def _array(values: Any, what: str) -> pa.ChunkedArray:
    """Return one column in Arrow's form; columns that no rule reads may be nested."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == object:
        values = values.tolist()
    if isinstance(values, list) and (set(map(type, values)) - {type(None)}) & set(_CARRIED):
        array = _carried(values, what)
    else:
        array = as_arrow(values, what)
    if not isinstance(array, pa.ChunkedArray):
        array = pa.chunked_array([array])
    kind = _without_views(array.type)
    return array if kind == array.type else array.cast(kind)


_CARRIED = (list, dict, dt.timedelta, dt.time)
"""Types of Python values that Arrow holds and rules do not."""


def _carried(values: list[Any], what: str) -> pa.Array:
    """Return values that no rule reads, if Arrow returns them unchanged."""
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise UnsupportedTypeError(f"{what}: {str(error).rstrip('.')}.\n{SUPPORTED}") from None
    for row, (value, converted) in enumerate(zip(values, array.to_pylist(), strict=True)):
        if not _is_same(value, converted):
            raise TypeMismatchError(
                f"{what} mixes types: the value {value!r:.80} (row {row}) would become {converted!r:.80}.\n"
                "  Write all values of a column, and all nested values at the same place, as one type."
            )
    return array


def _is_same(left: Any, right: Any) -> bool:
    """Compare two values, including the types of all their parts."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(_is_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right or (left != left and right != right))


def split_change(data: Any, what: str, names: Sequence[str], columns: Sequence[str]) -> tuple[pa.Table, Int64Array]:
    """Return the distinct rows of a change and their non-zero weights.

    Parameters
    ----------
    data
        A table of `as_arrow_or_spark` with the columns `names` and optionally weights: ``weight``, or ``_weight`` if the table
        has a column of that name.
    columns
        The columns to return.
    """
    available = list(kinds_of(data))
    weight = weight_name(names)
    for name in available:
        if name not in (*names, weight):
            raise ColumnError(what.removeprefix("the "), name, (*names, weight))
    rows = read_rows(data, what, columns)
    if weight not in available:
        return rows, np.ones(len(rows), np.int64)
    column = encode_all(read_rows(data, what, [weight]), what, *dictionaries())[0]
    weights = as_weights(column, f"{what}: the weights")
    if bool((weights == 1).all()):
        return rows, weights
    keys = key_matrix(rows, what, *dictionaries())
    _, first, place = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    exact = np.zeros(len(first), object)
    np.add.at(exact, place.ravel(), weights.astype(object))
    nonzero = np.flatnonzero(exact != 0)
    return rows.take(first[nonzero]), as_weights(exact[nonzero].tolist(), f"{what}: the weights")


def refuse_nulls(rows: pa.Table, columns: Iterable[str], what: str) -> None:
    """Raise if one of these columns has a null."""
    for name in columns:
        if rows.column(name).null_count:
            row = rows.column(name).is_null().to_pylist().index(True)
            raise SchemaError(
                f"{what}, column '{name}': row {row} is null.\n  Leave out such rows before you pass them."
            )


def distinct_values(values: Any, what: str) -> pa.Table:
    """Return a table of one column with distinct values, without nulls.

    Parameters
    ----------
    values
        An array or list of them, or a table with one column.
    """
    if isinstance(values, (list, tuple, set, frozenset, range)):
        array = _array(list(values), what)
    elif isinstance(values, np.ndarray) and values.ndim == 1:
        array = _array(values, what)
    else:
        table = as_arrow_or_spark(values, what)
        if is_of_spark(table):
            table = read_rows(table, what, table.columns)
        if table.num_columns != 1:
            raise SchemaError.mismatch(what, "have the wrong number of columns", table.num_columns, 1)
        array = table.column(0)
    return pa.table({"id": pc.unique(array.drop_null())})

"""The Z-set: rows with non-zero int64 weights, stored by column and always consolidated."""

from __future__ import annotations

import html as _html
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.budget import reserve
from gpu_wcoj.data.column import BoolArray, Column, Dictionary, Int64Array, float_codes, floats_of, on_host, read_only
from gpu_wcoj.data.rows import Row, as_weights, columns_of, is_masked_array, split_weights
from gpu_wcoj.data.schema import INT64, DataType, casts_to_views, check_names
from gpu_wcoj.errors import (
    ArityError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    UsageError,
    WeightError,
    WeightOverflowError,
    counted,
    entry_point,
)
from gpu_wcoj.zset.arrays import numbers, positions

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
    import polars as pl
    import pyarrow as pa

# Device input and output of Z-sets: implementations of `ZSet` methods.


def from_device(
    data: Any,
    weights: Any = None,
    names: Sequence[str] | None = None,
    backend: BackendName | Backend = "cuda",
) -> ZSet:
    """Create a Z-set on the GPU from device arrays; no value passes through the host.

    Parameters
    ----------
    data
        A dict or list of arrays of one dimension, or an array of two: anything with ``__cuda_array_interface__`` or
        ``__dlpack__``, of integers, bool, float32 or float64. int64 without gaps is read where it lies.
    weights
        As `data`, integers; every row counts once if None.
    names
        What the columns are called, instead of the dict's keys or c0, c1, ...
    backend
        Where the Z-set shall live.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU.
    TypeMismatchError, UnsupportedTypeError, WeightError, SchemaError
        If a value is not a device array.
    """
    chosen = select_backend(backend)
    labels, columns = columns_of_arrays(data, names, chosen)
    return _made(labels, columns, None if weights is None else weights_of(weights, chosen), chosen)


def from_cudf(
    data: Any,
    weight: str | None = None,
    names: Sequence[str] | None = None,
    backend: BackendName | Backend = "cuda",
) -> ZSet:
    """Create a Z-set on the GPU from a cuDF frame or another Arrow device table.

    Of text, only the distinct values pass through the host. What cuDF answers has not yet been run on a device.

    Parameters
    ----------
    data
        The table. A frame's named index becomes a column; categories are read as their values.
    weight
        The column that holds the weights; if None every row counts once, and every column is data.
    names
        What the columns are called, where the table does not say.
    backend
        Where the Z-set shall live.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU, or no pylibcudf.
    TypeMismatchError, UnsupportedTypeError, WeightError, SchemaError
        If it is not a device table, or a column has an unsupported type.
    """
    from gpu_wcoj.arrow.cudf import columns_of

    chosen = select_backend(backend)
    return _weighted(*columns_of(data, names, Dictionary("string"), chosen), weight, chosen)


def read_parquet(
    path: str | PathLike[str],
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    backend: BackendName | Backend = "auto",
) -> ZSet:
    """Read a Z-set from a Parquet file: directly to a GPU with cuDF, else by PyArrow.

    cuDF's reader has not yet been run on a device.

    Parameters
    ----------
    path
        The file.
    columns
        Those to read, all if None.
    weight
        The column that holds the weights, one of those read; if None every row counts once.
    backend
        Where the Z-set shall live.

    Raises
    ------
    ColumnError
        If the file has no such column.
    InputFileError
        If the file is missing, or is not Parquet.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     pq.write_table(pa.table({"a": [1, 2], "n": [3, -1]}), file.name)
    ...     read_parquet(file.name, weight="n", backend="cpu").rows()
    [((1,), 3), ((2,), -1)]
    """
    from gpu_wcoj.arrow import cudf

    chosen = select_backend(backend)
    return _weighted(*cudf.read_parquet(path, columns, Dictionary("string"), chosen), weight, chosen)


def to_cupy(zset: ZSet, backend: BackendName | Backend = "cuda") -> dict[str, Any]:
    """Return a writable CuPy array per column, weights last; no value passes through the host.

    Dates and times come as the int64 that counts them.

    Raises
    ------
    UnsupportedTypeError
        If a column has nulls, or holds text, bytes or decimals.
    """
    chosen = select_backend(backend) if zset.backend is None else zset.backend
    named = zip(zset.names, zset.columns, strict=True)
    arrays = {name: natural(column, chosen, f"column '{name}'") for name, column in named}
    if (name := zset.shown_weight_name) is not None:
        arrays[name] = natural(Column.of_integers(zset.stored_weights), chosen, "the weights")
    return arrays


def to_cudf(zset: ZSet, backend: BackendName | Backend = "cuda") -> Any:
    """Return the rows as a cuDF frame, weights last. cuDF has not yet been run on a device.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU, or no cuDF.
    UnsupportedTypeError
        If a column holds bytes.
    """
    from gpu_wcoj.arrow.cudf import to_frame

    chosen = select_backend(backend) if zset.backend is None else zset.backend
    names, columns = zset.names, zset.columns
    if (name := zset.shown_weight_name) is not None:
        names, columns = (*names, name), (*columns, Column.of_integers(zset.stored_weights))
    return to_frame(names, columns, chosen)


def _weighted(names: tuple[str, ...], columns: list[Column], weight: str | None, backend: Backend) -> ZSet:
    """Return the Z-set of these columns, one of which may be the weights."""
    signed = None
    if weight is not None:
        if weight not in names:
            raise ColumnError("input", weight, names)
        position = names.index(weight)
        weight_column = columns[position]
        if weight_column.type.family != "integer" or weight_column.stored_valid is not None:
            what = "nulls" if weight_column.stored_valid is not None else f"a column of type '{weight_column.type}'"
            raise WeightError(f"the weights (column '{weight}') must be integers from -2^63 to 2^63-1, not {what}.")
        names, columns, signed = (
            names[:position] + names[position + 1 :],
            columns[:position] + columns[position + 1 :],
            weight_column.stored,
        )
    return _made(names, columns, signed, backend)


def _made(names: Sequence[str], columns: list[Column], weights: Any, backend: Backend) -> ZSet:
    """Return the Z-set of these columns in memory of its own."""
    if backend.device is not None:
        columns = [moved(column, backend) for column in columns]
        weights = None if weights is None else backend.asarray(weights)
    zset = ZSet.from_columns(names, columns, weights, backend=backend)
    if zset.backend is None:
        return zset
    arrays = [column.stored for column in columns] + ([] if weights is None else [weights])
    owned, own_weights = without_shared_memory(zset.columns, zset.stored_weights, arrays)
    return ZSet(zset.names, tuple(owned), own_weights, zset.weight_name, backend)


# Table input and output of Z-sets in host memory: implementations of `ZSet` methods.


def from_arrow(data: Any, weight: str | None = None) -> ZSet:
    """Create a Z-set from an Arrow stream, a dict of columns, or another table.

    Parameters
    ----------
    data
        A table of PyArrow, Polars, pandas, DuckDB, ...
    weight
        The column that holds the weights; if None every row counts once, and every column is data.

    Examples
    --------
    >>> z = from_arrow({"a": [1, 2], "n": [5, -5]}, weight="n")
    >>> z.rows()
    [((1,), 5), ((2,), -5)]
    """
    from gpu_wcoj.arrow import as_table

    names, columns = as_table(data)
    signed = None
    if weight is not None:
        if weight not in names:
            raise ColumnError("input", weight, names)
        position = names.index(weight)
        signed = as_weights(columns[position], f"the weights (column '{weight}')")
        names, columns = names[:position] + names[position + 1 :], columns[:position] + columns[position + 1 :]
    return ZSet.from_columns(names, columns, signed)


def from_numpy(
    data: npt.NDArray[Any],
    weights: npt.NDArray[Any] | Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> ZSet:
    """Create a Z-set from the rows of a 2-d or structured array; a 1-d array is one column.

    Examples
    --------
    >>> import numpy as np
    >>> from_numpy(np.array([[1, 2], [1, 2]])).rows()
    [((1, 2), 2)]
    """
    from gpu_wcoj.arrow import as_table

    column_names, columns = as_table(data)
    signed = None if weights is None else as_weights(weights)
    return ZSet.from_columns(column_names if names is None else names, columns, signed)


def to_arrow(zset: ZSet) -> pa.Table:
    """Return the rows as a ``pyarrow.Table``, weights last.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> to_arrow(ZSet.from_rows([(1, 2)])).to_pydict()
    {'c0': [1], 'c1': [2], 'weight': [1]}
    """
    from gpu_wcoj.arrow import to_table

    name = zset.shown_weight_name
    if name is None:
        return to_table(zset.names, zset.columns)
    return to_table((*zset.names, name), (*zset.columns, Column.of_integers(zset.weights)))


class HasArrow(Protocol):
    """Rows that are exported through Arrow."""

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table."""
        ...


def to_pandas(rows: HasArrow) -> pd.DataFrame:
    """Return the rows as a pandas frame, weights last; integers with nulls get nullable types."""
    from gpu_wcoj.arrow import to_pandas

    return to_pandas(rows.to_arrow())


def to_polars(rows: HasArrow) -> pl.DataFrame:
    """Return the rows as a Polars frame, weights last."""
    from gpu_wcoj.arrow import to_polars

    return to_polars(rows.to_arrow())


def to_numpy(zset: ZSet) -> dict[str, npt.NDArray[Any]]:
    """Return an array per column, weights last; masked where there are nulls.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> to_numpy(ZSet.from_rows([(1, True)]))
    {'c0': array([1]), 'c1': array([ True]), 'weight': array([1])}
    """
    from gpu_wcoj.arrow import to_numpy

    arrays = {name: to_numpy(column) for name, column in zip(zset.names, zset.columns, strict=True)}
    if (name := zset.shown_weight_name) is not None:
        arrays[name] = zset.weights
    return arrays


# Display of a Z-set: a box in a terminal, a table in a notebook.


MAX_ROWS, _MAX_COLUMNS, _MAX_WIDTH = 10, 10, 32
CUT = "…"
_NUMBERS = ("integer", "float32", "float64", "decimal", "wide")


def arrow_stream(table: Any, requested_schema: object | None) -> object:
    """Return the stream of an Arrow table, in the requested types if they are safe to cast to.

    A producer may ignore the request; the consumer then converts the types itself.
    """
    import pyarrow as pa

    return table.__arrow_c_stream__(requested_schema if casts_to_views(pa.__version__) else None)


class TextColumn(NamedTuple):
    """A column as text: its name, its type, its cells, and its alignment (True: right)."""

    name: str
    kind: str
    cells: list[str]
    right: bool


def box(zset: ZSet) -> str:
    """Return the Z-set as a box of text for a terminal."""
    return drawn(_title(zset), _shown_columns(zset))


def html(zset: ZSet) -> str:
    """Return the Z-set as an HTML table for a notebook; all data is escaped."""
    return drawn_html(_title(zset), _shown_columns(zset))


def drawn(title: str, columns: list[TextColumn]) -> str:
    """Return columns as a box of text below a title."""
    if not columns:
        return title
    widths = [max(map(_width, (column.name, column.kind, *column.cells))) for column in columns]
    names = _line(columns, widths, [column.name for column in columns])
    kinds = _line(columns, widths, [column.kind for column in columns])
    rows = [_line(columns, widths, list(cells)) for cells in zip(*(column.cells for column in columns), strict=True)]
    top, middle, bottom = (
        left + line.join(sign * (width + 2) for width in widths) + right
        for left, line, sign, right in (("┌", "┬", "─", "┐"), ("╞", "╪", "═", "╡"), ("└", "┴", "─", "┘"))
    )
    return "\n".join([title, top, names, kinds, middle, *rows, bottom])


def drawn_html(title: str, columns: list[TextColumn]) -> str:
    """Return columns as an HTML table below a title; all texts are escaped."""
    head = "".join(
        f"<th>{_html.escape(column.name)}<br><small>{_html.escape(column.kind)}</small></th>" for column in columns
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{_html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in zip(*(column.cells for column in columns), strict=True)
    )
    return f"<p>{_html.escape(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def laid_out(columns: list[TextColumn], weights: TextColumn | None, is_cut: bool) -> list[TextColumn]:
    """Return the first and last columns if there are many, then the weights.

    Parameters
    ----------
    is_cut
        Whether rows were left out between the first half of those that are given and the second one.
    """
    if len(columns) > _MAX_COLUMNS:
        gap = TextColumn(CUT, "", [CUT] * len(columns[0].cells), False)
        columns = [*columns[: _MAX_COLUMNS // 2], gap, *columns[-_MAX_COLUMNS // 2 :]]
    if weights is not None:
        columns = [*columns, weights]
    if is_cut:
        for column in columns:
            column.cells.insert(MAX_ROWS // 2, CUT)
    return columns


def _title(zset: ZSet) -> str:
    rows, columns = len(zset), len(zset.columns)
    return f"ZSet: {counted(rows, 'row')}, {counted(columns, 'column')}"


def _shown_columns(zset: ZSet) -> list[TextColumn]:
    half = MAX_ROWS // 2
    cut = len(zset) > MAX_ROWS
    if cut:
        zset = _ends(zset, half)
    name = zset.shown_weight_name
    weights = None if name is None else TextColumn(clean(name), "int", list(map(str, zset.weights.tolist())), True)
    return laid_out(text_columns(zset), weights, cut)


def text_columns(zset: ZSet) -> list[TextColumn]:
    """Return the columns of the rows as text, without the weights."""
    return [
        TextColumn(clean(name), column.type.label, _cells(column), column.type.family in _NUMBERS)
        for name, column in zip(zset.names, zset.columns, strict=True)
    ]


def _ends(zset: ZSet, half: int) -> ZSet:
    """Return the first and the last rows; only these are fetched from a device."""
    first, final = slice(0, half), slice(len(zset) - half, len(zset))
    columns = tuple(column.gather(first).stack(column.gather(final)) for column in zset.columns)
    weights = np.concatenate([on_host(zset.stored_weights[part]) for part in (first, final)])
    return type(zset)(zset.names, columns, weights, zset.weight_name)


def _cells(column: Column) -> list[str]:
    if column.valid is None and column.type.family == "integer":
        return list(map(str, column.codes.tolist()))
    from gpu_wcoj.arrow import to_text

    return list(map(clean, to_text(column)))


def clean(text: str) -> str:
    """Return `text` with control characters escaped, cut to the width of a table cell."""
    printable = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text[: _MAX_WIDTH + 1])
    if _width(printable) <= _MAX_WIDTH and len(text) <= _MAX_WIDTH:
        return printable
    while _width(printable) >= _MAX_WIDTH:
        printable = printable[:-1]
    return printable + CUT


def _width(text: str) -> int:
    """Return the terminal cells that `text` takes: 2 for wide, 0 for combining characters."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _line(columns: list[TextColumn], widths: list[int], cells: list[str]) -> str:
    padded = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if column.right else cell + space)
    return "│ " + " │ ".join(padded) + " │"


# Algebra of Z-sets with exact weights: plus, minus, scale, distinct, filter, map.


Columns = tuple[Column, ...]
_LOWEST, _HIGHEST, _LOW_HALF = -(2**63), 2**63 - 1, 2**32 - 1


def consolidate(columns: Sequence[Column], weights: Any, backend: Backend | None = None) -> tuple[Columns, Any]:
    """Sort rows by code, nulls first, add the weights of equal rows, and drop rows of weight 0.

    If sums could leave int64, which is rare, they are checked on the host.

    Parameters
    ----------
    weights
        int64, or Python integers in a NumPy array of objects.
    backend
        The backend of the device on which to work; None for the host.

    Raises
    ------
    WeightOverflowError
        If and only if the exact weight of a row leaves int64.
    """
    place = select_backend("cpu") if backend is None else backend
    columns = [to_host(column) if backend is None else moved(column, backend) for column in columns]
    weights = weights if weights.dtype == object else place.asarray(weights)
    is_single = len(weights) <= 1 and weights.dtype != object
    if not is_single and _largest(weights, place) * len(weights) > _HIGHEST:
        weights = place.asarray(_without_overflow([to_host(column) for column in columns], on_host(weights)))
    if backend is None and (len(weights) <= 1 or not columns):
        return _consolidate_few(columns, weights)
    sorted_keys, sums = place.kernels.consolidate(code_keys(columns, place.xp), weights)
    return columns_of_keys(columns, sorted_keys, place), sums


def code_keys(columns: Sequence[Column], xp: Any = np) -> list[Int64Array]:
    """Return the arrays that sort rows by code, nulls first, and tell different rows apart."""
    keys: list[Int64Array] = []
    for column in columns:
        if column.stored_valid is not None:
            keys.append(column.stored_valid.astype(np.int64))
        keys.append(xp.ascontiguousarray(column.stored))
    return keys


def columns_of_keys(like: Sequence[Column], keys: Iterable[Int64Array], backend: Backend) -> Columns:
    """Return the columns of rows that are given as `code_keys`. Waits once if there are nulls."""
    parts = iter(keys)
    pairs = [(None if column.stored_valid is None else next(parts) != 0, next(parts)) for column in like]
    n_values = iter(numbers(backend, *(valid.sum() for valid, _ in pairs if valid is not None)))
    return tuple(
        Column(column.type, codes, None if valid is None or next(n_values) == len(valid) else valid, column.dictionary)
        for column, (valid, codes) in zip(like, pairs, strict=True)
    )


def _consolidate_few(columns: Sequence[Column], weights: Int64Array) -> tuple[Columns, Int64Array]:
    """Consolidate at most one row, or rows without columns, which are all equal."""
    total = sum(weights.tolist())
    if not columns:
        return (), np.array([total] if total else [], np.int64)
    if total or not len(weights):
        return tuple(column.unshared() for column in columns), weights
    return tuple(column.gather(slice(0)) for column in columns), weights[:0]


def _largest(weights: Any, backend: Backend | None) -> int:
    """Return the largest magnitude of a weight, 0 without any."""
    if not len(weights):
        return 0
    ends = weights.min(), weights.max()
    low, high = numbers(backend, *ends) if backend is not None and weights.dtype != object else map(int, ends)
    return max(high, -low)


def _without_overflow(columns: Sequence[Column], weights: Int64Array) -> Int64Array:
    """Return the weights modulo 2^64; raise if the exact sum of a row leaves int64.

    Halves of weights are added separately.
    """
    kernels, keys = select_backend("cpu").kernels, code_keys(columns)
    order = kernels.lexsort(keys) if keys else np.arange(len(weights))
    starts = kernels.run_starts([key[order] for key in keys]) if keys else np.zeros(1, np.int64)
    lows = np.add.reduceat(weights[order] & _LOW_HALF, starts)
    highs = np.add.reduceat(weights[order] >> 32, starts) + (lows >> 32)
    beyond = np.flatnonzero((highs < -(2**31)) | (highs >= 2**31))
    if len(beyond):
        first = int(beyond[0])
        exact = (int(highs[first]) << 32) + (int(lows[first]) & _LOW_HALF)
        raise WeightOverflowError(None, _row(columns, int(order[starts[first]])), exact)
    return weights if weights.dtype != object else (weights & (1 << 64) - 1).astype(np.uint64).view(np.int64)


def _row(columns: Sequence[Column], row_index: int) -> tuple[Any, ...]:
    return tuple(python_values(column.gather(slice(row_index, row_index + 1)))[0] for column in columns)


def in_order(zset: ZSet, keys: Sequence[tuple[int, bool, bool]], n_shown: int) -> ZSet:
    """Return the shown columns with the rows sorted by some columns, then by the shown ones.

    Equal rows may stand apart, so the result is for exports.

    Parameters
    ----------
    keys
        Per key a column, whether it descends, and whether its nulls come first.
    n_shown
        Number of columns that are returned, from the first on.
    """
    zset = zset.to_host()
    shown = [(place, False, False) for place in range(n_shown)]
    columns_of_keys = [(zset.columns[place], descends, first) for place, descends, first in (*keys, *shown)]
    reserve(8 * len(zset) * (len(keys) + 2 * n_shown + 1), "sorting", len(zset))
    order = sort_order(columns_of_keys, len(zset))
    columns = tuple(column.gather(order) for column in zset.columns[:n_shown])
    return ZSet(zset.names[:n_shown], columns, zset.weights[order], zset.weight_name)


def sort_order(keys: Sequence[tuple[Column, bool, bool]], n_rows: int) -> Int64Array:
    """Return the stable permutation that sorts rows by columns.

    Parameters
    ----------
    keys
        Per key a column, whether it descends, and whether its nulls come first.
    """
    arrays = [
        key
        for column, is_descending, nulls_first in keys
        for key in sort_keys(to_host(column), is_descending, nulls_first)
    ]
    return np.lexsort(arrays[::-1]) if arrays else np.arange(n_rows)


def sort_keys(
    column: Column, is_descending: bool = False, nulls_first: bool = False, backend: Backend | None = None
) -> list[Int64Array]:
    """Return the arrays that sort rows by the column's values.

    A column of a device needs its backend.
    """
    codes, xp = column.stored, np if backend is None else backend.xp
    if column.dictionary is not None:
        ranks = column.dictionary.rank()
        codes = (ranks if backend is None else backend.asarray(ranks))[codes]
    valid = column.stored_valid
    if valid is not None:
        codes = xp.where(valid, codes, 0)
    nulls = [] if valid is None else [(valid if nulls_first else ~valid).astype(np.int64)]
    return [*nulls, ~codes if is_descending else codes]


OBJECT_BYTES = 50
"""Bytes of an integer as an object of Python with its place in a tuple, and of a tuple, by the growth of a process."""


def python_values(column: Column) -> list[Any]:
    """Return the values as Python objects; PyArrow is not loaded for integers."""
    if column.valid is None and column.type.family == "integer":
        values: list[Any] = column.codes.tolist()
        return values
    from gpu_wcoj.arrow import to_python

    return to_python(column)


def row_tuples(zset: ZSet) -> list[Row]:
    """Return the rows as tuples of Python values, without their weights."""
    reserve(OBJECT_BYTES * len(zset) * (len(zset.columns) + 1), "Python objects of", len(zset))
    values = [python_values(column) for column in zset.columns]
    return list(zip(*values, strict=True)) if values else [()] * len(zset)


def weight_of(zset: ZSet, row: tuple[Any, ...]) -> int:
    """Return the weight of a row, 0 if absent. O(n).

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> weight_of(ZSet.from_rows([((1, "a"), 3)]), (1, "a")), weight_of(ZSet.from_rows([(1,)]), (1, "a"))
    (3, 0)
    """
    zset = zset.to_host()
    if len(row) != len(zset.columns):
        return 0
    mask: BoolArray = np.ones(len(zset), np.bool_)
    for column, value in zip(zset.columns, row, strict=True):
        if column.type.family == "integer" and type(value) is int and _LOWEST <= value <= _HIGHEST:
            mask &= column.codes == value
    equal_rows = [(present_row, weight) for present_row, weight in take_rows(zset, mask).rows() if present_row == row]
    same = (weight for present_row, weight in equal_rows if repr(present_row) == repr(row))  # Python's 0.0 equals -0.0
    return next(same, equal_rows[0][1] if equal_rows else 0)


def plus(left: ZSet, right: ZSet, binary: Dictionary | None = None) -> ZSet:
    """``(left + right)(row) = left(row) + right(row)``, with the names of `left`.

    Numbers that become wide are entries of `binary`, or of a new dictionary.
    """
    for one, other in ((right, left), (left, right)):
        if not one.columns and not len(one):
            return ZSet(other.names, other.columns, other.stored_weights, left.weight_name, other.backend)
    check_arity(left.names, right.names)
    if is_turned(left.names, right.names):
        right = select_columns(right, [right.names.index(name) for name in left.names])
    if not len(left) or not len(right):
        full = left if len(left) else right
        if all(a.type == b.type for a, b in zip(left.columns, right.columns, strict=True)):
            return ZSet(left.names, full.columns, full.stored_weights, left.weight_name, full.backend)
    return _added(left, right, binary)


def minus(left: ZSet, right: ZSet, binary: Dictionary | None = None) -> ZSet:
    """``(left - right)(row) = left(row) - right(row)``; otherwise as `plus`."""
    weights, xp = right.stored_weights, np if right.backend is None else right.backend.xp
    if not _has_lowest(right):
        return plus(left, ZSet(right.names, right.columns, -weights, right.weight_name, right.backend), binary)
    # 2^63 does not fit int64, but a sum with it may: add it in two rows
    lowest = xp.flatnonzero(weights == _LOWEST)
    twice = tuple(column.stack(column.gather(lowest), xp) for column in right.columns)
    weights = xp.concatenate([-xp.where(weights == _LOWEST, _LOWEST + 1, weights), xp.ones(len(lowest), np.int64)])
    if not left.columns and not len(left):
        left = take_rows(
            ZSet(right.names, right.columns, right.stored_weights, left.weight_name, right.backend), slice(0)
        )
    check_arity(left.names, right.names)
    if is_turned(left.names, right.names):
        twice = tuple(twice[right.names.index(name)] for name in left.names)
    return _added(left, ZSet(left.names, twice, weights, right.weight_name, right.backend), binary)


def _has_lowest(zset: ZSet) -> bool:
    return bool(len(zset)) and bool((zset.stored_weights == _LOWEST).any())


def _added(left: ZSet, right: ZSet, binary: Dictionary | None) -> ZSet:
    """Return the sum of two Z-sets with the same columns; rows of `right` may repeat."""
    left, right, backend = _in_one_memory(left, right)
    xp = np if backend is None else backend.xp
    columns = [a.stack(b, xp) for a, b in _aligned(left, right, backend, binary)]
    weights = xp.concatenate([left.stored_weights, right.stored_weights])
    return consolidated(left.names, columns, weights, left.weight_name, backend)


def _in_one_memory(left: ZSet, right: ZSet) -> tuple[ZSet, ZSet, Backend | None]:
    """Return both Z-sets on the device that holds them, with its backend, or else on the host."""
    if left.backend is right.backend:
        return left, right, left.backend
    return left.to_host(), right.to_host(), None


def consolidated(
    names: tuple[str, ...], columns: Sequence[Column], weights: Any, weight_name: str | None, backend: Backend | None
) -> ZSet:
    """Return the Z-set of any rows, in the memory of the backend if they have columns."""
    return ZSet(names, *consolidate(columns, weights, backend), weight_name, backend if columns else None)


def check_arity(left: Sequence[str], right: Sequence[str]) -> None:
    """Raise if Z-sets that are to be added differ in their number of columns."""
    if len(left) != len(right):
        raise ArityError.mismatch(
            "the right Z-set",
            "has the wrong number of columns",
            f"{len(right)} ({', '.join(right)})",
            f"{len(left)} ({', '.join(left)})",
        )


def is_turned(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether two Z-sets have the same names of columns in different orders.

    Examples
    --------
    >>> is_turned(["a", "b"], ["b", "a"]), is_turned(["a", "b"], ["a", "b"]), is_turned(["a", "b"], ["x", "y"])
    (True, False, False)
    """
    return list(left) != list(right) and sorted(left) == sorted(right)


def _aligned(
    left: ZSet, right: ZSet, backend: Backend | None, binary: Dictionary | None = None
) -> list[tuple[Column, Column]]:
    """Return the columns of both sides in pairs of one type, dictionary and memory."""
    pairs = []
    for name, left_column, right_column in zip(left.names, left.columns, right.columns, strict=True):
        try:
            kind = left_column.type.common(right_column.type)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"column '{name}': {error}") from None
        left_column, right_column = left_column.as_type(kind, binary), right_column.as_type(kind, binary)
        if left_column.dictionary is not right_column.dictionary and left_column.dictionary is not None:
            # Use a new dictionary: those of the operands may be a program's, which only the program extends.
            fresh = left_column.dictionary.fresh()
            left_column, right_column = left_column.recode(fresh), right_column.recode(fresh)
        if backend is not None:
            left_column, right_column = moved(left_column, backend), moved(right_column, backend)
        pairs.append((left_column, right_column))
    return pairs


def equal(left: ZSet, right: ZSet) -> bool:
    """Return whether both have equal rows and weights; names and integer widths may differ."""
    if len(left) != len(right) or not len(left):
        return len(left) == len(right)
    kinds = [[column.type.family for column in side.columns] for side in (left, right)]
    if kinds[0] != kinds[1]:
        return False
    left, right, backend = _in_one_memory(left, right)
    try:
        pairs = _aligned(left, right, backend)
    except TypeMismatchError:  # decimals whose common type would have more than 18 digits
        return left.to_dict() == right.to_dict()
    sides: list[tuple[Sequence[Column], Int64Array]] = []
    for side, columns in ((left, [pair[0] for pair in pairs]), (right, [pair[1] for pair in pairs])):
        recoded = any(a.dictionary is not b.dictionary for a, b in zip(columns, side.columns, strict=True))
        weights = side.stored_weights
        sides.append(consolidate(columns, weights, backend) if recoded else (columns, weights))
    masks = [[column.stored_valid is None for column in columns] for columns, _ in sides]
    if masks[0] != masks[1]:
        return False
    xp = np if backend is None else backend.xp
    arrays = [[weights, *code_keys(columns, xp)] for columns, weights in sides]
    return not any(numbers(backend or select_backend("cpu"), *((a != b).any() for a, b in zip(*arrays, strict=True))))


def negate(zset: ZSet) -> ZSet:
    """``(-zset)(row) = -zset(row)``; a weight of -2^63 raises an error."""
    return scale(zset, -1)


def scale(zset: ZSet, factor: int | np.integer[Any]) -> ZSet:
    """``(factor * zset)(row) = factor * zset(row)``."""
    if isinstance(factor, (bool, np.timedelta64)) or not isinstance(factor, (int, np.integer)):
        raise UsageError.wrong_type("factor", factor, "an integer")
    factor = int(factor)
    if factor == 0:
        return take_rows(zset, slice(0))
    weights = zset.stored_weights
    if _largest(weights, zset.backend) * abs(factor) > _HIGHEST:
        for row_index, weight in enumerate(zset.weights.tolist()):
            if not _LOWEST <= weight * factor <= _HIGHEST:
                raise WeightOverflowError(None, _row(zset.columns, row_index), weight * factor)
    if _LOWEST <= factor <= _HIGHEST:
        weights = weights * np.int64(factor)
    else:  # 2^63 times -1
        weights = -weights * _LOWEST
    return ZSet(zset.names, zset.columns, weights, zset.weight_name, zset.backend)


def distinct(zset: ZSet) -> ZSet:
    """Return the rows of positive weight, each with weight 1."""
    return unit(select_rows(zset, zset.stored_weights > 0))


def unit(zset: ZSet) -> ZSet:
    """Return the same rows, each with weight 1."""
    xp = np if zset.backend is None else zset.backend.xp
    return ZSet(zset.names, zset.columns, xp.ones(len(zset), np.int64), zset.weight_name, zset.backend)


def filter_rows(zset: ZSet, condition: BoolArray | Callable[..., Any]) -> ZSet:
    """Return the rows for which a mask is True."""
    if callable(condition):
        from gpu_wcoj.arrow import to_numpy

        condition = condition(*map(to_numpy, zset.columns))
    return take_rows(zset, as_mask(condition, len(zset)))


def as_mask(condition: Any, n_rows: int) -> BoolArray:
    """Return what a condition returned as a mask of the rows; a null counts as False."""
    mask: BoolArray = np.ma.filled(condition, False) if is_masked_array(condition) else np.asarray(condition)
    if mask.shape != (n_rows,) or mask.dtype != bool:
        raise UsageError.mismatch(
            "the filter",
            "has the wrong shape or type",
            f"{mask.dtype} of shape {mask.shape}",
            f"a boolean mask of shape {(n_rows,)}",
            "Return one boolean per row; a function gets one array per column.",
        )
    return mask


def map_rows(
    zset: ZSet,
    to: Sequence[str | int] | Callable[[tuple[Any, ...]], tuple[Any, ...]],
    names: Sequence[str] | None = None,
) -> ZSet:
    """Map every row to a row; the weights of equal results add."""
    if not callable(to):
        if isinstance(to, str):
            raise UsageError.wrong_type("to", to, "a list of columns", f"Write [{to!r}].")
        return select_columns(zset, [column_position(zset.names, column) for column in to], names)
    pairs = []
    for row, weight in zset.rows():
        mapped = to(row)
        if not isinstance(mapped, tuple):
            raise TypeMismatchError.wrong_type(f"the result of the function for the row {row!r}", mapped, "a tuple")
        pairs.append((mapped, weight))
    return type(zset).from_rows(pairs, names)


def column_position(names: Sequence[str], column: str | int, table: str = "the Z-set") -> int:
    """Return the position of a column given by name or position."""
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int) and not isinstance(column, bool) and -len(names) <= column < len(names):
        return column % len(names)
    raise ColumnError(None, str(column), names, table=table)


def column_positions(names: Sequence[str], columns: Sequence[str | int], table: str = "the Z-set") -> list[int]:
    """Return the positions of distinct columns."""
    found = [column_position(names, column, table) for column in columns]
    if len(set(found)) < len(found):
        twice = next(position for position in found if found.count(position) > 1)
        raise SchemaError.duplicate("column", names[twice], remedy="Name each column once.")
    return found


def select_columns(zset: ZSet, places: Sequence[int], names: Sequence[str] | None = None) -> ZSet:
    """Return these columns, under other names if there are any; the weights of equal rows add."""
    chosen = tuple(zset.names[place] for place in places) if names is None else tuple(names)
    if len(chosen) != len(places):
        raise ArityError.mismatch("names", "have the wrong length", len(chosen), len(places))
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise SchemaError.duplicate("column", twice, f"in {', '.join(chosen)}", "Rename one of them.")
    if list(places) == list(range(len(zset.columns))):
        return ZSet(chosen, zset.columns, zset.stored_weights, zset.weight_name, zset.backend)
    weights = zset.stored_weights if places else zset.weights
    columns = [zset.columns[place] for place in places]
    return consolidated(chosen, columns, weights, zset.weight_name, zset.backend if places else None)


def select_rows(zset: ZSet, mask: BoolArray) -> ZSet:
    """Return the rows that a mask selects; the Z-set itself if these are all."""
    rows = np.flatnonzero(mask) if zset.backend is None else positions(zset.backend, mask)[0]
    return zset if len(rows) == len(zset) else take_rows(zset, rows)


def take_rows(zset: ZSet, rows: Any) -> ZSet:
    """Return the rows at ascending positions, under a mask, or in a slice.

    They are on the host if the positions or the mask are there.
    """
    columns = tuple(column.gather(rows) for column in zset.columns)
    on_host = isinstance(rows, np.ndarray)
    weights = (zset.weights if on_host else zset.stored_weights)[rows]
    return ZSet(zset.names, columns, weights, zset.weight_name, None if on_host else zset.backend)


@dataclass(frozen=True, eq=False, repr=False, init=False)
@entry_point
class ZSet:
    """Rows with non-zero int64 weights: the content of a relation, or its change in one tick.

    Create one with `from_rows`, `from_dict`, `from_arrow`, `from_numpy`, `from_device` or `from_columns`; the
    constructor assumes that the rows are consolidated.

    The columns and the weights are all in host memory, or all on a device. Attributes that are NumPy arrays are copied
    from the device at the first access; every method accepts both kinds of Z-sets.

    Attributes
    ----------
    names
        The distinct column names.
    columns
        The columns, in the order of the names. The rows are distinct and sorted by code, nulls first.
    stored_weights
        int64, shape (n,), never 0; in host or device memory.
    weights
        The same as a NumPy array.
    weight_name
        Name of the weights in exports; None leaves them out. If a column has that name already, underscores are
        prepended.
    backend
        The backend of the device that holds the columns and the weights; None for host memory.

    Examples
    --------
    >>> ZSet.from_rows([(2, 3), ((1, 2), 2), ((1, 2), -1)], names=["src", "dst"])
    ZSet: 2 rows, 2 columns
    ┌─────┬─────┬────────┐
    │ src │ dst │ weight │
    │ int │ int │    int │
    ╞═════╪═════╪════════╡
    │   1 │   2 │      1 │
    │   2 │   3 │      1 │
    └─────┴─────┴────────┘
    """

    _made_by: ClassVar[str] = "gpu_wcoj.ZSet.from_rows"

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    stored_weights: Any
    weight_name: str | None
    backend: Backend | None

    def __init__(
        self,
        names: tuple[str, ...],
        columns: tuple[Column, ...],
        weights: Any,
        weight_name: str | None = "weight",
        backend: Backend | None = None,
    ) -> None:
        attributes = vars(self)
        attributes["names"] = names
        attributes["columns"] = columns
        attributes["stored_weights"] = read_only(weights)
        attributes["weight_name"] = weight_name
        attributes["backend"] = backend
        if isinstance(weights, np.ndarray):
            attributes["weights"] = weights

    @cached_property
    def weights(self) -> Int64Array:
        """The weights as a NumPy array."""
        return read_only(on_host(self.stored_weights))  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return ZSet, (self.names, self.columns, self.weights, self.weight_name)

    # in

    @staticmethod
    def from_rows(rows: Iterable[Any], names: Iterable[str] | None = None) -> ZSet:
        """Create a Z-set from tuples of weight 1, or from pairs ``(tuple, weight)``.

        Values are int, float, str, bytes, bool, date, datetime, Decimal or None, of one type per column. The default
        column names are c0, c1, ...

        Raises
        ------
        ArityError, TypeMismatchError, UnsupportedTypeError, WeightError
            If rows differ in length, a column mixes types, or a value or weight is not supported.

        Examples
        --------
        >>> ZSet.from_rows([("a", 1), ("b", None), (("a", 1), -1)]).to_dict()
        {('b', None): 1}
        """
        plain, weights = split_weights(rows)
        values = columns_of(plain)
        if names is not None and not isinstance(names, str):
            names = tuple(names)
        if not plain:
            values = [np.empty(0, np.int64) for _ in names or ()]
        if all(isinstance(column, np.ndarray) and column.dtype == np.int64 for column in values):
            columns = [Column.of_integers(np.asarray(column)) for column in values]
        else:
            from gpu_wcoj.arrow import as_table

            _, columns = as_table(dict(zip(_numbered(len(values)), values, strict=True)), "the rows")
        signed = as_weights([1] * len(plain) if weights is None else weights)
        return ZSet.from_columns(_numbered(len(columns)) if names is None else names, columns, signed)

    @staticmethod
    def from_dict(weights: Mapping[Row, int], names: Sequence[str] | None = None) -> ZSet:
        """Create a Z-set from a dict ``{row: weight}``.

        Examples
        --------
        >>> len(ZSet.from_dict({(1, 2): 1, (2, 3): -1, (5, 5): 0}))
        2
        """
        for row in weights:
            if not isinstance(row, tuple):
                raise SchemaError.wrong_type(
                    "the key of from_dict", row, "a tuple, the row", "Pass a dict of columns to ZSet.from_arrow."
                )
        return ZSet.from_rows(weights.items(), names)

    @staticmethod
    def from_columns(
        names: Iterable[str],
        columns: Sequence[Column],
        weights: Any = None,
        weight_name: str | None = "weight",
        backend: Backend | None = None,
    ) -> ZSet:
        """Create a Z-set from columns in the engine's form; weights are 1 if None.

        Columns and weights of a device are consolidated there by the kernels of `backend`; without a backend they are
        copied to the host.

        Raises
        ------
        SchemaError
            If two names are equal.
        ArityError
            If numbers of names, columns, rows or weights differ.
        WeightOverflowError
            If the exact weight of a row leaves int64.
        """
        listed = tuple(names)
        if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
            raise SchemaError.wrong_type("names", names, "a list of texts")
        names = listed
        check_names(names, "the Z-set")
        if len(names) != len(columns):
            raise ArityError.mismatch(
                "the Z-set", "has the wrong number of names", f"{len(names)} ({', '.join(names)})", len(columns)
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SchemaError.duplicate("column", twice, "in the Z-set", "Rename one of them.")
        on_device = backend is not None and backend.device is not None and bool(columns)
        counted = "rows" if weights is None else "weights"
        if weights is None:
            xp = backend.xp if backend is not None and on_device else np
            weights = xp.ones(len(columns[0]) if columns else 0, np.int64)
        elif not on_device:
            weights = as_weights(on_host(weights) if hasattr(weights, "__cuda_array_interface__") else weights)
        for name, column in zip(names, columns, strict=True):
            if len(column) != len(weights):
                raise ArityError.mismatch(
                    f"column '{name}'",
                    "has the wrong number of values",
                    len(column),
                    f"{len(weights)}, the number of {counted}",
                )
        return consolidated(names, columns, weights, weight_name, backend if on_device else None)

    from_arrow = staticmethod(from_arrow)
    from_numpy = staticmethod(from_numpy)
    from_device = from_dlpack = staticmethod(from_device)
    from_cudf = staticmethod(from_cudf)
    read_parquet = staticmethod(read_parquet)

    @staticmethod
    def empty(names: Sequence[str] = (), types: Sequence[DataType | str] | None = None) -> ZSet:
        """Create a Z-set without rows; columns are int64 if no types are given.

        Examples
        --------
        >>> ZSet.empty(["a", "b"], ["int64", "string"]).to_arrow().schema.names
        ['a', 'b', 'weight']
        """
        kinds = [INT64] * len(names) if types is None else [_as_type(kind) for kind in types]
        dictionaries: dict[str, Dictionary] = {}
        if any(kind.has_dictionary for kind in kinds):
            dictionaries = {"string": Dictionary("string"), "binary": Dictionary("binary")}
        columns = [Column(kind, np.empty(0, np.int64), None, dictionaries.get(kind.dictionary)) for kind in kinds]
        return ZSet.from_columns(names, columns)

    # out

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return arrow_stream(self.to_arrow(), requested_schema)

    to_arrow = to_arrow
    to_pandas = to_pandas
    to_polars = to_polars
    to_numpy = to_numpy
    to_cupy = to_cupy
    to_cudf = to_cudf

    def to_host(self) -> ZSet:
        """Return the Z-set in host memory; itself if it is there already."""
        if self.backend is None:
            return self
        columns = tuple(Column(c.type, c.codes, c.valid, c.dictionary) for c in self.columns)
        return ZSet(self.names, columns, self.weights, self.weight_name)

    def with_weight_name(self, name: str | None) -> ZSet:
        """Return the Z-set with output name `name` for its weights; None leaves them out."""
        return ZSet(self.names, self.columns, self.stored_weights, name, self.backend)

    def rows(self) -> list[tuple[Row, int]]:
        """Return the sorted rows as pairs ``(tuple, weight)``; iteration gives the same.

        Libraries that read iterables would make columns of such pairs; `to_pandas` and `to_numpy` return the columns.

        Examples
        --------
        >>> ZSet.from_rows([(2, 3), (1, 2)]).rows()
        [((1, 2), 1), ((2, 3), 1)]
        """
        return list(zip(row_tuples(self), self.weights.tolist(), strict=True))

    def to_dict(self) -> dict[Row, int]:
        """Return the Z-set as ``{row: weight}``.

        Rows that are equal in Python, as 0.0 and -0.0, are added.
        """
        for name, column in zip(self.names, self.columns, strict=True):
            if column.type.family == "nested":
                raise UnsupportedTypeError.unsupported(
                    f"column '{name}' of type '{column.type.label}' in a key of a dict", remedy="Use rows()."
                )
        rows = self.rows()
        weights_by_row = dict(rows)
        if len(weights_by_row) < len(rows):
            weights_by_row = dict.fromkeys(weights_by_row, 0)
            for row, weight in rows:
                weights_by_row[row] += weight
        return weights_by_row

    def encoded_for(self, string: Dictionary, binary: Dictionary) -> tuple[Column, ...]:
        """Return the columns with texts and bytes as codes of these dictionaries.

        Missing values are added to the dictionaries.

        The rows stay in their order, so they may no longer be sorted by code.
        """
        targets = [string if column.type.dictionary == "string" else binary for column in self.columns]
        pairs = zip(self.columns, targets, strict=True)
        if self.backend is not None:
            return tuple(recoded(column, target, self.backend) for column, target in pairs)
        return tuple(column.recode(target) for column, target in pairs)

    @property
    def shown_weight_name(self) -> str | None:
        """Output name of the weights, or None if they are left out."""
        name = self.weight_name
        if name is None:
            return None if self.columns else "weight"
        while name in self.names:
            name = "_" + name
        return name

    def __len__(self) -> int:
        return len(self.stored_weights)

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        return iter(self.rows())

    def __contains__(self, item: object) -> bool:
        """Return whether a row has a weight, or, for a pair ``(row, weight)``, this weight.

        Examples
        --------
        >>> changes = ZSet.from_rows([(1, "a"), ((2, "b"), -1)])
        >>> (1, "a") in changes, (2, "b") in changes, (3, "c") in changes
        (True, True, False)
        >>> ((2, "b"), -1) in changes, ((2, "b"), 1) in changes
        (True, False)
        """
        if not isinstance(item, tuple):
            return False
        is_pair = len(item) == 2 and isinstance(item[0], tuple)  # no value is a tuple
        row, weight = item if is_pair else (item, None)
        found = weight_of(self, row)
        return found != 0 and (weight is None or bool(found == weight))

    def __repr__(self) -> str:
        return box(self)

    def _repr_html_(self) -> str:
        return html(self)

    # algebra

    __hash__ = None  # type: ignore[assignment]  # a Z-set is equal by what it holds, which takes long to hash

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal rows and weights, regardless of names and integer widths."""
        return equal(self, other) if isinstance(other, ZSet) else NotImplemented

    def plus(self, other: ZSet) -> ZSet:
        """``(self + other)(row) = self(row) + other(row)``, with the names of `self`.

        Columns are matched by position, as in SQL's UNION; if both sides have the same names in another order, by name.

        Raises
        ------
        ArityError, TypeMismatchError
            If the columns do not fit. A Z-set without rows and columns fits every Z-set.
        WeightOverflowError
            If the exact weight of a row leaves int64.

        Examples
        --------
        >>> from gpu_wcoj import ZSet
        >>> ZSet.from_rows([(1,), (2,)]).plus(ZSet.from_rows([((1,), -1)])).rows()
        [((2,), 1)]
        >>> ZSet.from_arrow({"a": [1], "b": [2]}).plus(ZSet.from_arrow({"b": [4], "a": [3]})).rows()
        [((1, 2), 1), ((3, 4), 1)]
        """
        return plus(self, other)

    def minus(self, other: ZSet) -> ZSet:
        """``(self - other)(row) = self(row) - other(row)``, with the names of `self`.

        Errors as in `plus`.

        Examples
        --------
        >>> from gpu_wcoj import ZSet
        >>> ZSet.from_rows([(1,), (2,)]).minus(ZSet.from_rows([(1,), (3,)])).rows()
        [((2,), 1), ((3,), -1)]
        """
        return minus(self, other)

    def negate(self) -> ZSet:
        """``(-self)(row) = -self(row)``; a weight of -2^63 raises an error.

        Examples
        --------
        >>> from gpu_wcoj import ZSet
        >>> ZSet.from_rows([(1, 2)]).negate().rows()
        [((1, 2), -1)]
        """
        return scale(self, -1)

    def scale(self, factor: int) -> ZSet:
        """``(factor * self)(row) = factor * self(row)``.

        Raises
        ------
        UsageError
            If the factor is not an integer.
        WeightOverflowError
            If a weight leaves int64.

        Examples
        --------
        >>> from gpu_wcoj import ZSet
        >>> ZSet.from_rows([(1,), ((2,), -2)]).scale(3).rows()
        [((1,), 3), ((2,), -6)]
        """
        return scale(self, factor)

    def distinct(self) -> ZSet:
        """Return the rows of positive weight, each with weight 1.

        Examples
        --------
        >>> from gpu_wcoj import ZSet
        >>> ZSet.from_rows([((1,), 3), ((2,), -2)]).distinct().rows()
        [((1,), 1)]
        """
        return distinct(self)

    def filter(self, condition: BoolArray | Callable[..., Any]) -> ZSet:
        """Return the rows for which a mask is True.

        Parameters
        ----------
        condition
            A mask of shape (n,), or a function that returns one: it is called once, with one array per column as in
            `ZSet.to_numpy`. A null in the mask counts as False.

        Raises
        ------
        UsageError
            If the mask is not boolean, or not as long as the Z-set.

        Examples
        --------
        >>> from gpu_wcoj import ZSet
        >>> ZSet.from_rows([(1, 2), (3, 2)]).filter(lambda a, b: a < b).rows()
        [((1, 2), 1)]
        """
        return filter_rows(self, condition)

    def map(self, to: Sequence[str | int] | Callable[[Row], Row], names: Sequence[str] | None = None) -> ZSet:
        """Map every row to a row; the weights of equal results add.

        Parameters
        ----------
        to
            Names or positions of the columns to keep, in their new order; or a function from row to row, which is
            called for each row. Types are then those of the Python values that it returns.
        names
            Names of the new columns; by default the present names, or c0, c1, ... for a function. For a Z-set without
            rows, a function makes only these columns, of int64.

        Raises
        ------
        ColumnError
            If a column does not exist.
        TypeMismatchError
            If a function returns something other than a tuple.

        Examples
        --------
        >>> from gpu_wcoj import ZSet
        >>> edges = ZSet.from_rows([("a", 1), ("b", 1)], names=["name", "group"])
        >>> edges.map(["group"]).rows()
        [((1,), 2)]
        >>> edges.map(lambda row: (row[1] + 1, row[0])).rows()
        [((2, 'a'), 1), ((2, 'b'), 1)]
        """
        return map_rows(self, to, names)

    def __add__(self, other: object) -> ZSet:
        return plus(self, other) if isinstance(other, ZSet) else NotImplemented

    def __sub__(self, other: object) -> ZSet:
        return minus(self, other) if isinstance(other, ZSet) else NotImplemented

    def __neg__(self) -> ZSet:
        return scale(self, -1)

    def __mul__(self, factor: object) -> ZSet:
        return scale(self, factor) if isinstance(factor, (int, np.integer)) else NotImplemented

    __rmul__ = __mul__


def _numbered(count: int) -> list[str]:
    return [f"c{i}" for i in range(count)]


def _as_type(kind: DataType | str) -> DataType:
    found = DataType(kind) if isinstance(kind, str) else kind
    assert found.family
    return found


# Z-sets on a device: zero-copy import of arrays, consolidation by its kernels, and export.
#
# Input arrays have ``__cuda_array_interface__`` or ``__dlpack__``, as arrays of CuPy, PyTorch and Numba do. NumPy
# arrays are copied.


_HOST_MEMORY, _DEVICE_MEMORY = (1, 3), (2, 13)
"""DLPack device types of memory that the host reads (CPU, pinned) and of CUDA memory (device, managed)."""


def columns_of_arrays(data: Any, names: Sequence[str] | None, backend: Backend) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns of a dict or list of 1-d arrays, or of one 1-d or 2-d array.

    Raises
    ------
    TypeMismatchError, UnsupportedTypeError, SchemaError
        If an array has another shape or type, or its values are not supported.
    """
    if isinstance(data, Mapping):
        labels = tuple(map(str, data))
        arrays = [adopted(values, backend, f"column '{name}'") for name, values in data.items()]
    elif isinstance(data, (list, tuple)):
        labels = tuple(f"c{i}" for i in range(len(data)))
        arrays = [adopted(values, backend, f"column {i}") for i, values in enumerate(data)]
    else:
        matrix = adopted(data, backend, "the data")
        if matrix.ndim not in (1, 2):
            raise SchemaError.mismatch(
                "the data", "has the wrong shape", matrix.shape, "one or two dimensions", "Reshape it."
            )
        arrays = [matrix] if matrix.ndim == 1 else [matrix[:, i] for i in range(matrix.shape[1])]
        labels = tuple(f"c{i}" for i in range(len(arrays)))
    columns = [column_of(array, backend, f"column '{label}'") for label, array in zip(labels, arrays, strict=True)]
    return labels if names is None else tuple(names), columns


def adopted(values: Any, backend: Backend, what: str) -> Any:
    """Return the values as an array of the backend; device memory is shared, host memory copied."""
    try:
        if isinstance(values, np.ndarray):
            if is_masked_array(values):
                raise UnsupportedTypeError(f"{what} is a masked array.\n  Fill it, or drop the masked rows, first.")
            copies = None if backend.device is not None else True
            return backend.asarray(np.array(values, values.dtype.newbyteorder("="), copy=copies, subok=False))
        interface = getattr(values, "__cuda_array_interface__", None)
        if interface is not None:
            if interface.get("mask") is not None:
                raise UnsupportedTypeError(f"{what} is a masked array.\n  Fill it, or drop the masked rows, first.")
            return backend.asarray(values)
        if hasattr(values, "__dlpack__"):
            memory = int(values.__dlpack_device__()[0])
            if memory in _HOST_MEMORY:
                return adopted(np.from_dlpack(values), backend, what)
            if memory in _DEVICE_MEMORY and backend.device is not None:
                return backend.asarray(backend.xp.from_dlpack(values))
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, UnsupportedTypeError):
            raise
        raise UnsupportedTypeError(f"{what} cannot be read as an array: {error}.") from error
    raise TypeMismatchError(
        f"{what} has the wrong type: got '{type(values).__module__}.{type(values).__qualname__}', expected a device"
        " array.\n"
        "  Pass arrays with __cuda_array_interface__ or __dlpack__ (CuPy, PyTorch, Numba), or NumPy arrays."
    )


def column_of(array: Any, backend: Backend, what: str) -> Column:
    """Return a 1-d array of the backend as a column; contiguous int64 is not copied."""
    if array.ndim != 1:
        raise SchemaError.mismatch(
            what, "has the wrong shape", array.shape, "one dimension", "Pass an array per column."
        )
    kind, width = array.dtype.kind, array.dtype.itemsize
    array = backend.xp.ascontiguousarray(array)
    if kind == "f" and width in (4, 8):
        return Column(DataType("float" if width == 4 else "double"), float_codes(array, backend.xp))
    if kind not in "iub":
        raise UnsupportedTypeError.mismatch(
            what,
            "has the wrong type",
            f"an array of type '{array.dtype}'",
            "integers, bool, float32 or float64",
            "Cast it, or pass dates and times as integers.",
        )
    if array.dtype == np.uint64:
        signed = array.view(np.int64)
        if len(signed) and (lowest := int(signed.min())) < 0:
            raise UnsupportedTypeError(
                f"{what}: the value {lowest + 2**64} is above 2^63-1, the largest supported integer.\n"
                "  Map it to a smaller number."
            )
        return Column(DataType("uint64"), signed)
    codes = array if array.dtype == np.int64 else array.astype(np.int64)
    return Column(DataType("bool" if kind == "b" else str(array.dtype)), codes)


def weights_of(values: Any, backend: Backend) -> Any:
    """Return weights as an int64 array of the backend."""
    if isinstance(values, (list, tuple)):
        values = as_weights(values)
    array = adopted(values, backend, "the weights")
    if array.dtype.kind not in "iu":
        raise WeightError.mismatch(
            "the weights", "have the wrong type", f"an array of type '{array.dtype}'", "integers from -2^63 to 2^63-1"
        )
    return column_of(array, backend, "the weights").stored


def without_shared_memory(
    columns: Sequence[Column], weights: Any, caller_arrays: Sequence[Any]
) -> tuple[list[Column], Any]:
    """Copy the columns and weights whose memory belongs to arrays of the caller."""
    addresses = {array.data.ptr for array in caller_arrays}
    owned = [
        Column(c.type, c.stored.copy(), c.stored_valid, c.dictionary) if c.stored.data.ptr in addresses else c
        for c in columns
    ]
    return owned, weights.copy() if weights.data.ptr in addresses else weights


def moved(column: Column, backend: Backend) -> Column:
    """Return the column in the memory of the backend."""
    stored = backend.asarray(column.stored)
    valid = None if column.stored_valid is None else backend.asarray(column.stored_valid)
    return column if stored is column.stored else Column(column.type, stored, valid, column.dictionary)


def to_host(column: Column) -> Column:
    """Return the column in host memory."""
    return column if column.is_on_host else Column(column.type, column.codes, column.valid, column.dictionary)


def recoded(column: Column, dictionary: Dictionary, backend: Backend) -> Column:
    """Recode as `Column.recoded` on the device.

    Only distinct codes in use pass through the host.
    """
    if column.dictionary is None or column.dictionary is dictionary:
        return column
    xp, device = backend.xp, backend.device
    assert device is not None
    in_use = xp.zeros(len(column.dictionary), np.int64)
    codes_shown = column.stored if column.stored_valid is None else column.stored[column.stored_valid]
    in_use[codes_shown] = 1
    used = xp.flatnonzero(in_use)
    table = xp.zeros(max(1, len(column.dictionary)), np.int64)
    table[used] = backend.asarray(dictionary.recode(column.dictionary, device.to_host(used).astype(np.int64)))
    codes = table[column.stored]
    if column.stored_valid is not None:
        codes = xp.where(column.stored_valid, codes, 0)
    return Column(column.type, codes, column.stored_valid, dictionary)


def natural(column: Column, backend: Backend, what: str) -> Any:
    """Return the values as an array of the backend in their type.

    Dates and times as int64 counts.

    Raises
    ------
    UnsupportedTypeError
        If the column has nulls, or values that device arrays do not support.
    """
    family = column.type.family
    if column.stored_valid is not None:
        raise UnsupportedTypeError(f"{what} has nulls, which device arrays do not support.\n  Use to_cudf or to_arrow.")
    if column.type.has_dictionary or family in ("decimal", "enum"):
        raise UnsupportedTypeError(
            f"{what} is of type '{column.type}', which device arrays do not support.\n  Use to_cudf or to_arrow."
        )
    codes = backend.asarray(column.stored)
    codes = codes.copy() if codes is column.stored else codes
    if family in ("float32", "float64"):
        return floats_of(codes, 4 if family == "float32" else 8, backend.xp)
    if family == "bool":
        return codes != 0
    if family == "integer" and column.type.value_name != "int64":
        return codes.astype(np.dtype(column.type.value_name))
    return codes

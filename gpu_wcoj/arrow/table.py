"""Conversion of table-like objects to names and columns."""

from __future__ import annotations

import json
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj.arrow.read import as_arrow, encode, encode_numpy, encode_values
from gpu_wcoj.arrow.types import SUPPORTED, to_pyarrow
from gpu_wcoj.data.column import Column, Dictionary
from gpu_wcoj.data.rows import (
    FirstRow,
    as_weights,
    checked_values,
    columns_as_written,
    refuse_graph,
    split_weights,
    weight_name,
)
from gpu_wcoj.data.schema import INT64, NO_TYPE, DataType, check_names
from gpu_wcoj.errors import (
    GpuWcojError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    UsageError,
    counted,
    listed,
)


class Numbered(tuple[str, ...]):
    """Generated names c0, c1, ... of columns without names: of rows or plain arrays."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Unread:
    """A column as its table holds it: nothing has looked at its values.

    Attributes
    ----------
    values
        The column, of any library and any type.
    what
        The name of the column in messages.
    """

    values: Any
    what: str

    def __len__(self) -> int:
        return len(self.values)

    def read(self) -> Any:
        """Return the column as an Arrow or NumPy array, or a list of Python values.

        Raises
        ------
        TypeMismatchError, UnsupportedTypeError
            If it cannot be read.
        """
        return _column(self.values, self.what)

    def without_rows(self) -> Any:
        """Return a column of the same type; Python values are read to find theirs."""
        has_type = self.values.dtype != object if _is_of(self.values, "pandas", "Series", "Index") else False
        if has_type or (_is_of(self.values, "polars", "Series") and str(self.values.dtype) != "Object"):
            return _column(self.values[:0], self.what)
        return self.read()


class LazyTable(ABC):
    """A table whose columns are read when they are needed."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @abstractmethod
    def read(self, names: Sequence[str]) -> pa.Table:
        """Return all rows of these columns."""


@dataclass(frozen=True, eq=False, slots=True)
class LazyColumn:
    """A column of a table that is not computed yet.

    The table is a `LazyTable`, a LazyFrame of Polars, or a relation of DuckDB.

    Attributes
    ----------
    frame
        The table.
    name
        The name of the column.
    """

    frame: Any
    name: str

    def without_rows(self) -> pa.ChunkedArray:
        """Return the column of the table's schema."""
        if isinstance(self.frame, LazyTable):
            return self.frame.schema.empty_table()[self.name]
        if _is_of(self.frame, "polars", "LazyFrame"):
            import polars as pl

            return pa.chunked_array(pl.Series([], dtype=self.frame.collect_schema()[self.name]))
        return _computed(self.frame.limit(0), [self.name])[self.name]


def _computed(frame: Any, names: Sequence[str]) -> Any:
    """Return these columns of a lazy table by name, or its number of rows if there are none."""
    if isinstance(frame, LazyTable):
        return frame.read(names) if names else frame.read(frame.schema.names[:1]).num_rows
    if _is_of(frame, "polars", "LazyFrame"):
        import polars as pl

        table = frame.select(list(names) or pl.len()).collect()
        return table if names else table.item()
    if not names:
        return frame.aggregate("count(*)").fetchone()[0]
    quoted = ['"{}"'.format(name.replace('"', '""')) for name in names]
    return pa.table(frame.select(", ".join(quoted)))


def _lazy_names(data: Any) -> list[str] | None:
    """Return the names of a lazy table; None for other data, and if two columns have one name."""
    if isinstance(data, LazyTable):
        return list(data.schema.names)
    if _is_of(data, "polars", "LazyFrame"):
        return list(data.collect_schema().names())
    if not _is_of(data, "duckdb", "DuckDBPyRelation"):
        return None
    names = list(data.columns)
    return names if len(set(names)) == len(names) else None


def collected(names: Sequence[str], arrays: Sequence[Any], what: str, unread: Collection[int] = ()) -> list[Any]:
    """Return columns of `columns_by_name`, those of each lazy table computed together.

    Parameters
    ----------
    unread
        Positions of columns that are not read: only their number of rows is needed.
    """
    columns = list(arrays)
    lazy = {position: column for position, column in enumerate(columns) if isinstance(column, LazyColumn)}
    frames = {id(column.frame): column.frame for column in lazy.values()}
    for identity, frame in frames.items():
        here = [position for position, column in lazy.items() if id(column.frame) == identity]
        needed = list(dict.fromkeys(lazy[position].name for position in here if position not in unread))
        try:
            table = _computed(frame, needed)
        except GpuWcojError:
            raise
        except Exception as error:  # whatever its computation raises
            raise _unreadable(error, f"{what} cannot be read as a table") from error
        size = len(table) if needed else table
        for position in here:
            values = range(size) if position in unread else table[lazy[position].name]
            columns[position] = Unread(values, f"{what}, column '{names[position]}'")
    return columns


def as_table(
    data: Any,
    what: str = "the data",
    *,
    types: Sequence[DataType | None] | None = None,
    null_types: Sequence[DataType | None] | None = None,
    string: Dictionary | None = None,
    binary: Dictionary | None = None,
    arrange: Callable[[tuple[str, ...], Sequence[Any]], tuple[tuple[str, ...], Sequence[Any]]] | None = None,
    unread: Collection[int] = (),
) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns of a table-like object.

    Columns may share its memory: see `Column.unshared`.

    Parameters
    ----------
    data
        Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (PyArrow, Polars, pandas, DuckDB, Delta
        readers), a DataFrame of Spark, which is collected, a dict of arrays or lists, a NumPy array (two-dimensional,
        structured, or one column), or an iterable of rows. Named tuples name the columns, other rows are named c0, c1,
        ...; of pairs (row, weight) the weights become a column ``weight``.
        Row labels generated by pandas are left out; an index with values must have a name.
    what
        The name of the data in messages.
    types
        The required type of each column, None if unknown.
    null_types
        The type of each column that holds nothing but nulls and has no type, None if unknown. Floats of pandas that are
        integers and NaN become integers and nulls if this type is one of integers, because pandas has stored them so.
        If it is passed, a table without rows that has a column without a type returns neither names nor columns.
    string, binary
        The dictionaries that text and bytes are added to; new ones if None.
    arrange
        Gets the names of a table that has columns, as `Numbered` if they are generated, and the columns; returns those
        to read, in the order of `types` and `null_types`. By default all columns.
    unread
        Positions of columns, in that order, that are not looked at, whatever their type. They hold zeros.

    Examples
    --------
    >>> names, columns = as_table({"src": [1, 2], "dst": [2, 3]})
    >>> names, columns[1].codes
    (('src', 'dst'), array([2, 3]))
    """
    names, arrays = _named_columns(data, len(types or ()), what)
    if arrange is not None and names:
        names, arrays = arrange(names, arrays)
    names, arrays = tuple(names), collected(names, arrays, what, unread)
    kinds = [*(types or ()), *[None] * len(names)]
    string = Dictionary("string") if string is None else string
    binary = Dictionary("binary") if binary is None else binary
    columns = []
    for position, (name, values, kind) in enumerate(zip(names, arrays, kinds, strict=False)):
        known = null_types[position] if null_types is not None and position < len(null_types) else None
        if position in unread:
            columns.append(_placeholder(known or kind or INT64, len(values), string, binary))
            continue
        values = _as_column_type(values, known, f"{what}, column '{name}'")
        if kind is None and null_types is not None and _is_untyped(values):
            kind = known
            if kind is None and len(values) == 0:
                return (), []
            if kind is None:
                nulls = np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
                columns.append(Column(DataType(NO_TYPE), *nulls))
                continue
        label = f"{what}, column '{name}'"
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            columns.append(encode(values, kind, string=string, binary=binary, what=label))
        elif isinstance(values, np.ndarray):
            columns.append(encode_numpy(values, kind, string=string, binary=binary, what=label))
        else:
            columns.append(encode_values(values, kind, string=string, binary=binary, what=label))
    return names, columns


def _as_column_type(values: Any, relation_type: DataType | None, label: str) -> Any:
    """Return a column of `collected` in its type where the table could not spell that."""
    if relation_type is not None and relation_type.family == "integer" and isinstance(values, Unread):
        integers = _integers_of_floats(values.values, label)
        if integers is not None:
            return integers
    values = as_read(values)
    if relation_type is not None and relation_type.family == "nested" and not _is_untyped(values):
        array, kind = as_arrow(values, label), to_pyarrow(relation_type)
        return array.cast(kind) if array.type != kind and _has_gaps(array.type, kind) else array
    return values


def _integers_of_floats(values: Any, label: str) -> Any:
    """Return floats of pandas as integers and nulls.

    None for columns of other libraries or types, without NaN, or with other floats than integers.
    """
    if not _is_of(values, "pandas", "Series", "Index") or not isinstance(values.dtype, np.dtype):
        return None
    if values.dtype.kind != "f" or not len(values):
        return None
    floats = np.asarray(values, np.float64)
    missing = np.isnan(floats)
    present = floats[~missing]
    if not missing.any() or bool((np.abs(present) >= 2.0**53).any()) or bool((present != np.rint(present)).any()):
        return None
    _say_nan(label)
    return pa.array(np.where(missing, 0, floats).astype(np.int64), mask=missing)


@lru_cache(maxsize=1024)
def _say_nan(label: str) -> None:
    """Log, once for each column, that NaN stands for null."""
    logging.getLogger("gpu_wcoj").warning("%s: NaN of pandas is null here, because the column holds integers", label)


def _has_gaps(kind: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a nested type is the target but for parts that hold only nulls."""
    if pa.types.is_null(kind) or kind == target:
        return True
    if not pa.types.is_nested(kind) or kind.id != target.id or kind.num_fields != target.num_fields:
        return False
    pairs = [(kind.field(i), target.field(i)) for i in range(kind.num_fields)]
    are_named = not pa.types.is_struct(kind) or all(ours.name == theirs.name for ours, theirs in pairs)
    return are_named and all(_has_gaps(ours.type, theirs.type) for ours, theirs in pairs)


def as_read(values: Any) -> Any:
    """Return a column of `collected` as an Arrow or NumPy array, or a list of Python values."""
    return values.read() if isinstance(values, Unread) else values


def _placeholder(kind: DataType, size: int, string: Dictionary, binary: Dictionary) -> Column:
    """Return a column of zeros that stands for one that is not read."""
    zeros = np.broadcast_to(np.zeros(1, np.int64), size)
    dictionary = {"string": string, "binary": binary}.get(kind.dictionary)
    return Column(kind, zeros, None, dictionary)


def columns_by_name(data: Any, what: str = "the data") -> dict[str, Any]:
    """Return the columns of a table-like object, not encoded, so it can be read repeatedly.

    `collected` and `as_read` read columns.

    Raises
    ------
    SchemaError
        If two columns have the same name; and as `as_table`.

    Examples
    --------
    >>> columns = columns_by_name([(1, "a"), (2, "b")])
    >>> {name: as_read(column) for name, column in columns.items()}
    {'c0': [1, 2], 'c1': ['a', 'b']}
    """
    names, arrays = _named_columns(data, 0, what)
    for name in names:
        if names.count(name) > 1:
            raise SchemaError.duplicate("column", name, f"in {what}", "Rename one of them.")
    return dict(zip(names, arrays, strict=True))


def type_names(columns: Mapping[str, Any], what: str = "the data") -> dict[str, str | None]:
    """Return the types of columns of `columns_by_name` in Arrow's spelling.

    They are None if unknown or not supported.

    Examples
    --------
    >>> type_names({"a": np.zeros(2), "b": ["x", None], "c": []})
    {'a': 'double', 'b': 'string', 'c': None}
    """
    return {name: _type_name(values, f"{what}, column '{name}'") for name, values in columns.items()}


def _type_name(values: Any, label: str) -> str | None:
    try:
        values = values.without_rows() if isinstance(values, (LazyColumn, Unread)) else values
        if _is_untyped(values):
            return None
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            return encode(values.slice(0, 0), what=label).type.name
        if isinstance(values, np.ndarray):
            has_types = values.ndim == 1 and values.dtype.kind not in "OTSU"
            return encode_numpy(values[:0] if has_types else values, what=label).type.name
        return encode_values(values, what=label).type.name
    except MemoryError:
        raise
    except Exception:  # of this package or another library; raised again if the column is read
        return None


def is_frame(data: Any) -> bool:
    """Return True if `data` is a table of a library, by its class.

    Examples
    --------
    >>> is_frame(pa.table({"a": [1]})), is_frame(pa.chunked_array([[1]])), is_frame({"a": [1]})
    (True, False, False)
    """
    if isinstance(data, pa.ChunkedArray) or _is_of(data, "pandas", "Series", "Index"):
        return False
    if _is_of(data, "polars", "Series"):
        return False
    return hasattr(type(data), "__arrow_c_stream__") or _is_of(data, "polars", "LazyFrame") or is_of_spark(data)


def is_of_spark(data: Any) -> bool:
    """Return True if `data` is a DataFrame of Spark of any kind."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "toArrow")


def _named_columns(data: Any, width: int, what: str) -> _Named:
    if isinstance(data, (pa.RecordBatch, pa.Table)):
        return _arrow_columns(data, what)
    if isinstance(data, np.ndarray):
        return _numpy_columns(data, what)
    if isinstance(data, AbstractSet):  # the edges of a graph of networkx are a mapping, too
        return _row_columns(data, width, what)
    if isinstance(data, Mapping):
        return _mapped_columns(data, what)
    if is_of_spark(data):  # whose own __arrow_c_stream__ fails in PySpark 4.2 and 4.3 if there is a timestamp
        if data.isStreaming:
            raise UsageError.unsupported(f"a Spark stream as {what}", remedy="Pass it to gpu_wcoj.spark.maintain.")
        return _arrow_columns(data.toArrow(), what)
    if _is_of(data, "pandas", "DataFrame"):
        return _pandas_columns(data, what)
    if _is_of(data, "polars", "DataFrame"):
        return _mapped_columns(data.to_dict(), what)
    try:
        lazy_names = _lazy_names(data)
    except GpuWcojError:
        raise
    except Exception as error:  # whatever its definition raises
        raise _unreadable(error, f"{what} cannot be read as a table") from error
    if lazy_names is not None:
        return _mapped_columns({name: LazyColumn(data, name) for name in lazy_names}, what)
    if _is_of(data, "pandas", "Series", "Index") or _is_of(data, "polars", "Series"):
        return ("c0",), [_column(data, f"{what}, column 'c0'")]
    _refuse_matrix(data, what)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _arrow_columns(_imported(data, what), what)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, bytearray)):
        return _row_columns(data, width, what)
    if isinstance(data, (str, PathLike)):
        raise TypeMismatchError.mismatch(
            what,
            "is not a table",
            f"{str(data)!r:.80}",
            "a table",
            "Read the file first, for example with polars.read_csv; gpu_wcoj.query and views accept names of files.",
        )
    hint = (
        "Pass anything with __arrow_c_stream__, a LazyFrame, a dict of columns, a NumPy array, or a list of tuples\n"
        "  or dicts."
    )
    if type(data).__module__.startswith("pyspark."):
        hint = "Pass it to gpu_wcoj.spark.join, or pass its rows: .toArrow()."
    raise TypeMismatchError.mismatch(
        what, "is not a table", f"'{type(data).__module__}.{type(data).__qualname__}'", "a table", hint
    )


def _is_of(data: Any, library: str, *names: str) -> bool:
    """Return True if `data` is of one of these classes of a library that is loaded."""
    module = sys.modules.get(library)  # another thread may be loading it
    return module is not None and isinstance(data, tuple(getattr(module, name, ()) for name in names))


def _refuse_matrix(data: Any, what: str) -> None:
    if hasattr(data, "tocoo"):
        raise TypeMismatchError(
            f"{what} has the wrong type: got a sparse matrix '{type(data).__module__}.{type(data).__qualname__}', "
            "expected a table.\n"
            "  Pass its entries as columns: coo = m.tocoo(); {'row': coo.row, 'column': coo.col, 'value': coo.data}."
        )


def _is_untyped(values: Any) -> bool:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return bool(pa.types.is_null(values.type))
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()
    return isinstance(values, list) and all(value is None for value in values)


_Named = tuple[tuple[str, ...], Sequence[Any]]
"""Names, and for each a pa.Array, pa.ChunkedArray, NumPy array, list of Python values, or `Unread`."""


def _arrow_columns(data: pa.RecordBatch | pa.Table, what: str) -> _Named:
    metadata = data.schema.metadata
    if metadata is not None and b"pandas" in metadata:
        data = _without_labels(data, metadata[b"pandas"], what)
    return tuple(data.schema.names), data.columns


def _without_labels(data: pa.Table, metadata: bytes, what: str) -> pa.Table:
    """Return the table without the row labels that pandas generated, by its metadata."""
    try:
        indexes = json.loads(metadata)["index_columns"]
        labels = [name for name in indexes if str(name).startswith("__index_level_") and name in data.schema.names]
    except (ValueError, LookupError, TypeError):  # written by something else: every column is data
        return data
    if len(labels) == 1 and pa.types.is_integer(data.schema.field(labels[0]).type):
        return data.drop_columns(labels)
    if labels:
        kinds = ", ".join(str(data.schema.field(name).type) for name in labels)
        raise SchemaError(_WITHOUT_NAME.format(what, kinds))
    return data


def _imported(data: Any, what: str) -> pa.Table | pa.RecordBatch:
    try:
        if hasattr(data, "__arrow_c_stream__"):
            try:
                return pa.table(data)
            except (pa.ArrowInvalid, TypeError) as error:
                if "non-struct" not in str(error):
                    raise
                array = pa.chunked_array(data)
        else:
            array = pa.array(data)
    except (GpuWcojError, MemoryError):
        raise
    except Exception as error:  # whatever its producer raises
        raise _unreadable(error, f"{what} cannot be read as a table") from error
    if pa.types.is_struct(array.type):
        return pa.RecordBatch.from_struct_array(array)
    return pa.table({"c0": array})


def _unreadable(error: Exception, problem: str) -> UnsupportedTypeError:
    reason = ": ".join(map(str, error.args)).rstrip(".") or type(error).__name__
    return UnsupportedTypeError(f"{problem}: {reason}.\n{SUPPORTED}")


def _pandas_columns(frame: Any, what: str) -> _Named:
    """Return the columns of a pandas frame, then the named levels of its index."""
    names = list(map(str, frame.columns))
    if len(set(names)) < len(names):
        twice = listed(name for name in dict.fromkeys(names) if names.count(name) > 1)
        raise SchemaError(f"{what} cannot be read as a table: Duplicate column names found: {twice}.\n  Rename them.")
    columns = {name: frame.iloc[:, position] for position, name in enumerate(names)}
    levels = [frame.index.get_level_values(level) for level in range(frame.index.nlevels)]
    unnamed = [level for level in levels if level.name is None]
    if len(unnamed) > 1 or (unnamed and unnamed[0].dtype.kind not in "iu"):
        kinds = ", ".join(str(level.dtype) for level in unnamed)
        raise SchemaError(_WITHOUT_NAME.format(what, kinds))
    for level in levels:
        if level.name is None:
            continue
        if str(level.name) in columns:
            raise SchemaError.with_parts(
                f"{what} has a column and an index '{level.name}'",
                subject=what,
                got=str(level.name),
                remedy="Give one of them another name.",
            )
        columns[str(level.name)] = level
    return _mapped_columns(columns, what)


_WITHOUT_NAME = (
    "{}: this pandas frame has an index ({}) without a name.\n"
    "  Name it with .rename_axis('key') to make it a column, or call .reset_index(drop=True) to leave it out."
)


def _of_pandas(values: Any, what: str) -> Any:
    """Return a pandas column: objects as a Python list, other types by pandas' Arrow export.

    pandas would let PyArrow infer a type for objects: texts become bytes, dates lose their time, integers are rounded.
    """
    kind = values.dtype
    if isinstance(kind, np.dtype) and kind.kind == "O":
        return list(values)
    categories = getattr(kind, "categories", None)
    if categories is not None and _is_of(categories, "pandas", "Index") and categories.dtype.kind == "O":
        checked_values(list(categories), f"{what}: the categories")
    if _is_of(kind, "pandas", "SparseDtype"):
        values = np.asarray(values)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unreadable(error, f"{what}, of type '{kind}', cannot be read") from error


def _of_polars(values: Any, what: str) -> Any:
    """Return a Polars column; of type Object as a list, because Polars exports addresses."""
    if str(values.dtype) == "Object":
        return values.to_list()
    try:
        return pa.chunked_array(values)
    except pa.ArrowException as error:
        raise _unreadable(error, f"{what}, of type '{values.dtype}', cannot be read") from error


def _unread(values: Any, what: str) -> Any:
    """Return one column as in `_Named`, without a look at its values."""
    if isinstance(values, (np.ndarray, pa.Array, pa.ChunkedArray, Unread, LazyColumn)):
        return values
    is_column = isinstance(values, list) or _is_of(values, "pandas", "Series", "Index")
    if is_column or _is_of(values, "polars", "Series"):
        return Unread(values, what)
    return _column(values, what)


def _column(values: Any, what: str) -> Any:
    """Return one column as in `_Named`: an Arrow or NumPy array, or a list of Python values."""
    if isinstance(values, (np.ndarray, pa.Array, pa.ChunkedArray)):
        return values
    if _is_of(values, "pandas", "Series", "Index") or _is_of(values, "pandas.api.extensions", "ExtensionArray"):
        return _of_pandas(values, what)
    if _is_of(values, "polars", "Series"):
        return _of_polars(values, what)
    _refuse_matrix(values, what)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        try:
            return pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
        except (GpuWcojError, MemoryError):
            raise
        except Exception as error:  # whatever its producer raises
            raise _unreadable(error, f"{what} cannot be read as an array") from error
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, bytearray, Mapping, set, frozenset)):
        return list(values)
    raise TypeMismatchError.mismatch(
        what,
        "is not a column",
        f"{values!r:.80}",
        "an array or a list of values",
        "Pass a list, in the order of the rows.",
    )


def _numpy_columns(data: npt.NDArray[Any], what: str) -> _Named:
    if data.dtype.names is not None:
        check_names(data.dtype.names, what)
        return data.dtype.names, [data[name] for name in data.dtype.names]
    if data.ndim not in (1, 2):
        raise SchemaError.mismatch(what, "has the wrong shape", data.shape, "one or two dimensions", "Reshape it.")
    columns = [data] if data.ndim == 1 else list(data.T)
    return _numbered(columns), columns


def _mapped_columns(data: Mapping[Any, Any], what: str) -> _Named:
    arrays: dict[str, Any] = {}
    for name, values in data.items():
        if not isinstance(name, str):
            raise SchemaError.mismatch(
                f"{what}: a key of the dict",
                "is not a column name",
                repr(name),
                "a text",
                "For a dict {row: weight} use ZSet.from_dict.",
            )
        arrays[name] = _unread(values, f"{what}, column '{name}'")
    check_names(arrays, what)
    sizes = {
        name: values.size if isinstance(values, np.ndarray) else len(values)
        for name, values in arrays.items()
        if not isinstance(values, LazyColumn)
    }
    if len(set(sizes.values())) > 1:
        shortest, longest = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        raise SchemaError.with_parts(
            f"{what}: column '{shortest}' has {counted(sizes[shortest], 'value')}"
            f" and column '{longest}' has {sizes[longest]:,}",
            subject=what,
            remedy="Give all columns of a table the same number of values.",
        )
    return tuple(arrays), list(arrays.values())


def _row_columns(data: Iterable[Any], width: int, what: str) -> _Named:
    refuse_graph(data, what)
    data = list(data)
    if data and isinstance(data[0], dict):
        return _dict_columns(data, what)
    rows, weights = split_weights(data, what)
    written = columns_as_written(rows, what)
    columns: list[Any] = [
        values if isinstance(values, np.ndarray) else Unread(values, f"{what}, column {i}")
        for i, values in enumerate(written)
    ] or [[] for _ in range(width)]
    names = _fields(rows, what) or _numbered(columns)
    if weights is None:
        return names, columns
    return type(names)((*names, weight_name(names))), [*columns, as_weights(weights, f"{what}: the weights")]


def _dict_columns(rows: Sequence[Any], what: str) -> _Named:
    """Return the columns of rows that are dicts from names to values."""
    names = tuple(rows[0])
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != rows[0].keys():
            raise SchemaError.mismatch(
                f"{what}: row {i}", "has other columns than row 0", f"{row!r:.80}", listed(map(str, names)),
                "Give all rows the same keys, with None where there is no value.",
            )  # fmt: skip
    return _mapped_columns({name: [row[name] for row in rows] for name in names}, what)


def _fields(rows: Sequence[Any], what: str) -> tuple[str, ...]:
    """Return the column names of named tuples or Spark rows; none for plain tuples and lists."""
    if all(kind in (tuple, list) or issubclass(kind, FirstRow) for kind in set(map(type, rows))):
        return ()
    names_of_rows = [tuple(getattr(row, "_fields", None) or getattr(row, "__fields__", None) or ()) for row in rows]
    if len(set(names_of_rows)) > 1:
        row = next(i for i, fields in enumerate(names_of_rows) if fields != names_of_rows[0])
        raise SchemaError(
            f"{what}: row {row} names its columns {', '.join(names_of_rows[row]) or 'not at all'}, and row 0 "
            f"{', '.join(names_of_rows[0]) or 'not at all'}.\n  Give all rows the same names, or none."
        )
    return names_of_rows[0]


def _numbered(columns: Sequence[Any]) -> Numbered:
    return Numbered(f"c{i}" for i in range(len(columns)))

"""Tables in: names and columns of anything that is shaped as a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj.arrow.incoming import encode, encode_numpy, encode_values
from gpu_wcoj.arrow.types import SUPPORTED
from gpu_wcoj.column import Column
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import GpuWcojError, SchemaError, TypeMismatchError, UnsupportedTypeError, UsageError, listed
from gpu_wcoj.rows import checked_values, columns_of, split_weights
from gpu_wcoj.schema import DataType, check_names
from gpu_wcoj.weights import as_weights, weight_name


class Numbered(tuple[str, ...]):
    """Names that were made for the columns of rows or plain arrays, which have none: c0, c1, ..."""

    __slots__ = ()


def as_table(
    data: Any,
    what: str = "the data",
    *,
    types: Sequence[DataType | None] | None = None,
    null_types: Sequence[DataType | None] | None = None,
    string: Dictionary | None = None,
    binary: Dictionary | None = None,
    arrange: Callable[[tuple[str, ...]], Sequence[int]] | None = None,
) -> tuple[tuple[str, ...], list[Column]]:
    """Names and columns of anything that is shaped as a table; columns may share its memory: see `Column.unshared`.

    Parameters
    ----------
    data
        Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (PyArrow, Polars, pandas, DuckDB, Delta
        readers), a DataFrame of Spark, which is collected, a dict of arrays or lists, a NumPy array (two-dimensional,
        structured, or one column), or an iterable of rows. Named tuples name the columns, other rows are named c0, c1,
        ...; of pairs (row, weight) the weights become a column ``weight``.
        The labels that pandas gives rows by itself are left out; an index that carries values must have a name.
    what
        What to call the data in messages.
    types
        The type that each column must have, as far as it is known.
    null_types
        The type of each column that holds nothing but nulls and has no type of its own, as far as it is known. If
        they are given, a table without rows tells nothing, not even names, if a column of it has no type.
    string, binary
        The dictionaries that text and bytes are added to; fresh ones if None.
    arrange
        Gets the names of a table that has columns, as `Numbered` if it has no names, and returns the positions of those
        to take, in the order in which to take them, which is that of `types` and `null_types`. By default all.

    Examples
    --------
    >>> names, columns = as_table({"src": [1, 2], "dst": [2, 3]})
    >>> names, columns[1].codes
    (('src', 'dst'), array([2, 3]))
    """
    names, arrays = _named_columns(data, len(types or ()), what)
    if arrange is not None and names:
        order = arrange(names)
        names, arrays = tuple(names[i] for i in order), [arrays[i] for i in order]
    names = tuple(names)
    kinds = [*(types or ()), *[None] * len(names)]
    string = Dictionary("string") if string is None else string
    binary = Dictionary("binary") if binary is None else binary
    columns = []
    for at, (name, values, kind) in enumerate(zip(names, arrays, kinds, strict=False)):
        if kind is None and null_types is not None and _is_untyped(values):
            kind = null_types[at] if at < len(null_types) else None
            if kind is None and len(values) == 0:
                return (), []
        label = f"{what}, column '{name}'"
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            columns.append(encode(values, kind, string=string, binary=binary, what=label))
        elif isinstance(values, np.ndarray):
            columns.append(encode_numpy(values, kind, string=string, binary=binary, what=label))
        else:
            columns.append(encode_values(values, kind, string=string, binary=binary, what=label))
    return names, columns


def columns_by_name(data: Any, what: str = "the data") -> dict[str, Any]:
    """The columns of anything that is shaped as a table, not yet encoded: a table that can be read more than once.

    Raises
    ------
    SchemaError
        If two columns have the same name; and as `as_table`.

    Examples
    --------
    >>> columns_by_name([(1, "a"), (2, "b")])
    {'c0': array([1, 2]), 'c1': ['a', 'b']}
    """
    names, arrays = _named_columns(data, 0, what)
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"{what} has two columns '{name}'.\n  Give one of them another name.")
    return dict(zip(names, arrays, strict=True))


def type_names(columns: Mapping[str, Any], what: str = "the data") -> dict[str, str | None]:
    """The types of columns as `columns_by_name` gives them, as Arrow spells them; None where no value tells.

    Examples
    --------
    >>> type_names({"a": np.zeros(2), "b": ["x", None], "c": []})
    {'a': 'double', 'b': 'string', 'c': None}
    """
    found: dict[str, str | None] = {}
    for name, values in columns.items():
        label = f"{what}, column '{name}'"
        if _is_untyped(values):
            found[name] = None
        elif isinstance(values, (pa.Array, pa.ChunkedArray)):
            found[name] = encode(values.slice(0, 0), what=label).type.name
        elif isinstance(values, np.ndarray):
            has_types = values.ndim == 1 and values.dtype.kind not in "OTSU"
            found[name] = encode_numpy(values[:0] if has_types else values, what=label).type.name
        else:
            found[name] = encode_values(values, what=label).type.name
    return found


def is_of_spark(data: Any) -> bool:
    """Return whether `data` is a DataFrame of Spark, whichever kind."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "toArrow")


def _named_columns(data: Any, width: int, what: str) -> _Named:
    if isinstance(data, (pa.RecordBatch, pa.Table)):
        return _arrow_columns(data, what)
    if isinstance(data, np.ndarray):
        return _numpy_columns(data, what)
    if isinstance(data, Mapping):
        return _mapped_columns(data, what)
    if is_of_spark(data):  # whose own __arrow_c_stream__ fails in PySpark 4.2 and 4.3 if there is a timestamp
        if data.isStreaming:
            raise UsageError(f"{what} is a stream of Spark.\n  Pass it to gpu_wcoj.spark.maintain.")
        return _arrow_columns(data.toArrow(), what)
    if _is_of(data, "pandas", "DataFrame"):
        return _pandas_columns(data, what)
    if _is_of(data, "polars", "DataFrame"):
        return _mapped_columns(data.to_dict(), what)
    if _is_of(data, "pandas", "Series", "Index") or _is_of(data, "polars", "Series"):
        return ("c0",), [_column(data, f"{what}, column 'c0'")]
    _refuse_matrix(data, what)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _arrow_columns(_imported(data, what), what)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, bytearray)):
        return _row_columns(data, width, what)
    if isinstance(data, (str, PathLike)):
        raise TypeMismatchError(
            f"{what} is {str(data)!r:.80}, which is no table.\n"
            "  Read the file first, for example with polars.read_csv; the command gpu-wcoj takes names of files."
        )
    hint = (
        "Pass anything with __arrow_c_stream__ (a LazyFrame after .collect()), a dict of columns, a NumPy array\n"
        "  or a list of tuples."
    )
    if type(data).__module__.startswith("pyspark."):
        hint = "Pass it to gpu_wcoj.spark.join, or pass its rows: .toArrow()."
    raise TypeMismatchError(
        f"{what} is of type '{type(data).__module__}.{type(data).__qualname__}', which is no table.\n  {hint}"
    )


def _is_of(data: Any, library: str, *names: str) -> bool:
    """Tell whether `data` is of one of these classes of a library, which whoever made it has loaded."""
    module = sys.modules.get(library)  # which another thread may be in the middle of loading
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
"""Names, and for each a pa.Array, pa.ChunkedArray, NumPy array or list of Python values."""


def _arrow_columns(data: pa.RecordBatch | pa.Table, what: str) -> _Named:
    metadata = data.schema.metadata
    if metadata is not None and b"pandas" in metadata:
        data = _without_labels(data, metadata[b"pandas"], what)
    return tuple(data.schema.names), data.columns


def _without_labels(data: pa.Table, metadata: bytes, what: str) -> pa.Table:
    """The table without the labels that pandas gives rows by itself, as its metadata tells of them."""
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
    """The columns of a pandas frame, then the levels of its index that have a name."""
    names = list(map(str, frame.columns))
    if len(set(names)) < len(names):
        twice = listed(name for name in dict.fromkeys(names) if names.count(name) > 1)
        raise SchemaError(f"{what} cannot be read as a table: Duplicate column names found: {twice}.\n  Rename them.")
    columns = {name: frame.iloc[:, at] for at, name in enumerate(names)}
    levels = [frame.index.get_level_values(at) for at in range(frame.index.nlevels)]
    unnamed = [level for level in levels if level.name is None]
    if len(unnamed) > 1 or (unnamed and unnamed[0].dtype.kind not in "iu"):
        kinds = ", ".join(str(level.dtype) for level in unnamed)
        raise SchemaError(_WITHOUT_NAME.format(what, kinds))
    for level in levels:
        if level.name is None:
            continue
        if str(level.name) in columns:
            raise SchemaError(f"{what} has a column and an index '{level.name}'.\n  Give one of them another name.")
        columns[str(level.name)] = level
    return _mapped_columns(columns, what)


_WITHOUT_NAME = (
    "{}: this pandas frame has an index ({}) without a name.\n"
    "  Name it with .rename_axis('key') to make it a column, or call .reset_index(drop=True) to leave it out."
)


def _of_pandas(values: Any, what: str) -> Any:
    """A column of pandas: objects as Python has them, everything else as pandas itself gives it to Arrow.

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
    """A column of Polars; of objects it would hand out addresses in place of values."""
    if str(values.dtype) == "Object":
        return values.to_list()
    try:
        return pa.chunked_array(values)
    except pa.ArrowException as error:
        raise _unreadable(error, f"{what}, of type '{values.dtype}', cannot be read") from error


def _column(values: Any, what: str) -> Any:
    """One column as `_Named` has it: an array of Arrow or NumPy, or a list of Python values."""
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
    raise TypeMismatchError(
        f"{what} is {values!r:.80}; a column is an array or a list of values.\n  Pass a list, in the order of the rows."
    )


def _numpy_columns(data: npt.NDArray[Any], what: str) -> _Named:
    if data.dtype.names is not None:
        check_names(data.dtype.names, what)
        return data.dtype.names, [data[name] for name in data.dtype.names]
    if data.ndim not in (1, 2):
        raise SchemaError(
            f"{what} is an array of shape {data.shape}; one or two dimensions are allowed.\n  Reshape it."
        )
    columns = [data] if data.ndim == 1 else list(data.T)
    return _numbered(columns), columns


def _mapped_columns(data: Mapping[Any, Any], what: str) -> _Named:
    arrays: dict[str, Any] = {}
    for name, values in data.items():
        if not isinstance(name, str):
            raise SchemaError(
                f"{what} is a dict with the key {name!r}; the keys name the columns, as text.\n"
                "  A dict {row: weight} comes in through ZSet.from_dict."
            )
        arrays[name] = _column(values, f"{what}, column '{name}'")
    check_names(arrays, what)
    sizes = {name: values.size if isinstance(values, np.ndarray) else len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) > 1:
        first, other = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        raise SchemaError(
            f"{what}: column '{first}' has {sizes[first]} values and column '{other}' has {sizes[other]}.\n"
            "  All columns of a table have the same number of values."
        )
    return tuple(arrays), list(arrays.values())


def _row_columns(data: Iterable[Any], width: int, what: str) -> _Named:
    rows, weights = split_weights(data, what)
    columns: list[Any] = list(columns_of(rows, what) or ([] for _ in range(width)))
    names = _fields(rows, what) or _numbered(columns)
    if weights is None:
        return names, columns
    return type(names)((*names, weight_name(names))), [*columns, as_weights(weights, f"{what}: the weights")]


def _fields(rows: Sequence[Any], what: str) -> tuple[str, ...]:
    """The names that named tuples, or rows of Spark, give columns; none of plain tuples and lists."""
    if not set(map(type, rows)) - {tuple, list}:
        return ()
    found = [tuple(getattr(row, "_fields", None) or getattr(row, "__fields__", None) or ()) for row in rows]
    if len(set(found)) > 1:
        at = next(at for at, fields in enumerate(found) if fields != found[0])
        raise SchemaError(
            f"{what}: row {at} names its columns {', '.join(found[at]) or 'not at all'}, and row 0 "
            f"{', '.join(found[0]) or 'not at all'}.\n  Give all rows the same names, or none."
        )
    return found[0]


def _numbered(columns: Sequence[Any]) -> Numbered:
    return Numbered(f"c{i}" for i in range(len(columns)))

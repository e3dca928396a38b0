"""Rows passed by a user for one relation of a tick, as names, columns and weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from gpu_wcoj.arrow.change_feeds import as_weighted
from gpu_wcoj.arrow.table import Numbered, as_table
from gpu_wcoj.data.column import Column, Dictionary, on_host
from gpu_wcoj.data.rows import as_weights, weight_among
from gpu_wcoj.data.schema import FULL, FULL_UINT64, INT64, MAX_DIGITS, DataType
from gpu_wcoj.errors import ArityError, ColumnError, SchemaError, TypeMismatchError, UsageError, counted
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.zset import ZSet


@dataclass(frozen=True, eq=False)
class Incoming:
    """Rows for one relation: columns, weights (None: all 1), and a flag for ordered rows.

    Columns and weights are where they came from, in the host's memory or on a device.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    weights: Any
    is_ordered: bool

    def __len__(self) -> int:
        return len(self.columns[0])

    def fetched(self) -> Incoming:
        """Return the same rows in host memory; itself if they are there already."""
        weights = None if self.weights is None else on_host(self.weights)
        if weights is self.weights and all(column.is_on_host for column in self.columns):
            return self
        columns = tuple(Column(column.type, column.codes, column.valid, column.dictionary) for column in self.columns)
        return Incoming(self.names, columns, weights, self.is_ordered)


def read_change(
    relation: str,
    data: Any,
    arity: int | None,
    relation_names: tuple[str, ...] | None,
    types: Sequence[DataType | None],
    dictionaries: tuple[Dictionary, Dictionary],
    reserves_weight: bool = True,
    is_declared: bool = True,
    unread: Collection[int] | None = None,
) -> Incoming:
    """Read one relation's rows.

    The table has the relation's columns, by name if both have names, else in order. A change may have a column more
    for the weights: ``weight``, or ``_weight`` if the relation has a column of that name.

    Parameters
    ----------
    arity
        The number of the relation's columns; None if these are not known yet, and a column ``weight`` has the weights.
    relation_names
        The names of the relation's columns; None if it has none yet.
    types
        The types of the relation's columns, for columns that hold only nulls.
    is_declared
        True if the names were declared, False if they come from an earlier table.
    unread
        Columns that nothing reads, of rows that are not kept: these may stay in the memory of the table. None for rows
        that are kept.

    Raises
    ------
    ArityError, SchemaError, ColumnError
        If the columns differ from the relation's.
    WeightError
        If a weight is not an integer.
    """
    string, binary = dictionaries
    if isinstance(data, ZSet):
        if not data.names and len(data) == 0:
            return Incoming((), _no_columns(arity, types), None, False)
        if arity is not None and len(data.columns) != arity:
            raise ArityError(arity_message(relation, arity, data.names, relation_names))
        order = column_order(relation, data.names, relation_names, is_declared)
        columns = data.encoded_for(string, binary)
        return Incoming(
            tuple(data.names[i] for i in order), tuple(columns[i] for i in order), data.stored_weights, False
        )
    data = with_file(relation, data)
    has_weights = False

    what = f"relation '{relation}'"
    known_names = None if relation_names is None or _is_positional(tuple(relation_names)) else relation_names

    def arranged(names: tuple[str, ...], arrays: Sequence[Any]) -> tuple[tuple[str, ...], Sequence[Any]]:
        """Return the relation's columns in its order, then that of the weights."""
        if reserves_weight and arity is not None and {*names}.difference(known_names or names[:arity], ("weight",)):
            names, arrays = as_weighted(names, arrays, known_names, arity, what) or (names, arrays)
        columns, weight = list(range(len(names))), None
        if reserves_weight and (arity is None or len(names) == arity + 1):
            weight = weight_among(names, known_names)
            if arity is None and weight is not None and names.count(weight) > 1:
                raise SchemaError.duplicate("column", weight, f"in relation '{relation}'", "Rename one of them.")
            if arity is not None and (weight is None or names.count(weight) != 1):
                called = "weight" if weight is None else weight
                raise SchemaError.with_parts(
                    f"relation '{relation}' has {counted(arity, 'column')}, and the rows have {arity + 1}:"
                    f" {', '.join(names)}",
                    subject=f"relation '{relation}'",
                    got=arity + 1,
                    remedy=f"An extra column is allowed if it is called '{called}' and holds the weights.",
                )
            if weight is not None:
                columns.remove(names.index(weight))
        if arity is not None and len(columns) != arity:
            raise ArityError(arity_message(relation, arity, names, relation_names))
        if not isinstance(names, Numbered):
            column_names = tuple(names[column] for column in columns)
            columns = [columns[i] for i in column_order(relation, column_names, relation_names, is_declared)]
        nonlocal has_weights
        has_weights = weight is not None
        columns = columns if weight is None else [*columns, names.index(weight)]
        return tuple(names[i] for i in columns), [arrays[i] for i in columns]

    names, encoded = as_table(
        data, what, null_types=types, string=string, binary=binary, arrange=arranged, unread=unread or ()
    )
    if not names:
        if arity and isinstance(data, (list, tuple)) and data:  # rows without values, such as [()]
            raise ArityError(arity_message(relation, arity, names, relation_names))
        return Incoming((), _no_columns(arity, types), None, True)
    weights = as_weights(encoded.pop(), f"{what}: the weights") if has_weights else None
    if arity is not None:
        encoded = [_as_unsigned(column, kind, binary) for column, kind in zip(encoded, types, strict=True)]
    if unread is None:
        encoded = [column.unshared() for column in encoded]
    return Incoming(names[: len(encoded)], tuple(encoded), weights, True)


def _as_unsigned(column: Column, kind: DataType | None, binary: Dictionary) -> Column:
    """Return integers as `FULL_UINT64` if the column is of this type and none is negative."""
    if kind is None or kind.name != FULL_UINT64 or column.type.family != "integer":
        return column
    try:
        return column.as_type(kind, binary)
    except TypeMismatchError:
        return column


def merge_relations(
    relations: Mapping[str, Any] | None, more: Mapping[str, Any], reads_files: bool = True
) -> dict[str, Any]:
    """Merge the relations of a mapping and of keywords.

    With `reads_files`, names of files become their tables.

    Raises
    ------
    UsageError
        If `relations` is not a mapping, or a relation is in both.
    GpuWcojError
        Also as `with_file`.
    """
    if relations is not None and not isinstance(relations, Mapping):
        raise UsageError.wrong_type(
            "the argument 'relations'",
            relations,
            "a mapping from names to rows",
            "Give the relations as keywords, or in a dict.",
        )
    merged = dict(relations or {})
    for name, rows in more.items():
        if name in merged:
            raise UsageError.duplicate("the relation", name, remedy="Give it once.")
        merged[name] = rows
    return {name: with_file(name, rows) for name, rows in merged.items()} if reads_files else merged


def with_file(relation: str, data: Any) -> Any:
    """Return the table of a file whose name the data is; other data as they are.

    Raises
    ------
    GpuWcojError
        As `gpu_wcoj.files.reader.table_of_file`.
    """
    if not isinstance(data, (str, PathLike)):
        return data
    from gpu_wcoj.files.reader import table_of_file

    return table_of_file(relation, data)


class SmallRows(NamedTuple):
    """A few rows of int64 columns where they lie in memory.

    Attributes
    ----------
    n_rows
        Their number.
    places
        Address and stride in bytes of each column, and of the weights; 0 and 0 if all weights are 1. None if `holder`
        is a record batch of Arrow that has these columns, perhaps with nulls.
    holder
        An object that keeps the memory.
    """

    n_rows: int
    places: list[int] | None
    holder: Any


def read_small_change(data: Any, names: tuple[str, ...], max_rows: int) -> SmallRows | None:
    """Find a few rows of int64 columns in memory; return None for other rows, or more of them.

    Such rows are a table or record batch of Arrow whose columns, and perhaps a column of weights last, have the
    relation's names and no nulls; a NumPy array of int64; a dictionary of such arrays; or a list of tuples of integers,
    each perhaps with a weight.

    Parameters
    ----------
    names
        The names of the relation's columns, which are all int64.
    max_rows
        Rows at most; more are not looked at.

    Examples
    --------
    >>> rows = read_small_change([(1, 2), ((3, 4), -1)], ("a", "b"), 256)
    >>> rows.n_rows, rows.holder
    (2, array([[ 1,  2,  1],
           [ 3,  4, -1]]))
    """
    arity = len(names)
    if type(data) is list:
        return _find_tuples(data, arity) if len(data) <= max_rows else None
    if type(data) is np.ndarray:
        if data.ndim != 2 or len(data) > max_rows or data.dtype != np.int64 or data.shape[1] != arity:
            return None
        return _find_matrix(data, False) if data.flags.aligned and _is_positional(names) else None
    if type(data) is dict:
        return _find_columns(data, names, max_rows)
    if type(data).__module__ != "pyarrow.lib" or type(data).__name__ not in ("RecordBatch", "Table"):
        return None
    n_rows = data.num_rows
    if n_rows > max_rows:
        return None
    schema = data.schema
    for given in _SCHEMAS:
        if given[0].equals(schema):
            break
    else:
        given = schema, tuple(schema.names), all(str(kind) == "int64" for kind in schema.types)
        _SCHEMAS.insert(0, given)
        del _SCHEMAS[MAX_SCHEMAS:]
    _, given_names, is_plain = given
    if not is_plain or given_names[:arity] != names:
        return None
    if len(given_names) > arity and (given_names[arity:] != ("weight",) or "weight" in names):
        return None
    if n_rows == 0:
        return empty_rows(arity)
    if type(data).__name__ == "Table":
        batches = data.to_batches()
        data = batches[0] if len(batches) == 1 else data.combine_chunks().to_batches()[0]
    return SmallRows(n_rows, None, data)


def _find_matrix(rows: Int64Array, is_weighted: bool) -> SmallRows:
    """Describe a matrix of rows, whose last column may hold the weights."""
    row_stride, stride = rows.strides
    address = rows.ctypes.data
    places = [part for column in range(rows.shape[1]) for part in (address + column * stride, row_stride)]
    return SmallRows(len(rows), places if is_weighted else [*places, 0, 0], rows)


def _find_columns(data: dict[Any, Any], names: tuple[str, ...], max_rows: int) -> SmallRows | None:
    """Describe columns of int64 by name, perhaps with weights last; None for other columns."""
    arity = len(names)
    given = tuple(data)
    if given[:arity] != names or (len(given) > arity and (given[arity:] != ("weight",) or "weight" in names)):
        return None
    places: list[int] = []
    n_rows = -1
    for column in data.values():
        if type(column) is not np.ndarray or column.ndim != 1 or column.dtype != np.int64 or not column.flags.aligned:
            return None
        if n_rows not in (-1, len(column)) or len(column) > max_rows:
            return None
        n_rows = len(column)
        places += (column.ctypes.data, column.strides[0])
    if n_rows == -1:
        return None
    return SmallRows(n_rows, places if len(given) > arity else [*places, 0, 0], data)


def find_stored(columns: Sequence[Int64Array], weights: Int64Array | None) -> SmallRows:
    """Describe rows that have been read, as stored columns."""
    held = [np.ascontiguousarray(column, np.int64) for column in columns]
    places = [part for column in held for part in (column.ctypes.data, 8)]
    if weights is None:
        return SmallRows(len(held[0]), [*places, 0, 0], held)
    held.append(np.ascontiguousarray(weights, np.int64))
    return SmallRows(len(held[0]), [*places, held[-1].ctypes.data, 8], held)


def empty_rows(width: int) -> SmallRows:
    """Describe a change without rows.

    Examples
    --------
    >>> empty_rows(2)
    SmallRows(n_rows=0, places=[0, 0, 0, 0, 0, 0], holder=None)
    """
    return SmallRows(0, [0] * (2 * width + 2), None)


def count_rows(data: Any) -> int | None:
    """Return the number of rows of a change; None if it has to be read for that.

    Examples
    --------
    >>> count_rows([(1, 2), (3, 4)]), count_rows({"a": [1], "b": [2]}), count_rows(iter([]))
    (2, 1, None)
    """
    if isinstance(data, dict):
        sizes = [count_rows(column) for column in data.values()]
        return None if None in sizes else max((size for size in sizes if size is not None), default=0)
    if type(data).__module__ == "pyarrow.lib" and type(data).__name__ in ("RecordBatch", "Table"):
        return int(data.num_rows)
    try:
        return len(data)
    except TypeError:
        return None


def _find_tuples(data: list[Any], arity: int) -> SmallRows | None:
    """Copy tuples of integers, each perhaps with a weight, into a matrix; None for other rows."""
    rows = []
    for row in data:
        weight = 1
        if type(row) is tuple and len(row) == 2 and type(row[0]) is tuple:
            row, weight = row
            if type(weight) is not int:
                return None
        if type(row) is not tuple or len(row) != arity:
            return None
        for value in row:
            if type(value) is not int:
                return None
        rows.append((*row, weight))
    if not rows:
        return None
    try:
        matrix = np.array(rows, np.int64)
    except OverflowError:
        return None
    return _find_matrix(matrix, True)


_SCHEMAS: list[tuple[Any, tuple[str, ...], bool]] = []
"""Arrow schemas seen lately: the schema, its names, and whether all its columns are int64."""

MAX_SCHEMAS = 8
"""Schemas that are remembered, in entries."""


def narrow_columns(
    relation: str, names: Sequence[str], columns: Sequence[Column], kinds: Sequence[DataType | None]
) -> tuple[Column, ...]:
    """Return the columns, with integers and decimals in their declared types.

    Raises
    ------
    TypeMismatchError
        If a value is not of its column's type.

    Examples
    --------
    >>> import numpy as np
    >>> narrow_columns("r", ["a"], [Column(DataType("int64"), np.array([200]))], [DataType("uint8")])[0].type
    DataType(name='uint8')
    """
    narrowed = list(columns)
    for position, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if kind is None or column.type == kind:
            continue
        is_wide = column.type.family == "wide"
        if kind.family == "decimal" and (is_wide or (column.type.family == "decimal" and kind.digits[0] <= MAX_DIGITS)):
            try:
                holds_wide = is_wide and kind.digits[0] > MAX_DIGITS
                narrowed[position] = column.as_type(DataType(f"{kind.name}{FULL}") if holds_wide else kind)
            except TypeMismatchError as error:
                raise TypeMismatchError(f"relation '{relation}', column '{names[position]}': {error}") from None
            continue
        if {column.type.family, kind.family} != {"integer"}:
            continue
        smallest, largest = kind.code_range
        beyond = (column.stored < smallest) | (column.stored > largest)
        if column.stored_valid is not None:
            beyond &= column.stored_valid
        if bool(beyond.any()):
            row = int(beyond.argmax())
            raise TypeMismatchError(
                f"relation '{relation}', column '{names[position]}': the value {int(column.stored[row])} (row {row}) "
                f"is outside the declared type '{kind}': expected {smallest} to {largest}.\n"
                "  Correct the value, or declare another type."
            )
        narrowed[position] = Column(kind, column.stored, column.stored_valid, column.dictionary)
    return tuple(narrowed)


def _no_columns(arity: int | None, types: Sequence[DataType | None]) -> tuple[Column, ...]:
    return tuple(Column(types[i] or INT64, np.empty(0, np.int64)) for i in range(arity or 0))


def arity_message(relation: str, arity: int, names: Sequence[str], relation_names: Sequence[str] | None = None) -> str:
    """Return the message for rows with the wrong number of columns."""
    hint = "Pass rows with all columns of the relation" if len(names) < arity else "Select the relation's columns first"
    hint += f": {', '.join(relation_names)}." if relation_names else ", or write it with as many terms in the query."
    if len(names) == arity + 1 and "weight" in names:
        hint = "A column 'weight' holds weights in changes only; leave it out here."
    name_list = ", ".join(names) or "none"
    return (
        f"relation '{relation}' has {counted(arity, 'column')}, and the rows have {len(names)}: {name_list}.\n  {hint}"
    )


_NUMBERED = (("c", 0), ("", 0), ("_", 1), ("_c", 0), ("column_", 0), ("col", 0), ("f", 0))
"""Names that libraries give to unnamed columns: the text before the number, and the first number."""


def are_numbered(names: Sequence[str]) -> bool:
    """Return True if the names only count columns, as libraries name unnamed columns.

    These are names of rows here, of pandas, Spark, Polars, DuckDB and NumPy.

    Examples
    --------
    >>> are_numbered(["c0", "c1"]), are_numbered(["_1", "_2"]), are_numbered(["c1", "c0"])
    (True, True, False)
    """
    return any(list(names) == [f"{before}{first + i}" for i in range(len(names))] for before, first in _NUMBERED)


@lru_cache(maxsize=64)
def _is_positional(names: tuple[str, ...]) -> bool:
    """Return `are_numbered`, which is computed once for the names of a relation."""
    return are_numbered(names)


def column_order(
    relation: str, names: Sequence[str], relation_names: Sequence[str] | None, is_declared: bool = True
) -> Sequence[int]:
    """Return the positions of a relation's columns in a table.

    The order goes by name if both have names, else by position.

    Parameters
    ----------
    names, relation_names
        The names of the table's and of the relation's columns, equally many; None if the relation has no names yet.
    is_declared
        True if the relation's names were declared: then they are names even if they only count.

    Raises
    ------
    SchemaError
        If two columns of the table have one name.
    ColumnError
        If the table has other names than the relation.

    Examples
    --------
    >>> column_order("edge", ["dst", "src"], ["src", "dst"])
    [1, 0]
    >>> column_order("edge", ["c0", "c1"], ["src", "dst"])
    range(0, 2)
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise SchemaError.duplicate("column", twice, f"in relation '{relation}'", "Rename one of them.")
    if relation_names is None or list(names) == list(relation_names):
        return range(len(names))
    if is_declared and list(names) == [f"c{i}" for i in range(len(names))]:  # files without a line of names
        return range(len(names))
    if set(names).isdisjoint(relation_names) and (
        are_numbered(names) or (are_numbered(relation_names) and not is_declared)
    ):
        return range(len(names))
    for name in names:
        if name not in relation_names:
            raise ColumnError(relation, name, relation_names, _RENAME)
    return [list(names).index(name) for name in relation_names]


_RENAME = "Rename the table's columns; rows without names (tuples, a NumPy array) go by position."


def named_after(names: tuple[str, ...], relation_names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return a relation's column names after a table: the first names that do not only count.

    Examples
    --------
    >>> named_after(("src", "dst"), ("c0", "c1")), named_after(("c0", "c1"), ("src", "dst"))
    (('src', 'dst'), ('src', 'dst'))
    """
    return (
        names
        if relation_names is None or (are_numbered(relation_names) and not are_numbered(names))
        else relation_names
    )

"""The Z-set: rows with non-zero int64 weights, stored by column and always consolidated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.data.column import BoolArray, Column, Int64Array, on_host, read_only
from gpu_wcoj.data.rows import Row, columns_of, split_weights
from gpu_wcoj.data.schema import INT64, DataType, check_names
from gpu_wcoj.errors import ArityError, SchemaError, entry_point
from gpu_wcoj.weights import as_weights
from gpu_wcoj.zset import algebra, doors, tables

if TYPE_CHECKING:
    from gpu_wcoj.backend import Backend
    from gpu_wcoj.dictionary import Dictionary


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
    ┌───────┬───────┬────────┐
    │   src │   dst │ weight │
    │ int64 │ int64 │  int64 │
    ╞═══════╪═══════╪════════╡
    │     1 │     2 │      1 │
    │     2 │     3 │      1 │
    └───────┴───────┴────────┘
    """

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
        if weights is None:
            weights = None if on_device else np.ones(len(columns[0]) if columns else 0, np.int64)
        elif not on_device:
            weights = as_weights(on_host(weights) if hasattr(weights, "__cuda_array_interface__") else weights)
        count = len(columns[0] if weights is None else weights)
        for name, column in zip(names, columns, strict=True):
            if len(column) != count:
                counted = "rows" if weights is None else "weights"
                raise ArityError.mismatch(
                    f"column '{name}'",
                    "has the wrong number of values",
                    len(column),
                    f"{count}, the number of {counted}",
                )
        if backend is not None and on_device:
            from gpu_wcoj.zset import device

            return ZSet(names, *device.consolidate_on_device(columns, weights, backend), weight_name, backend)
        assert weights is not None
        return ZSet(names, *algebra.consolidate(columns, weights), weight_name)

    from_arrow = staticmethod(tables.from_arrow)
    from_numpy = staticmethod(tables.from_numpy)
    from_device = from_dlpack = staticmethod(doors.from_device)
    from_cudf = staticmethod(doors.from_cudf)
    read_parquet = staticmethod(doors.read_parquet)

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
            from gpu_wcoj.dictionary import Dictionary

            dictionaries = {"string": Dictionary("string"), "binary": Dictionary("binary")}
        columns = [Column(kind, np.empty(0, np.int64), None, dictionaries.get(kind.family)) for kind in kinds]
        return ZSet.from_columns(names, columns)

    # out

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    to_arrow = tables.to_arrow
    to_pandas = tables.to_pandas
    to_polars = tables.to_polars
    to_numpy = tables.to_numpy
    to_cupy = doors.to_cupy
    to_cudf = doors.to_cudf

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
        values = [algebra.python_values(column) for column in self.columns]
        tuples = zip(*values, strict=True) if values else [()] * len(self)
        return list(zip(tuples, self.weights.tolist(), strict=True))

    def to_dict(self) -> dict[Row, int]:
        """Return the Z-set as ``{row: weight}``.

        Rows that are equal in Python, as 0.0 and -0.0, are added.
        """
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
        targets = [string if column.type.family == "string" else binary for column in self.columns]
        pairs = zip(self.columns, targets, strict=True)
        if self.backend is not None:
            from gpu_wcoj.zset import device

            return tuple(device.recoded(column, target, self.backend) for column, target in pairs)
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
        found = algebra.weight_of(self, row)
        return found != 0 and (weight is None or bool(found == weight))

    def __repr__(self) -> str:
        from gpu_wcoj.zset import display

        return display.box(self)

    def _repr_html_(self) -> str:
        from gpu_wcoj.zset import display

        return display.html(self)

    # algebra

    __hash__ = None  # type: ignore[assignment]  # a Z-set is equal by what it holds, which takes long to hash

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal rows and weights, regardless of names and integer widths."""
        return algebra.equal(self, other) if isinstance(other, ZSet) else NotImplemented

    def plus(self, other: ZSet) -> ZSet:
        """See `gpu_wcoj.zset.algebra.plus`."""
        return algebra.plus(self, other)

    def minus(self, other: ZSet) -> ZSet:
        """See `gpu_wcoj.zset.algebra.minus`."""
        return algebra.minus(self, other)

    def negate(self) -> ZSet:
        """See `gpu_wcoj.zset.algebra.negate`."""
        return algebra.scale(self, -1)

    def scale(self, factor: int) -> ZSet:
        """See `gpu_wcoj.zset.algebra.scale`."""
        return algebra.scale(self, factor)

    def distinct(self) -> ZSet:
        """See `gpu_wcoj.zset.algebra.distinct`."""
        return algebra.distinct(self)

    def filter(self, condition: BoolArray | Callable[..., Any]) -> ZSet:
        """See `gpu_wcoj.zset.algebra.filter_rows`."""
        return algebra.filter_rows(self, condition)

    def map(self, to: Sequence[str | int] | Callable[[Row], Row], names: Sequence[str] | None = None) -> ZSet:
        """See `gpu_wcoj.zset.algebra.map_rows`."""
        return algebra.map_rows(self, to, names)

    def __add__(self, other: object) -> ZSet:
        return algebra.plus(self, other) if isinstance(other, ZSet) else NotImplemented

    def __sub__(self, other: object) -> ZSet:
        return algebra.minus(self, other) if isinstance(other, ZSet) else NotImplemented

    def __neg__(self) -> ZSet:
        return algebra.scale(self, -1)

    def __mul__(self, factor: object) -> ZSet:
        return algebra.scale(self, factor) if isinstance(factor, (int, np.integer)) else NotImplemented

    __rmul__ = __mul__


def _numbered(count: int) -> list[str]:
    return [f"c{i}" for i in range(count)]


def _as_type(kind: DataType | str) -> DataType:
    found = DataType(kind) if isinstance(kind, str) else kind
    assert found.family
    return found

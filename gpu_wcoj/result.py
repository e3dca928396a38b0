"""Results of queries: tables whose rows repeat as often as they occur."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain, repeat, starmap
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, overload

import numpy as np
import numpy.typing as npt

from gpu_wcoj.data.column import Column, Int64Array
from gpu_wcoj.data.rows import FirstRow, Row, weight_name
from gpu_wcoj.errors import (
    ColumnError,
    MemoryBudgetError,
    UnknownNameError,
    UnsupportedTypeError,
    UsageError,
    WeightError,
    counted,
    entry_point,
    listed,
    nearest,
)
from gpu_wcoj.units import available_memory, format_bytes
from gpu_wcoj.zset.zset import (
    MAX_ROWS,
    HasArrow,
    TextColumn,
    ZSet,
    arrow_stream,
    drawn,
    drawn_html,
    laid_out,
    row_tuples,
    sort_order,
    text_columns,
    to_pandas,
    to_polars,
)

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
    import polars as pl
    import pyarrow as pa

_VALUE_BYTES: Final = 8
"""Bytes that a value takes at least in an export: a number, an offset of a text or a pointer."""
_ELSEWHERE: Final = {
    **dict.fromkeys(("df", "toPandas", "fetchdf"), "Call to_pandas()."),
    "pl": "Call to_polars().",
    **dict.fromkeys(("arrow", "fetch_arrow_table", "toArrow"), "Call to_arrow()."),
    **dict.fromkeys(("fetchall", "collect", "tolist"), "Call rows()."),
    **dict.fromkeys(("fetchone", "first"), "Call head(1).rows()."),
    **dict.fromkeys(("sort", "sort_values", "order", "orderBy"), "Call sort_by(...)."),
    **dict.fromkeys(("count", "height", "size"), "Call len(...), or read shape."),
    **dict.fromkeys(("show", "display"), "Call print(...)."),
    **dict.fromkeys(("weight", "weights"), "Pass weights=True to an export, or call to_zset()."),
    "names": "Read columns.",
    **dict.fromkeys(("schema", "dtypes", "types"), "Read to_arrow().schema, or print the result."),
    "to_dict": "Call to_dicts(), or to_zset().to_dict() for the weight of each row.",
    **dict.fromkeys(
        (
            "filter", "where", "select", "with_columns", "withColumn", "group_by", "groupby", "groupBy", "agg", "join",
            "merge", "aggregate", "iloc", "loc", "unique", "drop_duplicates", "distinct", "describe", "write_parquet",
            "to_parquet", "write_csv", "to_csv", "write",
        ),
        "Write it in the query, or call to_pandas() or to_polars() first.",
    ),
}  # fmt: skip
"""What to use instead of names that results of other libraries have."""


class Rows(Protocol):
    """Stored rows of a result: each stands for as many rows of the table as its weight says.

    Attributes
    ----------
    names
        The column names.
    weights
        int64, one for each stored row.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The column names."""
        ...

    @property
    def weights(self) -> Int64Array:
        """The weight of each stored row."""
        ...

    def gathered(self, positions: Int64Array, weights: Int64Array) -> Rows:
        """Return the stored rows at these positions, with these weights."""
        ...

    def merged(self) -> Rows:
        """Return each distinct row once, with the sum of its weights."""
        ...

    def column(self, position: int) -> Column:
        """Return a column of the stored rows in the engine's form."""
        ...

    def zset(self) -> ZSet:
        """Return the stored rows, unsorted, with the weights to be left out of exports."""
        ...

    def to_zset(self) -> ZSet:
        """Return each distinct row once, with the sum of its weights."""
        ...

    def counted(self) -> HasArrow:
        """Return each distinct row once, with the sum of its weights in a last column."""
        ...

    def to_arrow(self) -> pa.Table:
        """Return the stored rows as a table."""
        ...

    def values(self) -> list[Row]:
        """Return the stored rows as Python values."""
        ...

    def text_columns(self) -> list[TextColumn]:
        """Return the stored rows as text."""
        ...


@lru_cache(maxsize=64)
def _first_row(names: tuple[str, ...]) -> type[FirstRow]:
    """Return a class of tuples with the names of columns, which pandas looks for in a first row.

    Examples
    --------
    >>> row = _first_row(("a", "b"))((1, 2))
    >>> row, row == (1, 2), row._fields
    ((1, 2), True, ('a', 'b'))
    """
    return type("Row", (FirstRow,), {"__slots__": (), "_fields": names})


@dataclass(frozen=True, eq=False)
class EngineRows:
    """Rows in the engine's form.

    Attributes
    ----------
    content
        The rows; each distinct row once if `is_merged`.
    """

    content: ZSet
    is_merged: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The column names."""
        return self.content.names

    @property
    def weights(self) -> Int64Array:
        """The weight of each row."""
        return self.content.weights

    def gathered(self, positions: Int64Array, weights: Int64Array) -> EngineRows:
        """Return the rows at these positions, with these weights."""
        columns = tuple(_gathered(column, positions) for column in self.content.columns)
        return EngineRows(ZSet(self.names, columns, weights), is_merged=False)

    def merged(self) -> EngineRows:
        """Return each distinct row once, with the sum of its weights."""
        content = self.content
        return (
            self if self.is_merged else EngineRows(ZSet.from_columns(content.names, content.columns, content.weights))
        )

    def column(self, position: int) -> Column:
        """Return a column."""
        return self.content.columns[position]

    def zset(self) -> ZSet:
        """Return the rows with the weights to be left out of exports."""
        return self.content.with_weight_name(None)

    def to_zset(self) -> ZSet:
        """Return each distinct row once, with the sum of its weights."""
        return self.merged().content

    counted = to_zset

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table."""
        return self.zset().to_arrow()

    def values(self) -> list[Row]:
        """Return the rows as Python values."""
        return row_tuples(self.content)

    def text_columns(self) -> list[TextColumn]:
        """Return the rows as text."""
        return text_columns(self.content)


@entry_point
class Result:
    """The answer of a query: a table.

    Rows repeat as often as they occur, as in SQL. The columns depend on the query only. With ``weights=True``, exports
    have each distinct row once and its number of occurrences in a last column ``weight``, in the order of a `ZSet`.

    Libraries that read Arrow streams read a result: ``polars.DataFrame(result)``, ``pyarrow.table(result)``, and
    ``from result`` in DuckDB.

    Parameters
    ----------
    rows
        A Z-set, whose rows repeat by their weights.

    Examples
    --------
    >>> import gpu_wcoj as gw
    >>> bought = gw.query("select who from orders", orders={"who": ["x", "y", "x"], "what": [1, 2, 3]})
    >>> bought
    3 rows, 1 column
    ┌─────┐
    │ who │
    │ str │
    ╞═════╡
    │ x   │
    │ x   │
    │ y   │
    └─────┘
    >>> bought.rows()
    [('x',), ('x',), ('y',)]
    >>> bought.rows(weights=True)
    [(('x',), 2), (('y',), 1)]
    """

    def __init__(self, rows: ZSet | Rows, session: Any = None, *, parts: Sequence[object] = ()) -> None:
        if not isinstance(rows, ZSet) and not hasattr(rows, "names"):
            raise UsageError.wrong_type("rows", rows, "a ZSet", "Use gpu_wcoj.ZSet.from_rows() for rows of Python.")
        self._rows: Rows = EngineRows(rows) if isinstance(rows, ZSet) else rows
        self._session = session
        self._parts = tuple(parts)

    # what it holds

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return list(self._rows.names)

    @property
    @entry_point
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns.

        Raises
        ------
        WeightError
            If a row has a negative weight.
        """
        return self._n_rows(), len(self._rows.names)

    @entry_point
    def __len__(self) -> int:
        return self._n_rows()

    @entry_point
    def __iter__(self) -> Iterator[Row]:
        weights = self._weights().tolist()
        rows = self._rows.values()
        if rows:
            rows[0] = _first_row(tuple(self._rows.names))(rows[0])
        return chain.from_iterable(starmap(repeat, zip(rows, weights, strict=True)))

    def __bool__(self) -> bool:
        return len(self._rows.weights) > 0

    def explain(self) -> str:
        """Return who has answered the parts of the query, the engine or DuckDB, and why.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> print(gw.query("select a from t", t={"a": [1]}).explain())
        answer: engine, 1 row
        """
        n_rows = self._n_rows()
        whole = f"answer: engine, {counted(n_rows, 'row')}"
        return "\n".join(map(str, self._parts)) or whole

    # parts of it

    def head(self, n: int = 5) -> Self:
        """Return the first `n` rows.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> gw.query("select a from t", t={"a": [1, 2, 2, 2]}).head(2).rows()
        [(1,), (2,)]
        """
        if type(n) is not int or n < 0:
            raise UsageError.invalid_value("n", n, "an integer from 0 on")
        weights = self._weights()
        ends = _running_sums(weights)
        n_stored = int(np.searchsorted(ends, n))  # rows before this one are shown in full
        if n_stored == len(weights):
            return self
        shown = weights[: n_stored + 1].copy()
        shown[-1] = n - (int(ends[n_stored - 1]) if n_stored else 0)
        n_shown = len(shown) if shown[-1] else n_stored
        return self._with(self._rows.gathered(np.arange(n_shown), shown[:n_shown]))

    def limit(self, n: int) -> Self:
        """Return the first `n` rows; the same as `head`."""
        return self.head(n)

    def sort_by(self, *columns: str, descending: bool | Sequence[bool] = False, nulls_first: bool = False) -> Self:
        """Return the rows sorted by columns; rows with equal values keep their order.

        Parameters
        ----------
        columns
            The columns, the most important one first.
        descending
            True for the largest values first, for all columns or for each one.
        nulls_first
            Nulls come last otherwise, in both directions.

        Raises
        ------
        ColumnError
            If a column does not exist.
        UnsupportedTypeError
            If a column holds lists, structs or maps.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> gw.query("select a, b from t", t={"a": [1, 2, 3], "b": [7, 8, 7]}).sort_by("b", "a", descending=True).rows()
        [(2, 8), (3, 7), (1, 7)]
        """
        names = self._rows.names
        for name in columns:
            if name not in names:
                raise ColumnError(None, name, names, table="the result")
        directions = [descending] * len(columns) if isinstance(descending, bool) else list(descending)
        if len(directions) != len(columns):
            raise UsageError.mismatch(
                "descending", "has the wrong length", len(directions), f"{len(columns)}, one bool for each column"
            )
        keys = [
            (self._rows.column(names.index(name)), is_descending, nulls_first)
            for name, is_descending in zip(columns, directions, strict=True)
        ]
        for name, (column, *_) in zip(columns, keys, strict=True):
            if column.type.family == "nested":
                raise UnsupportedTypeError.unsupported(
                    f"sorting by column '{name}' of type '{column.type.label}'", remedy="Sort by another column."
                )
        order = sort_order(keys, len(self._rows.weights))
        return self._with(self._rows.gathered(order, self._rows.weights[order]))

    # exports

    @overload
    def rows(self, *, weights: Literal[False] = False) -> list[Row]: ...

    @overload
    def rows(self, *, weights: Literal[True]) -> list[tuple[Row, int]]: ...

    def rows(self, *, weights: bool = False) -> list[Row] | list[tuple[Row, int]]:
        """Return the rows as tuples; with their weights as pairs ``(tuple, weight)``.

        Raises
        ------
        WeightError
            If a row has a negative weight, without ``weights=True``.
        MemoryBudgetError
            If there are more rows than memory holds.

        Examples
        --------
        >>> from gpu_wcoj import query
        >>> result = query("select n from t", t={"n": [7, 7, 9]})
        >>> result.rows(), result.rows(weights=True)
        ([(7,), (7,), (9,)], [((7,), 2), ((9,), 1)])
        """
        if weights:
            merged = self._rows.merged()
            return list(zip(merged.values(), merged.weights.tolist(), strict=True))
        if _are_ones(self._rows.weights):
            return self._rows.values()
        self._check_memory(1)
        return list(self)

    def to_dicts(self, *, weights: bool = False) -> list[dict[str, Any]]:
        """Return the rows as dictionaries from column to value.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> gw.query("select a from t", t={"a": [1, 1]}).to_dicts()
        [{'a': 1}, {'a': 1}]
        """
        names: tuple[str, ...] = self._rows.names
        if weights:
            names = (*names, weight_name(names))
            return [dict(zip(names, (*row, weight), strict=True)) for row, weight in self.rows(weights=True)]
        self._check_memory(1)
        return [dict(zip(names, row, strict=True)) for row in self]

    def to_arrow(self, *, weights: bool = False) -> pa.Table:
        """Return the rows as a PyArrow table.

        Raises
        ------
        WeightError
            If a row has a negative weight, without ``weights=True``.
        MemoryBudgetError
            If there are more rows than memory holds.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> result = gw.query("select a from t", t={"a": [1, 1]})
        >>> result.to_arrow().to_pydict(), result.to_arrow(weights=True).to_pydict()
        ({'a': [1, 1]}, {'a': [1], 'weight': [2]})
        """
        return self._exported(weights).to_arrow()

    def to_pandas(self, *, weights: bool = False) -> pd.DataFrame:
        """Return the rows as a pandas frame.

        Integers with nulls get nullable types, structs are dictionaries. Errors as in `to_arrow`.

        Examples
        --------
        >>> from gpu_wcoj import query
        >>> result = query("select n from t", t={"n": [7, 7, 9]})
        >>> result.to_pandas()["n"].tolist(), result.to_pandas(weights=True).values.tolist()
        ([7, 7, 9], [[7, 2], [9, 1]])
        """
        return to_pandas(self._exported(weights))

    def to_polars(self, *, weights: bool = False) -> pl.DataFrame:
        """Return the rows as a Polars frame. Errors as in `to_arrow`.

        Examples
        --------
        >>> from gpu_wcoj import query
        >>> result = query("select n from t", t={"n": [7, 7, 9]})
        >>> result.to_polars().rows(), result.to_polars(weights=True).columns
        ([(7,), (7,), (9,)], ['n', 'weight'])
        """
        return to_polars(self._exported(weights))

    def to_numpy(self, *, weights: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Return an array for each column; masked where there are nulls. Errors as in `to_arrow`.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> gw.query("select a from t", t={"a": [1, 1]}).to_numpy()
        {'a': array([1, 1])}
        """
        return self._zset(weights).to_numpy()

    def to_cupy(self, *, weights: bool = False) -> dict[str, Any]:
        """Return a CuPy array for each column; see `ZSet.to_cupy`. Errors as in `to_arrow`."""
        return self._zset(weights).to_cupy()

    def to_cudf(self, *, weights: bool = False) -> Any:
        """Return the rows as a cuDF frame; see `ZSet.to_cudf`. Errors as in `to_arrow`."""
        return self._zset(weights).to_cudf()

    def to_spark(self, spark: Any = None, *, weights: bool = False) -> Any:
        """Return the rows as a Spark DataFrame.

        Parameters
        ----------
        spark
            The session; by default that of the graph, if it is from Spark.
        """
        session = spark or self._session
        if session is None:
            raise UsageError.missing(
                "to_spark of a result that is not from Spark", "a session", "Pass it: to_spark(spark)."
            )
        return session.createDataFrame(self.to_arrow(weights=weights))

    def to_zset(self) -> ZSet:
        """Return the distinct rows with their weights, also negative ones.

        Raises
        ------
        UnsupportedTypeError
            If a column is a struct, or of another type that the engine does not support.

        Examples
        --------
        >>> from gpu_wcoj import query
        >>> result = query("select n from t", t={"n": [7, 7, 9]})
        >>> result.to_zset().rows()
        [((7,), 2), ((9,), 1)]
        """
        return self._rows.to_zset()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return arrow_stream(self.to_arrow(), requested_schema)

    # display

    def __repr__(self) -> str:
        return drawn(*display(self._rows))

    def _repr_html_(self) -> str:
        return drawn_html(*display(self._rows))

    # names that results of other libraries have

    if not TYPE_CHECKING:  # a type checker shall report such names

        @entry_point
        def __getattr__(self, name: str) -> Any:
            public = [public for public in dir(type(self)) if not public.startswith("_")]
            remedy = _ELSEWHERE.get(name, f"Public names are: {listed(public)}.{nearest(name, public)}")
            raise UnknownNameError.with_parts(f"a result has no '{name}'", got=name, remedy=remedy)

    # the inside

    def _with(self, rows: Rows) -> Self:
        return type(self)(rows, self._session)

    def _weights(self) -> Int64Array:
        """Return the weights after checking that rows can repeat."""
        weights = self._rows.weights
        if not _is_table(weights):
            position = np.flatnonzero(weights < 0)[:1]
            (row,) = self._rows.gathered(position, weights[position]).values()
            weight = int(weights[position[0]])
            raise WeightError.with_parts(
                f"a table has rows of positive weight only, and the row {row!r:.200} has the weight {weight}",
                subject="the result", got=weight,
                remedy="Read it with weights=True, or with to_zset().",
            )  # fmt: skip
        return weights

    def _n_rows(self) -> int:
        return int(_widened(self._weights()).sum())

    def _check_memory(self, n_values: int) -> None:
        """Raise if the memory does not hold the rows, of `n_values` values each."""
        n_rows = self._n_rows()
        need, present = n_rows * n_values * _VALUE_BYTES, available_memory()
        if need > present:
            raise MemoryBudgetError.with_parts(
                f"the result has {n_rows:,} rows, which need {format_bytes(need)} of memory or more, and"
                f" {format_bytes(present)} are free",
                subject="the result", got=n_rows,
                remedy=f"Read its {len(self._rows.weights):,} distinct rows with weights=True, or the first ones with"
                " head(n).",
            )  # fmt: skip

    def _repeated(self) -> Rows:
        """Return a stored row for each row."""
        weights = self._weights()
        if _are_ones(weights):
            return self._rows
        self._check_memory(len(self._rows.names) + 1)
        positions = np.repeat(np.arange(len(weights)), weights)
        return self._rows.gathered(positions, np.ones(len(positions), np.int64))

    def _exported(self, weights: bool) -> HasArrow:
        return self._rows.counted() if weights else self._repeated()

    def _zset(self, weights: bool) -> ZSet:
        return self.to_zset() if weights else self._repeated().zset()


def display(rows: Rows, weights: bool = False) -> tuple[str, list[TextColumn]]:
    """Return the title and the first and last rows as text, with weights if some are negative."""
    stored = rows.weights
    is_table = _is_table(stored) and not weights
    ends = _running_sums(stored if is_table else np.ones_like(stored))
    n_rows, half = int(ends[-1]) if len(ends) else 0, MAX_ROWS // 2
    is_cut = n_rows > MAX_ROWS
    shown = [*range(half), *range(n_rows - half, n_rows)] if is_cut else range(n_rows)
    positions = np.array([np.searchsorted(ends, row, side="right") for row in shown], np.int64)
    shown_rows = rows.gathered(positions, stored[positions])
    size = f"{counted(n_rows, 'row')}, {counted(len(rows.names), 'column')}"
    if is_table:
        return size, laid_out(shown_rows.text_columns(), None, is_cut)
    cells = list(map(str, shown_rows.weights.tolist()))
    last_column = TextColumn(weight_name(rows.names), "int", cells, True)
    return size if weights else f"{size}, some of negative weight", laid_out(
        shown_rows.text_columns(), last_column, is_cut
    )


def _gathered(column: Column, positions: Int64Array) -> Column:
    """Return rows in host memory; of a device, only these are fetched if they are few ranges."""
    starts = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
    if column.is_on_host or not 0 < len(starts) <= MAX_ROWS:
        return column.gather(positions)
    parts = [column.gather(slice(int(part[0]), int(part[-1]) + 1)) for part in np.split(positions, starts[1:])]
    return reduce(Column.stack, parts, column.gather(slice(0)))


def _is_table(weights: Int64Array) -> bool:
    return not len(weights) or int(weights.min()) >= 0


def _are_ones(weights: Int64Array) -> bool:
    return bool((weights == 1).all())


def _running_sums(weights: Int64Array) -> npt.NDArray[Any]:
    """Return the exact running sums, as Python integers where they could leave int64."""
    return np.cumsum(_widened(weights))


def _widened(weights: Int64Array) -> npt.NDArray[Any]:
    """Return the weights, as Python integers where their sums could leave int64."""
    is_small = not len(weights) or int(weights.max()) <= (2**63 - 1) // len(weights)
    return weights if is_small else weights.astype(object)

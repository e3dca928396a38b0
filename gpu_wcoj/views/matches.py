"""Matches of a motif, rows with the requested columns, and their changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.change_feeds import as_weighted
from gpu_wcoj.arrow.indexed_table import (
    IndexedTable,
    RowIndex,
    as_arrow_or_spark,
    dictionaries,
    key_matrix,
    kinds_of,
    read_rows,
    refuse_nulls,
    rows_with_numbers,
    split_change,
)
from gpu_wcoj.arrow.table import is_of_spark
from gpu_wcoj.arrow.write import decode
from gpu_wcoj.arrow_rows import ArrowRows, one_piece
from gpu_wcoj.data.column import Column, Int64Array
from gpu_wcoj.data.rows import Row, weight_name
from gpu_wcoj.engine.ingest import Incoming, are_numbered, read_change, with_file
from gpu_wcoj.errors import ColumnError, SchemaError, UsageError, entry_point
from gpu_wcoj.program import Program
from gpu_wcoj.query.motif.compile import ROW, Element, Graph, Part
from gpu_wcoj.query.motif.parse import Motif
from gpu_wcoj.result import EngineRows, Result, display
from gpu_wcoj.zset.zset import TextColumn, ZSet, arrow_stream, drawn, drawn_html

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
    import polars as pl

# Requested columns of matches.


@dataclass(frozen=True)
class MatchColumn:
    """A requested column of matches.

    Attributes
    ----------
    label
        Name of the column.
    name
        The element, or the term column.
    kind
        ``vertex``, ``edge`` or ``told``.
    field
        The column of the element; None for a struct of all columns.
    """

    label: str
    name: str
    kind: str
    field: str | None = None


def match_columns(motif: Motif, columns: Sequence[str] | None, graph: Graph) -> tuple[MatchColumn, ...]:
    """Parse the requested columns: elements, or ``name.column``; None for all elements.

    Raises
    ------
    UsageError
        If a name is unknown or given twice.
    ColumnError
        If a table has no such column.
    """
    if isinstance(columns, str):
        raise UsageError.wrong_type("columns", columns, "a list of str", f"Write [{columns!r}].")
    chosen = motif.columns if columns is None else tuple(columns)
    if not chosen:
        raise UsageError.with_parts(
            "columns is empty",
            subject="columns",
            got=columns,
            expected="at least one column",
            remedy="Or leave it out.",
        )
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise UsageError.duplicate("the column", twice, "in columns")
    return tuple(_match_column(motif, label, graph) for label in chosen)


def _match_column(motif: Motif, label: str, graph: Graph) -> MatchColumn:
    if not isinstance(label, str):
        raise UsageError.wrong_type("an element of columns", label, "str")
    name, dot, column = label.partition(".")
    if name not in motif.columns:
        raise UsageError.unknown_name("column of the motif", name, motif.columns)
    kind = "vertex" if name in motif.vertices else "edge" if name in motif.edges else "told"
    if not dot:
        return MatchColumn(label, name, kind)
    column_names = {"vertex": graph.vertices, "edge": graph.edges, "told": ()}[kind]
    if column not in (column_names or ()):
        what = {"vertex": "vertices", "edge": "edges", "told": name}[kind]
        raise ColumnError(what, column, column_names or ())
    return MatchColumn(label, name, kind, column)


def elements_of(columns: Sequence[MatchColumn], graph: Graph, by_rows: bool) -> tuple[Element, ...]:
    """Return the elements that the rules must output for these columns.

    Parameters
    ----------
    by_rows
        True to output row numbers of vertices where columns other than the id are requested, so that matches change
        with those columns. Otherwise vertices are looked up by their ids.
    """
    elements: dict[Element, None] = {}
    for column in columns:
        if column.kind == "told":
            elements[Element(column.name, "told")] = None
        elif column.kind == "vertex":
            is_id = column.field == graph.id or (column.field is None and set(graph.vertices or ()) == {graph.id})
            elements[Element(column.name, "row" if by_rows and not is_id else "id")] = None
        elif column.field == graph.src:
            elements[Element(column.name, "src")] = None
        elif column.field == graph.dst:
            elements[Element(column.name, "dst")] = None
        elif column.field is None and set(graph.edges or ()) == {graph.src, graph.dst}:
            elements |= {Element(column.name, "src"): None, Element(column.name, "dst"): None}
        else:
            elements[Element(column.name, "row")] = None
    return tuple(elements)


class MatchRows(ArrowRows):
    """Matches of a motif, which are decoded when they are read.

    Parameters
    ----------
    requested
        The requested columns.
    parts
        The answers of the program, for each part of the motif.
    lookup
        The tables that they refer to.
    """

    def __init__(self, requested: tuple[MatchColumn, ...], parts: Sequence[tuple[Part, ZSet]], lookup: Lookup) -> None:
        names = tuple(column.label for column in requested)
        super().__init__(names, np.concatenate([matches.weights for _, matches in parts]))
        self._requested, self._parts, self._lookup = requested, parts, lookup

    @cached_property
    def table(self) -> Any:
        """The columns, without weights."""
        return stacked([self._lookup.table(self._requested, part, matches) for part, matches in self._parts])


@entry_point
class MatchChange:
    """The change of the matches of a motif in one tick: each changed row once, with its weight.

    The weight is the number of added matches, negative for removed ones. The object can be read as an Arrow stream.

    Examples
    --------
    >>> import gpu_wcoj as gw
    >>> pairs = gw.Matcher("(a)-[]->(b)", edges={"src": [1], "dst": [2]}, columns=["a.id"])
    >>> pairs.apply(edges={"src": [1, 1], "dst": [2, 3]})
    MatchChange: 1 row, 1 column
    ┌──────┬────────┐
    │ a.id │ weight │
    │  int │    int │
    ╞══════╪════════╡
    │    1 │      2 │
    └──────┴────────┘
    """

    _made_by = "gpu_wcoj.Matcher.apply"

    def __init__(self, rows: ArrowRows, session: Any = None) -> None:
        self._stored = rows
        self._session = session

    @cached_property
    def _result(self) -> Result:
        return Result(self._stored.merged(), self._session)

    @property
    def columns(self) -> list[str]:
        """The column names, without the weights."""
        return list(self._stored.names)

    @property
    def weight_name(self) -> str:
        """The name of the weight column."""
        return weight_name(self._stored.names)

    @property
    def net(self) -> int:
        """The net change of the number of matches."""
        return sum(self._stored.weights.tolist())

    def __len__(self) -> int:
        return len(self.rows())

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return arrow_stream(self.to_arrow(), requested_schema)

    def rows(self) -> list[tuple[Row, int]]:
        """Return the rows as pairs ``(tuple, weight)``; structs are dictionaries."""
        return self._result.rows(weights=True)

    def to_arrow(self) -> pa.Table:
        """Return the rows as a PyArrow table, weights last."""
        return self._result.to_arrow(weights=True)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame, weights last; structs are dictionaries."""
        return self._result.to_pandas(weights=True)

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a Polars frame, weights last."""
        return self._result.to_polars(weights=True)

    def to_spark(self, spark: Any = None) -> Any:
        """Return the rows as a Spark DataFrame, weights last, in this session or that of the graph."""
        return self._result.to_spark(spark, weights=True)

    def to_zset(self) -> ZSet:
        """Return the rows as a Z-set; see `Result.to_zset`."""
        return self._result.to_zset()

    def __repr__(self) -> str:
        return drawn(*self._display())

    def _repr_html_(self) -> str:
        return drawn_html(*self._display())

    def _display(self) -> tuple[str, list[TextColumn]]:
        size, columns = display(self._stored.merged(), weights=True)
        return f"MatchChange: {size}", columns


@dataclass(frozen=True, eq=False)
class Lookup:
    """The tables that matches refer to, as of the tick of the matches.

    Attributes
    ----------
    vertices
        None if vertices are the ends of edges and have no other columns.
    edges
        All rows, including deleted ones.
    """

    graph: Graph
    vertices: IndexedTable | None
    edges: IndexedTable

    def table(self, match_columns: Sequence[MatchColumn], part: Part, matches: ZSet) -> Any:
        """Return the requested columns of the matches of a part."""
        size = len(matches)
        columns: dict[tuple[str, str], Any] = {
            (element.name, element.what): values_of(column)
            for element, column in zip(part.elements, matches.columns if size else (), strict=False)
        }
        arrays = [self._array(column_, part, columns, size) for column_ in match_columns]
        return table_of([column_.label for column_ in match_columns], arrays)

    def _array(self, column: MatchColumn, part: Part, columns: Mapping[tuple[str, str], Any], size: int) -> Any:

        if column.kind == "vertex":
            return self._vertex(column, columns, size)
        if column.kind == "edge":
            return self._edge(column, columns, size)
        if column.name in part.constants:
            return constant(part.constants[column.name], size)
        direction = columns.get((column.name, "told"))
        if direction is None:
            return no_text(size)
        return replaced(direction, part.patterns[column.name]) if column.name in part.patterns else direction

    def _vertex(self, column: MatchColumn, columns: Mapping[tuple[str, str], Any], size: int) -> Any:

        graph = self.graph
        ids = columns.get((column.name, "id"))
        rows = columns.get((column.name, "row"))
        if self.vertices is None:
            if ids is None:
                return nothing(self._ends(), column.field, size)
            return ids if column.field else structs(table_of([graph.id], [ids]))
        if rows is not None:
            return _select(self.vertices.gather(row_numbers(rows), column.field and [column.field]), column)
        if ids is None:
            return nothing(self.vertices.schema, column.field, size)
        kind = self.vertices.schema.field(graph.id).type
        if column.field == graph.id:
            return ids if ids.type == kind else ids.cast(kind)
        present, _ = self.vertices.present()
        if present.column_names == [graph.id]:
            return structs(table_of([graph.id], [ids.cast(kind)]))
        chosen = present.select([column.field]) if column.field else present
        return _select(chosen.take(places(ids, present.column(graph.id))), column)

    def _edge(self, column: MatchColumn, columns: Mapping[tuple[str, str], Any], size: int) -> Any:

        graph, schema = self.graph, self.edges.schema
        rows = columns.get((column.name, "row"))
        src, dst = columns.get((column.name, "src")), columns.get((column.name, "dst"))
        if column.field in (graph.src, graph.dst):
            ends = src if column.field == graph.src else dst
            return nothing(schema, column.field, size) if ends is None else ends.cast(schema.field(column.field).type)
        if rows is not None:
            return _select(self.edges.gather(row_numbers(rows), column.field and [column.field]), column)
        if src is not None and dst is not None:
            return _select(pair(src, dst, (graph.src, graph.dst), schema), column)
        return nothing(schema, column.field, size)

    def _ends(self) -> Any:
        return self.edges.nothing.select([self.graph.src]).rename_columns([self.graph.id]).schema


def row_numbers(rows: Any) -> Int64Array:
    """Return row numbers as a NumPy array."""
    numbers: Int64Array = rows.to_numpy(zero_copy_only=False)
    return numbers


def _select(rows: Any, column: MatchColumn) -> Any:

    return one_piece(rows.column(column.field)) if column.field else structs(rows)


# Export of matches: columns of structs, or flat columns, of the matched rows.


def values_of(column: Column) -> pa.Array:
    """Decode a column of an answer."""
    return decode(column)


def constant(value: int | str, size: int) -> pa.Array:
    """Return an array of `size` copies of a value."""
    return pa.repeat(pa.scalar(value, pa.int64() if isinstance(value, int) else pa.string()), size)


def places(values: pa.Array, among: pa.ChunkedArray) -> Int64Array:
    """Return the positions of values in a column of distinct values."""
    import pyarrow.compute as pc  # loading it takes a fifth of a small program's time

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


def nothing(like: pa.Schema, column: str | None, size: int) -> pa.Array:
    """Return `size` nulls of the type of a column, or of the rows as structs."""
    return pa.nulls(size, pa.struct(list(like)) if column is None else like.field(column).type)


def no_text(size: int) -> pa.Array:
    """Return `size` nulls of type text."""
    return pa.nulls(size, pa.string())


def replaced(values: pa.Array, texts: Mapping[str, str]) -> pa.Array:
    """Replace each value by its text."""
    import pyarrow.compute as pc

    place = pc.index_in(values, value_set=pa.array(list(texts)))
    return pa.array(list(texts.values())).take(place)


def table_of(names: Sequence[str], arrays: Sequence[pa.Array]) -> pa.Table:
    """Return a table of arrays."""
    return pa.table(list(arrays), names=list(names))


def pair(src: pa.Array, dst: pa.Array, names: Sequence[str], like: pa.Schema) -> pa.Table:
    """Return a table of edges that have only end points, with the columns of `like`."""
    ends = dict(zip(names, (src, dst), strict=True))
    return pa.table({field.name: ends[field.name].cast(field.type) for field in like})


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables, which have the same columns."""
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]


# Matches in flat columns of an answer.


@dataclass(frozen=True)
class PackedColumn:
    """A column of matches, made of flat columns of an answer.

    Attributes
    ----------
    label
        Its name.
    fields
        Names and positions of the flat columns: one, or those of a struct.
    is_struct
        Whether it is a struct.
    key
        The position of a column that is null where a match lacks the struct; None if no match does.
    texts
        Texts that replace values of a flat column.
    """

    label: str
    fields: tuple[tuple[str, int], ...]
    is_struct: bool = False
    key: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def array(self, flat: pa.Table, kinds: Sequence[pa.DataType] | None = None) -> pa.Array:
        """Return the column of the rows of a table, its fields with these types."""
        import pyarrow.compute as pc

        arrays = [one_piece(flat.column(place)) for _, place in self.fields]
        if kinds is not None:
            arrays = [array.cast(kind) for array, kind in zip(arrays, kinds, strict=True)]
        if self.is_struct:
            rows = structs(table_of([name for name, _ in self.fields], arrays))
            if self.key is None:
                return rows
            return pc.if_else(pc.is_valid(one_piece(flat.column(self.key))), rows, pa.scalar(None, rows.type))
        (array,) = arrays
        for told, text in self.texts.items():
            array = pc.if_else(pc.equal(array, told), text, array)
        return array


class PackedMatches(ArrowRows):
    """Matches of a motif in flat columns, which are packed into structs when they are read."""

    def __init__(self, columns: Sequence[PackedColumn], flat: ZSet) -> None:
        super().__init__(tuple(column.label for column in columns), flat.weights)
        self._columns, self._flat = columns, flat

    @cached_property
    def table(self) -> Any:
        """The columns, without weights."""
        flat = EngineRows(self._flat).to_arrow()
        return table_of(self.names, [column.array(flat) for column in self._columns])


# The vertices and the edges of a graph, and their changes.


def as_table(data: Any, what: str) -> Any:
    """Return data, or a file, as a table; the rows of a `ZSet` are repeated by their weights."""
    data = with_file(what.removeprefix("the "), data)
    if not isinstance(data, ZSet):
        return as_arrow_or_spark(data, what)
    weights = data.weights
    if bool((weights < 0).any()):
        raise UsageError(
            f"{what} have a row of negative weight: expected weights from 0 on.\n  Begin with present rows."
        )
    rows = as_arrow_or_spark(data.with_weight_name(None), what)
    return rows if bool((weights == 1).all()) else rows.take(np.repeat(np.arange(len(weights)), weights))


def with_keys(data: Any, keys: Sequence[str]) -> Any:
    """Return a table of unnamed columns, as many as there are keys, under their names."""
    names = list(kinds_of(data))
    if is_of_spark(data) or len(names) != len(keys) or not are_numbered(names) or {*names} & {*keys}:
        return data
    return data.rename_columns(list(keys))


@dataclass(frozen=True, eq=False)
class Table:
    """The vertices or the edges. Immutable except for its lazily built indexes.

    Attributes
    ----------
    name
        ``vertices`` or ``edges``.
    names
        Names of all columns of inserted rows.
    keys
        Names of the columns without nulls: the id, or both ends.
    contents
        The rows, with the needed columns.
    is_unique
        True if keys are unique, as for vertices.
    """

    name: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    contents: IndexedTable
    is_unique: bool
    index: list[RowIndex] = field(default_factory=list)

    @staticmethod
    def from_data(name: str, data: Any, keys: Sequence[str], needed: Sequence[str]) -> Table:
        """Create a table from the needed columns of `data`, a result of `as_table`."""
        what = f"the {name}"
        rows = read_rows(data, what, needed)
        refuse_nulls(rows, keys, what)
        table = Table(name, tuple(kinds_of(data)), tuple(keys), IndexedTable.from_table(what, rows), name == "vertices")
        if table.is_unique:
            table.check_unique()
        return table

    def check_unique(self) -> None:
        """Raise if two rows have the same keys."""
        rows, _ = self.contents.present()
        matrix = key_matrix(rows.select(self.keys), self.contents.what, *dictionaries(), self.keys)
        _, first, count = np.unique(matrix, axis=1, return_index=True, return_counts=True)
        if len(count) and int(count.max()) > 1:
            key = rows.select(self.keys).take(first[np.argmax(count)][None]).to_pylist()[0]
            raise several_rows_error(self.name, self.keys[0], key[self.keys[0]], int(count.max()))

    def apply_change(self, data: Any) -> TableChange:
        """Return the table after a change.

        Raises
        ------
        SchemaError
            If a deleted row is missing, or an inserted vertex is present.
        """
        what = self.contents.what
        data = with_file(self.name, data)
        if isinstance(data, ZSet):
            data = data.with_weight_name("weight")
        rows, weights = split_change(
            self._named(self._as_weighted(as_arrow_or_spark(data, what))), what, self.names, self.contents.schema.names
        )
        refuse_nulls(rows, self.keys, what)
        _, rows = self.contents.unify_types(rows)
        removed = self.find(rows.take(np.flatnonzero(weights < 0)), -weights[weights < 0])
        added_rows = rows.take(np.repeat(np.flatnonzero(weights > 0), weights[weights > 0]))
        if self.is_unique and len(added_rows):
            self.check_new(added_rows, removed)
        contents, added = self.contents.plus(added_rows)
        return TableChange(
            replace(self, contents=contents.minus(removed) if len(removed) else contents), contents, removed, added
        )

    def _named(self, data: Any) -> Any:
        """Return rows with unnamed columns under the column names of the table."""
        names, size = list(kinds_of(data)), len(self.names)
        if not are_numbered(names[:size]) or names[size:] not in ([], ["weight"]) or {*names} & {*self.names}:
            return data
        called = [*self.names, weight_name(self.names)][: len(names)]
        return data.toDF(*called) if is_of_spark(data) else data.rename_columns(called)

    def _as_weighted(self, data: Any) -> Any:
        """Return changes of a known format as rows with weights, other rows as they are."""
        if is_of_spark(data) or not {*data.column_names}.difference(self.names, ("weight",)):
            return data
        weighted = as_weighted(data.column_names, data.columns, self.names, len(self.names), self.contents.what)
        return data if weighted is None else pa.table(weighted[1], names=list(weighted[0]))

    def find(self, rows: Any, times: Int64Array) -> Int64Array:
        """Return the numbers of `times` stored rows equal to each of `rows`."""
        if len(rows) == 0:
            return np.empty(0, np.int64)
        row_numbers = self.index_of(self.contents.schema.names).find(self.contents, rows, times.tolist())
        for index, (numbers, count) in enumerate(zip(row_numbers, times.tolist(), strict=True)):
            if len(numbers) < count:
                (row,) = rows.slice(index, 1).to_pylist()
                there = f"{len(numbers)} times" if numbers else "0 times"
                raise SchemaError(
                    f"a row of the {self.name} cannot be deleted {count} times, it is present {there}: {row!r:.200}.\n"
                    "  Nothing was changed. Rows are compared by these columns; other columns are not stored."
                )
        return np.array([number_ for numbers in row_numbers for number_ in numbers], np.int64)

    def check_new(self, rows: Any, removed: Int64Array) -> None:
        """Raise if an inserted row has the keys of another row that is not deleted."""
        keys = key_matrix(rows.select(self.keys), self.contents.what, *dictionaries())
        _, first, count = np.unique(keys, axis=1, return_index=True, return_counts=True)
        repeated = first[count > 1].tolist()
        remaining = self.contents.minus(removed) if len(removed) else self.contents
        matches = self.index_of(self.keys).find(remaining, rows, [1] * len(rows))
        repeated += [index for index, numbers in enumerate(matches) if numbers]
        if repeated:
            key = rows.column(self.keys[0])[repeated[0]].as_py()
            raise SchemaError(
                f"the inserted vertex {key!r} is already present or is inserted twice.\n"
                "  Nothing was changed. To change a vertex, delete its row (weight -1) and insert the new one."
            )

    def index_of(self, columns: Sequence[str]) -> RowIndex:
        """Return an up-to-date index of these columns."""
        for index in self.index:
            if index.columns == tuple(columns):
                index.catch_up(self.contents)
                return index
        index = RowIndex(columns, self.contents.what, self.keys)
        index.catch_up(self.contents)
        self.index.append(index)
        return index

    def all_rows(self, program: Program, columns: Sequence[str]) -> Incoming:
        """Return all rows as an input of the program."""
        nothing = np.empty(0, np.int64)
        return _incoming(self.name, program, self.contents, nothing, self.contents.present()[1], columns)


def several_rows_error(table: str, key: str, value: object, n_rows: int) -> SchemaError:
    """Return the error for a key with several rows."""
    return SchemaError(
        f"the {table} have several rows of the {key} {value!r}: got {n_rows}, expected 1.\n"
        "  Remove the other rows of the vertex."
    )


@dataclass(frozen=True, eq=False)
class TableChange:
    """A change of a table.

    Attributes
    ----------
    after
        The table after it.
    contents
        The rows before and after.
    removed, added
        The numbers of the deleted and inserted rows.
    """

    after: Table
    contents: IndexedTable
    removed: Int64Array
    added: Int64Array

    def to_input(self, program: Program, columns: Sequence[str]) -> Incoming:
        """Return the change as an input of the program."""
        read = _incoming(self.after.name, program, self.contents, self.removed, self.added, columns)
        if not len(self.removed):
            return read
        weights = np.ones(len(self.removed) + len(self.added), np.int64)
        weights[: len(self.removed)] = -1
        return replace(read, weights=weights)


def _incoming(
    name: str, program: Program, contents: IndexedTable, removed: Int64Array, added: Int64Array, columns: Sequence[str]
) -> Incoming:
    rows = rows_with_numbers(contents, np.concatenate([removed, added]), columns, ROW)
    size = len(columns)
    return read_change(name, rows, size, tuple(columns), [None] * size, program.dictionaries, reserves_weight=False)

"""Matches of a motif: rows with the requested columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.errors import UsageError, entry_point
from gpu_wcoj.finding.wanted import MatchColumn
from gpu_wcoj.query.motif.form import Graph, Part
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.arrow.indexed_table import IndexedTable
    from gpu_wcoj.zset.display import TextColumn


@dataclass(frozen=True, eq=False, repr=False)
@entry_point
class Matches:
    """Matches of a motif, or a change of the matches.

    The object can be read as an Arrow stream. Equal rows are repeated once per match. A change has each row once, with
    its weight: the number of added matches, negative for removed ones.

    Attributes
    ----------
    names
        The columns' names.
    is_change
        True if rows have weights, in the last column.

    Examples
    --------
    >>> import gpu_wcoj as gw
    >>> gw.find("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1, 2, 3], "dst": [2, 1, 1]})
    Matches: 2 rows, 2 columns
    ┌───────────┬───────────┐
    │ a         │ b         │
    │ struct    │ struct    │
    ╞═══════════╪═══════════╡
    │ {'id': 1} │ {'id': 2} │
    │ {'id': 2} │ {'id': 1} │
    └───────────┴───────────┘
    """

    _columns: tuple[MatchColumn, ...]
    _parts: Sequence[tuple[Part, ZSet]]
    _lookup: Lookup
    is_change: bool = False
    _session: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.label for column in self._columns)

    @property
    def weight_name(self) -> str | None:
        """The name of the weight column of a change; None without weights."""
        if not self.is_change:
            return None
        name = "weight"
        while name in self.names:
            name = f"_{name}"
        return name

    @cached_property
    def _rows(self) -> tuple[Any, Int64Array]:
        """The columns as a table, and the weight of each row."""
        from gpu_wcoj.arrow.matched import net, stacked

        tables = [self._lookup.table(self._columns, part, matches) for part, matches in self._parts]
        weights = np.concatenate([matches.weights for _, matches in self._parts])
        rows = stacked(tables)
        return net(rows, weights) if self.is_change else (rows, weights)

    @property
    def net(self) -> int:
        """The number of matches, or the net change of that number."""
        return sum(int(matches.weights.astype(object).sum()) for _, matches in self._parts)

    def __len__(self) -> int:
        if self.is_change:
            return len(self._rows[1])
        return self.net

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """Return the rows as a ``pyarrow.Table``; a change has its weights in the last column.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> edges = {"src": ["x", "x"], "dst": ["y", "y"], "n": [1, 2]}
        >>> gw.find("(a)-[e]->(b)", edges=edges, columns=["a.id", "e.n"]).to_arrow().to_pydict()
        {'a.id': ['x', 'x'], 'e.n': [1, 2]}
        """
        from gpu_wcoj.arrow.matched import repeated, with_column

        rows, weights = self._rows
        if self.weight_name is None:
            return repeated(rows, weights)
        return with_column(rows, self.weight_name, weights)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame; structs are dictionaries."""
        from gpu_wcoj.arrow import to_pandas

        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """Return the rows as a Polars DataFrame."""
        from gpu_wcoj.arrow import to_polars

        return to_polars(self.to_arrow())

    def to_spark(self, spark: Any = None) -> Any:
        """Return the rows as a Spark DataFrame, in this session or that of the graph."""
        session = spark or self._session
        if session is None:
            raise UsageError.missing(
                "to_spark of a graph that is not from Spark", "a session", "Pass it: to_spark(spark)."
            )
        return session.createDataFrame(self.to_arrow())

    def to_zset(self) -> ZSet:
        """Return the rows as a Z-set; struct columns are not supported.

        Raises
        ------
        UnsupportedTypeError
            If a column is a struct, or of another type that the engine does not support.
        """
        from gpu_wcoj.arrow.matched import with_column

        rows, weights = self._rows
        name = "weight"
        while name in self.names:
            name = f"_{name}"
        zset = ZSet.from_arrow(with_column(rows, name, weights), weight=name)
        return zset if self.is_change else zset.with_weight_name(None)

    def rows(self) -> list[tuple[tuple[Any, ...], int]]:
        """Return the distinct rows as pairs ``(tuple, weight)``; structs are dictionaries.

        Examples
        --------
        >>> import gpu_wcoj as gw
        >>> gw.find("(a)-[]->()", edges={"src": [1, 1], "dst": [2, 3]}, columns=["a.id"]).rows()
        [((1,), 2)]
        """
        from gpu_wcoj.arrow.matched import net, python_rows

        rows, weights = net(*self._rows)
        return list(zip(python_rows(rows), weights.tolist(), strict=True))

    def __repr__(self) -> str:
        from gpu_wcoj.zset.display import drawn

        return drawn(self._title(), self._shown())

    def _repr_html_(self) -> str:
        from gpu_wcoj.zset.display import drawn_html

        return drawn_html(self._title(), self._shown())

    def _shown(self) -> list[TextColumn]:
        from gpu_wcoj.zset.display import MAX_ROWS, TextColumn, clean, laid_out

        rows = self.to_arrow()
        is_cut, half = len(rows) > MAX_ROWS, MAX_ROWS // 2
        columns = []
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            values = [*column[:half].to_pylist(), *column[-half:].to_pylist()] if is_cut else column.to_pylist()
            is_number = all(type(value) in (int, float) for value in values if value is not None)
            kind = "struct" if str(column.type).startswith("struct<") else str(column.type)
            cells = ["NULL" if value is None else clean(str(value)) for value in values]
            columns.append(TextColumn(clean(name), clean(kind), cells, is_number))
        weights = None if self.weight_name is None else columns.pop()
        return laid_out(columns, weights, is_cut)

    def _title(self) -> str:
        rows, columns = len(self), len(self.names)
        what = "Changed matches" if self.is_change else "Matches"
        return f"{what}: {rows:,} row{'s' * (rows != 1)}, {columns} column{'s' * (columns != 1)}"


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
        from gpu_wcoj.arrow.matched import table_of, values_of

        size = len(matches)
        columns: dict[tuple[str, str], Any] = {
            (element.name, element.what): values_of(column)
            for element, column in zip(part.elements, matches.columns if size else (), strict=False)
        }
        arrays = [self._array(column_, part, columns, size) for column_ in match_columns]
        return table_of([column_.label for column_ in match_columns], arrays)

    def _array(self, column: MatchColumn, part: Part, columns: Mapping[tuple[str, str], Any], size: int) -> Any:
        from gpu_wcoj.arrow.matched import constant, no_text, replaced

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
        from gpu_wcoj.arrow.matched import nothing, places, structs, table_of

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
        from gpu_wcoj.arrow.matched import nothing, pair

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
    from gpu_wcoj.arrow.matched import one_piece, structs

    return one_piece(rows.column(column.field)) if column.field else structs(rows)

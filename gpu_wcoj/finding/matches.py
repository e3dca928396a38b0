"""What a motif matches: rows with the columns that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.column import Int64Array
from gpu_wcoj.errors import UsageError, entry_point
from gpu_wcoj.finding.wanted import Wanted
from gpu_wcoj.query.motif.form import Graph, Part
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.arrow.held import Held
    from gpu_wcoj.zset.display import Shown


@dataclass(frozen=True, eq=False, repr=False)
@entry_point
class Matches:
    """Matches of a motif, or how they change.

    Whatever takes an Arrow stream takes them. Equal rows stand as many times as there are matches; of a change, each
    row stands once, and its weight says how many came, or, below 0, went.

    Attributes
    ----------
    names
        The columns' names.
    is_change
        Whether rows have weights, which are the last column then.

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

    _wanted: tuple[Wanted, ...]
    _found: Sequence[tuple[Part, ZSet]]
    _lookup: Lookup
    is_change: bool = False
    _session: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(one.label for one in self._wanted)

    @property
    def weight_name(self) -> str | None:
        """What the weights of a change are called; None if there are none."""
        if not self.is_change:
            return None
        name = "weight"
        while name in self.names:
            name = f"_{name}"
        return name

    @cached_property
    def _rows(self) -> tuple[Any, Int64Array]:
        """The columns as a table, and how often each row counts."""
        from gpu_wcoj.arrow.matched import net, stacked

        tables = [self._lookup.table(self._wanted, part, found) for part, found in self._found]
        weights = np.concatenate([found.weights for _, found in self._found])
        rows = stacked(tables)
        return net(rows, weights) if self.is_change else (rows, weights)

    @property
    def net(self) -> int:
        """How many matches there are, or, of a change, by how many they become more."""
        return sum(int(found.weights.astype(object).sum()) for _, found in self._found)

    def __len__(self) -> int:
        if self.is_change:
            return len(self._rows[1])
        return self.net

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """The rows as a ``pyarrow.Table``, of a change with their weights last.

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
        """The rows as a pandas frame; structs are dictionaries."""
        from gpu_wcoj.arrow import to_pandas

        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """The rows as a Polars frame."""
        from gpu_wcoj.arrow import to_polars

        return to_polars(self.to_arrow())

    def to_spark(self, spark: Any = None) -> Any:
        """The rows as a DataFrame of Spark: of this session, or of that which the graph came from."""
        session = spark or self._session
        if session is None:
            raise UsageError("the graph did not come from Spark, so a session is needed.\n  Pass it: to_spark(spark).")
        return session.createDataFrame(self.to_arrow())

    def to_zset(self) -> ZSet:
        """The rows as a Z-set; only flat columns have a place there.

        Raises
        ------
        UnsupportedTypeError
            If a column is a struct, or of another type that the engine has no place for.
        """
        from gpu_wcoj.arrow.matched import with_column

        rows, weights = self._rows
        name = "weight"
        while name in self.names:
            name = f"_{name}"
        found = ZSet.from_arrow(with_column(rows, name, weights), weight=name)
        return found if self.is_change else found.with_weight_name(None)

    def rows(self) -> list[tuple[tuple[Any, ...], int]]:
        """The distinct rows as Python values, as pairs ``(tuple, weight)``; structs are dictionaries.

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

    def _shown(self) -> list[Shown]:
        from gpu_wcoj.zset.display import MAX_ROWS, Shown, clean, laid_out

        rows = self.to_arrow()
        is_cut, half = len(rows) > MAX_ROWS, MAX_ROWS // 2
        columns = []
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            values = [*column[:half].to_pylist(), *column[-half:].to_pylist()] if is_cut else column.to_pylist()
            is_number = all(type(one) in (int, float) for one in values if one is not None)
            kind = "struct" if str(column.type).startswith("struct<") else str(column.type)
            cells = ["NULL" if one is None else clean(str(one)) for one in values]
            columns.append(Shown(clean(name), clean(kind), cells, is_number))
        weights = None if self.weight_name is None else columns.pop()
        return laid_out(columns, weights, is_cut)

    def _title(self) -> str:
        rows, columns = len(self), len(self.names)
        what = "Changed matches" if self.is_change else "Matches"
        return f"{what}: {rows:,} row{'s' * (rows != 1)}, {columns} column{'s' * (columns != 1)}"


@dataclass(frozen=True, eq=False)
class Lookup:
    """The tables that matches point into, as they were when these were found.

    Attributes
    ----------
    vertices
        None if vertices are the ends of edges and have no other columns.
    edges
        All rows, also those that went.
    """

    graph: Graph
    vertices: Held | None
    edges: Held

    def table(self, wanted: Sequence[Wanted], part: Part, found: ZSet) -> Any:
        """The columns of the matches of one part."""
        from gpu_wcoj.arrow.matched import table_of, values_of

        size = len(found)
        columns: dict[tuple[str, str], Any] = {
            (one.name, one.what): values_of(column)
            for one, column in zip(part.elements, found.columns if size else (), strict=False)
        }
        arrays = [self._array(one, part, columns, size) for one in wanted]
        return table_of([one.label for one in wanted], arrays)

    def _array(self, one: Wanted, part: Part, columns: Mapping[tuple[str, str], Any], size: int) -> Any:
        from gpu_wcoj.arrow.matched import constant, no_text, replaced

        if one.kind == "vertex":
            return self._vertex(one, columns, size)
        if one.kind == "edge":
            return self._edge(one, columns, size)
        if one.name in part.told:
            return constant(part.told[one.name], size)
        direction = columns.get((one.name, "told"))
        if direction is None:
            return no_text(size)
        return replaced(direction, part.patterns[one.name]) if one.name in part.patterns else direction

    def _vertex(self, one: Wanted, columns: Mapping[tuple[str, str], Any], size: int) -> Any:
        from gpu_wcoj.arrow.matched import nothing, places, structs, table_of

        graph = self.graph
        ids = columns.get((one.name, "id"))
        rows = columns.get((one.name, "row"))
        if self.vertices is None:
            if ids is None:
                return nothing(self._ends(), one.field, size)
            return ids if one.field else structs(table_of([graph.id], [ids]))
        if rows is not None:
            return _shown_of(self.vertices.take(numbers_of(rows), one.field and [one.field]), one)
        if ids is None:
            return nothing(self.vertices.schema, one.field, size)
        kind = self.vertices.schema.field(graph.id).type
        if one.field == graph.id:
            return ids if ids.type == kind else ids.cast(kind)
        present, _ = self.vertices.present()
        if present.column_names == [graph.id]:
            return structs(table_of([graph.id], [ids.cast(kind)]))
        chosen = present.select([one.field]) if one.field else present
        return _shown_of(chosen.take(places(ids, present.column(graph.id))), one)

    def _edge(self, one: Wanted, columns: Mapping[tuple[str, str], Any], size: int) -> Any:
        from gpu_wcoj.arrow.matched import nothing, pair

        graph, own = self.graph, self.edges.schema
        rows = columns.get((one.name, "row"))
        src, dst = columns.get((one.name, "src")), columns.get((one.name, "dst"))
        if one.field in (graph.src, graph.dst):
            found = src if one.field == graph.src else dst
            return nothing(own, one.field, size) if found is None else found.cast(own.field(one.field).type)
        if rows is not None:
            return _shown_of(self.edges.take(numbers_of(rows), one.field and [one.field]), one)
        if src is not None and dst is not None:
            return _shown_of(pair(src, dst, (graph.src, graph.dst), own), one)
        return nothing(own, one.field, size)

    def _ends(self) -> Any:
        return self.edges.nothing.select([self.graph.src]).rename_columns([self.graph.id]).schema


def numbers_of(rows: Any) -> Int64Array:
    """Numbers of rows, as NumPy's."""
    found: Int64Array = rows.to_numpy(zero_copy_only=False)
    return found


def _shown_of(rows: Any, one: Wanted) -> Any:
    from gpu_wcoj.arrow.matched import one_piece, structs

    return one_piece(rows.column(one.field)) if one.field else structs(rows)

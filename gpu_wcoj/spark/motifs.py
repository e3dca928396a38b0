"""Motifs over DataFrames: their rules, and the structs of their matches."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DecimalType, LongType, StringType, StructType

from gpu_wcoj.arrow.indexed_table import null_message, refuse_nulls
from gpu_wcoj.arrow.types import type_of
from gpu_wcoj.data.rows import weight_name
from gpu_wcoj.data.schema import MAX_DIGITS
from gpu_wcoj.errors import SchemaError, UnsupportedTypeError, listed
from gpu_wcoj.query.motif.compile import ROW, Element, Graph
from gpu_wcoj.query.motif.parse import Motif, parse
from gpu_wcoj.spark.schema import arrow_type, quoted
from gpu_wcoj.views.flat_motif import TABLES, FlatMotif, columns_of
from gpu_wcoj.views.matcher import MotifOptions, graph_of
from gpu_wcoj.views.matches import MatchColumn, PackedColumn, Table, match_columns, several_rows_error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CARRIED_BYTES: Final = 1 << 20
"""Bytes of a table, as Spark estimates them, up to which its shown columns travel through the join.

Columns of larger tables are looked up. For the directed triangles of 131,072 edges (R-MAT 13), looking up two columns
took 4 to 5 s, and two columns that travelled took 10 to 13 s; for few matches a lookup costs some 0.5 s more."""


@dataclass(frozen=True)
class Packing:
    """The columns of matches, as made of flat columns of an answer, and their types."""

    columns: tuple[PackedColumn, ...]
    kinds: tuple[tuple[DataType, ...], ...]

    def pack(self, flat: pa.Table) -> pa.Table:
        """Return the matches of flat rows; a last column of weights stays.

        Examples
        --------
        >>> told = PackedColumn("way", (("way", 1),), texts={"out": "(a)-[]->(b)"})
        >>> vertex = PackedColumn("a", (("id", 0),), is_struct=True)
        >>> rows = pa.table({"a.id": [1, 2], "way": ["out", None], "weight": [1, -1]})
        >>> Packing((vertex, told), ((LongType(),), (StringType(),))).pack(rows).to_pylist()[0]
        {'a': {'id': 1}, 'way': '(a)-[]->(b)', 'weight': 1}
        """
        names = [column.label for column in self.columns]
        arrays = [
            column.array(flat, list(map(arrow_type, kinds)))
            for column, kinds in zip(self.columns, self.kinds, strict=True)
        ]
        return pa.table([*arrays, flat.column(flat.num_columns - 1)], names=[*names, weight_name(names)])

    def head(self, flat: pa.Schema) -> pa.Schema:
        """Return the columns of the matches for flat columns, both without weights."""
        packed = self.pack(flat.append(pa.field("weight", pa.int64())).empty_table()).schema
        return packed.remove(len(packed) - 1)

    def expressions(self, flat: Sequence[Column]) -> dict[str, Column]:
        """Return the columns as expressions of the flat columns, by label."""
        made = {}
        for column, kinds in zip(self.columns, self.kinds, strict=True):
            parts = zip(column.fields, kinds, strict=True)
            values = [flat[place].cast(kind).alias(name) for (name, place), kind in parts]
            value = values[0]
            if column.is_struct:
                value = sf.struct(*values)
                value = value if column.key is None else sf.when(flat[column.key].isNotNull(), value)
            for told, text in column.texts.items():
                value = sf.when(value == told, sf.lit(text)).otherwise(value)
            made[column.label] = value.alias(column.label)
        return made


@dataclass(frozen=True, eq=False)
class MotifQuery(FlatMotif):
    """A motif over DataFrames.

    Attributes
    ----------
    schemas
        The columns of ``edges`` and, if there is such a table, of ``vertices``.
    looked_up
        The elements whose requested columns are joined to the matches by id, or for edges by row number, with the
        reason.
    """

    schemas: Mapping[str, StructType]
    looked_up: Mapping[str, str]

    @classmethod
    def from_schemas(
        cls,
        motif: str | Motif,
        schemas: Mapping[str, StructType],
        options: MotifOptions,
        sizes: Mapping[str, float] | None = None,
    ) -> MotifQuery:
        """Compile a motif for tables with these columns.

        Parameters
        ----------
        sizes
            Bytes of the tables, which decide on the columns that are joined to the matches. Without them, all requested
            columns are in the rules, so that matches change with them.

        Raises
        ------
        GpuWcojError
            If the tables lack columns, or the motif or its options are wrong.
        """
        for name, schema in schemas.items():
            twice = [column for column in schema.names if schema.names.count(column) > 1]
            if twice:
                raise SchemaError.with_parts(
                    f"the {name} have more than one column named '{twice[0]}'",
                    subject=name, got=twice[0], expected="distinct names", remedy="Rename or drop one of them.",
                )  # fmt: skip
        parsed = motif if isinstance(motif, Motif) else parse(motif)
        kinds = {name: {column.name: _family(column.dataType) for column in schema} for name, schema in schemas.items()}
        looked_up: Mapping[str, str] = {}
        if sizes is not None:
            graph = graph_of(kinds.get("vertices"), kinds["edges"], options)
            looked_up = dict(_looked_up(match_columns(parsed, options.columns, graph), graph, schemas, sizes))
        return cls.compile(parsed, kinds, options, looked_up, schemas=schemas, looked_up=looked_up)

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The columns that the rules read of each table."""
        return {name: columns for name, columns in super().inputs.items() if name in self.schemas}

    @property
    def keys(self) -> Keys:
        """The key columns of the tables that the rules read."""
        keys = {"vertices": (self.graph.id,), "edges": (self.graph.src, self.graph.dst)}
        return Keys({name: keys[name] for name in self.inputs})

    def readings(self, columns: object, edge_id: str | None) -> dict[str, dict[str, str]]:
        """Return, per table, the columns that the rules read, and their present names in its source.

        Parameters
        ----------
        columns
            By table, the columns of its source, or a mapping from new to present names; or anything else.
        edge_id
            The column that identifies edges.
        """
        by_table = columns if isinstance(columns, Mapping) else {}
        present: dict[str, dict[str, str]] = {}
        for table, names in self.inputs.items():
            renamed = by_table.get(table)
            sources = renamed if isinstance(renamed, Mapping) else {}
            named = {name: str(edge_id) if name == ROW else name for name in names}
            present[table] = {name: sources.get(column, column) for name, column in named.items()}
        return present

    def table_of(self, element: str) -> str:
        """Return the table that an element is a row of."""
        return "edges" if element in self.motif.edges else "vertices"

    def stored_edges(self) -> list[str]:
        """Return the columns of numbered edges that the rules or the matches need."""
        needed = {column for column in self.compiled.edges if column != ROW}
        for column in self.columns:
            if column.name in self.looked_up and column.kind == "edge":
                needed |= set(self.schemas["edges"].names) if column.field is None else {column.field}
        return [name for name in self.schemas["edges"].names if name in needed]

    @cached_property
    def packing(self) -> Packing:
        """The columns of the matches that are in the answer of the rules."""
        columns = [column for column in self.columns if column.name not in self.looked_up]
        return Packing(tuple(map(self.pack, columns)), tuple(map(self._types, columns)))

    def _types(self, column: MatchColumn) -> tuple[DataType, ...]:
        if column.kind == "told":
            return (LongType() if column.name.startswith("_hop") else StringType(),)
        if column.kind == "vertex" and "vertices" not in self.schemas:
            return (self.schemas["edges"][self.graph.src].dataType,)
        types = self.schemas[TABLES[column.kind]]
        return tuple(types[name].dataType for name in columns_of(column, self.graph))

    def __str__(self) -> str:
        """Return a description of the columns that are joined and looked up, for people."""
        lines = [f"the join reads {listed(columns)} of the {name}" for name, columns in self.inputs.items()]
        for element, reason in self.looked_up.items():
            by = "id" if element in self.motif.vertices else "row number"
            lines.append(f"columns of '{element}' are joined to the matches by {by}: {reason}")
        return "\n".join(lines)

    # Frames: what goes into the join, and what comes behind it.

    def frames(self, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """Return the tables with the columns that the rules read; edges are numbered already."""
        return {name: tables[name].select(*map(_column, columns)) for name, columns in self.inputs.items()}

    def matches(self, answer: DataFrame, tables: Mapping[str, DataFrame], repeats: bool) -> DataFrame:
        """Return the matches of an answer, each as often as its last column, the weight, says.

        Columns that are looked up are joined from the tables. Unless the answer repeats rows, all weights are 1.
        """
        flat = [f"#{index}" for index in range(len(answer.columns))]
        rows = answer.toDF(*flat)
        for element in self.looked_up:
            table, what = tables[self.table_of(element)], "id" if element in self.motif.vertices else "row"
            key = self.graph.id if what == "id" else ROW
            names = self.schemas[self.table_of(element)].names
            labels = {column.label: column for column in self.columns if column.name == element}
            values = [
                (sf.struct(*map(_column, names)) if column.field is None else _column(column.field)).alias(f"={label}")
                for label, column in labels.items()
            ]
            there = table.select(_column(key).alias(f"#{element}"), *values)
            same = _column(flat[self.places[Element(element, what)]]) == _column(f"#{element}")  # type: ignore[arg-type]
            rows = rows.join(there, same, "inner" if len(self.compiled.parts) == 1 else "left")
        columns = [_column(name) for name in flat]
        packed = self.packing.expressions(columns)
        values = [
            packed[column.label] if column.label in packed else _column(f"={column.label}").alias(column.label)
            for column in self.columns
        ]
        return repeat_rows(rows, values, columns[-1] if repeats else None)


def repeat_rows(rows: DataFrame, columns: Sequence[Column], weight: Column | None) -> DataFrame:
    """Return columns of rows, each row as often as its weight says; once without weight."""
    if weight is None:
        return rows.select(*columns)
    occurrence = sf.explode(sf.sequence(sf.lit(1), weight)).alias("#occurrence")
    return rows.select(*columns, occurrence).drop("#occurrence")


@dataclass(frozen=True)
class Keys:
    """Key columns of the tables of a graph: they are not null, and each vertex has one row."""

    columns: Mapping[str, tuple[str, ...]]

    def check(self, name: str, rows: pa.Table) -> None:
        """Raise `SchemaError` if rows of a table have wrong keys."""
        keys = self.columns.get(name)
        if keys is None:
            return
        what = f"the {name}"
        refuse_nulls(rows, keys, what)
        if name == "vertices":
            Table.from_data(name, rows.select(keys), keys, keys)

    def checked_on_executors(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """Return frames that raise an error where a key is null.

        Vertices with several rows are searched for by a job of Spark.
        """
        checked = dict(frames)
        for name, keys in self.columns.items():
            for key in keys:
                message = null_message(f"the {name}", key, "a row")
                value = sf.when(_column(key).isNull(), sf.raise_error(message)).otherwise(_column(key))
                checked[name] = checked[name].withColumn(key, value)
            if name == "vertices":
                repeated = frames[name].groupBy(_column(keys[0])).count().where("count > 1").limit(1)
                for value, size in repeated.collect():
                    raise several_rows_error(name, keys[0], value, size)
        return checked

    @contextmanager
    def raised_here(self) -> Generator[None, None, None]:
        """Raise `SchemaError` for the nulls that an executor finds."""
        try:
            yield
        except PySparkException as error:
            for name, keys in self.columns.items():
                for key in keys:
                    message = null_message(f"the {name}", key, "a row")
                    if message in str(error):
                        raise SchemaError(message) from None
            raise


def _family(kind: DataType) -> str:
    """Return the family of the engine's type; empty if it has none."""
    try:
        return type_of(arrow_type(kind)).family
    except UnsupportedTypeError:
        return ""


def _looked_up(
    columns: Sequence[MatchColumn], graph: Graph, schemas: Mapping[str, StructType], sizes: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """Yield the elements whose columns are to be looked up, each with the reason."""
    requested: dict[str, dict[str, None]] = {}
    for column in columns:
        if column.kind != "told" and TABLES[column.kind] in schemas:
            names = schemas[TABLES[column.kind]].names if column.field is None else [column.field]
            keys = (graph.id,) if column.kind == "vertex" else (graph.src, graph.dst)
            wanted = requested.setdefault(f"{column.kind} {column.name}", {})
            wanted |= dict.fromkeys(name for name in names if name not in keys)
    for address, shown in requested.items():
        kind, _, element = address.partition(" ")
        for name in shown:
            kind_of_column = schemas[TABLES[kind]][name].dataType
            is_wide = isinstance(kind_of_column, DecimalType) and kind_of_column.precision > MAX_DIGITS
            if is_wide or not _family(kind_of_column):
                yield element, f"column '{name}' has the type '{kind_of_column.simpleString()}'"
                break
        else:
            size = sizes[TABLES[kind]]
            if shown and size > CARRIED_BYTES:
                yield element, f"Spark takes the {TABLES[kind]} for {size / (1 << 20):,.1f} MB, more than 1 MB"


def _column(name: str) -> Column:
    return sf.col(quoted(name))

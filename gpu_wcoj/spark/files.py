"""Files that are read without the JVM: those of tables, of tasks and of micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.spark.schema import arrow_schema, quoted
from gpu_wcoj.spark.workers import as_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


# The inputs of a DataFrame: files that the engine can read itself, and names of streams.


_NAMING = ("path", "subscribe", "subscribePattern", "assign", "table", "topic")
"""Options of a stream that name its input; other options are settings or secrets."""


def streams_of(df: DataFrame) -> list[str]:
    """Return the inputs of the streams in a DataFrame's plan, in the plan's order."""
    leaves = _plan(df, "analyzed").collectLeaves()
    names = []
    for i in range(leaves.size()):
        leaf = leaves.apply(i)
        if leaf.isStreaming():
            names.append(_stream_name(leaf))
    return names


def plain_files(df: DataFrame) -> list[str] | None:
    """Return the local Parquet files of a DataFrame that only selects their columns; else None."""
    files, names = _plain_files(df)
    return files if names == df.columns else None


def _plain_files(df: DataFrame) -> tuple[list[str] | None, list[str]]:
    """Return `plain_files` of a DataFrame that may rename columns, and the columns in the files."""
    plan, names = _selected(df, "optimizedPlan")
    return None if plan is None else _files_of(plan), names


def _selected(df: DataFrame, stage: str) -> tuple[Any, list[str]]:
    """Return the plan whose columns a DataFrame selects, and their names there.

    The plan is None for other DataFrames. Streams have no optimised plan, only an analysed one, in which projections
    follow one another.
    """
    plan = _plan(df, stage)
    ids = [value.exprId().id() for value in _scala_list(plan.output())]
    while plan.nodeName() in ("Project", "SubqueryAlias"):
        if plan.nodeName() == "Project":
            source_of = {}
            for value in _scala_list(plan.projectList()):
                read = value.child() if value.nodeName() == "Alias" else value
                if read.nodeName() == "AttributeReference":
                    source_of[value.exprId().id()] = read.exprId().id()
            if not source_of.keys() >= set(ids):
                return None, []
            ids = [source_of[read] for read in ids]
        plan = plan.child()
    name_of = {value.exprId().id(): str(value.name()) for value in _scala_list(plan.output())}
    return plan, [name_of[read] for read in ids]


def _files_of(plan: Any) -> list[str] | None:
    """Return the local Parquet files of a plan that only reads them; else None."""
    if not plan.getClass().getName().endswith(".LogicalRelation"):
        return None
    relation = plan.relation()
    if not relation.getClass().getName().endswith(".HadoopFsRelation"):
        return None
    if relation.fileFormat().toString() != "Parquet" or not relation.partitionSchema().isEmpty():
        return None
    roots = sorted(f"{root}/" for root in str(relation.location().rootPaths().mkString("\0")).split("\0"))
    if any(following.startswith(root) for root, following in pairwise(roots)):
        return None  # a file that is named twice has its rows twice, and stands among the input files once
    paths = []
    for name in relation.location().inputFiles():
        parsed = urlparse(name)
        if parsed.scheme not in ("", "file") or parsed.netloc:
            return None
        paths.append(unquote(parsed.path))
    return sorted(paths)


def collect_table(df: DataFrame) -> tuple[pa.Table, bool]:
    """Return the rows of a batch DataFrame, and whether they were read without the JVM."""
    files = plain_files(df)
    if files:
        table = _read_files(files, df.schema)
        if table is not None:
            return table, True
    return df.toArrow(), False


MapFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for ``mapInArrow``."""


def map_rows(df: DataFrame, function: MapFunction, schema: StructType) -> DataFrame:
    """Return `df.mapInArrow(function, schema)`, without the JVM for rows of plain Parquet files.

    A task of Python reads its share of the files' row groups then.
    """
    pieces = None if df.isStreaming else _pieces_of(df)
    names = df.columns

    def map_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batches if pieces is None else _rows_of(pieces, names, batches))

    if pieces is None:
        return df.mapInArrow(as_task(map_batches), schema)
    tasks = df.sparkSession.range(0, len(pieces), 1, len(pieces))
    return tasks.mapInArrow(as_task(map_batches), schema)


Piece = tuple[str, list[int], list[str]]
"""A Parquet file, row groups of it, and their columns."""


def _rows_of(
    pieces: Sequence[Sequence[Piece]], names: Sequence[str], tasks: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the tasks with these numbers."""
    for batch in tasks:
        for task in batch.column(0).to_pylist():
            for path, groups, columns in pieces[task]:
                with pq.ParquetFile(path, page_checksum_verification=True) as file:
                    for part in file.iter_batches(MAPPED_ROWS, row_groups=groups, columns=columns):
                        yield pa.RecordBatch.from_arrays([part[name] for name in columns], names=names)


MAPPED_ROWS: Final = 1 << 18
"""Rows of a record batch that a task reads from a Parquet file: 2 MB a column of integers."""
MAX_FILES: Final = 1000
"""Files whose footers the driver reads, each in about a millisecond; of more files, Spark reads the rows."""


def _pieces_of(df: DataFrame) -> list[list[Piece]] | None:
    """Return the pieces of plain Parquet files that each task reads; None for other rows."""
    files, names = _plain_files(df)
    if not files or len(files) > MAX_FILES or len(set(names)) < len(names):
        return None
    types = _arrow_types(df.schema)
    groups: list[tuple[str, int, int]] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            if types is None or not _has_columns(file.schema_arrow, dict(zip(names, types, strict=True))):
                return None
            groups += [(path, i, file.metadata.row_group(i).num_rows) for i in range(file.num_row_groups)]
    tasks = max(1, df.sparkSession.sparkContext.defaultParallelism)
    rows_of_task = max(1, -(-sum(rows for _, _, rows in groups) // tasks))
    pieces: list[list[Piece]] = []
    gathered = rows_of_task
    for path, group, rows in groups:
        if gathered + rows // 2 >= rows_of_task and len(pieces) < tasks:
            pieces.append([])
            gathered = 0
        if pieces[-1] and pieces[-1][-1][0] == path:
            pieces[-1][-1][1].append(group)
        else:
            pieces[-1].append((path, [group], names))
        gathered += rows
    return pieces or None


def _arrow_types(schema: StructType) -> list[pa.DataType] | None:
    try:
        return list(arrow_schema(schema).types)
    except UnsupportedTypeError:
        return None


def _has_columns(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> bool:
    return all(name in schema.names and schema.field(name).type == kind for name, kind in types.items())


def _read_files(files: list[str], columns: StructType, names: Sequence[str] | None = None) -> pa.Table | None:
    """Read columns of files whose types are exactly those of the Spark schema; else None.

    `names` are the names of the columns in the files, if they are others.
    """
    types = _arrow_types(columns)
    names = columns.names if names is None else list(names)
    if types is None or not all(
        _has_columns(pq.read_schema(path), dict(zip(names, types, strict=True))) for path in files
    ):
        return None
    tables = [pq.read_table(path, columns=names, page_checksum_verification=True).select(names) for path in files]
    return pa.concat_tables([table.replace_schema_metadata(None) for table in tables]).rename_columns(columns.names)


# Micro-batches of streams of plain files.


@dataclass(frozen=True)
class PlainStream:
    """A stream that only selects columns of Parquet files; see `plain_stream`.

    Attributes
    ----------
    names
        The names of its columns in the files.
    schema
        Its columns.
    """

    names: Sequence[str]
    schema: StructType


def plain_stream(df: DataFrame) -> PlainStream | None:
    """Return the columns of a stream in its Parquet files; None for streams of another kind.

    Decimals are left to Spark, as it hashes them in other ways than this package.
    """
    plan, names = _selected(df, "analyzed")
    types = _arrow_types(df.schema)
    is_plain = (
        plan is not None
        and plan.nodeName() == "StreamingRelation"
        and str(plan.dataSource().className()).lower() == "parquet"
        and len(set(names)) == len(names)
        and types is not None
        and not any(map(pa.types.is_decimal, types))
    )
    return PlainStream(names, df.schema) if is_plain else None


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """A micro-batch of a running query over streams of files, as Spark has planned it.

    Attributes
    ----------
    execution
        Spark's `IncrementalExecution`.
    leaves
        The leaves of its plan, one for each stream.
    """

    execution: Any
    leaves: Sequence[Any]

    @classmethod
    def of_query(cls, session: SparkSession, query: str, batch: int) -> MicroBatch | None:
        """Return a batch of the query with this id; None unless it is running.

        `session` is the one that started the query, as the session of a batch is a copy of it.
        """
        jvm_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]  # PySpark shows no executions
        running = jvm_session.streams().get(query) if query else None
        execution = None if running is None else running.streamingQuery().lastExecution()
        if execution is None or execution.currentBatchId() != batch:
            return None
        return cls(execution, _scala_list(execution.logical().collectLeaves()))

    def read(self, streams: Sequence[PlainStream], max_rows: int | None = None) -> list[pa.Table | None] | None:
        """Return the rows by stream, read without a job of Spark; None if Spark has to read them.

        A stream without rows in the batch has None.

        Parameters
        ----------
        streams
            The streams that the query reads, in the order of its plan.
        max_rows
            Rows of a batch above which Spark has to read them; by default any number is read.
        """
        if len(self.leaves) != len(streams):
            return None
        files_of_stream: list[list[str]] = []
        for leaf in self.leaves:
            files = [] if _is_empty(leaf) else _files_of(leaf)
            if files is None:
                return None
            files_of_stream.append(files)
        if max_rows is not None:
            footers = (pq.read_metadata(path) for files in files_of_stream for path in files)
            if sum(footer.num_rows for footer in footers) > max_rows:
                return None
        tables: list[pa.Table | None] = []
        for files, stream in zip(files_of_stream, streams, strict=True):
            table = _read_files(files, stream.schema, stream.names) if files else None
            if table is None and files:
                return None
            tables.append(table)
        self.count([table.num_rows for table in tables if table is not None])
        return tables

    def frame(self, session: SparkSession, stream: PlainStream) -> DataFrame:
        """Return the rows of the only stream as a DataFrame that Spark reads."""
        (leaf,) = self.leaves
        if _is_empty(leaf):
            return session.createDataFrame([], stream.schema)
        jvm_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
        rows = DataFrame(jvm_session.baseRelationToDataFrame(leaf.relation()), session)
        return rows.select(*map(quoted, stream.names)).toDF(*stream.schema.names)

    def count(self, rows: Sequence[int]) -> None:
        """Add the numbers of rows that were read to the metrics of Spark's plan.

        Spark's own tasks would do so; the reports of the query show the sum.
        """
        leaves = _scala_list(self.execution.executedPlan().collectLeaves())
        scans = [metrics for metrics in (leaf.metrics() for leaf in leaves) if metrics.contains(_READ)]
        if len(scans) == len(rows):
            for metrics, n_rows in zip(scans, rows, strict=True):
                metrics.apply(_READ).add(n_rows)


def _is_empty(leaf: Any) -> bool:
    """Return whether a leaf of a batch's plan stands for a stream without rows in the batch."""
    return bool(leaf.nodeName() == "LocalRelation" and leaf.data().isEmpty())


_READ: Final = "numOutputRows"
"""The metric of a scan that counts its rows."""


def _scala_list(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence as a list."""
    return [sequence.apply(i) for i in range(sequence.size())]


def _plan(df: DataFrame, stage: str) -> Any:
    jvm_frame: Any = df._jdf  # pyright: ignore[reportPrivateUsage]  # PySpark shows no plans but as text
    return getattr(jvm_frame.queryExecution(), stage)()


def _stream_name(leaf: Any) -> str:
    if leaf.nodeName() != "StreamingRelationV2":
        return str(leaf.toString())
    options = leaf.extraOptions()
    named = [f"{name}={options.get(name)}" for name in _NAMING if options.get(name) is not None]
    return f"{leaf.sourceName()}[{', '.join(named)}]"

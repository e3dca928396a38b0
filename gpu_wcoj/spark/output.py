"""Sinks of changes: a function, a Spark format, Parquet files, or counts only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gpu_wcoj.checkpoint.manifest import Manifest, OutputFile
from gpu_wcoj.errors import UsageError
from gpu_wcoj.program import ChangeCount, Program

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Changes = Mapping[str, Any]
Receiver = Callable[["dict[str, pa.Table]", int], object]


@dataclass(frozen=True)
class WrittenBatch:
    """The result of a batch: counts by output, files, their columns, and seconds of writing."""

    counts: Mapping[str, ChangeCount]
    seconds: float = 0.0
    files: tuple[OutputFile, ...] = ()
    relations: Mapping[str, Any] = field(default_factory=dict)


class Sink(Protocol):
    """A destination of changes."""

    is_listed: bool
    """Whether the checkpoint's manifest lists the written files."""

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """Prepare to follow a checkpoint, named by its id, as the holder of a fencing token."""
        ...

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:
        """Run the program on the changes of a batch and write the changes of its outputs."""
        ...

    def publish(self, manifest: Manifest) -> None:
        """Make the batch visible; called after its commit."""
        ...


class CountOnly:
    """A sink that counts changes without listing them."""

    is_listed = False

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """See `Sink.open`."""

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:  # noqa: ARG002  # there is nothing to name
        """See `Sink.process_batch`."""
        return WrittenBatch(program.step_counts(changes))

    def publish(self, manifest: Manifest) -> None:
        """See `Sink.publish`."""


class ToCallable:
    """A sink that calls a function.

    After a crash the function may be called again with the same batch id.
    """

    is_listed = False

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._checkpoint = ""

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:  # noqa: ARG002  # as `Sink` asks for it
        """See `Sink.open`."""
        self._checkpoint = checkpoint

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:
        """See `Sink.process_batch`."""
        results = program.step(changes)
        counts = {name: _count_changes(rows.weights, program.bag) for name, rows in results.items()}
        start = time.perf_counter()
        self.deliver({name: rows.to_arrow() for name, rows in results.items()}, batch)
        return WrittenBatch(counts, time.perf_counter() - start)

    def deliver(self, tables: dict[str, pa.Table], batch: int) -> None:
        """Call the function with the changes."""
        self._receiver(tables, batch)

    def deliver_files(self, files: Mapping[str, Sequence[Path]], schemas: Mapping[str, pa.Schema], batch: int) -> None:
        """Call the function with changes that cells have written as files.

        The files and their columns are given by output, and hold the batch id.
        """
        self.deliver({name: read_files(files[name], schema) for name, schema in schemas.items()}, batch)

    def publish(self, manifest: Manifest) -> None:
        """See `Sink.publish`."""


class ToFormat(ToCallable):
    """A sink that appends with a Spark writer, each output at its own path.

    Delta receives the batch id (``txnAppId``, ``txnVersion``) and skips a batch that it has: exactly once. In other
    formats, a batch that was being written when the driver died may be present twice; the column ``batch`` shows it.
    """

    def __init__(self, session: SparkSession, name: str, place: str, options: Mapping[str, str]) -> None:
        super().__init__(lambda _tables, _batch: None)
        self._session = session
        self._name = name
        self._place = place
        self._options = dict(options)

    def deliver(self, tables: dict[str, pa.Table], batch: int) -> None:
        """Append the changes."""
        from gpu_wcoj.spark.types import spark_schema

        for relation, table in tables.items():
            if table.num_rows:
                rows = with_batch(table, batch)
                self._append(relation, self._session.createDataFrame(rows, spark_schema(rows.schema)), batch)

    def deliver_files(self, files: Mapping[str, Sequence[Path]], schemas: Mapping[str, pa.Schema], batch: int) -> None:
        """Append files that cells have written; the data moves between executors only."""
        from gpu_wcoj.spark.types import spark_schema

        for relation, schema in schemas.items():
            if files[relation]:
                kind = spark_schema(with_batch(schema.empty_table(), batch).schema)
                reader = self._session.read.schema(kind).option("parquet.page.verify-checksum.enabled", "true")
                self._append(relation, reader.parquet(*map(str, files[relation])), batch)

    def _append(self, relation: str, frame: DataFrame, batch: int) -> None:
        writer = frame.write.format(self._name).mode("append").options(**self._options)
        if self._name == "delta":
            # Delta ignores versions below 1, and tables are loaded as batch -1.
            writer = writer.option("txnAppId", f"{self._checkpoint}/{relation}").option("txnVersion", batch + 2)
        writer.save(f"{self._place.rstrip('/')}/{relation}")


def sink_of(
    session: SparkSession,
    output: str | PathLike[str] | Receiver | None,
    name: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Sink:
    """Return the sink for the options of a view.

    Raises
    ------
    UsageError
        If they do not fit together.
    """
    if output is None:
        return CountOnly()
    if not isinstance(output, (str, PathLike)):
        if not callable(output):
            raise UsageError.invalid_value("output", output, "a path or a function of (changes, batch)")
        return ToCallable(output)
    place = fspath(output)
    if not place:
        raise UsageError.invalid_value("output", "", "a path", "Name a folder, or leave it out.")
    if name == "parquet":
        if options:
            raise UsageError.conflict(
                f"options={dict(options)!r}", "format='parquet'", "Leave options out.",
                "the Parquet files are not written by Spark",
            )  # fmt: skip
        from gpu_wcoj.spark.files import ToParquet

        return ToParquet(place)
    return ToFormat(session, name, place, options or {})


def check_columns(session: SparkSession, output: str, columns: Sequence[str]) -> None:
    """Check that Spark can read and write an output, whose columns must not differ in case only.

    Raises
    ------
    UsageError
        Naming two such columns.
    """
    if str(session.conf.get("spark.sql.caseSensitive", "false")).lower() == "true":
        return
    seen: dict[str, str] = {}
    for column in columns:
        first = seen.setdefault(column.lower(), column)
        if first != column:
            raise UsageError.with_parts(
                f"the columns '{first}' and '{column}' of output '{output}' differ only in case, which Spark ignores",
                subject=output, got=(first, column),
                remedy="Rename one of them, or set spark.sql.caseSensitive to true.",
            )  # fmt: skip


def with_batch(table: pa.Table, batch: int) -> pa.Table:
    """Return the table with a last column of the batch id.

    The column is named ``batch``, with leading underscores as long as the name is in use.
    """
    import pyarrow as pa

    name = "batch"
    while name in table.column_names:
        name = "_" + name
    return table.append_column(name, pa.repeat(pa.scalar(batch, pa.int64()), table.num_rows))


def read_files(files: Sequence[Path], schema: pa.Schema) -> pa.Table:
    """Read the rows of files that have at least these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files:
        return schema.empty_table()
    tables = [pq.read_table(path, columns=schema.names, page_checksum_verification=True) for path in files]
    return pa.concat_tables([table.cast(schema) for table in tables])


def _count_changes(weights: Any, is_bag: bool) -> ChangeCount:
    net = int(weights.sum())
    if is_bag:
        return ChangeCount(None, None, net)
    return ChangeCount(int((weights > 0).sum()), int((weights < 0).sum()), net)

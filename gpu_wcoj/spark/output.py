"""Where the changes of a view's answers go: a callable, a format of Spark's, Parquet files, or nowhere."""

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
    """What became of a batch: counts by output, files, their columns, and the seconds that writing took."""

    counts: Mapping[str, ChangeCount]
    seconds: float = 0.0
    files: tuple[OutputFile, ...] = ()
    relations: Mapping[str, Any] = field(default_factory=dict)


class Sink(Protocol):
    """Where changes go."""

    is_listed: bool
    """Whether the checkpoint's manifest lists what was written."""

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """Get ready to follow a checkpoint, by its name, as the holder of a fencing number."""
        ...

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:
        """Let the program take in the changes of a batch, and write what comes of them."""
        ...

    def publish(self, manifest: Manifest) -> None:
        """Called when the batch is committed."""
        ...


class CountOnly:
    """Changes are counted, not listed."""

    is_listed = False

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """See `Sink.open`."""

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:  # noqa: ARG002  # there is nothing to name
        """See `Sink.process_batch`."""
        return WrittenBatch(program.step_counts(changes))

    def publish(self, manifest: Manifest) -> None:
        """See `Sink.publish`."""


class ToCallable:
    """Changes go to a function, which may be called again with the same batch id after a crash."""

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
        """Hand over the changes."""
        self._receiver(tables, batch)

    def deliver_files(self, files: Mapping[str, Sequence[Path]], schemas: Mapping[str, pa.Schema], batch: int) -> None:
        """Hand over changes that cells have written, with the batch, as files; by output, as are their columns."""
        self.deliver({name: read_files(files[name], schema) for name, schema in schemas.items()}, batch)

    def publish(self, manifest: Manifest) -> None:
        """See `Sink.publish`."""


class ToFormat(ToCallable):
    """Changes are appended by a writer of Spark's, each output in a place of its own.

    Delta is told the batch (``txnAppId``, ``txnVersion``) and passes over one that it has: exactly once. Of other
    formats, the batch that was being written when the driver died may be there twice; the column ``batch`` tells.
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
        """Append what cells have written; it goes from executors to executors."""
        from gpu_wcoj.spark.types import spark_schema

        for relation, schema in schemas.items():
            if files[relation]:
                kind = spark_schema(with_batch(schema.empty_table(), batch).schema)
                reader = self._session.read.schema(kind).option("parquet.page.verify-checksum.enabled", "true")
                self._append(relation, reader.parquet(*map(str, files[relation])), batch)

    def _append(self, relation: str, frame: DataFrame, batch: int) -> None:
        writer = frame.write.format(self._name).mode("append").options(**self._options)
        if self._name == "delta":
            # A version below 1 is not kept by Delta, and tables are loaded as batch -1.
            writer = writer.option("txnAppId", f"{self._checkpoint}/{relation}").option("txnVersion", batch + 2)
        writer.save(f"{self._place.rstrip('/')}/{relation}")


def sink_of(
    session: SparkSession,
    output: str | PathLike[str] | Receiver | None,
    name: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Sink:
    """The sink that these options ask for.

    Raises
    ------
    UsageError
        If they do not go together.
    """
    if output is None:
        return CountOnly()
    if not isinstance(output, (str, PathLike)):
        if not callable(output):
            raise UsageError(f"output={output!r:.80} is neither a path nor a function of (changes, batch).")
        return ToCallable(output)
    place = fspath(output)
    if not place:
        raise UsageError("output='' is no path.\n  Name a folder, or leave it out.")
    if name == "parquet":
        if options:
            raise UsageError(
                f"the options {dict(options)!r} have no meaning for the Parquet files that are written here."
            )
        from gpu_wcoj.spark.files import ToParquet

        return ToParquet(place)
    return ToFormat(session, name, place, options or {})


def check_columns(session: SparkSession, output: str, columns: Sequence[str]) -> None:
    """See that Spark can read and write an output: it tells no columns apart that differ in case alone.

    Raises
    ------
    UsageError
        Naming two columns that it takes for one.
    """
    if str(session.conf.get("spark.sql.caseSensitive", "false")).lower() == "true":
        return
    seen: dict[str, str] = {}
    for column in columns:
        first = seen.setdefault(column.lower(), column)
        if first != column:
            raise UsageError(
                f"the columns '{first}' and '{column}' of output '{output}' are one to Spark.\n"
                "  Give one of them another name, or set spark.sql.caseSensitive to true."
            )


def with_batch(table: pa.Table, batch: int) -> pa.Table:
    """The table with a last column that holds the batch's id, called ``batch`` or, where that is taken, ``_batch``."""
    import pyarrow as pa

    name = "batch"
    while name in table.column_names:
        name = "_" + name
    return table.append_column(name, pa.repeat(pa.scalar(batch, pa.int64()), table.num_rows))


def read_files(files: Sequence[Path], schema: pa.Schema) -> pa.Table:
    """Of files with at least these columns, their rows."""
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

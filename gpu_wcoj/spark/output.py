"""Sinks of changes: a function, a Spark format, Parquet files, or counts only."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from gpu_wcoj.checkpoint.canonical import opened, sealed
from gpu_wcoj.checkpoint.folder import OsFolder, write_whole
from gpu_wcoj.checkpoint.manifest import Manifest, OutputFile
from gpu_wcoj.destination import folder_path, force_names
from gpu_wcoj.errors import (
    CheckpointDamagedError,
    CheckpointMismatchError,
    OutputFileError,
    UnknownRelationError,
    UsageError,
    entry_point,
    listed,
)
from gpu_wcoj.files.output import GROUP_ROWS, ParquetFile, folder_of
from gpu_wcoj.program import ChangeCount, Program
from gpu_wcoj.spark.motifs import Packing
from gpu_wcoj.spark.schema import quoted, spark_schema
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
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

    def __init__(self, receiver: Receiver, packing: Packing | None = None) -> None:
        self._receiver = receiver
        self._packing = packing
        self._checkpoint = ""

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:  # noqa: ARG002  # as `Sink` asks for it
        """See `Sink.open`."""
        self._checkpoint = checkpoint

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:
        """See `Sink.process_batch`."""
        results = program.step(changes)
        counts = {name: _count_changes(rows.weights, program.bag) for name, rows in results.items()}
        start = time.perf_counter()
        self.deliver({name: _packed(rows.to_arrow(), self._packing) for name, rows in results.items()}, batch)
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

    def __init__(
        self, session: SparkSession, name: str, place: str, options: Mapping[str, str], packing: Packing | None = None
    ) -> None:
        super().__init__(lambda _tables, _batch: None, packing)
        self._session = session
        self._name = name
        self._place = place
        self._options = dict(options)

    def deliver(self, tables: dict[str, pa.Table], batch: int) -> None:
        """Append the changes."""
        for relation, table in tables.items():
            if table.num_rows:
                rows = with_batch(table, batch)
                self._append(relation, self._session.createDataFrame(rows, spark_schema(rows.schema)), batch)

    def deliver_files(self, files: Mapping[str, Sequence[Path]], schemas: Mapping[str, pa.Schema], batch: int) -> None:
        """Append files that cells have written; the data moves between executors only."""
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
    packing: Packing | None = None,
) -> Sink:
    """Return the sink for the options of a view, and for a motif the columns of its matches.

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
        return ToCallable(output, packing)
    place = fspath(output)
    if not place:
        raise UsageError.invalid_value("output", "", "a path", "Name a folder, or leave it out.")
    if name == "parquet":
        if options:
            raise UsageError.conflict(
                f"options={dict(options)!r}", "format='parquet'", "Leave options out.",
                "the Parquet files are not written by Spark",
            )  # fmt: skip

        return ToParquet(place, packing)
    return ToFormat(session, name, place, options or {}, packing)


def _packed(rows: pa.Table, packing: Packing | None) -> pa.Table:
    return rows if packing is None else packing.pack(rows)


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

    if not files:
        return schema.empty_table()
    tables = [pq.read_table(path, columns=schema.names, page_checksum_verification=True) for path in files]
    return pa.concat_tables([table.cast(schema) for table in tables])


def _count_changes(weights: Any, is_bag: bool) -> ChangeCount:
    net = int(weights.sum())
    if is_bag:
        return ChangeCount(None, None, net)
    return ChangeCount(int((weights > 0).sum()), int((weights < 0).sum()), net)


# The list of committed batches in a folder of outputs: one small sealed file a batch.
#
# ``FOLDER/RELATION/*.parquet`` hold the changes, under names that no two attempts share. Only files that
# ``FOLDER/_batches`` lists count. A list file is written from the checkpoint's manifest, after it: the manifest is the
# commit.


BATCHES = "_batches"
_NAME = re.compile(r"batch-(-1|\d{12})\.json")
_OURS = re.compile(r"(?:load|batch-\d{12})-(?:\d{6}-\d+|\d{3}-\d{5,}-[0-9a-f]{16})\.parquet")
"""File names of attempts, of one engine or of a cell; all other files belong to someone else."""


class Listing:
    """The list of committed batches of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._folder = OsFolder(folder / BATCHES)

    def batches(self) -> list[int]:
        """Return the ids of the listed batches, ascending.

        Raises
        ------
        CheckpointDamagedError
            If one is missing between others.
        """
        batches = sorted(int(match[1]) for match in map(_NAME.fullmatch, self._folder.names()) if match)
        for batch, following in pairwise(batches):
            if following != batch + 1:
                raise CheckpointDamagedError(self._folder.shown(_name(batch + 1)), "is missing")
        return batches

    def read(self, batch: int) -> dict[str, Any]:
        """Return a listed batch: checkpoint, batch, files, and the columns of the relations."""
        try:
            data = self._folder.read(_name(batch))
        except FileNotFoundError:
            raise CheckpointDamagedError(self._folder.shown(_name(batch)), "is missing") from None
        return opened(data, self._folder.shown(_name(batch)))

    def publish(self, manifest: Manifest) -> None:
        """List the last batch of a manifest if it is not listed yet; atomic."""
        content = {
            "checkpoint": manifest.checkpoint,
            "batch": manifest.batch,
            "files": [[file.path, file.rows, file.bytes, file.sha256] for file in manifest.outputs],
            "relations": manifest.extra.get("relations", {}),
        }
        temporary = f"tmp-{manifest.fence:06}-{manifest.batch}"
        self._folder.remove(temporary)
        write_whole(self._folder.create(temporary), sealed(content))
        try:
            self._folder.publish(temporary, _name(manifest.batch))
        except FileExistsError:
            if self.read(manifest.batch) != content:
                raise CheckpointMismatchError(
                    self.path, f"output of batch {manifest.batch}", self.read(manifest.batch), content
                ) from None
        self._folder.remove(temporary)
        self._folder.sync()

    def resume(self, checkpoint: str, last_manifest: Manifest | None) -> None:
        """Bring the list up to date with its checkpoint, and remove files of uncommitted batches.

        Raises
        ------
        CheckpointMismatchError
            If the folder is that of another checkpoint, or batches were taken in without it.
        CheckpointDamagedError
            If batches are missing that the checkpoint has.
        """
        self._folder.prepare()
        batches = self.batches()
        if batches and (stored_checkpoint := self.read(batches[-1])["checkpoint"]) != checkpoint:
            raise CheckpointMismatchError(
                self.path, "checkpoint, and this folder holds its output", stored_checkpoint, checkpoint
            )
        newest = -2 if last_manifest is None else last_manifest.batch
        if batches and batches[-1] > newest:
            raise CheckpointMismatchError(self.path, "state", f"batch {batches[-1]} as the last", f"batch {newest}")
        if last_manifest is not None:
            if not last_manifest.extra.get("listed"):
                without = f"batches up to {newest} were taken in without a folder"
                raise CheckpointMismatchError(self.path, "output", without, f"the folder '{self.path}'")
            if newest not in batches:
                self.publish(last_manifest)
            first = self.batches()[0]
            if first != -1:
                raise CheckpointDamagedError(self._folder.shown(_name(-1)), "is missing, with all before the last")
        self._tidy()

    def files(self, since: int | None = None) -> tuple[dict[str, list[tuple[Path, int]]], dict[str, Any]]:
        """Return the files of each relation with their sizes, and the columns of each relation.

        The files are those of all batches, or of the batches after `since`.

        Raises
        ------
        UsageError
            If no batch is listed.
        """
        batches = self.batches()
        if not batches:
            raise UsageError.missing(
                f"the folder '{self.path}'", "the output of a view", "Name the folder that a view writes to."
            )
        newest = self.read(batches[-1])
        files: dict[str, list[tuple[Path, int]]] = {name: [] for name in newest["relations"]}
        for batch in batches:
            if since is None or batch > since:
                for path, _rows, size, _sha256 in self.read(batch)["files"]:
                    files[path.split("/", 1)[0]].append((self.path / path, size))
        return files, newest["relations"]

    def _tidy(self) -> None:
        listed = {path for batch in self.batches() for path, *_ in self.read(batch)["files"]}
        for path in self.path.glob("*/*.parquet"):
            if _OURS.fullmatch(path.name) and str(path.relative_to(self.path)) not in listed:
                path.unlink()
        for name in self._folder.names():
            if name.startswith("tmp-"):
                self._folder.remove(name)


def columns_of(schemas: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return the column names of each listed relation."""
    return {name: [field["name"] for field in schema["fields"]] for name, schema in schemas.items()}


def _name(batch: int) -> str:
    return "batch--1.json" if batch == -1 else f"batch-{batch:012}.json"


# Changes as Parquet files with unique names, forced to disk before the batch is committed.


class ToParquet:
    """A sink of Parquet files, which count once the checkpoint's manifest names them.

    See `Sink`.
    """

    is_listed = True

    def __init__(self, place: str, packing: Packing | None = None) -> None:
        remedy = "Name one, or let Spark write there: format='delta', or another format of Spark."
        self._listing = Listing(folder_path(place, "output", remedy))
        self._fence = 0
        self._packing = packing

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """See `Sink.open`."""
        self._fence = fence
        self._listing.resume(checkpoint, last_manifest)

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:
        """See `Sink.process_batch`."""
        attempt = Attempt(self._listing.path, batch, self._fence, self._packing)
        try:
            counts = program.step_pieces(changes, attempt.add, in_order=False)
            files = attempt.finish()
        except BaseException:
            attempt.discard()
            raise
        empty = {name: _packed(program.empty(name).to_arrow(), self._packing) for name in program.outputs}
        relations = {name: json_schema(with_batch(table, batch)) for name, table in empty.items()}
        return WrittenBatch(counts, attempt.seconds, files, relations)

    def publish(self, manifest: Manifest) -> None:
        """See `Sink.publish`."""
        self._listing.publish(manifest)


class Attempt:
    """The files of one attempt at one batch: one for each output that changes."""

    def __init__(self, folder: Path, batch: int, fence: int, packing: Packing | None = None) -> None:
        self.folder = folder
        self._batch = batch
        self._packing = packing
        name = "load" if batch < 0 else f"batch-{batch:012}"
        self._name = f"{name}-{fence:06}-{os.getpid()}.parquet"
        self._open: dict[str, SparkFile] = {}
        self.seconds = 0.0

    def add(self, relation: str, piece: ZSet) -> None:
        """Add some of the changes of an output."""
        start = time.perf_counter()
        table = _packed(piece.to_arrow(), self._packing)
        if table.num_rows:
            if relation not in self._open:
                self._open[relation] = SparkFile(folder_of(self.folder, relation) / self._name)
            self._open[relation].add(with_batch(table, self._batch))
        self.seconds += time.perf_counter() - start

    def finish(self) -> tuple[OutputFile, ...]:
        """Force all files to disk and return them."""
        start = time.perf_counter()
        files = tuple(OutputFile(f"{relation}/{self._name}", *file.finish()) for relation, file in self._open.items())
        for folder in {self.folder, *(self.folder / relation for relation in self._open)}:
            if folder.is_dir():
                force_names(folder)
        self.seconds += time.perf_counter() - start
        return files

    def discard(self) -> None:
        """Remove the files."""
        for file in self._open.values():
            file.discard()


class SparkFile(ParquetFile):
    """A file of changes or of an answer, in a folder that may be missing; see `ParquetFile`."""

    def _opened(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return super()._opened()

    def unwritable(self, error: OSError) -> OutputFileError:
        """See `ParquetFile.unwritable`."""
        return OutputFileError.with_parts(
            f"'{self.path}' cannot be written: {error.strerror or error}; the batch is not committed",
            subject=str(self.path), remedy="Check the folder and its disk, and start the query again.",
        )  # fmt: skip


class AnswerFiles:
    """The Parquet files of an answer of a one-shot query, which threads write.

    Nothing lists these files, so they have no checksums and are not forced to disk. Their names are used once, and
    the files of an attempt that failed are removed.

    Parameters
    ----------
    folder, output
        Files are written to the folder of this output below `folder`.
    is_weighted
        Whether the files have the weights of the rows.
    threads
        Number of threads that write.
    """

    def __init__(self, folder: Path, output: str, is_weighted: bool, threads: int) -> None:
        self._folder, self._output, self._is_weighted = folder_of(folder, output), output, is_weighted
        self._files: list[SparkFile] = []
        self._threads, self._n_threads, self._tasks = ThreadPoolExecutor(threads), threads, deque[Future[None]]()
        self._idle: list[SparkFile] = []
        self._pieces: list[pa.Table] = []
        self._n_gathered = 0
        self.repeats = False
        """True if a row has another weight than 1."""

    def add(self, rows: pa.Table) -> None:
        """Add rows, whose weights are last."""
        if self._is_weighted:
            bounds = pc.min_max(rows.column(rows.num_columns - 1)).as_py()
            self.repeats |= bool(rows.num_rows) and bounds != {"min": 1, "max": 1}
        else:
            rows = rows.select(range(rows.num_columns - 1))
        self._pieces.append(rows)
        self._n_gathered += rows.num_rows
        if self._n_gathered >= GROUP_ROWS:
            self._submit()

    def finish(self) -> list[str]:
        """Return the paths of the files, at most one a thread, relative to the folder of the answer."""
        if self._n_gathered:
            self._submit()
        while self._tasks:
            self._tasks.popleft().result()
        self._threads.shutdown()
        for file in self._files:
            file.finish()
        return [f"{self._output}/{file.path.name}" for file in self._files]

    def discard(self) -> None:
        """Remove the files."""
        self._threads.shutdown(cancel_futures=True)
        for file in self._files:
            file.discard()

    def _submit(self) -> None:
        while len(self._tasks) > self._n_threads:  # so that few pieces wait
            self._tasks.popleft().result()
        pieces, self._pieces, self._n_gathered = self._pieces, [], 0
        self._tasks.append(self._threads.submit(self._write, pieces))

    def _write(self, pieces: Sequence[pa.Table]) -> None:
        try:
            file = self._idle.pop()
        except IndexError:
            file = SparkFile(self._folder / f"answer-{os.urandom(8).hex()}.parquet", is_checked=False, is_durable=False)
            self._files.append(file)
        file.add(pa.concat_tables(pieces))
        self._idle.append(file)


def json_schema(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a table, as Spark reads them, as plain values."""
    return dict(spark_schema(table.schema).jsonValue())


# Reading the output of a view: committed batches only.


@entry_point
def read_output(
    spark: SparkSession,
    path: str | PathLike[str],
    relation: str | None = None,
    *,
    state: bool = False,
    since: int | None = None,
) -> DataFrame:
    """Return the changes that a view wrote as Parquet, with weights and batch ids.

    The result has committed batches only, each completely and once, also after crashes during writing.

    Parameters
    ----------
    path
        The `output` of the view.
    relation
        One of the program's outputs; optional if there is only one.
    state
        Return the rows of the answer after the last batch instead, with their weights: the sum of all changes.
    since
        Only batches after the one with this id. Tables that were loaded before the first batch are batch -1.

    Raises
    ------
    UsageError, UnknownRelationError
        If the folder has no output, or several and `relation` is not given.
    CheckpointDamagedError
        If a file is missing or has the wrong size.
    """
    if state and since is not None:
        raise UsageError.conflict(
            f"since={since}", "state=True", "Leave one of the two out.",
            "since selects changes, and state returns the rows after all changes",
        )  # fmt: skip
    files, schemas = Listing(folder_path(path)).files(since)
    if relation is None:
        if len(schemas) != 1:
            raise UsageError.with_parts(
                f"the folder '{path}' has the outputs {listed(schemas)}",
                subject="relation", expected="one output", remedy="Name one: relation=...",
            )  # fmt: skip
        (relation,) = schemas
    elif relation not in schemas:
        raise UnknownRelationError(relation, schemas, "outputs")
    schema = StructType.fromJson(schemas[relation])
    names = []
    for file, size in files[relation]:
        size_on_disk = file.stat().st_size if file.exists() else None
        if size_on_disk != size:
            what = (
                "is missing"
                if size_on_disk is None
                else f"has the wrong size: got {size_on_disk:,} bytes, expected {size:,}"
            )
            raise CheckpointDamagedError(file, what)
        names.append(str(file))
    if names:
        rows = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true").parquet(*names)
    else:
        rows = spark.createDataFrame([], schema)
    if not state:
        return rows
    *columns, weight, _batch = schema.names
    summed = rows.groupBy(*map(quoted, columns)).agg(sf.sum(f"`{weight}`").alias(weight))
    return summed.where(sf.col(f"`{weight}`") != 0)

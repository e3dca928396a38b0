"""A view with one engine: Spark feeds it in batches, and its state survives crashes.

A batch goes through these steps under one id: normalised rows from Spark to Arrow; the tick of the program; the output;
the manifest of the checkpoint. The manifest is the commit. After a crash, steps before it are repeated, under new file
names; steps after it, Spark's own commit and the list of outputs, are completed.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pyspark.sql.streaming.listener import StreamingQueryListener

from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions, Manifest
from gpu_wcoj.destination import folder_path
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import BatchMismatchError, CheckpointError, CheckpointMismatchError, GpuWcojError, UsageError
from gpu_wcoj.explain.render import Format
from gpu_wcoj.maintained import SeveralAnswers
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.read import restore_program
from gpu_wcoj.spark.files import collect_table
from gpu_wcoj.spark.output import Changes, Sink, WrittenBatch
from gpu_wcoj.spark.sources import Source, Sources, as_change
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )
    from pyspark.sql.streaming.query import StreamingQuery


# Progress of a view's batches: log lines, and Spark's reports.


_LOGGER = logging.getLogger("gpu_wcoj.spark")


class Listener(StreamingQueryListener):
    """A listener that keeps Spark's latest progress report of one query.

    The report has rows, durations and sources.

    Attributes
    ----------
    latest
        Spark's latest report, as a plain dict; empty before the first.
    """

    def __init__(self, query: Callable[[], str]) -> None:
        super().__init__()
        self._query = query
        self.latest: dict[str, Any] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """See `StreamingQueryListener`."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""
        report = event.progress
        if str(report.id) == self._query():
            self.latest = progress_fields(report.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """See `StreamingQueryListener`."""


def progress_fields(report: str) -> dict[str, Any]:
    """Return the fields of Spark's JSON report of a batch that `View.progress` repeats.

    Examples
    --------
    >>> progress_fields('{"batchId": 3, "numInputRows": 7, "sources": []}')
    {'batchId': 3, 'numInputRows': 7}
    """
    names = ("batchId", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond", "durationMs", "timestamp")
    report_fields = json.loads(report)
    return {name: report_fields[name] for name in names if name in report_fields}


def log_progress(progress: Mapping[str, Any]) -> None:
    """Log a batch; its id is in the log record as ``batch``."""
    extra = {"batch": progress["batch"]}
    if progress["skipped"]:
        _LOGGER.info("batch %d had been committed before; it was passed over.", progress["batch"], extra=extra)
        return
    net = ", ".join(f"{name} {change['net']:+,}" for name, change in progress["changes"].items())
    seconds = ", ".join(f"{name} {value:.3f}" for name, value in progress["seconds"].items())
    _LOGGER.info("batch %d: %d rows; %s; seconds: %s", progress["batch"], progress["rows"], net, seconds, extra=extra)
    if progress["hint"]:
        _LOGGER.warning("batch %d: %s", progress["batch"], progress["hint"], extra=extra)


def hint(rows: int, seconds: float, max_rows: int) -> str:
    """Return advice for a batch that is too large, or an empty string."""
    if rows <= max_rows:
        return ""
    return (
        f"it had {rows:,} rows and took {seconds:.1f} s. Smaller batches take less memory and are done sooner: "
        ".option('maxFilesPerTrigger', n) on a stream of files, 'maxOffsetsPerTrigger' for Kafka, "
        "'maxBytesPerTrigger' for Delta."
    )


# The base of all views: one Spark query over one checkpoint, from start to stop.


ENGINE, SPARK = "engine", "spark"
"""Folders within a view's checkpoint: the state of the program, and Spark's own checkpoint."""

_running: WeakValueDictionary[Path, RunningView] = WeakValueDictionary()
"""The view of this process that last opened each checkpoint."""


class RunningView(SeveralAnswers):
    """A program that Spark keeps up to date; made by `gpu_wcoj.spark.maintain`.

    Attributes
    ----------
    checkpoint_path
        The folder with the state and Spark's checkpoint.
    failure
        The error of this package that ended the last query, which Spark wraps; otherwise None.
    """

    def __init__(self, session: SparkSession, checkpoint_path: Path) -> None:
        self.checkpoint_path = checkpoint_path
        self.failure: BaseException | None = None
        self._is_stopping = False
        self._session = session
        self._query: StreamingQuery | None = None
        self._listener: Listener | None = None
        self._batch = threading.Lock()
        self._closing = threading.RLock()
        self._progress: dict[str, Any] = {}
        self._answers: dict[str, int] = {}
        self._callbacks: list[Callable[[dict[str, Any]], object]] = []

    @property
    @abstractmethod
    def program(self) -> Program:
        """The program with its state after the last committed batch."""

    @abstractmethod
    def relation(self, name: str) -> ZSet:
        """Return all rows of a relation of the program."""

    def _relation(self, name: str) -> ZSet:
        return self.relation(name)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the answers."""
        return self.program.outputs

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """True if the checkpoint is open."""

    @property
    @abstractmethod
    def _has_stream(self) -> bool:
        """True if a source is a stream."""

    @abstractmethod
    def _stream(self) -> DataFrame:
        """Return the streaming DataFrame that the query runs; the view must be open."""

    @abstractmethod
    def _open(self, takeover: bool) -> None:
        """Open the checkpoint, and load the tables if it is new."""

    @abstractmethod
    def _release(self) -> None:
        """Close the checkpoint; called while no batch is running."""

    @abstractmethod
    def _process_batch(self, frame: DataFrame, batch: int) -> None:
        """Process one batch unless it is committed already."""

    @property
    def is_closed(self) -> bool:
        """True unless the checkpoint is open."""
        return not self._is_open

    def __repr__(self) -> str:
        return f"{type(self).__name__} on '{self.checkpoint_path}'{', closed' if self.is_closed else ''}"

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def query(self) -> StreamingQuery | None:
        """The query that was started last."""
        return self._query

    @property
    def progress(self) -> dict[str, Any]:
        """The progress of the last batch as plain values; empty before the first.

        ``batch``, ``rows`` of input, ``changes`` by output (inserted, deleted, net), ``answers`` (rows of each output),
        ``seconds`` by stage, with ``batch`` as their sum, ``state_bytes``, ``checkpoint_bytes`` that were written,
        ``skipped`` (it had been committed before), ``hint`` (advice if it was too large), and ``spark``, Spark's latest
        report. On cells, ``load`` is the largest and the mean number of rows of a cell by stage, ``skew`` the largest
        of their ratios, and ``adapted`` the values that have become heavy with this batch. Without cells, they are
        empty, 1.0 and empty.
        """
        progress = dict(self._progress)
        if progress and self._listener is not None:
            progress["spark"] = dict(self._listener.latest)
        return progress

    @property
    def answers(self) -> dict[str, int]:
        """The number of rows of each output after the last committed batch.

        In bag semantics, the sum of their weights.
        """
        return dict(self._answers)

    @staticmethod
    def restore(checkpoint: str | PathLike[str], **options: Any) -> Program:
        """Return the program of a view in its state after the last committed batch.

        Neither Spark nor the lease is needed. For a view on cells, the program gets the rows of all cells.

        Parameters
        ----------
        checkpoint
            The checkpoint of the view.
        options
            See `gpu_wcoj.program.Program.restore`.
        """
        return restore_program(folder_path(checkpoint, "checkpoint") / ENGINE, ProgramOptions.for_restore(options))

    def on_batch(self, told: Callable[[dict[str, Any]], object]) -> None:
        """Call a function with the `progress` of every batch that is committed or skipped."""
        self._callbacks.append(told)

    def start(
        self, trigger: Mapping[str, Any] | str | None = None, *, name: str | None = None, takeover: bool = False
    ) -> StreamingQuery:
        """Start the query; batches that the checkpoint already has are skipped.

        Parameters
        ----------
        trigger
            As `DataStreamWriter.trigger` takes it: ``{"processingTime": "5 seconds"}``, or that text alone;
            ``{"availableNow": True}``, or ``"availableNow"``, for the input present now. By default batch after batch.
        name
            Name of the query.
        takeover
            Take the checkpoint over from another process that has it open, which then stops with an error. Without
            it, an open checkpoint is an error here.

        Returns
        -------
        Spark's query. When it ends, also by an error, the checkpoint is closed.

        Raises
        ------
        UsageError
            If no source is a stream, or the view is running.
        BatchMismatchError, CheckpointMismatchError
            If Spark's checkpoint and the program's do not belong together, or the sources have changed.
        CheckpointError
            If another process has the checkpoint open, or a file of it is damaged.
        """
        if not self._has_stream:
            raise UsageError.wrong_state(
                "start()", "none of the sources is a stream", "Use load(), or gws.join for a one-shot answer."
            )
        self._take_over(takeover)
        try:
            writer = (
                self._stream()
                .writeStream.foreachBatch(self._run_batch)
                .option("checkpointLocation", str(self.checkpoint_path / SPARK))
            )
            if trigger is not None:
                writer = writer.trigger(**_trigger(trigger))
            if name is not None:
                writer = writer.queryName(name)
            self._listener = Listener(self._query_id)
            self._session.streams.addListener(self._listener)
            self._query = writer.start()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._close_after, args=(self._query,), daemon=True, name="gpu_wcoj view").start()
        return self._query

    def stop(self, timeout: float | None = None) -> None:
        """Stop the query after the running batch is committed, and close the checkpoint.

        Parameters
        ----------
        timeout
            Seconds to wait for that batch; then it is interrupted, and the next start repeats it.
        """
        is_locked = self._batch.acquire(timeout=-1 if timeout is None else timeout)
        self._is_stopping = True  # the next batch may begin before Spark hears of it, and would be cut short
        if is_locked:
            self._batch.release()
        if self._query is not None:
            self._query.stop()
        self.close()

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until the query has ended; False if it still runs after `timeout` seconds.

        Raises
        ------
        GpuWcojError
            The error that ended it; `StreamingQueryException` if it is not an error of this package.
        """
        if self._query is None:
            raise UsageError.wrong_state("wait()", "this view has not been started", "Call start() first.")
        try:
            ended = self._query.awaitTermination(timeout)
        except Exception:
            self.close()
            if isinstance(self.failure, GpuWcojError):
                raise self.failure from None
            if not (self._is_stopping and self.failure is None):  # else a batch was left to the next start
                raise
            return True
        if ended is False:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close the checkpoint after the running batch; may be called more than once."""
        with self._closing:
            with self._batch:
                self._release()
            listener, self._listener = self._listener, None
            if listener is not None:
                with suppress(Exception):  # the session may have gone
                    self._session.streams.removeListener(listener)
                    latest = None if self._query is None else self._query.lastProgress
                    if latest is not None and self._progress:  # what the listener is yet to be told
                        self._progress["spark"] = progress_fields(latest.json)

    # Opening.

    def _take_over(self, takeover: bool) -> None:
        before = _running.get(self.checkpoint_path)
        if before is not None and before._is_open:
            if before._query is not None and before._query.isActive:
                raise UsageError.wrong_state(
                    "opening the checkpoint",
                    f"a view of this process is running on the checkpoint '{self.checkpoint_path}'",
                    "Stop it first.",
                )
            before.close()
        self.failure = None
        self._is_stopping = False
        self._open(takeover)
        _running[self.checkpoint_path] = self

    def _check(self, last_manifest: Manifest | None, described: Mapping[str, Any]) -> None:
        """Check that Spark's checkpoint and the sources are those of the stored state."""
        query = self._query_id()
        engine, spark = self.checkpoint_path / ENGINE, self.checkpoint_path / SPARK
        if last_manifest is None:
            if query:
                raise CheckpointError(
                    f"Spark's checkpoint '{spark}' belongs to query '{query}',\n"
                    f"  and the program's, '{engine}', is empty: batches that Spark has committed are lost.\n"
                    "  Begin a new checkpoint, or restore both from one copy."
                )
            return
        if last_manifest.query and last_manifest.query != query:
            problem = f"belongs to query '{query}'" if query else "is gone"
            raise BatchMismatchError(
                f"the program's checkpoint '{engine}' holds {last_manifest.last},\n"
                f"  and Spark's, '{spark}', {problem}.\n"
                "  Begin a new checkpoint, or restore both from one copy."
            )
        stored, plain = last_manifest.extra.get("sources", {}), json.loads(json.dumps(described))
        for relation in stored.keys() | plain.keys():
            if stored.get(relation) != plain.get(relation):
                raise CheckpointMismatchError(
                    self.checkpoint_path, f"source of '{relation}'", stored.get(relation), plain.get(relation)
                )

    # A batch.

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        """Process a batch for Spark, which may call again for one that is committed already."""
        with self._batch:
            if self._is_stopping:
                raise UsageError.wrong_state(
                    "running a batch", "this view is being stopped; its next start repeats the batch"
                )
            try:
                if not self._is_open:
                    raise UsageError.wrong_state(
                        "running a batch", "this view is closed; its next start repeats the batch"
                    )
                self._process_batch(frame, batch)
            except BaseException as error:
                self.failure = error
                _LOGGER.error("batch %d: %s", batch, error, extra={"batch": batch})
                raise

    def _notify(self, progress: Mapping[str, Any]) -> None:
        """Log a batch that was committed or skipped, and call the callbacks."""
        self._progress = dict(progress)
        log_progress(self._progress)
        for callback in self._callbacks:
            callback(dict(self._progress))

    def _query_id(self) -> str:
        """Return the query id in Spark's checkpoint, empty before the first start."""
        try:
            return str(json.loads((self.checkpoint_path / SPARK / "metadata").read_text())["id"])
        except FileNotFoundError:
            return ""

    def _close_after(self, query: StreamingQuery) -> None:
        with suppress(Exception):  # whoever waits for the query gets its error
            query.awaitTermination()
        if self._query is query:
            self.close()


def _trigger(trigger: Mapping[str, Any] | str) -> dict[str, Any]:
    if isinstance(trigger, str):
        return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
    return dict(trigger)


LOADED = -1
"""The batch id of the tables that are loaded before the first batch."""


class View(RunningView):
    """A view whose engine is in this process; see `RunningView`."""

    def __init__(
        self,
        session: SparkSession,
        sources: Sources,
        make: Callable[[], Program],
        checkpoint_path: Path,
        sink: Sink,
        emit_loaded: bool,
        batch_rows: int,
        reason: str = "",
    ) -> None:
        super().__init__(session, checkpoint_path)
        self._sources = sources
        self._make = make
        self._sink = sink
        self._emit_loaded = emit_loaded
        self._batch_rows = batch_rows
        self._reason = reason
        self._program: Program | None = None
        self._checkpoint: Checkpoint | None = None

    @property
    def program(self) -> Program:
        """The program with its state; while a query runs, use `count` and `relation` instead.

        Raises
        ------
        UsageError
            If the view has neither been started nor loaded.
        """
        if self._program is None:
            raise UsageError.wrong_state(
                "reading the program",
                "this view has not been started",
                "Call start() or load() first, or View.restore(checkpoint).",
            )
        return self._program

    def _count(self, name: str) -> int:
        """Return the number of rows of a relation.

        If a batch is running, the call waits for it.
        """
        with self._batch:
            return self.program.count(name)

    def relation(self, name: str) -> ZSet:
        """Return all rows of a relation.

        If a batch is running, the call waits for it.
        """
        with self._batch:
            return self.program.relation(name)

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # as in Program.explain
    ) -> str:
        """Return the plan of the program; as text, with the reason for running it in this process."""
        program = self._make() if self._program is None else self._program
        plan = program.explain(analyze=analyze, bounds=bounds, statistics=statistics, format=format)
        return f"layout one, in the driver: {self._reason}\n{plan}" if format == "text" else plan

    def load(self, *, takeover: bool = False) -> Program:
        """Open the checkpoint, and load the tables if it is new; `start` does this first.

        It is sufficient by itself if every source is a table: the output and the program then hold the answer, and the
        checkpoint keeps it.
        """
        self._take_over(takeover)
        return self.program

    # Opening.

    @property
    def _is_open(self) -> bool:
        return self._checkpoint is not None

    @property
    def _has_stream(self) -> bool:
        return self._sources.united is not None

    def _stream(self) -> DataFrame:
        assert self._sources.united is not None
        return self._sources.united.stream

    def _release(self) -> None:
        checkpoint, self._checkpoint = self._checkpoint, None
        if checkpoint is not None:
            checkpoint.close()

    def _open(self, takeover: bool) -> None:
        program = self._make()
        owner = f"process {os.getpid()} of the Spark application {self._session.sparkContext.applicationId}"
        checkpoint = Checkpoint.open(
            self.checkpoint_path / ENGINE, program=program, owner=owner, options=CheckpointOptions(takeover=takeover)
        )
        try:
            self._check(checkpoint.last, self._sources.described())
            checkpoint.restore(program)
            newest = checkpoint.manifests[-1]
            self._sink.open(newest.checkpoint, checkpoint.fence, checkpoint.last)
            self._program, self._checkpoint = program, checkpoint
            if checkpoint.last is None:
                self._load(program)
            else:
                self._answers = dict(checkpoint.last.extra["answers"])
        except BaseException:
            checkpoint.close()
            self._checkpoint = None
            raise

    def _load(self, program: Program) -> None:
        """Process batch -1: the tables, or nothing."""
        start = time.perf_counter()
        changes: dict[str, Any] = {}
        loaded: dict[str, Any] = {}
        for source in self._sources.tables:
            table, directly = _read_table(source)
            changes[source.relation] = as_change(table) if "weight" in table.column_names else table
            loaded[source.relation] = {"rows": table.num_rows, "directly": directly}
        read = time.perf_counter() - start
        if self._emit_loaded:
            self._commit(LOADED, changes, read, loaded=loaded, rows=sum(table["rows"] for table in loaded.values()))
        else:
            program.load(changes)
            start = time.perf_counter()
            written = self._sink.process_batch(program, {}, LOADED)
            self._finish(LOADED, written, {"read": read, "engine": time.perf_counter() - start}, loaded=loaded)

    # A batch.

    def _process_batch(self, frame: DataFrame, batch: int) -> None:
        checkpoint, united = self._checkpoint, self._sources.united
        assert checkpoint is not None
        assert united is not None
        start = time.perf_counter()
        query = self._query_id()
        rows = united.read(frame, self._session, query, batch)
        if self._has(checkpoint, batch, query, rows.count, rows.digest):
            self._report(batch, rows.count, {}, {"read": time.perf_counter() - start}, skipped=True)
            return
        changes = {name: as_change(table) for name, table in rows.tables.items()}
        read = time.perf_counter() - start
        self._commit(batch, changes, read, query=query, rows=rows.count, digest=rows.digest)

    def _has(self, checkpoint: Checkpoint, batch: int, query: str, rows: int, digest: str) -> bool:
        try:
            return checkpoint.has(batch, query=query, rows=rows, digest=digest)
        except BatchMismatchError as error:
            raise BatchMismatchError(f"{error}\n  Spark's checkpoint is '{self.checkpoint_path / SPARK}'.") from None

    def _commit(
        self, batch: int, changes: Changes, read: float, *, loaded: Mapping[str, Any] | None = None, **identity: Any
    ) -> None:
        start = time.perf_counter()
        written = self._sink.process_batch(self.program, changes, batch)
        engine = time.perf_counter() - start - written.seconds
        self._finish(batch, written, {"read": read, "engine": engine}, loaded=loaded, **identity)

    def _finish(
        self,
        batch: int,
        written: WrittenBatch,
        seconds: dict[str, float],
        *,
        query: str = "",
        rows: int = 0,
        digest: str = "",
        loaded: Mapping[str, Any] | None = None,
    ) -> None:
        checkpoint = self._checkpoint
        assert checkpoint is not None
        before = checkpoint.last
        answers = {name: change.net for name, change in written.counts.items()}
        if before is not None:
            for name, count in before.extra.get("answers", {}).items():
                answers[name] = answers.get(name, 0) + count
        elif not self._emit_loaded:
            answers = {name: self.program.count(name) for name in self.program.outputs}
        start = time.perf_counter()
        manifest = checkpoint.commit(
            batch, query=query, rows=rows, digest=digest, outputs=written.files,
            extra={
                "sources": self._sources.described() if before is None else before.extra["sources"],
                "loaded": loaded if before is None else before.extra["loaded"],
                "answers": answers,
                "relations": dict(written.relations),
                "listed": self._sink.is_listed,
            },
        )  # fmt: skip
        seconds |= {"output": written.seconds, "checkpoint": time.perf_counter() - start}
        start = time.perf_counter()
        self._sink.publish(manifest)
        seconds["output"] += time.perf_counter() - start
        changes = {
            name: {"inserted": change.inserted, "deleted": change.deleted, "net": change.net}
            for name, change in written.counts.items()
        }
        self._answers = answers
        self._report(batch, rows, changes, seconds, _bytes(manifest, before))

    def _report(
        self,
        batch: int,
        rows: int,
        changes: Mapping[str, Mapping[str, int | None]],
        seconds: Mapping[str, float],
        stored: int = 0,
        *,
        skipped: bool = False,
    ) -> None:
        total = sum(seconds.values())
        self._notify(
            {
                "batch": batch,
                "rows": rows,
                "changes": changes,
                "answers": dict(self._answers),
                "seconds": {**seconds, "batch": total},
                "state_bytes": self.program.nbytes,
                "checkpoint_bytes": stored,
                "skipped": skipped,
                "hint": hint(rows, total, self._batch_rows),
                "load": {},
                "skew": 1.0,
                "adapted": {},
            }
        )


def _read_table(source: Source) -> tuple[pa.Table, bool]:
    """Return the rows of a table, and whether they were read without the JVM.

    That is possible for plain Parquet files of data columns and weights.
    """
    direct = source.direct
    return (source.frame.toArrow(), False) if direct is None else collect_table(direct)


def _bytes(manifest: Manifest, before: Manifest | None) -> int:
    """Return the bytes of state that a commit wrote."""
    stored_files = set() if before is None or before.state is None else {run.file for run in before.state.runs}
    return (
        0 if manifest.state is None else sum(run.bytes for run in manifest.state.runs if run.file not in stored_files)
    )

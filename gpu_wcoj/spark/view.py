"""A view: a program whose relations are fed by Spark, batch by batch, and whose state survives any crash.

A batch goes through the same steps under one id: Spark's rows, normalised, to Arrow; the program's tick; the output;
the checkpoint's manifest. The manifest is the commit. What comes before it is done again after a crash, under names of
its own; what comes after it, Spark's own commit and the list of outputs, is caught up with.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions, Manifest
from gpu_wcoj.errors import (
    BatchMismatchError,
    CheckpointError,
    CheckpointMismatchError,
    UsageError,
)
from gpu_wcoj.program import Program
from gpu_wcoj.spark.ending import wait_for
from gpu_wcoj.spark.feed import as_change
from gpu_wcoj.spark.formats import detect
from gpu_wcoj.spark.output import Changes, Sink, Written
from gpu_wcoj.spark.progress import Listener, hint, kept_of, logged
from gpu_wcoj.spark.scans import collected
from gpu_wcoj.spark.sources import Source, Sources, digest_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOGGER = logging.getLogger("gpu_wcoj.spark")

LOADED = -1
"""The batch id of the tables that are loaded before the first batch."""

ENGINE, SPARK = "engine", "spark"
"""Folders within a view's checkpoint: the program's state, and Spark's own."""

_running: WeakValueDictionary[Path, View] = WeakValueDictionary()
"""The view of this process that last held each checkpoint."""


class View:
    """A program that is kept up to date by Spark. Made by `gpu_wcoj.spark.maintain`.

    Attributes
    ----------
    checkpoint_path
        The folder with the state and Spark's checkpoint.
    failure
        The error that ended the last query, if it was one of this package's own, which Spark wraps.
    """

    def __init__(
        self,
        session: SparkSession,
        sources: Sources,
        make: Callable[[], Program],
        checkpoint_path: Path,
        sink: Sink,
        emit_loaded: bool,
        batch_rows: int,
    ) -> None:
        self.checkpoint_path = checkpoint_path
        self.failure: BaseException | None = None
        self._session = session
        self._sources = sources
        self._make = make
        self._sink = sink
        self._emit_loaded = emit_loaded
        self._batch_rows = batch_rows
        self._program: Program | None = None
        self._checkpoint: Checkpoint | None = None
        self._query: StreamingQuery | None = None
        self._listener: Listener | None = None
        self._batch = threading.Lock()
        self._closing = threading.RLock()
        self._progress: dict[str, Any] = {}
        self._answers: dict[str, int] = {}
        self._listening: list[Callable[[dict[str, Any]], object]] = []

    @property
    def program(self) -> Program:
        """The program with its state; while a query runs, `count` is the way to ask it.

        Raises
        ------
        UsageError
            If the view has not been started.
        """
        if self._program is None:
            raise UsageError("this view has not been started.\n  Call start() first, or View.restore(checkpoint).")
        return self._program

    @property
    def query(self) -> StreamingQuery | None:
        """The query that was started last."""
        return self._query

    @property
    def progress(self) -> dict[str, Any]:
        """What the last batch did, as plain values; empty before the first.

        ``batch``, ``rows`` that came in, ``changes`` by output (inserted, deleted, net), ``answers`` (how many rows
        each output has), ``seconds`` by stage (read, engine, output, checkpoint, and batch for all), ``state_bytes``,
        ``checkpoint_bytes`` that were written, ``skipped`` (it had been committed before), ``hint`` (what to do if it
        was too large), and ``spark``, what Spark itself reported last.
        """
        found = dict(self._progress)
        if found and self._listener is not None:
            found["spark"] = dict(self._listener.latest)
        return found

    @property
    def answers(self) -> dict[str, int]:
        """How many rows each output has after the last committed batch; in bag semantics the sum of their weights."""
        return dict(self._answers)

    @staticmethod
    def restore(checkpoint: str | PathLike[str], **options: Any) -> Program:
        """The program of a view in its state after the last committed batch; neither Spark nor the lease is needed.

        Parameters
        ----------
        checkpoint
            That of the view.
        options
            See `gpu_wcoj.program.Program.restore`.
        """
        return Program.restore(Path(checkpoint) / ENGINE, **options)

    def on_batch(self, told: Callable[[dict[str, Any]], object]) -> None:
        """Let a function be told of every batch that is committed or passed over, with its `progress`."""
        self._listening.append(told)

    def count(self, name: str) -> int:
        """How many rows a relation of the program has, after the batch that is running now, if one is."""
        with self._batch:
            return self.program.count(name)

    def load(self, *, takeover: bool = False) -> Program:
        """Open the checkpoint, and load the tables if it is new; `start` does this first.

        Alone it serves where every source is a table: the answer is in the output and the program, and kept.
        """
        self._open(takeover)
        return self.program

    def start(
        self, trigger: Mapping[str, Any] | str | None = None, *, name: str | None = None, takeover: bool = False
    ) -> StreamingQuery:
        """Start the query; rows that the checkpoint has are not taken in again.

        Parameters
        ----------
        trigger
            As `DataStreamWriter.trigger` takes it: ``{"processingTime": "5 seconds"}``, or that text alone;
            ``{"availableNow": True}``, or ``"availableNow"``, for what is there now. By default batch after batch.
        name
            Of the query.
        takeover
            Take the checkpoint from another process that has it open, which then stops with an error. Without, that
            is an error here.

        Returns
        -------
        Spark's query. When it ends, also by an error, the checkpoint is let go.

        Raises
        ------
        UsageError
            If no source is a stream, or the view is running.
        BatchMismatchError, CheckpointMismatchError
            If Spark's checkpoint and the program's do not belong together, or the sources are not those of before.
        CheckpointError
            If another process has the checkpoint open, or a file of it is damaged.
        """
        united = self._sources.united
        if united is None:
            raise UsageError(
                "no source is a stream, so there is nothing to start.\n  Use load(), or gws.join for one answer."
            )
        self._open(takeover)
        try:
            writer = united.frame.writeStream.foreachBatch(self._take).option(
                "checkpointLocation", str(self.checkpoint_path / SPARK)
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
        """Stop the query when the batch that is running is committed, and let go of the checkpoint.

        Parameters
        ----------
        timeout
            Seconds to wait for that batch; then it is cut short, and will be done again at the next start.
        """
        if self._batch.acquire(timeout=-1 if timeout is None else timeout):
            self._batch.release()
        if self._query is not None:
            self._query.stop()
        self.close()

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until the query has ended; False if it is still running after `timeout` seconds.

        Raises
        ------
        GpuWcojError
            The error that ended it; `StreamingQueryException` if it is not one of this package's own.
        """
        return wait_for(self._query, timeout, self.close, lambda: self.failure)

    def close(self) -> None:
        """Let go of the checkpoint, when the batch that is running is done. Closing twice is no error."""
        with self._closing:
            with self._batch:
                checkpoint, self._checkpoint = self._checkpoint, None
            listener, self._listener = self._listener, None
            if listener is not None:
                with suppress(Exception):  # the session may have gone
                    self._session.streams.removeListener(listener)
                    latest = None if self._query is None else self._query.lastProgress
                    if latest is not None and self._progress:  # what the listener is yet to be told
                        self._progress["spark"] = kept_of(latest.json)
            if checkpoint is not None:
                checkpoint.close()

    # Opening.

    def _open(self, takeover: bool) -> None:
        before = _running.get(self.checkpoint_path)
        if before is not None and before._checkpoint is not None:
            if before._query is not None and before._query.isActive:
                raise UsageError(
                    f"a view of this process is running on the checkpoint '{self.checkpoint_path}'.\n  Stop it first."
                )
            before.close()
        program = self._make()
        owner = f"process {os.getpid()} of the Spark application {self._session.sparkContext.applicationId}"
        checkpoint = Checkpoint.open(
            self.checkpoint_path / ENGINE, program=program, owner=owner, options=CheckpointOptions(takeover=takeover)
        )
        try:
            self._check(checkpoint)
            checkpoint.restore(program)
            newest = checkpoint.manifests[-1]
            self._sink.open(newest.checkpoint, checkpoint.fence, checkpoint.last)
            self._program, self._checkpoint, self.failure = program, checkpoint, None
            if checkpoint.last is None:
                self._load(program)
            else:
                self._answers = dict(checkpoint.last.extra["answers"])
        except BaseException:
            checkpoint.close()
            self._checkpoint = None
            raise
        _running[self.checkpoint_path] = self

    def _check(self, checkpoint: Checkpoint) -> None:
        """Whether Spark's checkpoint and the sources are those that the program's state comes from."""
        last, query = checkpoint.last, self._query_id()
        if last is None:
            if query:
                raise CheckpointError(
                    f"Spark's checkpoint '{self.checkpoint_path / SPARK}' is that of query '{query}',\n"
                    f"  and the program's, '{self.checkpoint_path / ENGINE}', is empty: what Spark has committed is "
                    "lost.\n  Begin a new checkpoint, or restore both from one copy."
                )
            return
        if last.query and last.query != query:
            found = f"is that of query '{query}'" if query else "is gone"
            raise BatchMismatchError(
                f"the program's checkpoint '{self.checkpoint_path / ENGINE}' holds {last.last},\n"
                f"  and Spark's, '{self.checkpoint_path / SPARK}', {found}.\n"
                "  Begin a new checkpoint, or restore both from one copy."
            )
        known, given = last.extra.get("sources", {}), _plain(self._sources.described())
        for relation in known.keys() | given.keys():
            if known.get(relation) != given.get(relation):
                raise CheckpointMismatchError(
                    self.checkpoint_path, f"source of '{relation}'", known.get(relation), given.get(relation)
                )

    def _load(self, program: Program) -> None:
        """Batch -1: the tables, or nothing."""
        start = time.perf_counter()
        changes: dict[str, Any] = {}
        loaded: dict[str, Any] = {}
        for source in self._sources.tables:
            table, directly = _read_table(source)
            changes[source.relation] = as_change(table) if "weight" in table.column_names else table
            loaded[source.relation] = {"rows": table.num_rows, "directly": directly}
        read = time.perf_counter() - start
        if self._emit_loaded:
            self._commit(LOADED, changes, read, loaded=loaded, rows=sum(one["rows"] for one in loaded.values()))
        else:
            program.load(changes)
            start = time.perf_counter()
            written = self._sink.take(program, {}, LOADED)
            self._finish(LOADED, written, {"read": read, "engine": time.perf_counter() - start}, loaded=loaded)

    # A batch.

    def _take(self, frame: DataFrame, batch: int) -> None:
        """What Spark calls for every batch; it may call again for one that is committed already."""
        with self._batch:
            try:
                checkpoint = self._checkpoint
                if checkpoint is None:
                    raise UsageError("this view is closed; the batch is left to its next start.")
                start = time.perf_counter()
                rows = frame.toArrow()
                query, digest = self._query_id(), digest_of(rows)
                if self._has(checkpoint, batch, query, rows.num_rows, digest):
                    self._report(batch, rows.num_rows, {}, {"read": time.perf_counter() - start}, skipped=True)
                    return
                united = self._sources.united
                assert united is not None
                changes = {name: as_change(table) for name, table in united.split(rows).items()}
                read = time.perf_counter() - start
                self._commit(batch, changes, read, query=query, rows=rows.num_rows, digest=digest)
            except BaseException as error:
                self.failure = error
                _LOGGER.error("batch %d: %s", batch, error, extra={"batch": batch})
                raise

    def _has(self, checkpoint: Checkpoint, batch: int, query: str, rows: int, digest: str) -> bool:
        try:
            return checkpoint.has(batch, query=query, rows=rows, digest=digest)
        except BatchMismatchError as error:
            raise BatchMismatchError(f"{error}\n  Spark's checkpoint is '{self.checkpoint_path / SPARK}'.") from None

    def _commit(
        self, batch: int, changes: Changes, read: float, *, loaded: Mapping[str, Any] | None = None, **identity: Any
    ) -> None:
        start = time.perf_counter()
        written = self._sink.take(self.program, changes, batch)
        engine = time.perf_counter() - start - written.seconds
        self._finish(batch, written, {"read": read, "engine": engine}, loaded=loaded, **identity)

    def _finish(
        self,
        batch: int,
        written: Written,
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
            name: {"inserted": one.inserted, "deleted": one.deleted, "net": one.net}
            for name, one in written.counts.items()
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
        whole = sum(seconds.values())
        self._progress = {
            "batch": batch,
            "rows": rows,
            "changes": changes,
            "answers": dict(self._answers),
            "seconds": {**seconds, "batch": whole},
            "state_bytes": self.program.nbytes,
            "checkpoint_bytes": stored,
            "skipped": skipped,
            "hint": hint(rows, whole, self._batch_rows),
        }
        logged(self._progress)
        for told in self._listening:
            told(dict(self._progress))

    def _query_id(self) -> str:
        """The id that Spark's checkpoint gives the query, empty before its first start."""
        try:
            return str(json.loads((self.checkpoint_path / SPARK / "metadata").read_text())["id"])
        except FileNotFoundError:
            return ""

    def _close_after(self, query: StreamingQuery) -> None:
        with suppress(Exception):  # whoever waits for the query gets its error
            query.awaitTermination()
        if self._query is query:
            self.close()


def _read_table(source: Source) -> tuple[pa.Table, bool]:
    """The rows of a table, read without the JVM where it is nothing but Parquet files of data columns and weights."""
    how, given = source.reading, source.given
    chosen = detect(given).format if how.changes == "auto" else how.changes
    if chosen in ("append", "weight") and not how.key and not how.order_by and not isinstance(how.columns, Mapping):
        names = source.frame.columns if chosen == "weight" else source.frame.columns[:-1]
        return collected(given.select(*("`" + name.replace("`", "``") + "`" for name in names)))
    return source.frame.toArrow(), False


def _trigger(trigger: Mapping[str, Any] | str) -> dict[str, Any]:
    if isinstance(trigger, str):
        return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
    return dict(trigger)


def _plain(content: Any) -> Any:
    return json.loads(json.dumps(content))


def _bytes(manifest: Manifest, before: Manifest | None) -> int:
    """How many bytes of state a commit wrote."""
    known = set() if before is None or before.state is None else {run.file for run in before.state.runs}
    return 0 if manifest.state is None else sum(run.bytes for run in manifest.state.runs if run.file not in known)

"""The base of all views: one Spark query over one checkpoint, from start to stop."""

from __future__ import annotations

import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from gpu_wcoj.checkpoint import Manifest
from gpu_wcoj.errors import BatchMismatchError, CheckpointError, CheckpointMismatchError, GpuWcojError, UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.read import restore_program
from gpu_wcoj.spark.progress import Listener, log_progress, progress_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from gpu_wcoj.zset.zset import ZSet

_LOGGER = logging.getLogger("gpu_wcoj.spark")

ENGINE, SPARK = "engine", "spark"
"""Folders within a view's checkpoint: the state of the program, and Spark's own checkpoint."""

_running: WeakValueDictionary[Path, RunningView] = WeakValueDictionary()
"""The view of this process that last opened each checkpoint."""


class RunningView(ABC):
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
    def count(self, name: str) -> int:
        """Return the number of rows of a relation; in bag semantics the sum of their weights."""

    @abstractmethod
    def relation(self, name: str) -> ZSet:
        """Return all rows of a relation of the program."""

    @abstractmethod
    def explain(self) -> str:
        """Return the layout and the plan of the program, and the reason, as text."""

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """Whether the checkpoint is open."""

    @property
    @abstractmethod
    def _has_stream(self) -> bool:
        """Whether a source is a stream."""

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
    def query(self) -> StreamingQuery | None:
        """The query that was started last."""
        return self._query

    @property
    def progress(self) -> dict[str, Any]:
        """The progress of the last batch as plain values; empty before the first.

        ``batch``, ``rows`` of input, ``changes`` by output (inserted, deleted, net), ``answers`` (rows of each output),
        ``seconds`` by stage, with ``batch`` as their sum, ``state_bytes``, ``checkpoint_bytes`` that were written,
        ``skipped`` (it had been committed before), ``hint`` (advice if it was too large), and ``spark``, Spark's latest
        report. On cells also ``load``, the largest and the mean number of rows of a cell by
        stage, ``skew``, the largest of their ratios, and ``adapted``, the values that have become heavy with this
        batch.
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
        return restore_program(Path(checkpoint) / ENGINE, **options)

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

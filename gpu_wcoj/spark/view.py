"""A view with one engine: Spark feeds it in batches, and its state survives crashes.

A batch goes through these steps under one id: normalised rows from Spark to Arrow; the tick of the program; the output;
the manifest of the checkpoint. The manifest is the commit. After a crash, steps before it are repeated, under new file
names; steps after it, Spark's own commit and the list of outputs, are completed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions, Manifest
from gpu_wcoj.errors import BatchMismatchError, UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.spark.feed import as_change
from gpu_wcoj.spark.formats import detect
from gpu_wcoj.spark.output import Changes, Sink, WrittenBatch
from gpu_wcoj.spark.progress import hint
from gpu_wcoj.spark.running import ENGINE, SPARK, RunningView
from gpu_wcoj.spark.scans import collect_table
from gpu_wcoj.spark.sources import Source, Sources, digest_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from gpu_wcoj.zset.zset import ZSet

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

    def count(self, name: str) -> int:
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

    def explain(self) -> str:
        """Return the plan of the program, and the reason for running it in this process."""
        program = self._make() if self._program is None else self._program
        return f"layout one, in the driver: {self._reason}\n{program.explain()}"

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
        return self._sources.united.frame

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
        rows = frame.toArrow()
        query, digest = self._query_id(), digest_of(rows)
        if self._has(checkpoint, batch, query, rows.num_rows, digest):
            self._report(batch, rows.num_rows, {}, {"read": time.perf_counter() - start}, skipped=True)
            return
        changes = {name: as_change(table) for name, table in united.split(rows).items()}
        read = time.perf_counter() - start
        self._commit(batch, changes, read, query=query, rows=rows.num_rows, digest=digest)

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
            }
        )


def _read_table(source: Source) -> tuple[pa.Table, bool]:
    """Return the rows of a table, and whether they were read without the JVM.

    That is possible for plain Parquet files of data columns and weights.
    """
    how, frame = source.reading, source.original
    chosen = detect(frame).format if how.changes == "auto" else how.changes
    if chosen in ("append", "weight") and not how.key and not how.order_by and not isinstance(how.columns, Mapping):
        names = source.frame.columns if chosen == "weight" else source.frame.columns[:-1]
        return collect_table(frame.select(*("`" + name.replace("`", "``") + "`" for name in names)))
    return source.frame.toArrow(), False


def _bytes(manifest: Manifest, before: Manifest | None) -> int:
    """Return the bytes of state that a commit wrote."""
    stored_files = set() if before is None or before.state is None else {run.file for run in before.state.runs}
    return (
        0 if manifest.state is None else sum(run.bytes for run in manifest.state.runs if run.file not in stored_files)
    )

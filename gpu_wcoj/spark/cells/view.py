"""A view on cells: what `maintain` gives where the state is spread over the executors."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_wcoj.backend import BackendName
from gpu_wcoj.checkpoint import CheckpointOptions
from gpu_wcoj.errors import BatchMismatchError, CheckpointError, CheckpointMismatchError, UsageError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cells.chosen import Heavy, Layout, choose
from gpu_wcoj.spark.cells.commit import CellRun
from gpu_wcoj.spark.cells.heavy import heavy_values
from gpu_wcoj.spark.ending import wait_for
from gpu_wcoj.spark.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOGGER = logging.getLogger("gpu_wcoj.spark")

ENGINE, SPARK = "engine", "spark"


class CellView:
    """A program that is kept up to date by engines on the executors. Made by `gpu_wcoj.spark.maintain`.

    Attributes
    ----------
    failure
        The error that ended the last query, if it was raised in the driver.
    """

    def __init__(
        self,
        session: SparkSession,
        sources: list[Source],
        program: str,
        checkpoint: Path,
        output: Path | None,
        *,
        layout: Layout,
        cells: int | None = None,
        heavy: Mapping[int, Heavy] | None = None,
        bag: bool = False,
        outputs: list[str] | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
    ) -> None:
        self.checkpoint_path = checkpoint
        self.failure: BaseException | None = None
        self._session = session
        self._sources = sources
        self._how: dict[str, Any] = {
            "output": output, "layout": layout, "cells": cells, "heavy": heavy, "bag": bag, "outputs": outputs,
            "backend": backend, "threads": threads,
        }  # fmt: skip
        self._text = program
        self._run: CellRun | None = None
        self._query: StreamingQuery | None = None
        self._listening: list[Callable[[dict[str, Any]], object]] = []
        self._batch = threading.Lock()
        self._plan = ""
        self._progress: dict[str, Any] = {}
        self._answers: dict[str, int] = {}

    @property
    def query(self) -> StreamingQuery | None:
        """The query that was started last."""
        return self._query

    @property
    def progress(self) -> dict[str, Any]:
        """What the last batch did; see `CellRun`."""
        return dict(self._progress)

    @property
    def answers(self) -> dict[str, int]:
        """How many rows each output has after the last committed batch; in bag semantics the sum of their weights."""
        return dict(self._answers)

    def explain(self) -> str:
        """How the program runs on cells. Opens the checkpoint for that, if it is not open."""
        if not self._plan:
            self._open(False)
            self.close()
        return self._plan

    def on_batch(self, told: Callable[[dict[str, Any]], object]) -> None:
        """Let a function be told of every batch that is committed or passed over, with its `progress`."""
        self._listening.append(told)

    def load(self, *, takeover: bool = False) -> None:
        """Open the checkpoint, and load the tables if it is new; `start` does this first."""
        run = self._open(takeover)
        if run.is_new:
            run.load({source.relation: source.frame for source in self._sources if not source.is_stream})
            self._tell(run)

    def start(
        self, trigger: Mapping[str, Any] | str | None = None, *, name: str | None = None, takeover: bool = False
    ) -> StreamingQuery:
        """Start the query; see `gpu_wcoj.spark.view.View.start`."""
        streams = {source.relation: source.frame for source in self._sources if source.is_stream}
        if not streams:
            raise UsageError(
                "no source is a stream, so there is nothing to start.\n  Use load(), or gws.join for one answer."
            )
        self.load(takeover=takeover)
        run = self._run
        assert run is not None
        try:
            writer = (
                run.frame(streams)
                .writeStream.foreachBatch(self._take)
                .option("checkpointLocation", str(self.checkpoint_path / SPARK))
            )
            if trigger is not None:
                text = {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
                writer = writer.trigger(**(text if isinstance(trigger, str) else trigger))
            if name is not None:
                writer = writer.queryName(name)
            self._query = writer.start()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._close_after, args=(self._query,), daemon=True, name="gpu_wcoj cells").start()
        return self._query

    def stop(self, timeout: float | None = None) -> None:
        """Stop the query when the batch that is being committed is, and let go of the checkpoint."""
        if self._batch.acquire(timeout=-1 if timeout is None else timeout):
            self._batch.release()
        if self._query is not None:
            self._query.stop()
        self.close()

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until the query has ended; False if it is still running after `timeout` seconds."""
        return wait_for(self._query, timeout, self.close, lambda: self.failure)

    def close(self) -> None:
        """Let go of the checkpoint. Closing twice is no error."""
        with self._batch:
            run, self._run = self._run, None
            if run is not None:
                run.close()

    def _open(self, takeover: bool) -> CellRun:
        if self._run is None:
            cells = self._how["cells"] or self._cells()
            run = CellRun.open(
                self._text,
                {source.relation: source.frame.schema for source in self._sources},
                checkpoint=self.checkpoint_path / ENGINE,
                options=CheckpointOptions(takeover=takeover),
                sources={source.relation: source.described() for source in self._sources},
                **{**self._how, **self._measured(cells or 1), "cells": cells},
            )
            self._plan = run.explain()
            try:
                self._check(run)
            except BaseException:
                run.close()
                raise
            self._run, self._answers = run, run.answers
        return self._run

    def _cells(self) -> int | None:
        """How many cells a new checkpoint gets: as many as tasks run at a time."""
        if not self._is_new:
            return None  # as it was made
        return max(1, min(64, self._session.sparkContext.defaultParallelism))

    def _measured(self, cells: int) -> dict[str, Any]:
        """What the tables that are loaded first say: their sizes and heavy values. Of streams nothing is known."""
        tables = {source.relation: source.frame for source in self._sources if not source.is_stream}
        if not self._is_new or not tables:
            return {}
        sizes = {name: float(frame.count()) for name, frame in tables.items()}
        heavy = self._how["heavy"]
        if heavy is None:
            rules = parse(self._text)
            chosen = choose(rules, self._how["layout"], cells, sizes)
            heavy = heavy_values(rules, chosen, tables) if chosen.layout == "hypercube" else {}
        return {"sizes": sizes, "heavy": heavy}

    @property
    def _is_new(self) -> bool:
        """Whether the checkpoint has never been opened."""
        return not (self.checkpoint_path / ENGINE / "lease").exists()

    def _check(self, run: CellRun) -> None:
        """Whether Spark's checkpoint and the sources are those that the cells' state comes from."""
        last, query = run.checkpoint.last, self._query_id()
        engine, spark = self.checkpoint_path / ENGINE, self.checkpoint_path / SPARK
        if last is None:
            if query:
                raise CheckpointError(
                    f"Spark's checkpoint '{spark}' is that of query '{query}', and the program's, '{engine}',\n"
                    "  is empty: what Spark has committed is lost.\n"
                    "  Begin a new checkpoint, or restore both from one copy."
                )
            return
        if last.query and last.query != query:
            found = f"is that of query '{query}'" if query else "is gone"
            raise BatchMismatchError(
                f"the program's checkpoint '{engine}' holds {last.last},\n  and Spark's, '{spark}', {found}.\n"
                "  Begin a new checkpoint, or restore both from one copy."
            )
        known, given = last.extra.get("sources", {}), run.sources
        for relation in known.keys() | given.keys():
            if known.get(relation) != given.get(relation):
                raise CheckpointMismatchError(
                    self.checkpoint_path, f"source of '{relation}'", known.get(relation), given.get(relation)
                )

    def _query_id(self) -> str:
        """The id that Spark's checkpoint gives the query, empty before its first start."""
        try:
            return str(json.loads((self.checkpoint_path / SPARK / "metadata").read_text())["id"])
        except FileNotFoundError:
            return ""

    def _take(self, notes: DataFrame, batch: int) -> None:
        with self._batch:
            try:
                if self._run is None:
                    raise UsageError("this view is closed; the batch is left to its next start.")
                self._run.commit(notes, batch)
                self._tell(self._run)
            except BaseException as error:
                self.failure = error
                _LOGGER.error("batch %d: %s", batch, error, extra={"batch": batch})
                raise

    def _tell(self, run: CellRun) -> None:
        self._progress, self._answers = dict(run.progress), run.answers
        _LOGGER.info("batch %d: %s", self._progress["batch"], self._progress, extra={"batch": self._progress["batch"]})
        for told in self._listening:
            told(self.progress)

    def _close_after(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except Exception:  # `wait` tells
            _LOGGER.debug("the query has ended by an error", exc_info=True)
        if self._query is query:
            self.close()

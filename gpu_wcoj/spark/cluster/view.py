"""The view that `maintain` returns if the state is distributed over executors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.explain.render import Format
from gpu_wcoj.program import Program
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.spark.cluster.driver import LOAD, CellOptions, CellRun, Notes, flow, work_of
from gpu_wcoj.spark.cluster.exchange import Columns, fact_frames, has_expressions, in_order, select_sources
from gpu_wcoj.spark.cluster.layout import MAX_CELLS, CellLayout, Estimate, Layout, OneEngine, choose, estimate_answer
from gpu_wcoj.spark.cluster.plan import CellPlan, cell_plan
from gpu_wcoj.spark.cluster.read import reader_at
from gpu_wcoj.spark.cluster.rebalance import find_heavy_values
from gpu_wcoj.spark.files import plain_files
from gpu_wcoj.spark.motifs import Packing
from gpu_wcoj.spark.options import SparkOptions
from gpu_wcoj.spark.output import ToCallable
from gpu_wcoj.spark.schema import quoted
from gpu_wcoj.spark.sources import Sources
from gpu_wcoj.spark.view import ENGINE, RunningView, hint
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ROUTED_ROWS = 1 << 18
"""Rows of a micro-batch of plain files that the driver routes itself: 4 MB for two columns of integers, which it reads
and routes in less time than Spark takes to start the tasks that would. With triangles of R-MAT graphs on two cells and
two cores at load 6, a batch of 1,000 rows (scale 16) took 0.38 s then, and 1.0 s with tasks; one of 100,000 rows (scale
17) took 0.75 to 1.07 s, and 1.34 to 1.70 s with tasks. Larger batches have not been measured."""

CELLS_PER_TASK = 2
"""Cells of a grid for each concurrent task: more cells hold less each, and their load evens out."""


class CellView(RunningView):
    """A view whose engines are on the executors; see `RunningView`.

    Parameters
    ----------
    program
        Datalog text, or rules.
    options
        The options of the call and of the session.
    layout
        The layout on cells.
    output
        Destination of the changes: a folder of Parquet files, or a function or writer; None to count them.
    emit_loaded
        Whether the answer over the tables goes to the output.
    packing
        The columns of the output, if the answers are matches of a motif.
    """

    def __init__(
        self,
        session: SparkSession,
        sources: Sources,
        program: str | Rules,
        checkpoint: Path,
        options: SparkOptions,
        *,
        layout: Layout,
        output: Path | ToCallable | None,
        emit_loaded: bool,
        packing: Packing | None = None,
    ) -> None:
        super().__init__(session, checkpoint)
        self._sources = sources
        self._options = options
        self._layout: Layout = layout
        self._output = output
        self._emits_loaded = emit_loaded
        self._text = program
        self._packing = packing
        self._run: CellRun | None = None
        self._plan = ""
        self._restored: tuple[int, Program] | None = None

    @property
    def program(self) -> Program:
        """A program in this process with the state after the last committed batch.

        It is read from the files of the cells, which takes as long as `restore`, and read again after further batches.
        """
        reader = reader_at(self.checkpoint_path / ENGINE)
        if self._restored is None or self._restored[0] != reader.manifest.version:
            self._restored = reader.manifest.version, reader.program(ProgramOptions(backend="cpu"))
        return self._restored[1]

    def _count(self, name: str) -> int:
        """Return the number of rows of a relation after the last committed batch.

        For outputs it is known. For inputs, kept heads and heads whose derivations are counted, it is read from the
        files of the cells. Other heads are joined in `program`.
        """
        if name in self._answers:
            return self._answers[name]
        reader = reader_at(self.checkpoint_path / ENGINE)
        if name in reader.plan.state_routes:
            return sum(int(rows.weights.sum()) for rows in reader.rows(name))
        return self.program.count(name)

    def relation(self, name: str) -> ZSet:
        """Return all rows of a relation after the last committed batch; see `count`."""
        reader = reader_at(self.checkpoint_path / ENGINE)
        if name in reader.plan.state_routes:
            rows = reader.table(name)
            if rows is not None:
                return ZSet.from_arrow(rows, weight="weight")
        return self.program.relation(name)

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # as in Program.explain
    ) -> str:
        """Return the plan of the program on cells, as text; the checkpoint is opened if necessary.

        Raises
        ------
        UnsupportedError
            For any option: `program` has the plan of a program in this process, in all formats.
        """
        if analyze or bounds or statistics is not None or format != "text":
            raise UnsupportedError.unsupported(
                "an option of explain() for a view on cells", remedy="Call view.program.explain(...)."
            )
        if self._run is not None:
            self._plan = self._run.explain()
        if not self._plan:
            self._run_of(False)
            self.close()
        return self._plan

    def load(self, *, takeover: bool = False) -> None:
        """Open the checkpoint, and load the tables if it is new; `start` does this first."""
        self._take_over(takeover)

    @property
    def _is_open(self) -> bool:
        return self._run is not None

    @property
    def _has_stream(self) -> bool:
        return self._sources.united is not None

    def _stream(self) -> DataFrame:
        united = self._sources.united
        assert self._run is not None
        assert united is not None
        if united.is_single_and_plain:
            return united.stream
        streams = {
            name: [source.frame for source in sources if source.is_stream]
            for name, sources in self._sources.by_relation.items()
        }
        return self._run.rows(streams) if self._run.adapts_from is not None else self._run.frame(streams)

    def _release(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._plan = run.explain()
            run.close()

    def _open(self, takeover: bool) -> None:
        run = self._run_of(takeover)
        if run.is_new:
            try:
                tables: dict[str, list[DataFrame]] = {}
                for source in self._sources.tables:
                    tables.setdefault(source.relation, []).append(source.rows)
                run.load(tables, emit=self._emits_loaded)
                self._answers = run.answers
                self._report(run)
            except BaseException:
                self._release()
                raise

    def _run_of(self, takeover: bool) -> CellRun:
        run = CellRun.open(
            self._text,
            {name: sources[-1].frame.schema for name, sources in self._sources.by_relation.items()},
            self._cell_options(),
            checkpoint=self.checkpoint_path / ENGINE, output=self._output, takeover=takeover,
            owner=f"process {os.getpid()} of the Spark application {self._session.sparkContext.applicationId}",
            sources=self._sources.described(),
        )  # fmt: skip
        try:
            self._check(run.checkpoint.last, run.sources)
        except BaseException:
            run.close()
            raise
        self._plan, self._run, self._answers = run.explain(), run, run.answers
        return run

    def _cell_options(self) -> CellOptions:
        """Return the options of a run, with sizes and heavy values from the loaded tables.

        Nothing is known of streams. An existing checkpoint keeps its layout.
        """
        how = self._options
        options = CellOptions(
            self._layout, how.cells, adapts_from=how.adapts_from, program=how.program, packing=self._packing
        )
        if (self.checkpoint_path / ENGINE / "lease").exists():
            return options
        rules = Program(self._text, backend="cpu").rules
        tables = {source.relation: source.frame for source in self._sources.tables}
        sizes = {name: float(frame.count()) for name, frame in tables.items()}
        tasks = max(1, self._session.sparkContext.defaultParallelism)
        cells = how.cells or min(MAX_CELLS, CELLS_PER_TASK * tasks if tasks > 1 else 1)
        chosen = choose(rules, self._layout, cells, sizes)
        if how.cells is None and chosen.layout == "replicated":
            cells = min(MAX_CELLS, tasks)
        searches = bool(tables) and chosen.layout == "hypercube"
        heavy = find_heavy_values(rules, chosen, tables) if searches else None
        return replace(options, cells=cells, sizes=sizes, heavy=heavy)

    def _process_batch(self, frame: DataFrame, batch: int) -> None:
        run, united = self._run, self._sources.united
        assert run is not None
        assert united is not None
        query = self._query_id()
        tables = None
        if not has_expressions(self._session):
            tables = united.read_tables(self._session, query, batch, ROUTED_ROWS)
        is_read_by_spark = tables is None and united.is_single_and_plain
        if is_read_by_spark:
            rows = united.read_by_spark(self._session, query, batch, frame.sparkSession)
            of_batch = {united.sources[0].relation: [rows]}
            frame = run.rows(of_batch) if run.adapts_from is not None else run.frame(of_batch, batch)
        if run.adapts_from is not None or tables is not None:
            run.process_batch(frame, batch, tables)
        else:
            run.commit(frame, batch)
        if is_read_by_spark:
            united.count(self._session, query, batch, run.progress["rows"])
        self._answers = run.answers
        self._report(run)

    def _report(self, run: CellRun) -> None:
        progress = run.progress
        advice = hint(progress["rows"], progress["seconds"]["batch"], self._options.batch_rows)
        self._notify({**progress, "hint": "" if progress["skipped"] else advice})


# One-shot answers by engines on many executors; only the files of the answer are kept.


@dataclass(frozen=True, eq=False)
class Spread:
    """A program over tables, distributed over cells.

    Attributes
    ----------
    program
        The program, without rows.
    tables
        Per input the rows, with columns ``c0``, ``c1``, ...
    """

    program: Program
    plan: CellPlan
    columns: Columns
    tables: Mapping[str, DataFrame]

    @classmethod
    def from_frames(cls, program: Program, frames: Mapping[str, DataFrame], chosen: CellLayout) -> Spread:
        """Distribute a program over DataFrames by a layout."""
        tables = as_tables(program, frames)
        plan = cell_plan(program.rules, program.outputs, program.bag, chosen)
        options = replace(program.options, keep=(), backend="cpu", gpu_memory=None)
        fresh = Program.from_options(program.rules, options)
        return cls(
            program,
            plan,
            Columns.from_frames(plan, {name: table.schema for name, table in tables.items()}, fresh),
            tables,
        )

    def run(self, output: Path | None, options: ProgramOptions) -> Notes:
        """Compute the answer into files below a folder or, without a folder, as counts.

        Cells have engines with these options.
        """
        place = "" if output is None else str(output)
        work = replace(work_of(self.plan, self.columns, options), output=place, batch=LOAD, is_answer=True)
        tables: dict[str, Sequence[DataFrame]] = {name: [table] for name, table in self.tables.items()}
        if len(self.plan.sources) > len(self.plan.rules.inputs):
            tables |= fact_frames(self.plan, self.columns, self.program)
        rows = select_sources(self.plan, self.columns, tables, self.program, digests=False)
        notes = Notes.collect(flow(rows, self.plan, self.columns, work))
        if output is not None:
            listed_files = {output / path for path in files_of(notes)}
            for file in output.glob("*/*.parquet"):  # files of tasks that failed or ran twice
                if file not in listed_files:
                    with contextlib.suppress(OSError):
                        file.unlink()
        return notes


def files_of(notes: Notes) -> list[str]:
    """Return the files of an answer, as paths relative to its folder."""
    return sorted(path for cell in notes.cells for path, *_ in cell["outputs"])


def as_tables(program: Program, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return DataFrames whose columns are all data as inputs of cells."""
    tables = {}
    for name in program.inputs:
        frame = frames[name]
        ordered = in_order(program, name, frame.columns)
        data = [sf.col(quoted(column)).alias(f"c{i}") for i, column in enumerate(ordered)]
        tables[name] = frame.select(*data)
    return tables


def choose_for_answer(
    spark: SparkSession, program: Program, frames: Mapping[str, DataFrame], layout: Layout, cells: int | None
) -> CellLayout | OneEngine:
    """Return the layout for one answer; one engine under ``"auto"`` only."""
    chosen, estimate = estimated_layout(spark, program, frames, layout, cells)
    if layout == "auto" and estimate.engine <= estimate.cells:
        return OneEngine(f"the answer is {estimate}", estimate)
    if chosen.layout == "hypercube":
        heavy = find_heavy_values(program.rules, chosen, as_tables(program, frames))
        rows = {name: estimated_rows(frames[name])[0] for name in program.inputs}
        chosen = choose(program.rules, layout, chosen.cells, rows, heavy)
    return replace(chosen, reason=f"{chosen.reason}; the answer is {estimate}")


def estimated_layout(
    spark: SparkSession, program: Program, frames: Mapping[str, DataFrame], layout: Layout, cells: int | None
) -> tuple[CellLayout, Estimate]:
    """Return the layout on cells for one answer, and the estimate of its seconds.

    Heavy values are not searched for.
    """
    sizes = {name: estimated_rows(frames[name]) for name in program.inputs}
    rows = {name: n for name, (n, _) in sizes.items()}
    tasks = max(1, spark.sparkContext.defaultParallelism)
    chosen = choose(program.rules, layout, cells or min(MAX_CELLS, tasks), rows)
    collected = sum(n for n, is_read in sizes.values() if not is_read)
    return chosen, estimate_answer(program.rules, chosen, rows, tasks, collected)


def estimated_rows(frame: DataFrame) -> tuple[float, bool]:
    """Return the rows of a DataFrame, at least 1, and whether this process reads them itself.

    Plain Parquet files tell their rows. For others, Spark's estimate of the bytes is divided by the width of a row, as
    Spark takes it.
    """
    files = plain_files(frame)
    if files:
        return max(1.0, float(sum(pq.read_metadata(path).num_rows for path in files))), True
    jvm_frame: Any = frame._jdf  # pyright: ignore[reportPrivateUsage]  # PySpark shows no statistics
    return max(1.0, estimated_bytes(frame) / (8 + jvm_frame.schema().defaultSize())), False


def estimated_bytes(frame: DataFrame) -> float:
    """Return the size of a DataFrame in bytes as Spark's optimiser estimates it; at least 1."""
    jvm_frame: Any = frame._jdf  # pyright: ignore[reportPrivateUsage]  # PySpark shows no statistics
    return max(1.0, float(str(jvm_frame.queryExecution().optimizedPlan().stats().sizeInBytes())))

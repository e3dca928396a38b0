"""One-shot answers by engines on many executors; only the files of the answer are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from gpu_wcoj.program import Program
from gpu_wcoj.spark.cells.flow import flow, work_of
from gpu_wcoj.spark.cells.heavy import find_heavy_values
from gpu_wcoj.spark.cells.load import Notes
from gpu_wcoj.spark.cells.planning import cell_plan
from gpu_wcoj.spark.cells.shares import MAX_CELLS
from gpu_wcoj.spark.cluster.driver import LOAD
from gpu_wcoj.spark.cluster.exchange import Columns, in_order, quoted, unite
from gpu_wcoj.spark.cluster.layout import CellLayout, Layout, choose
from gpu_wcoj.spark.cluster.plan import CellPlan
from gpu_wcoj.spark.formats import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONE_ENGINE_BYTES = 256 << 20
"""Bytes, as Spark estimates them: smaller tables, taken together, go to one engine, which is done before tasks have
started."""


@dataclass(frozen=True, eq=False)
class Spread:
    """A program over tables, distributed over cells.

    Attributes
    ----------
    program
        The program, without rows.
    tables
        Per input the rows, with columns ``c0``, ``c1``, ... and a weight of 1.
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
        fresh = Program(program.rules, bag=program.bag, outputs=program.outputs, backend="cpu")
        return cls(
            program,
            plan,
            Columns.from_frames(plan, {name: table.schema for name, table in tables.items()}, fresh),
            tables,
        )

    def run(self, output: Path | None, **how: Any) -> Notes:
        """Compute the answer into files below a folder or, without a folder, as counts.

        `how` holds fields of `Work`.
        """
        place = "" if output is None else str(output)
        work = work_of(self.plan, self.columns, output=place, batch=LOAD, is_answer=True, **how)
        rows = unite(self.plan, self.columns, {name: [table] for name, table in self.tables.items()}, self.program)
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
        tables[name] = frame.select(*data, sf.lit(1).cast("bigint").alias(WEIGHT))
    return tables


def choose_for_answer(
    spark: SparkSession, program: Program, frames: Mapping[str, DataFrame], layout: Layout, cells: int | None
) -> CellLayout | str:
    """Return the layout for one answer, or the reason for one engine, under ``"auto"`` only."""
    sizes = {name: estimated_bytes(frames[name]) for name in program.inputs}
    total = sum(sizes.values())
    if layout == "auto" and total <= ONE_ENGINE_BYTES:
        return (
            f"Spark takes the tables for {total / (1 << 20):,.1f} MB, at most {ONE_ENGINE_BYTES >> 20} MB, "
            "which is little for many executors"
        )
    tasks = max(1, spark.sparkContext.defaultParallelism)
    n_cells = cells or min(MAX_CELLS, tasks)
    chosen = choose(program.rules, layout, n_cells, sizes)
    if chosen.layout == "replicated":
        return chosen
    heavy = find_heavy_values(program.rules, chosen, as_tables(program, frames))
    return choose(program.rules, layout, n_cells, sizes, heavy)


def estimated_bytes(frame: DataFrame) -> float:
    """Return the size of a DataFrame in bytes as Spark's optimiser estimates it; at least 1."""
    jvm_frame: Any = frame._jdf  # pyright: ignore[reportPrivateUsage]  # PySpark shows no statistics
    return max(1.0, float(str(jvm_frame.queryExecution().optimizedPlan().stats().sizeInBytes())))

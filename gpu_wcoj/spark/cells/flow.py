"""The DataFrame that runs a plan: routing, exchange and cells, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.spark.cells.routing import exchange_rows, route_rows
from gpu_wcoj.spark.cluster.exchange import NOTE, Columns
from gpu_wcoj.spark.cluster.plan import CellPlan
from gpu_wcoj.spark.cluster.worker import Work
from gpu_wcoj.spark.types import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def flow(rows: DataFrame, plan: CellPlan, columns: Columns, work: Work) -> DataFrame:
    """Return a DataFrame with the notes of the cells for these rows.

    The rows have the form that `gpu_wcoj.spark.cluster.exchange.unite` returns.

    Parameters
    ----------
    work
        Work for every stage; its `stage` and `moving` belong to the first one.
    """
    moving = arrow_schema(columns.moving)
    frame = rows
    for stage in plan.stages:
        is_last = stage is plan.stages[-1]
        there = exchange_rows(route_rows(frame, plan, columns, stage.index), plan.chosen.cells)
        stage_work = replace(work, stage=stage, moving=None if is_last else moving)
        frame = there.mapInArrow(_named(stage_work), f"{NOTE} string" if is_last else columns.moving)
    return frame


def work_of(plan: CellPlan, columns: Columns, **how: object) -> Work:
    """Return the work of a plan's cells; `how` holds further fields of `Work`."""
    cells = plan.chosen.cells if plan.chosen.layout == "replicated" else 0
    return Work(plan.stages[0], None, columns.slots, columns.heads, plan.bag, cells=cells, **how)  # type: ignore[arg-type]


def _named(work: Work) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def cell_step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(batches)

    return cell_step

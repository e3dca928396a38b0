"""``python -m bench.spark.model``: rows and bytes of cells, computed without Spark, and by a formula; see `main`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from cyclopts import App
from pyspark.sql.types import LongType, StructField, StructType
from rich.console import Console
from rich.table import Table

from bench.engine.graph import Edges
from bench.spark.queries import TRIANGLE
from gpu_wcoj import Program, datasets
from gpu_wcoj.spark.cluster.exchange import Columns, routers_of
from gpu_wcoj.spark.cluster.layout import choose, shares_in
from gpu_wcoj.spark.cluster.parcels import BODY, CELL, GATHERED_ROWS
from gpu_wcoj.spark.cluster.plan import CellPlan, cell_plan

EDGE = StructType([StructField("src", LongType()), StructField("dst", LongType())])

app = App(name="python -m bench.spark.model")


@app.default
def main(*, scales: tuple[int, ...] = (16, 17, 18), cells: tuple[int, ...] = (2, 8, 64)) -> None:
    """Route R-MAT graphs to cells that count triangles, and compare the rows of a cell with the shares of the plan.

    Every row is routed by the functions that tasks of Spark run. Heavy values are not split.

    Parameters
    ----------
    scales
        Of the graphs: 2 ** scale vertices, 16 edges a vertex before duplicates are dropped.
    cells
        The numbers of cells.
    """
    table = Table(box=None, pad_edge=False)
    for name in ("scale", "edges", "cells", "a cell by the plan", "mean", "largest", "copies", "bytes a copy"):
        table.add_column(name, justify="right")
    for scale in scales:
        edges = datasets.undirected(datasets.rmat(scale, 16 << scale, 1))
        for n in cells:
            plan, columns, by_plan = planned(n, len(edges))
            rows, nbytes = routed(plan, columns, edges)
            copies = int(rows.sum())
            table.add_row(
                str(scale), f"{len(edges):,}", str(n), f"{by_plan:,.0f}", f"{rows.mean():,.0f}", f"{rows.max():,}",
                f"{copies / len(edges):.2f}", f"{nbytes / copies:.1f}",
            )  # fmt: skip
    Console(width=150).print(table)


def planned(cells: int, edges: int) -> tuple[CellPlan, Columns, float]:
    """Return the plan of triangles on a grid, its columns, and the rows of a cell by the plan's shares."""
    program = Program(TRIANGLE.program, backend="cpu")
    chosen = choose(program.rules, "hypercube", cells, {"edge": float(edges)})
    plan = cell_plan(program.rules, program.outputs, False, chosen)
    columns = Columns.from_frames(plan, {"edge": EDGE}, program)
    return plan, columns, shares_in(program.rules, chosen, {"edge": float(edges)})[0].cell_rows


def routed(plan: CellPlan, columns: Columns, edges: Edges) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    """Return the rows that each cell gets, and the bytes of all bodies."""
    (router,) = (router for index, router in routers_of(plan, columns).items() if plan.travelling[index].name == "edge")
    rows = np.zeros(plan.chosen.cells, np.int64)
    nbytes = 0
    for start in range(0, len(edges), GATHERED_ROWS):
        part = edges[start : start + GATHERED_ROWS]
        batch = pa.RecordBatch.from_arrays([pa.array(part[:, 0]), pa.array(part[:, 1])], schema=router.schema)
        for parcels in router.parcels(batch):
            for cell, body in zip(parcels[CELL].to_pylist(), parcels[BODY], strict=True):
                rows[cell] += router.opened(False, body.as_buffer()).num_rows
                nbytes += body.as_buffer().size
    return rows, nbytes


if __name__ == "__main__":
    app()

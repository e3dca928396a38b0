"""The cells of a plan in one process: every stage, role and route of a program on cells, without Spark's exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from gpu_wcoj import Program
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.spark.cluster.driver import work_of
from gpu_wcoj.spark.cluster.exchange import Columns
from gpu_wcoj.spark.cluster.layout import Heavy, Layout, choose
from gpu_wcoj.spark.cluster.parcels import as_rows
from gpu_wcoj.spark.cluster.plan import CellPlan, cell_plan
from gpu_wcoj.spark.schema import spark_schema
from gpu_wcoj.spark.sources import WEIGHT

Row = tuple[Any, ...]


class LocalCells:
    """A program on cells whose engines are in this process.

    Attributes
    ----------
    sent
        Rows that went to cells in the last tick, by stage and cell.
    """

    def __init__(
        self,
        program: str | Rules,
        schemas: Mapping[str, pa.Schema],
        layout: Layout,
        cells: int,
        *,
        bag: bool = False,
        keep: Sequence[str] = (),
        heavy: Mapping[int, Heavy] | None = None,
    ) -> None:
        fresh = Program(program, bag=bag, backend="cpu", keep=keep)
        self.plan: CellPlan = cell_plan(
            fresh.rules, fresh.outputs, bag, choose(fresh.rules, layout, cells, heavy=heavy), keep
        )
        weight = pa.field(WEIGHT, pa.int64())
        frames = {name: spark_schema(schema.append(weight)) for name, schema in schemas.items()}
        self.columns = Columns.from_frames(self.plan, frames, fresh)
        self.work = work_of(self.plan, self.columns, ProgramOptions(backend="cpu", threads=1))
        self.programs: dict[tuple[int, int], Program] = {}
        self.facts = {name: list(rows) for name, rows in facts_of(self.plan).items()}
        self.sent: Counter[tuple[int, int]] = Counter()

    def step(self, changes: Mapping[str, Sequence[Row] | pa.Table]) -> dict[str, Counter[Row]]:
        """Run one tick; rows have their weight last. Return the changes of the outputs."""
        facts, self.facts = self.facts, {}
        moving: list[pa.RecordBatch] = []
        for index, name in enumerate(self.plan.sources):
            rows = self.table(index, changes.get(name, facts.get(name, ())))
            if rows.num_rows:
                moving += self.work.routers[index].parcels(rows)
        answers: dict[str, Counter[Row]] = {name: Counter() for name in self.plan.outputs}
        self.sent = Counter()
        for stage in self.plan.stages:
            work = replace(self.work, stage=stage, output="somewhere")
            arrivals: dict[int, list[Any]] = {}
            for parcels in moving:
                work._add_parcels(parcels, arrivals)
            for cell, arrived in arrivals.items():
                self.sent[stage.index, cell] = sum(rows.num_rows for _, _, rows in arrived)
                cell_changes = work._changes(arrived)
                if (stage.index, cell) not in self.programs:
                    self.programs[stage.index, cell] = work._program(cell)
                    cell_changes = work._no_rows() | cell_changes
                results, _ = work._tick(self.programs[stage.index, cell], cell_changes)
                for result in stage.results:
                    rows = results[result.name]
                    for target in result.goes_to:
                        router = self.work.routers[target]
                        names = [*router.schema.names, WEIGHT]
                        for part in rows.rename_columns(names).combine_chunks().to_batches():
                            moving += router.parcels(as_rows(router, part, dict(zip(names, names, strict=True))))
                    if result.is_output:
                        for *values, weight in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                            answers[result.head][tuple(values)] += weight
        return {name: Counter({row: n for row, n in found.items() if n}) for name, found in answers.items()}

    def table(self, relation: int, rows: Sequence[Row] | pa.Table) -> pa.RecordBatch:
        """Return rows of a relation with the columns that a cell gets."""
        schema = self.work.routers[relation].weighted_schema
        if isinstance(rows, pa.Table):
            arrays = [column.combine_chunks().cast(f.type) for column, f in zip(rows.columns, schema, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)
        columns = list(zip(*rows, strict=True)) or [() for _ in schema]
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def facts_of(plan: CellPlan) -> dict[str, list[Row]]:
    """Return the facts of a program's text, with weight 1."""
    return {facts.relation: [(*row, 1) for row in facts.rows] for facts in desugar(plan.rules).facts}

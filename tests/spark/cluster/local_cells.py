"""The cells of a plan in one process: every stage, role and route of a program on cells, without Spark's exchange."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from gpu_wcoj import Program
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.spark.cluster.driver import work_of
from gpu_wcoj.spark.cluster.exchange import Columns
from gpu_wcoj.spark.cluster.layout import Heavy, Layout, choose
from gpu_wcoj.spark.cluster.plan import CellPlan, Route, cell_plan
from gpu_wcoj.spark.schema import arrow_schema, spark_schema
from gpu_wcoj.spark.sources import WEIGHT, as_change

Row = tuple[Any, ...]


def part(route: Route, row: Row) -> int:
    """Return a stand-in for Spark's hash: any function of the values and the salt will do."""
    return sum(
        random.Random(f"{one.salt} {[row[i] for i in one.columns]}").randrange(one.parts) * one.stride
        for one in route.hashed
    )


def cells_of(route: Route, row: Row) -> list[int]:
    """Return the cells that a row is sent to."""
    for column, values, is_included in route.chosen:
        if (row[column] in values) != is_included:
            return []
    return [cell for cell in range(route.cells) if route.coordinate(cell) == part(route, row)]


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

    def step(self, changes: Mapping[str, Sequence[Row]]) -> dict[str, Counter[Row]]:
        """Run one tick; rows have their weight last. Return the changes of the outputs."""
        facts, self.facts = self.facts, {}
        moving = {index: list(changes.get(name, facts.get(name, ()))) for index, name in enumerate(self.plan.sources)}
        answers: dict[str, Counter[Row]] = {name: Counter() for name in self.plan.outputs}
        self.sent = Counter()
        for stage in self.plan.stages:
            rows: dict[int, dict[int, list[Row]]] = {}
            for relation in self.plan.travelling:
                for route in relation.routes:
                    if route.stage == stage.index:
                        for row in moving.get(relation.index, ()):
                            for cell in cells_of(route, row[:-1]):
                                rows.setdefault(cell, {}).setdefault(route.role, []).append(row)
            work = replace(self.work, stage=stage, output="somewhere")
            for cell, by_role in rows.items():
                self.sent[stage.index, cell] = sum(map(len, by_role.values()))
                if (stage.index, cell) not in self.programs:
                    self.programs[stage.index, cell] = work._program(cell)
                    for role in range(len(stage.roles)):
                        by_role.setdefault(role, [])
                program = self.programs[stage.index, cell]
                tables = {
                    f"in{role}": as_change(self.table(stage.roles[role], found)) for role, found in by_role.items()
                }
                results, _ = work._tick(program, tables)
                for result in stage.results:
                    listed = [tuple(row.values()) for row in results[result.name].to_pylist()]
                    for relation_index in result.goes_to:
                        moving.setdefault(relation_index, []).extend(listed)
                    if result.is_output:
                        for *values, weight in listed:
                            answers[result.head][tuple(values)] += weight
        return {name: Counter({row: n for row, n in found.items() if n}) for name, found in answers.items()}

    def table(self, relation: int, rows: Sequence[Row]) -> pa.Table:
        """Return rows of a relation with the columns that a cell gets."""
        fields = [column for column in self.columns.fields[relation] if column.name.startswith("c")]
        schema = arrow_schema(StructType(fields)).append(pa.field(WEIGHT, pa.int64()))
        columns = list(zip(*rows, strict=True)) or [() for _ in schema]
        return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def facts_of(plan: CellPlan) -> dict[str, list[Row]]:
    """Return the facts of a program's text, with weight 1."""
    from gpu_wcoj.query.desugar import desugar

    return {facts.relation: [(*row, 1) for row in facts.rows] for facts in desugar(plan.rules).facts}

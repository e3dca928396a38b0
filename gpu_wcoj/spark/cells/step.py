"""What a task of Spark does with the rows of its cell: one tick of the cell's engine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cells.counted import owned, summed
from gpu_wcoj.spark.cells.files import write_output
from gpu_wcoj.spark.cells.plan import Result, Stage
from gpu_wcoj.spark.cells.rows import CELL, DIGEST, FIRST, MASK, NOTE, REL, STAGE, moving_rows, note_row
from gpu_wcoj.spark.cells.state import base_of, put_back, taken, written
from gpu_wcoj.spark.feed import as_change
from gpu_wcoj.spark.formats import ORDER, WEIGHT
from gpu_wcoj.zset.zset import ZSet

Watch = Callable[[str, int, int, int], None]
"""Called with a point of a cell's work, stage, cell and batch; for tests that make a task fail there."""


@dataclass(frozen=True, eq=False)
class Work:
    """All that a task needs to know, sent to it once.

    Attributes
    ----------
    root
        The checkpoint's folder, which every machine sees under this path.
    output
        The folder for the answers' changes; empty if they are only counted.
    stage
        What the cells do.
    moving
        The columns of rows between stages; None in the last stage, which gives notes only.
    heads
        Per output, the columns of its rows.
    bag
        Bag semantics.
    cells
        How many cells there are, if each works on its share of all changes; else 0.
    batch
        The batch's id, if it is none of a stream.
    """

    root: str
    output: str
    stage: Stage
    moving: pa.Schema | None
    heads: Mapping[str, pa.Schema]
    bag: bool
    cells: int = 0
    backend: BackendName = "auto"
    threads: int | None = None
    batch: int | None = None
    watch: Watch | None = field(default=None)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function of ``mapInArrow``."""
        batch, query = self._batch()
        manifest, is_done = base_of(self.root, batch)
        mine: list[pa.RecordBatch] = []
        rows, digest = 0, 0
        for one in batches:
            if self.stage.number == 0:
                rows += pc.sum(one[FIRST]).as_py() or 0
                digest += int(np.asarray(one[DIGEST].fill_null(0)).view(np.uint64).sum(dtype=np.uint64))
            here = pc.fill_null(pc.equal(one[STAGE], self.stage.number), False)
            notes = pc.is_valid(one[NOTE])
            for note in one.filter(notes)[NOTE].to_pylist():
                yield self._note(note)
            kept = one.filter(pc.and_(here, pc.invert(notes)))
            if kept.num_rows:
                mine.append(kept)
            if self.moving is not None and not is_done:
                onward = one.filter(pc.and_(pc.invert(here), pc.invert(notes)))
                if onward.num_rows:
                    yield onward.cast(self.moving)
        if self.stage.number == 0 and rows:
            report = {"rows": rows, "digest": digest % (1 << 64), "query": query, "batch": batch}
            yield self._note(json.dumps(report))
        if is_done or not mine:
            return
        table = pa.Table.from_batches(mine)
        for cell in sorted(pc.unique(table[CELL]).to_pylist()):
            own = table.filter(pc.equal(table[CELL], cell))
            yield from self._cell(cell, own, batch, manifest)

    def _cell(self, cell: int, rows: pa.Table, batch: int, manifest: Any) -> Iterator[pa.RecordBatch]:
        """One cell's tick."""
        start = time.perf_counter()
        number = self.stage.number
        kept = taken(self.root, number, cell, manifest, lambda: self._program(cell))
        base = None if kept.entry is None else kept.entry.file
        loaded = time.perf_counter()
        self._at("before the tick", cell, batch)
        changes = self._changes(rows)
        if self.stage.kind == "owner":
            found = owned(kept.program, changes, self.bag)
        else:
            found = kept.program.step(changes)
        ticked = time.perf_counter()
        tables = {result.name: self._table(result, found[result.name]) for result in self.stage.results}
        counts: dict[str, list[int]] = {}
        outputs = []
        for head in dict.fromkeys(result.head for result in self.stage.results if result.is_output):
            parts = [tables[one.name] for one in self.stage.results if one.head == head and tables[one.name].num_rows]
            if parts:
                whole = pa.concat_tables(parts)
                weights = whole[whole.num_columns - 1].to_numpy()
                counts[head] = [int((weights > 0).sum()), int((weights < 0).sum()), int(weights.sum())]
                if self.output:
                    outputs.append(write_output(self.output, head, whole, batch, number, cell))
        put = time.perf_counter()
        self._at("before the state is written", cell, batch)
        kept, nbytes = written(self.root, batch, number, cell, kept)
        self._at("after the state is written", cell, batch)
        put_back(self.root, number, cell, kept, manifest)
        for result in self.stage.results:
            table = tables[result.name]
            for target in result.goes_to if table.num_rows else ():
                assert self.moving is not None
                yield moving_rows(self.moving, target, table.columns[:-1], table.columns[-1])
        assert kept.entry is not None
        yield self._note(
            json.dumps(
                {
                    "stage": number, "cell": cell, "base": base, "entry": [kept.entry.file, kept.entry.sha256],
                    "rows": rows.num_rows, "bytes": nbytes, "counts": counts, "outputs": outputs,
                    "seconds": {
                        "load": loaded - start, "tick": ticked - loaded, "output": put - ticked,
                        "state": time.perf_counter() - put,
                    },
                }
            )
        )  # fmt: skip

    def _changes(self, rows: pa.Table) -> dict[str, ZSet | pa.Table]:
        """The rows of each role."""
        changes: dict[str, ZSet | pa.Table] = {}
        for relation in dict.fromkeys(self.stage.roles):
            own = rows.filter(pc.equal(rows[REL], relation))
            if not own.num_rows:
                continue
            roles = self.stage.roles_of(relation)
            mask = own[MASK].to_numpy()
            struct = own[f"r{relation}"].combine_chunks()
            values = dict(zip([one.name for one in struct.type], struct.flatten(), strict=True))
            columns = {name: value for name, value in values.items() if name.startswith("c")}
            columns[WEIGHT] = own[WEIGHT]
            columns |= {f"{ORDER}{name[1:]}": value for name, value in values.items() if name.startswith("o")}
            table = pa.table(columns)
            for bit, role in enumerate(roles):
                held = (mask >> bit & 1).astype(bool)
                if held.any():
                    changes[f"in{role}"] = as_change(table if held.all() else table.filter(pa.array(held)))
        return changes

    def _table(self, result: Result, rows: ZSet) -> pa.Table:
        """The rows of a result in the types of its head, weights last."""
        schema = self.heads[result.head]
        if not len(rows):
            return schema.append(pa.field(WEIGHT, pa.int64())).empty_table()
        table = rows.with_weight_name(WEIGHT).to_arrow()
        table = summed(table, result.width) if result.is_summed else table
        columns = [column.cast(one.type) for column, one in zip(table.columns, schema, strict=False)]
        names = [f"c{i}" for i in range(result.width)]
        return pa.table([*columns, table.columns[-1]], names=[*names, WEIGHT])

    def _program(self, cell: int) -> Program:
        """A new engine for a cell."""
        threads = self.threads or _cpus()
        is_bag = self.bag or self.stage.kind == "owner"
        program = Program(parse(self.stage.program), bag=is_bag, backend=self.backend, threads=threads)
        if self.cells and self.stage.kind == "join":
            program.share_work(cell, self.cells)
        return program

    def _note(self, text: str) -> pa.RecordBatch:
        if self.moving is not None:
            return note_row(self.moving, text)
        return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[NOTE])

    def _at(self, point: str, cell: int, batch: int) -> None:
        if self.watch is not None:
            self.watch(point, self.stage.number, cell, batch)

    def _batch(self) -> tuple[int, str]:
        """The id of the batch that this task belongs to, and of its query; the task's device is chosen."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None:
            addresses = context.resources().get("gpu")
            if addresses is not None:
                # Before anything of CUDA is loaded in this process, which Spark forked without it.
                os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(addresses.addresses)
        if self.batch is not None:
            return self.batch, ""
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        query = context.getLocalProperty("sql.streaming.queryId")
        if batch is None or query is None:
            raise UsageError("changes on cells come from a stream, or are loaded as tables: this task is of neither.")
        return int(batch), query


def _cpus() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else max(1, context.cpus())

"""The work of a Spark task on the rows of its cell: one tick of the cell's engine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.backend import BackendName
from gpu_wcoj.checkpoint.manifest import Manifest
from gpu_wcoj.errors import UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cells.counted import apply_derivations, sum_rows
from gpu_wcoj.spark.cells.files import write_output
from gpu_wcoj.spark.cells.state import (
    CellState,
    Entry,
    acquire_state,
    base_of,
    bytes_since,
    cache_state,
    stage_program,
    write_state,
)
from gpu_wcoj.spark.cluster.exchange import CELL, DIGEST, FIRST, MASK, NOTE, REL, STAGE, moving_rows, note_row
from gpu_wcoj.spark.cluster.plan import Result, Stage
from gpu_wcoj.spark.feed import as_change
from gpu_wcoj.spark.formats import ORDER, WEIGHT
from gpu_wcoj.spark.output import with_batch
from gpu_wcoj.weights import weight_name
from gpu_wcoj.zset.zset import ZSet

Watch = Callable[[str, int, int, int], None]
"""A function that is called with a point of a cell's work, stage, cell and batch. Tests use it to make a task fail
there."""


@dataclass(frozen=True, eq=False)
class Work:
    """All data that a task needs, sent to it once.

    Attributes
    ----------
    stage
        The stage that the cells run.
    moving
        The columns of rows between stages; None in the last stage, which returns notes only.
    slots
        Per relation of the plan, the slots of its columns in these rows.
    heads
        Per output, the columns of its rows.
    bag
        Whether the program has bag semantics.
    root
        The checkpoint's folder, which every machine sees under this path; empty without a checkpoint.
    output
        The folder for the answers' changes; empty if they are only counted.
    cells
        Number of cells, if each works on its share of all changes; else 0.
    batch, query
        The batch's id and its query's, if they are not those of the stream that the task runs for.
    bases
        By stage and cell, the initial states, if they are not those of the newest manifest.
    is_answer
        Whether the changes are a complete answer: written without the batch, and as sets without weights.
    """

    stage: Stage
    moving: pa.Schema | None
    slots: Sequence[Mapping[str, str]]
    heads: Mapping[str, pa.Schema]
    bag: bool
    root: str = ""
    output: str = ""
    cells: int = 0
    backend: BackendName = "auto"
    threads: int | None = None
    gpu_memory: float | str | None = None
    batch: int | None = None
    query: str = ""
    bases: Mapping[tuple[int, int], Entry] | None = None
    is_answer: bool = False
    watch: Watch | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the cells of a partition; the function of ``mapInArrow``."""
        batch, query = self._batch()
        manifest, is_done = base_of(self.root, batch) if self.root else (None, False)
        stage_rows: list[pa.RecordBatch] = []
        rows, digest = 0, 0
        for record_batch in batches:
            if self.stage.index == 0:
                rows += pc.sum(record_batch[FIRST]).as_py() or 0
                digest += int(np.asarray(record_batch[DIGEST].fill_null(0)).view(np.uint64).sum(dtype=np.uint64))
            here = pc.fill_null(pc.equal(record_batch[STAGE], self.stage.index), False)
            notes = pc.is_valid(record_batch[NOTE])
            for note in record_batch.filter(notes)[NOTE].to_pylist():
                yield self._note(note)
            rows_here = record_batch.filter(pc.and_(here, pc.invert(notes)))
            if rows_here.num_rows:
                stage_rows.append(rows_here)
            if self.moving is not None and not is_done:
                onward = record_batch.filter(pc.and_(pc.invert(here), pc.invert(notes)))
                if onward.num_rows:
                    yield onward.cast(self.moving)
        if self.stage.index == 0 and rows:
            report = {"rows": rows, "digest": digest % (1 << 64), "query": query, "batch": batch}
            yield self._note(json.dumps(report))
        if is_done or not stage_rows:
            return
        table = pa.Table.from_batches(stage_rows)
        for cell in sorted(pc.unique(table[CELL]).to_pylist()):
            cell_rows = table.filter(pc.equal(table[CELL], cell))
            yield from self._cell(cell, cell_rows, batch, manifest)

    def _cell(self, cell: int, rows: pa.Table, batch: int, manifest: Manifest | None) -> Iterator[pa.RecordBatch]:
        """Run the tick of one cell."""
        start = time.perf_counter()
        stage_index = self.stage.index
        if manifest is None:
            state = CellState(self._program(cell), None, None)
        else:
            base = (
                Entry.from_manifest(manifest, stage_index, cell)
                if self.bases is None
                else self.bases.get((stage_index, cell))
            )
            state = acquire_state(self.root, stage_index, cell, base, lambda: self._program(cell))
        base_name = None if state.entry is None else state.entry.file
        loaded = time.perf_counter()
        self._call_watch("before the tick", cell, batch)
        changes = self._changes(rows)
        tables, counts = self._tick(state.program, changes)
        ticked = time.perf_counter()
        outputs = []
        for head in counts if self.output else ():
            changed_rows = pa.concat_tables(
                [tables[result.name] for result in self.stage.results if result.head == head]
            )
            outputs.append(self._write(head, changed_rows, batch, cell))
        put = time.perf_counter()
        self._call_watch("before the state is written", cell, batch)
        nbytes = new_bytes = 0
        if manifest is not None:
            before = state.stored
            state, nbytes = write_state(self.root, batch, stage_index, cell, state)
            new_bytes = bytes_since(before, state.stored)
        self._call_watch("after the state is written", cell, batch)
        if manifest is not None:
            cache_state(self.root, stage_index, cell, state, manifest)
        for result in self.stage.results:
            for target in result.goes_to:
                table = tables[result.name]
                if table.num_rows:
                    assert self.moving is not None
                    slots = list(self.slots[target].values())
                    yield moving_rows(self.moving, target, slots, table.columns[:-1], table.columns[-1])
        entry = None if state.entry is None else [state.entry.file, state.entry.sha256]
        yield self._note(
            json.dumps(
                {
                    "stage": stage_index, "cell": cell, "base": base_name, "entry": entry, "rows": rows.num_rows,
                    "held": rows_by_role(state.program), "bytes": nbytes, "written": new_bytes, "counts": counts,
                    "outputs": outputs,
                    "seconds": {
                        "load": loaded - start, "tick": ticked - loaded, "output": put - ticked,
                        "state": time.perf_counter() - put,
                    },
                }
            )
        )  # fmt: skip

    def _tick(
        self, program: Program, changes: Mapping[str, Any]
    ) -> tuple[dict[str, pa.Table], dict[str, list[int | None]]]:
        """Return the rows of each result, and the inserted, deleted and net rows of each output."""
        heads = dict.fromkeys(result.head for result in self.stage.results if result.is_output)
        counts: dict[str, list[int | None]] = {}
        if self.stage.kind == "join" and not self.output and not any(result.goes_to for result in self.stage.results):
            for name, change in program.step_counts(changes).items():
                head = next(result.head for result in self.stage.results if result.name == name)
                if head in heads and (change.net or change.inserted):
                    change_counts = [change.inserted, change.deleted, change.net]
                    counts[head] = add_counts(counts[head], change_counts) if head in counts else change_counts
            return {}, counts
        rows_of = apply_derivations(program, changes, self.bag) if self.stage.kind == "owner" else program.step(changes)
        tables = {result.name: self._table(result, rows_of[result.name]) for result in self.stage.results}
        for head in heads:
            weights = np.concatenate(
                [_weights(tables[result.name]) for result in self.stage.results if result.head == head]
            )
            if len(weights):
                net = int(weights.sum())
                signs = (None, None) if self.bag else (int((weights > 0).sum()), int((weights < 0).sum()))
                counts[head] = [*signs, net]
        return tables, counts

    def _write(self, head: str, rows: pa.Table, batch: int, cell: int) -> list[Any]:
        """Write changes of a head with the names of its columns."""
        names = self.heads[head].names
        rows = rows.rename_columns([*names, weight_name(names)])
        if self.is_answer and not self.bag:
            rows = rows.select(range(len(names)))
        return write_output(self.output, head, rows if self.is_answer else with_batch(rows, batch), batch,
                            self.stage.index, cell)  # fmt: skip

    def _changes(self, rows: pa.Table) -> dict[str, ZSet | pa.Table]:
        """Return the rows of each role."""
        changes: dict[str, ZSet | pa.Table] = {}
        for relation in dict.fromkeys(self.stage.roles):
            relation_rows = rows.filter(pc.equal(rows[REL], relation))
            if not relation_rows.num_rows:
                continue
            roles = self.stage.roles_of(relation)
            mask = relation_rows[MASK].to_numpy()
            values = {name: relation_rows[slot] for name, slot in self.slots[relation].items()}
            columns = {name: value for name, value in values.items() if name.startswith("c")}
            columns[WEIGHT] = relation_rows[WEIGHT]
            moments = {f"{ORDER}{name[1:]}": value for name, value in values.items() if name.startswith("o")}
            if any(
                value.null_count < relation_rows.num_rows for value in moments.values()
            ):  # else it is a table in no order
                columns |= moments
            table = pa.table(columns)
            for bit, role in enumerate(roles):
                has_role = (mask >> bit & 1).astype(bool)
                if has_role.any():
                    changes[f"in{role}"] = as_change(table if has_role.all() else table.filter(pa.array(has_role)))
        return changes

    def _table(self, result: Result, rows: ZSet) -> pa.Table:
        """Return the rows of a result in the types of its head, weights last."""
        schema = self.heads[result.head]
        names = [*(f"c{i}" for i in range(result.width)), WEIGHT]
        if not len(rows):
            return schema.append(pa.field(WEIGHT, pa.int64())).empty_table().rename_columns(names)
        table = rows.with_weight_name(WEIGHT).to_arrow()
        table = sum_rows(table, result.width) if result.is_summed else table
        columns = [column.cast(column_field.type) for column, column_field in zip(table.columns, schema, strict=False)]
        return pa.table([*columns, table.columns[-1]], names=names)

    def _program(self, cell: int) -> Program:
        """Return a new engine for a cell."""
        threads = self.threads or _cpus()
        program = stage_program(self.stage, self.bag, backend=self.backend, threads=threads, gpu_memory=self.gpu_memory)
        if self.cells and self.stage.kind == "join":
            program.share_work(cell, self.cells)
        return program

    def _note(self, text: str) -> pa.RecordBatch:
        if self.moving is not None:
            return note_row(self.moving, text)
        return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[NOTE])

    def _call_watch(self, point: str, cell: int, batch: int) -> None:
        if self.watch is not None:
            self.watch(point, self.stage.index, cell, batch)

    def _batch(self) -> tuple[int, str]:
        """Return the ids of this task's batch and query, and select the task's device."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None:
            addresses = context.resources().get("gpu")
            if addresses is not None:
                # Before anything of CUDA is loaded in this process, which Spark forked without it.
                os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(addresses.addresses)
        if self.batch is not None:
            return self.batch, self.query
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        query = context.getLocalProperty("sql.streaming.queryId")
        if batch is None or query is None:
            raise UsageError.wrong_state(
                "running a cell", "its task belongs to neither a stream nor the loading of tables"
            )
        return int(batch), query


def add_counts(left: Sequence[int | None], right: Sequence[int | None]) -> list[int | None]:
    """Return the sums of row counts; None where one of them is None."""
    return [None if a is None or b is None else a + b for a, b in zip(left, right, strict=True)]


def rows_by_role(program: Program) -> dict[str, int]:
    """Return the rows of each role of a cell's program."""
    lowered = program.subject.ledger.lowered
    return {} if lowered is None else {name: len(index) for name, index in lowered.circuit.sources.items()}


def _weights(table: pa.Table) -> Any:
    return table[table.num_columns - 1].to_numpy()


def _cpus() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else max(1, context.cpus())

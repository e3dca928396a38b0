"""The work of a Spark task on the rows of its cell: one tick of the cell's engine."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.data.rows import weight_name
from gpu_wcoj.destination import force_names
from gpu_wcoj.engine.compile import stored_columns
from gpu_wcoj.engine.ingest import read_change
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import CheckpointError, WeightOverflowError
from gpu_wcoj.files.output import folder_of
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.exchange import FIRST
from gpu_wcoj.spark.cluster.parcels import (
    BODY,
    CELL,
    DIGEST,
    IS_WEIGHTED,
    MASK,
    NOTE,
    REL,
    STAGE,
    Router,
    as_rows,
    batch_of_task,
    note_parcel,
    report_of,
    sum_digests,
)
from gpu_wcoj.spark.cluster.plan import Result, Stage
from gpu_wcoj.spark.cluster.state import (
    CellState,
    Entries,
    acquire_state,
    base_of,
    bytes_since,
    cache_state,
    entries_in,
    write_state,
)
from gpu_wcoj.spark.motifs import Packing
from gpu_wcoj.spark.output import AnswerFiles, SparkFile, with_batch
from gpu_wcoj.spark.sources import ORDER, WEIGHT, as_change
from gpu_wcoj.zset.zset import ZSet


def stage_program(stage: Stage, bag: bool, options: ProgramOptions) -> Program:
    """Return the program of a cell in a stage, without state."""
    is_bag = bag or stage.is_bag or stage.kind == "owner"
    options = replace(options.without_relations(), bag=is_bag, inputs=stage.program.inputs)
    program = Program.from_options(stage.program, options)
    program.subject.ledger.state.types.equate_zeros(stage.equated)
    return program


# Derivation counts in owner cells, and the rows that appear or vanish.


def apply_derivations(program: Program, changes: Mapping[str, ZSet], is_bag: bool) -> dict[str, ZSet]:
    """Apply changes of derivation counts and return the rows that appear (1) or vanish (-1).

    In bag semantics, the result is the summed changes. `program` is a program over bags whose rules only rename; its
    inputs hold the derivation counts.
    """
    result = program.step(changes)
    if is_bag:
        return result
    return {name: _crossing(program, name, rows) if len(rows) else rows for name, rows in result.items()}


def _crossing(program: Program, name: str, rows: ZSet) -> ZSet:
    """Return the rows whose derivation count becomes positive or ceases to be so."""
    program.subject.ledger.settle()  # a small tick leaves its rows in memtables
    lowered = program.subject.ledger.lowered
    assert lowered is not None
    source = f"in{name.removeprefix('out')}"
    types = [lowered.kinds[source, column] for column in range(len(rows.columns))]
    incoming = read_change(source, rows, len(rows.columns), None, types, program.dictionaries)
    columns = stored_columns(source, incoming, lowered).columns
    index = lowered.circuit.sources[source]
    backend = index.backend
    after = backend.to_host(index.weights_of([backend.asarray(column) for column in columns]))
    before = after - rows.weights
    if (after < 0).any():
        row = int(np.flatnonzero(after < 0)[0])
        raise CheckpointError(
            f"row {rows.rows()[row][0]} would have {int(after[row])} derivations: the changes do not fit the state.\n"
            "  The batch is not committed. Begin a new checkpoint from the inputs, and report this."
        )
    sign = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    return ZSet.from_columns(rows.names, rows.columns, sign)


def sum_rows(table: Any, width: int) -> Any:
    """Sum the weights of equal rows over the first `width` columns of an Arrow table.

    Rows of weight 0 are left out.
    """
    import pyarrow.compute as pc

    weight = table.column_names[-1]
    names = table.column_names[:width]
    selected = table.select([*names, weight])
    if not selected.num_rows:
        return selected
    weights = selected[weight].to_numpy()
    if max(int(weights.max()), -int(weights.min())) * len(weights) >= 1 << 63:
        raise WeightOverflowError("of a cell", "of some derivations", None)
    total = selected.group_by(names, use_threads=False).aggregate([(weight, "sum")])
    total = total.select([*names, f"{weight}_sum"]).rename_columns([*names, weight])
    return total.filter(pc.not_equal(total[weight], 0))


# Parquet files of changes of one attempt of one cell, in the folder layout of all views.


def write_output(place: str, head: str, rows: pa.Table, batch: int, stage: int, cell: int) -> list[Any]:
    """Write the changes of one head to disk; return path below `place`, rows, bytes, checksum."""
    when = "load" if batch < 0 else f"batch-{batch:012}"
    name = f"{when}-{stage:03}-{cell:05}-{os.urandom(8).hex()}.parquet"
    folder = folder_of(Path(place), head)
    is_new = not folder.is_dir()
    file = SparkFile(folder / name)
    try:
        file.add(rows)
        written = file.finish()
        force_names(folder)
        if is_new:
            force_names(folder.parent)
    except BaseException:
        file.discard()
        raise
    return [f"{head}/{name}", *written]


Watch = Callable[[str, int, int, int], None]
"""A function that is called with a point of a cell's work, stage, cell and batch. Tests use it to make a task fail
there."""


Arrival = tuple[int, int, pa.RecordBatch]
"""The relation of rows, the mask of their roles in a cell, and the rows."""


@dataclass(frozen=True, eq=False)
class Work:
    """All data that a task needs, sent to it once.

    Attributes
    ----------
    stage
        The stage that the cells run.
    is_last
        Whether it is the last stage, which returns notes only.
    routers
        Per relation of the plan, its columns and the routes of its rows.
    slots
        Per relation, the slots of its columns in rows that expressions have routed.
    heads
        Per head, the columns of its rows.
    bag
        Whether the program has bag semantics.
    options
        Options of the cells' programs; by default each has the threads of its task.
    root
        The checkpoint's folder, which every machine sees under this path; empty without a checkpoint.
    output
        The folder for the answers' changes; empty if they are only counted.
    cells
        Number of cells, if each works on its share of all changes; else 0.
    batch, query
        The batch's id and its query's, if they are not those of the stream that the task runs for.
    bases
        The initial states; None for those of the newest manifest, which each task reads.
    archive
        The archive that the driver writes from small files of the cells; empty if they write all files.
    is_answer
        Whether the changes are a complete answer: written without the batch, and as sets without weights.
    packing
        The columns of the files, if the answers are matches of a motif.
    """

    stage: Stage
    is_last: bool
    routers: Mapping[int, Router]
    slots: Sequence[Mapping[str, str]]
    heads: Mapping[str, pa.Schema]
    bag: bool
    options: ProgramOptions
    root: str = ""
    output: str = ""
    cells: int = 0
    batch: int | None = None
    query: str = ""
    bases: Entries | None = None
    archive: str = ""
    is_answer: bool = False
    packing: Packing | None = None
    watch: Watch | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the cells of a partition; the function of ``mapInArrow``."""
        self._select_device()
        batch, query = batch_of_task(self.batch, self.query)
        bases, is_done = self.bases, False
        if self.root and bases is None:
            manifest, is_done = base_of(self.root, batch)
            bases = entries_in(manifest)
        arrivals: dict[int, list[Arrival]] = {}
        rows, digest = 0, 0
        for record_batch in batches:
            if BODY not in record_batch.schema.names:
                rows += pc.sum(record_batch[FIRST]).as_py() or 0
                digest += sum_digests(record_batch[DIGEST])
                yield from self._sort_rows(record_batch, arrivals, is_done)
                continue
            for note in record_batch[NOTE].drop_null().to_pylist():
                yield self._note(note)
            here = pc.equal(record_batch[STAGE], self.stage.index)
            if not is_done:
                self._add_parcels(record_batch, arrivals)
                onward = record_batch.filter(pc.fill_null(pc.invert(here), False))
                if onward.num_rows:
                    yield onward
        if rows:
            yield self._note(report_of(rows, digest, batch, query))
        record_batch = None  # the bodies of its rows are copied by a cell, and then freed
        for cell in sorted(arrivals):
            yield from self._cell(cell, arrivals.pop(cell), batch, bases)

    def _add_parcels(self, parcels: pa.RecordBatch, arrivals: dict[int, list[Arrival]]) -> None:
        """Add the parcels for this stage."""
        names = STAGE, CELL, REL, MASK, IS_WEIGHTED
        for i, (stage, cell, relation, mask, is_weighted) in enumerate(
            zip(*(parcels[name].to_pylist() for name in names), strict=True)
        ):
            if stage == self.stage.index:
                rows = self.routers[relation].opened(is_weighted, parcels[BODY][i].as_buffer())
                arrivals.setdefault(cell, []).append((relation, mask, rows))

    def _sort_rows(
        self, routed: pa.RecordBatch, arrivals: dict[int, list[Arrival]], is_done: bool
    ) -> Iterator[pa.RecordBatch]:
        """Add the rows for this stage that expressions have routed, and yield the others as parcels."""
        names = [STAGE, CELL, REL, MASK]
        table = pa.Table.from_batches([routed]).append_column("row", pa.array(np.arange(routed.num_rows)))
        groups = table.group_by(names, use_threads=False).aggregate([("row", "list")]) if not is_done else table[:0]
        for group in groups.to_pylist():
            stage, cell, relation, mask = (group[name] for name in names)
            router = self.routers[relation]
            rows = as_rows(router, routed.take(pa.array(group["row_list"])), self.slots[relation])
            if stage == self.stage.index:
                arrivals.setdefault(cell, []).append((relation, mask, rows))
            else:
                yield from router.packed(stage, cell, mask, rows)

    def _cell(self, cell: int, arrivals: list[Arrival], batch: int, bases: Entries | None) -> Iterator[pa.RecordBatch]:
        """Run the tick of one cell and drop its rows; `bases` is None without a checkpoint."""
        start = time.perf_counter()
        stage_index = self.stage.index
        if bases is None:
            state = CellState(self._program(cell), None, None, None)
        else:
            base = bases.get((stage_index, cell))
            state = acquire_state(self.root, stage_index, cell, base, lambda: self._program(cell))
        base_name = None if state.entry is None else state.entry.file
        loaded = time.perf_counter()
        self._call_watch("before the tick", cell, batch)
        n_rows = sum(rows.num_rows for _, _, rows in arrivals)
        changes = self._changes(arrivals)
        arrivals.clear()
        if state.entry is None:  # the types of all columns, also of roles without rows so far
            changes = self._no_rows() | changes
        if self.is_answer and self.output and self._only_answers:
            tables, counts, outputs, repeats = self._answer(state.program, changes)
            ticked = time.perf_counter()
        else:
            tables, counts = self._tick(state.program, changes)
            ticked = time.perf_counter()
            outputs, repeats = [], False
            for head in counts if self.output else ():
                changed_rows = pa.concat_tables(
                    [tables[result.name] for result in self.stage.results if result.head == head]
                )
                repeats |= bool((_weights(changed_rows) != 1).any())
                outputs.append(self._write(head, changed_rows, batch, cell))
        put = time.perf_counter()
        self._call_watch("before the state is written", cell, batch)
        nbytes, new_bytes, files = 0, 0, dict[str, bytes]()
        if bases is not None:
            before = state.stored
            state, nbytes, files = write_state(self.root, batch, stage_index, cell, state, self.archive)
            new_bytes = bytes_since(before, state.stored)
        self._call_watch("after the state is written", cell, batch)
        if bases is not None:
            cache_state(self.root, stage_index, cell, state, bases, batch)
        for result in self.stage.results:
            for target in result.goes_to:
                table = tables[result.name]
                router = self.routers[target]
                names = [field.name for field in router.schema]
                for rows in table.rename_columns([*names, WEIGHT]).combine_chunks().to_batches():
                    yield from router.parcels(as_rows(router, rows, dict(zip(names, names, strict=True))))
        entry = None if state.entry is None else [state.entry.file, state.entry.sha256]
        yield self._note(
            json.dumps(
                {
                    "stage": stage_index, "cell": cell, "base": base_name, "entry": entry, "rows": n_rows,
                    "held": rows_by_role(state.program), "bytes": nbytes, "written": new_bytes, "counts": counts,
                    "outputs": outputs, "repeats": repeats,
                    "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
                    "seconds": {
                        "load": loaded - start, "tick": ticked - loaded, "output": put - ticked,
                        "state": time.perf_counter() - put,
                    },
                }
            )
        )  # fmt: skip

    @property
    def _only_answers(self) -> bool:
        """True for joins whose rows are all final."""
        results = self.stage.results
        return self.stage.kind == "join" and all(
            result.is_output and not result.goes_to and not result.is_summed for result in results
        )

    def _answer(
        self, program: Program, changes: Mapping[str, Any]
    ) -> tuple[dict[str, pa.Table], dict[str, list[int | None]], list[Any], bool]:
        """Write the rows of all results while the join lists them.

        Return no tables, the counts, the files, and whether a row has another weight than 1.
        """
        results = {result.name: result for result in self.stage.results}
        threads = program.threads
        files = {
            result.head: AnswerFiles(Path(self.output), result.head, self.bag, threads) for result in results.values()
        }
        counts: dict[str, list[int | None]] = {}

        def write(name: str, piece: ZSet) -> None:
            result = results[name]
            names = self.heads[result.head].names
            files[result.head].add(self._table(result, piece).rename_columns([*names, weight_name(names)]))

        try:
            for name, change in program.step_pieces(changes, write, in_order=False).items():
                head, changed = results[name].head, [change.inserted, change.deleted, change.net]
                counts[head] = add_counts(counts[head], changed) if head in counts else changed
            outputs = [[path] for answer in files.values() for path in answer.finish()]
        except BaseException:
            for answer in files.values():
                answer.discard()
            raise
        return {}, counts, outputs, any(answer.repeats for answer in files.values())

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
        rows = rows if self.packing is None else self.packing.pack(rows)
        if self.is_answer and not self.bag:
            rows = rows.select(range(len(names)))
        return write_output(self.output, head, rows if self.is_answer else with_batch(rows, batch), batch,
                            self.stage.index, cell)  # fmt: skip

    def _changes(self, arrivals: Sequence[Arrival]) -> dict[str, ZSet | pa.Table]:
        """Return the rows of each role."""
        changes: dict[str, ZSet | pa.Table] = {}
        for relation in dict.fromkeys(self.stage.roles):
            router = self.routers[relation]
            for bit, role in enumerate(self.stage.roles_of(relation)):
                parts = [rows for other, mask, rows in arrivals if other == relation and mask >> bit & 1]
                if not parts:
                    continue
                if any(WEIGHT in rows.schema.names for rows in parts):
                    parts = [_weighted(rows, router) for rows in parts]
                table = pa.Table.from_batches(parts).combine_chunks()  # a chunk costs the engine some 50 us
                moments = [name for name in router.schema.names if name.startswith("o")]
                if all(table[name].null_count == table.num_rows for name in moments):
                    table = table.drop_columns(moments)  # it is a table in no order
                names = [f"{ORDER}{name[1:]}" if name in moments else name for name in table.column_names]
                table = table.rename_columns(names)
                changes[f"in{role}"] = as_change(table) if WEIGHT in names else table
        return changes

    def _no_rows(self) -> dict[str, ZSet | pa.Table]:
        """Return a table without rows for each role."""
        schemas = (self.routers[relation].schema for relation in self.stage.roles)
        return {
            f"in{role}": pa.schema([column for column in schema if column.name.startswith("c")]).empty_table()
            for role, schema in enumerate(schemas)
        }

    def _table(self, result: Result, rows: ZSet) -> pa.Table:
        """Return the rows of a result in the types of its head, weights last."""
        schema = self.heads[result.head]
        names = [*(f"c{i}" for i in range(result.width)), WEIGHT]
        if not len(rows):
            empty = pa.schema(list(schema)[: result.width]).append(pa.field(WEIGHT, pa.int64())).empty_table()
            return empty.rename_columns(names)
        table = rows.with_weight_name(WEIGHT).to_arrow()
        table = sum_rows(table, result.width) if result.is_summed else table
        columns = [
            column.cast(column_field.type)
            for column, column_field in zip(table.columns[: result.width], schema, strict=False)
        ]
        return pa.table([*columns, table.columns[-1]], names=names)

    def _program(self, cell: int) -> Program:
        """Return a new engine for a cell."""
        options = replace(self.options, threads=self.options.threads or _cpus())
        program = stage_program(self.stage, self.bag, options)
        if self.stage.shares_work:
            program.share_work(cell, self.cells)
        return program

    def _note(self, text: str) -> pa.RecordBatch:
        if not self.is_last:
            return note_parcel(text, self.routers[0].keys[0])
        return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[NOTE])

    def _call_watch(self, point: str, cell: int, batch: int) -> None:
        if self.watch is not None:
            self.watch(point, self.stage.index, cell, batch)

    @staticmethod
    def _select_device() -> None:
        """Select the task's device before CUDA is loaded in this process; Spark forked it without."""
        from pyspark import TaskContext

        context = TaskContext.get()
        addresses = None if context is None else context.resources().get("gpu")
        if addresses is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(addresses.addresses)


def _weighted(rows: pa.RecordBatch, router: Router) -> pa.RecordBatch:
    """Return rows with their weights."""
    if WEIGHT in rows.schema.names:
        return rows
    ones = pa.array(np.ones(rows.num_rows, np.int64))
    return pa.RecordBatch.from_arrays([*rows.columns, ones], schema=router.weighted_schema)


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

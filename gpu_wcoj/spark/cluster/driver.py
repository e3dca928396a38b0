"""The driver of a program on cells: its plan, its checkpoint, and the commit of its batches."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions, Manifest, OutputFile
from gpu_wcoj.checkpoint.state import Definition
from gpu_wcoj.destination import folder_path
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import CheckpointError, UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.spark.cluster.destination import HandedOn, Handing, Listed, NoFiles, as_listed
from gpu_wcoj.spark.cluster.exchange import (
    Columns,
    Sources,
    exchange_parcels,
    exchange_rows,
    fact_frames,
    has_expressions,
    in_order,
    reselect,
    route_rows,
    routers_of,
    select_sources,
    send_rows,
    unite,
)
from gpu_wcoj.spark.cluster.hashing import row_digests
from gpu_wcoj.spark.cluster.layout import CellLayout, Heavy, Layout, choose, require_spread
from gpu_wcoj.spark.cluster.parcels import DIGEST, KEY, NOTE, PARCEL, Dispatch
from gpu_wcoj.spark.cluster.plan import CellPlan, cell_plan
from gpu_wcoj.spark.cluster.read import CHOSEN, StateReader, existing_layout, not_on_cells_error
from gpu_wcoj.spark.cluster.rebalance import (
    ROLE_ROWS,
    SEARCHED_ROWS,
    Moved,
    count_role_rows,
    find_balanced_layout,
    gather_inputs,
    is_due,
)
from gpu_wcoj.spark.cluster.state import CELLS, Entries, Entry, Tidying, as_json, entries_in, new_archive, write_archive
from gpu_wcoj.spark.cluster.worker import Watch, Work, add_counts
from gpu_wcoj.spark.motifs import Packing
from gpu_wcoj.spark.output import ToCallable, json_schema
from gpu_wcoj.spark.schema import spark_schema
from gpu_wcoj.spark.sources import WEIGHT
from gpu_wcoj.spark.workers import as_task

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


# Progress from the notes of cells: changes, seconds, and the balance of the load.


_PARTS = ("load", "tick", "output", "state")


@dataclass(frozen=True)
class Notes:
    """The notes of one batch.

    Attributes
    ----------
    rows, digest, query
        Rows of the batch, their checksum, and the id of the batch's query.
    cells
        The reports of the cells that had rows, stage by stage.
    """

    rows: int
    digest: str
    query: str
    cells: Sequence[Mapping[str, Any]]

    @classmethod
    def collect(cls, frame: DataFrame | RDD[tuple[str]] | None) -> Notes:
        """Run a batch and return its notes; None for a batch without rows."""
        notes = [] if frame is None else [json.loads(row[0]) for row in frame.collect()]
        batch_notes = [note for note in notes if "cell" not in note]
        queries = {note["query"] for note in batch_notes}
        if len(queries) > 1:
            raise CheckpointError.with_parts(
                f"a batch has rows of several queries: got {sorted(queries)}", got=sorted(queries), expected="one query"
            )
        digest = sum(note["digest"] for note in batch_notes) % (1 << 64)
        cells = [note for note in notes if "cell" in note]
        return cls(sum(note["rows"] for note in batch_notes), f"{digest:016x}", next(iter(queries), ""), cells)

    def counts(self, outputs: Sequence[str], bag: bool) -> dict[str, list[int | None]]:
        """Return, per output, the inserted and deleted rows and the sum of their weights."""
        changes: dict[str, list[int | None]] = {name: [None, None, 0] if bag else [0, 0, 0] for name in outputs}
        for cell in self.cells:
            for name, counts in cell["counts"].items():
                changes[name] = add_counts(changes[name], counts)
        return changes


def load_of(plan: CellPlan, notes: Notes) -> dict[str, Any]:
    """Return the largest and the mean rows of a cell by stage, and the largest of their ratios."""
    loads = {}
    for stage in plan.stages:
        stage_rows = [cell["rows"] for cell in notes.cells if cell["stage"] == stage.index]
        loads[stage.index] = {"largest": max(stage_rows, default=0), "mean": sum(stage_rows) / plan.chosen.cells}
    return {
        "load": loads,
        "skew": max((load["largest"] / load["mean"] for load in loads.values() if load["mean"]), default=1.0),
    }


def batch_progress(
    plan: CellPlan, batch: int, notes: Notes, answers: Mapping[str, int], running: float, committing: float
) -> dict[str, Any]:
    """Return the progress of a committed batch."""
    changes = notes.counts(plan.outputs, plan.bag)
    return {
        "batch": batch,
        "rows": notes.rows,
        "skipped": False,
        "hint": "",
        "answers": dict(answers),
        "changes": {
            name: {"inserted": came, "deleted": went, "net": net} for name, (came, went, net) in changes.items()
        },
        "seconds": {
            "batch": running + committing,
            "cells": running,
            "commit": committing,
            **{part: max((cell["seconds"][part] for cell in notes.cells), default=0.0) for part in _PARTS},
        },
        "state_bytes": sum(cell["bytes"] for cell in notes.cells),
        "checkpoint_bytes": sum(cell["written"] for cell in notes.cells),
        "adapted": {},
        **load_of(plan, notes),
    }


# The entries of the cells' states in the manifest after a batch.


def entries_after(
    last_manifest: Manifest | None, cells: Sequence[Mapping[str, Any]], moved: Moved | None
) -> tuple[dict[tuple[int, int], Entry], dict[str, Any]]:
    """Return the entries of all cells after a batch, and the rows by role of each cell.

    Cells that had rows in the batch have new entries.

    Parameters
    ----------
    last
        The manifest before the batch.
    cells
        The notes of the cells that had rows.
    moved
        The state on which the cells ran, if it is in a new plan.

    Raises
    ------
    CheckpointError
        If a cell ran on another state.
    """
    entries: dict[tuple[int, int], Entry] = {}
    role_rows: dict[str, Any] = {}
    if moved is not None:
        entries, role_rows = moved.entries, {f"{note['stage']}/{note['cell']}": note["held"] for note in moved.cells}
    elif last_manifest is not None:
        entries = entries_in(last_manifest)
        role_rows = dict(last_manifest.extra.get(ROLE_ROWS, {}))
    fresh: set[tuple[int, int]] = set()
    for note in cells:
        key = note["stage"], note["cell"]
        before = entries.get(key) if key not in fresh else None
        if key in fresh or note["base"] != (None if before is None else before.file):
            raise CheckpointError(
                f"cell {key[1]} of stage {key[0]} has worked on the state '{note['base']}', "
                f"and the checkpoint holds '{before and before.file}'.\n  The batch is not committed."
            )
        fresh.add(key)
        entries[key] = Entry(*note["entry"])
        role_rows[f"{key[0]}/{key[1]}"] = note["held"]
    return entries, role_rows


# The DataFrame that runs a plan: routing, exchange and cells, stage by stage.


def flow(sources: Sources, plan: CellPlan, columns: Columns, work: Work) -> DataFrame:
    """Return a DataFrame with the notes of the cells for the rows of sources.

    Parameters
    ----------
    work
        Work for every stage; its `stage` and `is_last` belong to the first one.
    """
    cells = plan.chosen.cells
    if has_expressions(sources[0][1].sparkSession):
        there = exchange_rows(route_rows(unite(sources, columns), plan, columns), cells)
    else:
        dispatch = Dispatch(work.routers, None, columns.slots, work.batch, work.query)
        there = exchange_parcels(send_rows(sources, dispatch), cells)
    for stage in plan.stages:
        there = there if stage is plan.stages[0] else exchange_parcels(there, cells)
        there = _run_stage(there, plan, replace(work, stage=stage))
    return there


def flow_of_tables(
    session: SparkSession,
    tables: Mapping[str, pa.Table],
    plan: CellPlan,
    program: Program,
    work: Work,
    tasks_of: dict[int, RDD[int]],
) -> DataFrame | RDD[tuple[str]]:
    """Return `flow` of rows that this process has read.

    It routes them, and each task of the first stage is sent its parcels. So the rows need no tasks that route them, and
    no exchange. A plan of one stage is run as an RDD, as Spark plans a DataFrame for longer than a small tick takes.

    Parameters
    ----------
    tables
        By input, at least one row, with the weights.
    tasks_of
        By number of tasks, an RDD without rows, for all batches of a session: to make one, PySpark calls the JVM about
        ten times.
    """
    parcels: dict[int, list[pa.RecordBatch]] = {}
    for name, table in tables.items():
        relation = plan.sources.index(name)
        ordered = in_order(program, name, [column for column in table.column_names if column != WEIGHT])
        digests = row_digests(relation, table.select([WEIGHT, *ordered]))
        columns = [*(table[column] for column in ordered), table[WEIGHT], digests]
        names = [*(f"c{i}" for i in range(len(ordered))), WEIGHT, DIGEST]
        rows = pa.table(columns, names=names).combine_chunks().to_batches()
        dispatch = Dispatch(work.routers, relation, work.slots, work.batch, work.query)
        for sent in dispatch(rows):
            for key in pc.unique(sent[KEY]).to_pylist():
                parcels.setdefault(key, []).append(sent.filter(pc.equal(sent[KEY], key)))
    delivery = Delivery(replace(work, is_last=len(plan.stages) == 1), list(parcels.values()))
    if len(plan.stages) == 1:
        if len(parcels) not in tasks_of:
            tasks_of[len(parcels)] = session.sparkContext.parallelize([], len(parcels))
        return tasks_of[len(parcels)].mapPartitionsWithIndex(delivery.notes)
    there = _run_stage(session.range(0, len(parcels), 1, len(parcels)), plan, delivery.work, delivery)
    for stage in plan.stages[1:]:
        there = _run_stage(exchange_parcels(there, plan.chosen.cells), plan, replace(work, stage=stage))
    return there


def _run_stage(there: DataFrame, plan: CellPlan, work: Work, delivery: Delivery | None = None) -> DataFrame:
    """Return the notes of the last stage, or the parcels of another one."""
    is_last = work.stage is plan.stages[-1]
    task = replace(work, is_last=is_last) if delivery is None else delivery
    return there.mapInArrow(as_task(task), f"{NOTE} string" if is_last else spark_schema(PARCEL))


@dataclass(frozen=True, eq=False)
class Delivery:
    """The work of tasks whose parcels come with them.

    Task i has those of the i-th cell that has any.
    """

    work: Work
    parcels: Sequence[Sequence[pa.RecordBatch]]

    def __call__(self, tasks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the cells of these tasks; the function of ``mapInArrow``."""
        for batch in tasks:
            for task in batch.column(0).to_pylist():
                yield from self.work(self.parcels[task])

    def notes(self, task: int, rows: Iterable[Any]) -> Iterator[tuple[str]]:
        """Yield the notes of the cells of a task; the function of ``mapPartitionsWithIndex``.

        The plan has one stage.
        """
        return as_task(partial(self._notes, task))(rows)

    def _notes(self, task: int, rows: Iterable[Any]) -> Iterator[tuple[str]]:
        for _ in rows:  # there are none, but a worker that does not read to the end is not used again
            pass
        for batch in self.work(self.parcels[task]):
            yield from zip(batch[NOTE].to_pylist())


def query_of_stream(session: SparkSession) -> str:
    """Return the id of the query whose batch this thread runs; empty outside of batches."""
    return session.sparkContext.getLocalProperty("sql.streaming.queryId") or ""


def work_of(plan: CellPlan, columns: Columns, options: ProgramOptions) -> Work:
    """Return the work of a plan's cells, without a place for its results."""
    cells = plan.chosen.cells if plan.chosen.layout == "replicated" else 0
    return Work(
        plan.stages[0], False, routers_of(plan, columns), columns.slots, columns.heads, plan.bag, options, cells=cells
    )


LOAD = -1
"""The batch id of the tables that are loaded before the first batch of a stream."""

HANDED = "handed"
"""The folder within the checkpoint for files whose rows the driver passes on to a sink."""

Frames = Mapping[str, "DataFrame | Sequence[DataFrame]"]


@dataclass(frozen=True)
class CellOptions:
    """Options of a program on cells.

    Attributes
    ----------
    layout, cells, sizes, heavy
        See `choose`. A checkpoint keeps its first layout; later `layout` and `cells` must be equal to it, or be
        ``"auto"`` and None, and `sizes` and `heavy` have no effect.
    adapts_from
        Rows of a cell in one role from which on heavy values are searched for, if the cell has far more than the
        mean; None for never. It applies to batches of `CellRun.process_batch`.
    program
        Options of the program. The backend is that of the cells' engines: on executors with GPUs, a task uses the GPU
        that Spark assigned to it. Threads are those of one cell, by default the CPUs of its task, and the memory of
        a GPU is that of a process with cells.
    packing
        The columns of the output, if the answers are matches of a motif.
    """

    layout: Layout = "auto"
    cells: int | None = None
    sizes: Mapping[str, float] | None = None
    heavy: Mapping[int, Heavy] | None = None
    adapts_from: int | None = None
    program: ProgramOptions = field(default_factory=ProgramOptions)
    packing: Packing | None = None


@dataclass(eq=False)
class CellRun:
    """A program on cells, open for writing; made by `open`.

    Attributes
    ----------
    adapts_from
        Rows of a cell in one role from which on heavy values are searched for, if the cell has far more than the
        mean; None for never.
    progress
        Progress of the last batch: rows, changes, seconds, bytes of state, the largest and the mean load of a cell.
    """

    _first: CellLayout
    plan: CellPlan
    columns: Columns
    program: Program
    checkpoint: Checkpoint
    _tidying: Tidying
    schemas: Mapping[str, StructType]
    handing: Handing
    options: ProgramOptions
    watch: Watch | None
    adapts_from: int | None = None
    sources: Mapping[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] = field(default_factory=dict)
    _looked: int = 0
    _looked_at: int = -1
    packing: Packing | None = None
    _tasks: dict[int, RDD[int]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        program: str | Rules,
        schemas: Mapping[str, StructType],
        options: CellOptions,
        *,
        checkpoint: str | PathLike[str],
        output: str | PathLike[str] | ToCallable | None = None,
        owner: str | None = None,
        takeover: bool = False,
        sources: Mapping[str, Any] | None = None,
        watch: Watch | None = None,
    ) -> CellRun:
        """Open the checkpoint of a program on cells, new or existing.

        Parameters
        ----------
        program
            Datalog text, or rules.
        schemas
            Per input, the schema of its normalised rows.
        checkpoint
            A folder that the driver and every executor see under the same path.
        output
            Destination of the changes: a folder like it, or a function or writer that gets them; None to count them.
        owner, takeover
            See `Checkpoint.open`.
        sources
            Description of the sources for the manifests, as plain values.

        Raises
        ------
        CheckpointMismatchError, CheckpointDamagedError, CheckpointError
            If the checkpoint belongs to another program, is damaged, or is open elsewhere.
        UnsupportedError, UnsupportedTypeError
            If the program cannot be distributed over cells.
        """
        place = str(folder_path(checkpoint, "checkpoint"))

        def make() -> Program:
            return Program.from_options(program, replace(options.program, backend="cpu", gpu_memory=None))

        fresh_program = make()
        require_spread(fresh_program.rules)
        before = existing_layout(place)
        first = before
        if first is None:
            first = choose(
                fresh_program.rules, options.layout, options.cells or 1, options.sizes, options.heavy
            )  # fmt: skip
        first.check(place, options.layout, options.cells)
        bag = fresh_program.bag
        plan = cell_plan(fresh_program.rules, fresh_program.outputs, bag, first, fresh_program.keep)
        columns = Columns.from_frames(plan, schemas, make())
        layout_settings = {"chosen": first.to_json(), "columns": columns.described()}
        settings = CheckpointOptions(layout=json.dumps(layout_settings, sort_keys=True), takeover=takeover)
        opened = Checkpoint.open(place, program=fresh_program, owner=owner, options=settings)
        try:
            opened.restore(fresh_program)
            newest = opened.last
            if newest is not None and CELLS not in newest.extra:
                raise not_on_cells_error(place)
            if newest is not None and CHOSEN in newest.extra:
                now = CellLayout.from_json(newest.extra[CHOSEN])
                plan = cell_plan(fresh_program.rules, fresh_program.outputs, bag, now, fresh_program.keep)
                columns = Columns.from_frames(plan, schemas, make())
            handing: Handing = NoFiles()
            if isinstance(output, ToCallable):
                answers = {name: packed_head(columns.heads[name], options.packing) for name in plan.outputs}
                handing = HandedOn(Path(place) / HANDED, output, answers)
            elif output is not None:
                handing = Listed(folder_path(output, "output"))
            handing.open(opened.manifests[-1].checkpoint, opened.fence, newest)
            adapts = plan.chosen.layout == "hypercube" and plan.chosen.cells > 1
            return cls(
                first, plan, columns, fresh_program, opened, Tidying(place), schemas, handing, options.program, watch,
                options.adapts_from if adapts else None,
                json.loads(json.dumps(dict(sources or {}))), {},
                0 if newest is None else newest.extra.get(SEARCHED_ROWS, 0), packing=options.packing,
            )  # fmt: skip
        except BaseException:
            opened.close()
            raise

    def explain(self) -> str:
        """Return the plan of the program as text."""
        return str(self.plan)

    @property
    def is_new(self) -> bool:
        """True if no batch is committed yet; `load` comes first then."""
        return self.checkpoint.last is None

    @property
    def state_reader(self) -> StateReader:
        """The state of the cells after the last batch."""
        layout = self.checkpoint.options.layout
        return StateReader(
            self._root, self.checkpoint.manifests[-1], Definition.from_subject(self.program.subject, layout), self.plan
        )

    @property
    def answers(self) -> dict[str, int]:
        """The number of rows of each output after the last batch.

        In bag semantics, the sum of their weights.
        """
        newest = self.checkpoint.last
        return dict.fromkeys(self.plan.outputs, 0) if newest is None else dict(newest.extra["answers"])

    # What Spark runs.

    def rows(self, sources: Frames) -> DataFrame:
        """Return normalised changes, streams or not, as one DataFrame, for `process_batch`."""
        return unite(self._selected(sources, digests=True), self.columns)

    def frame(self, sources: Frames, batch: int | None = None) -> DataFrame:
        """Return a DataFrame of notes that runs the program over normalised changes, for `commit`.

        Parameters
        ----------
        sources
            Per input its changes, streams or not.
        batch
            The id of the batch, if the sources are not streams.
        """
        return flow(self._selected(sources, digests=True), self.plan, self.columns, self._work(batch=batch))

    def load(self, tables: Frames, *, emit: bool = True) -> Manifest:
        """Process tables as the batch before the first one; there may be none.

        Parameters
        ----------
        emit
            Whether the answer over the tables goes to the output.

        Raises
        ------
        UsageError
            If a batch is committed already.
        """
        if not self.is_new:
            raise UsageError.wrong_state(
                "load()", f"tables are loaded before the first batch, and the checkpoint has {self.checkpoint.last}"
            )
        sources = _listed(tables)
        if len(self.plan.sources) > len(self.plan.rules.inputs):
            fresh = Program.from_options(self.program.rules, self.program.options)
            sources |= fact_frames(self.plan, self.columns, fresh)
        if not sources:
            return self._commit(None, LOAD)
        work = self._work(batch=LOAD)
        if not emit:
            work = self._work(batch=LOAD, output="")
        return self._commit(flow(self._selected(sources), self.plan, self.columns, work), LOAD, emit=emit)

    def commit(self, notes: DataFrame, batch: int) -> None:
        """Run a batch of `frame` and commit it atomically; the function of ``foreachBatch``."""
        self._commit(notes, batch, query=query_of_stream(notes.sparkSession))

    def process_batch(self, rows: DataFrame, batch: int, tables: Mapping[str, pa.Table] | None = None) -> None:
        """Run a batch of `rows`, and rebalance first if values have become heavy.

        It is the function of ``foreachBatch``, as `commit` is.

        Parameters
        ----------
        tables
            The rows of the batch by input, if this process has read them; `rows` are then not used. Inputs without
            rows are left out.
        """
        session = rows.sparkSession
        query = query_of_stream(session)
        start = time.perf_counter()
        moved = self._adapted(session, batch)
        adapting = time.perf_counter() - start
        plan, columns = (self.plan, self.columns) if moved is None else (moved.plan, moved.columns)
        archive = new_archive(batch, self.checkpoint.fence)
        bases = self._bases(batch, moved)
        work = self._work(plan, columns, batch=batch, query=query, bases=bases, archive=archive)
        notes: DataFrame | RDD[tuple[str]] | None = None
        if tables is None:
            notes = flow([(None, reselect(rows, columns))], plan, columns, work)
        elif tables:
            notes = flow_of_tables(session, tables, plan, self.program, work, self._tasks)
        self._commit(notes, batch, query=query, moved=moved, archive=archive)
        if moved is not None:
            heavy = enumerate(plan.chosen.heavy)
            self.progress["adapted"] = {
                i: {name: list(values_of[name]) for name in values_of} for i, values_of in heavy if values_of
            }
            seconds = self.progress["seconds"]
            self.progress["seconds"] = {**seconds, "adapt": adapting, "batch": seconds["batch"] + adapting}

    def close(self) -> None:
        """Close the checkpoint, so that another process can open it."""
        self.checkpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How.

    @property
    def _root(self) -> str:
        return self.checkpoint.folder.shown(".").removesuffix("/.")

    def _selected(self, sources: Frames, *, digests: bool = False) -> Sources:
        return select_sources(self.plan, self.columns, _listed(sources), self.program, digests=digests)

    def _work(self, plan: CellPlan | None = None, columns: Columns | None = None, **how: Any) -> Work:
        """Return the work of the cells for a plan, by default the current one."""
        work = work_of(plan or self.plan, columns or self.columns, self.options)
        place = {"root": self._root, "output": self.handing.place, "packing": self.packing}
        return replace(work, **{**place, "watch": self.watch, **how})

    def _bases(self, batch: int, moved: Moved | None) -> Entries | None:
        """Return the states on which a batch runs; None for one that does not follow the last."""
        newest = self.checkpoint.last
        if moved is not None:
            return moved.entries
        return entries_in(newest) if newest is None or batch == newest.batch + 1 else None

    def _adapted(self, session: SparkSession, batch: int) -> Moved | None:
        """Return the state moved to a plan that splits new heavy values; None if there are none."""
        newest = self.checkpoint.last
        if newest is None or batch != newest.batch + 1 or self.adapts_from is None or self._looked_at == newest.number:
            return None
        if not is_due(self.plan, newest, self.adapts_from):
            return None
        chosen = find_balanced_layout(self._root, self.plan, newest, self.columns, session)
        self._looked_at, self._looked = newest.number, count_role_rows(newest)
        if chosen is None:
            return None
        program = self.program
        plan = cell_plan(program.rules, program.outputs, program.bag, chosen, program.keep)
        fresh = Program.from_options(program.rules, program.options)
        columns = Columns.from_frames(plan, self.schemas, fresh)
        tables = gather_inputs(self._root, self.plan, newest, self.columns, session)
        rows = select_sources(plan, columns, {name: [table] for name, table in tables.items()}, program, digests=False)
        work = self._work(plan, columns, batch=batch, output="", bases={})
        return Moved(plan, columns, Notes.collect(flow(rows, plan, columns, work)).cells)

    def _commit(
        self,
        frame: DataFrame | RDD[tuple[str]] | None,
        batch: int,
        *,
        query: str = "",
        emit: bool = True,
        moved: Moved | None = None,
        archive: str = "",
    ) -> Manifest:
        start = time.perf_counter()
        notes = Notes.collect(frame)
        done = time.perf_counter()
        query = "" if batch == LOAD else notes.query or query  # a batch without rows has no task to tell
        if self.checkpoint.has(batch, query=query, rows=notes.rows, digest=notes.digest):
            assert self.checkpoint.last is not None
            self.handing.publish(self.checkpoint.last)
            nothing = Notes(notes.rows, notes.digest, query, ())
            self.progress = batch_progress(self.plan, batch, nothing, self.answers, done - start, 0.0) | {
                "skipped": True
            }
            return self.checkpoint.last
        plan = self.plan if moved is None else moved.plan
        entries, role_rows = entries_after(self.checkpoint.last, notes.cells, moved)
        outputs = [OutputFile(*file) for cell in notes.cells for file in cell["outputs"]]
        outputs.sort(key=lambda file: file.path)
        answers = self.answers
        for name, (_, _, net) in notes.counts(plan.outputs, plan.bag).items():
            answers[name] += net or 0
        newest = self.checkpoint.last
        extra = {
            CELLS: as_json(entries), ROLE_ROWS: role_rows, SEARCHED_ROWS: self._looked,
            "listed": self.handing.is_listed,
            "relations": {
                name: json_schema(as_listed(packed_head(self.columns.heads[name], self.packing)))
                for name in plan.outputs
            },
            "sources": self.sources if newest is None else newest.extra["sources"], "answers": answers,
        }  # fmt: skip
        if plan.chosen != self._first:
            extra[CHOSEN] = plan.chosen.to_json()
        self.handing.hand_on(outputs, batch)
        files = {name: base64.b64decode(data) for cell in notes.cells for name, data in cell["files"].items()}
        if files:
            write_archive(self._root, archive, files)
        manifest = self.checkpoint.commit(
            batch, query=query, rows=notes.rows, digest=notes.digest, outputs=outputs, extra=extra
        )
        if moved is not None:
            self.plan, self.columns = moved.plan, moved.columns
        self.handing.publish(manifest)
        self._tidying(self.checkpoint.manifests)
        reported = (
            notes if emit else Notes(notes.rows, notes.digest, query, [{**cell, "counts": {}} for cell in notes.cells])
        )
        self.progress = batch_progress(plan, batch, reported, answers, done - start, time.perf_counter() - done)
        return manifest


def packed_head(head: pa.Schema, packing: Packing | None) -> pa.Schema:
    """Return the columns of an output for those of its head."""
    return head if packing is None else packing.head(head)


def _listed(frames: Frames) -> dict[str, Sequence[DataFrame]]:
    return {name: frame if isinstance(frame, (list, tuple)) else [frame] for name, frame in frames.items()}  # type: ignore[list-item]

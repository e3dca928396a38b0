"""A program on many executors: its plan, its checkpoint, the DataFrame that runs it, and the commit of its batches."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.pandas.types import to_arrow_schema

from gpu_wcoj.backend import BackendName
from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions, Manifest, OutputFile
from gpu_wcoj.checkpoint.reading import OURS, folder_at, read_all, read_definition
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointError, UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cells.chosen import Chosen, Heavy, Layout, choose
from gpu_wcoj.spark.cells.plan import CellPlan
from gpu_wcoj.spark.cells.routing import exchanged, routed
from gpu_wcoj.spark.cells.rows import NOTE, Columns, united
from gpu_wcoj.spark.cells.state import CELLS, Entry, Tidying, as_json
from gpu_wcoj.spark.cells.step import Watch, Work
from gpu_wcoj.spark.listing import Listing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

LOAD = -1
"""The batch of tables that are loaded before the first batch of a stream."""


@dataclass(eq=False)
class CellRun:
    """A program on cells, open for writing. Use `open`.

    Attributes
    ----------
    progress
        Of the last batch: rows, changes, seconds, bytes of state, the largest and the mean load of a cell.
    """

    plan: CellPlan
    columns: Columns
    program: Program
    checkpoint: Checkpoint
    output: str
    backend: BackendName
    threads: int | None
    watch: Watch | None
    sources: Mapping[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] = field(default_factory=dict)
    _listing: Listing | None = None
    _tidying: Tidying | None = None

    @classmethod
    def open(
        cls,
        program: str,
        schemas: Mapping[str, StructType],
        *,
        checkpoint: str | PathLike[str],
        output: str | PathLike[str] | None = None,
        layout: Layout = "auto",
        cells: int | None = None,
        sizes: Mapping[str, float] | None = None,
        heavy: Mapping[int, Heavy] | None = None,
        bag: bool = False,
        outputs: Sequence[str] | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
        options: CheckpointOptions | None = None,
        sources: Mapping[str, Any] | None = None,
        watch: Watch | None = None,
    ) -> CellRun:
        """Open a checkpoint for a program on cells, new or from where it was left.

        Parameters
        ----------
        program
            Datalog text.
        schemas
            Per input, the columns that `normalise` gives.
        checkpoint, output
            Folders that the driver and every executor see under the same path.
        layout, cells, sizes, heavy
            See `choose`. A checkpoint keeps what was chosen when it was new; later `layout` and `cells` must be that,
            ``"auto"`` or None, and `sizes` and `heavy` are not asked again.
        backend
            Of the cells' engines. On executors with GPUs, a task takes the one that Spark gave it.
        threads
            Of one cell's engine; by default the CPUs of its task.
        sources
            What the manifests are to say of the sources, as plain values.

        Raises
        ------
        CheckpointMismatchError, CheckpointDamagedError, CheckpointError
            If the checkpoint is another program's, damaged, or open elsewhere.
        UnsupportedError, UnsupportedTypeError
            If the program cannot be spread over cells.
        """
        place = str(Path(fspath(checkpoint)).expanduser().absolute())
        known = Program(program, bag=bag, outputs=outputs, backend="cpu")
        found = _chosen_before(place)
        if found is None:
            chosen = choose(known.rules, layout, cells or 1, sizes, heavy)
        else:
            chosen = found
            chosen.check(place, layout, cells)
        plan = CellPlan.of(known.rules, known.outputs, bag, chosen)
        columns = Columns.of(plan, schemas, Program(program, bag=bag, outputs=outputs, backend="cpu"))
        kept = {"chosen": chosen.to_json(), "columns": columns.described()}
        settings = CheckpointOptions(layout=json.dumps(kept, sort_keys=True))
        if options is not None:
            settings = CheckpointOptions(options.most_runs, settings.layout, options.takeover)
        opened = Checkpoint.open(place, program=known, options=settings)
        try:
            opened.restore(known)
            listing = None
            if output is not None:
                listing = Listing(Path(fspath(output)).expanduser().absolute())
                listing.resume(opened.manifests[-1].checkpoint, opened.last)
            folder = "" if listing is None else str(listing.path)
            told = json.loads(json.dumps(dict(sources or {})))
            run = cls(plan, columns, known, opened, folder, backend, threads, watch, told, {}, listing, Tidying(place))
            run._check_listed()
            return run
        except BaseException:
            opened.close()
            raise

    def explain(self) -> str:
        """How the program runs."""
        return str(self.plan)

    @property
    def is_new(self) -> bool:
        """Whether there has been no batch: then `load` comes first."""
        return self.checkpoint.last is None

    def frame(self, sources: Mapping[str, DataFrame], batch: int | None = None) -> DataFrame:
        """What runs the program over normalised changes: a DataFrame of notes, for `commit`.

        Parameters
        ----------
        sources
            Per input its changes, streams or not.
        batch
            The id of the batch, if they are no streams.
        """
        frame = united(self.plan, self.columns, sources, self.program)
        moving = to_arrow_schema(self.columns.moving)
        for stage in self.plan.stages:
            is_last = stage is self.plan.stages[-1]
            work = Work(
                self.checkpoint.folder.shown(".").removesuffix("/."), self.output, stage, None if is_last else moving,
                self.columns.heads, self.plan.bag,
                self.plan.chosen.cells if self.plan.chosen.layout == "replicated" else 0,
                self.backend, self.threads, batch, self.watch,
            )  # fmt: skip
            there = exchanged(routed(frame, self.plan, self.columns, stage.number), self.plan.chosen.cells)
            frame = there.mapInArrow(_named(work), f"{NOTE} string" if is_last else self.columns.moving)
        return frame

    def load(self, tables: Mapping[str, DataFrame]) -> Manifest:
        """Take in tables as the batch before the first; there may be none.

        Raises
        ------
        UsageError
            If there has been a batch.
        """
        if not self.is_new:
            raise UsageError(f"tables are loaded before the first batch, and batch {self.checkpoint.last} is there.")
        return self._commit(self.frame(tables, LOAD) if tables else None, LOAD)

    def commit(self, notes: DataFrame, batch: int) -> None:
        """The function of ``foreachBatch``: run the batch, and publish it at once, or nothing of it."""
        self._commit(notes, batch)

    def _commit(self, notes: DataFrame | None, batch: int) -> Manifest:
        start = time.perf_counter()
        collected = [] if notes is None else [json.loads(row[0]) for row in notes.collect()]
        done = time.perf_counter()
        told = [one for one in collected if "entry" not in one]
        cells = [one for one in collected if "entry" in one]
        query = _same([one["query"] for one in told], "") if batch != LOAD else ""
        if not query and notes is not None and batch != LOAD:  # a batch without rows has no task to tell
            query = notes.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        rows = sum(one["rows"] for one in told)
        digest = f"{sum(one['digest'] for one in told) % (1 << 64):016x}"
        if self.checkpoint.has(batch, query=query, rows=rows, digest=digest):
            assert self.checkpoint.last is not None
            self._publish(self.checkpoint.last)
            self.progress = self._told(batch, rows, (), done - start, 0.0) | {"skipped": True}
            return self.checkpoint.last
        entries = self._entries(cells)
        outputs = [OutputFile(*one) for cell in cells for one in cell["outputs"]]
        outputs.sort(key=lambda one: one.path)
        extra = {
            CELLS: as_json(entries), "listed": self._listing is not None, "relations": self._relations(),
            "sources": self.sources, "answers": self._answers(cells),
        }  # fmt: skip
        manifest = self.checkpoint.commit(batch, query=query, rows=rows, digest=digest, outputs=outputs, extra=extra)
        self._publish(manifest)
        if self._tidying is not None:
            self._tidying(self.checkpoint.manifests)
        self.progress = self._told(batch, rows, cells, done - start, time.perf_counter() - done)
        return manifest

    def close(self) -> None:
        """Let others open the checkpoint."""
        self.checkpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entries(self, cells: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], Entry]:
        """The entries of all cells after a batch: of those that had rows the new ones."""
        last = self.checkpoint.last
        known = {} if last is None else last.extra.get(CELLS, {})
        entries: dict[tuple[int, int], Entry] = {}
        for name, one in known.items():
            stage, cell = map(int, name.split("/"))
            entries[stage, cell] = Entry(*one)
        fresh: set[tuple[int, int]] = set()
        for one in cells:
            at = one["stage"], one["cell"]
            before = entries.get(at) if at not in fresh else None
            if at in fresh or one["base"] != (None if before is None else before.file):
                raise CheckpointError(
                    f"cell {at[1]} of stage {at[0]} has worked on the state '{one['base']}', "
                    f"and the checkpoint holds '{before and before.file}'.\n  The batch is not committed."
                )
            fresh.add(at)
            entries[at] = Entry(*one["entry"])
        return entries

    def _relations(self) -> dict[str, Any]:
        """The columns of the outputs' files."""
        from gpu_wcoj.spark.files import json_schema
        from gpu_wcoj.spark.output import with_batch

        found = {}
        for name in self.plan.outputs:
            found[name] = json_schema(with_batch(_shown(self.columns.heads[name]), 0))
        return found

    @property
    def answers(self) -> dict[str, int]:
        """How many rows each output has after the last batch; in bag semantics the sum of their weights."""
        last = self.checkpoint.last
        return dict.fromkeys(self.plan.outputs, 0) if last is None else dict(last.extra["answers"])

    def _answers(self, cells: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        answers = self.answers
        for one in cells:
            for name, (_, _, net) in one["counts"].items():
                answers[name] += net
        return answers

    def _publish(self, manifest: Manifest) -> None:
        if self._listing is not None:
            self._listing.publish(manifest)

    def _check_listed(self) -> None:
        last = self.checkpoint.last
        if last is not None and CELLS not in last.extra:
            raise CheckpointError(
                f"the checkpoint '{self.checkpoint.folder.shown('.')}' is of a program in one place, not on cells.\n"
                "  Use layout='one', or begin a new checkpoint."
            )

    def _told(
        self, batch: int, rows: int, cells: Sequence[Mapping[str, Any]], running: float, committing: float
    ) -> dict[str, Any]:
        changes: dict[str, list[int]] = {name: [0, 0, 0] for name in self.plan.outputs}
        for one in cells:
            for name, counts in one["counts"].items():
                changes[name] = [a + b for a, b in zip(changes[name], counts, strict=True)]
        loads = {}
        for stage in self.plan.stages:
            own = [one["rows"] for one in cells if one["stage"] == stage.number]
            mean = sum(own) / self.plan.chosen.cells
            loads[stage.number] = {"largest": max(own, default=0), "mean": mean}
        return {
            "batch": batch,
            "rows": rows,
            "skipped": False,
            "hint": "",
            "answers": self.answers,
            "changes": {
                name: {"inserted": came, "deleted": went, "net": net} for name, (came, went, net) in changes.items()
            },
            "seconds": {
                "batch": running + committing,
                "cells": running,
                "commit": committing,
                **{part: max((one["seconds"][part] for one in cells), default=0.0) for part in _PARTS},
            },
            "state_bytes": sum(one["bytes"] for one in cells),
            "load": loads,
            "skew": max((one["largest"] / one["mean"] for one in loads.values() if one["mean"]), default=1.0),
        }


_PARTS = ("load", "tick", "output", "state")


def _named(work: Work) -> Any:
    def cell_step(batches: Any) -> Any:
        return work(batches)

    return cell_step


def _shown(schema: Any) -> Any:
    import pyarrow as pa

    return schema.append(pa.field("weight", pa.int64())).empty_table()


def _same(found: Sequence[str], default: str) -> str:
    if len(set(found)) > 1:
        raise CheckpointError(f"one batch came from the queries {sorted(set(found))}.")
    return found[0] if found else default


def _chosen_before(place: str) -> Chosen | None:
    """What was chosen when a checkpoint was new; None if there is none."""
    folder = WatchedFolder(folder_at(place))
    names = folder.names()
    if not any(OURS.fullmatch(name) or name.startswith("manifest-") for name in names):
        return None
    manifests = read_all(folder, names)
    if not manifests:
        return None
    layout = read_definition(folder, manifests[-1]).parts.get("layout")
    try:
        return Chosen.from_json(json.loads(str(layout))["chosen"])
    except (ValueError, KeyError, TypeError):
        if layout == "one":
            raise CheckpointError(
                f"the checkpoint '{place}' is of a program in one place, not on cells.\n"
                "  Use layout='one', or begin a new checkpoint."
            ) from None
        raise CheckpointDamagedError(place, "has a layout that cannot be read") from None

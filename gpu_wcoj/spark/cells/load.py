"""Progress from the notes of cells: changes, seconds, and the balance of the load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_wcoj.errors import CheckpointError
from gpu_wcoj.spark.cluster.plan import CellPlan
from gpu_wcoj.spark.cluster.worker import add_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    def collect(cls, frame: DataFrame | None) -> Notes:
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

"""What cells report of a batch, as progress: the changes, the seconds, and how the load was spread."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_wcoj.errors import CheckpointError
from gpu_wcoj.spark.cells.plan import CellPlan
from gpu_wcoj.spark.cells.step import add_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTS = ("load", "tick", "output", "state")


@dataclass(frozen=True)
class Notes:
    """The notes of one batch.

    Attributes
    ----------
    rows, digest, query
        Of the batch: how many, a checksum, and the query that it belongs to.
    cells
        What each cell that had rows reports, stage by stage.
    """

    rows: int
    digest: str
    query: str
    cells: Sequence[Mapping[str, Any]]

    @classmethod
    def collect(cls, frame: DataFrame | None) -> Notes:
        """Run a batch; of none, no notes."""
        notes = [] if frame is None else [json.loads(row[0]) for row in frame.collect()]
        batch_notes = [note for note in notes if "cell" not in note]
        queries = {note["query"] for note in batch_notes}
        if len(queries) > 1:
            raise CheckpointError(f"one batch came from the queries {sorted(queries)}.")
        digest = sum(note["digest"] for note in batch_notes) % (1 << 64)
        cells = [note for note in notes if "cell" in note]
        return cls(sum(note["rows"] for note in batch_notes), f"{digest:016x}", next(iter(queries), ""), cells)

    def counts(self, outputs: Sequence[str], bag: bool) -> dict[str, list[int | None]]:
        """By output, how many rows came, went, and are added."""
        changes: dict[str, list[int | None]] = {name: [None, None, 0] if bag else [0, 0, 0] for name in outputs}
        for cell in self.cells:
            for name, counts in cell["counts"].items():
                changes[name] = add_counts(changes[name], counts)
        return changes


def load_of(plan: CellPlan, notes: Notes) -> dict[str, Any]:
    """How even the cells' load was: by stage, the rows of the fullest cell and the mean; the worst ratio of the two."""
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
    """The progress of a batch that is committed."""
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

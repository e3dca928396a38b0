"""Reading the state of cells without Spark: relations, and the program of the state."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_wcoj.checkpoint.checkpoint import OURS, folder_at, read_again, read_all, read_definition, restored
from gpu_wcoj.checkpoint.folder import WatchedFolder
from gpu_wcoj.checkpoint.manifest import Manifest
from gpu_wcoj.checkpoint.state import Definition, load
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointError, UnsupportedError, listed
from gpu_wcoj.program import Program
from gpu_wcoj.spark.cluster.images import Images
from gpu_wcoj.spark.cluster.layout import CellLayout
from gpu_wcoj.spark.cluster.plan import CellPlan, Stage, cell_plan
from gpu_wcoj.spark.cluster.state import Entry, cells_folder, read_entry, spines_of
from gpu_wcoj.spark.cluster.worker import stage_program
from gpu_wcoj.spark.sources import ORDER
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    import pyarrow as pa

CHOSEN = "chosen"
"""The key in a manifest for the layout of its state, present if it differs from the first layout."""


@dataclass(frozen=True, eq=False)
class StateReader:
    """The state of all cells after one batch.

    Attributes
    ----------
    root
        The checkpoint's folder.
    """

    root: str
    manifest: Manifest
    definition: Definition
    plan: CellPlan

    @classmethod
    def from_manifest(cls, root: str, manifest: Manifest, definition: Definition) -> StateReader:
        """Return the state that a manifest of a checkpoint on cells describes."""
        rules = definition.rules(())
        options = definition.complete_options(ProgramOptions(), rules)
        chosen = layout_in(root, definition, manifest)
        plan = cell_plan(rules, options.outputs or (), options.bag, chosen, options.keep)
        return cls(root, manifest, definition, plan)

    def rows(self, name: str) -> list[ZSet]:
        """Return the rows of a relation in cells, each once; in set semantics with weight 1."""
        parts = []
        for route in self.plan.state_routes[name]:
            stage = self.plan.stages[route.stage]
            for cell in filter(route.is_first, range(route.cells)):
                entry = Entry.from_manifest(self.manifest, route.stage, cell)
                if entry is not None:
                    rows = cell_program(self.root, entry, stage, cell, self.plan.bag).relation(f"in{route.role}")
                    parts.append(rows if self.plan.bag else as_set(rows))
        return parts

    def table(self, name: str) -> pa.Table | None:
        """Return the rows and weights of a relation in cells, or None if there are no rows.

        The columns have the names of the relation's source.
        """
        import pyarrow as pa

        tables = [rows.to_arrow() for rows in self.rows(name) if len(rows)]
        if not tables:
            return None
        table = pa.concat_tables(tables)
        names = self._names(name)
        return table if names is None else table.rename_columns([*names, "weight"])

    def program(self, options: ProgramOptions) -> Program:
        """Return a program with the rows of all inputs; stored options override these."""
        rules = self.definition.rules(())
        program = Program.from_options(rules, self.definition.complete_options(options, rules))
        missing = [name for name in program.inputs if name not in self.plan.state_routes]
        if missing:
            raise UnsupportedError.unsupported(
                f"restoring a program from the checkpoint '{self.root}'",
                f"its cells keep rows that the outputs depend on, and none of {listed(missing)}",
                "Read the answers with read_output.",
            )
        tables = {name: self.table(name) for name in program.inputs}
        program.load(
            {name: ZSet.from_arrow(rows, weight="weight") for name, rows in tables.items() if rows is not None}
        )
        return program

    def _names(self, name: str) -> list[str] | None:
        """Return the column names of an input's source.

        None if they are unknown, or if a declaration of the program gives them.
        """
        described = self.manifest.extra.get("sources", {}).get(name)
        if name not in self.plan.rules.inputs or not described:
            return None
        if any(declaration.relation == name for declaration in self.plan.rules.declarations):
            return None
        first = described[0] if isinstance(described, list) else described
        names = [column.rpartition(" ")[0] for column in first["columns"]]
        data_names = [column for column in names if column != "weight" and not column.startswith(ORDER)]
        return data_names if len(data_names) == len(set(data_names)) else None


def restore_program(path: str | os.PathLike[str], options: ProgramOptions) -> Program:
    """Return the program of a checkpoint, of one engine or on cells, after the last batch."""
    if not is_on_cells(path):
        return restored(path, Program.from_options, options)
    return read_again(path, lambda folder, manifest, known: reader_in(folder, manifest, known).program(options))


def is_on_cells(path: str | os.PathLike[str]) -> bool:
    """Return whether a checkpoint is one on cells."""
    return read_again(path, lambda _folder, _manifest, definition: bool(definition.parts["layout"] != "one"))


def reader_in(folder: WatchedFolder, manifest: Manifest, definition: Definition) -> StateReader:
    """Return the state of cells from the arguments that `read_again` passes."""
    return StateReader.from_manifest(folder.shown(".").removesuffix("/."), manifest, definition)


def reader_at(path: str | os.PathLike[str]) -> StateReader:
    """Return the state of the cells after the last batch."""
    return read_again(path, reader_in)


def layout_in(root: str, definition: Definition, manifest: Manifest | None = None) -> CellLayout:
    """Return the layout of the state in a manifest, by default the first layout.

    Raises
    ------
    CheckpointDamagedError
        If it cannot be read.
    """
    try:
        first = json.loads(str(definition.parts["layout"]))["chosen"]
        return CellLayout.from_json(first if manifest is None else manifest.extra.get(CHOSEN, first))
    except (ValueError, KeyError, TypeError):
        raise CheckpointDamagedError(root, "has a layout that cannot be read") from None


def existing_layout(place: str) -> CellLayout | None:
    """Return the first layout of an existing checkpoint; None if there is none."""
    folder = WatchedFolder(folder_at(place))
    names = folder.names()
    if not any(OURS.fullmatch(name) or name.startswith("manifest-") for name in names):
        return None
    manifests = read_all(folder, names)
    if not manifests:
        return None
    definition = read_definition(folder, manifests[-1])
    if definition.parts.get("layout") == "one":
        raise not_on_cells_error(place)
    return layout_in(place, definition)


def not_on_cells_error(place: str) -> CheckpointError:
    """Return the error for a checkpoint that is not on cells."""
    return CheckpointError(
        f"the checkpoint '{place}' belongs to a program with one engine: expected a program on cells.\n"
        "  Use layout='one', or begin a new checkpoint."
    )


def cell_program(root: str, entry: Entry, stage: Stage, cell: int, bag: bool) -> Program:
    """Return the program of a cell in the state of an entry, for reading only."""
    folder = cells_folder(root)
    program = stage_program(stage, bag, ProgramOptions(backend="cpu", threads=1))
    spines = spines_of(Images.of_cell(root, stage.index, cell), entry)
    load(program.subject, read_entry(folder, entry), folder, entry.file, spines)
    return program


def as_set(rows: ZSet) -> ZSet:
    """Return the same rows, each with weight 1."""
    import numpy as np

    return ZSet.from_columns(rows.names, rows.columns, np.ones(len(rows), np.int64))

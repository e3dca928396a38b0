"""The entries of the cells' states in the manifest after a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_wcoj.checkpoint import Manifest
from gpu_wcoj.errors import CheckpointError
from gpu_wcoj.spark.cells.state import CELLS, Entry
from gpu_wcoj.spark.cluster.rebalance import ROLE_ROWS, Moved


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
        for name, entry in last_manifest.extra[CELLS].items():
            stage, cell = map(int, name.split("/"))
            entries[stage, cell] = Entry(*entry)
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

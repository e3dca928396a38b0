"""Where the cells' state is after a batch, as its manifest is to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_wcoj.checkpoint import Manifest
from gpu_wcoj.errors import CheckpointError
from gpu_wcoj.spark.cells.moving import HELD, Moved
from gpu_wcoj.spark.cells.state import CELLS, Entry


def entries_after(
    last: Manifest | None, cells: Sequence[Mapping[str, Any]], moved: Moved | None
) -> tuple[dict[tuple[int, int], Entry], dict[str, Any]]:
    """The entries of all cells after a batch, of those that had rows the new ones; and what they hold.

    Parameters
    ----------
    last
        The manifest before it.
    cells
        The notes of those that had rows.
    moved
        The state that they have worked on, if that is in a new plan.

    Raises
    ------
    CheckpointError
        If one has worked on another state.
    """
    entries: dict[tuple[int, int], Entry] = {}
    held: dict[str, Any] = {}
    if moved is not None:
        entries, held = moved.entries, {f"{one['stage']}/{one['cell']}": one["held"] for one in moved.cells}
    elif last is not None:
        for name, one in last.extra[CELLS].items():
            stage, cell = map(int, name.split("/"))
            entries[stage, cell] = Entry(*one)
        held = dict(last.extra.get(HELD, {}))
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
        held[f"{at[0]}/{at[1]}"] = one["held"]
    return entries, held

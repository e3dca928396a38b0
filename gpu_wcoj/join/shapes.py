"""The part of a prepared step that is cached between ticks: it depends on batch counts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_wcoj.join.plan import AtomUse, Step
from gpu_wcoj.join.prefixes import Layout


@dataclass(frozen=True, eq=False)
class ExtensionShape:
    """The cached part of a step prepared for prefixes of one layout.

    Attributes
    ----------
    slots
        Per atom of the step, the index of its first batch, whether the step binds its last variable, and whether
        prefixes share its ranges; per batch, its row of positions before and after the step, -1 for none.
    layout
        The layout after the step.
    n_new_rows
        Number of rows of positions that the step writes.
    kept_rows
        Rows of positions that are copied.
    """

    slots: tuple[list[int], list[bool], list[bool], list[int], list[int]]
    layout: Layout
    n_new_rows: int
    kept_rows: tuple[int, ...]


Shapes = dict[tuple[Layout, str, str, tuple[int, ...]], ExtensionShape]
"""By layout, step name, newest variable and batch counts."""


def shape_of(
    layout: Layout, step: Step, newest: str, uses: Mapping[int, AtomUse], n_batches: Mapping[int, int]
) -> ExtensionShape:
    """Return the shape of a step; atoms without variable `newest` share ranges between prefixes."""
    depth = dict(layout)
    first_row: dict[int, int] = {}
    n_rows = 0
    for atom, _ in layout:
        first_row[atom] = n_rows
        n_rows += n_batches[atom]
    rows: list[int] = []
    out_rows: list[int] = []
    first, ends_atom, shared = [0], [], []
    new_layout: list[tuple[int, int]] = []
    n_new_rows = 0
    for atom in step.atoms:
        use, bound = uses[atom], depth.get(atom, 0)
        ends = bound + 1 == len(use.variables)
        rows.extend(first_row[atom] + batch if bound else -1 for batch in range(n_batches[atom]))
        out_rows.extend(-1 if ends else n_new_rows + batch for batch in range(n_batches[atom]))
        first.append(len(rows))
        ends_atom.append(ends)
        shared.append(newest not in use.variables[:bound])
        if not ends:
            new_layout.append((atom, bound + 1))
            n_new_rows += n_batches[atom]
    kept_rows: list[int] = []
    for atom, bound in layout:
        if atom not in step.atoms:
            new_layout.append((atom, bound))
            kept_rows.extend(range(first_row[atom], first_row[atom] + n_batches[atom]))
    return ExtensionShape((first, ends_atom, shared, rows, out_rows), tuple(new_layout), n_new_rows, tuple(kept_rows))

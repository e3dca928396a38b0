"""Prefixes that look alike to the steps that are left: those are counted once for all of them.

A prefix is seen through where it stands in the atoms that the steps extend, and through the values that their
conditions and checks speak of. A variable that none of that depends on is hidden from then on: prefixes that differ in
hidden variables only look alike. With sums in the place of rows this is variable elimination (Abo Khamis, Ngo, Rudra,
"FAQ: Questions Asked Frequently", 2016, doi:10.1145/2902251.2902280).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.path import Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import IndexArray, Int64Array

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin

SORT_FROM = 4096
"""Fewer prefixes than this are not sorted to bring together those that look alike."""

FEWER = 2
"""Prefixes are sorted where so many times as many of them stand at no more places than that."""


def seen_by(steps: Sequence[Step], prefixes: Prefixes, join: GenericJoin) -> set[str]:
    """The variables that steps speak of, and those that their atoms have bound before."""
    depth = dict(prefixes.layout)
    seen = set[str]()
    for step in steps:
        seen |= step.spoken
        for atom in step.atoms:
            seen.update(join.uses[atom].variables[: depth.get(atom, 0)])
    return seen


def hidden(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[bool, bool]:
    """Whether the steps cannot tell the variable bound last, and whether any of those bound."""
    if len(prefixes.order) == 0:
        return False, False
    seen = seen_by(steps, prefixes, join)
    return prefixes.order[-1] not in seen, not seen.issuperset(prefixes.order)


def look_of(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[list[Int64Array], int | None]:
    """What the steps see of each prefix, a column each, and at how many places one can stand; None if values count."""
    atoms = {atom for step in steps for atom in step.atoms}
    columns: list[Int64Array] = []
    places = 1
    at = 0
    for atom, depth in prefixes.layout:
        batches = join.batches[atom]
        if atom in atoms:
            columns.extend(prefixes.positions[row] for row in range(at, at + len(batches)))
            places *= 1 + sum(len(batch.values[depth - 1]) for batch in batches)
        at += len(batches)
    asked = frozenset[str]().union(
        *(step.spoken for step in steps), *({step.variable} for step in steps if step.is_lookup)
    )
    values = [prefixes.values[name] for name in prefixes.values if name in asked]
    return [*columns, *values], None if values else places


def alike(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[Prefixes, IndexArray | None]:
    """One prefix for all that look alike to `steps`, and for each given one which of these is its; None for its own.

    Where the variable bound last is hidden those stand together. Others are sorted, if the steps have work to do and
    there are many more prefixes than places at which they can stand.
    """
    n, backend = len(prefixes), join.backend
    newest, any_one = hidden(prefixes, steps, join) if n > 1 else (False, False)
    if not any_one:
        return prefixes, None
    group: IndexArray | None = None
    if newest:
        look, _ = look_of(prefixes, steps, join)
        if not look:
            return prefixes.take(backend.xp.zeros(1, np.int64), backend.xp), backend.xp.zeros(n, np.int64)
        starts = backend.kernels.run_starts(look)
        if len(starts) < n:
            prefixes, group = prefixes.take(starts, backend.xp), runs(starts, n, backend)
    if len(prefixes) < SORT_FROM or (len(steps) == 1 and len(steps[0].atoms) == 1 and not steps[0].checks):
        return prefixes, group
    look, places = look_of(prefixes, steps, join)
    if places is None or len(prefixes) < FEWER * places:
        return prefixes, group
    order = backend.kernels.lexsort(look)
    starts = backend.kernels.run_starts([column[order] for column in look])
    own = backend.xp.empty(len(prefixes), np.int64)
    own[order] = runs(starts, len(prefixes), backend)
    return prefixes.take(order[starts], backend.xp), own if group is None else own[group]


def runs(starts: IndexArray, n: int, backend: Backend) -> IndexArray:
    """For each of `n` rows the number of its run."""
    if backend.device is None:
        return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))
    run: IndexArray = backend.xp.searchsorted(starts, backend.xp.arange(n), side="right") - 1
    return run

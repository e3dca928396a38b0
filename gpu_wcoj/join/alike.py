"""Prefixes that are equal for the remaining steps are grouped, and counted once a group.

The remaining steps depend on a prefix through its positions in the atoms that they extend, and through the values that
their conditions and checks read. Variables that no remaining step depends on are eliminated: prefixes that differ only
in eliminated variables form one group. With sums in place of rows this is variable elimination (Abo Khamis, Ngo, Rudra,
"FAQ: Questions Asked Frequently", 2016, doi:10.1145/2902251.2902280).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.plan import Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import IndexArray, Int64Array

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin

SORT_FROM = 4096
"""Prefixes from which on they are sorted in order to group them."""

MIN_REDUCTION = 2
"""Least ratio of prefixes to distinct combinations of positions at which they are sorted."""


def live_variables(steps: Sequence[Step], prefixes: Prefixes, join: GenericJoin) -> set[str]:
    """Return the variables that steps read, and those that their atoms have bound before."""
    depth = dict(prefixes.layout)
    seen = set[str]()
    for step in steps:
        seen |= step.read_variables
        for atom in step.atoms:
            seen.update(join.uses[atom].variables[: depth.get(atom, 0)])
    return seen


def has_eliminated_variables(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[bool, bool]:
    """Return whether the steps eliminate the variable bound last, and any bound variable."""
    if len(prefixes.order) == 0:
        return False, False
    seen = live_variables(steps, prefixes, join)
    return prefixes.order[-1] not in seen, not seen.issuperset(prefixes.order)


def group_key(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[list[Int64Array], int | None]:
    """Return the columns by which steps tell prefixes apart, and a bound of their distinct rows.

    The bound is None if values are among the columns.
    """
    atoms = {atom for step in steps for atom in step.atoms}
    columns: list[Int64Array] = []
    places = 1
    offset = 0
    for atom, depth in prefixes.layout:
        batches = join.batches[atom]
        if atom in atoms:
            columns.extend(prefixes.positions[row] for row in range(offset, offset + len(batches)))
            places *= 1 + sum(len(batch.values[depth - 1]) for batch in batches)
        offset += len(batches)
    read = frozenset[str]().union(
        *(step.read_variables for step in steps), *({step.variable} for step in steps if step.is_lookup)
    )
    values = [prefixes.values[name] for name in prefixes.values if name in read]
    return [*columns, *values], None if values else places


def group_prefixes(prefixes: Prefixes, steps: Sequence[Step], join: GenericJoin) -> tuple[Prefixes, IndexArray | None]:
    """Group prefixes equal for `steps`; return one prefix a group and each prefix's group.

    The second result is None if every prefix is a group. If the variable bound last is eliminated, groups are runs of
    prefixes. Otherwise prefixes are sorted, if the steps are expensive and there are many more prefixes than
    distinct combinations of positions.
    """
    n, backend = len(prefixes), join.backend
    newest, any_one = has_eliminated_variables(prefixes, steps, join) if n > 1 else (False, False)
    if not any_one:
        return prefixes, None
    group: IndexArray | None = None
    if newest:
        look, _ = group_key(prefixes, steps, join)
        if not look:
            return prefixes.gather(backend.xp.zeros(1, np.int64), backend.xp), backend.xp.zeros(n, np.int64)
        starts = backend.kernels.run_starts(look)
        if len(starts) < n:
            prefixes, group = prefixes.gather(starts, backend.xp), run_indices(starts, n, backend)
    if len(prefixes) < SORT_FROM or (len(steps) == 1 and len(steps[0].atoms) == 1 and not steps[0].checks):
        return prefixes, group
    look, places = group_key(prefixes, steps, join)
    if places is None or len(prefixes) < MIN_REDUCTION * places:
        return prefixes, group
    order = backend.kernels.lexsort(look)
    starts = backend.kernels.run_starts([column[order] for column in look])
    indices = backend.xp.empty(len(prefixes), np.int64)
    indices[order] = run_indices(starts, len(prefixes), backend)
    return prefixes.gather(order[starts], backend.xp), indices if group is None else indices[group]


def run_indices(starts: IndexArray, n: int, backend: Backend) -> IndexArray:
    """Return the index of the run that holds each of `n` rows."""
    if backend.device is None:
        return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))
    run: IndexArray = backend.xp.searchsorted(starts, backend.xp.arange(n), side="right") - 1
    return run

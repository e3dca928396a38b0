"""Branches of a path: steps run once a group of prefixes that are equal for them.

A branch depends on a prefix through its positions in the atoms that the branch extends, and through the values that
its steps read. One prefix a group is extended, piece by piece, and each resulting row is then joined back with every
prefix of its group. Independent branches are all extended before any of their rows are combined: a prefix without
rows in one of them is dropped first. A tick therefore costs what its branches and its result contain, and not the
intermediate product; this is a bushy plan, as opposed to a left-deep one.

The rows of a branch are kept in memory if they fit a piece. The first branch with more rows is joined back piece by
piece; further large branches are run again for each piece of the others. Memory is bounded by one piece a step and
branch. If prefixes are few or all different, a single branch runs step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.generic import GenericJoin, group_rows, live_variables, time_pieces
from gpu_wcoj.join.plan import DeltaPath, Step, branch_name, split_independent
from gpu_wcoj.join.prefixes import Layout, Prefixes, concatenate, run_within_memory
from gpu_wcoj.kernels.protocol import N_WORK, SURVIVORS, IndexArray, Int64Array
from gpu_wcoj.zset.arrays import numbers, positions

MAX_DISTINCT_FRACTION = 0.75
"""Fraction of distinct prefixes up to which a single branch is joined back."""

MIN_PREFIXES = 8
"""Prefixes below which a single branch runs step by step."""

Part = tuple[Step, ...]
Stage = Step | tuple[Part, ...]
"""A step, or the steps of independent branches."""


def split_stages(path: DeltaPath, depth: int) -> tuple[Stage, ...]:
    """Split the first `depth` steps of a path into steps and tuples of independent branches.

    Of a branch that extends beyond `depth`, only the first steps are included.

    Examples
    --------
    >>> from gpu_wcoj.join.plan import Branch
    >>> steps = tuple(Step(name, (at,)) for at, name in enumerate("abcde"))
    >>> path = DeltaPath((), (), (), steps, branches=(Branch(1, 3), Branch(3, 4)))
    >>> def shown(stage):
    ...     return stage.name if isinstance(stage, Step) else ["".join(step.name for step in part) for part in stage]
    >>> [shown(stage) for stage in split_stages(path, 5)], [shown(stage) for stage in split_stages(path, 2)]
    (['a', ['bc', 'd'], 'e'], ['a', ['b']])
    """
    stages: list[Stage] = []
    end_of_last = 0
    for branch in path.branches:
        begin, end = min(branch.begin, depth), min(branch.end, depth)
        stages += path.steps[end_of_last:begin]
        part = path.steps[begin:end]
        before = stages[-1] if stages else None
        if part and begin == end_of_last and isinstance(before, tuple) and _are_independent(before, part):
            stages[-1] = (*before, part)
        elif part:
            stages.append((part,))
        end_of_last = end
    return (*stages, *path.steps[end_of_last:depth])


def _are_independent(parts: Sequence[Part], other_part: Part) -> bool:
    """Return whether steps share no atom, condition or check with the steps of other branches."""
    before = tuple(step for part in parts for step in part)
    variables = set(other_part)
    return all(
        variables.issuperset(part) or variables.isdisjoint(part) for part in split_independent((*before, *other_part))
    )


def bind_branched(join: GenericJoin, prefixes: Prefixes, path: DeltaPath, depth: int) -> Iterator[Prefixes]:
    """Bind the first steps of a path, piece by piece, with its branches joined back."""
    if not path.branches:
        return join.pieces(prefixes, path.steps[:depth])
    stages = split_stages(path, depth)
    groups = [
        _group_column(branch_index)
        for stage in stages
        if not isinstance(stage, Step)
        for branch_index in range(len(stage))
    ]
    return _bind_stages(replace(join, needed=join.needed.union(groups)), prefixes, stages)


def _group_column(branch_index: int) -> str:
    """Return the column name, unlike any variable, of each prefix's group for a branch."""
    return f"branch #{branch_index}"


def _bind_stages(join: GenericJoin, prefixes: Prefixes, stages: Sequence[Stage]) -> Iterator[Prefixes]:
    if len(prefixes) == 0:
        return
    if not stages:
        yield prefixes
        return
    stage = stages[0]
    bound = join.pieces(prefixes, (stage,)) if isinstance(stage, Step) else _join_branches(join, prefixes, stage)
    for piece in bound:
        yield from _bind_stages(join, piece, stages[1:])


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a branch.

    Attributes
    ----------
    index, steps
        Index and steps of the branch.
    rows
        The rows, those of one group together; a column holds the group.
    first
        Per group the position of its first row, and the number of rows at the end.
    new
        The variables that they bind.
    """

    index: int
    steps: Part
    rows: Prefixes
    first: Int64Array
    new: tuple[str, ...]

    def sizes(self, prefixes: Prefixes) -> Int64Array:
        """Return the number of rows that each prefix joins with."""
        group = prefixes.values[_group_column(self.index)]
        return self.first[group + 1] - self.first[group]


@dataclass(eq=False)
class _Branch:
    """A branch that is being extended.

    Attributes
    ----------
    n_groups
        Number of groups of prefixes.
    pieces
        Its rows in pieces, with the group of each row; rows of one group are together, over all pieces.
    """

    index: int
    steps: Part
    n_groups: int
    n_seen: int
    pieces: Iterator[Prefixes]

    def first_rows(self, join: GenericJoin) -> tuple[list[Prefixes], bool]:
        """Return rows up to the size of a piece, and whether these are all."""
        pieces: list[Prefixes] = []
        n_rows = 0
        for piece in self.pieces:
            if len(piece):
                pieces.append(piece)
                n_rows += len(piece)
            if n_rows > join.chunk_rows:
                return pieces, False
        return pieces, True

    def rows(self, pieces: Sequence[Prefixes], backend: Backend) -> _Rows:
        """Concatenate pieces of the branch's rows."""
        rows = concatenate(pieces, backend.xp)
        first = backend.xp.searchsorted(rows.values[_group_column(self.index)], backend.xp.arange(self.n_groups + 1))
        return _Rows(self.index, self.steps, rows, first, rows.order[1 + self.n_seen :])


def _join_branches(join: GenericJoin, prefixes: Prefixes, parts: Sequence[Part]) -> Iterator[Prefixes]:
    """Yield the prefixes with the rows of independent branches."""
    backend = join.backend
    small: list[_Rows] = []
    late: list[Part] = []
    flowing: tuple[_Branch, list[Prefixes]] | None = None
    is_alone = len(parts) == 1
    for branch_index, steps in enumerate(parts):
        is_small = is_alone and len(prefixes) < MIN_PREFIXES
        opened = None if is_small else _open_branch(join, prefixes, branch_index, steps, is_alone)
        if opened is None:
            yield from join.pieces(prefixes, steps)
            return
        branch, group = opened
        pieces, is_all = branch.first_rows(join)
        if is_all and not pieces:
            return
        if is_all:
            prefixes = _add_group(prefixes, branch_index, group)
            small.append(branch.rows(pieces, backend))
            (positions_left,) = positions(backend, small[-1].sizes(prefixes) > 0)
            prefixes = prefixes if len(positions_left) == len(prefixes) else prefixes.gather(positions_left, backend.xp)
        elif flowing is None:
            prefixes = _add_group(prefixes, branch_index, group)
            flowing = branch, pieces
        else:
            late.append(steps)
    pieces_begun = iter((prefixes,)) if flowing is None else _stream_branch(join, prefixes, *flowing)
    for piece in pieces_begun:
        for extended in _join_all_rows(join, piece, small):
            if late:
                yield from _join_branches(join, extended, late)
            else:
                yield extended


def _open_branch(
    join: GenericJoin, prefixes: Prefixes, branch_index: int, steps: Part, unless_distinct: bool
) -> tuple[_Branch, Int64Array] | None:
    """Start a branch with one prefix a group; return it with the group of each prefix.

    The result is None if `unless_distinct` and most prefixes are distinct for the branch. Of each prefix, its positions
    in the atoms of the branch, the values that the branch reads, and the group's index are kept.
    """
    backend, n = join.backend, len(prefixes)
    xp = backend.xp
    rows, layout = _select_positions(join, prefixes, steps, inside=True)
    read = frozenset[str]().union(*(step.read_variables for step in steps))
    values = {name: column for name, column in prefixes.values.items() if name in read}

    def grouped(_: int) -> tuple[IndexArray, Int64Array]:
        look = [*(prefixes.positions[row] for row in rows), *values.values()]
        return group_rows(look, backend) if look else (xp.zeros(1, np.int64), xp.zeros(n, np.int64))

    chosen, group = _run_within_memory(backend, grouped, "bringing together what looks alike to a branch")
    n_groups = len(chosen)
    if unless_distinct and n_groups > n * MAX_DISTINCT_FRACTION:
        return None
    seen = live_variables(steps, prefixes, join)
    order = tuple(name for name in prefixes.order if name in seen)
    columns = {name: column[chosen] for name, column in values.items()}
    columns[_group_column(branch_index)] = xp.arange(n_groups, dtype=np.int64)
    stand = _stack([prefixes.positions[row][chosen] for row in rows], n_groups, xp)
    bare = Prefixes((_group_column(branch_index), *order), columns, None, layout, stand)
    return _Branch(branch_index, steps, n_groups, len(order), join.pieces(bare, steps)), group


def _stream_branch(
    join: GenericJoin, prefixes: Prefixes, branch: _Branch, first_pieces: list[Prefixes]
) -> Iterator[Prefixes]:
    """Yield the prefixes with the rows of a branch, one piece of the branch at a time."""
    backend = join.backend
    group = prefixes.values[_group_column(branch.index)]
    order = backend.kernels.lexsort([group])
    of_group = backend.xp.searchsorted(group[order], backend.xp.arange(branch.n_groups + 1))
    for piece in chain(first_pieces, branch.pieces):
        if len(piece) == 0:
            continue
        rows = branch.rows([piece], backend)
        groups = piece.values[_group_column(branch.index)]
        begin, end = numbers(backend, of_group[groups[0]], of_group[groups[-1] + 1])
        if begin < end:
            joined = prefixes if end - begin == len(prefixes) else prefixes.gather(_sort(order[begin:end]), backend.xp)
            yield from _join_rows(join, joined, rows)


def _join_all_rows(join: GenericJoin, prefixes: Prefixes, branches: Sequence[_Rows]) -> Iterator[Prefixes]:
    if not branches:
        yield prefixes
        return
    for piece in _join_rows(join, prefixes, branches[0]):
        yield from _join_all_rows(join, piece, branches[1:])


def _join_rows(join: GenericJoin, prefixes: Prefixes, branch: _Rows) -> Iterator[Prefixes]:
    """Yield each prefix with each row of its group: prefixes in their order, rows in theirs."""
    name = branch_name(branch.steps)
    work = join.work.setdefault(name, join.backend.xp.zeros(N_WORK, np.int64))
    pieces = _cross_rows(join, prefixes, branch)
    if join.meter is not None:
        pieces = time_pieces(pieces, join.meter.gauge(name), len(prefixes), join.backend)
    for piece in pieces:
        work[SURVIVORS] += len(piece)
        yield piece


def _cross_rows(join: GenericJoin, prefixes: Prefixes, branch: _Rows) -> Iterator[Prefixes]:
    backend = join.backend
    ends = backend.kernels.exclusive_sum(branch.sizes(prefixes))
    (total,) = numbers(backend, ends[-1])
    begin = 0
    while begin < total:

        def piece(rows: int, begin: int = begin) -> Prefixes:
            parent, row = _pairs(prefixes, branch, ends, begin, min(begin + rows, total), backend)
            return _compose(join, prefixes, parent, branch, row)

        piece_found = _run_within_memory(backend, piece, "joining a branch back", join.chunk_rows)
        begin += len(piece_found)
        yield piece_found


def _pairs(
    prefixes: Prefixes, branch: _Rows, ends: Int64Array, begin: int, end: int, backend: Backend
) -> tuple[Int64Array, Int64Array]:
    """Return the pairs `begin` to `end` of prefixes and their rows, as positions of both."""
    xp = backend.xp
    pair = xp.arange(begin, end, dtype=np.int64)
    if backend.device is None:
        first, end_parent = np.searchsorted(ends, begin, "right") - 1, np.searchsorted(ends, end, "left")
        sizes = np.minimum(ends[first + 1 : end_parent + 1], end) - np.maximum(ends[first:end_parent], begin)
        parent = np.repeat(np.arange(first, end_parent), sizes)
    else:
        parent = xp.searchsorted(ends, pair, side="right") - 1
    group = prefixes.values[_group_column(branch.index)]
    return parent, pair + (branch.first[group] - ends[:-1])[parent]


def _compose(
    join: GenericJoin, prefixes: Prefixes, parent: Int64Array, branch: _Rows, branch_row: Int64Array
) -> Prefixes:
    """Combine prefixes and rows of a branch at these positions of both."""
    xp = join.backend.xp
    rows = branch.rows
    group_name = _group_column(branch.index)
    values = {name: column[parent] for name, column in prefixes.values.items() if name != group_name}
    values.update(
        {name: column[branch_row] for name, column in rows.values.items() if name != group_name and name not in values}
    )
    weights = None if prefixes.weights is None else prefixes.weights[parent]
    if rows.weights is not None:
        weights = rows.weights[branch_row] if weights is None else weights * rows.weights[branch_row]
    outside, layout = _select_positions(join, prefixes, branch.steps, inside=False)
    stand = [positions[branch_row] for positions in rows.positions] + [
        prefixes.positions[row][parent] for row in outside
    ]
    matrix = _stack(stand, len(parent), xp)
    return Prefixes((*prefixes.order, *branch.new), values, weights, (*rows.layout, *layout), matrix)


def _select_positions(join: GenericJoin, prefixes: Prefixes, steps: Part, inside: bool) -> tuple[list[int], Layout]:
    """Return the position rows and depths of the atoms that steps extend, or of all others."""
    extended = {atom for step in steps for atom in step.atoms}
    rows: list[int] = []
    layout: list[tuple[int, int]] = []
    offset = 0
    for atom, depth in prefixes.layout:
        n_batches = len(join.batches[atom])
        if (atom in extended) == inside:
            layout.append((atom, depth))
            rows.extend(range(offset, offset + n_batches))
        offset += n_batches
    return rows, tuple(layout)


def _stack(rows: Sequence[Int64Array], n: int, xp: Any) -> Int64Array:
    matrix: Int64Array = xp.stack(rows) if rows else xp.zeros((0, n), np.int64)
    return matrix


def _add_group(prefixes: Prefixes, branch_index: int, group: Int64Array) -> Prefixes:
    """Add each prefix's group to its values."""
    return replace(prefixes, values={**prefixes.values, _group_column(branch_index): group})


def _sort(rows: IndexArray) -> IndexArray:
    rows = rows.copy()
    rows.sort()
    return rows


def _run_within_memory(backend: Backend, run: Any, doing: str, rows: int = 0) -> Any:
    """Return ``run(rows)``, with fewer rows if a device runs out of memory."""
    return run(rows) if backend.device is None else run_within_memory(backend, rows, run, doing)

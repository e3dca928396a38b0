"""Heads that keep the first rows of another relation in an order, of each group.

A head keeps a window: the first rows of each group with their whole weights, and some more rows in reserve. A change of
rows before the end of the window changes the window, and a change of rows behind it does not, so that a tick costs what
the changed groups' windows hold. Only if deletions use up the reserve is a group read again from its source.

This is the top-k view maintenance of Yi, Yu, Yang, Xia and Chen, "Efficient maintenance of materialized top-k views",
ICDE 2003, over rows with weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.aggregate import Batches, changed_rows, group_weights, refuse_negative_weights, rows_of_groups
from gpu_wcoj.circuit.operator import ChangeCount, GroupsOperator, PieceSink
from gpu_wcoj.join.prefixes import weights_of_rows
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.zset.arrays import BoolArray, joined_columns, positions, stacked

RESERVE = 64
"""Least rows that a window is filled with beyond its limit; it is twice as much when it is cut."""


@dataclass(frozen=True)
class SortedLevel:
    """A level of an arrangement by which rows are sorted.

    Attributes
    ----------
    family
        ``string`` or ``binary`` if the order is that of the texts, else empty: codes are ordered as their values are.
    """

    level: int
    is_descending: bool = False
    family: str = ""


@dataclass(frozen=True)
class FirstRowsPlan:
    """The rows that a head keeps.

    Attributes
    ----------
    source
        The arrangement of the rows; the columns of a group come first.
    n_group
        Number of levels of a group.
    head
        The head's stored column of each level.
    order
        The levels by which rows are sorted, all but those of a group.
    limit, offset
        Rows that are kept, and skipped before them.
    """

    source: ArrangementKey
    n_group: int
    head: tuple[int, ...]
    order: tuple[SortedLevel, ...]
    limit: int
    offset: int

    @property
    def end(self) -> int:
        """Rows of a group up to the last one that is kept."""
        return self.limit + self.offset

    @cached_property
    def reserve(self) -> int:
        """Rows in reserve."""
        return max(RESERVE, self.end // 4)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows sorted by group and within a group; weights are at least 0."""

    owner: Int64Array
    columns: Sequence[Int64Array]
    weights: Int64Array

    def selected(self, rows: Int64Array | BoolArray) -> _Rows:
        return _Rows(self.owner[rows], [column[rows] for column in self.columns], self.weights[rows])


@dataclass(eq=False)
class FirstRowsHead(GroupsOperator):
    """A head that keeps the first rows of another relation.

    Attributes
    ----------
    relation
        Its rows.
    derivations
        The windows, with the weights of the source.
    source
        The arrangement `plan.source`.
    """

    name: str
    width: int
    plan: FirstRowsPlan
    source: Arrangement
    derivations: RelationIndex = field()  # pyright: ignore[reportIncompatibleVariableOverride]
    relation: RelationIndex = field()
    execution: Execution

    def evaluate(
        self,
        collect: bool,  # noqa: ARG002  # the rows are state
        sink: PieceSink | None = None,  # noqa: ARG002
    ) -> tuple[ChangeCount, list[PhaseRows]]:
        """Compute this tick's change from the pending change of the source.

        O(k log k + log n) for a change of c rows, k = c + rows of the changed groups' windows. O(m log m) for a group
        of m rows whose window has lost its reserve.

        Raises
        ------
        NegativeWeightError
            If a changed row of the source has a negative weight after the tick.
        """
        plan, backend = self.plan, self._backend
        xp, kernels = backend.xp, backend.kernels
        nothing: Int64Array = xp.empty(0, np.int64)
        change = changed_rows(self.source, backend)
        if change is None:
            return self._emit(self._no_rows(), nothing)
        columns, delta = change
        state = self.source.after(len(self.execution.phases) - 1)
        starts = kernels.run_starts(columns[: plan.n_group]) if plan.n_group else xp.zeros(1, np.int64)
        groups, n = [column[starts] for column in columns[: plan.n_group]], len(starts)
        lengths = xp.diff(xp.concatenate([starts, xp.full(1, len(delta), np.int64)]))
        changed = xp.repeat(xp.arange(n), lengths)
        before = self._below(self.derivations.accumulated(), groups)
        # The candidates: rows of the windows, and changed rows.
        owner = xp.concatenate([before.owner, changed])
        both = joined_columns([before.columns, columns], xp)
        marks = xp.concatenate([xp.ones(len(before.owner), np.int64), xp.full(len(changed), 2, np.int64)])
        (owner, *both), marks = kernels.consolidate([owner, *both], marks)
        weights = weights_of_rows(state, range(len(both)), stacked(backend, both), backend)
        refuse_negative_weights("the first rows", self.name, self.source.key, both, weights, backend)
        order = self._order(owner, both)
        candidates, marks = _Rows(owner, both, weights).selected(order), marks[order]
        # What is behind the last row of a window is not known, unless the window held the whole group.
        total = group_weights(state, groups, n, backend)
        was_total = total - _group_sums(changed, delta, n, backend)
        is_whole = was_total == _group_sums(before.owner, before.weights, n, backend)
        last: Int64Array = xp.full(n, -1, np.int64)
        (old,) = positions(backend, (marks & 1) == 1)
        (ends,) = positions(backend, _run_ends(candidates.owner[old], backend))
        last[candidates.owner[old][ends]] = old[ends]
        is_known = is_whole[candidates.owner] | (xp.arange(len(marks)) <= last[candidates.owner])
        (rows,) = positions(backend, is_known & (candidates.weights > 0))
        known = candidates.selected(rows)
        capped = xp.minimum(known.weights, plan.end)
        is_short = _group_sums(known.owner, capped, n, backend) < xp.minimum(total, plan.end)
        after = self._cut(known, 2 * plan.reserve)
        (short,) = positions(backend, is_short)
        if len(short):
            (rows,) = positions(backend, ~is_short[after.owner])
            again = self._below(state, [column[short] for column in groups])
            again = self._cut(again, plan.reserve)
            kept = after.selected(rows)
            owner, *columns, weights = joined_columns(
                [(kept.owner, *kept.columns, kept.weights), (short[again.owner], *again.columns, again.weights)], xp
            )
            after = _Rows(owner, columns, weights).selected(self._order(owner, columns))
        self.derivations.receive_delta([PhaseRows(*self._difference(before, after))])
        return self._emit(*self._difference(self._clip(before), self._clip(after)))

    def _below(self, batches: Batches, groups: Sequence[Int64Array]) -> _Rows:
        """Return the sorted rows of groups."""
        owner, columns, weights = rows_of_groups(batches, groups, len(self.plan.head), self._backend)
        return _Rows(owner, columns, weights).selected(self._order(owner, columns))

    def _order(self, owner: Int64Array, columns: Sequence[Int64Array]) -> Int64Array:
        """Return the order of rows by group, then by the keys."""
        keys = [owner]
        for key in self.plan.order:
            codes = columns[key.level]
            if key.family:
                codes = self.execution.ranks(key.family)[codes]
            keys.append(~codes if key.is_descending else codes)
        order: Int64Array = self._backend.kernels.lexsort(keys)
        return order

    def _cut(self, rows: _Rows, reserve: int) -> _Rows:
        """Return the rows up to the end of the window and a reserve."""
        most = self.plan.end + reserve
        (chosen,) = positions(self._backend, self._weights_before(rows, most) < most)
        return rows.selected(chosen)

    def _weights_before(self, rows: _Rows, max_weight: int) -> Int64Array:
        """Return the weight that precedes each row in its group; weights count up to `max_weight`."""
        xp, kernels = self._backend.xp, self._backend.kernels
        if not len(rows.owner):
            return rows.owner
        sums = kernels.exclusive_sum(xp.minimum(rows.weights, max_weight))[:-1]
        starts = kernels.run_starts([rows.owner])
        lengths = xp.diff(xp.concatenate([starts, xp.full(1, len(rows.owner), np.int64)]))
        passed: Int64Array = sums - xp.repeat(sums[starts], lengths)
        return passed

    def _clip(self, rows: _Rows) -> _Rows:
        """Return the rows that the head has, with the weights that they have there."""
        xp, plan = self._backend.xp, self.plan
        if not len(rows.owner):
            return rows
        begin = self._weights_before(rows, plan.end)
        end = begin + xp.minimum(rows.weights, plan.end)
        weights = xp.minimum(end, plan.end) - xp.maximum(begin, plan.offset)
        (chosen,) = positions(self._backend, weights > 0)
        return _Rows(rows.owner[chosen], [column[chosen] for column in rows.columns], weights[chosen])

    def _difference(self, before: _Rows, after: _Rows) -> tuple[Sequence[Int64Array], Int64Array]:
        """Return the changed rows, in the head's columns, and their weights."""
        parts = [(*before.columns, -before.weights), (*after.columns, after.weights)]
        *columns, weights = joined_columns(parts, self._backend.xp)
        placed = dict(zip(self.plan.head, columns, strict=True))
        return self._backend.kernels.consolidate([placed[column] for column in range(self.width)], weights)


def _run_ends(owner: Int64Array, backend: Backend) -> BoolArray:
    """Return a mask of the last row of each run of equal values."""
    xp = backend.xp
    ends: BoolArray = xp.concatenate([owner[1:] != owner[:-1], xp.ones(min(len(owner), 1), np.bool_)])
    return ends


def _group_sums(owner: Int64Array, amounts: Int64Array, n: int, backend: Backend) -> Int64Array:
    """Return the sum of the amounts of each group; rows are sorted by group."""
    xp, kernels = backend.xp, backend.kernels
    sums: Int64Array = xp.zeros(n, np.int64)
    if len(owner):
        starts = kernels.run_starts([owner])
        passed = kernels.exclusive_sum(amounts)
        ends = xp.concatenate([starts[1:], xp.full(1, len(owner), np.int64)])
        sums[owner[starts]] = passed[ends] - passed[starts]
    return sums

"""Heads that aggregate another relation by its first columns: count, sum, mean, min and max.

A tick reads the groups of the changed rows only. The present row of a group is looked up in the head; counts and sums
follow from it and the change, so their cost does not depend on the size of a group. When the minimum or maximum of a
group is deleted, the next value is searched for in an arrangement of the source.

Rows have weight 1 in sets. In bags, count and sum use the weights, while mean, min and max use each row of positive
weight once; no changed row of a source may have a negative weight after the tick. Rows whose value is null do not
count, and groups without rows are not in the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.extremes import are_present, extreme_values, rows_below
from gpu_wcoj.circuit.groups import GroupChange, GroupingPlan, group_change
from gpu_wcoj.circuit.head import ChangeCount, PieceSink
from gpu_wcoj.circuit.totals import Totals, counts_after
from gpu_wcoj.errors import NegativeWeightError
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.weights import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, PhaseRows
from gpu_wcoj.zset.arrays import BoolArray, numbers, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet


@dataclass(eq=False)
class GroupingHead:
    """A head that aggregates another relation.

    Attributes
    ----------
    relation
        Its rows, one per group.
    derivations
        For sums and means, their words: rows of the head with the index of a word instead of the result, and the word
        as weight; the words of a mean use each row of positive weight once.
    source
        The arrangement `plan.source`, or another arrangement of the same rows if their order does not matter.
    """

    name: str
    width: int
    plan: GroupingPlan
    source: Arrangement
    derivations: RelationIndex | None
    relation: RelationIndex
    execution: Execution
    joins: Sequence[IncrementalGenericJoin] = field(default=())
    weight_bound: int = 0
    pending_bound: int = 0

    def begin(self) -> None:
        """Discard the data of the previous tick."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Name of the aggregated relation."""
        return (self.source.key.relation,)

    @property
    def state(self) -> tuple[RelationIndex, ...]:
        """Indices that the head keeps between ticks."""
        return (self.relation,) if self.derivations is None else (self.derivations, self.relation)

    @property
    def _backend(self) -> Backend:
        return self.execution.backend

    def evaluate(
        self,
        collect: bool,  # noqa: ARG002  # the rows are state
        sink: PieceSink | None = None,  # noqa: ARG002
    ) -> tuple[ChangeCount, list[PhaseRows]]:
        """Compute this tick's change from the pending change of the source.

        Raises
        ------
        NegativeWeightError
            If a changed row of the source has a negative weight after the tick.
        AggregateOverflowError
            If a count or a sum of integers leaves int64.
        """
        change = self._change()
        if change is None:
            return self._emit(self._no_rows(), self._no_rows())
        had, before = self._results_before(change)
        if self.plan.is_extreme:
            has, after = self._extremes(change, had, before)
        elif self.plan.op == "count":
            after = counts_after(before, self.name, change, self.plan, self.execution)
            has = after != 0
        else:
            has, after = self._totals(change)
        differ = before != after
        gone, come = positions(self._backend, had & (differ | ~has), has & (differ | ~had))
        return self._emit(self._rows(change, before, gone), self._rows(change, after, come))

    def _emit(self, gone: list[Int64Array], come: list[Int64Array]) -> tuple[ChangeCount, list[PhaseRows]]:
        """Pass the change to the head's arrangements and return it."""
        xp, kernels = self._backend.xp, self._backend.kernels
        n_gone, n_come = len(gone[0]), len(come[0])
        if self.execution.weighted:
            columns = [xp.concatenate(both) for both in zip(gone, come, strict=True)]
            weights = xp.concatenate([xp.full(n_gone, -1, np.int64), xp.ones(n_come, np.int64)])
            phases = [PhaseRows(*kernels.consolidate(columns, weights))]
            count = ChangeCount(None, None, n_come - n_gone)
        else:
            phases = [PhaseRows(kernels.distinct_rows(gone), -1), PhaseRows(kernels.distinct_rows(come), 1)]
            count = ChangeCount(n_come, n_gone, n_come - n_gone)
        self.relation.receive_delta(phases)
        return count, phases

    def _no_rows(self) -> list[Int64Array]:
        return [self._backend.xp.empty(0, np.int64)] * self.width

    def _rows(self, change: GroupChange, results: Int64Array, chosen: Int64Array) -> list[Int64Array]:
        """Return rows of the head: the chosen groups with their results."""
        columns = self._no_rows()
        for column, values in zip(self.plan.head, change.columns, strict=True):
            columns[column] = values[chosen]
        columns[self.plan.result] = results[chosen]
        return columns

    def _change(self) -> GroupChange | None:
        """Return the pending change of the source, both phases together; None if it is empty."""
        batches = [batch for batch in self.source.pending if batch.n_rows]
        if not batches:
            return None
        counted = None
        if self.execution.weighted:
            (batch,) = batches
            after = self._weights_after(batch)
            if self.plan.counts_once:
                before = after - batch.weight_column()
                counted = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
        return group_change(self.plan, self.source.key.order, batches, self._backend, counted)

    def _weights_after(self, batch: IndexedZSet) -> Int64Array:
        """Return the weights of the changed rows after the tick; raise if one is negative."""
        backend = self._backend
        columns = batch.columns()
        after = self.source.after(0)
        weights = weights_of_rows(after, range(batch.depth), stacked(backend, columns), backend)
        (negative,) = positions(backend, weights < 0)
        if len(negative):
            key = self.source.key
            codes = dict(
                zip(key.order, numbers(backend, *(column[negative[:1]][0] for column in columns)), strict=True)
            )
            codes |= dict(key.constants)
            for left, right in (*key.equal, *(pair[::-1] for pair in key.equal)):
                if left in codes:
                    codes.setdefault(right, codes[left])
            row = tuple(codes[column] for column in sorted(codes))
            (weight,) = numbers(backend, weights[negative[:1]][0])
            raise NegativeWeightError(self.plan.op, row, weight, self.name, key.relation)
        return weights

    def _results_before(self, change: GroupChange) -> tuple[BoolArray, Int64Array]:
        """Return a mask of the groups that the head has a row for, and their results."""
        xp = self._backend.xp
        had: BoolArray = xp.zeros(change.n, np.bool_)
        before: Int64Array = xp.zeros(change.n, np.int64)
        owner, below, _ = rows_below(self.relation.accumulated(), change.columns, self._backend)
        if len(owner):
            had[owner] = True
            before[owner] = below[0]
        return had, before

    def _totals(self, change: GroupChange) -> tuple[BoolArray, Int64Array]:
        """Return a mask of groups with rows and their sums or means.

        Pass the changed words to the state.
        """
        assert self.derivations is not None
        totals = Totals(self.name, self.derivations.accumulated(), change, self.plan, self.execution)
        counts, results, (group, word, amount) = totals.after()
        columns = self._no_rows()
        for column, values in zip(self.plan.head, change.columns, strict=True):
            columns[column] = values[group]
        columns[self.plan.result] = word
        self.derivations.receive_delta([PhaseRows(*self._backend.kernels.consolidate(columns, amount))])
        return counts != 0, results

    def _extremes(self, change: GroupChange, had: BoolArray, before: Int64Array) -> tuple[BoolArray, Int64Array]:
        """Return a mask of groups with rows and their extremes.

        Search only where the old extreme was deleted.
        """
        assert change.values is not None
        backend, plan = self._backend, self.plan
        xp, kernels = backend.xp, backend.kernels
        greatest = plan.op == "max"
        rank = self.execution.ranks(plan.family) if plan.family in ("string", "binary") else None
        state = self.source.after(len(self.execution.phases) - 1)
        owner, value = kernels.distinct_rows([change.owner, change.values])
        (old_rows,) = positions(backend, had)
        owner, value = xp.concatenate([owner, old_rows]), xp.concatenate([value, before[old_rows]])
        is_present = are_present(state, [*(column[owner] for column in change.columns), value], backend)
        gone: BoolArray = xp.zeros(change.n, np.bool_)
        gone[old_rows] = ~is_present[len(is_present) - len(old_rows) :]
        (rows,) = positions(backend, is_present)
        owner, value = owner[rows], value[rows]
        order = kernels.lexsort([owner, value if rank is None else rank[value]])
        owner, value = owner[order], value[order]
        has: BoolArray = xp.zeros(change.n, np.bool_)
        best: Int64Array = xp.zeros(change.n, np.int64)
        if len(owner):
            ends, edge = owner[1:] != owner[:-1], xp.ones(1, np.bool_)
            (chosen,) = positions(backend, xp.concatenate([ends, edge] if greatest else [edge, ends]))
            has[owner[chosen]] = True
            best[owner[chosen]] = value[chosen]
        (searched,) = positions(backend, gone)
        if len(searched):
            groups = [column[searched] for column in change.columns]
            has[searched], best[searched] = extreme_values(state, groups, len(searched), greatest, backend, rank)
        return has, best

"""Heads that aggregate another relation by its first columns: count, sum, mean, min and max.

A tick looks at the groups of the rows that change, and at nothing else of them. The row that a group has is found in
the head; counts and sums follow from it and the change, so their cost does not depend on the size of a group. A least
or greatest value that goes is followed by the next one, which is searched for in an arrangement of the source.

Rows weigh what they weigh: 1 in sets; in bags weights count for count and sum, while mean, min and max see each row of
positive weight once, and no row of a source that changes may have a negative weight after the tick. Rows whose value is
null do not count, and groups without rows do not stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.extremes import are_held, extreme_values, rows_below
from gpu_wcoj.circuit.groups import GroupChange, GroupingPlan, group_change
from gpu_wcoj.circuit.head import ChangeCount, PieceSink
from gpu_wcoj.circuit.totals import Totals, counts_after
from gpu_wcoj.errors import NegativeWeightError
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.join.weights import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, PhaseRows
from gpu_wcoj.zset.arrays import BoolArray, numbers, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet


@dataclass(eq=False)
class GroupingHead:
    """One aggregating head.

    Attributes
    ----------
    relation
        Its rows, one a group.
    derivations
        For sums and means what they are made of: rows of the head with a word's number in the place of the result,
        and the word as weight; the words of a mean are of its rows of positive weight, each once.
    source
        The arrangement `plan.source`, or another one of the same rows if they need not be in order.
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
        """Forget the tick before."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The relation that it groups."""
        return (self.source.key.relation,)

    @property
    def state(self) -> tuple[RelationIndex, ...]:
        """What the head keeps between ticks."""
        return (self.relation,) if self.derivations is None else (self.derivations, self.relation)

    @property
    def _backend(self) -> Backend:
        return self.execution.backend

    def evaluate(
        self,
        collect: bool,  # noqa: ARG002  # the rows are state
        sink: PieceSink | None = None,  # noqa: ARG002
    ) -> tuple[ChangeCount, list[PhaseRows]]:
        """This tick's change, from the pending change of the source.

        Raises
        ------
        NegativeWeightError
            If a changed row of the source has a negative weight after the tick.
        AggregateOverflowError
            If a count or a sum of integers leaves int64.
        """
        change = self._change()
        if change is None:
            return self._changed(self._no_rows(), self._no_rows())
        had, before = self._present(change)
        if self.plan.is_extreme:
            has, after = self._extremes(change, had, before)
        elif self.plan.op == "count":
            after = counts_after(before, self.name, change, self.plan, self.execution)
            has = after != 0
        else:
            has, after = self._totals(change)
        differ = before != after
        gone, come = positions(self._backend, had & (differ | ~has), has & (differ | ~had))
        return self._changed(self._rows(change, before, gone), self._rows(change, after, come))

    def _changed(self, gone: list[Int64Array], come: list[Int64Array]) -> tuple[ChangeCount, list[PhaseRows]]:
        """Tell the head's arrangements, and say what has changed."""
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
        """Rows of the head."""
        columns = self._no_rows()
        for column, own in zip(self.plan.head, change.columns, strict=True):
            columns[column] = own[chosen]
        columns[self.plan.result] = results[chosen]
        return columns

    def _change(self) -> GroupChange | None:
        """The pending change of the source, both phases together; None if there is none."""
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
        """The weights after the tick of the rows that change; raises if one is negative."""
        backend = self._backend
        columns = batch.columns()
        after = self.source.after(0)
        weights = weights_of_rows(after, range(batch.depth), stacked(backend, columns), backend)
        (negative,) = positions(backend, weights < 0)
        if len(negative):
            key = self.source.key
            codes = dict(zip(key.order, numbers(backend, *(one[negative[:1]][0] for one in columns)), strict=True))
            codes |= dict(key.constants)
            for left, right in (*key.equal, *(pair[::-1] for pair in key.equal)):
                if left in codes:
                    codes.setdefault(right, codes[left])
            shown = tuple(codes[column] for column in sorted(codes))
            (weight,) = numbers(backend, weights[negative[:1]][0])
            raise NegativeWeightError(self.plan.op, shown, weight, self.name, key.relation)
        return weights

    def _present(self, change: GroupChange) -> tuple[BoolArray, Int64Array]:
        """Which groups the head has a row for, and the results in these."""
        xp = self._backend.xp
        had: BoolArray = xp.zeros(change.n, np.bool_)
        before: Int64Array = xp.zeros(change.n, np.int64)
        owner, rest, _ = rows_below(self.relation.accumulated(), change.columns, self._backend)
        if len(owner):
            had[owner] = True
            before[owner] = rest[0]
        return had, before

    def _totals(self, change: GroupChange) -> tuple[BoolArray, Int64Array]:
        """Sums or means; what they are made of is told to the state."""
        assert self.derivations is not None
        totals = Totals(self.name, self.derivations.accumulated(), change, self.plan, self.execution)
        counts, results, (group, word, amount) = totals.after()
        columns = self._no_rows()
        for column, own in zip(self.plan.head, change.columns, strict=True):
            columns[column] = own[group]
        columns[self.plan.result] = word
        self.derivations.receive_delta([PhaseRows(*self._backend.kernels.consolidate(columns, amount))])
        return counts != 0, results

    def _extremes(self, change: GroupChange, had: BoolArray, before: Int64Array) -> tuple[BoolArray, Int64Array]:
        """The best of what was and what came; searched for only where what was is gone."""
        assert change.values is not None
        backend, plan = self._backend, self.plan
        xp, kernels = backend.xp, backend.kernels
        greatest = plan.op == "max"
        rank = self.execution.ranks(plan.family) if plan.family in ("string", "binary") else None
        state = self.source.after(len(self.execution.phases) - 1)
        owner, value = kernels.distinct_rows([change.owner, change.values])
        (kept,) = positions(backend, had)
        owner, value = xp.concatenate([owner, kept]), xp.concatenate([value, before[kept]])
        held = are_held(state, [*(column[owner] for column in change.columns), value], backend)
        gone: BoolArray = xp.zeros(change.n, np.bool_)
        gone[kept] = ~held[len(held) - len(kept) :]
        (rows,) = positions(backend, held)
        owner, value = owner[rows], value[rows]
        order = kernels.lexsort([owner, value if rank is None else rank[value]])
        owner, value = owner[order], value[order]
        has: BoolArray = xp.zeros(change.n, np.bool_)
        best: Int64Array = xp.zeros(change.n, np.int64)
        if len(owner):
            ends, edge = owner[1:] != owner[:-1], xp.ones(1, np.bool_)
            (at,) = positions(backend, xp.concatenate([ends, edge] if greatest else [edge, ends]))
            has[owner[at]] = True
            best[owner[at]] = value[at]
        (asked,) = positions(backend, gone)
        if len(asked):
            groups = [column[asked] for column in change.columns]
            has[asked], best[asked] = extreme_values(state, groups, len(asked), greatest, backend, rank)
        return has, best

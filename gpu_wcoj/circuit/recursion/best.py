"""History of a relation of a loop that keeps the best value of each group.

The history of a group is the sequence of its best values, each with the iteration at which it became the best. A worse
value stays inside the loop: rules are monotone in the value, so the rows that a worse value derives are never better
than those of a better value. So inside the loop the relation only grows, as a set does, and joins read its history; the
outside reads the last value.

In a tick, a group follows its previous history until something changes it: a better value arrives, or the value that it
had at an iteration has lost derivations there. From then on it is *apart*: the rules recompute all derivations that the
group had from this iteration on, these wait at their iterations beside those of this tick, and the group is evaluated
at each iteration at which something waits or the previous history has a value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.circuit.extremes import extreme_values, rows_below
from gpu_wcoj.circuit.recursion.asking import DerivationQuery
from gpu_wcoj.circuit.recursion.history import SetHistory, Signed, group_by_iteration
from gpu_wcoj.circuit.recursion.plan import Best
from gpu_wcoj.circuit.recursion.relation import RankedIndex
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import BoolArray, positions
from gpu_wcoj.zset.index import IndexedZSet

Values = tuple[BoolArray, Int64Array, Int64Array]
"""Per group: whether it has a value, the value, and the value's sort key."""


class ValueOrder:
    """Order of values: a better value has a smaller key."""

    def __init__(self, best: Best, execution: Execution) -> None:
        self.best = best
        self.backend = execution.backend
        self.execution = execution

    @property
    def rank(self) -> Int64Array | None:
        """Sort position per code of texts, else None.

        Read anew each time, as rules may create texts.
        """
        return self.execution.ranks(self.best.family) if self.best.family else None

    def keys(self, values: Int64Array) -> Int64Array:
        """Return a sort key per value; better values have smaller keys."""
        rank = self.rank
        keys = values if rank is None else rank[values]
        return ~keys if self.best.greatest else keys

    def best_values(
        self, batches: Sequence[IndexedZSet], groups: Sequence[Int64Array], n: int
    ) -> tuple[BoolArray, Int64Array]:
        """Return a mask of the `n` groups that have a value, and their best values."""
        return extreme_values(batches, groups, n, self.best.greatest, self.backend, self.rank)

    def best_per_owner(self, owner: Int64Array, values: Int64Array, n: int) -> Values:
        """Return the best value of each of `n` owners."""
        xp = self.backend.xp
        has: BoolArray = xp.zeros(n, np.bool_)
        best, key = xp.zeros(n, np.int64), xp.zeros(n, np.int64)
        if len(owner):
            keys = self.keys(values)
            order = self.backend.kernels.lexsort([owner, keys])
            owner, values, keys = owner[order], values[order], keys[order]
            first = self.backend.kernels.run_starts([owner])
            has[owner[first]] = True
            best[owner[first]] = values[first]
            key[owner[first]] = keys[first]
        return has, best, key


def is_better(left: Values, right: Values) -> BoolArray:
    """Return a mask of the groups with a left value that is better than the right, if any."""
    better: BoolArray = left[0] & (~right[0] | (left[2] < right[2]))
    return better


class BestHistory(SetHistory):
    """History of best values; see the module docstring.

    Rows are stored in the order group, value.
    """

    def __init__(self, index: RankedIndex, asking: DerivationQuery, better: ValueOrder) -> None:
        super().__init__(index, asking)
        self.better = better
        self._groups = tuple(column for column in range(index.columns) if column != better.best.value)
        self._apart = Spine()
        self._all_apart = False

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Store derivations to come, each at its iteration."""
        self.buffer.put(iterations, [columns[column] for column in (*self._groups, self.better.best.value)], weights)

    def _decide_iteration(self, iteration: int) -> list[Signed]:
        xp, backend = self.backend.xp, self.backend
        waited = self.buffer.pop(iteration)
        visits = self._due.pop(iteration, [])
        if waited is None and not visits:
            return []
        nothing: Int64Array = xp.empty(0, np.int64)
        (*columns, value), arrived = waited or ([nothing] * (len(self._groups) + 1), nothing)
        groups, n, owner = self._affected_groups(columns, visits, len(value))
        state = self.index.accumulated()
        had, (old, rank), weights = self._rows(state, groups)
        (there,) = positions(backend, weights > 0)
        had, old, rank = had[there], old[there], rank[there]
        owners, new, since = had, old, rank
        entries = self.entries[self.index.canonical].batches
        if entries:
            owners, (new, since), weights = self._rows((*state, *entries), groups)
            (there,) = positions(backend, weights > 0)
            owners, new, since = owners[there], new[there], since[there]
        before, now = positions(backend, since < iteration, rank == iteration)
        best = self.better.best_per_owner(owners[before], new[before], n)
        was = self.better.best_per_owner(had[now], old[now], n)
        apart = self._is_apart(groups, n)
        queried = self._groups_to_query(owner, value, arrived, apart, best, was)
        if len(queried):
            is_asked = xp.zeros(n, np.bool_)
            is_asked[queried] = True
            (later,) = positions(backend, is_asked[had] & (rank > iteration)) if len(had) else (nothing,)
            self._visit(rank[later], had[later], groups)
            position, values, counts = self._query_groups(
                iteration, [column[queried] for column in groups], len(queried)
            )
            owner = xp.concatenate([owner, queried[position]])
            value, arrived = xp.concatenate([value, values]), xp.concatenate([arrived, counts])
            apart = apart | is_asked
        (owner, value), left = backend.kernels.consolidate([owner, value], arrived)
        candidates, wrong = positions(backend, (left > 0) & apart[owner], (left < 0) & apart[owner])
        self.refuse(len(wrong), iteration)
        candidate = self.better.best_per_owner(owner[candidates], value[candidates], n)
        comes = apart & is_better(candidate, best)
        same = comes & was[0] & (was[1] == candidate[1])
        coming, going = positions(backend, comes & ~same, apart & was[0] & ~same)
        return [(self._columns(groups, coming, candidate[1]), 1), (self._columns(groups, going, was[1]), -1)]

    def _affected_groups(
        self, columns: Sequence[Int64Array], visits: Sequence[list[Int64Array]], n_rows: int
    ) -> tuple[list[Int64Array], int, Int64Array]:
        """Return the distinct groups to evaluate, their number, and each row's position in them."""
        xp = self.backend.xp
        if not self._groups:
            return [], 1, xp.zeros(n_rows, np.int64)
        groups = list(columns)
        if visits:
            groups = [xp.concatenate(parts) for parts in zip(columns, *visits, strict=True)]
        groups = self.backend.kernels.distinct_rows(groups)
        place: Int64Array = xp.zeros(0, np.int64)
        if n_rows:
            place = IndexedZSet.from_sorted(groups, 1, self.backend).locate(columns)
        return groups, len(groups[0]), place

    def _rows(
        self, batches: Sequence[IndexedZSet], groups: Sequence[Int64Array]
    ) -> tuple[Int64Array, list[Int64Array], Int64Array]:
        """Return the history of these groups: owner, value and rank, weight."""
        owner, columns, weights = rows_below([batch for batch in batches if len(batch)], groups, self.backend)
        return owner, columns if len(columns) == 2 else [columns[0], columns[0]], weights

    def _is_apart(self, groups: Sequence[Int64Array], n: int) -> BoolArray:
        xp = self.backend.xp
        apart: BoolArray = xp.zeros(n, np.bool_)
        if not self._groups:
            apart |= self._all_apart
        for batch in self._apart.batches:
            apart |= batch.locate(groups) >= 0
        return apart

    def _groups_to_query(
        self,
        owner: Int64Array,
        value: Int64Array,
        arrived: Int64Array,
        apart: BoolArray,
        best: Values,
        was: Values,
    ) -> Int64Array:
        """Return the groups that leave their history.

        Their value loses derivations at this iteration, or a better value arrives.
        """
        backend = self.backend
        here = was[0][owner] & (value == was[1][owner])
        gained, lost = positions(backend, arrived > 0, here & (arrived < 0))
        gained_best = self.better.best_per_owner(owner[gained], value[gained], len(apart))
        parts = is_better(gained_best, best) & is_better(gained_best, was)
        parts[owner[lost]] = True
        (queried,) = positions(backend, parts & ~apart)
        return queried

    def _query_groups(
        self, iteration: int, groups: list[Int64Array], n: int
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Mark groups as apart and return their old derivations at this iteration.

        Store the later ones.

        Returns
        -------
        positions, values, counts : of the derivations at this iteration
        """
        backend = self.backend
        if self._groups:
            self._apart = self._apart.insert(IndexedZSet.from_sorted(groups, 1, backend))
        else:
            self._all_apart = True
        (position, value), iterations, counts = self.derivation_query.derivations(groups, n)
        now, later = positions(backend, iterations == iteration, iterations > iteration)
        if len(later):
            columns = [*(column[position[later]] for column in groups), value[later]]
            self.buffer.put(iterations[later], columns, counts[later])
        return position[now], value[now], counts[now]

    def _visit(self, ranks: Int64Array, owners: Int64Array, groups: Sequence[Int64Array]) -> None:
        """Schedule the evaluation of groups at the iterations at which they had values."""
        if len(ranks):
            for iteration, rows in group_by_iteration(ranks, [column[owners] for column in groups], self.backend):
                self._due.setdefault(iteration, []).append(rows)

    def _columns(self, groups: Sequence[Int64Array], owners: Int64Array, values: Int64Array) -> list[Int64Array]:
        """Return rows in the relation's column order."""
        columns = dict(zip(self._groups, (column[owners] for column in groups), strict=True))
        columns[self.better.best.value] = values[owners]
        return [columns[column] for column in range(len(columns))]


def change_of_best(
    better: ValueOrder, state: Sequence[IndexedZSet], entries: IndexedZSet
) -> tuple[list[Int64Array], Int64Array]:
    """Return deleted and inserted best values as columns group, value, with weights -1 and 1."""
    xp, depth = better.backend.xp, entries.depth - 2
    groups = entries.as_zset_view(depth)[0] if depth else []
    n = len(groups[0]) if depth else 1
    had, old = better.best_values(state, groups, n)
    has, new = better.best_values((*state, entries), groups, n)
    same = had & has & (old == new)
    gone, come = positions(better.backend, had & ~same, has & ~same)
    rows = xp.concatenate([gone, come])
    values = xp.concatenate([old[gone], new[come]])
    weights = xp.concatenate([xp.full(len(gone), -1, np.int64), xp.full(len(come), 1, np.int64)])
    return [*(column[rows] for column in groups), values], weights

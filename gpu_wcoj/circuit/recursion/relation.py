"""State of a relation of a loop: rows with ranks, and views of it without ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.aggregate import extreme_values, rows_below
from gpu_wcoj.circuit.operator import as_phases
from gpu_wcoj.circuit.recursion.plan import Best, DerivationQuery, with_rank, without_rank
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import BoolArray, joined_columns, numbers, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet


def unranked(batch: IndexedZSet) -> IndexedZSet:
    """Return the rows without their last level, consolidated.

    Cached with the batch. If all weights are 1, it shares the batch's arrays, as each row has a single rank. Otherwise
    O(n).
    """
    cached = batch.__dict__.get("unranked")
    if cached is None:
        cached = batch.__dict__["unranked"] = _unranked(batch)
    result: IndexedZSet = cached
    return result


def _unranked(batch: IndexedZSet) -> IndexedZSet:
    backend = batch.backend
    if batch.n_negative == 0:
        return IndexedZSet(batch.values[:-1], batch.offsets[:-1], None, backend)
    before = batch.weight_before
    sums = before[batch.offsets[-1][1:]] - before[batch.offsets[-1][:-1]]
    columns, _ = batch.as_zset_view(batch.depth - 1)
    (there,) = positions(backend, sums != 0)
    return IndexedZSet.from_sorted([column[there] for column in columns], sums[there], backend)


def _ranks_before(batch: IndexedZSet) -> Int64Array:
    """Return the prefix sums (length n + 1) of weights times ranks, cached with the batch."""
    cached: Int64Array | None = batch.__dict__.get("ranks before")
    if cached is None:
        weighted = batch.weight_column() * batch.values[-1]
        cached = batch.__dict__["ranks before"] = batch.backend.kernels.exclusive_sum(weighted)
    return cached


def ranks_in(
    batches: Sequence[IndexedZSet], columns: Sequence[Int64Array], backend: Backend
) -> tuple[Int64Array, Int64Array]:
    """Return per row the sums over all ranks of its weights, and of weights times ranks.

    As a row of the state has a single rank, the first is 1 or 0, and the second is the rank.

    Parameters
    ----------
    columns
        The rows, in the batches' order, without ranks.
    """
    xp, width, n = backend.xp, len(columns), len(columns[0])
    weights, ranks = xp.zeros(n, np.int64), xp.zeros(n, np.int64)
    batches = [batch for batch in batches if len(batch)]
    if not batches:
        return weights, ranks
    records = [batch.records[:width] for batch in batches]
    located = backend.kernels.locate(records, [range(width)] * len(batches), stacked(backend, columns))
    for batch, position in zip(batches, located, strict=True):
        present, node = position >= 0, xp.maximum(position, 0)
        begin, end = batch.offsets[-1][node], batch.offsets[-1][node + 1]
        if batch.weights is None:
            weights += present
            ranks += xp.where(present, batch.values[-1][begin], 0)
        else:
            sums, products = batch.weight_before, _ranks_before(batch)
            weights += xp.where(present, sums[end] - sums[begin], 0)
            ranks += xp.where(present, products[end] - products[begin], 0)
    return weights, ranks


@dataclass(frozen=True, eq=False)
class LoopChange:
    """The change of a relation of a loop in a tick, without ranks.

    Attributes
    ----------
    rows
        In the relation's columns, with weights 1 and -1.
    """

    rows: IndexedZSet

    @property
    def deleted(self) -> int:
        """Number of deleted rows."""
        return self.rows.n_negative

    @property
    def inserted(self) -> int:
        """Number of inserted rows."""
        return len(self.rows) - self.rows.n_negative

    @cached_property
    def phases(self) -> list[PhaseRows]:
        """Deleted rows and inserted rows as two phases."""
        columns, weights = self.rows.columns(), self.rows.weights
        if weights is None:
            return [PhaseRows([column[:0] for column in columns], -1), PhaseRows(columns, 1)]
        return as_phases(columns, weights, self.rows.backend)

    @cached_property
    def as_bag(self) -> PhaseRows:
        """All changed rows with their weights."""
        return PhaseRows(self.rows.columns(), self.rows.weight_column())


class UnrankedArrangement(Arrangement):
    """View of an arrangement of a loop's relation without ranks.

    Only the arrangement with ranks is state.
    """

    def __init__(self, ranked: Arrangement) -> None:
        self._ranked = ranked
        super().__init__(without_rank(ranked.key), ranked.backend)

    @property
    def spine(self) -> Spine:
        """The committed batches without ranks."""
        return Spine(tuple(batch for batch in map(unranked, self._ranked.spine.batches) if len(batch)))

    @spine.setter
    def spine(self, value: Spine) -> None:
        """Ignore the value: the state is in the arrangement with ranks."""

    def receive_change(self, change: LoopChange, weighted: bool) -> None:
        """Set this tick's change as pending: in one phase for a bag, else in two."""
        if weighted:
            self.receive_delta([change.as_bag])
        elif change.rows.weights is not None:
            self.receive_delta(change.phases)
        else:
            nothing = IndexedZSet.empty(len(self.key.order), self.backend)
            entries = self._ranked.pending
            self.pending = (nothing, unranked(entries[0]) if entries else nothing)

    def commit(self, spine: Spine | None = None) -> None:  # noqa: ARG002  # see `spine`
        """Discard the pending change."""
        self.pending = ()


class RankedIndex(RelationIndex):
    """Index of a relation of a loop, whose arrangements have the rank as last level.

    Rows that it receives and returns have the rank as an additional last column; `visible` arrangements have no ranks.

    Attributes
    ----------
    visible
        Arrangements by key that rules outside the loop read.
    visible_to_loops
        Arrangements by key that other loops read: sets, which change in two phases in programs over sets and bags.
    """

    def __init__(
        self,
        name: str,
        width: int,
        keys: Iterable[ArrangementKey],
        visible: Iterable[ArrangementKey],
        visible_to_loops: Iterable[ArrangementKey],
        backend: Backend,
        policy: MergePolicy | None = None,
        threads: int = 1,
        order: Sequence[int] | None = None,
    ) -> None:
        canonical = ArrangementKey(name, (*(range(width) if order is None else order), width))
        visible_keys, to_loops = dict.fromkeys(visible), dict.fromkeys(visible_to_loops)
        all_keys = [canonical, *keys, *(with_rank(key, {name: width}) for key in (*visible_keys, *to_loops))]
        super().__init__(name, width + 1, all_keys, backend, policy, threads)
        self.visible = {key: self.view(key) for key in visible_keys}
        self.visible_to_loops = {key: self.view(key) for key in to_loops}

    @property
    def columns(self) -> int:
        """Number of stored columns without the rank."""
        return self.width - 1

    def read(self, key: ArrangementKey) -> Arrangement:
        """Return an arrangement of `visible`."""
        return self.visible[key]

    def read_by_loop(self, key: ArrangementKey) -> Arrangement:
        """Return an arrangement of `visible_to_loops`."""
        return self.visible_to_loops[key]

    def view(self, key: ArrangementKey) -> UnrankedArrangement:
        """Return a view of an arrangement without ranks."""
        return UnrankedArrangement(self.arrangements[with_rank(key, {self.name: self.columns})])

    def receive_change(self, change: LoopChange, weighted: bool) -> None:
        """Pass this tick's change, without ranks, to the visible arrangements.

        The entries are pending already.
        """
        for arrangement in self.visible.values():
            arrangement.receive_change(change, weighted)
        for arrangement in self.visible_to_loops.values():
            arrangement.receive_change(change, False)

    @property
    def _views(self) -> list[UnrankedArrangement]:
        return [*self.visible.values(), *self.visible_to_loops.values()]

    def commit(self, spines: Mapping[ArrangementKey, Spine] | None = None) -> None:
        """Commit all arrangements and discard the changes of the views."""
        super().commit(spines)
        for arrangement in self._views:
            arrangement.commit()

    def discard(self) -> None:
        """Discard this tick's change."""
        super().discard()
        for arrangement in self._views:
            arrangement.discard()

    def find(self, columns: Sequence[Int64Array]) -> tuple[BoolArray, Int64Array]:
        """Return a mask of the rows, without ranks, that the committed state has, and their ranks."""
        weights, ranks = ranks_in(self.accumulated(), columns, self.backend)
        return weights > 0, ranks

    def visible_rows(self) -> tuple[list[Int64Array], Int64Array]:
        """Return all committed rows without ranks, sorted, with their weights. O(n)."""
        columns, weights = self.rows()
        return columns[:-1], weights


def count_rows(index: RelationIndex) -> int:
    """Return the number of rows of the committed set.

    Each batch has an entry per inserted or deleted row.
    """
    return sum(len(batch) - 2 * batch.n_negative for batch in index.accumulated())


# Pending derivations and entries of later iterations.


Weighted = tuple[list[Int64Array], Int64Array]
"""Columns, and the weight of every row."""

MAX_UNSORTED = 1 << 20
"""Gathered rows, beyond twice the distinct rows, at which they are consolidated."""


def iteration_ranges(iterations: Int64Array, backend: Backend) -> list[tuple[int, int, int]]:
    """Return each iteration of a sorted column with the begin and end of its rows."""
    if not len(iterations):
        return []
    first, final = numbers(backend, iterations[0], iterations[-1])
    if first == final:
        return [(first, 0, len(iterations))]
    edges = backend.to_host(backend.xp.searchsorted(iterations, backend.xp.arange(first, final + 2))).tolist()
    ranges = zip(range(first, final + 1), edges, edges[1:], strict=False)
    return [(iteration, begin, end) for iteration, begin, end in ranges if begin < end]


class Buffer:
    """Weighted rows of one relation, each pending at an iteration."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._unsorted: list[Weighted] = []
        self._n_unsorted = self._n_distinct = 0
        self._waiting: dict[int, list[Weighted]] = {}

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Store rows, each at its iteration."""
        self._unsorted.append(([iterations, *columns], weights))
        self._n_unsorted += len(weights)
        if self._n_unsorted > MAX_UNSORTED + 2 * self._n_distinct:
            self._unsorted = [self._consolidated(self._unsorted)]
            self._n_unsorted = self._n_distinct = len(self._unsorted[0][1])

    @property
    def n_stored(self) -> int:
        """Number of rows of `put` that are not distributed to iterations yet."""
        return self._n_unsorted

    def take_stored(self) -> Weighted | None:
        """Remove and return these rows, consolidated, with their iterations as first column."""
        parts, self._unsorted = self._unsorted, []
        self._n_unsorted = self._n_distinct = 0
        return self._consolidated(parts) if parts else None

    def put_at(self, iteration: int, columns: list[Int64Array], weights: Int64Array) -> None:
        """Store sorted, distinct rows at one iteration."""
        self._waiting.setdefault(iteration, []).append((columns, weights))

    @property
    def next(self) -> int | None:
        """The first iteration with pending rows, or None."""
        self._sort()
        return min(self._waiting, default=None)

    def pop(self, iteration: int) -> Weighted | None:
        """Remove and return the rows of an iteration, sorted and consolidated.

        None if there are none.
        """
        self._sort()
        parts = self._waiting.pop(iteration, None)
        if parts is None:
            return None
        rows = parts[0] if len(parts) == 1 else self._consolidated(parts)
        return rows if len(rows[1]) else None

    def _sort(self) -> None:
        """Distribute the stored rows to their iterations."""
        if not self._unsorted:
            return
        (iterations, *columns), weights = self._consolidated(self._unsorted)
        self._unsorted, self._n_unsorted, self._n_distinct = [], 0, 0
        for iteration, begin, end in iteration_ranges(iterations, self._backend):
            self.put_at(iteration, [column[begin:end] for column in columns], weights[begin:end])

    def _consolidated(self, parts: Sequence[Weighted]) -> Weighted:
        *columns, weights = joined_columns([(*columns, weights) for columns, weights in parts], self._backend.xp)
        return self._backend.kernels.consolidate(columns, weights)


# History of a set-valued relation of a loop in a tick, iteration by iteration.


POLICY = MergePolicy(ratio=4, most_batches=3, instalment=inf)
"""Merge policy of this tick's entries, which are few and probed at every iteration."""

Signed = tuple[list[Int64Array], int]
"""Distinct rows in the relation's columns, and the weight of their entries."""


class SetHistory:
    """History of a relation that is a set: a row is present from its first derivation on.

    Attributes
    ----------
    entries
        This tick's entries up to the last iteration, in every order of the relation's index.
    buffer
        Derivations of later iterations.
    """

    def __init__(self, index: RankedIndex, asking: DerivationQuery) -> None:
        self.index = index
        self.derivation_query = asking
        self.backend = index.backend
        self.buffer = Buffer(index.backend)
        self.entries: dict[ArrangementKey, Spine] = {key: Spine(policy=POLICY) for key in index.arrangements}
        self._due: dict[int, list[list[Int64Array]]] = {}

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Store derivations to come, each at its iteration."""
        self.buffer.put(iterations, columns, weights)

    @property
    def next(self) -> int | None:
        """The first iteration with anything pending, or None."""
        waiting = [iteration for iteration in (self.buffer.next, min(self._due, default=None)) if iteration is not None]
        return min(waiting, default=None)

    def emit(self, iteration: int) -> PhaseRows | None:
        """Return the entries of one iteration, with their rank; None if there are none."""
        parts = [(columns, sign) for columns, sign in self._decide_iteration(iteration) if len(columns[0])]
        if not parts:
            return None
        xp = self.backend.xp
        signed = [(*rows, xp.full(len(rows[0]), sign, np.int64)) for rows, sign in parts]
        *columns, weights = joined_columns(signed, xp)
        order = self.backend.kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        return PhaseRows([*columns, xp.full(len(order), iteration, np.int64)], weights[order])

    def absorb(self, emitted: Mapping[ArrangementKey, IndexedZSet]) -> None:
        """Add the entries of an iteration to those before."""
        for key, batch in emitted.items():
            self.entries[key] = self.entries[key].insert(batch)

    def _decide_iteration(self, iteration: int) -> list[Signed]:
        due: list[Signed] = [(rows, -1) for rows in self._due.pop(iteration, [])]
        waited = self.buffer.pop(iteration)
        return due if waited is None else [*due, *self._decide_rows(iteration, *waited)]

    def _decide_rows(self, iteration: int, columns: list[Int64Array], arrived: Int64Array) -> list[Signed]:
        """Return the rows that enter and leave at this iteration, given arrived derivations."""
        backend = self.backend
        is_present, rank = self.index.find(columns)
        entered, _ = ranks_in(self.entries[self.index.canonical].batches, columns, backend)
        absent = (is_present & (rank < iteration)) + entered == 0
        here = absent & is_present & (rank == iteration)
        elsewhere = absent & ~here
        comes, queried, wrong = positions(
            backend, elsewhere & (arrived > 0), here & (arrived < 0), elsewhere & (arrived < 0)
        )
        self.refuse(len(wrong), iteration)
        came = [column[comes] for column in columns]
        (replaced,) = positions(backend, (is_present & (rank > iteration))[comes])
        if len(replaced):
            for due_iteration, rows in group_by_iteration(
                rank[comes][replaced], [column[replaced] for column in came], backend
            ):
                self._due.setdefault(due_iteration, []).append(rows)
        went = self._without_derivations(iteration, [column[queried] for column in columns], arrived[queried])
        return [(came, 1), (went, -1)]

    def _without_derivations(self, iteration: int, columns: list[Int64Array], arrived: Int64Array) -> list[Int64Array]:
        """Return the rows that have no derivations left at their rank, among those that lost some."""
        n = len(arrived)
        if n == 0:
            return columns
        backend = self.backend
        xp = backend.xp
        (position,), iterations, counts = self.derivation_query.derivations(columns, n)
        (now,) = positions(backend, iterations == iteration)
        left = arrived.copy()
        left[position[now]] += counts[now]
        wrong, gone = positions(backend, left < 0, left == 0)
        self.refuse(len(wrong), iteration)
        is_gone = xp.zeros(n, np.bool_)
        is_gone[gone] = True
        (later,) = positions(backend, is_gone[position] & (iterations > iteration))
        if len(later):
            rows = position[later]
            self.buffer.put(iterations[later], [column[rows] for column in columns], counts[later])
        return [column[gone] for column in columns]

    def refuse(self, n_wrong: int, iteration: int) -> None:
        """Raise an AssertionError if a row has a negative number of derivations, an internal error."""
        if n_wrong:
            raise AssertionError(f"'{self.index.name}' has fewer than no derivations at iteration {iteration}")


def group_by_iteration(
    iterations: Int64Array, columns: Sequence[Int64Array], backend: Backend
) -> list[tuple[int, list[Int64Array]]]:
    """Return the distinct rows by iteration."""
    iterations, *columns = backend.kernels.distinct_rows([iterations, *columns])
    ranges = iteration_ranges(iterations, backend)
    return [(iteration, [column[begin:end] for column in columns]) for iteration, begin, end in ranges]


# History of a relation of a loop that keeps the best value of each group.
#
# The history of a group is the sequence of its best values, each with the iteration at which it became the best. A
# worse value stays inside the loop: rules are monotone in the value, so the rows that a worse value derives are never
# better than those of a better value. So inside the loop the relation only grows, as a set does, and joins read its
# history; the outside reads the last value.
#
# In a tick, a group follows its previous history until something changes it: a better value arrives, or the value that
# it had at an iteration has lost derivations there. From then on it is *apart*: the rules recompute all derivations
# that the group had from this iteration on, these wait at their iterations beside those of this tick, and the group is
# evaluated at each iteration at which something waits or the previous history has a value.


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
        groups = self.backend.kernels.distinct_rows(joined_columns([columns, *visits], xp))
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

"""Semi-naive evaluation of an empty loop, which joins the new rows of each iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from gpu_wcoj.circuit.recursion.best import ValueOrder
from gpu_wcoj.circuit.recursion.plan import LoopPlan, without_rank
from gpu_wcoj.circuit.recursion.relation import RankedIndex
from gpu_wcoj.circuit.recursion.rule_join import RuleJoin
from gpu_wcoj.circuit.recursion.semi_naive import find_new_rows
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.plan import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.join.relation import THREADED_ROWS
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

_T = TypeVar("_T")

POLICY = MergePolicy(ratio=4, most_batches=4)
"""Merge policy of the probed arrangements: every iteration adds a batch, and most are large."""

INSERTIONS = 1
"""Index of the phase of a set's tick in which rows are inserted."""


class SemiNaiveRun:
    """Evaluation of a loop from the empty state.

    Parameters
    ----------
    heads
        The loop's relations; their committed state is not read.
    outside
        The arrangements of other relations; the loop reads them with this tick's pending change.
    execution
        With set semantics.
    """

    def __init__(
        self,
        plan: LoopPlan,
        heads: Mapping[str, RankedIndex],
        outside: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
    ) -> None:
        rules = plan.rules
        self._heads = heads
        self._better = {name: ValueOrder(best, execution) for name, best in plan.best.items()}
        self._execution = execution
        self._backend = execution.backend
        self._spines: dict[ArrangementKey, Spine] = {}
        self._views: dict[ArrangementKey, Arrangement] = {}
        self._read: set[ArrangementKey] = set()
        self._iterations: dict[str, list[tuple[int, IndexedZSet]]] = {name: [] for name in heads}
        for index in heads.values():
            plain = self._plain(index)
            self._spines[plain] = Spine(policy=POLICY)
            self._views[plain] = Arrangement(plain, self._backend)
            self._read.add(plain)
        first = (rule for rule in rules if not _seeds_in(rule.query, heads))
        self._first = [RuleJoin(rule, IncrementalGenericJoin(rule.query, outside, execution)) for rule in first]
        later = [rule for rule in rules if _seeds_in(rule.query, heads)]
        self._probed = {key for rule in later for path in rule.query.paths for key in self._probed_by(path)}
        self._next = [RuleJoin(rule, self._over_views(rule.query, outside)) for rule in later]

    @property
    def joins(self) -> list[RuleJoin]:
        """The joins in use, for reading their work counts."""
        return [*self._first, *self._next]

    def iterations(self) -> Iterator[int]:
        """Run; yield every iteration that derives new rows."""
        rank = 0
        new_rows = self._first_iteration()
        while new_rows:
            yield rank
            self._absorb(new_rows, rank)
            rank += 1
            new_rows = self._iteration([rule_join for rule_join in self._next if rule_join.has_seeds((INSERTIONS,))])

    def _first_iteration(self) -> dict[str, list[Int64Array]]:
        """Return the rows of rules that read the outside only, which are their change."""
        for rule_join in self._first:
            rule_join.has_seeds(range(len(self._execution.phases)))
        new_rows = self._iteration([rule_join for rule_join in self._first if not rule_join.join.query.has_negation])
        for rule_join in self._first:
            if rule_join.join.query.has_negation:
                head = rule_join.rule.head
                columns = _gained(rule_join.join, self._heads[head].columns)
                if len(columns[0]):
                    also = new_rows.get(head, [column[:0] for column in columns])
                    together = [self._backend.xp.concatenate(both) for both in zip(also, columns, strict=True)]
                    new_rows[head] = self._improved(head, self._backend.kernels.distinct_rows(together))
        return new_rows

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Return all rows per relation, in every order of its index."""
        self._views.clear()
        self._spines.clear()
        result: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        for name, index in self._heads.items():
            parts = self._iterations.pop(name)
            if parts:
                below = self._backend.xp.arange(sum(len(batch) for _, batch in parts) + 1, dtype=np.int64)
                arrange = partial(self._arranged, self._plain(index).order, parts, below)
                result[name] = dict(zip(index.arrangements, index.on_each(arrange, len(below)), strict=True))
        return result

    def _arranged(
        self,
        order: Sequence[int],
        parts: Sequence[tuple[int, IndexedZSet]],
        below: Int64Array,
        arrangement: Arrangement,
    ) -> IndexedZSet:
        """Build the batch of an arrangement from all rows, in `order`, with their ranks."""
        key, batches, ranks = arrangement.key, [batch for _, batch in parts], [rank for rank, _ in parts]
        if not key.is_whole:
            rows = IndexedZSet.rearranged(
                batches, [order.index(column) for column in range(len(order))], self._backend, ranks
            )
            return arrangement.index(PhaseRows(rows.columns(), 1))
        return IndexedZSet.rearranged(
            batches, [order.index(column) for column in key.order[:-1]], self._backend, ranks, below
        )

    def _over_views(self, query: DeltaQuery, outside: Mapping[ArrangementKey, Arrangement]) -> IncrementalGenericJoin:
        """Return the join over the loop's rows and the outside after the tick, which is constant."""
        query = replace(query, paths=tuple(self._seeded(path) for path in query.paths))
        for path in query.paths:
            for key in (*(use.key for use in path.seeds), *path.keys):
                if key in self._views:
                    continue
                view = self._views[key] = Arrangement(key, self._backend)
                if key.relation not in self._heads:
                    view.spine = Spine(outside[key].after(INSERTIONS))
            probed = self._probed_by(path)
            if path.seed.key.relation in self._heads:
                self._read.update((path.seed.key, *probed))
                self._spines.update({key: Spine(policy=POLICY) for key in probed})
        return IncrementalGenericJoin(query, self._views, self._execution)

    def _probed_by(self, path: DeltaPath) -> list[ArrangementKey]:
        """Return the keys of the loop's relations that a path probes beside its seeds."""
        if path.seed.key.relation not in self._heads:
            return []
        return [use.key for use in path.other_atoms if use.key.relation in self._heads]

    def _seeded(self, path: DeltaPath) -> DeltaPath:
        """Return the path with seeds in all orders in which new rows are available."""
        index = self._heads.get(path.seed.key.relation)
        if index is None:
            return path
        plain = self._plain(index)
        variable = dict(zip(path.seed.key.order, path.seed.variables, strict=True))
        if not path.seed.key.is_whole or len(variable) != index.columns:
            return path.with_seeds(path.seeds[:1])
        other_keys = [key for key in self._probed if key.selection == plain.selection and key != plain]
        keys = [plain, *sorted(other_keys, key=lambda key: key.order)]
        seeds = (AtomUse(path.seed.atom, key, tuple(variable[column] for column in key.order)) for key in keys)
        return path.with_seeds(tuple(seeds))

    def _iteration(self, rules: Sequence[RuleJoin]) -> dict[str, list[Int64Array]]:
        """Return the rows per relation that these rules derive for the first time."""
        joins: dict[str, list[IncrementalGenericJoin]] = {}
        for rule_join in rules:
            joins.setdefault(rule_join.rule.head, []).append(rule_join.join)
        new_rows: dict[str, list[Int64Array]] = {}
        for name, head_joins in joins.items():
            columns = self._improved(name, find_new_rows(head_joins, INSERTIONS, self._rows_so_far(self._heads[name])))
            if len(columns[0]):
                new_rows[name] = columns
        return new_rows

    def _improved(self, name: str, columns: list[Int64Array]) -> list[Int64Array]:
        """Return the new rows of a relation.

        If it keeps best values, one row per group that improves it.
        """
        better = self._better.get(name)
        if better is None or len(columns[0]) == 0:
            return columns
        backend = self._backend
        *groups, value = [columns[column] for column in self._heads[name].canonical.order[:-1]]
        order = backend.kernels.lexsort([*groups, better.keys(value)])
        groups, value = [column[order] for column in groups], value[order]
        first = backend.kernels.run_starts(groups) if groups else backend.xp.zeros(1, np.int64)
        groups, value = [column[first] for column in groups], value[first]
        plain = self._plain(self._heads[name])
        has, best = better.best_values(self._rows_so_far(self._heads[name])[plain.order], groups, len(first))
        (improved,) = positions(backend, ~has | (better.keys(value) < better.keys(best)))
        by_column = dict(zip(plain.order, (column[improved] for column in (*groups, value)), strict=True))
        return backend.kernels.distinct_rows([by_column[column] for column in range(len(by_column))])

    def _rows_so_far(self, index: RankedIndex) -> dict[tuple[int, ...], list[IndexedZSet]]:
        """Return all rows of a relation so far, in every available order."""
        by_order = {}
        for key, spine in self._spines.items():
            if key.relation == index.name and key.is_whole and len(key.order) == index.columns:
                pending = self._views[key].pending if key in self._views else ()
                by_order[key.order] = [*spine.batches, *(batch for batch in pending if len(batch))]
        return by_order

    def _absorb(self, new_rows: Mapping[str, Sequence[Int64Array]], rank: int) -> None:
        """Merge the rows of the previous iteration into the state.

        Set those of this iteration as pending.
        """
        keys = [key for key, view in self._views.items() if view.pending and key in self._spines]
        n_pending = sum(len(batch) for key in keys for batch in self._views[key].pending)
        for key, spine in zip(keys, self._on_each(self._with_pending, keys, n_pending), strict=True):
            self._spines[key] = self._views[key].spine = spine
        for view in self._views.values():
            for batch in view.pending:
                batch.forget_rows()
            view.pending = ()
        rows = {name: PhaseRows(columns, 1) for name, columns in new_rows.items()}
        read = [key for key in self._read if key.relation in rows]
        n_rows = sum(map(len, rows.values()))
        batches = self._on_each(lambda key: self._views[key].index(rows[key.relation]), read, n_rows)
        for key, batch in zip(read, batches, strict=True):
            self._views[key].pending = (IndexedZSet.empty(batch.depth, self._backend), batch)
            if key == self._plain(self._heads[key.relation]):
                self._iterations[key.relation].append((rank, batch))

    def _with_pending(self, key: ArrangementKey) -> Spine:
        """Return all rows so far in one order."""
        spine = self._spines[key]
        for batch in self._views[key].pending:
            spine = spine.insert(batch)
        return spine

    def _on_each(
        self, function: Callable[[ArrangementKey], _T], keys: Sequence[ArrangementKey], n_rows: int
    ) -> list[_T]:
        """Apply a function to each key, in threads if `n_rows` is large enough."""
        threads = self._execution.threads
        if threads == 1 or self._backend.device is not None or len(keys) < 2 or n_rows < THREADED_ROWS:
            return [function(key) for key in keys]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, keys))

    @staticmethod
    def _plain(index: RankedIndex) -> ArrangementKey:
        """Return the key of the order in which rows are derived."""
        return without_rank(index.canonical)


def _seeds_in(query: DeltaQuery, heads: Mapping[str, RankedIndex]) -> bool:
    return any(path.seed.key.relation in heads for path in query.paths)


def _gained(join: IncrementalGenericJoin, width: int) -> list[Int64Array]:
    """Return the distinct rows that a join has after this tick and did not have before."""
    backend = join.execution.backend
    xp = backend.xp
    columns: list[list[Int64Array]] = []
    weights: list[Int64Array] = []
    for phase in range(len(join.execution.phases)):
        for piece in join.join(phase):
            columns.append(list(piece.columns))
            weights.append(
                xp.full(len(piece), piece.weights, np.int64) if isinstance(piece.weights, int) else piece.weights
            )
    if not columns:
        return [xp.empty(0, np.int64)] * width
    rows, sums = backend.kernels.consolidate(
        [xp.concatenate(parts) for parts in zip(*columns, strict=True)], xp.concatenate(weights)
    )
    (gained,) = positions(backend, sums > 0)
    return [column[gained] for column in rows]

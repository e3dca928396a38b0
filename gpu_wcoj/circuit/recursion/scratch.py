"""Fill an empty loop: semi-naive evaluation of sets, one iteration a tick of the joins over what the last one found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from gpu_wcoj.circuit.recursion.best import Better
from gpu_wcoj.circuit.recursion.ranked import RankedIndex
from gpu_wcoj.circuit.recursion.rule_join import RuleJoin
from gpu_wcoj.circuit.recursion.rules import LoopPlan, without_rank
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.fresh import fresh_of
from gpu_wcoj.join.index import THREADED_ROWS
from gpu_wcoj.join.path import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

_T = TypeVar("_T")

POLICY = MergePolicy(ratio=4, most_batches=4)
"""For what the joins probe: every iteration brings a batch, and most are large."""

INSERTIONS = 1
"""The phase of a set's tick in which rows come."""


class Scratch:
    """One evaluation of a loop from the empty state.

    Parameters
    ----------
    heads
        The loop's relations; what they are committed to hold is not looked at.
    outside
        The arrangements of other relations, with this tick's change pending; the loop reads them with it.
    execution
        Of a set.
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
        self._better = {name: Better(best, execution) for name, best in plan.best.items()}
        self._execution = execution
        self._backend = execution.backend
        self._found: dict[ArrangementKey, Spine] = {}
        self._views: dict[ArrangementKey, Arrangement] = {}
        self._read: set[ArrangementKey] = set()
        self._iterations: dict[str, list[tuple[int, IndexedZSet]]] = {name: [] for name in heads}
        for index in heads.values():
            plain = self._plain(index)
            self._found[plain] = Spine(policy=POLICY)
            self._views[plain] = Arrangement(plain, self._backend)
            self._read.add(plain)
        first = (rule for rule in rules if not _seeds_in(rule.query, heads))
        self._first = [RuleJoin(rule, IncrementalGenericJoin(rule.query, outside, execution)) for rule in first]
        later = [rule for rule in rules if _seeds_in(rule.query, heads)]
        self._probed = {key for rule in later for path in rule.query.paths for key in self._probed_by(path)}
        self._next = [RuleJoin(rule, self._over_views(rule.query, outside)) for rule in later]

    @property
    def joins(self) -> list[RuleJoin]:
        """The joins in use, to be asked for their work."""
        return [*self._first, *self._next]

    def iterations(self) -> Iterator[int]:
        """Run; yield the number of every iteration that has found something."""
        rank = 0
        found = self._begun()
        while found:
            yield rank
            self._take_in(found, rank)
            rank += 1
            found = self._iteration([one for one in self._next if one.begins((INSERTIONS,))])

    def _begun(self) -> dict[str, list[Int64Array]]:
        """What the rules derive that read the outside only: nothing before the tick, so it is their change."""
        for one in self._first:
            one.begins(range(len(self._execution.phases)))
        found = self._iteration([one for one in self._first if not one.join.query.has_negation])
        for one in self._first:
            if one.join.query.has_negation:
                head = one.rule.head
                columns = _gained(one.join, self._heads[head].columns)
                if len(columns[0]):
                    also = found.get(head, [column[:0] for column in columns])
                    together = [self._backend.xp.concatenate(own) for own in zip(also, columns, strict=True)]
                    found[head] = self._improving(head, self._backend.kernels.distinct_rows(together))
        return found

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Per relation, all that was found, in every order that its index keeps."""
        self._views.clear()
        self._found.clear()
        whole: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        for name, index in self._heads.items():
            parts = self._iterations.pop(name)
            if parts:
                below = self._backend.xp.arange(sum(len(batch) for _, batch in parts) + 1, dtype=np.int64)
                arrange = partial(self._arranged, self._plain(index).order, parts, below)
                whole[name] = dict(zip(index.arrangements, index.on_each(arrange, len(below)), strict=True))
        return whole

    def _arranged(
        self,
        order: Sequence[int],
        parts: Sequence[tuple[int, IndexedZSet]],
        below: Int64Array,
        arrangement: Arrangement,
    ) -> IndexedZSet:
        """All that was found, which is given in an order of its columns, with its ranks, as an arrangement has it."""
        key, batches, ranks = arrangement.key, [batch for _, batch in parts], [rank for rank, _ in parts]
        if not key.is_whole:
            rows = IndexedZSet.rearranged(batches, [order.index(at) for at in range(len(order))], self._backend, ranks)
            return arrangement.index(PhaseRows(rows.columns(), 1))
        return IndexedZSet.rearranged(batches, [order.index(at) for at in key.order[:-1]], self._backend, ranks, below)

    def _over_views(self, query: DeltaQuery, outside: Mapping[ArrangementKey, Arrangement]) -> IncrementalGenericJoin:
        """The join with the rows of the loop, and the outside after the tick, which does not change any more."""
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
                self._found.update({key: Spine(policy=POLICY) for key in probed})
        return IncrementalGenericJoin(query, self._views, self._execution)

    def _probed_by(self, path: DeltaPath) -> list[ArrangementKey]:
        """The arrangements of the loop's relations in which a path looks for more than its seeds."""
        if path.seed.key.relation not in self._heads:
            return []
        return [use.key for use in path.others if use.key.relation in self._heads]

    def _seeded(self, path: DeltaPath) -> DeltaPath:
        """The path with its seeds in the orders in which new rows are at hand, where it takes all of them."""
        index = self._heads.get(path.seed.key.relation)
        if index is None:
            return path
        plain = self._plain(index)
        variable = dict(zip(path.seed.key.order, path.seed.variables, strict=True))
        if not path.seed.key.is_whole or len(variable) != index.columns:
            return path.with_seeds(path.seeds[:1])
        other = [key for key in self._probed if key.selection == plain.selection and key != plain]
        keys = [plain, *sorted(other, key=lambda key: key.order)]
        seeds = (AtomUse(path.seed.atom, key, tuple(variable[column] for column in key.order)) for key in keys)
        return path.with_seeds(tuple(seeds))

    def _iteration(self, rules: Sequence[RuleJoin]) -> dict[str, list[Int64Array]]:
        """What these rules derive that no iteration has found before."""
        joins: dict[str, list[IncrementalGenericJoin]] = {}
        for one in rules:
            joins.setdefault(one.rule.head, []).append(one.join)
        found: dict[str, list[Int64Array]] = {}
        for name, own in joins.items():
            columns = self._improving(name, fresh_of(own, INSERTIONS, self._known(self._heads[name])))
            if len(columns[0]):
                found[name] = columns
        return found

    def _improving(self, name: str, columns: list[Int64Array]) -> list[Int64Array]:
        """The rows that are new to a relation: where it keeps best values, one a group that is better than before."""
        better = self._better.get(name)
        if better is None or len(columns[0]) == 0:
            return columns
        backend = self._backend
        *groups, value = [columns[at] for at in self._heads[name].canonical.order[:-1]]
        order = backend.kernels.lexsort([*groups, better.keys(value)])
        groups, value = [column[order] for column in groups], value[order]
        first = backend.kernels.run_starts(groups) if groups else backend.xp.zeros(1, np.int64)
        groups, value = [column[first] for column in groups], value[first]
        plain = self._plain(self._heads[name])
        has, best = better.last(self._known(self._heads[name])[plain.order], groups, len(first))
        (kept,) = positions(backend, ~has | (better.keys(value) < better.keys(best)))
        found = dict(zip(plain.order, (column[kept] for column in (*groups, value)), strict=True))
        return backend.kernels.distinct_rows([found[at] for at in range(len(found))])

    def _known(self, index: RankedIndex) -> dict[tuple[int, ...], list[IndexedZSet]]:
        """All rows of a relation that have been found, in every order in which they are at hand."""
        known = {}
        for key, spine in self._found.items():
            if key.relation == index.name and key.is_whole and len(key.order) == index.columns:
                pending = self._views[key].pending if key in self._views else ()
                known[key.order] = [*spine.batches, *(batch for batch in pending if len(batch))]
        return known

    def _take_in(self, found: Mapping[str, Sequence[Int64Array]], rank: int) -> None:
        """What the iteration before had found stands with all before it; what this one has found is new."""
        kept = [key for key, view in self._views.items() if view.pending and key in self._found]
        n_pending = sum(len(batch) for key in kept for batch in self._views[key].pending)
        for key, spine in zip(kept, self._on_each(self._with_pending, kept, n_pending), strict=True):
            self._found[key] = self._views[key].spine = spine
        for view in self._views.values():
            for batch in view.pending:
                batch.forget_rows()
            view.pending = ()
        rows = {name: PhaseRows(columns, 1) for name, columns in found.items()}
        read = [key for key in self._read if key.relation in rows]
        n_rows = sum(map(len, rows.values()))
        batches = self._on_each(lambda key: self._views[key].index(rows[key.relation]), read, n_rows)
        for key, batch in zip(read, batches, strict=True):
            self._views[key].pending = (IndexedZSet.empty(batch.depth, self._backend), batch)
            if key == self._plain(self._heads[key.relation]):
                self._iterations[key.relation].append((rank, batch))

    def _with_pending(self, key: ArrangementKey) -> Spine:
        """All that has been found, in one order."""
        spine = self._found[key]
        for batch in self._views[key].pending:
            spine = spine.insert(batch)
        return spine

    def _on_each(
        self, function: Callable[[ArrangementKey], _T], keys: Sequence[ArrangementKey], n_rows: int
    ) -> list[_T]:
        """Apply to each key, side by side if so many rows are worth threads."""
        threads = self._execution.threads
        if threads == 1 or self._backend.device is not None or len(keys) < 2 or n_rows < THREADED_ROWS:
            return [function(key) for key in keys]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, keys))

    @staticmethod
    def _plain(index: RankedIndex) -> ArrangementKey:
        """The order in which rows are found."""
        return without_rank(index.canonical)


def _seeds_in(query: DeltaQuery, heads: Mapping[str, RankedIndex]) -> bool:
    return any(path.seed.key.relation in heads for path in query.paths)


def _gained(join: IncrementalGenericJoin, width: int) -> list[Int64Array]:
    """The distinct rows that a join has after this tick and had not before it."""
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
        [xp.concatenate(own) for own in zip(*columns, strict=True)], xp.concatenate(weights)
    )
    (gained,) = positions(backend, sums > 0)
    return [column[gained] for column in rows]

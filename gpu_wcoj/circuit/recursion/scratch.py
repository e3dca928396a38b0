"""Fill an empty loop: semi-naive evaluation of sets, one iteration a tick of the joins over what the last one found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpu_wcoj.circuit.recursion.ranked import RankedIndex, ranked
from gpu_wcoj.circuit.recursion.rules import LoopRule, without_rank
from gpu_wcoj.join.delta import Execution, IncrementalGenericJoin
from gpu_wcoj.join.fresh import fresh_of
from gpu_wcoj.join.path import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

POLICY = MergePolicy(ratio=2, most_batches=8)
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
        heads: Mapping[str, RankedIndex],
        rules: Sequence[LoopRule],
        outside: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
    ) -> None:
        self._heads = heads
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
        self._first = [rule for rule in rules if not _seeds_in(rule.query, heads)]
        self._first_joins = [IncrementalGenericJoin(rule.query, outside, execution) for rule in self._first]
        self._next = [rule for rule in rules if _seeds_in(rule.query, heads)]
        self._next_joins = [self._over_views(rule.query, outside) for rule in self._next]

    @property
    def joins(self) -> list[IncrementalGenericJoin]:
        """The joins in use, to be asked for their work."""
        return [*self._first_joins, *self._next_joins]

    def iterations(self) -> Iterator[int]:
        """Run; yield the number of every iteration that has found something."""
        rank = 0
        found = self._begun()
        while found:
            yield rank
            self._take_in(found, rank)
            rank += 1
            found = self._iteration(self._next, self._next_joins)

    def _begun(self) -> dict[str, IndexedZSet]:
        """What the rules derive that read the outside only: nothing before the tick, so it is their change."""
        found = self._iteration(self._first, self._first_joins)
        for rule, join in zip(self._first, self._first_joins, strict=True):
            if join.query.has_negation:
                columns = _gained(join, self._heads[rule.head].columns)
                if len(columns[0]):
                    more = IndexedZSet.from_sorted(columns, 1, self._backend)
                    also = found.get(rule.head)
                    found[rule.head] = more if also is None else _union(also, more)
        return found

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Per relation, all that was found, in every order that its index keeps."""
        self._views.clear()
        self._found.clear()
        whole: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        for name, index in self._heads.items():
            parts = self._iterations.pop(name)
            if parts:
                rows = self._with_ranks(parts)
                parts.clear()
                below = self._backend.xp.arange(len(rows[0]) + 1, dtype=np.int64)
                arranged = index.on_each(partial(self._arranged, rows, below), len(below))
                whole[name] = dict(zip(index.arrangements, arranged, strict=True))
        return whole

    def _arranged(self, rows: Sequence[Int64Array], below: Int64Array, arrangement: Arrangement) -> IndexedZSet:
        """The rows, which are sorted, in the order of an arrangement."""
        key = arrangement.key
        columns = [rows[column] for column in key.order]
        chosen = key.select(rows, self._backend)
        if chosen is not None:
            columns, below = [column[chosen] for column in columns], below[: len(chosen) + 1]
        if key.order != tuple(range(len(rows))):
            columns = self._backend.kernels.distinct_rows(columns)
        return ranked(columns, below, self._backend)

    def _with_ranks(self, parts: Sequence[tuple[int, IndexedZSet]]) -> list[Int64Array]:
        """All rows with their ranks, sorted."""
        xp = self._backend.xp
        columns = [batch.columns() for _, batch in parts]
        ranks = [xp.full(len(batch), rank, np.int64) for rank, batch in parts]
        if len(parts) == 1:
            return [*columns[0], ranks[0]]
        joined = [xp.concatenate(own) for own in zip(*columns, strict=True)]
        columns.clear()
        return self._backend.kernels.distinct_rows([*joined, xp.concatenate(ranks)])

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
            if path.seed.key.relation in self._heads:
                probed = [use.key for use in path.others if use.key.relation in self._heads]
                self._read.update((path.seed.key, *probed))
                self._found.update({key: Spine(policy=POLICY) for key in probed})
        return IncrementalGenericJoin(query, self._views, self._execution)

    def _seeded(self, path: DeltaPath) -> DeltaPath:
        """The path with its seeds in the order in which the rows are found, where that is all of them."""
        index = self._heads.get(path.seed.key.relation)
        if index is None:
            return path
        plain = self._plain(index)
        variable = dict(zip(path.seed.key.order, path.seed.variables, strict=True))
        if not path.seed.key.is_whole or len(variable) != index.columns:
            return replace(path, seeds=path.seeds[:1])
        seed = AtomUse(path.seed.atom, plain, tuple(variable[column] for column in plain.order))
        return replace(path, seeds=(seed,))

    def _iteration(self, rules: Sequence[LoopRule], joins: Sequence[IncrementalGenericJoin]) -> dict[str, IndexedZSet]:
        """What the rules derive that no iteration has found before."""
        found: dict[str, IndexedZSet] = {}
        for name, index in self._heads.items():
            own = [join for rule, join in zip(rules, joins, strict=True) if rule.head == name]
            if rules is self._first:
                own = [join for join in own if not join.query.has_negation]
            if own:
                columns = fresh_of(own, INSERTIONS, self._known(index))
                if len(columns[0]):
                    found[name] = IndexedZSet.from_sorted(columns, 1, self._backend)
        return found

    def _known(self, index: RankedIndex) -> dict[tuple[int, ...], list[IndexedZSet]]:
        """All rows of a relation that have been found, in every order in which they are at hand."""
        known = {}
        for key, spine in self._found.items():
            if key.relation == index.name and key.is_whole and len(key.order) == index.columns:
                pending = self._views[key].pending if key in self._views else ()
                known[key.order] = [*spine.batches, *(batch for batch in pending if len(batch))]
        return known

    def _take_in(self, found: Mapping[str, IndexedZSet], rank: int) -> None:
        """What the iteration before had found stands with all before it; what this one has found is new."""
        for key, view in self._views.items():
            for batch in view.pending:
                batch.forget_rows()
                if key in self._found:
                    self._found[key] = self._found[key].insert(batch)
                    view.spine = self._found[key]
            view.pending = ()
        for name, batch in found.items():
            self._iterations[name].append((rank, batch))
            plain = self._plain(self._heads[name])
            rows: PhaseRows | None = None
            for key in self._read:
                if key.relation == name:
                    if key != plain:
                        rows = rows or PhaseRows(batch.columns(), 1)
                    one = batch if rows is None or key == plain else self._views[key].index(rows)
                    self._views[key].pending = (IndexedZSet.empty(one.depth, self._backend), one)

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


def _union(left: IndexedZSet, right: IndexedZSet) -> IndexedZSet:
    """The rows of either, of weight 1."""
    both = left.merge(right)
    return IndexedZSet(both.values, both.offsets, None, both.backend)

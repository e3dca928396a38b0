"""Fill an empty loop: semi-naive evaluation of sets, one iteration a tick of the joins over what the last one found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.circuit.recursion.ranked import RankedIndex, ranked, unranked
from gpu_wcoj.circuit.recursion.rules import LoopRule, with_rank, without_rank
from gpu_wcoj.join.delta import Execution, IncrementalGenericJoin
from gpu_wcoj.join.fresh import fresh_of
from gpu_wcoj.join.path import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.index import IndexedZSet

POLICY = MergePolicy(ratio=2, most_batches=8)
"""For what the loop has found so far: every iteration brings a batch, and most are large."""

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
        self._new: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
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
        found = self._iteration(self._first, self._first_joins)
        while found:
            yield rank
            self._take_in(found, rank)
            rank += 1
            found = self._iteration(self._next, self._next_joins)

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Per relation, all that was found, in every order that its index keeps."""
        self._keep_new()
        self._views.clear()
        whole: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        for name, index in self._heads.items():
            own = self._found.get(index.canonical, Spine()).compact().batches
            if not own:
                continue
            batches = {index.canonical: own[0]}
            rest = [key for key in index.arrangements if key != index.canonical]
            rows = None
            for key in rest:
                kept = self._found.pop(key, None)
                if kept is not None:
                    merged = kept.compact().batches
                    if merged:
                        batches[key] = merged[0]
                    continue
                rows = rows or PhaseRows(own[0].columns(), 1)
                batches[key] = Arrangement(key, self._backend).index(rows)
            whole[name] = batches
        return whole

    def _over_views(self, query: DeltaQuery, outside: Mapping[ArrangementKey, Arrangement]) -> IncrementalGenericJoin:
        """The join with the rows of the loop, and the outside after the tick, which does not change any more."""
        query = replace(query, paths=tuple(self._seeded(path) for path in query.paths))
        for path in query.paths:
            for use in (*path.seeds, *path.others):
                if use.key in self._views:
                    continue
                view = self._views[use.key] = Arrangement(use.key, self._backend)
                if use.key.relation not in self._heads:
                    view.spine = Spine(outside[use.key].after(INSERTIONS))
            if path.seed.key.relation in self._heads:
                probed = [use.key for use in path.others if use.key.relation in self._heads]
                self._read.update((path.seed.key, *probed))
                self._found.update({with_rank(key, self._widths): Spine(policy=POLICY) for key in probed})
        return IncrementalGenericJoin(query, self._views, self._execution)

    def _seeded(self, path: DeltaPath) -> DeltaPath:
        """The path with its seeds in the order in which the rows are found, where that is all of them."""
        index = self._heads.get(path.seed.key.relation)
        if index is None:
            return path
        plain = without_rank(index.canonical)
        variable = dict(zip(path.seed.key.order, path.seed.variables, strict=True))
        if not path.seed.key.is_whole or len(variable) != index.columns:
            return replace(path, seeds=path.seeds[:1])
        seed = AtomUse(path.seed.atom, plain, tuple(variable[column] for column in plain.order))
        return replace(path, seeds=(seed,))

    @property
    def _widths(self) -> dict[str, int]:
        return {name: index.columns for name, index in self._heads.items()}

    def _iteration(self, rules: Sequence[LoopRule], joins: Sequence[IncrementalGenericJoin]) -> dict[str, IndexedZSet]:
        """What the rules derive that no iteration has found before."""
        found: dict[str, IndexedZSet] = {}
        for name, index in self._heads.items():
            own = [join for rule, join in zip(rules, joins, strict=True) if rule.head == name]
            if own:
                columns = fresh_of(own, INSERTIONS, self._known(index))
                if len(columns[0]):
                    found[name] = IndexedZSet.from_sorted(columns, 1, self._backend)
        return found

    def _known(self, index: RankedIndex) -> dict[tuple[int, ...], list[IndexedZSet]]:
        """All rows of a relation that have been found, in every order in which they are at hand."""
        known: dict[tuple[int, ...], list[IndexedZSet]] = {index.canonical.order[:-1]: []}
        for key in index.arrangements:
            if key == index.canonical or (key in self._found and key.is_whole):
                new = self._new.get(index.name, {})
                batches = [*self._found.get(key, Spine()).batches, *([new[key]] if key in new else [])]
                known[key.order[:-1]] = batches
        return known

    def _take_in(self, found: Mapping[str, IndexedZSet], rank: int) -> None:
        """What the iteration before had found stands with all before it; what this one has found is new."""
        self._keep_new()
        for name, batch in found.items():
            index = self._heads[name]
            plain = without_rank(index.canonical)
            own = self._new[name] = {index.canonical: ranked(batch, rank)}
            rows: PhaseRows | None = None
            for key in self._read:
                if key.relation != name:
                    continue
                view = self._views[key]
                if key == plain:
                    one = batch
                else:
                    rows = rows or PhaseRows(batch.columns(), 1)
                    one = view.index(rows)
                view.pending = (IndexedZSet.empty(one.depth, self._backend), one)
                with_its_rank = with_rank(key, self._widths)
                if with_its_rank in self._found:
                    own[with_its_rank] = ranked(one, rank)

    def _keep_new(self) -> None:
        for name, batches in self._new.items():
            for key, batch in batches.items():
                if len(batch):
                    spine = self._found.get(key, Spine(policy=POLICY)).insert(batch)
                    self._found[key] = spine
                    view = self._views.get(without_rank(key))
                    if view is not None:
                        view.spine = Spine(tuple(map(unranked, spine.batches)))
            for key, view in self._views.items():
                if key.relation == name:
                    view.pending = ()
        self._new = {}


def _seeds_in(query: DeltaQuery, heads: Mapping[str, RankedIndex]) -> bool:
    return any(path.seed.key.relation in heads for path in query.paths)

"""Counts of a change with automorphic atoms: one delta path counts for a whole orbit.

Let R change from b to a = b + d, and let Q(x, y) be the sum of weights if two automorphic atoms over R contain x and y.
Then Q(x, y) = Q(y, x), and the delta rule's sum for the two is

    Q(d, b) + Q(a, d) = 2 Q(d, b) + Q(d, d)

For three atoms that are permuted in a cycle, Q(x, y, z) = Q(y, z, x), and likewise

    Q(d, b, b) + Q(a, d, b) + Q(a, a, d) = 3 Q(d, a, b) + Q(d, d, d)

Other atoms are seen in the same state by the whole orbit: orbits are ordered; those before are seen after the tick, and
those behind before it. The remaining term joins changes with each other, which are few.

Rows are listed by the plain delta rule: there, every atom of an orbit derives different rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.plan import AtomUse, DeltaPath
from gpu_wcoj.join.symmetry import Symmetry
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.index import IndexedZSet

CHANGES = "#changes"
"""Suffix of a relation's name for its changes of this tick, used as a relation."""

MAX_COMPARED_ROWS = 64
"""Changed rows up to which their values are compared, to see whether any two can join."""

_Links = tuple[tuple[int, int], ...]
"""Levels of a change whose values have to meet if its rows join with each other."""


@dataclass(eq=False)
class _PartialJoin:
    """A join over some paths, and their indices in the full join."""

    join: IncrementalGenericJoin
    path_indices: Sequence[int]


@dataclass(eq=False)
class SymmetricCount:
    """The counts of one join by its `Symmetry`.

    The work is reported to the join: along a path under its index, and among changes under that plus the number of all
    paths.
    """

    join: IncrementalGenericJoin
    symmetry: Symmetry
    _multiple: _PartialJoin = field(init=False)
    _once: _PartialJoin = field(init=False)
    _within: _PartialJoin = field(init=False)
    _changes: dict[ArrangementKey, Arrangement] = field(default_factory=dict, init=False)
    _links: list[tuple[ArrangementKey, _Links]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        several, once, within = dict[int, DeltaPath](), dict[int, DeltaPath](), dict[int, DeltaPath]()
        paths = self.join.query.paths
        for orbit_index, (orbit, taken) in enumerate(
            zip(self.symmetry.orbits, self.symmetry.representatives, strict=True)
        ):
            other_atoms = [atom for atom in orbit if atom != taken]
            path = _with_after(paths[taken], self.symmetry.after(orbit_index))
            (several if other_atoms else once)[taken] = path
            if other_atoms:
                within[taken + len(paths)] = self._replace_by_changes(path, other_atoms)
                self._links.append((path.seed.key, _links(path, other_atoms)))
        self._multiple, self._once, self._within = map(self._partial_join, (several, once, within))

    def count(self, phase: int) -> int:
        """Return the result of `IncrementalGenericJoin.count`."""
        if all(arrangement.delta(phase) is None for arrangement in self.join.positive):
            return 0
        order, execution = self.symmetry.order, self.join.execution
        total = order * self._count_part(self._multiple, phase, order) + self._count_part(self._once, phase, 1)
        if not any(self._may_meet(key, links, phase) for key, links in self._links):
            return total
        try:
            for key, changes in self._changes.items():
                batch = self.join.arrangements[_state_key(key)].delta(phase)
                changes.spine = (
                    Spine() if batch is None else Spine((batch if execution.weighted else _unit_rows(batch),))
                )
            within = self._count_part(self._within, phase, 1)
        finally:  # drop the tick's changes
            for changes in self._changes.values():
                changes.spine = Spine()
        if not execution.weighted:  # each change has a sign; `count` applied one of them
            within *= execution.phases[phase] ** (order - 1)
        return total + within

    def _may_meet(self, key: ArrangementKey, links: _Links, phase: int) -> bool:
        """Return whether rows of a change may join with each other, by a quick test."""
        batch = self.join.arrangements[key].delta(phase)
        if batch is None or batch.n_rows > MAX_COMPARED_ROWS or batch.backend.device is not None:
            return batch is not None
        values = [set(row.tolist()) for row in batch.matrix]
        return not any(values[first_level].isdisjoint(values[second_level]) for first_level, second_level in links)

    def _count_part(self, share: _PartialJoin, phase: int, times: int) -> int:
        if not share.path_indices:
            return 0
        join, full_join = share.join, self.join
        join.begin()
        count = join.count(phase)
        full_join.finished.extend(
            (share.path_indices[path_index], path_work) for path_index, path_work in join.finished
        )
        for meter in join.meters:
            meter.path_index = share.path_indices[meter.path_index]
            full_join.meters.append(meter)
        full_join.seeds += times * join.seeds
        full_join.weight_bound = max(full_join.weight_bound, times * join.weight_bound)
        full_join.magnitude += times * join.magnitude
        return count

    def _replace_by_changes(self, path: DeltaPath, atoms: Sequence[int]) -> DeltaPath:
        """Return the path, and its variants, with changes in place of these atoms."""
        other_atoms = tuple(self._change_use(use) if use.atom in atoms else use for use in path.other_atoms)
        return replace(
            path,
            other_atoms=other_atoms,
            variants=tuple(self._replace_by_changes(variant, atoms) for variant in path.variants),
        )

    def _change_use(self, use: AtomUse) -> AtomUse:
        key = use.key._replace(relation=f"{use.key.relation}{CHANGES}")
        if key not in self._changes:
            self._changes[key] = Arrangement(key, self.join.execution.backend)
        return use._replace(key=key)

    def _partial_join(self, paths: dict[int, DeltaPath]) -> _PartialJoin:
        query = replace(
            self.join.query, paths=tuple(paths.values()), shared_variables=(), continuations=(), symmetry=None
        )
        arrangements = {**self.join.arrangements, **self._changes}
        return _PartialJoin(IncrementalGenericJoin(query, arrangements, self.join.execution), tuple(paths))


def _with_after(path: DeltaPath, after: frozenset[int]) -> DeltaPath:
    """Return the path, and its variants, seeing these atoms after the tick and others before it."""
    return replace(path, after=after, variants=tuple(_with_after(variant, after) for variant in path.variants))


def _links(path: DeltaPath, atoms: Sequence[int]) -> _Links:
    """Return the levels of a path's seed that hold its variables, and those of these atoms."""
    links = set()
    for use in path.other_atoms:
        for column, name in zip(use.key.order, use.variables, strict=True):
            if use.atom in atoms and name in path.seed.variables:
                links.add((path.seed.variables.index(name), path.seed.key.order.index(column)))
    return tuple(sorted(links))


def _state_key(key: ArrangementKey) -> ArrangementKey:
    return key._replace(relation=key.relation.removesuffix(CHANGES))


def _unit_rows(batch: IndexedZSet) -> IndexedZSet:
    """Return the rows of one phase of a set's change, deleted ones, too, with weight 1."""
    return batch if batch.weights is None else IndexedZSet(batch.values, batch.offsets, None, batch.backend)

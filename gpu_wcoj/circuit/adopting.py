"""Transfer the state of a circuit to one with another plan of the same rules.

Batches are immutable, so both circuits share the arrangements that they have in common; the previous circuit is not
changed. An arrangement that only the new circuit has is built from another arrangement of the same rows, in one pass of
sorting; a new auxiliary relation is joined.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import within_memory
from gpu_wcoj.zset.index import IndexedZSet


def adopt(circuit: Circuit, previous: Circuit) -> None:
    """Fill an empty circuit with the state of `previous`, which has the same relations.

    Raises
    ------
    AuxiliaryError
        If an auxiliary relation that only the empty circuit has exceeds its size limit.
    """
    with within_memory(circuit.backend, "arranging the state anew"):
        for index, source in _paired_indices(circuit, previous):
            made: dict[ArrangementKey, IndexedZSet] = {}
            for key, arrangement in index.arrangements.items():
                if key in source.arrangements:
                    arrangement.spine = source.arrangements[key].spine
                else:
                    batch = _arranged(arrangement, source, made)
                    if len(batch):
                        arrangement.spine = Spine((batch,), arrangement.spine.policy)
        for name, head in circuit.heads.items():
            if name not in previous.heads:
                from gpu_wcoj.circuit.auxiliary import AuxiliaryHead  # which few programs need

                assert isinstance(head, AuxiliaryHead)
                head.fill()
    for name, head in circuit.heads.items():
        leader = previous.heads.get(name, head)
        head.weight_bound = leader.weight_bound
        if isinstance(head, Head) and isinstance(leader, Head):
            head.total = leader.total


def rows_to_build(circuit: Circuit, previous: Circuit) -> int:
    """Return the number of rows that `adopt` would sort."""
    return sum(
        len(source.arrangements[_source_key(key, source)].spine)
        for index, source in _paired_indices(circuit, previous)
        for key in index.arrangements
        if key not in source.arrangements
    )


def _paired_indices(circuit: Circuit, previous: Circuit) -> Iterator[tuple[RelationIndex, RelationIndex]]:
    """Yield the pairs of indices of the relations and heads that both circuits have."""
    for name, index in circuit.sources.items():
        yield index, previous.sources[name]
    for name, head in circuit.heads.items():
        if name in previous.heads:
            yield from zip(head.state, previous.heads[name].state, strict=True)


def _source_key(key: ArrangementKey, index: RelationIndex) -> ArrangementKey:
    """Return the key of the arrangement from which to build `key`.

    It has the same selection if possible, else all rows.
    """
    return next(
        (candidate for candidate in index.arrangements if candidate.selection == key.selection), index.canonical
    )


def _arranged(arrangement: Arrangement, index: RelationIndex, made: dict[ArrangementKey, IndexedZSet]) -> IndexedZSet:
    """Build the batch of an arrangement from `index`; `made` caches merged arrangements."""
    key, backend = arrangement.key, arrangement.backend
    source = _source_key(key, index)
    if source not in made:
        batches = index.arrangements[source].spine.compact().batches
        made[source] = batches[0] if batches else IndexedZSet.empty(len(source.order), backend)
    rows = made[source]
    if source.selection == key.selection and rows.weights is None:
        return IndexedZSet.rearranged([rows], [source.order.index(column) for column in key.order], backend)
    if source.selection != key.selection:
        return arrangement.index(PhaseRows(*index.rows()))
    columns, weights = rows.columns(), rows.weight_column()
    places = [source.order.index(column) for column in key.order]
    order = backend.kernels.lexsort([columns[place] for place in places])
    return IndexedZSet.from_sorted([columns[place][order] for place in places], weights[order], backend)

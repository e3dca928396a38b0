"""Give a circuit the state of another one over the same relations, whose rules are planned otherwise.

Batches are immutable, so what both circuits arrange alike they share; the other one is left as it is. What only the new
one has is built from an arrangement of the same rows, in one pass of sorting; an auxiliary relation is joined.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import within_memory
from gpu_wcoj.zset.index import IndexedZSet


def adopt(circuit: Circuit, other: Circuit) -> None:
    """Let an empty circuit hold what another one holds, on the same backend, of the same relations and heads.

    Raises
    ------
    AuxiliaryError
        If an auxiliary relation that only the empty circuit has is not worth keeping.
    """
    with within_memory(circuit.backend, "arranging the state anew"):
        for index, source in _pairs(circuit, other):
            made: dict[ArrangementKey, IndexedZSet] = {}
            for key, arrangement in index.arrangements.items():
                if key in source.arrangements:
                    arrangement.spine = source.arrangements[key].spine
                else:
                    batch = _arranged(arrangement, source, made)
                    if len(batch):
                        arrangement.spine = Spine((batch,), arrangement.spine.policy)
        for name, head in circuit.heads.items():
            if name not in other.heads:
                from gpu_wcoj.circuit.auxiliary import AuxiliaryHead  # which few programs need

                assert isinstance(head, AuxiliaryHead)
                head.fill()
    for name, head in circuit.heads.items():
        leader = other.heads.get(name, head)
        head.weight_bound = leader.weight_bound
        if isinstance(head, Head) and isinstance(leader, Head):
            head.total = leader.total


def rows_to_build(circuit: Circuit, other: Circuit) -> int:
    """How many rows `adopt` would have to sort."""
    return sum(
        len(source.arrangements[_source(key, source)].spine)
        for index, source in _pairs(circuit, other)
        for key in index.arrangements
        if key not in source.arrangements
    )


def _pairs(circuit: Circuit, other: Circuit) -> Iterator[tuple[RelationIndex, RelationIndex]]:
    """What both circuits keep of each relation and head."""
    for name, index in circuit.sources.items():
        yield index, other.sources[name]
    for name, head in circuit.heads.items():
        if name in other.heads:
            yield from zip(head.state, other.heads[name].state, strict=True)


def _source(key: ArrangementKey, index: RelationIndex) -> ArrangementKey:
    """The arrangement to build one from: of the same rows, where there is one, else of all."""
    return next((held for held in index.arrangements if held.selection == key.selection), index.canonical)


def _arranged(arrangement: Arrangement, index: RelationIndex, made: dict[ArrangementKey, IndexedZSet]) -> IndexedZSet:
    """The rows of a relation as an arrangement of another one wants them; `made` keeps what has been merged."""
    key, backend = arrangement.key, arrangement.backend
    held = _source(key, index)
    if held not in made:
        batches = index.arrangements[held].spine.compact().batches
        made[held] = batches[0] if batches else IndexedZSet.empty(len(held.order), backend)
    whole = made[held]
    if held.selection == key.selection and whole.weights is None:
        return IndexedZSet.rearranged([whole], [held.order.index(column) for column in key.order], backend)
    if held.selection != key.selection:
        return arrangement.index(PhaseRows(*index.rows()))
    columns, weights = whole.columns(), whole.weight_column()
    places = [held.order.index(column) for column in key.order]
    order = backend.kernels.lexsort([columns[place] for place in places])
    return IndexedZSet.from_sorted([columns[place][order] for place in places], weights[order], backend)

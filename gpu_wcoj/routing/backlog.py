"""The changes that one side of the state has not applied yet: ticks of the other side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.circuit import Circuit, CircuitState
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.index import IndexedZSet

MAX_BACKLOG_TICKS = 1024
"""Maximum ticks of a backlog; a longer backlog is merged before the next tick."""

Change = tuple[IndexedZSet, ...]
"""One tick's change of one relation: its batches in the relation's canonical order."""


@dataclass(frozen=True, eq=False)
class Backlog:
    """Changes by tick and then by relation, where they were made.

    Attributes
    ----------
    ticks
        Per tick, in the order of `Circuit.indices`, the change of each relation.
    n_rows
        Changed rows of all.
    nbytes
        Bytes that they take.
    """

    ticks: tuple[tuple[Change, ...], ...] = ()
    n_rows: int = 0
    nbytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.ticks)

    def with_tick(self, circuit: Circuit) -> Backlog:
        """Return the backlog with the pending changes of a circuit whose tick was evaluated."""
        tick = tuple(_pending(index) for index in circuit.indices())
        batches = [batch for change in tick for batch in change]
        if not batches:
            return self
        more_rows, more_bytes = sum(map(len, batches)), sum(batch.nbytes for batch in batches)
        return Backlog((*self.ticks, tick), self.n_rows + more_rows, self.nbytes + more_bytes)


NO_BACKLOG = Backlog()


def _pending(index: RelationIndex) -> Change:
    return tuple(batch for batch in index.arrangements[index.canonical].pending if batch.n_rows)


def merge_backlog(circuit: Circuit, backlog: Backlog, ahead: Circuit) -> CircuitState:
    """Return the circuit's state after one merge of the backlog, without a join.

    The circuit itself is left with nothing pending and the state that it had, or, if anything is raised, to be
    installed again.
    """
    for position, index in enumerate(circuit.indices()):
        batches = [batch for tick in backlog.ticks for batch in tick[position]]
        if batches:
            columns, weights = _summed(batches, ahead.indices()[position])
            if len(weights):
                index.receive_delta([PhaseRows(*moved(columns, weights, ahead.backend, circuit.backend))])
    for head, leader in zip(circuit.heads.values(), ahead.heads.values(), strict=True):
        head.pending_bound = leader.weight_bound
        if isinstance(head, Head) and isinstance(leader, Head):
            head.pending_total = leader.total
    circuit_state = circuit.prepare()
    circuit.discard()
    return circuit_state


def _summed(batches: Sequence[IndexedZSet], index: RelationIndex) -> tuple[Sequence[Int64Array], Int64Array]:
    """Return the sum of batches as sorted rows of the relation; weights modulo 2^64."""
    backend, order = index.backend, index.canonical.order
    parts = [batch.columns() for batch in batches]
    places = [order.index(column) for column in range(index.width)]
    columns = [_joined(backend, [part[place] for part in parts]) for place in places]
    weights = _joined(backend, [batch.weight_column() for batch in batches])
    return backend.kernels.consolidate(columns, weights)


def _joined(backend: Backend, parts: Sequence[Int64Array]) -> Int64Array:
    joined: Int64Array = parts[0] if len(parts) == 1 else backend.xp.concatenate(parts)
    return joined


def moved(
    columns: Sequence[Int64Array], weights: Int64Array, source: Backend, target: Backend
) -> tuple[Sequence[Int64Array], Int64Array]:
    """Return rows of `source` in the memory of `target`."""
    if source.device is target.device:
        return columns, weights
    return [target.asarray(source.to_host(column)) for column in columns], target.asarray(source.to_host(weights))

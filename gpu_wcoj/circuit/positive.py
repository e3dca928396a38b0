"""The positive part of a bag as a set, which loops read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_wcoj.circuit.head import ChangeCount, PieceSink
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.arrays import positions


@dataclass(eq=False)
class PositiveHead:
    """The positive part of a bag: rows of weight 1, which change in two phases as a set does.

    Attributes
    ----------
    source
        The relation that is a bag.
    relation
        The state; it has the name and the columns of the source.
    """

    name: str
    source: RelationIndex
    relation: RelationIndex
    derivations: None = None
    weight_bound: int = 0
    pending_bound: int = 0

    def begin(self) -> None:
        """Do nothing: the head has no data of the previous tick."""

    def evaluate(
        self,
        collect: bool,
        sink: PieceSink | None = None,  # noqa: ARG002  # only loops read it
    ) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Compute this tick's change from the pending change of the source."""
        backend, width = self.source.backend, self.source.width
        changed = self.source.delta(0)
        if changed is None:
            self.relation.discard()
            nothing = [backend.xp.empty(0, "int64")] * width
            return ChangeCount(0, 0, 0), [PhaseRows(nothing, -1), PhaseRows(nothing, 1)] if collect else None
        order = self.source.canonical.order
        rows = changed.columns()
        columns = [rows[order.index(column)] for column in range(width)]
        before = self.source.weights_of(columns)
        after = before + changed.weight_column()
        gone, come = positions(backend, (before > 0) & (after <= 0), (before <= 0) & (after > 0))
        phases = []
        for chosen, sign in ((gone, -1), (come, 1)):
            rows_of_phase = [column[chosen] for column in columns]
            if order != tuple(range(width)) and len(chosen):
                rows_of_phase = backend.kernels.distinct_rows(rows_of_phase)
            phases.append(PhaseRows(rows_of_phase, sign))
        self.relation.receive_delta(phases)
        return ChangeCount(len(come), len(gone), len(come) - len(gone)), phases if collect else None

    @property
    def joins(self) -> Sequence[IncrementalGenericJoin]:
        """Empty: the head has no joins."""
        return ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Name of the source relation."""
        return (self.source.name,)

    @property
    def state(self) -> tuple[RelationIndex, ...]:
        """Indices that the head keeps between ticks."""
        return (self.relation,)

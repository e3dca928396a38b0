"""The set of a bag's rows of positive weight, as loops read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_wcoj.circuit.head import ChangeCount, PieceSink
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.arrays import positions


@dataclass(eq=False)
class PositiveHead:
    """The rows of positive weight of another relation, each of weight 1, changing in two phases as those of a set do.

    Attributes
    ----------
    source
        The other relation, of a bag.
    relation
        The state; it bears the source's name, as its columns are the source's.
    """

    name: str
    source: RelationIndex
    relation: RelationIndex
    derivations: None = None
    weight_bound: int = 0
    pending_bound: int = 0

    def begin(self) -> None:
        """There is nothing to forget."""

    def evaluate(
        self,
        collect: bool,
        sink: PieceSink | None = None,  # noqa: ARG002  # nobody reads it but loops
    ) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """This tick's change, from the pending change of the source."""
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
            own = [column[chosen] for column in columns]
            if order != tuple(range(width)) and len(chosen):
                own = backend.kernels.distinct_rows(own)
            phases.append(PhaseRows(own, sign))
        self.relation.receive_delta(phases)
        return ChangeCount(len(come), len(gone), len(come) - len(gone)), phases if collect else None

    @property
    def joins(self) -> Sequence[IncrementalGenericJoin]:
        """None."""
        return ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The other relation."""
        return (self.source.name,)

    @property
    def state(self) -> tuple[RelationIndex, ...]:
        """What it keeps between ticks."""
        return (self.relation,)

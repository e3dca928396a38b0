"""The changes that a checkpoint has not written yet: those since its last version."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.routing.backlog import NO_BACKLOG, Backlog
from gpu_wcoj.routing.sides import Replicas

FLOOR_ROWS = 1 << 16
"""Changes of fewer rows than this are always stored as changes."""


@dataclass(frozen=True, eq=False)
class Journal:
    """Changes since one written version; immutable, as the state that contains it.

    Attributes
    ----------
    version
        Which version.
    circuit
        The primary circuit at that time; under another one the state is written whole.
    changes
        None once they would be more than half of the state, which is then written whole.
    """

    version: str
    circuit: Circuit | None
    changes: Backlog | None = NO_BACKLOG

    def after(self, sides: Replicas, ran: Circuit) -> Journal:
        """Return the journal with the pending changes of the circuit `ran` of a tick."""
        if self.changes is None:
            return self
        if sides.primary.circuit is not self.circuit:
            return replace(self, changes=None)
        changes = self.changes.with_tick(ran)
        if changes.n_rows > FLOOR_ROWS and 2 * changes.n_rows > sides.primary.relation_rows:
            return replace(self, changes=None)
        return replace(self, changes=changes)

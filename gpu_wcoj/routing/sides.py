"""The replicas of a state: the primary one, and optionally a twin on the CPU.

A tick runs on one side. The other records what became of it and takes it in before it next runs; so at most one side
is behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.adopting import adopt
from gpu_wcoj.circuit.circuit import Circuit, CircuitState
from gpu_wcoj.engine.compile import CompiledProgram, Compiler
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.routing.backlog import NO_BACKLOG, Backlog, merge_backlog, moved
from gpu_wcoj.zset.index import IndexedZSet

REBUILD_SHARE = 0.5
"""Maximum backlog of a twin as a share of its rows; a twin with more is dropped, as a new one reads no more rows."""


@dataclass(frozen=True, eq=False)
class Replica:
    """One copy of the state.

    Attributes
    ----------
    lowered
        The program, and the circuit that evaluates it here.
    held
        What the circuit holds; the circuit itself may be in the middle of a tick.
    backlog
        What it has still to take in.
    """

    lowered: CompiledProgram
    circuit_state: CircuitState
    backlog: Backlog = NO_BACKLOG

    @property
    def circuit(self) -> Circuit:
        """The circuit that evaluates ticks on this side."""
        return self.lowered.circuit

    @property
    def rows(self) -> int:
        """Rows of all arrangements."""
        return sum(len(spine) for spines in self.circuit_state.spines for spine in spines.values())

    @property
    def batches(self) -> list[IndexedZSet]:
        """Batches of all arrangements."""
        return [batch for spines in self.circuit_state.spines for spine in spines.values() for batch in spine.batches]

    @property
    def nbytes(self) -> int:
        """Bytes of the state's arrays and of the backlog."""
        return sum(batch.nbytes for batch in self.batches) + self.backlog.nbytes

    @property
    def bytes_beside(self) -> int:
        """Bytes of the search structures that kernels built; another side builds its own."""
        return sum(batch.bytes_beside for batch in self.batches)

    @property
    def relation_rows(self) -> int:
        """Rows of all relations."""
        indices = zip(self.circuit.indices(), self.circuit_state.spines, strict=True)
        return sum(len(spines[index.canonical]) for index, spines in indices)

    def with_backlog(self, circuit: Circuit) -> Replica:
        """Return this side with one more tick in its backlog: the other circuit's pending changes."""
        return Replica(self.lowered, self.circuit_state, self.backlog.with_tick(circuit))

    def install(self) -> None:
        """Make the circuit hold the state of this side."""
        self.circuit.install(self.circuit_state)

    def planned_as(self, lowering: Compiler, plan: Plan, chosen: str) -> Replica:
        """Return this up-to-date side under another plan; common arrangements are shared."""
        circuit = lowering.circuit(plan, self.circuit.execution)
        adopt(circuit, self.circuit)
        return Replica(replace(self.lowered, plan=plan, circuit=circuit, chosen=chosen), circuit.snapshot())

    def caught_up(self, ahead: Replica) -> Replica:
        """Return this side with its backlog merged and installed; itself without a backlog."""
        if not self.backlog:
            return self
        side = Replica(self.lowered, merge_backlog(self.circuit, self.backlog, ahead.circuit))
        side.install()
        return side


@dataclass(frozen=True, eq=False)
class Replicas:
    """All copies of the state.

    Attributes
    ----------
    primary
        Where the program keeps it.
    twin
        The other one, if there is one.
    credit
        Seconds that ticks would have saved on the side that was not ready for them.
    """

    primary: Replica
    twin: Replica | None = None
    credit: float = 0.0

    @classmethod
    def from_compiled(cls, lowered: CompiledProgram) -> Replicas:
        """Return the sides of a program that has just been compiled."""
        return cls(Replica(lowered, lowered.circuit.snapshot()))

    def __iter__(self) -> Iterator[Replica]:
        yield self.primary
        if self.twin is not None:
            yield self.twin

    @property
    def ahead(self) -> Replica:
        """A side that is up to date; the primary one if both are."""
        return self.twin if self.twin is not None and self.primary.backlog else self.primary

    @property
    def backlog_rows(self) -> dict[str, int]:
        """Per backend, the changed rows that it has not applied yet; empty without a twin."""
        if self.twin is None:
            return {}
        sides = zip((self.primary, self.twin), self.labels, strict=True)
        return {label: side.backlog.n_rows for side, label in sides}

    @property
    def labels(self) -> tuple[str, str]:
        """The names of the sides."""
        name = self.primary.circuit.backend.name
        twin = "cpu" if self.twin is None else self.twin.circuit.backend.name
        return name, twin if twin != name else f"{twin} twin"

    def lowered_as(self, lowered: CompiledProgram) -> Replicas:
        """Return the same rows in another compiled program; unshared parts are dropped."""
        if lowered is self.primary.lowered:
            return self
        if lowered.circuit is not self.primary.circuit:
            return Replicas.from_compiled(lowered)
        twin = self.twin
        if twin is not None:
            twin = replace(twin, lowered=replace(lowered, circuit=twin.circuit))
        return replace(self, primary=replace(self.primary, lowered=lowered), twin=twin)

    def planned_as(self, lowering: Compiler, plan: Plan, chosen: str) -> Replicas:
        """Return the same rows under another plan, on all sides; this object stays unchanged."""
        sides = self.up_to_date()
        primary = sides.primary.planned_as(lowering, plan, chosen)
        twin = None if sides.twin is None else sides.twin.planned_as(lowering, plan, chosen)
        return Replicas(primary, twin, sides.credit)

    def noting(self, plan: Plan, chosen: str) -> Replicas:
        """Return the same plan with other estimates and another reason."""
        replicas = [replace(side, lowered=replace(side.lowered, plan=plan, chosen=chosen)) for side in self]
        return replace(self, primary=replicas[0], twin=replicas[1] if len(replicas) > 1 else None)

    def with_twin(self, lowering: Compiler, backend: Backend) -> Replicas:
        """Return the sides with a twin built from the up-to-date primary side."""
        circuit = self.primary.circuit
        execution = replace(circuit.execution, backend=backend)
        twin = lowering.circuit(self.primary.lowered.plan, execution)
        for index, source in zip(twin.indices(), circuit.indices(), strict=True):
            if len(source):
                index.load(*moved(*source.rows(), circuit.backend, backend))
        for head, leader in zip(twin.heads.values(), circuit.heads.values(), strict=True):
            head.weight_bound = leader.weight_bound
        return Replicas(self.primary, Replica(replace(self.primary.lowered, circuit=twin), twin.snapshot()))

    def up_to_date(self) -> Replicas:
        """Return the sides with all backlogs merged."""
        return self.with_primary().with_twin_up_to_date()

    def as_installed(self) -> Replicas:
        """Return the same rows as the circuits hold them now, possibly in other batches."""
        replicas = [replace(side, circuit_state=side.circuit.snapshot()) for side in self]
        return replace(self, primary=replicas[0], twin=replicas[1] if len(replicas) > 1 else None)

    def without_twin(self) -> Replicas:
        """Return the up-to-date primary side only."""
        return self if self.twin is None else Replicas(self.with_primary().primary)

    def with_primary(self) -> Replicas:
        """Return the sides with the primary side up to date."""
        if not self.primary.backlog:
            return self
        return Replicas(self.primary.caught_up(self.ahead), self.twin)

    def with_twin_up_to_date(self) -> Replicas:
        """Return the sides with an existing twin up to date."""
        if self.twin is None or not self.twin.backlog:
            return self
        return Replicas(self.primary, self.twin.caught_up(self.primary))

    def after(self, side: Replica, circuit_state: CircuitState) -> Replicas:
        """Return the sides after a tick on `side`, whose circuit then holds `circuit_state`.

        The tick is still pending in the circuit.
        """
        ticked = Replica(side.lowered, circuit_state)
        if self.twin is None:
            return Replicas(ticked, None, self.credit)
        if side is self.twin:
            return Replicas(self.primary.with_backlog(side.circuit), ticked, self.credit)
        twin = self.twin.with_backlog(side.circuit)
        if len(twin.backlog.ticks) and twin.backlog.n_rows > REBUILD_SHARE * twin.relation_rows:
            return Replicas(ticked)
        return Replicas(ticked, twin, self.credit)

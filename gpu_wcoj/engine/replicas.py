"""The state on the device and its replica on the CPU: where a tick runs, and what it costs."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpu_wcoj.backend import Backend, select_backend
from gpu_wcoj.circuit.circuit import Circuit, CircuitState, adopt
from gpu_wcoj.engine.compile import CompiledProgram, Compiler
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import PROPOSALS, Int64Array
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.units import format_bytes, machine_memory, part_of
from gpu_wcoj.zset.arrays import joined_columns
from gpu_wcoj.zset.index import IndexedZSet

ALWAYS = 1 << 62
"""A number of rows above that of any tick."""

Work = dict[str, dict[int, dict[int, dict[str, Int64Array]]]]
"""Per head, rule, delta path and variable, what the kernels counted; see `gpu_wcoj.kernels.protocol`."""

LEARNED_SHARE = 0.25
"""Weight of one tick in a learned ratio, from 0 to 1: about the last four ticks decide, whatever their size."""


class Workload(NamedTuple):
    """The work that a tick brings.

    Attributes
    ----------
    rows
        Changed rows that are given.
    values
        Values that joins are expected to propose for them.
    """

    rows: int
    values: float = 0.0


@dataclass(frozen=True)
class SideCosts:
    """Expected seconds on one side: ``fixed + per_row * rows + per_value * values``.

    Attributes
    ----------
    fixed, per_row, per_value
        Of a tick.
    take_in_fixed, take_in_per_row
        Of taking in a backlog.
    """

    fixed: float
    per_row: float
    per_value: float
    take_in_fixed: float
    take_in_per_row: float

    def tick(self, work: Workload) -> float:
        """Return the seconds of a tick."""
        return self.fixed + self.per_row * work.rows + self.per_value * work.values

    def take_in(self, n_rows: float) -> float:
        """Return the seconds of taking in a backlog."""
        return self.take_in_fixed + self.take_in_per_row * n_rows


@dataclass(frozen=True)
class CostModel:
    """The costs of both sides: a tick costs its own side's time and the other side's merge.

    The fixed part of taking in is shared by many ticks and counts only where a backlog stands before a tick.

    Attributes
    ----------
    device, cpu
        The primary side and its twin.
    build_per_row
        Seconds that a row of the state costs when a twin is built.
    is_measured
        Whether the costs were measured on this machine.
    """

    device: SideCosts
    cpu: SideCosts
    build_per_row: float
    is_measured: bool = True

    def saving(self, work: Workload) -> float:
        """Return the seconds that a tick saves on the twin if both are ready; negative for a loss.

        Examples
        --------
        >>> ASSUMED.saving(Workload(0)) > 0 > ASSUMED.saving(Workload(10**6))
        True
        >>> ASSUMED.saving(Workload(1_000)) > 0 > ASSUMED.saving(Workload(1_000, 10**6))
        True
        """
        there = self.device.tick(work) + self.cpu.take_in_per_row * work.rows
        here = self.cpu.tick(work) + self.device.take_in_per_row * work.rows
        return there - here

    def threshold(self, values_per_row: float = 0.0) -> int:
        """Return the number of rows from which on a tick no longer costs less on the twin.

        Parameters
        ----------
        values_per_row
            Values that joins propose for a changed row.

        Examples
        --------
        >>> ASSUMED.threshold(), ASSUMED.threshold(1_500)
        (3113, 243)
        """
        at_none = self.saving(Workload(0))
        slope = at_none - self.saving(Workload(1, values_per_row))
        if at_none <= 0:
            return 0
        return ALWAYS if slope <= 0 else min(ALWAYS, math.ceil(round(at_none / slope, 6)))

    def to_json(self) -> dict[str, Any]:
        """Return a form of the costs for a file."""
        return {"device": asdict(self.device), "cpu": asdict(self.cpu), "build_per_row": self.build_per_row}

    @classmethod
    def from_json(cls, data: Any) -> CostModel:
        """Read what `to_json` returned.

        Raises
        ------
        ValueError
            If it is anything else.
        """
        device, cpu, build_per_row = _fields(data, ("device", "cpu", "build_per_row"))
        return cls(_side(device), _side(cpu), _seconds(build_per_row))


def _side(data: Any) -> SideCosts:
    return SideCosts(*map(_seconds, _fields(data, [field.name for field in fields(SideCosts)])))


def _fields(data: Any, names: Sequence[str]) -> list[Any]:
    if not isinstance(data, Mapping) or set(data) != set(names):
        raise ValueError(f"the costs have other fields than expected: {', '.join(names)}")
    return [data[name] for name in names]


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"a cost is {value!r}, and not a number of seconds")
    return float(value)


ASSUMED = CostModel(
    device=SideCosts(5e-3, 0.0, 0.08e-9, 0.6e-3, 0.06e-6),
    cpu=SideCosts(0.3e-3, 1.5e-6, 12e-9, 0.2e-3, 0.05e-6),
    build_per_row=0.4e-6,
    is_measured=False,
)
"""Seconds, until they are measured on the machine at hand.

The device is an H200. Its ticks of a triangle take 3.5 to 7 ms up to 100,000 edges, and large ones 0.08 ns a value. A
value costs the CPU 7 to 20 ns (triangles, 4-cliques and 4-cycles, ticks of 1,000 and 10,000 edges on R-MAT graphs of
scale 15, one thread), and a row 1.5 µs or more (lookups that propose nothing, beside the H200). Triangles over R-MAT 17
cross between 1,000 and 3,000 edges there.
"""


def proposed_by(work: Work) -> int:
    """Return the values that all joins of a tick have proposed."""
    paths = (levels for rules in work.values() for paths in rules.values() for levels in paths.values())
    return sum(counted.item(PROPOSALS) for levels in paths for counted in levels.values())


@dataclass(eq=False)
class Forecast:
    """Values that ticks of a plan will propose: estimates corrected by recent ticks.

    A changed row is expected to propose what its relation's delta paths are estimated to propose, and one value more,
    so that something is expected where nothing is known. What changes of derived relations propose later in the tick,
    and what estimates get wrong, is in the correction.

    Attributes
    ----------
    plan
        The plan that the rates are of.
    rates
        Per relation, the values that a changed row of it is expected to propose.
    correction
        Values that recent ticks proposed, by those expected.
    values_per_row
        Values that recent ticks proposed for a changed row; before the first, the mean of the rates.
    """

    plan: Plan | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    correction: float = 1.0
    values_per_row: float = 1.0

    def follow(self, plan: Plan) -> None:
        """Take over the estimates of a plan; nothing happens if it is the present one."""
        if plan is self.plan:
            return
        rates: dict[str, float] = {}
        for head, queries in plan.queries.items():
            for query, paths in zip(queries, plan.estimates.get(head, ()), strict=False):
                for path, levels in zip(query.paths, paths, strict=False):
                    relation = path.seed.key.relation
                    rates[relation] = rates.get(relation, 0.0) + sum(level.proposed for level in levels[1:])
        self.plan, self.rates, self.correction = plan, rates, 1.0
        self.values_per_row = 1.0 + (sum(rates.values()) / len(rates) if rates else 0.0)

    def expected_work(self, rows: Mapping[str, int]) -> Workload:
        """Return the work that a tick of so many changed rows per relation is expected to bring."""
        return Workload(sum(rows.values()), self._expected(rows) * self.correction)

    def observe(self, rows: Mapping[str, int], work: Work) -> None:
        """Learn from a tick of so many changed rows per relation. O(levels of all delta paths)."""
        n_rows = sum(rows.values())
        if not n_rows:
            return
        values = n_rows + proposed_by(work)  # one for each row, as expected
        self.correction = _drawn_to(self.correction, values / self._expected(rows))
        self.values_per_row = _drawn_to(self.values_per_row, values / n_rows)

    def _expected(self, rows: Mapping[str, int]) -> float:
        return sum(n_rows * (1.0 + self.rates.get(relation, 0.0)) for relation, n_rows in rows.items())


def _drawn_to(learned: float, ratio: float) -> float:
    """Return a learned ratio after one more tick, by geometric means.

    Ratios span orders of magnitude.
    """
    return learned * math.pow(ratio / learned, LEARNED_SHARE)


# The changes that one side of the state has not applied yet: ticks of the other side.


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
        head.pending_total = leader.total
    circuit_state = circuit.prepare()
    circuit.discard()
    return circuit_state


def _summed(batches: Sequence[IndexedZSet], index: RelationIndex) -> tuple[Sequence[Int64Array], Int64Array]:
    """Return the sum of batches as sorted rows of the relation; weights modulo 2^64."""
    backend, order = index.backend, index.canonical.order
    *columns, weights = joined_columns([[*batch.columns(), batch.weight_column()] for batch in batches], backend.xp)
    return backend.kernels.consolidate([columns[order.index(column)] for column in range(index.width)], weights)


def moved(
    columns: Sequence[Int64Array], weights: Int64Array, source: Backend, target: Backend
) -> tuple[Sequence[Int64Array], Int64Array]:
    """Return rows of `source` in the memory of `target`."""
    if source.device is target.device:
        return columns, weights
    return [target.asarray(source.to_host(column)) for column in columns], target.asarray(source.to_host(weights))


# The replicas of a state: the primary one, and optionally a twin on the CPU.
#
# A tick runs on one side. The other records what became of it and takes it in before it next runs; so at most one side
# is behind.


REBUILD_SHARE = 0.5
"""Maximum backlog of a twin as a share of its rows; a twin with more is dropped, as a new one reads no more rows."""


@dataclass(frozen=True, eq=False)
class Replica:
    """One copy of the state.

    Attributes
    ----------
    lowered
        The program, and the circuit that evaluates it here.
    circuit_state
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
        """Bytes of running merges and of the search structures that kernels built.

        Another side has its own.
        """
        spines = [spine for spines in self.circuit_state.spines for spine in spines.values()]
        running = sum(running.merge.nbytes for spine in spines for running in spine.running)
        return running + sum(batch.bytes_beside for batch in self.batches)

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

    def on(self, lowering: Compiler, backend: Backend) -> Replica:
        """Return this side on another backend of the same memory; arrays are shared."""
        circuit = lowering.circuit(self.lowered.plan, replace(self.circuit.execution, backend=backend))
        adopt(circuit, self.circuit)
        return Replica(replace(self.lowered, circuit=circuit), circuit.snapshot(), self.backlog)

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
    def nbytes(self) -> int:
        """Bytes of all sides, with their backlogs and search structures."""
        return sum(side.nbytes + side.bytes_beside for side in self)

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

    def on(self, lowering: Compiler, backend: Backend) -> Replicas:
        """Return the same rows and plan with the primary side on another backend of the same memory."""
        return replace(self, primary=self.primary.on(lowering, backend))

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


# The changes that a checkpoint has not written yet: those since its last version.


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


# The choice of the side on which a tick runs.
#
# A tick of little work is cheaper on the CPU and one of much on the device; `CostModel` says where the two meet. If the
# cheaper side is not ready, because it has a backlog or is not there yet, ticks run on the other one until what they
# would have saved pays for making it ready. So making ready never costs more than as much again as it would have cost
# to know the future.


BACKLOG_SHARE = 0.125
"""Maximum size of a backlog as a share of the twin's memory; a larger one is merged before the next tick."""

BUILD_SHARE = 0.75
"""Maximum size of a state, as a share of the twin's memory, for which a twin is built; it leaves room to grow."""


@dataclass(frozen=True)
class Route:
    """The rule for the side of a tick.

    Attributes
    ----------
    threshold
        Ticks of fewer given rows run on the twin; None if their expected costs decide.
    is_forced
        Whether they do whatever it costs to make the twin ready.
    source
        Where the threshold comes from, for people.
    """

    threshold: int | None
    is_forced: bool
    source: str

    @classmethod
    def from_option(cls, option: Literal["auto", "device", "cpu"] | int, model: CostModel) -> Route:
        """Return the route of a user's option."""
        if option == "auto":
            return cls(None, False, "measured on this machine" if model.is_measured else _ASSUMED)
        if option == "device":
            return cls(0, True, "as asked for")
        if option == "cpu":
            return cls(ALWAYS, True, "as asked for")
        return cls(min(option, ALWAYS), True, "as asked for")


_ASSUMED = "assumed; not measured on this machine: gpu-wcoj calibrate"


def router_of(lowering: Compiler, primary: Backend, options: ProgramOptions) -> Router | None:
    """Return the router of a program with its state on `primary`; None without a twin."""
    there_is, twin_memory = machine_memory(), options.twin_memory
    memory = there_is // 4 if twin_memory is None else part_of(there_is, twin_memory, "twin_memory", "host")
    if options.twin is None and primary.device is None:
        return None
    twin_backend = select_backend("cpu" if options.twin is None else options.twin, is_lasting=True)
    model = (stored_model(primary, twin_backend) if options.route == "auto" else None) or ASSUMED
    return Router(lowering, twin_backend, Route.from_option(options.route, model), model, memory)


@dataclass(frozen=True, eq=False)
class Router:
    """Chooses the side of every tick, and makes it ready.

    Attributes
    ----------
    backend
        Of the twin.
    memory
        Bytes that the twin may take, with what it has still to take in. A state that is larger has no twin.
    """

    lowering: Compiler
    backend: Backend
    route: Route
    model: CostModel
    memory: int

    def described(self, values_per_row: float) -> str:
        """Describe where ticks run if joins propose so many values for a changed row."""
        threshold, at_rate = self.route.threshold, ""
        if threshold is None:
            threshold = self.model.threshold(values_per_row)
            at_rate = f" at {values_per_row:,.0f} values a row"
        if threshold == 0:
            ticks = "all ticks run on the device"
        elif threshold >= ALWAYS:
            ticks = f"all ticks run on the CPU{at_rate}"
        else:
            ticks = f"ticks of fewer than {threshold:,} rows run on the CPU{at_rate}"
        return f"{ticks} ({self.route.source}); the state there takes up to {format_bytes(self.memory)}"

    def routed(self, sides: Replicas, work: Workload) -> tuple[Replicas, Replica]:
        """Return the sides, and the side for a tick of that work, which is ready for it."""
        fits = self._fits(sides)
        sides = self._tended(sides) if fits else sides.without_twin()
        to_twin = fits and self.prefers_twin(work)
        if self._is_ready(sides, to_twin):
            return sides, _chosen(sides, to_twin)
        if not self.route.is_forced:
            credit = sides.credit + abs(self.model.saving(work))
            if credit < self._seconds_to_ready(sides, to_twin):
                return replace(sides, credit=credit), _chosen(sides, not to_twin)
        if not to_twin:
            sides = sides.with_primary()
        elif sides.twin is None:
            sides = sides.with_twin(self.lowering, self.backend)
        else:
            sides = sides.with_twin_up_to_date()
        return sides, _chosen(sides, to_twin)

    def reading(self, sides: Replicas, is_stored: bool) -> tuple[Replicas, Replica]:
        """Return the sides, and an up-to-date side to read a relation from.

        A relation that is joined afresh is worth the device, unless no tick is to run there.
        """
        if not is_stored and self.route.threshold != ALWAYS:
            sides = sides.with_primary()
        return sides, sides.ahead

    def prefers_twin(self, work: Workload) -> bool:
        """Return whether a tick of that work is for the twin, once it is ready."""
        if self.route.threshold is None:
            return self.model.saving(work) > 0
        return work.rows < self.route.threshold

    def _tended(self, sides: Replicas) -> Replicas:
        """Return the sides after merging backlogs that are too large."""
        if sides.twin is None:
            return sides
        for side in sides:
            if side.backlog.nbytes > BACKLOG_SHARE * self.memory or len(side.backlog.ticks) > MAX_BACKLOG_TICKS:
                return sides.up_to_date()
        return sides

    def _fits(self, sides: Replicas) -> bool:
        """Return True if the twin, or a twin to be built, keeps within its memory."""
        if sides.twin is not None:
            return sides.twin.nbytes <= self.memory
        return sides.primary.nbytes <= BUILD_SHARE * self.memory

    def _is_ready(self, sides: Replicas, to_twin: bool) -> bool:
        side = sides.twin if to_twin else sides.primary
        return side is not None and not side.backlog

    def _seconds_to_ready(self, sides: Replicas, to_twin: bool) -> float:
        if not to_twin:
            return self.model.device.take_in(sides.primary.backlog.n_rows)
        if sides.twin is None:
            return self.model.build_per_row * sides.primary.relation_rows
        return self.model.cpu.take_in(sides.twin.backlog.n_rows)


def _chosen(sides: Replicas, to_twin: bool) -> Replica:
    if not to_twin:
        return sides.primary
    assert sides.twin is not None
    return sides.twin


# Measured costs in the user's cache: a JSON file with an entry per machine and version.


FORMAT = 2
"""Format version. Files with another version are rejected."""

_LOGGER = logging.getLogger("gpu_wcoj")


def store_path() -> Path:
    """Return the path ``gpu_wcoj/routing.json`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return folder / "gpu_wcoj" / "routing.json"


def machine_key(primary: Backend, twin: Backend) -> str:
    """Return the key of measured costs: version, backends, device, driver, CuPy, processor."""
    version = import_module("gpu_wcoj").__version__  # no import statement: the package's names stand above this module
    device = primary.kernels.name if primary.device is None else primary.device.description
    arrays = str(getattr(primary.xp, "__version__", ""))  # CuPy's: it comes with a version of CUDA's runtime
    return " | ".join([version, primary.name, device, arrays, twin.kernels.name, _processor()])


def stored_model(primary: Backend, twin: Backend) -> CostModel | None:
    """Return the costs measured on this machine; None, with a log line, if unreadable."""
    path = store_path()
    try:
        entries, key = _entries(path), machine_key(primary, twin)
        return CostModel.from_json(entries[key]) if key in entries else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _LOGGER.warning("the measured costs in '%s' cannot be used (%s): measure them again.", path, error)
        return None


def store(primary: Backend, twin: Backend, model: CostModel) -> Path:
    """Store the costs; the file is replaced atomically."""
    path = store_path()
    try:
        entries = _entries(path)
    except (OSError, ValueError):
        entries = {}
    entries[machine_key(primary, twin)] = model.to_json()
    from gpu_wcoj.destination import replacing  # which a process that only reads them does without

    with replacing(path) as file:
        file.write(json.dumps({"format": FORMAT, "costs": entries}, indent=2, sort_keys=True).encode())
    return path


def _entries(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("costs"), dict):
        raise ValueError(f"it is not of format {FORMAT}")
    entries: dict[str, Any] = data["costs"]
    return entries


def _processor() -> str:
    """Return the processor's model, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

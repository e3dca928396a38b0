"""The state that a tick replaces atomically, the report of a tick, and replanning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from gpu_wcoj.backend import Backend, next_backend
from gpu_wcoj.budget import Budget, limiting
from gpu_wcoj.circuit.circuit import Circuit, CircuitState, TickProfile, rows_to_build
from gpu_wcoj.circuit.operator import ChangeCount
from gpu_wcoj.circuit.recount import Declined, Recounted
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.engine.compile import CompiledProgram, Compiler
from gpu_wcoj.engine.ingest import Incoming
from gpu_wcoj.engine.replicas import Forecast, Journal, Replica, Replicas, Router, Work
from gpu_wcoj.engine.small_ticks import (
    MANY_ROWS_DIVISOR,
    Recent,
    SmallTicks,
    Totals,
    describe_obstacles,
    find_obstacles,
    max_walked_rows,
)
from gpu_wcoj.errors import AuxiliaryError, GpuWcojError, MemoryBudgetError
from gpu_wcoj.join.walk import UnsuitableTickError
from gpu_wcoj.locks import ClosedLock, StateLock
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.cost import foreseen
from gpu_wcoj.planner.lower import Place, Plan
from gpu_wcoj.planner.replan import CLEARLY, SORTING, Feedback, mix_plans
from gpu_wcoj.planner.types import Types
from gpu_wcoj.trace.spine import LOADED_FROM
from gpu_wcoj.zset.arrays import memory_error, within_memory

TRIE_ROW_BYTES = 16
"""Bytes of one level of a row of a batch at most: a value and an offset, or a weight."""


@dataclass(frozen=True)
class TickReport:
    """The report of the last tick.

    Attributes
    ----------
    tick
        The number of the tick, from 0; -1 before the first.
    seconds
        Seconds of the tick, including the reading of the changes.
    ignored
        Per input relation, the number of passed rows that changed nothing.
    work
        Per head, rule, delta path and variable, the counts of the kernels; auxiliary relations are heads, too.
    merged_rows
        Rows that merges of batches read; a backlog that was merged first is not counted.
    backend, kernels
        The backend of the tick and its kernels: ``"numba"``, ``"numpy"`` or ``"cuda"``; both are empty before the first
        tick, and after a tick without changes.
    backlog_rows
        If the state is stored twice: per backend, the changed rows that it has not applied yet.
    plan
        The plan of the tick; None before the first tick, and after a tick without changes.
    measured
        Measurements of the tick, if the program makes any; see `Program.explain`.
    recounted
        Costs of heads whose change was computed by full recomputation, which was cheaper.
    declined
        Reasons of heads whose change was computed incrementally although full recomputation was considered.
    path_by_path
        The reason for which the tick ran path by path, for people; empty if it was walked row by row, before the first
        tick, and after a tick without changes.
    rows
        Per input relation, the number of passed rows.
    changes
        Per head that was evaluated, the numbers of its changed rows.

    Examples
    --------
    >>> from gpu_wcoj import Program
    >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
    >>> program.load({"edge": [(1, 2), (1, 2)]})
    >>> program.last_tick.tick, program.last_tick.rows, program.last_tick.ignored
    (0, {'edge': 2}, {'edge': 1})
    """

    tick: int = -1
    seconds: float = 0.0
    ignored: Mapping[str, int] = field(default_factory=dict)
    work: Work = field(default_factory=dict, compare=False)
    merged_rows: int = 0
    backend: str = ""
    kernels: str = ""
    backlog_rows: Mapping[str, int] = field(default_factory=dict)
    plan: Plan | None = field(default=None, compare=False, repr=False)
    measured: TickProfile | None = field(default=None, compare=False, repr=False)
    recounted: Mapping[str, tuple[Recounted, ...]] = field(default_factory=dict, compare=False)
    declined: Mapping[str, tuple[Declined, ...]] = field(default_factory=dict, compare=False)
    path_by_path: str = field(default="", compare=False)
    rows: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, ChangeCount] = field(default_factory=dict, compare=False)

    @classmethod
    def of_fields(cls, **fields: Any) -> TickReport:
        """Return a report with these fields, the others empty.

        The constructor of a frozen dataclass takes five times as long, a tenth of a tick of one row.
        """
        report = cls.__new__(cls)
        report.__dict__.update(
            {"ignored": {}, "work": {}, "backlog_rows": {}, "recounted": {}, "declined": {}, "rows": {}, "changes": {}},
            **fields,
        )
        return report


class State(NamedTuple):
    """The immutable state of a program; a tick commits by one assignment of a new state.

    Attributes
    ----------
    types
        The columns' types as far as they are known.
    names
        The names of columns, per relation.
    report
        The report of the last tick.
    sides
        The rows; None before the first rows.
    journal
        The changes that the program's checkpoint does not have yet; None without a checkpoint.
    recent
        The rows of small ticks that are not in `sides` yet; None without such rows.
    """

    types: Types
    names: Mapping[str, tuple[str, ...]]
    report: TickReport = TickReport()
    sides: Replicas | None = None
    journal: Journal | None = None
    recent: Recent | None = None


@dataclass(frozen=True, eq=False)
class Mark:
    """A state that the program can return to.

    Attributes
    ----------
    sizes
        The numbers of values in the dictionaries.
    lowering
        The compiler of the program that was marked.
    """

    state: State
    sizes: Sequence[int]
    lowering: Compiler


@dataclass(eq=False)
class StateStore:
    """The holder of the state, which makes the circuits hold it.

    The state is authoritative. Circuits work on it, and may hold anything while a tick runs or after an interrupted
    tick; `settle` makes them hold the state again.

    Attributes
    ----------
    backend
        The backend of the primary side.
    present
        The state after the last tick, perhaps with rows in memtables.
    small
        The memtables; None until a small tick.
    feedback
        The work of ticks compared with the estimates.
    installed
        The state that the circuits hold for certain; None if unknown.
    keeps
        True if auxiliary relations are allowed.
    forecast
        The estimated number of values that ticks look at; used with a router.
    turns
        The lock that a caller holds while it uses a method here or writes back a state that it has read.
    """

    lowering: Compiler
    router: Router | None
    backend: Backend
    present: State
    feedback: Feedback = field(default_factory=lambda: Feedback(None))
    installed: State | None = None
    keeps: bool = True
    forecast: Forecast = field(default_factory=Forecast)
    turns: StateLock = field(default_factory=lambda: StateLock("the program"))
    small: SmallTicks | None = None

    @property
    def lowered(self) -> CompiledProgram | None:
        """The program as it is compiled now; None before the first rows."""
        return None if self.present.sides is None else self.present.sides.primary.lowered

    @property
    def state(self) -> State:
        """The state after the last tick, with all rows in batches."""
        if self.present.recent is not None:
            self._empty_memtables()
        return self.present

    @state.setter
    def state(self, state: State) -> None:
        self.present = state

    def _setting_against_walks(self, circuit: Circuit) -> str:
        """Return the setting that keeps all ticks from being walked, for people; empty if none.

        The shape of the rules may keep them, too; see `gpu_wcoj.engine.small_ticks.find_obstacles`.
        """
        execution, backend = circuit.execution, circuit.backend
        if self.router is not None:
            return "ticks are routed between two backends"
        if backend.device is not None:
            return f"the rows are on the device of backend {backend.name}"
        if backend.kernels.walker is None:
            return "the compiled kernels are not in use yet" if backend.is_interim else "the NumPy kernels have no walk"
        if execution.single_tick or execution.tuning.max_tick_rows < 0:
            return "the program answers once" if execution.single_tick else "walks of ticks are turned off"
        if execution.measures:
            return "ticks are measured, for explain(analyze=True)"
        return ""

    def small_ticks_text(self, circuit: Circuit) -> str:
        """Describe which ticks of a circuit are walked, for people."""
        if reason := self._setting_against_walks(circuit) or describe_obstacles(find_obstacles(circuit)):
            return f"none, all run path by path: {reason}"
        n_rows, n_values = max_walked_rows(circuit), circuit.execution.tuning.max_expected_work
        return (
            f"up to {n_rows:,} rows at {n_values // MANY_ROWS_DIVISOR:,} values, and fewer at up to {n_values:,}, "
            "are walked row by row"
        )

    def open_small_ticks(self) -> SmallTicks:
        """Return the small ticks of the present circuit.

        Raises
        ------
        UnsuitableTickError
            If none of its ticks is walked.
        """
        return self._small_ticks_of(self.present.sides)

    def _small_ticks_of(self, sides: Replicas | None) -> SmallTicks:
        if sides is None:
            raise UnsuitableTickError("there were no rows before it")
        if sides.twin is not None:
            raise UnsuitableTickError("the rows are stored twice")
        circuit, small = sides.primary.circuit, self.small
        if small is None or small.circuit is not circuit or circuit.execution.measures:
            if reason := self._setting_against_walks(circuit):
                raise UnsuitableTickError(reason)
            small = self.small = SmallTicks(circuit)
        if small.obstacles:
            raise UnsuitableTickError(describe_obstacles(small.obstacles))
        return small

    def begin_small_tick(self, small: SmallTicks, n_rows: int) -> Recent:
        """Get ready for a small tick of `n_rows`; return the memtables.

        Memtables that the tick before has filled become batches first: if memory is too small for that, this tick
        fails, and not the one that is committed. `small` is the result of `open_small_ticks`.

        Raises
        ------
        UnsuitableTickError
            If the tick is not a small one.
        """
        if self.feedback.is_due:
            raise UnsuitableTickError("the plan was checked before it")
        small.check(n_rows)
        recent = self.present.recent
        if recent is not None and small.is_full(recent, n_rows):
            self._empty_memtables(n_rows)
        elif recent is not None and small.work_ahead(recent, n_rows):
            self._take_over_merges(small)
        if self.installed is not self.present:
            self.settle()
        return small.begin(self.present.recent)

    def commit_small_tick(self, before: State, recent: Recent, report: TickReport, totals: Totals | None) -> None:
        """Commit a small tick that began with the state `before` and its memtables.

        Without `totals`, it has changed nothing.
        """
        assert self.small is not None
        present = self.present
        assert present is before, "the memtables were emptied during the tick"
        after = present.recent if totals is None else self.small.after(recent, totals)
        self.present = self.installed = State(
            present.types, present.names, report, present.sides, present.journal, after
        )

    def _take_over_merges(self, small: SmallTicks) -> None:
        """Let lookups search one batch in place of the two of each complete merge."""
        present = self.present
        assert present.sides is not None
        side = present.sides.primary
        spines = [
            {key: spine.with_complete_merges() for key, spine in of_relation.items()}
            for of_relation in side.circuit_state.spines
        ]
        circuit_state = replace(side.circuit_state, spines=spines)
        sides = present.sides.after(side, circuit_state)
        self.installed = None
        self.present = present._replace(sides=sides)
        sides.primary.install()
        self.installed = self.present
        small.follow_spines()

    def _empty_memtables(self, n_rows: int | None = None) -> None:
        """Turn the rows of the memtables into batches. If it fails, the memtables stay as they are.

        `n_rows` is the number of rows of the small tick that does so; None if it is not a small tick.
        """
        present, small = self.present, self.small
        assert present.recent is not None
        assert present.sides is not None
        assert small is not None
        side = present.sides.primary
        circuit = side.circuit
        self.installed = None
        side.install()  # an interrupt may have left it with the rows already
        try:
            small.as_pending(present.recent, present.recent.n_rows if n_rows is None else n_rows)
            circuit_state = circuit.prepare()
        except MemoryError as error:
            raise MemoryBudgetError(
                f"there is too little memory to merge the rows of the last small ticks into the state ({error}).\n"
                "  The state is as before. Free memory, and try again."
            ) from error
        sides = present.sides.after(side, circuit_state)
        journal = None if present.journal is None else present.journal.after(sides, circuit)
        self.feedback.observe(circuit, side.lowered.plan, small.take_work(), present.report.tick, is_sum=True)
        circuit.install(circuit_state)
        self.replace_state(present._replace(sides=sides, journal=journal, recent=None))

    def within_budget(self, budget: Budget | None) -> AbstractContextManager[None]:
        """Limit the work inside the context, beside the present state."""
        sides, recent = self.present.sides, self.present.recent
        if budget is None or sides is None:
            return limiting(budget)
        memtable_bytes = 0
        if recent is not None:
            keys = [key for spines in sides.primary.circuit_state.spines for key in spines]
            memtable_bytes = recent.n_rows * sum(TRIE_ROW_BYTES * (len(key.order) + 1) for key in keys)
        return budget.running(sides.nbytes + memtable_bytes)

    def settle(self) -> Replicas | None:
        """Return the sides after making their circuits hold the state."""
        sides = self.state.sides
        if self.installed is not self.state:
            for side in sides or ():
                side.install()
            self.installed = self.state
        return sides

    def replace_state(self, state: State) -> None:
        """Replace the state by one that the circuits hold already."""
        self.present = self.installed = state  # the first assignment is the commit, and nothing can interrupt it

    def change_kernels(self, incoming: Mapping[str, Incoming]) -> None:
        """Move the state to the backend for a tick of these rows, if it is another one."""
        sides = self.state.sides
        is_interim = sides is not None and sides.primary.circuit.backend.is_interim
        if not (is_interim or self.backend.is_interim):
            return
        state_rows = 0 if sides is None else sides.primary.relation_rows
        rows = state_rows + sum(map(len, incoming.values()))
        self.backend = next_backend(self.backend, rows, self.state.report.seconds)
        sides = None if self.backend.is_interim or not is_interim else self.settle()
        if sides is not None:
            moved_sides = sides.on(self.lowering, self.backend)
            journal = carry_over_journal(self.state.journal, sides, moved_sides)
            self.replace_state(self.state._replace(sides=moved_sides, journal=journal))

    def restore_state(self, state: State) -> None:
        """Restore an earlier state, whatever the circuits hold now."""
        self.present, self.installed = state, None
        self.settle()

    def route(
        self, incoming: Mapping[str, Incoming], declared: Mapping[str, tuple[str, ...]]
    ) -> tuple[Replicas, Replica]:
        """Return the sides compiled for these rows, and the side of the tick.

        The state is unchanged.
        """
        sides, present = self.settle(), self.lowered
        self.installed = None
        if sides is None or present is None or not self.lowering.serves(present, incoming):
            if sides is not None:
                sides = sides.with_primary()
            lowered = self.lowering.compile_for(incoming, present, self.state.types, declared, self.keeps)
            sides = Replicas.from_compiled(lowered) if sides is None else sides.lowered_as(lowered)
        if self.router is None:
            return sides, sides.primary
        self.forecast.follow(sides.primary.lowered.plan)
        return self.router.routed(
            sides, self.forecast.expected_work({name: len(rows) for name, rows in incoming.items()})
        )

    def route_text(self) -> str | None:
        """Describe where ticks run, for people; None where there is one side only."""
        if self.router is None:
            return None
        if self.lowered is not None:
            self.forecast.follow(self.lowered.plan)
        return self.router.described(self.forecast.values_per_row)

    def commit(self, side: Replica, circuit_state: CircuitState, after: State, rows: Mapping[str, int]) -> None:
        """Commit a tick that ran on `side`; its circuit then holds `circuit_state`.

        `rows` are the numbers of rows that were passed in.
        """
        if self.router is not None and side.rows:  # from an empty state, only a single path of a rule runs
            self.forecast.observe(rows, after.report.work)
        self.feedback.observe(side.circuit, side.lowered.plan, after.report.work, after.report.tick)
        side.circuit.install(circuit_state)
        if sum(rows.values()) >= LOADED_FROM:
            self._prepare_small_ticks(after.sides)
        self.replace_state(after)

    def _prepare_small_ticks(self, sides: Replicas | None) -> None:
        """Load what small ticks run with, so that the first one after a large tick is fast.

        If it fails, the first small tick tries again.
        """
        try:
            self._small_ticks_of(sides).prepare()
        except (UnsuitableTickError, MemoryError):
            self.small = None

    def replan(self) -> None:
        """Plan again before a tick if ticks differ from the estimates. Answers stay the same.

        Without memory to arrange the state again, it stays as it is.
        """
        try:
            self._replan()
        except AuxiliaryError:
            self.keeps = False
            self._replan()

    def without_auxiliaries(self) -> None:
        """Drop auxiliary relations from now on, if there is memory to arrange the state again."""
        self.keeps = False
        if self.lowered is not None and self.lowered.plan.auxiliaries:
            self._replan()

    def _replan(self) -> None:
        sides = self.settle()
        if sides is None:
            return

        tick = self.state.report.tick + 1
        self.installed = None
        try:
            with within_memory(sides.primary.circuit.backend, "planning anew"):
                replanned_sides = replan(sides, self.lowering, self.feedback, tick, self.keeps)
        except MemoryError:
            self.feedback.begin_anew(tick, patience=16.0)
            plan = sides.primary.lowered.plan
            replanned_sides = sides.noting(
                plan, f"kept before tick {tick}, as there was no memory to arrange the state anew"
            )
            self.state = self.state._replace(sides=replanned_sides)  # its circuits may hold anything
            return
        self.replace_state(
            self.state._replace(
                sides=replanned_sides, journal=carry_over_journal(self.state.journal, sides, replanned_sides)
            )
        )

    def reading(self, name: str) -> Replica | None:
        """Return the side to read a relation from; None before there are rows."""
        sides = self.settle()
        if sides is None or self.router is None:
            return None if sides is None else sides.primary
        self.installed = None
        sides, side = self.router.reading(sides, sides.primary.circuit.stores(name))
        self.replace_state(self.state._replace(sides=sides))
        return side

    def close(self) -> None:
        """Drop all rows; the state is of no use any more."""
        self.present, self.installed, self.small = State(self.present.types, self.present.names), None, None
        self.turns = ClosedLock(self.turns.what, "Create another one.")

    def compact(self) -> None:
        """Merge every arrangement of every side into one batch without cancelled rows."""
        sides = self.settle()
        if sides is None:
            return
        self.installed = None
        sides = sides.up_to_date()
        for side in sides:
            side.circuit.compact()
        self.replace_state(self.state._replace(sides=sides.as_installed()))


def explain_memory_error(error: BaseException, backend: Backend) -> BaseException:
    """Return a tick's error for the user: an out-of-memory error gets a remedy."""
    if isinstance(error, GpuWcojError):
        return error
    if backend.device is not None and isinstance(error, backend.device.out_of_memory):
        return memory_error(backend, "handing rows in or out")
    if isinstance(error, MemoryError):
        return MemoryBudgetError(
            f"the tick needs more memory than there is ({error}).\n"
            "  The tick was undone; the state is as before. Feed fewer rows a tick, or set a smaller chunk_rows."
        )
    return error


# The parts of a program that a checkpoint stores.


@dataclass(frozen=True, eq=False)
class Subject:
    """The checkpoint's view of a program: its definition and its state.

    Attributes
    ----------
    lowering
        The compiler of the program, which has its options.
    ledger
        The holder of its state.
    dictionaries
        The dictionaries of text and of bytes; they grow with the state.
    """

    lowering: Compiler
    ledger: StateStore
    dictionaries: tuple[Dictionary, Dictionary]


class Checkpointable(Protocol):
    """An object that a checkpoint can store: a program."""

    @property
    def subject(self) -> Subject:
        """The parts of it that a checkpoint stores."""
        ...


# Replanning of a running program from the statistics of its state.


def replan(sides: Replicas, lowering: Compiler, feedback: Feedback, tick: int, keeps: bool = True) -> Replicas:
    """Return the sides under a clearly better plan, or under the present one if there is none.

    The statistics are those of the state, and every path is weighted by its work so far: the work of a new path is
    the work of the present path times the ratio of their estimated costs. Paths that would not be clearly cheaper
    stay. The rearrangement of rows for the new paths must cost less than they would have saved by now. The arguments
    stay unchanged.

    Parameters
    ----------
    tick
        The number of the next tick.
    keeps
        True if auxiliary relations are allowed. If they differ from the present ones, the new plan is used unchanged.
    """
    lowered = sides.ahead.lowered
    present, catalog = lowered.plan, Catalog.of_circuit(sides.ahead.circuit)
    planned = lowering.plan(lowered.types, lowered.shapes, catalog, present.auxiliaries if keeps else None)
    if planned.auxiliaries != present.auxiliaries:
        replanned_sides = sides.planned_as(
            lowering, planned, f"chosen anew before tick {tick}, as {_auxiliaries_text(planned)}"
        )
        feedback.begin_anew(tick, SORTING * sides.ahead.relation_rows)
        return replanned_sides
    there = set(present.places())  # earlier plans may have done some of the work: before recompilation or since a mark
    cheaper = _cheaper(planned, present, catalog, [place for place in feedback.done if place in there])
    would_be = feedback.proposed - sum(feedback.done[place] * (1 - share) for place, share in cheaper.items())
    if would_be * CLEARLY > feedback.proposed:
        feedback.begin_anew(tick)
        return sides.noting(present.expecting(catalog), lowered.chosen)
    planned = mix_plans(present, planned, cheaper, catalog)
    circuit = lowering.circuit(planned, sides.ahead.circuit.execution)
    spent = SORTING * rows_to_build(circuit, sides.ahead.circuit) * len(list(sides))
    saved = feedback.proposed - would_be
    if saved < spent:
        feedback.wait_for(spent / saved)
        return sides
    why = f"chosen anew before tick {tick}, as {feedback.why()}"
    replanned_sides = sides.planned_as(lowering, planned.expecting(catalog), why)
    feedback.begin_anew(tick, spent)
    return replanned_sides


def replan_after_load(sides: Replicas, lowering: Compiler) -> Replicas:
    """Return the sides under a plan for their content, after a load planned by sizes only."""
    lowered = sides.primary.lowered
    present, catalog = lowered.plan, Catalog.of_circuit(sides.primary.circuit)
    planned = lowering.plan(lowered.types, lowered.shapes, catalog, present.auxiliaries)
    try:
        if planned.auxiliaries != present.auxiliaries:
            return sides.planned_as(lowering, planned, "")
    except (MemoryError, AuxiliaryError):
        planned = lowering.plan(lowered.types, lowered.shapes, catalog)
    cheaper = _cheaper(planned, present, catalog, present.places())
    plan = mix_plans(present, planned, cheaper, catalog).expecting(catalog)
    try:
        return sides.planned_as(lowering, plan, "") if cheaper else sides.noting(plan, "")
    except MemoryError:  # the load succeeded, and a better arrangement is not worth a failure
        return sides


def carry_over_journal(journal: Journal | None, before: Replicas, after: Replicas) -> Journal | None:
    """Return a checkpoint's journal for another circuit.

    Its changes stay valid if both circuits order rows alike.
    """
    old, new = before.primary.circuit, after.primary.circuit
    if journal is None or old is new or journal.circuit is not old:
        return journal
    canonical = [[index.canonical for index in circuit.indices()] for circuit in (old, new)]
    return replace(journal, circuit=new, changes=journal.changes if canonical[0] == canonical[1] else None)


def _auxiliaries_text(plan: Plan) -> str:
    """Describe the auxiliary relations of a plan for people."""
    names = " and ".join(f"'{auxiliary.name}'" for auxiliary in plan.auxiliaries)
    return f"it pays to keep {names}" if names else "nothing is kept for the rules any more"


def _cheaper(planned: Plan, present: Plan, catalog: Catalog, places: Iterable[Place]) -> dict[Place, float]:
    """Return the clearly cheaper paths of another plan, with the ratio of their costs."""
    cheaper: dict[Place, float] = {}
    for place in places:
        old, new = (foreseen(plan.path(place), catalog, plan.find_head_variables(place)) for plan in (present, planned))
        if old is not None and new is not None and new.cost * CLEARLY < old.cost:
            cheaper[place] = new.cost / old.cost
    return cheaper

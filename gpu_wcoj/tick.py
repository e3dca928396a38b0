"""What a tick moves, all at once or not at all, and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.circuit import Held, Measured
from gpu_wcoj.circuit.recount import Declined, Recounted
from gpu_wcoj.errors import AuxiliaryError, GpuWcojError, MemoryBudgetError
from gpu_wcoj.incoming import Incoming
from gpu_wcoj.lowering import CompiledProgram, Lowering
from gpu_wcoj.planner.feedback import Feedback
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.types import Types
from gpu_wcoj.routing.costs import Forecast, Work
from gpu_wcoj.routing.router import Router
from gpu_wcoj.routing.sides import Side, Sides
from gpu_wcoj.turns import Turns
from gpu_wcoj.zset.arrays import memory_error, within_memory

if TYPE_CHECKING:
    from gpu_wcoj.routing.journal import Journal  # which programs without a checkpoint have no use for


@dataclass(frozen=True)
class TickReport:
    """What the last tick did.

    Attributes
    ----------
    tick
        Its number, from 0; -1 before the first.
    seconds
        How long it took, reading of the changes included.
    ignored
        Per input relation, the given rows that changed nothing.
    work
        Per head, rule, delta path and variable, what the kernels counted; relations that are kept for the rules are
        heads, too.
    merged_rows
        Rows that merging batches read; a backlog that was taken in first is not counted.
    backend
        Where it ran; empty before the first tick, and after one without changes.
    backlog_rows
        Where the state is kept twice: per backend, the changed rows that it has still to take in.
    plan
        What it went by; None before the first tick, and after one without changes.
    measured
        What was measured beside, if the program does so; see `Program.explain`.
    recounted
        Of heads whose change was counted as the difference of whole counts, as that costs less: what it cost.
    declined
        Of heads whose change was followed though whole counts were thought of: why.
    """

    tick: int = -1
    seconds: float = 0.0
    ignored: Mapping[str, int] = field(default_factory=dict)
    work: Work = field(default_factory=dict, compare=False)
    merged_rows: int = 0
    backend: str = ""
    backlog_rows: Mapping[str, int] = field(default_factory=dict)
    plan: Plan | None = field(default=None, compare=False, repr=False)
    measured: Measured | None = field(default=None, compare=False, repr=False)
    recounted: Mapping[str, tuple[Recounted, ...]] = field(default_factory=dict, compare=False)
    declined: Mapping[str, tuple[Declined, ...]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, eq=False)
class State:
    """All that a tick moves, immutable: a tick has happened once this is replaced, by one assignment.

    Attributes
    ----------
    types
        What is known of the columns' types.
    names
        What columns are called, per relation.
    report
        Of the last tick.
    sides
        The rows; None before the first.
    journal
        What the checkpoint that this program is kept in does not have yet; None if it is kept in none.
    """

    types: Types
    names: Mapping[str, tuple[str, ...]]
    report: TickReport = TickReport()
    sides: Sides | None = None
    journal: Journal | None = None


@dataclass(frozen=True, eq=False)
class Mark:
    """A state to return to.

    Attributes
    ----------
    sizes
        How many values the dictionaries had.
    """

    state: State
    sizes: Sequence[int]


@dataclass(eq=False)
class StateStore:
    """Keeps the state, and lets the circuits hold it.

    The state is the truth. Circuits are where it is worked on, and may hold anything while a tick runs or after one
    that was cut short; `settled` lets them hold the state again.

    Attributes
    ----------
    state
        What the last tick left.
    feedback
        What ticks did, beside what was expected.
    installed
        The state that the circuits are known to hold, if any.
    keeps
        Whether relations may be kept for the rules.
    forecast
        The values that ticks are expected to look at; used where there is a router.
    turns
        Whoever calls a method here, or puts what it has read of the state back, does that in its turn.
    """

    lowering: Lowering
    router: Router | None
    state: State
    feedback: Feedback = field(default_factory=lambda: Feedback(None))
    installed: State | None = None
    keeps: bool = True
    forecast: Forecast = field(default_factory=Forecast)
    turns: Turns = field(default_factory=lambda: Turns("the program"))

    @property
    def lowered(self) -> CompiledProgram | None:
        """The program as it is lowered now; None before the first rows."""
        return None if self.state.sides is None else self.state.sides.primary.lowered

    def settled(self) -> Sides | None:
        """The sides, with their circuits holding what they shall hold."""
        sides = self.state.sides
        if self.installed is not self.state:
            for side in sides or ():
                side.install()
            self.installed = self.state
        return sides

    def replaced(self, state: State) -> None:
        """Make this the state, which the circuits hold already."""
        self.state = self.installed = state  # it has happened once the first is assigned, and nothing can split that

    def returned(self, state: State) -> None:
        """Hold a state of before, whatever has happened since."""
        self.state, self.installed = state, None
        self.settled()

    def routed(self, incoming: Mapping[str, Incoming], declared: Mapping[str, tuple[str, ...]]) -> tuple[Sides, Side]:
        """The sides, lowered for these rows, and the one that is to take them in; the state does not move."""
        sides, present = self.settled(), self.lowered
        self.installed = None
        if sides is None or present is None or not self.lowering.serves(present, incoming):
            if sides is not None:
                sides = sides.with_primary()
            lowered = self.lowering.compile_for(incoming, present, self.state.types, declared, self.keeps)
            sides = Sides.of(lowered) if sides is None else sides.lowered_as(lowered)
        if self.router is None:
            return sides, sides.primary
        self.forecast.follow(sides.primary.lowered.plan)
        return self.router.routed(sides, self.forecast.of({name: len(rows) for name, rows in incoming.items()}))

    def route_text(self) -> str | None:
        """Describe where ticks run, for people; None where there is one side only."""
        if self.router is None:
            return None
        if self.lowered is not None:
            self.forecast.follow(self.lowered.plan)
        return self.router.described(self.forecast.values_per_row)

    def commit(self, side: Side, circuit_state: Held, after: State, rows: Mapping[str, int]) -> None:
        """End a tick of so many given rows that ran on `side`, whose circuit shall hold `circuit_state` then."""
        if self.router is not None and side.rows:  # from no state, only one path of a rule runs
            self.forecast.observe(rows, after.report.work)
        self.feedback.observe(side.circuit, side.lowered.plan, after.report.work, after.report.tick)
        side.circuit.install(circuit_state)
        self.replaced(after)

    def replan(self) -> None:
        """Before a tick: plan anew if ticks are not what they were expected to be. No answer changes.

        Where there is no memory to arrange the state anew, it stays as it is.
        """
        try:
            self._replan()
        except AuxiliaryError:
            self.keeps = False
            self._replan()

    def without_auxiliaries(self) -> None:
        """Keep no relations for the rules from now on, if there is memory to arrange the state anew."""
        self.keeps = False
        if self.lowered is not None and self.lowered.plan.auxiliaries:
            self._replan()

    def _replan(self) -> None:
        sides = self.settled()
        if sides is None:
            return
        from gpu_wcoj.replanning import carry_over_journal, replanned  # which few programs ever need

        tick = self.state.report.tick + 1
        self.installed = None
        try:
            with within_memory(sides.primary.circuit.backend, "planning anew"):
                replanned_sides = replanned(sides, self.lowering, self.feedback, tick, self.keeps)
        except MemoryError:
            self.feedback.begin_anew(tick, patience=16.0)
            plan = sides.primary.lowered.plan
            replanned_sides = sides.noting(
                plan, f"kept before tick {tick}, as there was no memory to arrange the state anew"
            )
            self.state = replace(self.state, sides=replanned_sides)  # its circuits may be in the middle of anything
            return
        self.replaced(
            replace(
                self.state,
                sides=replanned_sides,
                journal=carry_over_journal(self.state.journal, sides, replanned_sides),
            )
        )

    def reading(self, name: str) -> Side | None:
        """The side that shows a relation; None before there are rows."""
        sides = self.settled()
        if sides is None or self.router is None:
            return None if sides is None else sides.primary
        self.installed = None
        sides, side = self.router.reading(sides, sides.primary.circuit.stores(name))
        self.replaced(replace(self.state, sides=sides))
        return side

    def compact(self) -> None:
        """Merge every arrangement of every side into one batch; nothing that has cancelled is left."""
        sides = self.settled()
        if sides is None:
            return
        self.installed = None
        sides = sides.up_to_date()
        for side in sides:
            side.circuit.compact()
        self.replaced(replace(self.state, sides=sides.as_installed()))


def explain_memory_error(error: BaseException, backend: Backend) -> BaseException:
    """An error of a tick as the user shall see it: a lack of memory says what to do."""
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

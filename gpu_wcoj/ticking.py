"""The run of a tick: read the changes, evaluate them, commit; or leave the state as it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.circuit import TickResult
from gpu_wcoj.circuit.head import ChangeCount
from gpu_wcoj.engine.compile import Compiler, stored_columns
from gpu_wcoj.engine.ingest import Incoming, named_after, narrow_columns, read_change
from gpu_wcoj.engine.options import check_inputs
from gpu_wcoj.engine.state import State, StateStore, TickReport, explain_memory_error
from gpu_wcoj.errors import AuxiliaryError
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.outgoing import Emitter
from gpu_wcoj.query.check import check_required
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.routing.sides import Replica, Replicas
from gpu_wcoj.trace.arrangement import PhaseRows

if TYPE_CHECKING:
    from gpu_wcoj.data.schema import DataType
    from gpu_wcoj.dictionary import Dictionary

_UNNAMED = (
    "If it gets rows later, declare it with .decl, name it in inputs=['{0}'], or give it in the first change as an "
    "empty list."
)
Sink = Callable[[str, Piece], None]
EmitRows = Callable[[Mapping[str, list[PhaseRows]]], None]


@dataclass(eq=False)
class TickRunner:
    """Runs the ticks of a program.

    Attributes
    ----------
    input_of
        Per input, the relation that stores it.
    heads
        The relations that rules define.
    arity
        Per relation, its number of columns.
    declared
        The declared names of columns.
    backend
        The requested backend of the program.
    narrow
        Per input, the declared integer types that are narrower than int64.
    rules
        The program as it is written.
    required
        Inputs that no declaration or option names, so the first change must name them.
    """

    input_of: Mapping[str, str]
    heads: Sequence[str]
    arity: Mapping[str, int]
    declared: Mapping[str, tuple[str, ...]]
    lowering: Compiler
    ledger: StateStore
    outgoing: Emitter
    dictionaries: tuple[Dictionary, Dictionary]
    backend: Backend
    narrow: Mapping[str, Sequence[DataType | None]]
    rules: Rules
    required: Sequence[str]

    def run_tick(
        self,
        changes: Mapping[str, Any],
        threads: int,
        collect: frozenset[str] | None,
        sink: Sink | None = None,
        emit_remaining: EmitRows | None = None,
    ) -> dict[str, ChangeCount]:
        """Run a tick.

        Rows that did not go to `sink` go to `emit_remaining`, while the tick can still be undone.

        Parameters
        ----------
        threads
            Maximum threads of a path.
        collect
            The heads whose changed rows are collected; None if not even their numbers are needed.

        Raises
        ------
        UsageError
            If it is called during a tick.
        """
        return self.ledger.turns.run(
            "taking a tick", lambda: self._run_tick(changes, threads, collect, sink, emit_remaining)
        )

    def _run_tick(
        self,
        changes: Mapping[str, Any],
        threads: int,
        collect: frozenset[str] | None,
        sink: Sink | None,
        emit_remaining: EmitRows | None,
    ) -> dict[str, ChangeCount]:
        start = time.perf_counter()
        check_inputs(changes, tuple(self.input_of), self.heads)
        was = self.ledger.state
        tick = was.report.tick + 1
        if tick == 0:
            check_required(self.rules, self.required, changes, _UNNAMED)
        sizes = [len(dictionary) for dictionary in self.dictionaries]
        try:
            incoming = {self.input_of[name]: self._read(name, data) for name, data in changes.items()}
            if tick == 0 and self.lowering.rules.facts:
                incoming.update(self.lowering.facts(incoming, was.types))
            if self.ledger.feedback.is_due:
                self.ledger.replan()
            before = self.ledger.state
            if not any(len(rows) for rows in incoming.values()):
                if before.sides is not None and all(rows.names == () for rows in incoming.values()):
                    incoming = {}
                if not incoming:
                    rows = {} if before.sides is None else before.sides.backlog_rows
                    report = TickReport(tick, time.perf_counter() - start, backlog_rows=rows)
                    self.ledger.replace_state(replace(before, report=report))
                    return {}
            try:
                sides, side, (counts, rows_by_head, ignored) = self._evaluate(incoming, threads, collect, sink)
            except AuxiliaryError:
                self.ledger.without_auxiliaries()
                before = self.ledger.state
                sides, side, (counts, rows_by_head, ignored) = self._evaluate(incoming, threads, collect, sink)
            lowered, circuit = side.lowered, side.circuit
            if emit_remaining is not None:
                emit_remaining(rows_by_head)
            circuit_state = circuit.prepare()
            merged_rows = circuit_state.merged_rows - side.circuit_state.merged_rows
            sides = sides.after(side, circuit_state)
            journal = None if before.journal is None else before.journal.after(sides, circuit)
            names = dict(before.names)
            for name, change in incoming.items():
                if change.names and name not in self.declared:
                    names[name] = named_after(change.names, names.get(name))
            report = TickReport(
                tick, time.perf_counter() - start, self._by_input_name(ignored), circuit.work, merged_rows,
                circuit.backend.name, sides.backlog_rows, lowered.plan, circuit.profile, circuit.recounted,
                circuit.declined,
            )  # fmt: skip
            n_rows_by_input = {name: len(rows) for name, rows in incoming.items()}
            self.ledger.commit(
                side, circuit_state, State(lowered.types, names, report, sides, journal), n_rows_by_input
            )
        except BaseException as error:
            try:  # values are read from the dictionaries before these forget them
                raised = self.outgoing.to_user_error(explain_memory_error(error, self.backend))
            finally:
                if self.ledger.state.report is was.report:
                    self.ledger.state = was  # this also restores the plan: the next check needs more work first
                    self.forget(sizes)
                self.ledger.settle()
            try:
                if raised is error:
                    raise
                raise raised from error
            finally:
                del raised  # a cycle of frame and error would keep device arrays until the next garbage collection
        finally:
            self.outgoing.evaluated = None
        return counts

    def forget(self, sizes: Sequence[int]) -> None:
        """Truncate the dictionaries to these numbers of values."""
        for dictionary, size in zip(self.dictionaries, sizes, strict=True):
            dictionary.truncate(size)

    def _evaluate(
        self, incoming: Mapping[str, Incoming], threads: int, collect: frozenset[str] | None, sink: Sink | None
    ) -> tuple[Replicas, Replica, TickResult]:
        """Return the sides, the side on which the tick ran, and its result."""
        sides, side = self.ledger.route(incoming, self.declared)
        lowered, circuit = side.lowered, side.circuit
        self.outgoing.evaluated = lowered
        circuit.execution.threads = threads
        if circuit.backend.device is None:
            incoming = {name: rows.fetched() for name, rows in incoming.items()}
        stored = {name: stored_columns(name, rows, lowered) for name, rows in incoming.items()}
        if circuit.demands:
            stored |= circuit.find_demanded_keys(stored)
        return sides, side, circuit.evaluate(stored, collect, sink)

    def _read(self, name: str, data: Any) -> Incoming:
        rows: Incoming = data if isinstance(data, Incoming) else self._read_by_name(name, data)
        if name not in self.narrow or not rows.names:
            return rows
        columns = narrow_columns(name, self.declared.get(name) or rows.names, rows.columns, self.narrow[name])
        return replace(rows, columns=columns)

    def _read_by_name(self, name: str, data: Any) -> Incoming:
        lowered, arity = self.ledger.lowered, self.arity[name]
        kinds = lowered.kinds if lowered else self.ledger.state.types.snapshot()
        types = [kinds[self.input_of[name], column] for column in range(arity)]
        is_declared = name in self.declared
        names = self.declared[name] if is_declared else self.ledger.state.names.get(self.input_of[name])
        return read_change(name, data, arity, names, types, self.dictionaries, is_declared=is_declared)

    def _by_input_name(self, ignored: Mapping[str, int]) -> Mapping[str, int]:
        """Return counts of inputs under the names that the user knows."""
        return {name: ignored[relation] for name, relation in self.input_of.items() if relation in ignored}

"""Programs: rules whose answers are updated tick by tick."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

import numpy as np

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.budget import Budget
from gpu_wcoj.circuit.circuit import TickResult
from gpu_wcoj.circuit.operator import ChangeCount, count_answer_rows
from gpu_wcoj.data.column import Column, Dictionary, dictionary_of, read_only
from gpu_wcoj.data.rows import Row
from gpu_wcoj.data.schema import INT64, NO_TYPE, DataType
from gpu_wcoj.engine.compile import CompiledProgram, Compiler, stored_columns
from gpu_wcoj.engine.ingest import (
    Incoming,
    SmallRows,
    count_rows,
    empty_rows,
    find_stored,
    merge_relations,
    named_after,
    narrow_columns,
    read_change,
    read_small_change,
)
from gpu_wcoj.engine.options import (
    EXECUTION_OPTIONS,
    ExecutionKeywords,
    ExecutionOptions,
    ProgramOptions,
    check_inputs,
    check_share,
    check_shareable,
    declared_columns,
    processors,
    validate_flag,
)
from gpu_wcoj.engine.replicas import Replica, Replicas, proposed_by, router_of
from gpu_wcoj.engine.small_ticks import UnreadableRowsError, too_many_rows
from gpu_wcoj.engine.state import Mark, State, StateStore, Subject, TickReport, explain_memory_error
from gpu_wcoj.errors import (
    AggregateOverflowError,
    AuxiliaryError,
    GpuWcojError,
    NegativeWeightError,
    SchemaError,
    UnknownRelationError,
    UsageError,
    WeightOverflowError,
    entry_point,
    listed,
)
from gpu_wcoj.function_calls import FunctionCalls
from gpu_wcoj.join.delta import Piece
from gpu_wcoj.join.prefixes import CHUNK_ROWS
from gpu_wcoj.join.settings import ITERATIONS, Execution, Share, get_tuning
from gpu_wcoj.join.walk import UnsuitableTickError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.locks import ClosedLock, NotCopied
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.ir import Strategy
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.replan import Feedback
from gpu_wcoj.query.check import check_required, unnamed_inputs
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.projection import aggregate_early, group_derivations, project_sets
from gpu_wcoj.query.push_down import Pushed, push_down
from gpu_wcoj.query.safety import describe_aggregate, describe_place, served_relation
from gpu_wcoj.query.stratify import unread
from gpu_wcoj.result import Result
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.user_functions import Function
from gpu_wcoj.zset.zset import ZSet, python_values

if TYPE_CHECKING:
    from gpu_wcoj.explain.build import ArrangementStatistics
    from gpu_wcoj.explain.render import Format

T = TypeVar("T")

# Conversion of stored columns to Z-sets with the relation's types and names.


@dataclass(eq=False)
class Emitter:
    """The relations of a program in the user's types and names.

    Attributes
    ----------
    arity
        Number of columns of each relation.
    dictionaries
        The dictionaries of text and of bytes.
    evaluated
        The compiled program of the running tick; None between ticks.
    """

    ledger: StateStore
    arity: Mapping[str, int]
    heads: Sequence[str]
    dictionaries: tuple[Dictionary, Dictionary]
    evaluated: CompiledProgram | None = None

    def column_name(self, relation: str, column: int) -> str:
        """Return the name of a stored column in an explanation."""
        lowered, arity = self.evaluated or self.ledger.lowered, self.arity[relation]
        if column >= arity and lowered is not None:
            flagged = [position for position, has_flag in enumerate(lowered.shapes[relation].nullable) if has_flag]
            return f"{self.column_name(relation, flagged[column - arity])} is null"
        names = self.ledger.present.names.get(relation)
        return names[column] if names is not None and relation not in self.heads else str(column)

    def values_of(self, relation: str, column: int, codes: Sequence[int]) -> list[Any]:
        """Return the values of codes of a column."""
        kind = self._kinds_of(relation)[column]
        stored = Column(kind, np.array(codes, np.int64), None, dictionary_of(kind, self.dictionaries))
        return python_values(stored)

    def empty(self, name: str) -> ZSet:
        """Return a relation without rows."""
        return no_rows(self._names_of(name), self._kinds_of(name), self.dictionaries)

    def as_zset(
        self,
        name: str,
        phases: Sequence[PhaseRows],
        backend: Backend | None = None,
        are_sorted: bool = True,
        copies: bool = True,
    ) -> ZSet:
        """Return distinct rows of a relation as a Z-set; see `as_zset`.

        They live where the tick ran.
        """
        view = self.evaluated or self.ledger.lowered
        assert view is not None
        names, kinds, shape = self._names_of(name), self._kinds_of(name), view.shapes[name]
        backend = backend or view.circuit.backend
        return as_zset(names, kinds, shape, phases, self.dictionaries, backend, are_sorted, copies)

    def to_user_error(self, error: BaseException) -> BaseException:
        """Return an error of a tick with values in place of codes.

        Helper relations are replaced by the relations of the text that they serve.
        """
        if isinstance(error, WeightOverflowError):
            relation = str(error.relation)
            row = self._values(relation, error.row)
            return error if row is None else WeightOverflowError(relation.removesuffix("#in"), row, error.weight)
        if not isinstance(error, (NegativeWeightError, AggregateOverflowError)):
            return error
        rules = self.ledger.lowering.rules
        if isinstance(error, NegativeWeightError) and error.head:
            doing = f"{describe_aggregate(error.head, error.doing)} {describe_place(rules, error.head, 'of')}"
            row = self._values(error.source, error.row)
            return NegativeWeightError(doing, error.row if row is None else row, error.weight)
        if isinstance(error, AggregateOverflowError):
            name = served_relation(rules, error.relation) or error.relation
            result = next(
                (grouping.keys for grouping in rules.groupings if grouping.relation == error.relation), len(error.group)
            )
            row = self._values(error.relation, (*error.group[:result], 0, *error.group[result:]))
            group = error.group if row is None else row[:result]
            place = describe_place(rules, error.relation, "in")
            return AggregateOverflowError(error.op, name, group, error.value, place, error.limits)
        return error

    def _values(self, relation: str, codes: object) -> Row | None:
        """Return the values of a row that a circuit reports as codes; None if it is not a row."""
        lowered = self.evaluated or self.ledger.lowered
        if not isinstance(codes, tuple) or relation not in self.arity or lowered is None:
            return None
        is_whole = len(codes) in (self.arity[relation], lowered.shapes[relation].width)
        if not is_whole or not all(isinstance(code, int) for code in codes):
            return None
        columns = [np.array([code], np.int64) for code in codes]
        return self.as_zset(relation, [PhaseRows(columns, 1)], select_backend("cpu")).rows()[0][0]

    def _names_of(self, name: str) -> tuple[str, ...]:
        return self.ledger.present.names.get(name) or tuple(f"c{i}" for i in range(self.arity[name]))

    def _kinds_of(self, name: str) -> Sequence[DataType]:
        view = self.evaluated or self.ledger.lowered
        if view is not None:
            return view.assumed_types[name]
        types = self.ledger.present.types
        return [types.assumed(name, column) or INT64 for column in range(self.arity[name])]


def pieces_of(phases: Sequence[PhaseRows], n_rows: int) -> Iterator[Piece]:
    """Yield the rows cut into pieces of at most `n_rows`."""
    for phase in phases:
        for begin in range(0, len(phase), n_rows):
            cut = slice(begin, begin + n_rows)
            weights = phase.weights if isinstance(phase.weights, int) else phase.weights[cut]
            yield Piece([column[cut] for column in phase.columns], weights)


def _without_assumed(zset: ZSet, kinds: Sequence[DataType | None]) -> ZSet:
    """Return a Z-set whose columns have no type where it is unknown."""
    columns = (
        column if kind is not None else Column(DataType(NO_TYPE), column.stored, column.stored_valid)
        for column, kind in zip(zset.columns, kinds, strict=True)
    )
    return ZSet(zset.names, tuple(columns), zset.stored_weights, zset.weight_name, zset.backend)


def as_zset(
    names: tuple[str, ...],
    kinds: Sequence[DataType],
    shape: Shape,
    phases: Sequence[PhaseRows],
    dictionaries: tuple[Dictionary, Dictionary],
    backend: Backend,
    are_sorted: bool = True,
    copies: bool = True,
) -> ZSet:
    """Return stored columns of distinct rows as a Z-set in the same memory.

    Parameters
    ----------
    names, kinds
        Names and types of the relation's columns.
    shape
        The columns that have a stored column of null flags.
    phases
        The rows.
    dictionaries
        The dictionaries of text and of bytes.
    backend
        The backend of the rows.
    are_sorted
        True if each phase is in order.
    copies
        False if nothing else keeps the rows, or writes to them.
    """
    filled = [phase for phase in phases if len(phase)] or list(phases[:1])
    arity, n_stored, xp = len(kinds), len(filled[0].columns), backend.xp
    if len(filled) > 1:
        stored = [xp.concatenate([phase.columns[i] for phase in filled]) for i in range(n_stored)]
        weights = xp.concatenate([phase.weight_column(xp) for phase in filled])
    else:
        (rows,) = filled
        stored, weights = [*rows.columns], rows.weight_column(xp)
        if not rows.is_owned:
            stored = [column.copy() if copies or is_lent(column) else column for column in stored]
            weights = weights.copy() if weights is rows.weights and (copies or is_lent(weights)) else weights
    columns = []
    for column, kind in enumerate(kinds):
        flag = shape.flag(column) if n_stored > arity else None
        valid = None if flag is None or not bool(stored[flag].any()) else stored[flag] == 0
        columns.append(Column(kind, stored[column], valid, dictionary_of(kind, dictionaries)))
    place = None if backend.device is None else backend
    if are_sorted and len(filled) == 1 and n_stored == arity:
        return ZSet(names, tuple(columns), weights, backend=place)
    return ZSet.from_columns(names, columns, weights, backend=place)


def is_lent(array: Any) -> bool:
    """Return True if an array shows memory of another library, such as a table of Arrow."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array is not None


def no_rows(names: tuple[str, ...], kinds: Sequence[DataType], dictionaries: tuple[Dictionary, Dictionary]) -> ZSet:
    """Return the Z-set of these columns without rows."""
    nothing = np.empty(0, np.int64)
    columns = tuple(Column(kind, nothing, None, dictionary_of(kind, dictionaries)) for kind in kinds)
    return ZSet(names, columns, nothing)


# The run of a tick: read the changes, evaluate them, commit; or leave the state as it was.


LOADED_BYTES = 1 << 21
"""Bytes by which the state grows in a load from which on the memory that the load has freed, several times as much, is
returned to the operating system."""

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
    narrow
        Per input, the declared integer types that are narrower than int64.
    rules
        The program as it is written.
    required
        Inputs that no declaration or option names, so the first change must name them.
    single_tick
        True if the program only answers once.
    budget
        The limits of a tick; None if there are none.
    """

    input_of: Mapping[str, str]
    heads: Sequence[str]
    arity: Mapping[str, int]
    declared: Mapping[str, tuple[str, ...]]
    lowering: Compiler
    ledger: StateStore
    outgoing: Emitter
    dictionaries: tuple[Dictionary, Dictionary]
    narrow: Mapping[str, Sequence[DataType | None]]
    rules: Rules
    required: Sequence[str]
    single_tick: bool = False
    budget: Budget | None = None

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
            If it is called during a tick, or on a program that only answers once.
        """
        if self.single_tick:
            raise UsageError.wrong_state("a tick", "the program has the option single_tick", "Call answer().")

        run = self._run_tick if self.budget is None else self._run_limited_tick
        return self.ledger.turns.run("taking a tick", run, changes, threads, collect, sink, emit_remaining)

    def _run_limited_tick(
        self,
        changes: Mapping[str, Any],
        threads: int,
        collect: frozenset[str] | None,
        sink: Sink | None,
        emit_remaining: EmitRows | None,
    ) -> dict[str, ChangeCount]:
        with self.ledger.within_budget(self.budget):
            return self._run_tick(changes, threads, collect, sink, emit_remaining)

    def _run_tick(
        self,
        changes: Mapping[str, Any],
        threads: int,
        collect: frozenset[str] | None,
        sink: Sink | None,
        emit_remaining: EmitRows | None,
    ) -> dict[str, ChangeCount]:
        start = time.perf_counter()
        sizes = len(self.dictionaries[0]), len(self.dictionaries[1])
        report = self.ledger.present.report
        self.lowering.calls.begin()
        read: dict[str, Incoming] = {}
        try:
            if sink is not None:
                raise UnsuitableTickError("its rows were passed on in pieces")
            return self._run_small_tick(changes, collect, emit_remaining, start, read)
        except UnsuitableTickError as error:
            path_by_path = str(error)
        except BaseException as error:
            if self.ledger.present.report is report:
                self.forget(sizes)
            raised = explain_memory_error(error, self.ledger.backend)
            if raised is error:
                raise
            raise raised from error
        check_inputs(changes, tuple(self.input_of), self.heads)
        was = self.ledger.state
        tick = was.report.tick + 1
        if tick == 0:
            check_required(self.rules, self.required, changes, _UNNAMED, self.lowering.options.functions)
        try:
            incoming = {
                self.input_of[name]: read[name] if name in read else self._read(name, data)
                for name, data in changes.items()
            }
            if tick == 0 and self.lowering.rules.facts:
                incoming.update(self.lowering.facts(incoming, was.types))
            self.ledger.change_kernels(incoming)
            was = self.ledger.state
            if self.ledger.feedback.is_due:
                self.ledger.replan()
            before = self.ledger.state
            if not any(len(rows) for rows in incoming.values()):
                if before.sides is not None and all(rows.names == () for rows in incoming.values()):
                    incoming = {}
                if not incoming:
                    rows = {} if before.sides is None else before.sides.backlog_rows
                    report = TickReport(tick, time.perf_counter() - start, backlog_rows=rows)
                    self.ledger.replace_state(before._replace(report=report))
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
            if self.budget is not None:
                self.budget.check_state(sides.nbytes)
            journal = None if before.journal is None else before.journal.after(sides, circuit)
            names = dict(before.names)
            for name, change in incoming.items():
                if change.names and name not in self.declared:
                    names[name] = named_after(change.names, names.get(name))
            report = TickReport(
                tick, time.perf_counter() - start, self._by_input_name(ignored), circuit.work, merged_rows,
                circuit.backend.name, circuit.backend.kernels.name, sides.backlog_rows, lowered.plan, circuit.profile,
                circuit.recounted, circuit.declined, path_by_path,
                {name: len(incoming[relation]) for name, relation in self.input_of.items() if relation in incoming},
                counts,
            )  # fmt: skip
            n_rows_by_input = {name: len(rows) for name, rows in incoming.items()}
            self.ledger.commit(
                side, circuit_state, State(lowered.types, names, report, sides, journal), n_rows_by_input
            )
        except BaseException as error:
            try:  # values are read from the dictionaries before these forget them
                raised = self.outgoing.to_user_error(explain_memory_error(error, self.ledger.backend))
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

    def _run_small_tick(
        self,
        changes: Mapping[str, Any],
        collect: frozenset[str] | None,
        emit_remaining: EmitRows | None,
        start: float,
        read: dict[str, Incoming],
    ) -> dict[str, ChangeCount]:
        """Run a tick of few rows by walking each rule. After an error, nothing has changed.

        Rows that had to be read are kept in `read`, by input, for a tick that runs path by path.

        Raises
        ------
        UnsuitableTickError
            If it is not a small tick, with the reason.
        """
        ledger = self.ledger
        small, before = ledger.open_small_ticks(), ledger.present
        if type(changes) is not dict:
            raise UnsuitableTickError("its changes are not a dict")
        assert before.sides is not None
        lowered, max_rows = before.sides.primary.lowered, small.max_rows
        if not changes.keys() <= self.input_of.keys():
            raise UnsuitableTickError("it names a relation that takes no rows")
        incoming: dict[str, SmallRows] = {}
        n_passed: dict[str, int] = {}
        n_rows = 0
        if self.budget is not None and self.budget.is_nearly_full:
            raise UnsuitableTickError("the state had nearly reached its maximum memory before it")
        for name, data in changes.items():
            relation = self.input_of[name]
            names = self.declared.get(name) or before.names.get(relation)
            rows = None
            if names is not None and relation in lowered.plain_relations and name not in self.narrow:
                rows = read_small_change(data, names, max_rows)
            if rows is None:
                rows = self._read_few_rows(name, data, lowered, max_rows, read)
            n_passed[name] = rows.n_rows
            n_rows += rows.n_rows
            incoming[relation] = rows
        recent = ledger.begin_small_tick(small, n_rows)
        before = ledger.present
        tick = before.report.tick + 1
        if n_rows == 0:
            seconds = time.perf_counter() - start
            ledger.commit_small_tick(before, recent, TickReport.of_fields(tick=tick, seconds=seconds), None)
            return {}
        try:
            counts, rows_by_head, n_changed, work, totals = small.evaluate(recent, incoming, collect)
        except UnreadableRowsError:
            for name, data in changes.items():
                if incoming[self.input_of[name]].places is None:
                    incoming[self.input_of[name]] = self._read_few_rows(name, data, lowered, max_rows, read)
            counts, rows_by_head, n_changed, work, totals = small.evaluate(recent, incoming, collect)
        ignored = {name: n - n_changed[self.input_of[name]] for name, n in n_passed.items()}
        if self.budget is not None:
            self.budget.check_time()
            for head, phases in rows_by_head.items():
                self.budget.check_rows(head, count_answer_rows(phases))
        if emit_remaining is not None:
            emit_remaining(rows_by_head)
        report = TickReport.of_fields(
            tick=tick,
            seconds=time.perf_counter() - start,
            ignored=ignored,
            work=work,
            backend=small.backend_name,
            kernels=small.kernels.name,
            plan=lowered.plan,
            rows=n_passed,
            changes=counts,
        )
        ledger.commit_small_tick(before, recent, report, totals)
        return counts

    def _read_few_rows(
        self, name: str, data: Any, lowered: CompiledProgram, max_rows: int, read: dict[str, Incoming]
    ) -> SmallRows:
        """Read rows of any form and of any types as stored columns, and add them to `read`.

        Raises
        ------
        UnsuitableTickError
            If there are too many rows, or they cannot be rows of the program as it is compiled now.
        """
        n_rows = count_rows(data)
        if n_rows is None:
            raise UnsuitableTickError(f"the number of rows of relation {name} was not known before it")
        if n_rows > max_rows:
            raise UnsuitableTickError(too_many_rows(max_rows))
        try:
            rows = self._read(name, data)
        except GpuWcojError as error:  # raised again by the tick that runs path by path
            raise UnsuitableTickError(f"the rows of relation {name} could not be read") from error
        read[name], relation = rows, self.input_of[name]
        if len(rows) == 0:
            return empty_rows(lowered.shapes[relation].width)
        names = self.ledger.present.names.get(relation)
        if rows.names != names and name not in self.declared and named_after(rows.names, names) != names:
            raise UnsuitableTickError(f"the columns of relation {name} had other names before it")
        if not self.lowering.serves(lowered, {relation: rows}):
            raise UnsuitableTickError(f"the columns of relation {name} had other types before it, or no nulls")
        change = stored_columns(relation, rows.fetched(), lowered)
        if not (change.is_ordered or change.is_distinct):
            raise UnsuitableTickError(f"the rows of relation {name} may repeat")
        return find_stored(change.columns, change.weights)

    def answer(self, changes: Mapping[str, Any], threads: int, collect: frozenset[str], emit_rows: EmitRows) -> None:
        """Evaluate the first tick and pass its rows on; the state stays empty.

        What the tick has indexed is left to the circuit, which may not take another one.
        """
        start = time.perf_counter()
        check_inputs(changes, tuple(self.input_of), self.heads)
        self.lowering.calls.begin()
        try:
            with self.ledger.within_budget(self.budget):
                incoming = {self.input_of[name]: self._read(name, data) for name, data in changes.items()}
                if self.lowering.rules.facts:
                    incoming.update(self.lowering.facts(incoming, self.ledger.state.types))
                self.ledger.change_kernels(incoming)
                if not incoming:
                    return
                try:
                    _, side, (_, rows_by_head, _) = self._evaluate(incoming, threads, collect, None)
                except AuxiliaryError:
                    self.ledger.without_auxiliaries()
                    _, side, (_, rows_by_head, _) = self._evaluate(incoming, threads, collect, None)
                emit_rows(rows_by_head)
                circuit, seconds = side.circuit, time.perf_counter() - start
                backend = circuit.backend
                report = TickReport(
                    0, seconds, {}, circuit.work, 0, backend.name, backend.kernels.name, plan=side.lowered.plan
                )
                self.ledger.replace_state(self.ledger.state._replace(report=report))
        except BaseException as error:
            raised = self.outgoing.to_user_error(explain_memory_error(error, self.ledger.backend))
            if raised is error:
                raise
            raise raised from error

    def forget(self, sizes: Sequence[int]) -> None:
        """Truncate the dictionaries to these numbers of values."""
        for dictionary, size in zip(self.dictionaries, sizes, strict=True):
            dictionary.truncate(size)

    def _evaluate(
        self, incoming: Mapping[str, Incoming], threads: int, collect: frozenset[str] | None, sink: Sink | None
    ) -> tuple[Replicas, Replica, TickResult]:
        """Return the sides, the side on which the tick ran, and its result."""
        if self.budget is not None:  # before anything is indexed, in the narrowest storage that there is
            n_bytes = sum(4 * len(rows) * len(rows.columns) for rows in incoming.values())
            self.budget.check_gathered(n_bytes, "indexing", sum(map(len, incoming.values())))
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
        known = lowered.types if lowered else self.ledger.present.types
        types = [known.type_of(self.input_of[name], column) for column in range(arity)]
        is_declared = name in self.declared
        names = self.declared[name] if is_declared else self.ledger.present.names.get(self.input_of[name])
        return read_change(name, data, arity, names, types, self.dictionaries, is_declared=is_declared)

    def _by_input_name(self, ignored: Mapping[str, int]) -> Mapping[str, int]:
        """Return counts of inputs under the names that the user knows."""
        return {name: ignored[relation] for name, relation in self.input_of.items() if relation in ignored}


# Read access to a program between ticks: its relations, their sizes, its plan.


@entry_point
class Inspected(NotCopied):
    """The read-only interface of a program: nothing here changes an answer.

    Attributes
    ----------
    rules
        The rules as passed in.
    inputs, heads, outputs
        Relations that take rows, relations that rules define, and relations whose changes ticks return.
    bag
        True if weights are exact, as in bags.
    options
        The options of the program, with the default outputs.
    stored_beside
        The values that `Program.checkpoint` has stored beside a restored state, as `extra`; else empty.
    """

    stored_beside: Mapping[str, Any]
    rules: Rules
    inputs: tuple[str, ...]
    heads: tuple[str, ...]
    outputs: tuple[str, ...]
    bag: bool
    options: ProgramOptions
    _arity: dict[str, int]
    _measures: bool
    _budget: Budget | None
    _lowering: Compiler
    _ledger: StateStore
    _outgoing: Emitter
    dictionaries: tuple[Dictionary, Dictionary]

    @property
    def backend(self) -> Backend:
        """The backend of the state; a tick may change it to one with the compiled kernels."""
        return self._ledger.backend

    @property
    def last_tick(self) -> TickReport:
        """The report of the last tick; its arrays are read-only."""
        report = self._ledger.present.report
        for paths in (path for rules in report.work.values() for path in rules.values()):
            for counted in (array for variables in paths.values() for array in variables.values()):
                read_only(counted)
        return report

    @property
    def progress(self) -> dict[str, Any]:
        """The last tick in plain numbers, which `json` can write.

        Keys are ``tick`` (from 0; -1 before the first), ``seconds``, ``rows`` (passed rows by relation), ``ignored``
        (those that changed nothing), ``changes`` (by output ``inserted``, ``deleted`` and ``net``; in bags ``net``
        alone), ``values`` (looked at by joins), ``merged_rows``, ``state_bytes``, ``backend`` and ``kernels``.
        `last_tick` has more.
        """
        report = self.last_tick
        changes = {}
        for name in self.outputs:
            if name in report.changes:
                counted = report.changes[name]._asdict()
                changes[name] = {key: int(value) for key, value in counted.items() if value is not None}
        return {
            "tick": report.tick,
            "seconds": report.seconds,
            "rows": dict(report.rows),
            "ignored": {name: int(n_rows) for name, n_rows in report.ignored.items()},
            "changes": changes,
            "values": int(proposed_by(report.work)),
            "merged_rows": int(report.merged_rows),
            "state_bytes": int(self.nbytes),
            "backend": report.backend,
            "kernels": report.kernels,
        }

    @property
    def columns(self) -> dict[str, list[str]]:
        """The names of the columns of each output."""
        return {name: list(self.empty(name).names) for name in self.outputs}

    @overload
    def snapshot(self, name: str) -> Result: ...

    @overload
    def snapshot(self, name: None = None) -> dict[str, Result]: ...

    def snapshot(self, name: str | None = None) -> Result | dict[str, Result]:
        """Return a relation, or by default each output by its name, as a table; see `relation`.

        Examples
        --------
        >>> from gpu_wcoj import Program
        >>> program = Program("path(a, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.snapshot()["path"].rows(), program.snapshot("edge").rows()
        ([(1, 3)], [(1, 2), (2, 3)])
        """
        return (
            {output: Result(self.relation(output)) for output in self.outputs}
            if name is None
            else Result(self.relation(name))
        )

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows of each output, as often as they occur.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.rows()
        {'path': [(1, 2, 3)]}
        """
        return {name: answer.rows() for name, answer in self.snapshot().items()}

    def arity(self, relation: str) -> int:
        """Return the number of columns of a relation.

        Raises
        ------
        UnknownRelationError
            If the program has no such relation.
        """
        if relation not in self.inputs and relation not in self.heads:
            raise UnknownRelationError(relation, {*self.inputs, *self.heads})
        return self._arity[relation]

    def relation(self, name: str) -> ZSet:
        """Return all rows of a relation.

        A head that is neither kept nor read by a rule is joined again from the state. A head that rules read only in
        part is computed again from the inputs, unless it is an output or kept.

        Raises
        ------
        UnknownRelationError
            If the program has no such relation.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.relation("edge").rows(), program.relation("path").rows()
        ([((1, 2), 1), ((2, 3), 1)], [((1, 2, 3), 1)])
        """
        self.arity(name)

        def read() -> ZSet:
            if self._is_partial(name):
                whole = self._in_full()
                if whole is None or whole.evaluated is None:
                    return self._empty(name)
                circuit = whole.evaluated.circuit
                columns, weights = circuit.rows(name)
                return whole.as_zset(name, [PhaseRows(columns, weights)], circuit.backend)
            side = self._ledger.reading(name)
            if side is None:
                return self._outgoing.empty(name)
            columns, weights = side.circuit.rows(name)
            return self._outgoing.as_zset(name, [PhaseRows(columns, weights)], side.circuit.backend)

        return self._ledger.turns.run(f"reading '{name}'", lambda: self._within_budget(read))

    @overload
    def count(self, name: str) -> int: ...

    @overload
    def count(self, name: None = None) -> dict[str, int]: ...

    def count(self, name: str | None = None) -> int | dict[str, int]:
        """Return the number of rows of a relation, or of each output.

        In bag semantics, it is the sum of their weights. Rows are not enumerated if they can be counted otherwise.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.count(), program.count("edge")
        ({'path': 1}, 2)
        """
        if name is None:
            return {output: self.count(output) for output in self.outputs}
        self.arity(name)

        def counted() -> int:
            if self._is_partial(name):
                whole = self._in_full()
                return 0 if whole is None or whole.evaluated is None else whole.evaluated.circuit.total(name)
            side = self._ledger.reading(name)
            return 0 if side is None else side.circuit.total(name)

        return self._ledger.turns.run(f"counting '{name}'", lambda: self._within_budget(counted))

    def _within_budget(self, work: Callable[[], T]) -> T:
        with self._ledger.within_budget(self._budget):
            return work()

    def empty(self, name: str) -> ZSet:
        """Return a Z-set without rows that has the names and types of a relation's columns.

        A column is int64 if no row has determined its type yet.

        Examples
        --------
        >>> from gpu_wcoj import Program
        >>> program = Program("path(a, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [("x", "y")]})
        >>> program.empty("path").to_arrow().schema.types[0]
        DataType(string)
        """
        self.arity(name)
        return self._empty(name)

    def _empty(self, name: str) -> ZSet:
        if not self._is_partial(name):
            return self._outgoing.empty(name)
        lowered, present = self._lowered, self._ledger.present
        types = self._lowering.types_as_written(present.types if lowered is None else lowered.types)
        kinds = [types.assumed(name, column) or INT64 for column in range(self._arity[name])]
        names = present.names.get(name) or tuple(f"c{i}" for i in range(self._arity[name]))
        return no_rows(names, kinds, self.dictionaries)

    def compact(self) -> None:
        """Merge every arrangement into one batch without cancelled rows. O(state)."""
        self._ledger.turns.run("merging batches", self._ledger.compact)

    @property
    def state_rows(self) -> dict[str, list[int]]:
        """Per arrangement, as text for people, the rows of its batches."""
        return self._ledger.turns.run("looking at the state", self._state_rows)

    def _state_rows(self) -> dict[str, list[int]]:
        sides = self._ledger.settle()
        if sides is None:
            return {}
        return {
            str(key): [len(batch) for batch in arrangement.accumulated()]
            for index in sides.ahead.circuit.indices()
            for key, arrangement in index.arrangements.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the state: arrays, and the search structures that joins derived from them.

        A twin and backlogs are included; dictionaries are not.

        Those of a twin and of backlogs too; dictionaries are not counted.
        """
        sides = self._ledger.present.sides
        return 0 if sides is None else sides.nbytes

    def statistics(self) -> tuple[ArrangementStatistics, ...]:
        """Return exact statistics of each arrangement of the state.

        They are rows, distinct prefixes, degrees and heavy hitters.

        Computed on demand: O(state) at first, then linear in the changes of the ticks since. Every arrangement that
        `explain` lists is here once there are rows, and also the rows of inputs that no rule needs arranged.
        Arrangements of recursive relations have one more column, the rank: the iteration that first derived a row.
        `gpu_wcoj.explain.build` documents the fields.

        Raises
        ------
        UnsupportedTypeError
            If a heavy hitter is a time that Python cannot represent, such as one in nanoseconds.

        Examples
        --------
        >>> from gpu_wcoj import Program
        >>> program = Program("path(a, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [("hub", "x"), ("hub", "y"), ("hub", "z"), ("x", "y")]})
        >>> forth, back = program.statistics()
        >>> forth.name, forth.rows, forth.levels[0].prefixes
        ('edge[c0, c1]', 4, 2)
        >>> forth.levels[0].histogram, forth.levels[0].heaviest
        ((1, 1), ((('hub',), 3), (('x',), 1)))
        >>> changes = program.step({"edge": [(("hub", "x"), -1)]})
        >>> [(one.name, one.rows, one.levels[0].heaviest[0]) for one in program.statistics()]
        [('edge[c0, c1]', 3, (('hub',), 2)), ('edge[c1, c0]', 3, (('y',), 2))]
        """
        return self._ledger.turns.run("looking at the state", self._statistics)

    def _statistics(self) -> tuple[ArrangementStatistics, ...]:
        from gpu_wcoj.explain.build import arrangement_statistics

        sides = self._ledger.settle()
        if sides is None:
            return ()
        lowered = sides.ahead.lowered
        name_of, values_of = self._outgoing.column_name, self._outgoing.values_of
        return tuple(arrangement_statistics(lowered.circuit, lowered.plan, lowered.shapes, name_of, values_of))

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # the option is called --format
    ) -> str:
        """Return the program's plan: per rule its delta paths, per path each variable and extenders.

        Parameters
        ----------
        analyze
            Add the work of the last tick under its plan: per level the prefixes that it extended, the bound on the
            work, proposals, survivors, bytes and time. Prefixes, bytes and times exist for measured ticks: ticks after
            the first call with this option, or all ticks of a program with `analyze`. If they are missing, the text
            says so. `gpu_wcoj.explain.tree.Counts` documents each figure.
        bounds
            Add the maximum number of prefixes of each level for one changed row, from the present sizes and largest
            degrees of the relations. Each bound is a linear program, which needs SciPy. Levels of recursions have none.
        statistics
            A folder with a ``statistics.json``: explain the plan of a program that starts with such relations.
        format
            ``"text"``; ``"json"``, whose keys are the fields of `gpu_wcoj.explain.tree.PlanTree`; ``"mermaid"``, a
            flowchart; ``"svg"``, a drawing; or ``"datalog"``, which is the program as Datalog text instead of a plan,
            whatever language it was written in. For a motif, a column ``_row`` numbers the rows of a table; the table
            itself has no such column.

        Raises
        ------
        UsageError
            For another format or an invalid value of an option, for ``format="datalog"`` together with another option,
            or for `statistics` together with `analyze`.
        SchemaError
            If the statistics are missing, or are of other relations.
        BackendUnavailableError
            If `bounds` is True and SciPy is not installed.

        Examples
        --------
        >>> from gpu_wcoj import Program
        >>> print(Program("path(a, c) :- edge(a, b), edge(b, c).").explain())
        backend cpu, set semantics
        small ticks: up to 512 rows at 3,000,000 values, and fewer at up to 48,000,000, are walked row by row
        <BLANKLINE>
        path   (derivations are counted: its rows are distinct)
          path(a, c) :- edge(a, b), edge(b, c).
            delta path 1: change of edge(a, b)
              c: look up edge(b, c) before, by edge[0, 1]
            delta path 2: change of edge(b, c)
              a: look up edge(a, b) after, by edge[1, 0]
        <BLANKLINE>
        arrangements
          edge[0, 1]
          edge[1, 0]
        """
        analyze, bounds = validate_flag("analyze", analyze), validate_flag("bounds", bounds)
        if statistics is not None and not isinstance(statistics, (str, PathLike)):
            raise UsageError.invalid_value("statistics", statistics, "the path of a folder, or None")
        if format == "datalog":
            return self._as_datalog(analyze or bounds or statistics is not None)
        if not bounds:
            return self._explained(analyze, bounds, statistics, format)
        return self._ledger.turns.run(
            "looking at the state", lambda: self._explained(analyze, bounds, statistics, format)
        )

    def _explained(self, analyze: bool, bounds: bool, statistics: str | PathLike[str] | None, form: Format) -> str:
        from gpu_wcoj.explain.build import sizes_of_catalog, sizes_of_state
        from gpu_wcoj.explain.render import PlanView, check_format, render

        check_format(form)
        if analyze and statistics is not None:
            raise UsageError.conflict(
                "'statistics'",
                "'analyze'",
                "Leave out one of them.",
                why="the last tick was not measured under the plan of these statistics",
            )
        catalog = None if statistics is None else Catalog.read(statistics)
        if catalog and not {*self.inputs, *self.heads}.intersection(catalog):
            raise SchemaError.mismatch(
                f"the statistics in '{statistics}'",
                "are of other relations",
                listed(catalog),
                f"some of {listed([*self.inputs, *self.heads])}",
            )
        for name, columns in ({} if catalog is None else catalog.arity).items():
            if name in self.inputs and columns != self._arity[name]:
                raise SchemaError.mismatch(
                    f"relation '{name}' in the statistics in '{statistics}'",
                    "has the wrong number of columns",
                    columns,
                    self._arity[name],
                )
        lowered = self._lowered if catalog is None else None
        planned = self._planned(catalog) if lowered is None else lowered.plan
        if analyze:
            self.analyze = True
        sides = None if lowered is None else self._ledger.present.sides
        circuit = (
            self._lowering.circuit(planned, self._lowering.execution()) if sides is None else sides.primary.circuit
        )
        renderer = PlanView(
            self._outgoing.column_name,
            self.backend.description,
            self.bag,
            self._ledger.route_text(),
            None if lowered is None else lowered.chosen or None,
            self.last_tick if catalog is None else TickReport(),
            self._ledger.small_ticks_text(circuit),
            () if self._lowering.pushed is None else self._lowering.pushed.notes,
        )
        sizes_of = None
        if bounds and catalog is not None:
            sizes_of = sizes_of_catalog(catalog)
        elif bounds and lowered is not None:
            sides = self._ledger.settle()
            assert sides is not None
            sizes_of = sizes_of_state(sides.ahead.circuit)
        return render(renderer.explained_tree(planned, self.last_tick if analyze else None, sizes_of), form)

    def _as_datalog(self, asks_for_more: bool) -> str:
        from gpu_wcoj.query.printer import as_datalog

        if asks_for_more:
            raise UsageError.conflict(
                "format='datalog'",
                "'analyze', 'bounds' or 'statistics'",
                "Use format='text', 'json', 'mermaid' or 'svg'.",
                why="Datalog text has no plan",
            )
        default = self.rules.outputs or unread(self.rules)
        rules = self.rules if default == self.outputs else replace(self.rules, outputs=self.outputs)
        return as_datalog(rules, bag=self.bag)

    @property
    def keep(self) -> tuple[str, ...]:
        """Heads whose answer is stored between ticks."""
        return tuple(self.options.keep)

    @property
    def strategy(self) -> Strategy:
        """The strategy by which rules are joined."""
        return self.options.strategy

    @property
    def analyze(self) -> bool:
        """True if ticks are measured for ``explain(analyze=True)``; can be set between ticks."""
        return self._measures

    @analyze.setter
    def analyze(self, value: bool) -> None:
        self._measures = validate_flag("analyze", value)
        for side in self._ledger.present.sides or ():
            side.circuit.execution.measures = self._measures

    def _is_partial(self, name: str) -> bool:
        """Return whether the state lacks rows of a head that nothing asks for."""
        return self._lowering.pushed is not None and name in self._lowering.pushed.partial

    def _in_full(self) -> Emitter | None:
        """Compute the program without push-down from the inputs; None before there are rows."""
        sides = self._ledger.settle()
        side = None if sides is None else self._ledger.reading(next(iter(sides.primary.circuit.sources)))
        if side is None:
            return None
        whole = self._lowering.compile_in_full(side.lowered, side.circuit)
        return Emitter(self._ledger, self._arity, self._outgoing.heads, self.dictionaries, whole)

    @property
    def _lowered(self) -> CompiledProgram | None:
        return self._ledger.lowered

    def _planned(self, catalog: Catalog | None = None) -> Plan:
        """Return the plan before any row has been seen, from the statistics if there are any."""
        types = self._ledger.present.types
        loads = self._lowering.execution().loads
        return self._lowering.plan(types, self._lowering.shapes(None, {}, types), catalog, (), loads)


__all__ = ["ChangeCount", "ExecutionOptions", "Program", "TickReport"]


@entry_point
class Program(Inspected):
    """Rules over relations; `step` takes changes of inputs and returns changes of outputs.

    Parameters
    ----------
    text
        Datalog text, or rules. Facts of the text are part of the first tick.
    bag
        Exact bag weights (Z-sets) instead of sets: weights of equal rows add, heads keep multiplicities.
    keep
        Heads whose answer is stored between ticks, so that `relation` need not join it again.
    outputs
        Heads whose changes `step` returns; by default the heads of ``.output`` lines, else the heads that no rule
        outside of their own recursion reads.
    backend
        Place of the state and the joins: ``"auto"`` (the GPU if there is one, else the CPU), ``"cpu"`` or ``"cuda"``.
    threads
        Threads that share large ticks; by default the available processors.
    iterations
        Maximum iterations of a recursion in one tick; by default 100,000. A tick that needs more is undone.
    limit
        Maximum rows of an answer, or of its change in a tick; by default there is no limit. Like the next two, it
        raises an error before it is exceeded, and the state stays as before.
    timeout
        Maximum seconds of a tick or of an answer; by default there is no limit. It is tested between pieces of rows.
    memory
        Maximum memory of the state and of what a load, a tick or an answer allocates beside it: bytes, ``"8GB"`` or a
        share of the machine's memory, ``"50%"``. By default the process may have 80 % of that memory.
    schema
        Types of input columns by relation, ``{"edge": ["int64", "int64"]}`` or ``{"edge": {"src": "int64", ...}}``;
        by default the types of the first rows. Integers outside a declared type are an error. Missing names are taken
        from the first table that has names.
    inputs
        Relations that may get rows later, ``["edge", "node"]``. Every relation that rules read and none defines must
        be in it, in `schema`, or in a ``.decl`` or ``.input`` line. If `inputs` is left out, the first change may name
        them instead: a relation that neither it nor anything else names is treated as misspelled.
    functions
        Python functions that the text may call, as `gpu_wcoj.function` declares them.
    options
        Rarely needed options, as `ExecutionOptions`. Each may also be a keyword, ``strategy="wcoj"``.

    Notes
    -----
    Several threads may use a program; they wait for each other, so that each sees the state between two ticks. During
    a tick, calls from a sink or from an iterator of rows that need the state are an error.

    Raises
    ------
    DatalogSyntaxError, UnsafeRuleError, ArityError, UnknownRelationError, UnsupportedError, UsageError
        If the text or an option cannot be used.

    Examples
    --------
    >>> program = Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).", inputs=["edge"])
    >>> program.step({"edge": [(1, 2), (2, 3)]})["triangle"].rows()
    []
    >>> program.step({"edge": [(1, 3)]})["triangle"].rows()
    [((1, 2, 3), 1)]
    >>> program.step({"edge": [((2, 3), -1)]})["triangle"].rows()
    [((1, 2, 3), -1)]
    >>> len(program.relation("triangle"))
    0
    """

    def __init__(
        self,
        text: str | Rules,
        *,
        bag: bool = False,
        keep: Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        backend: BackendName | Backend = "auto",
        threads: int | None = None,
        iterations: int | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        memory: float | str | None = None,
        schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
        inputs: Sequence[str] | None = None,
        functions: Sequence[Function] = (),
        options: ExecutionOptions | None = None,
        **execution: Unpack[ExecutionKeywords],
    ) -> None:
        all_options = ProgramOptions.from_keywords(
            bag=bag, keep=keep, outputs=outputs, backend=backend, threads=threads, iterations=iterations, limit=limit,
            timeout=timeout, memory=memory, schema=schema, inputs=inputs, functions=functions, options=options,
            **execution,
        )  # fmt: skip
        self._open(text, all_options)

    @classmethod
    def from_options(cls, text: str | Rules, options: ProgramOptions) -> Self:
        """Return a program with these options; the same as passing each by its name."""
        program = cls.__new__(cls)
        program._open(text, options)
        return program

    def _open(
        self, text: str | Rules, options: ProgramOptions, dictionaries: tuple[Dictionary, Dictionary] | None = None
    ) -> None:
        if not isinstance(text, (str, Rules)):
            raise UsageError.wrong_type(
                "the program", text, "program text or Rules", "To run a file, pass its contents."
            )
        self.rules = parse(text, functions=options.functions) if isinstance(text, str) else text
        self.options = options.for_rules(self.rules)
        self.stored_beside = {}
        schema = options.schema or {}
        required = tuple(name for name in unnamed_inputs(self.rules) if name not in schema)
        if options.inputs is not None:
            remedy = "Add '{}' to inputs=, or declare it with .decl."
            check_required(self.rules, required, options.inputs, remedy, options.functions)
            required = ()
        self.bag = options.bag
        self.inputs = self.rules.inputs
        self.heads = self.rules.heads
        self.outputs = tuple(self.options.outputs or ())
        self._tuning = get_tuning()
        lowered = desugar(self.rules)
        core, pushed = lowered, self._push_down(lowered)
        if pushed is not None:
            lowered = pushed.rules
        if "early aggregates" not in self._tuning.off:
            lowered = aggregate_early(lowered, self._complete_heads, is_single=options.single_tick)
            if not self.bag:
                lowered = group_derivations(lowered, self._complete_heads)
        if not self.bag and "projections" not in self._tuning.off:
            lowered = project_sets(lowered)
        is_rewritten = lowered is not core
        self._arity = {**core.arity, **lowered.arity}
        chosen_backend = select_backend(options.backend, options.gpu_memory)
        self.threads = options.threads or processors()
        self._share: tuple[int, int] | None = None
        self._budget = self.options.budget()
        self._measures = options.analyze
        if dictionaries is None:
            is_mapped = not options.single_tick
            dictionaries = Dictionary("string", is_mapped=is_mapped), Dictionary("binary", is_mapped=is_mapped)
        self.dictionaries = dictionaries
        written_types = declared_columns(self.rules, core, self._arity, schema, self.bag)[0] if is_rewritten else None
        types, names, self.declared, narrow = declared_columns(self.rules, lowered, self._arity, schema, self.bag)
        calls = FunctionCalls(self.dictionaries)
        self._lowering = Compiler(
            lowered, self._arity, self.options, self.dictionaries, self._execution, calls, pushed,
            core if is_rewritten else None, written_types,
        )  # fmt: skip
        router = router_of(self._lowering, chosen_backend, self.options)
        self._ledger = StateStore(self._lowering, router, chosen_backend, State(types, names), Feedback(options.replan))
        self._outgoing = Emitter(self._ledger, self._arity, lowered.heads, self.dictionaries)
        input_of = {name: f"{name}#in" if name in self.heads else name for name in self.inputs}
        self._ticking = TickRunner(
            input_of, self.heads, self._arity, self.declared, self._lowering, self._ledger, self._outgoing,
            self.dictionaries, narrow, self.rules, required, options.single_tick, self._budget,
        )  # fmt: skip

    def _push_down(self, core: Rules) -> Pushed | None:
        """Return what push-down makes of the program in core form; None if nothing."""
        if "push down" in self._tuning.off:
            return None
        options = self.options
        pushed = push_down(core, self._complete_heads, is_bag=options.bag, is_single=options.single_tick)
        return pushed if pushed.partial else None

    @property
    def _complete_heads(self) -> set[str]:
        """Heads that hold all of their rows, whatever reads them."""
        return {*(self.options.outputs or ()), *self.options.keep, *(self.options.order or ())}

    def __repr__(self) -> str:
        semantics = "bag" if self.bag else "set"
        inputs = ", ".join(self.inputs) or "constants"
        return f"Program({', '.join(self.outputs)} from {inputs}; {semantics}, {self.backend.name})"

    def step(self, changes: Mapping[str, Any]) -> dict[str, ZSet]:
        """Apply one tick's changes of the inputs and return the changes of the outputs.

        Parameters
        ----------
        changes
            Per input relation, a `ZSet` (no order: the net weight of a row decides) or anything shaped as rows: an
            Arrow table or any object with ``__arrow_c_stream__``, a dict of columns, a NumPy array, a list of tuples
            or of ``(tuple, weight)``. Rows are applied in order and the last operation on a row wins. An extra column
            ``weight`` (``_weight`` if the relation has a column of that name) holds weights: above 0 inserts, below 0
            deletes. In bag semantics weights add. Columns go by name if the table and the relation have names
            (declared, or of an earlier table), and other names are an error; else they go by position.

        Returns
        -------
        Per output, a `ZSet`: weight 1 for inserted rows, -1 for deleted rows; in bag semantics their weights.

        Raises
        ------
        UnknownRelationError
            If a name is not the name of an input; or in the first tick, if a relation that rules read is neither in
            `changes` nor declared nor in `schema` or `inputs`.
        GpuWcojError
            If anything is wrong with the changes. After any error, the state and the plan are as before.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.step({"edge": [(1, 2), (2, 3)]})["path"].rows()
        [((1, 2, 3), 1)]
        >>> program.step({"edge": [((2, 3), -1), ((2, 4), 1)]})["path"].rows()
        [((1, 2, 3), -1), ((1, 2, 4), 1)]
        """
        answers: dict[str, ZSet] = {}

        def collect_answers(rows_by_head: Mapping[str, list[PhaseRows]]) -> None:
            for name, phases in rows_by_head.items():
                answers[name] = self._outgoing.as_zset(name, phases)

        self._ticking.run_tick(changes, self.threads, frozenset(self.outputs), emit_remaining=collect_answers)
        return {name: answers[name] if name in answers else self._outgoing.empty(name) for name in self.outputs}

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, ZSet]:
        """Do the same as `step`; relations may also be keywords, as for views.

        Examples
        --------
        >>> program = Program("path(a, c) :- edge(a, b), edge(b, c).")
        >>> program.apply(edge=[(1, 2), (2, 3)])["path"].rows()
        [((1, 3), 1)]
        """
        return self.step(merge_relations(changes, more))

    def answer(self, changes: Mapping[str, Any]) -> dict[str, ZSet]:
        """Return what the first `step` would return, and keep no rows.

        With ``single_tick`` only what the answer needs is indexed.

        Raises
        ------
        UsageError
            If there has been a tick.
        GpuWcojError
            As `step` does.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.answer({"edge": [(1, 2), (2, 3)]})["path"].rows()
        [((1, 2, 3), 1)]
        >>> program.relation("edge").rows()
        []
        """
        if self._ledger.state.report.tick != -1:
            raise UsageError.wrong_state("answer()", "the first tick has run", "Create a new Program.")
        answers: dict[str, ZSet] = {}
        outputs = frozenset(self.outputs)

        def collect_answers(rows_by_head: Mapping[str, list[PhaseRows]]) -> None:
            for name in self.outputs:
                phases = rows_by_head.get(name)
                answers[name] = self._outgoing.empty(name)
                if phases is not None:
                    answers[name] = self._outgoing.as_zset(name, phases, copies=False)

        self._ledger.turns.run(
            "answering", lambda: self._ticking.answer(changes, self.threads, outputs, collect_answers)
        )
        return answers or {name: self._outgoing.empty(name) for name in self.outputs}

    def step_counts(self, changes: Mapping[str, Any]) -> dict[str, ChangeCount]:
        """Do the same as `step`, but only count: the last level of a join is never enumerated.

        Its cost is the one of `step` without the rows of the answers, and less where variables are eliminated.

        Parameters
        ----------
        changes
            As for `step`.

        Returns
        -------
        Per output, a `ChangeCount`.

        Raises
        ------
        GpuWcojError
            As `step` does.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.step_counts({"edge": [(1, 2), (2, 3), (2, 4)]})["path"].net
        2
        """
        counts = self._ticking.run_tick(changes, self.threads, frozenset())
        return {name: counts[name] if name in counts else self._no_change() for name in self.outputs}

    def step_pieces(
        self, changes: Mapping[str, Any], sink: Callable[[str, ZSet], None], *, in_order: bool = True
    ) -> dict[str, ChangeCount]:
        """Do the same as `step`, but pass the changes piece by piece to ``sink(output, piece)``.

        If an answer keeps every variable and has a single rule, pieces arrive while the join runs, so memory is
        bounded by the state and one piece a level; else they arrive when the tick's answer is consolidated. Pieces of
        one output have no row in common. If `sink` raises, the tick is undone.

        With ``in_order=False``, rows of a piece come in the order of the join, which saves sorting them. Such a piece
        is for export: operations on Z-sets need sorted rows.

        Parameters
        ----------
        changes
            As for `step`.
        sink
            Takes the name of an output and a piece of its changes.
        in_order
            False for pieces in the order of the join.

        Returns
        -------
        Per output, a `ChangeCount`.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> pieces = []
        >>> counts = program.step_pieces({"edge": [(1, 2), (2, 3)]}, lambda output, piece: pieces.append(piece.rows()))
        >>> counts["path"].net, pieces
        (1, [[((1, 2, 3), 1)]])
        """

        def hand_out(name: str, piece: Piece) -> None:
            phase = PhaseRows(piece.columns, piece.weights)
            sink(name, self._outgoing.as_zset(name, [phase], are_sorted=not in_order, copies=in_order))

        def emit_remaining(rows_by_head: Mapping[str, list[PhaseRows]]) -> None:
            for name, phases in rows_by_head.items():
                for piece in pieces_of(phases, self.options.chunk_rows or CHUNK_ROWS):
                    hand_out(name, piece)

        counts = self._ticking.run_tick(changes, self.threads, frozenset(self.outputs), hand_out, emit_remaining)
        return {name: counts.get(name, self._no_change()) for name in self.outputs}

    def load(self, changes: Mapping[str, Any]) -> None:
        """Do the same as `step`, but only update the state: changes of answers are not counted.

        Use it to start from a snapshot and follow the changes from there. Answers are still complete: `relation`
        joins them from the state.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.step({"edge": [(3, 4)]})["path"].rows(), program.count("path")
        ([((2, 3, 4), 1)], 2)
        """
        nbytes = self.nbytes
        self._ticking.run_tick(changes, self.threads, None)
        if self.nbytes >= nbytes + LOADED_BYTES:
            self.backend.return_freed()

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return isinstance(self._ledger.turns, ClosedLock)

    def close(self) -> None:
        """Free the memory of the state; the program takes no more ticks. It may be closed twice.

        Examples
        --------
        >>> with Program("path(a, c) :- edge(a, b), edge(b, c).") as program:
        ...     program.apply(edge=[(1, 2), (2, 3)])["path"].rows()
        [((1, 3), 1)]
        >>> program.is_closed, program.nbytes
        (True, 0)
        """
        if not self.is_closed:
            self._ledger.turns.run("closing", self._ledger.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def mark(self) -> Mark:
        """Return the present state for `return_to`.

        It uses no memory until ticks change the state.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> before = program.mark()
        >>> program.load({"edge": [(1, 2)]})
        >>> program.return_to(before)
        >>> program.count("edge")
        0
        """
        return self._ledger.turns.run(
            "marking the state",
            lambda: Mark(self._ledger.state, [len(dictionary) for dictionary in self.dictionaries], self._lowering),
        )

    def return_to(self, mark: Mark) -> None:
        """Undo the ticks since `mark`, so that several programs can commit together or not at all.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> mark = program.mark()
        >>> program.load({"edge": [(3, 4)]})
        >>> program.return_to(mark)
        >>> program.step({"edge": [(3, 5)]})["path"].rows()
        [((2, 3, 5), 1)]
        """

        def undo() -> None:
            if mark.lowering is not self._lowering:
                raise UsageError.wrong_state(
                    "return_to()", "the mark is of another program, or of other rules", "Mark this program."
                )
            if self._ledger.state is not mark.state:
                self._ledger.restore_state(mark.state)
                self._ticking.forget(mark.sizes)

        self._ledger.turns.run("undoing ticks", undo)

    def with_rules(self, rules: Rules, outputs: Sequence[str], functions: Sequence[Function] | None = None) -> Program:
        """Return a program of other rules that starts with the rows of the inputs that both have.

        Answers are computed from these rows; this program stays as it is. O(state).

        Parameters
        ----------
        outputs
            Heads whose changes `step` returns.
        functions
            Python functions that the rules call; by default those of this program.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> degrees = program.with_rules(parse("degree(a, count()) :- edge(a, _)."), ["degree"])
        >>> degrees.step({"edge": [(1, 4)]})["degree"].rows()
        [((1, 1), -1), ((1, 2), 1)]
        """

        def build() -> Program:
            program = Program.__new__(Program)
            options = self.options.for_other_rules(rules, outputs)
            if functions is not None:
                options = replace(options, functions=functions)
            program._open(rules, options, self.dictionaries)
            tick = self._ledger.state.report.tick
            sizes = [len(dictionary) for dictionary in self.dictionaries]
            try:
                program.load(self._input_rows(program.inputs, assumes_types=False))
            except BaseException:
                self._ticking.forget(sizes)
                raise
            ledger = program._ledger
            ledger.replace_state(ledger.state._replace(report=replace(ledger.state.report, tick=tick)))
            return program

        return self._ledger.turns.run("changing the rules", build)

    def input_rows(self, *, assumes_types: bool = True) -> dict[str, ZSet]:
        """Return the rows of inputs; inputs whose types no row has determined are left out.

        Parameters
        ----------
        assumes_types
            Whether columns of nulls that have no type yet are int64. Otherwise the rows are for another program.

        Examples
        --------
        >>> program = Program("path(a, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.input_rows()["edge"].rows()
        [((1, 2), 1), ((2, 3), 1)]
        """
        return self._ledger.turns.run("reading the inputs", lambda: self._input_rows(self.inputs, assumes_types))

    def _input_rows(self, names: Sequence[str], assumes_types: bool) -> dict[str, ZSet]:
        """Return the rows of inputs; see `input_rows`."""
        sides = self._ledger.settle()
        if sides is None:
            return {}
        types, circuit = sides.ahead.lowered.types, sides.ahead.circuit
        rows: dict[str, ZSet] = {}
        for name in names:
            relation = self._ticking.input_of.get(name)
            if relation is None:
                continue
            columns, weights = circuit.sources[relation].rows()
            if len(weights) or types.type_of(relation, 0) is not None:
                zset = self._outgoing.as_zset(relation, [PhaseRows(columns, weights)], circuit.backend)
                kinds = [types.type_of(relation, i) for i in range(len(zset.columns))]
                rows[name] = zset if assumes_types else _without_assumed(zset, kinds)
        return rows

    def outlines(self) -> dict[str, ZSet]:
        """Return the inputs and heads without rows, to compile queries of them.

        Columns whose types no row has determined have none.

        Examples
        --------
        >>> program = Program("noted(a, b) :- note(a, b), a > 0.")
        >>> program.load({"note": [(1, None)]})
        >>> [column.type.name for column in program.outlines()["note"].columns]
        ['int64', 'nulls']
        """
        lowered = self._lowered
        types = self._lowering.types_as_written(self._ledger.present.types if lowered is None else lowered.types)
        return {
            name: _without_assumed(self.empty(name), [types.assumed(name, i) for i in range(self._arity[name])])
            for name in (*self.inputs, *self.heads)
        }

    def checkpoint(self, path: str | PathLike[str], *, extra: Mapping[str, Any] | None = None) -> None:
        """Store the state in a folder for `restore`; the folder gets all of it or nothing.

        The first call writes the whole state, later calls with the same folder write the changes since. Rows of later
        ticks are lost with the process; a driver of batches uses `gpu_wcoj.checkpoint.Checkpoint`.

        Parameters
        ----------
        path
            The folder; created if it is missing.
        extra
            Values to store beside the state, as JSON.

        Raises
        ------
        CheckpointError
            If the folder holds something else, another process writes to it, or a file of it is damaged.
        CheckpointWriteError
            If it cannot be written.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> with TemporaryDirectory() as folder:
        ...     program.checkpoint(folder)
        ...     again = Program.restore(folder)
        >>> again.step({"edge": [(3, 4)]})["path"].rows()
        [((2, 3, 4), 1)]
        """
        from gpu_wcoj.checkpoint import Checkpoint

        with Checkpoint.open(path, program=self) as checkpoint:
            checkpoint.commit(0 if checkpoint.last is None else checkpoint.last.batch + 1, extra=extra)

    @classmethod
    def restore(cls, path: str | PathLike[str], **options: Any) -> Program:
        """Return the program of a checkpoint in its state after the last batch.

        Parameters
        ----------
        path
            The folder.
        options
            Options of `Program` that do not change answers: `backend`, `threads`, `route` and the like. Text, `bag`,
            `keep`, `outputs`, `schema` and `inputs` are in the checkpoint.

        Raises
        ------
        CheckpointDamagedError
            If a file is missing or is not what was written.
        CheckpointError
            If there is no checkpoint.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2)]})
        >>> with TemporaryDirectory() as folder:
        ...     program.checkpoint(folder)
        ...     again = Program.restore(folder, threads=1)
        >>> again.step({"edge": [(2, 3)]})["path"].rows()
        [((1, 2, 3), 1)]
        """
        from gpu_wcoj.checkpoint.checkpoint import restored_with_extra

        for_restore = ProgramOptions.for_restore(options)
        program, extra = restored_with_extra(path, cls.from_options, for_restore)
        program.stored_beside = extra
        if program.nbytes >= LOADED_BYTES:
            program.backend.return_freed()
        return program

    @property
    def subject(self) -> Subject:
        """The parts of the program that a checkpoint stores."""
        return Subject(self._lowering, self._ledger, self.dictionaries)

    def share_work(self, number: int, of: int) -> None:
        """Process share `number` of the `of` shares of every change, from the first tick on.

        For engines that hold the same state and get the same changes, each in its own process: the changes that their
        steps return add up to the complete change. Their `relation` and `count` of heads are incomplete.

        Raises
        ------
        UsageError
            If there has been a tick, or `number` is not below `of`.
        UnsupportedError
            If a head has state (it is kept, read by a rule, aggregates, or its derivations are counted), or a rule uses
            negation.

        Examples
        --------
        >>> text = "path(a, b, c) :- edge(a, b), edge(b, c)."
        >>> halves = [Program(text), Program(text)]
        >>> for number, half in enumerate(halves):
        ...     half.share_work(number, 2)
        >>> sum(half.step_counts({"edge": [(i, i + 1) for i in range(100)]})["path"].net for half in halves)
        99
        """
        if self._ledger.state.report.tick != -1 or self._ledger.state.sides is not None:
            raise UsageError.wrong_state("share_work()", "the first tick has run", "Create a new Program.")
        check_share(number, of)
        check_shareable(
            self.rules, self._lowering.rules, self.options.keep, () if self.bag else self._planned().counted
        )
        text, binary = self.dictionaries
        text.encode_one("")  # as code 0, which rows without a value have, too
        binary.encode_one(b"")
        self._share = number, of

    def _execution(self) -> Execution:
        def ranks(family: str) -> Int64Array:
            return self.dictionaries[0 if family == "string" else 1].rank()

        share = None
        if self._share is not None:
            text, binary = self.dictionaries
            share = Share(*self._share, self._family, {"string": text, "binary": binary})
        return Execution(
            self.backend, self.bag, self.options.chunk_rows, self.threads, ranks, share,
            dictionary=self.dictionaries[0], iterations=self.options.iterations or ITERATIONS,
            recounts=self.options.strategy == "auto", measures=self._measures, budget=self._budget,
            single_tick=self.options.single_tick and self.backend.device is None, tuning=self._tuning,
        )  # fmt: skip

    def _family(self, relation: str, column: int) -> str | None:
        """Return the dictionary family of a stored column.

        It is empty without a dictionary, and None for flags of nulls.
        """
        view = self._outgoing.evaluated or self._lowered
        assert view is not None
        return view.shapes[relation].family(column) if column < self._arity[relation] else None

    def _no_change(self) -> ChangeCount:
        return ChangeCount(None, None, 0) if self.bag else ChangeCount(0, 0, 0)


def describe_option(name: str) -> str:
    """Return the first sentence of an option's documentation, without markup.

    Examples
    --------
    >>> describe_option("threads")
    'Threads that share large ticks; by default the available processors.'
    """
    documented = ExecutionOptions if name in EXECUTION_OPTIONS else Program
    entry = re.search(rf"^{name}\n((?: +.*\n)+)", inspect.getdoc(documented) or "", re.MULTILINE)
    text = " ".join(entry[1].split()) if entry else ""
    sentence = text.partition(". ")[0].removesuffix(".") + "."
    return re.sub(r'`+"?([^`"]*)"?`+', r"\1", sentence) if text else ""

"""The worst-case optimal multi-way join: one variable at a time through all relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpu_wcoj.circuit.circuit import Circuit, CircuitState
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.circuit.recursion.plan import ranked_query
from gpu_wcoj.circuit.recursion.relation import iteration_ranges
from gpu_wcoj.circuit.source import refuse_overflow
from gpu_wcoj.data.schema import INT64
from gpu_wcoj.engine.compile import CompiledProgram, Compiler, stored_columns
from gpu_wcoj.engine.ingest import Incoming
from gpu_wcoj.engine.options import ProgramOptions, processors
from gpu_wcoj.errors import ArityError, UnknownRelationError, UnsupportedError, UsageError
from gpu_wcoj.function_calls import FunctionCalls
from gpu_wcoj.join.delta import IncrementalGenericJoin, Piece
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import Shape, normalise
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.lower import Plan, delta_query
from gpu_wcoj.planner.types import Types, names_of
from gpu_wcoj.program import as_zset
from gpu_wcoj.query.check import check
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import NULL, Constant, Rule, Rules, Variable
from gpu_wcoj.streams.device_context import Place, is_nothing
from gpu_wcoj.streams.operator import Operator, Waiting, take_due
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.zset import ZSet


def checked_rule(rule: str | Rule, relations: Sequence[str]) -> Rules:
    """Return the rule, which must have positive atoms and comparisons over these relations.

    Raises
    ------
    UnsupportedError
        If it has other parts, or is not exactly one rule.
    UnknownRelationError, UsageError
        If it reads an unknown relation, or does not read a given relation.
    """
    if isinstance(rule, str):
        rules = parse(rule)
    else:
        rules = Rules((rule,))
        check(rules)
    if len(rules.rules) != 1:
        raise UnsupportedError.mismatch(
            "a multiway join", "has the wrong number of rules", len(rules.rules), 1, "Add one node per rule."
        )
    (parsed,) = rules.rules
    terms = [term for atom in (parsed.head, *parsed.atoms) for term in atom.terms]
    terms += [side for comparison in parsed.comparisons for side in (comparison.left, comparison.right)]
    plain = all(isinstance(term, (Variable, Constant)) for term in terms)
    if parsed.negated or parsed.computed or not plain or not parsed.atoms or rules.directives:
        raise UnsupportedError(
            f"'{parsed}' has unsupported parts: expected positive atoms and comparisons only.\n"
            "  Add antijoin, map or aggregate nodes for negation, calculation and aggregates."
        )
    if any(term == NULL or (isinstance(term, Variable) and term.is_null_safe) for term in terms):
        raise UnsupportedError(
            f"'{parsed}' asks for null or joins on null, which is not supported.\n"
            "  Add filter and map nodes, or write a program."
        )
    read = {atom.relation for atom in parsed.atoms}
    if parsed.head.relation in read:
        raise UnsupportedError(f"'{parsed}' reads its own head.\n  Close the loop by a feedback in a subcircuit.")
    for name in read:
        if name not in relations:
            raise UnknownRelationError(name, relations, "streams")
    for name in relations:
        if name not in read:
            raise UsageError(f"the stream '{name}' is unused: '{parsed}' does not read it.\n  Leave it out.")
    return rules


@dataclass(eq=False)
class _TimedHead(Head):
    """The head of a rule whose relations have their iteration as a last column.

    A row of the head has the latest iteration of the rows that it is derived from, as its last column.

    Attributes
    ----------
    now
        The present iteration; no row has an earlier one.
    """

    now: int = 0

    def _pieces(self) -> Iterator[Piece]:
        xp, n = self.execution.backend.xp, self.width - 1
        for piece in super()._pieces():
            times = xp.maximum(piece.columns[n], self.now)
            for ranks in piece.columns[n + 1 :]:
                times = xp.maximum(times, ranks)
            yield replace(piece, columns=[*piece.columns[:n], times])

    def _exact_change(self, join: IncrementalGenericJoin) -> Iterator[tuple[tuple[int, ...], int]]:
        n = self.width - 1
        for row, weight in super()._exact_change(join):
            yield (*row[:n], max(self.now, *row[n:])), weight


@dataclass(frozen=True, eq=False)
class _RuleCompiler(Compiler):
    """The compiler of one rule over streams.

    Attributes
    ----------
    timed
        Whether rows have their iteration as an additional last column.
    """

    timed: bool = False

    @staticmethod
    def of_rule(rules: Rules, place: Place, timed: bool) -> _RuleCompiler:
        """Return the compiler; texts are encoded in the dictionaries of the place."""
        dictionaries = place.string, place.binary

        def ranks(family: str) -> Int64Array:
            return dictionaries[family != "string"].rank()

        def execution() -> Execution:
            return Execution(place.backend, True, threads=processors(), host_ranks=ranks)

        options, calls = ProgramOptions(bag=True), FunctionCalls(dictionaries)
        return _RuleCompiler(rules, rules.arity, options, dictionaries, execution, calls, timed=timed)

    def plan(self, types: Types, shapes: Mapping[str, Shape], *_: object) -> Plan:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the plan of the rule; without queries if a comparison of constants is false."""
        (rule,) = self.rules.rules
        body = normalise(rule, shapes, {}, self.constant_codes(types))
        queries = [] if body.never else [delta_query(body)]
        if self.timed:
            widths = {atom.relation: shapes[atom.relation].width for atom in rule.atoms}
            queries = [ranked_query(query, widths) for query in queries]
        return Plan(shapes, (rule.head.relation,), {rule.head.relation: tuple(queries)}, {}, frozenset())

    def circuit(self, planned: Plan, execution: Execution) -> Circuit:
        """Return the circuit of the plan, with an empty state."""
        (rule,), (name,) = self.rules.rules, planned.order
        keys = [key for query in planned.queries[name] for key in query.keys]
        sources = {
            atom.relation: RelationIndex(
                atom.relation,
                planned.shapes[atom.relation].width + self.timed,
                [key for key in keys if key.relation == atom.relation],
                execution.backend,
            )
            for atom in rule.atoms
        }
        arrangements = {key: sources[key.relation].arrangements[key] for key in keys}
        joins = [IncrementalGenericJoin(query, arrangements, execution) for query in planned.queries[name]]
        kind = _TimedHead if self.timed else Head
        head = kind(name, planned.shapes[name].width + self.timed, joins, None, None, execution)
        return Circuit(sources, {name: head}, execution, frozenset())

    def _catalog(self, *_: object) -> Catalog:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return no statistics: the plan needs none."""
        return Catalog.from_sizes({})


@dataclass(frozen=True, eq=False)
class _State:
    """State between calls.

    Attributes
    ----------
    compiled
        The rule, compiled for the seen types and nulls; None before any.
    circuit
        The rows of the relations.
    later
        Pending results of later iterations.
    settled
        Whether no relation changed.
    """

    compiled: CompiledProgram | None = None
    circuit: CircuitState | None = None
    later: Waiting = field(default_factory=dict)
    settled: bool = True


class Multiway(Operator):
    """``out(h) = sum over bindings with head h of the product of atom weights``.

    Linear in each atom.

    Incrementally, it uses the delta rule: one path per atom, seeded by its change, with the preceding atoms after the
    change and the following atoms before it. In a subcircuit every relation has its iteration as an additional last
    column, and a result belongs to the latest iteration of its rows.

    The work on a change is within the worst-case optimal bound, times a logarithm.

    References
    ----------
    Ngo, Porat, Ré, Rudra, "Worst-case optimal join algorithms", 2018, doi:10.1145/3180143.
    """

    state: _State

    def __init__(self, rule: str | Rule, relations: Sequence[str], incremental: bool) -> None:
        self.rules = checked_rule(rule, relations)
        self.relations, self.incremental = tuple(relations), incremental

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"multiway {self.rules.rules[0]}"

    @cached_property
    def _compiler(self) -> _RuleCompiler:
        return _RuleCompiler.of_rule(self.rules, self.place, self.incremental and self.scope.depth > 0)

    @cached_property
    def _types(self) -> Types:
        """The types of columns before any rows."""
        types = Types(self.rules)
        types.equate_zeros()  # streams have no -0.0
        return types

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The names of the result's columns."""
        return tuple(names_of(self.rules)[self.rules.rules[0].head.relation])

    def clock_start(self, scope: int) -> None:
        """Start without rows on the outermost clock.

        At each tick of a subcircuit, clear pending results.
        """
        if scope == self.scope.depth:
            self.state = _State()
        elif scope == 0:
            self.state = replace(self.state, later={}, settled=True)

    def evaluate(self, *values: ZSet) -> ZSet:
        """Return the join of these values, or its change."""
        changes = {
            name: Incoming(rows.names, rows.columns, rows.stored_weights, False)
            for name, rows in zip(self.relations, values, strict=True)
            if not is_nothing(rows)
        }
        state = self._fitted(changes)
        now = self.time.iteration if self._compiler.timed else 0
        circuit, has_change = state.circuit, any(map(len, values))
        results: Sequence[tuple[int, ZSet]] = ()
        if has_change:
            circuit, results = self._join_change(state, changes, now)
        out, later = take_due(self.place, state.later, results, now)
        settled = not (has_change and self.incremental)
        self.state = _State(state.compiled, circuit if self.incremental else state.circuit, later, settled)
        return out

    def _fitted(self, changes: Mapping[str, Incoming]) -> _State:
        """Return the state, compiled for the types and nulls of these rows."""
        state = self.state
        for name, rows in changes.items():
            if len(rows.columns) != self._compiler.arity[name]:
                raise ArityError.mismatch(
                    f"the stream of relation '{name}'",
                    "has the wrong number of columns",
                    f"{len(rows.columns)} ({', '.join(rows.names)})",
                    f"{self._compiler.arity[name]} as in '{self.rules.rules[0]}'",
                )
        present, types = state.compiled, self._types
        if not changes or (present is not None and self._compiler.serves(present, changes)):
            return state
        if present is not None:
            assert state.circuit is not None
            present.circuit.install(state.circuit)
            types = present.types
        compiled = self._compiler.compile_for(changes, present, types, {})
        return replace(state, compiled=compiled, circuit=compiled.circuit.snapshot())

    def _join_change(
        self, state: _State, changes: Mapping[str, Incoming], now: int
    ) -> tuple[CircuitState, Sequence[tuple[int, ZSet]]]:
        """Return the relations after the change, and the join's change by iteration."""
        compiled = state.compiled
        assert compiled is not None
        assert state.circuit is not None
        circuit = compiled.circuit
        circuit.install(state.circuit)
        try:
            for name, index in circuit.sources.items():
                rows = self._stored(compiled, name, changes.get(name), now)
                if len(rows):
                    refuse_overflow(name, rows.columns, rows.weight_column(self.place.xp), index, self.place.backend)
                index.receive_delta([rows])
            (head,) = circuit.heads.values()
            assert isinstance(head, Head)
            if isinstance(head, _TimedHead):
                head.now = now
            circuit.execution.begin()
            head.begin()
            results = self._results(compiled, *head.derivation_changes(), now)
            return circuit.prepare(), results
        finally:
            circuit.discard()

    def _stored(self, compiled: CompiledProgram, name: str, rows: Incoming | None, now: int) -> PhaseRows:
        """Return rows of a stream as sorted stored columns."""
        place, timed = self.place, self._compiler.timed
        if rows is None or not len(rows):
            nothing: Int64Array = place.xp.empty(0, np.int64)
            return PhaseRows([nothing] * (compiled.shapes[name].width + timed), 1)
        stored = [place.backend.asarray(column) for column in stored_columns(name, rows, compiled).columns]
        weights = rows.weights
        kinds = [compiled.kinds[name, column] or INT64 for column in range(len(rows.columns))]
        keep_order = (
            c.stored_valid is None and c.type.family == kind.family for c, kind in zip(rows.columns, kinds, strict=True)
        )
        if not all(keep_order):
            order = place.backend.kernels.lexsort(stored)
            stored, weights = [column[order] for column in stored], weights[order]
        if timed:
            stored.append(place.xp.full(len(rows), now, np.int64))
        return PhaseRows(stored, weights)

    def _results(
        self, compiled: CompiledProgram, stored: Sequence[Int64Array], weights: Int64Array, now: int
    ) -> list[tuple[int, ZSet]]:
        """Return consolidated head rows as Z-sets by iteration.

        If timed, their last column is the iteration.
        """
        if not len(weights):
            return []
        if not self._compiler.timed:
            return [(now, self._result(compiled, stored, weights))]
        order = self.place.backend.kernels.lexsort([stored[-1]])
        stored, weights = [column[order] for column in stored], weights[order]
        return [
            (iteration, self._result(compiled, [column[begin:end] for column in stored[:-1]], weights[begin:end]))
            for iteration, begin, end in iteration_ranges(stored[-1], self.place.backend)
        ]

    def _result(self, compiled: CompiledProgram, stored: Sequence[Int64Array], weights: Int64Array) -> ZSet:
        name = self.rules.rules[0].head.relation
        kinds = [compiled.kinds[name, column] or INT64 for column in range(len(self._names))]
        rows = [PhaseRows(stored, weights, is_owned=True)]
        return as_zset(self._names, kinds, compiled.shapes[name], rows, compiled.dictionaries, self.place.backend)

    @property
    def settled(self) -> bool:
        """True if no relation changed and nothing is pending."""
        return self.state.settled and not self.state.later

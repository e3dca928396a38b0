"""The worst-case optimal multi-way join: one variable at a time through all relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpu_wcoj.circuit.head import Head
from gpu_wcoj.circuit.recursion.plan import ranked_query
from gpu_wcoj.circuit.source import refuse_overflow
from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.engine.options import processors
from gpu_wcoj.errors import ArityError, UnknownRelationError, UnsupportedError, UsageError
from gpu_wcoj.join.delta import IncrementalGenericJoin, Piece
from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import Shape, normalise
from gpu_wcoj.planner.lower import delta_query
from gpu_wcoj.planner.types import Types, names_of
from gpu_wcoj.query.check import check
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import NULL, Constant, Rule, Rules, Variable
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.operator import Operator, Waiting, take_due
from gpu_wcoj.streams.trace import is_null
from gpu_wcoj.trace.arrangement import ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.zset import ZSet

# A rule over streams, planned for the seen types and nulls, with its row conversions.


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


@dataclass(frozen=True, eq=False)
class PlannedRule:
    """A rule planned for known types and nulls.

    Attributes
    ----------
    types
        The known types of columns.
    shapes
        Per relation, its stored columns: the data columns, then a null flag for each nullable column.
    timed
        Whether rows have their iteration as an additional last column.
    """

    rules: Rules
    place: Place
    timed: bool
    types: Types
    shapes: Mapping[str, Shape]

    @staticmethod
    def unplanned(rules: Rules, place: Place, timed: bool) -> PlannedRule:
        """Return the rule before any row has been seen."""
        (rule,) = rules.rules
        shapes = {atom.relation: Shape(atom.relation, (False,) * len(atom.terms)) for atom in (*rule.atoms, rule.head)}
        return PlannedRule(rules, place, timed, Types(rules), shapes)

    def planned_for(self, rows_by_name: Mapping[str, ZSet]) -> PlannedRule:
        """Return the rule planned for these rows too: `self` if nothing changes."""
        (rule,) = self.rules.rules
        fits = True
        for name, rows in rows_by_name.items():
            if not rows.columns:
                continue
            arity = len(self.shapes[name].nullable)
            if len(rows.columns) != arity:
                raise ArityError.mismatch(
                    f"the stream of relation '{name}'",
                    "has the wrong number of columns",
                    f"{len(rows.columns)} ({', '.join(rows.names)})",
                    f"{arity} as in '{rule}'",
                )
            for position, column in enumerate(rows.columns):
                is_same_type = column.type == self.types.type_of(name, position)
                fits &= is_same_type and (column.stored_valid is None or self.shapes[name].nullable[position])
        return self if fits else self._planned_for(rows_by_name)

    def _planned_for(self, rows_by_name: Mapping[str, ZSet]) -> PlannedRule:
        (rule,) = self.rules.rules
        types = self.types.copy()
        nullable = {name: list(shape.nullable) for name, shape in self.shapes.items()}
        for name, rows in rows_by_name.items():
            if rows.columns:
                types.bind(name, [column.type for column in rows.columns], rows.names)
                flags = [column.stored_valid is not None for column in rows.columns]
                nullable[name] = [a or b for a, b in zip(nullable[name], flags, strict=True)]
        for position, term in enumerate(rule.head.terms):
            for atom in rule.atoms:
                if any(body_term == term and nullable[atom.relation][i] for i, body_term in enumerate(atom.terms)):
                    nullable[rule.head.relation][position] = True
        shapes = {
            name: Shape(
                name, tuple(flags), tuple(_family(types.type_of(name, position)) for position in range(len(flags)))
            )
            for name, flags in nullable.items()
        }
        same = shapes == self.shapes and all(
            types.type_of(name, position) == self.types.type_of(name, position)
            for name in shapes
            for position in range(len(nullable[name]))
        )
        return self if same else PlannedRule(self.rules, self.place, self.timed, types, shapes)

    @cached_property
    def query(self) -> DeltaQuery | None:
        """The plan; None if a comparison of constants is false."""
        body = normalise(self.rules.rules[0], self.shapes, {}, self._encoded)
        if body.never:
            return None
        query = delta_query(body)
        if not self.timed:
            return query
        return ranked_query(query, {atom.relation: self.shapes[atom.relation].width for atom in body.atoms})

    def _encoded(self, relation: str, column: int, value: object) -> int:
        """Return the code of a constant of the rule."""
        kind = self.types.type_of(relation, column)
        if isinstance(value, int) and not isinstance(value, bool) and (kind is None or kind.family == "integer"):
            return value
        kind = kind or DataType("string" if isinstance(value, str) else "double")
        if kind.dictionary == "string":
            return self.place.string.encode_one(str(value))
        from gpu_wcoj.arrow import constant_entry, encode_constant

        if kind.has_dictionary:
            return self.place.binary.encode_one(constant_entry(value, kind))

        return encode_constant(
            0.0 if isinstance(value, float) and value == 0.0 else value, kind
        )  # streams have no -0.0

    @cached_property
    def indices(self) -> Mapping[str, RelationIndex]:
        """Per relation, an index with the arrangements of the plan and one with all rows."""
        keys = self.query.keys if self.query is not None else ()
        return {
            name: RelationIndex(
                name, self.width(name), [key for key in keys if key.relation == name], self.place.backend
            )
            for name in {atom.relation: None for atom in self.rules.rules[0].atoms}
        }

    def width(self, name: str) -> int:
        """Return the number of stored columns of a relation, including the iteration."""
        return self.shapes[name].width + self.timed

    def kind(self, name: str, column: int) -> DataType:
        """Return the type of a column."""
        return self.types.type_of(name, column) or INT64

    def stored(self, name: str, rows: ZSet, now: int) -> PhaseRows:
        """Return rows of a stream as sorted stored columns."""
        place, shape = self.place, self.shapes[name]
        n_rows = len(rows)
        if not n_rows:
            return PhaseRows([place.xp.empty(0, np.int64) for _ in range(self.width(name))], 1)
        columns = [place.converted(column, self.kind(name, position)) for position, column in enumerate(rows.columns)]
        stored = [column.stored for column in columns]
        stored += [is_null(column, place) for position, column in enumerate(columns) if shape.nullable[position]]
        weights = rows.stored_weights
        if any(column.stored_valid is not None for column in columns):
            order = place.backend.kernels.lexsort(stored)
            stored, weights = [column[order] for column in stored], weights[order]
        if self.timed:
            stored.append(place.xp.full(n_rows, now, np.int64))
        return PhaseRows([place.xp.ascontiguousarray(column) for column in stored], weights)

    def migrate_rows(
        self, name: str, rows: tuple[list[Int64Array], Int64Array], before: PlannedRule
    ) -> tuple[list[Int64Array], Int64Array]:
        """Convert stored rows of another plan to this plan."""
        place, old, new = self.place, before.shapes[name], self.shapes[name]
        stored, weights = rows
        made: list[Int64Array] = []
        flags: list[Int64Array] = []
        for position in range(len(new.nullable)):
            column = Column(
                before.kind(name, position), stored[position], None, place.dictionary(self.kind(name, position))
            )
            is_known = before.types.type_of(name, position) is not None
            made.append(place.converted(column, self.kind(name, position)).stored if is_known else stored[position])
            if new.nullable[position]:
                flag = old.flag(position)
                flags.append(place.xp.zeros(len(weights), np.int64) if flag is None else stored[flag])
        made += flags
        if self.timed:
            made.append(stored[-1])
        order = place.backend.kernels.lexsort(made)
        return [column[order] for column in made], weights[order]

    # Results

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(names_of(self.rules)[self.rules.rules[0].head.relation])

    def results(self, stored: Sequence[Int64Array], weights: Int64Array, now: int) -> list[tuple[int, ZSet]]:
        """Return consolidated head rows as Z-sets by iteration.

        If timed, their last column is the iteration.
        """
        if not len(weights):
            return []
        if not self.timed:
            return [(now, self._result(stored, weights))]
        times = self.place.backend.to_host(stored[-1])
        made = []
        for iteration in np.unique(times).tolist():
            rows = self.place.backend.asarray(np.flatnonzero(times == iteration))
            made.append((iteration, self._result([column[rows] for column in stored[:-1]], weights[rows])))
        return made

    def _result(self, stored: Sequence[Int64Array], weights: Int64Array) -> ZSet:
        head = self.rules.rules[0].head
        place, shape = self.place, self.shapes[head.relation]
        columns = []
        for position in range(len(head.terms)):
            flag, kind = shape.flag(position), self.kind(head.relation, position)
            valid = None if flag is None else stored[flag] == 0
            if valid is not None and bool(valid.all()):
                valid = None
            columns.append(Column(kind, stored[position], valid, place.dictionary(kind)))
        make = place.made if any(column.stored_valid is not None for column in columns) else place.trusted
        return make(self._names, columns, weights)


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


def _family(kind: DataType | None) -> str:
    return "" if kind is None else kind.dictionary


_Spines = Mapping[str, Mapping[ArrangementKey, Spine]]


@dataclass(frozen=True, eq=False)
class _State:
    """State between calls.

    Attributes
    ----------
    ruled
        The rule, planned for the seen types and nulls.
    spines
        Per relation, the spine of each arrangement; empty if there are no rows.
    later
        Pending results of later iterations.
    settled
        Whether no relation changed.
    """

    ruled: PlannedRule
    spines: _Spines = field(default_factory=dict)
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
        self._head: tuple[PlannedRule, Head] | None = None

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"multiway {self.rules.rules[0]}"

    def clock_start(self, scope: int) -> None:
        """Start without rows on the outermost clock.

        At each tick of a subcircuit, clear pending results.
        """
        if scope == self.scope.depth:
            self.state = _State(
                PlannedRule.unplanned(self.rules, self.place, self.incremental and self.scope.depth > 0)
            )
        elif scope == 0:
            self.state = replace(self.state, later={}, settled=True)

    def evaluate(self, *values: ZSet) -> ZSet:
        """Return the join of these values, or its change."""
        rows_by_name = dict(zip(self.relations, values, strict=True))
        state = self._fitted(rows_by_name)
        now = self.time.iteration if state.ruled.timed else 0
        spines, has_change = state.spines, any(map(len, values))
        results: Sequence[tuple[int, ZSet]] = ()
        if has_change:
            spines, results = self._join_change(state, rows_by_name, now)
        out, later = take_due(self.place, state.later, results, now)
        settled = not (has_change and self.incremental)
        self.state = _State(state.ruled, spines if self.incremental else {}, later, settled)
        return out

    def _fitted(self, rows_by_name: Mapping[str, ZSet]) -> _State:
        """Return the state in a plan for the types and nulls of these rows."""
        state = self.state
        ruled = state.ruled.planned_for(rows_by_name)
        if ruled is state.ruled:
            return state
        spines = {}
        for name, index in ruled.indices.items():
            old = state.ruled.indices[name]
            spines_before = state.spines.get(name)
            if spines_before:
                old.commit(spines_before)
                index.load(*ruled.migrate_rows(name, old.rows(), state.ruled))
                spines[name] = index.spines()
        return replace(state, ruled=ruled, spines=spines)

    def _join_change(
        self, state: _State, rows_by_name: Mapping[str, ZSet], now: int
    ) -> tuple[_Spines, Sequence[tuple[int, ZSet]]]:
        """Return the relations after the change, and the join's change by iteration."""
        ruled, place = state.ruled, self.place
        for name, index in ruled.indices.items():
            for key, arrangement in index.arrangements.items():
                arrangement.spine = state.spines[name][key] if name in state.spines else Spine()
            rows = ruled.stored(name, rows_by_name[name], now)
            if len(rows):
                refuse_overflow(name, rows.columns, rows.weight_column(place.xp), index, place.backend)
            index.receive_delta([rows])
        try:
            results = self._change(ruled, now)
            spines = {name: index.committed() for name, index in ruled.indices.items()}
        finally:
            for index in ruled.indices.values():
                index.discard()
        return spines, results

    def _change(self, ruled: PlannedRule, now: int) -> Sequence[tuple[int, ZSet]]:
        """Return the change of the join by iteration."""
        if ruled.query is None:
            return []
        if self._head is None or self._head[0] is not ruled:
            self._head = ruled, self._head_of(ruled)
        head = self._head[1]
        if isinstance(head, _TimedHead):
            head.now = now
        head.execution.begin()
        head.begin()
        return ruled.results(*head.derivation_changes(), now)

    def _head_of(self, ruled: PlannedRule) -> Head:
        place = self.place

        def ranks(family: str) -> Int64Array:
            return (place.string if family == "string" else place.binary).rank()

        assert ruled.query is not None
        arrangements = {key: ruled.indices[key.relation].arrangements[key] for key in ruled.query.keys}
        execution = Execution(place.backend, True, threads=processors(), host_ranks=ranks)
        join = IncrementalGenericJoin(ruled.query, arrangements, execution)
        name = ruled.rules.rules[0].head.relation
        kind = _TimedHead if ruled.timed else Head
        return kind(name, ruled.shapes[name].width + ruled.timed, [join], None, None, execution)

    @property
    def settled(self) -> bool:
        """True if no relation changed and nothing is pending."""
        return self.state.settled and not self.state.later

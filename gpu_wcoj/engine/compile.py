"""Compilation of a program for the types and nulls seen so far.

A program is planned again, and its state moved, when new types or nulls arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.circuit import Circuit, InputChange
from gpu_wcoj.circuit.head import AuxiliaryHead, Head, as_recomputation
from gpu_wcoj.data.column import Column, Dictionary, dictionary_of, without_zero_signs
from gpu_wcoj.data.schema import INT64, MAX_DIGITS, NO_TYPE, DataType
from gpu_wcoj.engine.ingest import Incoming
from gpu_wcoj.engine.options import ProgramOptions, state_is_shared
from gpu_wcoj.errors import SchemaError, TypeMismatchError
from gpu_wcoj.function_calls import FunctionCalls
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import Encode, Kinds, Shape, null_columns, resolver
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.ir import EMPTY_CATALOG, Auxiliary
from gpu_wcoj.planner.lower import Plan, along_single_paths, lower, make_setting, plan, with_loads
from gpu_wcoj.planner.types import Types, type_of_constant, type_of_constants
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.push_down import Pushed
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.zset.arrays import is_host


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """A program compiled for the types and nulls that it has seen.

    Attributes
    ----------
    types
        The columns' types as far as they are known.
    shapes
        Per relation, its stored columns.
    dictionaries
        The dictionaries of text and of bytes.
    chosen
        The reason for a plan that differs from the first one, as text for people; else empty.
    """

    types: Types
    shapes: Mapping[str, Shape]
    plan: Plan
    circuit: Circuit
    dictionaries: tuple[Dictionary, Dictionary]
    chosen: str = ""

    @cached_property
    def plain_relations(self) -> frozenset[str]:
        """Relations whose columns are all int64 and have had no null."""
        return frozenset(
            name
            for name, shape in self.shapes.items()
            if not any(shape.nullable) and all(self.kinds[name, i] == INT64 for i in range(len(shape.nullable)))
        )

    @cached_property
    def kinds(self) -> Mapping[tuple[str, int], DataType | None]:
        """The type of every column."""
        return self.types.snapshot()

    @cached_property
    def assumed_types(self) -> Mapping[str, Sequence[DataType]]:
        """The types of each relation's columns; int64 where nothing is known."""
        return {
            name: [self.types.assumed(name, column) or INT64 for column in range(len(shape.nullable))]
            for name, shape in self.shapes.items()
        }


@dataclass(frozen=True, eq=False)
class Compiler:
    """The compiler of a program; independent of the rows that it has seen.

    Attributes
    ----------
    arity
        Number of columns of each relation.
    dictionaries
        The dictionaries of text and of bytes.
    options
        The options of the program, with its outputs.
    execution
        Creates the settings of a circuit's joins.
    calls
        The Python functions of the program.
    pushed
        Heads that lack rows by push-down, and sentences about it; None if it has changed nothing.
    written
        The program in core form before push-down and projection; None if these have changed nothing.
    written_types
        The types of that program before any rows.
    """

    rules: Rules
    arity: Mapping[str, int]
    options: ProgramOptions
    dictionaries: tuple[Dictionary, Dictionary]
    execution: Callable[[], Execution]
    calls: FunctionCalls
    pushed: Pushed | None = None
    written: Rules | None = None
    written_types: Types | None = None

    @property
    def core(self) -> Rules:
        """The program in core form, before push-down and projection."""
        return self.rules if self.written is None else self.written

    @cached_property
    def untyped(self) -> frozenset[tuple[str, int]]:
        """Columns of the facts in the text that hold nothing but null."""
        columns = (
            (fact.relation, position, values)
            for fact in self.rules.facts
            for position, values in enumerate(zip(*fact.rows, strict=True))
        )
        return frozenset((name, position) for name, position, values in columns if set(values) == {None})

    def compile_for(
        self,
        incoming: Mapping[str, Incoming],
        present: CompiledProgram | None,
        types_before: Types,
        declared: Mapping[str, tuple[str, ...]],
        keeps: bool = True,
    ) -> CompiledProgram:
        """Return the program compiled for these rows' types and nulls.

        That is the present one if it covers them, else a new one beside it.

        `keeps` allows auxiliary relations.
        """
        if present is not None and self.serves(present, incoming):
            return present
        types = types_before.copy()
        self._bind(types, incoming, declared, self.untyped)
        nullable = {
            name: tuple(column.stored_valid is not None for column in rows.columns) for name, rows in incoming.items()
        }
        shapes = self.shapes(present, nullable, types)
        if present is not None and shapes == present.shapes and types.snapshot() == present.types.snapshot():
            return replace(present, types=types)
        auxiliaries = () if present is None else present.plan.auxiliaries
        catalog = self._catalog(incoming, present, types, shapes)
        execution = self.execution()
        loads = present is None and execution.loads
        planned = self.plan(types, shapes, catalog, auxiliaries if keeps else None, loads)
        execution.single_tick &= not planned.loops
        if execution.single_tick:
            planned = along_single_paths(planned, catalog)
        circuit = self.circuit(planned, execution)
        lowered = CompiledProgram(types, shapes, planned, circuit, self.dictionaries)
        if present is not None:
            migrate_state(present, lowered, lambda name, rows: self._migrate(name, rows, present, lowered))
        return lowered

    def compile_as(
        self, types: Types, nullable: Mapping[str, tuple[bool, ...]], sizes: Mapping[str, int]
    ) -> CompiledProgram:
        """Return the program compiled for known types and nulls, with an empty state.

        `sizes` are the numbers of rows of relations.
        """
        shapes = self.shapes(None, nullable, types)
        planned = self.plan(types, shapes, Catalog.from_sizes(sizes))
        circuit = self.circuit(planned, self.execution())
        return CompiledProgram(types, shapes, planned, circuit, self.dictionaries)

    def _bind(
        self,
        types: Types,
        incoming: Mapping[str, Incoming],
        declared: Mapping[str, tuple[str, ...]],
        untyped: frozenset[tuple[str, int]],
    ) -> None:
        """Add the types of inputs, except of `untyped` columns; errors name the rules of the text.

        A column of nulls only has the type that calculations ask of it, or none yet.
        """
        bound: list[tuple[str, list[DataType | None], list[str]]] = []
        for name, rows in incoming.items():
            if not rows.names:
                continue
            kinds = [
                None if (name, i) in untyped
                else types.used_as(name, i) if column.type.name == NO_TYPE
                else column.type
                for i, column in enumerate(rows.columns)
            ]  # fmt: skip
            names = [f"{i} ('{column}')" for i, column in enumerate(declared.get(name, rows.names))]
            bound.append((name, kinds, names))
        before = None if self.written is None else types.copy()
        try:
            types.bind_all(bound)
        except TypeMismatchError:
            if before is not None:
                self.types_as_written(before).bind_all(bound)
            raise

    def types_as_written(self, types: Types) -> Types:
        """Return the known types, of the program without push-down."""
        if self.written is None or self.written_types is None:
            return types.copy()
        arity, whole = self.written.arity, self.written_types.copy()
        if not types.tells_zeros_apart:
            whole.equate_zeros()
        whole.bind_again(bound for bound in types.bound_types() if bound[0] in arity)
        return whole

    def compile_in_full(self, present: CompiledProgram, circuit: Circuit) -> CompiledProgram:
        """Return the program without push-down, its heads computed from present inputs."""
        types = self.types_as_written(present.types)
        whole = replace(self, rules=self.core, written=None, pushed=None, written_types=None)
        nullable = {name: present.shapes[name].nullable for name in circuit.sources}
        compiled = whole.compile_as(types, nullable, {name: len(index) for name, index in circuit.sources.items()})
        names = [name for name in compiled.circuit.sources if name in circuit.sources]
        rows = {name: whole._migrate(name, circuit.sources[name].rows(), present, compiled) for name in names}
        fill(compiled.circuit, rows)
        return compiled

    def serves(self, present: CompiledProgram, incoming: Mapping[str, Incoming]) -> bool:
        """Return True if the compiled program covers all types and nulls of these rows."""
        return all(self._is_covered(name, rows, present) for name, rows in incoming.items())

    def _is_covered(self, name: str, rows: Incoming, present: CompiledProgram) -> bool:
        shape = present.shapes[name]
        for column, values in enumerate(rows.columns):
            if values.stored_valid is not None and not shape.nullable[column]:
                return False
            if rows.names and values.type != present.kinds[name, column]:
                return False
        return True

    def shapes(
        self, present: CompiledProgram | None, nullable: Mapping[str, tuple[bool, ...]], types: Types
    ) -> dict[str, Shape]:
        """Return the stored columns of all relations.

        Nullable are inputs that have had a null, and heads that may get one.
        """
        nullable_columns: dict[str, tuple[bool, ...]] = {}
        for name, arity in self.arity.items():
            before = present.shapes[name].nullable if present else (False,) * arity
            now = nullable.get(name, (False,) * arity)
            nullable_columns[name] = tuple(a or b for a, b in zip(before, now, strict=True))
        extreme_columns = {
            extreme.relation: extreme.column for extreme in self.rules.extremes
        }  # rows without a value are not there
        resolved = [(rule, resolver(rule)) for rule in self.rules.rules]
        changed = True
        while changed:
            changed = False
            for grouping in self.rules.groupings:
                keys = [
                    a or b
                    for a, b in zip(
                        nullable_columns[grouping.source][: grouping.keys],
                        nullable_columns[grouping.relation],
                        strict=False,
                    )
                ]
                changed |= keys != list(nullable_columns[grouping.relation][: grouping.keys])
                nullable_columns[grouping.relation] = (*keys, *nullable_columns[grouping.relation][grouping.keys :])
            for first in self.rules.first_rows:
                changed |= nullable_columns[first.relation] != nullable_columns[first.source]
                nullable_columns[first.relation] = nullable_columns[first.source]
            for groups in self.rules.computed_groups:
                passed = nullable_columns[groups.source][: groups.n_passed]
                flags = (*passed, *[True] * len(groups.returns))
                changed |= nullable_columns[groups.relation] != flags
                nullable_columns[groups.relation] = flags
            for asking, demand in self.rules.demands.items():
                changed |= nullable_columns[demand] != nullable_columns[asking]
                nullable_columns[demand] = nullable_columns[asking]
            for rule, resolve in resolved:
                name = rule.head.relation
                null_positions = (
                    [] if resolve is None else null_columns(rule, resolve, nullable_columns, extreme_columns.get(name))
                )
                head = tuple(
                    is_known or column in null_positions for column, is_known in enumerate(nullable_columns[name])
                )
                changed |= head != nullable_columns[name]
                nullable_columns[name] = head
        shapes = {}
        for name, flags in nullable_columns.items():
            kinds = [types.assumed(name, column) for column in range(len(flags))]
            textual = tuple("" if kind is None else kind.dictionary for kind in kinds)
            shapes[name] = Shape(name, flags, textual)
        return shapes

    def plan(
        self,
        types: Types,
        shapes: Mapping[str, Shape],
        catalog: Catalog | None,
        auxiliaries: Collection[Auxiliary] | None = None,
        loads: bool = False,
    ) -> Plan:
        """Plan all rules on stored columns, with the statistics of relations if there are any.

        Parameters
        ----------
        auxiliaries
            The present auxiliary relations; None to allow none. Engines that share the work on every change have none.
        loads
            Whether costly loads have a plan of their own.
        """
        execution = self.execution()
        if execution.share is not None:
            auxiliaries = None
        kinds = Kinds(
            types.kinds,
            self._encode_constant,
            types.type_of,
            types.signed_results,
            self.calls.bind,
            self.calls.bind_groups,
        )
        setting = make_setting(
            self.rules, shapes, self.constant_codes(types), self.options.bag, kinds,
            EMPTY_CATALOG if catalog is None else catalog, self.options.strategy, self.options.order or {},
            auxiliaries, execution,
        )  # fmt: skip
        planned = plan(self.rules, setting)
        return with_loads(planned, self.rules, setting) if loads else planned

    def circuit(self, planned: Plan, execution: Execution) -> Circuit:
        """Return the circuit of a plan, with an empty state.

        Raises
        ------
        UnsupportedError
            If the work is shared, and a head counts derivations: it may do so only once nulls are there.
        """
        if execution.share is not None and not execution.weighted and planned.counted:
            raise state_is_shared(min(planned.counted))
        options = self.options
        return lower(planned, self.rules, options.keep, options.outputs or (), execution, options.merge_policy)

    def _catalog(
        self,
        incoming: Mapping[str, Incoming],
        present: CompiledProgram | None,
        types: Types,
        shapes: Mapping[str, Shape],
    ) -> Catalog:
        """Return the statistics before these rows: of the state, or of the rows if there is none."""
        if present is not None:
            return Catalog.of_circuit(present.circuit, {name: shape.width for name, shape in shapes.items()})
        backend = self.execution().backend
        rows = incoming if backend.device is not None else {name: change.fetched() for name, change in incoming.items()}
        kinds = types.snapshot()
        return Catalog.of_rows(
            {
                name: _to_stored(name, change, shapes[name], kinds, types, backend, self.dictionaries)
                for name, change in rows.items()
            },
            backend,
        )

    def facts(self, incoming: Mapping[str, Incoming], types_before: Types) -> dict[str, Incoming]:
        """Return the facts of the text in the column types that the first tick's rows show."""
        types = types_before.copy()
        self._bind(types, incoming, {}, frozenset())
        facts = {}
        for fact in self.rules.facts:
            columns = [
                self._fact_column(types.type_of(fact.relation, i), v)
                for i, v in enumerate(zip(*fact.rows, strict=True))
            ]
            names = tuple(f"c{i}" for i in range(len(columns)))
            if columns:
                facts[fact.relation] = Incoming(names, tuple(columns), None, False)
        return facts

    def _fact_column(self, kind: DataType | None, values: Sequence[object]) -> Column:
        valid = np.array([value is not None for value in values], np.bool_)
        present_values = [value for value in values if value is not None]
        natural = type_of_constants(present_values or [0])
        if kind is None:
            kind = natural
        elif not present_values:
            pass
        elif kind.family == "integer" and natural.family == "integer":
            smallest, largest = kind.code_range
            if not all(isinstance(value, int) and smallest <= value <= largest for value in present_values):
                kind = natural
        codes = np.array([0 if value is None else self._encode_constant(kind, value) for value in values], np.int64)
        is_valid = None if len(present_values) == len(values) else valid
        return Column(kind, codes, is_valid, dictionary_of(kind, self.dictionaries))

    def constant_codes(self, types: Types) -> Encode:
        """Return the function from (relation, column, constant) to the code in the column's type."""
        return lambda relation, column, value: self._encode_constant(
            types.assumed(relation, column), value, keeps=types.keeps_zero_signs(relation, column)
        )

    def _encode_constant(self, kind: DataType | None, value: object, op: str = "", /, keeps: bool = True) -> int:
        """Return the code of a constant.

        The sign of a zero is dropped if the constant is compared, or if nothing `keeps` it.
        """
        code = self._natural_code(kind, value, op)
        return 0 if isinstance(value, float) and value == 0.0 and (op or not keeps) else code

    def _natural_code(self, kind: DataType | None, value: object, op: str) -> int:
        if kind is None or kind.family == "integer":
            if isinstance(value, int):
                return int(value)
            kind = kind or type_of_constant(value)
        if kind.dictionary == "string":
            return self.dictionaries[0].encode_one(str(value))
        from gpu_wcoj.arrow import constant_entry, encode_constant

        if kind.has_dictionary:
            return self.dictionaries[1].encode_one(constant_entry(value, kind))
        return encode_constant(value, kind, op)

    def _migrate(self, name: str, rows: Rows, old: CompiledProgram, new: CompiledProgram) -> Rows:
        """Return rows of a relation in its new stored columns; columns behind those stay."""
        backend = new.circuit.backend
        columns, weights = [backend.asarray(column) for column in rows[0]], backend.asarray(rows[1])
        before, after = old.shapes[name], new.shapes[name]
        moved: list[Int64Array] = []
        flags: list[Int64Array] = []
        for column in range(len(after.nullable)):
            was, now = old.types.assumed(name, column), new.types.type_of(name, column)
            if was is None or now is None or was == now:
                moved.append(columns[column])
            elif was.converts_to(now):
                moved.append(_rescale(columns[column], was.factor_to(now), name, column, now))
            else:  # the column held only constants and nulls so far
                codes = backend.to_host(columns[column])
                mask = before.flag(column)
                has_value = slice(None) if mask is None else backend.to_host(columns[mask]) == 0
                recoded = np.zeros(len(codes), np.int64)
                recoded[has_value] = self._recode(codes[has_value], was, now, new.types.keeps_zero_signs(name, column))
                moved.append(backend.asarray(recoded))
            if after.nullable[column]:
                flag = before.flag(column)
                flags.append(backend.xp.zeros(len(weights), np.int64) if flag is None else columns[flag])
        return [*moved, *flags, *columns[before.width :]], weights

    def _recode(self, codes: Int64Array, was: DataType, now: DataType, keeps: bool) -> Int64Array:
        """Return the codes of a text's constants of one type as codes of another type."""
        from gpu_wcoj.arrow.write import to_python

        distinct, positions = np.unique(codes, return_inverse=True)
        if now.family == "wide" and was.family in ("integer", "decimal"):
            return (
                Column(was, codes, None, dictionary_of(was, self.dictionaries)).as_type(now, self.dictionaries[1]).codes
            )
        values = to_python(Column(was, distinct, None, dictionary_of(was, self.dictionaries)))
        recoded: Int64Array = np.array([self._encode_constant(now, value, keeps=keeps) for value in values], np.int64)[
            positions
        ]
        return recoded


def stored_columns(name: str, rows: Incoming, lowered: CompiledProgram) -> InputChange:
    """Return the rows as stored columns: codes in the common type, then flags of nulls.

    They stay in the memory where they live.
    """
    return _to_stored(
        name, rows, lowered.shapes[name], lowered.kinds, lowered.types, lowered.circuit.backend, lowered.dictionaries
    )


def _to_stored(
    name: str,
    rows: Incoming,
    shape: Shape,
    kinds: Mapping[tuple[str, int], DataType | None],
    types: Types,
    backend: Backend,
    dictionaries: tuple[Dictionary, Dictionary],
) -> InputChange:
    codes: list[Int64Array] = []
    flags: list[Int64Array] = []
    is_distinct = True
    for column, column_values in enumerate(rows.columns):
        kind = kinds[name, column]
        if kind is not None and kind.family == "wide" and column_values.type.family not in ("wide", NO_TYPE):
            on_host = Column(column_values.type, column_values.codes, column_values.valid)
            widened = on_host.as_type(kind, dictionaries[1])
            column_values = Column(kind, backend.asarray(widened.codes), column_values.stored_valid, dictionaries[1])
        factor = 1 if kind is None or column_values.type == kind else column_values.type.factor_to(kind)
        scaled = _rescale(column_values.stored, factor, name, column, kind)
        if column_values.type.family in ("float32", "float64") and not types.keeps_zero_signs(name, column):
            unsigned = without_zero_signs(scaled, np if is_host(scaled) else backend.xp)
            is_distinct &= unsigned is scaled
            scaled = unsigned
        is_constant = is_host(scaled) and scaled.strides == (0,)  # of a column that nothing reads
        codes.append(np.ascontiguousarray(scaled) if is_host(scaled) and not is_constant else scaled)
        if shape.nullable[column]:
            flags.append(_flags(column_values))
    return InputChange([*codes, *flags], rows.weights, rows.is_ordered, is_distinct)


def _flags(column: Column) -> Int64Array:
    if column.stored_valid is None:
        return np.zeros(len(column), np.int64)
    flags: Int64Array = (~column.stored_valid).astype(np.int64)
    return flags


def _rescale(codes: Int64Array, factor: int, relation: str, column: int, kind: DataType | None) -> Int64Array:
    """Return codes in the finer unit of a type.

    A value that leaves int64, or a decimal its digits, is an error.
    """
    if factor == 1 or len(codes) == 0:
        return codes
    limit = (10**MAX_DIGITS - 1 if kind is not None and kind.family == "decimal" else (1 << 63) - 1) // factor
    largest, smallest = int(codes.max()), int(codes.min())
    if largest > limit or smallest < -limit:
        beyond = largest if largest > limit else smallest
        raise SchemaError.with_parts(
            f"relation '{relation}', column {column}: the value {beyond} does not fit the finer unit it joins with "
            f"(times {factor})",
            subject=f"relation '{relation}', column {column}",
            got=beyond,
            remedy="Cast both columns to the coarser unit first.",
        )
    return codes * factor


# Migration of a program's state to another compiled program.
#
# Its columns may have other units or more flags of nulls.
#
# Rules that test for null derive nothing before there is a null, and the planner leaves them out. So the new program
# may store state that the old one did not need: rows of heads that only such rules read, derivations of heads that had
# one rule, heads that have become recursive. Constants of the text may also turn out to be of another type than their
# spelling suggests: then their order changes, and so do comparisons.


Rows = tuple[Sequence[Int64Array], Int64Array]
Moved = Callable[[str, Rows], Rows]
"""(relation, its rows in the old columns) to its rows in the new ones."""

_Atom = tuple[str, frozenset[tuple[int, str]], frozenset[object]]


def migrate_state(old: CompiledProgram, new: CompiledProgram, migrate: Moved) -> None:
    """Load the state of `old` into `new`, which has none.

    Raises
    ------
    AuxiliaryError
        If an auxiliary relation of `new` is not worth keeping.
    """
    inputs = {name: migrate(name, old.circuit.sources[name].rows()) for name in new.circuit.sources}
    if _reads_otherwise(new, old) or not _has_heads_of(new, old):
        fill(new.circuit, inputs)
        return
    for name, rows in inputs.items():
        new.circuit.sources[name].load(*rows)
    for name, head in new.circuit.heads.items():
        if isinstance(head, AuxiliaryHead):
            head.fill()
            continue
        before = old.circuit.heads[name]
        head.weight_bound = before.weight_bound
        if head.relation is not None:
            rows = old.circuit.rows(name) if before.relation is None else before.relation.rows()
            if len(rows[1]):
                head.relation.load(*migrate(head.relation.name, rows))
        if head.derivations is None:
            continue
        if isinstance(head, Head) and not _has_rules_of(name, new, old):
            head.execution.begin()
            rows = as_recomputation(head).derivation_changes()
        elif before.derivations is None:  # each row had a single derivation
            rows = migrate(name, old.circuit.rows(name))
        else:
            rows = migrate(head.derivations.name, before.derivations.rows())
        if len(rows[1]):
            head.derivations.load(*rows)


def fill(circuit: Circuit, inputs: Mapping[str, Rows]) -> None:
    """Load the rows of inputs into an empty circuit, and compute its heads."""
    circuit.evaluate({name: InputChange(columns, weights, False) for name, (columns, weights) in inputs.items()}, None)
    circuit.install(circuit.prepare())


def _reads_otherwise(new: CompiledProgram, old: CompiledProgram) -> bool:
    """Return True if a column of constants only turns out to be of another family of types."""
    for name, shape in new.shapes.items():
        for column in range(len(shape.nullable)):
            was, now = old.types.assumed(name, column), new.types.type_of(name, column)
            if was is not None and now is not None and not was.converts_to(now):
                return True
    return False


def _has_heads_of(new: CompiledProgram, old: CompiledProgram) -> bool:
    """Return True if heads store their state in the same way in both programs."""
    loops = [{frozenset(loop.widths) for loop in compiled.plan.loops} for compiled in (new, old)]
    heads = [
        compiled.circuit.heads.keys() - {auxiliary.name for auxiliary in compiled.plan.auxiliaries}
        for compiled in (new, old)
    ]
    if loops[0] != loops[1] or heads[0] != heads[1]:
        return False
    if _units(new) != _units(old):
        return False
    return all(_has_rules_of(name, new, old) for loop in new.plan.loops for name in loop.widths)


def _units(lowered: CompiledProgram) -> dict[str, int]:
    """Return the scales of the sums that heads keep."""
    return {name: grouping.scale for name, grouping in lowered.plan.groupings.items() if grouping.has_totals}


def _has_rules_of(name: str, new: CompiledProgram, old: CompiledProgram) -> bool:
    """Return True if a head has all its former rules with equal derivations, nulls aside."""
    return not _bodies(name, old) - _bodies(name, new)


def _bodies(name: str, lowered: CompiledProgram) -> Counter[tuple[str, frozenset[tuple[_Atom, int]]]]:
    """Return the atoms of a head's rules, without flags of nulls."""
    bodies: Counter[tuple[str, frozenset[tuple[_Atom, int]]]] = Counter()
    for query in lowered.plan.queries.get(name, ()):
        seeds = [path.seed for path in query.paths if not path.is_negated]
        atoms = Counter(_atom(seed.key, seed.variables, lowered) for seed in seeds)
        bodies[query.rule, frozenset(atoms.items())] += 1
    return bodies


def _atom(key: ArrangementKey, variables: Sequence[str], lowered: CompiledProgram) -> _Atom:
    arity = len(lowered.shapes[key.relation].nullable)
    bound = frozenset((column, name) for column, name in zip(key.order, variables, strict=True) if column < arity)
    conditions = [("=", column, code) for column, code in key.constants if column < arity]
    conditions += [("equal", left, right) for left, right in key.equal if left < arity]
    return key.relation, bound, frozenset([*conditions, *key.compared])

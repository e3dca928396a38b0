"""A rule over streams, planned for the seen types and nulls, with its row conversions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpu_wcoj.circuit.recursion.plan import ranked_query
from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.errors import (
    ArityError,
    UnknownRelationError,
    UnsupportedError,
    UsageError,
    WeightOverflowError,
)
from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import Shape, normalise
from gpu_wcoj.planner.single import delta_query
from gpu_wcoj.planner.types import Types, names_of
from gpu_wcoj.query.ir import NULL, Constant, Variable
from gpu_wcoj.query.rules import Rule, Rules
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.later import split_by_iteration
from gpu_wcoj.streams.layout import is_null
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
    from gpu_wcoj.query.check import check
    from gpu_wcoj.query.datalog import parse

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
        if kind.has_dictionary:
            return self.place.string.encode_one(str(value))
        from gpu_wcoj.arrow import encode_constant

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

    def result(self, stored: Sequence[Int64Array], weights: Int64Array, now: int) -> Sequence[tuple[int, ZSet]]:
        """Return head rows with their weights as Z-sets, by iteration."""
        head = self.rules.rules[0].head
        place, shape = self.place, self.shapes[head.relation]
        columns = []
        for position in range(len(head.terms)):
            flag, kind = shape.flag(position), self.kind(head.relation, position)
            valid = None if flag is None else stored[flag] == 0
            if valid is not None and bool(valid.all()):
                valid = None
            columns.append(Column(kind, stored[position], valid, place.dictionary(kind)))
        if not self.timed:
            return [(now, place.made(self._names, columns, weights))]
        times = stored[shape.width]
        for rank in stored[shape.width + 1 :]:
            times = place.xp.maximum(times, rank)
        return split_by_iteration(
            place, self._names, columns, (weights, place.xp.ones(len(weights), np.int64)), times, now
        )

    def exact(self, rows: Mapping[tuple[int, ...], int], now: int) -> Sequence[tuple[int, ZSet]]:
        """Return `result` for exact weights, which are checked row by row.

        Raises
        ------
        WeightOverflowError
            If the weight of a row at its iteration leaves int64.
        """
        head = self.rules.rules[0].head
        width = self.shapes[head.relation].width
        total: dict[tuple[int, ...], int] = {}
        for row, weight in rows.items():
            key = (*row[:width], *((max(now, *row[width:]),) if self.timed else ()))
            total[key] = total.get(key, 0) + weight
        for row, weight in total.items():
            if not -(1 << 63) <= weight < 1 << 63:
                raise WeightOverflowError(head.relation, row[:width], weight)
        live = {row: weight for row, weight in total.items() if weight}
        if not live:
            return []
        asarray = self.place.backend.asarray
        stored = [asarray(np.array(column, np.int64)) for column in zip(*live, strict=True)]
        return self.result(stored, asarray(np.array(list(live.values()), np.int64)), now)


def _family(kind: DataType | None) -> str:
    return kind.family if kind is not None and kind.has_dictionary else ""

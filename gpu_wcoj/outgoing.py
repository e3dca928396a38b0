"""Conversion of stored columns to Z-sets with the relation's types and names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import Backend, select_backend
from gpu_wcoj.data.column import Column
from gpu_wcoj.data.rows import Row
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.engine.compile import CompiledProgram
from gpu_wcoj.engine.state import StateStore
from gpu_wcoj.errors import AggregateOverflowError, NegativeWeightError, WeightOverflowError
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.algebra import python_values
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary


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
        names = self.ledger.state.names.get(relation)
        return names[column] if names is not None and relation not in self.heads else str(column)

    def values_of(self, relation: str, column: int, codes: Sequence[int]) -> list[Any]:
        """Return the values of codes of a column."""
        kind = self._kinds_of(relation)[column]
        stored = Column(kind, np.array(codes, np.int64), None, _dictionary_of(kind, self.dictionaries))
        return python_values(stored)

    def empty(self, name: str) -> ZSet:
        """Return a relation without rows."""
        return no_rows(self._names_of(name), self._kinds_of(name), self.dictionaries)

    def as_zset(
        self, name: str, phases: Sequence[PhaseRows], backend: Backend | None = None, are_sorted: bool = True
    ) -> ZSet:
        """Return distinct rows of a relation as a Z-set; see `as_zset`.

        They live where the tick ran.
        """
        view = self.evaluated or self.ledger.lowered
        assert view is not None
        names, kinds, shape = self._names_of(name), self._kinds_of(name), view.shapes[name]
        return as_zset(names, kinds, shape, phases, self.dictionaries, backend or view.circuit.backend, are_sorted)

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
        from gpu_wcoj.query.told import describe_aggregate, describe_place, served_relation  # few programs need it

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
            return AggregateOverflowError(error.op, name, group, error.value, place)
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
        return self.ledger.state.names.get(name) or tuple(f"c{i}" for i in range(self.arity[name]))

    def _kinds_of(self, name: str) -> list[DataType]:
        view = self.evaluated or self.ledger.lowered
        types = self.ledger.state.types if view is None else view.types
        return [types.assumed(name, column) or INT64 for column in range(self.arity[name])]


def pieces_of(phases: Sequence[PhaseRows], n_rows: int) -> Iterator[Piece]:
    """Yield the rows cut into pieces of at most `n_rows`."""
    for phase in phases:
        for begin in range(0, len(phase), n_rows):
            cut = slice(begin, begin + n_rows)
            weights = phase.weights if isinstance(phase.weights, int) else phase.weights[cut]
            yield Piece([column[cut] for column in phase.columns], weights)


def as_zset(
    names: tuple[str, ...],
    kinds: Sequence[DataType],
    shape: Shape,
    phases: Sequence[PhaseRows],
    dictionaries: tuple[Dictionary, Dictionary],
    backend: Backend,
    are_sorted: bool = True,
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
    """
    filled = [phase for phase in phases if len(phase)] or list(phases[:1])
    arity, n_stored, xp = len(kinds), len(filled[0].columns), backend.xp
    stored = [xp.concatenate([phase.columns[i] for phase in filled]) for i in range(n_stored)]
    signs = (phase.weights for phase in filled)
    weights = xp.concatenate(
        [
            xp.full(len(phase), sign, np.int64) if isinstance(sign, int) else sign
            for phase, sign in zip(filled, signs, strict=True)
        ]
    )
    columns = []
    for column, kind in enumerate(kinds):
        flag = shape.flag(column) if n_stored > arity else None
        valid = None if flag is None or not bool(stored[flag].any()) else stored[flag] == 0
        columns.append(Column(kind, stored[column], valid, _dictionary_of(kind, dictionaries)))
    place = None if backend.device is None else backend
    if are_sorted and len(filled) == 1 and n_stored == arity:
        return ZSet(names, tuple(columns), weights, backend=place)
    return ZSet.from_columns(names, columns, weights, backend=place)


def no_rows(names: tuple[str, ...], kinds: Sequence[DataType], dictionaries: tuple[Dictionary, Dictionary]) -> ZSet:
    """Return the Z-set of these columns without rows."""
    nothing = np.empty(0, np.int64)
    columns = tuple(Column(kind, nothing, None, _dictionary_of(kind, dictionaries)) for kind in kinds)
    return ZSet(names, columns, nothing)


def _dictionary_of(kind: DataType, dictionaries: tuple[Dictionary, Dictionary]) -> Dictionary | None:
    if not kind.has_dictionary:
        return None
    return dictionaries[0 if kind.family == "string" else 1]
